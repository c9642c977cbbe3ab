"""A release: the only thing that leaves. Frozen, complete, and safe to publish, copy and compute with.

Whatever is computed from a release costs nothing more: that is post-processing.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dpeigen import exchange, io
from dpeigen._types import Floats, freeze_arrays
from dpeigen._validate import check_count, complain
from dpeigen.columns import DeclaredColumns
from dpeigen.facts import check_about, check_description
from dpeigen.privacy import Guarantee, randomness
from dpeigen.stats.elliptical import breakdown_bound, subspace_error_bound
from dpeigen.stats.measured import Measured, MeasuredWhenAsked
from dpeigen.stats.ridge import RidgeFit

if TYPE_CHECKING:
    from dpeigen.intervals import Intervals
    from dpeigen.noise_floor import NoiseFloor
    from dpeigen.regression import Regression

__all__ = ["Release", "load_release"]

_MOST_COLUMNS = 100  # up to which intervals of loadings take seconds


@dataclass(frozen=True, eq=False)
class Release(DeclaredColumns):
    """Components, eigenvalues, covariance and centre with the guarantee they were released under.

    Attributes
    ----------
    kind : "pca", "covariance" or "ridge".
    components : (k, d) orthonormal rows by decreasing eigenvalue.
    eigenvalues : (k,) private variances along the components.
    covariance : (d, d) positive semi-definite.
    mean : (d,) private or public centre; None when no centre was paid for.
    noise_variance : mean variance of the directions left out.
    guarantee : what all of it cost, together.
    facts : public facts (method, rows where public, bound, feature names, version).
    scale : (d,) what columns were divided by, public or released deviations; None for the data's own units. Components,
        eigenvalues, covariance and noise_variance are those of the divided columns; ``mean`` is in the data's units.
    measured : the noisy moment that it was made of, for `intervals`; None where there is none. It may be given as a
        function of released numbers, which is called when it is asked for.
    """

    kind: str
    components: Floats
    eigenvalues: Floats
    covariance: Floats
    mean: Floats | None
    noise_variance: float
    guarantee: Guarantee
    facts: MappingProxyType[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    scale: Floats | None = None
    measured: MeasuredWhenAsked = MeasuredWhenAsked()  # noqa: RUF009

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", MappingProxyType(dict(self.facts)))
        freeze_arrays(self, ("components", "eigenvalues", "covariance", "mean", "scale"))
        self._check()

    def _check(self) -> None:
        d = self.covariance.shape[-1]
        every = [self.components, self.eigenvalues, self.covariance, self.mean, self.scale]
        arrays = [a for a in every if a is not None]
        shapes = (
            self.covariance.shape == (d, d)
            and self.components.ndim == 2
            and self.components.shape[1] == d
            and self.eigenvalues.shape == self.components.shape[:1]
            and (self.mean is None or self.mean.shape == (d,))
            and (self.scale is None or (self.scale.shape == (d,) and bool((self.scale > 0).all())))
            and len(self.facts.get("feature_names") or range(d)) == d
            and len(getattr(vars(self)["_measured"], "back", range(d))) == d
        )
        if not shapes or not all(np.isfinite(a).all() for a in arrays) or not np.isfinite(self.noise_variance):
            raise ValueError("The arrays of a release do not fit together or are not finite.")

    @property
    def n_features(self) -> int:
        """The number of columns d."""
        return self.covariance.shape[0]

    @property
    def feature_names(self) -> list[str]:
        """Public column names, or x0, x1, …"""
        names = self.facts.get("feature_names")
        return list(names) if names else [f"x{i}" for i in range(self.n_features)]

    @property
    def choice(self) -> dict[str, Any] | None:
        """Why method="auto" chose this method: candidates, their predicted errors and the reason; else None."""
        found = self.facts.get("choice")
        return copy.deepcopy(dict(found)) if found else None

    @property
    def estimand(self) -> str:
        """What the components are those of: "covariance", "correlation", "spatial signs" and so on."""
        return str(self.facts.get("estimand") or "covariance")

    @property
    def missing_shares(self) -> Floats | None:
        """Released shares of missing cells, column by column, where results were corrected for them; else None."""
        found = self.facts.get("missing_shares")
        return None if found is None else np.array(found, dtype=np.float64)

    @property
    def about(self) -> dict[str, str]:
        """What `describe` was told: title, author, contact, description and population, those that were given."""
        return dict(self.facts.get("about") or {})

    @property
    def date(self) -> str | None:
        """The day (UTC) on which it was made, as 2026-01-31; None for releases of older versions."""
        return self.facts.get("date")

    def describe(
        self,
        *,
        title: str | None = None,
        author: str | None = None,
        contact: str | None = None,
        description: str | None = None,
        population: str | None = None,
    ) -> Release:
        """Return the same release with texts for its card. They are public, and saved with it.

        Parameters
        ----------
        title : str, default=None
            The title of the card.
        author : str, default=None
            Who made the release; several are separated by semicolons.
        contact : str, default=None
            Where questions go, such as an address of mail.
        description : str, default=None
            What the data are and how they were collected.
        population : str, default=None
            Whom the rows stand for.

        Returns
        -------
        Release
            A new release; this one does not change.
        """
        given = {"title": title, "author": author, "contact": contact}
        given |= {"description": description, "population": population}
        texts = check_about(given, "Release.describe")
        return replace(self, facts={**self.facts, "about": {**self.about, **texts}})  # type: ignore[arg-type]

    @property
    def unit(self) -> str:
        """Whom the guarantee protects: "row", or the name of the column by which rows belong together."""
        return self.guarantee.unit

    @property
    def correlation(self) -> Floats:
        """The released correlation matrix. A column without a released variance has correlation 0 with the others."""
        deviations = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        inverse = np.divide(1.0, deviations, out=np.zeros_like(deviations), where=deviations > 0)
        found: Floats = np.clip(self.covariance * np.outer(inverse, inverse), -1.0, 1.0)
        np.fill_diagonal(found, 1.0)
        return found

    @property
    def raw_covariance(self) -> Floats:
        """The covariance in the data's own units, whatever the columns were divided by."""
        return self.covariance if self.scale is None else self.covariance * np.outer(self.scale, self.scale)

    def intervals(self, level: float = 0.95, *, of: str = "population") -> Intervals:
        """Compute intervals for components, eigenvalues, covariance, correlation and mean. They cost nothing.

        Parameters
        ----------
        level : float, default=0.95
            The probability that an interval covers.
        of : {"population", "table"}, default="population"
            "population": the truth of the population that the rows were drawn from. "table": that of these rows, so
            without sampling error.

        Returns
        -------
        Intervals
            Lower and upper ends of every number.

        Raises
        ------
        ValueError
            The release does not hold what was measured: an older file, or a method that releases no moment.
        """
        from dpeigen import intervals

        return intervals.intervals(self, level, of)

    def regression(
        self,
        target: int | str,
        features: Iterable[int | str] | None = None,
        alpha: float = 0.0,
        *,
        level: float = 0.95,
        of: str = "population",
        scales: ArrayLike | None = None,
    ) -> Regression:
        """Compute a linear regression of one column on others, with standard errors. Costs nothing.

        ``print(release.regression("y"))`` is a table. Unlike `ridge`, it starts from what was measured and not from the
        shrunk matrix, since only there the law of the errors is known.

        Parameters
        ----------
        target : int or str
            Index or name of a column.
        features : list of int or str, default=None
            Indices or names of columns; None: all but the target.
        alpha : float ≥ 0, default=0.0
            The penalty, as for `ridge`.
        level : float, default=0.95
            The probability that an interval covers.
        of : {"population", "table"}, default="population"
            As for `intervals`.
        scales : (p,) array of numbers > 0, default=None
            As for `ridge`.

        Returns
        -------
        Regression
            Coefficients, standard errors, intervals, R² and residual variance.
        """
        from dpeigen import regression

        return regression.regression(self, target, features, alpha, level, of, scales)

    @cached_property
    def _found(self) -> Intervals | None:
        try:
            found = self.intervals()
            _ = found.resolved
        except (ArithmeticError, ValueError):  # nothing was measured, or it is a file that nobody measured
            return None
        return found

    @cached_property
    def usual_intervals(self) -> Intervals | None:
        """The 95% intervals of the population, for plots and cards; None without any, or if they take minutes."""
        try:
            found = self._found if self.n_features <= _MOST_COLUMNS else None
            _ = found and found.components
        except (ArithmeticError, ValueError):
            return None
        return found

    @cached_property
    def noise_floor(self) -> NoiseFloor | None:
        """The largest variance that privacy noise alone would show; None where nothing is known of the noise."""
        from dpeigen.noise_floor import noise_floor

        return noise_floor(self)

    @cached_property
    def resolved(self) -> int | None:
        """How many components, from the first on, can be told from noise; None where that is not known.

        On rows of independent columns with equal variances it is 0 in at least 95% of releases. Where columns are
        unknown, it is the number of components of the others; 0 where less than half of the columns are known.
        """
        return None if self._found is None else self._found.resolved

    @property
    def unresolved(self) -> str | None:
        """Why there are no more: "noise", "equal variances" or "unknown columns"; None where that is not known."""
        return None if self._found is None else self._found.unresolved

    def is_resolved(self, component: int) -> bool:
        """Say whether a component can be distinguished from noise.

        Parameters
        ----------
        component : int
            Counted from 0.

        Returns
        -------
        bool
            True also where nothing is known of that.
        """
        return self.resolved is None or component < self.resolved

    def sample(self, n: int, *, random_state: Any = None) -> Floats:
        """Draw synthetic Gaussian rows with the released mean (0 if none) and covariance. Costs nothing.

        Where only directions were paid for (details["variances"] is "relative") the rows have a total variance of 1.

        Parameters
        ----------
        n : int ≥ 0
            The number of rows.
        random_state : int, Generator or None, default=None
            A seed; synthetic rows are as public as the release, with a seed or without.

        Returns
        -------
        (n, d) array
            Rows in the data's own units.
        """
        n = check_count("n", n, "Release.sample", low=0)
        values, vectors = np.linalg.eigh(self.covariance)
        noise = randomness(random_state).normal((n, self.n_features))
        rows: Floats = (noise * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        rows = rows if self.scale is None else rows * self.scale
        return rows if self.mean is None else rows + self.mean

    def breakdown_bound(self) -> float:
        """Bound the share of rows that must be changed to turn the components by a right angle (Kendall's tau only).

        Theorem 3.3 of Kim and Jung 2025 with its constant halved, from the released eigenvalues less their noise; it
        holds with probability 97.5% over the noise. Costs nothing.

        Returns
        -------
        float
            A share between 0 and 1.
        """
        tau = self._tau()
        values, bound, noise = tau["tau_eigenvalues"], tau["tau_bound"], tau["tau_noise_norm"]
        # A row is in a 2/n share of the pairs, or a little more where parts are uneven.
        return breakdown_bound(values, len(self.components), bound, noise) / max(1.0, tau["tau_share"])

    def subspace_error(self, contamination: float = 0.0) -> float:
        """Bound sinΘ between the released and the true components with probability 95% (Kendall's tau only).

        Theorem 3.2 of Kim and Jung 2025 with explicit constants, for rows from an elliptical law; 1 where it says
        nothing, which is usual for few rows: bounds with every constant spelled out are wide. Costs nothing.

        Parameters
        ----------
        contamination : float, default=0.0
            The share of rows that may be anything (Theorem 3.4), yours to state; the others are elliptical.

        Returns
        -------
        float
            A bound on sinΘ, at most 1.
        """
        if not 0 <= contamination < 1:
            raise ValueError(complain("contamination", "Release.subspace_error", "in [0, 1)", contamination))
        tau, n = self._tau(), float(self.facts["n_rows"])
        values, bound, noise = tau["tau_eigenvalues"], tau["tau_bound"], tau["tau_noise_norm"]
        share = contamination * max(1.0, tau["tau_share"])
        return subspace_error_bound(values, len(self.components), bound, n, noise, 0.025, min(share, 1 - 1e-9))

    def _tau(self) -> dict[str, Any]:
        details = self.facts.get("details") or {}
        if "tau_eigenvalues" not in details:
            raise ValueError("Only a release of method='kendall' holds the eigenvalues this needs.")
        return dict(details)

    def ridge(
        self,
        target: int | str,
        alpha: float | ArrayLike = 1.0,
        *,
        features: Iterable[int | str] | None = None,
        fit_intercept: bool | None = None,
        scales: ArrayLike | None = None,
    ) -> RidgeFit:
        """Ridge regression of one column on others. Costs nothing: any number of targets, features and α.

        Parameters
        ----------
        target : int or str
            Index or name of a column.
        alpha : float ≥ 0, array of them, or "auto", default=1.0
            scikit-learn's penalty: ‖y − Xw‖² + α‖w‖² over the n rows. (The α of Amin et al. 2019 times 2n is this one.)
            "auto" minimises an estimate of the prediction error that knows the noise of the release
            (`dpeigen.stats.ridge.expected_error`); noise is the reason to take much larger α than without it.
            For a release with a ``scale`` the features are divided by it before the penalty, as after a StandardScaler,
            so that α does not depend on their units. Coefficients are in the data's own units.
        features : list of int or str, default=None
            Indices or names of columns; None: all but the target.
        fit_intercept : bool, default=None
            None: with an intercept if the release has a centre. False: through 0. True: refused where there is none.
        scales : (p,) numbers > 0, default=None
            The penalty is α·Σ(s·w)² with these s. None: all 1 for a number as α; for "auto" the units in which the
            release's noise is the same on all features, where it states them, divided by their geometric mean.

        Returns
        -------
        RidgeFit
            Coefficients, intercept and a bound on their error; for m values of α arrays over them.

        Notes
        -----
        The intercept comes from the released centre. A release about a public centre gives a fit through that point;
        one with center=None is about 0 and gives a fit through 0; one with center="pairs" has no centre, so its slopes
        are known and its intercept (None) is not.
        """
        from dpeigen import ridge

        return ridge.ridge(self, target, alpha, features, fit_intercept, scales)

    @property
    def noise_units(self) -> Floats:
        """Of the columns, where noise is about the same on all: as stated, or the scales, or else the data's own."""
        stated = self.facts.get("units")
        if stated is not None:
            return np.asarray(stated, dtype=np.float64)
        if self.scale is None and self.facts.get("method") != "whitened":
            return np.ones(self.n_features)
        if self.scale is not None:
            return self.scale
        deviations = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))  # `whitened`: every column in its own unit
        return np.where(deviations > 0, deviations, 1.0)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write ``release.safetensors`` and ``release.json`` into a folder.

        Parameters
        ----------
        path : path
            The folder; it is made if it does not exist.
        overwrite : bool, default=False
            Replace a release that is there already. It was paid for, so that is done only when asked.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        FileExistsError
            The folder holds a release and ``overwrite`` is False.
        """
        if not overwrite and any((Path(path) / name).exists() for name in (io.ARRAYS, io.DESCRIPTION)):
            raise FileExistsError(f"{path} holds a release already. Choose another folder, or overwrite=True.")
        arrays = {
            "components": self.components,
            "eigenvalues": self.eigenvalues,
            "covariance": self.covariance,
        }
        arrays |= {name: value for name in ("mean", "scale") if (value := getattr(self, name)) is not None}
        description = {
            "kind": self.kind,
            "noise_variance": self.noise_variance,
            "guarantee": self.guarantee.to_dict(),
            "facts": dict(self.facts),
        }
        if self.measured is not None:
            more, description["measured"] = self.measured.described()
            arrays |= more
        return io.write_folder(path, arrays, description)

    def to_sklearn(self, mean: ArrayLike | None = None) -> Any:
        """Make a fitted ``sklearn.decomposition.PCA``.

        With a ``scale`` it stands after a StandardScaler in a Pipeline. Where columns were declared, a
        ColumnTransformer encodes them first as the fit did.

        Parameters
        ----------
        mean : (d,) array, default=None
            A public centre for a release that holds none.

        Returns
        -------
        sklearn estimator
            A PCA or a Pipeline that ends with one.
        """
        return exchange.to_sklearn(self, mean)

    def to_arrow(self) -> Any:
        """Make an Arrow table, one line for each column, for R, Julia and others: see `dpeigen.exchange`.

        Returns
        -------
        pyarrow.Table
            Names, loadings, centre, scale and covariance, with the guarantee in the metadata.
        """
        return exchange.to_arrow(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies are made by the constructor: checked again, and read-only again.
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return type(self), tuple((values | {"facts": dict(self.facts)}).values())

    def __repr__(self) -> str:
        g = self.guarantee
        stamp = "" if g.is_private else ", NOT PRIVATE"
        return (
            f"Release({self.kind}, {len(self.components)} components of {self.n_features} columns, "
            f"(ε, δ) = ({g.epsilon:g}, {g.delta:g}), {g.mechanism}{stamp})"
        )

    def _repr_html_(self) -> str:
        from dpeigen import notebook

        return notebook.release_html(self)


def load_release(path: str | Path) -> Release:
    """Read a saved release.

    Parameters
    ----------
    path : path
        The folder that `Release.save` wrote.

    Returns
    -------
    Release
        The release, with its guarantee.

    Raises
    ------
    DamagedReleaseError
        The files are damaged, truncated or edited.
    """
    arrays, description = io.read_folder(path)
    try:
        check_description(description, arrays["covariance"].shape[-1])
        return Release(
            kind=description["kind"],
            components=arrays["components"],
            eigenvalues=arrays["eigenvalues"],
            covariance=arrays["covariance"],
            mean=arrays.get("mean"),
            noise_variance=float(description["noise_variance"]),
            guarantee=Guarantee.from_dict(description["guarantee"]),
            facts=description["facts"],
            scale=arrays.get("scale"),
            measured=Measured.read(arrays, said) if (said := description.get("measured")) is not None else None,
        )
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise io.DamagedReleaseError(f"{path} does not hold a valid release: {error}") from None
