"""scikit-learn estimators over the methods."""

from dpeigen.estimators.covariance import PrivateCovariance
from dpeigen.estimators.pca import PrivatePCA
from dpeigen.estimators.ridge import PrivateRidge
from dpeigen.estimators.score_map import PrivateScoreMap

__all__ = ["PrivateCovariance", "PrivatePCA", "PrivateRidge", "PrivateScoreMap"]
