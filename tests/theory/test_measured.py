"""Roofs out of the outputs of nvbandwidth and nccl-tests and of tables of products, and their traps."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from nsysroof.errors import InputError
from nsysroof.theory.gpus import find_gpu
from nsysroof.theory.measured import gemms, nccl, nvbandwidth
from nsysroof.theory.measured.roofs_file import import_roofs
from nsysroof.theory.peaks import read_roofs

CASES: list[dict[str, Any]] = [
    {
        "name": "host_to_device_memcpy_ce",
        "status": "Passed",
        "bandwidth_matrix": [["417.93"]],
        "sum": 417.93,
    },
    {
        "name": "device_to_host_memcpy_ce",
        "status": "Passed",
        "bandwidth_matrix": [["297.10"]],
        "sum": 297.1,
    },
]


def _nvbandwidth(*cases: dict[str, Any], device: str = "NVIDIA GH200 480GB", **top: Any) -> str:
    listed = {"GPU Device list": [f"0: {device} (00000009:01:00): (node7)"]}
    return json.dumps({"nvbandwidth": {"version": "v0.8", **listed, "testcases": cases, **top}})


def _roofs(text: str, **options: Any) -> dict[str, float]:
    found = nvbandwidth.read(text, where="out.json", **options)
    return {roof.key: roof.value for roof in found.roofs}


def test_copy_engines_give_the_host_links() -> None:
    assert _roofs(_nvbandwidth(*CASES)) == {
        "h2d": pytest.approx(417.93e9),
        "d2h": pytest.approx(297.1e9),
    }


def test_cells_that_are_not_available_are_no_zero() -> None:
    # The tool's own minimum would be 0 here; 39.2 to 39.6 is what the pairs reached.
    cells = [["N/A", "396.40", "392.00"], ["395.10", "N/A", "393.0"], ["396.0", "394.2", "N/A"]]
    case = {
        "name": "device_to_device_memcpy_read_ce",
        "status": "Passed",
        "bandwidth_matrix": cells,
        "min": 0,
        "max": 396.4,
    }
    found = nvbandwidth.read(_nvbandwidth(case, device="NVIDIA H200"), where="x")
    assert {roof.key: roof.value for roof in found.roofs} == {
        "p2p": pytest.approx(396.4e9),
        "nvlink": pytest.approx(396.4e9),
    }
    assert found.notes == ()  # all pairs within 3 % of each other


def test_unlike_pairs_are_told() -> None:
    # Six A6000 over PCIe 4: 21.80 to 26.35 GB/s, so NVLink was not what carried them.
    cells = [["N/A", "26.34", "21.80"], ["26.35", "N/A", "22.64"], ["21.86", "22.62", "N/A"]]
    case = {
        "name": "device_to_device_memcpy_read_ce",
        "status": "Passed",
        "bandwidth_matrix": cells,
    }
    found = nvbandwidth.read(_nvbandwidth(case, device="NVIDIA RTX A6000"), where="x")
    assert {roof.key: roof.value for roof in found.roofs} == {"p2p": pytest.approx(26.35e9)}
    assert "21.8 GB/s to 26.4 GB/s over 6 pairs" in found.notes[0]


def test_copy_inside_the_device_is_not_the_memory_roof() -> None:
    local = {"name": "device_local_copy", "status": "Passed", "bandwidth_matrix": [["1117.0"]]}
    text = _nvbandwidth(*CASES, local, device="NVIDIA H20-3e")
    assert "bw" not in _roofs(text)
    notes = nvbandwidth.read(text, where="x").notes
    assert any("is not the roof of the memory" in note for note in notes)
    # Alone it gives nothing at all.
    with pytest.raises(InputError) as caught:
        nvbandwidth.read(_nvbandwidth(local), where="x")
    assert caught.value.slug == "bad-measurement"


def test_waived_tests_and_both_directions_are_no_roof() -> None:
    waived = {"name": "device_to_device_memcpy_read_ce", "status": "Waived"}
    failed = {
        "name": "device_to_device_memcpy_write_ce",
        "status": "Error",
        "bandwidth_matrix": [["999.0"]],
        "error": "no peers",
    }
    both = {
        "name": "device_to_device_bidirectional_memcpy_read_ce",
        "status": "Passed",
        "bandwidth_matrix": [["N/A", "783.7"]],
    }
    found = nvbandwidth.read(_nvbandwidth(*CASES, waived, failed, both), where="x")
    assert {roof.key for roof in found.roofs} == {"h2d", "d2h"}
    assert "device_to_device_memcpy_read_ce gave no rate: Waived" in found.notes
    assert "device_to_device_memcpy_write_ce gave no rate: Error" in found.notes
    assert any("both directions at once" in note for note in found.notes)
    assert "device_to_device_memcpy_write_ce: no peers" in found.notes


def test_gather_kernels_are_remarked() -> None:
    gather = {"name": "host_to_device_memcpy_sm", "status": "Passed", "bandwidth_matrix": [["342"]]}
    found = nvbandwidth.read(_nvbandwidth(*CASES, gather), where="x")
    assert "host_to_device_memcpy_sm: a kernel reached 342.0 GB/s" in found.notes[0]
    assert {roof.value for roof in found.roofs} == {417.93e9, 297.1e9}


def test_text_of_nvbandwidth() -> None:
    text = """nvbandwidth Version: v0.8
