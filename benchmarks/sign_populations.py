"""How far the covariance that signs stand for is from that of rows that are not elliptical. Large samples, no noise.

    python benchmarks/sign_populations.py [settings] [--shares | --columns]

Random populations as in `intervals.py`, of the laws that are not elliptical, with columns in comparable units. For rows
about their mean and for differences of rows, it prints by how much the covariance implied by their signs differs from
the true one, in whitened units and up to a factor: root mean squares off the diagonal and on it, by the effective
number of directions (Σλ)²/Σλ². The constants of `dpeigen.stats.sign_errors` come from here.

``--columns``: columns with laws of their own, as for `intervals.py --columns`.

``--shares``: by how much the logit of the first share of variance is outside the limits that the first share of signs
has for elliptical rows (`dpeigen.stats.sign_shares`), for each law: quantiles 0.8, 0.95 and 1.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import numpy as np
from _populations import Columns, Setting
from scipy.special import logit

from dpeigen.methods.signs.evidence import measured_signs
from dpeigen.stats.sign_model import SignRelease
from dpeigen.stats.sign_shares import variance_shares

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


def beyond_limits(settings: int) -> None:
    """Logits of first shares outside the limits for elliptical rows; most rows have one or two strong sources."""
    found = defaultdict(list)
    for seed in range(50_000, 50_000 + settings):
        setting, rng = Setting.of(seed, False), np.random.default_rng([79, seed])
        root = setting.root.copy()
        if rng.random() < 0.7:
            root[:, : int(rng.integers(1, 3))] *= np.exp(rng.uniform(0, 2.5))
        rows = replace(setting, n=8000, root=root).rows(np.random.default_rng(seed))
        rows = rows - setting.mean if rng.random() < 0.5 else rows[::2] - rows[1::2]
        signs = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        first = np.linalg.eigvalsh(signs.T @ signs / len(signs))[-1:]
        low, high = variance_shares(first, first, setting.d)
        values = np.linalg.eigvalsh(root @ root.T)
        found[setting.law].append(logit(np.clip([low[0], values[-1] / values.sum(), high[0]], 1e-9, 1 - 1e-9)))
    for law, triples in found.items():
        low, true, high = np.array(triples).T
        ends = [np.quantile(np.maximum(x, 0), [0.8, 0.95, 1.0]).round(2) for x in (low - true, true - high)]
        print(f"{law:15} {len(low):4d} populations, below {ends[0]}, above {ends[1]}")


def main() -> None:
    shares, columns = "--shares" in sys.argv, "--columns" in sys.argv
    given = [value for value in sys.argv[1:] if not value.startswith("--")]
    settings, found = int(given[0]) if given else 400 if shares else 60, []
    if shares:
        beyond_limits(settings)
        return
    for seed in range(400_000, 400_000 + settings):
        setting = replace((Columns if columns else Setting).of(seed, True), n=ROWS)
        if setting.law in ("normal", "student"):
            continue
        rows = setting.rows(np.random.default_rng(seed))
        rows = rows / rows.std(axis=0) ** (1.0 if seed % 2 else 0.9)
        covariance = np.cov(rows.T, bias=True)
        values = np.linalg.eigvalsh(covariance)
        about, pairs = rows - rows.mean(axis=0), (rows[::2] - rows[1::2]) / np.sqrt(2)
        pairs = pairs[pairs.any(axis=1)]
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
