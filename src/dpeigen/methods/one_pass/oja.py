"""``oja``: Oja's algorithm with noise on every step, on shuffled rows. One pass.

Guarantee: (ε, δ)-DP for every data set and every order of the stream, δ > 0, one row replaced. Rows are used in blocks
by their positions; disjoint blocks compose in parallel (`curator.feed`). Inside a block, a random order that is
independent of the data selects the rows that pay for variances and orders the others, each of which is in one noisy
step (`questions.steps` has the proof). Of two calibrations, the one with the larger μ per step (less noise) is used:

- plain: μ = μ(ε, δ), because a row is in one step only;
- shuffled: the largest μ for which this block's n steps of one row, in random order, are (ε, δ)-DP.

Given the split of a block, the row that differs is in one part and each part is (ε, δ)-DP, so a mixture over splits is
(ε, δ)-DP too. With ``batch`` > 1 a step uses the sum of that many rows: with plain calibration, the noise for one row
is averaged over all of them. That is usually far better, and the default: single steps do not even keep the accuracy of
their start, a noisy moment of a tenth of the rows (60,000 × 20 Gaussian rows, eigenvalues 4, 1, …, (1, 1e-6), sine of
the angle: the start alone 0.065, single steps 0.077, two dozen steps 0.036; from a random start 0.79 and 0.055).

Algorithm 2 of Liu, Kong, Jain, Oh 2022, which does not state its constants.

``constants="published"``: steps w ← w + η_t(clip_β(x(xᵀw)) + 2βα·z) with β = ``clip``, α = C′·ln(n/δ)/(ε√n) (Lemma 3.1
there; C′ = ``noise_constant``, "sufficiently large"), η_t = h/(gap·(ξ + t)), from a random direction. A step is then
1/α-Gaussian for its row. The cost of all n steps in random order is given by `price`: the smaller of the numeric bound
on shuffling and the cost of a single step. It may exceed the stated ε: the lemma is for ε of order √(ln(n/δ)/n) and an
unknown C′. A tenth of the rows still pays for variances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from dpeigen._types import Floats
from dpeigen._validate import check_choice, check_count, check_positive, complain
from dpeigen.curator import Purpose
from dpeigen.methods.base import Task
from dpeigen.methods.framing import framing_shares
from dpeigen.methods.location import center_integers
from dpeigen.methods.one_pass.streaming import (
    LARGEST_BATCH,
    OnePassMethod,
    Stream,
    components_of,
    refuse_few_rows,
)
from dpeigen.methods.outline import Planned
from dpeigen.methods.radius import check_radii
from dpeigen.methods.radius import rows_needed as radius_rows
from dpeigen.privacy import (
    ApproximateCost,
    Budget,
    Cost,
    GaussianCost,
    PureCost,
    allocate,
    gaussian_epsilon,
    gaussian_mu,
)
from dpeigen.privacy.budget import gaussian_share
from dpeigen.privacy.randomness import check_scale
from dpeigen.privacy.shuffling import shuffled_delta, shuffled_epsilon
from dpeigen.questions.steps import ROW_UNIT
from dpeigen.stats.lattice import LEVELS

__all__ = ["CLEAR", "VARIANCE_SHARE", "Oja"]

VARIANCE_SHARE = 0.1  # of the rows of a block
_FIRST_SHARE = 0.1  # of the rows, for each batch before the first block, if their number is known
_MOST_PRICE = 500.0  # the largest ε of printed noise that can be paid for
_STEPS = 24  # of a direction in four blocks, or in all rows if they are fewer, with batch="auto"
CLEAR = 10.0  # rows per unit of noise for a useful answer


@dataclass(frozen=True)
class Oja(OnePassMethod):
    """Oja's algorithm with noisy steps.

    Parameters
    ----------
    batch : rows of a step; 1 as published. "auto": about two dozen steps for each direction.
    clip : gradients are clipped to this norm; by default they are limited by the square of the bound.
    gap : λ₁ − λ₂, if it is known: the stream then has a random start. By default a first batch pays for a noisy moment,
        which gives the gaps and a start.
    h : the numerator of the learning rate, above ½.
    block : rows that are shuffled together; more of them mean less noise and more memory.
    constants : "sharp", or "published": Algorithm 2 as printed, for one component. It needs ``clip`` (β), ``gap``, one
        row to a step (batch=1), a public number of rows, and room for all of them in a block. The guarantee states what
        it gives.
    xi, noise_constant : ξ of the learning rate and C′ of the noise, with "published" constants only.
    """

    batch: int | str = "auto"
    clip: float | None = None
    gap: float | None = None
    h: float = 1.0
    block: int = 2**16
    constants: str = "sharp"
    xi: float = 0.0
    noise_constant: float = 1.0

    name = "oja"
    planned = Planned(covariance=False, slow=8)
    reference = "Liu, Kong, Jain, Oh 2022; Feldman, McMillan, Talwar 2021"
    continuous_noise = True

    def check(self, task: Task) -> None:
        super().check(task)
        owner = type(self).__name__
        if self.batch != "auto":
            if isinstance(self.batch, str):
                raise ValueError(complain("batch", owner, "'auto' or an integer ≥ 1", self.batch))
            check_count("batch", self.batch, owner)
        for name in ("clip", "gap"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name), owner)
        if check_positive("h", self.h, owner) <= 0.5:
            raise ValueError(complain("h", owner, "> 0.5: slower rates do not converge", self.h))
        check_count("block", self.block, owner, low=100)
        check_choice("constants", self.constants, ["sharp", "published"], owner)
        check_positive("noise_constant", self.noise_constant, owner)
        if not 0 <= self.xi < math.inf:
            raise ValueError(complain("xi", owner, "a number ≥ 0", self.xi))
        if self.published:
            self._check_published(task)
            return
        room = int((1 - VARIANCE_SHARE) * self._largest(task)) // (2 if task.pairs else 1) // components_of(task)
        if isinstance(self.batch, int) and self.batch > room:
            remedy = "A block must hold a step of every direction: use a larger block, or batch='auto'."
            raise ValueError(complain("batch", owner, f"≤ {room} here", self.batch, remedy))
        if task.n_rows is not None and not self.enough(task, task.n_rows):
            refuse_few_rows(task, max(self.rows_needed(task), task.n_rows + 1), self.name, "Oja(batch='auto'), ")
        check_radii(task, self.framing(task))
        if isinstance(task.bound, float) and not 1e-60 <= task.bound <= 1e60:  # its fourth power must not overflow
            raise ValueError(complain("bound", task.owner, "between 1e-60 and 1e60 for method='oja'", task.bound))
        mu = gaussian_mu(task.budget.epsilon, task.budget.delta)
        check_scale(2 * LEVELS * ROW_UNIT / mu)
        check_scale(2 * LEVELS**2 / mu)

    # --- as printed -------------------------------------------------------------------------------------------------

    @property
    def published(self) -> bool:
        """Whether everything is as printed."""
        return self.constants == "published"

    def _check_published(self, task: Task) -> None:
        owner = type(self).__name__
        for name in ("gap", "clip"):
            if getattr(self, name) is None:
                must = "given with constants='published', which chooses neither"
                raise ValueError(complain(name, owner, must, None, "Give a public number."))
        if self.batch != 1:
            raise ValueError(complain("batch", owner, "1 with constants='published'", self.batch))
        if components_of(task) != 1:
            must = "1 with constants='published'"
            raise ValueError(complain("n_components", task.owner, must, task.n_components))
        if task.n_rows is None or task.n_rows > self._largest(task):
            remedy = (
                f"All rows are shuffled together: use fit with at most {self._largest(task)} rows, or a larger block."
            )
            raise ValueError(complain("X", task.owner, "of a public and smaller number of rows", task.n_rows, remedy))
        if task.private_bound or task.private_center:
            must = "public with constants='published': all rows are for steps"
            raise ValueError(complain("bound" if task.private_bound else "center", task.owner, must, "private"))
        if task.n_rows < 100:
            refuse_few_rows(task, 100, self.name)
        if (price := self.price(task).epsilon) > _MOST_PRICE:
            must = f"smaller: as printed the guarantee would be epsilon = {price:.0f}"
            raise ValueError(complain("epsilon", task.owner, must, task.budget.epsilon))

    def alpha(self, task: Task) -> float:
        """α of Lemma 3.1."""
        n = task.n_rows or 2
        return self.noise_constant * math.log(n / task.budget.delta) / (task.budget.epsilon * math.sqrt(n))

    def price(self, task: Task) -> Budget:
        if not self.published:
            return super().price(task)
        mu, delta = 1 / self.alpha(task), task.budget.delta
        single = gaussian_epsilon(delta, mu)
        return Budget(max(min(single, _shuffled_price(mu, self._steps_of(task), delta)), 1e-9), delta)

    def _steps_of(self, task: Task) -> int:
        terms = (task.n_rows or 2) // (2 if task.pairs else 1)
        return max(2, terms - math.ceil(VARIANCE_SHARE * terms))

    def shares(self, task: Task) -> dict[Purpose, Cost]:
        price = self.price(task)
        return {Purpose.BATCHES: ApproximateCost(price.epsilon, price.delta)}

    # --- plans, from public facts ----------------------------------------------------------------------------------

    def framing(self, task: Task) -> dict[Purpose, Cost]:
        """The costs of a centre and a radius in the first batch, which spends the whole budget."""
        batch = replace(task, n_rows=None)  # the batch has its own number of rows: as many as these questions need
        pure, main = framing_shares(batch, paid_radius=task.private_bound, center=task.private_center)
        whole = math.fsum(pure.values())
        if not main:
            return {name: PureCost(task.budget.epsilon * share / whole) for name, share in pure.items()}
        pure = {name: 0.4 * share / whole for name, share in pure.items()}
        return allocate(task.budget, pure=pure, main=main, coordinates=center_integers(task.n_features))

    def first_rows(self, task: Task) -> dict[str, int]:
        """Rows of the batches before the first block."""
        rows: dict[str, int] = {}
        per_term = 2 if task.pairs else 1
        known = self._largest(task) // 4 if task.n_rows is None else int(_FIRST_SHARE * task.n_rows)
        costs = self.framing(task)
        if costs:
            least = max([50, *(2 * radius_rows(c) for c in costs.values() if isinstance(c, PureCost))])
            noise = [
                math.ceil(20 * math.sqrt(task.n_features) / c.mu) for c in costs.values() if isinstance(c, GaussianCost)
            ]
            rows["frame"] = max(max([least, *noise]) * per_term, min(known, self._largest(task)))
        if self.gap is None:
            mu = gaussian_mu(task.budget.epsilon, task.budget.delta)
            least = math.ceil(10 * math.sqrt(task.n_features) / mu)
            rows["spectrum"] = max(least * per_term, min(known, self._largest(task)))
        return rows

    def _largest(self, task: Task) -> int:
        return max(1000, min(self.block, LARGEST_BATCH // task.n_features))

    def step_rows(self, task: Task, block: int) -> int:
        """Rows (or pairs) of a step."""
        if self.batch != "auto":
            return int(self.batch)
        rows = task.n_rows // (2 if task.pairs else 1) if task.n_rows is not None else 4 * block
        return max(1, int((1 - VARIANCE_SHARE) * min(rows, 4 * block)) // (_STEPS * components_of(task)))

    def block_rows(self, task: Task) -> int:
        """Rows of a block: equal blocks of all rows, or ``block``."""
        most = self._largest(task)
        if task.n_rows is None:
            return most
        rows = max(2, task.n_rows - sum(self.first_rows(task).values()))
        size = rows // math.ceil(rows / most)
        return size // 2 * 2 if task.pairs else size

    def local(self, budget: Budget, n: int, step: int) -> tuple[float, str]:
        """μ₀ of a step among n rows, and the calibration it comes from."""
        plain = gaussian_share(allocate(budget, main={"steps": 1.0}, coordinates=2**20)["steps"])
        if step > 1:
            return plain, "plain"
        shuffled = _shuffled_mu(budget, n)
        return (shuffled, "shuffled") if shuffled > 1.001 * plain else (plain, "plain")

    def enough(self, task: Task, n_rows: int) -> bool:
        """Whether data on a line, which have the strongest signal, would exceed the noise with n rows."""
        k, per_term = components_of(task), 2 if task.pairs else 1
        given = replace(task, n_rows=n_rows)
        block = self.block_rows(given) // per_term
        step = self.step_rows(given, block)
        rows = n_rows - sum(self.first_rows(given).values())
        steps = (1 - VARIANCE_SHARE) * rows / per_term / step / k
        if steps < 10:
            return False
        least = math.sqrt(CLEAR * task.n_features / steps) / step  # the μ₀ that is needed
        if least <= gaussian_mu(task.budget.epsilon, task.budget.delta) * (1 - 1e-6):
            return True
        n = max(2, int((1 - VARIANCE_SHARE) * block))
        epsilon, delta = task.budget.epsilon, task.budget.delta
        return step == 1 and shuffled_delta(GaussianCost(least), n, epsilon, hint=delta) <= delta

    def rows_needed(self, task: Task) -> int:
        """The fewest rows that are enough, within 5%."""
        low, high = 100, 1000
        while not self.enough(task, high):
            low, high = high, 2 * high
        while high - low > low // 20 + 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.enough(task, middle) else (middle, high)
        return high

    def start(self, task: Task, start: Floats) -> Stream:
        from dpeigen.methods.one_pass.oja_steps import OjaStream

        return OjaStream(self, task, start)


@lru_cache(maxsize=64)
def _shuffled_price(mu: float, n: int, delta: float) -> float:
    """The ε of n steps in random order, or ∞ if the bound is void."""
    try:
        return shuffled_epsilon(GaussianCost(mu), n, delta) * (1 + 1e-6)
    except (ValueError, OverflowError):
        return math.inf


@lru_cache(maxsize=256)
def _shuffled_mu(budget: Budget, n: int) -> float:
    """The largest μ₀, within 0.1%, for which n Gaussian local randomisers in random order are (ε, δ)-DP."""

    def safe(mu: float) -> bool:
        return shuffled_delta(GaussianCost(mu), n, budget.epsilon, hint=budget.delta) <= budget.delta

    low = gaussian_mu(budget.epsilon, budget.delta)  # safe in any order
    high = 2 * low
    while safe(high):
        low, high = high, 2 * high
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if safe(middle) else (low, middle)
    return low
