"""Whatever rows come from, the statistics are the same integers; and no source shows a value in an error."""

from __future__ import annotations

import itertools
import traceback

import numpy as np
import pytest

from dpeigen.privacy.randomness import SeededRandomness, SystemRandomness
from dpeigen.sources import ArraySource, BlockSource, PairedSource, Source, UnreadableRowsError, base, open_source
from dpeigen.sources import memory as memory_module
from dpeigen.stats import (
    BadRowsError,
    Frame,
    Lattice,
    NormHistogram,
    RowSums,
    ScoreFrame,
    SecondMoment,
    SquareSums,
    unit_lattice,
)
from dpeigen.stats.single import FiniteRows, known

pa = pytest.importorskip("pyarrow")
arrow = pytest.importorskip("dpeigen.sources.arrow")

NAMES = ["a", "b", "c"]
ROWS = np.random.default_rng(8).normal(size=(1001, 3)) * [1.0, 30.0, 0.01]
ROWS[::7] *= 1e3  # some are clipped


def from_array(path):
    return ArraySource(ROWS)


def from_fortran(path):
    return ArraySource(np.asfortranarray(ROWS))


def from_strided(path):
    return ArraySource(np.repeat(np.repeat(ROWS, 2, axis=0), 2, axis=1)[::2, ::2])


def from_pandas(path):
    frame = pytest.importorskip("pandas").DataFrame(ROWS, columns=NAMES)
    return ArraySource(frame.to_numpy(), NAMES)


def table():
    return pa.table({name: ROWS[:, j] for j, name in enumerate(NAMES)})


def from_table(path):
    return arrow.ArrowSource(table())


def from_chunked_table(path):
    return arrow.ArrowSource(pa.concat_tables([table()[:10], table()[10:13], table()[13:]]))


def from_parquet(path):
    import pyarrow.parquet as pq

    pq.write_table(table(), path / "rows.parquet", row_group_size=37)
    return arrow.open_files(path / "rows.parquet")


def from_folder(path):
    import pyarrow.parquet as pq

    (path / "parts").mkdir()
    for j in range(4):
        pq.write_table(table()[j * 300 : (j + 1) * 300], path / "parts" / f"{j}.parquet", row_group_size=101)
    return arrow.open_files(path / "parts")


def from_feather(path):
    import pyarrow.feather as feather

    feather.write_feather(table(), path / "rows.feather", chunksize=100)
    return arrow.open_files(str(path / "rows.feather"))


def from_csv(path):
    lines = [",".join(NAMES), *(",".join(map(repr, row)) for row in ROWS.tolist())]
    (path / "rows.csv").write_text("\n".join(lines))
    return arrow.open_files(path / "rows.csv")


def from_memory_map(path):
    np.save(path / "rows.npy", ROWS)
    return arrow.open_files(path / "rows.npy")


