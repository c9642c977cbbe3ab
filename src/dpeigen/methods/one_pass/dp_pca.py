"""``dp-pca``: Oja's algorithm on disjoint batches with noise that follows the gradients. One pass, no bound on rows.

Guarantee: (ε, δ)-DP for every data set, δ > 0, one row replaced, exact numerics. Every row is in one half of one batch
and each half spends the whole budget on its own rows (`curator.feed` has the proof of parallel composition):

- first half: the scale of the gradients x(xᵀw), that is the top eigenvalue of their covariance (`questions.scale`);
- second half: their mean at that scale (`one_pass.mean`), and one step w ← w + η·mean, normalised.

A gradient is a function of its row and of released numbers (w, the centre, the directions before), computed exactly
or entry by entry, so that one row changes one gradient. A private centre, the eigenvalues that the learning rate
needs, and the variances along the directions are released in the same way from batches of their own.

Algorithm 3 of Liu, Kong, Jain, Oh 2022. The learning rate has the form h/((λ₁ − λ₂)(ξ + t)) of its Theorem 2.2; ξ is
not the theorem's worst case, with which no real data set would move, but follows from the noise of each step (`gain`).
More than one component: batches take turns, and direction j sees rows without their parts along directions 1..j−1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import check_count, check_flag, check_positive, complain
from dpeigen.curator import Curator
from dpeigen.methods.base import Estimate, Task
from dpeigen.methods.framing import frame_rows
from dpeigen.methods.one_pass.mean import MeanRelease, MeanShares, ask_mean, vectors_needed
from dpeigen.methods.one_pass.spread import (
    ask_ratios,
    ask_top_eigenvalue,
    groups_needed,
    histogram_share,
    scale_shares,
)
from dpeigen.methods.one_pass.streaming import LARGEST_BATCH, OnePassMethod, Stream, components_of, refuse_few_rows
from dpeigen.methods.outline import Planned
from dpeigen.privacy import GaussianCost, Spend, gaussian_mu
from dpeigen.privacy.accounting import LEAST_SENSITIVITY
from dpeigen.privacy.histogram import tail_spend
from dpeigen.privacy.randomness import check_scale
from dpeigen.stats import Frame
from dpeigen.stats.frame import LARGEST_FACT, RowView
from dpeigen.stats.gradients import Clipped, Gradients, SquaredScores
from dpeigen.stats.spectrum import orthonormal

FEWEST_ROUNDS, MOST_ROUNDS = 8, 64  # steps of each direction, where the number of rows is known
_PAIRS_PER_GROUP = 4  # at least, for the scale of a batch
_UNKNOWN_RATIO, _LARGEST_RATIO = 0.5, 0.995  # of eigenvalues: where none stood out, and at most
_SCALE_OF_CONSTANTS = 2.0**-80  # for vectors that do not vary at all


@dataclass(frozen=True)
class DPPCA(OnePassMethod):
    """Oja steps on private means of gradients.

    Parameters
    ----------
    gap : λ₁ − λ₂ of the covariance, if it is known (for component j it stands for λ_j − λ_{j+1}); else λ₂/λ₁ is
        released from a first batch, and λ₁ is the length of the released gradient.
    h : the numerator of the learning rate, above ½.
    batch : rows of a batch; by default what the ratio of eigenvalues asks for where n is known, else twice the least
        that makes sense.
    box : truncate gradients to a box, as printed, instead of a ball.
    """

    gap: float | None = None
    h: float = 1.5
    batch: int | None = None
    box: bool = False

    name = "dp-pca"
    # Its histograms are of single gradients, which populations do not draw.
    planned = Planned(drawn=True, covariance=False, slow=12, larger=3)
    reference = "Liu, Kong, Jain, Oh 2022"
    needs_bound = False

    def check(self, task: Task) -> None:
        super().check(task)
        owner = type(self).__name__
        if task.private_bound:
            remedy = "Leave bound=None: this method needs none. Or give a public radius or column bounds."
            raise ValueError(
                complain("bound", task.owner, f"public or None for method={self.name!r}", "private", remedy)
            )
        if self.gap is not None:
            check_positive("gap", self.gap, owner)
        if check_positive("h", self.h, owner) <= 0.5:
            raise ValueError(complain("h", owner, "> 0.5: slower rates do not converge", self.h))
        check_flag("box", self.box, owner)
        if self.batch is not None:
            least = self.least_batch(task)
            check_count("batch", self.batch, owner)
            if self.batch < least:
                remedy = f"At this budget and {task.n_features} columns a batch needs at least {least} rows."
                raise ValueError(complain("batch", owner, f"≥ {least}", self.batch, remedy))
        refuse_few_rows(task, self.rows_needed(task), self.name)
        costs = MeanShares.of(task.budget, self.least_batch(task), task.n_features, box=self.box).costs
        smallest = min(cost.mu for cost in costs.values() if isinstance(cost, GaussianCost))
        check_scale(2 * LEAST_SENSITIVITY * math.sqrt(2 * task.n_features) / smallest)

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
        k = components_of(task)
        least = k * groups_needed(task.budget) * max(2 * (k + 1), task.n_features) * (2 if task.pairs else 1)
        most = max(least, LARGEST_BATCH // task.n_features)
        return min(max(self.least_batch(task), least, (task.n_rows or 0) // 20), most)

    def _others(self, task: Task) -> int:
        return 1 + int(task.private_center)  # batches for the variances and the centre

    def rows_needed(self, task: Task) -> int:
        """Rows for the fewest rounds of the smallest batches."""
        batch = self.least_batch(task) if self.batch is None else self.batch
        return self.spectrum_rows(task) + batch * (FEWEST_ROUNDS * components_of(task) + self._others(task))

    def plan(self, task: Task, rows: int | None, others: int, rounds: float) -> tuple[int, int | None]:
        """Rows of a batch, and rounds of one batch for each direction (None: as many as come), for the rows to come."""
        k, least = components_of(task), self.least_batch(task)
        most = max(least, LARGEST_BATCH // task.n_features)
        if rows is None:
            return self.batch or min(2 * least, most), None
        rounds = float(np.clip(rounds, FEWEST_ROUNDS, MOST_ROUNDS))
        batch = self.batch or int(np.clip(rows / (k * rounds + others), least, most))
        batch = batch // (4 if task.pairs else 2) * (4 if task.pairs else 2)
        return batch, (rows // batch - others) // k

    def start(self, task: Task, start: Floats) -> Stream:
        return _Run(self, task, start)


class _Run(Stream):
    """The stream of ``dp-pca``."""

    saved = ("batch", "rounds", "ratios", "errors", "steps", "skipped", "queue", "turn", "variances_at")

    mechanism = "stability histograms, sparse vector, discrete Gaussian"

    def __init__(self, method: DPPCA, task: Task, start: Floats) -> None:
        frame, radius = frame_rows(task, weighted=False)
        super().__init__(task, frame, radius if isinstance(task.bound, float) else None, start)
        self.method = method
        rows = None if task.n_rows is None else task.n_rows - method.spectrum_rows(task)
        self.batch, self.rounds = method.plan(task, rows, method._others(task), math.log(task.n_rows or 1) ** 2 / 4)
        k, d = components_of(task), task.n_features
        self.ratios: list[float] = [_UNKNOWN_RATIO] * k
        self.errors = [float(d)] * k  # the squared tangent of the angle that is still expected
        self.steps = [0] * k
        self.skipped = 0  # batches whose scale did not stand out: paid for, not used
        self.queue = [*(["centre"] if task.private_center else []), *(["spectrum"] if method.gap is None else [])]
        self.variances_at = 0  # the turn of the last release of variances
        self.turn = 0  # batches for directions so far
        self._shares: dict[tuple[int, int], MeanShares] = {}

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
        return "variances" if due and self.variances_at != self.turn else "direction"

    def wanted(self) -> int:
        role = self._role()
        return 0 if not role else self.method.spectrum_rows(self.task) if role == "spectrum" else self.batch

    def use(self, batch: Curator) -> None:
        role, terms, view = self._role(), self.wanted() // self.frame.rows_per_term, Clipped(self.frame, self.radius)
        if role == "centre":
            self._ask_center(batch, view, terms)
        elif role == "spectrum":
            found = ask_ratios(batch.part(scale_shares(self.task.budget)), view, terms, len(self.directions))
            self.ratios = [_UNKNOWN_RATIO if r is None else min(r, _LARGEST_RATIO) for r in found]
            self._plan_rounds()
        elif role == "direction":
            self._ask_direction(batch, view, terms, self.turn % len(self.directions))
            self.turn += 1
        else:
            self._ask_variances(batch, view, terms)
        if self.queue:
            self.queue.pop(0)

    def _ask_mean(self, batch: Curator, view: RowView, terms: int, widen: float = 2**0.25) -> MeanRelease | None:
        """The mean of the images of the second half at the scale of the first; None where no scale stands out."""
        budget, d, half = self.task.budget, view.n_columns, terms // 2
        vectors = terms - half
        if (vectors, d) not in self._shares:
            self._shares[vectors, d] = MeanShares.of(budget, vectors, d, box=self.method.box)
        shares = self._shares[vectors, d]
        first, second = batch.seen(view).apart((half, scale_shares(budget)), (vectors, shares.shares))
        scale = ask_top_eigenvalue(first, Frame(d), half)
        if scale is None:
            self.skipped += 1
            return None
        return ask_mean(second, vectors, d, scale or _SCALE_OF_CONSTANTS, shares, widen)

    def _ask_center(self, batch: Curator, view: RowView, terms: int) -> None:
        found = self._ask_mean(batch, view, terms)
        if found is None:
            return  # the public point that rows are measured from stays the centre
        origin = np.zeros(self.task.n_features) if self.frame.center is None else self.frame.center
        self.frame = replace(self.frame, center=np.clip(origin + found.mean, -LARGEST_FACT, LARGEST_FACT))

    def _ask_direction(self, batch: Curator, view: RowView, terms: int, j: int) -> None:
        found = self._ask_mean(batch, Gradients(view, self.directions[: j + 1]), terms)
        if found is None:
            return
        gradient, length = found.mean, float(np.linalg.norm(found.mean))
        if not 0 < length < LARGEST_FACT:
            return
        d, vectors = self.task.n_features, terms - terms // 2
        gap = length * (1 - self.ratios[j]) if self.method.gap is None else min(self.method.gap, length)
        variance = d * found.deviation**2 + found.radius**2 / vectors
        share, self.errors[j] = gain(self.errors[j], variance / gap**2, gap / length)
        step = min(self.method.h * share / gap, 1 / length)
        self.directions[j] = (1 - step * length) * self.directions[j] + step * gradient
        self.steps[j] += 1
        self.directions = orthonormal(self.directions)

    def _ask_variances(self, batch: Curator, view: RowView, terms: int) -> None:
        squares = SquaredScores(view, self.directions)
        found = self._ask_mean(batch, squares, terms, widen=4.0)  # squares are skew, and few: noise is small
        self.variances_at = self.turn
        if found is not None:
            self.variances = np.maximum(found.mean, 0.0)
        elif self.rounds is not None and self.variances is None:
            self.variances = np.zeros(squares.n_columns)

    def _plan_rounds(self) -> None:
        """The number of rounds that the released ratios ask for: few large batches where power steps converge fast."""
        if self.task.n_rows is None or self.rounds is None:
            return
        rows = self.task.n_rows - self.rows_used - self.wanted()
        d, best = self.task.n_features, (math.inf, self.batch, self.rounds)
        mu = gaussian_mu(self.task.budget.epsilon, self.task.budget.delta)
        for wanted in range(FEWEST_ROUNDS, MOST_ROUNDS + 1, 2):
            batch, rounds = self.method.plan(self.task, rows, 1, wanted)
            # Noise for gradients as long as 2·λ₁; that of the sample, which no plan can help, is left out.
            variance = d * (4 * self.frame.rows_per_term * 2 / (mu * batch)) ** 2
            total = 0.0
            for ratio in self.ratios:
                error = float(d)
                for _ in range(rounds or 0):
                    _, error = gain(error, variance / (1 - ratio) ** 2, 1 - ratio)
                total += error
            best = min(best, (total, batch, rounds or 0))
        _, self.batch, self.rounds = best

    # --- what comes out -----------------------------------------------------------------------------------------------

    @property
    def rows_to_release(self) -> int:
        rounds = 1 if self.rounds is None else self.rounds
        others = self.method._others(self.task)
        return self.method.spectrum_rows(self.task) + (rounds * len(self.directions) + others) * self.batch

    def estimate(self) -> Estimate:
        weak = self.skipped > sum(self.steps) or not all(self.steps)
        return self._estimate("exact", NOTES + (WEAK if weak else ()), self._details())

    def _details(self) -> dict[str, Any]:
        cost, failure = histogram_share(self.task.budget)
        tail = tail_spend("threshold of the scale", failure, self.task.budget.epsilon)
        scale = (Spend("scale", "stability histogram", cost), tail)
        vectors = self.batch // 2 // self.frame.rows_per_term
        shares = MeanShares.of(self.task.budget, vectors, self.task.n_features, box=self.method.box)
        return {
            "batch": self.batch,
            "steps": self.steps,
            "skipped": self.skipped,
            "eigenvalue_ratios": self.ratios,
            "expected_errors": [math.sqrt(error / (1 + error)) for error in self.errors],
            "first_half": [spend.to_dict() for spend in scale],
            "second_half": [spend.to_dict() for spend in shares.spends()],
        }


def gain(error: float, noise: float, most: float) -> tuple[float, float]:
    """The share of the way to the gradient's direction that a step goes, and the squared error that is left.

    With squared error P before, a step of share g leaves (1 − g)²P + g²·noise, least at g = P/(P + noise); more than
    ``most`` = (λ₁ − λ₂)/λ₁ is not to be had, and is a step of the power method. Once the start is forgotten, g = 1/(ξ +
    t).
    """
    share = min(error / (error + noise), most)
    return share, (1 - share) ** 2 * error + share**2 * noise


NOTES = (
    "Variances are means of clipped squares: robust, and low for heavy tails.",
    "The time taken depends on how many bins of a histogram are occupied.",
)
WEAK = ("The scale of most batches did not stand out, as with very heavy tails: directions may mean little.",)
