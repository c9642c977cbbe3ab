"""Exact, mergeable statistics of bounded rows, and post-processing of noisy spectra."""

from typing import TYPE_CHECKING

from dpeigen._lazy import lazy

if TYPE_CHECKING:
    from dpeigen.stats.base import Statistic
    from dpeigen.stats.fantope import SparseProjector, fantope_admm, project_fantope
    from dpeigen.stats.frame import BadRowsError, Frame
    from dpeigen.stats.kendall import KendallTau, kendall_tau
    from dpeigen.stats.lattice import Lattice, unit_lattice
    from dpeigen.stats.moments import RowSums, SecondMoment, SquareSums, second_moment
    from dpeigen.stats.norms import NormHistogram
    from dpeigen.stats.score_frame import ScoreFrame
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
    "SparseProjector",
    "SquareSums",
    "Statistic",
    "captured_variance",
    "fantope_admm",
    "kendall_tau",
    "principal_angles",
    "project_eigenvalues",
    "project_fantope",
    "projection_distance",
    "relative_frobenius",
    "second_moment",
    "shrink_eigenvalues",
    "sin_theta",
    "unit_lattice",
]

_HOMES = {
    "base": ["Statistic"],
    "fantope": ["SparseProjector", "fantope_admm", "project_fantope"],
    "frame": ["BadRowsError", "Frame"],
    "kendall": ["KendallTau", "kendall_tau"],
    "lattice": ["Lattice", "unit_lattice"],
    "moments": ["RowSums", "SecondMoment", "SquareSums", "second_moment"],
    "norms": ["NormHistogram"],
    "score_frame": ["ScoreFrame"],
    "spectrum": [
        "captured_variance",
        "principal_angles",
        "project_eigenvalues",
        "projection_distance",
        "relative_frobenius",
        "shrink_eigenvalues",
        "sin_theta",
    ],
}

# Frames and lattices need NumPy only. Spectra need SciPy and are imported on first use: the local client has no SciPy.
__getattr__, __dir__ = lazy(
    __name__, {name: f"dpeigen.stats.{module}" for module, names in _HOMES.items() for name in names}
)
