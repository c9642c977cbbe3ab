"""scikit-learn estimators over the methods."""

from dpeigen.estimators.covariance import PrivateCovariance
from dpeigen.estimators.pca import PrivatePCA

__all__ = ["PrivateCovariance", "PrivatePCA"]
