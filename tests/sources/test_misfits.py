"""A cell that does not fit its type is a bad row and nothing else, in every reader: no error tells that it is there."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from dpeigen import Ledger, PrivateCovariance, PrivatePCA, PrivateRidge
from dpeigen.sources import ArraySource, BlockSource, cells, csv_lines, csv_rows, open_source
from dpeigen.stats import BadRowsError, Frame, Lattice, SecondMoment
from dpeigen.stats.holes import HoleCounts

pd = pytest.importorskip("pandas")
SECRET = "xyzzy-4111"
AT = 7  # the row that changes
FIT = {"epsilon": 2.0, "bound": 1e6, "center": None, "method": "laplace"}
DROP = {**FIT, "missing": "drop"}
LOUD = {**DROP, "epsilon": 1e5, "bound": 50.0}  # every row shows

# --- columns: good cells as text, the numbers they are, and what does not fit -----------------------------------------

GOOD = {
    "number": ["1.5", "-2", "3e2", ".25"],
    "bool": ["1", "0", "true", "false"],
    "date": ["1970-01-02", "2000-02-29", "1969-12-31", "2020-01-31"],
    "timestamp": ["1970-01-01 00:00:01", "2000-02-29T12:00", "1969-12-31", "2020-01-31 23:59:59"],
}
VALUE = {
    "number": [1.5, -2.0, 300.0, 0.25],
    "bool": [1.0, 0.0, 1.0, 0.0],
    "date": [1.0, 11016.0, -1.0, 18292.0],
    "timestamp": [1.0, 951825600.0, -86400.0, 1580515199.0],
}
WORDS = ["", SECRET, "2", "1_000", "0x10", "nan", "-inf", "1e400", "１２", "1,5", "2020-13-01", "2021-02-29", "1\x00",
         "9" * 400, "NA", "true ", "yes", "x" * 3000]  # fmt: skip
OBJECTS = [None, pd.NA, pd.NaT, SECRET, b"1", 1j, 10**400, [1.0], {"a": 1}, float("nan"), float("inf"), Decimal("sNaN"),
           Decimal("1e999"), np.timedelta64(1, "s"), "\ud800", object(), (1, 2), np.array([1.0, 2.0])]  # fmt: skip


def misfits(kind, words=WORDS):
    """Those of the words that are not of the type."""
    fits = {"number": {"2"}, "bool": {"true "}}
    return [word for word in words if word not in fits.get(kind, ())]


def table(kind, n=40):
    """Good cells over and over, and a column beside them."""
    return [GOOD[kind][j % 4] for j in range(n)], np.arange(n) / n


def numbers(kind, n=40, bad=True):
    rows = np.column_stack([np.resize(VALUE[kind], n), np.arange(n) / n])
    if bad:
        rows[AT, 0] = np.nan
    return rows


def write_csv(path, column, other):
    lines = [f'"{cell}",{beside!r}' for cell, beside in zip(column, other.tolist(), strict=True)]
    path.write_bytes(("a,b\n" + "\n".join(lines) + "\n").encode("utf-8", "surrogatepass"))
    return path


def to_csv(folder, column, other):
    return write_csv(folder / "rows.csv", column, other)


def to_parquet(folder, column, other):
    pq.write_table(pa.table({"a": column, "b": other}), folder / "rows.parquet")
    return folder / "rows.parquet"


def to_feather(folder, column, other):
    pyarrow.feather.write_feather(pa.table({"a": column, "b": other}), folder / "rows.feather")
    return folder / "rows.feather"


def to_polars(_, column, other):
    return pytest.importorskip("polars").DataFrame({"a": column, "b": other})


READERS = {
    "csv": to_csv,
    "parquet": to_parquet,
    "feather": to_feather,
    "arrow": lambda _, column, other: pa.table({"a": column, "b": other}),
    "dictionary": lambda _, column, other: pa.table({"a": pa.array(column).dictionary_encode(), "b": other}),
    "pandas text": lambda _, column, other: pd.DataFrame({"a": pd.array(column, dtype="string"), "b": other}),
    "pandas objects": lambda _, column, other: pd.DataFrame({"a": pd.Series(column, dtype=object), "b": other}),
    "polars": to_polars,
    "lazy": lambda _, column, other: to_polars(_, column, other).lazy(),
}


MODES = ("drop", "correct")


def integers(source):
    """What is summed, where a row with such a cell is dropped and where the cell is missing; and counts of holes."""
    frames = [Frame(source.n_features, missing=missing) for missing in MODES]
    moments = [source.reduce(SecondMoment(Lattice(frame, 1e9))) for frame in frames]
    holes = source.reduce(HoleCounts(frames[1]))
    return [(m.count, m.gram.tolist()) for m in moments], (holes.count, holes.together.tolist())


def expected(rows):
    return integers(ArraySource(rows))


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize("reader", READERS)
def test_text_that_does_not_fit_is_a_bad_row_and_no_other_row_changes(reader, kind, tmp_path):
    column, other = table(kind)
    good = open_source(READERS[reader](tmp_path, column, other), types={"a": kind})
    assert integers(good) == expected(numbers(kind, bad=False))
    wanted = expected(numbers(kind))
    for word in misfits(kind):
        column[AT] = word
        bad = open_source(READERS[reader](tmp_path, column, other), types={"a": kind})
        assert integers(bad) == wanted, word[:20]


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize("reader", ["csv", "parquet", "pandas objects", "lazy"])
def test_refused_text_is_refused_alike_and_never_quoted(reader, kind, tmp_path):
    column, other = table(kind)
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=9.0, delta=0.0)
    said = set()
    for word in misfits(kind, [SECRET, "", "2020-13-01", "nan"]):
        column[AT] = word
        source = open_source(READERS[reader](tmp_path, column, other), types={"a": kind})
        with pytest.raises(BadRowsError, match="nothing was spent") as caught:
            PrivateCovariance(**FIT, ledger=ledger).fit(source)
        said.add((type(caught.value), str(caught.value)))
        assert SECRET not in str(caught.value) + repr(caught.value.__context__)
    assert len(said) == 1
    assert ledger.remaining().epsilon == 9.0
    assert {entry["state"] for entry in ledger.history()} == {"cancelled"}


# --- fast and slow ways to read agree ---------------------------------------------------------------------------------

ODD = ["1", " 3", "3 ", "\t3", "+3", "-0", "5.", ".5", "1e5", "1E+5", "1e-400", "1e400", "1_000", "0x10", "nan", "NaN",
       "inf", "Infinity", "-inf", "", "NA", "null", "１２", "\u00a03", "\x0b3", "1d", "--1", "1 2", "1\x00",
       "0" * 400 + "7", "True", "TRUE", "tRuE", "false", "0", "2", "2020-01-01", " 2020-01-01", "2020-01-01 ",
       "2020-1-1", "2020-02-30", "0000-01-01", "9999-12-31", "2020-01-01T00", "2020-01-01 00:00",
       "2020-01-01T00:00:59", "2020-01-01 24:00:00", "2020-01-01T00:00:00Z", "2020-01-01 00:00:00.5",
       "20200101"]  # fmt: skip


def arrow_alone(text, kind):
    """What Arrow's own reader of CSV makes of one cell; NaN if it refuses it."""
    options = pyarrow.csv.ConvertOptions(column_types={"a": cells.arrow_type(kind)}, strings_can_be_null=False)
    try:
        found = pyarrow.csv.read_csv(pa.BufferReader(f'a,b\n"{text}",1\n'.encode()), convert_options=options)
    except pa.ArrowInvalid:
        return np.nan
    return cells.numbers(found["a"], kind)[0]


