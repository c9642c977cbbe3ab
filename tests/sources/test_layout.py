"""Files as offices write them: declared marks, encodings and forms give the rows of the plain file, bit for bit."""

from __future__ import annotations

import bz2
import gzip
import json
import random
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pytest

from dpeigen import Ledger, PrivateCovariance, PrivatePCA
from dpeigen.sources import UnreadableRowsError, cells, csv_lines, open_source
from dpeigen.sources.files import columns_of
from dpeigen.sources.layout import Layout
from dpeigen.stats import BadRowsError

SECRET = "xyzzy-4111"
FIT = {"epsilon": 2.0, "bound": 1e5, "center": None, "method": "laplace"}
DROP = {**FIT, "missing": "drop"}
N = 200
RNG = np.random.default_rng(5)
AMOUNTS = (RNG.normal(size=N) * 5000).round(2)
HEIGHTS = RNG.normal(170, 9, size=N).round(1)
SEX = RNG.choice(["männlich", "weiblich"], size=N)
BORN = [f"{y}-{m:02}-{d:02}" for y, m, d in zip(RNG.integers(1930, 2010, N), RNG.integers(1, 13, N),
                                               RNG.integers(1, 29, N), strict=True)]  # fmt: skip
NAMES = ["betrag", "größe", "geschlecht", "geboren"]
DECLARED = {"categories": {"geschlecht": ["männlich", "weiblich"]}, "types": {"geboren": "date"}}


def rows_of(source):
    return np.concatenate([np.asarray(block) for block in source.blocks()])


