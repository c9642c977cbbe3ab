"""Many processes on two hosts against one ledger, killed at random and started again.

Each process wants ``wishes`` releases with ids of its own, and writes down what it was told after it was told. A killed
one is started again, reads what it has, and goes on with the same ids.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from dpeigen.privacy import Budget
from dpeigen.privacy.ledger import Ledger

COST = Budget(0.001, 1e-10)

WORKER = """
import os, sys
from pathlib import Path
from dpeigen.privacy import Budget
from dpeigen.privacy.ledger import BudgetExceededError, Ledger, RepeatedReleaseError

place, number, wishes, epsilon, delta, notes = sys.argv[1:]
ledger = Ledger(place, by=f"worker {number}", host=f"host {int(number) % 2}")
cost = Budget(float(epsilon), float(delta))
told = {line.split()[1] for line in Path(notes).read_text().splitlines() if line.endswith(".")}
with open(notes, "ab", buffering=0) as file:
    file.write(b"\\n")  # whatever half a line a killed one has left
    for i in range(int(wishes)):
        wish = f"w{number}-{i}"
        if wish in told:
            continue
        try:
            ledger.commit(ledger.reserve(cost, "share", id=wish))
            answer = "granted"
        except RepeatedReleaseError:  # an earlier life had committed and was killed before it could write it down
            answer = "granted"
        except BudgetExceededError:
            answer = "refused"
        file.write(f"{answer} {wish} .\\n".encode())
"""


@dataclass(frozen=True)
class Outcome:
    """What processes were told and what the ledger says."""

    granted: set[str]
    refused: set[str]
    committed: set[str]
    entries: int
    kills: int
    seconds: float
    problems: tuple[str, ...]


def run(place: str | Path, folder: Path, *, processes: int, wishes: int, room: int, kills: int, seed: int) -> Outcome:
    """Make a ledger with room for so many, let them loose, and count."""
    ledger = Ledger.create(place, epsilon=room * COST.epsilon, delta=room * COST.delta, accounting="sum")
    rng, start = random.Random(seed), time.perf_counter()
    notes = [folder / f"notes-{i}" for i in range(processes)]
    for file in notes:
        file.touch()

    def launch(i: int) -> subprocess.Popen:
        numbers = [str(i), str(wishes), repr(COST.epsilon), repr(COST.delta)]
        return subprocess.Popen([sys.executable, "-c", WORKER, str(place), *numbers, str(notes[i])])

    workers = [launch(i) for i in range(processes)]
    # Half of the kills while there is room, half later; each when so much has been written down.
    size, all_of_it = len("granted w0-0 .\n"), processes * wishes
    early = [rng.uniform(0, room * 0.95) for _ in range(kills // 2)]
    late = [rng.uniform(room, all_of_it * 0.95) for _ in range(kills - len(early))]
    moments, done = sorted(early + late), 0
    while any(worker.poll() is None for worker in workers):
        written = sum(file.stat().st_size for file in notes) / size
        alive = [i for i, worker in enumerate(workers) if worker.poll() is None]
        if done < kills and alive and written >= moments[done]:
            i = rng.choice(alive)
            os.kill(workers[i].pid, signal.SIGKILL)
            done += workers[i].wait() == -signal.SIGKILL
            workers[i] = launch(i)
        time.sleep(0.002)
    assert all(worker.returncode == 0 for worker in workers)
    lines = [line.split() for file in notes for line in file.read_text().splitlines() if line.endswith(".")]
    history = [entry for entry in ledger.history() if entry["state"] != "cancelled"]
    return Outcome(
        granted={wish for answer, wish, _ in lines if answer == "granted"},
        refused={wish for answer, wish, _ in lines if answer == "refused"},
        committed={entry["id"] for entry in history if entry["state"] == "committed"},
        entries=len(history),
        kills=done,
        seconds=time.perf_counter() - start,
        problems=ledger.verify().problems,
    )
