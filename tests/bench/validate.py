"""Hold the bounds against published measurements: ``python -m tests.bench.validate`` writes
``docs/validation.md``.

Each row has a time or a rate that somebody published with enough inputs to work its bound out. A
ratio below 1 has a remark that says why; the remark is required.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from nsysroof.theory.cost import Cost
from nsysroof.theory.dtypes import activation_format, weight_format
from nsysroof.theory.estimate import estimate
from nsysroof.theory.gpus import find_gpu
from nsysroof.theory.models.spec import ModelSpec, find_model
from nsysroof.theory.operators.attention import attention
from nsysroof.theory.operators.collective import Algorithm, exchange
from nsysroof.theory.operators.gemm import LinearFormat, gemm
from nsysroof.theory.operators.moe import expected_experts
from nsysroof.theory.roofline import bound, exchange_ns
from nsysroof.theory.workload import Workload
from nsysroof.units import format_rate, format_time

PAGE = Path(__file__).parents[2] / "docs/validation.md"

IN_L2 = "the weights fit into the 96 MiB of L2, so the memory need not move them"
SKEWED = "routing is skewed here: fewer experts are read than the expectation; the least stands"
RING = "below a ring's bound: the switch adds up, and that is the bound of the row above"
LATENCY = "the latency of the exchange, not its bytes"
HALF_CACHED = (
    "0.2 % below: 268 MB move, up to 50 of which the L2 may hold from the run before, and the rate "
    "was published in whole TFLOP/s"
)
STORED = "faster than the roof with attention and head in bf16: the file holds them in 8 bits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One published figure beside its bound; both are times, or both are rates."""

    source: str
    what: str
    gpu: str
    published: str
    bound: str
    ratio: float
    remark: str = ""


def _time(source: str, what: str, gpu: str, us: float, bound_ns: float, remark: str = "") -> Row:
    return Row(
        source=source,
        what=what,
        gpu=gpu,
        published=format_time(us * 1e3),
        bound=format_time(bound_ns),
        ratio=us * 1e3 / bound_ns,
        remark=remark,
    )


def _rate(
    source: str, what: str, gpu: str, key: str, rate: float, *, peak: float | None = None
) -> Row:
    known = find_gpu(gpu).dense_peaks().value(key) if peak is None else peak
    assert known is not None
    unit = "B" if key in ("bw", "h2d", "d2h", "p2p", "nvlink", "c2c", "host") else "FLOP"
    return Row(
        source=source,
        what=what,
        gpu=gpu,
        published=format_rate(rate, unit),
        bound=format_rate(known, unit),
        ratio=known / rate,
    )


def _cost_ns(cost: Cost, gpu: str) -> float:
    found = bound(cost, find_gpu(gpu).dense_peaks()).spec_ns
    assert found is not None
    return found


def _linear(weights: str, activations: str) -> LinearFormat:
    return LinearFormat(
        weights=weight_format(weights), activations=activation_format(activations), output="bf16"
    )


BF16 = _linear("bf16", "bf16")
FP8 = _linear("fp8-block", "fp8-block")


def _experts_ns(gpu: str, tokens: int, distinct: float) -> float:
    """Return the bound of both expert products of Qwen3-30B-A3B in bf16: their weights."""
    rows, one = 8 * tokens, 3 * 2048 * 768
    return _cost_ns(Cost(flop={"bf16": 2 * rows * one}, weight=round(distinct * one * 2)), gpu)


