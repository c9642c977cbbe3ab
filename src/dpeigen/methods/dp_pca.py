"""``dp-pca``: Oja's algorithm on disjoint batches with noise that follows the gradients. One pass, no bound on rows.

Guarantee: (ε, δ)-DP for every data set, δ > 0, one row replaced, exact numerics. Every row is in one half of one batch
and each half spends the whole budget on its own rows (`methods.streaming` has the proof of parallel composition):

- first half: the scale of the gradients x(xᵀw), that is the top eigenvalue of their covariance (`methods.spread`);
- second half: their mean at that scale (`methods.mean`), and one step w ← w + η·mean, normalised.

A gradient is a function of its row and of released numbers (w, the centre, the directions before), computed exactly
or entry by entry, so that one row changes one gradient. A private centre, the eigenvalues that the learning rate
needs, and the variances along the directions are released in the same way from batches of their own.

Algorithm 3 of Liu, Kong, Jain, Oh 2022, with the learning rate h/((λ₁ − λ₂)(ξ + t)) of its Theorem 2.2 at ξ = 0: the
normalised step itself keeps early steps from overshooting, as ξ = h·λ₁/(λ₁ − λ₂) would. More than one component: batches
take turns, and direction j sees rows without their parts along directions 1..j−1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._validate import check_count, check_flag, check_positive, complain
from dpeigen.methods.base import Estimate, Task
from dpeigen.methods.framing import frame_rows, location
from dpeigen.methods.mean import MeanRelease, MeanShares, mean_of, vectors_needed
from dpeigen.methods.spread import eigenvalues_of_moment, groups_needed, histogram_share, top_eigenvalue
from dpeigen.methods.streaming import (
    LARGEST_BATCH,
    OnePassMethod,
    Stream,
    deflated,
    exact_scores,
    orthonormal,
    refuse_few_rows,
)
from dpeigen.privacy import ApproximateCost, Randomness, Spend
from dpeigen.privacy.histogram import tail_delta
from dpeigen.stats.frame import LARGEST_FACT, LARGEST_FLOAT
from dpeigen.stats.spectrum import fix_signs

Floats = NDArray[np.float64]
FEWEST_ROUNDS, MOST_ROUNDS = 8, 64  # steps of each direction, where the number of rows is known
_PAIRS_PER_GROUP = 4  # at least, for the scale of a batch
_TINY = 2.0**-40  # of the scale of the data: the scale of gradients that do not vary at all


@dataclass(frozen=True)
class DPPCA(OnePassMethod):
    """Oja steps on private means of gradients.

    Parameters
    ----------
    gap : λ₁ − λ₂ of the covariance, if it is known; else it is released from a first batch. (For component j it stands
        for λ_j − λ_{j+1}.)
    h : the numerator of the learning rate, above ½; by default chosen from the released size of the noise.
    batch : rows of a batch; by default about n over log²(n)/4 where n is known, else twice the least that makes sense.
    box : truncate gradients to a box, as printed, instead of a ball.
    """

    gap: float | None = None
    h: float | None = None
    batch: int | None = None
    box: bool = False

    name = "dp-pca"
    reference = "Liu, Kong, Jain, Oh 2022"
    needs_bound = False

    def check(self, task: Task) -> None:
        super().check(task)
        owner = type(self).__name__
        if task.private_bound:
            remedy = "Leave bound=None: this method needs none. Or give a public radius or column bounds."
            raise ValueError(complain("bound", task.owner, f"public or None for method={self.name!r}", "private", remedy))
        if self.gap is not None:
            check_positive("gap", self.gap, owner)
        if self.h is not None and check_positive("h", self.h, owner) <= 0.5:
            raise ValueError(complain("h", owner, "> 0.5: slower rates do not converge", self.h))
        check_flag("box", self.box, owner)
        if self.batch is not None:
            least = self.least_batch(task)
            check_count("batch", self.batch, owner)
            if self.batch < least:
                remedy = f"At this budget and {task.n_features} columns a batch needs at least {least} rows."
                raise ValueError(complain("batch", owner, f"≥ {least}", self.batch, remedy))
        refuse_few_rows(task, self.rows_needed(task), self.name)
        self.shares(task)

    def shares(self, task: Task) -> MeanShares:
        """The split of the mean's half of a batch of the least size, for its refusals."""
        return MeanShares.of(task.budget, self.least_batch(task), task.n_features, box=self.box)

    def least_batch(self, task: Task) -> int:
        """Rows of the smallest batch in which both halves stand out of their noise."""
        halves = max(
            2 * _PAIRS_PER_GROUP * groups_needed(task.budget),
            vectors_needed(task.budget, task.n_features, box=self.box),
        )
        return 2 * halves * (2 if task.pairs else 1)

    def spectrum_rows(self, task: Task) -> int:
        """Rows of the batch that the gaps are released from; 0 where the gap is given."""
        if self.gap is not None:
            return 0
        k = _components(task)
        per_group = max(2 * (k + 1), task.n_features)
        return max(self.least_batch(task), (k + 1) * groups_needed(task.budget) * per_group * (2 if task.pairs else 1))

    def _others(self, task: Task) -> int:
        return 1 + int(task.private_center)  # batches for the variances and the centre

    def rows_needed(self, task: Task) -> int:
        """Rows for the fewest rounds of the smallest batches."""
        batch = self.least_batch(task) if self.batch is None else self.batch
        return self.spectrum_rows(task) + batch * (FEWEST_ROUNDS * _components(task) + self._others(task))

    def plan(self, task: Task) -> tuple[int, int | None]:
        """Rows of a batch, and rounds (None: as many as come)."""
        k, least = _components(task), self.least_batch(task)
        most = max(least, LARGEST_BATCH // task.n_features)
        if task.n_rows is None:
            return self.batch or min(2 * least, most), None
        rows = task.n_rows - self.spectrum_rows(task)
        rounds = float(np.clip(math.log(task.n_rows) ** 2 / 4, FEWEST_ROUNDS, MOST_ROUNDS))
        batch = self.batch or int(np.clip(rows / (k * rounds + self._others(task)), least, most))
        batch = batch // (4 if task.pairs else 2) * (4 if task.pairs else 2)
        return batch, (rows // batch - self._others(task)) // k

    def start(self, task: Task, rng: Randomness) -> Stream:
        return _Run(self, task, rng)


def _components(task: Task) -> int:
    if task.n_components is None:
        raise AssertionError("`check` has refused a whole covariance")
    return task.n_components


class _Run(Stream):
    """The stream of ``dp-pca``."""

    def __init__(self, method: DPPCA, task: Task, rng: Randomness) -> None:
        frame, radius = frame_rows(task, weighted=False)
        super().__init__(task, rng, frame, radius if isinstance(task.bound, float) else None)
        self.method = method
        self.batch, self.rounds = method.plan(task)
        k, d = _components(task), task.n_features
        self.directions = orthonormal(rng.normal((k, d)))
        self.top: float | None = None
        self.gaps: list[float | None] = [method.gap] * k
        self.rates: list[float | None] = [method.h] * k
        self.steps = [0] * k
        self.skipped = 0  # batches whose scale did not stand out: paid for, not used
        self.variances: Floats | None = None
        self.queue = [*(["centre"] if task.private_center else []), *(["spectrum"] if method.gap is None else [])]
        self.turn = 0  # batches for directions so far
        self._shares: dict[int, MeanShares] = {}

    @cached_property
    def _groups(self) -> int:
        return groups_needed(self.task.budget)

    # --- what a batch is for; depends on how many there were, and on nothing else -----------------------------------

    def _role(self) -> str:
        if self.queue:
            return self.queue[0]
        k = len(self.directions)
        round_, position = divmod(self.turn, k)
        if self.rounds is not None:
            return "direction" if round_ < self.rounds else "variances" if self.variances is None else ""
        # Without an end in sight, variances are released after rounds 1, 2, 4, 8 …
        due = position == 0 and round_ > 0 and round_ & (round_ - 1) == 0
        return "variances" if due and self._variances_at != self.turn else "direction"

    _variances_at = 0

    def wanted(self) -> int:
        role = self._role()
        return 0 if not role else self.method.spectrum_rows(self.task) if role == "spectrum" else self.batch

    def use(self, rows: Floats) -> None:
        role, terms = self._role(), self.framed(rows)
        if role == "centre":
            self._use_for_center(terms)
        elif role == "spectrum":
            self.top, self.gaps = eigenvalues_of_moment(terms, len(self.directions), self.task.budget, self.rng)
        elif role == "direction":
            self._use_for_direction(terms, self.turn % len(self.directions))
            self.turn += 1
        else:
            self._use_for_variances(terms)
        if self.queue:
            self.queue.pop(0)

    def _mean(self, first: Floats, second: Floats, fallback: Floats | None = None) -> MeanRelease | None:
        """The mean of the second half at the scale of the first; None where no scale stands out."""
        scale = top_eigenvalue(first, self.task.budget, self.rng)
        if scale is None:
            self.skipped += 1
            return None
        d = second.shape[1]
        if d not in self._shares:
            self._shares[d] = MeanShares.of(self.task.budget, len(second), d, box=self.method.box)
        floor = _TINY**2 if self.top is None else (self.top * _TINY) ** 2
        return mean_of(second, max(scale, floor, 1e-280), self._shares[d], self.rng, fallback)

    def _use_for_center(self, terms: Floats) -> None:
        half = len(terms) // 2
        found = self._mean(terms[:half], terms[half:])
        if found is None:
            return  # the public point that rows are measured from stays the centre
        origin = np.zeros(self.task.n_features) if self.frame.center is None else self.frame.center
        self.frame = replace(self.frame, center=np.clip(origin + found.mean, -LARGEST_FACT, LARGEST_FACT))

    def _use_for_direction(self, terms: Floats, j: int) -> None:
        scores = exact_scores(terms, self.directions[: j + 1])
        with np.errstate(over="ignore"):
            gradients = deflated(terms, scores, self.directions[:j]) * scores[:, j, None]
        gradients = np.clip(gradients, -LARGEST_FLOAT, LARGEST_FLOAT)
        half = len(gradients) // 2
        found = self._mean(gradients[:half], gradients[half:])
        if found is None:
            return
        gradient = found.mean
        length = float(np.linalg.norm(gradient))
        if not (0 < length < LARGEST_FACT):
            return
        gap = self.gaps[j]
        if not gap:
            gap = self.gaps[j] = length / 2  # none stood out: as if the other eigenvalues were half as large
        if self.rates[j] is None:
            spread = math.hypot(found.deviation, found.radius / math.sqrt(len(self.directions[0]) * (len(terms) - half)))
            self.rates[j] = self._choose_rate(max(self.top or 0.0, length), gap, spread)
        self.steps[j] += 1
        rate = float(self.rates[j] or 1.0) / (gap * self.steps[j])
        self.directions[j] += rate * gradient
        self.directions = orthonormal(self.directions)

    def _choose_rate(self, top: float, gap: float, spread: float) -> float:
        """h, by the two terms of Theorem 2.2 with a = h·λ₁/gap in the place of ξ.

        What is left of the start, d·(a/(T + a))^2h, and the noise of all steps, h²/(2h − 1)·d·spread²/(gap²(T + a)).
        """
        d, rounds = self.task.n_features, MOST_ROUNDS if self.rounds is None else self.rounds
        h = np.linspace(1.0, 16.0, 61)
        a = h * max(1.0, top / gap)
        start = d * (a / (rounds + a)) ** (2 * h)
        noise = h**2 / (2 * h - 1) * d * (spread / gap) ** 2 / (rounds + a)
        return float(h[np.argmin(start + noise)])

    def _use_for_variances(self, terms: Floats) -> None:
        k, d = self.directions.shape
        scores = exact_scores(terms, self.directions)
        columns = [scores**2 for scores in scores.T]
        if k < d:
            rest = deflated(terms, scores, self.directions)
            with np.errstate(over="ignore"):
                columns.append(np.einsum("ij,ij->i", rest, rest))
        with np.errstate(over="ignore"):
            squares = np.clip(np.column_stack(columns), 0.0, LARGEST_FLOAT)
        half = len(squares) // 2
        found = self._mean(squares[:half], squares[half:])
        self._variances_at = self.turn
        if found is not None:
            self.variances = np.maximum(found.mean, 0.0)
        elif self.rounds is not None and self.variances is None:
            self.variances = np.zeros(k + int(k < d))

    # --- what comes out -----------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        return self.variances is not None and all(self.steps)

    def estimate(self) -> Estimate:
        k, d = self.directions.shape
        unit = float(self.frame.unit[0]) ** 2
        variances = (np.zeros(k + 1) if self.variances is None else self.variances) * unit
        order = np.argsort(-variances[:k], kind="stable")
        components, eigenvalues = fix_signs(self.directions[order]), variances[:k][order]
        left = float(variances[k] / (d - k)) if k < d else 0.0
        covariance = (components.T * (eigenvalues - left)) @ components + left * np.eye(d)
        return Estimate(
            components=components,
            eigenvalues=eigenvalues,
            noise_variance=left,
            covariance=(covariance + covariance.T) / 2,
            mean=location(self.frame, None, self.task),
            n_rows=float(self.rows_used),
            radius=self.radius if self.radius is None else self.radius * float(self.frame.unit[0]),
            split=(spend_of(self.task, "stability histograms, sparse vector, discrete Gaussian"),),
            numerics="exact",
            notes=NOTES,
            details=self._details(),
        )

    def _details(self) -> dict[str, Any]:
        cost, failure = histogram_share(self.task.budget)
        tail = tail_delta(failure, self.task.budget.epsilon)
        scale = (Spend("scale", "stability histogram", cost), Spend("threshold", "chance of an empty bin",
                 ApproximateCost(1e-12, tail)))
        shares = MeanShares.of(self.task.budget, self.batch // 2 // self.frame.rows_per_term, self.task.n_features,
                               box=self.method.box)
        return {
            "batch": self.batch,
            "rows_used": self.rows_used,
            "steps": self.steps,
            "skipped": self.skipped,
            "top_eigenvalue": self.top,
            "gaps": self.gaps,
            "rates": self.rates,
            "first_half": [spend.to_dict() for spend in scale],
            "second_half": [spend.to_dict() for spend in shares.spends()],
        }

    def state(self) -> tuple[dict[str, Floats], dict[str, Any]]:
        arrays = {"directions": self.directions}
        if self.frame.center is not None:
            arrays["center"] = self.frame.center
        if self.variances is not None:
            arrays["variances"] = self.variances
        names = ("rows_used", "top", "gaps", "rates", "steps", "skipped", "queue", "turn", "batch", "_variances_at")
        return arrays, {name: getattr(self, name) for name in names}

    def restore(self, arrays: dict[str, Floats], facts: dict[str, Any]) -> None:
        self.directions = arrays["directions"].copy()
        self.variances = arrays.get("variances")
        self.frame = replace(self.frame, center=arrays.get("center"))
        for name, value in facts.items():
            setattr(self, name, value)
        self.spent = self.rows_used > 0


NOTES = (
    "Each row was used in one batch only, so each pays the whole budget once (parallel composition).",
    "Variances are means of clipped squares: robust, and low for heavy tails.",
    "The time taken depends on how many bins of a histogram are occupied.",
)


def spend_of(task: Task, mechanisms: str) -> Spend:
    """The one entry of the split: what every row pays in its own batch."""
    return Spend("every row, in its own batch", mechanisms, ApproximateCost(task.budget.epsilon, task.budget.delta))
