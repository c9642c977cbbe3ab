"""The paper's claims and this project's bars, counted over the measured cells."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dpeigen.methods import EigenvectorSampling, Gaussian, KapralovTalwar, Laplace
from dpeigen.methods.base import Method, Task
from dpeigen.privacy import Budget, Relation

Found = Mapping[tuple[str, str, float], NDArray[np.float64]]
SETS = ("wine", "airfoil", "adult")
DIMENSIONS = {"wine": (13, 178), "airfoil": (6, 1503), "adult": (110, 48842)}
SHARPENED = {
    "eigenvector-sampling": "AD",
    "kapralov-talwar": "KT",
    "laplace": "L",
    "gaussian-16": "G-16",
    "gaussian-10": "G-10",
    "gaussian-3": "G-3",
}


def text(found: Found) -> str:
    """All of it, to print."""
    lines = ["What the paper claims. AD has the smaller mean error than each of these, at ε ="]
    for name in sorted({n for n, m, _ in found if m == "AD" and n.split("@")[0] in SETS}, key=_order):
        for other in ("IT-U", "KT", "L", "G-16", "G-10", "G-3", "matrix-laplace"):
            if any((n, m) == (name, other) for n, m, _ in found):
                won = [f"{e:g}" for e in _epsilons(found) if _mean(found, name, "AD", e) < _mean(found, name, other, e)]
                lines.append(f"  {name:<18}{other:<16}{', '.join(won) or 'none'}")
    gaps = [_mean(found, n, "IT-U", e) / _mean(found, n, "AD", e) for n in SETS for e in _epsilons(found)]
    lines.append(f"IT-U over AD: between {min(gaps):.3f} and {max(gaps):.3f}.")
    for name in SETS:
        gaps = [_mean(found, name, "KT", e) / _mean(found, name, "AD", e) for e in _epsilons(found)]
        lines.append(f"KT over AD on {name}: between {min(gaps):.2f} and {max(gaps):.2f}.")
    for name in ("wine-ridge", "airfoil-ridge", "adult-ridge"):
        for method in ("AD", "AD-best", "matrix-laplace"):
            for other in ("output-perturbation", "output-perturbation-6"):
                won = [
                    f"{e:g}" for e in _epsilons(found) if _mean(found, name, method, e) < _mean(found, name, other, e)
                ]
                lines.append(f"  {name:<18}{method} beats {other}: {', '.join(won) or 'none'}")
    lines += ["", *sweeps(found), "", "Bars."]
    for sharp, printed in SHARPENED.items():
        worst = max(((_excess(found, n, sharp, printed, e)), n, e) for n in SETS for e in _epsilons(found))
        ratios = [_mean(found, n, sharp, e) / _mean(found, n, printed, e) for n in SETS for e in _epsilons(found)]
        lines.append(
            f"  {sharp} over {printed}: {min(ratios):.3f} to {max(ratios):.3f}; least favourable cell "
            f"{worst[1]} ε = {worst[2]:g}, {worst[0]:+.1f} standard errors: {'met' if worst[0] <= 3 else 'NOT met'}"
        )
    for name in ("airfoil", "adult"):
        ratio = max(
            _mean(found, name, "matrix-laplace", e) / _mean(found, name, "AD", e) for e in _epsilons(found) if e >= 0.5
        )
        lines.append(f"  matrix-laplace over AD, {name}, ε ≥ 0.5: at most {ratio:.3f}; bar 0.5: {_met(ratio <= 0.5)}")
    return "\n".join([*lines, "", *prices()])


def sweeps(found: Found) -> list[str]:
    """Slopes of the errors against the number of rows, and KT over AD against the number of columns."""
    lines = ["Slope of ln(error) against ln(n) over the last three points (the paper: −1/2 for AD, −1 for L and G)."]
    for method in ("AD", "IT-U", "KT", "L", "G-10", "eigenvector-sampling", "matrix-laplace"):
        points = sorted(x for n, m, x in found if (n, m) == ("rows", method))[-3:]
        slope = np.polyfit(np.log(points), np.log([_mean(found, "rows", method, x) for x in points]), 1)[0]
        lines.append(f"  {method:<22}{slope:+.2f}")
    for x in sorted(x for n, m, x in found if (n, m) == ("dimension", "AD")):
        ratio = _mean(found, "dimension", "KT", x) / _mean(found, "dimension", "AD", x)
        lines.append(f"KT over AD with {x:g} columns: {ratio:.2f}")
    return lines


def prices() -> list[str]:
    """What the published constants really cost."""
    lines = ["What the published constants really cost (one row replaced), stated → real ε."]
    methods: list[tuple[str, Method, float]] = [
        ("AD", EigenvectorSampling("published"), 0.0),
        ("IT-U", EigenvectorSampling("published", split="uniform"), 0.0),
        ("KT", KapralovTalwar("published"), 0.0),
        ("L", Laplace(constants="published"), 0.0),
        *((f"G-{p}", Gaussian(constants="published"), 10.0**-p) for p in (16, 10, 3)),
    ]
    for label, method, delta in methods:
        for name in SETS if label in ("L", "IT-U") else SETS[-1:]:
            d, n = DIMENSIONS[name]
            real = []
            for epsilon in (0.1, 1.0, 4.0):
                task = Task("amin-2019", d, None, Budget(epsilon, delta), Relation.REPLACE, 1.0, None, n)
                real.append(f"{epsilon:g} → {method.price(task).epsilon:.3g}")
            lines.append(f"  {label + (f', d = {d}' if label == 'L' else ''):<14}{', '.join(real)}")
    return lines


def _order(name: str) -> tuple[bool, int, str]:
    return "@" in name, SETS.index(name.split("@")[0]), name


def _epsilons(found: Found) -> list[float]:
    return sorted({e for n, m, e in found if (n, m) == (SETS[0], "AD")})


def _mean(found: Found, name: str, method: str, epsilon: float) -> float:
    return float(found[name, method, epsilon].mean())


def _excess(found: Found, name: str, first: str, second: str, epsilon: float) -> float:
    """By how many standard errors the first is worse than the second."""
    a, b = found[name, first, epsilon], found[name, second, epsilon]
    error = np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
    return float((a.mean() - b.mean()) / error)


def _met(good: bool) -> str:
    return "met" if good else "NOT met"
