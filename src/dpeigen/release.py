"""A release: the only thing that leaves. Frozen, complete, and safe to publish, copy and compute with.

Whatever is computed from a release costs nothing more: that is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen import io
from dpeigen._validate import check_count
from dpeigen.privacy import Guarantee, randomness

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Release:
    """Components, eigenvalues, covariance and centre with the guarantee they were released under.

    Attributes
    ----------
    kind : "pca" or "covariance".
    components : (k, d) orthonormal rows by decreasing eigenvalue.
    eigenvalues : (k,) private variances along the components.
    covariance : (d, d) positive semi-definite.
    mean : (d,) private or public centre; None when no centre was paid for.
    noise_variance : mean variance of the directions left out.
    guarantee : what all of it cost, together.
    facts : public facts (method, rows where public, bound, feature names, version).
    """

    kind: str
    components: Floats
    eigenvalues: Floats
    covariance: Floats
    mean: Floats | None
    noise_variance: float
    guarantee: Guarantee
    facts: MappingProxyType[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", MappingProxyType(dict(self.facts)))
        for name in ("components", "eigenvalues", "covariance", "mean"):
            value = getattr(self, name)
            if value is not None:
                array = np.array(value, dtype=np.float64)
                array.setflags(write=False)
                object.__setattr__(self, name, array)
        self._check()

    def _check(self) -> None:
        d = self.covariance.shape[-1]
        arrays = [a for a in (self.components, self.eigenvalues, self.covariance, self.mean) if a is not None]
        shapes = (
            self.covariance.shape == (d, d)
            and self.components.ndim == 2
            and self.components.shape[1] == d
            and self.eigenvalues.shape == self.components.shape[:1]
            and (self.mean is None or self.mean.shape == (d,))
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

    def sample(self, n: int, *, random_state: Any = None) -> Floats:
        """``n`` synthetic Gaussian rows with the released mean (0 if none) and covariance. Costs nothing."""
        n = check_count("n", n, "Release.sample", low=0)
        values, vectors = np.linalg.eigh(self.covariance)
        noise = randomness(random_state).normal((n, self.n_features))
        rows: Floats = (noise * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        return rows if self.mean is None else rows + self.mean

    def save(self, path: str | Path) -> Path:
        """Write ``release.safetensors`` and ``release.json`` into the folder ``path``."""
        arrays = {
            "components": self.components,
            "eigenvalues": self.eigenvalues,
            "covariance": self.covariance,
        }
        if self.mean is not None:
            arrays["mean"] = self.mean
        description = {
            "kind": self.kind,
            "noise_variance": self.noise_variance,
            "guarantee": self.guarantee.to_dict(),
            "facts": dict(self.facts),
        }
        return io.write_folder(path, arrays, description)

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies are made by the constructor: checked again, and read-only again.
        values = [getattr(self, f.name) for f in fields(self)]
        return type(self), (*values[:-1], dict(self.facts))

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
        return Release(
            kind=description["kind"],
            components=arrays["components"],
            eigenvalues=arrays["eigenvalues"],
            covariance=arrays["covariance"],
            mean=arrays.get("mean"),
            noise_variance=float(description["noise_variance"]),
            guarantee=Guarantee.from_dict(description["guarantee"]),
            facts=description["facts"],
        )
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise io.DamagedReleaseError(f"{path} does not hold a valid release: {error}") from None
