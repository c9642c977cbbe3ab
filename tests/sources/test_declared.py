"""Declarations of columns: what cells become, by a dictionary or by a table's own types, and which are refused."""

import datetime
import decimal
import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpeigen.sources import open_source
from dpeigen.sources.declared import Declared, declared
from dpeigen.sources.wording import label, spread_text, value_text

pd = pytest.importorskip("pandas")
nan = np.nan


def rows_of(source):
    return np.concatenate([np.asarray(block) for block in source.blocks()])


# --- what cells become ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "cells", "wanted"),
    [
        ({"levels": ["none", "mild", "severe"]}, ["mild", "severe", "none", "?", None], [1, 2, 0, nan, nan]),
        ({"type": "number", "transform": "log"}, ["1", "0", "-1", "x", "100"], [0, nan, nan, nan, math.log(100)]),
        ({"type": "number", "transform": "log", "lower": 1}, ["0", "-5", "x"], [0, 0, nan]),
        ({"type": "number", "transform": "log1p"}, ["0", "1", "-1"], [0, math.log1p(1), nan]),
        ({"type": "number", "transform": "asinh"}, ["0", "-5", "inf"], [0, math.asinh(-5), nan]),
        ({"type": "number", "transform": "signed-sqrt"}, ["9", "-9", "0"], [3, -3, 0]),
        (
            {"type": "number", "transform": "rank", "quantiles": [0, 10, 110]},
            ["-1", "5", "60", "999"],
            [0, 0.25, 0.75, 1],
        ),
        ({"type": "number", "lower": 0, "upper": 9}, ["-1", "5", "10", "inf"], [0, 5, 9, nan]),
        ({"type": "number", "lower": 0, "upper": 9, "outside": "missing"}, ["-1", "0", "9", "10"], [nan, 0, 9, nan]),
        ({"type": "number", "upper": 9, "outside": "missing"}, ["-1", "10"], [-1, nan]),
        ({"type": "date", "lower": "1970-01-01", "outside": "missing"}, ["1969-12-31", "1970-01-02"], [nan, 1]),
        ({"type": "bool"}, ["true", "2", "0", ""], [1, nan, 0, nan]),
        ({"type": "number", "missing_codes": [-99, 9.9, "n/a"]}, ["-99", "-99.0", "9.9", "n/a", "9"], [*[nan] * 4, 9]),
        ({"type": "number", "missing_codes": 0, "lower": 0, "upper": 9}, ["0", "-1", "12"], [nan, 0, 9]),
        ({"type": "number", "missing_codes": [-9], "transform": "asinh"}, ["-9", "0"], [nan, 0]),
        ({"type": "date", "missing_codes": ["1900-01-01"]}, ["1900-01-01", "1970-01-02"], [nan, 1]),
    ],
)
def test_cells_of_every_reader_become_the_same(said, cells, wanted, tmp_path):
    table = pa.table({"a": pa.array(cells, pa.string()), "b": np.arange(len(cells))})
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{c or ''},{b}\n" for b, c in enumerate(cells)))
    lines = [json.dumps({"a": cell, "b": at}) for at, cell in enumerate(cells)]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    pq.write_table(table, tmp_path / "t.parquet")
    polars = pytest.importorskip("polars").from_arrow(table)
    every = [
        table,
        table.to_pandas(),
        polars,
        polars.lazy(),
        *(tmp_path / f"t.{e}" for e in ("csv", "jsonl", "parquet")),
    ]
    for data in every:
        source = open_source(data, columns={"a": said, "b": None})
        assert source.feature_names == ["a", "b"]
        found = rows_of(source)[:, 0]
        np.testing.assert_allclose(np.where(np.isfinite(found), found, nan), wanted, rtol=1e-15)


def test_an_unknown_category_is_a_hole_in_every_indicator():
    source = open_source(pa.table({"a": ["f", "x", None]}), columns={"a": {"categories": ["f", "m"]}})
    np.testing.assert_array_equal(rows_of(source), [[1, 0], [nan, nan], [nan, nan]])


