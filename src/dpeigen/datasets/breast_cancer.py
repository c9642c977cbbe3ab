"""The breast cancer table that scikit-learn carries, with public bounds of its columns.

The bounds are constants, rounded outward from the table of minima and maxima printed in scikit-learn's published
description of the data set ("Breast cancer Wisconsin (diagnostic) dataset" in its user guide,
https://scikit-learn.org/stable/datasets/toy_dataset.html). They are public because that page is; nothing here is
computed from rows. For a table of your own take bounds from what a column can be (a scale, an instrument, a code
book), never from its rows.
"""

from __future__ import annotations

import numpy as np

from dpeigen.datasets._files import Dataset

__all__ = ["load_breast_cancer"]

_BOUNDS = {
    "mean radius": (6.0, 29.0),
    "mean texture": (9.0, 40.0),
    "mean perimeter": (43.0, 190.0),
    "mean area": (140.0, 2510.0),
    "mean smoothness": (0.05, 0.17),
    "mean compactness": (0.01, 0.35),
    "mean concavity": (0.0, 0.43),
    "mean concave points": (0.0, 0.21),
    "mean symmetry": (0.1, 0.31),
    "mean fractal dimension": (0.04, 0.1),
    "radius error": (0.1, 2.9),
    "texture error": (0.3, 4.9),
    "perimeter error": (0.7, 22.0),
    "area error": (6.0, 550.0),
    "smoothness error": (0.001, 0.032),
    "compactness error": (0.001, 0.14),
    "concavity error": (0.0, 0.4),
    "concave points error": (0.0, 0.054),
    "symmetry error": (0.007, 0.08),
    "fractal dimension error": (0.0, 0.031),
    "worst radius": (7.0, 37.0),
    "worst texture": (12.0, 50.0),
    "worst perimeter": (50.0, 252.0),
    "worst area": (180.0, 4260.0),
    "worst smoothness": (0.07, 0.23),
    "worst compactness": (0.02, 1.06),
    "worst concavity": (0.0, 1.26),
    "worst concave points": (0.0, 0.3),
    "worst symmetry": (0.15, 0.67),
    "worst fractal dimension": (0.05, 0.21),
}


def load_breast_cancer() -> Dataset:
    """Load 569 tumours × 30 measurements of cell nuclei. Needs no download.

    Returns
    -------
    Dataset
        Its target: 0 malignant, 1 benign.
    """
    from sklearn.datasets import load_breast_cancer as embedded

    bunch = embedded()
    names = tuple(str(name) for name in bunch.feature_names)
    lower, upper = np.array([_BOUNDS[name] for name in names]).T.copy()
    about = "Breast cancer Wisconsin, diagnostic (UCI, as embedded in scikit-learn)"
    return Dataset(bunch.data, names, bunch.target, about, bounds=(lower, upper))
