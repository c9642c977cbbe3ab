"""Errors of a method on assumed rows, simulated on its moments instead of on its rows.

A method looks at n rows through one or a few mean moments, of rows clipped to a radius, of their signs, or of signs of
differences (`planner.population`), each with noise of a known law, at its own split of the budget. Centres and radii
that are paid for follow the same noisy steps. So a run costs a few products and decompositions of d × d matrices,
whatever n is. What follows the noise is the library's own code. Methods in many steps are in `planner.steps`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen.methods import (
    DPPCA,
    Gaussian,
    Geodesic,
    Kendall,
    Method,
    Oja,
    Refined,
    SpatialSign,
    Spiked,
    Task,
    Whitened,
)
from dpeigen.methods.moment import MomentMethod
from dpeigen.methods.prediction import deviation, mechanism_for
from dpeigen.methods.refined import even_factors, next_deviation, variance_reach
from dpeigen.methods.sampling import SamplingMethod
from dpeigen.methods.whitened import (
    FIRST,
    FIRST_OUTSIDE,
    FIRST_RADIUS,
    LAST,
    LAST_RADIUS,
    denoised,
    last_outside,
    mechanism_of,
    whitening,
)
from dpeigen.planner.noise import paid_radius, radius_but, squares_noise, symmetric_noise, vector_noise
from dpeigen.planner.population import Population, View
from dpeigen.privacy import Cost
from dpeigen.privacy.randomness import Generator, SeededRandomness, made_up_generator
from dpeigen.stats import Frame, Lattice
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.refinement import SignRelease, look_along, understand
from dpeigen.stats.spectrum import projection_distance, relative_frobenius, sin_theta

Floats = NDArray[np.float64]
_SAMPLES = 80, 40, 12  # different draws, by columns; every repetition has noise of its own
# Every look of `refined` pairs the rows anew. Errors of two pairings have about a third in common; four looks at two
# independent samples have as much of them left as four looks at such pairings.
_OTHER_PAIRS = 1000
METRICS: dict[str, Callable[[Floats, Floats], float]] = {
    "sin_theta": sin_theta,
    "projection_distance": lambda a, b: projection_distance(a, b) / math.sqrt(2 * len(a)),
}
COVARIANCE_METRICS: dict[str, Callable[[Floats, Floats], float]] = {
    "relative_frobenius": relative_frobenius,
    "relative_operator": lambda a, b: float(np.linalg.norm(a - b, 2) / np.linalg.norm(b, 2)),
}


@dataclass(frozen=True)
class Found:
    """What a run releases, in the eigenbasis of the assumed rows."""

    directions: Floats
    covariance: Floats | None = None
    variances: Floats | None = None  # along the directions, where asked for and paid
    center: Floats | None = None  # where a centre is paid for; its truth is 0


@dataclass(frozen=True)
class Run:
    """One run of a checked method on a population."""

    task: Task
    costs: dict[str, Cost]
    population: Population
    repetition: int
    rng: Generator
    variances: bool = False  # whether they are asked for beside the directions

    @property
    def wanted(self) -> int:
        return self.task.n_components or self.task.n_features

    @property
    def n(self) -> int:
        return self.population.n

    def weighted(self) -> Floats | None:
        """From the eigenbasis to columns with weights, where bounds of columns ask for weights."""
        columns = self.population.columns
        if columns is None or columns.weights is None:
            return None
        return columns.weights[:, None] * columns.turn

    def cap(self, stretch: Floats | None = None) -> float | None:
        """The longest (weighted) row that public bounds allow, in the units of the population."""
        if isinstance(self.task.bound, float):
            return self.task.bound
        columns = self.population.columns
        if columns is None:
            return None
        half = columns.half if stretch is None or columns.weights is None else columns.half * columns.weights
        return float(np.linalg.norm(half)) * (math.sqrt(2) if self.population.pairs else 1.0)

    def shift(self, stretch: Floats | None = None) -> tuple[Floats | None, float]:
        """By how much a paid centre is off, and the expected length of its noise in framed units."""
        shift, error, cap = None, 0.0, self.cap(stretch)
        back = None if stretch is None else np.linalg.inv(stretch)
        for name in [name for name in ("first centre", "centre") if name in self.costs]:
            radius = cap
            if f"radius for the {name}" in self.costs:
                radius = self.radius(f"radius for the {name}", stretch, shift, cap)
            if radius is None:
                raise AssertionError("a radius is public or paid for")
            noise, error = vector_noise(self.costs[name], self.task, radius / self.n, self.rng)
            moved = noise + self.population.center(self.repetition, View(radius, stretch, shift))
            moved = moved if back is None else back @ moved
            shift = moved if shift is None else shift + moved
        return shift, error

    def radius(self, name: str, stretch: Floats | None, shift: Floats | None, cap: float | None) -> float:
        """A radius that is paid for."""
        norms = self.population.norms(self.repetition, stretch, shift)
        return least(paid_radius(self.costs[name], self.task, norms, self.n, self.rng), cap)

    def framed(self, stretch: Floats | None = None) -> tuple[Floats | None, float, float]:
        """What `shift` says, and the radius of rows, paid for or public."""
        shift, error = self.shift(stretch)
        radius = self.cap(stretch)
        if "radius" in self.costs:
            radius = self.radius("radius", stretch, shift, radius)
        if radius is None:
            raise AssertionError("`check` has refused a task without a bound")
        return shift, error, radius

    def moment(self, radius: float | None, stretch: Floats | None = None, shift: Floats | None = None) -> Floats:
        return self.population.moment(self.repetition, View(radius, stretch, shift))


def by_columns(counts: tuple[int, int, int], d: int) -> int:
    """What is done how often with up to 20 columns, up to 60, and more."""
    return counts[(d > 20) + (d > 60)]


def least(radius: float, cap: float | None) -> float:
    return radius if cap is None else min(radius, cap)


def simulated_errors(
    method: Method, task: Task, population: Population, repetitions: int, metric: str = "sin_theta"
) -> Floats:
    """Errors of a checked method in so many runs on the assumed rows."""
    truth, errors = np.eye(task.n_features)[: task.n_components], []
    for found in simulated_runs(method, task, population, repetitions):
        if metric in METRICS:
            errors.append(METRICS[metric](found.directions, truth))
        else:
            if found.covariance is None:
                raise AssertionError("`is_modelled` has refused a covariance")
            errors.append(COVARIANCE_METRICS[metric](found.covariance, population.assumed.covariance))
    return np.array(errors)


def simulated_runs(
    method: Method, task: Task, population: Population, repetitions: int, *, variances: bool = False
) -> Iterator[Found]:
    """What so many runs of a checked method would release."""
    costs: dict[str, Cost] = method.shares(task)  # type: ignore[attr-defined]
    course, d = next(course for kind, course in _COURSES if isinstance(method, kind)), task.n_features
    for repetition in range(repetitions):
        rng = made_up_generator(population.seed, repetition, d)  # the same for all n and ε: errors are smooth in them
        sample = repetition % by_columns(_SAMPLES, d)
        yield course(method, Run(task, costs, population, sample, rng, variances))


def floor_errors(population: Population, task: Task, repetitions: int, metric: str) -> Floats:
    """Errors without privacy: of the plain covariance or of Kendall's tau, whichever suits these rows better."""
    k, d = task.n_components or task.n_features, task.n_features
    plain = [population.moment(r, View(math.inf)) for r in range(repetitions)]
    if metric in COVARIANCE_METRICS:
        return np.array([COVARIANCE_METRICS[metric](m, population.assumed.covariance) for m in plain])
    signs = [population.differences(r, k) for r in range(repetitions)]
    errors = [[METRICS[metric](_leading(m, k), np.eye(d)[:k]) for m in moments] for moments in (plain, signs)]
    return np.array(min(errors, key=lambda found: float(np.mean(found))))


