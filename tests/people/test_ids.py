"""Ids of all kinds: who is one person, rows without an id, and choices that do not look at values."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpeigen import PrivatePCA
from dpeigen.privacy.randomness import randomness
from dpeigen.sources import ArraySource
from dpeigen.sources.ids import UnreadableIdsError, encoded, joined, told_apart
from dpeigen.sources.units import UnitsByPlace
from dpeigen.stats.units import MOST_SHARED

SEED = pytest.mark.filterwarnings("ignore:.*seeded")


@pytest.mark.parametrize(
    ("ids", "people"),
    [
        (np.array([7, 7, 8]), 2),
        (np.array([7.0, -0.0, 0.0, np.nan, np.nan]), 4),  # each row without an id is a person of its own
        (np.array([2**63 + 1, 2**63 + 1, 5], dtype=np.uint64), 2),
        (np.array([-128, 127, 127], dtype=np.int8), 2),
        (["a", "a ", " a", "b"], 2),
        (["007", "7", "7"], 2),
        ([7, "7", 7.0, "007", True], 3),
        ([7, 7.0, Decimal(7), np.int64(7)], 1),
        (["x", None, "", "  ", float("nan"), pd.NA], 6),
        ([None, None, None], 3),
        (np.array(["a", "b", "a"]), 2),
        (np.array(["2020-01-01", "2020-01-01", "NaT", "NaT"], dtype="M8[D]"), 3),
        (np.array(["2020-01-01T05", "NaT", "NaT"], dtype="M8[h]"), 3),  # of a type that Arrow does not know
        ([np.datetime64("NaT"), np.datetime64("NaT"), np.timedelta64("NaT"), "a"], 4),
        ([datetime.date(2020, 1, 1)] * 3, 1),
        (pd.Series(["a", "b", "a", None], dtype="category"), 3),
        (pd.Series([1, None, 1], dtype="Int64"), 2),
        (pl.Series([1, None, 1]), 2),
        (pa.chunked_array([["a"], ["a", None]]), 2),
        (pa.array([b"\xff\xfe", b"\xff\xfe", b"a"]), 2),
        (pa.array(["a", "b", "a"]).dictionary_encode(), 2),
        (np.ma.masked_array([7, 7, 8, 9, 9], mask=[0, 0, 0, 1, 1]), 4),
        (np.ma.masked_array([7, 7, 8]), 2),
        (np.ma.masked_array(["a", "b", "a"], mask=[1, 0, 1]), 3),
        (np.ma.masked_array([5, None, 5], mask=[0, 1, 0], dtype=object), 2),
        ([10**400, 10**400, 10**400 + 1, 10**5000, 10**5000], 3),  # no float holds them
        ([Fraction(10**400, 3)] * 2, 1),
        ([2**53, 2**53 + 1, float(2**53)], 2),
        (["\ud800a", "\ud800a", "b"], 2),
        (["e\u0301", "\u00e9", "E\u0301"], 3),  # compared as they are written
        (["a", "a\u00a0", "a\t"], 2),
        (np.array([], dtype=int), 0),
        ([], 0),
    ],
)
def test_who_is_one_person(ids, people):
    codes, found = encoded(ids)
    assert found == people == len(np.unique(codes))
    assert len(codes) == len(ids)
    assert codes.min(initial=0) >= 0
    assert codes.max(initial=-1) < max(people, 1)


def test_cells_whose_own_code_raises_are_people_of_their_own():
    class Odd:
        def __str__(self):
            raise RuntimeError("SECRET")

    assert encoded([Odd(), Odd(), "a"])[1] == 3


@pytest.mark.parametrize(
    "ids", [np.ones((3, 1)), "name", np.ones(3) * 1j, pa.array([[1], [2]]), 5, {0: 1, 1: 1, 2: 2}, {1, 2, 3}]
)
def test_what_is_no_column_of_ids(ids):
    with pytest.raises(UnreadableIdsError, match="one id for each row"):
        encoded(ids)


def test_parts_of_a_file_are_one_column():
    codes, people = joined([pa.array(["a", "b"]), pa.array(["b", None]), pa.array([None, "a"])])
    assert people == 4
    assert codes[0] == codes[5]
    assert codes[1] == codes[2]


# --- choices --------------------------------------------------------------------------------------------------------


def units(rows, ids, seed=None, max_rows=None):
    made = UnitsByPlace(ArraySource(rows), lambda: encoded(ids), "who")
    made.max_rows = max_rows
    made.choose(randomness(seed))
    return made


def test_one_row_of_each_person_is_drawn_evenly():
    """4 rows of 500 people, 40 draws: each place is drawn 5000 times of 20,000 within 6 deviations (p < 1e-8)."""
    ids = np.tile(np.arange(500), 4)
    rows = np.arange(2000.0)[:, None]
    drawn = np.zeros(4)
    for _ in range(40):
        found = units(rows, ids).one_each().in_memory()[:, 0].astype(int)
        assert sorted(ids[found]) == list(range(500))
        drawn += np.bincount(found // 500, minlength=4)
    assert np.abs(drawn - 5000).max() < 6 * np.sqrt(20_000 * 0.25 * 0.75)


@SEED
def test_the_choice_does_not_look_at_values():
    ids = np.random.default_rng(0).integers(0, 50, 400)
    first, second = (units(rows, ids, seed=1) for rows in (np.zeros((400, 2)), np.full((400, 2), 1e9)))
    for made in (first, second):
        made.draw()
    np.testing.assert_array_equal(first._heads, second._heads)


def test_of_someone_with_very_many_rows_some_are_used():
    ids = np.zeros(100_000, dtype=int)
    ids[:1000] = np.arange(1, 1001)
    made = units(np.arange(100_000.0)[:, None], ids)
    blocks = list(made.blocks())
    sizes = np.concatenate([block.sizes for block in blocks])
    used = np.concatenate([block.rows for block in blocks])[sizes > 1, 0]
    assert len(used) == MOST_SHARED == len(set(used))
    assert 45_000 < used.mean() < 56_000  # all over the table
    assert sum(block.people for block in blocks) == made.count_rows() == 1001


@pytest.mark.parametrize("most", [1, 3])
def test_a_cap_leaves_so_many_rows_and_the_one_that_stands_for_its_person(most):
    ids = np.repeat(np.arange(100), np.arange(100) % 7 + 1)
    made = units(np.arange(len(ids), dtype=float)[:, None], ids, max_rows=most)
    made.draw()
    block = next(iter(made.blocks()))
    counts = np.bincount(ids[block.rows[:, 0].astype(int)], minlength=100)
    np.testing.assert_array_equal(counts, np.minimum(np.arange(100) % 7 + 1, most))
    assert block.people == 100
    assert (block.sizes == most).all()


def test_a_part_keeps_people_whole():
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 200, 1000)
    rows = np.arange(1000.0)[:, None]
    made = units(rows, ids)
    heads = ids[made.one_each().in_memory()[:, 0].astype(int)]
    chosen = rng.random(len(heads)) < 0.3
    found = made.part(chosen, None, randomness(1))
    part = np.concatenate([block.rows for block in found.blocks()])[:, 0].astype(int)
    assert set(part) == set(np.flatnonzero(np.isin(ids, heads[chosen])))
    assert found.count_rows() == chosen.sum()


@pytest.mark.parametrize("everyone", [True, False])
@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_a_part_may_have_a_few_rows_of_each_person(most, everyone):
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 200, 1000)
    made = units(np.arange(1000.0)[:, None], ids)
    heads = made.one_each().in_memory()[:, 0].astype(int)
    chosen = None if everyone else rng.random(len(heads)) < 0.3
    part = made.part(chosen, most, randomness(1))
    (block,) = part.blocks()
    rows = block.rows[:, 0].astype(int)
    inside = heads if chosen is None else heads[chosen]
    assert (rows[block.heads] == inside).all()
    wanted = {int(person): min(int((ids == person).sum()), most) for person in ids[inside]}
    assert {int(person): int((ids[rows] == person).sum()) for person in ids[inside]} == wanted
    assert set(ids[rows]) == set(wanted)
    assert (block.sizes == [wanted[person] for person in ids[rows]]).all()


def test_every_row_is_as_likely_to_be_in_a_part():
    """Of 5 rows 2 are drawn: each in 2/5 of 4,000 draws, and each pair alike. A false alarm: below 1e-6."""
    ids = np.repeat([0, 1], [5, 1])
    counts = np.zeros(5)
    for seed in range(4000):
        made = units(np.arange(6.0)[:, None], ids, seed=seed)
        made.one_each().in_memory()
        (block,) = made.part(None, 2, randomness(seed + 10_000)).blocks()
        counts[block.rows[:-1, 0].astype(int)] += 1
    assert np.abs(counts - 1600).max() < 5.5 * np.sqrt(4000 * 0.4 * 0.6)


# --- missing ids are no oracle --------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("missing", ["refuse", "correct", "drop"])
def test_a_row_without_an_id_is_not_refused(relation, missing):
    rng = np.random.default_rng(0)
    rows, ids = rng.normal(size=(300, 3)), np.repeat(np.arange(100), 3).astype(object)
    ids[5] = None
    options = {"epsilon": 1.0, "bound": 3.0, "relation": relation, "missing": missing}
    fitted = PrivatePCA(1, **options, method="laplace").fit(rows, unit=ids)
    whole = PrivatePCA(1, **options, method="laplace").fit(rows, unit=np.repeat(np.arange(100), 3))
    if relation == "replace":
        assert fitted.release_.facts["n_rows"] == 101
    assert fitted.guarantee_.notes == whole.guarantee_.notes


def test_a_column_of_ids_may_be_of_any_type_and_name():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=60), "y": rng.normal(size=60), "row": list("abc") * 20})
    fitted = PrivatePCA(1, epsilon=1.0, bound=3.0, unit="row").fit(frame)
    assert fitted.guarantee_.unit == "row id"  # and not "row", which would be another promise
    assert list(fitted.feature_names_in_) == ["x", "y"]


def test_text_with_nul_bytes_is_compared_whole():
    """Digests as fixed-width bytes: PyArrow ends them at the first NUL, which split or merged people."""
    digests = [b"\0ab", b"a\0b", b"a\0c", b"ab", b"\0ab"]
    for ids in (np.array(digests), np.array([d.decode() for d in digests]), np.array(digests, dtype=object)):
        codes, people = encoded(ids)
        assert people == 4
        assert codes[0] == codes[4]


def test_ids_that_are_no_utf8_have_names_too():
    """Streams keep ids by name; no error may quote one."""

    raw = [b"\xe9ANNA", b"BERT", b"\xe9ANNA"]
    for ids in (np.array(raw), pa.array(raw), pa.array(raw, pa.large_binary())):
        codes, names = told_apart(ids, named=True)
        assert codes[0] == codes[2] != codes[1]
        assert len(names) == 2


SHORT = ["a", "ab", "abcdefgh", "abcdefghi", "0123456789abcdef", "0123456789abcdefg", "a b", " a", "", "é", "b\0", "b"]
LONG = [f"{'x' * 30}{end}" for end in ("a", "b", "ab", " ", "a b", "y" * 34, "z" * 34, "y" * 35, "é", "\0", "\x01", "")]


@pytest.mark.parametrize("held_bytes", [2**27, 100])
@pytest.mark.parametrize("texts", [SHORT, LONG])
@pytest.mark.parametrize("seed", range(4))
def test_text_is_told_apart_alike_however_it_is_held(
    seed: int, texts: list[str], held_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Short, long, padded and empty text, in turns of three rows: Arrow, objects, fixed width, by words or by cells."""
    monkeypatch.setattr("dpeigen.sources.id_columns.AT_ONCE", 3)
    monkeypatch.setattr("dpeigen.sources.id_columns._HELD", held_bytes)
    rng = np.random.default_rng(seed)
    for _ in range(25):
        cells = [texts[place] for place in rng.choice(rng.permutation(12)[:5], size=14)]
        keys = [cell.strip() or number for number, cell in enumerate(cells)]
        for held in (pa.array(cells), pa.array(cells, pa.large_string()), np.array(cells, dtype=object)):
            codes, people = encoded(held)
            assert len(set(zip(keys, codes.tolist(), strict=True))) == len(set(keys)) == people
        fixed = np.array(cells)  # which has no NUL at the end of a cell
        keys = [cell.strip() or number for number, cell in enumerate(fixed.tolist())]
        codes, people = encoded(fixed)
        assert len(set(zip(keys, codes.tolist(), strict=True))) == len(set(keys)) == people


