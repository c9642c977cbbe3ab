"""The mechanisms, one file each."""

from dpeigen.methods.analyze_gauss import AnalyzeGaussPrinted
from dpeigen.methods.auto import METHODS, check_method, choose, resolve
from dpeigen.methods.base import Estimate, Method, Task, check_bound, check_center
from dpeigen.methods.data_scaled import DataScaledGaussian
from dpeigen.methods.dp_pca import DPPCA
from dpeigen.methods.eigenvector_sampling import EigenvectorSampling
from dpeigen.methods.gaussian import Gaussian
from dpeigen.methods.geodesic import Geodesic
from dpeigen.methods.kapralov_talwar import KapralovTalwar
from dpeigen.methods.kendall import Kendall
from dpeigen.methods.laplace import Laplace
from dpeigen.methods.matrix_laplace import MatrixLaplace
from dpeigen.methods.mean import private_mean
from dpeigen.methods.oja import Oja
from dpeigen.methods.rank import PrivateRank
from dpeigen.methods.refined import Refined
from dpeigen.methods.spatial_sign import SpatialSign
from dpeigen.methods.spiked import Spiked
from dpeigen.methods.spread import private_top_eigenvalue
from dpeigen.methods.streaming import OnePassMethod, Stream
from dpeigen.methods.whitened import Whitened

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
    "PrivateRank",
    "Refined",
    "SpatialSign",
    "Spiked",
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
