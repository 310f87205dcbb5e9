from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from nsysroof.report.characters import escaped, printable, shortened

ENEMY = st.text(alphabet=st.characters(exclude_categories=["Cs"])) | st.text(
    alphabet="ab\\\t\n\r\x1b\x85\u200f\u202e\u2028\u2066\U000e0041 宽"
)


@given(ENEMY)
def test_printable_text_is_printable(text: str) -> None:
    assert printable(text).isprintable()
    if text.isprintable():
        assert printable(text) == text


@given(ENEMY)
def test_escaped_text_is_one_cell_and_can_be_read_back(text: str) -> None:
    cell = escaped(text)
    assert len(cell.splitlines()) <= 1
    assert "\t" not in cell
    assert cell.encode("latin-1", "backslashreplace").decode("unicode_escape") == text


@given(ENEMY)
def test_escaped_json_is_still_the_same_json(text: str) -> None:
    cell = escaped(json.dumps([text], ensure_ascii=False), backslash=False)
    assert json.loads(cell) == [text]
    assert len(cell.splitlines()) == 1


@given(ENEMY, st.integers(min_value=3, max_value=40))
def test_shortened_text_fits_and_keeps_both_ends(text: str, width: int) -> None:
    text = printable(text)
    short = shortened(text, width)
    assert cell_len(short) <= width
    if cell_len(text) <= width:
        assert short == text
    else:
        head, tail = short.split("…", 1) if "…" not in text else (short[:1], "")
        assert text.startswith(head)
        assert text.endswith(tail)
