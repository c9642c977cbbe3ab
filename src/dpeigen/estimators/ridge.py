"""`PrivateRidge`: ridge regression with differential privacy, as a scikit-learn regressor.

Guarantee: that of one released covariance of the joint rows (features, target). The coefficients, the intercept, the
choice of α and the error bound are computed from that release, so they cost nothing (Amin et al. 2019, section 1.1).

With public column bounds the target is first multiplied by a public power of two. Let the features' part of a row be
at most r long and the target's h. Noise grows as r² + h², and relative to the target it moves coefficients w by
an amount proportional to √(1/h² + c²/r²), where c = ‖w‖·r/h is 1 if one direction explains the target and about √p if
p features do together. With t = h/r, (1 + t²)·√(1/t² + c²) is least at t² = (√(1 + 8c²) − 1)/(4c²); c = √p is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d

from dpeigen._arithmetic import own_error_state
from dpeigen._types import Floats
from dpeigen._validate import check_vector, complain
from dpeigen.estimators.base import PrivateEstimator
from dpeigen.estimators.rehearsal import Plan
from dpeigen.methods import METHODS, Method, Task, check_bound, check_center
from dpeigen.methods.base import Box
from dpeigen.methods.framing import frame_rows
from dpeigen.methods.moment.base import MomentMethod
from dpeigen.privacy.ledger import Ledger
from dpeigen.release import Release, check_alphas
from dpeigen.sources import Source
from dpeigen.sources.mapped import MappedSource
from dpeigen.sources.objects import numbers_of
from dpeigen.stats import BadRowsError
from dpeigen.stats.frame import LARGEST_FACT, LARGEST_FLOAT
from dpeigen.stats.spectrum import symmetric_eigh


class PrivateRidge(RegressorMixin, PrivateEstimator):
    """Linear least squares with an l2 penalty, under differential privacy.

    One covariance of the rows (features, target) is released; everything else is computed from it for free. For other
    targets, subsets of features or penalties use ``release_.ridge``: it costs nothing more.

    Parameters
    ----------
    alpha : float ≥ 0 or "auto", default=1.0
        The penalty, as in scikit-learn: ‖y − Xw‖² + α‖w‖². "auto" chooses it from the release, for free, knowing the
        noise; with privacy a good α is mostly far larger than without.
    epsilon, delta, method, relation, ledger, random_state, on_bad_row
        As for `PrivatePCA`. A row is a row of X and its entry of y together.
    bound : float, (lower, upper), "private" or None, default=None
        As for `PrivatePCA`. A radius bounds the joint row (x, y). Column bounds are those of X and need
        ``target_bounds``. With a radius or "private" the scale of y is yours: the noise has the same size on every
        entry, so a target much shorter than the rest of the row drowns.
    target_bounds : (lower, upper), default=None
        Public bounds of y, with column bounds in ``bound`` only.
    center : None, array, "private" or "pairs", default="private"
        As for `PrivatePCA`; an array is a public centre of the joint row, the target's last. None fits through 0, an
        array through that point. "pairs" gives coefficients without an intercept, so it cannot predict.

    Attributes
    ----------
    coef_ : (p,) coefficients.
    intercept_ : float; None with center="pairs".
    alpha_ : the penalty used.
    coef_error_bound_ : with probability 95% over the noise, the coefficients are at most this far (in ℓ2) from those
        without noise, at the same α; None where the method does not state the error of its covariance.
    n_features_in_, feature_names_in_ : public facts.
    guarantee_, release_ : what was promised, and everything that was read out of the data.

    Examples
    --------
    >>> import numpy as np
    >>> from dpeigen import PrivateRidge
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(50_000, 2))
    >>> y = X @ [0.5, -0.3]
    >>> model = PrivateRidge("auto", epsilon=1.0, bound=(-1, 1), target_bounds=(-1, 1)).fit(X, y)
    >>> np.round(model.coef_, 1)
    array([ 0.5, -0.3])
    >>> model.release_.ridge("x0", features=["x1", "y"]).feature_names  # another question, for free
    ('x1', 'y')
    """

    def __init__(
        self,
        alpha: float | str = 1.0,
        *,
        epsilon: float,
        delta: float = 0.0,
        method: str | Method = "auto",
        bound: Any = None,
        target_bounds: Any = None,
        center: Any = "private",
        relation: str = "replace",
        ledger: str | Ledger | None = None,
        random_state: Any = None,
        on_bad_row: str = "refuse",
    ) -> None:
        self.alpha = alpha
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.bound = bound
        self.target_bounds = target_bounds
        self.center = center
        self.relation = relation
        self.ledger = ledger
        self.random_state = random_state
        self.on_bad_row = on_bad_row

    @own_error_state
    def fit(self, X: Any, y: Any) -> PrivateRidge:
        """Release the covariance of (X, y) and regress.

        X : array, data frame, Arrow table, or path of a Parquet, Feather or CSV file. y : one number a row, or the name
        of the column of X that is the target.
        """
        self._ledger()
        source, names, scale = self._joint_source(X, y)
        task = self._task(source, None, shrink=True)
        self._release(source, task, "ridge", partial(self._publish, task, names, scale))
        return self

    def _publish(self, task: Task, names: list[str], scale: float, release: Release, method: Method) -> Release:
        """Regress, and put everything on the estimator."""
        if isinstance(task.bound, tuple):
            weighted = isinstance(method, MomentMethod)
            units = frame_rows(task)[0].unit if weighted else np.ones(len(names))
            release = _in_data_units(release, scale, units)
        fitted = release.ridge(len(names) - 1, self.alpha)
        asked = {"target": fitted.target, "alpha": fitted.alpha}
        release = replace(release, facts={**release.facts, "ridge": asked})  # type: ignore[arg-type]
        self.coef_ = fitted.coef.copy()
        self.intercept_ = fitted.intercept
        self.alpha_ = fitted.alpha
        self.coef_error_bound_ = fitted.error_bound
        self.guarantee_ = release.guarantee
        self.release_ = release
        return release

    def explain(self, X: Any, y: Any, *, count: bool = True) -> Plan:
        """What `fit` would do with X and y, as `PrivatePCA.explain`."""
        source = copy(self)._joint_source(X, y)[0]
        return self._plan(source, self._task(source, None, shrink=True, count=count or source.n_rows is not None))

    def _joint_source(self, X: Any, y: Any) -> tuple[Source, list[str], float]:
        """Rows (features, target), the names of their columns, and what the target was multiplied by."""
        owner = type(self).__name__
        check_alphas(self.alpha, owner, many=False)
        rows, target, names = self._split(X, y)
        scale = self._joint_facts(len(names), owner)[2]
        return _joined(rows, target, names, scale), names, scale

    @own_error_state
    def predict(self, X: Any) -> Floats:
        """Predictions for rows. Not private by itself: predictions for private rows are private data."""
        self._check_fitted()
        rows = self._table(X, dtype=[np.float64, np.float32], reset=False)
        if self.intercept_ is None:
            must = "other than 'pairs' for predictions: differences of rows have no intercept"
            raise ValueError(complain("center", type(self).__name__, must, self.center))
        return rows @ self.coef_ + self.intercept_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # of the few rows that scikit-learn's checks have
        return tags

    def _split(self, X: Any, y: Any) -> tuple[Source, Floats | int, list[str]]:
        """Rows, the target (numbers, or the index of its column in the rows), and the names of the joint columns."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        name = y if isinstance(y, str) else getattr(y, "name", None)
        in_memory = type(X).__module__.split(".")[0] in ("pandas", "polars") and not hasattr(X, "collect")
        if isinstance(y, str) and in_memory and y in (columns := list(X.columns)):
            X, y = X[[column for column in columns if column != y]], X[y]
        rows = self._open(X)
        names = list(rows.feature_names or [f"x{j}" for j in range(rows.n_features)])
        if not isinstance(y, str):
            name = name if isinstance(name, str) and name else "y"
            while name in names:
                name += "_"
            return rows, _numbers(y), [*names, name]
        if rows.feature_names is None or names.count(y) != 1 or len(names) < 2:
            remedy = f"Its columns are {rows.feature_names}." if rows.feature_names else "X has no names."
            raise ValueError(f"y must be numbers, or the name of one of the columns of X. Got {y!r}. {remedy}")
        index = names.index(y)
        names.pop(index)
        self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, dtype=object)
        return rows, index, [*names, y]

    def _bound_and_center(self, d: int, owner: str) -> tuple[float | Box | str | None, Floats | str | None]:
        return self._joint_facts(d, owner)[:2]

    def _weighs_columns(self) -> bool:
        """Whether the method, if there is one of this name, weighs columns by their bounds ("auto" does)."""
        if isinstance(self.method, str):
            return self.method == "auto" or issubclass(METHODS.get(self.method, Method), MomentMethod)
        return isinstance(self.method, MomentMethod)

    def _joint_facts(self, d: int, owner: str) -> tuple[float | Box | str | None, Floats | str | None, float]:
        """Bound and centre of the joint rows with the target multiplied by a public scale, and that scale."""
        center = check_center(self.center, d, owner)
        if not isinstance(self.bound, (tuple, list)):
            if self.target_bounds is not None:
                must = "None unless the 'bound' parameter is (lower, upper)"
                raise ValueError(complain("target_bounds", owner, must, self.target_bounds))
            return check_bound(self.bound, d, owner), center, 1.0
        joint = _joint_box(self.bound, self.target_bounds, d, owner)
        lower, upper = joint
        origin = center if isinstance(center, np.ndarray) else np.zeros(d) if center is None else (lower + upper) / 2
        half = np.maximum(np.abs(lower - origin), np.abs(upper - origin))
        scale = target_scale(half[:-1], float(half[-1]), weighted=self._weighs_columns())
        lower[-1], upper[-1] = lower[-1] * scale, upper[-1] * scale
        if isinstance(center, np.ndarray):
            center[-1] *= scale
        return check_bound((lower, upper), d, owner), center, scale


