"""``nsysroof models``: the catalogue of models."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from nsysroof.cli.options import OutputOptions, grouped
from nsysroof.cli.output import choose_destination
from nsysroof.report.views import Card, Listing

if TYPE_CHECKING:
    from nsysroof.theory.models.layers import Layer
    from nsysroof.theory.models.spec import ModelSpec


@grouped
def models(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME|FILE]", help="One model, by name or by its config.json."),
    ] = None,
    *,
    output: OutputOptions,
) -> None:
    """List the models, or show one as it was read, layer by layer."""
    destination = choose_destination(output)

    from nsysroof.theory.models.spec import find_model, model_keys

    if name is None:
        rows = [_row(key, find_model(key)) for key in model_keys()]
        columns = ("name", "model_type", "layers", "hidden", "vocab", "moe", "dtype", "weights")
        destination.write(Listing(title="Models", columns=columns, rows=rows))
    else:
        destination.write(_card(find_model(name)))


def _row(key: str, model: ModelSpec) -> dict[str, Any]:
    return {
        "name": key,
        "model_type": model.model_type,
        "layers": len(model.layers),
        "hidden": model.hidden,
        "vocab": model.vocab,
        "moe": model.is_moe,
        "dtype": model.dtype,
        "weights": _weights(model),
    }


def _weights(model: ModelSpec) -> str:
    quantised = model.quantisation.weights
    return model.dtype if quantised is None else quantised.name


def _card(model: ModelSpec) -> Card:
    fields: dict[str, Any] = {
        "name": model.name,
        "model_type": model.model_type,
        "hidden": model.hidden,
        "vocab": model.vocab,
        "tied": model.tied,
        "dtype": model.dtype,
        "weights": _weights(model),
        "unquantised": list(model.quantisation.excluded),
        "kv": model.quantisation.kv or model.dtype,
        "notes": list(model.notes),
        "layers": _layers(model.layers),
    }
    return Card(title=model.name, fields=fields)


def _layers(layers: tuple[Layer, ...]) -> list[dict[str, Any]]:
    """Return runs of equal layers."""
    runs = []
    for layer, group in groupby(enumerate(layers), key=lambda numbered: numbered[1]):
        numbers = [number for number, _ in group]
        runs.append(
            {
                "first": numbers[0],
                "last": numbers[-1],
                "mixer": _part(layer.mixer),
                "ffn": _part(layer.ffn),
            }
        )
    return runs


def _part(part: Any) -> dict[str, Any] | None:
    """Return a part of a layer as its type and the fields that say something."""
    if part is None:
        return None
    fields: dict[str, Any] = msgspec.to_builtins(part)
    told = {key: value for key, value in fields.items() if value not in (None, False, 0, "none")}
    return {"type": type(part).__name__, **told}