def from_mixed_pandas(path):
    """Columns of different types: one array cannot be the frame."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(ROWS, columns=NAMES)
    frame["name"] = "x"
    return open_source(frame, columns=NAMES)


def from_polars(path):
    return open_source(pytest.importorskip("polars").DataFrame(ROWS, schema=NAMES))


def from_lazy_polars(path):
    return open_source(pytest.importorskip("polars").DataFrame(ROWS, schema=NAMES).lazy())


def from_blocks(path):
    return open_source(lambda: (ROWS[start : start + 123] for start in range(0, len(ROWS), 123)))


def from_frames(path):
    pd = pytest.importorskip("pandas")
    return BlockSource([pd.DataFrame(ROWS[:500], columns=NAMES), table()[500:]], n_rows=len(ROWS))


def from_csv_folder(path):
    (path / "parts").mkdir()
    for j in range(3):
        lines = [",".join(NAMES), *(",".join(map(repr, row)) for row in ROWS[j * 400 : (j + 1) * 400].tolist())]
        (path / "parts" / f"{j}.csv").write_text("\n".join(lines) + "\n")
    return arrow.open_files(path / "parts")


def from_partitioned(path):
    """A partitioned data set, with an empty file and a file that is none of its data."""
    import pyarrow.parquet as pq

    for j in range(4):
        folder = path / "parts" / f"year={2000 + j}"
        folder.mkdir(parents=True)
        pq.write_table(table()[j * 300 : (j + 1) * 300], folder / "rows.parquet")
    pq.write_table(table()[:0], path / "parts" / "year=2003" / "x.parquet")
    (path / "parts" / "_SUCCESS").write_text("")
    return arrow.open_files(path / "parts")


def from_dask_array(path):
    return open_source(pytest.importorskip("dask.array").from_array(ROWS, chunks=(170, 2)))


def from_dask_frame(path):
    dd = pytest.importorskip("dask.dataframe")
    return open_source(dd.from_pandas(pytest.importorskip("pandas").DataFrame(ROWS, columns=NAMES), npartitions=5))


MAKERS = [from_array, from_fortran, from_strided, from_pandas, from_table, from_chunked_table, from_parquet,
          from_folder, from_feather, from_csv, from_memory_map, from_mixed_pandas, from_polars, from_lazy_polars,
          from_blocks, from_frames, from_csv_folder, from_partitioned, from_dask_array, from_dask_frame]  # fmt: skip
NAMELESS = [from_array, from_fortran, from_strided, from_memory_map, from_blocks, from_dask_array]
UNCOUNTED = [from_csv, from_lazy_polars, from_blocks, from_csv_folder, from_dask_frame]

FRAME = Frame(3, center=np.array([0.1, -2.0, 0.0]), box=(np.full(3, -50.0), np.full(3, 50.0)))
SCORES = ScoreFrame(FRAME, np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0][:2], residual=True)
STATISTICS = {
    "moment": lambda: SecondMoment(Lattice(FRAME, 40.0), center_weight=1000),
    "signs": lambda: SecondMoment(unit_lattice(FRAME)),
    "squares": lambda: SquareSums(Lattice(SCORES, 20.0)),
    "sums": lambda: RowSums(Lattice(FRAME, 40.0)),
    "norms": lambda: NormHistogram(SCORES),
}


def integers(statistic) -> list[np.ndarray]:
    kinds = ("gram", "total", "squares", "counts", "count")
    return [np.asarray(getattr(statistic, kind)) for kind in kinds if hasattr(statistic, kind)]


def expected(kind):
    return integers(STATISTICS[kind]().update(ROWS))


def same(first, second):
    assert len(first) == len(second) > 0
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", STATISTICS)
@pytest.mark.parametrize("make", MAKERS)
def test_every_source_gives_the_same_integers(make, kind, tmp_path):
    source = make(tmp_path)
    same(integers(source.reduce(STATISTICS[kind]())), expected(kind))
    same(integers(source.reduce(STATISTICS[kind]())), expected(kind))  # a source can be read again


@pytest.mark.parametrize("kind", STATISTICS)
@pytest.mark.parametrize("make", [from_array, from_parquet, from_csv])
@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_threads_change_nothing(make, kind, workers, tmp_path, monkeypatch):
    monkeypatch.setattr(base, "workers", lambda: workers)
    monkeypatch.setattr(base, "_SMALL", 0)
    monkeypatch.setattr(memory_module, "_BLOCK_NUMBERS", 100)
    monkeypatch.setattr(arrow, "_BATCH_ROWS", 50)
    same(integers(make(tmp_path).reduce(STATISTICS[kind]())), expected(kind))


@pytest.mark.parametrize("block", [2, 64, 1000, 10**6])
def test_block_sizes_change_nothing(block, monkeypatch):
    monkeypatch.setattr(memory_module, "_BLOCK_NUMBERS", 3 * block)
    assert sum(len(b) for b in ArraySource(ROWS).blocks()) == len(ROWS)
    for kind in STATISTICS:
        same(integers(ArraySource(ROWS).reduce(STATISTICS[kind]())), expected(kind))


def test_row_order_changes_nothing():
    shuffled = ROWS[np.random.default_rng(1).permutation(len(ROWS))]
    for kind in STATISTICS:
        same(integers(ArraySource(shuffled).reduce(STATISTICS[kind]())), expected(kind))


def test_the_comparison_sees_one_changed_row():
    changed = ROWS.copy()
    changed[500] = [0.3, -1.0, 0.004]
    for kind in STATISTICS:
        with pytest.raises(AssertionError):
            same(integers(ArraySource(changed).reduce(STATISTICS[kind]())), expected(kind))


@pytest.mark.parametrize("make", MAKERS)
def test_public_facts(make, tmp_path):
    source = make(tmp_path)
    assert source.n_features == 3
    assert source.n_rows == (None if make in UNCOUNTED else 1001)
    assert source.count_rows() == 1001
    if make not in NAMELESS:
        assert source.feature_names == NAMES
    np.testing.assert_array_equal(np.concatenate(list(source.blocks())), ROWS)


def test_columns_can_be_chosen(tmp_path):
    from_parquet(tmp_path)
    source = arrow.open_files(tmp_path / "rows.parquet", columns=["c", "a"])
    np.testing.assert_array_equal(np.concatenate(list(source.blocks())), ROWS[:, [2, 0]])
    with pytest.raises(ValueError, match=r"Columns \['d'\] are not among the 3 columns"):
        arrow.open_files(tmp_path / "rows.parquet", columns=["d"])


def test_number_types_are_read_as_their_values():
    whole = np.arange(20) - 5
    kinds = [pa.int8(), pa.int64(), pa.uint16(), pa.float32(), pa.float64(), pa.bool_()]
    columns = {str(kind): pa.array(np.abs(whole) if kind == pa.uint16() else whole % 2 == 0 if kind == pa.bool_() else
                                   whole, type=kind) for kind in kinds}  # fmt: skip
    read = np.concatenate(list(arrow.ArrowSource(pa.table(columns)).blocks()))
    assert read.dtype == np.float64
    np.testing.assert_array_equal(read[:, :2], np.column_stack([whole, whole]))
    np.testing.assert_array_equal(read[:, 2:], np.column_stack([np.abs(whole), whole, whole, whole % 2 == 0]))


def test_missing_values_are_bad_rows():
    source = arrow.ArrowSource(pa.table({"a": [1.0, None, 2.0], "b": pa.array([1, 2, None], pa.int64())}))
    with pytest.raises(BadRowsError, match="NaN"):
        source.reduce(SecondMoment(Lattice(Frame(2), 1.0)))
    dropped = source.reduce(SecondMoment(Lattice(Frame(2, missing="drop"), 10.0)))
    kept = SecondMoment(Lattice(Frame(2), 10.0)).update(np.array([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]))
    same(integers(dropped), integers(kept))


# --- what is refused, and what is not said ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["alice", "bob"]),
        pa.array([b"x", b"y"]),
        pa.array([0, 1], pa.timestamp("s")),
        pa.array([0, 1], pa.date32()),
        pa.array(["a", "b"]).dictionary_encode(),
        pa.array([[1.0], [2.0]]),
        pa.array([None, None]),
    ],
    ids=lambda c: str(c.type),
)
def test_columns_that_are_not_numeric_are_refused_by_their_type(column):
    with pytest.raises(ValueError, match=r"Columns must be numeric\. Leave out or encode: name \(") as caught:
        arrow.ArrowSource(pa.table({"a": [1.0, 2.0], "name": column}))
    assert "alice" not in str(caught.value)
    left = arrow.ArrowSource(pa.table({"a": [1.0, 2.0], "name": column}), columns=["a"])
    assert left.n_features == 1


def test_columns_need_names_that_differ(tmp_path):
    with pytest.raises(ValueError, match="names must differ"):
        arrow.ArrowSource(pa.table([pa.array([1.0]), pa.array([2.0])], names=["a", "a"]))
    with pytest.raises(ValueError, match="no columns"):
        arrow.ArrowSource(pa.table({}))
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(ValueError, match="must hold column names"):
        arrow.open_files(tmp_path / "empty.csv")


def open_and_read(path):
    return list(arrow.open_files(path).blocks())


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1.5,secret\n2,3\n",
        "a,b\n1.5,2,31337\n2,3\n",
        "a,b\n1.5\n",
        'a,b\n"31337,2\n',
        "a,b\n1,2\n" + "3,4\n" * 300_000 + "5,secret\n",  # far beyond the first block
    ],
    ids=["text", "long", "short", "quote", "late"],
)
def test_unreadable_csv_files_do_not_leak_values(text, tmp_path):
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(BadRowsError, match="count as NaN") as caught:
        arrow.open_files(tmp_path / "rows.csv").reduce(SecondMoment(Lattice(Frame(2), 1.0)))
    shown = "".join(traceback.format_exception(caught.value))
    for value in ("secret", "31337"):
        assert value not in str(caught.value)
        assert f"'{value}" not in shown


def test_unreadable_parquet_files(tmp_path):
    import pyarrow.parquet as pq

    path = tmp_path / "rows.parquet"
    pq.write_table(table(), path)
    content = path.read_bytes()
    for broken in (b"", content[:100], content[: len(content) // 2], b"PAR1" + b"\xff" * 200 + b"PAR1"):
        path.write_bytes(broken)
        with pytest.raises(UnreadableRowsError, match="could not be read"):
            open_and_read(path)
    pages = bytearray(content)
    pages[4:400] = b"\xff" * 396  # the footer is whole, the pages are not
    path.write_bytes(bytes(pages))
    with pytest.raises(UnreadableRowsError, match="could not be read"):
        open_and_read(path)


def test_csv_headers(tmp_path):
    path = tmp_path / "rows.csv"
    for header, names in [('"a, b",c', ["a, b", "c"]), ("\ufeffa,b", ["a", "b"]), ('"say ""x""",b', ['say "x"', "b"])]:
        path.write_text(f"{header}\r\n1,2\r\n3,4\r\n", encoding="utf-8", newline="")
        source = arrow.open_files(path)
        assert source.feature_names == names
        np.testing.assert_array_equal(np.concatenate(list(source.blocks())), [[1, 2], [3, 4]])
    for header in (b"gr\xf6\xdfe,b", b'"a,b'):
        path.write_bytes(header + b"\n1,2\n")
        with pytest.raises(ValueError, match=r"first line of 'rows\.csv' must hold column names in UTF-8"):
            arrow.open_files(path)


