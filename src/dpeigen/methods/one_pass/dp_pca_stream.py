"""The stream of ``dp-pca``; its guarantee and proof are in `one_pass.dp_pca`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen.curator import Curator
from dpeigen.methods.base import Estimate, Task
from dpeigen.methods.framing import frame_rows
from dpeigen.methods.one_pass.dp_pca import DPPCA, LARGEST_RATIO, UNKNOWN_RATIO
from dpeigen.methods.one_pass.mean import MeanRelease, MeanShares, NearShares, ask_mean, ask_near_mean
from dpeigen.methods.one_pass.printed import ask_printed_mean
from dpeigen.methods.one_pass.schedule import START, cautious, gain
from dpeigen.methods.one_pass.spread import ask_ratios, ask_top_eigenvalue, histogram_share, scale_shares
from dpeigen.methods.one_pass.streaming import Stream, components_of
from dpeigen.privacy import Spend
from dpeigen.privacy.histogram import tail_spend
from dpeigen.stats import Frame
from dpeigen.stats.frame import LARGEST_FACT, RowView
from dpeigen.stats.gradients import Clipped, Gradients, SquaredScores
from dpeigen.stats.spectrum import orthonormal

__all__ = ["NOTES", "WEAK", "DPPCAStream"]

_SCALE_OF_CONSTANTS = 2.0**-80  # for constant vectors


class DPPCAStream(Stream):
    """The stream of ``dp-pca``."""

    saved = ("sizes", "ratios", "errors", "steps", "skipped", "queue", "turn", "variances_at", "reach", "lengths")

    mechanism = "stability histograms, sparse vector, discrete Gaussian"

    def __init__(self, method: DPPCA, task: Task, start: Floats) -> None:
        frame, radius = frame_rows(task, weighted=False)
        super().__init__(task, frame, radius if isinstance(task.bound, float) else None, start)
        self.method = method
        k, d = components_of(task), task.n_features
        self.ratios: list[float] = [UNKNOWN_RATIO] * k
        self.errors = [START * d] * k  # the expected squared tangent of the angle error
        self.steps = [0] * k
        self.reach = [0.0] * k  # the last radius of the gradients of a direction; 0 if none was released yet
        self.lengths = [0.0] * k  # of the last mean gradient
        self.skipped = 0  # batches whose scale was not found: paid for, not used
        self.queue = [*(["centre"] if task.private_center else []), *(["spectrum"] if method.gap is None else [])]
        self.variances_at = 0  # the turn of the last release of variances
        self.turn = 0  # batches for directions so far
        self.sizes: list[list[int]] | None = None  # of each direction's batches; None if the number of rows is unknown
        if task.n_rows is not None:
            self.sizes = method.plan(task, self._left_for_directions(), self.ratios)
        self._asked = 0  # rows of the batch that was wanted last
        self._shares: dict[tuple[int, int], MeanShares] = {}
        self._near: dict[tuple[int, int], NearShares] = {}

    def _left_for_directions(self) -> int:
        """Remaining rows that are not for anything else; n is public."""
        rows = self.task.n_rows or 0
        others = self.method.other_rows(self.task, rows) * (1 + ("centre" in self.queue))
        spectrum = self.method.spectrum_rows(self.task) if "spectrum" in self.queue else 0
        return rows - self.rows_used - others - spectrum

    # --- what a batch is for; depends on public facts, on how many there were, and on what was released -------------

    def _direction(self) -> int:
        """The next direction: one after the other if the number of rows is known; k if all are done."""
        k = len(self.directions)
        if self.sizes is None:
            return self.turn % k
        done = 0
        for j, sizes in enumerate(self.sizes):
            done += len(sizes)
            if self.turn < done:
                return j
        return k

    def _role(self) -> str:
        if self.queue:
            return self.queue[0]
        k = len(self.directions)
        if self.sizes is not None:
            return "direction" if self._direction() < k else "variances" if self.variances is None else ""
        # If the number of rows is unknown, variances are released after rounds 1, 2, 4, 8 …; until they are found once,
        # after each round.
        round_, position = divmod(self.turn, k)
        due = position == 0 and round_ > 0 and (self.variances is None or round_ & (round_ - 1) == 0)
        return "variances" if due and self.variances_at != self.turn else "direction"

    def wanted(self) -> int:
        self._asked = self._rows_of(self._role(), self.turn, self.rows_used)
        return self._asked

    def _rows_of(self, role: str, turn: int, used: int) -> int:
        """Rows of a batch; ``turn`` and ``used``: batches for directions, and rows, before it."""
        method, task, per_term = self.method, self.task, self.frame.rows_per_term
        if not role:
            return 0
        if role == "spectrum":
            return method.spectrum_rows(task)
        if role != "direction":
            return method.other_rows(task, task.n_rows or 2 * used)
        if self.sizes is not None:
            return [size for sizes in self.sizes for size in sizes][turn]
        if method.batch is not None:
            return method.batch
        k = len(self.directions)
        known = turn >= k and self.reach[turn % k] > 0
        least = 2 * method.least_next(task) if known else method.least_batch(task)
        return min(max(least, used // (4 * k)), method.largest_batch(task)) // per_term * per_term

    def use(self, batch: Curator) -> None:
        # What was wanted for this batch: `rows_used`, on which sizes may depend, counts it already.
        role, terms, view = self._role(), self._asked // self.frame.rows_per_term, Clipped(self.frame, self.radius)
        if role == "centre":
            self._ask_center(batch, view, terms)
        elif role == "spectrum":
            found = ask_ratios(batch.part(scale_shares(self.task.budget)), view, terms, len(self.directions))
            self.ratios = [UNKNOWN_RATIO if r is None else min(r, LARGEST_RATIO) for r in found]
        elif role == "direction":
            j = self._direction()
            self._ask_direction(batch, view, terms, j)
            self.turn += 1
            if not self.reach[j]:
                self._join_batches(j)
        else:
            self._ask_variances(batch, view, terms)
        if self.queue:
            self.queue.pop(0)
            if role == "spectrum" and self.sizes is not None:
                # `rows_used` counts this batch already.
                self.sizes = self.method.plan(self.task, self._left_for_directions(), self.ratios)

    def _join_batches(self, j: int) -> None:
        """If no scale was found, make the next batch large enough to ask for one again."""
        if self.sizes is None or self.method.batch is not None:
            return
        at = self.turn - sum(map(len, self.sizes[:j]))
        done, rest = self.sizes[j][:at], self.sizes[j][at:]
        least, joined = self.method.least_batch(self.task), 0
        while rest and joined < least:
            joined += rest.pop(0)
        self.sizes[j] = [*done, *([joined] if joined >= least else []), *rest]

    def _ask_mean(self, batch: Curator, view: RowView, terms: int, widen: float = 2**0.25) -> MeanRelease | None:
        """The mean of the images of the second part at the scale of the first; None if no scale is found."""
        budget, d = self.task.budget, view.n_columns
        few = self.method.scale_terms(self.task, terms)
        vectors = terms - few
        if (vectors, d) not in self._shares:
            self._shares[vectors, d] = MeanShares.of(budget, vectors, d, box=self.method.box)
        shares = self._shares[vectors, d]
        first, second = batch.seen(view).apart((few, scale_shares(budget)), (vectors, shares.shares))
        scale = ask_top_eigenvalue(first, Frame(d), few)
        if scale is None:
            self.skipped += 1
            return None
        return ask_mean(second, vectors, d, scale or _SCALE_OF_CONSTANTS, shares, widen)

    def _ask_near(self, batch: Curator, view: RowView, terms: int, j: int) -> MeanRelease:
        """The mean of gradients about λw, where λ is the norm of the last one, in a ball about as large as the last."""
        d = view.n_columns
        if (terms, d) not in self._near:
            self._near[terms, d] = NearShares.of(self.task.budget, terms, d)
        shares = self._near[terms, d]
        look, mean = batch.seen(view).apart((shares.few, shares.look), (terms - shares.few, shares.mean))
        return ask_near_mean(look, mean, self.lengths[j] * self.directions[j], self.reach[j], shares)

    def _ask_center(self, batch: Curator, view: RowView, terms: int) -> None:
        found = self._ask_mean(batch, view, terms)
        if found is None:
            return  # the frame's public reference point stays the centre
        origin = np.zeros(self.task.n_features) if self.frame.center is None else self.frame.center
        self.frame = replace(self.frame, center=np.clip(origin + found.mean, -LARGEST_FACT, LARGEST_FACT))

    def _ask_direction(self, batch: Curator, view: RowView, terms: int, j: int) -> None:
        gradients = Gradients(view, self.directions[: j + 1])
        if self.method.published:
            self._printed_step(batch, gradients, terms)
            return
        if self.reach[j] and not self.method.box:
            found: MeanRelease | None = self._ask_near(batch, gradients, terms, j)
        else:
            found = self._ask_mean(batch, gradients, terms)
        if found is None:
            return
        gradient, length = found.mean, float(np.linalg.norm(found.mean))
        if not 0 < length < LARGEST_FACT:
            return
        d = self.task.n_features
        self.reach[j], self.lengths[j] = max(found.radius, length * 2.0**-40), length
        # For the space of all k directions, the first eigenvalue outside it matters.
        ratio = min(cautious(math.prod(self.ratios[j:])), LARGEST_RATIO)
        gap = length * (1 - ratio) if self.method.gap is None else min(self.method.gap, length)
        variance = d * found.deviation**2 + (found.radius / 2) ** 2 / terms  # balls are twice as wide as deviations
        error = self.errors[j]
        share, self.errors[j] = gain(error, (1 + error) * variance / gap**2, gap / length)
        step = min(self.method.h * share / gap, 1 / length)
        self.directions[j] = (1 - step * length) * self.directions[j] + step * gradient
        self.steps[j] += 1
        self.directions = orthonormal(self.directions)

    def _printed_step(self, batch: Curator, gradients: RowView, terms: int) -> None:
        """One step of Algorithm 3: w ← w + η_t·ĝ, normalised; no step if Algorithm 4 returns ⊥."""
        found, _ = ask_printed_mean(self.method, batch, gradients, terms, self.task.budget)
        if found is None:
            self.skipped += 1
            return
        rate = self.method.h / ((self.method.gap or 1.0) * (self.method.xi + self.turn + 1))
        moved = self.directions[0] + rate * found.mean
        length = float(np.linalg.norm(moved))
        if 0 < length < LARGEST_FACT:
            self.directions[0] = moved / length
            self.steps[0] += 1

    def _ask_variances(self, batch: Curator, view: RowView, terms: int) -> None:
        squares = SquaredScores(view, self.directions)
        found = self._ask_mean(batch, squares, terms, widen=4.0)  # squares are skew, and few: noise is small
        self.variances_at = self.turn
        if found is not None:
            self.variances = np.maximum(found.mean, 0.0)
        elif self.sizes is not None and self.variances is None:
            self.variances = np.zeros(squares.n_columns)

    # --- what comes out -----------------------------------------------------------------------------------------------

    @property
    def rows_to_release(self) -> int:
        roles = [*(["centre"] if self.task.private_center else []), *(["spectrum"] if self.method.gap is None else [])]
        roles += ["direction"] * (len(self.directions) if self.sizes is None else sum(map(len, self.sizes)))
        rows, turn = 0, 0
        for role in (*roles, "variances"):
            rows += self._rows_of(role, turn, rows)
            turn += role == "direction"
        return rows

    def estimate(self) -> Estimate:
        weak = self.skipped > sum(self.steps) or not all(self.steps)
        return self._estimate("exact", NOTES + (WEAK if weak else ()), self._details())

    def _details(self) -> dict[str, Any]:
        cost, failure = histogram_share(self.task.budget)
        tail = tail_spend("threshold of the scale", failure, self.task.budget.epsilon)
        scale = (Spend("scale", "stability histogram", cost), tail)
        d, terms = self.task.n_features, self.method.least_batch(self.task) // self.frame.rows_per_term
        vectors = terms - self.method.scale_terms(self.task, terms)
        shares = MeanShares.of(self.task.budget, vectors, d, box=self.method.box)
        parts = {"scale": list(scale), "first mean": list(shares.spends())}
        if not self.method.box:
            near = NearShares.of(self.task.budget, self.method.least_next(self.task) // self.frame.rows_per_term, d)
            parts |= near.spends()
        return {
            "batches": self.sizes or [],
            "steps": self.steps,
            "skipped": self.skipped,
            "eigenvalue_ratios": self.ratios,
            "expected_errors": [math.sqrt(error / (1 + error)) for error in self.errors],
            "parts": {name: [spend.to_dict() for spend in spends] for name, spends in parts.items()},
        }


NOTES = (
    "Variances are means of clipped squares: robust, and low for heavy tails.",
    "The time taken depends on how many bins of a histogram are occupied.",
)
WEAK = ("The scale of most batches did not stand out, as with very heavy tails: directions may mean little.",)
