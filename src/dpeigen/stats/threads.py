"""Threads over independent pieces of work, with one BLAS thread in each, so that no core is oversubscribed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")


@cache
def _controller() -> ThreadpoolController:
    """The BLAS libraries of this process; finding them takes milliseconds, and they do not change after import."""
    return ThreadpoolController()


def workers() -> int:
    """As many as BLAS itself would use, which respects limits set by joblib or the environment."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    blas = [lib["num_threads"] for lib in _controller().info() if lib["user_api"] == "blas"]
    return max(1, min([cores, *blas]))


def single_blas(wanted: bool = True) -> AbstractContextManager[Any]:
    """One BLAS thread inside, where wanted."""
    return _controller().limit(limits=1, user_api="blas") if wanted else nullcontext()


def in_threads(work: Callable[[T], R], pieces: Sequence[T]) -> list[R]:
    """``work`` of each piece, in the order of the pieces; the result does not depend on the number of threads."""
    count = min(workers(), len(pieces))
    with single_blas(count > 1):
        if count <= 1:
            return [work(piece) for piece in pieces]
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(work, pieces))
