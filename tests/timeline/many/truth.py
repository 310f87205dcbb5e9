"""What the bitmap of a case says, in the words of a report."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.timeline.many.bitmap import Bitmap, Cells
from tests.timeline.many.cases import KERNELS, Case, Work
from tests.timeline.many.idle import CAUSES, Idle, judge_idle, sum_causes
from tests.timeline.many.steps import Step, find_steps

REPLAY = "(graph replay)"
SERVING = "(copy within the device)"
SERVING_COPY = "p2p"
"""The kind of copies whose time counts with an operator of the budget."""


LABELS = {
    KERNELS[0]: ("bound", "attn.core"),
    KERNELS[1]: ("bound", "mlp.down_proj"),
    KERNELS[2]: ("fixed", "attn.norm"),
    KERNELS[3]: ("fixed", "mlp.down_proj"),
    KERNELS[4]: ("unexplained", "sample"),
    SERVING: ("bound", "attn.all_reduce"),
}
"""Share of the budget and role of kernels by name; the others have neither."""


def label_of(name: str) -> tuple[str, str | None]:
    """Return the share and the role of a kernel."""
    return LABELS.get(name, ("unexplained", None))


def bound_of(gpu: int) -> int:
    """Return a bound, ns, that a step of a GPU is given: any integer will do."""
    return 7 * gpu % 50


@dataclass(frozen=True, kw_only=True, eq=False)
class Truth:
    """One GPU of a case."""

    case: Case
    gpu: int
    bitmap: Bitmap
    steps: list[Step]
    idle: list[Idle]

    @classmethod
    def of(cls, case: Case, gpu: int, *, whole_ns: int = 4096) -> Truth:
        """Look at every nanosecond of a GPU; ``whole_ns`` as for the bitmap."""
        bitmap = Bitmap.of(case, gpu, whole_ns=whole_ns)
        steps = find_steps(case, bitmap)
        idle = judge_idle(case, bitmap, steps)
        return cls(case=case, gpu=gpu, bitmap=bitmap, steps=steps, idle=idle)

    @property
    def work(self) -> list[Work]:
        """The activities of the GPU."""
        return self.bitmap.work

    @property
    def median_step(self) -> int | None:
        """The step with the median wall time: of an even number the lower of the two."""
        if not self.steps:
            return None
        walls = sorted((step.end - step.start, number) for number, step in enumerate(self.steps))
        return walls[(len(walls) - 1) // 2][1]

    def timeline(self) -> dict[str, Any]:
        """Return the account of the GPU, with the names of its fields."""
        bitmap = self.bitmap
        busy = bitmap.weigh(~bitmap.idle)
        running = bitmap.weigh(bitmap.covered_by(bitmap.of_kinds("kernel", "replay")))
        return {
            "gpu": self.gpu,
            "window_start_ns": bitmap.start,
            "window_ns": bitmap.end - bitmap.start,
            "sum_ns": sum(work.end - work.start for work in self.work),
            "busy_ns": busy,
            "overlap_ns": bitmap.overlap(bitmap.everywhere),
            "idle_ns": bitmap.weigh(bitmap.idle),
            "kernel_busy_ns": running,
            "copy_only_ns": busy - running,
            "idle_by_cause": sum_causes(self.idle, bitmap.start, bitmap.end),
            "sum_by_activity": {
                kind: bitmap.sum_of(bitmap.of_kinds(kind), bitmap.everywhere)
                for kind in ("kernel", "copy", "fill", "replay")
                if bitmap.of_kinds(kind)
            },
            "kernel_window": self._kernel_window(),
        }

    def _kernel_window(self) -> dict[str, int] | None:
        kernels = self.bitmap.of_kinds("kernel")
        if not kernels:
            return None
        start = min(self.work[at].start for at in kernels)
        end = max(self.work[at].end for at in kernels)
        inside = self.bitmap.between(start, end)
        shown = {(self.work[at].pid, self.work[at].correlation) for at in kernels}
        hiding = [
            at
            for at in self.bitmap.of_kinds("replay")
            if self.work[at].correlation is None
            or (self.work[at].pid, self.work[at].correlation) not in shown
        ]
        computing = self.bitmap.covered_by([*kernels, *hiding])
        return {
            "start_ns": start,
            "window_ns": end - start,
            "no_kernel_ns": self.bitmap.weigh(inside & ~computing),
            "busy_ns": self.bitmap.weigh(inside & ~self.bitmap.idle),
            "idle_ns": self.bitmap.weigh(inside & self.bitmap.idle),
        }

    @cached_property
    def told(self) -> dict[str, Any]:
        """Return everything that a report tells of the GPU."""
        number = self.median_step
        bound_ns = bound_of(self.gpu)
        return {
            "timeline": self.timeline(),
            "gaps": self.gaps(),
            "streams": self.streams(),
            "steps": [(step.start, step.end) for step in self.steps],
            "kernels": self.kernels(),
            "budget": None if number is None else self.budget(number, bound_ns, labelled=True),
            "step_sums": [self.step_sum(step) for step in range(len(self.steps))],
        }

    def step_accounts(self) -> list[dict[str, Any]]:
        """Return the accounts of all steps where no kernel has an operator."""
        accounts = []
        for number, step in enumerate(self.steps):
            budget = self.budget(number, 0, labelled=False)
            del budget["by_role"], budget["by_kernel"]
            accounts.append(budget | {"start_ns": step.start})
        return accounts

    def step_sum(self, number: int) -> dict[str, int]:
        """Return what the budget of a step adds up: time by share, and idle time by cause."""
        budget = self.budget(number, 0, labelled=True)
        parts = ("wall_ns", "copy_ns", "idle_ns", "overlap_ns")
        return {
            **{part: budget[part] for part in parts},
            "bound": budget["over_bound_ns"],
            "fixed": budget["fixed_ns"],
            "unexplained": budget["unexplained_ns"],
            **dict.fromkeys(CAUSES, 0),
            **budget["idle_by_cause"],
        }

    def gaps(self) -> list[tuple[int, int, str | None, str, str]]:
        """Return the idle stretches with what is told of each."""
        return [(row.start, row.end, row.cause, row.before, row.after) for row in self.idle]

    def budget(self, number: int, bound_ns: int, *, labelled: bool) -> dict[str, Any]:
        """Return the account of one step, without 0 ns and instances of its kernels."""
        step = self.steps[number]
        within = self.bitmap.between(step.start, step.end)
        by_kernel = self.kernel_sums(within, labelled=labelled)
        copied = self.bitmap.of_kinds("copy", "fill")
        if labelled:
            serving = [at for at in copied if self.work[at].label == SERVING_COPY]
            copied = [at for at in copied if at not in serving]
            if served_ns := self.bitmap.sum_of(serving, within):
                by_kernel[SERVING, label_of(SERVING)[1]] = served_ns
        shares: Counter[str] = Counter()
        roles: Counter[str] = Counter()
        for (name, role), ns in by_kernel.items():
            share = label_of(name)[0] if labelled else "unexplained"
            shares[share] += ns
            if share != "unexplained":
                roles[role or ""] += ns
        return {
            "gpu": self.gpu,
            "step": number,
            "wall_ns": step.end - step.start,
            "bound_ns": bound_ns,
            "over_bound_ns": shares["bound"] - bound_ns,
            "fixed_ns": shares["fixed"],
            "unexplained_ns": shares["unexplained"],
            "copy_ns": self.bitmap.sum_of(copied, within),
            "idle_ns": self.bitmap.weigh(within & self.bitmap.idle),
            "overlap_ns": self.bitmap.overlap(within),
            "by_role": dict(+roles),
            "by_kernel": by_kernel,
            "idle_by_cause": sum_causes(self.idle, step.start, step.end),
        }

    def kernel_sums(
        self, within: Cells | None = None, *, labelled: bool
    ) -> dict[tuple[str, str | None], int]:
        """Return ns by name and role of kernels, replays as one of them; without 0 ns."""
        inside = self.bitmap.everywhere if within is None else within
        sums: dict[tuple[str, str | None], int] = {}
        for name in sorted({self.work[at].label for at in self.bitmap.of_kinds("kernel")}):
            own = [at for at in self.bitmap.of_kinds("kernel") if self.work[at].label == name]
            role = label_of(name)[1] if labelled else None
            sums[name, role] = self.bitmap.sum_of(own, inside)
        sums[REPLAY, None] = self.bitmap.sum_of(self.bitmap.of_kinds("replay"), inside)
        return {key: ns for key, ns in sums.items() if ns}

    def kernels(self) -> list[tuple[Any, ...]]:
        """Return every kernel: times, place, name, step and advance, in a fixed order."""
        rows = []
        advances = self.bitmap.advances()
        for at in self.bitmap.of_kinds("kernel"):
            work = self.work[at]
            steps = [n for n, s in enumerate(self.steps) if s.start <= work.start < s.end]
            place = (work.pid, work.context, work.stream)
            step = steps[0] if steps else None
            rows.append((work.start, work.end, *place, work.label, step, advances[at]))
        return sorted(rows, key=str)

    def streams(self) -> list[tuple[int, ...]]:
        """Return of each stream with kernels: process, context, number, count, sum, busy ns."""
        own: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for at in self.bitmap.of_kinds("kernel"):
            work = self.work[at]
            own[work.pid, work.context, work.stream].append(at)
        return [
            (
                *stream,
                len(rows),
                sum(self.work[at].end - self.work[at].start for at in rows),
                self.bitmap.weigh(self.bitmap.covered_by(rows)),
            )
            for stream, rows in sorted(own.items())
        ]
