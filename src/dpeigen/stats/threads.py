"""Threads over independent pieces of work, with one BLAS thread in each, so that no core is oversubscribed.

A fit reads the rows several times, and works on small matrices in between. Its threads are kept from one pass to the
next, since starting one takes as long as a product of small matrices. BLAS has one thread in between too: with more, a
product of 100×100 matrices can take hundreds of times as long while another thread is busy.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from dpeigen._arithmetic import own_error_state

__all__ = ["R", "T", "cores", "everywhere", "in_threads", "kept_threads", "single_blas", "workers"]

T = TypeVar("T")
R = TypeVar("R")


@cache
def _controller() -> ThreadpoolController:
    """The BLAS libraries of this process; finding them takes milliseconds, and they do not change after import."""
    return ThreadpoolController()


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass
class _Kept:
    """The threads of one fit beside its own thread; none are started before they are needed."""

    count: int  # with its own
    process: int = field(default_factory=os.getpid)
    thread: int = field(default_factory=threading.get_ident)
    started: bool = False
    busy: bool = False  # with a pass

    @cached_property
    def pool(self) -> ThreadPoolExecutor:
        self.started = True
        return ThreadPoolExecutor(max(1, self.count - 1))


_kept: ContextVar[_Kept | None] = ContextVar("kept threads", default=None)


def _threads() -> _Kept | None:
    """The threads that are kept, if they can be used here.

    Not in a process that was forked meanwhile, which has none of them, nor in another thread to which the context was
    copied. Nor during a pass: if the caller's code that makes the blocks fits something, it would wait for threads that
    wait for the next block.
    """
    kept = _kept.get()
    if kept is None or kept.busy:
        return None
    return kept if (kept.process, kept.thread) == (os.getpid(), threading.get_ident()) else None


def workers() -> int:
    """The number of threads that BLAS itself would use, which respects limits set by joblib or the environment."""
    kept = _threads()
    if kept is not None:
        return kept.count
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


@contextmanager
def kept_threads(*, one_for_blas: bool) -> Iterator[None]:
    """Keep the threads of `everywhere` from call to call; ``one_for_blas``: BLAS has one thread in between too."""
    if _threads() is not None:
        yield
        return
    kept = _Kept(workers())
    before = _kept.set(kept)
    try:
        with single_blas(one_for_blas):
            yield
    finally:
        _kept.reset(before)
        if kept.started:
            kept.pool.shutdown()


def everywhere(work: Callable[[], R], count: int) -> list[R]:
    """Call ``work`` in so many threads, this one among them; return all results when the last has ended."""
    with kept_threads(one_for_blas=True), single_blas():
        kept, others = _threads(), list[Future[R]]()
        if kept is None:
            raise AssertionError("threads are kept from here on")
        kept.busy = True
        try:
            for _ in range(count - 1):
                others.append(kept.pool.submit(work))
            first = work()
        finally:
            wait(others)
            kept.busy = False
        return [first, *(other.result() for other in others)]


def in_threads(work: Callable[[T], R], pieces: Sequence[T]) -> list[R]:
    """Apply ``work`` to each piece, in the order of the pieces; the result does not depend on the number of threads."""
    count, work = min(workers(), len(pieces)), own_error_state(work)
    with single_blas(count > 1):
        if count <= 1:
            return [work(piece) for piece in pieces]
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(work, pieces))
