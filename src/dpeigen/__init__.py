"""Differentially private PCA and covariance estimation, with guarantees a reviewer can check."""

from dpeigen.estimators import PrivateCovariance, PrivatePCA
from dpeigen.privacy import Guarantee
from dpeigen.privacy.ledger import Ledger
from dpeigen.release import Release, load_release

__version__ = "0.1.0"

__all__ = ["Guarantee", "Ledger", "PrivateCovariance", "PrivatePCA", "Release", "load_release"]
