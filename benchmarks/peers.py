"""The error of our PCA beside diffprivlib's and OpenDP's at equal ε, pure privacy, one row replaced.

Run by `make bench`, or alone: `python benchmarks/peers.py` prints the whole table (`--quick`: a part of it). The peers
need other versions of scikit-learn, so each gets an environment of its own under `benchmarks/.peers`, made by pip once
and kept; a peer that cannot be installed is reported and skipped. `DPEIGEN_PEERS` names a Python that has them instead.

All get the same rows, centred and clipped to the same public radius, and the same number of components. The error is
‖P̂ − P‖_F/√(2k) against the components of those rows (1: orthogonal), averaged over repetitions. A random subspace has
√(1 − k/d). A cell in which both errors are above 0.9 of that says nothing about either, and is not judged. A cell in
which the peer's fits did not end within the time limit is not judged either. Both draw eigenvectors from another law
than they say, which spends more than ε; that is left to them. OpenDP's class pays for a mean, so ours pays for a centre
beside it, and it spends twice the ε it is given (its own map says so), so it is given half.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import venv
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
HOME = HERE / ".peers"
PACKAGES = {"diffprivlib": ["diffprivlib", "scikit-learn<1.6"], "opendp": ["opendp[scikit-learn]"]}
PEERS = {"diffprivlib": "diffprivlib", "opendp": "opendp", "opendp-class": "opendp"}  # → environment
EPSILONS = (0.1, 0.5, 1.0, 4.0)
REPETITIONS, OUR_REPETITIONS, FEWEST = 20, 40, 8
LIMIT = 6.0  # seconds for all of a peer's repetitions at one ε
INSTALLING = 600.0  # seconds
CHANCE = 0.9  # of the error of a random subspace
OURS = ("matrix-laplace", "laplace", "spatial-sign")


def environment(name: str, install: bool = True) -> tuple[str | None, str]:
    """The Python of a peer's environment, made on first use; or None and why there is none."""
    if named := os.environ.get("DPEIGEN_PEERS"):
        return named, ""
    folder = HOME / name
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        if not install:
            return None, "is not installed; `python benchmarks/peers.py --quick` installs it"
        print(f"installing {' '.join(PACKAGES[name])} into {folder} …", file=sys.stderr, flush=True)
        try:
            venv.create(folder, with_pip=True, clear=True)
            call = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES[name]]
            done = subprocess.run(call, capture_output=True, text=True, timeout=INSTALLING, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            return None, f"cannot be installed: {type(error).__name__}"
        if done.returncode:
            last = ([line for line in done.stderr.splitlines() if "ERROR" in line] or ["no message"])[-1]
            return None, f"cannot be installed: {last[:100]}"
        (folder / "ready").write_text(" ".join(PACKAGES[name]) + "\n", encoding="utf-8")
    return str(python), ""


Errors = np.ndarray  # (distance of projectors, share of the captured variance that is lost)


@dataclass(frozen=True)
class Setting:
    """Rows that all clip to the same radius, and how many components they are asked for."""

    name: str
    X: np.ndarray
    k: int
    radius: float

    @classmethod
    def of(cls, name: str, X: np.ndarray, k: int, quantile: float = 0.95) -> Setting:
        """Centred, columns of unit variance unless synthetic, clipped to a quantile: the data are public."""
        norms = np.linalg.norm(X, axis=1, keepdims=True)
        radius = float(np.quantile(norms, quantile))
        clipped = X * np.minimum(1.0, radius / np.maximum(norms, 1e-300)) * (1 - 1e-9)
        return cls(f"{name} {len(X):,}×{X.shape[1]}, k = {k}", clipped, k, radius)

    @cached_property
    def components(self) -> np.ndarray:
        return np.linalg.svd(self.X, full_matrices=False)[2][: self.k]

    @property
    def random(self) -> float:
        """The error of a random subspace (root mean square)."""
        return math.sqrt(1 - self.k / self.X.shape[1])

    def error(self, components: np.ndarray) -> Errors:
        """Of orthonormal rows; others are made so first."""
        rows = np.linalg.qr(np.asarray(components).T)[0].T
        distance = math.sqrt(max(0.0, 1 - float(np.sum((self.components @ rows.T) ** 2)) / self.k))
        best, found = (float(np.sum((self.X @ basis.T) ** 2)) for basis in (self.components, rows))
        return np.array([distance, 1 - found / best])


def synthetic(variances: np.ndarray, n: int, seed: int, tail: float = math.inf) -> np.ndarray:
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(len(variances), len(variances))))[0]
    X = rng.normal(size=(n, len(variances))) * np.sqrt(variances)
    if math.isfinite(tail):
        X /= np.sqrt(rng.chisquare(tail, size=(n, 1)) / tail)
    return X @ basis


