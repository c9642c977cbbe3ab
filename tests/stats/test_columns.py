"""Histograms of single columns: what they count, and how far one row can move them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpeigen.privacy import GaussianCost, PureCost, Relation
from dpeigen.questions import ColumnCounts
from dpeigen.stats import BadRowsError, Frame, columns
from dpeigen.stats.columns import CELLS, OCTAVES, REACH, Octaves, Sizes, Stretch

KINDS = (Sizes, Octaves, Stretch)
EDGES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    np.nextafter(1, 0),
    2.0,
    0.5,
    math.sqrt(0.5),
    256.0,
    1e-320,
    1e308,
    -1e308,
    2.0**-100,
    2.0**101,
]


def test_sizes_fall_into_half_octaves():
    rows = np.array([[1.0], [-1.2], [1.5], [2.0], [0.0], [2.0**-101], [2.0**300]])
    counts = Sizes(Frame(1), (0,)).update(rows).counts[0]
    assert counts[REACH] == 2  # from 1 to √2
    assert counts[REACH + 1] == 1
    assert counts[REACH + 2] == 1
    assert counts[-1] == 1  # all that is larger
    assert counts.sum() == 5  # 0 and what is too small have no cell


def test_places_fall_into_octaves_and_cells():
    rows = np.array([[0.3], [-0.9], [1.0], [3.9], [-2.0], [1e300]])
    counts = Octaves(Frame(1), (0,)).update(rows).counts[0]
    assert {int(cell) - OCTAVES: int(counts[cell]) for cell in np.flatnonzero(counts)} == {
        0: 2,
        1: 1,
        2: 1,
        -2: 1,
        OCTAVES: 1,
    }
    counts = Stretch(Frame(1), (0,)).update(np.array([[0.0], [0.99], [1.0], [CELLS - 0.5], [CELLS], [-0.1]])).counts[0]
    assert (counts[0], counts[1], counts[-1], counts.sum()) == (2, 1, 1, 4)


def test_counts_are_those_of_one_entry_after_the_other():
    """Cells by their definition, in Python, for entries at and beside every kind of edge; few cells and many."""
    rng = np.random.default_rng(5)
    sizes = np.exp2(rng.uniform(-110, 110, size=(700, 1)))
    rows = np.concatenate([rng.choice(EDGES, size=(300, 1)), sizes, -sizes, rng.uniform(-2, 12, size=(900, 1))])
    with np.errstate(over="ignore"):
        entries = [float(entry) for entry in rows[:, 0].astype(np.float32)]
    root = float(np.float32(math.sqrt(0.5)))

    def size(entry):
        fraction, exponent = math.frexp(abs(entry)) if math.isfinite(entry) else (0.5, 129)
        return REACH + min(2 * (exponent - 1) + (fraction >= root), REACH) if fraction else -1

    def octave(entry):
        away = math.frexp(entry)[1] if math.isfinite(entry) else OCTAVES
        return OCTAVES + int(math.copysign(min(max(away, 0), OCTAVES), entry))

    def cell(entry):
        return math.floor(entry) if math.isfinite(entry) else -1

    kinds = [(Sizes, (), size), (Octaves, (), octave), *((Stretch, (n,), cell) for n in (1, 3, 8, 9, 250))]
    for kind, more, of in kinds:
        found = kind(Frame(1), (0,), *more).update(rows).counts[0]
        expected = np.zeros(len(found), dtype=np.int64)
        for entry in entries:
            if 0 <= of(entry) < len(found):
                expected[of(entry)] += 1
        np.testing.assert_array_equal(found, expected, err_msg=f"{kind.__name__} {more}")


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_and_merging_change_nothing(kind):
    rows = np.random.default_rng(0).normal(size=(5000, 3)) * [1.0, 100.0, 1e-6] + [0.0, 1e4, 0.0]
    whole = kind(Frame(3), (0, 2)).update(rows)
    parts = kind(Frame(3), (0, 2))
    for part in np.array_split(rows, 7):
        parts.merge(kind(Frame(3), (0, 2)).update(part))
    np.testing.assert_array_equal(whole.counts, parts.counts)
    assert whole.count == parts.count == 5000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pairs", [False, True])
def test_no_row_moves_the_counts_by_more_than_is_paid_for(kind, pairs):
    """All pairs of rows with entries at the edges of cells: √(2d) in ℓ2 and 2d in ℓ1 if replaced, half of it else."""
    rng, d = np.random.default_rng(1), 3
    columns = tuple(range(d))
    choices = rng.choice(EDGES, size=(60, d))
    other = rng.choice(EDGES, size=(1, d))
    worst = 0.0
    for first in choices:
        for second in choices[:20]:
            blocks = [np.vstack([row, other]) if pairs else row[None] for row in (first, second)]
            one, two = (kind(Frame(d, pairs=pairs), columns).update(block) for block in blocks)
            moved = one.counts - two.counts
            assert np.linalg.norm(moved) <= math.sqrt(2 * d) + 1e-12
            assert np.abs(moved).sum() <= 2 * d
            assert np.linalg.norm(one.counts) <= math.sqrt(d) + 1e-12
            worst = max(worst, float(np.linalg.norm(moved)))
    assert worst > math.sqrt(2 * d) - 0.3  # the search is not idle


def test_a_row_more_replaces_a_pair_or_completes_one():
    """Over all pairings: what a row more does to pairs is worth no more than a replacement, and pairings match up."""
    from collections import Counter
    from itertools import permutations

    def pairings(rows):
        return Counter(
            tuple(sorted(tuple(sorted(order[i : i + 2])) for i in range(0, len(order) - 1, 2)))
            for order in permutations(rows)
        )

    for n in (3, 4, 5):
        few, more = pairings(range(n)), pairings(range(n + 1))
        total_few, total_more = sum(few.values()), sum(more.values())
        flow = Counter()
        for pairing, times in more.items():
            kept = [pair for pair in pairing if n not in pair]
            broken = [pair for pair in pairing if n in pair]
            alone = set(range(n)) - {row for pair in kept for row in pair}
            if broken and len(alone) == 2:
                kept.append(tuple(sorted(alone)))  # the partner is paired with the row that sat out
            flow[tuple(sorted(kept))] += times / total_more
        for pairing, share in flow.items():
            assert share == pytest.approx(few[pairing] / total_few)


def test_bad_rows_are_refused_or_count_as_nothing():
    rows = np.array([[1.0, np.nan], [2.0, 2.0]])
    with pytest.raises(BadRowsError):
        Sizes(Frame(2), (0, 1)).update(rows)
    assert Sizes(Frame(2, missing="drop"), (0, 1)).update(rows).counts.sum() == 2


@pytest.mark.parametrize("cost", [GaussianCost(0.5), PureCost(0.5)])
@pytest.mark.parametrize(
    ("pairs", "relation", "moved"), [(False, "replace", 2), (False, "add_remove", 1), (True, "add_remove", 2)]
)
def test_the_noise_is_what_the_sensitivity_asks_for(cost, pairs, relation, moved):
    question = ColumnCounts(Frame(4, pairs=pairs), "octaves", (0, 1, 2))
    expected = math.sqrt(3 * moved) / 0.5 if isinstance(cost, GaussianCost) else 3 * moved / 0.5
    assert question.scale(cost, Relation(relation)) == pytest.approx(expected)


@pytest.mark.parametrize("reach", [0.01, 0.9, 1.0, 3.9, 4.0, 1e3, 1e300])
@pytest.mark.parametrize("rows", [0, 1, 254, 255, 256, 5000])
def test_octaves_are_counted_alike_by_comparison_and_by_code(reach, rows, monkeypatch):
    rng, d = np.random.default_rng(rows), 7
    table = rng.choice([-1.0, 1.0], size=(rows, d)) * reach * rng.choice([1.0, 0.5, 0.25, 1e-30, 0.0], size=(rows, d))
    table[rows // 2 :] *= rng.uniform(size=(rows - rows // 2, d))
    found = Octaves(Frame(d), tuple(range(d))).update(table).counts
    monkeypatch.setattr(columns, "_FEW", -1)
    np.testing.assert_array_equal(found, Octaves(Frame(d), tuple(range(d))).update(table).counts)
    assert (found.sum(axis=1) == rows).all()
