"""A report as bytes: compact, versioned, self-describing, and refused unless it matches the parameters exactly.

    offset  size  what
    0       4     "DPEL"
    4       1     version, 1
    5       1     mechanism: 1 gaussian, 2 privunit, 3 gaussian with published constants
    6       1     flags: 1 seeded (not private), 2 rows scaled to the bound instead of clipped
    7       1     g: the numbers below are multiples of 2^g steps
    8       4     columns p
    12      4     rows behind the report
    16      24    ε, δ, bound
    40      16    random bytes: no two reports are the same, so one that comes twice is recognised
    56      4·m   m = p(p+1)/2 numbers, float32: the upper triangle row by row, each a whole number of grid units
    end     8     BLAKE2b-64 of all before it

Numbers are little-endian. The grid is public: g follows from the parameters and the number of rows. The checksum
detects damage, not forgery. Only the m noisy numbers depend on the row.
"""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "MAGIC",
    "MECHANISMS",
    "PUBLISHED",
    "REASONS",
    "SCALED",
    "SEEDED",
    "VERSION",
    "Header",
    "Limits",
    "RefusedReportError",
    "Report",
    "decode",
    "encode",
    "peek_rows",
    "size_of",
]

MAGIC, VERSION = b"DPEL", 1
MECHANISMS = {"gaussian": 1, "privunit": 2}
PUBLISHED = 3  # gaussian, with the constants of Wang and Xu 2019
SEEDED, SCALED = 1, 2
_HEADER = struct.Struct("<4sBBBBIIddd16s")
_SUM = 8
_EXACT = 2**23  # grid units stay below this: float32 holds them exactly, with a bit to spare
REASONS = (
    "not bytes",
    "truncated",
    "oversized",
    "not a report",
    "version",
    "checksum",
    "parameters",
    "not finite",
    "off the grid",
    "out of range",
    "duplicate",
    "unreadable file",
    "seeded",
    "full",
)


class RefusedReportError(ValueError):
    """A report that is refused.

    Parameters
    ----------
    reason : str
        One of `REASONS`.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"The report is refused: {reason}.")
        self.reason = reason


@dataclass(frozen=True)
class Header:
    """The header of a report."""

    mechanism: int
    scaled: bool
    n_features: int
    epsilon: float
    delta: float
    bound: float


@dataclass(frozen=True)
class Limits:
    """Limits of honest reports, in steps: ``entry`` for each number, ``norm`` for the norm in isometric coordinates.

    They are public, because they follow from the parameters and the number of rows. An honest report exceeds them with
    probability below 1e-20.
    """

    entry: float
    norm: float
    weight: (
        float  # of an off-diagonal square in the squared norm: 2 for entries of a matrix, 1 for isometric coordinates
    )

    @property
    def exponent(self) -> int:
        """g, the least for which every number is below 2^23 grid units."""
        return max(0, math.ceil(math.log2(self.entry / (_EXACT - 1))))

    @property
    def units(self) -> int:
        """The largest number of grid units."""
        return math.floor(self.entry / 2**self.exponent)


@dataclass(frozen=True)
class Report:
    """A decoded report: integers in steps (multiples of 2^g), the upper triangle row by row."""

    steps: NDArray[np.int64]
    rows: int
    seeded: bool
    identity: bytes  # a digest of the whole report: nobody can make another report with the same one


def size_of(n_features: int) -> int:
    """Bytes of one report."""
    return _HEADER.size + 2 * n_features * (n_features + 1) + _SUM


def _checksum(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=_SUM).digest()


def encode(steps: NDArray[np.int64], header: Header, limits: Limits, *, rows: int, seeded: bool, name: bytes) -> bytes:
    """Steps, rounded to the grid and kept within its range (both post-processing), as bytes."""
    g = limits.exponent
    half = 2 ** (g - 1) if g else 0
    units = np.clip((steps + half) >> g, -limits.units, limits.units).astype("<f4")
    flags = (SEEDED if seeded else 0) | (SCALED if header.scaled else 0)
    said = (header.n_features, rows, header.epsilon, header.delta, header.bound)
    head = _HEADER.pack(MAGIC, VERSION, header.mechanism, flags, g, *said, name)
    content = head + units.tobytes()
    return content + _checksum(content)


def peek_rows(content: bytes) -> int:
    """The number of rows that a report claims, before anything else in it is checked."""
    return int.from_bytes(content[12:16], "little")


def decode(content: bytes, header: Header, limits: Limits, diagonal: NDArray[np.intp]) -> Report:
    """The report, or `RefusedReportError`. ``limits`` are those for the rows it claims (`peek_rows`)."""
    if not isinstance(content, bytes):
        raise RefusedReportError("not bytes")
    size = size_of(header.n_features)
    if content[:4] != MAGIC[: len(content)] or not content:
        raise RefusedReportError("not a report")
    if len(content) < _HEADER.size + _SUM:
        raise RefusedReportError("truncated")
    _, version, mechanism, flags, g, p, rows, epsilon, delta, bound, _ = _HEADER.unpack_from(content)
    if version != VERSION:
        raise RefusedReportError("version")
    if len(content) != size:
        same = p == header.n_features
        raise RefusedReportError("parameters" if not same else "truncated" if len(content) < size else "oversized")
    if _checksum(memoryview(content)[:-_SUM]) != content[-_SUM:]:
        raise RefusedReportError("checksum")
    said = Header(mechanism, bool(flags & SCALED), p, epsilon, delta, bound)
    if said != header or flags > SEEDED + SCALED or rows < 1 or g != limits.exponent:
        raise RefusedReportError("parameters")
    identity = hashlib.blake2b(content, digest_size=16).digest()
    return Report(_steps(content, limits, diagonal), rows, bool(flags & SEEDED), identity)


def _steps(content: bytes, limits: Limits, diagonal: NDArray[np.intp]) -> NDArray[np.int64]:
    units = np.frombuffer(content, dtype="<f4", offset=_HEADER.size, count=(len(content) - _HEADER.size - _SUM) // 4)
    if not np.isfinite(units).all():  # before the cast, which warns of signalling NaNs
        raise RefusedReportError("not finite")
    units = units.astype(np.float64)
    if np.abs(units).max() > limits.units:
        raise RefusedReportError("out of range")
    whole = units.astype(np.int64)
    if (whole != units).any():
        raise RefusedReportError("off the grid")
    own = units[diagonal]
    on = float(np.dot(own, own))
    squared = limits.weight * (float(np.dot(units, units)) - on) + on
    if math.sqrt(squared) * 2.0**limits.exponent > limits.norm:
        raise RefusedReportError("out of range")
    return whole << limits.exponent