def moe_kernels() -> Iterator[Row]:
    """Fused experts of Qwen3-30B-A3B in bf16, 128 experts of which 8 are chosen."""
    source = "aiconfigurator, MoE kernels"
    balanced = {
        "a100-sxm-80": 794, "h100-sxm": 412.8, "h200-sxm": 292.1, "b200": 180, "gb200": 172,
        "l40s": 1666, "rtxpro6000-se": 804,
    }  # fmt: skip
    for gpu, us in balanced.items():
        yield _time(
            source, "16 tokens, balanced: all 128 experts", gpu, us, _experts_ns(gpu, 16, 128)
        )
    single = {"a100-sxm-80": 81.3, "h100-sxm": 44.6, "h200-sxm": 36.6, "b200": 17.5, "l40s": 30.5}
    for gpu, us in single.items():
        remark = IN_L2 if gpu == "l40s" else ""
        yield _time(source, "1 token: 8 experts", gpu, us, _experts_ns(gpu, 1, 8), remark)
    expected = expected_experts(128, 8, 16)
    for gpu, us in {"h100-sxm": 220.0, "h200-sxm": 154.0}.items():
        what = f"16 tokens, power law: {expected:.1f} experts expected"
        yield _time(source, what, gpu, us, _experts_ns(gpu, 16, expected), SKEWED)
        yield _time(source, "the same: 8 experts at the least", gpu, us, _experts_ns(gpu, 16, 8))


def moe_by_batch() -> Iterator[Row]:
    """Fused experts over the batch: their time has the shape of the expected experts."""
    measured = {1: 109.2, 2: 159.8, 4: 268.9, 8: 403.1, 16: 611.2, 32: 808.5, 64: 917.0}
    for tokens, us in measured.items():
        distinct = expected_experts(128, 8, tokens)
        what = f"experts of Qwen3-30B-A3B bf16, {tokens} tokens: {distinct:.1f} expected"
        gpu = "a100-pcie-40"
        yield _time("vllm#19049", what, gpu, us, _experts_ns(gpu, tokens, distinct))


def matrix_vector() -> Iterator[Row]:
    """Projections of one token of Qwen3-30B-A3B in bf16, the fastest run of each."""
    source = "aiconfigurator, GEMV"
    qkv = {"h200-sxm": 8.2, "h100-sxm": 10.1, "a100-sxm-80": 16.5, "b200": 5.8, "l40s": 27.6}
    for gpu, us in qkv.items():
        ns = _cost_ns(gemm(1, 5120, 2048, fmt=BF16), gpu)
        yield _time(source, "QKV, 1 x 2048 to 5120", gpu, us, ns)
    for gpu, us in {"h200-sxm": 8.4, "l40s": 10.4}.items():
        ns = _cost_ns(gemm(1, 2048, 4096, fmt=BF16), gpu)
        yield _time(source, "O, 1 x 4096 to 2048", gpu, us, ns, IN_L2 if gpu == "l40s" else "")


def decode_attention() -> Iterator[Row]:
    """Paged decode attention, 32 heads to 4 KV heads of 128, bf16."""
    cost = attention([1] * 64, [4095] * 64, heads=32, kv_heads=4, head_dim=128)
    fastest = {"a100-sxm-80": 422, "h100-sxm": 184, "h200-sxm": 132, "b200": 81, "l40s": 741}
    for gpu, us in fastest.items():
        what = "decode, 64 sequences of 4,096"
        yield _time("aiconfigurator, attention", what, gpu, us, _cost_ns(cost, gpu))


def collectives() -> Iterator[Row]:
    """NCCL all-reduces over 8 GPUs."""
    source = "aiconfigurator, NCCL"
    sizes = (16_384, 131_072, 2_097_152, 33_554_432, 536_870_912)
    times = {
        "a100-sxm-80": (22.6, 27.4, 53.7, 367.0, 4226.0),
        "h100-sxm": (16.6, 19.0, 38.2, 197.4, 2111.0),
        "h200-sxm": (17.3, 18.8, 37.5, 195.8, 2040.0),
        "b200": (25.6, 28.1, 31.6, 167.8, 1334.6),
    }
    for gpu, each in times.items():
        peaks = find_gpu(gpu).dense_peaks()
        way = Algorithm.IN_SWITCH if peaks.in_switch_reduction else Algorithm.RING
        for size, us in zip(sizes, each, strict=True):
            ns = exchange_ns(exchange("all_reduce", way, size, 8), peaks)
            assert ns is not None
            remark = LATENCY if size <= sizes[1] else ""
            yield _time(source, f"all-reduce of {size:,} B, {way}", gpu, us, ns, remark)
    peaks = find_gpu("h200-sxm").dense_peaks()
    ring = exchange_ns(exchange("all_reduce", Algorithm.RING, sizes[-1], 8), peaks)
    assert ring is not None
    what = f"all-reduce of {sizes[-1]:,} B, as a ring"
    yield _time(source, what, "h200-sxm", 2040.0, ring, RING)


