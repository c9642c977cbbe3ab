"""``method="auto"``: the choice among worst-case methods, from public facts only.

What is estimated is the caller's choice; "auto" chooses a mechanism for it.

The covariance or the correlation matrix, and their principal components: ``whitened`` where rows suffice for it. Its
answer has an error for every column in that column's own unit, and the error goes to 0 as rows × ε grow, whatever the
rows are like. Where rows are too few for that: with a bound, whichever of ``gaussian`` (δ > 0), ``matrix-laplace`` and
``laplace`` adds the least noise to an off-diagonal entry of the second moment. Without one, components come from signs
of rows, which may have other directions, and the release says so; a covariance is refused.

Robust directions (``robust=True``): of `spatial-sign`, `refined` (δ > 0; also on differences, which need no centre) and
`kendall` (replacement, and rows that fit in memory), as far as the public facts allow, the one whose predicted error
(`methods.prediction`) is least in regret over a fixed family of assumptions, since nothing is known of the spectrum:
leading variances from 3 to 1000 times the others, normal and heavy tails. The regret of a method in a world is its
predicted error relative to the best there; what counts is the mean of its square. They are also tried for directions
alone, with relative variances and no private centre, and then have to promise more. All of them redescend: rows (or
differences) far beyond a paid median length count next to nothing, so that a cluster of outliers does not turn the
directions. Where rows are too few for that median they are taken as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from dpeigen._validate import check_choice, complain
from dpeigen.methods.base import LEAST_DELTA, Method, Task, check_tail
from dpeigen.methods.columns import shows_columns
from dpeigen.methods.enough import more_epsilon, more_rows
from dpeigen.methods.framing import RADIUS_SHARE
from dpeigen.methods.moment.base import MomentMethod
from dpeigen.methods.moment.gaussian import Gaussian
from dpeigen.methods.moment.geodesic import Geodesic
from dpeigen.methods.moment.laplace import Laplace
from dpeigen.methods.moment.matrix_laplace import MatrixLaplace
from dpeigen.methods.moment.spiked import Spiked
from dpeigen.methods.moment.whitened import Whitened, expected_noise
from dpeigen.methods.one_pass.dp_pca import DPPCA
from dpeigen.methods.one_pass.oja import Oja
from dpeigen.methods.outline import Outline
from dpeigen.methods.prediction import World, expected_error, usual_error
from dpeigen.methods.radius import rows_needed
from dpeigen.methods.rank import PrivateRank
from dpeigen.methods.sampling.eigenvector_sampling import EigenvectorSampling
from dpeigen.methods.sampling.kapralov_talwar import KapralovTalwar
from dpeigen.methods.signs.kendall import Kendall
from dpeigen.methods.signs.refined import Refined
from dpeigen.methods.signs.spatial_sign import SpatialSign
from dpeigen.methods.standardised import Standardised
from dpeigen.methods.wrapped import itself
from dpeigen.privacy import PureCost

__all__ = [
    "ASSUMED_LEVELS",
    "METHODS",
    "REDESCENDING_SIGNS",
    "Choice",
    "check_method",
    "choose",
    "explain",
    "resolve",
    "resolve_with_reasons",
    "too_little",
]

METHODS: dict[str, type[Method]] = {
    m.name: m
    for m in (
        Gaussian,
        Laplace,
        MatrixLaplace,
        SpatialSign,
        EigenvectorSampling,
        KapralovTalwar,
        Kendall,
        Geodesic,
        Spiked,
        Refined,
        Whitened,
    )
}
METHODS |= {m.name: m for m in (DPPCA, Oja)}  # in one pass

ASSUMED_LEVELS = (3.0, 6.0, 16.0, 51.0, 201.0, 1001.0)
_SIZES = [1000, 10_000, 100_000]  # where the number of rows is private
_MOSTLY_NOISE = 0.6  # noise on a correlation from which on nothing is said
_MUCH_NOISE, _LITTLE_NOISE = 0.25, 0.05  # from which on a public box, or radius, is the better ground
_WRONG_ANGLE = 0.3  # sinΘ from which on directions of signs stand in for those of the covariance
_WRONG_SCALED_ANGLE = 0.6  # where signs, too, have to pay for units
_STANDS_IN = (
    "rows × ε is too small for the components of the covariance, so these are directions of signs, which are the same "
    "for elliptical rows and differ for skewed ones"
)
_REFUSED = ValueError, ArithmeticError  # the latter for budgets of 1e-200, 1e300 and the like
_MOST_COLUMNS = 400  # of `refined`, whose decompositions take minutes beyond
_BAND = 64  # partners of a row in Kendall's tau beyond _ALL_PAIRS rows
_ALL_PAIRS, _PAIRED_ENTRIES = 4000, 2 * 10**7
REDESCENDING_SIGNS = SpatialSign("redescending", "private")


@dataclass(frozen=True)
class Choice:
    """Why "auto" chose what it chose; every number is a function of public facts."""

    method: Method
    errors: dict[str, float]  # predicted sinΘ (geometric mean over the assumed worlds), or noise on an entry
    measure: str
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a release."""
        return {
            "method": self.method.name,
            "chosen": self.method.label,
            "predicted": self.errors,
            "measure": self.measure,
            "reason": self.reason,
        }


