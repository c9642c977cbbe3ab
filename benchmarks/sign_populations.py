"""How far the covariance that signs stand for is from that of rows that are not elliptical. Large samples, no noise.

    python benchmarks/sign_populations.py [settings]

Random populations as in `intervals.py`, of the laws that are not elliptical, with columns in comparable units. For rows
about their mean and for differences of rows, it prints by how much the covariance implied by their signs differs from
the true one, in whitened units and up to a factor: root mean squares off the diagonal and on it, by the effective
number of directions (Σλ)²/Σλ². The constants of `dpeigen.stats.sign_errors` come from here.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
from _populations import Setting

from dpeigen.methods.signs.evidence import measured_signs
from dpeigen.stats.refinement import SignRelease

ROWS = 60_000
NOISE = 1e-4  # on the mean of signs: none that matters
BINS = (1.0, 1.5, 2.2, 3.5, 5.0, 8.0, 13.0)


def difference(rows: np.ndarray, covariance: np.ndarray) -> tuple[float, float]:
    """Root mean squares of the whitened difference, off the diagonal and on it."""
    d = len(covariance)
    signs = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    look = SignRelease(signs.T @ signs / len(signs), NOISE, np.zeros((0, d)), np.zeros(0))
    measured = measured_signs([look], len(signs))
    values, vectors = np.linalg.eigh(covariance)
    whitening = vectors / np.sqrt(values)
    found = whitening.T @ measured.back @ measured.moment @ measured.back.T @ whitening
    found = found / (np.trace(found) / d) - np.eye(d)
    off = found[np.triu_indices(d, 1)]
    return float(np.sqrt(np.mean(off**2))), float(np.sqrt(np.mean(np.diag(found) ** 2)))


def main() -> None:
    settings, found = int(sys.argv[1]) if len(sys.argv) > 1 else 60, []
    for seed in range(400_000, 400_000 + settings):
        setting = replace(Setting.of(seed, True), n=ROWS)
        if setting.law in ("normal", "student"):
            continue
        rows = setting.rows(np.random.default_rng(seed))
        rows = rows / rows.std(axis=0) ** (1.0 if seed % 2 else 0.9)
        covariance = np.cov(rows.T, bias=True)
        values = np.linalg.eigvalsh(covariance)
        about, pairs = rows - rows.mean(axis=0), (rows[::2] - rows[1::2]) / np.sqrt(2)
        equal = values.sum() ** 2 / (values**2).sum()
        found.append([equal, *difference(about, covariance), *difference(pairs, covariance)])
    table = np.array(found)
    print("directions  populations  rows: off, on the diagonal  differences: off, on the diagonal")
    for low, high in pairwise(BINS):
        chosen = table[(table[:, 0] >= low) & (table[:, 0] < high)]
        if len(chosen):
            print(
                f"{low:4.1f} to {high:4.1f} {len(chosen):10d}", np.round(np.sqrt((chosen[:, 1:] ** 2).mean(axis=0)), 3)
            )


if __name__ == "__main__":
    main()
