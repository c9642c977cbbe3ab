"""Threads of a fit: all are waited for, kept from pass to pass and then ended. They change no bit of a release."""

import multiprocessing
import sys
import threading
import time
from contextvars import copy_context

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dpeigen import PrivatePCA
from dpeigen.sources import BlockSource
from dpeigen.stats import Statistic, threads
from dpeigen.stats.threads import everywhere, kept_threads, workers


def blas_threads() -> set[int]:
    return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}


@pytest.fixture
def three_workers(monkeypatch):
    monkeypatch.setattr(threads, "cores", lambda: 3)
    with threadpool_limits(3, user_api="blas"):
        yield


def met() -> list[int]:
    """The threads that three calls at the same time ran in."""
    together = threading.Barrier(3, timeout=30)

    def work() -> int:
        together.wait()
        return threading.get_ident()

    return everywhere(work, 3)


@pytest.mark.usefixtures("three_workers")
def test_work_runs_in_this_thread_and_in_others():
    found = met()
    assert len(set(found)) == 3
    assert threading.get_ident() in found


@pytest.mark.usefixtures("three_workers")
def test_threads_are_kept_from_pass_to_pass_and_then_ended():
    before = threading.active_count()
    with kept_threads(one_for_blas=True):
        assert set(met()) == set(met())
    assert threading.active_count() == before


@pytest.mark.usefixtures("three_workers")
def test_blas_has_one_thread_inside_and_all_of_them_afterwards():
    with kept_threads(one_for_blas=True):
        assert blas_threads() == {1}
        assert workers() == 3
    assert blas_threads() == {3}
    with kept_threads(one_for_blas=False):
        assert blas_threads() == {3}
        assert everywhere(lambda: blas_threads() == {1}, 3) == [True] * 3


@pytest.mark.usefixtures("three_workers")
def test_all_threads_are_waited_for_if_one_fails():
    ended = []

    def work() -> None:
        if threading.current_thread() is threading.main_thread():
            raise ArithmeticError
        time.sleep(0.2)
        ended.append(True)

    with pytest.raises(ArithmeticError):
        everywhere(work, 3)
    assert len(ended) == 2


@pytest.mark.usefixtures("three_workers")
def test_an_error_in_another_thread_is_raised_here():
    def work() -> None:
        if threading.current_thread() is not threading.main_thread():
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        everywhere(work, 3)


@pytest.mark.usefixtures("three_workers")
def test_code_of_the_caller_that_makes_blocks_may_fit_something_itself():
    """The second fit must not wait for the threads of the first, which wait for the next block."""
    rows = np.random.default_rng(0).normal(size=(30_000, 10))
    public = {"epsilon": 1.0, "delta": 1e-6, "bound": 5.0, "center": None, "method": "gaussian", "random_state": 0}
    ended = threading.Event()
    inside = []

    def blocks():
        for start in range(0, len(rows), 5000):
            inside.append(PrivatePCA(1, **public).fit(rows))
            yield rows[start : start + 5000]

    def fit() -> None:
        PrivatePCA(1, **public).fit(BlockSource(blocks, n_features=10, n_rows=len(rows)))
        ended.set()

    threading.Thread(target=fit, daemon=True).start()
    assert ended.wait(30)
    alone = PrivatePCA(1, **public).fit(rows)
    for found in inside:
        np.testing.assert_array_equal(found.components_, alone.components_)


@pytest.mark.usefixtures("three_workers")
def test_another_thread_with_a_copy_of_the_context_has_threads_of_its_own():
    found = []
    with kept_threads(one_for_blas=True):
        met()
        here = copy_context()
    other = threading.Thread(target=lambda: here.run(lambda: found.append(everywhere(lambda: 1, 2))), daemon=True)
    other.start()
    other.join(30)
    assert found == [[1, 1]]


@pytest.mark.usefixtures("three_workers")
def test_blocks_are_closed_after_the_last_thread_has_read_one(monkeypatch):
    """With two Ctrl-C: the second comes while another thread reads. What is raised says that it was one."""
    ours, reading, stopped = threading.Event(), threading.Event(), threading.Event()

    def blocks():
        for _ in range(3):  # one for each thread
            yield np.zeros((2, 2))
        reading.set()
        stopped.wait(30)
        time.sleep(0.2)
        yield np.zeros((2, 2))
        raise AssertionError("nobody needs this block")

    class Interrupted(Statistic):
        def fresh(self):
            return Interrupted()

        def update(self, block):
            if threading.current_thread() is threading.main_thread():
                ours.set()
                reading.wait(30)
                raise KeyboardInterrupt
            ours.wait(30)
            return self

        def merge(self, other):
            return self

    def interrupted(_) -> None:
        stopped.set()
        raise KeyboardInterrupt

    monkeypatch.setattr(threads, "wait", interrupted)
    with kept_threads(one_for_blas=True), pytest.raises(KeyboardInterrupt):  # as in a fit
        BlockSource(blocks, n_features=2).reduce(Interrupted())


def _count_in_fork(queue) -> None:
    queue.put(len(everywhere(lambda: None, 2)))


@pytest.mark.skipif(sys.platform != "linux", reason="processes are not forked by default on other systems")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.usefixtures("three_workers")
def test_a_forked_process_does_not_wait_for_threads_that_it_does_not_have():
    forks = multiprocessing.get_context("fork")
    queue = forks.Queue()
    with kept_threads(one_for_blas=True):
        met()
        child = forks.Process(target=_count_in_fork, args=(queue,))
        child.start()
        child.join(30)
        alive = child.is_alive()
        child.kill()
    assert not alive
    assert queue.get(timeout=5) == 2


def test_a_seeded_release_does_not_depend_on_the_number_of_blas_threads():
    rows = np.random.default_rng(0).normal(size=(20_000, 120)) * np.linspace(1, 5, 120)
    found = []
    for count in (1, 2):
        with threadpool_limits(count, user_api="blas"):
            found.append(PrivatePCA(2, epsilon=1.0, delta=1e-6, random_state=0).fit(rows).release_)
    np.testing.assert_array_equal(found[0].covariance, found[1].covariance)
    np.testing.assert_array_equal(found[0].components, found[1].components)
