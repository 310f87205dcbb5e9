"""How a checkpoint is quantised: the format of its linear layers and the modules left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import lru_cache
from typing import Any

from nsysroof.errors import UsageError
from nsysroof.theory.dtypes import WeightFormat, weight_format

HEAD = "lm_head"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantisation:
    """What a configuration says about formats.

    Attributes:
        weights: Format of the covered linear layers, or None where nothing is quantised.
        activations: Input format of the covered layers; None: what the weight format takes.
        weight_only: Inputs stay at the model's dtype.
        kv: Format of the KV cache, or None where it is the model's dtype.
        excluded: Patterns of modules that keep the model's dtype.
        head: Whether the LM head is covered.
    """

    weights: WeightFormat | None = None
    activations: str | None = None
    weight_only: bool = False
    kv: str | None = None
    excluded: tuple[str, ...] = ()
    head: bool = False

    def covers(self, module: str) -> bool:
        """Return whether a module is quantised, or would be by an engine's option.

        >>> gpt_oss = Quantisation(excluded=("model.layers.*.self_attn", "lm_head"))
        >>> [gpt_oss.covers(m) for m in (
        ...     "model.layers.3.self_attn.q_proj", "model.layers.3.mlp.experts.0.up_proj")]
        [False, True]
        """
        return not _is_excluded(self.excluded, module)


@lru_cache(maxsize=65536)
def _is_excluded(patterns: tuple[str, ...], module: str) -> bool:
    return any(_matches(pattern, module) for pattern in patterns)


def _matches(pattern: str, module: str) -> bool:
    if pattern.startswith("re:"):
        return re.match(pattern[3:], module) is not None
    # What stands before the layers differs between wrappers: model., backbone., language_model.
    pattern = re.sub(r"^[\w.]*?\blayers\.", "model.layers.", pattern)
    if "*" in pattern:
        return fnmatch(module, pattern) or fnmatch(module, f"{pattern}.*")
    return f".{pattern}." in f".{module}."


def read_quantisation(
    config: Mapping[str, Any], hf_quant: Mapping[str, Any] | None = None
) -> Quantisation:
    """Return what ``quantization_config`` says, or a separate ``hf_quant_config.json``.

    Raises:
        UsageError: A method or a combination that is not known, naming the field and value.

    >>> read_quantisation({"quantization_config": {"quant_method": "mxfp4"}}).weights.name
    'mxfp4'
    """
    section = config.get("quantization_config")
    if hf_quant is not None:
        return _modelopt({**hf_quant.get("quantization", {}), "quant_method": "modelopt"})
    if not section:
        return Quantisation()
    method = str(section.get("quant_method", ""))
    readers = {
        "fp8": _fp8,
        "fbgemm_fp8": _fbgemm,
        "mxfp4": _mxfp4,
        "gptq": _gptq,
        "awq": _awq,
        "compressed-tensors": _compressed_tensors,
        "bitsandbytes": _bitsandbytes,
        "modelopt": _modelopt,
        "modelopt_fp4": _modelopt,
    }
    if method not in readers:
        raise _unknown("quantization_config.quant_method", method, readers)
    return readers[method](section)


def _unknown(field: str, value: object, known: object) -> UsageError:
    names = ", ".join(sorted(str(name) for name in known)) if hasattr(known, "__iter__") else known
    return UsageError(
        f"cannot read {field} = {value!r}",
        hint=f"known are: {names}; or take the section out and give --weights",
        slug="unsupported-model",
        where=field,
    )


def _skipped(section: Mapping[str, Any], *keys: str) -> tuple[str, ...]:
    return tuple(str(name) for key in keys for name in section.get(key) or ())


def _fp8(section: Mapping[str, Any]) -> Quantisation:
    block = section.get("weight_block_size")
    if block not in (None, [128, 128]):
        raise _unknown("quantization_config.weight_block_size", block, ["[128, 128]"])
    return Quantisation(
        weights=weight_format("fp8-block" if block else "fp8"),
        excluded=_skipped(section, "modules_to_not_convert", "ignored_layers"),
    )


def _fbgemm(section: Mapping[str, Any]) -> Quantisation:
    return Quantisation(
        weights=weight_format("fp8-channel"), excluded=_skipped(section, "modules_to_not_convert")
    )


def _mxfp4(section: Mapping[str, Any]) -> Quantisation:
    return Quantisation(
        weights=weight_format("mxfp4"), excluded=_skipped(section, "modules_to_not_convert")
    )


def _gptq(section: Mapping[str, Any]) -> Quantisation:
    _four_bits(section)
    weights = weight_format("gptq").grouped(int(section.get("group_size", 128)))
    if section.get("sym") is False:
        weights = weights.with_zeros(4)
    if section.get("desc_act"):
        weights = weights.reordered()
    return Quantisation(
        weights=weights,
        excluded=_skipped(section, "modules_to_not_convert"),
        head=bool(section.get("lm_head", False)),
    )


def _awq(section: Mapping[str, Any]) -> Quantisation:
    _four_bits(section)
    return Quantisation(
        weights=weight_format("awq").grouped(int(section.get("group_size", 128))),
        excluded=_skipped(section, "modules_to_not_convert"),
    )


def _four_bits(section: Mapping[str, Any]) -> None:
    bits = section.get("bits", section.get("w_bit", 4))
    if bits != 4:
        raise _unknown("quantization_config.bits", bits, ["4"])


def _bitsandbytes(section: Mapping[str, Any]) -> Quantisation:
    kind = section.get("bnb_4bit_quant_type", "fp4")
    if not section.get("load_in_4bit") or kind != "nf4":
        raise _unknown("quantization_config.bnb_4bit_quant_type", kind, ["nf4 in 4 bits"])
    return Quantisation(
        weights=weight_format("nf4"),
        excluded=_skipped(section, "llm_int8_skip_modules"),
    )


def _compressed_tensors(section: Mapping[str, Any]) -> Quantisation:
    groups: Mapping[str, Mapping[str, Any]] = section.get("config_groups") or {}
    group = next(iter(groups.values()), {})
    if any(other.get("weights") != group.get("weights") for other in groups.values()):
        raise _unknown("quantization_config.config_groups", sorted(groups), ["one format for all"])
    weights = group.get("weights") or {}
    inputs = group.get("input_activations")
    cache = section.get("kv_cache_scheme") or {}
    ignored = _skipped(section, "ignore")
    return Quantisation(
        weights=_compressed_weights(weights),
        activations=None if inputs is None else _compressed_inputs(inputs),
        weight_only=inputs is None,
        kv="fp8" if cache.get("num_bits") == 8 else None,
        excluded=ignored,
        head=HEAD not in ignored,
    )


def _compressed_weights(weights: Mapping[str, Any]) -> WeightFormat:
    bits, kind = weights.get("num_bits"), weights.get("type")
    strategy, group = weights.get("strategy"), weights.get("group_size")
    match (bits, kind, strategy):
        case (8, "float", "block"):
            return weight_format("fp8-block")
        case (8, "float", "tensor"):
            return weight_format("fp8")
        case (8, "float", _):
            return weight_format("fp8-channel")
        case (8, "int", _):
            base = weight_format("int8")
            return base if weights.get("symmetric", True) else base.with_zeros(32)
        case (4, "float", _):
            return weight_format("nvfp4" if group == 16 else "mxfp4")
        case (4, "int", _):
            base = weight_format("gptq" if weights.get("symmetric", True) else "awq")
            return base.grouped(-1 if group is None else int(group))
    raise _unknown(
        "quantization_config.config_groups.weights",
        {"num_bits": bits, "type": kind},
        ["8-bit or 4-bit, float or int"],
    )


def _compressed_inputs(inputs: Mapping[str, Any]) -> str:
    bits, kind = inputs.get("num_bits"), inputs.get("type")
    if bits == 8 and kind == "float":
        return "fp8-block" if inputs.get("strategy") == "group" else "fp8"
    if bits == 8:
        return "int8"
    if bits == 4 and kind == "float":
        return "nvfp4"
    raise _unknown(
        "quantization_config.config_groups.input_activations",
        {"num_bits": bits, "type": kind},
        ["8-bit float or int, 4-bit float"],
    )


def _modelopt(section: Mapping[str, Any]) -> Quantisation:
    algorithm = str(section.get("quant_algo"))
    formats = {"FP8": "fp8", "NVFP4": "nvfp4", "W4A8_AWQ": "awq"}
    if algorithm not in formats:
        raise _unknown("quant_algo", algorithm, formats)
    excluded = _skipped(section, "exclude_modules", "ignore")
    cache = section.get("kv_cache_quant_algo")
    if cache not in (None, "FP8"):
        raise _unknown("kv_cache_quant_algo", cache, ["FP8"])
    return Quantisation(
        weights=weight_format(formats[algorithm]),
        activations="fp8" if algorithm == "W4A8_AWQ" else None,
        kv="fp8" if cache else None,
        excluded=excluded,
        head=bool(excluded) and HEAD not in excluded,
    )
