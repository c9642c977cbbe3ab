"""``gaussian-data-scaled``: Gaussian noise for rows scaled by the longest of them. NOT private; a baseline of papers.

Guarantee: none. The noise and the scale of the release depend on the longest row, which is read without being paid for:
the noise level reveals the length of one row. It is DP-Gauss* of Cai, Xia and Zha 2024. Their DP-Gauss is
`Gaussian(constants="published")` with the bound of `stats.spiked.dp_gauss_radius`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpeigen._validate import complain
from dpeigen.curator import Curator
from dpeigen.methods.base import Estimate, Task, unprotected
from dpeigen.methods.framing import frame_rows
from dpeigen.methods.moment.gaussian import Gaussian
from dpeigen.sources import PairedSource
from dpeigen.stats.raw import RawMoment

__all__ = ["DataScaledGaussian"]


@dataclass(frozen=True)
class DataScaledGaussian(Gaussian):
    """DP-Gauss*: the Gaussian mechanism with the data's own largest norm as the bound."""

    constants: str = "published"

    name = "gaussian-data-scaled"
    reference = "Cai, Xia and Zha 2024, section 6.1 (DP-Gauss*)"
    needs_bound = False
    basis = "none"
    holds_rows = True

    def assumptions(self, task: Task) -> tuple[str, ...]:  # noqa: ARG002
        return ("the noise is scaled by the longest row, which is read from the data and not paid for",)

    def check(self, task: Task) -> None:
        if task.bound is not None:
            remedy = "With a public bound use method='gaussian', which is private."
            raise ValueError(complain("bound", task.owner, f"None for method={self.name!r}", "a bound", remedy))
        super().check(replace(task, bound=1.0))

    def estimate(self, curator: Curator, task: Task) -> Estimate:
        source, rng = unprotected(curator)
        frame, _ = frame_rows(task)
        paired = PairedSource(source, rng) if task.pairs else source
        longest = max(paired.reduce(RawMoment(frame)).longest * float(frame.unit[0]), 1e-140)
        found = super().estimate(curator, replace(task, bound=longest))
        return replace(found, radius_released=True)  # read from the rows
