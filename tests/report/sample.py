"""Reports made by hand: a full one, one of an empty capture, one with the worst names.

The numbers of the full sample add up: budget and timeline to the nanosecond, idle by cause.
"""

from __future__ import annotations

import msgspec

from nsysroof.results import (
    Assumptions,
    Budget,
    Capture,
    CaptureDevice,
    CaptureProcess,
    CollectiveRow,
    Coverage,
    Estimate,
    EstimateLayer,
    EstimateMemory,
    EstimateRow,
    EstimateStep,
    FileCollectiveRow,
    FileRankRow,
    Finding,
    Gap,
    Host,
    ImpossibleRow,
    KernelRow,
    KernelWindow,
    LinkPart,
    LinkRow,
    OperatorBytes,
    OperatorRow,
    PeakUsed,
    Phase,
    RankFile,
    RankRow,
    Ranks,
    Report,
    Spread,
    StepBounds,
    StepRow,
    Steps,
    Timeline,
    UnexplainedRow,
)

NVJET = "nvjet_tst_64x8_64x16_4x1_v_bz_splitK_TNT"
FLASH = (
    "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, false, false, "
    "cutlass::bfloat16_t>, false, false, false, false, true, true, false>(flash::Flash_fwd_params)"
)
NORM = "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16 *, int)"
ACT = "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel>(c10::BFloat16 *)"
FOREIGN = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>(int)"


def operator(role: str, **changed: object) -> OperatorRow:
    """Return the row of a decode matmul: 50.331648 MB at 3.35 TB/s take 15.024 µs."""
    row = OperatorRow(
        role=role,
        kind="gemm",
        instances_per_step=32.0,
        reads_per_step=1.0,
        kernels=[NVJET],
        measured_ns=18_030,
        main_ns=18_030,
        p10_ns=17_900,
        p90_ns=18_400,
        min_ns=17_800,
        advance_ns=18_030,
        bound_ns=15_024.0,
        min_bound_ns=15_024.0,
        reachable_ns=None,
        floor_ns=2_000.0,
        limiter="memory",
        ratio=1.2,
        reachable_ratio=None,
        excess_ns_per_step=96_192.0,
        flop=402_653_184,
        bytes=OperatorBytes(weight=50_331_648, act_read=65_536, act_write=98_304),
        intensity=7.9,
        dtype="bf16",
        evidence="model",
        confidence="high",
        formula="2*m*n*k",
        inputs={"m": 8, "n": 6144, "k": 4096},
        notes=[],
    )
    return msgspec.structs.replace(row, **changed)


def finding(slug: str, severity: str, text: str) -> Finding:
    """Return a finding with a hint."""
    return Finding(slug=slug, severity=severity, text=text, hint=f"what to do about {slug}")


def capture(**changed: object) -> Capture:
    """Return the verdict on a capture of one H100."""
    verdict = Capture(
        nsys_version="2025.5.1.121",
        schema_version="3.24.0",
        graph_mode="node",
        trace_kind="software",
        kernels=14_003,
        kernels_used=14_000,
        set_aside=3,
        set_aside_reasons={"reversed": 1, "outside the session": 2},
        launches=420,
        graph_launches=40,
        graph_replays=0,
        graph_kernels=13_280,
        copies=84,
        fills=12,
        processes=1,
        process_list=[CaptureProcess(pid=4711, launches=420, kernels=14_003)],
        devices=[CaptureDevice(gpu=0, name="NVIDIA H100 80GB HBM3", kernels=14_003)],
        events_collected=14_100,
        events_found=14_099,
        findings=[
            finding("low-coverage", "error", "the model explains too little"),
            finding("software-node-trace", "warning", "node tracing in software inflates gaps"),
            finding("warm-up-in-window", "note", "the first 2 steps are warm-up"),
        ],
    )
    return msgspec.structs.replace(verdict, **changed)


