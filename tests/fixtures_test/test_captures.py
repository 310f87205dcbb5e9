from __future__ import annotations

import json
import sqlite3
import statistics
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from fixtures.ids import short_name
from fixtures.make import CAPTURES, FOLDER, make

NAMES = sorted(CAPTURES)
GH200, H100 = "qwen3-30b-a3b-gh200", "llama-3.1-8b-h100-tp2"


def load(name: str) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads((FOLDER / f"{name}.truth.json").read_text(encoding="utf-8"))
    return truth


def query(name: str, sql: str) -> list[Any]:
    connection = sqlite3.connect(f"file:{FOLDER / name}.sqlite?mode=ro", uri=True)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def kernels(name: str) -> list[tuple[int, int, int, str]]:
    """Rows (gpu, start, end, full name) in the order of the truth; deviceId is the GPU in both."""
    return query(
        name,
        "SELECT deviceId, start, end, value FROM CUPTI_ACTIVITY_KIND_KERNEL"
        " JOIN StringIds ON id = demangledName ORDER BY deviceId, start",
    )


def activity_spans(name: str, gpu: int) -> list[tuple[int, int]]:
    return query(
        name,
        f"SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE deviceId = {gpu}"
        f" UNION ALL SELECT start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE deviceId = {gpu}",
    )


def test_the_committed_files_are_what_make_writes(tmp_path: Path) -> None:
    make(tmp_path)
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == sorted(f"{n}.{kind}" for n in NAMES for kind in ("sqlite", "truth.json"))
    for name in written:
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes(), name
    captures = sum(path.stat().st_size for path in tmp_path.glob("*.sqlite"))
    assert captures < 5_000_000


@pytest.mark.parametrize("name", NAMES)
def test_every_file_says_that_it_is_synthetic(name: str) -> None:
    sql = "SELECT value FROM META_DATA_EXPORT WHERE name = 'DERIVED_FROM'"
    assert query(name, sql) == [("synthetic",)]
    assert load(name)["synthetic"] is True


@pytest.mark.parametrize(
    ("name", "role", "size", "bound_ns"),
    [
        # 2048 x 5120 weights of 2 B, 2048 in, 5120 out, at 4.0e12 B/s.
        (GH200, "attn.qkv_proj", 20_971_520 + 4_096 + 10_240, 5_246.464),
        # 4096 tokens x 4 heads x (128 + 128) x 2 B = 8 MiB, 8192 of queries and 8192 of outputs.
        (GH200, "attn.core", 8_388_608 + 8_192 + 8_192, 2_101.248),
        (GH200, "attn.o_proj", 16_777_216 + 8_192 + 4_096, 4_197.376),
        # 8 of 128 experts, 1536 x 2048 and 2048 x 768.
        (GH200, "moe.gate_up", 50_331_648 + 4_096 + 24_576, 12_590.08),
        (GH200, "moe.down", 25_165_824 + 12_288 + 32_768, 6_302.72),
        (GH200, "lm_head", 622_329_856 + 4_096 + 303_872, 155_659.456),
        # Halves of Llama-3.1-8B at batch 8 and 3.35232e12 B/s.
        (H100, "attn.qkv_proj", 25_165_824 + 65_536 + 49_152, 7_541.199),
        (H100, "attn.core", 16_777_216 + 32_768 + 32_768, 5_024.208),
        (H100, "attn.o_proj", 16_777_216 + 32_768 + 65_536, 5_033.982),
        (H100, "mlp.gate_up_proj", 117_440_512 + 65_536 + 229_376, 35_120.58),
        (H100, "mlp.down_proj", 58_720_256 + 114_688 + 65_536, 17_570.065),
        (H100, "lm_head", 525_336_576 + 65_536 + 1_026_048, 157_033.982),
    ],
)
def test_bounds_by_hand(name: str, role: str, size: int, bound_ns: float) -> None:
    planted = load(name)["ratios"][role]
    assert planted["bytes"] == size
    assert planted["bound_ns"] == pytest.approx(bound_ns, abs=0.001)


@pytest.mark.parametrize("name", NAMES)
def test_the_device_reports_the_bandwidth_of_the_bounds(name: str) -> None:
    (bandwidth,) = {row[0] for row in query(name, "SELECT memoryBandwidth FROM TARGET_INFO_GPU")}
    assert bandwidth == load(name)["bytes_per_s"]