def products() -> Iterator[Row]:
    """The best rate over many shapes, and single shapes of FP8 products."""
    source = "stas00/ml-engineering, MAMF"
    bf16 = {
        "a100-sxm-80": 271.2, "a100-pcie-80": 252.9, "h100-sxm": 794.5, "gh200-144": 828.6,
        "b200": 1745.0, "gb200": 1822.0, "b300": 1769.0,
    }  # fmt: skip
    fp8 = {
        "h100-sxm": 1402.6, "h200-sxm": 1453.0, "gh200-144": 1535.0, "b200": 3432.5,
        "gb200": 3615.6, "b300": 3353.0,
    }  # fmt: skip
    for key, rates in (("bf16", bf16), ("fp8", fp8)):
        for gpu, teraflop in rates.items():
            yield _rate(source, f"best product in {key}", gpu, key, teraflop * 1e12)
    source = "DeepGEMM, pull requests 73, 74 and 81"
    shapes = {
        (4096, 7168, 16384): 1500.0, (4096, 24576, 1536): 1204.0, (4096, 32768, 512): 748.0,
        (64, 2112, 7168): 206.0, (128, 2112, 7168): 352.0, (128, 4096, 7168): 533.0,
        (128, 7168, 2048): 510.0,
    }  # fmt: skip
    for (m, n, k), teraflop in shapes.items():
        cost = gemm(m, n, k, fmt=FP8)
        us = cost.total_flop / (teraflop * 1e12) * 1e6
        yield _time(source, f"FP8 {m} x {n} x {k}", "h800-sxm", us, _cost_ns(cost, "h800-sxm"))
    groups = gemm(8192, 4096, 7168, fmt=FP8) * 4
    us = groups.total_flop / 1381e12 * 1e6
    what = "FP8, 4 groups of 8192 x 4096 x 7168"
    yield _time(source, what, "h800-sxm", us, _cost_ns(groups, "h800-sxm"))


def memory_kernels() -> Iterator[Row]:
    """Streams, gathers and attention that read memory at a published rate."""
    streams = {
        "a100-sxm-80": 1880e9, "a100-sxm-40": 1503e9, "h100-pcie": 2016e9, "v100-pcie": 895e9,
        "l40": 846e9, "a40": 679e9,
    }  # fmt: skip
    for gpu, rate in streams.items():
        yield _rate("te42kyfo/gpu-benches", "fastest STREAM kernel", gpu, "bw", rate)
    yield _rate("GH200 memory study", "STREAM on the GPU", "gh200-96", "bw", 3400e9)
    yield _rate("FBGEMM#3993", "token gather", "h100-sxm", "bw", 2771e9)
    yield _rate("FBGEMM#3993", "scatter and add", "h100-sxm", "bw", 2536e9)
    yield _rate("deepseek-ai/FlashMLA", "latent decode, memory bound", "h800-sxm", "bw", 3000e9)
    yield _rate("deepseek-ai/FlashMLA", "latent decode, compute bound", "h800-sxm", "bf16", 660e12)
    yield _rate("deepseek-ai/FlashMLA", "sparse prefill", "h800-sxm", "bf16", 640e12)
    yield _rate("deepseek-ai/FlashMLA", "prefill, all heads", "b200", "bf16", 1460e12)
    yield _rate("FlashMLA#30", "latent decode, compute bound", "h20", "bf16", 130e12)
    what = "latent decode, 256 sequences of 16,384"
    yield _rate("flashinfer#551", what, "rtx4090", "bw", 943.6e9)