def test_short_ids_with_many_beginnings_and_many_ends_stay_apart():
    """Multiplied in 32 bits, as NumPy 1 would, the numbers of the last two pairs of words were the same."""
    count = 70_000
    beginning, end = divmod(2**32, count)
    ids = [f"{number:08d}{number:08d}" for number in range(count)]
    ids += [f"{0:08d}{5:08d}", f"{beginning:08d}{end + 5:08d}"]
    codes, people = encoded(pa.array(ids))
    assert people == len(ids) == len(np.unique(codes))


NUMBERS = {
    "large": np.array([2**62, -(2**62), 2**62 + 1, 2**62, 0]),
    "unsigned": np.array([2**64 - 1, 2**63, 2**64 - 1, 0, 1], dtype=np.uint64),
    "floats": np.array([0.1, -0.0, 0.0, 0.1, 1e300, np.nan, np.nan]),
    "single": np.array([0.1, -0.0, 0.0, 0.1, np.nan], dtype=np.float32),
}


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("held_bytes", [2**27, 1])
def test_numbers_are_told_apart_by_value(kind, held_bytes, monkeypatch):
    monkeypatch.setattr("dpeigen.sources.id_columns.AT_ONCE", 2)
    monkeypatch.setattr("dpeigen.sources.id_columns._HELD", held_bytes)
    cells = NUMBERS[kind]
    keys = [("none", place) if cell != cell else cell + 0 for place, cell in enumerate(cells.tolist())]
    for ids in (cells, pa.array(cells), pa.array([*cells.tolist(), None], pa.array(cells).type)):
        own = [*keys, "missing"][: len(ids)]
        codes, people = encoded(ids)
        assert len(set(zip(own, codes.tolist(), strict=True))) == len(set(own)) == people