@pytest.mark.parametrize("kind", GOOD)
def test_a_bad_cell_does_not_change_how_others_are_read(kind, tmp_path):
    """Every cell Arrow can read alone has the same value beside one that makes it fail."""
    rng = random.Random(1)
    changed = ["".join(rng.choice("0123456789+-.eET: ") if rng.random() < 0.2 else c for c in cell) for cell in
               rng.choices(GOOD[kind], k=300)]  # fmt: skip
    texts = [*ODD, *GOOD[kind], *changed]
    path = write_csv(tmp_path / "rows.csv", [*texts, SECRET], np.arange(len(texts) + 1.0))
    read = np.concatenate(list(open_source(path, types={"a": kind}).blocks()))[:-1, 0]
    for text, found in zip(texts, read, strict=True):
        alone = arrow_alone(text, kind)
        if np.isfinite(alone):
            assert found == alone, text
    column = pa.table({"a": [*texts, SECRET]})
    again = np.concatenate(list(open_source(column, types={"a": kind}).blocks()))[:-1, 0]
    objects = pd.DataFrame({"a": pd.Series([*texts, SECRET, 1.0], dtype=object)})
    third = np.concatenate(list(open_source(objects, types={"a": kind}).blocks()))[:-2, 0]
    np.testing.assert_array_equal(
        np.where(np.isfinite(read), read, np.nan), np.where(np.isfinite(again), again, np.nan)
    )
    np.testing.assert_array_equal(again, third)


