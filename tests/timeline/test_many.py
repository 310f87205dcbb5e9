"""Random timelines end to end, some hundred of those that ``tests.timeline.many`` holds."""

from __future__ import annotations

import pytest

from nsysroof.results import IDLE_CAUSES
from tests.timeline.many.check import CASES_PER_FILE, check_cases
from tests.timeline.many.draw import ORIGINS

SEED = 20
CASES = 100


@pytest.mark.parametrize("number", range(len(ORIGINS)))
def test_every_account_of_a_file_of_random_cases_is_the_bitmaps(number: int) -> None:
    first = number * CASES_PER_FILE  # the time at which a file begins goes with its number
    tally = check_cases(range(first, first + CASES), seed=SEED)
    assert tally.problems == []
    assert tally.counts["cases"] == CASES
    # What never occurs is not tested either.
    assert all(tally.counts[f"gaps by {cause}"] > 10 for cause in IDLE_CAUSES)
    assert tally.counts["steps"] > CASES
    assert tally.counts["GPUs of several processes"] > CASES / 4
