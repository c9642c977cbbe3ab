"""Parallel execution of methods, searches and the points of a figure, if the system can fork.

A forked process has all modules loaded; a new one would take longer to start than most plans take.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import Any

from dpeigen.stats.threads import cores, single_blas

__all__ = ["InTurn", "beside"]


class InTurn(Executor):
    """Runs jobs one after the other, in this process, when their results are asked for."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return _Later(lambda: fn(*args, **kwargs))


class _Later(Future[Any]):
    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__()
        self._call = call

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            try:
                self.set_result(self._call())
            except BaseException as error:
                self.set_exception(error)
        return super().result(timeout)


@contextlib.contextmanager
def beside(jobs: int) -> Iterator[Executor]:
    """An executor for this many jobs, each with one BLAS thread. Create it before other threads are started."""
    workers = min(jobs, cores())
    if workers < 2 or sys.platform != "linux" or multiprocessing.current_process().daemon:
        yield InTurn()
        return
    with single_blas(), warnings.catch_warnings():  # before the fork: in a forked process a limit has no effect
        warnings.simplefilter("ignore", DeprecationWarning)  # about forking while BLAS threads exist, which is safe
        pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork"))
        try:
            pool.submit(os.getpid).result()  # forks
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)