def prefill_attention() -> Iterator[Row]:
    """FlashAttention 3, forward, causal, bf16: 16,384 tokens in all, 16 heads of 128."""
    published = {512: 430, 1024: 517, 2048: 566, 4096: 590, 8192: 614, 16384: 621}
    for length, teraflop in published.items():
        batch = 16_384 // length
        cost = attention([length] * batch, [0] * batch, heads=16, kv_heads=16, head_dim=128)
        # They count half of the full square: 2·S²·heads·head_dim per sequence.
        us = 2 * length**2 * 16 * 128 * batch / (teraflop * 1e12) * 1e6
        what = f"causal forward, {batch} x {length:,}"
        ns = _cost_ns(cost, "h100-sxm")
        remark = HALF_CACHED if length == 512 else ""
        yield _time("pytorch/benchmark, FA3", what, "h100-sxm", us, ns, remark)


def links() -> Iterator[Row]:
    """Copies and exchanges over links."""
    source = "nvbandwidth"
    yield _rate(source, "peer copy, one direction", "h200-sxm", "nvlink", 396.4e9)
    yield _rate(source, "host to device, copy engine", "h200-sxm", "h2d", 55.43e9)
    yield _rate(source, "device to host, copy engine", "h200-sxm", "d2h", 55.06e9)
    yield _rate(f"{source}#24", "device to host, by a kernel", "h100-sxm", "d2h", 52.8e9)
    yield _rate(f"{source}#24", "host to device, by a kernel", "h100-sxm", "h2d", 35e9)
    yield _rate(f"{source}#50", "peer copy over PCIe 4", "a6000", "h2d", 26.3e9)
    what = "host to device, 480 GB module: host memory"
    yield _rate(f"{source}#23", what, "gh200-96", "host", 346e9, peak=384e9)
    study = "GH200 memory study"
    yield _rate(study, "host to device", "gh200-96", "h2d", 375e9)
    yield _rate(study, "device to host", "gh200-96", "d2h", 297e9)
    yield _rate("FreeToken", "host to device, copy engine", "gh200-96", "h2d", 418e9)
    for fmt, few, many in (("bf16", 202, 408), ("mxfp4", 212, 408), ("nvfp4", 222, 410)):
        for blocks, rate in ((8, few), (32, many)):
            what = f"gather of experts, {fmt}, {blocks} blocks"
            yield _rate("FreeToken", what, "gh200-96", "c2c", rate * 1e9)
    yield _rate("sglang#40278", "host to device, copy engine", "gb300", "h2d", 210e9)
    yield _rate("sglang#40278", "device to host, copy engine", "gb300", "d2h", 192e9)
    yield _rate("DeepEP", "dispatch inside a node", "h800-sxm", "nvlink", 153e9)
    yield _rate("DeepEP", "combine inside a node", "h800-sxm", "nvlink", 158e9)
    yield _rate("DeepEP", "exchange over 8 GPUs", "b200", "nvlink", 740e9)
    yield _rate("DeepEP#16", "dispatch inside a node", "h20", "nvlink", 337e9)


def _step_ns(model: ModelSpec, gpu: str, **step: Any) -> float:
    return estimate(model, find_gpu(gpu), Workload.create(**step)).step.serial_ns


def _tokens(
    source: str, what: str, gpu: str, rate: float, ns: float, *, per_step: float = 1.0
) -> Row:
    return _time(source, what, gpu, per_step / rate * 1e6, ns)


