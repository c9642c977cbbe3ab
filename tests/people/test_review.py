"""What an attack on people with several rows found: each was possible once, and is not any more."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from dpeigen import Ledger, PrivateCovariance, PrivatePCA
from dpeigen.curator.feed import Feed
from dpeigen.estimators.people import Roll
from dpeigen.privacy.randomness import SystemRandomness
from dpeigen.sources import open_source
from dpeigen.sources.choosing import Chooser, UnitLimits
from dpeigen.sources.ids import encoded
from dpeigen.sources.memory import ArraySource

pytestmark = pytest.mark.filterwarnings("ignore")
ROBUST = {"n_components": 1, "epsilon": 4.0, "delta": 1e-6, "method": "spatial-sign", "center": "private"}


def test_people_of_a_stream_come_in_a_random_order(monkeypatch):
    """In table order one person at another place would shift everybody from batch to batch."""
    seen, finish = [], Feed._finish
    monkeypatch.setattr(Feed, "_finish", lambda self: (seen.append(self._buffer[:, 0].copy()), finish(self))[1])
    X = np.column_stack([np.linspace(-1, 1, 60_000), np.random.default_rng(0).normal(size=(60_000, 2))])
    options = {"epsilon": 1.0, "delta": 1e-6, "method": "dp-pca", "bound": 5.0, "random_state": 0}
    PrivatePCA(1, **options).partial_fit(X, unit=np.arange(60_000))
    assert len(seen) > 3
    assert all(np.ptp(batch) > 1.5 for batch in seen)  # in table order a batch would hold neighbours only


def test_a_finite_row_stays_finite_when_it_is_divided():
    X = np.random.default_rng(0).normal(size=(4000, 3)) * 1e-12
    X[0] = 1e300
    PrivatePCA(scale="private", bound="private", **ROBUST).fit(X)


def test_a_ledger_books_what_a_second_look_costs(tmp_path):
    X = np.random.default_rng(0).normal(size=(4000, 3))
    X[:, 2] = 0
    ledger = Ledger.create(tmp_path / "l", epsilon=20.0, delta=1e-5, accounting="gaussian")
    PrivatePCA(scale="private", bound="private", ledger=ledger, **ROBUST).fit(X)
    assert ledger.remaining().epsilon <= 16.0


def test_passes_over_divided_rows_are_counted(tmp_path, monkeypatch):
    """An interruption after noise was drawn is paid for, public scales or not."""
    X, answers = np.random.default_rng(0).normal(size=(4000, 3)), []
    from dpeigen.curator.curator import DataCurator

    answered = DataCurator._answered

    def stop(self, question, cost):
        if len(answers) == 3:
            raise KeyboardInterrupt
        answers.append(answered(self, question, cost))
        return answers[-1]

    monkeypatch.setattr(DataCurator, "_answered", stop)
    ledger = Ledger.create(tmp_path / "l", epsilon=20.0, delta=1e-5)
    options = {**ROBUST, "method": "refined", "center": "pairs"}
    with pytest.raises(KeyboardInterrupt):
        PrivatePCA(scale=np.ones(3), ledger=ledger, **options).fit(X)
    assert ledger.remaining().epsilon == pytest.approx(16.0)


def test_how_one_id_is_written_does_not_change_others():
    ids = [f"a{i}" for i in range(200)] + [f"a{i}\u00a0" for i in range(200)]
    X = np.random.default_rng(0).normal(size=(401, 2))
    options = {"epsilon": 1.0, "delta": 1e-6, "method": "gaussian", "bound": 3.0}
    found = [
        PrivateCovariance(**options).fit(X, unit=np.array([*ids, last], dtype=object)).release_.facts["n_rows"]
        for last in ("q", 5, None, Decimal("0.1"))
    ]
    assert found == [401] * 4


def test_a_number_has_one_name_in_every_call_of_a_stream():
    roll, source = Roll(SystemRandomness()), ArraySource(np.zeros((2, 1)))
    roll.one_each(source, roll.newcomers(np.array([Decimal(5), Decimal(6)], dtype=object), source))
    roll.take_in()
    with pytest.raises(ValueError, match="earlier call"):
        roll.newcomers(np.array([Decimal("5.00"), Decimal("6.25")], dtype=object), source)


@pytest.mark.parametrize("empty", ['""', '" "', "null", "NaN"])
def test_json_lines_without_an_id_are_people_of_their_own(tmp_path, empty):
    path = tmp_path / "t.jsonl"
    path.write_text("".join(f'{{"x": {i}, "who": {empty}}}\n' for i in range(4)) + '{"x": 1, "who": "a"}\n')
    assert open_source(path, columns=["x"], unit="who").count_rows() == 5


def test_coins_of_people_in_a_query_are_independent():
    pl = pytest.importorskip("polars")
    from dpeigen.sources.lazy import LazyUnits

    def heads():
        units = LazyUnits(pl.DataFrame({"x": np.zeros(400), "id": np.arange(400)}).lazy(), "id")
        units.max_rows, units.thinned = 20, True
        units.choose(SystemRandomness())
        return sum(block.people for block in units.blocks())

    found = [heads() for _ in range(30)]  # a permutation would give 20 each time
    assert len(set(found)) > 3
    assert abs(np.mean(found) - 20) < 4


def test_partitions_draw_apart():
    """Two partitions of the same layout: the chance that all 60 draws are the same is 2^-60."""
    chooser = Chooser(UnitLimits(None, False), SystemRandomness().token())
    rows = np.tile([[0.0], [1.0]], (60, 1))
    first, second = (
        chooser.block(rows, np.repeat(np.arange(60, dtype=np.uint64) + start, 2)).heads for start in (0, 60)
    )
    assert (first != second).any()
    assert encoded(np.arange(3))[1] == 3
