"""The public data sets of the papers, as plain arrays. No data file is part of this package.

A loader looks in the folder named by the environment variable ``DPEIGEN_DATA``, then in a per-user cache
(``DPEIGEN_CACHE`` overrides it), and only then downloads from the public origin into the cache. Text and gzip files
are checked against a recorded SHA-256 of their content wherever they came from, and every table is checked for its
shape, so a result computed here is computed on the same numbers. A set whose public form needs other software to
read (R's RData, MATLAB's mat) is read from ``DPEIGEN_DATA`` only, and its error says so.

All of them are public, so their maxima and categories may be read from the data. Private data do not allow this.

>>> breast = load_breast_cancer()
>>> breast.X.shape, breast.feature_names[0]
((569, 30), 'mean radius')
"""

from dpeigen.datasets._files import Dataset, DatasetError, cache_folder
from dpeigen.datasets.breast_cancer import load_breast_cancer
from dpeigen.datasets.covertype import load_covertype
from dpeigen.datasets.others import load_colon, load_europe, load_isolet, load_leukemia, load_mnist
from dpeigen.datasets.uci import load_adult, load_adult_numeric, load_airfoil, load_wine

__all__ = [
    "Dataset",
    "DatasetError",
    "cache_folder",
    "load_adult",
    "load_adult_numeric",
    "load_airfoil",
    "load_breast_cancer",
    "load_colon",
    "load_covertype",
    "load_europe",
    "load_isolet",
    "load_leukemia",
    "load_mnist",
    "load_wine",
]
