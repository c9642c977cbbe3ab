"""Errors of methods in many steps: the library's own runs on tables of moderate size, or their steps in groups.

`geodesic` and `dp-pca` run on a drawn table of at most a few thousand rows. Where it stands for n rows, the budget is
raised so that noise is as large beside m rows as it would be beside n, and the larger sampling error of m rows, which
runs without noise show, is taken off: e² = e_m² − s_m²(1 − m/n).

`oja` takes a step for every row. Steps that together move a direction by little are made at once, with the mean of the
moment and noise of the variance that the steps have together; sizes of steps are those of the stream.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np

from dpeigen._types import Floats
from dpeigen.curator import Purpose
from dpeigen.methods import DPPCA, Method, Oja, Task
from dpeigen.methods.base import run_method
from dpeigen.methods.framing import ask_frame
from dpeigen.methods.one_pass.oja import VARIANCE_SHARE
from dpeigen.methods.one_pass.oja_steps import LARGEST_START
from dpeigen.methods.one_pass.streaming import orthonormal
from dpeigen.planner.population import Population, View
from dpeigen.planner.simulated import Assumed, SimulatedCurator
from dpeigen.planner.simulation import METRICS
from dpeigen.privacy import Budget, allocate, gaussian_epsilon, gaussian_mu
from dpeigen.privacy.randomness import Generator, SeededRandomness, made_up_generator
from dpeigen.questions import GaussianLaw
from dpeigen.sources import ArraySource

_FEWEST, _MOST, _NUMBERS = 2000, 20_000, 300_000  # rows of a table, about so many numbers of them
_LARGER = 3  # times that for methods whose course depends on how many rows there are
_WITHOUT_NOISE = 30.0  # times the μ of a run
_MOST_MU = 20.0  # noise of more is nothing beside a table, and budgets end there
_FLOOR_RUNS = 3
_TOGETHER, _GROUPS = 0.15, 300  # how far the steps of a group go, and how many groups there are at most
_SAMPLE = 400  # rows that sampling errors of gradients are drawn from


def table_errors(method: Method, task: Task, population: Population, repetitions: int, metric: str) -> Floats:
    """Errors of the method itself on drawn tables."""
    n, d = population.n, task.n_features
    larger = _LARGER if isinstance(method, DPPCA) else 1
    m = min(n, larger * int(np.clip(_NUMBERS // d, _FEWEST, _MOST)))
    if m == n:
        return _on_tables(method, task, population, n, repetitions, metric)
    while True:
        mu = gaussian_mu(task.budget.epsilon, task.budget.delta) * n / m
        short = _with_mu(replace(task, n_rows=m), mu)
        try:
            method.check(short)
        except ValueError:
            m = min(2 * m, n)  # too few rows for the method, whatever its noise
            if m == n:
                return _on_tables(method, task, population, n, repetitions, metric)
            continue
        break
    errors = _on_tables(method, short, population, m, repetitions, metric)

    def without_noise() -> Floats:
        return _on_tables(method, _with_mu(short, _WITHOUT_NOISE * mu), population, m, _FLOOR_RUNS, metric)

    floor = population.kept(("without noise", method.name, m, metric), without_noise)
    excess = float(np.mean(floor**2)) * (1 - m / n)
    mean = float(np.mean(errors**2))
    return errors * math.sqrt(max(mean - excess, mean * m / n) / mean)


def _with_mu(task: Task, mu: float) -> Task:
    delta = task.budget.delta
    return replace(task, budget=Budget(gaussian_epsilon(delta, min(mu, _MOST_MU)), delta))


def _on_tables(method: Method, task: Task, population: Population, n: int, repetitions: int, metric: str) -> Floats:
    d, columns = task.n_features, population.columns
    turn = np.eye(d) if columns is None else columns.turn
    errors = []
    for repetition in range(repetitions):
        rng = made_up_generator(n, repetition, d, 5)
        rows = population.assumed.draw(n, rng)
        table = rows if columns is None else rows @ turn.T
        if isinstance(task.center, np.ndarray) or (columns is not None and isinstance(task.center, str)):
            table = table + _origin(task)
        found = run_method(method, ArraySource(table), task, SeededRandomness(rng)).components
        errors.append(METRICS[metric](found, turn[:, : task.n_components].T))
    return np.array(errors)


def _origin(task: Task) -> Floats:
    """Where the rows lie: about the public centre, or in the middle of column bounds."""
    if isinstance(task.center, np.ndarray):
        return task.center
    assert isinstance(task.bound, tuple)
    return task.bound[0] / 2 + task.bound[1] / 2


# --- one row at a time -----------------------------------------------------------------------------------------------


def oja_errors(method: Oja, task: Task, population: Population, repetitions: int, metric: str) -> Floats:
    """Errors of Oja's algorithm, its steps in groups."""
    first, per_term = method.first_rows(task), 2 if task.pairs else 1
    parts = {
        name: Population(population.assumed, rows // per_term, 7, pairs=task.pairs, columns=population.columns)
        for name, rows in first.items()
    }
    truth, errors = np.eye(task.n_features)[: task.n_components], []
    for repetition in range(repetitions):
        rng = made_up_generator(population.n, repetition, task.n_features, 6)
        shift, radius = _framing(method, task, parts.get("frame", population), repetition, rng)
        stream = _Steps(method, task, population, radius, shift, rng)
        if "spectrum" in parts:
            stream.see_spectrum(parts["spectrum"], repetition)
        rows = (task.n_rows or per_term * population.n) - sum(first.values())
        errors.append(METRICS[metric](stream.run(rows // per_term), truth))
    return np.array(errors)


def _framing(method: Oja, task: Task, part: Population, repetition: int, rng: Generator) -> tuple[Floats | None, float]:
    """By how much a paid centre is off in the eigenbasis, and the radius of rows, in the units of the population."""
    people, costs = Assumed(part, part, task, repetition), method.framing(task)
    frame, radius, _ = ask_frame(SimulatedCurator(costs, task, people, rng), task, costs, weighted=False)
    radius *= math.sqrt(2) if frame.pairs else 1.0
    if Purpose.CENTRE not in costs or frame.center is None:
        return None, radius
    return people.in_eigenbasis(frame.center - people.origin), radius


class _Steps:
    """The course of `OjaStream`."""

    def __init__(
        self, method: Oja, task: Task, population: Population, radius: float, shift: Floats | None, rng: Generator
    ) -> None:
        self.method, self.task, self.radius, self.rng = method, task, radius, rng
        self.view = View(radius, None, shift)
        self.mean = population.mean(self.view)
        self.images = self.view.image(population.rows(0)[:_SAMPLE])
        k = task.n_components or 1
        self.directions = orthonormal(rng.normal(size=(k, task.n_features)))
        self.tops, self.gaps = [0.0] * k, [method.gap or 0.0] * k
        self.errors = [LARGEST_START] * k

    def see_spectrum(self, part: Population, repetition: int) -> None:
        d, n = self.task.n_features, part.n
        (cost,) = allocate(self.task.budget, main={"moment": 1.0}, coordinates=d * (d + 1) // 2).values()
        law = GaussianLaw()
        noise = law.deviation(d, cost, self.task.relation) * self.radius**2 / n
        matrix = part.moment(repetition, self.view) + law.made_up(d, noise, self.rng)
        values, vectors = np.linalg.eigh(matrix)
        values, vectors = values[::-1], vectors.T[::-1]
        self.directions = vectors[: len(self.tops)].copy()
        padded = np.append(values, values[-1])
        for j in range(len(self.tops)):
            self.tops[j] = max(float(padded[j]), noise)
            self.gaps[j] = max(float(padded[j] - padded[j + 1]), noise)
            sample = self.tops[j] * self.radius**2 / self.gaps[j] ** 2 / n
            self.errors[j] = min(LARGEST_START, d * (noise / self.gaps[j]) ** 2 + sample)

    def run(self, terms: int) -> Floats:
        """The directions after so many rows (or pairs)."""
        per_term = 2 if self.task.pairs else 1
        block = self.method.block_rows(self.task)
        step = self.method.step_rows(self.task, block)
        block //= per_term
        used = block - math.ceil(VARIANCE_SHARE * block)
        mu, _ = self.method.local(self.task.budget, used, step)
        k = len(self.directions)
        count = max(1, (terms // block or 1) * used // step // k)
        reach = self.radius**2 / 2
        if self.method.clip is not None:
            reach = min(reach, self.method.clip)
        noise = 2 * reach / (mu * step)
        sizes = np.array([self._sizes(j, count, noise, step) for j in range(k)])
        for starts, ends in _groups(sizes, np.maximum(self.tops, self.gaps)):
            part = sizes[:, starts:ends]
            for j in range(k):
                self._move(j, float(part[j].sum()), float(np.sqrt(part[j] @ part[j])), noise, step)
        return orthonormal(self.directions)

    def _sizes(self, j: int, count: int, noise: float, step: int) -> Floats:
        """Of all steps of a direction; the expected errors fall as 1/(1/P + t/noise)."""
        d, gap = self.task.n_features, self.gaps[j]
        top = max(self.tops[j], gap)
        variance = (d * noise**2 + (self.tops[j] or gap) * self.radius**2 / step) / gap**2
        held = 0
        if self.method.gap is not None:
            held = min(count, math.ceil(math.log(d) / 2 * (1 + variance / LARGEST_START)))
        t = np.maximum(np.arange(count) - held, 0)
        expected = 1 / (1 / self.errors[j] + t / variance)
        share = np.minimum(expected / (expected + variance), gap / top)
        return np.minimum(self.method.h * share / gap, 1 / top)

    def _move(self, j: int, size: float, root: float, noise: float, step: int) -> None:
        """One group of steps: sizes that add up to ``size``, the squares of which to ``root``²."""
        w, before = self.directions[j], self.directions[:j]
        top = max(self.tops[j], self.gaps[j])
        scores = self.images @ w
        weights = self.rng.normal(size=len(scores)) * scores / math.sqrt(len(scores) * step)
        sampled = weights @ self.images
        gradient = size * (self.mean @ w) + root * (sampled + noise * self.rng.normal(size=len(w)))
        moved = max(1 - size * top, 0.0) * w + gradient
        moved -= before.T @ (before @ moved)
        self.directions[j] = moved / np.linalg.norm(moved)


def _groups(sizes: Floats, tops: Floats) -> list[tuple[int, int]]:
    """Steps to be made together."""
    gone = np.cumsum((sizes * tops[:, None]).max(axis=0))
    together = max(_TOGETHER, float(gone[-1]) / _GROUPS)
    ends = np.flatnonzero(np.diff(np.floor(gone / together))) + 1
    edges = [0, *ends.tolist(), len(gone)]
    return list(itertools.pairwise(edges))
