"""Pictures of releases, score maps, ledgers and public results, after scikit-learn's display convention.

Guarantee: everything drawn is a function of a `Release`, a `ScoreMap`, a ledger or public results, so a picture costs
nothing and may be shown to anyone who may see those. No display takes rows. The points of a biplot are synthetic rows
drawn from the release, and the picture says so. The caption states (ε, δ). A picture that is not private has a mark
across it. Numbers have their intervals, and results that cannot be distinguished from noise are not drawn as results.
Colours follow the background, light or dark. matplotlib is imported only when a picture is drawn.

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
