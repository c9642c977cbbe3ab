"""Differentially private PCA and covariance estimation, with guarantees a reviewer can check."""

from typing import TYPE_CHECKING

from dpeigen._lazy import lazy
from dpeigen._version import __version__ as __version__

if TYPE_CHECKING:
    from dpeigen.estimators import PrivateCovariance, PrivatePCA, PrivateRidge
    from dpeigen.privacy import Guarantee
    from dpeigen.privacy.ledger import Ledger
    from dpeigen.release import Release, RidgeFit, load_release

__all__ = [
    "Guarantee",
    "Ledger",
    "PrivateCovariance",
    "PrivatePCA",
    "PrivateRidge",
    "Release",
    "RidgeFit",
    "load_release",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Guarantee": "dpeigen.privacy.guarantee",
        "Ledger": "dpeigen.privacy.ledger",
        "PrivateCovariance": "dpeigen.estimators",
        "PrivatePCA": "dpeigen.estimators",
        "PrivateRidge": "dpeigen.estimators",
        "Release": "dpeigen.release",
        "RidgeFit": "dpeigen.release",
        "load_release": "dpeigen.release",
    },
)
