"""The ledger under fire: 16 processes on two hosts, 500 wishes each, room for 1,000, and 50 kills; speed of one grant.

`python benchmarks/ledger.py` also kills a fit at every line between reserve and save (minutes).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests" / "ledger"
sys.path.insert(0, str(TESTS))
EVERY = 100_000  # more points than there are lines

Row = tuple[str, str, str, bool | None]


@contextmanager
def places() -> Iterator[dict[str, str]]:
    """A folder on disk, and a server of our own with durable writes where one can be started."""
    import postgres_server

    with tempfile.TemporaryDirectory() as folder:
        found = {"SQLite": f"{folder}/{{}}.ledger"}
        if reason := postgres_server.why_not():
            print(f"PostgreSQL is left out: {reason}")
            yield found
            return
        with postgres_server.server(durable=True) as url:
            yield {**found, "PostgreSQL": url + "&ledger=bench_{}"}


def under_fire(kind: str, place: str) -> Row:
    """The bar: exactly as many grants as there is room for."""
    import chaos

    with tempfile.TemporaryDirectory() as folder:
        outcome = chaos.run(place, Path(folder), processes=16, wishes=500, room=1000, kills=50, seed=0)
    exact = len(outcome.granted) == outcome.entries == 1000 and len(outcome.refused) == 7000
    exact = exact and outcome.granted == outcome.committed and not outcome.problems and outcome.kills == 50
    told = f"{len(outcome.granted)} granted, {len(outcome.refused)} refused, {outcome.kills} killed"
    what = f"ledger in {kind}: 16 processes × 500 reservations, room for 1,000, 50 × kill -9"
    return what, f"{told}, record verified, {outcome.seconds:.0f} s", "exactly 1,000", exact


def speed(kind: str, place: str) -> Row:
    """Median of reserve and commit, on disk."""
    from dpeigen.privacy import Budget
    from dpeigen.privacy.ledger import Ledger

    ledger, times = Ledger.create(place, epsilon=1000.0), []
    for _ in range(100):
        start = time.perf_counter()
        ledger.commit(ledger.reserve(Budget(0.01), "speed"))
        times.append(time.perf_counter() - start)
    return f"ledger in {kind}: reserve and commit", f"{1000 * statistics.median(times):.0f} ms", "", None


def every_line(kind: str, place: str) -> Row:
    """A fit and its saving, killed at every line of the library's own code there."""
    with tempfile.TemporaryDirectory() as folder:
        script = [sys.executable, str(TESTS / "killer.py"), place, folder, str(EVERY)]
        lines = subprocess.run(script, capture_output=True, text=True, check=True).stdout.splitlines()
    cases = [json.loads(line) for line in lines]
    wrong = 0
    for case in cases:
        drawn = bool(case["entries"]) and case["entries"][0][1]
        right = case["killed"] and not case["problems"] and not case["problems_after_retry"]
        right = right and case["spent"] == (0.5 if case["entries"] else 0.0) and case["spent_after_retry"] == 0.5
        right = right and case["retry"] == ("refused" if drawn else "released")
        wrong += not (right and (not case["files"] or case["entries"] == [["committed", True]]))
    what = f"ledger in {kind}: a fit and its saving killed at each of {len(cases)} lines"
    return what, f"{wrong} lost or granted twice", "0", wrong == 0


def rows() -> list[Row]:
    with places() as found:
        fired = [under_fire(kind, place.format("fire")) for kind, place in found.items()]
        return fired + [speed(kind, place.format("speed")) for kind, place in found.items()]


if __name__ == "__main__":
    with places() as found:
        for kind, place in found.items():
            print(*every_line(kind, place), sep=" | ", flush=True)
    for row in rows():
        print(*row, sep=" | ", flush=True)
