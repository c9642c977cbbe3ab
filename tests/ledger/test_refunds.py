"""Rows that cannot be read cost nothing in the first pass over them, and everything once a pass was finished."""

from __future__ import annotations

import signal
import sys
import threading
import time
from contextlib import contextmanager
from itertools import islice

import numpy as np
import pytest

from dpeigen import Ledger, PaidError, PrivateCovariance, PrivatePCA, PrivateRidge, PrivateScoreMap, Release
from dpeigen.estimators.course import PaidCourse
from dpeigen.estimators.record import planned_split
from dpeigen.methods import METHODS, Kendall
from dpeigen.privacy import ConcentratedCost, GaussianCost
from dpeigen.privacy.ledger.store import SqliteStore
from dpeigen.score_map import ScoreMap
from dpeigen.sources import PairedSource, Source, UnreadableRowsError
from dpeigen.sources.shuffled import shuffled
from dpeigen.stats import BadRowsError

X = np.random.default_rng(0).normal(size=(4000, 3)) * [3, 1, 1]


class Failing(Source):
    """Rows on a worker that is lost in one of the passes, after some rows of it."""

    n_features, n_rows = 3, len(X)

    def __init__(self, fails: int) -> None:
        self.fails, self.reads = fails, 0

    def blocks(self):
        self.reads += 1
        yield X[:2000]
        if self.reads == self.fails:
            raise UnreadableRowsError("A worker was lost. Nothing was spent.")
        yield X[2000:]


class OwnReduce(Failing):
    """A source that adds up by itself, and tells nobody."""

    def reduce(self, statistic):
        part = statistic.fresh()
        for block in self.blocks():
            part.update(block)
        return part


class Unordered(Failing):
    fixed_order = False


def fit(source, ledger, **options):
    given = {"epsilon": 0.9, "delta": 1e-6, "method": "spatial-sign", "random_state": 0} | options
    return PrivatePCA(1, ledger=ledger, **given).fit(source)


