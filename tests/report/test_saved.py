from __future__ import annotations

import json
from pathlib import Path

import pytest

from nsysroof.errors import InputError
from nsysroof.report.saved import load_report
from tests.report import sample
from tests.report.render import to_file


def saved(tmp_path: Path, **changed: object) -> Path:
    document = json.loads(to_file(sample.worst(), "json")) | changed
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document))
    return path


def test_a_saved_report_comes_back(tmp_path: Path) -> None:
    assert load_report(saved(tmp_path)) == sample.worst()


def test_later_minor_versions_are_read_and_their_fields_ignored(tmp_path: Path) -> None:
    report = load_report(saved(tmp_path, format_version="1.7", weather="fine"))
    assert report.operators == sample.worst().operators
    assert report.format_version == "1.7"


@pytest.mark.parametrize("version", ["2.0", "0.9", "10.0"])
def test_other_major_versions_are_refused(tmp_path: Path, version: str) -> None:
    with pytest.raises(InputError) as caught:
        load_report(saved(tmp_path, format_version=version))
    assert caught.value.slug == "report-version"
    assert version in caught.value.message


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe", b"SQLite format 3\x00", b'{"format": "nsysroof-report"}'],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_report(path)
    assert caught.value.slug == "not-a-report"


def test_other_documents_of_ours_and_broken_ones_are_refused(tmp_path: Path) -> None:
    for change in ({"format": "nsysroof-diff"}, {"coverage": 3}):
        with pytest.raises(InputError) as caught:
            load_report(saved(tmp_path, **change))
        assert caught.value.slug == "not-a-report"


def test_a_missing_file_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_report(tmp_path / "none.json")
    assert caught.value.slug == "no-such-file"
    assert "analyze TRACE -o report.json" in caught.value.hint
