"""Wine, airfoil and adult, from the UCI repository (CC BY 4.0), through mirrors at a fixed commit."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

from dpeigen.datasets._files import Dataset, File, of_shape, rows_only

__all__ = ["load_adult", "load_adult_numeric", "load_airfoil", "load_wine"]

_GITHUB = "https://raw.githubusercontent.com"
_ADULT = f"{_GITHUB}/j2kun/boosting/342ad93fd0d898761f309b4c1986405c9e79b41c/data"
_AIRFOIL = f"{_GITHUB}/zielarz25/AirfoilSelf-NoiseRegression/c4b4b0185982e0b4c23f1837ee4e71e26148b5b0"
_WINE = f"{_GITHUB}/GORosin/wine_data_practice/f8fe9b84b74bf64a049e698da1df34b739811ecc"

_WINE_FILE = File(
    "wine/wine.data",
    f"{_WINE}/wine.data",
    "6be6b1203f3d51df0b553a70e57b8a723cd405683958204f96d23d7cd6aea659",
    rows_only,
)
_WINE_NAMES = (
    "alcohol malic_acid ash alcalinity_of_ash magnesium total_phenols flavanoids nonflavanoid_phenols proanthocyanins "
    "color_intensity hue od280_od315 proline"
)
_AIRFOIL_FILE = File(
    "airfoil/airfoil_self_noise.dat",
    f"{_AIRFOIL}/airfoil_self_noise.dat",
    "10ee06e6cfb27dae6b44213d421d217012fb1f9b697592e73a4e4016b52d425f",
    rows_only,
)
_AIRFOIL_NAMES = "frequency angle_of_attack chord_length velocity displacement_thickness sound_pressure"


def load_wine() -> Dataset:
    """Load 178 wines × 13 chemical measurements. UCI, CC BY 4.0.

    Returns
    -------
    Dataset
        Its target: cultivar 1, 2 or 3.
    """
    table = np.loadtxt(io.BytesIO(_WINE_FILE.read()), delimiter=",", dtype=np.float64)
    X = of_shape("wine", table[:, 1:], (178, 13))
    return Dataset(X, tuple(_WINE_NAMES.split()), table[:, 0].astype(int), "Wine (UCI, CC BY 4.0)")


def load_airfoil() -> Dataset:
    """Load 1,503 wind-tunnel runs × 6 columns. UCI, CC BY 4.0.

    Returns
    -------
    Dataset
        The last column, the sound pressure, is also the target.
    """
    table = np.loadtxt(io.BytesIO(_AIRFOIL_FILE.read()), dtype=np.float64)
    X = of_shape("airfoil", table, (1503, 6))
    return Dataset(X, tuple(_AIRFOIL_NAMES.split()), X[:, -1].copy(), "Airfoil self-noise (UCI, CC BY 4.0)")


_ADULT_FILES = (
    File(
        "adult/adult.data",
        f"{_ADULT}/adult.train",
        "df25a4e32ed6f1bd4b3910d21a7bd661a09061eced7cb45555a519d9667cc87b",
        rows_only,
    ),
    File(
        "adult/adult.test",
        f"{_ADULT}/adult.test",
        "5c8e678e04c82a07182bbcb6667c9a06faaba123a55b409af7c5d21fb45784b3",
        rows_only,
    ),
)
_ADULT_NUMERIC = {
    "age": 0, "fnlwgt": 2, "education_num": 4, "capital_gain": 10, "capital_loss": 11, "hours_per_week": 12,
}  # fmt: skip
# The categories are declared by the survey's documentation (adult.names at UCI, "?" for unknown), not read from rows: a
# one-hot encoder that learns categories from private rows would publish which of them occur.
_ADULT_CATEGORIES = {
    "workclass": (
        1,
        "? Federal-gov Local-gov Never-worked Private Self-emp-inc Self-emp-not-inc State-gov Without-pay",
    ),
    "education": (
        3,
        "10th 11th 12th 1st-4th 5th-6th 7th-8th 9th Assoc-acdm Assoc-voc Bachelors Doctorate HS-grad Masters Preschool "
        "Prof-school Some-college",
    ),
    "marital_status": (
        5,
        "Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent Never-married Separated Widowed",
    ),
    "occupation": (
        6,
        "? Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing Handlers-cleaners Machine-op-inspct "
        "Other-service Priv-house-serv Prof-specialty Protective-serv Sales Tech-support Transport-moving",
    ),
    "relationship": (7, "Husband Not-in-family Other-relative Own-child Unmarried Wife"),
    "race": (8, "Amer-Indian-Eskimo Asian-Pac-Islander Black Other White"),
    "sex": (9, "Female Male"),
    "native_country": (
        13,
        "? Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador England France Germany Greece "
        "Guatemala Haiti Holand-Netherlands Honduras Hong Hungary India Iran Ireland Italy Jamaica Japan Laos Mexico "
        "Nicaragua Outlying-US(Guam-USVI-etc) Peru Philippines Poland Portugal Puerto-Rico Scotland South Taiwan "
        "Thailand Trinadad&Tobago United-States Vietnam Yugoslavia",
    ),
    "income": (14, "<=50K >50K"),
}


def _adult_fields() -> NDArray[np.str_]:
    lines = b"".join(file.read() for file in _ADULT_FILES).decode("ascii").splitlines()
    fields = np.array([line.rstrip(".").split(", ") for line in lines])
    return of_shape("adult", fields, (48842, 15))


def load_adult_numeric() -> Dataset:
    """Load 48,842 census rows × 6 numeric columns. UCI, CC BY 4.0.

    Returns
    -------
    Dataset
        Its target: income above 50K.
    """
    fields = _adult_fields()
    X = fields[:, list(_ADULT_NUMERIC.values())].astype(np.float64)
    return Dataset(X, tuple(_ADULT_NUMERIC), _adult_label(fields), "Adult, numeric columns (UCI, CC BY 4.0)")


def load_adult() -> Dataset:
    """Load 48,842 census rows × 110 columns. UCI, CC BY 4.0.

    Returns
    -------
    Dataset
        6 numeric columns and 104 indicators of declared categories, the label's two too.
    """
    fields = _adult_fields()
    columns = [fields[:, j].astype(np.float64) for j in _ADULT_NUMERIC.values()]
    names = list(_ADULT_NUMERIC)
    for name, (j, words) in _ADULT_CATEGORIES.items():
        for word in words.split():
            columns.append((fields[:, j] == word).astype(np.float64))
            names.append(f"{name}={word}")
    X = of_shape("adult", np.column_stack(columns), (48842, 110))
    return Dataset(X, tuple(names), _adult_label(fields), "Adult, one-hot encoded (UCI, CC BY 4.0)")


def _adult_label(fields: NDArray[np.str_]) -> NDArray[np.bool_]:
    return np.asarray(fields[:, 14] == ">50K")
