"""Differentially private PCA and covariance estimation, with guarantees a reviewer can check."""

from dpeigen._version import __version__ as __version__
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