def target_scale(features: Floats, target: float, *, weighted: bool = True) -> float:
    """The power of two by which the target is multiplied, from half-widths of public bounds (see above).

    Where columns of half-width h are weighted, they enter the noisy sum with half-width √h (`methods.framing`): r² is
    the sum of the features' half-widths, and the target's h² its scaled half-width.
    """
    p = len(features)
    share = (math.sqrt(1 + 8 * p) - 1) / (4 * p)  # t² at c² = p
    wanted = share * float(features.sum()) if weighted else math.sqrt(share) * float(np.linalg.norm(features))
    exponent = math.log2(wanted) - math.log2(target)
    return float(2.0 ** round(min(max(exponent, -400.0), 400.0)))  # its square stays a finite number


def _joint_box(bound: Any, target_bounds: Any, d: int, owner: str) -> Box:
    box = check_bound(tuple(bound), d - 1, owner)
    must = "(lower, upper), public bounds of y, with column bounds in 'bound'"
    if not isinstance(target_bounds, (tuple, list)) or len(target_bounds) != 2:
        remedy = "A radius as 'bound' needs none: it bounds (x, y) together."
        raise ValueError(complain("target_bounds", owner, must, target_bounds, remedy))
    low, high = (check_vector("target_bounds", value, 1, owner) for value in target_bounds)
    if not low < high or max(*np.abs([low, high]), 1 / (high - low)) > LARGEST_FACT:
        must = f"(lower, upper) with lower < upper, of size and width between {1 / LARGEST_FACT:g} and {LARGEST_FACT:g}"
        raise ValueError(complain("target_bounds", owner, must, target_bounds))
    if not isinstance(box, tuple):
        raise AssertionError("a pair is checked as a box")
    return np.append(box[0], low), np.append(box[1], high)