Built from Git version: v0.8

CUDA Runtime Version: 12080
CUDA Driver Version: 12080
Driver Version: 570.124.06

node7
Device 0: NVIDIA H200 (00000000:1b:00)
Device 1: NVIDIA H200 (00000000:43:00)

Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     55.43     55.41

SUM host_to_device_memcpy_ce 110.84

Running device_to_device_memcpy_read_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0       N/A    396.40
 1    396.22       N/A

SUM device_to_device_memcpy_read_ce 792.62

Waived: device_to_host_memcpy_ce
"""
    found = nvbandwidth.read(text, where="out.txt")
    assert found.device == "NVIDIA H200"
    assert {roof.key: roof.value / 1e9 for roof in found.roofs} == pytest.approx(
        {"h2d": 55.43, "p2p": 396.4, "nvlink": 396.4}
    )


HEADER = """# nccl-tests version 2.17.1 nccl-headers=22703 nccl-library=22703
# Collective test starting: {name}_perf
# nThread 1 nGpus {ranks} minBytes 512 maxBytes 536870912 step: 2(factor)
#
# Using devices
{devices}
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""


def _nccl(
    *rows: str, name: str = "all_reduce", ranks: int = 8, device: str = "NVIDIA H100 80GB HBM3"
) -> str:
    devices = "\n".join(
        f"#  Rank  {rank} Group  0 Pid  99 on  node7 device  {rank} [0000:{rank:02x}:00] {device}"
        for rank in range(ranks)
    )
    return HEADER.format(name=name, ranks=ranks, devices=devices) + "\n".join(rows) + "\n"


SMALL = "       16384          4096     float     sum      -1    17.21    0.95    1.67      0    16.90    0.97    1.70      0"
LARGE = "   536870912     134217728     float     sum      -1   2111.0  254.32  445.06      0   2115.0  253.84  444.22    N/A"


def test_all_reduce_of_a_switch_that_adds_up() -> None:
    # 537 MB in 2,111 us: the bound counts the size once, so the rate to compare is size over time.
    found = nccl.read(_nccl(SMALL, LARGE), where="x")
    assert [(roof.key, roof.value) for roof in found.roofs] == [("nvlink", 254.32e9)]
    assert 536_870_912 / found.roofs[0].value * 1e6 == pytest.approx(2111, rel=1e-3)
    assert any("not the bus bandwidth 445.1 GB/s" in note for note in found.notes)
    assert any("16.9 µs for small messages" in note for note in found.notes)
    assert any("out of place" in note and "444.2 GB/s in place" in note for note in found.notes)


def test_all_reduce_of_a_ring_is_its_bus_bandwidth() -> None:
    row = LARGE.replace("2111.0  254.32  445.06", "4226.0  127.04  222.32")
    found = nccl.read(_nccl(SMALL, row, device="NVIDIA A100-SXM4-80GB"), where="x")
    # In place the row still has the H100's 444.22, the higher one; A100 switches do not add up.
    assert found.roofs[0].value == 444.22e9