def plain(folder):
    path = folder / "plain.csv"
    lines = [",".join(map(str, row)) for row in zip(AMOUNTS, HEIGHTS, SEX, BORN, strict=True)]
    path.write_text(",".join(NAMES) + "\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def german(number, thousands="."):
    return f"{number:,}".replace(",", "t").replace(".", ",").replace("t", thousands)


def office_lines(separator=";", thousands="."):
    dates = [f"{int(d)}.{int(m)}.{y}" for y, m, d in (text.split("-") for text in BORN)]
    amounts = [german(amount, thousands) for amount in AMOUNTS.tolist()]
    heights = [german(height) for height in HEIGHTS.tolist()]
    rows = zip(amounts, heights, SEX, dates, strict=True)
    return [separator.join(NAMES), *(separator.join(row) for row in rows)]


OFFICE = {"separator": ";", "decimal": ",", "thousands": ".", "date_format": "%d.%m.%Y"}


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_file_of_an_office_gives_the_release_of_its_plain_twin(encoding, end, tmp_path):
    path = tmp_path / "office.csv"
    path.write_bytes((end.join(office_lines()) + end).encode(encoding))
    twin = open_source(plain(tmp_path), **DECLARED)
    found = open_source(path, **DECLARED, **OFFICE, encoding=encoding)
    assert found.feature_names == twin.feature_names
    assert found.count_rows() == N
    np.testing.assert_array_equal(rows_of(found), rows_of(twin))
    first, second = (PrivatePCA(2, **FIT, random_state=4).fit(source).release_ for source in (found, twin))
    np.testing.assert_array_equal(first.components, second.components)
    np.testing.assert_array_equal(first.covariance, second.covariance)


def test_without_thousands_and_dates_the_decimal_comma_takes_the_quick_way(tmp_path, monkeypatch):
    from dpeigen.sources import csv_rows

    monkeypatch.setattr(csv_rows, "mended", lambda *_: pytest.fail("read a second time"))
    (tmp_path / "a.csv").write_text("a;b\n1,5;-2\n,5;3,\n")
    np.testing.assert_array_equal(
        rows_of(open_source(tmp_path / "a.csv", separator=";", decimal=",")), [[1.5, -2], [0.5, 3]]
    )


PLAIN_ROWS = [[1.5, 2.0], [-3.0, 4000.0]]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a|b\n1.5|2\n-3|4000\n", {"separator": "|"}),
        ("a\tb\n1.5\t2\n-3\t4000\n", {"separator": "tab"}),
        ("a\tb\n1.5\t2\n-3\t4000\n", {"separator": "\\t"}),
        ("a b\n1.5 2\n-3 4000\n", {"separator": " "}),
        ("a;b\n1,5;2\n-3;4e3\n", {"separator": ";", "decimal": ","}),
        ('a,b\n"1,5",2\n-3,4000\n', {"decimal": ","}),
        ('a,b\n1.5,2\n-3,"4,000"\n', {"thousands": ","}),
        ("a;b\n1,5;2\n-3;4.000,0\n", {"separator": ";", "decimal": ",", "thousands": "."}),
        ("a;b\n1.5;2\n-3;4 000\n", {"separator": ";", "decimal": ".", "thousands": " "}),
        ("a;b\n1.5;2\n-3;4\u00a0000\n", {"separator": ";", "decimal": ".", "thousands": " "}),
        ("a;b\n1.5;2\n-3;4\u202f000\n", {"separator": ";", "decimal": ".", "thousands": "\u00a0"}),
        ("a,b\n1.5,2\n-3,4'000\n", {"thousands": "'"}),
        ("a,b\n'1.5',2\n-3,'4000'\n", {"quote": "'"}),
        ("a,b,n\n1.5,2,x\"y\n-3,4000,\"\n", {"quote": "none", "skip": ["n"]}),
        ("survey of 2020\n\na,b\n1.5,2\n-3,4000\n", {"header": 3}),
        ("# made by x\n# on a day\na,b\n1.5,2\n-3,4000\n", {"comment": "#"}),
        ("# made\ntitle\n# by\na,b\n1.5,2\n-3,4000\n", {"comment": "#", "header": 2}),
        ("1.5,2\n-3,4000\n", {"header": 0, "names": ["a", "b"]}),
        ("\ufeff1.5,2\n-3,4000", {"header": 0, "names": ["a", "b"]}),
        ("a,id,b\n1.5,7,2\n-3,x,4000\n", {"skip": ["id"]}),
    ],
)  # fmt: skip
def test_each_declaration(text, options, tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
    path.write_text(text, encoding="utf-8")
    source = open_source(path, **options)
    assert source.feature_names == ["a", "b"]
    np.testing.assert_array_equal(rows_of(source), PLAIN_ROWS)
    for size in (1, 5):
        monkeypatch.setattr(csv_lines, "_PIECE", size)
        assert open_source(path, **options).count_rows() == 2
        np.testing.assert_array_equal(rows_of(open_source(path, **options)), PLAIN_ROWS)


@pytest.mark.parametrize(
    ("form", "text", "day", "second"),
    [
        ("%d.%m.%Y", "31.12.1999", 10956, 0),
        ("%d.%m.%Y", "1.2.1970", 31, 0),
        ("%d/%m/%y", "01/02/70", 31, 0),
        ("%m/%d/%y", "02/01/68", 35825, 0),
        ("%Y%m%d", "19700201", 31, 0),
        ("%d.%m.%Y %H:%M", "1.2.1970 7:05", 31, 7 * 3600 + 300),
        ("%d.%m.%Y %H:%M:%S", "01.02.1970 23:59:59", 31, 86399),
        ("%Hh%M on %d-%m-%Y", "07h05 on 01-02-1970", 31, 7 * 3600 + 300),
    ],
)
def test_forms_of_dates(form, text, day, second, tmp_path):
    (tmp_path / "a.csv").write_text(f"a,b\n{text},{text}\n")
    source = open_source(tmp_path / "a.csv", types={"a": "date", "b": "timestamp"}, date_format=form)
    np.testing.assert_array_equal(rows_of(source), [[day, day * 86400 + second]])


@pytest.mark.parametrize(
    ("kind", "cells_"),
    [
        ("date", ["31.02.2020", "29.02.2021", "32.1.2020", "1.13.2020", "2020-01-01", "1.1.20", "1.1.2020 ", SECRET,
                  "", "1.1.2020x", "１.1.2020", "1/1/2020", "00.01.2020"]),
        ("timestamp", ["1.1.2020 24:00", "1.1.2020 10:60", "1.1.2020 10", "31.04.2020 10:00", "", SECRET]),
        ("number", ["1.5", "1.00", "1.0000", "1.00.000", "1,5,5", "1,000.5", "1.000.00", ".500", "1 000", SECRET, "",
                    "1_0", "1,5 €", "١", "0x1", "--1", "1.000,5.000"]),
    ],
)  # fmt: skip
def test_cells_that_do_not_have_the_declared_form_are_bad_rows(kind, cells_, tmp_path):
    """In every piece of the file, whatever is beside them; "1.1.2020 " is fine, as blanks around are."""
    options = {**OFFICE, "date_format": ["%d.%m.%Y %H:%M", "%d.%m.%Y"]}
    good = {"date": "1.1.2020", "timestamp": "1.1.2020 10:00", "number": "1.234,5"}[kind]
    path = tmp_path / "rows.csv"

    def read(cell):
        path.write_text(f"a;b\n{good};1\n{cell};2\n{good};3\n", encoding="utf-8")
        return rows_of(open_source(path, types={"a": kind}, **options))

    fine = read(good)
    for cell in cells_:
        wanted = fine.copy()
        if cell.strip() != good:
            wanted[1, 0] = np.nan
        np.testing.assert_array_equal(read(cell), wanted, err_msg=cell)


def test_the_quick_and_the_slow_way_read_decimal_commas_alike(tmp_path):
    rng = random.Random(3)
    texts = ["".join(rng.choice("0123456789,.+-eE ") for _ in range(rng.randint(1, 6))) for _ in range(2000)]
    path = tmp_path / "rows.csv"
    convert = pyarrow.csv.ConvertOptions(column_types={"0": pa.float64()}, decimal_point=",")
    parse, names = pyarrow.csv.ParseOptions(delimiter=";"), pyarrow.csv.ReadOptions(column_names=["0", "1"])
    path.write_text("a;b\n" + "".join(f"{text};1\n" for text in [*texts, SECRET]))
    slow = rows_of(open_source(path, separator=";", decimal=","))[:-1, 0]

    def alone(text):
        try:
            quick = pyarrow.csv.read_csv(pa.BufferReader(f"{text};1\n".encode()), names, parse, convert)["0"]
        except pa.ArrowInvalid:
            return np.nan
        return cells.numbers(quick)[0]

    np.testing.assert_array_equal(slow, [alone(text) for text in texts])
    assert np.isfinite(slow).sum() > 100


# --- lines stay rows --------------------------------------------------------------------------------------------------

LINES = ["", ";", "x", "1;2;3", '"open;2', "# no comment", "'a'b;2", "1\r;2", "\ufeff1;2", "\x1b$B;2", "1\u2028;2"]


@pytest.mark.parametrize("options", [{}, {"quote": "'"}, {"quote": "none"}, {"comment": "#"}, {"thousands": "'"}])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16", "gbk", "shift_jis"])
def test_a_line_is_a_row_whatever_is_in_it(options, encoding, tmp_path):
    path = tmp_path / "rows.csv"
    for line in LINES:
        lines = ["a;b", "1;2", line, "3;4"]
        path.write_bytes(("\r\n".join(lines) + "\r\n").encode(encoding, "replace"))
        source = open_source(path, separator=";", decimal=".", encoding=encoding, **options)
        assert source.count_rows() == 3
        found = rows_of(source)
        np.testing.assert_array_equal(found[[0, 2]], [[1, 2], [3, 4]])
        assert not np.isfinite(found[1]).all()


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "ascii", "gbk", "shift_jis", "big5", "euc_jp", "utf-8"])
def test_bytes_that_are_no_text_stay_in_their_row(encoding, tmp_path):
    path = tmp_path / "rows.csv"
    for odd in (b"\x81", b"\xff", b"\xe4\x81", b"\x00", b"\x8f\xa1"):
        path.write_bytes(b"a;s;b\n1;f;2\n3;" + odd + b";4\n5;" + odd + b"\n6;m;7\n")
        source = open_source(path, separator=";", decimal=".", encoding=encoding, categories={"s": ["f", "m"]})
        wanted = [[1, 1, 0, 2], [3, np.nan, np.nan, 4], [np.nan] * 4, [6, 0, 1, 7]]
        found = rows_of(source)
        assert source.count_rows() == 4
        np.testing.assert_array_equal(found[[0, 2, 3]], np.array(wanted)[[0, 2, 3]])
        if encoding not in ("gbk", "shift_jis", "big5", "euc_jp"):  # there a half may take the next byte of its line
            np.testing.assert_array_equal(found[1], wanted[1])


