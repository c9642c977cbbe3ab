"""The only source of random numbers.

`SystemRandomness` draws from the operating system's generator: exact integer noise (Laplace and narrow Gaussians from
OpenDP's samplers, wide Gaussians from `dpeigen.privacy.discrete`) and real numbers from `os.urandom`.
`SeededRandomness` is for tests and for reproducing papers. Anyone who knows the seed can subtract the noise, so
creating one gives a warning and the release is marked "seeded: not private".

>>> import warnings
>>> with warnings.catch_warnings():
...     warnings.simplefilter("ignore")
...     rng = randomness(0)
>>> rng.seeded, randomness(None).seeded
(True, False)
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import warnings
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats, Integers
from dpeigen._validate import complain
from dpeigen.privacy.discrete import sample

__all__ = [
    "DeviceRandomness",
    "Generator",
    "NotPrivateWarning",
    "Randomness",
    "SeededRandomness",
    "Shape",
    "SystemRandomness",
    "check_scale",
    "choosing",
    "derived_generator",
    "made_up_generator",
    "made_up_randomness",
    "randomness",
]

Shape = int | tuple[int, ...]
_LARGEST_SCALE = 2.0**56
_WHOLE_STEPS = 2.0**20  # above this, scales are rounded up to an integer, a relative change below 1e-6


Generator = np.random.Generator  # for made-up rows only


class NotPrivateWarning(UserWarning):
    """Something was done that makes the result not private."""


def check_scale(scale: float) -> float:
    """The scale in grid steps, if its noise fits 64-bit integers with a probability of failure below 1e-55."""
    if not 0 < scale <= _LARGEST_SCALE:
        raise ValueError(
            f"Noise of {scale:.3g} grid steps does not fit 64-bit integers: the budget is too small for these columns. "
            "Use a larger epsilon or fewer columns."
        )
    return scale


class Randomness(ABC):
    """The draws that mechanisms may ask for. Every scale is public."""

    seeded: bool

    @abstractmethod
    def uniform(self, size: Shape) -> Floats:
        """Draw uniform numbers on (0, 1).

        Parameters
        ----------
        size : int or tuple of int
            The shape.

        Returns
        -------
        array of that shape
            The numbers.
        """

    def coins(self, chance: float, size: int) -> NDArray[np.bool_]:
        """Draw independent coins.

        Parameters
        ----------
        chance : float
            The probability of True, to within 2^−32.
        size : int
            How many.

        Returns
        -------
        (size,) array of bool
            The coins.
        """
        return self.uniform(size) < chance

    @abstractmethod
    def normal(self, size: Shape) -> Floats:
        """Draw standard Gaussians.

        Parameters
        ----------
        size : int or tuple of int
            The shape.

        Returns
        -------
        array of that shape
            The numbers.
        """

    @abstractmethod
    def permutation(self, n: int) -> NDArray[np.intp]:
        """Draw a uniformly random order.

        Parameters
        ----------
        n : int
            How many.

        Returns
        -------
        (n,) array of int
            0 to n − 1 in random order.
        """

    @abstractmethod
    def discrete_gaussian(self, scale: float, size: int) -> Integers:
        """Draw integers with probabilities ∝ exp(−k²/2·scale²).

        Parameters
        ----------
        scale : float
            The scale > 0, close to the standard deviation.
        size : int
            How many.

        Returns
        -------
        (size,) array of int
            The integers.
        """

    @abstractmethod
    def discrete_laplace(self, scale: float, size: int) -> Integers:
        """Draw integers with probabilities ∝ exp(−|k|/scale).

        Parameters
        ----------
        scale : float
            The scale > 0.
        size : int
            How many.

        Returns
        -------
        (size,) array of int
            The integers.
        """

    def token(self) -> bytes:
        """Draw sixteen random bytes, which no other draw will repeat.

        Returns
        -------
        bytes
            The token.
        """
        return np.floor(self.uniform(4) * 2.0**32).astype("<u4").tobytes()

    def word(self) -> int:
        """Draw a uniform integer below 2^64.

        Returns
        -------
        int
            The integer.
        """
        return int.from_bytes(self.token()[:8], "little")


class SystemRandomness(Randomness):
    """The operating system's generator."""

    seeded = False

    def uniform(self, size: Shape) -> Floats:
        # Midpoints of 2^63 cells: never 0, and 1 only by rounding, which the minimum prevents.
        cells = self._words(size) >> np.uint64(1)
        return np.minimum((cells + 0.5) * 2.0**-63, 1 - 2.0**-53)

    def coins(self, chance: float, size: int) -> NDArray[np.bool_]:
        return np.asarray(np.frombuffer(os.urandom(4 * size), dtype=np.uint32) < round(chance * 2**32))

    def normal(self, size: Shape) -> Floats:
        from scipy.special import ndtri  # imported here because devices have no SciPy

        # Inverse transform of the lower half with a random sign: full precision in the tails, up to 9.1 deviations.
        words = self._words(size)
        half = ndtri(((words >> np.uint64(1)) + 0.5) * 2.0**-64)
        return np.where(words & np.uint64(1), half, -half)

    def permutation(self, n: int) -> NDArray[np.intp]:
        # Sorting random 64-bit keys gives a uniform order unless there are ties; then they are drawn again.
        while True:
            keys = self._words(n)
            order = np.argsort(keys)
            if not np.any(np.diff(keys[order]) == 0):
                return order

    def discrete_gaussian(self, scale: float, size: int) -> Integers:
        if check_scale(scale) < _WHOLE_STEPS:
            return _opendp_noise("gaussian", scale, size)
        return sample(math.ceil(scale), size, self._words)

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        return _opendp_noise("laplace", check_scale(scale), size)

    def token(self) -> bytes:
        return os.urandom(16)

    @staticmethod
    def _words(size: Shape) -> NDArray[np.uint64]:
        count = math.prod(size) if isinstance(size, tuple) else size
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64).reshape(size)