def instances(name: str) -> dict[str, list[int]]:
    """Durations of each operator instance: consecutive kernels of one role are one instance."""
    truth = load(name)["kernels"]
    rows = kernels(name)
    assert [[start, gpu] for gpu, start, _, _ in rows] == [entry[:2] for entry in truth]
    found: dict[str, list[int]] = {}
    labelled = zip((entry[2] for entry in truth), rows, strict=True)
    for role, group in groupby(labelled, key=lambda pair: pair[0]):
        if role is not None:
            total = sum(end - start for _, (_, start, end, _) in group)
            found.setdefault(role, []).append(total)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_median_of_every_operator_is_the_planted_time(name: str) -> None:
    truth, found = load(name), instances(name)
    for role, planted in truth["ratios"].items():
        assert statistics.median(found[role]) == planted["measured_ns"], role
        assert planted["measured_ns"] == round(planted["bound_ns"] * planted["ratio"])
        assert min(found[role]) < planted["measured_ns"] < max(found[role])
    for role, planted_ns in truth["latency_ns"].items():
        assert set(found[role]) == {planted_ns}, role
    labelled = {*truth["ratios"], *truth["latency_ns"], *truth["transfer_ns"]}
    assert labelled == set(found)


def test_operators_of_qwen3_count_as_the_model_says() -> None:
    found = {role: len(times) for role, times in instances(GH200).items()}
    once = ("embed", "attn.norm", "lm_head", "logits", "sample", "mlp.residual+final_norm")
    assert all(found[role] == 20 for role in once)  # 20 steps
    inside = found.keys() - set(once) - {"mlp.residual+attn.norm"}
    assert {found[role] for role in inside} == {48 * 20}
    # The norm that closes a layer belongs to the next one, so the last layer has none.
    assert found["mlp.residual+attn.norm"] == 47 * 20


def test_operators_of_llama_count_as_the_model_says() -> None:
    found = {role: len(times) for role, times in instances(H100).items()}
    once = ("embed", "attn.norm", "lm_head", "logits", "sample", "mlp.residual+final_norm")
    assert all(found[role] == 6 * 2 for role in once)  # 6 steps on 2 GPUs
    inside = found.keys() - set(once) - {"mlp.residual+attn.norm"}
    assert {found[role] for role in inside} == {32 * 6 * 2}
    assert found["mlp.residual+attn.norm"] == 31 * 6 * 2


@pytest.mark.parametrize("name", NAMES)
def test_kernels_without_a_role_are_the_unexplained(name: str) -> None:
    truth = load(name)
    counted: dict[str, int] = {}
    for (_, _, role), (_, _, _, text) in zip(truth["kernels"], kernels(name), strict=True):
        if role is None:
            counted[text] = counted.get(text, 0) + 1
    assert counted == truth["unexplained"]


def test_the_planted_foreign_kernels() -> None:
    gh200 = {short_name(n): count for n, count in load(GH200)["unexplained"].items()}
    assert gh200 == {
        "_prepare_pos_seq_lens_kernel": 20,
        "_compute_slot_mapping_kernel": 20,
        "prepare_varlen_num_blocks_kernel": 20,
        "elementwise_kernel": 20,  # a cast in layer 5 of each step
        "debug_checksum_kernel": 20,
    }
    h100 = {short_name(n): count for n, count in load(H100)["unexplained"].items()}
    assert h100 == {
        "_compute_slot_mapping_kernel": 12,
        "elementwise_kernel": 12,  # a copy in layer 10 of each step
        "vectorized_elementwise_kernel": 12,
    }


@pytest.mark.parametrize("name", NAMES)
def test_the_account_balances_and_is_that_of_the_rows(name: str) -> None:
    for line in load(name)["timeline"]:
        spans = sorted(activity_spans(name, line["gpu"]))
        busy, reach = 0, 0
        for start, end in spans:
            busy += max(0, end - max(start, reach))
            reach = max(reach, end)
        assert line["window_ns"] == reach - spans[0][0]
        assert line["sum_ns"] == sum(end - start for start, end in spans)
        assert line["busy_ns"] == busy
        assert line["overlap_ns"] > 0
        assert line["window_ns"] == line["sum_ns"] - line["overlap_ns"] + line["idle_ns"]
        assert line["idle_ns"] == sum(line["idle_by_cause"].values())
        assert line["busy_ns"] == line["kernel_busy_ns"] + line["copy_only_ns"]


@pytest.mark.parametrize("name", NAMES)
def test_planted_gaps_are_idle_in_the_file(name: str) -> None:
    gaps = load(name)["gaps"]
    for gap in gaps:
        spans = activity_spans(name, gap["gpu"])
        over = [s for s in spans if s[0] < gap["end_ns"] and s[1] > gap["start_ns"]]
        assert over == []
        edges = {end for _, end in spans} | {start for start, _ in spans}
        edges |= {g[edge] for g in gaps if g is not gap for edge in ("start_ns", "end_ns")}
        assert {gap["start_ns"], gap["end_ns"]} <= edges