def choose(task: Task) -> Method:
    """The method for a task; deterministic."""
    return explain(task).method


def explain(task: Task) -> Choice:
    """The choice with its reasons."""
    k = task.n_components
    directions = k is not None and k < task.n_features
    if task.robust:
        return _for_directions(task, k, robust=True) if directions and k else _robust_covariance(task)
    if _pays(Whitened(), task):
        return Choice(Whitened(), {}, "", "any unit, any origin, and its error goes to 0 as rows and ε grow")
    signs = task.missing != "correct"  # they are not corrected for missing cells
    if directions and k and signs and (task.n_terms is not None or task.bound is None):
        found = _for_directions(task, k)
        return replace(found, reason=f"{_STANDS_IN}; {found.reason}")
    if task.bound is not None:
        return _noisy_moment(task)
    if task.n_rows is None:
        return Choice(Whitened(), {}, "", "")  # whose check says what is missing
    raise ValueError(too_little(task))


# --- directions ------------------------------------------------------------------------------------------------------


def _for_directions(task: Task, k: int, *, robust: bool = False) -> Choice:
    d = task.n_features
    sizes = [task.n_rows] if task.n_rows is not None else _SIZES
    outlines = [(m, found) for m in _candidates(task, robust) if (found := _outlines(m, task, sizes))]
    if robust and not outlines:  # too few rows for a cutoff
        outlines = [(m, found) for m in _candidates(task) if (found := _outlines(m, task, sizes))]
    if not outlines:
        return _robust_covariance(task)  # whose check says what is missing
    worlds = _worlds()
    allowed = [method for method, _ in outlines]
    table = [[expected_error(each, d, k, world) for each in found for world in worlds] for _, found in outlines]
    best = [min(column) for column in zip(*table, strict=True)]
    regrets = [
        method.reluctance(task) * math.sqrt(math.fsum((e / b) ** 2 for e, b in zip(row, best, strict=True)) / len(best))
        for method, row in zip(allowed, table, strict=True)
    ]
    chosen = min(range(len(allowed)), key=lambda i: regrets[i])
    errors = {m.label: float(f"{_geometric_mean(row):.3g}") for m, row in zip(allowed, table, strict=True)}
    return Choice(
        allowed[chosen],
        errors,
        "predicted sinΘ, geometric mean over the assumed scenarios",
        f"least mean squared regret over {len(best)} assumed scenarios: {regrets[chosen]:.2f} times the best of each",
    )


def _candidates(task: Task, robust: bool = False) -> Iterator[Method]:
    """Those for directions; ``robust``: with a cutoff that is paid for."""
    cutoff = "private" if robust else None
    signs = REDESCENDING_SIGNS if robust else SpatialSign()
    yield signs
    if not task.budget.is_pure and task.n_features <= _MOST_COLUMNS:
        yield Refined(cutoff=cutoff)
        few = task.n_rows is not None and not task.private_rank  # whose eigenvalues are paid for, about a centre
        if few and task.private_center:
            yield Refined(differences=True, cutoff=cutoff)
        if few:
            yield Refined(only_directions=True, cutoff=cutoff)
    n = task.n_rows
    if n is not None and n * task.n_features <= _PAIRED_ENTRIES and not task.private_rank:
        design: str | int = "all" if n <= _ALL_PAIRS else _BAND
        paid = Kendall(signs.transform, signs.radius, design=design, variances="paid",
                       location="paid" if task.private_center else "none")  # fmt: skip
        yield paid
        yield replace(paid, variances="free", location="none")


def _outlines(method: Method, task: Task, sizes: list[int]) -> list[Outline]:
    """Of the method with so many rows; none where the facts do not allow it."""
    try:
        method.check(task)
        return [found for n in sizes if (found := method.outline(task, n))]
    except _REFUSED:
        return []


def _allows(method: Method, task: Task) -> bool:
    try:
        method.check(task)
    except _REFUSED:
        return False
    return True


# --- the whole covariance --------------------------------------------------------------------------------------------


def _robust_covariance(task: Task) -> Choice:
    method = REDESCENDING_SIGNS if _allows(REDESCENDING_SIGNS, task) else SpatialSign()
    return Choice(method, {}, "", "all directions of signs, robust")