def steps() -> Iterator[Row]:
    """Whole decode steps of one sequence."""
    source = "pytorch-labs/gpt-fast"
    gpu = "a100-sxm-80"
    seven, seventy = find_model("llama-2-7b"), find_model("llama-2-70b")
    int8 = {"weights": "int8", "activations": "bf16"}
    formats: tuple[dict[str, Any], ...] = ({}, int8, {"weights": "gptq"})
    for step, name, rate in zip(
        formats, ("bf16", "int8", "int4"), (104.9, 155.58, 196.8), strict=True
    ):
        ns = _step_ns(seven, gpu, context=128, **step)
        yield _tokens(source, f"Llama-2-7B {name}", gpu, rate, ns)
    for step, name, rate in zip(formats[1:], ("int8", "int4"), (19.13, 25.25), strict=True):
        ns = _step_ns(seventy, gpu, context=128, **step)
        yield _tokens(source, f"Llama-2-70B {name}", gpu, rate, ns)
    for model, name, rates in (
        (seven, "7B", {2: 168.84, 4: 254.02, 8: 328.43}),
        (seventy, "70B", {2: 21.32, 4: 38.01, 8: 62.50}),
    ):
        for tp, rate in rates.items():
            ns = _step_ns(model, gpu, context=128, tp=tp)
            yield _tokens(source, f"Llama-2-{name} bf16, TP {tp}", gpu, rate, ns)
    ns = _step_ns(find_model("llama-3.2-1b"), "h100-sxm", context=128)
    yield _time("Hazy Research", "Llama-3.2-1B megakernel", "h100-sxm", 946.0, ns)
    yield from _small_machines()
    yield from _drafted()


def _small_machines() -> Iterator[Row]:
    oss = find_model("gpt-oss-20b")
    rates = {32: 79.74, 4096: 74.63, 8192: 69.49, 16384: 64.02}
    for context, rate in rates.items():
        found = estimate(oss, find_gpu("gb10"), Workload.create(context=context))
        wide = _eight_bits_outside_experts(context)
        what = f"gpt-oss-20b, context {context:,}"
        if found.step.serial_ns > 1e9 / rate:
            row = _tokens(
                "llama.cpp on DGX Spark",
                f"{what}, head in bf16",
                "gb10",
                rate,
                found.step.serial_ns,
            )
            yield Row(**{**_fields(row), "remark": STORED})
        yield _tokens(
            "llama.cpp on DGX Spark", f"{what}, all in 8 bits or less", "gb10", rate, wide
        )
    llama = find_model("llama-3.1-70b")
    ns = _step_ns(llama, "gb10", context=128, weights="fp8")
    yield _tokens("vLLM on DGX Spark", "Llama-3.1-70B FP8", "gb10", 2.7, ns)
    ns = _step_ns(find_model("qwen3-30b-a3b"), "rtx5090", context=128, weights="q4_k")
    yield _tokens("sparkinfer#230", "Qwen3-30B-A3B in 4 bits", "rtx5090", 470.0, ns)
    for gpu, rate in (("orin", 22.5), ("a6000", 102.8)):
        ns = _step_ns(find_model("llama-2-7b"), gpu, context=128, weights="q4_0")
        yield _tokens("holohub#170", "7B in 4 bits", gpu, rate, ns)


def _eight_bits_outside_experts(context: int) -> float:
    """Return a step of gpt-oss-20b whose attention and head lie in Q8_0, as its file holds them."""
    peaks = find_gpu("gb10").dense_peaks()
    eight = weight_format("q8_0")
    total = 0.0
    for row in estimate(
        find_model("gpt-oss-20b"), peaks, Workload.create(context=context)
    ).operators:
        size = row.bytes.weight + row.bytes.scale + row.bytes.kv_read
        if row.kind in ("gemm", "router_gemm") and row.role != "moe.router":
            size = round(row.bytes.weight * (8 + eight.scale_bits / 32) / 16)
        if row.kind in ("gemm", "router_gemm", "moe_gemm", "attention_decode"):
            total += row.count * (bound(Cost(weight=size), peaks).spec_ns or 0.0)
    return total


