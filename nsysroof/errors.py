"""The whole tree of errors that the package raises for a user's mistake or an unusable input.

NsysroofError              exit code 1
├── UsageError             2   options that do not go together, an unknown name
├── InputError             2   a trace, report, model or data file that cannot be read
├── GateTripped            3   a limit of ``check`` was exceeded
└── Inconclusive           4   readable, but what was asked cannot be known from it
"""

from __future__ import annotations

from typing import ClassVar


class NsysroofError(Exception):
    """An error with a slug that scripts can match and a hint that says what to do next."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str, slug: str, where: str | None = None) -> None:
        """Keep the parts apart so that the command line can print one per line.

        Args:
            message: What went wrong, in one line.
            hint: What the user can do next, in one line.
            slug: Stable kebab-case identifier.
            where: File, table or option concerned, in one line.
        """
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.slug = slug
        self.where = where

    def lines(self) -> list[str]:
        """Return the error as at most three lines, the last one actionable.

        >>> InputError("not a trace", hint="export it first", slug="not-a-trace").lines()
        ['error: not a trace', 'hint: export it first   [not-a-trace]']
        """
        middle = [f"  in {self.where}"] if self.where else []
        return [f"error: {self.message}", *middle, f"hint: {self.hint}   [{self.slug}]"]


class UsageError(NsysroofError):
    """Options that do not go together, or a name that is not known."""

    exit_code = 2


class InputError(NsysroofError):
    """A file that cannot be read as what it was given for."""

    exit_code = 2


class GateTripped(NsysroofError):  # noqa: N818  the gate tripping is an outcome, not a fault
    """A limit was exceeded."""

    exit_code = 3


class Inconclusive(NsysroofError):  # noqa: N818  likewise an outcome
    """The input is readable but does not hold the answer."""

    exit_code = 4