def test_wrong_results_are_left_out() -> None:
    row = LARGE.replace("445.06      0", "945.06     12").replace("444.22    N/A", "444.22      0")
    found = nccl.read(_nccl(SMALL, row, device="NVIDIA A100-SXM4-80GB"), where="x")
    assert found.roofs[0].value == 444.22e9
    assert found.notes[0] == "1 timings are left out: wrong results or no time"


def test_columns_are_found_by_their_header() -> None:
    # all_gather of an older version: no in-place columns of right values, extra columns behind.
    text = (
        "# ./build/all_gather_perf -b 8 -e 512M -g 8\n"
        "#       size         count      type     time   algbw   busbw  error\n"
        "   536870912      16777216     float   1219.8  440.13  385.11    N/A  2024-01-01 extra\n"
        "# Avg bus bandwidth    : 385.11\n"
    )
    found = nccl.read(text, where="x")
    assert found.roofs[0].value == 385.11e9
    assert found.roofs[0].test == "all_gather, 536870912 bytes"


def test_json_of_nccl_tests_with_text_for_not_a_number() -> None:
    side = {"time": 2111.0, "alg_bw": 254.32, "bus_bw": 445.06, "nwrong": 0}
    text = json.dumps(
        {
            "version": "2.17.1",
            "args": ["./all_reduce_perf", "-J", "out.json"],
            "devices": [
                {"rank": rank, "device_info": "NVIDIA A100-SXM4-80GB"} for rank in range(8)
            ],
            "results": [
                {
                    "size": 536_870_912,
                    "out_of_place": side,
                    "in_place": {"time": "nan", "alg_bw": "nan", "bus_bw": "nan"},
                }
            ],
        }
    )
    assert nccl.looks_like(text)
    found = nccl.read(text, where="x")
    assert [(roof.key, roof.value) for roof in found.roofs] == [("nvlink", 445.06e9)]
    assert found.device == "NVIDIA A100-SXM4-80GB"


def test_latency_and_rate_of_published_all_reduces() -> None:
    # 8 H100: 512 B 15.5 us, 131 kB 19.0, 2 MB 38.2, 32 MB 197.4, 537 MB 2,111.
    points = [
        (512, 15.5), (131_072, 19.0), (2_097_152, 38.2), (33_554_432, 197.4), (536_870_912, 2111.0)
    ]  # fmt: skip
    timings = [
        nccl.Timing(
            size=size, time_ns=us * 1e3, algorithm_rate=0, bus_rate=0, in_place=False, wrong=False
        )
        for size, us in points
    ]
    fit = nccl.alpha_beta(timings)
    assert fit is not None
    assert 15e3 < fit.alpha_ns < 21e3
    # What is left of 2,111 us after the latency is the rate: 537 MB in 2.09 ms.
    assert fit.bytes_per_s == pytest.approx(537e6 / 2.09e-3, rel=0.25)


GEMMS = """m,n,k,dtype,time_us
8192,8192,8192,bf16,1383.9
4096,4096,4096,bfloat16,180.0
8192,8192,8192,e4m3,784.0
1,32768,32768,bf16,600.0
1,4096,4096,bf16,5.0
"""


def test_products_give_the_highest_rate_of_each_dtype() -> None:
    found = gemms.read(GEMMS, where="g.csv", gpu=find_gpu("h100-sxm"))
    roofs = {roof.key: roof.value for roof in found.roofs}
    # 2 x 8192^3 FLOP in 1,383.9 us are 794.5 TFLOP/s, in 784.0 us 1,402.4.
    assert roofs["bf16"] == pytest.approx(794.5e12, rel=1e-4)
    assert roofs["fp8"] == pytest.approx(1402.4e12, rel=1e-4)
    # 2.147 GB of weights in 600 us; 4096 x 4096 lies in the L2 and tells nothing.
    assert roofs["bw"] == pytest.approx((32_768**2 + 2 * 32_768) * 2 / 600e-6, rel=1e-9)


def test_products_without_a_gpu_tell_no_bandwidth() -> None:
    found = gemms.read(GEMMS, where="g.csv")
    assert "bw" not in {roof.key for roof in found.roofs}
    assert "its L2 is unknown" in found.notes[-1]
    small = "m,n,k,dtype,time_us\n1,4096,4096,bf16,5.0\n"
    found = gemms.read(small, where="g.csv", gpu=find_gpu("h100-sxm"))
    assert {roof.key for roof in found.roofs} == {"bf16"}
    assert "4 times the L2 of h100-sxm" in found.notes[-1]


