"""A released score map: the distribution of rows on the plane of two released components. It may be published.

Results computed from a map cost nothing more, because this is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpeigen import io
from dpeigen._types import Floats
from dpeigen._validate import complain
from dpeigen.facts import check_guarantee
from dpeigen.privacy import Budget, Guarantee
from dpeigen.stats.areas import drawn_to_regression
from dpeigen.stats.smoothing import smooth

__all__ = ["CLIP", "REACH", "Centroids", "ScoreMap", "load_score_map"]

CLIP = 2.5  # standard deviations: positions are summed inside |x|/2.5σ₁ + |y|/2.5σ₂ ≤ 1
REACH = 3.0  # standard deviations: half of the window
_FALSE_ALARM = 0.05  # the probability that any label without rows is shown


class Centroids(NamedTuple):
    """Centres of classes. ``shown``: which classes can be distinguished from noise; other centres mean little."""

    labels: tuple[str, ...]
    points: Floats  # classes × 2, in scores
    errors: Floats  # classes × 2, the standard deviation of each coordinate due to noise
    counts: Floats  # noisy numbers of rows
    shown: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ScoreMap:
    """Noisy counts of cells, and noisy sums for classes, with the guarantee they were released under.

    Attributes
    ----------
    counts : (groups, m, m) noisy counts, unbiased, whole numbers that may be negative; first index along the first
        component. One group of all rows, or one for each label.
    class_counts, class_sums : noisy number of rows of each label, and noisy sum of their clipped positions relative to
        the middle of the window, in units of ``clip``.
    window : (2, 2) low and high end of each axis, in scores. Rows outside it are counted in the cells at its edge.
    clip : (2,) half-diagonals of the rhombus that positions were clipped to before they were summed.
    components : (2, d) the released directions.
    labels : public list of labels, or empty.
    guarantee : that of the map, without the release that gave the plane (see `total`).
    facts : public or released facts.
    """

    counts: Floats
    class_counts: Floats
    class_sums: Floats
    window: Floats
    clip: Floats
    components: Floats
    labels: tuple[str, ...]
    guarantee: Guarantee
    facts: MappingProxyType[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    _ARRAYS = ("counts", "class_counts", "class_sums", "window", "clip", "components")

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", MappingProxyType(dict(self.facts)))
        object.__setattr__(self, "labels", tuple(str(label) for label in self.labels))
        for name in self._ARRAYS:
            array = np.array(getattr(self, name), dtype=np.float64)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        self._check()

    def _check(self) -> None:
        k, m = len(self.labels), self.counts.shape[-1]
        shapes = (
            self.counts.shape in ((1, m, m), (k, m, m))
            and self.class_counts.shape == (k,)
            and self.class_sums.shape == (k, 2)
            and self.window.shape == (2, 2)
            and self.clip.shape == (2,)
            and self.components.ndim == 2
            and len(self.components) == 2
            and len(self.feature_names) == self.components.shape[1]
            and len(self.column_labels) == self.components.shape[1]
            and (self.loading_intervals is None or self.loading_intervals.shape == (2, *self.components.shape))
            and len(self.told_from_noise) == 2
        )
        if not shapes or not all(np.isfinite(getattr(self, name)).all() for name in self._ARRAYS):
            raise ValueError("The arrays of a score map do not fit together or are not finite.")

    @property
    def feature_names(self) -> list[str]:
        """Public column names, or x0, x1, …"""
        names = self.facts.get("feature_names")
        return list(names) if names else [f"x{i}" for i in range(self.components.shape[1])]

    @property
    def column_labels(self) -> list[str]:
        """The labels of the columns, such as "sex = f" or "height (cm)"."""
        return list(self.facts.get("column_labels") or self.feature_names)

    @property
    def told_from_noise(self) -> list[bool]:
        """For both components: whether it can be distinguished from noise; True also if this is not known."""
        return [bool(told) for told in self.facts.get("told_from_noise") or (True, True)]

    @property
    def loading_intervals(self) -> Floats | None:
        """(2, 2, d) low and high ends of the 95% intervals of the loadings; None if the release has none."""
        found = self.facts.get("loading_intervals")
        return None if found is None else np.array(found, dtype=np.float64)

    @property
    def n_rows(self) -> float:
        """The number of rows, public or released."""
        return float(self.facts["n_rows"])

    @property
    def total(self) -> Budget:
        """The cost of map and release together, by basic composition."""
        return Budget(self.guarantee.epsilon, self.guarantee.delta) + Budget(*self.facts["release_cost"])

    @property
    def total_words(self) -> str:
        """The same with its condition, if the release has one."""
        words = f"(ε, δ) = ({self.total.epsilon:g}, {self.total.delta:g})"
        if not (self.facts["release_is_private"] and self.guarantee.is_private):
            return f"{words} would be, but is NOT PRIVATE"
        worst = self.facts.get("release_basis", "worst-case") == "worst-case"
        return words if worst else f"{words} under the release's assumptions only"

    @property
    def by_class(self) -> bool:
        """Whether each label has a density of its own."""
        return bool(self.facts["by_class"])

    @property
    def edges(self) -> tuple[Floats, Floats]:
        """Edges of the cells along both axes, in scores."""
        m = self.counts.shape[-1]
        (low_x, high_x), (low_y, high_y) = self.window
        return np.linspace(low_x, high_x, m + 1), np.linspace(low_y, high_y, m + 1)

    @property
    def density(self) -> Floats:
        """(groups, m, m) rows in each cell: smoothed for the noise, and never negative (`dpeigen.stats.smoothing`).

        The cells of each group sum to its number of rows, public or released.
        """
        totals = self.class_counts if self.by_class else np.array([self.n_rows])
        variance = float(self.facts["count_deviation"]) ** 2
        groups = [smooth(c, variance, float(t)) for c, t in zip(self.counts, totals, strict=True)]
        return np.array(groups).reshape(self.counts.shape)

    def centroids(self, public: Mapping[str, Sequence[float]] | None = None) -> Centroids:
        """Estimate the centres of the labels.

        They are shrunk towards the middle of the map if the noise is larger than their likely size. Let S be the sum of
        n positions with noise of deviation s, and let centres have deviation w about the middle. The best linear
        estimate is S·n/(n² + (s/w)²). Here w is 1/2.5 of the clip length: the standard deviation of all rows. A label
        is shown if its noisy count exceeds a threshold. If no label had any rows, all counts would stay below this
        threshold with probability 95%.

        With ``public`` facts, centres are shrunk towards their regression on those facts instead
        (`dpeigen.stats.areas`). For labels with few rows this is much more accurate, and it costs nothing.

        Parameters
        ----------
        public : dict of label to numbers, default=None
            Public facts of every label, such as the longitude and latitude of a country.

        Returns
        -------
        Centroids
            Labels, points, errors, counts, and which of them can be distinguished from noise.
        """
        noise, count_noise = (float(self.facts[name] or 1) for name in ("sum_deviation", "class_count_deviation"))
        tail = math.log(max(len(self.labels), 1) / (2 * _FALSE_ALARM))  # P(Laplace > b·t) = e^−t/2, for each label
        middle, counts = self.window.mean(axis=1), np.maximum(self.class_counts, 0.0)
        if public is None:
            weights = counts / (counts**2 + (noise * CLIP) ** 2)
            points = self.class_sums * weights[:, None]
            errors = np.repeat(1 / np.sqrt((counts / noise) ** 2 + CLIP**2)[:, None], 2, axis=1)
        else:
            rows = np.maximum(counts, 1.0)[:, None]
            points, errors = drawn_to_regression(
                self.class_sums / rows, np.repeat(noise / rows, 2, axis=1), self._public_facts(public), CLIP**-2
            )
        return Centroids(
            labels=self.labels,
            points=middle + points * self.clip,
            errors=errors * self.clip,
            counts=self.class_counts.copy(),
            shown=np.asarray(self.class_counts >= count_noise / math.sqrt(2) * tail),
        )

    def _public_facts(self, public: Mapping[str, Sequence[float]]) -> Floats:
        must = "as many finite numbers for each label, and more labels than numbers plus two"
        try:
            facts = np.array([np.ravel(public[label]) for label in self.labels], dtype=np.float64)
        except (KeyError, TypeError, ValueError):
            facts = np.zeros(0)
        sound = facts.ndim == 2 and 0 < facts.shape[1] < len(facts) - 2 and np.isfinite(facts).all()
        if not sound:
            raise ValueError(complain("public", "ScoreMap.centroids", must, public))
        return facts

    def to_arrow(self) -> Any:
        """Make an Arrow table with one row for each cell.

        Returns
        -------
        pyarrow.Table
            Label (null for all rows), edges of the cell, the noisy count and the smoothed one.
        """
        import pyarrow as pa

        m, (x, y) = self.counts.shape[-1], self.edges
        i, j = np.divmod(np.arange(m * m), m)
        labels = self.labels if self.by_class else (None,)
        groups = len(self.counts)
        columns = {
            "label": pa.array([label for label in labels for _ in range(m * m)], type=pa.string()),
            "x_low": np.tile(x[i], groups),
            "x_high": np.tile(x[i + 1], groups),
            "y_low": np.tile(y[j], groups),
            "y_high": np.tile(y[j + 1], groups),
            "count": self.counts.ravel(),
            "smoothed": self.density.ravel(),
        }
        return pa.table(columns)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write ``release.safetensors`` and ``release.json`` into a folder of its own.

        Parameters
        ----------
        path : path
            The folder; it is made if it does not exist.
        overwrite : bool, default=False
            Replace an existing release.

        Returns
        -------
        Path
            The folder.
        """
        if not overwrite and any((Path(path) / name).exists() for name in (io.ARRAYS, io.DESCRIPTION)):
            raise FileExistsError(f"{path} holds a release already. Choose another folder, or overwrite=True.")
        description = {
            "kind": "score-map",
            "labels": list(self.labels),
            "guarantee": self.guarantee.to_dict(),
            "facts": dict(self.facts),
        }
        return io.write_folder(path, {name: getattr(self, name) for name in self._ARRAYS}, description)

    def __reduce__(self) -> tuple[Any, ...]:
        # The constructor makes copies, so that they are checked and read-only too.
        values = [getattr(self, f.name) for f in fields(self)]
        return type(self), (*values[:-1], dict(self.facts))

    def __repr__(self) -> str:
        m, stamp = self.counts.shape[-1], "" if "NOT" not in self.total_words else ", NOT PRIVATE"
        of = f", {len(self.labels)} labels" if self.labels else ""
        return f"ScoreMap({m} × {m} cells{of}, ε = {self.guarantee.epsilon:g}{stamp})"


def load_score_map(path: str | Path) -> ScoreMap:
    """Read a saved score map.

    Parameters
    ----------
    path : path
        The folder that `ScoreMap.save` wrote.

    Returns
    -------
    ScoreMap
        The map, with its guarantee.

    Raises
    ------
    DamagedReleaseError
        The files are damaged, truncated or edited.
    """
    arrays, description = io.read_folder(path)
    try:
        if description["kind"] != "score-map":
            raise ValueError(f"it holds a {description['kind']!r}; read it with load_release")
        check_guarantee(description["guarantee"])
        return ScoreMap(
            **{name: arrays[name] for name in ScoreMap._ARRAYS},
            labels=tuple(description["labels"]),
            guarantee=Guarantee.from_dict(description["guarantee"]),
            facts=description["facts"],
        )
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise io.DamagedReleaseError(f"{path} does not hold a valid score map: {error}") from None
