"""What two common libraries do, measured: the figures of docs/errata.md about diffprivlib and OpenDP.

    python -m venv peers && peers/bin/pip install "diffprivlib==0.6.6" "opendp[scikit-learn]==0.16.0" "scikit-learn<1.7"
    peers/bin/python tools/peers.py

It needs neither dpeigen nor anything private, and takes about a minute.
"""

from __future__ import annotations

import math
import signal
import time
import warnings

import numpy as np

warnings.simplefilter("ignore")


class _LateError(Exception):
    """No answer in time."""


def mean_square(draw, runs: int = 20_000) -> str:
    """E[u₁²] of draws for A = diag(0, 5) and its standard error."""
    squares = np.array([np.ravel(draw(np.diag([5.0, 0.0])))[0] ** 2 for _ in range(runs)])
    return f"{squares.mean():.4f} ± {squares.std() / math.sqrt(runs):.4f} (the Bingham density has 0.8825)"


def seconds(draw, d: int, limit: int = 20, m: int = 1000) -> str:
    """How long one draw takes for m rows in each of two of d columns and none in the others."""

    def late(*_: object) -> None:
        raise _LateError

    signal.signal(signal.SIGALRM, late)
    signal.alarm(limit)
    began = time.monotonic()
    try:
        draw(np.diag([float(m), float(m), *[0.0] * (d - 2)]))
        return f"{time.monotonic() - began:.3f} s"
    except _LateError:
        return f"none in {limit} s"
    except Exception as error:  # OpenDP wraps what is raised inside it
        if "_LateError" in str(error):
            return f"none in {limit} s"
        return f"fails: {str(error).strip().splitlines()[-2][:90]}"
    finally:
        signal.alarm(0)


def diffprivlib() -> None:
    from diffprivlib.mechanisms import Bingham
    from diffprivlib.models import PCA

    print("diffprivlib: Bingham, E[u₁²]:", mean_square(Bingham(epsilon=4.0, sensitivity=1.0, random_state=0).randomise))
    for d in (2, 5, 8, 14):
        print(f"diffprivlib: one draw, d = {d}:", seconds(Bingham(epsilon=1.0, random_state=0).randomise, d))
    X = np.random.default_rng(0).normal(size=(500, 4)) * [1, 5, 2, 0.5] + 3
    given = X.copy()
    PCA(2, epsilon=1.0, data_norm=20.0, bounds=(np.full(4, -20.0), np.full(4, 20.0)), random_state=0).fit(given)
    print(f"diffprivlib: PCA.fit changes its argument by up to {np.abs(given - X).max():.2f}")
    unsorted = 0
    for seed in range(30):
        made = PCA(4, epsilon=0.3, data_norm=20.0, centered=True, random_state=seed).fit(X.copy())
        unsorted += bool(np.any(np.diff(made.singular_values_) > 0))
    print(f"diffprivlib: singular values in no order in {unsorted} of 30 fits (explained_variance_ is sorted)")
    made = PCA(2, epsilon=1.0, random_state=0).fit(X.copy())
    print(f"diffprivlib: without bounds the fitted object holds the data's own: data_norm = {made.data_norm:.3f}, "
          f"bounds = {np.round(made.bounds[1], 2)}")  # fmt: skip


def opendp() -> None:
    import opendp.prelude as dp
    from opendp.extras.numpy import _sscp_domain
    from opendp.extras.sklearn._make_eigenvector import make_private_eigenvector

    dp.enable_features("contrib", "idealized-numerics", "floating-point", "honest-but-curious")
    made = dp.sklearn.decomposition.PCA(epsilon=1.0, row_norm=1.0, n_samples=1000, n_features=4, n_changes=1)
    print(f"OpenDP: PCA(epsilon=1, n_changes=1): ε of one changed row by its own map: {made.measurement().map(2):.4f}")
    X = np.random.default_rng(0).normal(size=(1000, 4)) * 0.2
    made = dp.sklearn.decomposition.PCA(epsilon=10.0, row_norm=1.0, n_samples=1000, n_features=4)
    made.fit(X)
    try:
        made.fit(X)
    except ValueError as error:
        print(f"OpenDP: a second fit of the same object: {error}")

    def made_draw(d: int, epsilon: float):
        domain = _sscp_domain(num_features=d, T=float, norm=1.0, p=2, size=2000)
        return make_private_eigenvector(domain, dp.symmetric_distance(), epsilon)

    print("OpenDP: make_private_eigenvector, E[u₁²]:", mean_square(made_draw(2, 4.0), 5000))
    for d in (2, 5, 8, 14):
        print(f"OpenDP: one draw, d = {d}:", seconds(made_draw(d, 1.0), d))


if __name__ == "__main__":
    diffprivlib()
    opendp()