def test_a_transform_depends_on_its_number_alone():
    values = np.abs(np.random.default_rng(0).normal(size=1001)) + 0.1
    for name in ("log", "log1p", "asinh", "signed-sqrt"):
        said = Declared(transform=name)
        whole = said.from_numbers(values)
        for step in (1, 3, 8):
            parts = [said.from_numbers(values[at : at + step]) for at in range(0, len(values), step)]
            np.testing.assert_array_equal(np.concatenate(parts), whole)
        back = [said.inverse(value) for value in whole]
        np.testing.assert_allclose(back, values, rtol=1e-12)


# --- by the types of a table ------------------------------------------------------------------------------------------

TYPED = {
    "n": pd.Series([1, 2, None], dtype="Int64"),
    "ok": pd.Series([True, None, False], dtype="boolean"),
    "at": pd.Series(np.array(["1970-01-01T00:00:05", "NaT", "1970-01-02"], dtype="M8[ns]")),
    "day": pd.Series([datetime.date(1970, 1, 3), None, None], dtype=pd.ArrowDtype(pa.date32())),
    "price": pd.Series([decimal.Decimal("1.50"), None, None], dtype=pd.ArrowDtype(pa.decimal128(6, 2))),
    "pain": pd.Categorical(["mild", None, "none"], categories=["none", "mild"], ordered=True),
    "sex": pd.Categorical(["f", "m", None], categories=["f", "m", "x"]),
}


def test_types_of_a_data_frame():
    frame = pd.DataFrame(TYPED)
    source = open_source(frame, columns="schema")
    assert source.feature_names == ["n", "ok", "at", "day", "price", "pain", "sex=f", "sex=m", "sex=x"]
    wanted = [
        [1, 1, 5, 2, 1.5, 1, 1, 0, 0],
        [2, nan, nan, nan, nan, nan, 0, 1, 0],
        [nan, 0, 86400, nan, nan, 0, *[nan] * 3],
    ]
    np.testing.assert_array_equal(rows_of(source), wanted)
    few = open_source(frame, columns={"pain": "category", "sex": {"type": "ordinal"}})
    assert few.feature_names == ["pain=none", "pain=mild", "sex"]
    with pytest.raises(ValueError, match=r"at \(datetime64.*columns='schema'"):
        open_source(frame)  # nothing is taken from types unless the caller says that they are public


def test_types_of_other_tables(tmp_path):
    pl = pytest.importorskip("polars")
    days = [datetime.date(1970, 1, 2), None]
    frame = pl.DataFrame(
        {"e": ["f", None], "day": days, "ok": [True, None]}, schema_overrides={"e": pl.Enum(["f", "m"])}
    )
    for data in (frame, frame.lazy()):
        source = open_source(data, columns="schema")
        np.testing.assert_array_equal(rows_of(source), [[1, 0, 1, 1], [nan] * 4])
    dask = pytest.importorskip("dask.dataframe")
    typed = pd.DataFrame({"sex": pd.Categorical(["f", "m"]), "x": [1.0, 2.0]})
    source = open_source(dask.from_pandas(typed, npartitions=2), columns="schema")
    assert source.feature_names == ["sex=f", "sex=m", "x"]
    table = pa.table({"day": pa.array(days), "x": [1.0, 2.0]})
    pq.write_table(table, tmp_path / "t.parquet")
    for data in (table, tmp_path / "t.parquet"):
        np.testing.assert_array_equal(rows_of(open_source(data, columns="schema")), [[1, 1], [nan, 2]])


def test_lists_that_are_in_the_data_are_not_taken():
    pl = pytest.importorskip("polars")
    table = pa.table({"a": pa.array(["f", "m"]).dictionary_encode()})
    for data in (table, pl.DataFrame({"a": ["f", "m"]}, schema_overrides={"a": pl.Categorical})):
        with pytest.raises(ValueError, match="a \\("):
            open_source(data, columns="schema")
        with pytest.raises(ValueError, match="holds no list of categories"):
            open_source(data, columns={"a": "category"})
    dask = pytest.importorskip("dask.dataframe")
    unknown = dask.from_pandas(pd.DataFrame({"a": ["f", "m"]}), npartitions=1).astype({"a": "category"})
    with pytest.raises(ValueError, match="holds no list"):
        open_source(unknown, columns={"a": "category"})


