"""The mechanisms, one file each."""

from dpeigen.methods.analyze_gauss import AnalyzeGaussPrinted
from dpeigen.methods.auto import METHODS, check_method, choose, resolve
from dpeigen.methods.base import Estimate, Method, Task, check_bound, check_center
from dpeigen.methods.data_scaled import DataScaledGaussian
from dpeigen.methods.eigenvector_sampling import EigenvectorSampling
from dpeigen.methods.gaussian import Gaussian
from dpeigen.methods.geodesic import Geodesic
from dpeigen.methods.kapralov_talwar import KapralovTalwar
from dpeigen.methods.kendall import Kendall
from dpeigen.methods.laplace import Laplace
from dpeigen.methods.matrix_laplace import MatrixLaplace
from dpeigen.methods.rank import PrivateRank
from dpeigen.methods.refined import Refined
from dpeigen.methods.spatial_sign import SpatialSign
from dpeigen.methods.spiked import Spiked

__all__ = [
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
    "PrivateRank",
    "Refined",
    "SpatialSign",
    "Spiked",
    "Task",
    "check_bound",
    "check_center",
    "check_method",
    "choose",
    "resolve",
]
