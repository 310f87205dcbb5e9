"""Writes ``docs/findings.md`` from the catalogue: ``python -m tests.findings.page``."""

from __future__ import annotations

from pathlib import Path

from nsysroof.findings import CATALOGUE

PAGE = Path(__file__).parents[2] / "docs/findings.md"

_HEAD = """\
# Findings

What the reader must know before any number. Every report begins with its findings, errors first;
`capture.findings` of the JSON holds them. `--strict` exits with 4 where one is an error, and
`check` judges no report with an error that `--allow SLUG` does not name.

`python -m tests.findings.page` writes this page from the catalogue in `nsysroof/findings.py`.
`tests/findings/test_findings.py` builds a capture that raises each, and captures that do not.

| finding | severity | what it means | what to do |
|---|---|---|---|
"""


def page() -> str:
    """Return the page."""
    rows = (
        f"| `{kind.slug}` | {', '.join(kind.severities)} | {kind.meaning} | {kind.action} |\n"
        for kind in CATALOGUE
    )
    return _HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