# --- objects ----------------------------------------------------------------------------------------------------------


def nested(cell, kind=list):
    rows = [kind([0.5 + j, -1.0 * j]) for j in range(20)]
    rows[AT] = kind([cell, -1.0])
    return rows


def object_array(cell):
    rows = np.array(nested(0.0), dtype=object)
    rows[AT, 0] = cell
    return rows


def object_frame(cell):
    return pd.DataFrame({"a": pd.Series([row[0] for row in nested(cell)], dtype=object), "b": np.arange(20.0)})


def blocks(cell):
    return BlockSource(lambda: iter([nested(cell)[:5], nested(cell)[5:]]))


def frames(cell):
    return BlockSource(lambda: iter([object_frame(cell)[:5], object_frame(cell)[5:]]))


HOLDERS = {
    "lists": nested,
    "tuples": lambda cell: tuple(nested(cell, tuple)),
    "objects": object_array,
    "frame": object_frame,
    "frame of objects": lambda cell: object_frame(cell).astype(object),
    "frame without names": lambda cell: object_frame(cell).set_axis([0, 1], axis=1),
    "blocks": blocks,
    "blocks of objects": lambda cell: BlockSource(lambda: iter([object_array(cell)])),
    "frames": frames,
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_objects_that_are_no_numbers_are_bad_rows(holder):
    def fit(cell):
        fitted = PrivateCovariance(**LOUD, random_state=3).fit(HOLDERS[holder](cell))
        return fitted.release_.covariance.tolist()

    wanted = fit(np.nan)
    for cell in OBJECTS:
        assert fit(cell) == wanted, cell
    assert fit(2**70) == fit(float(2**70)) != wanted  # a double holds it
    assert fit("2.5") == fit(Decimal("2.5")) == fit(2.5) != wanted
    assert fit(" 1e3") == fit(np.float32(1000)) == fit(np.array(1000)) != wanted


@pytest.mark.parametrize("holder", HOLDERS)
def test_objects_that_are_no_numbers_are_refused_and_the_ledger_knows(holder, tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=9.0, delta=0.0)
    for cell in (SECRET, None, {"a": SECRET}, 10**400):
        with pytest.raises(BadRowsError, match="othing was spent") as caught:
            PrivateCovariance(**FIT, ledger=ledger).fit(HOLDERS[holder](cell))
        assert SECRET not in str(caught.value) + repr(caught.value.__context__)
    assert ledger.remaining().epsilon == 9.0
    assert [entry["state"] for entry in ledger.history()] == ["cancelled"] * 4


def test_rows_of_another_length_are_bad_rows():
    def fit(row):
        rows = nested(1.0)
        rows[AT] = row
        return PrivateCovariance(**LOUD, random_state=3).fit(rows).release_.covariance.tolist()

    wanted = fit([np.nan, 1.0])
    assert all(fit(row) == wanted for row in ([1.0], [], [1.0, 2.0, 3.0], None, SECRET, 1.0, [[1.0], [2.0]]))


@pytest.mark.parametrize("kind", ["Int64", "Float64", "boolean", "Int64[pyarrow]", "double[pyarrow]", "bool[pyarrow]"])
@pytest.mark.parametrize("both", [False, True])
def test_columns_with_missing_numbers(kind, both):
    values = [1, 0] * 10
    values[AT] = None
    frame = pd.DataFrame({"a": pd.array(values, dtype=kind), "b": pd.array([1, 0] * 10, dtype=kind if both else float)})
    wanted = pd.DataFrame({"a": np.array(values, dtype=float), "b": [1.0, 0.0] * 10})
    first, second = (PrivatePCA(1, **LOUD, random_state=1).fit(data).release_ for data in (frame, wanted))
    np.testing.assert_array_equal(first.covariance, second.covariance)
    assert first.covariance.any()


def test_numbers_declared_as_truth_values():
    for values in ([0, 1, 2, 1], [0.0, 1.0, 0.5, 1.0], [0, 1, -1, 1]):
        for data in (pa.table({"a": values}), pd.DataFrame({"a": values}), pd.DataFrame({"a": values}, dtype=object)):
            read = np.concatenate(list(open_source(data, types={"a": "bool"}).blocks()))
            np.testing.assert_array_equal(read[:, 0], [0, 1, np.nan, 1])


def test_dates_and_times_as_objects():
    utc = datetime.timezone.utc
    given = [datetime.date(1970, 1, 2), datetime.datetime(1970, 1, 2, 0, 0, 1), np.datetime64("1970-01-02T00:00:01"),
             pd.Timestamp("1970-01-02 00:00:01"), datetime.datetime(1970, 1, 2, 0, 0, 1, tzinfo=utc), "1970-01-02",
             pd.NaT, 3.5, None]  # fmt: skip
    frame = pd.DataFrame({"a": pd.Series(given, dtype=object)})
    days = np.concatenate(list(open_source(frame, types={"a": "date"}).blocks()))[:, 0]
    np.testing.assert_array_equal(days, [1, 1, 1, 1, 1, 1, np.nan, np.nan, np.nan])
    seconds = np.concatenate(list(open_source(frame, types={"a": "timestamp"}).blocks()))[:, 0]
    np.testing.assert_array_equal(seconds, [86400, *[86401] * 4, 86400, np.nan, np.nan, np.nan])


def test_ridge_targets_that_are_no_numbers():
    X = np.arange(40.0).reshape(20, 2) / 40

    def fit(cell, kind):
        y = [0.1 * j for j in range(20)]
        y[AT] = cell
        model = PrivateRidge(epsilon=1e5, bound=9.0, missing="drop", random_state=2).fit(X, kind(y))
        return model.release_.covariance.tolist()

    for kind in (list, lambda y: np.array(y, dtype=object), lambda y: pd.Series(y, dtype=object)):
        wanted = fit(np.nan, kind)
        assert all(fit(cell, kind) == wanted for cell in (None, SECRET, 10**400, 1j, {"a": 1}))
        assert fit("1.5", kind) == fit(1.5, kind) != wanted


# --- lines of CSV -----------------------------------------------------------------------------------------------------

LINES = [
    "",
    ",",
    "x",
    "1,2,3,4",
    "1,2",
    '"open,1,2',
    'a"b,1,2',
    '"a"b,1,2',
    "1\r,2,3",
    '1,2,"3',
    '""",1,2',
    "\r",
    '"",2,3,',
]


@pytest.mark.parametrize("line", LINES, ids=repr)
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_a_line_that_is_no_record_is_one_bad_row(line, relation, tmp_path, monkeypatch):
    rows = np.arange(60.0).reshape(20, 3)
    lines = [",".join(map(str, row)) for row in rows.tolist()]
    rows[AT], lines[AT] = np.nan, line
    path = tmp_path / "rows.csv"
    for end in ("\n", "\r\n"):
        path.write_text("a,b,c" + end + end.join(lines) + end, newline="")
        for size in (2**22, 5):
            monkeypatch.setattr(csv_lines, "_PIECE", size)
            source = open_source(path, columns=["c", "a"])
            assert source.count_rows() == 20
            np.testing.assert_array_equal(np.concatenate(list(source.blocks())), rows[:, [2, 0]])
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=9.0, delta=0.0)
    with pytest.raises(BadRowsError, match="nothing was spent"):
        PrivateCovariance(**FIT, relation=relation, ledger=ledger).fit(path)
    assert ledger.remaining().epsilon == 9.0
    note = " ".join(PrivateCovariance(**DROP, relation=relation).fit(path).guarantee_.notes)
    assert "Each line of a CSV file is one row." in note


