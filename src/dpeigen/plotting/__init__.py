"""Pictures of what may be shown: releases, score maps, ledgers and results, after scikit-learn's display convention.

Guarantee: everything drawn is a function of a `Release`, a `ScoreMap`, a ledger or public results, so a picture costs
nothing and may be shown to anyone who may see those. No display takes rows; the cloud of a biplot is synthetic,
drawn from the release, and says so. The caption states (ε, δ), and what is not private carries a mark across the
picture. Numbers have their intervals, and what cannot be distinguished from noise is not drawn as a result. Colours
follow the background, light or dark. matplotlib is imported when a picture is drawn, not before.

>>> from dpeigen.plotting import ScreeDisplay
>>> ScreeDisplay.from_release("rows")
Traceback (most recent call last):
    ...
TypeError: The 'release' parameter of ScreeDisplay must be a Release. Got an object of type str instead.
"""

from dpeigen.plotting._biplot import BiplotDisplay
from dpeigen.plotting._curves import LedgerDisplay, PrivacyUtilityDisplay
from dpeigen.plotting._release import LoadingsDisplay, ScreeDisplay
from dpeigen.plotting._score_map import ScoreMapDisplay

__all__ = [
    "BiplotDisplay",
    "LedgerDisplay",
    "LoadingsDisplay",
    "PrivacyUtilityDisplay",
    "ScoreMapDisplay",
    "ScreeDisplay",
]
