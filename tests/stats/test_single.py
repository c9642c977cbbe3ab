"""Tables in single precision: framed in single precision, each row alike, near what double precision gives."""

import math

import numpy as np
import pandas as pd
import pytest

from dpeigen import PrivatePCA
from dpeigen.curator import DataCurator
from dpeigen.methods import Whitened
from dpeigen.privacy import Budget, Relation
from dpeigen.privacy.randomness import made_up_randomness
from dpeigen.sources import open_source
from dpeigen.sources.memory import ArraySource
from dpeigen.stats import Frame, Lattice, NormHistogram, RowSums
from dpeigen.stats.columns import Octaves, Sizes, Stretch
from dpeigen.stats.nested import NestedMoment
from dpeigen.stats.norms import GRID
from dpeigen.stats.single import FiniteRows, SingleRows, known, single_steps
from dpeigen.stats.stretch import WhitenedRows, lengths_of

D = 26


def table(n=3000, offset=3.0, seed=0):
    rng = np.random.default_rng(seed)
    scale = np.exp2(rng.integers(-30, 30, size=D)) * 1.3
    rows = (rng.standard_t(4, size=(n, D)) * scale + offset * scale).astype(np.float32)
    center = (offset + 0.01) * scale
    return rows, Frame(D, center, 0.37 / scale, (center - 2 / 0.37 * scale, center + 2 / 0.37 * scale))


@pytest.mark.parametrize("offset", [0.0, 3.0, -1e4])
def test_framed_rows_are_those_of_double_precision_but_for_rounding(offset):
    rows, frame = table(offset=offset)
    exact, found = frame.image(rows), frame.image(known(rows, finite=True))
    assert found.dtype == np.float64
    assert not np.array_equal(found, exact)  # it was done in single precision
    # Of an entry, of the edge of the box, which is rounded too, and of a centre far away.
    assert np.abs(found - exact).max() < 2.0**-20 + 2.0**-23 * abs(offset)
    assert np.array_equal(frame.image_and_holes(known(rows, finite=True), single=True)[0].astype(float), found)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("times", [1.0, 2.0**19, 2.0**20])
def test_no_entry_leaves_the_box(seed, times):
    rows, frame = table(offset=10.0**seed, seed=seed)
    far = np.vstack([rows, np.float32(3e38) * np.sign(rows[:50]), np.zeros((1, D), dtype=np.float32)])
    assert np.abs(frame.image_and_holes(known(far, finite=True), times)[0]).max() <= frame.reach * times


def test_facts_that_single_precision_does_not_hold_are_left_to_doubles():
    rows, _frame = table()
    for center, weights in ((1e120, 1.0), (0.0, 1e120), (0.0, 1e-120)):
        facts = np.full(D, center), np.full(D, weights)
        assert single_steps(*facts, None, math.inf) is None
        assert np.array_equal(Frame(D, *facts).image(known(rows, finite=True)), Frame(D, *facts).image(rows))
    assert single_steps(None, None, None, math.inf) is None
    far = Frame(D, np.full(D, 1e9), np.ones(D), (np.full(D, 1e9 - 2), np.full(D, 1e9 + 2)))  # steps of 64 there
    assert np.array_equal(far.image(known(rows, finite=True)), far.image(rows))


def test_holes_are_filled_and_make_no_other_row_different():
    rows, frame = table(n=200)
    broken = rows.copy()
    broken[7, 3], broken[90, :] = np.nan, np.inf
    for missing in ("correct", "drop"):
        filled = Frame(D, frame.center, frame.weights, frame.box, missing=missing)
        whole, found = filled.image(known(rows, finite=True)), filled.image(known(broken, finite=False))
        others = np.delete(np.arange(200), [7, 90])
        assert np.array_equal(found[others], whole[others])
        assert found[7, 3] == 0.0
        assert not found[90].any()


@pytest.mark.parametrize("kind", ["octaves", "stretch", "sizes", "norms", "sums", "nested"])
def test_sums_do_not_depend_on_blocks_or_order(kind):
    rows, frame = table()
    basis = np.linalg.qr(np.random.default_rng(1).normal(size=(D, D)))[0]
    view = WhitenedRows(frame, basis, np.geomspace(0.3, 1.0, D))
    columns = tuple(range(D))
    empty = {
        "octaves": lambda: Octaves(Frame(D, None, frame.weights), columns),
        "stretch": lambda: Stretch(Frame(D, frame.center, frame.weights), columns, 3),
        "sizes": lambda: Sizes(Frame(D, None, frame.weights), columns),
        "norms": lambda: NormHistogram(frame),
        "sums": lambda: RowSums(Lattice(frame, 2 * math.sqrt(D))),
        "nested": lambda: NestedMoment(Lattice(view, 4.0), 1.0),
    }[kind]

    def numbers(statistic):
        if kind == "nested":
            return statistic.within(2.0, 5).augmented
        return statistic.total if kind == "sums" else statistic.counts

    whole, expected = known(rows, finite=True), numbers(empty().update(known(rows, finite=True)))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        merged = empty()
        for part in np.array_split(rng.permutation(len(rows)), rng.integers(2, 60)):
            merged.merge(empty().update(whole[part]))
        np.testing.assert_array_equal(numbers(merged), expected)