def settings(quick: bool = False) -> Iterator[Setting]:
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

    def spiked(d: int, k: int, strength: float) -> np.ndarray:
        return np.where(np.arange(d) < k, strength, 1.0)

    def power(d: int, decay: float) -> np.ndarray:
        return np.arange(1, d + 1) ** -decay

    yield Setting.of("spiked (10)", synthetic(spiked(5, 2, 10.0), 1_000, 1), 2)
    yield Setting.of("power law (1)", synthetic(power(8, 1.0), 2_000, 2), 2)
    if quick:
        return
    yield Setting.of("spiked (5)", synthetic(spiked(4, 1, 5.0), 500, 3), 1)
    yield Setting.of("spiked (10)", synthetic(spiked(10, 3, 10.0), 10_000, 4), 3)
    yield Setting.of("spiked (3)", synthetic(spiked(10, 1, 3.0), 20_000, 5), 1)
    yield Setting.of("power law (2)", synthetic(power(6, 2.0), 10_000, 6), 3)
    yield Setting.of("power law (1), heavy tails", synthetic(power(10, 1.0), 5_000, 7, tail=3.0), 2)
    yield Setting.of("spiked (20)", synthetic(spiked(15, 3, 20.0), 20_000, 8), 3)
    yield Setting.of("spiked (20)", synthetic(spiked(20, 3, 20.0), 50_000, 9), 3)
    tables = (("iris", load_iris(), 1), ("diabetes", load_diabetes(), 2), ("wine", load_wine(), 2))
    for name, bunch, k in (*tables, ("breast cancer", load_breast_cancer(), 2)):
        X = bunch.data
        yield Setting.of(name, (X - X.mean(axis=0)) / X.std(axis=0), k)


def ours(
    setting: Setting, epsilon: float, method: str, center: str | None, repetitions: int = OUR_REPETITIONS
) -> Errors:
    """Our mean errors."""
    from dpeigen import PrivatePCA

    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # seeded: a benchmark
        for seed in range(repetitions):
            options = {"epsilon": epsilon, "method": method, "center": center, "random_state": seed}
            fitted = PrivatePCA(setting.k, bound=setting.radius, **options).fit(setting.X)
            found.append(setting.error(fitted.components_))
    return np.mean(found, axis=0)


def theirs(
    setting: Setting, peer: str, python: str, epsilons: Sequence[float] = EPSILONS, repetitions: int = REPETITIONS
) -> dict[float, list[Errors]]:
    """Errors of the fits that ended, for each ε."""
    found: dict[float, list[Errors]] = {epsilon: [] for epsilon in epsilons}
    for line in their_fits(setting, peer, python, epsilons, repetitions):
        found[line["epsilon"]].append(setting.error(np.array(line["components"])))
    return found


def their_fits(
    setting: Setting,
    peer: str,
    python: str,
    epsilons: Sequence[float] = EPSILONS,
    repetitions: int = REPETITIONS,
    components: Sequence[int] = (),
) -> list[dict]:
    """The fits that ended: ε, k, components and variances; each with so many ``components`` in turn, if given."""
    numbers = ",".join(map(str, components or [setting.k]))
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "rows.npy"
        np.save(table, setting.X)
        cells = [str(part) for epsilon in epsilons for part in (epsilon, repetitions)]
        call = [python, str(HERE / "_peer.py"), peer, str(table), numbers, repr(setting.radius), str(LIMIT)]
        environ = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"OPENBLAS_NUM_THREADS": "1"}
        try:
            limit = len(epsilons) * max(1, len(components)) * LIMIT + 60
            done = subprocess.run(
                [*call, *cells], capture_output=True, text=True, timeout=limit, check=False, env=environ
            )
            text, failed = done.stdout, done.returncode and (done.stderr.strip().splitlines() or ["no message"])[-1]
        except subprocess.TimeoutExpired as error:  # a sampler that does not return to Python
            text, failed = (error.stdout or b"").decode(), 0
    if failed:
        raise RuntimeError(f"{peer} fails: {failed[:120]}")
    found = []
    for written in text.splitlines():
        try:
            line = json.loads(written)
        except ValueError:  # cut off by the time limit
            continue
        if "components" in line:
            found.append(line)
    return found


