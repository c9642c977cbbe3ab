"""A release: the only thing that leaves. Frozen, complete, and safe to publish, copy and compute with.

Whatever is computed from a release costs nothing more: that is post-processing.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpeigen import exchange, io
from dpeigen._types import Floats
from dpeigen._validate import check_count, check_vector, complain
from dpeigen.facts import check_description
from dpeigen.privacy import Guarantee, gaussian_mu, randomness
from dpeigen.stats.elliptical import breakdown_bound, subspace_error_bound
from dpeigen.stats.ridge import RidgeFit, RidgePath, check_alphas, choose_penalty, lemma_one_bound


@dataclass(frozen=True, eq=False)
class Release:
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", MappingProxyType(dict(self.facts)))
        for name in ("components", "eigenvalues", "covariance", "mean", "scale"):
            value = getattr(self, name)
            if value is not None:
                array = np.array(value, dtype=np.float64)
                array.setflags(write=False)
                object.__setattr__(self, name, array)
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
        )
        if not shapes or not all(np.isfinite(a).all() for a in arrays) or not np.isfinite(self.noise_variance):
            raise ValueError("The arrays of a release do not fit together or are not finite.")

    @property
    def n_features(self) -> int:
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

    def sample(self, n: int, *, random_state: Any = None) -> Floats:
        """``n`` synthetic Gaussian rows with the released mean (0 if none) and covariance. Costs nothing.

        Where only directions were paid for (details["variances"] is "relative") the rows have a total variance of 1.
        """
        n = check_count("n", n, "Release.sample", low=0)
        values, vectors = np.linalg.eigh(self.covariance)
        noise = randomness(random_state).normal((n, self.n_features))
        rows: Floats = (noise * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        rows = rows if self.scale is None else rows * self.scale
        return rows if self.mean is None else rows + self.mean

    def breakdown_bound(self) -> float:
        """A share of rows that would have to be changed to turn the components by a right angle (Kendall's tau only).

        Theorem 3.3 of Kim and Jung 2025 with its constant halved, from the released eigenvalues less their noise; it
        holds with probability 97.5% over the noise. Costs nothing.
        """
        tau = self._tau()
        values, bound, noise = tau["tau_eigenvalues"], tau["tau_bound"], tau["tau_noise_norm"]
        # A row is in a 2/n share of the pairs, or a little more where parts are uneven.
        return breakdown_bound(values, len(self.components), bound, noise) / max(1.0, tau["tau_share"])

    def subspace_error(self) -> float:
        """What sinΘ to the true components stays below with probability 95% (Kendall's tau only).

        Theorem 3.2 of Kim and Jung 2025 with explicit constants, for rows from an elliptical law; 1 where it says
        nothing, which is usual for few rows: bounds with every constant spelled out are wide. Costs nothing.
        """
        tau, n = self._tau(), float(self.facts["n_rows"])
        values, bound, noise = tau["tau_eigenvalues"], tau["tau_bound"], tau["tau_noise_norm"]
        return subspace_error_bound(values, len(self.components), bound, n, noise, failure=0.025)

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
        target : index or name of a column.
        alpha : float ≥ 0, array of them, or "auto", default=1.0
            scikit-learn's penalty: ‖y − Xw‖² + α‖w‖² over the n rows. (The α of Amin et al. 2019 times 2n is this one.)
            "auto" minimises an estimate of the prediction error that knows the noise of the release
            (`dpeigen.stats.ridge.expected_error`); noise is the reason to take much larger α than without it.
            For a release with a ``scale`` the features are divided by it before the penalty, as after a StandardScaler,
            so that α does not depend on their units. Coefficients are in the data's own units.
        features : indices or names of columns, default=all but the target.
        fit_intercept : bool, default=None
            None: with an intercept if the release has a centre. False: through 0. True: refused where there is none.
        scales : (p,) numbers > 0, default=None
            The penalty is α·Σ(s·w)² with these s. None: all 1 for a number as α; for "auto" the units in which the
            release's noise is the same on all features, where it states them, divided by their geometric mean.

        Notes
        -----
        The intercept comes from the released centre. A release about a public centre gives a fit through that point;
        one with center=None is about 0 and gives a fit through 0; one with center="pairs" has no centre, so its slopes
        are known and its intercept (None) is not.
        """
        owner = "Release.ridge"
        if (self.facts.get("details") or {}).get("variances") == "relative":
            raise ValueError(
                f"{owner} needs variances in the data's units; those of this release are relative to their sum: only "
                "directions were paid for. Release with method='spatial-sign' or 'refined', by name."
            )
        column = self._column("target", target, owner)
        columns = self._feature_columns(features, column, owner)
        matrix, center = self._about(fit_intercept, owner)
        alphas, n = check_alphas(alpha, owner), self._n_rows(owner)
        scale = np.ones(self.n_features)
        scale[columns] = self._scales(scales, columns, alphas is None, owner)
        path = RidgePath.of(matrix / scale / scale[:, None], column, columns, self.noise_units / scale)
        if alphas is None:
            alphas = np.array(choose_penalty(path, self._noise_deviation(n), n) * n)
        penalties = np.atleast_1d(alphas) / n
        coef = path.coefficients(penalties) / scale[columns]
        intercept = None if center is None else center[column] - coef @ center[columns]
        error = self._in_units("covariance_error") if matrix is self.covariance else None
        bound = None if error is None else lemma_one_bound(path, penalties, error) / scale[columns].min()
        names = self.feature_names
        one = alphas.ndim == 0
        return RidgeFit(
            coef=coef[0] if one else coef,
            intercept=intercept if intercept is None or not one else float(intercept[0]),
            alpha=float(alphas) if one else alphas,
            feature_names=tuple(names[j] for j in columns),
            target=names[column],
            error_bound=bound if bound is None or not one else float(bound[0]),
            scales=scale[columns],
        )

    def _scales(self, scales: ArrayLike | None, columns: list[int], auto: bool, owner: str) -> Floats:
        """Of the features, for the penalty."""
        if scales is None and self.scale is not None:
            return self.scale[columns]
        if scales is None and auto:
            logs = np.log(self.noise_units[columns])
            return np.exp(logs - logs.mean())
        if scales is None:
            return np.ones(len(columns))
        chosen = check_vector("scales", scales, len(columns), owner)
        if not (chosen > 0).all():
            raise ValueError(complain("scales", owner, "numbers > 0, one for each feature", scales))
        return chosen

    def _column(self, name: str, value: Any, owner: str) -> int:
        if not isinstance(value, str):
            return check_count(name, value, owner, low=0, high=self.n_features - 1)
        found = [j for j, known in enumerate(self.feature_names) if known == value]
        if len(found) != 1:
            must = "an index, or a name that stands once among the columns"
            raise ValueError(complain(name, owner, must, value, f"They are {self.feature_names}."))
        return found[0]

    def _feature_columns(self, features: Iterable[int | str] | None, target: int, owner: str) -> list[int]:
        must = "different columns other than the target, at least one"
        if isinstance(features, str):
            raise TypeError(complain("features", owner, f"a list of {must}", features))
        chosen = [j for j in range(self.n_features) if j != target] if features is None else list(features)
        columns = [self._column("features", value, owner) for value in chosen]
        if not columns or target in columns or len(set(columns)) < len(columns):
            raise ValueError(complain("features", owner, must, features if features is None else chosen))
        return columns

    def _about(self, fit_intercept: bool | None, owner: str) -> tuple[Floats, Floats | None]:
        """The matrix to regress with, and the point the fit goes through (None: not known)."""
        if fit_intercept is not None and not isinstance(fit_intercept, (bool, np.bool_)):
            raise TypeError(complain("fit_intercept", owner, "True, False or None", fit_intercept))
        fit_intercept = None if fit_intercept is None else bool(fit_intercept)
        origin = np.zeros(self.n_features)
        about_zero = self.mean is not None and self.facts.get("center") == "public" and not self.mean.any()
        if fit_intercept and (self.mean is None or about_zero):
            remedy = "Release with center='private' (or a public centre), or leave fit_intercept None."
            got = "second moment about 0" if about_zero else "release without a centre"
            raise ValueError(
                complain("fit_intercept", owner, "None or False for this release", f"True for a {got}", remedy)
            )
        covariance = self.raw_covariance
        if self.mean is None:
            return covariance, None if fit_intercept is None else origin
        if fit_intercept is False or about_zero:
            return (covariance if about_zero else covariance + np.outer(self.mean, self.mean)), origin
        return covariance, self.mean

    def _n_rows(self, owner: str) -> float:
        n = self.facts.get("n_rows")
        if n is None:
            raise ValueError(f"{owner} needs the number of rows, public or released, which this release does not hold.")
        return float(n)

    def _in_units(self, fact: str) -> float | None:
        """A stated size of the covariance's noise, for N in Ĉ = C + UNU, U the units where it is isotropic."""
        size, units = self.facts.get(fact), self.facts.get("units")
        return None if size is None else float(size) / (1.0 if units is None else max(units) ** 2)

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

    def _noise_deviation(self, n: float) -> float:
        """Of an entry of the covariance off the diagonal, in the units of the noise.

        Where the release does not state it, it is taken to be that of plain noise on the second moment at the same
        budget, for rows as long as the radius, or √2 times as long as the covariance says they are if there is none.
        """
        stated = self._in_units("noise_deviation")
        if stated is not None:
            return stated
        d, budget, units = self.n_features, self.guarantee, self.noise_units
        noise = math.sqrt(2 * (d + 1)) / budget.epsilon
        if budget.delta > 0:
            noise = min(noise, 1 / gaussian_mu(budget.epsilon, budget.delta))
        radius = self.facts.get("radius")
        square = 2 * float(np.sum(np.diag(self.raw_covariance) / units**2)) if radius is None else float(radius) ** 2
        return noise * square / (n / 2 if self.facts.get("center") == "pairs" else n)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write ``release.safetensors`` and ``release.json`` into the folder ``path``.

        A release that is there already was paid for: it is replaced only when asked.
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
        return io.write_folder(path, arrays, description)

    def to_sklearn(self, mean: ArrayLike | None = None) -> Any:
        """A fitted ``sklearn.decomposition.PCA``, after a StandardScaler in a Pipeline where there is a ``scale``.

        ``mean``: a public centre for a release that holds none.
        """
        return exchange.to_sklearn(self, mean)

    def to_arrow(self) -> Any:
        """A PyArrow table, one line for each column, for R, Julia and others: see `dpeigen.exchange`."""
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


def load_release(path: str | Path) -> Release:
    """Read a saved release; refuses damaged, truncated or edited files."""
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
        )
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise io.DamagedReleaseError(f"{path} does not hold a valid release: {error}") from None
