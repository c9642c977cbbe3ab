"""Errors of a method on assumed rows, simulated on its moments instead of on its rows.

A method looks at n rows through one or a few mean moments, of rows clipped to a radius, of their signs, or of signs of
differences, each with noise of a known law. In the eigenbasis of an elliptical population the mean of such a moment is
diagonal; that of signs is an integral (`stats.signs`), that of clipped rows a Monte Carlo mean with the signs as
control variates. The sampling error of n rows is that of a few thousand rows with random weights
(multipliers): F = Σ gᵢ(yᵢyᵢᵀ − M)/√(nN). Up to a few thousand rows, the rows themselves are drawn. So a run costs a few
products and decompositions of d × d matrices, whatever n is. What follows the noise is the library's own code.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpeigen.methods import Kendall, Laplace, MatrixLaplace, Method, Refined, SpatialSign, Task
from dpeigen.methods.eigenvector_sampling import EigenvectorSampling
from dpeigen.methods.moment import MomentMethod
from dpeigen.methods.prediction import Course, outline
from dpeigen.methods.radius import KEEP, OUT_OF, noise_scale, slack
from dpeigen.methods.sampling import GRID as VALUE_GRID
from dpeigen.methods.sampling import VALUES, VECTORS, SamplingMethod, draw_epsilon
from dpeigen.planner.assumptions import Rows
from dpeigen.privacy import Cost, Relation
from dpeigen.privacy.randomness import Generator, made_up_generator
from dpeigen.privacy.sphere import envelope
from dpeigen.stats.norms import GRID
from dpeigen.stats.refinement import SignRelease, look_along, understand
from dpeigen.stats.signs import compression
from dpeigen.stats.spectrum import projection_distance, sin_theta

Floats = NDArray[np.float64]
DRAWN = 2000  # rows up to which they are drawn themselves, and as many stand for more
_PARTNERS = 8  # of a row among differences
_SAMPLES = 24, 8  # different draws of up to 60 columns, and of more; every repetition has noise of its own
METRICS: dict[str, Callable[[Floats, Floats], float]] = {
    "sin_theta": sin_theta,
    "projection_distance": lambda a, b: projection_distance(a, b) / math.sqrt(2 * len(a)),
}


class Population:
    """Assumed rows, and what a moment of n of them looks like in each repetition. Deterministic in its seed."""

    def __init__(self, rows: Rows, n: int, seed: int = 0) -> None:
        self.assumed, self.n, self._seed = rows, n, seed
        self.exact = n <= DRAWN
        self._drawn = rows.draw(DRAWN, made_up_generator(seed, 0))
        shares, _ = compression(rows.eigenvalues, 1.0, 0)
        self._shares = shares[:-1]
        self._found: dict[object, Floats] = {}

    @property
    def d(self) -> int:
        return self.assumed.n_features

    def rows(self, repetition: int) -> Floats:
        """The rows of a repetition, or those that stand for them."""
        if not self.exact:
            return self._drawn
        key = ("rows", repetition)
        if key not in self._found:
            self._found[key] = self.assumed.draw(self.n, made_up_generator(self._seed, 1, repetition))
        return self._found[key]

    def norms(self, repetition: int) -> Floats:
        return np.sort(np.linalg.norm(self.rows(repetition), axis=1))

    def signs(self, repetition: int, stretch: Floats | None = None, shift: Floats | None = None) -> Floats:
        """The mean sign moment of rows times ``stretch`` (symmetric), about a centre that is off by ``shift``."""

        def image(rows: Floats) -> Floats:
            moved = rows if shift is None else rows - shift
            stretched = moved if stretch is None else moved @ stretch
            return stretched / np.maximum(np.linalg.norm(stretched, axis=1, keepdims=True), 1e-300)

        key = ("signs", repetition) if stretch is None and shift is None else None
        return self._moment(repetition, image, lambda: self._sign_mean(stretch, shift), key)

    def clipped(self, repetition: int, radius: float) -> Floats:
        """The mean moment of rows clipped to a radius."""

        def image(rows: Floats) -> Floats:
            return rows * np.minimum(1.0, radius / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300))

        return self._moment(repetition, image, lambda: self._clipped_mean(radius), ("clipped", radius, repetition))

    def differences(self, repetition: int) -> Floats:
        """Kendall's tau of n rows, spherical."""
        key = ("differences", repetition)
        if key in self._found:
            return self._found[key]
        rng = made_up_generator(self._seed, 2, repetition)
        rows = self.rows(repetition)
        rows = rows[rng.permutation(len(rows))[: max(1000, self.n // 3)]] if len(rows) > 1000 else rows
        count, partners = len(rows), min(_PARTNERS, len(rows) // 2)
        mean = self._sign_mean(None, None, pairs=True)
        g = rng.normal(size=count)
        found = np.zeros((self.d, self.d))
        for step in range(1, partners + 1):
            z = rows - np.roll(rows, step, axis=0)
            z /= np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-300)
            weights = g + np.roll(g, step)
            found += (z * weights[:, None]).T @ z - weights.sum() * mean
        self._found[key] = mean + found / (partners * math.sqrt(count * self.n))
        return self._found[key]

    def _moment(
        self, repetition: int, image: Callable[[Floats], Floats], mean: Callable[[], Floats], key: object
    ) -> Floats:
        if key is not None and key in self._found:
            return self._found[key]
        images = image(self.rows(repetition))
        if self.exact:
            found = images.T @ images / self.n
        else:
            expected = mean()
            g = made_up_generator(self._seed, 3, repetition).normal(size=(len(images), 1))
            found = expected + ((images * g).T @ images - g.sum() * expected) / math.sqrt(len(images) * self.n)
        if key is not None:
            self._found[key] = found
        return found

    def _sign_mean(self, stretch: Floats | None, shift: Floats | None, *, pairs: bool = False) -> Floats:
        share = self.assumed.contamination * (2 if pairs else 1)
        outlier = self.assumed.outlier
        if stretch is None:
            mean = np.diag(self._shares)
        else:
            values, vectors = np.linalg.eigh((stretch * self.assumed.eigenvalues) @ stretch)
            shares, _ = compression(np.maximum(values, values[-1] * 1e-12), 1.0, 0)
            mean = (vectors * shares[:-1]) @ vectors.T
            outlier = stretch @ outlier
        if share:
            mean = (1 - share) * mean + share * np.outer(outlier, outlier) / float(outlier @ outlier)
        if shift is not None and float(shift @ shift) > 1e-3 * float(self.assumed.eigenvalues.sum()):
            mean = mean + self._shifted(stretch, shift)
        return mean

    def _shifted(self, stretch: Floats | None, shift: Floats) -> Floats:
        """What a centre that is off adds to the mean sign moment: the even part of it, on the drawn rows."""
        change = np.zeros((self.d, self.d))
        for offset, weight in ((shift, 0.5), (-shift, 0.5), (0.0, -1.0)):
            moved = self._drawn - offset
            z = moved if stretch is None else moved @ stretch
            z = z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-300)
            change += weight / len(z) * (z.T @ z)
        return change

    def _clipped_mean(self, radius: float) -> Floats:
        """Diagonal: w·x² with w = min(1, radius²/|x|²), by regression on x²/|x|², whose mean is known."""
        x = self._drawn
        squares, lengths = x**2, (x**2).sum(axis=1, keepdims=True)
        clipped = squares * np.minimum(1.0, radius**2 / lengths)
        if self.assumed.contamination:
            return np.diag(clipped.mean(axis=0))
        shares = squares / lengths
        known = self._shares
        centred = shares - known
        slope = (centred * (clipped - clipped.mean(axis=0))).mean(axis=0) / (centred**2).mean(axis=0)
        mean = clipped.mean(axis=0) - slope * centred.mean(axis=0)
        return np.diag(_smoothed(self.assumed.eigenvalues, mean))


def _smoothed(eigenvalues: Floats, mean: Floats) -> Floats:
    """The ratio to the eigenvalue is a smooth function of it: means over equal ones, a low degree where they differ."""
    ratio, logs = mean / eigenvalues, np.log(eigenvalues)
    if np.ptp(logs) < 1e-9:
        return np.full_like(mean, mean.mean())
    degree = min(3, len(np.unique(np.round(logs, 9))) - 1)
    fitted = np.polynomial.Polynomial.fit(logs, ratio, degree)(logs)
    return eigenvalues * np.maximum(fitted, ratio.min() / 2)


# --- one run of a method ---------------------------------------------------------------------------------------------


def simulated_errors(
    method: Method, task: Task, population: Population, repetitions: int, metric: str = "sin_theta"
) -> Floats:
    """Errors of a checked method in so many runs on the assumed rows."""
    k, d = task.n_components or task.n_features, task.n_features
    truth, distance = np.eye(d)[:k], METRICS[metric]
    course = outline(method, task, population.n * (2 if task.pairs and not isinstance(method, Kendall) else 1))
    costs: dict[str, Cost] = method.shares(task)  # type: ignore[attr-defined]
    errors = []
    for repetition in range(repetitions):
        rng = made_up_generator(population.n, repetition, d)
        found = _directions(method, task, course, costs, population, repetition % _SAMPLES[d > 60], rng)
        errors.append(distance(found, truth))
    return np.array(errors)


def floor_errors(population: Population, task: Task, repetitions: int, metric: str) -> Floats:
    """Errors without privacy: of the plain covariance or of Kendall's tau, whichever suits these rows better."""
    k, d = task.n_components or task.n_features, task.n_features
    moments = (lambda r: population.clipped(r, math.inf), population.differences)
    errors = [[METRICS[metric](_leading(m(r), k), np.eye(d)[:k]) for r in range(repetitions)] for m in moments]
    return np.array(min(errors, key=lambda found: float(np.mean(found))))


def is_modelled(method: Method) -> bool:
    """Whether there is an error model for it."""
    return isinstance(method, (MomentMethod, SpatialSign, Kendall, Refined, SamplingMethod)) and (
        getattr(method, "constants", "sharp") == "sharp"
    )


def _directions(
    method: Method,
    task: Task,
    course: Course,
    costs: dict[str, Cost],
    population: Population,
    repetition: int,
    rng: Generator,
) -> Floats:
    k = task.n_components or task.n_features
    if isinstance(method, Refined):
        return _refined(task, course, costs, population, repetition, rng)
    if isinstance(method, Kendall):
        return _leading(population.differences(repetition) + _noise(method, course.noise, costs, task, rng), k)
    if isinstance(method, SpatialSign):
        shift = _shift(task, course, costs, population, repetition, rng)
        return _leading(population.signs(repetition, None, shift) + _noise(method, course.noise, costs, task, rng), k)
    radius = _radius(task, costs, population, repetition, rng)
    moment = population.clipped(repetition, radius)
    if isinstance(method, SamplingMethod):
        return _drawn(method, task, moment * (population.n / radius**2), costs, rng)
    return _leading(moment + _noise(method, course.noise * radius**2, costs, task, rng), k)


def _leading(matrix: Floats, k: int) -> Floats:
    return np.linalg.eigh((matrix + matrix.T) / 2)[1].T[::-1][:k]


def _noise(method: Method, deviation: float, costs: dict[str, Cost], task: Task, rng: Generator) -> Floats:
    """Symmetric noise of the law that the method draws from, by its deviation off the diagonal."""
    d = task.n_features
    main = next(cost for name, cost in costs.items() if name in ("second moment", "directions", "Kendall's tau"))
    if isinstance(method, Laplace):
        upper = np.triu(rng.laplace(scale=deviation / math.sqrt(2), size=(d, d)))
        return upper + np.triu(upper, 1).T
    if isinstance(method, MatrixLaplace) or (not isinstance(method, MomentMethod) and hasattr(main, "epsilon")):
        g = rng.normal(size=(2, d, d + 1))
        return deviation / math.sqrt(2 * (d + 1)) * (g[0] @ g[0].T - g[1] @ g[1].T)
    return _gaussian(d, deviation, rng)


def _gaussian(d: int, deviation: float, rng: Generator) -> Floats:
    g = rng.normal(size=(d, d)) * (deviation / math.sqrt(2))
    return g + g.T


def _shift(
    task: Task,
    course: Course,
    costs: dict[str, Cost],
    population: Population,
    repetition: int,
    rng: Generator,
) -> Floats | None:
    """By how much a paid centre is off."""
    if not course.center:
        return None
    radius = public_radius(task)
    if course.paid_center_radius:
        paid = _paid_radius(costs["radius for the centre"], task, population.norms(repetition), population.n, rng)
        radius = paid if radius is None else min(paid, radius)
    d = task.n_features
    return rng.normal(size=d) * (course.center * (radius or 0.0) / math.sqrt(d))


def _radius(task: Task, costs: dict[str, Cost], population: Population, repetition: int, rng: Generator) -> float:
    radius = public_radius(task)
    if "radius" in costs:
        paid = _paid_radius(costs["radius"], task, population.norms(repetition), population.n, rng)
        radius = paid if radius is None else min(paid, radius)
    if radius is None:
        raise AssertionError("`check` has refused a task without a bound")
    return radius


def public_radius(task: Task) -> float | None:
    """The longest row that a public bound allows."""
    if isinstance(task.bound, float):
        return task.bound
    if not isinstance(task.bound, tuple):
        return None
    lower, upper = task.bound
    origin = lower / 2 + upper / 2 if isinstance(task.center, str) else 0.0 if task.center is None else task.center
    half = np.maximum(np.abs(lower - origin), np.abs(upper - origin))
    return float(np.linalg.norm(half))


def _paid_radius(cost: Cost, task: Task, norms: Floats, n: int, rng: Generator) -> float:
    """What `methods.radius` would find among n rows with (a sample of) these norms."""
    scale = noise_scale(cost, task.relation)
    counts = np.searchsorted(norms, GRID, side="right") * (n / len(norms))
    margins = counts - n * KEEP / OUT_OF
    if task.relation is not Relation.REPLACE:
        margins *= OUT_OF
    noise = rng.laplace(scale=scale, size=len(GRID)) - rng.laplace(scale=scale)
    passed = margins + slack(cost, task.relation) + noise >= 0
    return float(GRID[np.argmax(passed)] if passed.any() else GRID[-1])


def _refined(
    task: Task,
    course: Course,
    costs: dict[str, Cost],
    population: Population,
    repetition: int,
    rng: Generator,
) -> Floats:
    """The course of `Refined.estimate`, on moments."""
    d, k = task.n_features, task.n_components or task.n_features
    shift = _shift(task, course, costs, population, repetition, rng)
    model, releases = None, list[SignRelease]()
    deviation = course.noise * math.sqrt(course.looks)
    for _ in range(course.looks):
        basis, factors = look_along(model, deviation, k, d)
        stretch = np.eye(d) + (basis.T * (factors - 1)) @ basis if len(basis) else None
        matrix = population.signs(repetition, stretch, shift) + _gaussian(d, deviation, rng)
        releases.append(SignRelease(matrix, deviation, basis, factors))
        model = understand(releases, model, k)
    if model is None:
        raise AssertionError("there is at least one release")
    return model.completed(k)


def _drawn(method: SamplingMethod, task: Task, matrix: Floats, costs: dict[str, Cost], rng: Generator) -> Floats:
    """Directions drawn one after the other; of each draw, its envelope, which is close to it in every direction."""
    d, k = task.n_features, task.n_components or task.n_features
    if isinstance(method, EigenvectorSampling):
        noisy = np.linalg.eigvalsh(matrix)[::-1].astype(np.float64)
        scale = method.value_scale(costs[VALUES], task) / VALUE_GRID
        concentrations = method.concentrations(noisy, scale, costs[VECTORS], task)
    else:
        concentrations = np.full(k, draw_epsilon(costs[VECTORS], k) * method.concentration(task))
    found, left = np.zeros((0, d)), np.eye(d)
    for c in concentrations[: min(k, d)]:
        values, vectors = np.linalg.eigh(left @ matrix @ left.T)
        beta = c * (values[-1] - values)
        u = (rng.normal(size=len(values)) / np.sqrt(envelope(beta) + 2 * beta)) @ vectors.T @ left
        u /= np.linalg.norm(u)
        found = np.vstack([found, u])
        if len(left) > 1:
            left = np.linalg.svd(found)[2][len(found) :]
    return found