@pytest.fixture
def ledger(path):
    return Ledger.create(path, epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize("kind", [Failing, OwnReduce, Unordered])
@pytest.mark.parametrize("options", [{}, {"center": "pairs"}, {"method": Kendall(variances="paid"), "bound": 9.0}])
def test_only_the_first_pass_may_fail_for_nothing(ledger, kind, options):
    with pytest.raises(BadRowsError, match="Nothing was spent"):
        fit(kind(1), ledger, **options)
    assert ledger.history()[-1]["state"] == "cancelled"
    with pytest.raises(
        ValueError, match=r"A worker was lost\. The rows had already been read.*counts as spent"
    ) as caught:
        fit(kind(2), ledger, **options)
    assert not isinstance(caught.value, BadRowsError)
    assert "Nothing was spent" not in str(caught.value)
    assert (ledger.history()[-1]["state"], ledger.history()[-1]["started"]) == ("reserved", True)
    assert ledger.remaining().epsilon == pytest.approx(0.1)


def test_a_source_that_was_used_before_is_fresh_for_the_next_fit(ledger):
    source = Failing(0)
    fit(source, None)
    assert source.passes > 1
    source.fails = source.reads + 1
    with pytest.raises(BadRowsError, match="Nothing was spent"):
        fit(source, ledger)
    assert ledger.remaining().epsilon == 1.0


def test_a_bad_row_at_the_end_is_found_in_the_first_pass(ledger):
    bad = np.repeat(X, 40, axis=0)  # enough for threads
    bad[-1, 0] = np.nan
    for options in ({}, {"center": "pairs"}):
        with pytest.raises(BadRowsError, match="othing was spent"):
            fit(bad, ledger, **options)
    assert ledger.remaining().epsilon == 1.0


def test_pairs_count_for_the_rows_behind_them():
    from dpeigen.privacy import randomness
    from dpeigen.stats import Frame, SecondMoment, unit_lattice

    source = Failing(0)
    PairedSource(source, randomness(0)).reduce(SecondMoment(unit_lattice(Frame(3))))
    assert source.passes > 0


def test_a_score_map_is_started_before_it_is_drawn(ledger):
    release = PrivatePCA(2, epsilon=1.0, bound=9.0, method="laplace", random_state=0).fit(X).release_
    mapped = PrivateScoreMap(release, epsilon=0.4, ledger=ledger, random_state=0)
    with pytest.raises(BadRowsError):
        mapped.fit(Failing(1))
    mapped.fit(X)
    assert [(e["state"], e["started"]) for e in ledger.history()] == [("cancelled", True), ("committed", True)]


# --- what was made is kept before it is committed -------------------------------------------------------------------


class Interrupted(Failing):
    """Ctrl-C in one of the passes."""

    def blocks(self):
        self.reads += 1
        yield X[:2000]
        if self.reads == self.fails:
            raise KeyboardInterrupt
        yield X[2000:]


def test_an_interruption_costs_nothing_in_the_first_pass_only(ledger):
    for fails, state in ((1, "cancelled"), (2, "reserved")):
        with pytest.raises(KeyboardInterrupt):
            fit(Interrupted(fails), ledger)
        assert ledger.history()[-1]["state"] == state
    assert ledger.remaining().epsilon == pytest.approx(0.1)


def one_fit(ledger):
    fit(Interrupted(1), ledger)


def one_stream(ledger):
    model = PrivatePCA(1, epsilon=0.9, delta=1e-6, method="oja", bound=9.0, center=None, ledger=ledger, random_state=0)
    model.partial_fit(Interrupted(1))


@pytest.mark.skipif(sys.platform == "win32", reason="signals to threads")
@pytest.mark.parametrize("write", [1, 2, 3], ids=["reserve", "start", "cancel"])
@pytest.mark.parametrize("use", [one_fit, one_stream])
def test_an_interruption_of_a_write_costs_nothing(tmp_path, monkeypatch, write, use):
    """Ctrl-C after a write has reached the disk, and before this process knows."""
    ledger, real, writes = Ledger.create(tmp_path / "study.ledger", epsilon=1.0, delta=1e-5), SqliteStore._alone, []

    @contextmanager
    def alone(store, *, reading=False):
        with real(store, reading=reading):
            yield
            if reading:
                return
            writes.append(store)
            if len(writes) == write:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                time.sleep(0.2)

    monkeypatch.setattr(SqliteStore, "_alone", alone)
    with pytest.raises(KeyboardInterrupt):
        use(ledger)
    assert [entry["state"] for entry in ledger.history()] == ["cancelled"]
    assert ledger.remaining().epsilon == pytest.approx(1.0)


@pytest.mark.parametrize("method", ["dp-pca", "oja"])
def test_an_interruption_of_one_pass_costs_once_a_batch_was_used(path, method, monkeypatch):
    class Long(Source):
        n_features, n_rows = 3, 120_000

        def __init__(self, good: int) -> None:
            self.good = good

        def blocks(self):
            for _ in range(self.good):
                yield X
            if self.good < 30:
                raise KeyboardInterrupt

    def interrupted(source, rng):
        yield from islice(shuffled(source, rng), 12)
        raise KeyboardInterrupt

    monkeypatch.setattr("dpeigen.curator.curator.shuffled", interrupted)
    ledger = Ledger.create(path, epsilon=20.0, delta=1e-3)
    # All rows are read before the first batch is used: an interruption of the reading costs nothing.
    for good, state in ((0, "cancelled"), (29, "cancelled"), (30, "reserved")):
        with pytest.raises(KeyboardInterrupt):
            fit(Long(good), ledger, method=method, bound=9.0 if method == "oja" else None, center=None, epsilon=5.0)
        assert ledger.history()[-1]["state"] == state


def estimators():
    rows, options = X[:, :2], {"epsilon": 0.5, "random_state": 0, "bound": 9.0}
    plane = PrivatePCA(2, method="laplace", **options).fit(X).release_
    return {
        "pca": (PrivatePCA(1, **options), (X,), "release_"),
        "covariance": (PrivateCovariance(**options), (X,), "release_"),
        "ridge": (PrivateRidge(**options), (rows, X[:, 2]), "release_"),
        "map": (PrivateScoreMap(plane, epsilon=0.5, random_state=0), (X,), "map_"),
    }


@pytest.mark.parametrize("name", ["pca", "covariance", "ridge", "map"])
def test_a_release_is_there_when_the_ledger_is_gone(ledger, name, monkeypatch):
    model, data, attribute = estimators()[name]
    deliver = PaidCourse.deliver

    def lost(self, *arguments):
        ledger.path.rename(ledger.path.with_suffix(".away"))
        return deliver(self, *arguments)

    monkeypatch.setattr(PaidCourse, "deliver", lost)
    with pytest.raises(PaidError, match="counts as spent") as caught:
        model.set_params(ledger=ledger).fit(*data)
    assert caught.value.release is getattr(model, attribute)
    ledger.path.with_suffix(".away").rename(ledger.path)
    assert ledger.remaining().epsilon == pytest.approx(0.5)


def test_a_release_that_cannot_be_finished_is_kept_as_it_was_drawn(ledger, monkeypatch):
    model, data, _ = estimators()["ridge"]
    monkeypatch.setattr(Release, "ridge", lambda *_: 1 / 0)
    with pytest.raises(PaidError, match="could not be finished") as caught:
        model.set_params(ledger=ledger).fit(*data)
    assert caught.value.release.guarantee.epsilon == 0.5
    assert ledger.history()[-1]["state"] == "committed"


@pytest.mark.parametrize("name", ["pca", "ridge", "map"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_release_whose_description_was_interrupted_is_described_again(ledger, name, error, monkeypatch):
    model, data, _ = estimators()[name]
    calls = []

    def interrupted(self, *arguments, **options):
        calls.append(self)
        if len(calls) == 1:
            raise error
        original(self, *arguments, **options)

    kind = ScoreMap if name == "map" else Release
    original = kind.__init__
    monkeypatch.setattr(kind, "__init__", interrupted)
    with pytest.raises(PaidError, match="could not be finished") as caught:
        model.set_params(ledger=ledger).fit(*data)
    assert isinstance(caught.value.release, kind)
    assert caught.value.release.guarantee.epsilon == 0.5
    assert ledger.history()[-1]["state"] == "committed"


def test_what_cannot_be_described_is_kept_as_numbers(ledger, monkeypatch):
    model, data, _ = estimators()["pca"]
    monkeypatch.setattr("dpeigen.estimators.describe.promise", lambda *_: 1 / 0)
    with pytest.raises(PaidError, match="could not be finished") as caught:
        model.set_params(ledger=ledger).fit(*data)
    assert caught.value.release.components.shape == (1, 3)
    assert caught.value.release.split
    assert ledger.history()[-1]["state"] == "committed"


# --- shares that are not the rehearsed ones ---------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1_000, 20_000])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_unused_shares_that_go_to_others_cost_no_more_than_was_reserved(path, rows, delta):
    """How many rounds and looks are taken follows from what was released on the way."""
    ledger = Ledger.create(path, epsilon=5.0, delta=1e-2, accounting="mixed")
    table = np.random.default_rng(1).normal(size=(rows, 4)) * [1e-3, 1, 30, 1e6] + [0, 1e4, 0, 3e6]
    for state in range(3):
        options = {"epsilon": 1.0, "delta": delta, "method": "whitened", "random_state": state}
        PrivatePCA(2, ledger=ledger, **options).fit(table)
        entry = ledger.history()[-1]
        assert entry["state"] == "committed"
        assert (entry["split"] is None) == (delta == 0)  # pure shares are worth less the more evenly they are divided
    left = ledger.remaining()
    assert left.epsilon >= 5.0 - 3 * 1.0 - 1e-9


@pytest.mark.parametrize("method", ["eigenvector-sampling", "refined", "gaussian", "spatial-sign"])
def test_a_private_number_of_components_is_released_from_a_ledger_with_shares(path, method):
    """The shares of draws depend on the number, which a rehearsal cannot know."""
    ledger = Ledger.create(path, epsilon=50.0, delta=1e-2, accounting="mixed")
    rows = np.random.default_rng(1).normal(size=(20_000, 8)) * ([3] * 3 + [0.1] * 5)
    options = {"epsilon": 5.0, "delta": 1e-6, "method": method, "bound": 20.0, "center": None, "random_state": 0}
    pca = PrivatePCA("private", ledger=ledger, **options).fit(rows)
    entry = ledger.history()[-1]
    assert (pca.n_components_, entry["state"]) == (3, "committed")
    assert (entry["split"] is None) == (
        method == "eigenvector-sampling"
    )  # bare where the shares are not known beforehand


@pytest.mark.parametrize("method", [name for name in METHODS if METHODS[name].basis == "worst-case"])
@pytest.mark.parametrize("options", [{}, {"center": "pairs"}, {"bound": 9.0, "center": None}, {"delta": 0.0}])
def test_the_ledger_is_told_all_that_the_curator_allows(method, options):
    """The curator refuses what is beyond the declared shares, so these are what a reservation must cover."""
    model = PrivatePCA(1, **{"epsilon": 2.0, "delta": 1e-6, "bound": "private", "method": method, **options})
    source = model._open(X)
    task = model._pca_task(source)
    kind = METHODS[method]()
    try:
        kind.check(task)
    except ValueError:
        return  # refused before anything is reserved
    planned = planned_split(kind, task)
    if planned is not None:  # else the whole price is reserved
        told, allowed = {}, {purpose.value: cost for purpose, cost in kind.shares(task).items()}
        for spend in planned:
            told.setdefault(spend.purpose, []).append(spend.cost)
        assert {purpose: sum(map(_size, costs)) for purpose, costs in told.items()} == pytest.approx(
            {purpose: _size(cost) for purpose, cost in allowed.items()}
        )


def _size(cost):
    if isinstance(cost, GaussianCost):
        return cost.mu**2
    return cost.rho if isinstance(cost, ConcentratedCost) else cost.epsilon
