"""The system's generator for thousands of releases in a row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpeigen._types import Integers
from dpeigen.privacy.randomness import SystemRandomness

__all__ = ["STOCK", "BufferedRandomness"]

STOCK = 512  # integers drawn at a time


class BufferedRandomness(SystemRandomness):
    """The system's generator, called for many integers at a time: the same distribution, with fewer slow calls."""

    seeded = True  # it has a state, so its draws keep to one thread

    def __init__(self) -> None:
        self._stock: dict[tuple[str, float], Integers] = {}

    def discrete_gaussian(self, scale: float, size: int) -> Integers:
        return self._take("gaussian", super().discrete_gaussian, scale, size)

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        return self._take("laplace", super().discrete_laplace, scale, size)

    def _take(self, kind: str, draw: Callable[[float, int], Integers], scale: float, size: int) -> Integers:
        left = self._stock.get((kind, scale), np.empty(0, dtype=np.int64))
        if len(left) < size:
            left = np.concatenate([left, draw(scale, max(size, STOCK))])
        self._stock[kind, scale] = left[size:]
        return left[:size].copy()
