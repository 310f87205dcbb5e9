"""``nsysroof whatif``: the measured step on another GPU, or with another format, batch or split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from nsysroof.cli.options import (
    OutputOptions,
    SelectionOptions,
    TheoryOptions,
    TraceOrReport,
    grouped,
)
from nsysroof.cli.output import choose_destination
from nsysroof.cli.reading import check_strictly, is_saved_report, read_runs


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOptions:
    """What is to be different."""

    gpu: Annotated[str | None, typer.Option("--gpu", metavar="NAME|FILE", help="Another GPU.")] = (
        None
    )
    batch: Annotated[
        int | None, typer.Option("--batch", metavar="N", min=1, help="Sequences in a step.")
    ] = None
    context: Annotated[
        str | None,
        typer.Option("--context", metavar="N|N1,N2,…", help="KV length of every sequence."),
    ] = None
    new_tokens: Annotated[
        int | None,
        typer.Option("--new-tokens", metavar="N", min=1, help="New tokens of each sequence."),
    ] = None
    weights: Annotated[
        str | None, typer.Option("--weights", metavar="FORMAT", help="Weights: fp8, awq, mxfp4 …")
    ] = None
    kv: Annotated[str | None, typer.Option("--kv", metavar="FORMAT", help="KV cache.")] = None
    activations: Annotated[
        str | None,
        typer.Option("--activations", metavar="FORMAT", help="Inputs of the linear layers."),
    ] = None
    tp: Annotated[
        int | None, typer.Option("--tp", metavar="N", min=1, help="Tensor-parallel GPUs.")
    ] = None
    ep: Annotated[
        int | None, typer.Option("--ep", metavar="N", min=1, help="Expert-parallel GPUs.")
    ] = None
    dp: Annotated[
        int | None, typer.Option("--dp", metavar="N", min=1, help="Data-parallel attention ranks.")
    ] = None
    peak: Annotated[
        list[str] | None,
        typer.Option("--peak", metavar="KEY=VALUE", help="Another peak, such as bw=8e12."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOptions:
    """What a trace was taken with; a saved report knows it."""

    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME|FILE", help="Model that was measured."),
    ] = None
    from_gpu: Annotated[
        str | None,
        typer.Option("--from-gpu", metavar="NAME|FILE", help="GPU of the trace; default: its own."),
    ] = None
    from_batch: Annotated[
        int | None,
        typer.Option("--from-batch", metavar="N", min=1, help="Batch of the trace."),
    ] = None
    from_context: Annotated[
        str | None,
        typer.Option("--from-context", metavar="N|N1,N2,…", help="KV length in the trace."),
    ] = None
    from_tp: Annotated[
        int, typer.Option("--from-tp", metavar="N", min=1, help="Tensor-parallel GPUs traced.")
    ] = 1


@grouped
def whatif(
    report: TraceOrReport,
    *,
    change: ChangeOptions,
    measured: MeasuredOptions,
    selection: SelectionOptions,
    output: OutputOptions,
) -> None:
    """Tell what the measured step would take on another GPU, or with another format or batch.

    Every operator is priced again and keeps its measured efficiency; idle time, unexplained
    kernels and those at the latency floor keep their time. A trace needs --model, --from-batch
    and --from-context, and more than that takes a report (`nsysroof analyze … -o run.json`).
    """
    destination = choose_destination(output, source=report)
    given = TheoryOptions(
        gpu=measured.from_gpu,
        batch=measured.from_batch,
        context=measured.from_context,
        tp=measured.from_tp,
    )
    # The model of a saved report is in it; here it may be needed to find its file again.
    model = None if is_saved_report(report) else measured.model
    (run,) = read_runs([report], model, given, selection)

    from nsysroof.carryover import Change, carry_over
    from nsysroof.theory.workload import parse_contexts

    wanted = Change(
        model=measured.model,
        gpu=change.gpu,
        batch=change.batch,
        context=None if change.context is None else parse_contexts(change.context),
        new_tokens=change.new_tokens,
        weights=change.weights,
        kv=change.kv,
        activations=change.activations,
        tp=change.tp,
        ep=change.ep,
        dp=change.dp,
        peaks=tuple(change.peak or ()),
    )
    destination.write(carry_over(run, wanted))
    check_strictly(run, selection)