# --- wrong declarations -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"separator": ";;"}, "'separator' parameter of open_source must be one ASCII character"),
        ({"separator": "a"}, "'separator'.*no letter or digit"),
        ({"separator": "\n"}, "'separator'"),
        ({"separator": ";", "quote": ";"}, "'quote'.*other than the separator"),
        ({"quote": "xx"}, "'quote'"),
        ({"decimal": ";"}, "'decimal'.*one of"),
        ({"thousands": "."}, "'thousands'.*not the decimal mark"),
        ({"thousands": "5"}, "'thousands'"),
        ({"encoding": "klingon"}, "'encoding'.*such as 'utf-8'"),
        ({"encoding": "iso2022_jp"}, "'encoding'.*write the file in UTF-8"),
        ({"encoding": "utf-7"}, "'encoding'"),
        ({"encoding": "cp037"}, "'encoding'"),
        ({"date_format": "%d.%m"}, "'date_format'.*such as '%d.%m.%Y'"),
        ({"date_format": "%d.%m.%Y %M"}, "'date_format'"),
        ({"date_format": "%d.%b.%Y"}, "'date_format'"),
        ({"date_format": ["%d.%m.%Y", 3]}, "'date_format'"),
        ({"header": -1}, "'header'"),
        ({"header": "first"}, "'header'"),
        ({"header": 0}, "'names'.*They are not made from the rows"),
        ({"names": ["a", "b"]}, "'names'.*header=0"),
        ({"header": 0, "names": ["a", "b"], "comment": "#"}, "'comment'.*every line is a row"),
        ({"sheet": "x"}, "'sheet'.*it has no sheets"),
        ({"skip": ["c"]}, "'skip'.*2 columns"),
        ({"skip": "a"}, "'skip'.*list"),
        ({"skip": ["a"], "columns": ["b"]}, "either columns or skip"),
        ({"seperator": ";"}, "no parameter 'seperator'. Did you mean 'separator'"),
    ],
)
def test_wrong_declarations_name_the_parameter_and_spend_nothing(options, match, tmp_path):
    said = set()
    for cell in ("1", SECRET):
        (tmp_path / "rows.csv").write_text(f"a,b\n{cell},2\n3,4\n")
        with pytest.raises((ValueError, TypeError), match=match) as caught:
            open_source(tmp_path / "rows.csv", **options)
        said.add((type(caught.value), str(caught.value)))
    assert len(said) == 1


