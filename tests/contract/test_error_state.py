"""With np.seterr(all="raise") no row decides whether a fit fails, and no warning about a row escapes."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from dpeigen import PrivateCovariance, PrivatePCA, PrivateRidge, PrivateScoreMap
from dpeigen.local import LocalRandomizer
from dpeigen.methods import METHODS, private_mean, private_top_eigenvalue
from dpeigen.sources import ArraySource
from dpeigen.sources.remote import measure, result
from dpeigen.stats import Frame, Lattice, SecondMoment

pytestmark = pytest.mark.filterwarnings("ignore::dpeigen.privacy.randomness.NotPrivateWarning")

PLAIN = np.random.default_rng(0).normal(size=(500, 3))
EXTREME = [[1e308, -1e308, 1e200], [5e-324, 1e-200, 1e308], [1e200, 5e-324, 0.0]]


def tables():
    """A table of ordinary rows, neighbours with one row of extreme finite numbers, and nothing but such rows."""
    found = [PLAIN]
    for row in EXTREME:
        found.append(PLAIN.copy())
        found[-1][7] = row
    return [*found, np.array(EXTREME * 200)[: len(PLAIN)]]


@pytest.fixture(params=["raise", "warn"])
def strict(request):
    with np.errstate(all=request.param):
        yield


def outcome(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "done"


def same_outcome(call):
    found = {outcome(lambda table=table: call(table)) for table in tables()}
    assert len(found) == 1
    return found.pop()


def pca(**options):
    given = {"epsilon": 5.0, "delta": 1e-6, "random_state": 0} | options
    return lambda table: PrivatePCA(1, **given).fit(table)


@pytest.mark.parametrize("method", ["auto", *METHODS])
@pytest.mark.parametrize("center", [None, "private", "pairs"])
def test_every_method_answers_alike(method, center):
    for bound in (None, 3.0, "private"):
        with np.errstate(all="raise"):
            said = same_outcome(pca(method=method, center=center, bound=bound))
        assert said == "done" or said.startswith("ValueError: The ")  # of a parameter, before anything is read


def test_streams_ridges_maps_and_covariances_answer_alike(strict):
    def stream(table):
        model = PrivatePCA(1, epsilon=5.0, delta=1e-6, bound=3.0, center=None, method="oja", random_state=0)
        model.partial_fit(table[:250]).partial_fit(table[250:])

    def ridge(table):
        box = {"bound": (-3, 3), "target_bounds": (-3, 3)}
        PrivateRidge(epsilon=5.0, random_state=0, **box).fit(table[:, :2], table[:, 2]).predict(table[:, :2])

    def covariance(table):
        fitted = PrivateCovariance(epsilon=5.0, bound=3.0, random_state=0).fit(table)
        fitted.mahalanobis(table)
        fitted.score(table)

    plane = PrivatePCA(2, epsilon=5.0, bound=3.0, center=None, random_state=0).fit(PLAIN)
    calls = {
        "stream": stream,
        "ridge": ridge,
        "covariance": covariance,
        "map": lambda table: PrivateScoreMap(plane.release_, epsilon=1.0, random_state=0).fit(table),
        "transform": lambda table: plane.inverse_transform(plane.transform(table)),
        "mean": lambda table: private_mean(np.tile(table, (8, 1)), 1.0, epsilon=5.0, delta=1e-4, random_state=0),
        "spread": lambda table: private_top_eigenvalue(table, epsilon=5.0, delta=1e-4, random_state=0),
    }
    assert {name: same_outcome(call) for name, call in calls.items()} == dict.fromkeys(calls, "done")


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_local_reports_answer_alike(strict, delta):
    randomizer = LocalRandomizer(n_features=3, epsilon=2.0, delta=delta, bound=3.0, random_state=0)
    assert same_outcome(lambda table: [randomizer.report(row) for row in table[:10]]) == "done"


def test_threads_and_workers_have_a_state_of_their_own(monkeypatch):
    empty = SecondMoment(Lattice(Frame(3), 1e-300))
    monkeypatch.setattr("dpeigen.sources.base.workers", lambda: 2)
    monkeypatch.setattr("dpeigen.sources.base._SMALL", 0)
    monkeypatch.setattr("dpeigen.sources.memory._BLOCK_NUMBERS", 300)
    said = []

    def work(table):
        np.seterr(all="raise")  # as someone may have set it in a worker
        part = result(empty, measure(empty, 0, [table], np.asarray), lambda rows: None)
        said.append((part.count, ArraySource(table).reduce(empty).count))

    for table in tables():
        worker = threading.Thread(target=work, args=(table,))
        worker.start()
        worker.join()
    assert said == [(500, 500)] * 5


def test_the_state_of_the_caller_is_left_as_it_was():
    with np.errstate(over="raise", under="warn", divide="call", invalid="raise"):
        before = np.geterr()
        pca(bound=3.0)(tables()[1])
        assert np.geterr() == before
