"""``method="auto"``: the choice among worst-case methods, from public facts only.

The caller chooses what is estimated; "auto" chooses a mechanism for it.

The covariance or the correlation matrix, and their principal components: ``whitened`` if there are enough rows. Its
error for every column is relative to that column's own unit, and goes to 0 as rows × ε grow, whatever the rows are
like. If there are too few rows for that: with a bound, whichever of ``gaussian`` (δ > 0), ``matrix-laplace`` and
``laplace`` adds the least noise to an off-diagonal entry of the second moment. Without a bound, components come from
signs of rows, which may have other directions, and the release says so; a covariance is refused.

Robust directions (``robust=True``): the candidates are `spatial-sign`, `refined` (δ > 0; also on differences, which
need no centre) and `kendall` (replacement, and rows that fit in memory), as far as the public facts allow. Nothing is
known about the spectrum, so errors are predicted (`methods.prediction`) over a fixed family of assumptions: leading
variances from 3 to 1000 times the others, normal and heavy tails. The regret of a method in a world is its predicted
error relative to the best there; the method with the least mean squared regret is chosen. Methods are also considered
for directions alone, with relative variances and no private centre; they must then have a lower predicted error to be
chosen. All candidates redescend: rows (or differences) far beyond a paid median norm have almost no weight, so that a
cluster of outliers does not rotate the directions. If there are too few rows for that median, or a cutoff is
predicted to make the error more than 1.2 times as large, rows are used without a cutoff.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dpeigen._validate import check_choice, complain
from dpeigen.methods.base import Method, Task, check_tail
from dpeigen.methods.columns import own_units
from dpeigen.methods.enough import more_epsilon, more_rows, three_remedies
from dpeigen.methods.found_columns import finds_most_columns, shows_columns
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
from dpeigen.methods.public_facts import LEAST_DELTA
from dpeigen.methods.radius import FewRowsError, rows_needed
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
    "stands_in",
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
_SIZES = [1000, 10_000, 100_000]  # used if the number of rows is private
_MOSTLY_NOISE = 0.6  # noise on a correlation above which nothing is released
_MUCH_NOISE, _LITTLE_NOISE = 0.25, 0.05  # above which a public bound is better; a radius for columns in one unit
_WRONG_ANGLE = 0.3  # sinΘ above which directions of signs replace those of the covariance
_WRONG_SCALED_ANGLE = 0.6  # the same if signs must pay for units too
_MANY = 10**12  # rows without sampling error
_STANDS_IN = (
    "rows × ε is too small for the components of the covariance, so these are directions of signs, which are the same "
    "for elliptical rows and differ for skewed ones"
)
_REFUSED = ValueError, ArithmeticError  # the latter for budgets of 1e-200, 1e300 and the like
_MOST_COLUMNS = 400  # for `refined`, whose decompositions take minutes beyond
_BAND = 64  # partners of a row in Kendall's tau beyond _ALL_PAIRS rows
_ALL_PAIRS, _PAIRED_ENTRIES = 4000, 2 * 10**7
_CUTOFF_WORTH = 1.2  # the largest predicted factor on the error that a cutoff may cost
REDESCENDING_SIGNS = SpatialSign("redescending", "private")


@dataclass(frozen=True)
class Choice:
    """Why "auto" chose what it chose; every number is a function of public facts."""

    method: Method
    errors: dict[str, float]  # predicted sinΘ (geometric mean over the assumed worlds), or noise on an entry
    measure: str
    reason: str
    stands_in: bool = False  # whether directions of signs replace the components of the covariance

    @property
    def predicted(self) -> float:
        """The error that is predicted for the method."""
        return self.errors[self.method.label]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a release."""
        return {
            "method": self.method.name,
            "chosen": self.method.label,
            "predicted": self.errors,
            "measure": self.measure,
            "reason": self.reason,
            **({"stands_in": True} if self.stands_in else {}),
        }


def stands_in(choice: Mapping[str, Any] | None) -> bool:
    """Whether directions of signs replace the components of the covariance, by the choice recorded in a release."""
    return choice is not None and (choice.get("stands_in") is True or str(choice.get("reason")).startswith(_STANDS_IN))


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
    signs = task.missing != "correct"  # signs are not corrected for missing cells
    if directions and k and signs and (task.n_terms is not None or task.bound is None):
        found = _for_directions(task, k)
        return replace(found, reason=f"{_STANDS_IN}; {found.reason}", stands_in=True)
    if task.bound is not None:
        return _noisy_moment(task)
    if task.n_rows is None:
        return Choice(Whitened(), {}, "", "")  # its check says what is missing
    raise ValueError(too_little(task))


# --- directions ------------------------------------------------------------------------------------------------------


def _for_directions(task: Task, k: int, *, robust: bool = False) -> Choice:
    plain = _least_regret(task, k)
    found = _least_regret(task, k, robust=True) if robust else plain
    if found is None or (plain is not None and found.predicted > _CUTOFF_WORTH * plain.predicted):
        found = plain  # too few rows for a cutoff, or barely enough
    return found or _robust_covariance(task)  # its check says what is missing


