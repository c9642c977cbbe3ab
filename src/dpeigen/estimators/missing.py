"""The parameter ``missing`` of the estimators, its older name, and new rows that have missing cells."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import check_choice, complain
from dpeigen.estimators.mixed import encoded
from dpeigen.stats.frame import Missing

__all__ = ["MissingCells"]


class MissingCells:
    """For estimators with the parameters ``missing`` and ``on_bad_row``."""

    missing: str
    on_bad_row: str | None

    def _missing(self, *, warn: bool = False) -> Missing:
        """The checked parameter, or the value of its older name; ``warn``: whether to warn about that."""
        owner = type(self).__name__
        if self.on_bad_row is None:
            return check_choice("missing", self.missing, ["refuse", "correct", "drop"], owner)  # type: ignore[return-value]
        check_choice("on_bad_row", self.on_bad_row, ["refuse", "drop-to-zero"], owner)
        if self.missing != "refuse":
            must = "left out where 'missing' is given"
            raise ValueError(complain("on_bad_row", owner, must, self.on_bad_row, "It is an older name of it."))
        found: Missing = "refuse" if self.on_bad_row == "refuse" else "drop"
        if warn:
            text = f"on_bad_row={self.on_bad_row!r} is deprecated and will be removed: use missing={found!r}."
            warnings.warn(text, DeprecationWarning, stacklevel=4)
        return found

    def _filled(self, X: Any, dtype: Any, center: Floats | None) -> Floats:
        """New rows. With missing="correct", cells that are not finite get the released centre of their column."""
        correct = self._missing() == "correct"
        me: Any = self
        found = encoded(me.release_, X, list(getattr(me, "feature_names_in_", ())))
        if found is not None and not correct and not np.isfinite(found).all():
            remedy = "Set missing='correct' to put such cells at the released centre."
            raise ValueError(
                f"Input X contains cells that are missing or not what their column is declared to be. {remedy}"
            )
        table = {"dtype": dtype, "reset": False, "ensure_all_finite": not correct}
        rows: Floats = found if found is not None else me._table(X, **table)
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
        tags.input_tags.sparse = True
        return tags
