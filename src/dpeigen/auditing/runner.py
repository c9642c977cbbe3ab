"""Audits in parallel, resumable, within a time limit, and with a confidence that remains valid if stopped early.

For each mechanism, in separate draws: (1) the catalogue of bad neighbours and a search that starts from the worst of
them, with a fast generator, since nothing is counted there, and at the largest ε for all; (2) pilot runs on the pair
found, which choose the event; (3) fresh runs, which count it. The number of fresh runs is fixed beforehand, and so are
the counts at which a result may be read (a quarter, a half, all of them). Each of these readings has a third of the
allowed error probability, so the last one reached in time is a valid statement. When the time is up, running pieces are
discarded and not counted.

Every finished piece is a file in the folder, written atomically; a second call with the same plan continues from there.
The work is done by processes with one BLAS thread each.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dpeigen._types import Floats
from dpeigen.auditing.claims import Finding
from dpeigen.auditing.draws import BufferedRandomness
from dpeigen.auditing.events import Event, find_events, scores
from dpeigen.auditing.pairs import Pair, catalogue, neighbours_of
from dpeigen.auditing.results import PIECES, READINGS, AuditPlan, Result
from dpeigen.auditing.schedule import LateError, Processes, work_off
from dpeigen.auditing.targets import TARGETS, Target, find_target
from dpeigen.io import replace_file
from dpeigen.privacy import Randomness
from dpeigen.privacy.randomness import SeededRandomness, SystemRandomness, made_up_generator

__all__ = [
    "FINALISTS",
    "SLOW",
    "STAGES",
    "run_audits",
    "separation",
    "work",
]

FINALISTS, SLOW = 6, 5  # pairs evaluated twice in a search; the cost from which on the short catalogue is used


@dataclass(frozen=True)
class _Job:
    """A piece of work that a process does: runs on one data set, or the search for a pair."""

    name: str
    epsilon: float
    stage: str  # "search", "pilot", "fresh"
    side: int
    piece: int
    count: int
    rows: Floats | None
    plan: AuditPlan
    deadline: float | None
    known: Pair | None = None  # the worst found at a larger ε, where it shows best

    @property
    def file(self) -> str:
        return "search.npz" if self.stage == "search" else f"{self.stage}-{self.side}-{self.piece}.npy"


def _generator(job: _Job) -> Randomness:
    if job.plan.seed is None:
        if job.stage == "search":
            return SeededRandomness(made_up_generator(SystemRandomness().word()))
        return BufferedRandomness()
    text = f"{job.name}|{job.epsilon!r}|{job.stage}|{job.side}|{job.piece}"
    digest = hashlib.sha256(text.encode()).digest()
    return SeededRandomness(made_up_generator(job.plan.seed, int.from_bytes(digest[:8], "little")))


def _releases(target: Target, rows: Floats, count: int, rng: Randomness, deadline: float | None) -> Floats:
    """The numbers of ``count`` releases."""
    found = []
    for _ in range(count):
        if deadline is not None and time.time() > deadline:
            raise LateError
        found.append(target.run(rows, rng))
    return np.nan_to_num(np.stack(found), nan=0.0, posinf=1e300, neginf=-1e300)


def work(job: _Job) -> dict[str, Any] | Floats:
    """One piece, in a separate process."""
    target, rng = find_target(job.name, job.epsilon), _generator(job)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if job.rows is not None:
            return _releases(target, job.rows, job.count, rng, job.deadline)
        pair = _search(target, job, rng)
    return {"first": pair.first, "second": pair.second, "name": np.array(pair.name)}


def _search(target: Target, job: _Job, rng: Randomness) -> Pair:
    """The pair that runs separate best: few runs of many pairs, then more runs of the best, which may be chance."""

    def apart(pair: Pair, runs: int) -> float:
        first, second = (_releases(target, rows, runs, rng, job.deadline) for rows in (pair.first, pair.second))
        return separation(first, second)

    if job.known is not None and job.known.first.shape == (target.n_rows, target.n_features):
        return job.known
    slow = TARGETS[job.name].cost >= SLOW if job.name in TARGETS else False
    short = max(20, job.count // 5)
    seen = [(apart(pair, short), pair) for pair in catalogue(target, quick=job.plan.quick or slow)]
    for _ in range(0 if target.model else job.plan.rounds // (4 if slow else 1)):
        pair = neighbours_of(max(seen, key=_first)[1], target, rng.uniform)
        seen.append((apart(pair, short), pair))
    finalists = sorted(seen, key=_first, reverse=True)[:FINALISTS]
    return max(((apart(pair, job.count), pair) for _, pair in finalists), key=_first)[1]


def _first(found: tuple[float, Pair]) -> float:
    return found[0]


def separation(first: Floats, second: Floats) -> float:
    """How well two samples can be separated: standardised differences of scores that the other half of them chose."""
    half = len(first) // 2
    best = 0.0
    for fit, test in ((slice(half), slice(half, None)), (slice(half, None), slice(half))):
        for _, score in scores(first[fit], second[fit]):
            a, b = score(first[test]), score(second[test])
            spread = float(np.sqrt((a.var() + b.var()) / 2 + 1e-300))
            best = max(best, min(abs(float(a.mean() - b.mean())) / spread, 1e6))
    return best


def _choose(target: Target, first: Floats, second: Floats, confidence: float) -> Event:
    """Of the best events of the pilot, the one with the larger expected bound on ε in fresh runs."""
    events = find_events(first, second, delta=target.claim.budget.delta, confidence=confidence)
    return max(events, key=lambda event: _judge(target, event, first, second, confidence).epsilon)


def _judge(target: Target, event: Event, first: Floats, second: Floats, confidence: float) -> Finding:
    hits = (event.hits(first), event.hits(second))
    return target.claim.judge(*event.probabilities(hits, len(first), confidence))


class _Audit:
    """One mechanism at one ε: finished pieces on disk, the next pieces, and the result so far."""

    def __init__(self, name: str, epsilon: float, plan: AuditPlan, folder: Path) -> None:
        self.name, self.epsilon, self.plan = name, epsilon, plan
        digest = hashlib.sha256(f"{name}|{epsilon!r}".encode()).hexdigest()[:12]
        self.folder = folder / digest
        self.folder.mkdir(parents=True, exist_ok=True)
        self.runs = plan.runs_of(name)
        self.above: _Audit | None = None  # the same mechanism at a larger ε

    def ready(self) -> bool:
        """Whether the search may begin: if a larger ε is audited too, its search comes first and is used for both."""
        return self.above is None or (self.above.folder / "search.npz").exists()

    def found(self) -> Pair | None:
        """The pair, if the search has ended."""
        return self.pair() if (self.folder / "search.npz").exists() else None

    def jobs(self, stage: int, deadline: float | None) -> list[_Job]:
        """The missing pieces of a stage: 0 the search, 1 the pilot, then the fresh runs up to each reading."""
        piece = self.runs // PIECES
        if stage == 0:
            count = max(40, min(200, self.runs // (16 if self.plan.quick else 8)))
            known = None if self.above is None else self.above.found()
            wanted = [_Job(self.name, self.epsilon, "search", 0, 0, count, None, self.plan, deadline, known)]
        else:
            pair = self.pair()
            kind = "pilot" if stage == 1 else "fresh"
            pieces = range(self.plan.pilot_of(self.name) if stage == 1 else READINGS[stage - 2])
            wanted = [
                _Job(self.name, self.epsilon, kind, side, i, piece, rows, self.plan, deadline)
                for i in pieces
                for side, rows in enumerate((pair.first, pair.second))
            ]
        return [job for job in wanted if not (self.folder / job.file).exists()]

    def save(self, job: _Job, value: Any) -> None:
        """Write a piece to the disk, atomically."""
        file = BytesIO()
        if isinstance(value, dict):
            np.savez(file, **value)
        else:
            np.save(file, value, allow_pickle=False)
        replace_file(self.folder / job.file, file.getvalue())

    def pair(self) -> Pair:
        with np.load(self.folder / "search.npz", allow_pickle=False) as found:
            return Pair(str(found["name"]), found["first"], found["second"])

    def _runs(self, stage: str, side: int, pieces: int) -> Floats:
        files = [self.folder / f"{stage}-{side}-{i}.npy" for i in range(pieces)]
        return np.concatenate([np.load(file, allow_pickle=False) for file in files])

    def result(self, reached: int) -> Result | None:
        """The result after this many stages; None before the first reading."""
        if reached < 3:
            return None
        target = find_target(self.name, self.epsilon)
        pilot = [self._runs("pilot", side, self.plan.pilot_of(self.name)) for side in (0, 1)]
        event = _choose(target, pilot[0], pilot[1], self.plan.level)
        first, second = (self._runs("fresh", side, READINGS[reached - 3]) for side in (0, 1))
        finding = _judge(target, event, first, second, self.plan.level)
        budget = target.claim.budget
        return Result(
            name=self.name,
            epsilon=budget.epsilon,
            delta=budget.delta,
            basis="distributional" if target.model else "worst-case",
            pair=self.pair().name,
            event=str(event),
            hits=(event.hits(first), event.hits(second)),
            trials=len(first),
            planned=self.runs,
            plain=finding.plain,
            fitted=finding.fitted,
            refuted=finding.refuted,
            confidence=self.plan.confidence,
        )


STAGES = 2 + len(READINGS)


def run_audits(
    plan: AuditPlan,
    folder: Path,
    *,
    minutes: float | None = None,
    workers: int = 2,
    progress: Callable[[str], None] = lambda text: None,  # noqa: ARG005
) -> tuple[list[Result], list[str]]:
    """Run the audits of a plan.

    Parameters
    ----------
    plan : AuditPlan
        What to attack, and how often.
    folder : Path
        Where finished pieces are kept, so that an interrupted run can continue.
    minutes : float or None, default=None
        Stop after this time; None: when all is done.
    workers : int, default=2
        Processes.
    progress : function of str
        Called with a line for each step.

    Returns
    -------
    (list of Result, list of str)
        Results, and the names of mechanisms that were not reached in time.
    """
    _fix(plan, folder)
    deadline = None if minutes is None else time.time() + 60 * minutes
    larger = sorted(set(plan.epsilons), reverse=True)
    audits = [_Audit(name, epsilon, plan, folder) for epsilon in larger for name in plan.targets]
    for above, audit in zip(audits, audits[len(plan.targets) :], strict=False):
        audit.above = above

    def say(stages: list[int]) -> None:
        readings = [sum(stage >= number for stage in stages) for number in (3, STAGES)]
        text = f"of {len(audits)} audits {readings[0]} have a first reading, {readings[1]} are complete"
        if text != said[-1]:
            said.append(text)
            progress(text)

    said = [""]
    with Processes(workers, work) as submit:
        stages = work_off(
            audits, stages=STAGES, first=3, submit=submit, workers=workers, deadline=deadline, progress=say
        )
    reached = dict(zip(audits, stages, strict=True))
    audits.sort(key=lambda audit: (plan.targets.index(audit.name), audit.epsilon))
    results = [audit.result(reached[audit]) for audit in audits]
    missing = [f"{a.name}, ε = {a.epsilon:g}" for a, r in zip(audits, results, strict=True) if r is None]
    return [r for r in results if r is not None], missing


def _fix(plan: AuditPlan, folder: Path) -> None:
    """Write the plan to the disk; refuse a folder with another plan, because its pieces do not belong to this one."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(asdict(plan), sort_keys=True)
    file = folder / "plan.json"
    if file.exists():
        if json.loads(file.read_text(encoding="utf-8")) != json.loads(text):
            raise ValueError(f"{folder} holds an audit with another plan. Give the same options, or another folder.")
        return
    replace_file(file, text.encode())
