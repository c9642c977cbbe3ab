"""The base class of methods. A method takes public facts and returns an estimate that was paid for.

A `Task` (`methods.task`) holds the public facts of a fit. A `Method` is ordinary code between questions: it asks a
curator, computes with the noisy answers, asks again, and returns an `Estimate`. Every number of the estimate is public
or paid for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import check_choice, check_positive, complain
from dpeigen.curator import Curator, DataCurator, Purpose
from dpeigen.methods.capped import first_shares, with_rows_paid
from dpeigen.methods.outline import Outline, Planned
from dpeigen.methods.public_facts import LEAST_DELTA
from dpeigen.methods.task import Box as Box
from dpeigen.methods.task import Task as Task
from dpeigen.privacy import Budget, Cost, Randomness, Relation, Spend
from dpeigen.privacy.guarantee import MIXED, Basis, Numerics
from dpeigen.sources import Source
from dpeigen.stats.frame import LARGEST_FACT
from dpeigen.stats.measured import Measured
from dpeigen.stats.spectrum import leading_components
from dpeigen.stats.threads import kept_threads

__all__ = [
    "C",
    "Estimate",
    "Method",
    "check_tail",
    "estimand_of",
    "run_method",
    "standardised",
    "unprotected",
]

C = TypeVar("C", bound=Curator)
_SMALL_MATRICES = 512  # columns up to which a second thread costs BLAS more than it saves
_LONGEST = 1e50  # above the clipping bounds of columns without a public bound


@dataclass(frozen=True)
class Estimate:
    """The result of a method: numbers that are public or paid for."""

    components: Floats  # k × d, orthonormal rows, by decreasing eigenvalue
    eigenvalues: Floats  # k
    noise_variance: float  # mean of the eigenvalues after the components
    covariance: Floats  # d × d
    mean: Floats | None  # None if no centre was paid for (pairs)
    n_rows: float | None  # public, released, or None
    radius: float | None  # to which rows were clipped, public or paid for; None if columns were weighted first
    numerics: Numerics
    split: tuple[Spend, ...] = ()  # what was spent; the curator's record
    notes: tuple[str, ...] = ()
    noise_deviation: float | None = None  # of an off-diagonal entry of the covariance, at most; public
    covariance_error: float | None = None  # bounds ‖Ĉ − C‖₂ with probability 95% over the noise; see `moment`
    details: Mapping[str, Any] = field(default_factory=dict)  # further released numbers and options; JSON values
    radius_released: bool | None = None  # whether a radius was paid for; None: it was unless the bound is public
    noise_map: Floats | None = None  # B: the covariance on a subspace P has noise of norm ‖PB‖·‖PB‖_F/√d; public
    holes: Floats | None = None  # released fractions of missing cells by column, if they were corrected for
    scale: Floats | None = None  # divisors of the columns; all numbers above except the mean are in these units
    measured: Callable[[], Measured] | None = None  # the noisy moment in the data's own units, for intervals
    rows_that_count: int | None = None  # the most rows of a unit that count, if rows have equal weight; released

    def __post_init__(self) -> None:
        # In floating point, products above and below the diagonal can differ in the last bit.
        object.__setattr__(self, "covariance", (self.covariance + self.covariance.T) / 2)


class Method(ABC):
    """One mechanism. Constructor arguments are public; data and randomness are arguments of `estimate`."""

    name: ClassVar[str]
    reference: ClassVar[str]
    needs_bound: ClassVar[bool] = True
    needs_delta: ClassVar[bool] = False
    uses_delta: ClassVar[bool] = True
    continuous_noise: ClassVar[bool] = False  # whether noise is drawn in floating point also if δ > 0
    basis: ClassVar[Basis] = "worst-case"
    estimand: ClassVar[str] = "covariance"  # the matrix whose directions are estimated, in the limit of many rows
    robust: ClassVar[bool] = False  # whether that is a robust estimand: signs, or Kendall's tau
    whole: ClassVar[bool] = False  # whether it releases a whole covariance with noise of known size (`noise_map`)
    shrinks: ClassVar[bool] = False  # whether variances are corrected for the effect of noise
    page: ClassVar[str] = ""  # of the documentation, if it is not called like the method
    needs_replace: ClassVar[str] = ""  # advice under add/remove, if the method supports replacement only
    corrects_holes: ClassVar[bool] = False  # whether it takes missing="correct"
    holds_rows: ClassVar[bool] = False  # whether it gets the rows themselves: baselines that are not private
    weighs_columns: ClassVar[bool] = False  # whether columns are weighted by their public bounds
    planned: ClassVar[Planned | None] = Planned()  # how plans run it; None if they cannot
    constants: str = "sharp"  # "published": those of a paper
    emphasis: Mapping[str, float] = MappingProxyType({})  # factors on default shares of the budget, by purpose; public

    @property
    def label(self) -> str:
        """The name of this instance in tables of predictions, with the options that distinguish it."""
        return self.name

    def reluctance(self, task: Task) -> float:  # noqa: ARG002
        """The factor by which its predicted error must be lower for "auto" to choose it.

        It is above 1 if the method answers less than was asked for: differences are centred at the mean even if a
        public centre is given, and directions alone have no variances and no centre. It is also above 1 if the noise
        scales with a public bound, which may be far too wide.
        """
        return 1.0

    def read_as(self, task: Task) -> Task:
        """The task for the rows that enter the moments of directions; by default the task itself."""
        return task

    def outline(self, task: Task, rows: int) -> Outline | None:  # noqa: ARG002
        """What determines the error of its directions, for "auto"; None if "auto" does not consider it.

        A function of public facts, for a task that `check` has accepted.
        """
        return None

    def split_is_known(self, task: Task) -> bool:  # noqa: ARG002
        """Whether the shares do not depend on the data, so that a rehearsal shows them."""
        return not self.holds_rows

    def declared(self, task: Task) -> dict[str, Cost]:
        """The most that may be spent, by purpose. How much of it is spent may depend on releases."""
        return {purpose.value: cost for purpose, cost in self.shares(task).items()}

    def assumptions(self, task: Task) -> tuple[str, ...]:  # noqa: ARG002
        """The assumptions of the guarantee if its basis is not "worst-case", or why there is no guarantee."""
        return ()

    def budget(self, task: Task) -> Budget:
        """The budget that the method may spend: the task's budget, without δ if the method does not use it."""
        return task.budget if self.uses_delta else Budget(task.budget.epsilon)

    def price(self, task: Task) -> Budget:
        """The actual cost of the method, known before anything is read. With published constants it may be larger."""
        return self.budget(task)

    def check(self, task: Task) -> None:
        """Refuse tasks that this method cannot do, before anything is read or spent."""
        self._check_factors()
        if self.needs_delta and task.budget.is_pure:
            remedy = "Give a delta well below 1/n such as 1e-6, or use method='matrix-laplace': it is purely private."
            raise ValueError(complain("delta", task.owner, f"> 0 for method={self.name!r}", task.budget.delta, remedy))
        check_tail(self, task.budget.delta, task.owner)
        if self.needs_bound and task.bound is None:
            remedy = (
                "Three remedies: bound=R, a public bound on the norm of a row; bound=(lower, upper), public bounds of "
                "the columns; bound='private', which estimates a radius from the budget."
            )
            raise ValueError(complain("bound", task.owner, f"given for method={self.name!r}", None, remedy))
        _check_units(task)
        self._check_missing(task)
        self._check_relation(task)

    def _check_factors(self) -> None:
        owner = type(self).__name__
        if not isinstance(self.emphasis, Mapping):
            raise TypeError(complain("emphasis", owner, "a dictionary of factors by purpose", self.emphasis))
        for name, factor in self.emphasis.items():
            if not 1e-3 <= check_positive(f"emphasis[{name!r}]", factor, owner) <= 1e3:
                raise ValueError(complain(f"emphasis[{name!r}]", owner, "between 0.001 and 1000", factor))

    def _check_missing(self, task: Task) -> None:
        if task.missing == "correct" and not self.corrects_holes and task.robust:
            must = "other than 'correct' with robust=True: directions of signs cannot be corrected for missing cells"
            remedy = (
                "Use robust=False (with method='auto'), or missing='drop', which replaces a row with a missing cell by "
                "the centre."
            )
            raise ValueError(complain("missing", task.owner, must, "correct", remedy))
        if task.missing == "correct" and not self.corrects_holes:
            must = f"other than 'correct' for method={self.name!r}, which cannot be corrected for missing cells"
            remedy = (
                "Use method='auto', 'whitened', 'gaussian', 'laplace' or 'matrix-laplace', or "
                "missing='drop', which replaces a row with a missing cell by the centre."
            )
            raise ValueError(complain("missing", task.owner, must, "correct", remedy))

    def _check_relation(self, task: Task) -> None:
        if task.pairs and task.relation is Relation.ADD_REMOVE:
            remedy = "Use relation='replace', or center='private'."
            raise ValueError(
                complain("center", task.owner, "other than 'pairs' under relation='add_remove'", "pairs", remedy)
            )
        if self.needs_replace and task.relation is not Relation.REPLACE:
            must = f"'replace' for method={self.name!r}"
            raise ValueError(complain("relation", task.owner, must, task.relation.value, self.needs_replace))

    def emphasised(self, shares: Mapping[Purpose, float]) -> dict[Purpose, float]:
        """Default shares of a budget, multiplied by the caller's factors."""
        return {purpose: share * float(self.emphasis.get(purpose.value, 1.0)) for purpose, share in shares.items()}

    def check_emphasis(self, purposes: Collection[Purpose]) -> None:
        """Refuse factors for purposes that are not paid for."""
        for name in self.emphasis:
            check_choice("emphasis", name, [purpose.value for purpose in purposes], type(self).__name__)

    @abstractmethod
    def shares(self, task: Task) -> dict[Purpose, Cost]:
        """The share of each purpose; known before anything is read."""

    @abstractmethod
    def estimate(self, curator: Curator, task: Task) -> Estimate:
        """Ask the curator, post-process, ask again, and compute an estimate from paid answers and public facts."""


