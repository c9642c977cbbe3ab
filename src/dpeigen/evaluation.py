"""Distances between subspaces and matrices: how far a release is from a truth one is allowed to know.

Computed on private truth these numbers are private data; use public or synthetic data.

>>> import numpy as np
>>> sin_theta(np.eye(3)[:1], np.eye(3)[:2])
0.0
"""

from dpeigen.stats.spectrum import (
    captured_variance,
    principal_angles,
    projection_distance,
    relative_frobenius,
    sin_theta,
)

__all__ = ["captured_variance", "principal_angles", "projection_distance", "relative_frobenius", "sin_theta"]
