"""What a user has in hand becomes a source by public declarations; what does not fit is refused, no value shown."""

from __future__ import annotations

import datetime
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from dpeigen import PrivateCovariance, PrivatePCA
from dpeigen.privacy.randomness import SeededRandomness
from dpeigen.sources import BlockSource, PairedSource, Source, UnreadableRowsError, open_source, show_progress, shuffled
from dpeigen.stats import BadRowsError

ROWS = np.random.default_rng(3).normal(size=(600, 3))
FIT = {"epsilon": 2.0, "bound": 4.0, "center": None}


def rows_of(source) -> np.ndarray:
    return np.concatenate([np.asarray(block) for block in source.blocks()])


def seeded(seed):
    return SeededRandomness(np.random.default_rng(seed))


# --- declared columns ---------------------------------------------------------------------------------------------

PEOPLE = {
    "age": [30.0, 41.0, None, 7.0],
    "sex": ["f", "m", None, "secret"],
    "born": [datetime.date(1970, 1, 2), datetime.date(1969, 12, 31), None, datetime.date(2000, 1, 1)],
    "smokes": [True, False, True, None],
}
CATEGORIES, TYPES = {"sex": ["m", "f"]}, {"born": "date"}
WANTED = [[30, 0, 1, 1, 1], [41, 1, 0, -1, 0], [*[np.nan] * 4, 1], [7, np.nan, np.nan, 10957, np.nan]]


def people(kind, path):
    table = pa.table(PEOPLE)
    if kind == "arrow":
        return table
    if kind == "arrow-dictionary":
        return table.set_column(1, "sex", table["sex"].dictionary_encode())
    if kind == "pandas":
        return (
            pytest.importorskip("pandas")
            .DataFrame({**PEOPLE, "age": np.array([30, 41, np.nan, 7]), "smokes": np.array([1.0, 0.0, 1.0, np.nan])})
            .astype({"born": pytest.importorskip("pandas").ArrowDtype(pa.date32())})
        )
    if kind == "polars":
        return pytest.importorskip("polars").DataFrame(PEOPLE)
    if kind == "lazy":
        return pytest.importorskip("polars").DataFrame(PEOPLE).lazy()
    if kind == "parquet":
        pq.write_table(table, path / "people.parquet")
        return path / "people.parquet"
    (path / "people.csv").write_text(
        "age,sex,born,smokes\n30,f,1970-01-02,1\n41,m,1969-12-31,0\n,,,1\n7,secret,2000-01-01,\n"
    )
    return path / "people.csv"


@pytest.mark.parametrize("kind", ["arrow", "arrow-dictionary", "pandas", "polars", "lazy", "parquet", "csv"])
def test_declared_categories_and_types(kind, tmp_path):
    source = open_source(people(kind, tmp_path), categories=CATEGORIES, types=TYPES)
    assert source.feature_names == ["age", "sex=m", "sex=f", "born", "smokes"]
    np.testing.assert_array_equal(rows_of(source), WANTED)
    few = open_source(people(kind, tmp_path), columns=["sex", "age"], categories=CATEGORIES)
    np.testing.assert_array_equal(rows_of(few), np.array(WANTED)[:, [1, 2, 0]])


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars", "lazy", "parquet"])
def test_what_is_not_declared_is_refused_by_its_type(kind, tmp_path):
    # Text in pandas may be a column of numbers with one word in it: its cells are read one by one.
    named = r"born \(" if kind == "pandas" else r"sex \(.*born \("
    with pytest.raises(ValueError, match=rf"Columns must be numeric.*{named}.*declared list") as caught:
        open_source(people(kind, tmp_path))
    assert "secret" not in str(caught.value)


def test_the_features_do_not_depend_on_the_values():
    for sex in (["f", "f"], ["m", "x"], [None, None]):
        table = pa.table({"sex": pa.array(sex, pa.string())})
        assert open_source(table, categories=CATEGORIES).feature_names == ["sex=m", "sex=f"]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"categories": {"sex": []}}, "'categories'.*must be a list"),
        ({"categories": {"sex": "fm"}}, "'categories'.*must be a list"),
        ({"categories": {"sex": ["f", "f"]}}, "'categories'.*differ"),
        ({"categories": {"sex": [1, 2]}, "types": TYPES}, "must be numeric.*sex"),
        ({"categories": {"job": ["a"]}}, r"not among the columns used: \['job'\]"),
        ({"columns": ["age"], "categories": CATEGORIES}, "not among the columns used"),
        ({"categories": CATEGORIES, "types": {"sex": "number"}}, "have a type too"),
        ({"types": {"born": "datetime"}}, "'types' parameter .* must be one of 'number'"),
        ({"columns": ["age", "age"]}, "must differ"),
        ({"columns": ["weight"]}, r"\['weight'\] are not among the 4 columns"),
    ],
)
def test_wrong_declarations(options, match):
    with pytest.raises(ValueError, match=match):
        open_source(pa.table(PEOPLE), **options)


