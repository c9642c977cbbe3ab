"""Pairs of fits to compare: random ones, and few in which every setting of a subject occurs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from replay_kit import RefusedError, Verdict, replay
from replay_mixed import MIXED_SUBJECTS
from replay_subjects import SUBJECTS as OF_ROWS
from replay_subjects import Setting, Subject
from replay_tables import LONG_SOURCES, SOURCES, Neighbours
from replay_units import PEOPLE_SOURCES, UNIT_SUBJECTS

Generator = np.random.Generator
SUBJECTS = [*OF_ROWS, *UNIT_SUBJECTS, *MIXED_SUBJECTS]
__all__ = ["SUBJECTS", "Outcome", "Worst", "covering", "run_case", "run_pair"]


@dataclass(frozen=True)
class Outcome:
    """One compared pair."""

    subject: str
    setting: Setting
    rows: int
    verdict: Verdict

    @property
    def key(self) -> tuple[str, str, str]:
        """Method, relation, kind of budget."""
        return self.subject, self.setting.relation, "δ = 0" if self.setting.delta == 0 else "δ > 0"


_ATTEMPTS = 60


def run_case(
    subject: Subject, rng: Generator, *, long: bool = False, attempts: int = _ATTEMPTS, **fixed: Any
) -> Outcome | None:
    """A pair of fits with a random setting that the subject accepts; None if it has refused every attempt."""
    for _ in range(attempts):
        setting = _setting(subject, rng, long=long, **fixed)
        n = int(rng.choice(subject.rows + subject.long_rows * long))
        pair = subject.tables(rng, n, setting.d, replace=setting.relation == "replace")
        try:
            return Outcome(subject.name, setting, n, run_pair(subject, setting, pair, int(rng.integers(2**31))))
        except RefusedError:
            continue
    return None


def covering(subject: Subject, seed: int) -> Iterator[Outcome]:
    """Few pairs in which every bound, centre, relation, kind of budget and kind of source of a subject occurs."""
    missing: dict[str, set[Any]] = {
        "source": set(subject.sources),
        "bound": set(subject.bounds),
        "center": set(subject.centers),
        "relation": set(subject.relations),
        "delta": set(subject.deltas),
    }
    rng = np.random.default_rng([seed, len(subject.name)])
    while any(missing.values()):
        fixed = {name: min(values) for name, values in missing.items() if values}
        few = dict([next(iter(fixed.items()))])
        outcome = run_case(subject, rng, attempts=4, **fixed) or run_case(subject, rng, **few)
        if outcome is None:
            raise AssertionError(f"{subject.name} refuses {few}.")
        yield outcome
        for name, values in missing.items():
            values.discard(getattr(outcome.setting, name))


def run_pair(subject: Subject, setting: Setting, pair: Neighbours, seed: int) -> Verdict:
    """Both fits."""
    with tempfile.TemporaryDirectory(prefix="dpeigen-replay-") as folder:
        make = {**LONG_SOURCES, **PEOPLE_SOURCES}[setting.source]
        before, after = make(pair.before, Path(folder, "a")), make(pair.after, Path(folder, "b"))
        return replay(
            lambda source, rng: subject.fit(setting, source, rng),
            before,
            after,
            promise=subject.promise(setting),
            places=pair.places,
            seed=seed,
            people=pair.people,
        )


def _setting(subject: Subject, rng: Generator, *, long: bool, **fixed: Any) -> Setting:
    sources = (*subject.sources, "dask") if long and len(subject.sources) == len(SOURCES) else subject.sources
    d = int(rng.choice(subject.columns))
    chosen = {
        "bound": str(rng.choice(subject.bounds)),
        "center": str(rng.choice(subject.centers)),
        "relation": str(rng.choice(subject.relations)),
        "delta": float(rng.choice(subject.deltas)),
        "epsilon": float(rng.choice(subject.epsilons)),
        "source": str(rng.choice(sources)),
        "d": d,
        "k": int(rng.integers(1, d + 1)),
        "whole": bool(rng.random() < 0.4),
    }
    return Setting(**{**chosen, **fixed})


@dataclass
class Worst:
    """Of the pairs of one method, relation and kind of budget."""

    pairs: int = 0
    single: float = 0.0
    together: float = 0.0

    def add(self, verdict: Verdict) -> None:
        """One more pair."""
        self.pairs += 1
        self.single, self.together = max(self.single, verdict.single), max(self.together, verdict.together)
