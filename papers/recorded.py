"""What the reproductions share: recorded values, how far a run may be from them, and the command line.

A reproduction's ``run.py`` measures: a mapping from keys to arrays of values, one per repetition. Everything after that
is here: `compared` puts the means beside the recorded ones, prints the table and writes ``results.json``;
`write_expected` records anew, with the date and the machine; `command` is the command line.

``contents.json`` lists the paper's tables and figures; ``dpeigen reproduce --list`` reads it (see papers/README.md).
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Entry = dict[str, float]
Margin = Callable[[str, Entry, int], float]  # key, what was recorded, repetitions → how far a mean may be from it


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


def compared(
    here: Path,
    found: Mapping[str, Floats],
    out: Path,
    *,
    margin: Margin | None = None,
    digits: int = 6,
    show: bool = True,
) -> dict[str, dict[str, Any]]:
    """Each mean beside the recorded one: printed, written to ``out/results.json``, and returned.

    A result ``agrees`` if its mean is within the margin (`allowed` by default) of the recorded one. A key that was
    never recorded does not agree.
    """
    expected, results = expected_entries(here), dict[str, dict[str, Any]]()
    width = max((len(key) for key in found), default=0) + 2
    if show:
        print(f"{'cell':<{width}}{'mean':>10}{'expected':>10}{'± allowed':>11}")
    for key, values in found.items():
        record, mean = expected.get(key), float(values.mean())
        if record is None:
            good, beside = False, f"{'–':>10}{'–':>11}   not recorded"
        else:
            most = allowed(record, len(values)) if margin is None else margin(key, record, len(values))
            good = abs(mean - record["mean"]) <= most
            beside = f"{record['mean']:>10.4g}{most:>11.2g}" + ("" if good else "   differs")
        results[key] = summary(values, digits) | {"agrees": good}
        if show or not good:
            print(f"{key:<{width}}{mean:>10.4g}{beside}")
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return results


def verdict(results: Mapping[str, Mapping[str, Any]], out: Path, wrong: Sequence[str] = ()) -> bool:
    """Say whether every result agrees and no claim (``wrong``) failed."""
    print(*wrong, sep="\n", end="\n" if wrong else "")
    good = all(entry["agrees"] for entry in results.values())
    said = "All entries agree." if good else "Some entries differ from expected.json."
    print(said, f"Written to {out}.")
    return good and not wrong


def machine() -> str:
    """What this is run on, in a few words."""
    name = platform.processor() or platform.machine()
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if os.path.exists("/proc/cpuinfo") else []
    name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}"
    return f"{name} ({platform.machine()}), {os.cpu_count()} cores, {platform.system()}, {versions}"


def write_expected(
    here: Path, about: str, found: Mapping[str, Floats], digits: int = 6, *, only: Sequence[str] = ()
) -> None:
    """Write ``expected.json`` anew: only after a change that is meant to change the numbers.

    The date, the machine and the processor time are kept with it. ``only``: patterns of the keys that were measured
    this time; all others stay as they were recorded.
    """
    path, entries = here / "expected.json", {key: summary(values, digits) for key, values in found.items()}
    run: dict[str, Any] = {"date": datetime.datetime.now(datetime.timezone.utc).date().isoformat()}
    run |= {"machine": machine(), "minutes": round(time.process_time() / 60, 1), "entries": list(only) or ["*"]}
    runs = [run]
    if only and path.is_file():
        before = json.loads(path.read_text(encoding="utf-8"))
        kept = {k: e for k, e in before["entries"].items() if not any(fnmatchcase(k, pattern) for pattern in only)}
        entries, runs = kept | entries, [*before.get("recorded", []), run]
    lines = [f"    {json.dumps(key, ensure_ascii=False)}: {json.dumps(entry)}" for key, entry in entries.items()]
    recorded = ",\n".join(f"    {json.dumps(run, ensure_ascii=False)}" for run in runs)
    head = (
        f'{{\n  "about": {json.dumps(about, ensure_ascii=False)},\n  "recorded": [\n{recorded}\n  ],\n  "entries": {{\n'
    )
    path.write_text(head + ",\n".join(lines) + "\n  }\n}\n", encoding="utf-8")


def command(about: str | None, here: Path, main: Callable[[bool, Path], bool], record: Callable[..., None]) -> None:
    """``run.py [--quick] [--out FOLDER] [--record [PART ...]]``; parts only where ``record`` takes their names."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="few repetitions")
    parser.add_argument("--out", type=Path, default=here / "out")
    parser.add_argument("--record", nargs="*", metavar="PART", help="write expected.json anew, or parts of it")
    options = parser.parse_args()
    if options.record is not None:
        record(*options.record)
    sys.exit(0 if main(options.quick, options.out) else 1)