def test_arrays_have_no_columns_to_name(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    for data in (ROWS, tmp_path / "rows.npy", lambda: iter([ROWS])):
        with pytest.raises(ValueError, match=r"no (column )?names"):
            open_source(data, columns=["a"])
    assert rows_of(open_source(ROWS.tolist())).shape == (600, 3)
    with pytest.raises(ValueError, match="a table of real numbers"):
        open_source(np.zeros(3))
    with pytest.raises(ValueError, match="where the source is made"):
        open_source(open_source(ROWS), columns=["a"])


def test_numbers_kept_as_text():
    table = pa.table({"a": ["1.5", "-2"], "b": [1, 2]})
    np.testing.assert_array_equal(rows_of(open_source(table, types={"a": "number"})), [[1.5, 1], [-2, 2]])
    frame = table.to_pandas()
    np.testing.assert_array_equal(rows_of(open_source(frame, types={"a": "number"})), [[1.5, 1], [-2, 2]])
    for data in (pa.table({"a": ["1.5", "secret"]}), pa.table({"a": ["1.5", "secret"]}).to_pandas()):
        np.testing.assert_array_equal(rows_of(open_source(data, types={"a": "number"})), [[1.5], [np.nan]])


@pytest.mark.parametrize("make", [PrivatePCA, PrivateCovariance])
def test_estimators_take_declared_sources(make):
    source = open_source(pa.table({"x": np.ones(500), "sex": ["f", "m"] * 250}), categories=CATEGORIES)
    options = {"epsilon": 1.0, "bound": (0, 1), "center": None}
    fitted = (make(2, **options) if make is PrivatePCA else make(**options)).fit(source)
    assert fitted.release_.facts["feature_names"] == ["x", "sex=m", "sex=f"]
    assert list(fitted.feature_names_in_) == ["x", "sex=m", "sex=f"]


# --- blocks -------------------------------------------------------------------------------------------------------


def generator():
    yield ROWS[:200]
    yield ROWS[200:]


def test_a_generator_can_be_read_once():
    source, once = BlockSource(generator(), n_rows=600), {**FIT, "method": "laplace"}
    assert (source.n_features, source.n_rows) == (3, 600)
    with pytest.raises(UnreadableRowsError, match=r"method='whitened' takes more passes.*Nothing was spent"):
        PrivateCovariance(**{**FIT, "method": "whitened", "epsilon": 50.0}).fit(source)
    PrivateCovariance(**once).fit(source)  # nothing was read before
    with pytest.raises(UnreadableRowsError, match="only once"):
        PrivateCovariance(**once).fit(source)
    with pytest.raises(UnreadableRowsError, match="give n_rows"):
        PrivateCovariance(**once).fit(generator())
    PrivateCovariance(**FIT).fit(generator)  # a function makes it anew for each pass
    PrivateCovariance(**{**once, "relation": "add_remove"}).fit(BlockSource(generator(), n_features=3))


@pytest.mark.parametrize(
    ("blocks", "match"),
    [
        ([ROWS, ROWS[:, :2]], "other columns"),
        ([ROWS, ROWS[0]], "a table of real numbers"),
        ([pa.table({"a": [1.0]}), pa.table({"b": [1.0]})], "other columns"),
    ],
)
def test_blocks_that_change_half_way(blocks, match):
    with pytest.raises(UnreadableRowsError, match=match) as caught:
        rows_of(BlockSource(blocks))
    assert "secret" not in str(caught.value)


def test_the_type_of_a_block_may_follow_from_its_values():
    for second in ([["secret"]], pa.table({"a": ["secret"]}), np.array([["secret"]]), [[None]], np.array([[1j]])):
        first = pa.table({"a": [1.0]}) if isinstance(second, pa.Table) else [[1.0]]
        for blocks in ([first, second], [second, first]):
            assert sorted(rows_of(BlockSource(blocks)).ravel().tolist(), key=str) == [
                1.0,
                pytest.approx(np.nan, nan_ok=True),
            ]


def test_what_a_generator_raises_is_not_quoted():
    def broken():
        yield ROWS
        raise KeyError("secret-diagnosis")

    with pytest.raises(UnreadableRowsError, match="raised KeyError") as caught:
        rows_of(BlockSource(broken))
    assert caught.value.__context__ is None
    with pytest.raises(UnreadableRowsError, match="not the one that was declared"):
        rows_of(BlockSource(generator, n_rows=601))
    with pytest.raises(UnreadableRowsError, match="no blocks"):
        PrivatePCA(1, epsilon=1.0, bound=1.0).fit(BlockSource([]))


def test_memory_maps_are_not_copied(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS.astype(np.float32))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    fitted = PrivateCovariance(**FIT).fit(mapped)
    assert fitted.n_features_in_ == 3
    block = next(open_source(tmp_path / "rows.npy").blocks())
    assert isinstance(block, np.memmap)
    assert block.dtype == np.float32
    for bad in (np.zeros(3), np.array([["a"]]), np.zeros((2, 2), dtype=complex)):
        np.save(tmp_path / "bad.npy", bad)
        with pytest.raises(UnreadableRowsError, match="two-dimensional array of real numbers"):
            open_source(tmp_path / "bad.npy")
    (tmp_path / "bad.npy").write_text("secret")
    with pytest.raises(UnreadableRowsError):
        open_source(tmp_path / "bad.npy")


# --- folders ------------------------------------------------------------------------------------------------------


def table_of(rows, names="abc", kind=None):
    return pa.table({n: pa.array(rows[:, j], kind) for j, n in enumerate(names)})


def write(folder, tables):
    folder.mkdir()
    for j, table in enumerate(tables):
        pq.write_table(table, folder / f"{j}.parquet")
    return folder


@pytest.mark.parametrize(
    "second",
    [
        table_of(ROWS[:, :2], "ab"),
        table_of(ROWS, "abd"),
        table_of(ROWS, "abc", pa.float32()),
        pa.table({"a": ["secret"], "b": [1.0], "c": [1.0]}),
    ],
    ids=["missing", "renamed", "retyped", "text"],
)
def test_a_schema_that_changes_half_way(second, tmp_path):
    folder = write(tmp_path / "parts", [table_of(ROWS), second])
    with pytest.raises(UnreadableRowsError, match=r"file 2 of 2, '1\.parquet', has other columns") as caught:
        open_source(folder)
    assert "secret" not in str(caught.value)
    if "b" in second.schema.names and second.schema.field("b").type == pa.float64():
        assert open_source(folder, columns=["b"]).n_features == 1  # columns that are not read may change


def test_csv_headers_that_differ(tmp_path):
    for name, text in (("1.csv", "a,b\n1,2\n"), ("2.csv", "b,a\n1,2\n")):
        (tmp_path / name).write_text(text)
    with pytest.raises(UnreadableRowsError, match="file 2 of 2"):
        open_source(tmp_path)


@pytest.mark.parametrize("damage", ["footer", "pages"])
def test_a_damaged_file_in_the_folder_costs_nothing(damage, tmp_path):
    from dpeigen import Ledger

    folder = write(tmp_path / "parts", [table_of(ROWS)] * 3)
    content = bytearray((folder / "1.parquet").read_bytes())
    if damage == "pages":
        content[4:400] = b"\xff" * 396
    else:
        content = content[: len(content) // 2]
    (folder / "1.parquet").write_bytes(bytes(content))
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=5.0, delta=0.0)
    with pytest.raises(UnreadableRowsError, match="could not be read"):
        PrivateCovariance(**FIT, ledger=ledger).fit(folder)
    assert ledger.remaining().epsilon == 5.0
    (folder / "1.parquet").unlink()
    PrivateCovariance(**FIT, ledger=ledger).fit(folder)
    assert ledger.remaining().epsilon == pytest.approx(3.0)


def test_folders_of_other_things(tmp_path):
    with pytest.raises(FileNotFoundError, match="no files"):
        open_source(tmp_path)
    (tmp_path / "a.csv").write_text("a\n1\n")
    (tmp_path / "b.txt").write_text("a")
    with pytest.raises(ValueError, match="more than one kind"):
        open_source(tmp_path)
    (tmp_path / "a.csv").unlink()
    with pytest.raises(ValueError, match="Cannot tell the format"):
        open_source(tmp_path)


def test_partition_columns_are_read_where_they_are_named(tmp_path):
    for year in (2000, 2001):
        for place in ("north", "else"):
            folder = tmp_path / "parts" / f"year={year}" / f"place={place}"
            folder.mkdir(parents=True)
            pq.write_table(table_of(ROWS[:2]), folder / "rows.parquet")
    source = open_source(tmp_path / "parts")
    assert source.feature_names == ["a", "b", "c"]
    assert not source.fixed_order  # another value would put the row elsewhere
    source = open_source(tmp_path / "parts", columns=["year", "a", "place"], categories={"place": ["north", "south"]})
    assert source.feature_names == ["year", "a", "place=north", "place=south"]
    read = rows_of(source)
    np.testing.assert_array_equal(read[:, 0], np.repeat([2000, 2001], 4))
    np.testing.assert_array_equal(read[:, 2:], np.tile([[np.nan] * 2, [np.nan] * 2, [1, 0], [1, 0]], (2, 1)))
    (tmp_path / "parts" / "month=1").mkdir()
    pq.write_table(table_of(ROWS[:2]), tmp_path / "parts" / "month=1" / "rows.parquet")
    with pytest.raises(ValueError, match="not partitioned by the same columns"):
        open_source(tmp_path / "parts")


# --- pairs of rows without an order -------------------------------------------------------------------------------


class Loose(Source):
    """Rows in no fixed order: here, sorted by value and cut where a value says so."""

    n_features, fixed_order = 1, False

    def __init__(self, values):
        self.values = np.sort(values)

    def blocks(self):
        cut = int(np.searchsorted(self.values, 1.5))
        yield self.values[:cut, None]
        yield self.values[cut:, None]


def pairings(source, rounds=600, rng=None):
    rng = rng or seeded(1)
    for _ in range(rounds):
        used = np.concatenate(list(PairedSource(source, rng).blocks()))[:, 0].astype(int)
        yield frozenset(frozenset(pair) for pair in used.reshape(-1, 2).tolist())


def surprise(found, classes, rounds=600):
    """A bound on the p-value of uniform frequencies (Hoeffding, Bonferroni)."""
    distance = max(abs(found.count(c) / rounds - 1 / len(classes)) for c in classes)
    return 2 * len(classes) * np.exp(-2 * rounds * distance**2)


@pytest.mark.parametrize("rows", [1, 8192], ids=["two files", "one file"])
def test_all_pairings_are_equally_likely_however_rows_lie(rows, monkeypatch):
    """So another value, which moves rows about, changes the distribution of one pair only. False alarms: 1e-6."""
    monkeypatch.setattr(shuffled, "_MEMORY", 0)
    monkeypatch.setattr(shuffled, "_BLOCK_ROWS", 2 * rows)
    classes = [frozenset(map(frozenset, p)) for p in ([(0, 1), (2, 3)], [(0, 2), (1, 3)], [(0, 3), (1, 2)])]
    assert surprise(list(pairings(Loose(np.arange(4.0)))), classes) > 1e-6

    class Unmoved(SeededRandomness):  # the twin: rows are paired as they lie
        def permutation(self, n):
            return np.arange(n)

    assert surprise(list(pairings(Loose(np.arange(4.0)), rng=Unmoved(np.random.default_rng(1)))), classes) < 1e-6


def test_rows_that_come_and_go_between_reads(monkeypatch):
    class Growing(Loose):
        reads = 0

        def blocks(self):
            self.reads += 1
            yield np.zeros((10 + self.reads, 1))

    with pytest.raises(UnreadableRowsError, match="changed between two reads"):
        list(PairedSource(Growing(np.zeros(1)), seeded(0)).blocks())


def test_the_file_of_a_shuffle_has_no_name(monkeypatch, tmp_path):
    monkeypatch.setattr(shuffled, "_MEMORY", 0)
    monkeypatch.setattr(shuffled, "_BLOCK_ROWS", 10)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for _ in PairedSource(Loose(np.arange(100.0)), seeded(0)).blocks():
        assert list(tmp_path.iterdir()) == []


# --- progress -----------------------------------------------------------------------------------------------------


def shown(relation, terminal=True):
    import io

    from rich.console import Console

    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=100)
    with show_progress(console):
        PrivateCovariance(**{**FIT, "relation": relation}).fit(np.zeros((98_765, 3)))
    return text.getvalue()


def test_progress_is_for_terminals_and_does_not_tell_a_private_number_of_rows():
    assert "pass 1" in shown("replace")
    assert "rows/s" in shown("replace")
    assert shown("replace", terminal=False) == ""
    hidden = shown("add_remove")
    assert "pass 1" in hidden
    assert "rows/s" not in hidden
    assert "left" not in hidden


def test_bad_rows_in_a_mixed_frame():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": [0.5, 1.0, 2.0]})
    with pytest.raises(BadRowsError, match="NaN"):
        PrivateCovariance(**FIT).fit(frame)
    fitted = PrivateCovariance(**FIT, missing="drop").fit(frame)
    assert list(fitted.feature_names_in_) == ["a", "b"]
