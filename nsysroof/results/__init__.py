"""The results as plain data: what crosses from the analysis to every report, file and gate.

Each class is one object of the JSON described in the command line's contract; field names carry
their unit. ``None`` means "not known", and a finding says why; it is never written as 0.
"""

from nsysroof.results.base import (
    FORMAT_VERSION,
)
from nsysroof.results.capture import (
    SEVERITIES,
    Assumptions,
    Capture,
    CaptureDevice,
    CaptureProcess,
    Finding,
    PeakUsed,
)
from nsysroof.results.estimate import (
    Estimate,
    EstimateLayer,
    EstimateMemory,
    EstimateOffload,
    EstimateRow,
    EstimateStep,
    Sweep,
    SweepRow,
)
from nsysroof.results.ranks import (
    RankRow,
)
from nsysroof.results.report import (
    SHORTENED,
    Report,
)
from nsysroof.results.rows import (
    CollectiveRow,
    Coverage,
    Host,
    ImpossibleRow,
    KernelRow,
    LinkPart,
    LinkRow,
    OperatorBytes,
    OperatorRow,
    OverlapRow,
    UnexplainedRow,
)
from nsysroof.results.sampled import MetricRow
from nsysroof.results.timeline import (
    DEVICE_COPY,
    GRAPH_REPLAY,
    IDLE_CAUSES,
    Budget,
    Gap,
    HostLateRow,
    KernelWindow,
    Phase,
    Spread,
    StepAccount,
    StepBounds,
    StepIdle,
    StepKernel,
    StepRow,
    Steps,
    StepSlice,
    StepTimeline,
    StreamRow,
    Timeline,
)

__all__ = [
    "DEVICE_COPY",
    "FORMAT_VERSION",
    "GRAPH_REPLAY",
    "IDLE_CAUSES",
    "SEVERITIES",
    "SHORTENED",
    "Assumptions",
    "Budget",
    "Capture",
    "CaptureDevice",
    "CaptureProcess",
    "CollectiveRow",
    "Coverage",
    "Estimate",
    "EstimateLayer",
    "EstimateMemory",
    "EstimateOffload",
    "EstimateRow",
    "EstimateStep",
    "Finding",
    "Gap",
    "Host",
    "HostLateRow",
    "ImpossibleRow",
    "KernelRow",
    "KernelWindow",
    "LinkPart",
    "LinkRow",
    "MetricRow",
    "OperatorBytes",
    "OperatorRow",
    "OverlapRow",
    "PeakUsed",
    "Phase",
    "RankRow",
    "Report",
    "Spread",
    "StepAccount",
    "StepBounds",
    "StepIdle",
    "StepKernel",
    "StepRow",
    "StepSlice",
    "StepTimeline",
    "Steps",
    "StreamRow",
    "Sweep",
    "SweepRow",
    "Timeline",
    "UnexplainedRow",
]
