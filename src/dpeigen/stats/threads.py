"""Threads over independent pieces of work, with one BLAS thread in each, so that no core is oversubscribed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from dpeigen._arithmetic import own_error_state

__all__ = ["R", "T", "cores", "in_threads", "single_blas", "workers"]

T = TypeVar("T")
R = TypeVar("R")


@cache
def _controller() -> ThreadpoolController:
    """The BLAS libraries of this process; finding them takes milliseconds, and they do not change after import."""
    return ThreadpoolController()


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def workers() -> int:
    """The number of threads that BLAS itself would use, which respects limits set by joblib or the environment."""
    blas = [lib["num_threads"] for lib in _controller().info() if lib["user_api"] == "blas"]
    return max(1, min([cores(), *blas]))


_users = 0  # of the one-thread limit, which applies to the whole process: the first sets it, the last lifts it
_limit: Any = None
_lock = threading.Lock()


@contextmanager
def single_blas(wanted: bool = True) -> Iterator[None]:
    """One BLAS thread inside, if ``wanted``; may be used from several threads at once."""
    global _users, _limit
    if not wanted:
        yield
        return
    with _lock:
        _users += 1
        if _users == 1:
            _limit = _controller().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                _limit.restore_original_limits()


def in_threads(work: Callable[[T], R], pieces: Sequence[T]) -> list[R]:
    """Apply ``work`` to each piece, in the order of the pieces; the result does not depend on the number of threads."""
    count, work = min(workers(), len(pieces)), own_error_state(work)
    with single_blas(count > 1):
        if count <= 1:
            return [work(piece) for piece in pieces]
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(work, pieces))
