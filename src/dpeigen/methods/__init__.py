"""The mechanisms, one file each."""

from dpeigen._lazy import lazy
from dpeigen.methods.auto import METHODS, check_method, choose, resolve
from dpeigen.methods.base import Estimate, Method, Task
from dpeigen.methods.foreseen import OnlyNoiseWarning
from dpeigen.methods.moment.gaussian import Gaussian
from dpeigen.methods.moment.geodesic import Geodesic
from dpeigen.methods.moment.laplace import Laplace
from dpeigen.methods.moment.matrix_laplace import MatrixLaplace
from dpeigen.methods.moment.spiked import Spiked
from dpeigen.methods.moment.whitened import Whitened
from dpeigen.methods.one_pass.dp_pca import DPPCA
from dpeigen.methods.one_pass.mean import private_mean
from dpeigen.methods.one_pass.oja import Oja
from dpeigen.methods.one_pass.spread import private_top_eigenvalue
from dpeigen.methods.one_pass.streaming import OnePassMethod, Stream
from dpeigen.methods.public_facts import check_bound, check_center
from dpeigen.methods.rank import PrivateRank
from dpeigen.methods.sampling.eigenvector_sampling import EigenvectorSampling
from dpeigen.methods.sampling.kapralov_talwar import KapralovTalwar
from dpeigen.methods.signs.kendall import Kendall
from dpeigen.methods.signs.refined import Refined
from dpeigen.methods.signs.spatial_sign import SpatialSign
from dpeigen.methods.standardised import Standardised

__all__ = [
    "DPPCA",
    "METHODS",
    "AnalyzeGaussPrinted",
    "DataScaledGaussian",
    "EigenvectorSampling",
    "Estimate",
    "Gaussian",
    "Geodesic",
    "KapralovTalwar",
    "Kendall",
    "Laplace",
    "MatrixLaplace",
    "Method",
    "Oja",
    "OnePassMethod",
    "OnlyNoiseWarning",
    "PrivateRank",
    "Refined",
    "SpatialSign",
    "Spiked",
    "Standardised",
    "Stream",
    "Task",
    "Whitened",
    "check_bound",
    "check_center",
    "check_method",
    "choose",
    "private_mean",
    "private_top_eigenvalue",
    "resolve",
]

# Baselines that are not private have their own package; these names were here before it.
_PAPERS = {"AnalyzeGaussPrinted": "dpeigen.papers", "DataScaledGaussian": "dpeigen.papers"}
__getattr__, __dir__ = lazy(__name__, _PAPERS)