@pytest.mark.parametrize(
    ("text", "options", "match"),
    [
        (b"a;b\n1;2\n", {}, r"separated by commas.*separator=';' \(--separator ';'\)"),
        (b"a\tb\n1\t2\n", {}, r"separator='tab'"),
        (b"a,b\n1,2\n", {"separator": ";", "decimal": "."}, "separated by semicolons.*separator=','"),
        (b"gr\xf6\xdfe,b\n1,2\n", {}, "in UTF-8.*encoding='cp1252'"),
        ("a,b\n1,2\n".encode("utf-16"), {}, "in UTF-8.*'utf-16'"),
        (b"title\n1,5;2\n", {"separator": ";", "decimal": ",", "header": 2}, r"header line \(header=2\).*not numbers"),
        (b"title\nx,31.12.1990\n", {"header": 2}, "must hold column names"),
        (b"a,b\n", {"header": 4}, "must hold column names"),
    ],
)
def test_a_header_says_what_to_declare(text, options, match, tmp_path):
    (tmp_path / "rows.csv").write_bytes(text)
    with pytest.raises(UnreadableRowsError, match=match) as caught:
        open_source(tmp_path / "rows.csv", **options)
    assert "1990" not in str(caught.value)


def test_a_wrong_decimal_mark_is_refused_alike_for_neighbours_and_nothing_is_spent(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=9.0, delta=0.0)
    said = set()
    for cell in ("1,5", SECRET):
        (tmp_path / "rows.csv").write_text(f"a;b\n{cell};2\n3,5;4\n")
        source = open_source(tmp_path / "rows.csv", separator=";", decimal=".")
        with pytest.raises(BadRowsError, match="nothing was spent") as caught:
            PrivateCovariance(**FIT, ledger=ledger).fit(source)
        said.add(str(caught.value))
        PrivateCovariance(**DROP).fit(open_source(tmp_path / "rows.csv", separator=";", decimal="."))
    assert len(said) == 1
    assert ledger.remaining().epsilon == 9.0


def test_declarations_are_for_files():
    with pytest.raises(ValueError, match="for paths of files only"):
        open_source(pa.table({"a": [1.0]}), separator=";", decimal=".")
    assert open_source(pa.table({"a": [1.0], "b": [2.0]}), skip=["a"]).feature_names == ["b"]
    assert Layout.of({}) is None


