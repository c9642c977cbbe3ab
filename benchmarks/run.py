"""`make bench`: speed, memory and accuracy, each beside a peer or a bar in the same run; writes RESULTS.md.

Numbers depend on the machine, ratios much less; run it with nothing else going on. A whole run writes the file anew.
`python benchmarks/run.py NAME …` runs some of them only and rewrites their sections, with a date of their own.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from _memory import IMPORT  # noqa: E402


@dataclass(frozen=True)
class Row:
    what: str
    figure: str
    bar: str
    met: bool | None  # None: reported without a bar


def timed(call: Callable[[], object], repeat: int = 7) -> float:
    """Median seconds, after one warm-up."""
    call()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def child(code: str) -> str:
    """The last line a fresh Python prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1]


def fit_speed() -> list[Row]:
    from sklearn.decomposition import PCA

    from dpeigen import PrivatePCA

    X = np.random.default_rng(0).normal(size=(200_000, 100))
    ours, centred, theirs = [], [], []
    calls = (
        (ours, lambda: PrivatePCA(5, epsilon=1.0, delta=1e-6, method="gaussian", bound=12.0).fit(X)),
        (
            centred,
            lambda: PrivatePCA(5, epsilon=1.0, delta=1e-6, method="gaussian", bound=12.0, center=None).fit(X),
        ),
        (theirs, lambda: PCA(5, svd_solver="covariance_eigh").fit(X)),
    )
    for round_ in range(10):  # interleaved, so that all meet the same machine
        for times, call in calls:
            start = time.perf_counter()
            call()
            if round_:
                times.append(time.perf_counter() - start)
    peer = statistics.median(theirs)
    rows = []
    for name, times in (("private centre", ours), ("centred", centred)):
        ratio = statistics.median(times) / peer
        rows.append(
            Row(
                f"fit `gaussian`, 200,000×100, {name}, noise included",
                f"{statistics.median(times):.3f} s, {ratio:.2f}× scikit-learn covariance_eigh ({peer:.3f} s)",
                "≤ 1.5×",
                ratio <= 1.5,
            )
        )
    return rows


def fit_memory() -> list[Row]:
    code = """
import numpy as np
from dpeigen import PrivatePCA
X = np.random.default_rng(0).normal(size=(200_000, 100))
fit = lambda rows: PrivatePCA(5, epsilon=1.0, delta=1e-6, method="gaussian", bound=12.0).fit(rows)
fit(X[:1000])
before = peak()
fit(X)
print(peak() - before)
"""
    extra = int(child(IMPORT + code)) / 1024
    return [Row("the same fit, peak extra memory", f"{extra:.0f} MiB", "≤ 64 MiB", extra <= 64)]


def noise_speed() -> list[Row]:
    from dpeigen.privacy.noise import symmetric_gaussian
    from dpeigen.privacy.randomness import randomness

    seconds = timed(lambda: symmetric_gaussian(500, 2.0**35, randomness(None)), repeat=3)
    return [Row("exact Gaussian noise, d = 500 (125,250 draws)", f"{seconds:.2f} s", "≤ 3 s", seconds <= 3)]


def import_speed() -> list[Row]:
    code = "import time, sklearn; s = time.perf_counter(); import {}; print(time.perf_counter() - s)"
    seconds = statistics.median(float(child(code.format("dpeigen"))) for _ in range(5))
    rows = [Row("`import dpeigen` over `import sklearn`", f"{seconds:.2f} s", "≤ 0.5 s", seconds <= 0.5)]
    peer = statistics.median(float(child(code.format("sklearn.decomposition"))) for _ in range(5))
    return [*rows, Row("of which `import sklearn.decomposition` alone", f"{peer:.2f} s", "", None)]


def bingham() -> list[Row]:
    from dpeigen.privacy import randomness, sample_bingham

    rng = np.random.default_rng(0)
    square = rng.normal(size=(200, 200))
    seconds = timed(lambda: sample_bingham(square @ square.T, size=100), repeat=3)
    worst = 0.0
    for d in (2, 10, 50, 200):
        for concentration in (0.0, 1.0, 30.0, 1e3, 1e6):
            for shape in ("linear", "one", "all-but-one"):
                spread = {
                    "linear": np.linspace(0, 1, d),
                    "one": np.eye(d)[0],
                    "all-but-one": 1 - np.eye(d)[0],
                }[shape]
                worst = max(worst, proposals(np.diag(concentration * spread), randomness) / np.sqrt(d))
    return [
        Row("Bingham, 100 draws at d = 200", f"{seconds:.2f} s", "≤ 5 s", seconds <= 5),
        Row("Bingham, proposals per draw, worst of 60 settings", f"{worst:.2f}·√d", "≤ 2·√d", worst <= 2),
    ]


def proposals(matrix: np.ndarray, make: Callable) -> float:
    """Proposals per accepted draw: 1 / acceptance rate, from a large batch."""
    from dpeigen.privacy import sphere

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rng = make(1)
    beta = np.diag(matrix).max() - np.diag(matrix)
    return 1 / float(sphere.acceptance(beta, 4000, rng))


