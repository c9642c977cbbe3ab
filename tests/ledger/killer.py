"""Kill -9 at every line between the beginning of a fit and the end of saving its release. Run as a script.

A child process counts the lines of this library's own code that it executes and kills itself at the n-th. The parent
looks at what is left, tries again with the same release id, and prints one line of JSON for each n.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import warnings
from pathlib import Path

import numpy as np

from dpeigen import Ledger, PrivatePCA, load_release
from dpeigen.privacy.ledger import RepeatedReleaseError

PARTS = ("/privacy/ledger/", "/estimators/base.py", "/estimators/course.py", "/dpeigen/release.py", "/dpeigen/io.py")
X = np.random.default_rng(0).normal(size=(50, 3))
EPSILON, CAP = 0.5, 1.0


def publish(place: str, folder: Path) -> None:
    pca = PrivatePCA(1, epsilon=EPSILON, bound=4.0, center=None, method="laplace", ledger=Ledger(place).named("r"))
    pca.fit(X).release_.save(folder)


def traced(at: int | None, call) -> int:
    """Run with a count of lines; die at one of them, or return how many there were."""
    count = 0

    def line(frame, event, arg):
        nonlocal count
        if event == "line":
            count += 1
            if count == at:
                os.kill(os.getpid(), signal.SIGKILL)
        return line

    def enter(frame, event, arg):
        return line if any(part in frame.f_code.co_filename for part in PARTS) else None

    threading.settrace(enter)  # what Ctrl-C must not stop runs in another thread
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
    return count


def spent(ledger: Ledger) -> float:
    left = ledger.remaining()
    return CAP - (0.0 if left is None else left.epsilon)


def look(ledger: Ledger, folder: Path) -> dict:
    entries = ledger.history()
    try:
        load_release(folder)
        saved = True
    except (OSError, ValueError, RuntimeError):
        saved = False
    return {
        "entries": [(entry["state"], entry["started"]) for entry in entries],
        "files": sorted(os.listdir(folder)) if folder.exists() else [],
        "saved": saved,
        "spent": spent(ledger),
        "problems": list(ledger.verify().problems),
    }


def attempt(n: int, place: str, folder: Path) -> dict:
    ledger = Ledger.create(place, epsilon=CAP)
    child = os.fork()
    if child == 0:
        traced(n, lambda: publish(place, folder))
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    found = {"at": n, "killed": os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL}
    found |= look(ledger, folder)
    try:
        publish(place, folder.with_name(f"{folder.name}-again"))
        found["retry"] = "released"
    except RepeatedReleaseError:
        found["retry"] = "refused"
    found["spent_after_retry"], found["problems_after_retry"] = spent(ledger), list(ledger.verify().problems)
    return found


def main(pattern: str, folder: Path, points: int) -> None:
    """``pattern`` holds {} for a number: a place for each ledger."""
    warnings.simplefilter("ignore")
    place = pattern.format(0)
    Ledger.create(place, epsilon=CAP)
    lines = traced(None, lambda: publish(place, folder / "0"))
    for n in sorted({1 + round(i * (lines - 1) / (points - 1)) for i in range(points)}):
        print(json.dumps(attempt(n, pattern.format(n), folder / str(n))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