def is_modelled(method: Method, *, covariance: bool = False) -> bool:
    """Whether there is an error model for it, and for the covariance it gives."""
    kinds: Any = COVARIANCE_KINDS if covariance else (*(kind for kind, _ in _COURSES), Geodesic, DPPCA, Oja, Spiked)
    return isinstance(method, kinds) and getattr(method, "constants", "sharp") == "sharp"


# --- one run of a method ---------------------------------------------------------------------------------------------


def _leading(matrix: Floats, k: int) -> Floats:
    return np.linalg.eigh((matrix + matrix.T) / 2)[1].T[::-1][:k]


def _sum(shift: Floats | None, more: Floats) -> Floats:
    return more if shift is None else shift + more


def _moments(method: Method, run: Run) -> Found:
    """The course of `MomentMethod.estimate`."""
    assert isinstance(method, MomentMethod)
    task, stretch, d = run.task, run.weighted(), run.task.n_features
    recentred = "centre" in run.costs
    shift, center_error, radius = run.framed(stretch)
    weight = method.center_weight(task, radius, center_error if recentred else None) if task.private_center else 0
    noise = deviation(method, run.costs["second moment"], d, task.relation, weight) * radius**2 / run.n
    second = run.moment(radius, stretch, shift)
    if weight:
        constant = weight / LEVELS * radius
        row = constant * run.population.center(run.repetition, View(radius, stretch, shift))
        second = np.block([[np.array([[constant**2]]), row[None]], [row[:, None], second]])
    second = second + symmetric_noise(method, len(second), noise, run.rng)
    columns = run.population.columns
    frame = Frame(d, None, None if stretch is None or columns is None else columns.weights)
    lattice = Lattice(frame, radius)
    area = lattice.step**2 / run.n
    found = method._denoise(second / area, noise / area, float(run.n), lattice, frame, weight, task)
    center = np.zeros(d) if found.mean is None else found.mean
    if stretch is None or columns is None:
        return Found(found.components, found.covariance, found.eigenvalues, _sum(shift, center))
    turn = columns.turn
    return Found(
        found.components @ turn, turn.T @ found.covariance @ turn, found.eigenvalues, _sum(shift, center @ turn)
    )


