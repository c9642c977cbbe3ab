"""``spiked``: noise on the leading projector, calibrated to a model of the data (Cai, Xia, Zha 2024, Algorithm 1).

Guarantee: distributional, NOT worst-case. Assume that rows are independent N(0, UΛUᵀ + σ²I), that a neighbouring data
set replaces one row by another from the same law, and that the stated λ, σ² and condition number are right. Then with
the stated probability over the data, one row moves the projector by at most Δ₁ and the scores' moment by at most Δ₂
(`stats.spiked`), and Gaussian noise of these sensitivities is (ε, δ)-DP. Nothing is proven for rows that are not
Gaussian, sub-Gaussian ones included: a bounded scale mixture with the same covariance moves the projector by more than
the sharp Δ₁. Rows are not clipped. For data outside the model one row can move the projector by as much as √2, whatever
n is, and there is no guarantee. "auto" never picks this method; `refined` adapts to the same signals with a worst-case
guarantee.

As published (``constants="published"``): Δ₁, Δ₂, Δ₃ and the noise of the paper, the r leading directions by singular
value, and eigenvalues as the noise leaves them, even negative. A private σ² is that of §5.3, with a third of the budget
each for σ², directions and eigenvalues. A private rank or λ is that of §7.1 and §7.2, read off one release of
eigenvalues that costs (ε/2, δ/2) in addition. Δ₂ and Δ₃ contain the λ and σ² that they help to estimate, so public
values must be assumed for these. The guarantee states what all of this gives.

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
from dpeigen.questions import (
    BulkVariance,
    Eigenvalues,
    LeadingEigenvalues,
    LeadingProjector,
    Matrix,
    ProjectedMoment,
)
from dpeigen.questions.spectrum import VALUE_GRID
from dpeigen.stats import Lattice
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.spectrum import symmetric_eigh
from dpeigen.stats.spiked import (
    CLEAR,
    Model,
    count_spikes,
    printed_rank,
    published_bulk_sensitivity,
    published_sensitivities,
    sharp_sensitivities,
)

__all__ = ["Spiked"]

_WEIGHTS = {Purpose.DIRECTIONS: 0.8, Purpose.EIGENVALUES: 0.2, Purpose.MODEL: 0.4}
_RADIUS_SHARE = 0.05  # of ε
_AS_PRINTED = "Eigenvalues are as the noise left them, as published: they, and the covariance, may be negative."
_TINY = 1e-100  # in place of a noisy parameter that is 0


@dataclass(frozen=True)
class Spiked(Method):
    """Private PCA and covariance under the spiked covariance model.

    Parameters
    ----------
    signal : λ, the smallest spiked eigenvalue minus σ²: a public number, or "private".
    noise_variance : σ², a public number, or "private".
    condition : κ₀, the ratio of the largest to the smallest spiked eigenvalue; paid for together with a private signal.
    rank : the number of spikes; "private" pays for it. By default the number of components asked for, or "private" if
        the whole covariance is asked for.
    eigenvalues : "private" pays for them (half of the budget with published constants, a fifth with sharp ones);
        "known" assumes λ + σ² and spends everything on the directions.
    constants : "sharp" or "published" (their Δ₁, Δ₂, noise formula and split; the guarantee states what that gives).
    factor : C₂ of the published sensitivities.
    failure : the probability, over the data, that sharp sensitivities do not hold.
    assumed : public (λ, σ²) for the published Δ₂ and Δ₃ if λ, σ² or the rank is private. If they are too small,
        there is no guarantee.
    largest_rank : R of §7.1, for a private rank as published; half of min(n, p) by default.
    """

    signal: float | str = "private"
    noise_variance: float | str = "private"
    condition: float = 1.0
    rank: int | str | None = None
    eigenvalues: str = "private"
    constants: str = "sharp"
    factor: float = 4.0
    failure: float = 1e-6
    assumed: tuple[float, float] | None = None
    largest_rank: int | None = None

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
        if self._unknown(task) and self.constants == "published":
            numbers = "what is not public of λ, σ² and the rank is as released, and (λ, σ²) are at most as assumed"
        elif self._unknown(task):
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
            parts = 3 if isinstance(self.noise_variance, str) else len(paid)  # Theorem 5.4, or Algorithm 1
            found: dict[Purpose, Cost] = {name: _printed_cost(task.budget, parts) for name in paid}
            model = list(self._printed_model_costs(task).values())
            if model:
                found[Purpose.MODEL] = GaussianCost(math.hypot(*(cost.mu for cost in model)))
            return found
        d, pure, main = task.n_features, {}, {name: _WEIGHTS[name] for name in paid}
        if self._unknown(task):
            pure, main = {Purpose.RADIUS: _RADIUS_SHARE}, main | {Purpose.MODEL: _WEIGHTS[Purpose.MODEL]}
        return allocate(task.budget, pure=pure, main=main, coordinates=d * (d + 1) + d)

    def _printed_model_costs(self, task: Task) -> dict[str, GaussianCost]:
        """The costs of the printed estimates of σ² (§5.3) and of the eigenvalues (§7.1, §7.2)."""
        found = {}
        if isinstance(self.noise_variance, str):
            found["bulk"] = _printed_cost(task.budget, 3)
        if isinstance(self.signal, str) or self._pays_for_rank(task):
            found["eigenvalues"] = _printed_cost(task.budget, 2)
        return found

    def _largest_rank(self, task: Task) -> int:
        """R of §7.1."""
        if self.largest_rank is not None:
            return self.largest_rank
        return max(1, min(task.n_features, task.n_terms or task.n_features) // 2)

    def _rank(self, task: Task) -> int:
        """The public number of spikes, or the least possible one if it is private."""
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
            remedy = (
                "It clips nothing: its guarantee holds only under the model. Use method='refined' for bounded rows."
            )
            raise ValueError(complain("bound", task.owner, "None for method='spiked'", "a bound", remedy))
        if task.private_center:
            remedy = "The model has a known mean. Use center='pairs', or None or an array where the centre is public."
            raise ValueError(
                complain("center", task.owner, "other than 'private' for method='spiked'", "private", remedy)
            )
        if self._unknown(task) and self.eigenvalues == "known":
            remedy = "Known eigenvalues are λ + σ²: give λ, σ² and the rank, or leave eigenvalues='private'."
            raise ValueError(complain("eigenvalues", "Spiked", "'private' where λ, σ² or the rank is", "known", remedy))
        self._check_assumed(task)
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

    def _check_assumed(self, task: Task) -> None:
        needed = self._unknown(task) and self.constants == "published"
        if self.assumed is None:
            if needed:
                remedy = "If λ, σ² or the rank is private, the size of the paper's noise depends on λ and σ²."
                raise ValueError(complain("assumed", "Spiked", "public (λ, σ²) for published constants", None, remedy))
        elif not needed:
            must = "None where constants are sharp, or λ, σ² and the rank are public"
            raise ValueError(complain("assumed", "Spiked", must, self.assumed))
        elif not isinstance(self.assumed, tuple) or len(self.assumed) != 2:
            raise ValueError(complain("assumed", "Spiked", "a pair (λ, σ²)", self.assumed))
        else:
            for value in self.assumed:
                check_positive("assumed", value, "Spiked")
        if self.largest_rank is not None:
            if not (needed and self._pays_for_rank(task)):
                raise ValueError(complain("largest_rank", "Spiked", "None but for a private rank as published", "one"))
            most = min(task.n_features, task.n_terms or task.n_features) - 1
            check_count("largest_rank", self.largest_rank, "Spiked", high=max(1, most))

    def _sensitivities(self, n: int, model: Model) -> tuple[float, float]:
        facts = {"signal": model.least_signal, "noise_variance": model.most_noise, "condition": model.condition}
        if self.constants == "published":
            return published_sensitivities(n, model.dimension, model.rank, **facts, factor=self.factor)
        return sharp_sensitivities(n, model.dimension, model.rank, **facts, failure=self.failure)

    def _ask_model(self, curator: Curator, task: Task, costs: Mapping[Purpose, Cost]) -> Model:
        """The parameters: public, or from noisy eigenvalues of rows clipped to a paid radius (worst-case private)."""
        d = task.n_features
        if not self._unknown(task):
            signal, sigma2 = float(self.signal), float(self.noise_variance)
            return Model(d, self._rank(task), signal, sigma2, signal, sigma2, float(self.condition))
        if self.constants == "published":
            return self._ask_printed_model(curator, task)
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

    def _ask_printed_model(self, curator: Curator, task: Task) -> Model:
        """σ̃² of §5.3, r̂ of §7.1 and λ̃ of §7.2, from rows that are not clipped: distributional like the rest."""
        frame, _ = frame_rows(task)
        d, n, rank = task.n_features, int(task.n_terms or 1), self._rank(task)
        costs, least = self._printed_model_costs(task), rank
        assumed = self.assumed or (1.0, 1.0)  # `check` has refused None
        signal = assumed[0] if isinstance(self.signal, str) else float(self.signal)
        sigma2 = assumed[1] if isinstance(self.noise_variance, str) else float(self.noise_variance)
        most = self._largest_rank(task) if self._pays_for_rank(task) else rank
        facts = (n, d, most, signal, sigma2, float(self.condition), self.factor)
        if "bulk" in costs:
            bulk = BulkVariance(frame, published_bulk_sensitivity(*facts), False, n)
            noisy = curator.measure(bulk, purpose=Purpose.MODEL, cost=costs["bulk"])
            sigma2 = abs(float(noisy[0])) or _TINY
        if "eigenvalues" in costs:
            number = most + 1 if self._pays_for_rank(task) else rank
            leading = LeadingEigenvalues(frame, published_sensitivities(*facts)[1], False, number)
            noisy = curator.measure(leading, purpose=Purpose.MODEL, cost=costs["eigenvalues"])
            if self._pays_for_rank(task):
                rank = max(least, printed_rank(noisy))
            if isinstance(self.signal, str):
                signal = abs(float(noisy[:rank].mean())) or _TINY
        if not isinstance(self.signal, str):
            signal = float(self.signal)
        return Model(d, rank, signal, sigma2, signal, sigma2, float(self.condition))

    def estimate(self, curator: Curator, task: Task) -> Estimate:
        costs, d = self.shares(task), task.n_features
        frame, _ = frame_rows(task)
        model = self._ask_model(curator, task, costs)
        rank, count, sharp = model.rank, float(task.n_terms or 1), self.constants == "sharp"
        first_reach, second_reach = self._sensitivities(int(count), model)
        projector = LeadingProjector(frame, first_reach, sharp, rank)
        noisy = curator.measure(projector, purpose=Purpose.DIRECTIONS, cost=costs[Purpose.DIRECTIONS])
        found, vectors = symmetric_eigh(noisy)
        basis = vectors[:rank] if sharp else vectors[np.argsort(-np.abs(found), kind="stable")[:rank]]  # SVD_r
        sigma2, spikes = model.noise_variance, np.full(rank, model.signal)
        if Purpose.EIGENVALUES in costs:
            block = ProjectedMoment(frame, second_reach, sharp, Matrix(basis))
            noisy = curator.measure(block, purpose=Purpose.EIGENVALUES, cost=costs[Purpose.EIGENVALUES])
            spikes, turn = symmetric_eigh(noisy - sigma2 * np.eye(rank))
            basis = turn @ basis
        values = np.maximum(spikes + sigma2, 0.0) if sharp else spikes + sigma2
        covariance = (basis.T * (values - sigma2)) @ basis + sigma2 * np.eye(d)
        k = task.n_components
        whole, axes = symmetric_eigh(covariance)
        return Estimate(
            components=basis[:k] if k is not None else axes,
            eigenvalues=values[:k] if k is not None else np.maximum(whole, 0.0) if sharp else whole,
            noise_variance=sigma2
            if k is None or k == rank
            else float((values[k:].sum() + (d - rank) * sigma2) / (d - k)),
            covariance=(covariance + covariance.T) / 2,
            mean=location(frame, None, task),
            n_rows=count * frame.rows_per_term,
            radius=None,
            numerics="idealised",
            radius_released=Purpose.RADIUS in costs,
            notes=() if sharp else (_AS_PRINTED,),
            details={
                "rank": rank,
                "signal": model.signal,
                "noise_variance": sigma2,
                "condition": model.condition,
                "projector_sensitivity": first_reach,
                "eigenvalue_sensitivity": second_reach,
            },
        )


def _printed_cost(budget: Budget, parts: int) -> GaussianCost:
    """The real cost of the classical noise for (ε, δ)/``parts``, if the sensitivity is right."""
    epsilon, delta = budget.epsilon / parts, budget.delta / parts
    return GaussianCost(epsilon / math.sqrt(2 * math.log(1.25 / delta)))
