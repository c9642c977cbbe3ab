"""`PrivatePCA`: principal components released with differential privacy, as a scikit-learn transformer."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from dpeigen._arithmetic import own_error_state
from dpeigen._types import Floats
from dpeigen._validate import check_count, complain
from dpeigen.estimators.base import PrivateEstimator
from dpeigen.estimators.rehearsal import FitPlan
from dpeigen.estimators.stream import StreamMixin
from dpeigen.methods import Method, Task
from dpeigen.privacy.ledger import Ledger
from dpeigen.release import Release
from dpeigen.sources import Source
from dpeigen.sources.sparse import by_blocks

__all__ = ["PrivatePCA"]


class PrivatePCA(StreamMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):
    """Principal component analysis under differential privacy.

    It estimates the principal components of the covariance matrix, or with ``scale="private"`` those of the correlation
    matrix. ``robust=True`` asks for directions of signs instead, which are the same for elliptical rows but differ for
    skewed ones. ``release_.estimand`` says which were estimated.

    Parameters
    ----------
    n_components : int or "private"
        Number of components k, at most the number of columns; "private" estimates it from noisy eigenvalues, with part
        of the budget if necessary.
    epsilon : float
        Privacy loss ε > 0. There is no default.
    delta : float, default=0.0
        δ in [0, 1); 0 asks for pure ε-privacy.
    method : str or Method, default="auto"
        "auto", "whitened", "gaussian", "laplace", "matrix-laplace", "spatial-sign", "refined", "kendall", … ("dp-pca"
        and "oja" for rows that are seen only once, see `partial_fit`), or an instance from `dpeigen.methods`.
        "auto" chooses a mechanism for what you ask for, from public facts only. If rows × ε is too small for the
        components of the covariance, it uses directions of signs instead, and ``release_.choice`` says so. Naming
        "spatial-sign", "refined" or "kendall" asks for directions of signs.
    bound : float, (lower, upper), "private" or None, default=None
        A public bound on the length of a row, that is, on its distance from the public centre, or from 0 if there is
        none; public bounds of the columns; "private" to estimate a radius from the budget; None if the method needs no
        bound. Rows outside are clipped.
    center : None, array, "private" or "pairs", default="private"
        None or 0 if the data are centred already; a public centre; "private" to estimate one from the budget; "pairs"
        to use differences of random disjoint pairs of rows, which need no centre (then ``mean_`` is None).
    relation : {"replace", "add_remove"}, default="replace"
        The neighbouring relation. Under "replace" the number of rows is public.
    ledger : path, postgresql:// URL or Ledger, default=None
        The ledger that keeps the budget of the data set.
    random_state : int, Generator or None, default=None
        For tests and papers only: a seeded release is not private, and is marked as such.
    scale : None, array or "private", default=None
        What columns are divided by. None: nothing, so columns with large numbers dominate the components. "private":
        their released standard deviations, at no cost beyond that of the covariance. An array: public standard
        deviations, one for each column. The results are those of the divided columns, but ``mean_``, `transform` and
        `inverse_transform` are in the data's own units.
    robust : bool, default=False
        Use directions of signs of rows (spatial signs, or Kendall's tau), on which outliers have little influence. If
        there are enough rows for a private median length, rows far beyond it get almost no weight, so that distant
        clusters of outliers are ignored.
    units : None or "same", default=None
        "same" is a public statement: all columns are measured in the same unit, such as pixels. One private scale is
        then estimated for all of them. None: every column gets its own scale.
    unit : str or None, default=None
        The name of the column of ids, such as "patient_id"; it is not used as a feature. Neighbouring tables then
        differ in all rows of one id, however many there are. Or give ids, one for each row: ``fit(X, unit=ids)``. None:
        the guarantee is for one row. Under "replace" the number of units is public, and the number of rows is not.
    max_rows : int or None, default=None
        None: every unit has weight 1, divided among its rows. m: each row has the same weight, and at most m rows of a
        unit, drawn at random, are used. They are clipped together. If most units have fewer rows, noise would be much
        larger than with one row each: a unit then counts as fewer than m rows. That number is estimated from the budget
        (``release_.facts["rows_that_count"]``), and grows to m with ε and the number of units.
    missing : {"refuse", "correct", "drop"}, default="refuse"
        What to do with cells that are NaN, infinite, or not what their column is declared to be. "refuse": stop before
        anything is spent. "correct": treat them as missing, use the other cells of the row, and correct the results for
        the fractions of missing cells, which are estimated from the budget and released. It is valid if missingness
        does not depend on any value. For "auto", "whitened", "gaussian", "laplace" and "matrix-laplace".
        "drop": replace a row that has such a cell by the centre of the frame.
    columns : dict, "schema" or None, default=None
        The columns of X to use, and the declaration of each: categories, ordinal scales, dates, limits, transforms,
        units of measure (`dpeigen.sources.open_source`). "schema": all columns by their own types; you then state that
        these types, and the lists of categories in them, are public. With ``scale="private"`` indicators of categories
        are divided by the square root of their released frequency (factor analysis of mixed data), so that the weight
        of a variable does not depend on its number of categories. None: all columns, as numbers.
    on_bad_row : str, default=None
        Deprecated: use ``missing``; "drop-to-zero" means ``missing="drop"``.

    Attributes
    ----------
    components_ : (k, d) orthonormal rows.
    explained_variance_, explained_variance_ratio_ : (k,) private variances, decreasing.
    mean_ : (d,) the private or public centre, or None.
    scale_ : (d,) the divisors of the columns, public or private standard deviations, or None for the data's own units.
    noise_variance_ : mean variance of the directions left out.
    n_components_, n_features_in_, feature_names_in_ : public facts.
    n_samples_seen_ : the number of rows in finished batches of ``partial_fit``.
    guarantee_ : `Guarantee`.
    release_ : `Release`, the only thing that the fit took from the data.

    Examples
    --------
    >>> import numpy as np
    >>> from dpeigen import PrivatePCA
    >>> X = np.random.default_rng(0).normal(size=(5000, 4)) * [3, 1, 1, 1]
    >>> pca = PrivatePCA(1, epsilon=1.0, delta=1e-6, bound=8.0).fit(X)
    >>> bool(abs(pca.components_[0, 0]) > 0.9)
    True
    """

    def __init__(
        self,
        n_components: int | str,
        *,
        epsilon: float,
        delta: float = 0.0,
        method: str | Method = "auto",
        bound: Any = None,
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
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.bound = bound
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
    def fit(self, X: Any, y: Any = None, *, unit: Any = None) -> PrivatePCA:  # noqa: ARG002
        """Release the principal components of a table.

        The parameters are checked and the cost is reserved in the ledger before anything is measured.

        Parameters
        ----------
        X : array, data frame, Arrow table, path of a file, Dask or Spark table, or source
            n rows and d columns: anything that `dpeigen.sources.open_source` accepts, or a source that it made.
        y : None
            Not used; it exists for scikit-learn's pipelines.
        unit : array of n ids, str or None, default=None
            The id of each row's unit: ids in the order of the rows, or the name of a column of X. None: the ``unit``
            parameter.

        Returns
        -------
        PrivatePCA
            The fitted estimator itself.

        Raises
        ------
        ValueError
            A parameter is out of range, or rows cannot be used (`BadRowsError`). Nothing was spent.
        BudgetExceededError
            The ledger has no room for the cost. Nothing was spent.
        PaidError
            Something failed after noise was drawn. Its ``release`` is what was paid for, if it was finished.
        """
        self._ledger()
        self._check_components()
        source = self._open(X, unit)
        task = self._pca_task(source)
        self._end_stream()
        self._release(source, task, "pca", lambda release, _: self._publish(release).release_)
        return self

    def _check_components(self, high: int | None = None) -> int | None:
        """The number of components, at most ``high``; None if it is private."""
        if isinstance(self.n_components, str) and self.n_components == "private":
            return None
        owner = type(self).__name__
        if (remedy := _instead(self.n_components)) is not None:
            must = "an integer ≥ 1 or 'private'"
            raise TypeError(complain("n_components", owner, must, self.n_components, remedy))
        if high == 1 and check_count("n_components", self.n_components, owner) > 1:
            raise ValueError(complain("n_components", owner, "1, because there is one column", self.n_components))
        return check_count("n_components", self.n_components, owner, high=high)

    def _pca_task(self, source: Source, *, count: bool = True) -> Task:
        k = self._check_components(source.n_features)
        return replace(self._task(source, k or 1, shrink=True, count=count), private_rank=k is None)

    def _publish(self, release: Release) -> PrivatePCA:
        k = len(release.components)
        total = float(np.trace(release.covariance))
        self.components_ = release.components.copy()
        self.explained_variance_ = release.eigenvalues.copy()
        self.explained_variance_ratio_ = release.eigenvalues / total if total > 0 else np.zeros(k)
        self.mean_ = None if release.mean is None else release.mean.copy()
        self.scale_ = None if release.scale is None else release.scale.copy()
        self.noise_variance_ = release.noise_variance
        self.n_components_ = k
        self.guarantee_ = release.guarantee
        self.release_ = release
        return self

    def explain(self, X: Any, *, unit: Any = None, count: bool = True) -> FitPlan:
        """Say what `fit` would do with X: the method, what it would measure, and how often it would read X.

        Spends nothing and reads no value.

        Parameters
        ----------
        X : table
            As for `fit`.
        unit : ids, name or None
            As for `fit`.
        count : bool, default=True
            Under relation="replace" a source that does not know the number of its rows is read once to count them, as
            `fit` would do. False: it is not, and method="auto" chooses without knowing the number.

        Returns
        -------
        FitPlan
            The plan; printing it shows the guarantee and what would be measured.
        """
        self._check_components()
        source = copy(self)._open(X, unit)
        return self._plan(source, self._pca_task(source, count=count or source.n_rows is not None))

    @own_error_state
    def transform(self, X: Any) -> Floats:
        """Compute the scores of rows along the components.

        This is not private by itself: scores of private rows are private data. With ``missing="correct"`` a missing
        cell is replaced by the released centre of its column, ``mean_``.

        Parameters
        ----------
        X : array or table with n rows and d columns
            Rows in the data's own units, with the columns that were fitted.

        Returns
        -------
        (n, k) array
            Scores, in the data's units, or in standard deviations if there is a ``scale_``.
        """
        self._check_fitted()
        return by_blocks(X, self._scores)

    def _scores(self, X: Any) -> Floats:
        rows = self._filled(X, [np.float64, np.float32], self.mean_)
        centered = rows if self.mean_ is None else rows - self.mean_.astype(rows.dtype)
        centered = centered if self.scale_ is None else centered / self.scale_.astype(rows.dtype)
        return centered @ self.components_.T.astype(rows.dtype)

    @own_error_state
    def inverse_transform(self, X: ArrayLike) -> Floats:
        """Compute rows from scores.

        Parameters
        ----------
        X : (n, k) array
            Scores, as returned by `transform`.

        Returns
        -------
        (n, d) array
            Rows in the data's own units, on the plane of the components.
        """
        self._check_fitted()
        rows = np.asarray(X) @ self.components_
        rows = rows if self.scale_ is None else rows * self.scale_
        return rows if self.mean_ is None else rows + self.mean_

    def get_covariance(self) -> Floats:
        """Compute the covariance of the probabilistic PCA model, Vᵀ(Λ − σ²)V + σ²I, from the released numbers.

        Returns
        -------
        (d, d) array
            The model's covariance; if there is a ``scale_``, that of the divided columns.
        """
        self._check_fitted()
        spikes = (self.components_.T * (self.explained_variance_ - self.noise_variance_)) @ self.components_
        return spikes + self.noise_variance_ * np.eye(self.n_features_in_)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_


def _instead(n_components: Any) -> str | None:
    """What to use instead of values that scikit-learn's PCA accepts; None for other values."""
    if n_components is None:
        return "For all components give the number of columns."
    share = isinstance(n_components, float) and 0 < n_components < 1
    if not share and n_components != "mle":
        return None
    private = "'private' estimates, from the budget, how many components stand out of the noise."
    if not share:
        return f"The number cannot be taken from the table without spending budget: {private}"
    return (
        "The number of components that reach a share of the variance is a fact about the table, so it costs budget. "
        f"{private} Or give a number; `release_.intervals().shares` has the shares of variance with their errors."
    )
