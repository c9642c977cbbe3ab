"""Differentially private PCA and covariance estimation, with guarantees a reviewer can check."""

from typing import TYPE_CHECKING

from dpeigen._lazy import lazy
from dpeigen._version import __version__ as __version__

if TYPE_CHECKING:
    from dpeigen.estimators import PrivateCovariance, PrivatePCA, PrivateRidge, PrivateScoreMap
    from dpeigen.estimators.course import PaidError
    from dpeigen.privacy import Guarantee
    from dpeigen.privacy.ledger import Ledger
    from dpeigen.release import Release, load_release
    from dpeigen.score_map import ScoreMap, load_score_map
    from dpeigen.stats.ridge import RidgeFit

__all__ = [
    "Guarantee",
    "Ledger",
    "PaidError",
    "PrivateCovariance",
    "PrivatePCA",
    "PrivateRidge",
    "PrivateScoreMap",
    "Release",
    "RidgeFit",
    "ScoreMap",
    "load_release",
    "load_score_map",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Guarantee": "dpeigen.privacy.guarantee",
        "Ledger": "dpeigen.privacy.ledger",
        "PaidError": "dpeigen.estimators.course",
        "PrivateCovariance": "dpeigen.estimators",
        "PrivatePCA": "dpeigen.estimators",
        "PrivateRidge": "dpeigen.estimators",
        "PrivateScoreMap": "dpeigen.estimators",
        "Release": "dpeigen.release",
        "RidgeFit": "dpeigen.stats.ridge",
        "ScoreMap": "dpeigen.score_map",
        "load_release": "dpeigen.release",
        "load_score_map": "dpeigen.score_map",
    },
)
