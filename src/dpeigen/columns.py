"""The columns of a release as text: names, centres and deviations in their declared units.

Everything here is computed from the release and from public declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.facts import columns_in
from dpeigen.methods.holes import NEARLY_ALL
from dpeigen.sources.declared import Declared
from dpeigen.sources.wording import label, spread_text, value_text

__all__ = ["DeclaredColumns"]

_NO_CELLS = "nearly all cells are missing or do not fit the declared type"
_NOTHING_SEEN = "constant, rare, or too few rows for this budget"
_UNCERTAIN = "its variance is too uncertain for correlations and loadings"


class DeclaredColumns:
    """What a release says about its columns."""

    facts: Mapping[str, Any]
    mean: Floats | None

    # Those of the release.
    feature_names: Any
    raw_covariance: Any
    _found: Any

    @property
    def columns(self) -> dict[str, Declared] | None:
        """The declarations of the columns of the table; None if all are plain numbers, or if there are none."""
        listed = self.facts.get("columns")
        return None if listed is None else columns_in(listed)

    @cached_property
    def _sayings(self) -> list[tuple[str, Declared, str]]:
        """For each numeric column: its label, and the declaration and name of the table's column.

        Feature names may be names of features or labels, since pictures use labels. A column whose own name looks like
        the label of an indicator ("sex = f") is taken to be that column.
        """
        found: dict[str, tuple[str, Declared, str]] = {}
        texts: dict[str, tuple[str, Declared, str]] = {}
        named = set(self.feature_names)
        for name, said in (self.columns or {}).items():
            for feature, text in zip(said.features(name), label(name, said), strict=True):
                found[feature] = text, said, name
                if feature not in named:
                    texts[text] = text, said, name
        found = {**texts, **found}
        return [found.get(name, (name, Declared(), name)) for name in self.feature_names]

    @property
    def labels(self) -> list[str]:
        """The labels of the columns, such as "sex = f" or "height (cm)"."""
        return [text for text, _, _ in self._sayings]

    @property
    def indicators(self) -> NDArray[np.bool_]:
        """Which numeric columns are indicators of categories."""
        return np.array([said.categories is not None for _, said, _ in self._sayings], dtype=bool)

    @property
    def is_share(self) -> NDArray[np.bool_]:
        """Which numeric columns are 0 or 1, so that their means are shares of rows: indicators and truth values."""
        return np.array([said.categories is not None or said.type == "bool" for _, said, _ in self._sayings], bool)

    @property
    def is_flag(self) -> NDArray[np.bool_]:
        """Which numeric columns have two declared values: shares of rows, and scales of two levels."""
        scales = [said.levels is not None and len(said.levels) == 2 for _, said, _ in self._sayings]
        return np.asarray(self.is_share | np.array(scales, dtype=bool))

    @property
    def limits(self) -> tuple[Floats, Floats]:
        """Lower and upper limits of each column, declared or by bounds, in the units of the release; or infinite."""
        bounds = self.facts.get("bounds")
        nowhere = np.full(len(self.feature_names), np.inf)
        low, high = (-nowhere, nowhere) if bounds is None else (np.array(bounds["lower"]), np.array(bounds["upper"]))
        if self.columns is None:  # all are plain numbers
            return low, high
        found = []
        for j, (_, said, _) in enumerate(self._sayings):
            ends, (zero, width) = said.bounds(), self.rescaled(j)
            found.append((-np.inf, np.inf) if not ends else tuple((end - zero) / width for end in ends[0]))
        least, most = np.array(found, dtype=np.float64).reshape(-1, 2).T
        return np.maximum(low, least), np.minimum(high, most)

    @property
    def largest_deviations(self) -> Floats:
        """Half the distance of the limits: a standard deviation is at most this, but not a root mean square about 0."""
        low, high = self.limits
        central = self.facts.get("center") in ("private", "pairs")
        return (high - low) / 2 if central else np.full(len(low), np.inf)

    def variables(self) -> list[tuple[str, list[int]]]:
        """List the columns of the table by their labels.

        Returns
        -------
        list of (str, list of int)
            Each label, and the numeric columns that encode the column: several for a category.
        """
        found: dict[str, list[int]] = {}
        for j, (text, said, name) in enumerate(self._sayings):
            found.setdefault(name if said.categories is not None else text, []).append(j)
        return list(found.items())

    def center_text(self, column: int) -> str:
        """Write the released centre of a column in its own unit: "171 cm", "2019-03-04", "48.3%".

        Parameters
        ----------
        column : int
            Counted from 0.

        Returns
        -------
        str
            The centre, or "not known".
        """
        given = self.facts.get("center") == "public"
        if self.mean is None or (not given and column in self._without_scale):
            return "not known"
        return self.value_text(column, float(self.mean[column]))

    def value_text(self, column: int, value: float, digits: int = 4, ends: tuple[float, float] | None = None) -> str:
        """Write a value of a column in the column's own unit.

        Parameters
        ----------
        column : int
            Counted from 0.
        value : float
            In the units of the release.
        digits : int, default=4
            Significant digits of plain numbers.
        ends : (float, float), default=None
            The ends of its interval, in the units of the release. They decide how many digits plain numbers have.

        Returns
        -------
        str
            The value with its unit of measure.
        """
        low, width = self.rescaled(column)
        own = None if ends is None else (low + width * ends[0], low + width * ends[1])
        return value_text(self._sayings[column][1], low + width * value, digits, own)

    def deviation_text(self, column: int) -> str:
        """Write the released standard deviation of a column in its own unit: "9.2 cm", "412 days".

        Parameters
        ----------
        column : int
            Counted from 0.

        Returns
        -------
        str
            The deviation, or "not known".
        """
        if column in self._without_scale:
            return "not known"
        return self.spread_text(column, self.deviation(column))

    def deviation(self, column: int) -> float:
        """Return the released standard deviation of a column, at most half the distance of its declared limits.

        Parameters
        ----------
        column : int
            Counted from 0.

        Returns
        -------
        float
            In the units of the release. Noise can make the square root of its variance larger than is possible.
        """
        found = float(np.sqrt(max(float(self.raw_covariance[column, column]), 0.0)))
        return min(found, float(self.largest_deviations[column]))

    def spread_text(self, column: int, deviation: float, ends: tuple[float, float] | None = None) -> str:
        """Write a deviation of a column in the column's own unit.

        Parameters
        ----------
        column : int
            Counted from 0.
        deviation : float
            In the units of the release.
        ends : (float, float), default=None
            The ends of its interval, in the units of the release. They decide how many digits are written.

        Returns
        -------
        str
            The deviation with its unit of measure.
        """
        width = self.rescaled(column)[1]
        own = None if ends is None else (width * ends[0], width * ends[1])
        return spread_text(self._sayings[column][1], width * deviation, own)

    @property
    def _without_scale(self) -> list[int]:
        """Columns that could not be distinguished from noise: the numbers given for them have no meaning."""
        return list((self.facts.get("details") or {}).get("columns_without_scale") or [])

    @property
    def unknown_columns(self) -> dict[str, str]:
        """The names of numeric columns without known correlations and loadings, each with the reason.

        Nothing at all is known about most of them. Of `uncertain_columns` the centre and the deviation are known.
        """
        empty = self.columns_without_cells
        reasons = {j: _NO_CELLS if j in empty else _NOTHING_SEEN for j in self._without_scale}
        reasons |= dict.fromkeys(self.uncertain_columns, _UNCERTAIN)
        return {self.feature_names[j]: reasons[j] for j in sorted(reasons)}

    @cached_property
    def uncertain_columns(self) -> list[int]:
        """Numeric columns whose variance is less than three times its error, too uncertain for correlations.

        They are counted from 0. Components, their intervals and what `resolved` says are those of the other columns.
        """
        if self._found is None:
            return []
        return [j for j in np.flatnonzero(~self._found.known).tolist() if j not in self._without_scale]

    @property
    def columns_without_cells(self) -> list[int]:
        """Numeric columns without a scale in which hardly any cell could be read, counted from 0."""
        shares = self.facts.get("missing_shares") or {}
        return [j for j in self._without_scale if shares and shares[j] > NEARLY_ALL]

    def rescaled(self, column: int) -> tuple[float, float]:
        """Return the values of 0 and of a step of 1 in the column's own unit, if public bounds rescaled it.

        Parameters
        ----------
        column : int
            Counted from 0.

        Returns
        -------
        (float, float)
            The lower bound and the width; (0, 1) if it was not rescaled.
        """
        by = self.facts.get("rescaled")
        return (0.0, 1.0) if by is None else (by["lower"][column], by["upper"][column] - by["lower"][column])