@pytest.mark.parametrize("held_bytes", [2**27, 50])
@pytest.mark.parametrize("factors", [[1, 1, 1, 1, 1, 1, 1, 1], [1, 3, 5, 7, 9, 11, 13, 15]])
def test_ids_with_one_hash_are_different_people(factors, held_bytes, monkeypatch):
    """Factors for which words that trade places, or add up, have the same hash: the ids are compared all the same."""
    monkeypatch.setattr("dpeigen.sources.numbering._FACTORS", np.array(factors, dtype=np.uint64))
    monkeypatch.setattr("dpeigen.sources.id_columns.AT_ONCE", 3)
    monkeypatch.setattr("dpeigen.sources.id_columns._HELD", held_bytes)
    cells = ["aaaaaaaabbbbbbbb", "bbbbbbbbaaaaaaaa", " bbbbbbbbaaaaaaaa", None, "aaaaaaaabbbbbbbb", "c", "", "b" * 20]
    keys = [(cell or "").strip() or place for place, cell in enumerate(cells)]
    for ids in (pa.array(cells), pa.array(cells[::-1])):
        own = keys if ids[0].as_py() == cells[0] else keys[::-1]
        codes, people = encoded(ids)
        assert len(set(zip(own, codes.tolist(), strict=True))) == len(set(own)) == people