def full() -> Report:
    """Return a decode report with something in every section."""
    return Report(
        tool_version="0.1.0",
        capture=capture(),
        assumptions=Assumptions(
            model="llama-3.1-8b",
            gpu="h100-sxm",
            gpu_source="trace",
            batch=8,
            context=[4096] * 8,
            phase="decode",
            weights="bf16",
            kv="bf16",
            tp=1,
            ep=1,
            dp=1,
            floor_us=2.0,
            floor_source="default",
            peaks=[
                PeakUsed(key="bw", value=3.35e12, source="H100 datasheet"),
                PeakUsed(key="bf16", value=989.4e12, source="H100 datasheet, dense"),
            ],
            notes=["context is the KV length at the middle step"],
        ),
        coverage=Coverage(
            time_explained=0.973,
            count_explained=0.989,
            in_steps_time_explained=0.981,
            in_steps_count_explained=0.992,
        ),
        timeline=[
            Timeline(
                gpu=0,
                window_start_ns=1_000,
                window_ns=260_000_000,
                sum_ns=240_500_000,
                busy_ns=240_000_000,
                overlap_ns=500_000,
                idle_ns=20_000_000,
                kernel_busy_ns=239_000_000,
                copy_only_ns=1_000_000,
                idle_by_cause={
                    "in_graph": 4_200_000,
                    "between_graphs": 10_000_000,
                    "host_late": 3_000_000,
                    "sync": 1_600_000,
                    "dependency": 200_000,
                    "profiler": 0,
                    "outside_steps": 1_000_000,
                    "unknown": 0,
                },
                kernel_window=KernelWindow(
                    start_ns=1_000,
                    window_ns=259_000_000,
                    no_kernel_ns=20_000_000,
                    busy_ns=239_500_000,
                    idle_ns=19_500_000,
                ),
            )
        ],
        phases=[
            Phase(phase="prefill", count=2, total_ns=14_000_000),
            Phase(phase="decode", count=38, total_ns=232_000_000),
        ],
        steps=Steps(
            count=38,
            source="graph",
            phase="decode",
            wall_ns=Spread(
                p10=6_050_000, p50=6_100_000, p90=6_190_000, min=6_020_000, max=7_900_000
            ),
        ),
        budget=Budget(
            gpu=0,
            step=19,
            wall_ns=6_100_000,
            bound_ns=4_321_000,
            over_bound_ns=812_345,
            fixed_ns=310_000,
            unexplained_ns=120_500,
            copy_ns=3_210,
            idle_ns=540_945,
            overlap_ns=8_000,
        ),
        step_budgets=[
            StepRow(
                gpu=0,
                step=7,
                start_ns=91_234_567,
                wall_ns=6_900_000,
                bound_ns=4_321_000,
                over_bound_ns=812_345,
                fixed_ns=310_000,
                unexplained_ns=220_500,
                copy_ns=3_210,
                idle_ns=1_240_945,
                overlap_ns=8_000,
                idle_by_cause={"in_graph": 240_945, "host_late": 1_000_000},
            ),
            StepRow(
                gpu=0,
                step=19,
                start_ns=164_000_000,
                wall_ns=6_100_000,
                bound_ns=4_321_000,
                over_bound_ns=812_345,
                fixed_ns=310_000,
                unexplained_ns=120_500,
                copy_ns=3_210,
                idle_ns=540_945,
                overlap_ns=8_000,
            ),
        ],
        step_bounds=StepBounds(
            measured_ns=6_100_000,
            serial_ns=5_000_000.0,
            hard_ns=4_880_000.0,
            weights_once_ns=4_800_000.0,
            tokens=8.0,
            tokens_per_s=1_311.5,
            tokens_per_s_bound=1_600.0,
        ),
        operators=[
            operator("attn.qkv_proj"),
            operator(
                "attn.core",
                kind="attention_decode",
                kernels=[FLASH, "void flash::flash_fwd_splitkv_combine_kernel<128>()"],
                measured_ns=41_000,
                bound_ns=20_032.0,
                ratio=2.0467,
                excess_ns_per_step=670_976.0,
                confidence="medium",
            ),
            operator(
                "attn.qk_norm+attn.rope+attn.kv_write",
                kind="qk_norm+rope+kv_write",
                kernels=["fused_qk_norm_rope_kernel"],
                measured_ns=2_400,
                bound_ns=80.0,
                limiter="latency",
                ratio=30.0,
                excess_ns_per_step=12_800.0,
            ),
            operator(
                "mlp.norm",
                kind="rms_norm",
                kernels=[NORM],
                measured_ns=2_100,
                bound_ns=60.0,
                limiter="latency",
                ratio=35.0,
                excess_ns_per_step=3_200.0,
            ),
            operator(
                "mlp.act",
                kind="silu_mul",
                kernels=[ACT],
                measured_ns=1_700,
                bound_ns=2_111.0,
                ratio=0.8053,
                excess_ns_per_step=-13_152.0,
                notes=["the input may still be in L2"],
            ),
            operator("lm_head", bound_ns=None, ratio=None, excess_ns_per_step=None, limiter=None),
        ],
        kernels=[
            KernelRow(
                name=FLASH,
                klass="attention_decode",
                grid=[1, 8, 64],
                block=[128, 1, 1],
                instances=1_216,
                total_ns=49_856_000,
                p50_ns=41_000,
                min_ns=40_100,
                max_ns=44_000,
                role="attn.core",
                ratio=2.0467,
            ),
            KernelRow(
                name=FOREIGN,
                klass="fill",
                grid=[1, 1, 1],
                block=[128, 1, 1],
                instances=38,
                total_ns=57_000,
                p50_ns=1_500,
                min_ns=1_400,
                max_ns=1_900,
                role=None,
                ratio=None,
            ),
        ],
        gaps=[
            Gap(
                gpu=0,
                start_ns=10_000 * n,
                end_ns=10_000 * n + 1_000 + 100 * n,
                cause="between_graphs" if n % 2 else "in_graph",
                before=FLASH,
                after=NVJET,
                position="in step",
            )
            for n in range(12)
        ],
        unexplained=[
            UnexplainedRow(
                name=FOREIGN,
                klass="fill",
                grid=[1, 1, 1],
                instances=38,
                total_ns=57_000,
                share=0.002_4,
                hint="no operator of the model does this",
            )
        ],
        impossible=[
            ImpossibleRow(
                role="mlp.act",
                ratio=0.8053,
                hard=True,
                likely_cause="cache",
                evidence="the 688,128 bytes of one instance fit into the 50 MB L2 of the GPU",
            )
        ],
        links=[
            LinkRow(
                kind="h2d",
                gpu=0,
                copies=80,
                bytes=1_048_576,
                busy_ns=160_000,
                bytes_per_s=6.5536e9,
                peak_bytes_per_s=64e9,
                ratio=9.77,
                overlapped_share=0.25,
                copies_per_step=2.0,
                bytes_per_step=26_214.4,
                busy_ns_per_step=4_000.0,
                step_share=4_000 / 6_100_000,
                parts=[
                    LinkPart(
                        size="<64 kB",
                        memory=memory,
                        copies=40,
                        bytes=524_288,
                        busy_ns=80_000,
                        bytes_per_s=6.5536e9,
                        ratio=None,
                    )
                    for memory in ("pageable", "pinned")
                ],
                note="copies of less than 1 MB are bound by latency",
            )
        ],
        host=Host(launch_calls=420, launch_ns=2_100_000, sync_ns=31_000_000),
    )