def _check_units(task: Task) -> None:
    """Refuse public deviations so small that variances in these units could overflow."""
    if not isinstance(task.scale, np.ndarray):
        return
    reach: Any = max(_LONGEST, task.bound) if isinstance(task.bound, float) else _LONGEST
    if isinstance(task.bound, tuple):
        reach = np.maximum(*np.abs(task.bound)) + (np.abs(task.center) if isinstance(task.center, np.ndarray) else 0.0)
    if (reach / task.scale > LARGEST_FACT).any():
        must = f"deviations of at least a bound of the rows divided by {LARGEST_FACT:g}"
        raise ValueError(complain("scale", task.owner, must, f"{task.scale.min():g}", "Give larger ones."))


def check_tail(method: Method | type[Method], delta: float, owner: str) -> None:
    """Refuse a δ > 0 below the probability of the tails of continuous noise that floating point cannot draw."""
    if method.continuous_noise and 0 < delta < LEAST_DELTA:
        must = f"0 or at least {LEAST_DELTA:g} for method={method.name!r}, whose noise is drawn in floating point"
        remedy = "Give a larger delta, or use a method with exact discrete noise, such as 'gaussian' or 'spatial-sign'."
        raise ValueError(complain("delta", owner, must, delta, remedy))


def unprotected(curator: Curator) -> tuple[Source, Randomness]:
    """The rows themselves, for baselines that are not private."""
    if not isinstance(curator, DataCurator):
        raise TypeError("this method looks at rows, so it needs a curator that has some")
    return curator.unprotected()


