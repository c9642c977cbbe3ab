"""The order in which the pieces of many audits are done, so that no process waits while there is work.

An audit has stages, and the pieces of a stage can run in parallel. A search is one long piece: while it runs, the other
processes work on the following audits. Every audit gets its first reading before any gets its second, so that there is
a result for each of them even if the time is short.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Any, Protocol

__all__ = ["LateError", "Processes", "Staged", "work_off"]


class LateError(Exception):
    """The time was up before a piece was done."""


class Staged(Protocol):
    """The interface of an audit for the schedule."""

    def ready(self) -> bool:
        """Whether the first stage may begin.

        Returns
        -------
        bool
            False while it needs a result of another audit that is not finished.
        """

    def jobs(self, stage: int, deadline: float | None) -> list[Any]:
        """Return the missing pieces of a stage.

        Parameters
        ----------
        stage : int
            From 0.
        deadline : float or None
            The time at which a piece is abandoned, in seconds as of `time.time`.

        Returns
        -------
        list
            Pieces for `Processes`.
        """

    def save(self, job: Any, value: Any) -> None:
        """Keep a finished piece.

        Parameters
        ----------
        job : object
            The piece.
        value : object
            Its result.
        """


class Processes:
    """Processes that work on pieces, or this one if one worker is asked for.

    Parameters
    ----------
    workers : int
        How many.
    work : function
        The function that is called with a piece.
    """

    def __init__(self, workers: int, work: Callable[[Any], Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(workers, mp_context=context) if workers > 1 else None
        self._work = work

    def __enter__(self) -> Callable[[Any], Future[Any]]:
        return self._submit

    def _submit(self, job: Any) -> Future[Any]:
        if self._pool is not None:
            return self._pool.submit(self._work, job)
        done: Future[Any] = Future()
        try:
            done.set_result(self._work(job))
        except Exception as error:
            done.set_exception(error)
        return done

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


class _Course:
    """The progress of one audit: its stage, the pieces that wait, and the number in progress."""

    def __init__(self, audit: Staged, stages: int, deadline: float | None) -> None:
        self._audit, self._stages, self._deadline = audit, stages, deadline
        self.stage, self.late, self._flying = 0, False, 0
        self._waiting: list[Any] | None = None  # None: the stage has not begun

    def take(self) -> Any | None:
        """A piece to work on now, if there is one."""
        self._advance()
        if not self._waiting or self.late:
            return None
        self._flying += 1
        return self._waiting.pop(0)

    def done(self, job: Any, future: Future[Any]) -> None:
        self._flying -= 1
        try:
            self._audit.save(job, future.result())
        except LateError:
            self.late = True
        self._advance()

    def _advance(self) -> None:
        """Go to the first stage with missing pieces."""
        while not self.late and not self._flying and not self._waiting and self.stage < self._stages:
            if self._waiting is not None:
                self.stage, self._waiting = self.stage + 1, None
            elif self.stage == 0 and not self._audit.ready():
                return
            else:
                self._waiting = self._audit.jobs(self.stage, self._deadline)


def work_off(
    audits: Sequence[Staged],
    *,
    stages: int,
    first: int,
    submit: Callable[[Any], Future[Any]],
    workers: int,
    deadline: float | None,
    progress: Callable[[list[int]], None],
) -> list[int]:
    """Work on all audits, a few pieces at a time, until all is done or the time is up.

    Parameters
    ----------
    audits : sequence of Staged
        In the order in which they are begun.
    stages : int
        Stages of each.
    first : int
        So many stages of every audit are worked on before the rest of any.
    submit : function
        Hands a piece to a process.
    workers : int
        Processes.
    deadline : float or None
        When to stop, in seconds as of `time.time`.
    progress : function of list of int
        Called with the number of finished stages of each audit whenever one of them changes.

    Returns
    -------
    list of int
        The number of finished stages of each audit.
    """
    courses = [_Course(audit, stages, deadline) for audit in audits]
    flying: dict[Future[Any], tuple[_Course, Any]] = {}
    reached = [0] * len(courses)
    while True:
        while len(flying) < workers + 1 and (deadline is None or time.time() < deadline):
            found = _following(courses, first)
            if found is None:
                break
            flying[submit(found[1])] = found
        if not flying:
            return [course.stage for course in courses]
        for future in wait(flying, return_when=FIRST_COMPLETED).done:
            course, job = flying.pop(future)
            course.done(job, future)
        before, reached = reached, [course.stage for course in courses]
        if reached != before:
            progress(reached)


def _following(courses: list[_Course], first: int) -> tuple[_Course, Any] | None:
    for early in (True, False):
        for course in courses:
            if early and course.stage >= first:
                continue
            job = course.take()
            if job is not None:
                return course, job
    return None
