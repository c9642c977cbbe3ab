"""What one person's record may not do: make or swallow rows, move the pairs of others, or stand in a message."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from dpeigen import Ledger, PrivateCovariance, PrivatePCA
from dpeigen.privacy.randomness import SeededRandomness
from dpeigen.sources import BlockSource, PairedSource, Source, UnreadableRowsError, csv_lines, open_source
from dpeigen.stats import BadRowsError, Frame, Lattice, SecondMoment

pd = pytest.importorskip("pandas")
FIT = {"epsilon": 2.0, "delta": 1e-6, "bound": 40.0, "method": "gaussian", "center": None}


def text(records, header="name,age"):
    return header + "\n" + "".join(record + "\n" for record in records)


# --- a line of CSV is a record ------------------------------------------------------------------------------------

GOOD = [
    ("plain", "Bob,30"),
    ("quoted", '"Bob, the first",30'),
    ("marks doubled", '"Bob ""the"" first",30'),
    ("nothing", ","),
    ("quoted nothing", '"",""'),
    ("ends with a return", "Bob,30\r"),
]
BAD = [
    ("open to the end", '"Bob,30'),
    ("a mark inside a field", 'Al"ice,40'),
    ("text after the closing mark", '"Bob"x,30'),
    ("even marks, still open", 'a"b,"30'),
    ("line break in quotes", '"Bob\nthe first",30'),
    ("return in a field", "Bo\rb,30"),
    ("return in quotes", '"Bo\rb",30'),
]


@pytest.mark.parametrize("record", [r for _, r in GOOD], ids=[n for n, _ in GOOD])
def test_lines_that_are_records(tmp_path, record):
    path = tmp_path / "rows.csv"
    path.write_text(text(["x,1"] * 5 + [record] + ["y,2"] * 5), newline="")
    source = open_source(path, columns=["age"])
    assert source.count_rows() == 11 == sum(map(len, source.blocks()))


@pytest.mark.parametrize("record", [r for _, r in BAD], ids=[n for n, _ in BAD])
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_a_record_that_is_not_a_line_is_refused_and_nothing_is_spent(tmp_path, record, relation):
    path = tmp_path / "rows.csv"
    path.write_text(text(["x,1"] * 5 + [record] + ["y,2"] * 5 + ['Al"ice,40']), newline="")
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=9.0, delta=1e-5)
    source = open_source(path, columns=["age"])
    with pytest.raises(BadRowsError, match="A line that does not have exactly") as caught:
        PrivateCovariance(**FIT, relation=relation, ledger=ledger).fit(source)
    assert "Bob" not in str(caught.value)
    assert ledger.remaining().epsilon == 9.0


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_the_size_of_pieces_changes_nothing(tmp_path, monkeypatch, size):
    monkeypatch.setattr(csv_lines, "_PIECE", size)
    path = tmp_path / "rows.csv"
    for records, sound in ((GOOD, True), (BAD, False)):
        for _, record in records:
            path.write_text(text(["x,1", record, "y,2"]), newline="")
            found = list(csv_lines.pieces(path))
            assert b"".join(found) == path.read_bytes().partition(b"\n")[2]
            assert all(map(csv_lines.are_records, found)) is sound
    for body, lines in (("a", 0), ("a\n", 0), ("a\n\n", 1), ("a\r\n\r\n1", 2), ("a\n1\n2", 2)):
        path.write_text(body, newline="")
        assert b"".join(csv_lines.pieces(path)).count(b"\n") == lines == open_source(path).count_rows()


def test_a_note_across_a_readers_buffer_is_refused(tmp_path):
    """Arrow alone would read the lines inside the note as rows, by where its buffer of 1 MiB ends."""
    path = tmp_path / "rows.csv"
    rows = [f'{j % 50},"{"x" * 50}"' for j in range(17_384)]
    rows[-20] = '7,"' + "99,x\n" * 20_000 + '"'
    path.write_text(text(rows, "age,note"))
    with pytest.raises(BadRowsError, match="A line that does not have exactly"):
        PrivateCovariance(**FIT).fit(open_source(path, columns=["age"]))


def test_a_category_may_be_called_na(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(text(["NA,1", "null,2", ",3"]))
    declared = {"columns": ["name"], "categories": {"name": ["NA", "null"]}}
    rows = np.concatenate(list(open_source(path, **declared).blocks()))
    np.testing.assert_array_equal(rows, [[1, 0], [0, 1], [np.nan] * 2])
    table = pa.table({"name": ["NA", "null", None]})
    np.testing.assert_array_equal(np.concatenate(list(open_source(table, **declared).blocks())), rows)


# --- order ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def hive(tmp_path):
    for key in (0, 1):
        (tmp_path / f"key={key}").mkdir()
        pq.write_table(pa.table({"a": [1.0, 2.0, 3.0]}), tmp_path / f"key={key}" / "1.parquet")
    return tmp_path


def test_data_sets_in_files_have_no_order_and_tables_are_one_block(hive):
    data = ds.dataset(hive, partitioning="hive")
    assert not open_source(data, columns=["a"]).fixed_order
    with pytest.raises(ValueError, match="to_table"):
        open_source(data.filter(ds.field("key") == 1), columns=["a"])
    table = data.to_table()
    source = open_source(table)
    assert len(source.in_memory()) == 6
    assert len(open_source(table.slice(0, 0)).in_memory()) == 0


def test_uneven_chunks_are_not_taken_for_an_order():
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    rows = np.zeros((10, 2))
    for chunks, fixed in (((4, 4, 2), True), ((10,), True), ((4, 5, 1), False), ((3, 4, 3), False)):
        source = open_source(da.from_array(rows, chunks=(chunks, (2,))))
        assert source.fixed_order is fixed


# --- all rows, or an error ------------------------------------------------------------------------------------------


def test_links_and_locked_folders(tmp_path):
    folder, other = tmp_path / "rows", tmp_path / "other"
    for path in (folder / "in", other):
        path.mkdir(parents=True)
        pq.write_table(pa.table({"a": [1.0, 2.0]}), path / "1.parquet")
    assert open_source(folder).count_rows() == 2
    (folder / "to").symlink_to(other)
    with pytest.raises(FileNotFoundError, match="link"):
        open_source(folder)
    (folder / "to").unlink()
    (folder / "2.parquet").symlink_to(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="link"):
        open_source(folder)
    (folder / "2.parquet").unlink()
    if os.geteuid():  # root may open anything
        (folder / "in").chmod(0)
        with pytest.raises(PermissionError):
            open_source(folder)
        (folder / "in").chmod(0o700)


def test_a_folder_that_cannot_be_opened(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"a": [1.0]}), tmp_path / "1.parquet")
    real = os.scandir

    def locked(path):
        if str(path).endswith("in"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", locked)
    with pytest.raises(PermissionError):
        open_source(tmp_path)


def test_a_data_set_with_a_column_missing_in_one_file(tmp_path):
    pq.write_table(pa.table({"a": [1.0], "b": [2.0]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": [1.0]}), tmp_path / "2.parquet")
    data = ds.dataset(tmp_path, schema=pa.schema([("a", pa.float64()), ("b", pa.float64())]))
    assert open_source(data, columns=["a"]).count_rows() == 2
    with pytest.raises(UnreadableRowsError, match="lacks column 'b'"):
        open_source(data)


def test_a_data_set_of_csv_guesses_types_and_is_refused(tmp_path):
    (tmp_path / "1.csv").write_text("a\n1\n\n2\n")
    with pytest.raises(ValueError, match="Give the path"):
        open_source(ds.dataset(tmp_path, format="csv"))


class Changing(Source):
    """Rows whose number is another in every read."""

    n_features = 2

    def __init__(self):
        self.reads = 0

    def blocks(self):
        self.reads += 1
        yield np.ones((1000 + self.reads, 2))


@pytest.mark.parametrize(
    ("relation", "kind", "cost"),
    [
        ("replace", UnreadableRowsError, "Nothing was spent"),  # the first read only counted
        ("add_remove", ValueError, "stays spent"),  # the first read gave the radius
    ],
)
def test_rows_that_change_between_reads(relation, kind, cost):
    options = {**FIT, "bound": "private", "epsilon": 5.0, "relation": relation}
    with pytest.raises(kind, match=f"changed between two reads.*{cost}"):
        PrivateCovariance(**options).fit(Changing())


def test_partitions_shorter_than_declared():
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    data = da.from_array(np.ones((1000, 2)), chunks=(100, 2)).map_blocks(lambda b: b[:66], dtype=float)
    with pytest.raises(UnreadableRowsError, match="not the one that was declared"):
        PrivateCovariance(**FIT).fit(data)
    source = PairedSource(open_source(data), SeededRandomness(np.random.default_rng(0)))
    with pytest.raises(UnreadableRowsError, match="not the one that was declared"):
        source.reduce(SecondMoment(Lattice(Frame(2, pairs=True), 3.0)))


def test_complex_partitions_behind_a_real_type():
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    data = da.from_array(np.ones((100, 2)), chunks=(50, 2)).map_blocks(lambda b: b * 1j, dtype=float)
    with pytest.raises(BadRowsError, match="Cells that are not real numbers"):
        PrivateCovariance(**FIT).fit(data)


class Shared:
    """Iterating twice goes on where it was."""

    def __init__(self, blocks):
        self._blocks = iter(blocks)

    def __iter__(self):
        return self._blocks


def test_a_shared_iterator_loses_no_block():
    source = BlockSource(Shared([np.ones((5, 2))] * 4))
    assert sum(map(len, source.blocks())) == 20
    with pytest.raises(UnreadableRowsError, match="only once"):
        list(source.blocks())


# --- categories mean the same everywhere ------------------------------------------------------------------------------


def test_categories_of_numbers_are_compared_in_their_own_precision():
    frame = pd.DataFrame({"a": np.array([0.1, 0.2, 0.3], dtype=np.float32), "b": [0, 1, 2]})
    declared = {"categories": {"a": [0.1, 0.2], "b": [0, 1]}}
    wanted = [[1, 0, 1, 0], [0, 1, 0, 1], [np.nan] * 4]
    for data in (frame, pa.Table.from_pandas(frame)):
        np.testing.assert_array_equal(np.concatenate(list(open_source(data, **declared).blocks())), wanted)
    with pytest.raises(ValueError, match=r"'b' holds numbers \(int64\).*without quotes"):
        # a schema is public; types of pandas follow single cells
        open_source(pa.Table.from_pandas(frame), categories={"a": [0.1], "b": ["0", "1"]})


def _read(column, listed):
    frame = pd.DataFrame({"c": column, "z": np.arange(len(column), dtype=float)})
    return np.concatenate(list(open_source(frame, categories={"c": listed}).blocks()))[:, :-1]


@pytest.mark.parametrize(
    "listed", [(0, 0.5, 1), ("0", "1"), ("0", "1", "3+"), (0, 1), ("yes", "no"), ("True", "False")], ids=str
)
@pytest.mark.parametrize(
    "cells", [[0, 1] * 5, [0.0, 1.0] * 5, ["0", "1"] * 5, [True, False] * 5, ["yes", "no"] * 5, [None] * 10], ids=str
)
def test_one_odd_cell_changes_the_reading_of_no_other(cells, listed):
    """pandas gives the column another type because of it: floating for a missing one, text or objects for a word."""
    whole = _read(cells, listed)
    for odd in (None, "x", 0.5, "3+", True, float("nan")):
        np.testing.assert_array_equal(_read([*cells[:-1], odd], listed)[:-1], whole[:-1])


def test_a_category_that_whole_numbers_cannot_be_matches_none():
    wanted = [[1, 0, 0], [0, 0, 1]]
    np.testing.assert_array_equal(_read([0, 1], (0, 0.5, 1)), wanted)
    table = pa.table({"c": pa.array([0, 1])})
    np.testing.assert_array_equal(
        np.concatenate(list(open_source(table, categories={"c": (0, 0.5, 1)}).blocks())), wanted
    )
    with pytest.raises(ValueError, match="doubles hold exactly"):
        _read([0, 1], (0, 2**53 + 1))


# --- messages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [[[1.0], [2.0, 3.0]] * 19, [["a", "b"]] * 37, [[1.0, "secret"]] * 37], ids=str)
def test_messages_hold_no_entry_and_no_number_of_rows(data):
    with pytest.raises(BadRowsError, match="real numbers") as caught:
        PrivateCovariance(**FIT).fit(data)
    assert not {"37", "38", "secret"} & set(str(caught.value).replace(",", " ").split())


def test_the_first_block_is_as_discreet_as_the_others():
    def blocks():
        yield [[1.0, float("secret".replace("secret", "Alice 4111"))]]

    with pytest.raises(UnreadableRowsError) as caught:
        BlockSource(blocks)
    assert "Alice" not in str(caught.value)
    assert caught.value.__context__ is None or "Alice" not in str(caught.value.__context__)


# --- explain ----------------------------------------------------------------------------------------------------------


def test_explain_looks_at_no_value_of_a_csv(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(text(["1,2"] * 100 + ["1,word"]))
    plan = PrivatePCA(1, epsilon=1.0, bound=1.0, center="pairs", method="laplace").explain(path)
    assert (plan.passes, plan.counting) == (1, True)


@pytest.mark.parametrize("method", ["oja", "dp-pca", "geodesic", "kendall", "spatial-sign", "refined", "spiked"])
def test_explain_knows_every_method(method):
    class Unread(Source):
        n_features, n_rows = 6, 200_000

        def blocks(self):
            raise AssertionError("read")

    options = {"center": None} if method in ("oja", "dp-pca", "spiked") else {}
    options["bound"] = 3.0 if method == "oja" else None
    plan = PrivatePCA(2, epsilon=4.0, delta=1e-6, method=method, **options).explain(Unread())
    assert plan.passes >= 1
    assert plan.cost.epsilon == pytest.approx(4.0, rel=0.01)


def test_a_lazy_query_is_run_as_often_as_explained(monkeypatch):
    pl = pytest.importorskip("polars", reason="Polars is not installed")
    from dpeigen.sources.lazy import LazySource

    runs, real = [], LazySource.blocks
    monkeypatch.setattr(LazySource, "blocks", lambda self: runs.append(1) or real(self))
    frame = pl.LazyFrame(np.random.default_rng(0).normal(size=(1000, 2)), schema=["a", "b"])
    pca = PrivatePCA(1, epsilon=8.0, delta=1e-5, bound="private", center="pairs")
    plan = pca.explain(frame)
    runs.clear()
    pca.fit(frame)
    assert len(runs) == plan.passes + plan.counting