def ranks() -> Report:
    """Return the full sample on two GPUs; the second is behind by 8.4 of a step of 153.4 ms."""
    quick = RankRow(
        gpu=0,
        name="NVIDIA H100 80GB HBM3",
        pids=[4711],
        steps=1_038,
        wall_p50_ns=153_400_000,
        tokens_per_s=52.15,
        work_ns_per_step=120_000_000.0,
        collective_ns_per_step=28_400_000.5,
        wait_ns_per_step=8_400_000.0,
        transfer_ns_per_step=20_000_000.5,
        idle_ns_per_step=5_000_000.0,
        idle_cause="between_graphs",
        idle_cause_ns_per_step=3_000_000.0,
        behind_ns=0,
        decided_by="own_time",
    )
    slow = msgspec.structs.replace(
        quick,
        gpu=1,
        pids=[4712],
        work_ns_per_step=128_400_000.0,
        collective_ns_per_step=20_000_000.5,
        wait_ns_per_step=0.0,
        behind_ns=8_400_000,
        slowest=True,
    )
    rows = [
        CollectiveRow(
            role="attn.all_reduce",
            gpu=gpu,
            instances=1_038 * 32,
            wait_ns=wait,
            transfer_ns=625_000,
            skew_ns=262_500,
            wait_total_ns=wait * 1_038 * 32,
            transfer_total_ns=625_000 * 1_038 * 32,
            wait_ns_per_step=wait * 32.0,
            transfer_ns_per_step=20_000_000.0,
            method="arrival",
        )
        for gpu, wait in ((0, 262_500), (1, 0))
    ]
    return msgspec.structs.replace(full(), ranks=[quick, slow], collectives=rows)


def run() -> Ranks:
    """Return the same two ranks in a file each, with a clock in common; the names are the worst."""
    report = ranks()
    return Ranks(
        tool_version="0.1.0",
        phase="decode",
        common_steps=1_038,
        files=[
            RankFile(
                file=at,
                name=f"rank{at}{WORST_NAMES[2 + at]}.sqlite",
                nsys_version="2026.1.1.204",
                gpus=[at],
                steps=1_038,
                axis=0,
                clock="system" if at else None,
                offset_ns=86_400_000_000_001 * at,
            )
            for at in range(2)
        ],
        ranks=[
            FileRankRow(**msgspec.structs.asdict(row), rank=at, file=at)
            for at, row in enumerate(report.ranks)
        ],
        collectives=[
            FileCollectiveRow(**msgspec.structs.asdict(row), rank=row.gpu, file=row.gpu)
            for row in report.collectives
        ],
        findings=[finding("slow-rank", "warning", name) for name in WORST_NAMES],
    )