def test_many_ids_whose_hashes_begin_alike_are_found(monkeypatch):
    """With a factor of 1, small numbers have hashes that all begin with zeros."""
    monkeypatch.setattr("dpeigen.sources.numbering._FACTORS", np.ones(8, dtype=np.uint64))
    cells = np.append(np.random.default_rng(0).integers(0, 10**6, 3000), 2**62)  # no short range
    codes, people = encoded(pa.array(cells))
    assert people == len(np.unique(cells))
    assert len(set(zip(cells.tolist(), codes.tolist(), strict=True))) == people


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
@pytest.mark.parametrize("held_bytes", [2**27, 50])
@pytest.mark.parametrize("last", ["z" * 65, "a\x00", "short"])
def test_ids_with_one_hash_decide_nothing_for_the_ids_after_them(kind, held_bytes, last, monkeypatch):
    """Two ids with one hash, and ids that are told apart otherwise in later parts: no person is refused for it."""
    monkeypatch.setattr("dpeigen.sources.numbering._FACTORS", np.ones(8, dtype=np.uint64))
    monkeypatch.setattr("dpeigen.sources.id_columns.AT_ONCE", 3)
    monkeypatch.setattr("dpeigen.sources.id_columns._HELD", held_bytes)
    for second in ("bbbbbbbbaaaaaaaa", "ccccccccdddddddd"):  # with the hash of the first, or another
        cells = ["aaaaaaaabbbbbbbb", second, "x", "y", second, "aaaaaaaabbbbbbbb", "x", last, last, "w"]
        ids = pa.array([cell.encode() for cell in cells], pa.large_binary()).cast(kind)
        for column in (ids, pa.chunked_array([ids[:4], ids[4:]])):
            codes, people = encoded(column)
            assert len(set(zip(cells, codes.tolist(), strict=True))) == len(set(cells)) == people


def test_numbers_that_are_no_characters_decide_nothing():
    """NumPy holds any number in a text; one that is no character must not decide whether a fit succeeds."""
    points = np.array([[65, 0], [0x110000, 65], [66, 0], [0x110000, 65], [0x110000, 66]], dtype=np.uint32)
    for order in "<>":
        ids = points.astype(f"{order}u4").view(f"{order}U2").ravel()
        assert encoded(ids)[0].tolist() == [0, 1, 2, 1, 3]
        assert len(told_apart(ids, named=True)[1]) == 4
