"""Peaks of a GPU that no catalogue knows: SMs x clock x operations per clock, said to be so.

Dense operations per clock and SM by compute capability, from NVIDIA's architecture whitepapers.
The device reports its highest clock, which overestimates data-centre tensor peaks by 8 to 16 %:
the bound stays a bound.
"""

from __future__ import annotations

from collections.abc import Mapping

_VOLTA = {"fp64": 64, "fp32": 128, "fp16": 1024}
_TURING = {"fp64": 4, "fp32": 128, "fp16": 1024, "int8": 2048, "int4": 4096}
_A100 = {"fp64": 128, "fp32": 128, "tf32": 1024, "fp16": 2048, "int8": 4096, "int4": 8192}
_AMPERE = {"fp64": 4, "fp32": 256, "tf32": 512, "fp16": 1024, "int8": 2048, "int4": 4096}
_ORIN = {"fp64": 4, "fp32": 256, "tf32": 1024, "fp16": 2048, "int8": 4096}
_ADA = {**_AMPERE, "fp8": 2048}
_HOPPER = {"fp64": 256, "fp32": 256, "tf32": 2048, "fp16": 4096, "fp8": 8192, "int8": 8192}
_B200 = {"fp64": 128, "fp32": 256, "tf32": 4096, "fp16": 8192, "fp8": 16384, "fp4": 32768}
_THOR = {"fp32": 256, "fp16": 8192, "fp8": 16384, "fp4": 32768}
_RTX = {"fp64": 4, "fp32": 256, "tf32": 512, "fp16": 1024, "fp8": 2048, "int8": 2048, "fp4": 4096}

RATES: Mapping[str, Mapping[str, int]] = {
    "7.0": _VOLTA,
    "7.5": _TURING,
    "8.0": _A100,
    "8.6": _AMPERE,
    "8.7": _ORIN,
    "8.9": _ADA,
    "9.0": _HOPPER,
    "10.0": {**_B200, "int8": 16384},
    "10.3": {**_B200, "fp4": 49152},
    "11.0": _THOR,
    "12.0": _RTX,
    "12.1": _RTX,
}
"""Dense operations per clock and SM at FP32 accumulation, by compute capability."""

HALF_RATE_KEYS = frozenset({"tf32", "fp16", "fp8"})
"""GeForce parts accumulate these in FP32 at half the rate of their professional siblings."""

GEFORCE_CAPABILITIES = frozenset({"8.6", "8.9", "12.0"})
NO_BF16 = frozenset({"7.0", "7.5"})


def formula_peaks(
    device_name: str, *, compute_capability: str, sm_count: int, clock_hz: float
) -> dict[str, float]:
    """Return arithmetic peaks per second by key, empty for an unknown compute capability.

    >>> peaks = formula_peaks("NVIDIA PG506-230", compute_capability="8.0", sm_count=124,
    ...                       clock_hz=1.41e9)
    >>> round(peaks["bf16"] / 1e12, 1)
    358.1
    """
    rates = dict(RATES.get(compute_capability, {}))
    if "GeForce" in device_name and compute_capability in GEFORCE_CAPABILITIES:
        rates = {k: r // 2 if k in HALF_RATE_KEYS else r for k, r in rates.items()}
    if rates:
        rates["bf16"] = rates["fp32"] if compute_capability in NO_BF16 else rates["fp16"]
    return {key: rate * sm_count * clock_hz for key, rate in rates.items()}