def _numbers(y: Any) -> Floats:
    """y as one column of numbers, NaN where an entry is none; no error quotes an entry."""
    if isinstance(y, (list, tuple)):  # NumPy would take their type from the entries
        return numbers_of([_item(entry) for entry in y])
    try:
        column = column_or_1d(y, warn=True)
        shape = ""
    except (TypeError, ValueError) as error:
        shape = str(error)
    if shape:
        shape = shape if shape.startswith("y should be a 1d array") else "y must be one column of real numbers."
        raise ValueError(shape)
    if column.dtype == object:
        return numbers_of(column.tolist())
    if column.dtype.kind not in "fiub":
        raise ValueError("y must hold real numbers.")
    with np.errstate(over="ignore"):  # of a longer type than double: infinite, so a bad row
        return np.asarray(column, dtype=np.float64)


def _item(entry: Any) -> Any:
    """An entry of y; of a container that holds one, that one."""
    one = isinstance(entry, (list, tuple)) or (isinstance(entry, np.ndarray) and entry.ndim == 1)
    return entry[0] if one and len(entry) == 1 else entry


def _joined(rows: Source, target: Floats | int, names: list[str], scale: float) -> Source:
    """Rows with the target as the last column, multiplied by a public power of two."""
    if isinstance(target, int):
        return MappedSource(rows, partial(_target_last, target, scale), names)
    if not rows.fixed_order:
        raise ValueError("y must be the name of a column of X: the rows of X have no fixed order to match numbers to.")
    return _JoinedRows(rows, target, names, scale)


