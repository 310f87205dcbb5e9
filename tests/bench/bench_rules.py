"""How many distinct kernel names per second the rules classify.

    python -m tests.bench.bench_rules

takes the surveyed names, makes 50,000 distinct ones of them, and prints the rate.
"""

from __future__ import annotations

import time
from itertools import count

from nsysroof.match.rules import load_rules
from tests.bench.score_rules import score_names

WANTED = 50_000


def distinct_names(wanted: int = WANTED) -> list[str]:
    """Return the surveyed names with numbers behind them until there are enough."""
    surveyed = [row.name for row in score_names()]
    numbered = (f"{name} {turn}" for turn in count() for name in surveyed)
    return [name for name, _ in zip(numbered, range(wanted), strict=False)]


def main() -> None:
    """Print the best of three."""
    names = distinct_names()
    rules = load_rules()
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        rules.classify_many(names)
        taken.append(time.perf_counter() - start)
    length = sum(map(len, names)) / len(names)
    rate = len(names) / min(taken)
    print(f"{rate:,.0f} distinct names/s ({len(names):,} names of {length:.0f} characters)")


if __name__ == "__main__":
    main()
