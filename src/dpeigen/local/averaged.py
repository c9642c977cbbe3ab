"""Results from the average of local reports: guarantees, the moment, and releases computed from it.

This code uses only the sum of reports, so it costs no privacy.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import check_count
from dpeigen.facts import made_now
from dpeigen.local.estimates import Estimated, all_eigenvectors, average, sparse_eigenvectors
from dpeigen.local.parameters import LocalParameters
from dpeigen.local.promise import local_guarantee, shuffled_guarantee
from dpeigen.privacy.guarantee import Guarantee
from dpeigen.release import Release
from dpeigen.stats.exact import ExactSum

__all__ = ["Averaged"]


class Averaged:
    """What can be computed from the sum of local reports; `LocalAggregator` adds them up."""

    # Those of the aggregator.
    parameters: LocalParameters
    shuffled_delta: float | None
    aggregate: str
    n_reports: int
    n_rows: int
    n_seeded: int
    n_clipped: int
    refused: Counter[str]
    _sum: ExactSum
    _smallest: int
    _before: int

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of each report for the owner of its row."""
        return local_guarantee(self.parameters, seeded=self._seeded, sites=self.n_rows > self.n_reports)

    @property
    def _seeded(self) -> bool:
        return self.parameters.seeded_test or self.n_seeded > 0

    @property
    def shuffled_guarantee(self) -> Guarantee | None:
        """The guarantee of all reports together if they were shuffled; None if this was not declared.

        It is also None if a report is the sum of a site: its stated number of rows distinguishes it from others.
        """
        if self.shuffled_delta is None or not self.n_reports or self.n_rows != self.n_reports:
            return None
        return shuffled_guarantee(self.parameters, self.n_shuffled, self.shuffled_delta, seeded=self._seeded)

    @property
    def n_shuffled(self) -> int:
        """The number of reports in the smallest batch that was shuffled together, if any were shuffled."""
        return min(filter(None, (self._smallest, self.n_reports - self._before)), default=0)

    @property
    def moment(self) -> Floats:
        """The average of xxᵀ over all rows, estimated from the reports: symmetric, unbiased and not projected."""
        self._require()
        return average(self.parameters, self._sum.value, self.n_rows)

    @property
    def n_features(self) -> int:
        """The number of columns d."""
        return self.parameters.n_features

    @property
    def noise_deviation(self) -> float:
        """Standard deviation of the noise on an off-diagonal entry of `moment`; public."""
        self._require()
        return self.parameters.noise / math.sqrt(2) * math.sqrt(self.n_reports) / self.n_rows

    def covariance(self, *, shrink: bool = True) -> Release:
        """Estimate the second moment about 0: shrunk for the known noise and projected on {PSD, trace ≤ bound²}.

        Parameters
        ----------
        shrink : bool, default=True
            Remove the known inflation of the noisy eigenvalues.

        Returns
        -------
        Release
            It may be published.
        """
        return self._release("covariance", all_eigenvectors(self.moment, *self._known, self.n_features, shrink=shrink))

    def pca(self, k: int) -> Release:
        """Estimate the first principal components about 0.

        Parameters
        ----------
        k : int
            How many.

        Returns
        -------
        Release
            It may be published.
        """
        k = check_count("k", k, "LocalAggregator.pca", high=self.n_features)
        return self._release("pca", all_eigenvectors(self.moment, *self._known, k))

    def sparse_pca(self, k: int, penalty: float | None = None) -> Release:
        """Estimate components that share few columns: Fantope projection and selection (Vu, Cho, Lei, Rohe 2013).

        The eigenvalues are those of the moment along the components.

        Parameters
        ----------
        k : int
            How many.
        penalty : float, default=None
            In units of `moment`; None: chosen from the noise level of the average and the number of columns, which are
            public.

        Returns
        -------
        Release
            It may be published.
        """
        k = check_count("k", k, "LocalAggregator.sparse_pca", high=self.n_features)
        return self._release("pca", sparse_eigenvectors(self.moment, self.noise_deviation, k, penalty))

    def _require(self) -> None:
        if not self.n_reports:
            raise ValueError(f"There are no reports to compute from ({sum(self.refused.values())} were refused).")

    @property
    def _known(self) -> tuple[float, float]:
        """The noise on an entry of `moment`, and the largest trace that it may have; public."""
        return self.noise_deviation, self.parameters.bound**2

    def _release(self, kind: str, found: Estimated) -> Release:
        shuffled = self.shuffled_guarantee
        facts = {
            "method": f"local-{self.parameters.mechanism}",
            "n_rows": self.n_rows,
            "n_rows_is": "public",
            "noise_deviation": self.noise_deviation,
            "radius": self.parameters.bound,
            "radius_is": "public",
            "center": "public",
            "feature_names": None,  # reports have columns without names
            "details": {
                **found.details,
                "parameters": self.parameters.to_dict(),
                "n_reports": self.n_reports,
                "aggregate": self.aggregate,
                "n_clipped": self.n_clipped,
                "refused": dict(self.refused),
                "shuffled_guarantee": None if shuffled is None else shuffled.to_dict(),
            },
            **made_now(),
        }
        mean = np.zeros(self.n_features)
        return Release(
            kind,
            found.components,
            found.values,
            found.covariance,
            mean,
            found.rest,
            self.guarantee,
            facts,  # type: ignore[arg-type]
        )
