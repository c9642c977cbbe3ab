"""Distances between a release and a known truth, and `compare`, which compares the errors of methods.

Errors computed on private data are private data; use public or synthetic data. `compare` requires it.

>>> import numpy as np
>>> sin_theta(np.eye(3)[:1], np.eye(3)[:2])
0.0
"""

from dpeigen.evaluation.comparison import METRICS, Comparison
from dpeigen.evaluation.running import compare
from dpeigen.evaluation.synthetic import Synthetic
from dpeigen.stats.spectrum import (
    captured_variance,
    principal_angles,
    projection_distance,
    relative_frobenius,
    sin_theta,
)

__all__ = [
    "METRICS",
    "Comparison",
    "Synthetic",
    "captured_variance",
    "compare",
    "principal_angles",
    "projection_distance",
    "relative_frobenius",
    "sin_theta",
]
