"""`PrivateCovariance`: a covariance matrix released with differential privacy, after scikit-learn's conventions."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import pinvh
from sklearn.covariance import log_likelihood

from dpeigen._arithmetic import own_error_state
from dpeigen._types import Floats
from dpeigen._validate import check_choice, check_flag
from dpeigen.estimators.base import PrivateEstimator
from dpeigen.estimators.rehearsal import FitPlan
from dpeigen.methods import Method, Task
from dpeigen.privacy.ledger import Ledger
from dpeigen.release import Release
from dpeigen.sources import Source
from dpeigen.sources.sparse import by_blocks

__all__ = ["PrivateCovariance"]


class PrivateCovariance(PrivateEstimator):
    """Covariance estimation under differential privacy.

    With ``center=None`` the result is the second moment about 0, divided by the number of rows. With
    ``scale="private"`` it is the correlation matrix. If rows × ε is too small for a result, the fit is refused.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε > 0. There is no default.
    delta : float, default=0.0
        δ in [0, 1); 0 asks for pure ε-privacy.
    method : str or Method, default="auto"
        As for `PrivatePCA`: "auto", "whitened", "gaussian", "laplace", "matrix-laplace", … or an instance.
    bound : float, (lower, upper), "private" or None, default=None
        As for `PrivatePCA`: a public radius, public bounds of the columns, or "private" to estimate a radius.
    center : None, array, "private" or "pairs", default="private"
        As for `PrivatePCA`. None: second moments about 0.
    relation : {"replace", "add_remove"}, default="replace"
        The neighbouring relation. Under "replace" the number of rows is public.
    shrink : bool, default=True
        Remove the known inflation of the noisy eigenvalues; costs nothing. False: only project onto positive
        semi-definite matrices of feasible trace. It applies to the methods that add noise to a whole matrix
        ("gaussian", "laplace", "matrix-laplace"); the others have no such inflation.
    ledger : path, postgresql:// URL or Ledger, default=None
        The ledger that keeps the budget of the data set.
    random_state : int, Generator or None, default=None
        For tests and papers only: a seeded release is not private, and is marked as such.
    scale : None, array or "private", default=None
        What columns are divided by, as for `PrivatePCA`.
    robust : bool, default=False
        Use directions of signs of rows, on which outliers have little influence, as for `PrivatePCA`.
    units : None or "same", default=None
        "same": all columns are measured in the same unit, such as pixels; a public statement.
    unit : str or None, default=None
        The name of the column of ids, such as "patient_id"; None: the guarantee is for one row.
    max_rows : int or None, default=None
        How many rows of a unit are used, as for `PrivatePCA`; None: all, with total weight 1.
    missing : {"refuse", "correct", "drop"}, default="refuse"
        What to do with missing or unreadable cells, as for `PrivatePCA`.
    columns : dict, "schema" or None, default=None
        Declarations of the columns, as for `PrivatePCA`.
    on_bad_row : str, default=None
        Deprecated: use ``missing``.

    Attributes
    ----------
    covariance_ : (d, d) positive semi-definite.
    precision_ : (d, d) its pseudo-inverse.
    correlation_ : (d, d) the correlation matrix that follows from it.
    scale_ : (d,) the divisors of the columns, or None: with ``scale`` the two matrices are those of divided columns.
    location_ : (d,) the private or public centre, or None with center="pairs".
    n_features_in_, feature_names_in_ : public facts.
    guarantee_, release_ : the guarantee, and everything that was taken from the data.

    Examples
    --------
    >>> import numpy as np
    >>> from dpeigen import PrivateCovariance
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(20000, 3))
    >>> fitted = PrivateCovariance(epsilon=1.0, bound=(-1, 1)).fit(X)
    >>> np.round(np.diag(fitted.covariance_), 1)
    array([0.3, 0.3, 0.3])
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float = 0.0,
        method: str | Method = "auto",
        bound: Any = None,
        center: Any = "private",
        relation: str = "replace",
        shrink: bool = True,
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
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.bound = bound
        self.center = center
        self.relation = relation
        self.shrink = shrink
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
    def fit(self, X: Any, y: Any = None, *, unit: Any = None) -> PrivateCovariance:  # noqa: ARG002
        """Release the covariance matrix of a table.

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
        PrivateCovariance
            The fitted estimator itself.

        Raises
        ------
        ValueError
            A parameter is out of range, rows cannot be used, or rows × ε is too small for a result. Nothing was spent.
        BudgetExceededError
            The ledger has no room for the cost. Nothing was spent.
        PaidError
            Something failed after noise was drawn. Its ``release`` is what was paid for, if it was finished.
        """
        self._ledger()
        source = self._open(X, unit)
        self._release(source, self._covariance_task(source), "covariance", self._publish)
        return self

    def _publish(self, release: Release, _: Method) -> Release:
        self.covariance_ = release.covariance.copy()
        self.precision_ = pinvh(release.covariance, check_finite=False)
        self.correlation_ = release.correlation
        self.scale_ = None if release.scale is None else release.scale.copy()
        self.location_ = None if release.mean is None else release.mean.copy()
        self.guarantee_ = release.guarantee
        self.release_ = release
        return release

    def _covariance_task(self, source: Source, *, count: bool = True) -> Task:
        shrink = check_flag("shrink", self.shrink, type(self).__name__)
        return self._task(source, None, shrink=shrink, count=count)

    def explain(self, X: Any, *, unit: Any = None, count: bool = True) -> FitPlan:
        """Say what `fit` would do with X, as `PrivatePCA.explain`. Spends nothing.

        Parameters
        ----------
        X : table
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
        source = copy(self)._open(X, unit)
        return self._plan(source, self._covariance_task(source, count=count or source.n_rows is not None))

    def get_precision(self) -> Floats:
        """Return the precision matrix, the pseudo-inverse of ``covariance_``.

        Returns
        -------
        (d, d) array
            ``precision_``.
        """
        self._check_fitted()
        return self.precision_

    def error_norm(
        self, comp_cov: ArrayLike, norm: str = "frobenius", scaling: bool = True, squared: bool = True
    ) -> float:
        """Compute the distance to another covariance matrix, as in scikit-learn.

        Parameters
        ----------
        comp_cov : (d, d) array
            The matrix to compare with.
        norm : {"frobenius", "spectral"}, default="frobenius"
            Which norm of the difference.
        scaling : bool, default=True
            Divide the squared norm by the number of columns.
        squared : bool, default=True
            Return the squared norm.

        Returns
        -------
        float
            The distance; by default the mean squared error.
        """
        self._check_fitted()
        check_choice("norm", norm, ["frobenius", "spectral"], "error_norm")
        error = np.asarray(comp_cov, dtype=np.float64) - self.covariance_
        size = float(np.sum(error**2) if norm == "frobenius" else np.linalg.norm(error, 2) ** 2)
        size = size / len(error) if scaling else size
        return size if squared else float(np.sqrt(size))

    @own_error_state
    def mahalanobis(self, X: Any) -> Floats:
        """Compute squared Mahalanobis distances of rows from the released centre.

        This is not private by itself: distances of private rows are private data.

        Parameters
        ----------
        X : array or table with n rows and d columns
            Rows in the data's own units.

        Returns
        -------
        (n,) array
            Squared distances.
        """
        return by_blocks(X, self._distances)

    def _distances(self, X: Any) -> Floats:
        centered = self._centered(X)
        return np.einsum("ij,jk,ik->i", centered, self.precision_, centered, optimize=True)

    @own_error_state
    def score(self, X_test: Any, y: Any = None) -> float:  # noqa: ARG002
        """Compute the mean Gaussian log-likelihood of rows. For private rows the result is private data.

        Parameters
        ----------
        X_test : array or table with n rows and d columns
            Rows in the data's own units.
        y : None
            Not used; it exists for scikit-learn's pipelines.

        Returns
        -------
        float
            The average log-likelihood per row, in the data's own units.
        """
        centered = by_blocks(X_test, self._centered)
        units = 0.0 if self.scale_ is None else float(np.log(self.scale_).sum())
        return float(log_likelihood(centered.T @ centered / len(centered), self.precision_)) - units

    def _centered(self, X: Any) -> Floats:
        self._check_fitted()
        rows = self._filled(X, np.float64, self.location_)
        rows = rows if self.location_ is None else rows - self.location_
        return rows if self.scale_ is None else rows / self.scale_