def empty() -> Report:
    """Return the report of a capture without a single kernel."""
    nothing = finding("no-kernels", "error", "no GPU kernel records; 5 launch calls were traced")
    return Report(
        tool_version="0.1.0",
        capture=capture(
            nsys_version=None,
            schema_version=None,
            graph_mode="unknown",
            trace_kind="unknown",
            kernels=0,
            kernels_used=0,
            set_aside=0,
            set_aside_reasons={},
            launches=5,
            graph_launches=0,
            graph_kernels=0,
            copies=0,
            fills=0,
            process_list=[],
            devices=[],
            events_collected=None,
            events_found=0,
            findings=[nothing],
        ),
        assumptions=Assumptions(),
        coverage=Coverage(time_explained=None, count_explained=None),
        timeline=[],
        phases=[],
        steps=Steps(count=0, source=None, phase=None, wall_ns=None),
        budget=None,
        step_bounds=None,
        operators=[],
        kernels=[],
        gaps=[],
        unexplained=[],
        impossible=[],
        links=[],
        host=Host(launch_calls=5, launch_ns=50_000, sync_ns=0),
    )


WORST_NAMES = (
    "k" * 10_000,
    "</script><script>alert(1)</script>",
    "[bold]not bold[/bold] [red]not red",
    "left\u202eright\u2066inside\u2069\u200f",
    "tab\there\nnew line\r\nback\\slash\x1b[31mred\x85\u2028end",
    "a | pipe ` and `` ticks",
    "宽" * 200,
    "",
)
"""Kernel names and NVTX texts as an enemy would write them."""


def worst() -> Report:
    """Return the full sample with every kind of bad name wherever a name may stand."""
    report = full()
    names = WORST_NAMES
    return msgspec.structs.replace(
        report,
        capture=capture(
            devices=[CaptureDevice(gpu=0, name=names[3], kernels=1)],
            findings=[finding("nvtx-low-coverage", "warning", name) for name in names],
        ),
        assumptions=msgspec.structs.replace(report.assumptions, model=names[2], gpu=names[4]),
        operators=[operator(f"attn.core{n}", kernels=[name]) for n, name in enumerate(names)],
        kernels=[msgspec.structs.replace(report.kernels[0], name=name) for name in names],
        gaps=[
            msgspec.structs.replace(gap, before=name, after=name)
            for gap, name in zip(report.gaps, names, strict=False)
        ],
        unexplained=[
            msgspec.structs.replace(report.unexplained[0], name=name, hint=name) for name in names
        ],
        impossible=[msgspec.structs.replace(report.impossible[0], evidence=n) for n in names],
    )


def estimate() -> Estimate:
    """Return an estimate of one matmul and one attention."""
    rows = [
        EstimateRow(
            role="attn.qkv_proj",
            kind="gemm",
            count=32,
            flop=402_653_184,
            bytes=OperatorBytes(weight=50_331_648, act_read=65_536, act_write=98_304),
            bound_ns=15_073.0,
            min_bound_ns=None,
            limiter="memory",
            intensity=7.97,
            dtype="bf16",
            formula="2*m*n*k",
            inputs={"m": 8, "n": 6144, "k": 4096},
        ),
        EstimateRow(
            role="attn.core",
            kind="attention_decode",
            count=32,
            flop=536_870_912,
            bytes=OperatorBytes(kv_read=134_217_728, act_read=65_536, act_write=65_536),
            bound_ns=40_104.0,
            min_bound_ns=None,
            limiter="memory",
            intensity=None,
            dtype="bf16",
            formula="4*q*kv*d*h",
            inputs={"q": 1, "kv": 4096},
        ),
    ]
    return Estimate(
        tool_version="0.1.0",
        assumptions=full().assumptions,
        operators=rows,
        layer=EstimateLayer(
            layers=32,
            bytes=570_000_000,
            bound_ns=170_000.0,
            activation_bytes=1_500_000,
            bound_with_activations_ns=170_500.0,
            small_kernels=5,
        ),
        step=EstimateStep(
            serial_ns=5_000_000.0,
            serial_with_activations_ns=5_010_000.0,
            hard_ns=4_880_000.0,
            weights_once_ns=4_800_000.0,
            small_kernels_ns=320_000.0,
            tokens=8.0,
            tokens_per_s=1_600.0,
            tokens_per_s_with_small_kernels=1_503.8,
            bytes=16_080_000_000,
            flop=130_000_000_000,
        ),
        memory=EstimateMemory(
            weight_bytes=16_060_000_000,
            kv_bytes=4_294_967_296,
            capacity_bytes=80_000_000_000,
            gpus_needed=1,
        ),
        ridge={"bf16": 295.3},
        experts=None,
        parameters={"total": 8_030_261_248},
        notes=["lm_head keeps bf16"],
    )
