"""The parameter ``missing`` of the estimators, its older name, and new rows that have missing cells."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import check_choice, complain
from dpeigen.release import Release
from dpeigen.sources import open_source
from dpeigen.stats.frame import Missing


def encoded(release: Release, X: Any, features: list[str]) -> Any:
    """New rows of a table with the columns that the release was made of, as the numbers that these became.

    Anything else, such as rows that are numbers already, as it is.
    """
    declared = {
        name: said for name, said in (release.columns or {}).items() if set(said.features(name)) <= set(features)
    }
    kind = type(X).__module__.split(".")[0]
    path, table = isinstance(X, (str, Path)), kind in ("pandas", "polars", "pyarrow") and getattr(X, "ndim", 2) == 2
    if not declared or not (path or table):
        return X
    names = [] if path else list(X.column_names if kind == "pyarrow" else X.columns)
    if set(features) <= set(names):
        return X
    source = open_source(X, columns=declared)
    rows = np.concatenate([np.empty((0, source.n_features)), *map(np.asarray, source.blocks())])
    places = [source.feature_names.index(feature) for feature in features] if source.feature_names else []
    return rows[:, places]


class MissingCells:
    """For estimators with the parameters ``missing`` and ``on_bad_row``."""

    missing: str
    on_bad_row: str | None

    def _missing(self, *, warn: bool = False) -> Missing:
        """The checked parameter, or what its older name says; ``warn`` of that."""
        owner = type(self).__name__
        if self.on_bad_row is None:
            return check_choice("missing", self.missing, ["refuse", "correct", "drop"], owner)  # type: ignore[return-value]
        check_choice("on_bad_row", self.on_bad_row, ["refuse", "drop-to-zero"], owner)
        if self.missing != "refuse":
            must = "left out where 'missing' is given"
            raise ValueError(complain("on_bad_row", owner, must, self.on_bad_row, "It is an older name of it."))
        found: Missing = "refuse" if self.on_bad_row == "refuse" else "drop"
        if warn:
            text = f"on_bad_row={self.on_bad_row!r} is now missing={found!r}; the older name will be removed."
            warnings.warn(text, DeprecationWarning, stacklevel=4)
        return found

    def _filled(self, X: Any, dtype: Any, center: Floats | None) -> Floats:
        """New rows. With missing="correct" cells that are not finite are put at the released centre of their column."""
        correct = self._missing() == "correct"
        me: Any = self
        X = encoded(me.release_, X, list(getattr(me, "feature_names_in_", ())))
        rows: Floats = me._table(X, dtype=dtype, reset=False, ensure_all_finite=not correct)
        holes = ~np.isfinite(rows) if correct else np.zeros(1, dtype=bool)
        if not holes.any():
            return rows
        if center is None:
            must = "other than 'pairs' for rows with missing cells, which are put at the released centre"
            raise ValueError(complain("center", type(self).__name__, must, me.center))
        return np.where(holes, center.astype(rows.dtype), rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = self.missing == "correct"
        return tags
