"""The colours of tones in pictures, and what all pictures of a report share."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from nsysroof.errors import UsageError
from nsysroof.report.plots.style import BLUE, GREEN, PURPLE, SKY, VERMILION

TONES: Mapping[str, str] = MappingProxyType(
    {
        "attn": BLUE,
        "moe": VERMILION,
        "mlp": GREEN,
        "ssm": "#7a5195",
        "link": SKY,
        "other": "#b59f00",
        "unexplained": PURPLE,
        "copy": "#8a8a8a",
        "idle": "#b0b7bf",
    }
)


def nothing(reason: str) -> UsageError:
    """Return the error of a picture that cannot be drawn."""
    return UsageError(
        f"there is nothing to draw: {reason}",
        hint="the findings of the report tell why; `nsysroof info TRACE`",
        slug="nothing-to-draw",
    )
