"""Exact, mergeable statistics of bounded rows, and what can be done with noisy spectra."""

from dpeigen.stats.base import Statistic
from dpeigen.stats.frame import BadRowsError, Frame, ScoreFrame
from dpeigen.stats.kendall import KendallTau, kendall_tau
from dpeigen.stats.lattice import Lattice, unit_lattice
from dpeigen.stats.moments import RowSums, SecondMoment, SquareSums, second_moment
from dpeigen.stats.norms import NormHistogram
from dpeigen.stats.spectrum import (
    captured_variance,
    principal_angles,
    project_eigenvalues,
    projection_distance,
    relative_frobenius,
    shrink_eigenvalues,
    sin_theta,
)

__all__ = [
    "BadRowsError",
    "Frame",
    "KendallTau",
    "Lattice",
    "NormHistogram",
    "RowSums",
    "ScoreFrame",
    "SecondMoment",
    "SquareSums",
    "Statistic",
    "captured_variance",
    "kendall_tau",
    "principal_angles",
    "project_eigenvalues",
    "projection_distance",
    "relative_frobenius",
    "second_moment",
    "shrink_eigenvalues",
    "sin_theta",
    "unit_lattice",
]
