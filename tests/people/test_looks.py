"""First looks at many rows of the same people take a few of each: how many follows from public facts alone."""

from __future__ import annotations

import numpy as np
import pytest

from dpeigen.curator import Purpose
from dpeigen.curator.curator import DataCurator
from dpeigen.privacy import Budget, PureCost, Relation
from dpeigen.privacy.randomness import randomness
from dpeigen.questions import MeanSquares
from dpeigen.sources import ArraySource, choosing
from dpeigen.sources.ids import encoded
from dpeigen.sources.units import UnitsByPlace
from dpeigen.stats import BadRowsError, Frame, Lattice

pytestmark = pytest.mark.filterwarnings("ignore:.*seeded")
COST = PureCost(1e6)


def looks(sizes, relation=Relation.REPLACE, max_rows=None, share=1.0, spoil=None):
    """The curator of a sample, of people whose rows are numbered from 0 on; and its share."""
    ids = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.concatenate([np.arange(size, dtype=float) for size in sizes])[:, None] + 1.0
    if spoil is not None:
        rows[spoil] = np.nan
    source = UnitsByPlace(ArraySource(rows, ["a"]), lambda: encoded(ids), "who")
    source.max_rows = max_rows
    source.count_rows()
    shares = {Purpose.SCALES: COST}
    whole = DataCurator(source, relation, shares, Budget(2e6), randomness(3))
    return whole, *whole.sample(share, Frame(1))


def mean_square(curator):
    question = MeanSquares(Lattice(Frame(1), 1000.0))
    return float(curator.measure(question, purpose=Purpose.SCALES, cost=COST).squares[0])


@pytest.fixture(autouse=True)
def hundred(monkeypatch):
    monkeypatch.setattr(choosing, "_ENOUGH_ROWS", 100)


@pytest.mark.parametrize(("people", "enough"), [(200, 1), (50, 2), (30, 4), (10, 10)])
def test_of_many_rows_so_many_are_enough(people, enough):
    _, part, share = looks([40] * people)
    (block,) = part._DataCurator__units.blocks() if enough > 1 else [None]
    assert share == 1.0
    if block is None:
        assert part._DataCurator__units is None
    else:
        assert len(block) == people * enough
        assert (block.sizes == enough).all()
    # Every person still counts one: the mean square is that of a row drawn at random, about 40²/3.
    assert 0.4 < mean_square(part) / np.mean(np.arange(1, 41) ** 2) < 2.2
    assert mean_square(looks([40] * people)[0]) == pytest.approx(np.mean(np.arange(1, 41) ** 2), rel=1e-2)


def test_how_many_rows_people_have_decides_nothing():
    """One person with a thousand rows more: all others have as many rows in the sample as before."""
    for extra in (0, 1000):
        _, part, _ = looks([3] * 49 + [3 + extra])
        (block,) = part._DataCurator__units.blocks()
        assert len(block) == 100


def test_where_the_number_of_people_is_private_all_rows_are_taken():
    whole, part, _ = looks([40] * 200, Relation.ADD_REMOVE)
    assert part is whole


def test_where_each_row_counts_alike_all_rows_are_taken():
    whole, part, _ = looks([4] * 200, max_rows=4)
    assert part is whole


def test_a_share_of_the_people_with_a_few_rows_each():
    _, part, share = looks([40] * 400, share=0.2)
    (block,) = part._DataCurator__units.blocks()
    assert share == 0.2
    assert 40 < block.people < 130
    assert len(block) == 2 * block.people


def test_a_bad_row_is_refused_though_it_is_not_in_the_sample():
    with pytest.raises(BadRowsError):
        looks([40] * 200, spoil=7777)
