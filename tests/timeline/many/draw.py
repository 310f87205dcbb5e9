"""Random timelines: streams, overlaps, dependent launches, copies, graphs, waits, processes.

Times are small integers, so that a bitmap of single nanoseconds is cheap; some stretches in which
nothing begins or ends are made as long as the holes that end a run of steps, or longer.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

from tests.timeline.many.cases import COPIES, KERNELS, Call, Case, Mark, Overhead, Work

CALLS = {
    "kernel_launch": (
        "cudaLaunchKernel", "cudaLaunchKernelExC", "cudaLaunchKernel_ptsz_v7000",
        "cudaLaunchCooperativeKernel", "cuLaunchKernel", "cuLaunchKernelEx",
    ),
    "graph_launch": ("cudaGraphLaunch", "cudaGraphLaunch_ptsz_v10000", "cuGraphLaunch"),
    "copy": (
        "cudaMemcpyAsync", "cudaMemcpy2DAsync", "cudaMemcpyPeerAsync_v4000",
        "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2_ptsz",
    ),
    "fill": ("cudaMemsetAsync", "cudaMemset", "cuMemsetD32Async", "cuMemsetD8_v2"),
    "blocking_copy": (
        "cudaMemcpy", "cudaMemcpy2D_v3020", "cudaMemcpy_ptds_v7000", "cuMemcpy",
        "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemcpyDtoD_v2_ptds",
    ),
    "synchronize": (
        "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize",
        "cudaStreamSynchronize_ptsz_v7000", "cuCtxSynchronize", "cuStreamSynchronize",
        "cuEventSynchronize", "cuStreamSynchronize_ptsz",
    ),
    "other": (
        "cudaEventRecord", "cudaStreamWaitEvent", "cudaMalloc", "cudaEventQuery",
        "cudaLaunchHostFunc_v10000", "cudaGraphInstantiate", "cuMemAlloc_v2",
    ),
}  # fmt: skip
"""Host calls by what they do, as exports spell them; the builder adds what versions it knows."""

ORIGINS = (10_000, 1_760_000_000_000_000_000, -3_000_000_000)
"""Where a file's time begins: near 0, at the time of day, and shifted to before 0."""

_HOLE_NS = 100_000_000
_STRETCHES = (_HOLE_NS, _HOLE_NS + 1, 12_000_000, 12_000_000, 30_000_000, 700_000_000)


def draw_case(seed: int, number: int, *, origin: int) -> Case:
    """Return case ``number``, which no other number shares a GPU or process with."""
    random = Random(f"{seed}/{number}")
    gpus = [2 * number, 2 * number + 1][: random.choice((1, 1, 2))]
    pids = [100 + 3 * number + at for at in range(random.choice((1, 1, 2, 2, 3)))]
    case = Case(devices={pid: random.sample(gpus, len(gpus)) for pid in pids})
    processes = [_Process(random, case, pid) for pid in pids]
    for _ in range(random.randint(2, 22)):
        random.choice(processes).act()
    if not case.work:
        processes[0].launch_kernel()
    case.overheads.extend(
        Overhead(start=start, end=start + random.randint(0, 60), pid=random.choice(pids))
        for start in (random.randint(0, 500) for _ in range(random.choice((0, 0, 1, 3))))
    )
    case = case.stretched(-1, origin)
    for _ in range(random.choice((0, 0, 0, 1, 2, 5))):
        case = _with_hole(random, case)
    return case


def _with_hole(random: Random, case: Case) -> Case:
    """Return the case with one stretch made longer, often an idle one to the edge of a hole.

    Not between an activity and a launch call that is recorded after it: clocks do not differ so.
    """
    edges = sorted(case.edges())
    stretches = _idle_stretches(case, random.choice(case.gpus))
    if not stretches or random.random() < 0.5:
        stretches = list(pairwise(edges))
    if not stretches:
        return case
    at, following = random.choice(stretches)
    for work in case.work:
        calls = [
            c.start for c in case.calls if (c.pid, c.correlation) == (work.pid, work.correlation)
        ]
        if calls and work.start <= at < min(calls):
            return case
    longer = random.choice(_STRETCHES) - (following - at)
    return case.stretched(at, longer) if longer > 0 else case


def _idle_stretches(case: Case, gpu: int) -> list[tuple[int, int]]:
    found = []
    work = sorted((w.start, w.end) for w in case.work if w.gpu == gpu)
    reach = work[0][1]
    for start, end in work:
        if start > reach:
            found.append((reach, start))
        reach = max(reach, end)
    return found


