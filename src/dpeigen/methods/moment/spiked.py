"""``spiked``: noise on the leading projector, calibrated to a model of the data (Cai, Xia, Zha 2024, Algorithm 1).

Guarantee: distributional, NOT worst-case. If rows are independent N(0, UΛUᵀ + σ²I) (or sub-Gaussian with that
covariance), a neighbouring data set replaces one row by another from the same law, and the stated λ, σ² and condition
number are right, then with the stated probability over the data one row moves the projector by at most Δ₁ and
the scores' moment by at most Δ₂ (`stats.spiked`); Gaussian noise of these sensitivities is (ε, δ)-DP. Rows are not
clipped: for data outside the model one row can move the projector by as much as √2, whatever n, and nothing is
promised. "auto" never picks this method; `refined` adapts to the same signals with a worst-case guarantee.

The noise is added in integers after rounding to a grid of Δ/2^32; the decomposition is in floating point.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dpeigen._validate import check_choice, check_count, check_fraction, check_positive, complain
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Estimate, Method, Task
from dpeigen.methods.framing import ask_frame, frame_rows, location
from dpeigen.methods.outline import Planned
from dpeigen.methods.radius import check_radii
from dpeigen.methods.sampling.base import any_lattice, rounding_allowance
from dpeigen.privacy import Budget, Cost, GaussianCost, allocate, gaussian_epsilon
from dpeigen.privacy.accounting import LEAST_SENSITIVITY
from dpeigen.privacy.budget import gaussian_share
from dpeigen.privacy.randomness import check_scale
from dpeigen.questions import Eigenvalues, LeadingProjector, Matrix, ProjectedMoment
from dpeigen.questions.spectrum import VALUE_GRID
from dpeigen.stats import Lattice
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.spectrum import symmetric_eigh
from dpeigen.stats.spiked import CLEAR, Model, count_spikes, published_sensitivities, sharp_sensitivities

_WEIGHTS = {Purpose.DIRECTIONS: 0.8, Purpose.EIGENVALUES: 0.2, Purpose.MODEL: 0.4}
_RADIUS_SHARE = 0.05  # of ε


@dataclass(frozen=True)
class Spiked(Method):
    """Private PCA and covariance under the spiked covariance model.

    Parameters
    ----------
    signal : λ, the least of the spiked eigenvalues less σ²: a public number, or "private".
    noise_variance : σ², a public number, or "private".
    condition : κ₀, the ratio of the largest to the least spiked eigenvalue; paid for together with a private signal.
    rank : the number of spikes; "private" pays for it. By default the number of components asked for, or "private"
        where the whole covariance is.
    eigenvalues : "private" pays for them (half of the budget with published constants, a fifth with sharp ones);
        "known" states λ + σ² and spends everything on the directions.
    constants : "sharp" or "published" (their Δ₁, Δ₂, noise formula and split; the guarantee states what that gives).
    factor : C₂ of the published sensitivities.
    failure : the probability, over the data, that sharp sensitivities do not hold.
    """

    signal: float | str = "private"
    noise_variance: float | str = "private"
    condition: float = 1.0
    rank: int | str | None = None
    eigenvalues: str = "private"
    constants: str = "sharp"
    factor: float = 4.0
    failure: float = 1e-6

    name = "spiked"
    reference = "Cai, Xia and Zha 2024, Algorithm 1"
    needs_bound = False
    needs_delta = True
    needs_replace = "Use relation='replace', or method='refined'."
    basis = "distributional"
    planned = Planned(covariance=False)

    def _pays_for_rank(self, task: Task) -> bool:
        return isinstance(self.rank, str) or (self.rank is None and task.n_components is None)

    def _unknown(self, task: Task) -> bool:
        return isinstance(self.signal, str) or isinstance(self.noise_variance, str) or self._pays_for_rank(task)

    def assumptions(self, task: Task) -> tuple[str, ...]:
        rank = "a few" if self._pays_for_rank(task) else self._rank(task)
        law = "rows are independent N(0, Σ) about the centre" + (", differences of pairs too" if task.pairs else "")
        spikes = f"Σ has {rank} eigenvalues in [λ + σ², κλ + σ²] and all others are σ²"
        if self._unknown(task):
            numbers = "what is not public of λ, κ, σ² and the rank is within three deviations of its private estimate"
        else:
            numbers = f"λ = {self.signal:g}, κ = {self.condition:g} and σ² = {self.noise_variance:g} are right"
        if self.constants == "published":
            failure = f"the paper's unspecified constant C₂ is at most {self.factor:g} (probability 1 − O(n⁻⁹⁹))"
        else:
            clear = f"where λ is {CLEAR:g} times σ²√(p/n) and Δ₁ below √(2r)"
            failure = (
                f"first-order sensitivities hold, but for a probability of {self.failure:g} over the data, {clear}"
            )
        return law, spikes, numbers, "the neighbouring row comes from the same law", failure

    def price(self, task: Task) -> Budget:
        if self.constants == "sharp":
            return self.budget(task)
        mu = math.sqrt(math.fsum(gaussian_share(cost) ** 2 for cost in self.shares(task).values()))
        return Budget(max(gaussian_epsilon(task.budget.delta, mu) * (1 + 1e-9), 1e-9), task.budget.delta)

    def shares(self, task: Task) -> dict[Purpose, Cost]:
        """The budget, split by purpose."""
        paid = [Purpose.DIRECTIONS, Purpose.EIGENVALUES] if self.eigenvalues == "private" else [Purpose.DIRECTIONS]
        if self.constants == "published":
            part = task.budget.epsilon / len(paid), task.budget.delta / len(paid)
            return {name: GaussianCost(part[0] / math.sqrt(2 * math.log(1.25 / part[1]))) for name in paid}
        d, pure, main = task.n_features, {}, {name: _WEIGHTS[name] for name in paid}
        if self._unknown(task):
            pure, main = {Purpose.RADIUS: _RADIUS_SHARE}, main | {Purpose.MODEL: _WEIGHTS[Purpose.MODEL]}
        return allocate(task.budget, pure=pure, main=main, coordinates=d * (d + 1) + d)

    def _rank(self, task: Task) -> int:
        """The public number of spikes, or the least that a private one may be."""
        rank = task.n_components if isinstance(self.rank, str) or self.rank is None else self.rank
        return 1 if rank is None else rank

    def check(self, task: Task) -> None:
        super().check(task)
        check_choice("constants", self.constants, ["sharp", "published"], "Spiked")
        check_choice("eigenvalues", self.eigenvalues, ["private", "known"], "Spiked")
        for name, value in (("signal", self.signal), ("noise_variance", self.noise_variance)):
            if isinstance(value, str):
                check_choice(name, value, ["private"], "Spiked")
            else:
                check_positive(name, value, "Spiked")
        if isinstance(self.rank, str):
            check_choice("rank", self.rank, ["private"], "Spiked")
        check_positive("factor", self.factor, "Spiked")
        check_fraction("failure", self.failure, "Spiked")
        if check_positive("condition", self.condition, "Spiked") < 1:
            raise ValueError(complain("condition", "Spiked", "at least 1", self.condition))
        if task.bound is not None:
            remedy = "It clips nothing: its guarantee rests on the model. Use method='refined' for bounded rows."
            raise ValueError(complain("bound", task.owner, "None for method='spiked'", "a bound", remedy))
        if task.private_center:
            remedy = "The model has a known mean. Use center='pairs', or None or an array where the centre is public."
            raise ValueError(
                complain("center", task.owner, "other than 'private' for method='spiked'", "private", remedy)
            )
        if self._unknown(task) and (self.constants == "published" or self.eigenvalues == "known"):
            remedy = "The paper's sensitivities need λ, σ² and the rank: give them, or use the defaults."
            got = "private parameters"
            raise ValueError(complain("constants", "Spiked", "'sharp', with eigenvalues='private'", got, remedy))
        check_count("rank", self._rank(task), "Spiked", high=task.n_features - 1)
        if task.n_components is not None and task.n_components > self._rank(task):
            raise ValueError(
                complain("n_components", task.owner, f"at most the rank {self._rank(task)}", task.n_components)
            )
        costs = self.shares(task)
        check_radii(task, costs)
        for purpose, cost in costs.items():
            if purpose is Purpose.MODEL:
                check_scale(Eigenvalues(any_lattice(task), rounding_allowance(task)).scale(cost, task.relation))
            elif purpose is not Purpose.RADIUS:
                check_scale(LEAST_SENSITIVITY * math.sqrt(2) / gaussian_share(cost))

    def _sensitivities(self, n: int, model: Model) -> tuple[float, float]:
        facts = {"signal": model.least_signal, "noise_variance": model.most_noise, "condition": model.condition}
        if self.constants == "published":
            return published_sensitivities(n, model.dimension, model.rank, **facts, factor=self.factor)
        return sharp_sensitivities(n, model.dimension, model.rank, **facts, failure=self.failure)

    def _ask_model(self, curator: Curator, task: Task, costs: Mapping[Purpose, Cost]) -> Model:
        """The parameters, public or from noisy eigenvalues of rows clipped to a paid radius: worst-case private."""
        d = task.n_features
        if not self._unknown(task):
            signal, sigma2 = float(self.signal), float(self.noise_variance)
            return Model(d, self._rank(task), signal, sigma2, signal, sigma2, float(self.condition))
        frame, radius, _ = ask_frame(curator, replace(task, bound="private"), costs, weighted=False)
        lattice, count = Lattice(frame, radius), float(task.n_terms or 1)
        unit = (lattice.step * LEVELS * float(frame.unit[0])) ** 2 / count
        question = Eigenvalues(lattice, rounding_allowance(task))
        found = curator.measure(question, purpose=Purpose.MODEL, cost=costs[Purpose.MODEL])
        deviation = question.scale(costs[Purpose.MODEL], task.relation) / VALUE_GRID * unit
        values, rank = found.values * unit, self._rank(task)
        if self._pays_for_rank(task):
            rank = max(rank, count_spikes(values, d, int(count), deviation))
        return Model.of(values, deviation, int(count), rank, self.signal, self.noise_variance, self.condition)

    def estimate(self, curator: Curator, task: Task) -> Estimate:
        costs, d = self.shares(task), task.n_features
        frame, _ = frame_rows(task)
        model = self._ask_model(curator, task, costs)
        rank, count, sharp = model.rank, float(task.n_terms or 1), self.constants == "sharp"
        first_reach, second_reach = self._sensitivities(int(count), model)
        projector = LeadingProjector(frame, first_reach, sharp, rank)
        noisy = curator.measure(projector, purpose=Purpose.DIRECTIONS, cost=costs[Purpose.DIRECTIONS])
        basis = symmetric_eigh(noisy)[1][:rank]
        sigma2, spikes = model.noise_variance, np.full(rank, model.signal)
        if Purpose.EIGENVALUES in costs:
            block = ProjectedMoment(frame, second_reach, sharp, Matrix(basis))
            noisy = curator.measure(block, purpose=Purpose.EIGENVALUES, cost=costs[Purpose.EIGENVALUES])
            spikes, turn = symmetric_eigh(noisy - sigma2 * np.eye(rank))
            basis = turn @ basis
        values = np.maximum(spikes + sigma2, 0.0)
        covariance = (basis.T * (values - sigma2)) @ basis + sigma2 * np.eye(d)
        k = task.n_components
        return Estimate(
            components=basis[:k] if k is not None else symmetric_eigh(covariance)[1],
            eigenvalues=values[:k] if k is not None else np.maximum(symmetric_eigh(covariance)[0], 0.0),
            noise_variance=sigma2
            if k is None or k == rank
            else float((values[k:].sum() + (d - rank) * sigma2) / (d - k)),
            covariance=(covariance + covariance.T) / 2,
            mean=location(frame, None, task),
            n_rows=count * frame.rows_per_term,
            radius=None,
            numerics="idealised",
            radius_released=Purpose.RADIUS in costs,
            details={
                "rank": rank,
                "signal": model.signal,
                "noise_variance": sigma2,
                "condition": model.condition,
                "projector_sensitivity": first_reach,
                "eigenvalue_sensitivity": second_reach,
            },
        )
