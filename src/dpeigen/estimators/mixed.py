"""The parameter ``columns`` of the estimators: declared columns, what a release says about them, and new rows.

All of it is public: declarations, and functions of single rows.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import complain
from dpeigen.privacy.guarantee import UnitWarning
from dpeigen.release import Release
from dpeigen.sources import Source, open_source
from dpeigen.sources.ids import looks_like_id
from dpeigen.sources.opening import open_if_known

__all__ = ["MixedColumns", "columns_fact", "encoded", "warn_of_ids"]


class MixedColumns:
    """For estimators of tables whose columns are not all numbers."""

    def _open_declared(self, X: Any) -> Source | None:
        """A source of the declared columns, or None if X is to be read as an array."""
        columns = getattr(self, "columns", None)
        source = open_if_known(X, columns)
        if columns is not None and (source is None or source.feature_names is None):
            must = "None for data without names of columns"
            raise ValueError(complain("columns", type(self).__name__, must, f"a {type(columns).__name__}"))
        return source

    def _indicators(
        self, source: Source, scale: Floats | str | None, center: Floats | str | None, owner: str
    ) -> tuple[tuple[int, float], ...]:
        """Indicator columns of categories, for scale="private", and the value that stands for 1 in them."""
        flags = {
            flag
            for name, said in (source.schema or {}).items()
            if said.categories is not None
            for flag in said.features(name)
        }
        if not isinstance(scale, str) or not flags:
            return ()
        if isinstance(center, np.ndarray) or center == "pairs":
            must = "'private' with categories and scale='private': their weights come from the released frequencies"
            raise ValueError(complain("center", owner, must, center if isinstance(center, str) else "an array"))
        units = self._column_units(source.n_features, owner)
        return tuple((j, float(units[j])) for j, name in enumerate(source.feature_names or ()) if name in flags)

    def _spans(self, source: Source, owner: str) -> tuple[tuple[int, float], ...]:
        """Columns of declared levels (categories, ordinal scales, truth values) and the widths of their ranges."""
        found = {
            feature: high - low
            for name, said in (source.schema or {}).items()
            if said.categories is not None or said.levels is not None or said.type == "bool"
            for feature, (low, high) in zip(said.features(name), said.bounds() or (), strict=True)
        }
        units = self._column_units(source.n_features, owner) if found else np.ones(source.n_features)
        names = enumerate(source.feature_names or ())
        return tuple((j, float(found[name] * units[j])) for j, name in names if name in found)

    def _column_units(self, d: int, owner: str) -> Floats:  # noqa: ARG002
        """The factors of columns before a method sees them."""
        return np.ones(d)


def columns_fact(source: Source) -> dict[str, Any]:
    """The declarations of the columns, if they are not all plain numbers."""
    if source.schema is None:
        return {}
    listed = [{"name": name, **said.to_dict()} for name, said in source.schema.items()]
    known = {feature for name, said in source.schema.items() for feature in said.features(name)}
    return {"columns": listed + [{"name": name} for name in source.feature_names or () if name not in known]}


def encoded(release: Release, X: Any, features: list[str]) -> Floats | None:
    """New rows of a table with the columns of the release, as the numbers that these become.

    None for anything else, such as rows of numbers.
    """
    declared = {
        name: said for name, said in (release.columns or {}).items() if set(said.features(name)) <= set(features)
    }
    kind = type(X).__module__.split(".")[0]
    path, table = isinstance(X, (str, Path)), kind in ("pandas", "polars", "pyarrow") and getattr(X, "ndim", 2) == 2
    if not declared or not (path or table):
        return None
    names = [] if path else list(X.column_names if kind == "pyarrow" else X.columns)
    if set(features) <= set(names):
        return None
    source = open_source(X, columns=declared)
    rows = np.concatenate([np.empty((0, source.n_features)), *map(np.asarray, source.blocks())])
    places = [source.feature_names.index(feature) for feature in features] if source.feature_names else []
    return rows[:, places]


def warn_of_ids(names: list[str]) -> None:
    """Warn if the (public) name of a column looks like an id."""
    for name in names:
        if looks_like_id(name):
            warnings.warn(
                f"Column {str(name)!r} looks like an identifier. If a person may have several rows, give "
                f"unit={str(name)!r}: all rows of a person are then protected together, and the column is not used as "
                "a feature. If everyone has one row, leave the column out. As it is, the guarantee is for one row.",
                UnitWarning,
                stacklevel=5,
            )
