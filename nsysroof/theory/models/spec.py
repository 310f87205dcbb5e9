"""A model as the theory sees it, read from a Hugging Face ``config.json`` or the catalogue."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from nsysroof.errors import InputError, UsageError
from nsysroof.theory.models.families import read_family
from nsysroof.theory.models.layers import Attention, LatentAttention, Layer, Moe
from nsysroof.theory.models.quantization import Quantisation, read_quantisation
from nsysroof.theory.nearest import did_you_mean

DTYPES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "bf16": "bf16",
    "fp16": "fp16",
    "fp32": "fp32",
}

TUNINGS = r"-(instruct|chat|base|it|hf|thinking)(-\d+)?$"
"""Ends of names that change what a model says, not its shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A decoder: its layers in order and everything around them.

    Attributes:
        name: As the catalogue or the file names it.
        model_type: The configuration's ``model_type``.
        hidden: Width of the residual stream.
        vocab: Rows of the embedding and of the LM head.
        layers: The layers in order; equal ones compare equal.
        tied: The LM head is the embedding table.
        dtype: Dtype of unquantised weights and of activations: bf16, fp16 or fp32.
        quantisation: Formats of the linear layers.
        layer_norm: Layer norms instead of RMS norms.
        positions: Rows of a learned position table, 0 without one.
        notes: What was assumed where the configuration is silent.
    """

    name: str
    model_type: str
    hidden: int
    vocab: int
    layers: tuple[Layer, ...]
    tied: bool
    dtype: str
    quantisation: Quantisation
    layer_norm: bool = False
    positions: int = 0
    notes: tuple[str, ...] = ()

    @property
    def is_moe(self) -> bool:
        """Whether any layer routes to experts."""
        return any(isinstance(layer.ffn, Moe) for layer in self.layers)

    def attention_layers(self) -> Iterator[Attention | LatentAttention]:
        """Iterate over the mixers that keep a KV cache, in order."""
        for layer in self.layers:
            if isinstance(layer.mixer, Attention | LatentAttention):
                yield layer.mixer

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any],
        *,
        name: str = "config.json",
        hf_quant: Mapping[str, Any] | None = None,
    ) -> ModelSpec:
        """Return the model of a parsed ``config.json``.

        Args:
            config: The parsed file; a nested ``text_config`` is used where there is one.
            name: What to call the model.
            hf_quant: The parsed ``hf_quant_config.json`` beside it, if any.

        Raises:
            UsageError: A model type that is not known, or a field that is missing or unusable.

        >>> ModelSpec.from_config({
        ...     "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
        ...     "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
        ...     "intermediate_size": 14336, "torch_dtype": "bfloat16"}).layers[0].mixer.head_dim
        128
        """
        text = _text_section(config)
        family = read_family(text)
        quantisation = read_quantisation({**config, **text}, hf_quant)
        dtype, notes = _dtype(text, config)
        return cls(
            name=name,
            model_type=str(text["model_type"]),
            hidden=family.hidden,
            vocab=family.vocab,
            layers=family.layers,
            tied=family.tied,
            dtype=dtype,
            layer_norm=family.layer_norm,
            positions=family.positions,
            quantisation=quantisation,
            notes=(*notes, *family.notes),
        )


def _text_section(config: Mapping[str, Any]) -> Mapping[str, Any]:
    for key in ("text_config", "llm_config", "language_config"):
        if isinstance(config.get(key), Mapping):
            inner = dict(config[key])
            if "tie_word_embeddings" in config:
                inner.setdefault("tie_word_embeddings", config["tie_word_embeddings"])
            inner.setdefault("model_type", config.get("model_type"))
            return inner
    return config


def _dtype(text: Mapping[str, Any], outer: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    for section in (text, outer):
        for field in ("dtype", "torch_dtype"):
            if section.get(field):
                value = str(section[field]).removeprefix("torch.")
                if value not in DTYPES:
                    raise UsageError(
                        f"cannot read {field} = {value!r}",
                        hint=f"known are: {', '.join(DTYPES)}",
                        slug="unsupported-model",
                        where=field,
                    )
                return DTYPES[value], ()
    return "bf16", ("the configuration has no dtype: bf16 is assumed",)


@cache
def model_keys() -> tuple[str, ...]:
    """Return the keys of the catalogue, sorted."""
    folder = files("nsysroof").joinpath("data/models")
    return tuple(sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".toml")))


def find_model(name_or_path: str) -> ModelSpec:
    """Return the model of a catalogue key, of a ``config.json`` or of the folder that holds one.

    An organisation before the name is ignored, and so is a tuning after it:
    ``Qwen/Qwen3-30B-A3B-Instruct-2507`` is ``qwen3-30b-a3b``.

    Raises:
        UsageError: No such key, or a configuration of an unknown kind.
        InputError: The file cannot be read.

    >>> find_model("Qwen/Qwen3-30B-A3B").name
    'qwen3-30b-a3b'
    """
    path = Path(name_or_path)
    if path.suffix == ".json" or path.is_dir():
        return _from_file(path / "config.json" if path.is_dir() else path)
    key = name_or_path.rsplit("/", 1)[-1].lower()
    for candidate in (key, re.sub(TUNINGS, "", key)):
        if candidate in model_keys():
            return _catalogued(candidate)
    near = did_you_mean(key, model_keys(), otherwise="`nsysroof models` lists them")
    raise UsageError(
        f"unknown model {name_or_path!r}",
        hint=f"{near}; or give the path of its config.json",
        slug="unknown-model-name",
        where="--model",
    )


@cache
def _catalogued(key: str) -> ModelSpec:
    text = files("nsysroof").joinpath("data/models", f"{key}.toml").read_text(encoding="utf-8")
    entry = tomllib.loads(text)
    model = ModelSpec.from_config(entry["config"], name=key)
    return replace(model, notes=(*model.notes, entry["note"])) if "note" in entry else model


def _from_file(path: Path) -> ModelSpec:
    beside = path.parent / "hf_quant_config.json"
    return ModelSpec.from_config(
        _json(path),
        name=str(path),
        hf_quant=_json(beside) if beside.is_file() else None,
    )


def _json(path: Path) -> Mapping[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(
            f"cannot read the model's configuration: {error}",
            hint="give the path of a Hugging Face config.json, or a key of `nsysroof models`",
            slug="bad-model-file",
            where=str(path),
        ) from error
    if not isinstance(config, dict):
        raise InputError(
            "the model's configuration is not a JSON object",
            hint="give the path of a Hugging Face config.json",
            slug="bad-model-file",
            where=str(path),
        )
    return config