def _sampling(method: Method, run: Run) -> Found:
    assert isinstance(method, SamplingMethod)
    shift, _, radius = run.framed()
    matrix = run.moment(radius, None, shift) * (run.n / radius**2)
    directions, values, left = method.sample(
        (matrix + matrix.T) / 2, float(run.n), run.costs, run.task, SeededRandomness(run.rng)
    )
    covariance = (directions.T * (values - left)) @ directions + left * np.eye(run.task.n_features)
    unit = radius**2 / run.n
    return Found(directions, covariance * unit, values[: len(directions)] * unit, shift)


def _signs(method: Method, run: Run) -> Found:  # noqa: ARG001
    """The course of `SpatialSign.estimate`; its variances where they are asked for."""
    task, cost, d = run.task, run.costs["directions"], run.task.n_features
    shift, _ = run.shift()
    noise = deviation(mechanism_for(cost), cost, d, task.relation) / run.n
    matrix = run.moment(None, None, shift) + symmetric_noise(mechanism_for(cost), d, noise, run.rng)
    directions = _leading(matrix, run.wanted)
    if task.n_components is not None and not run.variances:
        return Found(directions)
    radius = run.cap()  # of scores and what they leave over together: that of rows
    if "radius for the scores" in run.costs:
        radius = run.radius("radius for the scores", None, shift, radius)
    if radius is None:
        raise AssertionError("a radius is public or paid for")
    squares = np.einsum("ij,jk,ik->i", directions, run.moment(radius, None, shift), directions)
    noisy = squares + squares_noise(run.costs["variances"], task, radius**2 / run.n, len(squares), run.rng)
    variances = np.maximum(noisy, 0.0)
    return Found(directions, (directions.T * variances) @ directions, variances, shift)