class DeviceRandomness(SystemRandomness):
    """The operating system's generator with NumPy alone: exact Gaussians without OpenDP, with scales rounded up."""

    def discrete_gaussian(self, scale: float, size: int) -> Integers:
        return sample(math.ceil(check_scale(scale)), size, self._words)


class SeededRandomness(Randomness):
    """NumPy's generator with a seed: reproducible, therefore not private."""

    seeded = True

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def uniform(self, size: Shape) -> Floats:
        # random() is 0 once in 2⁵³ draws; the minimum excludes 1.
        return np.minimum(1.0 - self._generator.random(size), 1 - 2.0**-53)

    def normal(self, size: Shape) -> Floats:
        return self._generator.standard_normal(size)

    def permutation(self, n: int) -> NDArray[np.intp]:
        return self._generator.permutation(n)

    def discrete_gaussian(self, scale: float, size: int) -> Integers:
        # Rounded Gaussians: indistinguishable from exact ones at the scales used (thousands of steps), and fast.
        return np.rint(check_scale(scale) * self.normal(size)).astype(np.int64)

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        # The difference of two geometric variables is exactly discrete Laplace.
        rate = 1 / check_scale(scale)
        first, second = np.floor(-np.log(self.uniform((2, size))) / rate)
        return (first - second).astype(np.int64)


def made_up_generator(*numbers: int) -> Generator:
    """A generator for rehearsals, simulations and audits of made-up rows. Equal numbers, equal draws: not private."""
    return np.random.Generator(np.random.PCG64(numbers or 0))


def made_up_randomness() -> SeededRandomness:
    """For rehearsals, and for illustrations drawn from a release: the same draws every time."""
    return SeededRandomness(made_up_generator())


def choosing(token: bytes) -> Randomness:
    """For sampling rows on other machines, where a task that is run again must repeat its draws.

    It is as secret as the token, which the curator's own generator has drawn. No noise is drawn from it.
    """
    return SeededRandomness(np.random.Generator(np.random.PCG64(int.from_bytes(token, "little"))))


def derived_generator(seed: int, *names: str | float | None) -> np.random.Generator:
    """A separate random stream for every list of names under a seed, independent of the order of calls.

    For made-up data, and for noise on public data whose releases protect nobody.

    >>> first, again = (derived_generator(0, "gaussian", 1.0, 3).random() for _ in range(2))
    >>> first == again, first == derived_generator(0, "gaussian", 1.0, 4).random()
    (True, False)
    """
    digest = hashlib.sha256(json.dumps([seed, *names]).encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))


def randomness(random_state: Any) -> Randomness:
    """System randomness for None, else a seeded generator, with a warning."""
    if random_state is None:
        return SystemRandomness()
    if isinstance(random_state, Randomness):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        generator = np.random.Generator(np.random.PCG64(random_state.randint(0, 2**31 - 1, size=4)))
    elif isinstance(random_state, np.random.Generator):
        generator = random_state
    elif isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool) and random_state >= 0:
        generator = np.random.Generator(np.random.PCG64(int(random_state)))
    else:
        must = "None, an integer ≥ 0, or a NumPy random generator"
        raise ValueError(complain("random_state", "dpeigen", must, random_state))
    warnings.warn(
        "random_state was set: the release is seeded, not private. Leave it None for anything that is published.",
        NotPrivateWarning,
        stacklevel=3,
    )
    return SeededRandomness(generator)


def _opendp_noise(kind: str, scale: float, size: int) -> Integers:
    from opendp import measurements, metrics  # takes 0.2 s, so it is imported at the first draw
    from opendp.domains import atom_domain, vector_domain
    from opendp.mod import enable_features

    enable_features("contrib")
    domain = vector_domain(atom_domain(T="i64"))
    if kind == "gaussian":
        mechanism = measurements.make_gaussian(domain, metrics.l2_distance(T="f64"), scale=scale)
    else:
        mechanism = measurements.make_laplace(domain, metrics.l1_distance(T="f64"), scale=scale)
    return np.array(mechanism(np.zeros(size, dtype=np.int64)), dtype=np.int64)