def test_lengths_are_counted_in_the_cell_of_the_exact_one():
    rows, frame = table(n=20000)
    marked = known(rows, finite=True)
    exact = np.searchsorted(GRID, lengths_of(frame, marked))
    counts = NormHistogram(frame).update(marked).counts
    assert np.array_equal(counts, np.bincount(exact, minlength=len(GRID) + 1))


def curator_of(rows):
    return DataCurator(ArraySource(rows), Relation.REPLACE, {}, Budget(1.0, 1e-6), made_up_randomness())


def test_only_a_whole_table_in_single_precision_is_marked():
    rows, _ = table(n=4000)
    for table_, marks in ((rows, SingleRows), (rows.astype(np.float64), FiniteRows)):
        part, _ = curator_of(table_).sample(0.3, Frame(D))
        blocks = list(part._DataCurator__source.blocks())
        assert all(isinstance(block, marks) for block in blocks)
        assert all(isinstance(block, SingleRows) == (marks is SingleRows) for block in blocks)
    broken = rows.copy()
    broken[5, 2] = np.nan
    part, _ = curator_of(broken).sample(0.3, Frame(D, missing="correct"))
    assert all(isinstance(block, SingleRows) for block in part._DataCurator__source.blocks())
    assert not any(isinstance(block, FiniteRows) for block in part._DataCurator__source.blocks())


def marked_single(given, monkeypatch):
    """Whether a fit marked rows of a table as in single precision."""
    marked = []
    mark = lambda rows, **facts: (marked.append(known(rows, **facts)), marked[-1])[1]  # noqa: E731
    monkeypatch.setattr("dpeigen.curator.curator.known", mark)
    options = {"epsilon": 30.0, "delta": 1e-6, "missing": "correct", "random_state": 1}
    PrivatePCA(1, method=Whitened(least_sample=100), **options).fit(given)
    source = open_source(given)
    curator = DataCurator(source, Relation.REPLACE, {}, Budget(1.0, 1e-6), made_up_randomness())
    curator.sample(0.3, Frame(source.n_features, missing="correct"))
    return any(isinstance(rows, SingleRows) for rows in marked)


def neighbours_of_other_types():
    """Pairs of tables that one cell gives other types in memory."""
    rows = np.random.default_rng(0).normal(size=(1500, 2)).astype(np.float32)
    listed, frame, mixed = list(rows), pd.DataFrame(rows, columns=["a", "b"]), pd.DataFrame(rows)
    mixed[1] = (mixed[1] > 0).astype(np.int8)
    text = frame.astype({"b": object})
    text.iloc[5, 1] = "x"
    missing = mixed.astype({1: np.float64})
    missing.iloc[5, 1] = np.nan
    return (listed, [row.astype(np.float64) if at == 5 else row for at, row in enumerate(listed)]), (frame, text), (
        mixed, missing)  # fmt: skip


def test_one_cell_does_not_decide_how_others_are_rounded(monkeypatch):
    for pair in neighbours_of_other_types():
        assert not any(marked_single(given, monkeypatch) for given in pair)
    rows = np.random.default_rng(0).normal(size=(1500, 2)).astype(np.float32)
    assert marked_single(rows, monkeypatch)


def test_the_default_finds_the_same_in_single_and_double_precision():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30_000, 3)) @ rng.normal(size=(3, D)) * 3 + rng.normal(size=(30_000, D)) + 100
    method = Whitened(least_sample=5000)
    single, double = (
        PrivatePCA(2, epsilon=4.0, delta=1e-6, method=method, random_state=1).fit(rows.astype(kind))
        for kind in (np.float32, np.float64)
    )
    truth = np.linalg.eigh(np.cov(rows.T))[1][:, -2:]
    losses = [1 - np.linalg.norm(found.components_ @ truth) ** 2 / 2 for found in (single, double)]
    assert max(losses) < 0.002
    np.testing.assert_allclose(single.mean_, double.mean_, atol=0.1)
    np.testing.assert_allclose(single.explained_variance_, double.explained_variance_, rtol=0.05)
