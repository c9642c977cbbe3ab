"""The questions that a curator answers, one file each."""

from dpeigen.questions.base import People, Question
from dpeigen.questions.box import BoxMean
from dpeigen.questions.cells import CellCounts, ClassSums
from dpeigen.questions.columns import ColumnCounts, NoisyCounts
from dpeigen.questions.count import Count
from dpeigen.questions.descent import Descent, gradient_reach
from dpeigen.questions.far_rows import FarRows, cost_of_far_rows
from dpeigen.questions.holes import HoleShares, NoisyShares
from dpeigen.questions.kendall import NoisyTau, Tau
from dpeigen.questions.laws import GaussianLaw, LaplaceLaw, SymmetricLaw, WishartLaw, law_for
from dpeigen.questions.mean import ClippedMean, NoisyMean
from dpeigen.questions.moment import Moment, NoisyMoment
from dpeigen.questions.nested import MomentWithin, RadiusFrom, moment_within, radius_from
from dpeigen.questions.printed import PrintedRanges, PrintedTopEigenvalue
from dpeigen.questions.radius import RadiusHolding, RadiusLeaving, RadiusNear
from dpeigen.questions.ranges import Ranges
from dpeigen.questions.reaches import ColumnReaches, shows_scale
from dpeigen.questions.rough import RoughMoment
from dpeigen.questions.scale import EigenvalueRatios, TopEigenvalue
from dpeigen.questions.spectrum import Directions, Eigenvalues, NoisyEigenvalues, RankOne, Rayleigh
from dpeigen.questions.spiked import BulkVariance, LeadingEigenvalues, LeadingProjector, ProjectedMoment
from dpeigen.questions.squares import MeanSquares, NoisySquares
from dpeigen.questions.steps import OjaSteps
from dpeigen.questions.values import Matrix

__all__ = [
    "BoxMean",
    "BulkVariance",
    "CellCounts",
    "ClassSums",
    "ClippedMean",
    "ColumnCounts",
    "ColumnReaches",
    "Count",
    "Descent",
    "Directions",
    "EigenvalueRatios",
    "Eigenvalues",
    "FarRows",
    "GaussianLaw",
    "HoleShares",
    "LaplaceLaw",
    "LeadingEigenvalues",
    "LeadingProjector",
    "Matrix",
    "MeanSquares",
    "Moment",
    "MomentWithin",
    "NoisyCounts",
    "NoisyEigenvalues",
    "NoisyMean",
    "NoisyMoment",
    "NoisyShares",
    "NoisySquares",
    "NoisyTau",
    "OjaSteps",
    "People",
    "PrintedRanges",
    "PrintedTopEigenvalue",
    "ProjectedMoment",
    "Question",
    "RadiusFrom",
    "RadiusHolding",
    "RadiusLeaving",
    "RadiusNear",
    "Ranges",
    "RankOne",
    "Rayleigh",
    "RoughMoment",
    "SymmetricLaw",
    "Tau",
    "TopEigenvalue",
    "WishartLaw",
    "cost_of_far_rows",
    "gradient_reach",
    "law_for",
    "moment_within",
    "radius_from",
    "shows_scale",
]