def _least_regret(task: Task, k: int, *, robust: bool = False) -> Choice | None:
    """The choice among the methods that the facts allow; None if they allow none."""
    d = task.n_features
    sizes = [task.n_rows] if task.n_rows is not None else _SIZES
    outlines = [(m, found) for m in _candidates(task, robust) if (found := _outlines(m, task, sizes))]
    if not outlines:
        return None
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
    """Methods for directions; ``robust``: with a paid cutoff."""
    cutoff = "private" if robust else None
    signs = REDESCENDING_SIGNS if robust else SpatialSign()
    yield signs
    if not task.budget.is_pure and task.n_features <= _MOST_COLUMNS:
        yield Refined(cutoff=cutoff)
        few = task.n_rows is not None and not task.private_rank  # a private rank pays for eigenvalues about a centre
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
    """The outlines of a method for these numbers of rows; empty if the facts do not allow the method."""
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
    """Whether the answer is predicted not to be mostly noise, from public facts.

    For the whole covariance of columns in one unit inside a public radius the predicted noise must be small: the noise
    of plain moments is then proportional to the squared radius, which is tightened.

    If the number of rows is private and a bound is given, as few rows as are likely must be enough, because the methods
    that use the bound are safer with fewer. With more rows they are not: a bound may be far too wide, and their error
    then stays large at any ε.
    """
    if not _allows(method, task) or (task.regression and isinstance(task.bound, tuple)):
        return False  # regressions inside column bounds have columns in the units of the bounds already
    if task.n_rows is None and task.bound is None:
        return True
    own, task = own_units(task), _with_rows(task)  # what the fit will do follows from the task as it is
    if task.regression and not shows_columns(task):
        return False  # without information about the target there is no regression
    if own and not (finds_most_columns(task) or task.private_rank):
        return False  # a private number of components is 0 there, which is an answer
    k = task.n_components
    if k is not None and k < task.n_features and task.missing != "correct":
        return _mostly_right(method, task, k)
    if isinstance(task.bound, float) and task.same_units:
        return expected_noise(task) < _LITTLE_NOISE
    return expected_noise(task) < (_MOSTLY_NOISE if task.bound is None else _MUCH_NOISE)


def _with_rows(task: Task) -> Task:
    """The task; if its number of rows is private, with the smallest that is assumed."""
    return task if task.n_rows is not None else replace(task, n_rows=min(_SIZES))


def _mostly_right(method: Whitened, task: Task, k: int) -> bool:
    """Whether the components are expected to be right, or off by the sampling error of few rows more than by noise.

    The expectation is for leading variances that exceed the others as in most standardised tables.
    """
    outline, d = method.outline(task, task.n_rows or 1), task.n_features
    if usual_error(outline, d, k) <= (_WRONG_ANGLE if task.scale is None else _WRONG_SCALED_ANGLE):
        return True
    return usual_error(replace(outline, terms=_MANY), d, k) <= usual_error(replace(outline, noise=0.0), d, k)


def _geometric_mean(values: list[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _worlds() -> list[World]:
    return [World(level, heavy) for level in ASSUMED_LEVELS for heavy in (False, True)]


def too_little(task: Task) -> str:
    """Why nothing can be released about a covariance, and what would help."""
    n, budget = task.n_rows or 0, task.budget

    def pays(asked: Task) -> bool:
        return _pays(Whitened(), asked)

    epsilon = more_epsilon(budget.epsilon, lambda more: pays(replace(task, budget=replace(budget, epsilon=more))))
    rows = more_rows(n, lambda more: pays(replace(task, n_rows=more))) if n else None
    must = f"larger for {task.n_features} columns and {n} rows: the result would be only noise"
    remedies = three_remedies("public bounds, bound=(lower, upper)", rows, epsilon)
    return complain("epsilon", task.owner, must, task.budget.epsilon, remedies)


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
    if isinstance(task.bound, str) or (isinstance(task.bound, tuple) and task.n_features < 3):
        return False
    return (_with_rows(task).n_terms or 0) >= 1.5 * rows_needed(PureCost(RADIUS_SHARE * task.budget.epsilon))


def check_method(method: Any, owner: str, delta: float = 0.0) -> None:
    """Check that a method is a name or an instance, and can satisfy this δ, before any data is read."""
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
    """The same, and the reasons if "auto" chose it."""
    check_method(method, task.owner)
    choice = None if method != "auto" else explain(task)
    chosen = choice.method if choice else method if isinstance(method, Method) else METHODS[method]()
    if task.private_rank and not isinstance(chosen, PrivateRank):
        chosen = PrivateRank(chosen)
    if task.scale is not None and itself(chosen).robust:
        chosen = Standardised(chosen)
    try:
        chosen.check(task)
    except FewRowsError as error:
        raise error.naming(_enough_epsilon(chosen, task)) from None
    return chosen, choice


def _enough_epsilon(method: Method, task: Task) -> float | None:
    """The ε from which the method accepts the task; None if there is none."""

    def accepted(epsilon: float) -> bool:
        return _allows(method, replace(task, budget=replace(task.budget, epsilon=epsilon)))

    return more_epsilon(task.budget.epsilon, accepted)
