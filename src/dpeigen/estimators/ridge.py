"""`PrivateRidge`: ridge regression with differential privacy, as a scikit-learn regressor.

Guarantee: that of one released covariance of the joint rows (features, target). The coefficients, the intercept, the
choice of α and the error bound are computed from that release, so they cost nothing (Amin et al. 2019, section 1.1).

With public column bounds all columns are first multiplied by public numbers, so that their units do not matter. Every
feature gets a half-width of 1: predictions have no unit, so no column may get more noise for being measured in grams.
How long the target and the constant (which gives the means) are beside them depends on how much noise there is
(`methods.joint_lengths`). Methods that do not weigh columns get the target at the length for little noise.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from dpeigen._arithmetic import own_error_state
from dpeigen._types import Floats
from dpeigen._validate import complain
from dpeigen.estimators.base import PrivateEstimator
from dpeigen.estimators.data_units import in_data_units
from dpeigen.estimators.possible import within_limits
from dpeigen.estimators.rehearsal import FitPlan
from dpeigen.estimators.targets import column_factors, joint_box, refuse_category, refuse_level, target_numbers
from dpeigen.methods import METHODS, Method, Task, check_bound, check_center
from dpeigen.methods.base import Box
from dpeigen.methods.framing import frame_rows
from dpeigen.privacy.ledger import Ledger
from dpeigen.release import Release
from dpeigen.ridge import FAINT
from dpeigen.sources import Source
from dpeigen.sources.joined import joined
from dpeigen.sources.sparse import by_blocks
from dpeigen.stats.ridge import check_alphas

__all__ = ["PrivateRidge"]


class PrivateRidge(RegressorMixin, PrivateEstimator):
    """Linear least squares with an l2 penalty, under differential privacy.

    One covariance of the rows (features, target) is released; everything else is computed from it at no cost. For other
    targets, subsets of features or penalties use ``release_.ridge``, which costs nothing more.

    Parameters
    ----------
    alpha : float ≥ 0 or "auto", default="auto"
        The penalty, as in scikit-learn: ‖y − Xw‖² + α‖w‖². "auto" chooses it from the release, at no cost, and
        accounts for the noise; with privacy a good α is usually far larger than without.
    epsilon : float
        Privacy loss ε > 0. There is no default.
    delta : float, default=0.0
        δ in [0, 1); 0 asks for pure ε-privacy.
    method : str or Method, default="auto"
        As for `PrivatePCA`: "auto", "whitened", "gaussian", "laplace", "matrix-laplace", … or an instance.
    bound : float, (lower, upper), "private" or None, default=None
        As for `PrivatePCA`. A radius bounds the joint row (x, y). Column bounds are those of X and need
        ``target_bounds``. With a radius or "private", units do not matter to "whitened", which "auto" takes if there
        are enough rows. Other methods have the same noise on every entry, which hides a target much shorter than the
        rest of the row.
    target_bounds : (lower, upper), default=None
        Public bounds of y; only with column bounds in ``bound``.
    center : None, array, "private" or "pairs", default="private"
        As for `PrivatePCA`; an array is a public centre of the joint row, the target's last. None fits through 0, an
        array through that point. "pairs" gives coefficients without an intercept, so it cannot predict.
    relation : {"replace", "add_remove"}, default="replace"
        What neighbouring data sets are. Under "replace" the number of rows is public.
    ledger : path, postgresql:// URL or Ledger, default=None
        Where the budget of the data set is kept.
    random_state : int, Generator or None, default=None
        For tests and papers only: a seeded release is not private, and says so.
    scale : None, array or "private", default=None
        None: the penalty is on coefficients in the data's own units. "private": features are divided by their released
        standard deviations before the penalty, as after a StandardScaler, so α does not depend on units. An array:
        public standard deviations of the joint row, the target's last. Coefficients are always in the data's own units.
    robust : bool, default=False
        Use directions of signs of rows, on which outliers have little influence, as for `PrivatePCA`.
    units : None or "same", default=None
        "same": all columns are measured in the same unit, such as pixels; a public statement.
    unit : str or None, default=None
        The name of the column of ids, such as "patient_id"; None: the guarantee is for one row.
    max_rows : int or None, default=None
        How many rows of a unit are used, as for `PrivatePCA`; None: all, with total weight 1.
    missing : {"refuse", "correct", "drop"}, default="refuse"
        What to do with missing or unreadable cells, as for `PrivatePCA`. A row is a row of X and its entry of y
        together; either may be missing.
    columns : dict, "schema" or None, default=None
        What is declared about the columns, as for `PrivatePCA`.
    on_bad_row : str, default=None
        Deprecated: use ``missing``.

    Attributes
    ----------
    coef_ : (p,) coefficients.
    intercept_ : float; None with center="pairs".
    alpha_ : the penalty used. With "auto" and column bounds it is α·Σ(s·w)², s = ``release_.facts["ridge"]["scales"]``:
        the widths of the columns' bounds, relative to their geometric mean.
    coef_error_bound_ : with probability 95% over the noise, the coefficients are at most this far (in ℓ2) from those
        without noise, at the same α; None if the method does not state the error of its covariance.
    n_features_in_, feature_names_in_ : public facts.
    guarantee_, release_ : the guarantee, and everything that was taken from the data.

    Examples
    --------
    >>> import numpy as np
    >>> from dpeigen import PrivateRidge
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(50_000, 2))
    >>> y = X @ [0.5, -0.3]
    >>> model = PrivateRidge("auto", epsilon=1.0, bound=(-1, 1), target_bounds=(-1, 1)).fit(X, y)
    >>> np.round(model.coef_, 1)
    array([ 0.5, -0.3])
    >>> model.release_.ridge("x0", features=["x1", "y"]).feature_names  # another question, at no cost
    ('x1', 'y')
    """

    def __init__(
        self,
        alpha: float | str = "auto",
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
        scale: Any = None,
        robust: bool = False,
        units: str | None = None,
        unit: str | None = None,
        max_rows: int | None = None,
        missing: str = "refuse",
        columns: Any = None,
        on_bad_row: str | None = None,
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
        self.scale = scale
        self.robust = robust
        self.units = units
        self.unit = unit
        self.max_rows = max_rows
        self.missing = missing
        self.columns = columns
        self.on_bad_row = on_bad_row

    @own_error_state
    def fit(self, X: Any, y: Any, *, unit: Any = None) -> PrivateRidge:
        """Release the covariance of (X, y), and compute the regression from it.

        Parameters
        ----------
        X : array, data frame, Arrow table, or path of a Parquet, Feather or CSV file
            n rows and p features; with the target among its columns where ``y`` is a name.
        y : (n,) array or str
            The target: one number for each row, or the name of the column of X that is the target.
        unit : array of n ids, str or None, default=None
            The id of each row's unit: ids in the order of the rows, or the name of a column of X. None: the ``unit``
            parameter.

        Returns
        -------
        PrivateRidge
            The fitted estimator itself.

        Raises
        ------
        ValueError
            A parameter is out of range, or rows cannot be used. Nothing was spent.
        BudgetExceededError
            The ledger has no room for the cost. Nothing was spent.
        PaidError
            Something failed after noise was drawn. Its ``release`` is what was paid for, if it was finished.
        """
        self._ledger()
        source, names, factors = self._joint_source(X, y, unit)
        task = replace(self._task(source, None, shrink=True), regression=True)
        self._release(source, task, "ridge", partial(self._publish, task, names, factors))
        return self

    def _publish(self, task: Task, names: list[str], factors: Floats, release: Release, method: Method) -> Release:
        """Regress, and put everything on the estimator."""
        if isinstance(task.bound, tuple):
            units = frame_rows(task)[0].unit if method.weighs_columns else release.noise_units
            release = in_data_units(release, factors, units)
            release = within_limits(release) if method.whole else release
        fitted = release.ridge(len(names) - 1, self.alpha, features=range(len(names) - 1))
        asked = {"target": fitted.target, "alpha": fitted.alpha, "scales": fitted.scales.tolist()}
        release = replace(release, facts={**release.facts, "ridge": asked})  # type: ignore[arg-type]
        self.coef_ = fitted.coef.copy()
        self.intercept_ = fitted.intercept
        self.alpha_ = fitted.alpha
        self.coef_error_bound_ = fitted.error_bound
        self.guarantee_ = release.guarantee
        self.release_ = release
        return release

    def coef_intervals(self, level: float = 0.95, *, of: str = "population") -> tuple[Floats, Floats]:
        """Compute intervals for the coefficients at the same penalty. They cost nothing.

        They are about the fit to what was measured (`Release.regression`), which the coefficients shrink, and reach to
        the coefficients where these lie outside.

        Parameters
        ----------
        level : float, default=0.95
            The probability that an interval covers.
        of : {"population", "table"}, default="population"
            "population": the truth of the population that the rows were drawn from. "table": that of these rows.

        Returns
        -------
        tuple of two (p,) arrays
            Lower and upper ends; infinite where nothing is known of a coefficient.
        """
        self._check_fitted()
        asked = self.release_.facts["ridge"]
        target, penalty = self.release_.n_features - 1, asked["alpha"] or FAINT
        fit = self.release_.regression(
            target, features=range(target), alpha=penalty, scales=asked["scales"], level=level, of=of
        )
        return fit.holding(self.coef_).intervals

    def explain(self, X: Any, y: Any, *, unit: Any = None, count: bool = True) -> FitPlan:
        """Say what `fit` would do with X and y, as `PrivatePCA.explain`. Spends nothing.

        Parameters
        ----------
        X : table
            As for `fit`.
        y : labels or target
            As for `fit`.
        unit : ids, name or None
            As for `fit`.
        count : bool, default=True
            Whether to count the rows of a source that does not know their number.

        Returns
        -------
        FitPlan
            The plan; printing it shows the guarantee and what would be measured.
        """
        source = copy(self)._joint_source(X, y, unit)[0]
        task = self._task(source, None, shrink=True, count=count or source.n_rows is not None)
        return self._plan(source, replace(task, regression=True))

    def _joint_source(self, X: Any, y: Any, unit: Any = None) -> tuple[Source, list[str], Floats]:
        """Rows (features, target), the names of their columns, and what these were multiplied by."""
        owner = type(self).__name__
        check_alphas(self.alpha, owner, many=False)
        rows, target, names = self._split(X, y, unit)
        factors = self._joint_facts(len(names), owner)[2]
        return joined(rows, target, names, factors), names, factors

    @own_error_state
    def predict(self, X: Any) -> Floats:
        """Predict the target of rows.

        This is not private by itself: predictions for private rows are private data. With ``missing="correct"`` a
        missing cell is put at the released centre of its column.

        Without public bounds, rows were clipped to a radius that was paid for. A feature further out than any clipped
        row could lie is clipped too: the fit says nothing about such numbers.

        Parameters
        ----------
        X : array or table with n rows and p columns
            Rows of features in the data's own units.

        Returns
        -------
        (n,) array
            Predictions in the target's unit.
        """
        self._check_fitted()
        if self.intercept_ is None:
            must = "other than 'pairs' for predictions: differences of rows have no intercept"
            raise ValueError(complain("center", type(self).__name__, must, self.center))
        return by_blocks(X, self._predictions)

    def _predictions(self, X: Any) -> Floats:
        mean = self.release_.mean
        rows = self._filled(X, [np.float64, np.float32], None if mean is None else mean[: self.n_features_in_])
        reach = self._reach()
        return (rows if reach is None else np.clip(rows, *reach)) @ self.coef_ + self.intercept_

    def _reach(self) -> tuple[Floats, Floats] | None:
        """Between which numbers the features of clipped rows lay; None where no row was clipped to a paid radius."""
        measured, mean = self.release_.measured, self.release_.mean
        if measured is None or mean is None or measured.outside is None:
            return None
        lengths, center = np.linalg.norm(measured.back, axis=1)[: self.n_features_in_], mean[: self.n_features_in_]
        far = np.where(lengths > 0, measured.radius * lengths, np.inf)  # nothing is known of the others
        return center - far, center + far

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # of the few rows that scikit-learn's checks have
        return tags

    def _split(self, X: Any, y: Any, unit: Any) -> tuple[Source, Floats | int, list[str]]:
        """Rows, the target (numbers, or the index of its column in the rows), and the names of the joint columns."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        name = y if isinstance(y, str) else getattr(y, "name", None)
        in_memory = type(X).__module__.split(".")[0] in ("pandas", "polars") and not hasattr(X, "collect")
        if isinstance(y, str) and self.columns is None and in_memory and y in (columns := list(X.columns)):
            X, y = X[[column for column in columns if column != y]], X[y]
        rows = self._open(X, unit)
        names = list(rows.feature_names or [f"x{j}" for j in range(rows.n_features)])
        if not isinstance(y, str):
            name = name if isinstance(name, str) and name else "y"
            while name in names:
                name += "_"
            return rows, target_numbers(y), [*names, name]
        refuse_category(y, rows.schema)
        if rows.feature_names is None or names.count(y) != 1 or len(names) < 2:
            remedy = f"Its columns are {rows.feature_names}." if rows.feature_names else "X has no names."
            if rows.feature_names and self.columns is not None:
                remedy += " Only declared columns are used: declare the target too."
            raise ValueError(f"y must be numbers, or the name of one of the columns of X. Got {y!r}. {remedy}")
        refuse_level(y, rows.schema)
        index = names.index(y)
        names.pop(index)
        self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, dtype=object)
        return rows, index, [*names, y]

    def _bound_and_center(self, d: int, owner: str) -> tuple[float | Box | str | None, Floats | str | None]:
        return self._joint_facts(d, owner)[:2]

    def _scale(self, d: int, owner: str) -> Floats | str | None:
        scale = super()._scale(d, owner)
        if isinstance(scale, np.ndarray):
            scale = scale * self._joint_facts(d, owner)[2]
        return scale

    def _column_units(self, d: int, owner: str) -> Floats:
        return self._joint_facts(d, owner)[2]

    def _weighs_columns(self) -> bool:
        """Whether the method, if there is one of this name, weighs columns by their bounds ("auto" does)."""
        if isinstance(self.method, str):
            return self.method == "auto" or METHODS.get(self.method, Method).weighs_columns
        return isinstance(self.method, Method) and self.method.weighs_columns

    def _joint_facts(self, d: int, owner: str) -> tuple[float | Box | str | None, Floats | str | None, Floats]:
        """Bound and centre of the joint rows with columns multiplied by public factors, and those factors."""
        center = check_center(self.center, d, owner)
        if not isinstance(self.bound, (tuple, list)):
            if self.target_bounds is not None:
                must = "None unless the 'bound' parameter is (lower, upper)"
                raise ValueError(complain("target_bounds", owner, must, self.target_bounds))
            return check_bound(self.bound, d, owner), center, np.ones(d)
        joint = joint_box(self.bound, self.target_bounds, d, owner)
        lower, upper = joint
        origin = center if isinstance(center, np.ndarray) else np.zeros(d) if center is None else (lower + upper) / 2
        half = np.maximum(np.abs(lower - origin), np.abs(upper - origin))
        factors = column_factors(half[:-1], float(half[-1]), weighted=self._weighs_columns())
        if isinstance(center, np.ndarray):
            center = center * factors
        return check_bound((lower * factors, upper * factors), d, owner), center, factors