def test_columns_of_the_cutlass_profiler() -> None:
    text = (
        "Problem,Provider,Operation,m,n,k,A,B,C,Bytes,Flops,Runtime,GB/s,GFLOPs\n"
        "1,CUTLASS,gemm,4096,4096,4096,f16:row,f16:column,f16:column,1,1,0.17,1,808000\n"
    )
    found = gemms.read(text, where="x")
    assert [roof.key for roof in found.roofs] == ["fp16"]
    assert found.roofs[0].value == pytest.approx(808e12)


def test_rows_that_cannot_be_are_counted() -> None:
    text = GEMMS + "0,8,8,bf16,1\n8,8,8,fp7,1\n8,8,8,bf16,fast\n"
    notes = gemms.read(text, where="x").notes
    assert "1 rows are left out: a shape or a time is not above 0" in notes
    assert "1 rows are left out: the dtype 'fp7' is not known" in notes
    assert "1 rows are left out: a shape or a time is no number" in notes


def test_missing_columns_are_named() -> None:
    with pytest.raises(InputError, match="dtype, time_us or tflops"):
        gemms.read("m,n,k\n1,2,3\n", where="x")


def test_rates_above_the_data_sheet_are_remarked(tmp_path: Path) -> None:
    path = tmp_path / "g.csv"
    path.write_text("m,n,k,dtype,tflops\n8192,8192,8192,bf16,1979\n")
    found = import_roofs([path], gpu="h100-sxm")
    # It touches 403 MB, but compute binds it: no bandwidth comes of it.
    assert [roof.key for roof in found.roofs] == ["bf16"]
    assert found.roofs[0].value == pytest.approx(1979e12)
    assert any("2.00 times the data sheet's 9.894e+14" in note for note in found.notes)


def test_files_of_one_machine_become_one_roofs_file(tmp_path: Path) -> None:
    copies, products = tmp_path / "bw.json", tmp_path / "gemm.csv"
    copies.write_text(_nvbandwidth(*CASES))
    products.write_text(GEMMS)
    text = import_roofs([copies, products]).toml()
    assert text == import_roofs([copies, products]).toml()
    raw = tomllib.loads(text)
    assert raw["gpu"] == "gh200-96"
    assert raw["source"] == "nvbandwidth v0.8; 5 measured products (bw.json, gemm.csv)"
    assert raw["roofs"]["h2d"] == pytest.approx(417.93e9)
    assert raw["roofs"]["bf16"] == pytest.approx(794.5e12, rel=1e-4)
    path = tmp_path / "roofs.toml"
    path.write_text(text, encoding="utf-8")
    roofs = read_roofs(path)
    assert roofs["h2d"].value == pytest.approx(417.93e9)
    assert roofs["h2d"].source.startswith("measured: nvbandwidth v0.8")
    assert roofs.notes == tuple(raw["notes"])


def test_source_may_stand_in_the_table(tmp_path: Path) -> None:
    path = tmp_path / "roofs.toml"
    path.write_text('[roofs]\nsource = "nvbandwidth"\nbw = 3.72e12\n')
    assert read_roofs(path)["bw"] == (3.72e12, "measured: nvbandwidth")


@pytest.mark.parametrize(
    "text", ["hello", "{}", '{"nvbandwidth": 5}', '{"nvbandwidth": {"testcases": [5]}}']
)
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        import_roofs([path])
    assert caught.value.slug == "bad-measurement"
    with pytest.raises(InputError) as missing:
        import_roofs([tmp_path / "none.json"])
    assert missing.value.slug == "no-such-file"


def test_gpu_that_contradicts_the_file_is_remarked(tmp_path: Path) -> None:
    path = tmp_path / "bw.json"
    path.write_text(_nvbandwidth(*CASES))
    found = import_roofs([path], gpu="h100-sxm")
    assert found.gpu == "h100-sxm"
    assert "bw.json was measured on NVIDIA GH200 480GB, not on h100-sxm" in found.notes
    # PCIe 5 carries 63 GB/s: 418 over it is remarked, not clamped.
    assert any("h2d was measured at 4.179e+11" in note for note in found.notes)
