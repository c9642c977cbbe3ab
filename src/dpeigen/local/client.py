"""`LocalRandomizer`: makes one report from one row. Nobody else sees the row.

NumPy only: importing this module loads neither SciPy nor scikit-learn nor OpenDP.

Guarantee: (ε, δ)-local differential privacy. For any two rows x, y (or, for `report_rows`, any two tables of a site
that differ in one row) and any set of reports, the probabilities of the set differ by at most a factor e^ε and δ.

Proof for "gaussian" (δ > 0; after Wang and Xu 2019, with the noise that is needed). The row is clipped to the bound
and put on an integer lattice, ‖z‖ ≤ L = 2^20 (`stats.lattice`). The report is zzᵀ plus exact discrete Gaussian noise,
σ on the diagonal and σ/√2 off it: isotropic in the isometric coordinates (diagonal, √2·upper triangle). ‖zzᵀ −
yyᵀ‖²_F = ‖z‖⁴ + ‖y‖⁴ − 2(z·y)² ≤ 2L⁴, so the sensitivity is √2·L² (L² for a single column), and σ is that divided by
the μ of the analytic Gaussian condition, with the allowance for discrete noise (`calibrate.gaussian_share`). A site
sums the zzᵀ of its rows first; one row changes one term, so the sensitivity and the noise are the same. Rounding to
the grid of the report and keeping it in range are functions of the noisy integers: post-processing.

``constants="published"`` is "gaussian" with the noise that Wang and Xu print, σ₁ = √(2·ln(1.25/δ))/ε on every entry of
the upper triangle. They derive it from a sensitivity of 1. It is √2 (e₁e₁ᵀ and e₂e₂ᵀ differ by 1 in two entries), so
such reports do not have the stated ε. They have `LocalParameters.real_epsilon`, the exact ε of μ = √2/σ₁ at the stated
δ. The guarantee states it, and clients consent to it.

Proof for "privunit" (δ = 0): `privunit`.

Every report of the same row costs (ε, δ) again: send one.

>>> client = LocalRandomizer(3, epsilon=1.0, delta=1e-6)
>>> report = client.report([0.3, -0.4, 0.5])
>>> len(report), report[:4]
(88, b'DPEL')
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpeigen._arithmetic import own_error_state
from dpeigen._types import Integers
from dpeigen._validate import (
    check_choice,
    check_count,
    check_flag,
    complain,
)
from dpeigen.local.parameters import AT_MOST, LocalParameters, check_consent
from dpeigen.local.privunit import direction, randomise
from dpeigen.local.wire import encode, size_of
from dpeigen.privacy.randomness import DeviceRandomness, randomness
from dpeigen.stats.frame import BadRowsError
from dpeigen.stats.lattice import EXACT_ROWS
from dpeigen.stats.products import exact_product

if TYPE_CHECKING:
    from dpeigen.privacy.guarantee import Guarantee

__all__ = ["LocalRandomizer"]

_OWNER = "LocalRandomizer"


class LocalRandomizer:
    """Randomises rows on the client; the reports that it returns may be shown to anyone.

    Parameters
    ----------
    n_features : int
        Columns of a row.
    epsilon, delta : float
        The guarantee of one report. δ = 0 asks for pure privacy.
    bound : float, default=1.0
        Public bound on the norm of a row; longer rows are clipped to it. Never take it from the data.
    mechanism : "auto", "gaussian" or "privunit", default="auto"
        "auto" is "gaussian" for δ > 0 and "privunit" for δ = 0. "privunit" is purely private and, for any usual δ, also
        less noisy; it reports one row, not the sum of a site.
    rows : "clip" or "scale", default="clip"
        Clip longer rows to the bound, or scale every row to it: only directions are reported, for PCA of data whose
        typical row is much shorter than its longest.
    most_rows : int, default=1
        Most rows that one report may represent. More than 1 only if sites report sums: a false report has the weight of
        the rows that it claims.
    seeded_test : bool, default=False
        Whether the study is declared a test, whose aggregator accepts reports that were made with a seed.
    constants : "sharp" or "published", default="sharp"
        "published" adds the noise of Wang and Xu 2019 as printed, for comparisons. It does not give the stated ε:
        `parameters.real_epsilon` and the guarantee say what it gives.
    on_bad_row : "refuse" or "drop-to-zero", default="refuse"
        What to do with a row that is not finite.
    random_state : default=None
        None for the operating system's generator; anything else is for tests and not private. Such reports say so, and
        are accepted only if the study is declared a seeded test, as the parameters of this randomizer then do.
    """

    def __init__(
        self,
        n_features: int,
        *,
        epsilon: float,
        delta: float,
        bound: float = 1.0,
        mechanism: str = "auto",
        rows: str = "clip",
        most_rows: int = 1,
        seeded_test: bool = False,
        constants: str = "sharp",
        on_bad_row: str = "refuse",
        random_state: Any = None,
    ) -> None:
        self._rng = DeviceRandomness() if random_state is None else randomness(random_state)
        test = check_flag("seeded_test", seeded_test, _OWNER) or self._rng.seeded
        self.parameters = LocalParameters(
            n_features, epsilon, delta, bound, mechanism, rows, most_rows, test, constants
        )
        self._on_bad_row = check_choice("on_bad_row", on_bad_row, ["refuse", "drop-to-zero"], _OWNER)
        self._upper = np.triu_indices(self.parameters.n_features)

    @classmethod
    def from_parameters(
        cls,
        parameters: Any,
        *,
        at_most: float | tuple[float, float] = AT_MOST,
        delta_at_most: float = AT_MOST[1],
        **options: Any,
    ) -> LocalRandomizer:
        """Make a randomizer from what a server publishes, unless it asks for more than is consented to.

        Parameters
        ----------
        parameters : LocalParameters or dict
            What the server publishes.
        at_most : float or (float, float), default=(8.0, 1e-5)
            The largest (ε, δ), or the largest ε together with ``delta_at_most``. The default only refuses parameters
            that protect nobody; it is not a recommendation. State the (ε, δ) that was consented to.
        delta_at_most : float, default=1e-5
            The largest δ, if ``at_most`` is a number.
        **options : options of LocalRandomizer
            ``on_bad_row`` and ``random_state``.

        Returns
        -------
        LocalRandomizer
            The randomizer.
        """
        given = parameters.to_dict() if isinstance(parameters, LocalParameters) else dict(parameters)
        most = at_most if isinstance(at_most, tuple) else (at_most, delta_at_most)
        check_consent(LocalParameters(**given), most, f"{_OWNER}.from_parameters")
        return cls(**given, **options)

    @property
    def n_features(self) -> int:
        """The number of columns d."""
        return self.parameters.n_features

    @property
    def report_size(self) -> int:
        """Bytes of one report."""
        return size_of(self.n_features)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of one report for the owner of the row (needs the whole library)."""
        from dpeigen.local.promise import local_guarantee

        return local_guarantee(self.parameters, seeded=self._rng.seeded)

    @own_error_state
    def report(self, x: ArrayLike) -> bytes:
        """Randomise one row.

        Parameters
        ----------
        x : (d,) array
            The row.

        Returns
        -------
        bytes
            The report, which may be shown to anyone.
        """
        row = self._table(np.atleast_2d(np.asarray(x)), "x")
        if len(row) != 1:
            raise ValueError(complain("x", "report", "one row", f"{len(row)} rows", "Use report_rows for a site's."))
        z = self._lattice_rows(row)[0]
        pure = self.parameters.mechanism == "privunit"
        return self._sealed(self._cap(z) if pure else self._noisy(self._upper_gram(z[None])), 1)

    @own_error_state
    def report_rows(self, X: ArrayLike) -> bytes:
        """Make one report for all rows of a site: their sum with the noise of one row. Their number is public.

        Only the site sees its rows. The guarantee is for replacing one of them. If one person has rows at several
        sites, the guarantees of their reports compose.

        Parameters
        ----------
        X : (m, d) array
            The rows.

        Returns
        -------
        bytes
            The report, which may be shown to anyone.
        """
        if self.parameters.mechanism != "gaussian":
            must = "'gaussian' for the sum of a site: the pure randomiser reports directions of single rows"
            remedy = "Give a delta > 0, or send one report for each row."
            raise ValueError(complain("mechanism", "report_rows", must, self.parameters.mechanism, remedy))
        table = self._table(np.asarray(X), "X")
        count = check_count("rows of X", len(table), "report_rows")
        if count > self.parameters.most_rows:
            remedy = f"Agree on most_rows of {count} or more: reports of more rows are refused."
            must = f"at most most_rows, which is {self.parameters.most_rows}"
            raise ValueError(complain("rows of X", "report_rows", must, count, remedy))
        total = np.zeros(self.parameters.entries, dtype=np.int64)
        size = max(1, min(EXACT_ROWS, 2**22 // self.n_features))
        for start in range(0, count, size):
            total += self._upper_gram(self._lattice_rows(table[start : start + size]))
        return self._sealed(self._noisy(total), count)

    def _table(self, table: NDArray[Any], name: str) -> NDArray[np.float64]:
        d = self.n_features
        if table.dtype.kind not in "fiub" or table.ndim != 2 or table.shape[1] != d:
            # The values are not shown: they are private.
            raise ValueError(complain(name, _OWNER, f"numbers, {d} to a row", f"{table.dtype}, shape {table.shape}"))
        return table.astype(np.float64)

    def _lattice_rows(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        good = np.asarray(np.isfinite(table).all(axis=1))
        if not good.all() and self._on_bad_row == "refuse":
            raise BadRowsError("A row holds NaN or infinite entries. Nothing was sent. Clean it, or 'drop-to-zero'.")
        return self.parameters.lattice.integers(np.where(good[:, None], table, 0.0))

    def _upper_gram(self, z: NDArray[np.float64]) -> Integers:
        gram: Integers = exact_product(z.T, z)[self._upper].astype(np.int64)  # integers below 2^53
        return gram

    def _noisy(self, statistic: Integers) -> Integers:
        p, scale, off = self.n_features, self.parameters.scale, self.parameters.off_scale
        noise = np.empty(len(statistic), dtype=np.int64)
        on = self._upper[0] == self._upper[1]
        noise[on] = self._rng.discrete_gaussian(scale, p)
        if p > 1:
            noise[~on] = self._rng.discrete_gaussian(off, len(statistic) - p)
        return statistic + noise

    def _cap(self, z: NDArray[np.float64]) -> Integers:
        vector = np.outer(z, z)[self._upper] * np.where(self._upper[0] == self._upper[1], 1.0, math.sqrt(2))
        length = float(np.dot(z, z)) / self.parameters.lattice.inner**2
        return randomise(direction(vector, min(1.0, length), self._rng), self.parameters.cap, self._rng)

    def _sealed(self, steps: Integers, rows: int) -> bytes:
        limits = self.parameters.limits(rows)
        return encode(steps, self.parameters.header, limits, rows=rows, seeded=self._rng.seeded, name=self._rng.token())
