"""The base of one-pass methods: every row is used once, in batches of disjoint rows.

Guarantee: every batch has its own curator with the whole budget; `curator.feed` proves that all batches together are
(ε, δ)-DP. A `Stream` holds no rows. Its saved state has only public or released numbers, and may be published.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import complain
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Estimate, Method, Task
from dpeigen.methods.framing import location
from dpeigen.privacy import ApproximateCost, Cost, Spend
from dpeigen.privacy.guarantee import Numerics
from dpeigen.stats import Frame
from dpeigen.stats.spectrum import fix_signs, orthonormal, with_remainder

__all__ = ["LARGEST_BATCH", "OnePassMethod", "Stream", "components_of", "refuse_few_rows"]

LARGEST_BATCH = 2**22  # the most numbers in a batch, so that memory does not grow with the number of rows


class Stream(ABC):
    """A one-pass release that is built batch by batch (`curator.feed`)."""

    saved: ClassVar[tuple[str, ...]]  # names of the JSON values in `state`, public or released

    def __init__(self, task: Task, frame: Frame, radius: float | None, start: Floats) -> None:
        self.task, self.frame, self.radius = task, frame, radius
        self.directions = orthonormal(start)
        self.variances: Floats | None = None  # mean squares along the directions, and of the residual
        self.rows_used = 0  # rows in finished batches: a resumed stream continues after them

    @abstractmethod
    def wanted(self) -> int:
        """The number of rows of the next batch; public. 0 means that the stream is complete."""

    @abstractmethod
    def use(self, batch: Curator) -> None:
        """Ask the curator of one batch, which has as many rows as were wanted."""

    @property
    def ready(self) -> bool:
        """Whether every part of a release has been measured at least once."""
        return self.variances is not None

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """The names of its mechanisms, for the record."""

    @property
    @abstractmethod
    def rows_to_release(self) -> int:
        """Rows after which the first release is ready; public."""

    @abstractmethod
    def estimate(self) -> Estimate:
        """The release of what was paid for so far; only when `ready`."""

    def state(self) -> tuple[dict[str, Floats], dict[str, Any]]:
        """Arrays and JSON values that `restore` needs: public or released, no rows."""
        arrays = {"directions": self.directions, "center": self.frame.center, "variances": self.variances}
        facts = {name: getattr(self, name) for name in ("rows_used", *self.saved)}
        return {name: array for name, array in arrays.items() if array is not None}, facts

    def restore(self, arrays: Mapping[str, Floats], facts: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.directions = arrays["directions"].copy()
        self.variances = arrays.get("variances")
        self.frame = replace(self.frame, center=arrays.get("center"))
        for name in ("rows_used", *self.saved):
            setattr(self, name, facts[name])

    def _estimate(self, numerics: Numerics, notes: tuple[str, ...], details: dict[str, Any]) -> Estimate:
        k, d = self.directions.shape
        unit = float(self.frame.unit[0])
        variances = (np.zeros(k + 1) if self.variances is None else self.variances) * unit**2
        order = np.argsort(-variances[:k], kind="stable")
        components, eigenvalues = fix_signs(orthonormal(self.directions)[order]), variances[:k][order]
        left = float(variances[k] / (d - k)) if k < d else 0.0
        covariance = with_remainder(components, eigenvalues, left)
        budget = self.task.budget
        paid = Spend(Purpose.BATCHES.value, self.mechanism, ApproximateCost(budget.epsilon, budget.delta))
        return Estimate(
            components=components,
            eigenvalues=eigenvalues,
            noise_variance=left,
            covariance=(covariance + covariance.T) / 2,
            mean=location(self.frame, None, self.task),
            n_rows=float(self.rows_used),
            radius=None if self.radius is None else self.radius * unit,
            split=(paid,),
            numerics=numerics,
            radius_released=self.task.private_bound,
            notes=(
                "Each row was used in only one batch, with the whole budget (parallel composition). This holds if no "
                "row is fed twice, in another pass or after a resumption.",
                *notes,
            ),
            details={"rows_used": self.rows_used, **details},
        )


class OnePassMethod(Method):
    """A method whose estimate comes from a stream."""

    needs_delta = True
    page = "mechanisms/one-pass"
    needs_replace = "Use relation='replace': one row more or less would move every batch after it."

    @abstractmethod
    def start(self, task: Task, start: Floats) -> Stream:
        """A new stream that starts from k directions, which are independent of the rows; the task is checked."""

    def begin(self, curator: Curator, task: Task) -> Stream:
        """The same with a random start."""
        return self.start(task, curator.random_start((components_of(task), task.n_features)))

    def check(self, task: Task) -> None:
        super().check(task)
        if task.n_components is None:
            remedy = "Use PrivatePCA, or method='gaussian' for a whole covariance."
            must = f"other than {self.name!r}, which follows a few directions only"
            raise ValueError(complain("method", task.owner, must, self.name, remedy))

    def split_is_known(self, task: Task) -> bool:  # noqa: ARG002
        return False  # there is one spend of the whole cost, so a rehearsal would show nothing more

    def shares(self, task: Task) -> dict[Purpose, Cost]:
        """Every row pays the whole budget in its own batch."""
        return {Purpose.BATCHES: ApproximateCost(task.budget.epsilon, task.budget.delta)}

    def estimate(self, curator: Curator, task: Task) -> Estimate:
        stream = self.begin(curator, task)
        curator.in_batches(stream, purpose=Purpose.BATCHES, cost=self.shares(task)[Purpose.BATCHES])
        return stream.estimate()


def components_of(task: Task) -> int:
    """The number of directions that are asked for."""
    if task.n_components is None:
        raise AssertionError("`check` has refused a whole covariance")
    return task.n_components


def refuse_few_rows(task: Task, needed: int, name: str, more: str = "") -> None:
    """If n is public, refuse fewer rows than the method needs; nothing is spent."""
    if task.n_rows is not None and task.n_rows < needed:
        remedy = f"It needs at least {needed} rows here. Raise epsilon, ask for fewer components, or use {more}"
        remedy += "method='gaussian' or 'spatial-sign', which need far fewer. Nothing was spent."
        raise ValueError(complain("X", task.owner, f"long enough for method={name!r}", f"{task.n_rows} rows", remedy))
