"""`python -m tests.simulation --seeds N [--first K]` or `--seed K`: run seeds, print those that fail."""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.run import simulate


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="this one only; failures are raised")
    given = parser.parse_args()
    if given.seed is not None:
        print(simulate(given.seed))
        return 0
    began_s, failed, times, claims = time.monotonic(), [], 0, 0
    for seed in range(given.first, given.first + given.seeds):
        try:
            outcome = simulate(seed)
            times, claims = times + outcome.times, claims + outcome.claims
        except Exception as error:
            failed.append(seed)
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:400]}", flush=True)
    took_s = time.monotonic() - began_s
    print(f"{given.seeds} seeds in {took_s:.1f} s: {times} times, {claims} claims, failed: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
