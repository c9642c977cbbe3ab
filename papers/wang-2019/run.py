"""Figures 1 and 2 and Tables 1 and 2 of Wang and Xu 2019, with the printed noise and with what it takes.

The data are public or synthetic: they are looked at, and the noise is seeded, so nothing printed here is private.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Collection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # the other files of this folder, and what all reproductions share

import wang_cells  # noqa: E402
import wang_figures  # noqa: E402
import wang_readme  # noqa: E402
from recorded import command, expected_entries, standard_error, summary, write_expected  # noqa: E402
from wang_cells import CURVES  # noqa: E402

Floats = NDArray[np.float64]
RECORDED_FROM = 10**6  # expected.json was recorded with seeds that no run uses
REPETITIONS = {
    "figure-1": 20,
    "covertype": 20,
    "figure-2": 20,
    "isolet5": 20,
    "colon": 20,
    "leukemia": 20,
}  # as in the paper
QUICK = {"figure-1": 4, "covertype": 4, "figure-2": 3, "isolet5": 1, "colon": 1, "leukemia": 1}
LOST = 0.8  # of the distance of a random subspace: from there on a cell shows that nothing was learnt


PARTS = {
    "figure-1": ("figure-1/*", "figure-1-printed-data/*"),
    "figure-2-printed-data": ("figure-2-printed-data/*",),
    "figure-2": ("figure-2/*",),
    "covertype": ("covertype/*",),
    **{name: (f"table/{name}/*",) for name in wang_cells.TABLES},
}
ABOUT = (
    "Subspace error; keys are figure or table/cell/curve. printed: Algorithm 1 or 2 as printed at the stated ε; "
    "corrected and pure: at the ε that the printed noise really gives."
)


def measured(
    quick: bool, counts: dict[str, int], first_seed: int = 0, parts: Collection[str] = tuple(PARTS)
) -> dict[str, dict[str, Floats]]:
    """Errors by cell and curve, of these parts."""
    found: dict[str, dict[str, Floats]] = {}

    def keep(key: str, errors: dict[str, Floats]) -> None:
        found[key] = errors
        show(key, errors)

    def seeds(name: str) -> range:
        return range(first_seed, first_seed + counts[name])

    for cell in wang_cells.figure_cells(quick):
        name = "figure-1" if cell.s is None else "figure-2"
        if (name if cell.s is None else cell.figure) in parts:
            keep(cell.key, wang_cells.figure_errors(cell, seeds(name)))
    rows: tuple[str, Floats] = ("", np.zeros((0, 0)))
    for k, epsilon in wang_cells.covertype_cells(quick) if "covertype" in parts else ():
        if rows[0] != "covertype":
            rows = ("covertype", wang_cells.unit_rows("covertype"))
        errors = wang_cells.covertype_errors(k, epsilon, rows[1], seeds("covertype"))
        keep(f"covertype/n=581012/p=54/k={k}/eps={epsilon:g}", errors)
    for name, s, epsilon in wang_cells.table_cells(quick):
        if name not in parts:
            continue
        if name != rows[0]:
            rows = (name, wang_cells.unit_rows(name))
        keep(f"table/{name}/s={s}/eps={epsilon:g}", wang_cells.table_errors(name, s, epsilon, rows[1], seeds(name)))
    return found


def show(key: str, errors: dict[str, Floats]) -> None:
    """One line of the table."""
    print(f"{key:<52}" + "".join(f"{curve:>11}{errors[curve].mean():>7.3f}" for curve in CURVES), flush=True)


def random_distance(key: str) -> float:
    """√(2k(1 − k/p)): the distance of a random subspace from a fixed one."""
    if key.startswith("table"):
        return math.sqrt(20.0)  # k = 10 of hundreds of columns
    said = dict(part.split("=") for part in key.split("/") if "=" in part)
    k, p = int(said["k"]), int(said["p"])
    return math.sqrt(2 * k * (1 - k / p))


def lost(key: str, expected: dict[str, float]) -> bool:
    """Whether what was recorded is no better than noise: such a cell can only be lost again."""
    return expected["mean"] >= LOST * random_distance(key)


def agrees(key: str, mean: float, expected: dict[str, float], repetitions: int) -> bool:
    """Whether a mean is as recorded, by a rule that a random subspace fails unless the recorded one is lost.

    Lost cells have to be lost again. All others have to be within five standard errors of the difference (at least 3%),
    and clearly below the distance of a random subspace.
    """
    edge = LOST * random_distance(key)
    margin = max(5 * standard_error(expected, repetitions), 0.03 * expected["mean"])
    if lost(key, expected):
        return mean >= edge - margin
    return abs(mean - expected["mean"]) <= margin and mean < 0.95 * random_distance(key)


def claims(found: dict[str, dict[str, Floats]]) -> list[str]:
    """What must hold whatever the recorded numbers: lower errors than with the printed noise, if that is not lost."""
    wrong = []
    for key, errors in found.items():
        visible = key.startswith(("figure-1/", "figure-2/"))  # where the printed noise can be seen through
        for curve in ("corrected", "pure") if visible else ():
            spread = np.hypot(errors[curve].std(), errors["printed"].std()) / np.sqrt(len(errors[curve]))
            if errors[curve].mean() > errors["printed"].mean() + (3 * spread if curve == "corrected" else 0.0):
                wrong.append(f"{key}: {curve} is not below printed")
    return wrong


def main(quick: bool, out: Path) -> bool:
    """Print the table, write results and figures into ``out``, and say whether all agrees with ``expected.json``."""
    expected = expected_entries(HERE)
    found = measured(quick, QUICK if quick else REPETITIONS)
    results, wrong = {}, claims(found)
    for key, errors in found.items():
        for curve, values in errors.items():
            record = expected[f"{key}/{curve}"]
            mean = float(values.mean())
            good = agrees(key, mean, record, len(values))
            results[f"{key}/{curve}"] = summary(values, digits=5) | {"agrees": good, "lost": lost(key, record)}
            if not good:
                wrong.append(f"{key}/{curve}: {mean:.4g}, recorded {record['mean']:.4g}")
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    wang_figures.draw(found, out)
    print(*wrong, sep="\n")
    print("Some entries differ." if wrong else "All entries agree.", f"Written to {out}.")
    return not wrong


def record(*parts: str) -> None:
    """Write ``expected.json`` anew, or only `PARTS` of it: only after a change that is meant to change the numbers."""
    if unknown := set(parts) - set(PARTS):
        sys.exit(f"There are the parts {', '.join(PARTS)}; not {', '.join(sorted(unknown))}.")
    found = measured(False, REPETITIONS, RECORDED_FROM, parts or tuple(PARTS))
    flat = {f"{key}/{curve}": values for key, errors in found.items() for curve, values in errors.items()}
    only = [pattern for part in parts for pattern in PARTS[part]]
    write_expected(HERE, ABOUT, flat, digits=5, only=only)
    wang_readme.rewrite(HERE)
    sys.exit(0)  # comparing is a run of its own


if __name__ == "__main__":
    command(__doc__, HERE, main, record)
