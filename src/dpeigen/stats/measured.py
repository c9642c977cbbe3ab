"""The noisy second moment as it was measured, before post-processing. Intervals are computed from it.

Shrinking and projecting a noisy second moment makes a better estimate, but the result no longer shows how large the
noise was. So a release keeps the moment as it was measured, the law of its noise, and the map back to the data's own
units. All of it is released or public.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from dpeigen._types import Floats, freeze_arrays
from dpeigen.stats.clipping import share_beyond
from dpeigen.stats.spectrum import isotonic_decreasing

__all__ = ["KINDS", "LAWS", "Measured", "MeasuredWhenAsked"]

LAWS = ("gaussian", "gaussian, entry by entry", "laplace", "matrix-laplace")
KINDS = ("moment", "signs")
_ARRAYS = (
    *("moment", "back", "deviations", "present", "present_deviations", "tails", "sign_values", "counted", "beyond"),
    *("drawn_values", "concentrations", "center_deviations"),
)
_MOST = 1e300


@dataclass(frozen=True, eq=False)
class Measured:
    """A noisy mean of zzᵀ over clipped rows z, or of (w, z)(w, z)ᵀ with a constant w = ``weight`` > 0.

    Rows in the data's own units, relative to their centre, are ``back`` @ z. A column without a known scale has a row
    of zeros there.
    """

    moment: Floats
    back: Floats
    law: str  # of the noise; that of eigenvalues if directions were drawn
    deviation: float  # of the noise on an off-diagonal entry
    terms: float  # number of rows, or pairs of rows
    radius: float  # to which rows z are clipped
    weight: float = 0.0
    outside: float | None = None  # approximate number of rows longer than the radius; None if the radius is public
    outside_scale: float = 0.0  # scale of the Laplace noise of the measured radius, in rows
    outside_radius: float | None = None  # the radius to which ``outside`` refers; None: ``radius``
    kind: str = "moment"  # "signs": a covariance from signs of rows, which are not clipped
    center_deviation: float | None = None  # in files of earlier versions: one for all columns
    center_deviations: Floats | None = None  # of a separately measured centre, column by column, in the data's units
    center_clipped: float = 0.0  # approximate share of rows that were clipped for that centre
    common: float = 0.0  # deviation of an uncertain factor that all entries share
    deviations: Floats | None = None  # of the noise, entry by entry, if they differ
    present: Floats | None = None  # released fractions of rows with cells in both columns, if missing cells count as 0
    present_deviations: Floats | None = None  # of their noise
    tails: Floats | None = (
        None  # 10 × columns: effects of clipping on long tails, in the columns' units, and kurtosis (`stats.tails`);
        # then the effects on skewed columns (`stats.column_laws`), which files of earlier versions do not have
    )
    sign_values: Floats | None = None  # eigenvalues of a noisy moment of signs, decreasing
    sign_deviation: float | None = None  # of the noise on its entries
    counted: Floats | None = None  # vectors k: the moment has an error of Σ g·kkᵀ, g standard normal (`far_rows`)
    beyond: Floats | None = None  # (columns,) with signs: squared distance of the radius times the share of longer rows
    level: float = 0.0  # relative deviation of an uncertain factor on the variances along the last ``rest`` axes
    rest: int = 0
    drawn_values: Floats | None = None  # all eigenvalues, with noise, if the first axes are drawn directions
    drawn_deviation: float = 0.0  # of the noise on them
    concentrations: Floats | None = None  # c of the directions, drawn from exp(c·uᵀMu) one after the other

    def __post_init__(self) -> None:
        freeze_arrays(self, _ARRAYS)
        self._check()

    def _check(self) -> None:
        m, sides = len(self.moment), int(self.weight > 0)
        numbers = [self.deviation, self.terms, self.radius, self.weight, self.outside_scale, self.common]
        numbers += [self.level, self.rest, self.drawn_deviation, self.center_clipped]
        further = (self.outside, self.outside_radius, self.center_deviation, self.sign_deviation)
        numbers += [value for value in further if value is not None]
        arrays = [value for name in _ARRAYS if (value := getattr(self, name)) is not None]
        fits = (
            self.moment.shape == (m, m)
            and self.back.ndim == 2
            and self.back.shape[1] == m - sides
            and (self.deviations is None or self.deviations.shape == (m, m))
            and all(part is None or part.shape == 2 * (len(self.back),) for part in self._shares)
            and (self.present is None) == (self.present_deviations is None)
            and (self.present is None or bool((self.present > 0).all()))
            and (
                self.tails is None
                or (self.tails.shape in ((6, len(self.back)), (10, len(self.back))) and bool((self.tails >= 0).all()))
            )
            and (self.sign_values is None) == (self.sign_deviation is None)
            and (self.sign_values is None or self.sign_values.shape == (m,))
            and (self.drawn_values is None) == (self.concentrations is None)
            and (self.drawn_values is None or self.drawn_values.shape == (m,))
            and (self.concentrations is None or (self.concentrations.ndim == 1 and 0 < len(self.concentrations) <= m))
            and (self.counted is None or (self.counted.ndim == 2 and self.counted.shape[1] == m - sides))
            and all(one is None or one.shape == (len(self.back),) for one in (self.beyond, self.center_deviations))
            and (self.center_deviations is None or bool((self.center_deviations >= 0).all()))
            and all(np.isfinite(array).all() for array in arrays)
            and all(0 <= number <= _MOST for number in numbers)
            and self.terms > 0
            and self.rest <= m
            and self.law in LAWS
            and self.kind in KINDS
        )
        if not fits:
            raise ValueError("The parts of a measured moment do not fit together.")

    @property
    def _shares(self) -> tuple[Floats | None, Floats | None]:
        return self.present, self.present_deviations

    @property
    def center_errors(self) -> Floats | None:
        """The deviation of a separately measured centre, column by column; None if there is none."""
        if self.center_deviations is not None or self.center_deviation is None:
            return self.center_deviations
        return np.full(len(self.back), self.center_deviation)

    @property
    def clipped(self) -> float | None:
        """The fraction of rows that may have been clipped; None if the radius is public.

        If rows are clipped to less than the measured radius, it is estimated as for normal rows.
        """
        if self.outside is None:
            return None
        share = min(1.0, self.outside / self.terms)
        if self.outside_radius is None or self.radius >= self.outside_radius or not 0 < share < 1:
            return share
        return share_beyond(share, self.radius / self.outside_radius)

    def scaled(self, factors: Floats) -> Measured:
        """The same with each column divided by its factor."""
        powers = np.array([1, 1, 2, 2, 0, 0, 1, 1, 2, 2])[:, None]
        tails = None if self.tails is None else self.tails / factors ** powers[: len(self.tails)]
        beyond = None if self.beyond is None else self.beyond / factors**2
        center = None if self.center_errors is None else self.center_errors / factors
        return replace(self, back=self.back / factors[:, None], tails=tails, beyond=beyond, center_deviations=center)

    def along_directions(self) -> Measured:
        """The same as if drawn directions were the eigenvectors, and the eigenvalues those measured, without noise."""
        if self.drawn_values is None:
            raise AssertionError("directions were drawn")
        moment = np.diag(isotonic_decreasing(self.drawn_values))
        return replace(self, moment=moment, deviations=np.zeros_like(moment), drawn_values=None, concentrations=None)

    def described(self) -> tuple[dict[str, Floats], dict[str, Any]]:
        """The arrays, and the other values, to be stored in a file."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        arrays = {f"measured_{name}": values.pop(name) for name in _ARRAYS}
        return {name: array for name, array in arrays.items() if array is not None}, values

    @classmethod
    def read(cls, arrays: Mapping[str, Floats], facts: Any) -> Measured:
        """The inverse of `described`."""
        if not isinstance(facts, Mapping) or not set(facts) <= {field.name for field in fields(cls)} - set(_ARRAYS):
            raise ValueError("its 'measured' is not what a release holds there")
        for name, value in facts.items():
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not (isinstance(value, str) if name in ("law", "kind") else number or value is None):
                raise ValueError(f"its 'measured' holds a {name!r} of another type")
        values: dict[str, Any] = {name: arrays.get(f"measured_{name}") for name in _ARRAYS}
        return cls(**values, **facts)


class MeasuredWhenAsked:
    """A field that may be given as a function of released numbers, which is called on first access."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._place = f"_{name}"

    def __get__(self, release: Any, owner: type | None = None) -> Measured | None:
        if release is None:
            return None  # the default
        found = vars(release)[self._place]
        if callable(found):
            found = vars(release)[self._place] = found()
        return found

    def __set__(self, release: Any, given: Measured | Callable[[], Measured | None] | None) -> None:
        vars(release)[self._place] = given
