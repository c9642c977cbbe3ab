"""`LocalAggregator`: adds reports up, exactly, and computes what their average tells.

Everything here sees reports only, so nothing here costs privacy. What it guards is the result: a report that is
malformed, truncated, oversized, not finite, off the grid, out of range, made with other parameters, made with a seed
(unless the study is declared a seeded test) or seen before is refused by itself, counted by reason, and leaves the sum
as it was, bit for bit. Sums are of integers, so that the
order of reports, the way they are split between machines and the order of merging do not matter.

What it cannot see is a lie: a client may report a row that it does not have. A report may claim ``most_rows`` rows and
no more, and the range that honest reports stay in bounds what it can do for each row that it claims: the norm of a lie
is at most the largest that honest noise has, but a liar may put all of it along one direction.

>>> from dpeigen.local.client import LocalRandomizer
>>> client = LocalRandomizer(2, epsilon=4.0, delta=1e-6)
>>> server = LocalAggregator(client).add_many(client.report([0.6, 0.8]) for _ in range(200))
>>> server.n_reports, server.add(b"junk"), dict(server.refused)
(200, False, {'not a report': 1})
>>> server.pca(1).components.shape
(1, 2)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import check_choice, check_count, check_delta, complain
from dpeigen.facts import made_now
from dpeigen.io import DamagedReleaseError
from dpeigen.local.client import LocalRandomizer
from dpeigen.local.clip import Clip
from dpeigen.local.containers import reports_in
from dpeigen.local.estimates import Estimated, all_eigenvectors, average, diagonal_of, sparse_eigenvectors
from dpeigen.local.journal import unfinished
from dpeigen.local.parameters import LocalParameters
from dpeigen.local.promise import local_guarantee, shuffled_guarantee
from dpeigen.local.store import read_state, report_files, write_state
from dpeigen.local.wire import REASONS, Limits, RefusedReportError, Report, decode, peek_rows, size_of
from dpeigen.privacy.guarantee import Guarantee
from dpeigen.release import Release
from dpeigen.stats.exact import ExactSum

__all__ = ["LocalAggregator"]


class LocalAggregator:
    """The sum of local reports.

    Parameters
    ----------
    randomizer : LocalRandomizer or LocalParameters
        What the reports are made with.
    shuffled_delta : float, default=None
        If the reports were shuffled, the δ > 0 at which to state the central guarantee that follows, beside the local
        one. Only set it if a shuffler whom the clients trust hid the order and the senders of all the reports that this
        aggregator is given, together. What is merged, or added to a saved state, counts as shuffled apart: the
        guarantee is that of the smallest batch, and of none if one side does not say that it was shuffled.
    aggregate : "mean" or "clipped", default="mean"
        "clipped" shortens reports that are longer, along one direction, than an honest one is but for a chance of one
        in a thousand (`dpeigen.local.clip`): lies weigh less, honest reports almost the same. It takes an
        eigendecomposition for each report.
    """

    def __init__(
        self,
        randomizer: LocalRandomizer | LocalParameters,
        *,
        shuffled_delta: float | None = None,
        aggregate: str = "mean",
    ) -> None:
        known = getattr(randomizer, "parameters", randomizer)
        if not isinstance(known, LocalParameters):
            must = "a LocalRandomizer or its parameters"
            raise TypeError(complain("randomizer", "LocalAggregator", must, type(randomizer).__name__))
        self.parameters = known
        if shuffled_delta is not None and not check_delta(shuffled_delta, "LocalAggregator") > 0:
            must = "> 0: shuffling adds nothing without a δ"
            raise ValueError(complain("shuffled_delta", "LocalAggregator", must, shuffled_delta))
        self.shuffled_delta = None if shuffled_delta is None else float(shuffled_delta)
        self.aggregate = check_choice("aggregate", aggregate, ["mean", "clipped"], "LocalAggregator")
        self.n_reports = 0
        self.n_rows = 0
        self.n_seeded = 0
        self.n_clipped = 0
        self.refused: Counter[str] = Counter()
        self._sum = ExactSum((known.entries,))
        self._seen: set[bytes] = set()
        self._diagonal = diagonal_of(known.n_features)
        self._limits: dict[int, Limits] = {}
        self._clip = Clip(known) if self.aggregate == "clipped" else None
        self._smallest, self._before = 0, 0  # of the batches shuffled apart: the smallest; reports in all but the last

    # --- taking reports in -----------------------------------------------------------------------------------------

    def add(self, report: Any) -> bool:
        """Take one report.

        Parameters
        ----------
        report : bytes
            What `LocalRandomizer.report` returned.

        Returns
        -------
        bool
            False if it was refused; the reason is counted in ``refused``.
        """
        try:
            self.take(self.read(report))
        except RefusedReportError as refusal:
            self.refused[refusal.reason] += 1
            return False
        return True

    def add_many(self, reports: Iterable[Any]) -> LocalAggregator:
        """Take reports one by one; those that are refused are counted.

        Parameters
        ----------
        reports : iterable of bytes
            The reports.

        Returns
        -------
        LocalAggregator
            The aggregator itself.
        """
        for report in reports:
            self.add(report)
        return self

    def add_files(self, path: str | Path, progress: Callable[[int, int], None] | None = None) -> LocalAggregator:
        """Take the reports of a Parquet or Arrow file, or of all such files in a folder.

        In the folder of a service, running or not, also those that it acknowledged and has in a log so far. A file that
        cannot be read counts as one refusal.

        Parameters
        ----------
        path : path
            The file or the folder.
        progress : function of (int, int), default=None
            Called with the number of finished files and of all files.

        Returns
        -------
        LocalAggregator
            The aggregator itself.
        """
        logs = unfinished(Path(path), 2 * size_of(self.n_features)) if Path(path).is_dir() else iter(())
        files = report_files(path)
        for done, file in enumerate(files, 1):
            try:
                for batch in reports_in(file):
                    self.add_many(batch)
            except RefusedReportError as refusal:
                self.refused[refusal.reason] += 1
            if progress:
                progress(done, len(files))
        for log, found in logs:
            if log.with_suffix(".parquet") not in files:
                self.add_many(found)
        return self

    def read(self, report: Any) -> Report:
        """Decode and check one report without taking it.

        Parameters
        ----------
        report : bytes
            The report.

        Returns
        -------
        Report
            What `take` takes.

        Raises
        ------
        RefusedReportError
            It is not good, or not new.
        """
        if not isinstance(report, bytes):
            raise RefusedReportError("not bytes")
        rows = peek_rows(report)
        known = rows if 1 <= rows <= self.parameters.most_rows else 1
        limits = self._limits.get(known)
        if limits is None:
            if len(self._limits) > 1000:
                self._limits.clear()
            limits = self._limits[known] = self.parameters.limits(known)
        found = decode(report, self.parameters.header, limits, self._diagonal)
        if found.rows != known:
            raise RefusedReportError("parameters")
        if found.seeded and not self.parameters.seeded_test:
            raise RefusedReportError("seeded")
        if self.holds(found):
            raise RefusedReportError("duplicate")
        return found

    def holds(self, report: Report) -> bool:
        """Say whether this report was taken already.

        Parameters
        ----------
        report : Report
            What `read` returned.

        Returns
        -------
        bool
            True if it was.
        """
        return report.identity in self._seen

    def take(self, report: Report) -> None:
        """Add a report that was read.

        Parameters
        ----------
        report : Report
            What `read` returned.
        """
        steps = report.steps
        if self._clip is not None:
            steps, short = self._clip(steps, report.rows)
            self.n_clipped += short
        self._sum.add(steps)
        self._seen.add(report.identity)
        self.n_reports += 1
        self.n_rows += report.rows
        self.n_seeded += report.seeded

    def merge(self, other: LocalAggregator) -> LocalAggregator:
        """Take all that another aggregator has taken. Refused as a whole if they share a report.

        Two batches that were shuffled apart hide nobody of one among the other: n of the shuffled guarantee is that of
        the smaller one, and unless both were shuffled there is none.

        Parameters
        ----------
        other : LocalAggregator
            With the same parameters.

        Returns
        -------
        LocalAggregator
            The aggregator itself.
        """
        if other.parameters != self.parameters or other.aggregate != self.aggregate:
            raise ValueError("Aggregators of different parameters or kinds ('aggregate') cannot be merged.")
        twice = len(self._seen & other._seen)
        if twice:
            raise ValueError(f"{twice} reports are in both aggregators; a report counts once. Nothing was merged.")
        self._smallest = min(filter(None, (self.n_shuffled, other.n_shuffled)), default=0)
        if other.shuffled_delta is None:
            self.shuffled_delta = None
        self._sum.merge(other._sum)
        self._seen |= other._seen
        self.n_reports += other.n_reports
        self._before = self.n_reports
        self.n_rows += other.n_rows
        self.n_seeded += other.n_seeded
        self.n_clipped += other.n_clipped
        self.refused += other.refused
        return self

    def __eq__(self, other: object) -> bool:
        """Whether two aggregators hold the same reports with the same sum (refusals aside)."""
        return (
            isinstance(other, LocalAggregator)
            and (self.parameters, self.aggregate) == (other.parameters, other.aggregate)
            and (self.n_reports, self.n_rows, self.n_seeded) == (other.n_reports, other.n_rows, other.n_seeded)
            and self._seen == other._seen
            and bool(np.array_equal(self._sum.value, other._sum.value))
        )

    __hash__ = None  # type: ignore[assignment]

    # --- on disk ----------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write the state into one file (safetensors, with a digest), complete or not at all.

        Parameters
        ----------
        path : path
            The file.

        Returns
        -------
        Path
            The file.
        """
        high, low = self._sum.limbs
        seen = np.frombuffer(b"".join(sorted(self._seen)), dtype=np.uint8).reshape(-1, 16)
        description = {
            "parameters": self.parameters.to_dict(),
            "n_reports": self.n_reports,
            "n_rows": self.n_rows,
            "n_seeded": self.n_seeded,
            "aggregate": self.aggregate,
            "n_clipped": self.n_clipped,
            "refused": dict(self.refused),
            "shuffled_delta": self.shuffled_delta,
            "n_shuffled": self.n_shuffled,
        }
        return write_state(path, {"high": high, "low": low, "seen": seen}, description)

    @classmethod
    def load(cls, path: str | Path) -> LocalAggregator:
        """Resume from a saved state.

        Parameters
        ----------
        path : path
            The file that `save` wrote.

        Returns
        -------
        LocalAggregator
            The aggregator.

        Raises
        ------
        DamagedReleaseError
            The file is damaged, truncated or edited.
        """
        arrays, said = read_state(path)
        try:
            known, kind = LocalParameters(**said["parameters"]), said.get("aggregate", "mean")
            made = cls(known, shuffled_delta=said["shuffled_delta"], aggregate=kind)
            made.n_clipped = int(said.get("n_clipped", 0))
            made._sum = ExactSum.of_limbs(arrays["high"], arrays["low"], (made.parameters.entries,))
            made._seen = {row.tobytes() for row in arrays["seen"]}
            made.n_reports, made.n_rows, made.n_seeded = (int(said[n]) for n in ("n_reports", "n_rows", "n_seeded"))
            made._smallest, made._before = int(said["n_shuffled"]), made.n_reports
            made.refused = Counter({str(k): int(v) for k, v in said["refused"].items() if k in REASONS})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedReleaseError(f"{path} does not hold the state of an aggregator: {error}") from None
        if len(made._seen) != made.n_reports:
            raise DamagedReleaseError(f"{path} does not hold the state of an aggregator: reports are missing.")
        return made

    # --- what the average tells -------------------------------------------------------------------------------------

    @property
    def guarantee(self) -> Guarantee:
        """What every report promises to the owner of its row."""
        return local_guarantee(self.parameters, seeded=self._seeded, sites=self.n_rows > self.n_reports)

    @property
    def _seeded(self) -> bool:
        return self.parameters.seeded_test or self.n_seeded > 0

    @property
    def shuffled_guarantee(self) -> Guarantee | None:
        """What the reports promise together if they were shuffled; None if nobody said they were.

        None too if a report is the sum of a site: it says how many rows it has, by which it can be told apart.
        """
        if self.shuffled_delta is None or not self.n_reports or self.n_rows != self.n_reports:
            return None
        return shuffled_guarantee(self.parameters, self.n_shuffled, self.shuffled_delta, seeded=self._seeded)

    @property
    def n_shuffled(self) -> int:
        """How many reports were shuffled together, if they were: the smallest of the batches."""
        return min(filter(None, (self._smallest, self.n_reports - self._before)), default=0)

    @property
    def moment(self) -> Floats:
        """The average of xxᵀ over all rows as the reports tell it: symmetric, unbiased, not projected on anything."""
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
