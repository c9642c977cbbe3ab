"""`LocalParameters`: the parameters that clients and server agree on, and the consent of a client. NumPy only."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

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
from dpeigen.local.privunit import SCALE
from dpeigen.local.wire import MECHANISMS, PUBLISHED, Header, Limits
from dpeigen.privacy.randomness import check_scale
from dpeigen.stats.frame import Frame
from dpeigen.stats.lattice import LEVELS, Lattice

if TYPE_CHECKING:
    pass
__all__ = [
    "AT_MOST",
    "MOST_FEATURES",
    "MOST_ROWS_OF_A_REPORT",
    "REFERENCES",
    "LocalParameters",
    "check_consent",
]

MOST_ROWS_OF_A_REPORT = 2**20  # sums stay in 64-bit integers
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
    """The public parameters of a study: checked on both sides, and enough to make a client or a server.

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
        Most rows that one report may represent.
    seeded_test : bool, default=False
        Whether reports that were made with a seed are accepted.
    constants : {"sharp", "published"}, default="sharp"
        As for `LocalRandomizer`.
    """

    n_features: int
    epsilon: float
    delta: float
    bound: float = 1.0
    mechanism: str = "auto"
    rows: str = "clip"
    most_rows: int = 1  # of one report: the most that a false report can claim
    seeded_test: bool = False  # a test: reports made with a seed are accepted, and nothing in it is private
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
        """The grid that rows are rounded to."""
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
        """The ε of a report at δ: the stated one, or the real one for published constants."""
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

        For the pure randomiser it is slightly smaller along the row (`privunit`); for published constants it is smaller
        on the diagonal.
        """
        return self.widest * self.step

    @property
    def step(self) -> float:
        """The size of one step of a report (a diagonal entry), in units of the data squared."""
        return self.lattice.step**2 if self.mechanism == "gaussian" else self.bound**2 / (SCALE * self.cap.gain)

    def limits(self, rows: int) -> Limits:
        """Return the limits of the numbers of a report.

        Parameters
        ----------
        rows : int
            How many rows it represents.

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
        """Return plain values for JSON; ``seeded_test`` only if it is true.

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
        """SHA-256 of the values, which the person who approves a study confirms."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()


def check_consent(asked: LocalParameters, at_most: Any, owner: str) -> None:
    """Refuse parameters above the (ε, δ) that somebody consented to."""
    must = "a pair (epsilon, delta), the most that is consented to"
    if not isinstance(at_most, (tuple, list)) or len(at_most) != 2:
        raise TypeError(complain("at_most", owner, must, at_most))
    limits = check_epsilon(at_most[0], owner), check_delta(at_most[1], owner)
    remedy = "Give a larger at_most=(epsilon, delta) only if the person whose row it is agrees."
    for name, value, most in zip(("epsilon", "delta"), (asked.real_epsilon, asked.delta), limits, strict=True):
        if value > most:
            raise ValueError(complain(name, owner, f"at most {most:g}, which is what was consented to", value, remedy))