def _drafted() -> Iterator[Row]:
    """DeepSeek-R1 in FP4 over 8 B200, one user: steps per second are tokens over accepted length."""
    ns = _step_ns(find_model("deepseek-r1"), "b200", context=1024, weights="nvfp4", tp=8)
    source = "TensorRT-LLM, R1 minimum latency"
    yield _tokens(source, "no drafts, 111 tokens/s", "b200", 111.0, ns)
    accepted = {1: (1.92, 198.0), 2: (2.58, 250.0), 3: (2.82, 253.0)}
    for drafts, (length, rate) in accepted.items():
        verify = _step_ns(
            find_model("deepseek-r1"), "b200", context=1024, weights="nvfp4", tp=8,
            new_tokens=drafts + 1,
        )  # fmt: skip
        what = f"{drafts} drafts, {rate:.0f} tokens/s: {length} a step"
        yield _tokens(source, what, "b200", rate, verify, per_step=length)
    verify = _step_ns(
        find_model("deepseek-r1"), "b200", context=1024, weights="nvfp4", tp=8, new_tokens=4
    )
    yield _tokens(
        source, "3 drafts, 368 tokens/s: 2.82 a step", "b200", 368.0, verify, per_step=2.82
    )


def compression() -> Iterator[Row]:
    """The speed-up that 4-bit weights can give is that of their bytes."""
    fmt = weight_format("gptq")
    size = fmt.payload_bytes(4096, 4096) + fmt.scale_bytes(4096, 4096)
    most = 2 * 4096**2 / size
    yield Row(
        source="MARLIN",
        what="speed-up of 4-bit weights with groups of 128",
        gpu="a10",
        published="3.87",
        bound=f"{most:.3f}",
        ratio=most / 3.87,
    )


def _fields(row: Row) -> dict[str, Any]:
    return {name: getattr(row, name) for name in Row.__slots__}


PARTS: Sequence[tuple[str, Callable[[], Iterator[Row]]]] = (
    ("Experts", moe_kernels),
    ("Experts over the batch", moe_by_batch),
    ("Products of one token", matrix_vector),
    ("Decode attention", decode_attention),
    ("Prefill attention", prefill_attention),
    ("All-reduce", collectives),
    ("Large products", products),
    ("Streams, gathers and latent attention", memory_kernels),
    ("Links", links),
    ("Whole steps", steps),
    ("Compression", compression),
)

HEAD = """\
# The bounds against published measurements

Written by `python -m tests.bench.validate`; a test keeps it up to date. Times are compared as
measured / bound, rates as peak / measured, so that 1 is the roof and a larger ratio is slower. Where
a range was published the fastest figure stands here.

Left out for want of inputs: kernel averages over a profile (InferenceX#863, vllm#9471), fused experts
without a GPU or a batch (vllm#24700, Megatron-LM#6064, DeepGEMM#383), and the throughput of whole
deployments (LMSYS on 96 H100).

{count} figures from {sources} sources: {below} lie below 1, and each says why.
"""


def _ratio(ratio: float) -> str:
    """Return a ratio with two decimals, or with three where two would hide that it is below 1.

    >>> _ratio(1.344), _ratio(0.9977)
    ('1.34', '0.998')
    """
    return f"{ratio:.3f}" if 0.995 <= ratio < 1 else f"{ratio:.2f}"


def rows() -> list[tuple[str, Row]]:
    """Return every figure with the part it belongs to."""
    return [(title, row) for title, part in PARTS for row in part()]


def page() -> str:
    """Return the page.

    Raises:
        ValueError: A ratio below 1 has no remark.
    """
    each = rows()
    unexplained = [row for _, row in each if row.ratio < 1 and not row.remark]
    if unexplained:
        raise ValueError(f"below 1 without a reason: {unexplained}")
    below = sum(row.ratio < 1 for _, row in each)
    text = HEAD.format(count=len(each), sources=len({row.source for _, row in each}), below=below)
    for title, group in groupby(each, key=lambda pair: pair[0]):
        text += f"\n## {title}\n\n"
        text += "| source | figure | GPU | published | bound | ratio | remark |\n"
        text += "| --- | --- | --- | ---: | ---: | ---: | --- |\n"
        for _, row in group:
            cells = (
                row.source,
                row.what,
                row.gpu,
                row.published,
                row.bound,
                _ratio(row.ratio),
                row.remark,
            )
            text += f"| {' | '.join(cells)} |\n"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
