"""The catalogue of GPUs against a table made apart from it: dense peaks and their ridge points.

Units: GB/s, MiB, TFLOP/s or TOP/s, MHz (highest clock/clock that tensor peaks are rated at). fp64 is
CUDA cores/tensor cores. In parentheses the rate with FP16 accumulation. A dash: the part has none.
"""

from __future__ import annotations

import pytest

from nsysroof.theory.formula import GEFORCE_CAPABILITIES, HALF_RATE_KEYS, RATES
from nsysroof.theory.gpus import Gpu, find_gpu, gpu_keys
from nsysroof.theory.roofline import ridges

COLUMNS = [
    "key",
    "cc",
    "sms",
    "clocks",
    "bw",
    "l2",
    "fp64",
    "fp32",
    "tf32",
    "fp16",
    "fp16acc",
    "fp8",
    "int8",
    "fp4",
    "int4",
    "nvlink",
    "pcie",
    "c2c",
]

TABLE = """
v100-sxm2      70    80   1530/1530  900    6    7.8/-      15.7    -      125     -        -             -       -       -      150     3     -
v100-pcie      70    80   1380/1380  900    6    7/-        14      -      112     -        -             -       -       -      -       3     -
v100s          70    80   1597/1597  1134   6    8.2/-      16.4    -      130     -        -             -       -       -      -       3     -
t4             75    40   1590/1590  320    4    -/-        8.1     -      65      -        -             130     -       260    -       3     -
a10            86    72   1695/1695  600    6    -/-        31.2    62.5   125     125      -             250     -       500    -       4     -
a10g           86*   80   1710/1710  600    6    -/-        35      35     70      140      -             140     -       280    -       4     -
a30            80    56   1440/1440  933    24   5.2/10.3   10.3    82     165     -        -             330     -       661    100     4     -
a40            86    84   1740/1740  696    6    -/-        37.4    74.8   149.7   149.7    -             299.3   -       598.7  56.25   4     -
a100-sxm-40    80    108  1410/1410  1555   40   9.7/19.5   19.5    156    312     -        -             624     -       1248   300     4     -
a100-sxm-80    80    108  1410/1410  2039   40   9.7/19.5   19.5    156    312     -        -             624     -       1248   300     4     -
a100-pcie-40   80    108  1410/1410  1555   40   9.7/19.5   19.5    156    312     -        -             624     -       1248   300     4     -
a100-pcie-80   80    108  1410/1410  1935   40   9.7/19.5   19.5    156    312     -        -             624     -       1248   300     4     -
a800           80    108  1410/1410  2039   40   9.7/19.5   19.5    156    312     -        -             624     -       1248   200     4     -
a6000          86    84   1800/1800  768    6    -/-        38.7    77.4   154.8   154.8    -             309.7   -       619.3  56.25   4     -
rtx3090        86*   82   1695/1695  936    6    -/-        35.6    35.6   71      142      -             284     -       568    56.25   4     -
l4             89    58   2040/2040  300    48   -/-        30.3    60.5   121     121      242           242     -       485    -       4     -
l40            89*   142  2490/2490  864    96   -/-        90.5    90.5   181.05  181.05   362           362     -       724    -       4     -
l40s           89    142  2520/2520  864    96   -/-        91.6    183    362.05  362.05   733           733     -       733    -       4     -
rtx4090        89*   128  2520/2520  1008   72   -/-        82.6    82.6   165.2   330.3    330.3(660.6)  660.6   -       1321   -       4     -
rtx6000ada     89    142  2505/2505  960    96   -/-        91.1    182.1  364.2   364.2    728.5         728.5   -       1457   -       4     -
rtx5090        120*  170  2407/2407  1792   96   -/-        104.8   104.8  209.5   419      419(838)      838     1676    -      -       5     -
rtxpro6000-ws  120   188  2617/2617  1792   128  -/-        125.95  251.9  503.8   503.8    1007.6        1007.6  2015.2  -      -       5     -
rtxpro6000-se  120   188  2430/2430  1597   128  -/-        120     250    500     500      1000          1000    2000    -      -       5     -
h100-sxm       90    132  1980/1830  3352   50   34/67      66.9    494.7  989.4   -        1978.9        1978.9  -       -      450     5     -
h100-pcie      90    114  1755/1620  2039   50   25.6/51.2  51.2    378    756.4   -        1513          1513    -       -      300     5     -
h100-nvl       90    132  1785/1545  3938   50   30/60      60      417.5  835.5   -        1670.5        1670.5  -       -      300     5     -
h800-sxm       90    132  1980/1830  3352   50   1/1        66.9    494.7  989.4   -        1978.9        1978.9  -       -      200     5     -
h20            90    78   1980/-     4000   60   1/1        44      74     148     -        296           296     -       -      450     5     -
h20-3e         90    78   1980/-     4800   60   1/1        44      74     148     -        296           296     -       -      450     5     -
h200-sxm       90    132  1980/1830  4800   60   34/67      66.9    494.7  989.4   -        1978.9        1978.9  -       -      450     5     -
h200-nvl       90    132  1785/1545  4800   60   30/60      60      417.5  835.5   -        1670.5        1670.5  -       -      450     5     -
gh200-96       90    132  1980/1830  4000   60   34/67      66.9    494.7  989.4   -        1978.9        1978.9  -       -      450     5     450
gh200-144      90    132  1980/1830  4900   60   34/67      66.9    494.7  989.4   -        1978.9        1978.9  -       -      450     5     450
b100           100   148  1965/1440  8000   126  30/-       60      875    1750    -        3500          3500    7000    -      900     6     -
b200           100   148  1965/1856  8000   126  37/-       74.5    1125   2250    -        4500          4500    9000    -      900     5     -
gb200          100   152  2062/-     8000   126  40/-       80      1250   2500    -        5000          5000    10000   -      900     6     225
b300           103   148  1965/-     8000   126  1.2/-      75      1125   2250    -        4500          150     13500   -      900     6     -
gb300          103   152  2062/-     8000   126  1.3/-      80      1250   2500    -        5000          165     15000   -      900     6     225
gb10           120   48   2525/2525  273    24   -/-        31      -      125     -        250           -       500     -      -       5     300
orin           87    16   1300/1300  204.8  4    -/-        5.3     -      42.5    -        -             85      -       -      -       4     -
thor           100   20   1575/1575  273    32   -/-        8.1     -      258.5   -        517           -       1035    -      -       5     -
"""

