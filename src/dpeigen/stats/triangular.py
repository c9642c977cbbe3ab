"""Rows times a triangular matrix, in single precision: half the work of a full product, if only norms matter.

|Tz| = |Rz| for the triangular R with TᵀT = RᵀR. The product of a triangular matrix with rows is one call of BLAS
(``strmm``), which SciPy provides. Its Python function would block other threads; called by its address it does not. If
it is not available, or does not use all 24 bits of single precision, a full product is computed instead. In both cases
each entry is a sum of products in single precision, in some order.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats

__all__ = ["keeps_bits", "times_triangle", "triangle_of"]

Singles = NDArray[np.float32]
Product = Callable[[Singles, Singles], Singles]
_LETTER, _COUNT, _NUMBERS = ctypes.c_char_p, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_float)
_TYPES: list[Any] = [*[_LETTER] * 4, _COUNT, _COUNT, _NUMBERS, _NUMBERS, _COUNT, _NUMBERS, _COUNT]


def triangle_of(matrix: Floats) -> Singles:
    """R, upper triangular, rounded to single precision."""
    return np.ascontiguousarray(np.linalg.qr(matrix, mode="r"), dtype=np.float32)


def times_triangle(rows: NDArray[Any], triangle: Singles, *, overwrite: bool = False) -> Singles:
    """The rows in single precision times the transpose of an upper triangle.

    ``overwrite``: whether the result may take the place of the rows, which saves a copy.
    """
    turned = rows if overwrite and _in_place(rows) else np.array(rows, dtype=np.float32, order="C")
    return _product()(turned, triangle)


def _in_place(rows: NDArray[Any]) -> bool:
    return rows.dtype == np.float32 and rows.flags.c_contiguous and rows.flags.writeable


@cache
def _product() -> Product:
    """The fastest product that is correct on this machine; tested once in each process."""
    found = _strmm()
    if found is None:
        return _whole

    def by_blas(turned: Singles, triangle: Singles) -> Singles:
        # Fortran reads both arrays by columns: there the triangle is a lower one, to be transposed.
        square = triangle.shape == 2 * turned.shape[1:] and triangle.dtype == np.float32
        if not (square and triangle.flags.c_contiguous and _in_place(turned)):  # BLAS would use other memory
            raise AssertionError("a square matrix of single precision with as many columns as the rows")
        if turned.size:
            count, columns = (ctypes.c_int(size) for size in turned.shape)
            first, second = (array.ctypes.data_as(_NUMBERS) for array in (triangle, turned))
            found(b"L", b"L", b"T", b"N", columns, count, ctypes.c_float(1.0), first, columns, second, columns)
        return turned

    return by_blas if keeps_bits(by_blas) else _whole


def _whole(rows: NDArray[Any], triangle: Singles) -> Singles:
    product: Singles = rows.astype(np.float32, copy=False) @ triangle.T
    return product


def keeps_bits(product: Product) -> bool:
    """Whether a product with a triangle is exact wherever single precision allows it, for single terms and for sums.

    Sums are tested in shapes larger than the blocks of BLAS, up to the largest number of columns in use.
    """
    return _keeps_entries(product) and _keeps_sums(product)


def _keeps_entries(product: Product) -> bool:
    """Whether 24-bit integers are kept if each is the only term of its sum."""
    for rows, columns in ((1, 1), (7, 30), (130, 100), (656, 100)):
        triangle = np.triu(_mixed(columns, columns, 0x9E3779B1) % 2**24 | 1).astype(np.float32)
        once = np.zeros((rows, columns), dtype=np.float32)
        once[np.arange(rows), np.arange(rows) % columns] = 1.0
        if not np.array_equal(product(once, triangle), triangle.T[np.arange(rows) % columns]):
            return False
    return True


def _keeps_sums(product: Product) -> bool:
    """Whether sums of products of integers are exact if the sum of their absolute values is at most 2^24."""
    for rows, columns in ((1, 24), (33, 129), (130, 257), (40, 513), (24, 1023), (2049, 33)):
        most = int(math.sqrt(2**24 / columns))
        signed, plain = _mixed(columns, columns, 0x9E3779B1), _mixed(rows, columns, 0x85EBCA6B)
        triangle = np.triu((most - signed % (most // 8)) * (1 - (signed >> 6 & 2)))
        entries = most - plain % (most // 8)
        found = product(entries.astype(np.float32), triangle.astype(np.float32))
        if not np.array_equal(found, entries @ triangle.T):
            return False
    return True


def _mixed(rows: int, columns: int, factor: int) -> NDArray[np.int64]:
    """Pseudo-random integers."""
    return np.arange(rows * columns, dtype=np.int64).reshape(rows, columns) * factor


def _strmm() -> Callable[..., Any] | None:
    """The BLAS function at the address that SciPy provides for compiled code; None if it has another type."""
    try:
        from scipy.linalg.cython_blas import __pyx_capi__ as functions

        name_of, address_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
        name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
        address_of.restype, address_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        name: bytes = name_of(functions["strmm"])
        kinds = [kind.split()[0] for kind in name.decode().partition("(")[2].split(",")]
        if kinds[:6] != ["char"] * 4 + ["int"] * 2 or [kinds[8], kinds[10]] != ["int"] * 2 or len(kinds) != 11:
            return None
        return ctypes.CFUNCTYPE(None, *_TYPES)(address_of(functions["strmm"], name))
    except (ImportError, AttributeError, KeyError, ValueError, IndexError):  # another Python, or another SciPy
        return None
