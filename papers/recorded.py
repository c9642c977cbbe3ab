"""What the reproductions share: recorded values, how far a run may be from them, and the command line."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Entry = dict[str, float]


def expected_entries(here: Path) -> dict[str, Entry]:
    """The recorded means, deviations and repetitions of a reproduction."""
    entries: dict[str, Entry] = json.loads((here / "expected.json").read_text(encoding="utf-8"))["entries"]
    return entries


def standard_error(expected: Entry, repetitions: int) -> float:
    """Of the difference between a mean of so many repetitions and the recorded one."""
    return expected["deviation"] * math.sqrt(1 / repetitions + 1 / expected["repetitions"])


def allowed(expected: Entry, repetitions: int) -> float:
    """How far a mean may be from the recorded one: five standard errors of the difference, and at least 2%."""
    return max(5 * standard_error(expected, repetitions), 0.02 * abs(expected["mean"]))


def summary(found: Floats, digits: int = 6) -> Entry:
    """Mean, standard deviation and number of the values of one cell."""
    deviation = float(found.std(ddof=1)) if len(found) > 1 else 0.0
    return {
        "mean": float(f"{found.mean():.{digits}g}"),
        "deviation": float(f"{deviation:.3g}"),
        "repetitions": len(found),
    }


def write_expected(here: Path, about: str, found: Mapping[str, Floats], digits: int = 6) -> None:
    """Write ``expected.json`` anew: only after a change that is meant to change the numbers."""
    lines = [f'    "{key}": {json.dumps(summary(values, digits))}' for key, values in found.items()]
    head = f'{{\n  "about": {json.dumps(about, ensure_ascii=False)},\n  "entries": {{\n'
    (here / "expected.json").write_text(head + ",\n".join(lines) + "\n  }\n}\n", encoding="utf-8")


def command(about: str | None, here: Path, main: Callable[[bool, Path], bool], record: Callable[[], None]) -> None:
    """``run.py [--quick] [--out FOLDER] [--record]``."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="few repetitions")
    parser.add_argument("--out", type=Path, default=here / "out")
    parser.add_argument("--record", action="store_true", help="write expected.json anew")
    options = parser.parse_args()
    if options.record:
        record()
    sys.exit(0 if main(options.quick, options.out) else 1)