def _kendall(method: Method, run: Run) -> Found:  # noqa: ARG001
    cost, d = run.costs["Kendall's tau"], run.task.n_features
    noise = 2 * deviation(mechanism_for(cost), cost, d, run.task.relation) / run.n
    matrix = run.population.differences(run.repetition, run.wanted) + symmetric_noise(
        mechanism_for(cost), d, noise, run.rng
    )
    return Found(_leading(matrix, run.wanted))


def _refined(method: Method, run: Run) -> Found:
    """The course of `Refined.estimate`; its variances where they are asked for."""
    assert isinstance(method, Refined)
    d, k, cap = run.task.n_features, run.wanted, run.cap()
    shift = None if run.population.pairs else run.shift()[0]
    model, releases = None, list[SignRelease]()
    for stage, name in enumerate(name for name in run.costs if name.startswith("directions")):
        noise = deviation(Gaussian(), run.costs[name], d, run.task.relation) / run.n
        basis, factors = look_along(model, next_deviation(releases, run.costs, stage), d)
        stretch = np.eye(d) + (basis.T * (factors - 1)) @ basis if len(basis) else None
        seen = replace(run, repetition=run.repetition + _OTHER_PAIRS) if run.population.pairs and stage % 2 else run
        matrix = seen.moment(None, stretch, shift) + symmetric_noise(Gaussian(), d, noise, run.rng)
        releases.append(SignRelease(matrix, noise, basis, factors))
        model = understand(releases, model, k)
    if model is None:
        raise AssertionError("there is at least one release")
    basis = model.completed(k)
    if not run.variances or method.only_directions:
        return Found(basis)
    factors = even_factors(np.append(model.levels, 1.0)[:k], d - k)
    stretch = np.eye(d) + (basis.T * (factors - 1)) @ basis
    task = method.read_as(run.task)
    reach = run.radius("radius for the scores", stretch, shift, None)
    reach = variance_reach(reach, factors, cap, task, run.costs)
    squares = np.einsum("ij,jk,ik->i", basis, run.moment(reach, stretch, shift), basis)
    noisy = squares + squares_noise(run.costs["variances"], task, reach**2 / run.n, k, run.rng)
    return Found(basis, None, np.maximum(noisy, 0.0) / factors**2, shift)


def _whitened(method: Method, run: Run) -> Found:  # noqa: ARG001
    """The course of `Whitened.estimate`."""
    task, d, cap = run.task, run.task.n_features, run.cap()
    shift, _ = run.shift()
    mechanism = mechanism_of(task)

    def noisy(cost: Cost, radius: float, stretch: Floats | None) -> tuple[Floats, float]:
        noise = deviation(mechanism, cost, d, task.relation) * radius**2 / run.n
        matrix = run.moment(radius, stretch, shift) + symmetric_noise(mechanism, d, noise, run.rng)
        return denoised(matrix, noise, radius, task), noise

    def radius(name: str, outside: float, stretch: Floats | None) -> float:
        norms = run.population.norms(run.repetition, stretch, shift)
        return least(radius_but(run.costs[name], norms, run.n, outside, run.rng), cap)

    rough, noise = noisy(run.costs[FIRST], radius(FIRST_RADIUS, FIRST_OUTSIDE * run.n, None), None)
    _, basis, factors = whitening(rough, noise)
    stretch = factors[:, None] * basis
    reach = radius(LAST_RADIUS, last_outside(run.costs[LAST], run.n, task), stretch)
    white, _ = noisy(run.costs[LAST], reach, stretch)
    back = basis.T / factors
    covariance = back @ white @ back.T
    return Found(_leading(covariance, run.wanted), covariance)


_COURSES: tuple[tuple[Any, Callable[[Method, Run], Found]], ...] = (
    (MomentMethod, _moments),
    (SamplingMethod, _sampling),
    (SpatialSign, _signs),
    (Kendall, _kendall),
    (Refined, _refined),
    (Whitened, _whitened),
)
COVARIANCE_KINDS = (MomentMethod, SamplingMethod, SpatialSign, Whitened)
