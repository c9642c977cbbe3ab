"""Predicted error against ε, a line for each method, with the floor without privacy and the minimax rate."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpeigen.planner.beside import InTurn
from dpeigen.planner.planning import plan_problem
from dpeigen.planner.plans import Plan
from dpeigen.planner.problem import Problem, Simulator

__all__ = ["METRIC_NAMES", "PARTS", "Curves", "curves", "draw", "start_curves", "wanted"]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#44AA99", "#595959",
            "#999933", "#332288", "#AA7744")  # fmt: skip
_MARKERS = "os^Dv<>PX*ph"
_REPETITIONS = 3
_POINTS, PARTS = 7, 2
METRIC_NAMES = {
    "sin_theta": "sinΘ",
    "projection_distance": "distance of projectors",
    "relative_frobenius": "relative Frobenius error of the covariance",
    "relative_operator": "relative operator-norm error of the covariance",
}


def wanted(plan: Plan) -> str:
    """What the plan estimates, in words."""
    k = plan.facts["n_components"]
    return "the whole covariance" if k is None else f"{k} component{'s' if k > 1 else ''}"


@dataclass(frozen=True)
class Curves:
    """Plans along a grid of ε."""

    epsilons: tuple[float, ...]
    plans: tuple[Plan, ...]

    def of(self, method: str) -> tuple[list[float], list[float]]:
        """(ε, error) of a method, at each ε where it is allowed."""
        pairs = [
            (epsilon, p.error)
            for epsilon, plan in zip(self.epsilons, self.plans, strict=True)
            for p in plan.predictions
            if p.method == method
        ]
        return [x for x, _ in pairs], [y for _, y in pairs]


def start_curves(problem: Problem, methods: Any = None, pool: Executor | None = None) -> list[Future[Any]]:
    """Start plans, in two parts, at values of ε from a tenth of the problem's own to ten times it."""
    middle = problem.task.budget.epsilon
    grid = [float(epsilon) for epsilon in np.geomspace(middle / 10, middle * 10, _POINTS)]
    pool = InTurn() if pool is None else pool
    return [pool.submit(_plans_at, problem, grid[part::PARTS], methods) for part in range(PARTS)]


def _plans_at(problem: Problem, epsilons: list[float], methods: Any) -> list[tuple[float, Plan]]:
    """Plans at those ε that allow some method; what their runs have in common is computed once."""
    found, simulator = [], Simulator(problem)
    for epsilon in epsilons:
        with contextlib.suppress(ValueError):
            plan = plan_problem(problem.at(epsilon), simulator, methods, repetitions=_REPETITIONS)
            found.append((epsilon, plan))
    return found


def curves(parts: list[Future[Any]], progress: Callable[[], None] | None = None) -> Curves:
    """The results of what `start_curves` has started."""
    found = []
    for part in parts:
        if progress:
            progress()
        found += part.result()
    found.sort(key=lambda point: point[0])
    return Curves(tuple(epsilon for epsilon, _ in found), tuple(plan for _, plan in found))


def draw(lines: Curves, plan: Plan, path: str | Path, target: float | None = None) -> None:
    """Write the figure; the file type follows from the name."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.8, 5.2), layout="constrained")
    ax = figure.subplots()
    names = dict.fromkeys(p.method for each in (plan, *lines.plans) for p in each.predictions)
    for name, colour, marker in zip(names, _COLOURS, _MARKERS, strict=False):
        x, y = lines.of(name)
        if x:
            ax.plot(x, y, color=colour, marker=marker, markersize=4.5, linewidth=1.6, label=name)
    ax.axhline(plan.floor, color="#222222", linestyle=":", linewidth=1.4, label="without privacy")
    rates = [(e, p.rate) for e, p in zip(lines.epsilons, lines.plans, strict=True) if p.rate is not None]
    if rates:
        label = "minimax rate (constant 1)"
        ax.plot(*zip(*rates, strict=True), color="#777777", linestyle="--", linewidth=1.2, label=label)
    if target is not None:
        ax.axhline(target, color="#AA0000", linewidth=1.0, label=f"target {target:g}")
    ax.axvline(plan.facts["epsilon"], color="#CCCCCC", linewidth=1.0, zorder=0)
    ax.set(xscale="log", yscale="log", xlabel="ε", ylabel=f"{METRIC_NAMES[plan.metric]}, predicted mean")
    facts = plan.facts
    ax.set_title(f"{facts['n_rows']:,} rows × {facts['n_features']} columns, {wanted(plan)}, δ = {facts['delta']:g}",
                 loc="left", fontsize=10)  # fmt: skip
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.grid(alpha=0.25, which="both", linewidth=0.4)
    ax.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.savefig(path, dpi=150)
