"""Replay fits on neighbouring tables: does every statistic change by no more than was paid for?

    python tools/replay.py --pairs 5000 --seed 1     # a quarter of an hour on one core
    python tools/replay.py --seed 1 --only 1234      # one pair again, with everything that was compared

The table shows the largest change, in units of what was paid, of a single measurement and of all together. The exit
code is 1 if anything was more than paid for, or differed besides the statistics. What is compared: `replay_kit.py`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one core

import numpy as np
from replay_cases import SUBJECTS, Outcome, Worst, run_case


def run_number(number: int, seed: int) -> Outcome | None:
    """The pair of this number; methods take turns."""
    subject = SUBJECTS[number % len(SUBJECTS)]
    return run_case(subject, np.random.default_rng([seed, number]), long=True)


def show(number: int, seed: int) -> int:
    """One pair with all its changes."""
    outcome = run_number(number, seed)
    if outcome is None:
        print("Every setting that was tried is refused.")
        return 1
    print(outcome.subject, outcome.setting, f"{outcome.rows} rows")
    for change in outcome.verdict.changes:
        print(f"  {change.name:14}", *(f"{loss.kind} {loss.amount:.6g}" for loss in change.losses), " of ", change.cost)
    print(outcome.verdict.fault or "All changes were paid for.")
    return 1 if outcome.verdict.fault else 0


def table(found: dict[tuple[str, str, str], Worst]) -> str:
    """The worst ratios by method, relation and kind of budget."""
    head = f"{'method':34}{'relation':12}{'budget':8}{'pairs':>6}{'one':>10}{'all':>10}"
    rows = [
        f"{name:34}{relation:12}{budget:8}{w.pairs:6}{w.single:10.6f}{w.together:10.6f}"
        for (name, relation, budget), w in sorted(found.items())
    ]
    return "\n".join([head, *rows])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one pair, to be shown in full")
    options = parser.parse_args()
    if options.only is not None:
        return show(options.only, options.seed)
    found: dict[tuple[str, str, str], Worst] = defaultdict(Worst)
    faults, began = 0, time.monotonic()
    for number in range(options.pairs):
        try:
            outcome = run_number(number, options.seed)
        except Exception:  # neither an answer nor a refusal: the other pairs go on
            faults += 1
            print(f"PAIR {number}\n{traceback.format_exc(limit=-4)}", flush=True)
            continue
        if outcome is None:
            faults += 1
            print(f"PAIR {number}: every setting that was tried is refused.", flush=True)
            continue
        found[outcome.key].add(outcome.verdict)
        if outcome.verdict.fault:
            faults += 1
            print(f"PAIR {number} {outcome.subject} {outcome.setting}: {outcome.verdict.fault}", flush=True)
        if (number + 1) % 500 == 0:
            print(f"{number + 1} pairs, {faults} faults, {time.monotonic() - began:.0f} s", flush=True)
    print(table(found))
    print(f"{options.pairs} pairs, {faults} faults, {time.monotonic() - began:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
