"""Figure 4: three components of 1500 images of the digits 1, 4 and 9, 14×14 pixels, (ε, δ) = (2, 0.1)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen import PrivatePCA
from dpeigen.datasets import load_mnist
from dpeigen.evaluation import captured_variance
from dpeigen.methods import DataScaledGaussian, Refined, SpatialSign, Spiked
from dpeigen.privacy import NotPrivateWarning

Floats = NDArray[np.float64]
DIGITS, EACH, RANK, EPSILON, DELTA = (1, 4, 9), 500, 3, 2.0, 0.1


def images() -> tuple[Floats, NDArray[Any]]:
    """The first 500 training images of each digit, 2×2 pixels averaged to one, values in [0, 1], centred.

    The mean is the sample's own: with the data public that is a convenience, and the same for all methods.
    """
    data = load_mnist()
    target = np.asarray(data.target)[:60000]
    chosen = np.concatenate([np.flatnonzero(target == digit)[:EACH] for digit in DIGITS])
    pixels = np.asarray(data.X)[chosen].astype(np.float64).reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)) / 255
    rows = pixels.reshape(len(chosen), 196)
    return rows - rows.mean(axis=0), target[chosen]


def methods(rows: Floats) -> dict[str, Any]:
    """The paper's plug-in of λ and σ² is read from the data and not private: its guarantee is not one."""
    values = np.linalg.eigvalsh(rows.T @ rows / len(rows))[::-1]
    signal, noise = float(values[:RANK].mean()), float(values[49:140].mean())
    return {
        "spiked-published, plug-in": Spiked(signal, noise, constants="published"),
        "spiked-sharp, plug-in": Spiked(signal, noise),
        "spiked-sharp, private": Spiked(),
        "DP-Gauss*": DataScaledGaussian(),
        "spatial-sign": SpatialSign(),
        "refined": Refined(),
    }


def cells(seeds: range, quick: bool) -> tuple[dict[str, Floats], dict[str, Any]]:
    """Explained variance relative to the best three components, private λ and σ², and scores for the picture."""
    rows, digits = images()
    second = rows.T @ rows / len(rows)
    found: dict[str, list[float]] = {}
    pictures: dict[str, Any] = {"digits": digits, "no privacy": rows @ np.linalg.eigh(second)[1][:, ::-1][:, :2]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        for name, method in methods(rows).items():
            for seed in seeds:
                fitted = PrivatePCA(
                    RANK, epsilon=EPSILON, delta=DELTA, method=method, center=None, random_state=seed
                ).fit(rows)
                found.setdefault(f"mnist/{name}/2", []).append(captured_variance(fitted.components_, second))
                details = fitted.release_.facts["details"]
                if name.endswith("private"):
                    found.setdefault("mnist-parameters/signal/2", []).append(details["signal"])
                    found.setdefault("mnist-parameters/noise variance/2", []).append(details["noise_variance"])
            pictures[name] = rows @ fitted.components_[:2].T
    if quick:
        pictures = {}
    return {key: np.array(values) for key, values in found.items()}, pictures