def matrix_laplace() -> list[Row]:
    from dpeigen import PrivateCovariance
    from dpeigen.datasets import load_adult, load_airfoil, load_wine
    from dpeigen.evaluation import relative_frobenius

    bars = {"wine": (2.6, 0.67, 0.17), "airfoil": (0.21, 0.03, 0.008), "adult": (0.24, 0.052, 0.016)}
    rows = []
    for name, load, runs in (
        ("wine", load_wine, 50),
        ("airfoil", load_airfoil, 50),
        ("adult", load_adult, 15),
    ):
        X = load().X
        X = X / np.abs(X).max(axis=0)
        X = X / np.linalg.norm(X, axis=1).max()
        truth = X.T @ X / len(X)
        for epsilon, printed in zip((0.1, 1.0, 4.0), bars[name], strict=True):
            errors = []
            for seed in range(runs):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    fitted = PrivateCovariance(
                        epsilon=epsilon, method="matrix-laplace", bound=1.0, center=None, random_state=seed
                    ).fit(X)
                errors.append(relative_frobenius(fitted.covariance_, truth))
            mean = float(np.mean(errors))
            what = f"matrix-laplace, {name} {X.shape[0]}×{X.shape[1]}, ε = {epsilon:g}: relative Frobenius error"
            rows.append(Row(what, f"{mean:.3g} ({runs} runs)", f"≤ {printed:g} + 15%", mean <= 1.15 * printed))
    return rows


def other(name: str) -> Callable[[], list[Row]]:
    """The benchmark in the file of that name."""

    def run() -> list[Row]:
        return [Row(*row) for row in importlib.import_module(name).rows()]

    return run


_OWN = (fit_speed, fit_memory, noise_speed, import_speed, bingham, matrix_laplace)
_FILES = (
    "pure",
    "robust",
    "spiked",
    "streaming",
    "scale",
    "local",
    "ledger",
    "peers",
    "ridge",
    "score_map",
    "card",
    "planner",
    "intervals",
    "people",
    "mixed",
    "sparse_rows",
)
# The real tables come first: they are what a user's table looks like.
BENCHMARKS = {"tables": other("tables")} | {f.__name__: f for f in _OWN} | {name: other(name) for name in _FILES}


def machine() -> str:
    cpu = (
        next(
            (
                line.split(":", 1)[1].strip()
                for line in Path("/proc/cpuinfo").read_text().splitlines()
                if "model name" in line
            ),
            platform.processor(),
        )
        if Path("/proc/cpuinfo").exists()
        else platform.processor()
    )
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("numpy", "scipy", "scikit-learn", "opendp"))
    return f"{cpu}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, {versions}"


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"Unknown: {unknown}. There are {list(BENCHMARKS)}.")
        return 2
    missed = 0
    begun = time.perf_counter()
    sections: dict[str, str] = {} if not names else recorded()
    for name in names or BENCHMARKS:
        start = time.perf_counter()
        lines = [_HEAD]
        for row in BENCHMARKS[name]():
            met = "" if row.met is None else "yes" if row.met else "**no**"
            missed += row.met is False
            lines.append(f"| {row.what} | {row.figure} | {row.bar} | {met} |")
            print(lines[-1], flush=True)
        took = f"{(time.perf_counter() - start) / 60:.1f} minutes"
        when = f"Measured on {date.today()}, in {took}: {machine()}." if names else f"Took {took}."
        print(f"{name}: {took}", flush=True)
        sections[name] = f"{when}\n\n" + "\n".join(lines) + "\n"
        whole = f"one run of all benchmarks on {date.today()}, {(time.perf_counter() - begun) / 60:.0f} minutes"
        write(sections, previous_run() if names else f"Measured in {whole}: {machine()}.")
    return 1 if missed else 0


def previous_run() -> str:
    """The line of RESULTS.md that says when all of it was measured in one run."""
    found = [line for line in _read().splitlines() if line.startswith("Measured in one run ")]
    return found[0] if found else ""


def recorded() -> dict[str, str]:
    """The sections of RESULTS.md by name."""
    return {part.split("\n", 1)[0]: part.split("\n", 1)[1].strip() + "\n" for part in _read().split("\n## ")[1:]}


def write(sections: dict[str, str], run: str) -> None:
    """RESULTS.md with these sections, under a line on the run that measured them."""
    kept = [f"## {name}\n\n{sections[name]}" for name in BENCHMARKS if name in sections]
    (HERE / "RESULTS.md").write_text("\n".join([_TITLE, *([run, ""] if run else []), *kept]), encoding="utf-8")


def _read() -> str:
    path = HERE / "RESULTS.md"
    return path.read_text(encoding="utf-8") if path.exists() else ""


_HEAD = "| what | measured | bar | met |\n|---|---|---|---|"
_TITLE = """# Results of `make bench`

`python benchmarks/run.py NAME …` measures some sections anew, with a date of their own, and leaves the others.

The matrix-laplace rows use public data: each column divided by its largest absolute value, all rows by the largest row
norm; the bars are the design's targets, whose own preprocessing is not recorded.
"""


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
