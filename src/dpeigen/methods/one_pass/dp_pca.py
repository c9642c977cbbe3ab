"""``dp-pca``: Oja's algorithm on disjoint batches, with noise scaled to the gradients. One pass, no bound on rows.

Guarantee: (ε, δ)-DP for every data set, δ > 0, one row replaced, exact numerics. Every row is in one part of one batch
and each part spends the whole budget on its own rows (`curator.feed` has the proof of parallel composition). The first
batch of a direction has

- a part for the scale of the gradients x(xᵀw), that is the top eigenvalue of their covariance (`questions.scale`);
- a part for their mean at that scale (`one_pass.mean`), and one step w ← w + η·mean, normalised.

From it, later batches of a direction know the approximate location and spread of the gradients. A small part of their
rows pays for a ball that contains the gradients, all others for the mean of the gradients clipped to that ball.

A gradient is a function of its row and of released numbers (w, the centre, the earlier directions), computed exactly or
entry by entry, so that one row changes one gradient. A private centre, the eigenvalues for the learning rate, and the
variances along the directions are released in the same way from separate batches.

Algorithm 3 of Liu, Kong, Jain, Oh 2022. The learning rate has the form h/((λ₁ − λ₂)(ξ + t)) of its Theorem 2.2. ξ is
not the theorem's worst case, with which steps on real data would be negligible; it follows from each step's noise
(`gain`). Batches grow as `one_pass.schedule` plans from public facts and the released ratios of eigenvalues.

More than one component: k-DP-PCA of Düngler and Sanyal 2025. Direction j is found on separate rows, projected on the
complement of directions 1..j−1 on both sides, with noise scaled to the projected gradients. If the number of rows is
unknown (`partial_fit`), the directions take turns instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpeigen._types import Floats
from dpeigen._validate import check_choice, check_count, check_flag, check_positive, complain
from dpeigen.methods.base import Task
from dpeigen.methods.one_pass.mean import (
    MeanShares,
    least_look,
    vectors_needed,
)
from dpeigen.methods.one_pass.printed import printed_groups
from dpeigen.methods.one_pass.schedule import cautious, plan_batches, row_shares
from dpeigen.methods.one_pass.spread import (
    groups_needed,
)
from dpeigen.methods.one_pass.streaming import LARGEST_BATCH, OnePassMethod, Stream, components_of, refuse_few_rows
from dpeigen.methods.outline import Planned
from dpeigen.privacy import GaussianCost, gaussian_mu
from dpeigen.privacy.accounting import LEAST_SENSITIVITY
from dpeigen.privacy.randomness import check_scale

__all__ = ["DPPCA", "FEWEST_STEPS", "LARGEST_RATIO", "UNKNOWN_RATIO"]

FEWEST_STEPS = 8  # of each direction, if the number of rows is known
_PAIRS_PER_GROUP = 4  # the least for the scale of a batch
_SCALE_SHARE, _MOST_PER_GROUP = 6, 24  # 1/_SCALE_SHARE of a batch is for the scale; most vectors of a group
_OTHERS_SHARE = 16  # 1/_OTHERS_SHARE of the rows are for the variances, and as many for a centre
UNKNOWN_RATIO, LARGEST_RATIO = 0.5, 0.995  # of eigenvalues: the default if none was found, and the most


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
    # Its histograms need single gradients, which simulated populations do not have.
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
        """The number of rows (or pairs) of a batch that pay for the scale."""
        groups = groups_needed(task.budget)
        return min(max(2 * _PAIRS_PER_GROUP * groups, terms // _SCALE_SHARE), _MOST_PER_GROUP * groups)

    def least_batch(self, task: Task) -> int:
        """The least rows of a batch for which the scale and a mean exceed their noise."""
        if self.published:
            return 4 * printed_groups(self, task.budget) * (2 if task.pairs else 1)
        terms = 2 * _PAIRS_PER_GROUP * groups_needed(task.budget)
        terms = max(terms + vectors_needed(task.budget, task.n_features, box=self.box), 2 * terms)
        return terms * (2 if task.pairs else 1)

    def least_next(self, task: Task) -> int:
        """The same for later batches of a direction, whose gradients are known roughly."""
        if self.box:
            return self.least_batch(task)
        return 2 * least_look(task.budget) * (2 if task.pairs else 1)

    def largest_batch(self, task: Task) -> int:
        """Rows of the largest batch, so that memory does not grow with the number of rows."""
        return max(self.least_batch(task), LARGEST_BATCH // task.n_features)

    def spectrum_rows(self, task: Task) -> int:
        """Rows of the batch from which the gaps are released; 0 if the gap is given."""
        if self.gap is not None:
            return 0
        k = components_of(task)
        least = k * groups_needed(task.budget) * max(2 * (k + 1), task.n_features) * (2 if task.pairs else 1)
        most = max(least, LARGEST_BATCH // task.n_features)
        return min(max(self.least_batch(task), least, min(k, 3) * (task.n_rows or 0) // 25), most)

    def other_rows(self, task: Task, rows: int) -> int:
        """Rows of a batch for the variances or a centre, if there are ``rows`` rows in all."""
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
        """Sizes of the batches of each direction, for this many remaining rows and released ratios of eigenvalues."""
        k, per_term = len(ratios), 2 if task.pairs else 1
        if self.batch is not None:
            return [[self.batch] * (rows // self.batch // k)] * k
        first, least, most = self.least_batch(task), self.least_next(task), self.largest_batch(task)
        mu, d = gaussian_mu(task.budget.epsilon, task.budget.delta), task.n_features
        look, sizes = least_look(task.budget), []

        def averaged(size: int, is_first: bool) -> float:
            terms = size // per_term
            if is_first or self.box:
                return (terms - self.scale_terms(task, terms)) / 2  # half of the budget is for their location
            return terms - min(terms // 2, max(look, terms // 10))

        for j, share in enumerate(row_shares(ratios)):
            # For the space of all k directions, the first eigenvalue outside it matters.
            ratio = min(cautious(math.prod(ratios[j:])), LARGEST_RATIO)
            planned = plan_batches(max(int(share * rows), first), first, least, most, averaged, d, mu / per_term, ratio)
            sizes.append([size // per_term * per_term for size in planned])
        while sum(map(sum, sizes)) > rows:  # some were raised to the least: reduce the largest
            j = max(range(k), key=lambda i: max(sizes[i]))
            at = max(range(len(sizes[j])), key=lambda i: sizes[j][i])
            sizes[j][at] -= min(sum(map(sum, sizes)) - rows + per_term, max(per_term, sizes[j][at] - first))
        return sizes

    def start(self, task: Task, start: Floats) -> Stream:
        from dpeigen.methods.one_pass.dp_pca_stream import DPPCAStream

        return DPPCAStream(self, task, start)
