"""``n_components="private"``: the number of components, from a released covariance or from noisy eigenvalues.

Guarantee: that of the method. A method that releases a whole covariance with noise of known size is asked for all of
it. The number of eigenvalues above bulk and noise is then post-processing (`stats.spiked.spikes_in_noise`) and costs
nothing. If ``scale`` is given, it is the number of components in the units of the scaled columns.

For any other method the number is paid for first, and the guarantee is the composition of both. The eigenvalues of the
second moment of clipped rows are released with noise for their worst-case sensitivity (`questions.spectrum`); radius
and centre are public or paid for. The number is a function of these noisy eigenvalues and public facts
(`stats.spiked.count_spikes`), which takes the noise into account. The released radius and centre are known to the
method that follows. It gets the largest ε for which everything composes to the budget; the split in the guarantee lists
every share. Composition with a number that is itself released requires that the method costs the same for every number:
`check` compares the costs, and methods that draw directions spend pure ε here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import check_choice, complain
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Estimate, Task, standardised
from dpeigen.methods.framing import ask_frame, framing_shares
from dpeigen.methods.location import center_integers
from dpeigen.methods.one_pass.streaming import OnePassMethod
from dpeigen.methods.radius import check_radii
from dpeigen.methods.sampling.base import SamplingMethod, any_lattice, rounding_allowance
from dpeigen.methods.wrapped import Wrapped, left_for, spends
from dpeigen.privacy import (
    Budget,
    ConcentratedCost,
    Cost,
    GaussianCost,
    PureCost,
    Relation,
    Spend,
    allocate,
)
from dpeigen.privacy.randomness import check_scale
from dpeigen.questions import Count, Eigenvalues
from dpeigen.questions.spectrum import VALUE_GRID
from dpeigen.stats import Lattice
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.spiked import count_spikes, spikes_in_noise

__all__ = ["FREE", "NOTHING", "PREFIX", "PrivateRank"]

PREFIX = "number of components: "
_SHARE, _COUNT_SHARE = 0.1, 0.02  # of the main budget
FREE = "The number of components is how many stand out of the noise of the released covariance; it cost nothing."
NOTHING = "No component stands out of the noise of the released covariance; the first is released anyway."
_RAW = "The number of components is that of the columns in the data's own units."


@dataclass(frozen=True)
class PrivateRank(Wrapped):
    """A method with a private number of components.

    Parameters
    ----------
    inner : the method that estimates, once the number is known.
    rule : "edge", the eigenvalues above the bulk and the noise, or "ratio", the largest noisy ratio of
        consecutive eigenvalues (Cai, Xia and Zha 2024, §7.1).
    """

    rule: str = "edge"

    def assumptions(self, task: Task) -> tuple[str, ...]:
        stated = self.inner.assumptions(replace(task, n_components=None))
        return (*stated, "the released number of components is right") if stated else ()

    def shares(self, task: Task) -> dict[Purpose, Cost]:
        """The cost of the number of components, by purpose; if it costs nothing, the cost of everything."""
        if self.inner.whole:
            return self.inner.shares(_whole(task))
        pure, main = framing_shares(task, paid_radius=not _public_bound(task), center=task.private_center)
        main |= {Purpose.EIGENVALUES: _SHARE, Purpose.REST: 1 - _SHARE}
        if task.relation is Relation.ADD_REMOVE:
            main[Purpose.ROWS] = _COUNT_SHARE
        costs = allocate(
            task.budget, pure=pure, main=main, coordinates=task.n_features + 1 + center_integers(task.n_features)
        )
        del costs[Purpose.REST]
        return costs

    def declared(self, task: Task) -> dict[str, Cost]:  # noqa: ARG002
        return {}  # a rehearsal asks everything: a whole covariance costs the same however its share is divided

    def price(self, task: Task) -> Budget:
        return self.inner.price(_whole(task)) if self.inner.whole else task.budget

    def split_is_known(self, task: Task) -> bool:
        if self.inner.whole:
            return self.inner.split_is_known(_whole(task))
        # The method's total cost is the same for every number of components, but its shares may differ.
        tasks = (replace(task, n_components=k, private_rank=False) for k in range(1, _most(task) + 1))
        costs = (spends(self.inner.shares(trial)) for trial in tasks)
        first = next(costs)
        return self.inner.split_is_known(task) and all(found == first for found in costs)

    def check(self, task: Task) -> None:
        check_choice("rule", self.rule, ["edge", "ratio"], "PrivateRank")
        if self.inner.constants == "published":
            must = "'sharp' with n_components='private'"
            raise ValueError(complain("constants", type(self.inner).__name__, must, "published"))
        if isinstance(self.inner, OnePassMethod):
            must = f"a number for method={self.inner.name!r}, which reads its rows once"
            raise ValueError(complain("n_components", task.owner, must, "private"))
        if isinstance(self.inner, PrivateRank):
            raise ValueError(complain("inner", "PrivateRank", "a method with a number of components", self.inner))
        if task.missing == "correct":
            remedy = "Give a number, or release a covariance and count its clear eigenvalues, at no further cost."
            raise ValueError(complain("n_components", task.owner, "a number with missing='correct'", "private", remedy))
        if task.n_features < 2:
            raise ValueError(complain("n_components", task.owner, "a number where there is one column", "private"))
        if self.inner.whole:
            self.inner.check(_whole(task))
            return
        super().check(task)
        for k in (1, _most(task)):
            self.inner.check(replace(task, n_components=k, private_rank=False))
        costs = self.shares(task)
        check_radii(task, costs)
        question = Eigenvalues(any_lattice(task), rounding_allowance(task))
        check_scale(question.scale(costs[Purpose.EIGENVALUES], task.relation))
        profiles = set()
        for k in sorted({1, min(2, _most(task)), min(3, _most(task)), _most(task)}):
            inner = self._inner_task(task, k, 1.0, _any_center(task))
            self.inner.check(inner)
            profiles.add(_profile(spends(self.inner.shares(inner))))
        if len(profiles) > 1:
            must = f"a number for method={self.inner.name!r}, whose cost depends on it"
            raise ValueError(complain("n_components", task.owner, must, "private"))

    def estimate(self, curator: Curator, task: Task) -> Estimate:
        return self._count_free(curator, task) if self.inner.whole else self._pay(curator, task)

    def _count_free(self, curator: Curator, task: Task) -> Estimate:
        found = self.inner.estimate(curator, _whole(task))
        found = found if task.scale is None or found.scale is not None else standardised(found, task)
        if found.noise_map is None:
            raise AssertionError("a method that releases a whole covariance tells its noise")
        rows = max(1, round((found.n_rows or 1) / (2 if task.pairs else 1)))
        clear = spikes_in_noise(found.covariance, found.noise_map, rows, self.rule)
        k = max(1, clear)
        details = {"private_rank": k, "components_that_stand_out": clear, "rank_from": "the released covariance"}
        return replace(
            found,
            components=found.components[:k],
            eigenvalues=found.eigenvalues[:k],
            noise_variance=float(found.eigenvalues[k:].mean()),
            notes=(*found.notes, FREE if clear else NOTHING),
            details={**found.details, **details},
        )

    def _pay(self, curator: Curator, task: Task) -> Estimate:
        first = curator.part(self.shares(task), PREFIX)
        costs = self.shares(task)
        frame, radius, _ = ask_frame(first, task, costs, weighted=False)
        lattice, count = Lattice(frame, radius), float(task.n_terms or 1)
        question = Eigenvalues(lattice, rounding_allowance(task))
        if Purpose.ROWS in costs:
            count = first.measure(Count(question), purpose=Purpose.ROWS, cost=costs[Purpose.ROWS])
        unit = (lattice.step * LEVELS * float(frame.unit[0])) ** 2 / count
        cost = costs[Purpose.EIGENVALUES]
        values = first.measure(question, purpose=Purpose.EIGENVALUES, cost=cost).values * unit
        root = 1.0 if isinstance(cost, GaussianCost) else math.sqrt(2)
        deviation = root * question.scale(cost, task.relation) / VALUE_GRID * unit
        k = count_spikes(values, task.n_features, max(1, round(count)), deviation, self.rule)
        center = frame.center if task.private_center else task.center
        inner_task = self._inner_task(task, k, radius * float(frame.unit[0]), center)
        found = self.inner.estimate(curator.part(self.inner.shares(inner_task)), inner_task)
        return replace(
            found,
            numerics="idealised",
            radius_released=found.radius_released or not _public_bound(task),
            notes=found.notes if task.scale is None else (*found.notes, _RAW),
            details={**found.details, "private_rank": k, "rank_from": "noisy eigenvalues, paid for",
                     "noisy_eigenvalues": values.tolist(), "noisy_eigenvalues_deviation": deviation},
        )  # fmt: skip

    def _inner_task(self, task: Task, k: int, radius: float, center: Floats | str | None) -> Task:
        """The task for the method: with known radius and centre, and the budget that is left after the shares."""
        bound = task.bound if _public_bound(task) or task.bound is None else radius
        fixed = replace(task, n_components=k, private_rank=False, bound=bound, center=center)
        # With δ > 0 the cost of draws would depend on their number.
        delta = 0.0 if isinstance(self.inner, SamplingMethod) else task.budget.delta
        asked = "n_components='private'"
        return replace(fixed, budget=left_for(self.inner, fixed, self.shares(task), delta=delta, asked=asked))


def _whole(task: Task) -> Task:
    """The task of a method that releases the whole covariance, from which components are counted."""
    return replace(task, n_components=None)


def _most(task: Task) -> int:
    return max(1, task.n_features // 2)


def _public_bound(task: Task) -> bool:
    return isinstance(task.bound, (float, tuple))


def _any_center(task: Task) -> Floats | str | None:
    return np.zeros(task.n_features) if task.private_center else task.center


def _profile(costs: list[Spend]) -> tuple[float, ...]:
    """The totals that determine the composition of the costs: Gaussian, concentrated and pure."""
    mu = math.fsum(s.cost.mu**2 for s in costs if isinstance(s.cost, GaussianCost))
    rho = math.fsum(s.cost.rho for s in costs if isinstance(s.cost, ConcentratedCost))
    pure = sorted(s.cost.epsilon for s in costs if isinstance(s.cost, PureCost))
    return tuple(float(f"{v:.6g}") for v in (mu, rho, *pure))