@dataclass(frozen=True)
class Cell:
    setting: str
    peer: str
    epsilon: float
    ours: float
    best: float  # of our other methods
    best_name: str
    theirs: float | None  # None: too few fits ended
    chance: float
    lost: float  # our share of lost variance over theirs

    @property
    def judged(self) -> bool:
        return self.theirs is not None and min(self.ours, self.theirs) <= CHANCE * self.chance

    @property
    def ratio(self) -> float:
        return math.nan if self.theirs is None else self.ours / self.theirs

    @property
    def verdict(self) -> str:
        if self.theirs is None:
            return "did not finish"
        return "chance" if not self.judged else "met" if self.ratio <= 0.5 else "MISSED"


def cells(quick: bool = False) -> Iterator[Cell | str]:
    """Every comparison; a string says why a peer is left out."""
    pythons = {}
    for peer, home in PEERS.items():
        pythons[peer], why = environment(home)
        if why:
            yield f"{peer}: {why}"
    for setting in settings(quick):
        measured = {}
        for peer, python in pythons.items():
            if python is None:
                continue
            center = "private" if peer == "opendp-class" else None
            try:
                errors = theirs(setting, peer, python)
            except RuntimeError as error:
                yield f"{setting.name}: {error}"
                continue
            for epsilon in EPSILONS:
                if (epsilon, center) not in measured:
                    others = {m: ours(setting, epsilon, m, center) for m in OURS}
                    measured[epsilon, center] = (ours(setting, epsilon, "auto", center), others)
                auto, others = measured[epsilon, center]
                best = min(others, key=lambda m: others[m][0])
                mean = np.mean(errors[epsilon], axis=0) if len(errors[epsilon]) >= FEWEST else None
                yield Cell(
                    setting.name,
                    peer,
                    epsilon,
                    ours=float(auto[0]),
                    best=float(others[best][0]),
                    best_name=best,
                    theirs=None if mean is None else float(mean[0]),
                    chance=setting.random,
                    lost=math.nan if mean is None else float(auto[1] / mean[1]),
                )


def rows() -> list[tuple[str, str, str, bool | None]]:
    """(what, figure, bar, met) for each setting and peer."""
    found: list[tuple[str, str, str, bool | None]] = []
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells():
        if isinstance(cell, str):
            found.append(("PCA beside " + cell.split(":")[0], cell.split(": ", 1)[1], "", None))
        else:
            groups.setdefault((cell.setting, cell.peer), []).append(cell)
    for (setting, peer), group in groups.items():
        texts = [
            f"ε = {c.epsilon:g}: "
            + ("not finished" if c.theirs is None else f"{c.ratio:.2f}×" + ("" if c.judged else " (chance)"))
            for c in group
        ]
        judged = [c for c in group if c.judged]
        met = all(c.ratio <= 0.5 for c in judged) if judged else None
        found.append((f"PCA error over that of {peer}, {setting}", ", ".join(texts), "≤ 0.5×" if judged else "", met))
    return found


HEADER = "| setting | ε | peer | ours, auto | our best other | peer | ratio | of lost variance | verdict |"


def main(quick: bool) -> None:
    print(HEADER + "\n|" + "---|" * 9)
    seen = []
    for cell in cells(quick):
        if isinstance(cell, str):
            print(f"| {cell} |" + " |" * 7 + " skipped |", flush=True)
            continue
        seen.append(cell)
        figures = (
            ("–", "", "") if cell.theirs is None else (f"{cell.theirs:.3f}", f"{cell.ratio:.2f}", f"{cell.lost:.2f}")
        )
        columns = (
            cell.setting,
            f"{cell.epsilon:g}",
            cell.peer,
            f"{cell.ours:.3f}",
            f"{cell.best:.3f} {cell.best_name}",
        )
        print("| " + " | ".join((*columns, *figures, cell.verdict)) + " |", flush=True)
    judged = [c for c in seen if c.judged]
    met, could = (
        sum(value(c) <= 0.5 * c.theirs for c in judged) for value in (lambda c: c.ours, lambda c: min(c.ours, c.best))
    )
    lost = sum(c.lost <= 0.5 for c in judged)
    print(
        f"\nOf {len(judged)} judged cells: error at most half in {met} ({could} with our best method), "
        f"lost variance at most half in {lost}. {sum(c.theirs is None for c in seen)} of {len(seen)} did not finish."
    )


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