def test_a_file_without_types_has_no_schema(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n")
    for columns in ("schema", {"a": "category"}):
        with pytest.raises(ValueError, match="types of their own"):
            open_source(tmp_path / "t.csv", columns=columns)


def test_all_other_columns(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,c\n1,10,3\n")
    source = open_source(tmp_path / "t.csv", columns={"b": {"transform": "log"}, ...: None}, skip=["c"])
    assert source.feature_names == ["a", "b"]
    np.testing.assert_allclose(rows_of(source), [[1, math.log(10)]])
    with pytest.raises(ValueError, match=r"'columns'.*names of some"):
        open_source(tmp_path / "t.csv", columns={"z": None, ...: None})


# --- wrong ones -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ({"categories": ["a"], "levels": ["b"]}, "'categories'.*left out where 'levels'"),
        ({"categories": ["a"], "type": "number"}, "'type'.*'category'"),
        ({"levels": ["a", "a"]}, "'levels'.*differ"),
        ({"levels": [1.0, math.nan]}, "'levels'.*numbers"),  # no file of a release could hold these two
        ({"categories": ["a", chr(0xD800)]}, "'categories'.*names"),
        ({"transform": "square"}, "'transform'.*'log'"),
        ({"transform": "rank"}, "'quantiles'.*increasing"),
        ({"quantiles": [1, 2]}, "'quantiles'"),
        ({"transform": "rank", "quantiles": [2, 1]}, "'quantiles'.*increasing"),
        ({"transform": "log", "lower": 0}, "'lower'.*more than 0"),
        ({"transform": "log", "type": "date"}, "'transform'.*left out"),
        ({"lower": 2, "upper": 1}, "lower < upper"),
        ({"outside": "missing"}, "'outside'.*left out"),
        ({"outside": "drop", "lower": 1}, "'outside'.*'clip', 'missing'"),
        ({"categories": ["a"], "lower": 1}, "'lower'.*left out"),
        ({"unit_of_measure": 3}, "'unit_of_measure'"),
        ({"missing_codes": ["-99"]}, "'missing_codes'.*numbers such as"),
        ({"missing_codes": [math.nan]}, "'missing_codes'.*numbers such as"),
        ({"missing_codes": [9], "categories": ["a"]}, "'missing_codes'.*not declared is a missing cell"),
        ({"missing_codes": [9], "type": "date"}, "'missing_codes'.*1900-01-01"),
        ({"category": ["f"]}, "Did you mean 'categories'"),
        (3, "'columns'.*dictionary"),
        ("text", "'types'.*'number'"),
    ],
)
def test_wrong_declarations_are_refused(said, match):
    with pytest.raises(ValueError, match=match):
        open_source(pa.table({"a": [1.0]}), columns={"a": said})


def test_declared_twice():
    with pytest.raises(ValueError, match="declared in 'columns' too"):
        open_source(pa.table({"a": ["x"]}), columns={"a": {"levels": ["x"]}}, categories={"a": ["x"]})


# --- in words ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "name", "center", "spread"),
    [
        ({"unit_of_measure": "cm"}, "a (cm)", "171 cm", "171 cm"),
        ("date", "a", "1970-06-21", "171 days"),
        ({"levels": ["no", "yes"]}, "a", "171.00 levels above no", "171 levels"),
        ({"transform": "log1p", "upper": 9}, "a (log1p)", "1.838e+74", "171 after log1p"),
        (None, "a", "171", "171"),
    ],
)
def test_columns_in_words(given, name, center, spread):
    said = declared("a", given)
    assert (label("a", said), value_text(said, 171.0), spread_text(said, 171.0)) == ([name], center, spread)
    assert declared("a", said.to_dict()) == said
    assert value_text(declared("a", "timestamp"), 1e300).endswith("1970-01-01")
    assert value_text(declared("a", {"categories": ["x"]}), 0.25) == "25.0%"
