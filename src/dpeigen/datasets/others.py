"""Images, genomes and gene expression: MNIST, the European map data, ISOLET, colon cancer and leukaemia."""

from __future__ import annotations

import gzip
import io

import numpy as np
from numpy.typing import NDArray

from dpeigen.datasets._files import Dataset, File, arrays, of_shape

__all__ = ["EUROPE_CAPITALS", "load_colon", "load_europe", "load_isolet", "load_leukemia", "load_mnist"]

_MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist"
_MNIST_CONTENT = {  # SHA-256 of the unzipped files; zipped copies differ between mirrors
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
_NOVEMBRE = (
    "https://raw.githubusercontent.com/NovembreLab/Novembre_etal_2008_misc/"
    "7f714cba1ffb871a7af72a34268907ff9045a5e2/files"
)
_NOVEMBRE_PCA = f"{_NOVEMBRE}/POPRES_08_24_01.EuroThinFinal.LD_0.8.exLD.out0-PCA"
_EUROPE_ROWS = File(
    "europe/POPRES_EuroThinFinal.out0-PCA.eigs",
    f"{_NOVEMBRE_PCA}.eigs",
    "dc1bcb2c1fd4c7a4bf9972f34a8dbf82e2fff845d81fbaa8257837e85c6c754a",
)
_EUROPE_VALUES = File(
    "europe/POPRES_EuroThinFinal.out0-PCA.eval",
    f"{_NOVEMBRE_PCA}.eval",
    "bd0b6c692a9aa0f5dca180efef43a8326b00159a077544cd38630f6eaacf2ffd",
)
_EUROPE_LABELS = File(
    "europe/PCA.txt",
    f"{_NOVEMBRE}/PCA.txt",
    "5715aa26e23125c6fbcb4521d81b527bad3a18f877b342c6b07bf2806078ec8f",
)


def load_mnist() -> Dataset:
    """Load 70,000 handwritten digits × 784 pixels (0 to 255), the 60,000 training images first.

    Returns
    -------
    Dataset
        Its target: the digit.
    """
    parts = {name: _idx(name, digest) for name, digest in _MNIST_CONTENT.items()}
    images = [parts[name].reshape(-1, 784) for name in parts if "images" in name]
    labels = [parts[name] for name in parts if "labels" in name]
    X = of_shape("mnist", np.vstack(images), (70000, 784))
    names = tuple(f"pixel_{row}_{column}" for row in range(28) for column in range(28))
    return Dataset(X, names, np.concatenate(labels), "MNIST handwritten digits (LeCun, Cortes, Burges)")


def _idx(name: str, digest: str) -> NDArray[np.uint8]:
    content = File(f"mnist/{name}.gz", f"{_MNIST}/{name}.gz", digest, gzip.decompress).read()
    header = 4 + 4 * content[3]  # two zero bytes, a type, the number of axes, and the length of each
    return np.frombuffer(content, dtype=np.uint8, offset=header)


# Latitude and longitude of the capitals (for parts of Switzerland: Geneva, Zurich, Lugano), in degrees.
EUROPE_CAPITALS: dict[str, tuple[float, float]] = {
    "Albania": (41.3, 19.8),
    "Austria": (48.2, 16.4),
    "Belgium": (50.8, 4.4),
    "Bosnia and Herzegovina": (43.9, 18.4),
    "Bulgaria": (42.7, 23.3),
    "Croatia": (45.8, 16.0),
    "Cyprus": (35.2, 33.4),
    "Czech Republic": (50.1, 14.4),
    "Denmark": (55.7, 12.6),
    "Finland": (60.2, 24.9),
    "France": (48.9, 2.4),
    "Germany": (52.5, 13.4),
    "Greece": (38.0, 23.7),
    "Hungary": (47.5, 19.0),
    "Ireland": (53.3, -6.3),
    "Italy": (41.9, 12.5),
    "Kosovo": (42.7, 21.2),
    "Latvia": (56.9, 24.1),
    "Macedonia, The Former Yugoslav Republic Of": (42.0, 21.4),
    "Netherlands": (52.4, 4.9),
    "Norway": (59.9, 10.8),
    "Poland": (52.2, 21.0),
    "Portugal": (38.7, -9.1),
    "Romania": (44.4, 26.1),
    "Russian Federation": (55.8, 37.6),
    "Scotland": (56.0, -3.2),
    "Serbia and Montenegro": (44.8, 20.5),
    "Slovakia": (48.1, 17.1),
    "Slovenia": (46.1, 14.5),
    "Spain": (40.4, -3.7),
    "Sweden": (59.3, 18.1),
    "Swiss-French": (46.2, 6.1),
    "Swiss-German": (47.4, 8.5),
    "Swiss-Italian": (46.0, 9.0),
    "Turkey": (39.9, 32.9),
    "Ukraine": (50.5, 30.5),
    "United Kingdom": (51.5, -0.1),
}


def load_europe() -> Dataset:
    """Load 1,387 Europeans × 20 genetic coordinates, each times 20·eigenvalue (as in Biswas et al. 2020).

    From the smartpca output that Novembre et al. 2008 published; genotypes are not part of it.

    Returns
    -------
    Dataset
        Its target: the country.
    """
    lines = _EUROPE_ROWS.read().decode("ascii").splitlines()[1:]
    coordinates = np.array([line.split()[2:22] for line in lines], dtype=np.float64)
    values = np.loadtxt(io.BytesIO(_EUROPE_VALUES.read()))[:20]
    labels = _EUROPE_LABELS.read().decode("utf-8").splitlines()[1:]
    countries = np.array([line.split("\t")[1] for line in labels])
    X = of_shape("europe", 20 * coordinates * values, (1387, 20))
    names = tuple(f"PC{i}" for i in range(1, 21))
    return Dataset(X, names, countries, "Genes mirror geography within Europe (Novembre et al. 2008)")


def load_isolet() -> Dataset:
    """Load 1,559 spoken letters × 617 features in [−1, 1]. Read from ``DPEIGEN_DATA`` only.

    ``isolet/isolet5_x1e4_int16.npz`` holds X (features × 10⁴ as 16-bit integers) and y, converted from
    ``data/isolet5.mat`` of the repository ma-xu/L21FS (Unlicense; UCI ISOLET, CC BY 4.0).

    Returns
    -------
    Dataset
        Its target: the letter, 1 to 26.
    """
    X, y = arrays("isolet/isolet5_x1e4_int16.npz", "isolet", (1559, 617))
    names = tuple(f"f{i}" for i in range(1, 618))
    return Dataset(X / 1e4, names, y, "ISOLET, fifth part (UCI, CC BY 4.0)")


def load_colon() -> Dataset:
    """Load 62 tissue samples × 2,000 gene intensities (Alon et al. 1999).

    Read from ``DPEIGEN_DATA`` only: ``colon/colon_alon1999.npz`` holds X and y, converted from ``data/alon.RData`` of
    the repository ramhiser/datamicroarray (MIT).

    Returns
    -------
    Dataset
        Its target: n(ormal) or t(umour).
    """
    X, y = arrays("colon/colon_alon1999.npz", "colon", (62, 2000))
    return Dataset(X, tuple(f"gene_{i}" for i in range(1, 2001)), y, "Colon cancer (Alon et al. 1999)")


def load_leukemia() -> Dataset:
    """Load 72 patients × 7,129 gene intensities (Golub et al. 1999).

    Read from ``DPEIGEN_DATA`` only: ``leukemia/leukemia_golub1999.npz`` holds X and y, converted from
    ``data/golub.RData`` of the repository ramhiser/datamicroarray (MIT).

    Returns
    -------
    Dataset
        Its target: ALL or AML.
    """
    X, y = arrays("leukemia/leukemia_golub1999.npz", "leukemia", (72, 7129))
    return Dataset(X, tuple(f"gene_{i}" for i in range(1, 7130)), y, "Leukaemia (Golub et al. 1999)")