def test_the_lengths_of_planted_gaps() -> None:
    def lengths(name: str) -> list[tuple[int, str, int]]:
        return [(g["gpu"], g["cause"], g["end_ns"] - g["start_ns"]) for g in load(name)["gaps"]]

    # The upload ends at 50,021,600 ns; 3 ms later, less two calls, the first input arrives.
    assert lengths(GH200) == [
        (0, "outside_steps", 2_983_400),
        (0, "sync", 80_000),
        (0, "host_late", 14_500),  # 500 ns after the synchronisation, 14 µs until the graph runs
        (0, "in_graph", 40_000),
        (0, "host_late", 300_000),
        (0, "dependency", 25_000),
        (0, "profiler", 120_000),
    ]
    assert lengths(H100) == [
        (0, "host_late", 200_000),
        (0, "dependency", 60_000),
        (1, "sync", 90_000),
        (1, "host_late", 5_100),  # 500 ns after the synchronisation, 4.6 µs of launch latency
        (1, "profiler", 45_000),
    ]


def test_a_replay_is_one_launch_of_many_kernels() -> None:
    replays = query(
        GH200,
        "SELECT k.correlationId, count(*), count(DISTINCT graphNodeId), min(graphNodeId >> 32),"
        " max(graphNodeId >> 32), a.value FROM CUPTI_ACTIVITY_KIND_KERNEL k"
        " JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId"
        " JOIN StringIds a ON a.id = r.nameId WHERE graphNodeId IS NOT NULL GROUP BY 1",
    )
    # Embedding, first norm, 48 layers of 18 kernels, one cast in layer 5, LM head.
    nodes = 2 + 48 * 18 + 1 + 1
    assert [row[1:] for row in replays] == [(nodes, nodes, 2, 2, "cudaGraphLaunch_v10000")] * 20


def test_both_processes_use_the_same_correlation_ids() -> None:
    joined = "FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r"
    on = "ON r.correlationId = k.correlationId"
    (naive,) = query(H100, f"SELECT count(*) {joined} {on}")[0]
    process = f"{on} AND r.globalTid >> 24 = k.globalPid >> 24"
    (right,) = query(H100, f"SELECT count(*) {joined} {process}")[0]
    assert right == len(load(H100)["kernels"])  # every kernel has exactly one launch
    assert naive > 1.5 * right


def test_ranges_hold_the_launches_of_their_step() -> None:
    steps = load(H100)["steps"]
    for gpu, pid in ((0, 71_001), (1, 71_002)):
        first = query(
            H100,
            "SELECT n.text, min(k.start) FROM NVTX_EVENTS n"
            " JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.globalTid = n.globalTid"
            " AND r.start BETWEEN n.start AND n.end"
            " JOIN CUPTI_ACTIVITY_KIND_KERNEL k ON k.correlationId = r.correlationId"
            " AND k.globalPid >> 24 = r.globalTid >> 24"
            f" WHERE n.text LIKE 'decode_step_%' AND n.globalTid >> 24 & 0xFFFFFF = {pid}"
            " GROUP BY n.text ORDER BY 2",
        )
        assert [text for text, _ in first] == [f"decode_step_{i}" for i in range(6)]
        assert [start for _, start in first] == steps["starts_by_gpu"][str(gpu)]


def test_collectives_end_together_and_last_as_long_from_the_later_entry() -> None:
    truth = load(H100)
    rows = kernels(H100)
    by_gpu: list[list[tuple[str, int, int]]] = [[], []]
    for (_, gpu, role), (_, start, end, _) in zip(truth["kernels"], rows, strict=True):
        if role in truth["transfer_ns"]:
            by_gpu[gpu].append((role, start, end))
    waits = []
    for (role, a_start, a_end), (_, b_start, b_end) in zip(*by_gpu, strict=True):
        assert a_end == b_end
        assert a_end - max(a_start, b_start) == truth["transfer_ns"][role]
        waits.append(abs(a_start - b_start))
    assert len(waits) == (2 * 32 + 1) * 6
    assert max(waits) > 150_000  # the rank that the host left waiting keeps its peer waiting


@pytest.mark.parametrize("name", NAMES)
def test_as_many_events_as_the_collector_counted(name: str) -> None:
    texts = query(name, "SELECT text FROM DIAGNOSTIC_EVENT WHERE text LIKE 'Number of CUDA%'")
    collected = sum(int(text.rstrip(".").split("\t")[1]) for (text,) in texts)
    tables = ("KERNEL", "MEMCPY", "RUNTIME")
    found = sum(
        query(name, f"SELECT count(*) FROM CUPTI_ACTIVITY_KIND_{table}")[0][0] for table in tables
    )
    assert collected == found


@pytest.mark.parametrize("name", NAMES)
def test_nothing_starts_before_its_launch(name: str) -> None:
    for table in ("KERNEL", "MEMCPY"):
        early = query(
            name,
            f"SELECT count(*) FROM CUPTI_ACTIVITY_KIND_{table} k"
            " LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId"
            " AND r.globalTid >> 24 = k.globalPid >> 24 WHERE r.start IS NULL OR r.start >= k.start",
        )
        assert early == [(0,)]
