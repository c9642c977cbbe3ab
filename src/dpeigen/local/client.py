"""`LocalRandomizer`: one row in, one report out. Nobody has to be trusted with the row.

NumPy only: importing this module loads neither SciPy nor scikit-learn nor OpenDP.

Guarantee: (ε, δ)-local differential privacy. For any two rows x, y (or, for `report_rows`, any two tables of a site
that differ in one row) and any set of reports, the probabilities of the set differ by at most a factor e^ε and δ.

Proof for "gaussian" (δ > 0; after Wang and Xu 2019, with the noise that it takes). The row is clipped to the bound
and put on an integer lattice, ‖z‖ ≤ L = 2^20 (`stats.lattice`). The report is zzᵀ plus exact discrete Gaussian noise,
σ on the diagonal and σ/√2 off it: isotropic in the isometric coordinates (diagonal, √2·upper triangle). ‖zzᵀ −
yyᵀ‖²_F = ‖z‖⁴ + ‖y‖⁴ − 2(z·y)² ≤ 2L⁴, so the sensitivity is √2·L² (L² for a single column), and σ is that divided by
the μ of the analytic Gaussian condition, with the allowance for discrete noise (`calibrate.gaussian_share`). A site
sums the zzᵀ of its rows first; one row changes one term, so the sensitivity and the noise are the same. Rounding to
the grid of the report and keeping it in range are functions of the noisy integers: post-processing.

``constants="published"`` is "gaussian" with the noise that Wang and Xu print, σ₁ = √(2·ln(1.25/δ))/ε on every entry of
the upper triangle. They derive it from a sensitivity of 1. It is √2 (e₁e₁ᵀ and e₂e₂ᵀ differ by 1 in two entries), so
the stated ε is not what such reports give. `LocalParameters.real_epsilon` is: the exact ε of μ = √2/σ₁ at the stated δ.
It stands in the guarantee, and consent is asked for it.

Proof for "privunit" (δ = 0): `privunit`.

Every report of the same row costs (ε, δ) again: send one.

>>> client = LocalRandomizer(3, epsilon=1.0, delta=1e-6)
>>> report = client.report([0.3, -0.4, 0.5])
>>> len(report), report[:4]
(88, b'DPEL')
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpeigen._arithmetic import own_error_state
from dpeigen._types import Integers
from dpeigen._validate import (
    check_choice,
    check_count,
    check_delta,
    check_epsilon,
    check_flag,
    check_positive,
    complain,
)
from dpeigen.local.calibrate import CapParameters, check_range, gaussian_epsilon, gaussian_share
from dpeigen.local.privunit import SCALE, direction, randomise
from dpeigen.local.wire import MECHANISMS, PUBLISHED, Header, Limits, encode, size_of
from dpeigen.privacy.randomness import DeviceRandomness, check_scale, randomness
from dpeigen.stats.frame import BadRowsError, Frame
from dpeigen.stats.lattice import EXACT_ROWS, LEVELS, Lattice
from dpeigen.stats.products import exact_product

if TYPE_CHECKING:
    from dpeigen.privacy.guarantee import Guarantee

__all__ = [
    "AT_MOST",
    "MOST_FEATURES",
    "MOST_ROWS_OF_A_REPORT",
    "REFERENCES",
    "LocalParameters",
    "LocalRandomizer",
    "check_consent",
]

MOST_ROWS_OF_A_REPORT = 2**20  # behind one report: sums stay in 64-bit integers
MOST_FEATURES = 8192
_REACH = 13.0  # deviations: an honest number is farther out with probability below 1e-37
_OWNER = "LocalRandomizer"
AT_MOST = (8.0, 1e-5)  # the (ε, δ) that a client agrees to by default
REFERENCES = {
    "gaussian": "Wang and Xu 2019, noise by Balle and Wang 2018",
    "published": "Wang and Xu 2019, Algorithms 1 and 2 as printed",
    "privunit": "Bhowmick et al. 2018; Asi, Feldman, Talwar 2022",
}


@dataclass(frozen=True)
class LocalParameters:
    """What clients and server agree on: public, checked on both sides, and enough to make either.

    Parameters
    ----------
    n_features : int
        Columns of a row.
    epsilon : float
        Of one report.
    delta : float
        Of one report; 0 asks for pure privacy.
    bound : float, default=1.0
        Public bound on the norm of a row.
    mechanism : {"auto", "gaussian", "privunit"}, default="auto"
        As for `LocalRandomizer`.
    rows : {"clip", "scale"}, default="clip"
        As for `LocalRandomizer`.
    most_rows : int, default=1
        Most rows that one report may stand for.
    seeded_test : bool, default=False
        Whether reports that were made with a seed are taken.
    constants : {"sharp", "published"}, default="sharp"
        As for `LocalRandomizer`.
    """

    n_features: int
    epsilon: float
    delta: float
    bound: float = 1.0
    mechanism: str = "auto"
    rows: str = "clip"
    most_rows: int = 1  # behind one report: what one liar can claim to speak for
    seeded_test: bool = False  # a rehearsal: reports made with a seed are taken, and nothing in it is private
    constants: str = "sharp"  # "published": the noise of Wang and Xu as printed, which gives `real_epsilon`

    def __post_init__(self) -> None:
        """Check everything; "auto" becomes the mechanism it stands for."""
        put = object.__setattr__
        put(self, "n_features", check_count("n_features", self.n_features, _OWNER, high=MOST_FEATURES))
        put(self, "epsilon", check_epsilon(self.epsilon, _OWNER))
        put(self, "delta", check_delta(self.delta, _OWNER))
        check_range(self.epsilon, self.delta, _OWNER)
        put(self, "bound", check_positive("bound", self.bound, _OWNER))
        if not 1e-75 <= self.bound <= 1e75:
            raise ValueError(complain("bound", _OWNER, "between 1e-75 and 1e75", self.bound))
        check_choice("rows", self.rows, ["clip", "scale"], _OWNER)
        check_choice("mechanism", self.mechanism, ["auto", *MECHANISMS], _OWNER)
        if self.mechanism == "auto":
            put(self, "mechanism", "gaussian" if self.delta else "privunit")
        if self.mechanism == "gaussian" and not self.delta:
            remedy = "Give a delta well below 1/n such as 1e-6, or mechanism='privunit'."
            raise ValueError(complain("delta", _OWNER, "> 0 for mechanism='gaussian'", self.delta, remedy))
        put(self, "most_rows", check_count("most_rows", self.most_rows, _OWNER, high=MOST_ROWS_OF_A_REPORT))
        put(self, "seeded_test", check_flag("seeded_test", self.seeded_test, _OWNER))
        if self.mechanism != "gaussian" and self.most_rows > 1:
            remedy = "Give a delta > 0, or leave most_rows at 1."
            raise ValueError(complain("most_rows", _OWNER, "1 unless mechanism='gaussian'", self.most_rows, remedy))
        check_choice("constants", self.constants, ["sharp", "published"], _OWNER)
        if self.published and self.mechanism != "gaussian":
            remedy = "Give a delta > 0, or leave constants='sharp'."
            must = "'sharp' unless mechanism='gaussian'"
            raise ValueError(complain("constants", _OWNER, must, self.constants, remedy))
        if self.mechanism == "gaussian":
            _ = self.scale  # refuses noise that does not fit 64-bit integers

    @property
    def published(self) -> bool:
        """Whether the noise is that of the paper."""
        return self.constants == "published"

    @property
    def entries(self) -> int:
        """Numbers in a report."""
        return self.n_features * (self.n_features + 1) // 2

    @property
    def lattice(self) -> Lattice:
        """The grid that rows are put on."""
        return Lattice(Frame(self.n_features), self.bound, "ball" if self.rows == "clip" else "sphere")

    @property
    def header(self) -> Header:
        """The part of a report's header that every report shares."""
        return Header(
            PUBLISHED if self.published else MECHANISMS[self.mechanism],
            self.rows == "scale",
            self.n_features,
            self.epsilon,
            self.delta,
            self.bound,
        )

    @cached_property
    def share(self) -> float:
        """μ of the Gaussian mechanism."""
        if self.published:
            return self._sensitivity / self.scale
        return gaussian_share(self.epsilon, self.delta, self.entries, float(LEVELS**2))

    @cached_property
    def cap(self) -> CapParameters:
        """γ, p and κ of the pure randomiser."""
        return CapParameters.of(self.epsilon, self.entries, SCALE)

    @property
    def _sensitivity(self) -> float:
        """√2·L², or L² for a single column, in steps."""
        return float(LEVELS**2) * (math.sqrt(2) if self.n_features > 1 else 1.0)

    @cached_property
    def scale(self) -> int:
        """σ of the Gaussian mechanism on the diagonal, in steps, rounded up: √2·L²/μ, or σ₁ as printed."""
        if self.published:
            printed = math.sqrt(2 * math.log(1.25 / self.delta)) / self.epsilon
            return math.ceil(check_scale(printed * self.bound**2 / self.step))
        return math.ceil(check_scale(self._sensitivity / self.share * (1 + 1e-12)))

    @property
    def off_scale(self) -> int:
        """The same off the diagonal, where `scale`/√2 is enough; as printed, it is the same."""
        return self.scale if self.published else math.ceil(self.scale / math.sqrt(2))

    @cached_property
    def real_epsilon(self) -> float:
        """The ε that a report gives at δ: the stated one, but for published constants what they really give."""
        if not self.published:
            return self.epsilon
        return gaussian_epsilon(self.share, self.delta, self.entries, float(self.scale))

    @property
    def widest(self) -> float:
        """The largest deviation of a report's noise in isometric coordinates, in steps."""
        if self.mechanism == "privunit":
            return float(SCALE)
        return self.scale * (math.sqrt(2) if self.published and self.n_features > 1 else 1.0)

    @property
    def noise(self) -> float:
        """Standard deviation of one report in isometric coordinates, in units of the data squared.

        Of the pure randomiser, given the row, it is a little less along it (`privunit`); of published constants, less
        on the diagonal.
        """
        return self.widest * self.step

    @property
    def step(self) -> float:
        """What one step of a report (a diagonal entry) is worth in units of the data squared."""
        return self.lattice.step**2 if self.mechanism == "gaussian" else self.bound**2 / (SCALE * self.cap.gain)

    def limits(self, rows: int) -> Limits:
        """Say what the numbers of a report stay within.

        Parameters
        ----------
        rows : int
            How many rows it stands for.

        Returns
        -------
        Limits
            The limits.
        """
        whole, m = float(rows * LEVELS**2), self.entries
        spread = math.sqrt(m + 2 * math.sqrt(60.0 * m) + 120.0)  # Laurent and Massart 2000: exceeded with chance e^−60
        if self.mechanism == "gaussian":
            return Limits(whole + _REACH * self.scale, 1.001 * (whole + spread * (self.widest + 2)), 2.0)
        return Limits(_REACH * SCALE, 1.001 * (spread + _REACH) * SCALE, 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; ``seeded_test`` only where it is true.

        Returns
        -------
        dict
            The values.
        """
        names = ("n_features", "epsilon", "delta", "bound", "mechanism", "rows", "most_rows")
        said = {name: getattr(self, name) for name in names}
        if self.published:
            said["constants"] = self.constants
        return {**said, "seeded_test": True} if self.seeded_test else said

    @property
    def digest(self) -> str:
        """SHA-256 of the values: what whoever approves a study signs off."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()


def check_consent(asked: LocalParameters, at_most: Any, owner: str) -> None:
    """Refuse parameters above the (ε, δ) that somebody consented to."""
    must = "a pair (epsilon, delta), the most that is consented to"
    if not isinstance(at_most, (tuple, list)) or len(at_most) != 2:
        raise TypeError(complain("at_most", owner, must, at_most))
    limits = check_epsilon(at_most[0], owner), check_delta(at_most[1], owner)
    remedy = "Give a larger at_most=(epsilon, delta) only if whoever the row is about agrees to it."
    for name, value, most in zip(("epsilon", "delta"), (asked.real_epsilon, asked.delta), limits, strict=True):
        if value > most:
            raise ValueError(complain(name, owner, f"at most {most:g}, which is what was consented to", value, remedy))


class LocalRandomizer:
    """Randomises rows where they are; what it returns may be shown to anyone.

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
        Most rows that one report may stand for. More than 1 only if sites report sums: a made-up report weighs as much
        as the rows that it claims.
    seeded_test : bool, default=False
        Whether the study is declared a rehearsal, whose aggregator takes reports that were made with a seed.
    constants : "sharp" or "published", default="sharp"
        "published" adds the noise of Wang and Xu 2019 as printed, for comparisons. It does not give the stated ε:
        `parameters.real_epsilon` and the guarantee say what it gives.
    on_bad_row : "refuse" or "drop-to-zero", default="refuse"
        What to do with a row that is not finite.
    random_state : default=None
        None for the operating system's generator; anything else is for tests and not private. Its reports say so, and
        are taken only where the study is declared a seeded test, as the parameters of this randomizer then do.
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
            The largest (ε, δ), or the largest ε with ``delta_at_most`` beside it. The default keeps out what protects
            nobody; it is no recommendation. State what was really consented to.
        delta_at_most : float, default=1e-5
            The largest δ, where ``at_most`` is a number.
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
        """What one report promises to the owner of the row (needs the whole library)."""
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

        The site sees its rows, and nobody else has to be trusted; the guarantee is for replacing one of them. If one
        person has rows at several sites, what the sites report composes.

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
            # The values are not shown: they are what is protected.
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
