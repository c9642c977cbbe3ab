"""Products of integer matrices held in doubles, exact to the last bit, by BLAS if this machine's BLAS is exact.

All proofs of sensitivity rest on exact sums of products of integers below 2^53. A BLAS that computes each entry as a
sum of products in double precision, in any order, with or without fused multiply-add, is exact for these. One that
saves time with half-sized numbers, with products of sums of blocks (Strassen), or with fewer bits is not. So the first
product of a process is preceded by a test of the kernels (`blas_is_exact`): integers whose sums use all 53 bits, in the
shapes that are used here, are compared with integer arithmetic. If a sum is wrong, products are computed in 64-bit
integers instead, which NumPy does without BLAS: exact and many times slower, and a warning says so. Methods whose proof
is about sums of other numbers (`stats.pairs`) are then refused.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats

__all__ = [
    "blas_is_exact",
    "check_blas",
    "exact_in_single",
    "exact_product",
    "passes",
    "precise_in_single",
    "single_is_exact",
    "single_is_precise",
]

_BITS = 53  # of a double's significand
_INEXACT = (
    "The BLAS library that NumPy uses on this machine does not sum products of integers exactly, as the proofs need."
)
_REMEDY = (
    "Use NumPy with another BLAS (the wheels of PyPI and conda-forge bring OpenBLAS or MKL), and switch off "
    "reduced-precision modes of the library."
)
_SHAPES = ((1, 1, 1), (1, 7, 300), (3, 2, 5), (5, 6, 8192), (33, 5, 1000), (40, 40, 512), (130, 3, 64))


def exact_product(left: Floats, right: Floats) -> Floats:
    """``left @ right`` for integers in doubles whose sums of absolute products stay at or below 2^53."""
    if blas_is_exact():
        product: Floats = left @ right
        return product
    return _by_integers(left, right)


@cache
def blas_is_exact() -> bool:
    """Whether this machine's BLAS passes the test; run once in each process, in about 20 ms."""
    if passes(np.matmul):
        return True
    warnings.warn(f"{_INEXACT} Sums are taken in 64-bit integers instead, which is slower. {_REMEDY}", stacklevel=2)
    return False


@cache
def single_is_precise() -> bool:
    """Whether products in single precision use all of its 24 bits; modes with fewer exist. Run once in each process."""
    return blas_is_exact() and precise_in_single(np.matmul)


def precise_in_single(product: Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[np.float32]]) -> bool:
    """Whether a product keeps 24-bit integers, each of which occurs once in a sum, in the shapes that are used."""
    for rows, columns in ((1, 1), (7, 30), (130, 100), (656, 100)):
        integers = _wide_integers((columns, columns), 32, 3).astype(np.int64)
        wide = (integers % 2**24 | 1).astype(np.float32)  # 24 bits, the last of them set
        once = np.zeros((rows, columns), dtype=np.float32)
        once[np.arange(rows), np.arange(rows) % columns] = 1.0
        expected = wide[np.arange(rows) % columns]
        if not np.array_equal(product(once, wide), expected):
            return False
        if not np.array_equal(product(np.ascontiguousarray(wide.T), np.ascontiguousarray(once.T)), expected.T):
            return False
    return True


def exact_in_single(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    """``left @ right`` for integers in single precision whose sums of absolute products stay at or below 2^24."""
    if single_is_exact():
        product: NDArray[np.float32] = left @ right
        return product
    return exact_product(left.astype(np.float64), right.astype(np.float64)).astype(np.float32)


@cache
def single_is_exact() -> bool:
    """Whether sums of products of integers in single precision are exact up to 24 bits; run once in each process."""
    return single_is_precise() and passes(np.matmul, np.float32)


def check_blas(method: str) -> None:
    """Refuse a method whose proof is about sums of products of doubles that are not integers."""
    if not blas_is_exact():
        raise RuntimeError(f"method={method!r} cannot be used. {_INEXACT} {_REMEDY} Nothing was spent.")


def passes(product: Callable[[Any, Any], Any], kind: type[np.floating[Any]] = np.float64) -> bool:
    """Whether a product of matrices is exact for integers whose sums use all bits of a number, in many shapes."""
    bits = np.finfo(kind).nmant + 1
    for rows, columns, depth in _SHAPES:
        left = _wide_integers((rows, depth), depth, 1, bits).astype(kind)
        right = _wide_integers((depth, columns), depth, 2, bits).astype(kind)
        pairs = [
            (left, right),
            (right.T, right),  # NumPy has a separate kernel for this
            (np.ones((1, depth), kind), right),
            (right.T[:, ::-1], left.T[::-1]),  # with strides
        ]
        if not all(np.array_equal(product(a, b), _by_integers(a, b)) for a, b in pairs):
            return False
    return True


def _wide_integers(shape: tuple[int, int], depth: int, salt: int, bits: int = _BITS) -> Floats:
    """Integers with many ones in their bits, as large as sums of ``depth`` products below 2^bits allow; not random."""
    largest = math.isqrt(2**bits // depth)
    numbers = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(shape) + salt
    small = (numbers * 0x9E3779B1 + salt * 0x85EBCA6B) % max(1, largest // 8)
    return (largest - small).astype(np.float64)


def _by_integers(left: Floats, right: Floats) -> Floats:
    return (left.astype(np.int64) @ right.astype(np.int64)).astype(np.float64)
