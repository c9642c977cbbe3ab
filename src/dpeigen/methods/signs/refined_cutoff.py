"""The cutoff of `refined`: the norm beyond which rows have less weight, as rows and their norms are stretched.

A public cutoff grows with the root mean square norm of stretched rows. A private one grows further once releases have
shown how unequal the directions are: the norms of such rows vary more, and few of them should exceed it.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import chdtri

from dpeigen.methods.location import cutoff_factor
from dpeigen.stats.sign_model import SignModel
from dpeigen.stats.stretch import Stretched

__all__ = ["cutoff_growth"]

_HELD = 0.03  # of normal rows exceed a private cutoff, once releases have shown how unequal directions are


def cutoff_growth(view: Stretched, model: SignModel | None, *, private: bool) -> float:
    """The factor by which the cutoff is larger for stretched rows."""
    if model is None:
        return 1.0
    before, after = _spread(model), _spread(model, view)
    same = math.sqrt(after[0] / before[0])
    if not private:
        return same
    held = math.sqrt(_square(after, _HELD) / _square(before, 0.5))
    return max(same, held / cutoff_factor(len(model.directions.T)))


def _spread(model: SignModel, view: Stretched | None = None) -> tuple[float, float]:
    """The mean square of rows of the model, stretched or not, and the degrees of freedom of their squared norms."""
    d = model.directions.shape[1]
    covariance = np.eye(d) + (model.directions.T * (model.variances - 1)) @ model.directions
    if view is not None and len(view.factors):
        stretch = np.eye(d) + (view.directions.T * (view.factors - 1)) @ view.directions
        covariance = stretch @ covariance @ stretch
    trace = float(np.trace(covariance))
    return trace, trace**2 / float((covariance**2).sum())


def _square(spread: tuple[float, float], share: float) -> float:
    """The approximate squared norm that this share of normal rows exceeds."""
    mean, freedom = spread
    return mean * float(chdtri(freedom, share)) / freedom