class _Process:
    """Draws what one process does; times grow with its host clock, and everything may cross."""

    def __init__(self, random: Random, case: Case, pid: int) -> None:
        self._random = random
        self._case = case
        self._pid = pid
        self._tids = [pid, pid + 1_000_000]
        self._now = random.randint(1, 30)
        self._correlation = 0
        devices = case.devices[pid]
        self._streams = [
            (gpu, random.choice((1, 1, 2)), random.choice((7, 7, 13, 14)))
            for gpu in random.choices(devices, k=random.choice((1, 2, 3)))
        ]
        self._marking = random.random() < 0.6

    def act(self) -> None:
        """Do one thing, perhaps inside an NVTX range."""
        random = self._random
        begun, tid = self._now, self._tids[random.random() < 0.1]
        actions = [
            (self.launch_kernel, 10),
            (self.launch_graph, 5),
            (self.replay, 1),
            (self.copy, 5),
            (self.fill, 2),
            (self.synchronize, 4),
            (self.call_other, 1),
            (self.mimic, 1),
        ]
        chosen = random.choices(
            [action for action, _ in actions],
            [weight for _, weight in actions],
            k=random.choice((1, 1, 2, 4)),
        )
        for action in chosen:
            action(tid)
            self._now += random.choice((0, 1, random.randint(1, 9), random.randint(5, 120)))
        if self._marking and random.random() < 0.7:
            self._mark(begun, tid)

    def launch_kernel(self, tid: int | None = None) -> None:
        """Launch one kernel."""
        correlation = self._launch("kernel_launch", tid)
        self._run("kernel", self._random.choice(KERNELS), correlation)

    def launch_graph(self, tid: int) -> None:
        """Launch a graph whose nodes are recorded one by one, with or without node ids."""
        random = self._random
        correlation = self._launch("graph_launch", tid)
        numbered = random.random() < 0.8
        for node in range(1, random.randint(2, 6)):
            kind = random.choices(("kernel", "copy", "fill"), (8, 1, 1))[0]
            label = random.choice({"kernel": KERNELS, "copy": tuple(COPIES), "fill": ("",)}[kind])
            self._run(kind, label, correlation, node=node if numbered else None)

    def replay(self, tid: int) -> None:
        """Launch a graph that is recorded as a whole."""
        correlation = self._launch("graph_launch", tid)
        for _ in range(self._random.choice((1, 1, 1, 2))):
            self._run("replay", "", correlation)

    def copy(self, tid: int) -> None:
        """Copy, blocking or not."""
        correlation = self._launch(self._random.choice(("copy", "copy", "blocking_copy")), tid)
        self._run("copy", self._random.choice(tuple(COPIES)), correlation)

    def fill(self, tid: int) -> None:
        """Fill memory."""
        self._run("fill", "", self._launch("fill", tid))

    def synchronize(self, tid: int) -> None:
        """Wait on the host."""
        self._call("synchronize", self._now, self._random.randint(0, 90), tid, None)

    def call_other(self, tid: int) -> None:
        """Call something that starts no work, at times under the id of work."""
        correlation = self._random.choice((None, max(self._correlation, 1)))
        self._call("other", self._now, self._random.randint(0, 9), tid, correlation)

    def mimic(self, tid: int) -> None:
        """Launch, here too, the like of some work: the same but for the process."""
        gpus = [gpu for gpu, _, _ in self._streams]
        others = [work for work in self._case.work if work.gpu in gpus]
        if others:
            self._case.work.append(replace(self._random.choice(others), pid=self._pid))
            self._launch("kernel_launch", tid)

    def _launch(self, kind: str, tid: int | None) -> int | None:
        """Call what starts work and return its correlation id, None where none is recorded."""
        random = self._random
        self._correlation += random.random() >= 0.03  # an id may occur again
        self._correlation = max(self._correlation, 1)
        if random.random() >= 0.08:
            start = self._now
            ends = [work.end for work in self._case.work]
            if ends and random.random() < 0.25:  # at, or next to, the end of other work
                start = random.choice(ends) + random.choice((-1, 0, 0, 1))
            self._call(kind, start, random.randint(0, 9), tid, self._correlation)
        return self._correlation if random.random() >= 0.03 else None

    def _call(
        self, kind: str, start: int, length: int, tid: int | None, correlation: int | None
    ) -> None:
        start = max(start, 0)
        self._case.calls.append(
            Call(
                kind=kind,
                name=self._random.choice(CALLS[kind]),
                start=start,
                end=start + length,
                pid=self._pid,
                tid=tid or self._pid,
                correlation=correlation,
            )
        )
        self._now = max(self._now, start + self._random.choice((0, length)))

    def _run(self, kind: str, label: str, correlation: int | None, node: int | None = None) -> None:
        random = self._random
        gpu, context, stream = random.choice(self._streams[: random.choice((1, 3))])
        start = self._start(gpu, context, stream)
        length = random.choice((0, 1, 2, *(random.randint(2, 40) for _ in range(7))))
        self._case.work.append(
            Work(
                kind=kind,
                label=label,
                start=start,
                end=start + length,
                gpu=gpu,
                pid=self._pid,
                context=context,
                stream=stream,
                correlation=correlation,
                node=node,
            )
        )

    def _start(self, gpu: int, context: int, stream: int) -> int:
        """Return when work of a stream starts: queued, early, touching or anywhere."""
        random = self._random
        work = self._case.work
        place = (gpu, self._pid, context, stream)
        own = [w for w in work if (w.gpu, w.pid, w.context, w.stream) == place]
        ready = max((w.end for w in own), default=self._now)
        choice = random.random()
        if work and choice < 0.12:
            other = random.choice(work)
            return random.choice((other.start, other.end))
        if choice < 0.3:  # programmatic dependent launch: before the one before it ends
            return max(ready - random.randint(1, 15), self._now - 20, 0)
        if choice < 0.45:
            return ready
        if choice < 0.52:
            return random.randint(0, self._now + 60)
        return max(ready, self._now + random.randint(0, 10)) + random.choice((0, 1, 2, 30))

    def _mark(self, begun: int, tid: int) -> None:
        """Mark what was done since ``begun``: as a step, with a range inside it, or as another."""
        random = self._random
        end = max(self._now + random.choice((-9, 0, 1, 5)), begun)
        kind = random.choice(("push_pop", "push_pop", "start_end"))
        text = random.choices(("step", "step 2", "not a step"), (6, 3, 1))[0]
        whole = Mark(text=text, start=begun, end=end, pid=self._pid, tid=tid, kind=kind)
        self._case.marks.append(whole)
        if random.random() < 0.25:
            inner = random.randint(begun, end)
            start = random.choice((begun, inner, max(inner - random.randint(0, 20), 0)))
            over = random.choice((end, inner, end + random.randint(0, 20)))
            self._case.marks.append(
                replace(whole, text="step inside", start=start, end=max(start, over))
            )
        if random.random() < 0.1:
            self._case.marks.append(replace(whole, text="step without end", end=None))
