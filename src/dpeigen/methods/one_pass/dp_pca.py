"""``dp-pca``: Oja's algorithm on disjoint batches with noise that follows the gradients. One pass, no bound on rows.

Guarantee: (ε, δ)-DP for every data set, δ > 0, one row replaced, exact numerics. Every row is in one part of one batch
and each part spends the whole budget on its own rows (`curator.feed` has the proof of parallel composition). The first
batch of a direction has

- a part for the scale of the gradients x(xᵀw), that is the top eigenvalue of their covariance (`questions.scale`);
- a part for their mean at that scale (`one_pass.mean`), and one step w ← w + η·mean, normalised.

Later batches of a direction know from it about where gradients lie and how far they spread. A small part of their rows
pays for a ball that holds them, all others for the mean of the gradients clipped to that ball.

A gradient is a function of its row and of released numbers (w, the centre, the directions before), computed exactly
or entry by entry, so that one row changes one gradient. A private centre, the eigenvalues that the learning rate
needs, and the variances along the directions are released in the same way from batches of their own.

Algorithm 3 of Liu, Kong, Jain, Oh 2022. The learning rate has the form h/((λ₁ − λ₂)(ξ + t)) of its Theorem 2.2; ξ is
not the theorem's worst case, with which no real data set would move, but follows from the noise of each step (`gain`).
Batches grow as `one_pass.schedule` plans from public facts and the released ratios of eigenvalues.

More than one component: k-DP-PCA of Düngler and Sanyal 2025. Direction j is found on rows of its own, projected on the
complement of directions 1..j−1 on both sides, each time with noise that follows the gradients of what is left. Without
an end in sight (`partial_fit`) the directions take turns instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import check_choice, check_count, check_flag, check_positive, complain
from dpeigen.curator import Curator
from dpeigen.methods.base import Estimate, Task
from dpeigen.methods.framing import frame_rows
from dpeigen.methods.one_pass.mean import (
    MeanRelease,
    MeanShares,
    NearShares,
    ask_mean,
    ask_near_mean,
    least_look,
    vectors_needed,
)
from dpeigen.methods.one_pass.printed import ask_printed_mean, printed_groups
from dpeigen.methods.one_pass.schedule import START, cautious, gain, plan_batches, row_shares
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

FEWEST_STEPS = 8  # of each direction, where the number of rows is known
_PAIRS_PER_GROUP = 4  # at least, for the scale of a batch
_SCALE_SHARE, _MOST_PER_GROUP = 6, 24  # one part in so many of a batch is for the scale, and vectors of a group
_OTHERS_SHARE = 16  # one part in so many of the rows for the variances, and for a centre
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
    batch : rows of every batch; by default batches grow, as the ratio of eigenvalues asks for where n is known.
    box : truncate gradients to a box, as printed, instead of a ball, and ask for the scale in every batch.
    constants : "sharp", or "published": Algorithms 3 to 5 as printed (`one_pass.printed`), for one component. It needs
        ``gap`` and ``batch``, and steps are η_t = h/(gap·(ξ + t)). The parameters below are for it alone.
    xi : ξ of the learning rate; `papers.liu.printed_xi` is that of equation (67), with which nothing moves.
    K, a, zeta : of Assumption A.4 and Algorithms 4 and 5: how heavy tails are, and the probability of failure.
    groups_constant : C₁ of Algorithm 4.
    """

    gap: float | None = None
    h: float = 1.0
    batch: int | None = None
    box: bool = False
    constants: str = "sharp"
    xi: float = 0.0
    K: float = 1.0
    a: float = 1.0
    zeta: float = 0.01
    groups_constant: float = 5.0

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
        check_choice("constants", self.constants, ["sharp", "published"], owner)
        for name in ("K", "a", "zeta", "groups_constant"):
            check_positive(name, getattr(self, name), owner)
        if self.zeta >= 1:
            raise ValueError(complain("zeta", owner, "a probability below 1", self.zeta))
        if not 0 <= self.xi < math.inf:
            raise ValueError(complain("xi", owner, "a number ≥ 0", self.xi))
        if self.published:
            self._check_published(task)
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

    @property
    def published(self) -> bool:
        """Whether everything is as printed."""
        return self.constants == "published"

    def _check_published(self, task: Task) -> None:
        owner = type(self).__name__
        for name in ("gap", "batch"):
            if getattr(self, name) is None:
                must = "given with constants='published', which chooses neither"
                raise ValueError(complain(name, owner, must, None, "Give a public number."))
        if components_of(task) != 1:
            remedy = "Use constants='sharp', which finds more by deflation."
            raise ValueError(
                complain("n_components", task.owner, "1 with constants='published'", task.n_components, remedy)
            )
        if self.box:
            raise ValueError(complain("box", owner, "False with constants='published', which has the box", True))

    def scale_terms(self, task: Task, terms: int) -> int:
        """How many of the rows (or pairs) of a batch pay for the scale."""
        groups = groups_needed(task.budget)
        return min(max(2 * _PAIRS_PER_GROUP * groups, terms // _SCALE_SHARE), _MOST_PER_GROUP * groups)

    def least_batch(self, task: Task) -> int:
        """Rows of the smallest batch in which the scale and a mean stand out of their noise."""
        if self.published:
            return 4 * printed_groups(self, task.budget) * (2 if task.pairs else 1)
        terms = 2 * _PAIRS_PER_GROUP * groups_needed(task.budget)
        terms = max(terms + vectors_needed(task.budget, task.n_features, box=self.box), 2 * terms)
        return terms * (2 if task.pairs else 1)

    def least_next(self, task: Task) -> int:
        """The same for a batch of a direction whose gradients are known roughly."""
        if self.box:
            return self.least_batch(task)
        return 2 * least_look(task.budget) * (2 if task.pairs else 1)

    def largest_batch(self, task: Task) -> int:
        """Rows of the largest batch, so that memory does not grow with the number of rows."""
        return max(self.least_batch(task), LARGEST_BATCH // task.n_features)

    def spectrum_rows(self, task: Task) -> int:
        """Rows of the batch that the gaps are released from; 0 where the gap is given."""
        if self.gap is not None:
            return 0
        k = components_of(task)
        least = k * groups_needed(task.budget) * max(2 * (k + 1), task.n_features) * (2 if task.pairs else 1)
        most = max(least, LARGEST_BATCH // task.n_features)
        return min(max(self.least_batch(task), least, min(k, 3) * (task.n_rows or 0) // 25), most)

    def other_rows(self, task: Task, rows: int) -> int:
        """Rows of a batch for the variances or a centre, of so many rows in all."""
        if self.batch is not None:
            return self.batch
        most = self.largest_batch(task)
        size = min(max(rows // _OTHERS_SHARE, self.least_batch(task)), most)
        return size // 2 * 2 if task.pairs else size

    def rows_needed(self, task: Task) -> int:
        """Rows for the fewest steps with the smallest batches."""
        least, k, others = self.least_batch(task), components_of(task), 1 + int(task.private_center)
        if self.batch is not None:
            return self.spectrum_rows(task) + self.batch * (FEWEST_STEPS * k + others)
        each = least + (FEWEST_STEPS - 1) * self.least_next(task)
        return self.spectrum_rows(task) + k * each + others * least

    def plan(self, task: Task, rows: int, ratios: list[float]) -> list[list[int]]:
        """Sizes of the batches of each direction, for so many rows to come, and released ratios of eigenvalues."""
        k, per_term = len(ratios), 2 if task.pairs else 1
        if self.batch is not None:
            return [[self.batch] * (rows // self.batch // k)] * k
        first, least, most = self.least_batch(task), self.least_next(task), self.largest_batch(task)
        mu, d = gaussian_mu(task.budget.epsilon, task.budget.delta), task.n_features
        look, sizes = least_look(task.budget), []

        def averaged(size: int, is_first: bool) -> float:
            terms = size // per_term
            if is_first or self.box:
                return (terms - self.scale_terms(task, terms)) / 2  # half of the budget goes to where they lie
            return terms - min(terms // 2, max(look, terms // 10))

        for j, share in enumerate(row_shares(ratios)):
            # What matters to the space of all k directions is the next eigenvalue that is not among them.
            ratio = min(cautious(math.prod(ratios[j:])), _LARGEST_RATIO)
            planned = plan_batches(max(int(share * rows), first), first, least, most, averaged, d, mu / per_term, ratio)
            sizes.append([size // per_term * per_term for size in planned])
        while sum(map(sum, sizes)) > rows:  # shares were raised to the least: take it from the largest
            j = max(range(k), key=lambda i: max(sizes[i]))
            at = max(range(len(sizes[j])), key=lambda i: sizes[j][i])
            sizes[j][at] -= min(sum(map(sum, sizes)) - rows + per_term, max(per_term, sizes[j][at] - first))
        return sizes

    def start(self, task: Task, start: Floats) -> Stream:
        return _Run(self, task, start)


class _Run(Stream):
    """The stream of ``dp-pca``."""

    saved = ("sizes", "ratios", "errors", "steps", "skipped", "queue", "turn", "variances_at", "reach", "lengths")

    mechanism = "stability histograms, sparse vector, discrete Gaussian"

    def __init__(self, method: DPPCA, task: Task, start: Floats) -> None:
        frame, radius = frame_rows(task, weighted=False)
        super().__init__(task, frame, radius if isinstance(task.bound, float) else None, start)
        self.method = method
        k, d = components_of(task), task.n_features
        self.ratios: list[float] = [_UNKNOWN_RATIO] * k
        self.errors = [START * d] * k  # the squared tangent of the angle that is still expected
        self.steps = [0] * k
        self.reach = [0.0] * k  # the last radius of the gradients of a direction; 0: none was released yet
        self.lengths = [0.0] * k  # of the last mean gradient
        self.skipped = 0  # batches whose scale did not stand out: paid for, not used
        self.queue = [*(["centre"] if task.private_center else []), *(["spectrum"] if method.gap is None else [])]
        self.variances_at = 0  # the turn of the last release of variances
        self.turn = 0  # batches for directions so far
        self.sizes: list[list[int]] | None = None  # of the batches of each direction; None: as many as come
        if task.n_rows is not None:
            self.sizes = method.plan(task, self._left_for_directions(), self.ratios)
        self._shares: dict[tuple[int, int], MeanShares] = {}
        self._near: dict[tuple[int, int], NearShares] = {}

    def _left_for_directions(self) -> int:
        """Rows to come that are not for anything else; n is public."""
        rows = self.task.n_rows or 0
        others = self.method.other_rows(self.task, rows) * (1 + ("centre" in self.queue))
        spectrum = self.method.spectrum_rows(self.task) if "spectrum" in self.queue else 0
        return rows - self.rows_used - others - spectrum

    # --- what a batch is for; depends on public facts, on how many there were, and on what was released -------------

    def _direction(self) -> int:
        """Whose turn it is: one after the other where an end is in sight; k if all are done."""
        k = len(self.directions)
        if self.sizes is None:
            return self.turn % k
        done = 0
        for j, sizes in enumerate(self.sizes):
            done += len(sizes)
            if self.turn < done:
                return j
        return k

    def _role(self) -> str:
        if self.queue:
            return self.queue[0]
        k = len(self.directions)
        if self.sizes is not None:
            return "direction" if self._direction() < k else "variances" if self.variances is None else ""
        # Without an end in sight, variances are released after rounds 1, 2, 4, 8 …
        round_, position = divmod(self.turn, k)
        due = position == 0 and round_ > 0 and round_ & (round_ - 1) == 0
        return "variances" if due and self.variances_at != self.turn else "direction"

    def wanted(self) -> int:
        return self._rows_of(self._role(), self.turn, self.rows_used)

    def _rows_of(self, role: str, turn: int, used: int) -> int:
        """Rows of a batch; ``turn`` and ``used``: batches for directions, and rows, before it."""
        method, task, per_term = self.method, self.task, self.frame.rows_per_term
        if not role:
            return 0
        if role == "spectrum":
            return method.spectrum_rows(task)
        if role != "direction":
            return method.other_rows(task, task.n_rows or 2 * used)
        if self.sizes is not None:
            return [size for sizes in self.sizes for size in sizes][turn]
        if method.batch is not None:
            return method.batch
        k = len(self.directions)
        known = turn >= k and self.reach[turn % k] > 0
        least = 2 * method.least_next(task) if known else method.least_batch(task)
        return min(max(least, used // (4 * k)), method.largest_batch(task)) // per_term * per_term

    def use(self, batch: Curator) -> None:
        role, terms, view = self._role(), self.wanted() // self.frame.rows_per_term, Clipped(self.frame, self.radius)
        if role == "centre":
            self._ask_center(batch, view, terms)
        elif role == "spectrum":
            found = ask_ratios(batch.part(scale_shares(self.task.budget)), view, terms, len(self.directions))
            self.ratios = [_UNKNOWN_RATIO if r is None else min(r, _LARGEST_RATIO) for r in found]
        elif role == "direction":
            j = self._direction()
            self._ask_direction(batch, view, terms, j)
            self.turn += 1
            if not self.reach[j]:
                self._join_batches(j)
        else:
            self._ask_variances(batch, view, terms)
        if self.queue:
            self.queue.pop(0)
            if role == "spectrum" and self.sizes is not None:
                # `rows_used` counts this batch already.
                self.sizes = self.method.plan(self.task, self._left_for_directions(), self.ratios)

    def _join_batches(self, j: int) -> None:
        """Where no scale stood out, the next batch has to be large enough to ask for one again."""
        if self.sizes is None or self.method.batch is not None:
            return
        at = self.turn - sum(map(len, self.sizes[:j]))
        done, rest = self.sizes[j][:at], self.sizes[j][at:]
        least, joined = self.method.least_batch(self.task), 0
        while rest and joined < least:
            joined += rest.pop(0)
        self.sizes[j] = [*done, *([joined] if joined >= least else []), *rest]

    def _ask_mean(self, batch: Curator, view: RowView, terms: int, widen: float = 2**0.25) -> MeanRelease | None:
        """The mean of the images of the second part at the scale of the first; None where no scale stands out."""
        budget, d = self.task.budget, view.n_columns
        few = self.method.scale_terms(self.task, terms)
        vectors = terms - few
        if (vectors, d) not in self._shares:
            self._shares[vectors, d] = MeanShares.of(budget, vectors, d, box=self.method.box)
        shares = self._shares[vectors, d]
        first, second = batch.seen(view).apart((few, scale_shares(budget)), (vectors, shares.shares))
        scale = ask_top_eigenvalue(first, Frame(d), few)
        if scale is None:
            self.skipped += 1
            return None
        return ask_mean(second, vectors, d, scale or _SCALE_OF_CONSTANTS, shares, widen)

    def _ask_near(self, batch: Curator, view: RowView, terms: int, j: int) -> MeanRelease:
        """The mean of gradients about λw, λ being the length of the last one, in a ball about as large as the last."""
        d = view.n_columns
        if (terms, d) not in self._near:
            self._near[terms, d] = NearShares.of(self.task.budget, terms, d)
        shares = self._near[terms, d]
        look, mean = batch.seen(view).apart((shares.few, shares.look), (terms - shares.few, shares.mean))
        return ask_near_mean(look, mean, self.lengths[j] * self.directions[j], self.reach[j], shares)

    def _ask_center(self, batch: Curator, view: RowView, terms: int) -> None:
        found = self._ask_mean(batch, view, terms)
        if found is None:
            return  # the public point that rows are measured from stays the centre
        origin = np.zeros(self.task.n_features) if self.frame.center is None else self.frame.center
        self.frame = replace(self.frame, center=np.clip(origin + found.mean, -LARGEST_FACT, LARGEST_FACT))

    def _ask_direction(self, batch: Curator, view: RowView, terms: int, j: int) -> None:
        gradients = Gradients(view, self.directions[: j + 1])
        if self.method.published:
            self._printed_step(batch, gradients, terms)
            return
        if self.reach[j] and not self.method.box:
            found: MeanRelease | None = self._ask_near(batch, gradients, terms, j)
        else:
            found = self._ask_mean(batch, gradients, terms)
        if found is None:
            return
        gradient, length = found.mean, float(np.linalg.norm(found.mean))
        if not 0 < length < LARGEST_FACT:
            return
        d = self.task.n_features
        self.reach[j], self.lengths[j] = max(found.radius, length * 2.0**-40), length
        # For the space of all k directions the next eigenvalue that is not among them counts.
        ratio = min(cautious(math.prod(self.ratios[j:])), _LARGEST_RATIO)
        gap = length * (1 - ratio) if self.method.gap is None else min(self.method.gap, length)
        variance = d * found.deviation**2 + (found.radius / 2) ** 2 / terms  # balls are twice as wide as deviations
        error = self.errors[j]
        share, self.errors[j] = gain(error, (1 + error) * variance / gap**2, gap / length)
        step = min(self.method.h * share / gap, 1 / length)
        self.directions[j] = (1 - step * length) * self.directions[j] + step * gradient
        self.steps[j] += 1
        self.directions = orthonormal(self.directions)

    def _printed_step(self, batch: Curator, gradients: RowView, terms: int) -> None:
        """One step of Algorithm 3: w ← w + η_t·ĝ, normalised; none where Algorithm 4 returns ⊥."""
        found, _ = ask_printed_mean(self.method, batch, gradients, terms, self.task.budget)
        if found is None:
            self.skipped += 1
            return
        rate = self.method.h / ((self.method.gap or 1.0) * (self.method.xi + self.turn + 1))
        moved = self.directions[0] + rate * found.mean
        length = float(np.linalg.norm(moved))
        if 0 < length < LARGEST_FACT:
            self.directions[0] = moved / length
            self.steps[0] += 1

    def _ask_variances(self, batch: Curator, view: RowView, terms: int) -> None:
        squares = SquaredScores(view, self.directions)
        found = self._ask_mean(batch, squares, terms, widen=4.0)  # squares are skew, and few: noise is small
        self.variances_at = self.turn
        if found is not None:
            self.variances = np.maximum(found.mean, 0.0)
        elif self.sizes is not None and self.variances is None:
            self.variances = np.zeros(squares.n_columns)

    # --- what comes out -----------------------------------------------------------------------------------------------

    @property
    def rows_to_release(self) -> int:
        roles = [*(["centre"] if self.task.private_center else []), *(["spectrum"] if self.method.gap is None else [])]
        roles += ["direction"] * (len(self.directions) if self.sizes is None else sum(map(len, self.sizes)))
        rows, turn = 0, 0
        for role in (*roles, "variances"):
            rows += self._rows_of(role, turn, rows)
            turn += role == "direction"
        return rows

    def estimate(self) -> Estimate:
        weak = self.skipped > sum(self.steps) or not all(self.steps)
        return self._estimate("exact", NOTES + (WEAK if weak else ()), self._details())

    def _details(self) -> dict[str, Any]:
        cost, failure = histogram_share(self.task.budget)
        tail = tail_spend("threshold of the scale", failure, self.task.budget.epsilon)
        scale = (Spend("scale", "stability histogram", cost), tail)
        d, terms = self.task.n_features, self.method.least_batch(self.task) // self.frame.rows_per_term
        vectors = terms - self.method.scale_terms(self.task, terms)
        shares = MeanShares.of(self.task.budget, vectors, d, box=self.method.box)
        parts = {"scale": list(scale), "first mean": list(shares.spends())}
        if not self.method.box:
            near = NearShares.of(self.task.budget, self.method.least_next(self.task) // self.frame.rows_per_term, d)
            parts |= near.spends()
        return {
            "batches": self.sizes or [],
            "steps": self.steps,
            "skipped": self.skipped,
            "eigenvalue_ratios": self.ratios,
            "expected_errors": [math.sqrt(error / (1 + error)) for error in self.errors],
            "parts": {name: [spend.to_dict() for spend in spends] for name, spends in parts.items()},
        }


NOTES = (
    "Variances are means of clipped squares: robust, and low for heavy tails.",
    "The time taken depends on how many bins of a histogram are occupied.",
)
WEAK = ("The scale of most batches did not stand out, as with very heavy tails: directions may mean little.",)
