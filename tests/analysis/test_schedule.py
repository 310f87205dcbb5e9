"""A schedule is read as it stands, or refused with the line that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsysroof.analysis.schedule import parse_schedule, read_schedule
from nsysroof.errors import InputError

HEAD = "step,new_tokens,contexts"


@pytest.mark.parametrize(
    ("row", "phase", "contexts", "queries"),
    [
        ("0,1,4096", "decode", (4096,), (1,)),
        ("0,3,10 20 30", "decode", (10, 20, 30), (1, 1, 1)),
        ("0,3,10;20;30", "decode", (10, 20, 30), (1, 1, 1)),
        ("0,1 1 1,10; 20 ;30", "decode", (10, 20, 30), (1, 1, 1)),
        # The sum of the contexts: whole prompts.
        ("0,30,10 20", "prefill", (10, 20), (10, 20)),
        ("0,1 64,514 64", "mixed", (514, 64), (1, 64)),
        # A chunk of a prompt, or drafts to verify: only the kernels know.
        ("0,512,2048", None, (2048,), (512,)),
        ("0,4 4,300 300", None, (300, 300), (4, 4)),
        # Ten new tokens of two sequences may be 1 + 9 or 5 + 5.
        ("0,10,300 300", None, (300, 300), None),
    ],
)
def test_a_row_tells_what_it_leaves_no_choice_about(
    row: str, phase: str | None, contexts: tuple[int, ...], queries: tuple[int, ...] | None
) -> None:
    told = parse_schedule([HEAD, row], "a/run.csv")[0]
    assert (told.phase, told.contexts, told.queries) == (phase, contexts, queries)
    assert (told.requests, told.told_by) == (len(contexts), "line 2 of run.csv")


def test_columns_in_any_order_blank_lines_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes("\ufeffcontexts, step ,new_tokens\n\n7 8,4,2\n9,5,1\n".encode())
    told = read_schedule(path)
    assert {step: one.contexts for step, one in told.items()} == {4: (7, 8), 5: (9,)}
    assert told[5].told_by == "line 4 of run.csv"


@pytest.mark.parametrize(
    ("lines", "message", "where"),
    [
        (["step,contexts", "0,1"], "lacks the column new_tokens", "run.csv:1"),
        ([], "lacks the column step, new_tokens, contexts", "run.csv:1"),
        ([HEAD + ",batch", "0,1,9,1"], "has 4 columns", "run.csv:1"),
        ([HEAD], "has no step", "run.csv"),
        ([HEAD, "0,1,9", "1,1"], "a row of 2 cells under 3 columns", "run.csv:3"),
        ([HEAD, "0,1,9", "1,1,x"], "cannot read 'x' as contexts", "run.csv:3"),
        ([HEAD, "0,1,9", "", "1,1,0"], "contexts of 0", "run.csv:4"),
        ([HEAD, "0,,9"], "cannot read '' as new_tokens", "run.csv:2"),
        ([HEAD, "-1,1,9"], "cannot read '-1' as step", "run.csv:2"),
        ([HEAD, "0,1,9", "0,1,9"], "step 0 is not one number, or is there twice", "run.csv:3"),
        ([HEAD, "0,1,9 9"], "1 new tokens do not fit 2 sequences of 18 tokens", "run.csv:2"),
        ([HEAD, "0,19,9 9"], "19 new tokens do not fit 2 sequences of 18 tokens", "run.csv:2"),
        ([HEAD, "0,1 2 3,9 9"], "3 numbers of new tokens for 2 contexts", "run.csv:2"),
        ([HEAD, "0,1 10,9 9"], "more new tokens than its context holds", "run.csv:2"),
    ],
)
def test_a_bad_schedule_is_refused_with_its_line(
    lines: list[str], message: str, where: str
) -> None:
    with pytest.raises(InputError, match=message) as raised:
        parse_schedule(lines, "run.csv")
    assert (raised.value.slug, raised.value.where) == ("bad-schedule", where)


def test_a_schedule_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the schedule"):
        read_schedule(tmp_path / "none.csv")