def _pays(method: Whitened, task: Task) -> bool:
    """Whether the public facts promise an answer that is not mostly noise.

    For the whole covariance inside a public radius it has to promise little noise: who knows a radius has rows in one
    unit, and the noise of plain moments follows the radius. Where the number of rows is private, a bound is the safer
    ground.
    """
    if not _allows(method, task) or (task.regression and isinstance(task.bound, (tuple, float))):
        return False  # regressions inside bounds have columns in the units of the bounds already
    if task.n_terms is None:
        return task.bound is None
    if task.regression and not shows_columns(task):
        return False  # a target of which nothing is known has no regression
    k = task.n_components
    if k is not None and k < task.n_features and task.missing != "correct":
        return _angle(method, task, k) <= (_WRONG_ANGLE if task.scale is None else _WRONG_SCALED_ANGLE)
    if isinstance(task.bound, float):
        return expected_noise(task) < _LITTLE_NOISE
    return expected_noise(task) < (_MOSTLY_NOISE if task.bound is None else _MUCH_NOISE)


def _angle(method: Whitened, task: Task, k: int) -> float:
    """sinΘ that is to be expected where the leading variances stand out no more than in most standardised tables."""
    return usual_error(method.outline(task, task.n_rows or 1), task.n_features, k)


def _geometric_mean(values: list[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _worlds() -> list[World]:
    return [World(level, heavy) for level in ASSUMED_LEVELS for heavy in (False, True)]


def too_little(task: Task) -> str:
    """Why nothing can be said of a covariance, and what would do."""
    n, budget = task.n_rows or 0, task.budget

    def pays(asked: Task) -> bool:
        return _pays(Whitened(), asked)

    epsilon = more_epsilon(budget.epsilon, lambda more: pays(replace(task, budget=replace(budget, epsilon=more))))
    rows = more_rows(n, lambda more: pays(replace(task, n_rows=more))) if n else None
    larger = "a larger epsilon" if epsilon is None else f"epsilon={epsilon:g}"
    remedies = (
        f"Three remedies: public bounds, bound=(lower, upper); {'many more' if rows is None else f'{rows:,}'} rows; or "
        f"{larger}."
    )
    must = f"larger for {task.n_features} columns and {n} rows: the result would be only noise"
    return complain("epsilon", task.owner, must, task.budget.epsilon, remedies + " Nothing was spent.")


def _noisy_moment(task: Task) -> Choice:
    candidates: list[MomentMethod] = [Laplace(), MatrixLaplace()]
    if not task.budget.is_pure:
        candidates.insert(0, Gaussian())
    if 0 < task.budget.delta < LEAST_DELTA:
        candidates = [m for m in candidates if not m.continuous_noise]
    noise = {m.name: m.deviation(task.n_features, task.budget, task.relation) for m in candidates}
    best = min(candidates, key=lambda m: noise[m.name])
    return Choice(
        replace(best, tighten=_worth_tightening(task)),
        {name: float(f"{value:.3g}") for name, value in noise.items()},
        "noise on an entry of the sum of xxᵀ, rows in the unit ball",
        "least noise",
    )


def _worth_tightening(task: Task) -> bool:
    if not isinstance(task.bound, tuple) or task.n_features < 3 or task.n_terms is None:
        return False
    return task.n_terms >= 1.5 * rows_needed(PureCost(RADIUS_SHARE * task.budget.epsilon))


def check_method(method: Any, owner: str, delta: float = 0.0) -> None:
    """A name or an instance, that can keep this δ; looked at before anything is read."""
    if isinstance(method, str):
        check_choice("method", method, ["auto", *METHODS], owner)
        if method != "auto":
            check_tail(METHODS[method], delta, owner)
    elif isinstance(method, Method):
        check_tail(method, delta, owner)
    else:
        raise TypeError(complain("method", owner, "a method name or an instance from dpeigen.methods", method))


def resolve(method: str | Method, task: Task) -> Method:
    """A method from a name, an instance, or "auto"; checked against the task."""
    return resolve_with_reasons(method, task)[0]


def resolve_with_reasons(method: str | Method, task: Task) -> tuple[Method, Choice | None]:
    """The same, and why, if it was "auto" that chose."""
    check_method(method, task.owner)
    choice = None if method != "auto" else explain(task)
    chosen = choice.method if choice else method if isinstance(method, Method) else METHODS[method]()
    if task.private_rank and not isinstance(chosen, PrivateRank):
        chosen = PrivateRank(chosen)
    if task.scale is not None and itself(chosen).robust:
        chosen = Standardised(chosen)
    chosen.check(task)
    return chosen, choice
