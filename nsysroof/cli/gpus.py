"""``nsysroof gpus``: the catalogue of GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from nsysroof.cli.options import OutputOptions, grouped
from nsysroof.cli.output import choose_destination
from nsysroof.report.views import Card, Listing

if TYPE_CHECKING:
    from nsysroof.theory.gpus import Gpu

_PEAKS = {"bw": "B/s", "bf16": "FLOP/s", "fp16": "FLOP/s", "fp8": "FLOP/s", "fp4": "FLOP/s"}


@grouped
def gpus(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME|FILE]", help="One GPU with every peak.")
    ] = None,
    *,
    output: OutputOptions,
) -> None:
    """List the GPUs, or show one with the source of each peak."""
    destination = choose_destination(output)

    from nsysroof.theory.gpus import find_gpu, gpu_keys

    if name is None:
        rows = [_row(find_gpu(key)) for key in gpu_keys()]
        columns, units = tuple(rows[0]), {"memory_bytes": "B", **_PEAKS}
        destination.write(Listing(title="GPUs", columns=columns, rows=rows, units=units))
    else:
        destination.write(_card(find_gpu(name)))


def _row(gpu: Gpu) -> dict[str, Any]:
    peaks = gpu.dense_peaks()
    return {
        "key": gpu.key,
        "name": gpu.name,
        "sm_count": gpu.sm_count,
        "memory_bytes": gpu.memory_bytes,
        **{key: peaks[key].value if key in peaks else None for key in _PEAKS},
    }


def _card(gpu: Gpu) -> Card:
    fields: dict[str, Any] = msgspec.to_builtins(gpu)
    return Card(title=gpu.name, fields=fields)
