"""How long the GPU idles and why, and the gaps themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count as counter

from nsysroof.report.blocks import Block, Grid, Row, Section, count, name, number, word
from nsysroof.report.sheets import largest_gaps
from nsysroof.results import Gap, Host, HostLateRow, KernelWindow, Timeline
from nsysroof.units import format_share, format_time, format_us, format_us_exact

CAUSES = {
    "in_graph": "inside one graph replay",
    "between_graphs": "from one graph replay to the next",
    "host_late": "the host launched too late",
    "sync": "the host waited in a synchronising call",
    "dependency": "launched in time, but had to wait",
    "profiler": "the profiler itself",
    "outside_steps": "before, after or far between the steps",
    "unknown": "no launch call to judge by",
}
"""What each cause of idle time means."""

DOING = {
    "os_call": "in a call of the OS runtime",
    "launching": "from the beginning of the launch call on",
    "no_call": "none recorded: it ran, or in short calls",
}
"""What a launching thread can be doing while the GPU waits for a late host."""

_HOST_SHOWN = 3

PerStep = Callable[[int], float | None]


def idle_section(
    timeline: list[Timeline],
    *,
    per_step: PerStep | None = None,
    host: Host | None = None,
    host_late: Sequence[HostLateRow] = (),
) -> Section:
    """Return the account of each GPU and its idle time by cause.

    Args:
        timeline: One account per GPU.
        per_step: Turns ns of a whole window into ns per step, where steps are known.
        host: What the host did, if it is to be told.
        host_late: What the launching threads did while a late host was waited for.
    """
    blocks: list[Block] = []
    for account in timeline:
        blocks += _account(account, per_step)
        blocks += _late(account.gpu, [row for row in host_late if row.gpu == account.gpu])
    if host is not None and timeline:
        blocks.append(
            f"The host: {count(host.launch_calls, 'launch call')} took "
            f"{format_time(host.launch_ns)}, synchronising calls {format_time(host.sync_ns)}; "
            "evidence for the causes, not time to win back."
        )
    return Section(
        title="Idle time by cause",
        blocks=tuple(blocks) or ("No GPU was active, so there is no idle time to speak of.",),
    )


def largest_gaps_section(gaps: list[Gap]) -> Section:
    """Return the longest gaps, with what ran before and after each."""
    title = "Largest gaps"
    if not gaps:
        return Section(title=title, blocks=("None.",))
    blocks = (_gaps_grid(largest_gaps(gaps)), "`nsysroof gaps TRACE` lists every gap.")
    return Section(title=title, blocks=blocks)


def all_gaps_section(gaps: list[Gap]) -> Section:
    """Return every gap in order of time."""
    ordered = sorted(gaps, key=lambda gap: (gap.gpu, gap.start_ns, gap.end_ns))
    blocks = (_gaps_grid(ordered),) if gaps else ("None.",)
    return Section(title="Gaps", blocks=blocks)


def _account(account: Timeline, per_step: PerStep | None) -> list[Block]:
    """Return the sums of one GPU in words, and the causes that have any time."""
    opening = (
        f"GPU {account.gpu}: window {format_time(account.window_ns)}, "
        f"busy {format_time(account.busy_ns)}"
    )
    if account.idle_ns is None or account.idle_by_cause is None:
        return [f"{opening}; idle not known: this capture cannot tell, see the findings."]
    sums = (
        f"{opening}, idle {format_time(account.idle_ns)} "
        f"({format_share(account.share(account.idle_ns))}); only copies running "
        f"{format_time(account.copy_only_ns)}"
    )
    identity = (
        f"window {format_us_exact(account.window_ns)} µs = activity {format_us_exact(account.sum_ns)} "
        f"- overlap {format_us_exact(account.overlap_ns)} + idle {format_us_exact(account.idle_ns)}"
    )
    lines: list[Block] = [sums, identity, *_kernel_window(account.kernel_window)]
    causes = [(cause, ns) for cause, ns in account.idle_by_cause.items() if ns]
    causes.sort(key=lambda pair: (-pair[1], pair[0]))
    if not causes:
        return lines
    columns = (
        word("cause"),
        number("µs"),
        *((number("µs/step"),) if per_step else ()),
        number("of window"),
        word("what it is"),
    )
    rows = tuple(_cause(account, cause, ns, per_step) for cause, ns in causes)
    return [*lines, Grid(columns=columns, rows=rows)]


def _late(gpu: int, rows: Sequence[HostLateRow]) -> list[Block]:
    """Return what the launching thread did while the GPU waited, the longest first."""
    if not rows:
        return []
    columns = (word("launching thread"), number("µs"), number("of host_late"), number("gaps"))
    cells = (
        (
            row.call or row.doing.replace("_", " "),
            format_us(row.ns),
            format_share(row.share),
            f"{row.gaps:,}",
            "" if row.call else DOING.get(row.doing, ""),
        )
        for row in rows
    )
    grid = Grid(columns=(*columns, word("what it is")), rows=tuple(Row(cells=c) for c in cells))
    return [f"GPU {gpu}: while the host was late, the thread that launched next was", grid]


def _host_of(gap: Gap) -> str:
    """Return what the launching thread did in a gap, the longest first."""
    if not gap.host_ns:
        return ""
    longest = sorted(gap.host_ns.items(), key=lambda pair: (-pair[1], pair[0]))[:_HOST_SHOWN]
    return "the host: " + ", ".join(f"{what} {format_time(ns)}" for what, ns in longest)


def _kernel_window(window: KernelWindow | None) -> list[str]:
    if window is None:
        return []
    idle = f"nothing at all in {format_time(window.idle_ns)}"
    span = f"first to last kernel {format_time(window.window_ns)}"
    return [f"{span}: no kernel in {format_time(window.no_kernel_ns)} of it, {idle}"]


def _cause(account: Timeline, cause: str, ns: int, per_step: PerStep | None) -> Row:
    each = (format_us(None if cause == "outside_steps" else per_step(ns)),) if per_step else ()
    cells = (
        cause,
        format_us(ns),
        *each,
        format_share(account.share(ns)),
        CAUSES.get(cause, ""),
    )
    return Row(cells=cells)


def _gaps_grid(gaps: list[Gap]) -> Grid:
    columns = (
        number("#"),
        number("GPU"),
        number("at ms"),
        number("µs"),
        word("cause"),
        word("position"),
        name("before", least=12),
        name("after", least=12),
    )
    places = counter(1)
    rows = (
        Row(
            cells=(
                f"{next(places)}",
                f"{gap.gpu}",
                f"{gap.start_ns / 1e6:,.3f}",
                format_us(gap.idle_ns),
                gap.cause or "unknown",
                gap.position,
                gap.before,
                gap.after,
            ),
            below=_host_of(gap),
        )
        for gap in gaps
    )
    return Grid(columns=columns, rows=tuple(rows))