ROWS = [dict(zip(COLUMNS, line.split(), strict=True)) for line in TABLE.strip().splitlines()]

PCIE_GB = {"3": 15.75, "4": 31.5, "5": 63.0, "6": 121.0}
"""x16 in one direction, 128b/130b coding."""

UNIFIED_MEMORY = {"gb10": 273e9, "orin": None, "thor": None}
"""CPU and GPU share one memory: copies cross it at its own rate at most, or no link at all."""

NO_BF16 = {"v100-sxm2", "v100-pcie", "v100s", "t4"}
"""BF16 runs on the CUDA cores of these, at the FP32 rate."""


def _peak(
    gpu: Gpu, key: str, *, unit: str | None = None, accumulate: str | None = None
) -> float | None:
    found = [
        peak.value
        for peak in gpu.peaks
        if peak.key == key
        and unit in (None, peak.unit)
        and (accumulate is None or peak.accumulate == accumulate)
    ]
    assert len(found) <= 1
    return found[0] if found else None


def _number(text: str) -> float | None:
    return None if text == "-" else float(text)


def _same(found: float | None, text: str, scale: float) -> bool:
    value = _number(text)
    if value is None or found is None:
        return found is None and value is None
    return found == pytest.approx(value * scale, rel=1e-12)


def test_table_and_catalogue_name_the_same_gpus() -> None:
    assert [row["key"] for row in ROWS] != []
    assert sorted(row["key"] for row in ROWS) == list(gpu_keys())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["key"])