@pytest.mark.parametrize("ending", ["parquet", "npy"])
def test_other_files_say_how_they_are_written(ending, tmp_path):
    import pyarrow.parquet as pq

    path = tmp_path / f"rows.{ending}"
    pq.write_table(pa.table({"a": [1.0]}), path) if ending == "parquet" else np.save(path, np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"'separator'.*left out for 'rows\..*its format says"):
        open_source(path, separator=";", decimal=".")


# --- formats ----------------------------------------------------------------------------------------------------------

TABLE = {"a": [1.5, -2.0, None, 4.0], "s": ["f", "m", None, "secret"], "n": ["x", "y", "z", None]}
CATEGORIES = {"s": ["f", "m"]}
WANTED = [[1.5, 1, 0], [-2, 0, 1], [np.nan] * 3, [4, np.nan, np.nan]]
CSV = "a,s,n\n1.5,f,x\n-2.0,m,y\n,,z\n4.0,secret,\n"


def write(kind, folder):
    path = folder / f"rows.{kind}"
    if kind == "tsv":
        path.write_text(CSV.replace(",", "\t"))
    elif kind == "csv.gz":
        path.write_bytes(gzip.compress(CSV.encode()[:9]) + gzip.compress(CSV.encode()[9:]))
    elif kind == "csv.bz2":
        path.write_bytes(bz2.compress(CSV.encode()))
    elif kind == "csv.zst":
        path.write_bytes(pa.compress(CSV.encode(), codec="zstd", asbytes=True))
    elif kind == "orc":
        pyarrow.orc.write_table(pa.table(TABLE), path)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in pa.table(TABLE).to_pylist()))
    elif kind == "ndjson.gz":
        path.write_bytes(gzip.compress("".join(json.dumps(r) + "\n" for r in pa.table(TABLE).to_pylist()).encode()))
    else:
        book = pytest.importorskip("openpyxl").Workbook()
        for row in [list(TABLE), *zip(*TABLE.values(), strict=True)]:
            book.active.append(row)
        book.save(path)
    return path


KINDS = ["tsv", "csv.gz", "csv.bz2", "csv.zst", "orc", "jsonl", "ndjson.gz", "xlsx"]