def test_opening_a_csv_file_looks_at_the_header_only(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,secret\n")
    assert arrow.open_files(tmp_path / "rows.csv").feature_names == ["a", "b"]


# --- pairs ------------------------------------------------------------------------------------------------------------


def seeded(seed):
    return SeededRandomness(np.random.default_rng(seed))


@pytest.mark.parametrize("n", [2, 3, 10, 1001])
def test_pairs_are_disjoint_and_use_every_row_but_one(n):
    numbered = ArraySource(np.arange(2 * n, dtype=float).reshape(n, 2))
    used = np.concatenate(list(PairedSource(numbered, seeded(0)).blocks()))
    assert len(used) == n // 2 * 2
    assert len(np.unique(used[:, 0])) == len(used)


@pytest.mark.parametrize("make", MAKERS)
def test_pairs_on_every_source(make, tmp_path):
    source = make(tmp_path)
    blocks = list(PairedSource(source, seeded(0)).blocks())
    assert all(len(block) % 2 == 0 for block in blocks)
    used = np.concatenate(blocks)
    assert len(used) == 1000
    assert len(np.unique(used[:, 0])) == 1000
    assert np.isin(used[:, 0], ROWS[:, 0]).all()
    assert not np.array_equal(used, ROWS[:1000])
    half = PairedSource(source, seeded(0)).reduce(NormHistogram(Frame(3, pairs=True)))
    assert half.count == 500


def pairings(seed, n=4, rounds=600, source=PairedSource):
    rows = np.arange(n, dtype=float)[:, None]
    rng = seeded(seed)
    for _ in range(rounds):
        used = np.concatenate(list(source(ArraySource(rows), rng).blocks()))[:, 0].astype(int)
        yield frozenset(frozenset(pair) for pair in used.reshape(-1, 2).tolist())


def surprise(found, classes, rounds):
    """A bound on the p-value of uniform frequencies (Hoeffding, Bonferroni)."""
    frequencies = np.array([found.count(c) for c in classes]) / rounds
    distance = np.abs(frequencies - 1 / len(classes)).max()
    return 2 * len(classes) * np.exp(-2 * rounds * distance**2)


def test_pairs_are_uniformly_random():
    found = list(pairings(1))
    classes = {frozenset(map(frozenset, p)) for p in ([(0, 1), (2, 3)], [(0, 2), (1, 3)], [(0, 3), (1, 2)])}
    assert set(found) == classes
    assert surprise(found, sorted(classes, key=str), 600) > 1e-6

    class Unshuffled(PairedSource):  # the twin: rows paired with their neighbours
        def blocks(self):
            return self._source.blocks()

    assert surprise(list(pairings(1, source=Unshuffled)), sorted(classes, key=str), 600) < 1e-6


def test_the_row_left_over_is_random_too():
    left = [({0, 1, 2} - set().union(*pairing)).pop() for pairing in pairings(2, n=3)]
    assert surprise(left, [0, 1, 2], 600) > 1e-6


def test_system_randomness_gives_orders():
    orders = [SystemRandomness().permutation(50) for _ in range(3)]
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert not any(np.array_equal(a, b) for a, b in itertools.combinations(orders, 2))


def test_pairs_do_not_depend_on_the_threads(monkeypatch):
    lattice = Lattice(Frame(3, pairs=True), 40.0)
    found = []
    for workers in (1, 4):
        monkeypatch.setattr(base, "workers", lambda workers=workers: workers)
        monkeypatch.setattr(base, "_SMALL", 0)
        found.append(PairedSource(ArraySource(ROWS), seeded(3)).reduce(SecondMoment(lattice)))
    same(integers(found[0]), integers(found[1]))
    assert found[0].count == 500


def test_one_row_is_in_one_pair_only():
    """What the sensitivity of paired differences rests on: another row changes one term of the sum."""
    lattice = Lattice(Frame(3, pairs=True), 40.0)

    def terms(rows):
        return np.concatenate([lattice.integers(b) for b in PairedSource(ArraySource(rows), seeded(5)).blocks()])

    changed = ROWS.copy()
    changed[123] = [9.0, 9.0, 9.0]
    assert np.count_nonzero((terms(ROWS) != terms(changed)).any(axis=1)) <= 1


def test_a_source_only_needs_blocks():
    class Two(Source):
        n_features = 3

        def blocks(self):
            yield ROWS[:400].tolist()
            yield ROWS[400:]

    for kind in STATISTICS:
        same(integers(Two().reduce(STATISTICS[kind]())), expected(kind))


def test_an_error_in_a_thread_reaches_the_caller(monkeypatch):
    monkeypatch.setattr(base, "workers", lambda: 3)
    monkeypatch.setattr(base, "_SMALL", 0)
    rows = ROWS.copy()
    rows[700, 1] = np.nan
    with pytest.raises(BadRowsError):
        ArraySource(rows).reduce(SecondMoment(Lattice(Frame(3), 1.0)))


def test_a_blank_line_is_a_row(tmp_path):
    """The number of rows must not depend on whether a value is missing."""
    path = tmp_path / "one.csv"
    path.write_text("a\n1\n\n3\n")
    rows = np.concatenate(list(arrow.open_files(path).blocks()))
    assert rows.shape == (3, 1)
    assert np.isnan(rows[1, 0])


def test_errors_carry_no_value_in_their_context(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,secret-diagnosis\n")
    with pytest.raises(ValueError) as caught:
        arrow.open_files(tmp_path / "rows.csv").reduce(SecondMoment(Lattice(Frame(2), 1.0)))
    chain, error = [], caught.value
    while error is not None:
        chain.append(str(error))
        error = error.__cause__ or error.__context__
    assert "secret" not in " ".join(chain)


def test_pairs_do_not_depend_on_how_a_reader_cuts_batches(tmp_path):
    """A long field moves the byte borders of a CSV reader's batches; pairs must not move with them."""
    rows = np.arange(5000.0).reshape(2500, 2)
    found = []
    for first in ("0", "0" * 500_000 + "0.0"):
        lines = ["a,b", f"{first},1", *(f"{a},{b}" for a, b in rows[1:])]
        (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
        found.append(np.concatenate(list(PairedSource(arrow.open_files(tmp_path / "rows.csv"), seeded(1)).blocks())))
    np.testing.assert_array_equal(found[0], found[1])


def test_row_numbers_and_other_separators_are_refused(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(",a,b\n0,1,2\n1,3,4\n")  # pandas' to_csv with its index
    with pytest.raises(ValueError, match="row numbers"):
        arrow.open_files(path)
    assert arrow.open_files(path, columns=["a", "b"]).n_features == 2
    with pytest.raises(ValueError, match="row numbers"):
        arrow.ArrowSource(pa.table({"a": [1.0], "__index_level_0__": [7]}))
    for mark in (";", "\t"):
        path.write_text(f"72.0{mark}157.5{mark}secret\n1{mark}2{mark}3\n")
        with pytest.raises(ValueError, match="separated by commas") as caught:
            arrow.open_files(path, columns=["age"])
        assert "157" not in str(caught.value)


@pytest.mark.parametrize("order", ["C", "F", "strided", "mapped"])
def test_some_rows_are_those_that_indexing_gives(order, tmp_path):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(60, 5)).astype(np.float32)
    if order == "mapped":
        rows.tofile(tmp_path / "rows")
        rows = np.memmap(tmp_path / "rows", dtype=np.float32, mode="r", shape=(60, 5))
    given = {"F": np.asfortranarray(rows), "strided": np.repeat(rows, 2, axis=0)[::2]}.get(order, rows)
    for marked in (given, known(np.asarray(given), finite=True)):
        for which in (rng.uniform(size=60) < 0.3, rng.permutation(60)[:20], np.zeros(60, dtype=bool)):
            found = base.some_of(marked, which)
            np.testing.assert_array_equal(found, rows[which])
            assert isinstance(found, FiniteRows) == isinstance(marked, FiniteRows)
