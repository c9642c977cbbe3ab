"""Questions that a curator answers, one file each."""

from dpeigen.questions.base import People, Question
from dpeigen.questions.cells import CellCounts, ClassSums
from dpeigen.questions.count import Count
from dpeigen.questions.descent import Descent, gradient_reach
from dpeigen.questions.kendall import NoisyTau, Tau
from dpeigen.questions.laws import GaussianLaw, LaplaceLaw, SymmetricLaw, WishartLaw, law_for
from dpeigen.questions.mean import ClippedMean, NoisyMean
from dpeigen.questions.moment import Moment, NoisyMoment
from dpeigen.questions.radius import RadiusHolding, RadiusLeaving
from dpeigen.questions.spectrum import Directions, Eigenvalues, NoisyEigenvalues, RankOne, Rayleigh
from dpeigen.questions.spiked import LeadingProjector, ProjectedMoment
from dpeigen.questions.squares import MeanSquares, NoisySquares
from dpeigen.questions.values import Matrix

__all__ = [
    "CellCounts",
    "ClassSums",
    "ClippedMean",
    "Count",
    "Descent",
    "Directions",
    "Eigenvalues",
    "GaussianLaw",
    "LaplaceLaw",
    "LeadingProjector",
    "Matrix",
    "MeanSquares",
    "Moment",
    "NoisyEigenvalues",
    "NoisyMean",
    "NoisyMoment",
    "NoisySquares",
    "NoisyTau",
    "People",
    "ProjectedMoment",
    "Question",
    "RadiusHolding",
    "RadiusLeaving",
    "RankOne",
    "Rayleigh",
    "SymmetricLaw",
    "Tau",
    "WishartLaw",
    "gradient_reach",
    "law_for",
]
