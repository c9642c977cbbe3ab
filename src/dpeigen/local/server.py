"""`LocalAggregator`: the exact sum of reports. `averaged` has the results from their average.

This code uses only reports, so it costs no privacy. It protects the result: a report that is malformed, truncated,
oversized, not finite, off the grid, out of range, made with other parameters, made with a seed (unless the study is
declared a seeded test) or seen before is refused, counted by reason, and does not change the sum. Sums are of integers,
so the order of reports, their split between machines and the order of merging do not matter.

It cannot detect a false report: a client may report a row that it does not have. A report may claim at most
``most_rows`` rows, and the range of honest reports limits its effect for each of these rows: the norm of a false report
is at most the largest norm of honest noise, but all of it may be along one direction.

>>> from dpeigen.local.client import LocalRandomizer
>>> client = LocalRandomizer(2, epsilon=4.0, delta=1e-6)
>>> server = LocalAggregator(client).add_many(client.report([0.6, 0.8]) for _ in range(200))
>>> server.n_reports, server.add(b"junk"), dict(server.refused)
(200, False, {'not a report': 1})
>>> server.pca(1).components.shape
(1, 2)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from dpeigen._validate import check_choice, check_delta, complain
from dpeigen.io import DamagedReleaseError
from dpeigen.local.averaged import Averaged
from dpeigen.local.client import LocalRandomizer
from dpeigen.local.clip import Clip
from dpeigen.local.containers import reports_in
from dpeigen.local.estimates import diagonal_of
from dpeigen.local.journal import unfinished
from dpeigen.local.parameters import LocalParameters
from dpeigen.local.store import read_state, report_files, write_state
from dpeigen.local.wire import REASONS, Limits, RefusedReportError, Report, decode, peek_rows, size_of
from dpeigen.stats.exact import ExactSum

__all__ = ["LocalAggregator"]


class LocalAggregator(Averaged):
    """The sum of local reports.

    Parameters
    ----------
    randomizer : LocalRandomizer or LocalParameters
        The randomizer of the reports, or its parameters.
    shuffled_delta : float, default=None
        If the reports were shuffled, the δ > 0 at which to state the central guarantee that follows, beside the local
        one. Only set it if a shuffler whom the clients trust hid the order and the senders of all reports that this
        aggregator gets, together. Merged aggregates, or reports added to a saved state, count as shuffled separately:
        the guarantee is that of the smallest batch, and there is none unless both sides declare that they were
        shuffled.
    aggregate : "mean" or "clipped", default="mean"
        "clipped" shortens reports that are larger along one direction than honest ones are with probability 99.9%
        (`dpeigen.local.clip`). This reduces the weight of false reports, and hardly that of honest ones. It takes an
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
        """Add one report.

        Parameters
        ----------
        report : bytes
            The result of `LocalRandomizer.report`.

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
        """Add reports one by one; those that are refused are counted.

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
        """Add the reports of a Parquet or Arrow file, or of all such files in a folder.

        In the folder of a service, running or not, acknowledged reports that are still in a log are added too. A file
        that cannot be read counts as one refusal.

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
        """Decode and check one report without adding it.

        Parameters
        ----------
        report : bytes
            The report.

        Returns
        -------
        Report
            An argument for `take`.

        Raises
        ------
        RefusedReportError
            It is invalid, or was added already.
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
        """Say whether this report was added already.

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
        """Add all reports of another aggregator. Refused as a whole if they share a report.

        Two batches that were shuffled separately do not hide the people of one among those of the other: n of the
        shuffled guarantee is that of the smaller batch, and there is none unless both were shuffled.

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
        """Whether two aggregators have the same reports with the same sum (refusals aside)."""
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
        """Write the state into one file (safetensors, with a digest), atomically.

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