@pytest.mark.parametrize("kind", KINDS)
def test_formats(kind, tmp_path):
    path = write(kind, tmp_path)
    source = open_source(path, columns=["a", "s"], categories=CATEGORIES)
    assert source.feature_names == ["a", "s=f", "s=m"]
    assert source.count_rows() == 4
    np.testing.assert_array_equal(rows_of(source), WANTED)
    if "json" not in kind:
        assert list(columns_of(path)) == ["a", "s", "n"]
        np.testing.assert_array_equal(rows_of(open_source(path, skip=["n"], categories=CATEGORIES)), WANTED)
    (tmp_path / "folder").mkdir()
    for name in ("1", "2"):
        (tmp_path / "folder" / f"{name}.{kind}").write_bytes(path.read_bytes())
    twice = rows_of(open_source(tmp_path / "folder", columns=["s", "a"], categories=CATEGORIES))
    np.testing.assert_array_equal(twice, np.array(WANTED * 2)[:, [1, 2, 0]])
    PrivateCovariance(**DROP).fit(source)


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_quote_nothing(kind, tmp_path):
    path = write(kind, tmp_path)
    whole = path.read_bytes()
    if kind in ("tsv", "jsonl"):
        return
    for broken in (whole[: len(whole) // 2], SECRET.encode() * 20):
        path.write_bytes(broken)
        with pytest.raises(UnreadableRowsError) as caught:
            rows_of(open_source(path, columns=["a"]))
        assert SECRET not in str(caught.value) + repr(caught.value.__context__)


def test_lines_of_json_are_rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    odd = ["", "x", "[1]", '{"a": 1}{"a": 2}', '{"a": 1', "null", '{"b": 1}', '{"a": "x"}', '{"a": [1]}', "[" * 9999,
           '{"a": NaN}', '{"a": 1e999}', '{"a": ' + "9" * 5000 + "}", '{"a": true, "a": {}}', "\ufeff{}"]  # fmt: skip
    for line in odd:
        path.write_text('{"a": 1}\n' + line + '\n{"a": "2.5", "z": 3}', encoding="utf-8")
        source = open_source(path, columns=["a"])
        assert source.count_rows() == 3
        found = rows_of(source)
        np.testing.assert_array_equal(found[[0, 2], 0], [1, 2.5])
        assert not np.isfinite(found[1, 0]), line
    with pytest.raises(ValueError, match=r"must be named.*--columns"):
        open_source(path)
    with pytest.raises(ValueError, match=r"'separator'.*JSON says"):
        open_source(path, columns=["a"], separator=";", decimal=".")


def test_sheets(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    import datetime

    book = openpyxl.Workbook()
    book.active.append(["nothing here"])
    sheet = book.create_sheet("Werte")
    day = datetime.datetime(1970, 1, 2, 0, 0, 1)
    rows = [["a title"], ["x", "code", "born", "ok"], [1.5, 1, day, True], ["2,5", "1", "2.1.1970", 0], [],
            [SECRET, 2.0, SECRET, 2], ["=1/0", "#N/A", 7, "true", "beside"], [day, "x", None, None]]  # fmt: skip
    for row in rows:
        sheet.append(row)
    book.save(tmp_path / "book.xlsx")
    options = {"types": {"born": "date", "ok": "bool"}, "categories": {"code": ["1", "2"]}}
    layout = {"header": 2, "decimal": ",", "date_format": "%d.%m.%Y"}
    nan = np.nan
    wanted = [[1.5, 1, 0, 1, 1], [2.5, 1, 0, 1, 0], [nan] * 5, [nan, 0, 1, nan, nan],
              [nan] * 4 + [1], [nan] * 5]  # fmt: skip
    for name in ("Werte", 2):
        source = open_source(tmp_path / "book.xlsx", sheet=name, **layout, **options)
        for _ in range(2):  # the second time from memory
            assert source.count_rows() == 6
            np.testing.assert_array_equal(rows_of(source), wanted)
    assert columns_of(tmp_path / "book.xlsx", Layout(sheet="Werte", header=2)) == dict.fromkeys(rows[1])
    for wrong in ("Zahlen", 3, 0):
        with pytest.raises(ValueError, match=r"'sheet'.*one of the 2 sheets of 'book\.xlsx'"):
            open_source(tmp_path / "book.xlsx", sheet=wrong)
    with pytest.raises(UnreadableRowsError, match=r"Row 3 of the sheet.*must hold column names.*--header 3"):
        open_source(tmp_path / "book.xlsx", sheet="Werte", header=3)


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_columns_below_a_title_are_looked_for_further_down(tmp_path, kind):
    """The title is the only name in the first line, and the refusal says what to do."""
    path = tmp_path / f"laboratory.{kind}"
    if kind == "csv":
        path.write_text("Laboratory 2026\nage,weight\n50,70\n60,80\n", encoding="utf-8")
    else:
        book = pytest.importorskip("openpyxl").Workbook()
        for row in (["Laboratory 2026"], ["age", "weight"], [50, 70], [60, 80]):
            book.active.append(row)
        book.save(path)
    with pytest.raises(ValueError, match=r"only column is 'Laboratory 2026'.*further down.*--header 3"):
        open_source(path, columns=["age", "weight"])
    np.testing.assert_array_equal(rows_of(open_source(path, columns=["age", "weight"], header=2)), [[50, 70], [60, 80]])


def test_a_date_that_no_calendar_has_warns_of_nothing(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["a", "b"])
    book.active.append([1e9, 1])
    book.active["A2"].number_format = "dd.mm.yyyy"
    book.save(tmp_path / "book.xlsx")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = rows_of(open_source(tmp_path / "book.xlsx", types={"a": "date"}))
    np.testing.assert_array_equal(found, [[np.nan, 1]])


def test_times_in_orc_files_are_refused_by_their_type(tmp_path):
    import datetime

    for year in (2000, 9999):
        times = pa.array([datetime.datetime(year, 1, 1)], pa.timestamp("us"))
        pyarrow.orc.write_table(pa.table({"a": [1.0], "t": times}), tmp_path / "rows.orc")
        with pytest.raises(ValueError, match=r"\['t'\] hold times in an ORC file"):
            open_source(tmp_path / "rows.orc", types={"t": "timestamp"})
        np.testing.assert_array_equal(rows_of(open_source(tmp_path / "rows.orc", skip=["t"])), [[1.0]])


def test_what_cannot_be_told(tmp_path):
    (tmp_path / "rows.parquet.gz").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"Cannot tell the format.*\.csv.*\.gz"):
        open_source(tmp_path / "rows.parquet.gz")
