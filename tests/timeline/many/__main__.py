"""Hold thousands of random timelines against a bitmap: ``python -m tests.timeline.many``."""

from __future__ import annotations

import argparse
import os
import sys
from time import perf_counter

from tests.timeline.many.check import check_many


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.timeline.many", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    given = parser.parse_args()
    begun = perf_counter()
    tally = check_many(given.cases, seed=given.seed, workers=given.workers)
    for line in tally.problems[:20]:
        print(line)
    for name, count in sorted(tally.counts.items()):
        print(f"{count:>10,} {name}")
    print(
        f"seed {given.seed}: {len(tally.problems):,} differences from the bitmap,"
        f" {perf_counter() - begun:.0f} s"
    )
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(_main())
