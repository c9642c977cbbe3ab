"""A release: the only output of a fit. It is frozen and complete, and may be published and copied.

Results computed from a release cost nothing more, because this is post-processing (`dpeigen.computed`).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpeigen import exchange, io
from dpeigen._types import Floats, freeze_arrays
from dpeigen.columns import DeclaredColumns
from dpeigen.computed import Computed
from dpeigen.facts import check_about, check_description
from dpeigen.privacy import Guarantee
from dpeigen.stats.measured import Measured, MeasuredWhenAsked

__all__ = ["Release", "load_release"]


@dataclass(frozen=True, eq=False)
class Release(DeclaredColumns, Computed):
    """Components, eigenvalues, covariance and centre with the guarantee they were released under.

    Attributes
    ----------
    kind : "pca", "covariance" or "ridge".
    components : (k, d) orthonormal rows by decreasing eigenvalue.
    eigenvalues : (k,) private variances along the components.
    covariance : (d, d) positive semi-definite.
    mean : (d,) private or public centre; None when no centre was paid for.
    noise_variance : mean variance of the directions left out.
    guarantee : the privacy guarantee of all of it together.
    facts : public facts (method, rows where public, bound, feature names, version).
    scale : (d,) public or released deviations that columns were divided by; None for the data's own units. Components,
        eigenvalues, covariance and noise_variance are those of the divided columns; ``mean`` is in the data's units.
    measured : the noisy moment from which it was computed, for `intervals`; None if there is none. It may be given as a
        function of released numbers, which is called on first use.
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
        return copy.deepcopy(dict(found)) if found and isinstance(found, Mapping) else None

    @property
    def estimand(self) -> str:
        """The matrix whose components were estimated: "covariance", "correlation", "spatial signs" and so on."""
        return str(self.facts.get("estimand") or "covariance")

    @property
    def missing_shares(self) -> Floats | None:
        """Released shares of missing cells of each column, if results were corrected for them; otherwise None."""
        found = self.facts.get("missing_shares")
        return None if found is None else np.array(found, dtype=np.float64)

    @property
    def about(self) -> dict[str, str]:
        """The texts given to `describe`: any of title, author, contact, description and population."""
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
            Where to send questions, such as an e-mail address.
        description : str, default=None
            What the data are and how they were collected.
        population : str, default=None
            The population that the rows represent.

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
        """The covariance in the data's own units, also if columns were divided by a scale."""
        return self.covariance if self.scale is None else self.covariance * np.outer(self.scale, self.scale)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write ``release.safetensors`` and ``release.json`` into a folder.

        Parameters
        ----------
        path : path
            The folder; it is made if it does not exist.
        overwrite : bool, default=False
            Replace an existing release. It was paid for, so it is replaced only on request.

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

        With a ``scale`` it follows a StandardScaler in a Pipeline. If columns were declared, a ColumnTransformer first
        encodes them as the fit did.

        Parameters
        ----------
        mean : (d,) array, default=None
            A public centre for a release without one.

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
        # The constructor makes copies, so that they are checked and read-only too.
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