def _doubles(block: Any) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(block).astype(np.float64, copy=False)


def _scaled(column: Floats, scale: float) -> Floats:
    # A finite entry stays finite: that it overflows is no reason to call its row bad.
    with np.errstate(over="ignore"):
        scaled = np.clip(column * scale, -LARGEST_FLOAT, LARGEST_FLOAT)
    return np.where(np.isfinite(column), scaled, column)


def _target_last(target: int, scale: float, block: Any) -> Floats:
    rows = _doubles(block)
    return np.column_stack([np.delete(rows, target, axis=1), _scaled(rows[:, target], scale)])


class _JoinedRows(Source):
    """Rows with numbers given apart as the last column."""

    def __init__(self, rows: Source, target: Floats, names: list[str], scale: float) -> None:
        self._rows, self._target, self._scale = rows, target, scale
        self.n_features, self.feature_names, self.n_rows = len(names), names, rows.n_rows
        self.row_note = rows.row_note
        if self.n_rows is not None:
            self.count_rows()

    def count_rows(self) -> int:
        count = self._rows.count_rows()
        if count != len(self._target):
            raise BadRowsError(_LENGTHS)
        return count

    def blocks(self) -> Iterator[Floats]:
        return self._joined(self._rows.blocks())

    def in_memory(self) -> Floats | None:
        rows = self._rows.in_memory()
        return None if rows is None else next(self._joined([rows]))

    def _joined(self, blocks: Iterable[Any]) -> Iterator[Floats]:
        start = 0
        for block in blocks:
            rows = _doubles(block)
            column = self._target[start : start + len(rows)]
            start += len(rows)
            if len(column) < len(rows):
                raise BadRowsError(_LENGTHS)
            yield np.column_stack([rows, _scaled(column, self._scale)])
        if start != len(self._target):
            raise BadRowsError(_LENGTHS)


_LENGTHS = "X and y must have the same number of rows. Nothing was spent."


def _in_data_units(release: Release, scale: float, units: Floats) -> Release:
    """The release with the target in its own units again; states the units in which its noise is isotropic."""
    factors = np.ones(release.n_features)
    factors[-1] = scale
    covariance = release.covariance / np.outer(factors, factors)
    eigenvalues, components = symmetric_eigh(covariance)
    own, facts = units / factors, dict(release.facts)
    facts["units"] = own.tolist()
    for size in ("covariance_error", "noise_deviation"):
        if facts.get(size) is not None:
            facts[size] = facts[size] * float((own.max() / units.max()) ** 2)
    return replace(
        release,
        components=components,
        eigenvalues=np.maximum(eigenvalues, 0.0),
        covariance=covariance,
        mean=None if release.mean is None else release.mean / factors,
        facts=facts,  # type: ignore[arg-type]
    )