def run_method(method: Method, source: Source, task: Task, rng: Randomness) -> Estimate:
    """The estimate of a checked method on the rows of a source, with the record of what was spent."""
    price = method.price(task)
    curator = DataCurator(
        source, task.relation, first_shares(method, task), price, rng, hands_out_rows=method.holds_rows
    )
    part, told = with_rows_paid(curator, method, task)
    with kept_threads(one_for_blas=task.n_features <= _SMALL_MATRICES):
        found = method.estimate(part, told)
    if told.max_rows is not None:
        found = replace(found, rows_that_count=told.max_rows)
    if task.scale is not None and found.scale is None:
        found = standardised(found, task)
    return replace(found, split=curator.split) if curator.split else found


def standardised(found: Estimate, task: Task) -> Estimate:
    """The same estimate for columns divided by public or released standard deviations. Costs nothing.

    Indicators of categories are divided by the square root of their released frequency, as in factor analysis of mixed
    data (Pagès 2004). A column without a released variance keeps its unit, and has loading 0 in every component.
    """
    deviations = np.sqrt(np.maximum(np.diag(found.covariance), 0.0))
    deviations = np.where(deviations > 0, _by_frequency(found, deviations, task), 1.0)
    scale = task.scale if isinstance(task.scale, np.ndarray) else deviations
    covariance = found.covariance / np.outer(scale, scale)
    components, values, rest = leading_components(covariance, len(found.components))
    return replace(
        found,
        components=components,
        eigenvalues=values,
        noise_variance=rest,
        covariance=covariance,
        radius=None,
        noise_deviation=None,
        covariance_error=None,
        noise_map=None if found.noise_map is None else found.noise_map / scale[:, None],
        scale=scale,
    )


def _by_frequency(found: Estimate, deviations: Floats, task: Task) -> Floats:
    """The deviations, with √p for indicators, where p is their frequency according to the released centre.

    An indicator has variance p(1 − p), so after division a variable with k categories has total Σ(1 − p) = k − 1.
    """
    scale = deviations.copy()
    for column, one in task.indicators:
        variance = float(deviations[column] / one) ** 2
        if task.center is None:
            share = variance  # the moment about 0
        elif found.mean is None or not task.private_center:
            share = (1 - np.sqrt(max(0.0, 1 - 4 * variance))) / 2
        else:
            share = max(float(found.mean[column]) / one, variance)
        scale[column] = one * np.sqrt(np.clip(share, 1e-12, 1.0))
    return scale


def estimand_of(method: Method, task: Task) -> str:
    """What the released directions estimate, in words."""
    if method.estimand != "covariance":
        return method.estimand if task.scale is None else f"{method.estimand} of standardised columns"
    if task.scale is None:
        return "second moment" if task.center is None else method.estimand
    if isinstance(task.scale, np.ndarray):
        return "covariance of columns in public units"
    return MIXED if task.indicators else "correlation"