def test_figures_of_a_gpu(row: dict[str, str]) -> None:
    gpu = find_gpu(row["key"])
    highest, _, rated = row["clocks"].partition("/")
    assert gpu.sm_count == int(row["sms"])
    assert gpu.clock_hz == float(highest) * 1e6
    assert gpu.tensor_clock_hz == (None if rated == "-" else float(rated) * 1e6)
    assert gpu.l2_bytes == int(row["l2"]) * 2**20
    cuda, _, tensor = row["fp64"].partition("/")
    fp8, _, half = row["fp8"].partition("(")
    assert _same(_peak(gpu, "bw"), row["bw"], 1e9)
    assert _same(_peak(gpu, "fp64", unit="cuda"), cuda, 1e12)
    assert _same(_peak(gpu, "fp64", unit="tensor"), tensor, 1e12)
    assert _same(_peak(gpu, "fp32"), row["fp32"], 1e12)
    assert _same(_peak(gpu, "fp8", accumulate="fp32"), fp8, 1e12)
    assert _same(_peak(gpu, "fp8", accumulate="fp16"), half.rstrip(")") or "-", 1e12)
    assert _same(_peak(gpu, "fp16", accumulate="fp32"), row["fp16"], 1e12)
    assert _same(_peak(gpu, "fp16", accumulate="fp16"), row["fp16acc"], 1e12)
    for key in ("tf32", "int8", "fp4", "int4"):
        assert _same(_peak(gpu, key), row[key], 1e12), key
    bf16 = row["fp32"] if gpu.key in NO_BF16 else row["fp16"]
    assert _same(_peak(gpu, "bf16"), bf16, 1e12)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["key"])
def test_links_of_a_gpu(row: dict[str, str]) -> None:
    gpu = find_gpu(row["key"])
    assert _same(_peak(gpu, "nvlink"), row["nvlink"], 1e9)
    assert _same(_peak(gpu, "c2c"), row["c2c"], 1e9)
    if gpu.key in UNIFIED_MEMORY:
        assert _peak(gpu, "h2d") == UNIFIED_MEMORY[gpu.key]
    else:
        host = _number(row["c2c"]) or PCIE_GB[row["pcie"]]
        assert _peak(gpu, "h2d") == pytest.approx(host * 1e9)


@pytest.mark.parametrize(
    ("key", "points"),
    [
        ("a100-sxm-80", {"fp32": 9.6, "tf32": 76.5, "fp16": 153.0, "int8": 306.0, "int4": 612.1}),
        ("h100-sxm", {"fp32": 20.0, "tf32": 147.6, "fp16": 295.2, "fp8": 590.4, "int8": 590.4}),
        ("h200-sxm", {"fp32": 13.9, "tf32": 103.1, "fp16": 206.1, "fp8": 412.3, "int8": 412.3}),
        ("gh200-96", {"fp32": 16.7, "tf32": 123.7, "fp16": 247.3, "fp8": 494.7, "int8": 494.7}),
        (
            "b200",
            {"fp32": 9.3, "tf32": 140.6, "fp16": 281.2, "fp8": 562.5, "int8": 562.5, "fp4": 1125.0},
        ),
        ("l40s", {"fp32": 106.0, "tf32": 211.8, "fp16": 419.0, "fp8": 848.4, "int4": 848.4}),
        ("rtx4090", {"fp32": 81.9, "tf32": 81.9, "fp16": 163.9, "fp8": 327.7, "int8": 655.4}),
        ("h20", {"fp32": 11.0, "tf32": 18.5, "fp16": 37.0, "fp8": 74.0, "int8": 74.0}),
    ],
)
def test_ridge_points(key: str, points: dict[str, float]) -> None:
    found = ridges(find_gpu(key).dense_peaks())
    # The FP64 rate of the tensor cores where there is one; BF16 as FP16 on all of these.
    assert found["bf16"] == found["fp16"]
    assert {dtype: found[dtype] for dtype in points} == pytest.approx(points, abs=0.051)


