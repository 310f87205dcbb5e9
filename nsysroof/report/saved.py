"""Reports that were saved as JSON, read back."""

from __future__ import annotations

from pathlib import Path

import msgspec

from nsysroof.errors import InputError
from nsysroof.results import FORMAT_VERSION, Report

_FORMAT = "nsysroof-report"


class _Head(msgspec.Struct):
    format: str
    format_version: str


def load_report(path: str | Path) -> Report:
    """Return the report saved in ``path``; fields of later minor versions are ignored.

    Raises:
        InputError: ``no-such-file``, ``not-a-report`` or ``report-version``.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot read {path.name}: {error.strerror}",
            hint="give the JSON that `nsysroof analyze TRACE -o report.json` wrote",
            slug="no-such-file",
            where=str(path),
        ) from error
    try:
        head = msgspec.json.decode(content, type=_Head)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _not_a_report(path, str(error)) from error
    if head.format != _FORMAT:
        raise _not_a_report(path, f"its format is {head.format!r}")
    if head.format_version.split(".")[0] != FORMAT_VERSION.split(".")[0]:
        raise InputError(
            f"the report has format version {head.format_version}, this release reads "
            f"{FORMAT_VERSION.split('.')[0]}.x",
            hint="write it again with this release: `nsysroof analyze TRACE -o report.json`",
            slug="report-version",
            where=str(path),
        )
    try:
        return msgspec.json.decode(content, type=Report)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _not_a_report(path, str(error)) from error


def _not_a_report(path: Path, reason: str) -> InputError:
    return InputError(
        f"{path.name} is not a saved report: {reason}",
        hint="give the JSON that `nsysroof analyze TRACE -o report.json` wrote",
        slug="not-a-report",
        where=str(path),
    )