@pytest.mark.parametrize("text", ["x" * 3_000_000, '"' + 'y""' * 1_000_000 + '"', "\x00" * 10, '"a, b"', ""])
def test_text_in_a_column_that_is_not_used_changes_nothing(text, tmp_path):
    lines = [f"{j},note,{-j}" for j in range(200)]
    lines[AT] = f"7,{text},-7"
    (tmp_path / "rows.csv").write_text("a,n,b\n" + "\n".join(lines) + "\n")
    source = open_source(tmp_path / "rows.csv", columns=["a", "b"])
    wanted = np.column_stack([np.arange(200.0), -np.arange(200.0)])
    np.testing.assert_array_equal(np.concatenate(list(source.blocks())), wanted)


def test_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a,sex,n\n1,f,x\n2,\xff\xfe,x\n\xff3,m,x\n4,m,\xff\n5,\x00,x\n")
    source = open_source(path, columns=["a", "sex"], categories={"sex": ["f", "m"]})
    wanted = [[1, 1, 0], [2, np.nan, np.nan], [np.nan, 0, 1], [4, 0, 1], [5, np.nan, np.nan]]
    np.testing.assert_array_equal(np.concatenate(list(source.blocks())), wanted)


def test_a_word_among_categories_that_are_numbers_is_none_of_them(tmp_path):
    (tmp_path / "rows.csv").write_text(f"a,b\n1,1\n2.0,1\n{SECRET},1\n,1\n")
    read = np.concatenate(list(open_source(tmp_path / "rows.csv", categories={"a": [1, 2]}).blocks()))
    np.testing.assert_array_equal(read, [[1, 0, 1], [0, 1, 1], [np.nan, np.nan, 1], [np.nan, np.nan, 1]])