@pytest.mark.parametrize(
    ("key", "cuda", "tensor"),
    [("a100-sxm-80", 4.8, 9.6), ("h100-sxm", 10.1, 20.0), ("b200", 4.6, None), ("h20", 0.2, 0.2)],
)
def test_ridge_points_of_fp64(key: str, cuda: float, tensor: float | None) -> None:
    gpu = find_gpu(key)
    bandwidth = _peak(gpu, "bw") or 0.0
    assert (_peak(gpu, "fp64", unit="cuda") or 0.0) / bandwidth == pytest.approx(cuda, abs=0.051)
    found = _peak(gpu, "fp64", unit="tensor")
    assert (None if found is None else round(found / bandwidth, 1)) == tensor


@pytest.mark.parametrize(
    ("key", "peak", "by_formula", "share"),
    [
        ("a10g", "int8", 280.2, 0.5),
        ("a10g", "int4", 560.3, 0.5),
        ("l40s", "int4", 1465.7, 0.5),
        ("rtxpro6000-se", "fp32", 117.0, 1.026),
        ("rtxpro6000-se", "tf32", 233.9, 1.069),
        ("rtxpro6000-se", "fp16", 467.8, 1.069),
        ("rtxpro6000-se", "fp8", 935.6, 1.069),
        ("rtxpro6000-se", "int8", 935.6, 1.069),
        ("rtxpro6000-se", "fp4", 1871.2, 1.069),
        ("h20", "fp32", 39.5, 1.113),
        ("h20-3e", "fp32", 39.5, 1.113),
        ("b100", "fp32", 74.4, 0.806),
    ],
)
def test_peaks_that_sms_and_clock_do_not_give(
    key: str, peak: str, by_formula: float, share: float
) -> None:
    gpu = find_gpu(key)
    clock = gpu.clock_hz if peak == "fp32" else gpu.tensor_clock_hz
    assert clock is not None
    rate = RATES[gpu.compute_capability][peak]
    assert gpu.sm_count * rate * clock / 1e12 == pytest.approx(by_formula, abs=0.06)
    sold = gpu.peak(peak)
    assert sold is not None
    assert sold.value / (gpu.sm_count * rate * clock) == pytest.approx(share, abs=1e-3)


@pytest.mark.parametrize(
    ("key", "cuda", "tensor"),
    [
        ("h100-sxm", 1.016, None),
        ("h200-sxm", 1.016, None),
        ("gh200-96", 1.016, None),
        ("gh200-144", 1.016, None),
        ("h800-sxm", 0.03, 0.015),
        ("h20", 0.051, 0.025),
        ("h20-3e", 0.051, 0.025),
        ("b100", 0.806, None),
    ],
)
def test_double_precision_that_the_formula_does_not_give(
    key: str, cuda: float, tensor: float | None
) -> None:
    gpu = find_gpu(key)
    # Hopper has 128 FP64 operations per clock and SM on its CUDA cores, twice that on its tensor
    # cores; Blackwell has 128.
    at_clock = gpu.sm_count * 128 * gpu.clock_hz
    assert (_peak(gpu, "fp64", unit="cuda") or 0.0) / at_clock == pytest.approx(cuda, abs=6e-4)
    if tensor is not None:
        found = _peak(gpu, "fp64", unit="tensor") or 0.0
        assert found / (2 * at_clock) == pytest.approx(tensor, abs=6e-4)


def test_half_rate_of_geforce_parts() -> None:
    # FP32 accumulation of these runs at half the rate of FP16 accumulation.
    for key in ("a10g", "rtx3090", "rtx4090", "rtx5090"):
        gpu = find_gpu(key)
        full, half = gpu.peak("fp16", accumulate="fp16"), gpu.peak("fp16")
        assert full is not None
        assert half is not None
        assert half.value == pytest.approx(full.value / 2, rel=2e-3)
        assert gpu.compute_capability in GEFORCE_CAPABILITIES
    assert {"fp16", "tf32"} <= HALF_RATE_KEYS