@pytest.mark.parametrize("length", [99, 100, 101, 1000])
@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_line_of_any_length_is_judged_by_itself(length, size, end, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_lines, "_LONGEST", 100)
    monkeypatch.setattr(csv_lines, "_PIECE", size)
    path = tmp_path / "rows.csv"
    for at in range(3):
        lines = ['1,"x"', '2,"y"', '3,"z"']
        lines[at] = f"{at + 1}," + "n" * (length - 2)
        path.write_text("a,b\n" + "\n".join(lines) + end)
        source = open_source(path, columns=["a"])
        wanted = [[1.0], [2.0], [3.0]]
        wanted[at] = [at + 1.0 if length <= 100 else np.nan]
        assert source.count_rows() == 3
        np.testing.assert_array_equal(np.concatenate(list(source.blocks())), wanted)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_folder_named_after_a_word_holds_bad_rows(kind, tmp_path):
    for key in ("2000", SECRET, "__HIVE_DEFAULT_PARTITION__"):
        folder = tmp_path / "parts" / f"year={key}"
        folder.mkdir(parents=True)
        content = pa.table({"a": [1.0, 2.0]})
        (pyarrow.csv.write_csv if kind == "csv" else pq.write_table)(content, folder / f"rows.{kind}")
    read = np.concatenate(list(open_source(tmp_path / "parts", columns=["a", "year"]).blocks()))
    assert sorted(map(tuple, np.nan_to_num(read, nan=-1.0).tolist())) == [
        (1.0, -1.0), (1.0, -1.0), (1.0, 2000.0), (2.0, -1.0), (2.0, -1.0), (2.0, 2000.0)]  # fmt: skip
    categories = {"year": [2000, 2001]}
    read = np.concatenate(list(open_source(tmp_path / "parts", columns=["year"], categories=categories).blocks()))
    assert sorted(map(tuple, np.nan_to_num(read, nan=-1.0).tolist())) == [(-1.0, -1.0)] * 4 + [(1.0, 0.0)] * 2


def test_pieces_are_parsed_by_the_quick_way_where_nothing_is_odd(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_rows, "mended", lambda *_: pytest.fail("read a second time"))
    (tmp_path / "rows.csv").write_text('a,b,n\n1,,"x, y"\n2,3,z\n')
    read = np.concatenate(list(open_source(tmp_path / "rows.csv", columns=["a", "b"]).blocks()))
    np.testing.assert_array_equal(read, [[1, np.nan], [2, 3]])


# --- clusters ---------------------------------------------------------------------------------------------------------


def test_dask_partitions_with_cells_that_do_not_fit():
    dd = pytest.importorskip("dask.dataframe", reason="Dask is not installed")
    da = pytest.importorskip("dask.array")
    column, other = table("number")
    frame = pd.DataFrame({"a": pd.array(column, dtype="string"), "b": other})
    frame.loc[AT, "a"] = SECRET
    source = open_source(dd.from_pandas(frame, npartitions=3), types={"a": "number"})
    assert integers(source) == expected(numbers("number"))
    rows = numbers("number")

    def spoiled(block, block_info=None):
        if block_info[0]["chunk-location"][0]:
            return block
        block = block.astype(object)
        block[AT, 0] = SECRET
        return block

    array = da.from_array(np.nan_to_num(rows), chunks=(20, 2)).map_blocks(spoiled, dtype=float)
    assert integers(open_source(array)) == expected(rows)


# --- what a release says ----------------------------------------------------------------------------------------------


def test_a_release_says_whether_it_tells_that_no_cell_was_bad():
    rows = np.random.default_rng(0).normal(size=(50, 2))
    told = "this release reveals that there were none"
    refusing, dropping = PrivatePCA(1, **FIT), PrivatePCA(1, **DROP)
    assert told in str(refusing.fit(rows).guarantee_)
    assert told in str(refusing.explain(rows).guarantee)
    assert told not in str(dropping.fit(rows).guarantee_)
