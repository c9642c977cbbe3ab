"""One odd cell changes its own row only: not how others are read, how many columns there are, or if a fit works."""

from __future__ import annotations

import warnings
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpeigen import Ledger, PrivateCovariance, PrivatePCA, PrivateRidge, PrivateScoreMap
from dpeigen.sources import BlockSource, objects, open_source

ROWS = np.random.default_rng(0).normal(size=(60, 2))
FIT = {"epsilon": 50.0, "bound": 4.0, "center": None, "random_state": 0}
DROPPED = {**FIT, "missing": "drop"}


def covariance(data, **options):
    return PrivateCovariance(**{**DROPPED, **options}).fit(data).covariance_


def with_hole(row=3):
    holed = ROWS.copy()
    holed[row, 1] = np.nan
    return covariance(holed)


def frame_with(cell, names, dtype):
    column = [str(value) for value in ROWS[:, 1]]
    column[3] = cell
    return pd.DataFrame({names[0]: ROWS[:, 0], names[1]: pd.Series(column, dtype=dtype)})


@pytest.mark.parametrize("dtype", ["string", "str", "string[pyarrow]", object])
@pytest.mark.parametrize("names", [("a", "b"), (0, 1)], ids=["named", "numbered"])
@pytest.mark.parametrize("cell", ["abc", None, "1_0", ""])
def test_a_word_in_a_text_column_of_pandas_is_a_bad_row(dtype, names, cell):
    np.testing.assert_array_equal(covariance(frame_with(cell, names, dtype)), with_hole())


def test_a_refused_text_column_is_on_the_ledgers_record(tmp_path):
    ledger = Ledger.create(tmp_path / "study.ledger", epsilon=60.0)
    for names in (("a", "b"), (0, 1)):
        with pytest.raises(ValueError, match="othing was spent"):
            PrivateCovariance(**FIT, ledger=ledger).fit(frame_with("abc", names, "string"))
    assert [entry["state"] for entry in ledger.history()] == ["cancelled"] * 2


def test_a_chunk_of_a_stream_with_a_word_is_taken():
    pca = PrivatePCA(1, epsilon=4.0, delta=1e-5, method="oja", bound=4.0, center=None, missing="drop")
    pca.partial_fit(frame_with("1.5", ("a", "b"), "string"))
    pca.partial_fit(frame_with("abc", ("a", "b"), "string"))


@pytest.mark.parametrize(
    "entry", [[0.5, 1.0], [], "abc", None, object()], ids=["two", "none", "word", "None", "object"]
)
@pytest.mark.parametrize("place", [0, 1])
def test_an_odd_target_changes_its_own_row_only(entry, place):
    y = ROWS[:, 0].tolist()
    holed = np.array(y)
    holed[place], y[place] = np.nan, entry
    found, wanted = (PrivateRidge(**DROPPED).fit(ROWS, target).coef_ for target in (y, holed))
    np.testing.assert_array_equal(found, wanted)


def test_a_target_in_a_list_of_its_own_is_itself():
    y = ROWS[:, 0].tolist()
    wanted = PrivateRidge(**DROPPED).fit(ROWS, y).coef_
    y[0] = [y[0]]
    np.testing.assert_array_equal(PrivateRidge(**DROPPED).fit(ROWS, y).coef_, wanted)


@pytest.mark.parametrize("row", [[1.0], [1.0, 2.0, 3.0], None, 3.0, "abc"], ids=str)
@pytest.mark.parametrize("place", [0, 3])
def test_an_odd_row_of_a_list_is_a_bad_row_wherever_it_stands(row, place):
    listed = ROWS.tolist()
    listed[place] = row
    np.testing.assert_array_equal(covariance(listed), with_hole(place))
    for relation in ("replace", "add_remove"):
        blocks = BlockSource(lambda: iter([listed[:1], listed[1:]]), n_features=2, n_rows=60)
        holed = ROWS.copy()
        holed[place] = np.nan
        np.testing.assert_array_equal(covariance(blocks, relation=relation), covariance(holed, relation=relation))


@pytest.mark.parametrize("row", [[1.0], None])
def test_a_stream_knows_its_columns(row):
    pca = PrivatePCA(1, epsilon=4.0, delta=1e-5, method="oja", bound=4.0, center=None, missing="drop")
    pca.partial_fit(ROWS)
    pca.partial_fit([row])
    assert pca.n_features_in_ == 2


@pytest.mark.parametrize("cell", [object(), [1.0], "x"], ids=["object", "list", "text"])
def test_an_odd_cell_of_a_polars_block_is_one_bad_row(cell):
    pl = pytest.importorskip("polars")
    column = [*ROWS[:3, 1].tolist(), cell, *ROWS[4:, 1].tolist()]
    frame = pl.DataFrame({"a": ROWS[:, 0], "b": pl.Series(column, dtype=pl.Object)})
    np.testing.assert_array_equal(covariance(BlockSource(lambda: iter([frame]), n_rows=60)), with_hole())


@pytest.mark.parametrize("cell", [2**70, -(2**65), 2**127 - 1])
def test_a_long_integer_of_a_polars_block_is_itself(cell):
    """Polars gives its column a type of 128 bits, which Arrow does not have."""
    pl = pytest.importorskip("polars")
    column = [*range(3), cell, *range(56)]
    frame = pl.DataFrame({"a": ROWS[:, 0], "b": pl.Series(column, dtype=pl.Int128)})
    array = np.column_stack([ROWS[:, 0], np.array(column, dtype=float)])
    found, plain = (
        covariance(BlockSource(lambda block=block: iter([block]), n_rows=60, n_features=2)) for block in (frame, array)
    )
    np.testing.assert_array_equal(found, plain)


class Unwilling(float):
    def __float__(self):
        raise RuntimeError("secret")


def test_a_cell_whose_own_code_fails_is_a_bad_row():
    listed = [[a, b] for a, b in ROWS.tolist()]
    listed[3][1] = Unwilling(1.0)
    np.testing.assert_array_equal(covariance(listed), with_hole())


def test_labels_are_not_matched_to_rows_without_an_order(tmp_path):
    """A row lies in the folder of its key: another key moves it, and every label after it."""
    for key in ("x", "y"):
        (tmp_path / f"g={key}").mkdir()
        pq.write_table(pa.table({"a": ROWS[:30, 0], "b": ROWS[:30, 1]}), tmp_path / f"g={key}" / "rows.parquet")
    plane = PrivatePCA(2, **FIT).fit(pd.DataFrame(ROWS, columns=["a", "b"])).release_
    rows = open_source(tmp_path, columns=["a", "b"])
    with pytest.raises(ValueError, match="no fixed order"):
        PrivateScoreMap(plane, epsilon=1.0, labels=["u", "v"], random_state=0).fit(rows, ["u", "v"] * 30)


# --- warnings -----------------------------------------------------------------------------------------------------


def warnings_of(cell, shape):
    """What a fit warns of where one cell of a table of Python objects is this one."""
    rows = [list(row) for row in ROWS.tolist()]
    rows[3][1] = cell
    tables = {
        "lists": rows,
        "blocks": BlockSource([rows[:30], rows[30:]]),
        "objects": np.array(rows, dtype=object),
        "frame": pd.DataFrame(rows, columns=["a", "b"], dtype=object),
    }
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        covariance(tables[shape])
    return [(kind.category, str(kind.message)) for kind in said]


SHAPES = ["lists", "blocks", "objects", "frame"]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_masked_cell_gives_no_warning_of_its_own(shape):
    """NumPy warns of each masked cell that becomes a number, which would count them."""
    assert warnings_of(np.ma.masked, shape) == warnings_of(None, shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_warning_of_a_masked_cell_would_be_seen(shape, monkeypatch):
    """Planted: warnings of cells are passed on."""
    monkeypatch.setattr(objects, "_quiet", nullcontext)
    assert any("masked" in text for _, text in warnings_of(np.ma.masked, shape))


@pytest.mark.parametrize("cell", ["x", ()])
def test_a_column_of_categories_is_refused_in_the_same_words_whatever_they_are(cell):
    """pandas cannot hash the type of a column whose categories are a tuple and a number."""
    column = pd.Series([cell, *ROWS[1:, 0].tolist()], dtype=object).astype("category")
    with pytest.raises(ValueError, match="Columns must be numeric"):
        covariance(pd.DataFrame({"a": column, "b": ROWS[:, 1]}))


LONG = 99999999999999999999  # beyond 64 bits: Polars gives its column a type that Arrow lacks
OF_POLARS = [lambda frame: frame, lambda frame: frame.lazy()]


def whole_numbers(cell):
    polars = pytest.importorskip("polars")
    rows = (10 * np.random.default_rng(0).normal(size=(400, 3))).astype(int).astype(object)
    rows[7, 1] = cell
    columns = {name: polars.Series(name, rows[:, j].tolist(), strict=False) for j, name in enumerate("abc")}
    return polars.DataFrame(columns)


@pytest.mark.parametrize("given", OF_POLARS, ids=["frame", "query"])
def test_a_long_integer_of_polars_is_a_number(given):
    frame = whole_numbers(LONG)
    assert str(frame.schema["b"]) in ("Int128", "UInt128")
    with np.errstate(over="ignore"):
        found = np.concatenate(list(open_source(given(frame)).blocks()))
    assert found[7, 1] == float(LONG)
    np.testing.assert_array_equal(found[:, 0], frame["a"].to_numpy())
    options = {"epsilon": 100.0, "delta": 1e-5, "missing": "correct", "relation": "add_remove", "random_state": 1}
    PrivateCovariance(**options).fit(given(frame))


@pytest.mark.parametrize("given", OF_POLARS, ids=["frame", "query"])
def test_a_long_id_of_polars_is_a_person_of_its_own(given):
    """In double precision two of the ids would be the same."""
    polars = pytest.importorskip("polars")
    ids = [LONG, LONG + 1, 5, 5, None, None]
    frame = polars.DataFrame({"who": polars.Series("who", ids, strict=False), "x": np.arange(6.0), "y": np.ones(6)})
    assert open_source(given(frame), unit="who").count_rows() == 5


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_one_cell_of_a_target_does_not_decide_its_type(kind):
    rows = np.random.default_rng(0).normal(size=(300, 2))
    target = (10 * rows[:, 0]).astype(int).tolist()
    if kind == "pandas":
        target[7] = 1 + 2j
        target = pd.Series(target)
        assert target.dtype.kind == "c"
    else:
        target[7] = LONG
        target = pytest.importorskip("polars").Series(target, strict=False)
    options = {"epsilon": 100.0, "delta": 1e-5, "missing": "correct", "random_state": 1}
    PrivateRidge(**options).fit(rows, target)


def test_a_complex_cell_of_pandas_is_a_missing_one():
    frame = pd.DataFrame(ROWS, columns=["a", "b"]).astype({"b": complex})
    frame.iloc[3, 1] = 1 + 2j
    np.testing.assert_array_equal(covariance(frame), with_hole())


def test_a_cell_of_bytes_in_a_block_of_numpy_is_one_bad_cell():
    """NumPy writes all other cells of such a block as bytes, and none of them was a number any more."""
    rows = ROWS.tolist()
    rows[3][1] = b"x"
    block = np.array(rows)
    assert block.dtype.kind == "S"
    np.testing.assert_array_equal(covariance(BlockSource([block], n_rows=60, n_features=2)), with_hole())


DECLARED = [
    {"type": "category", "categories": ["1", "2"]},
    {"type": "category", "categories": [1, 2]},
    {"type": "ordinal", "levels": ["1", "2", "3"]},
    {"type": "bool"},
    {"type": "date"},
    {"type": "number", "missing_codes": [2]},
]


@pytest.mark.parametrize("said", DECLARED, ids=lambda said: "-".join(map(str, said.values())))
@pytest.mark.parametrize("cell", [1j, 1 + 0j, complex("nan")])
def test_a_complex_cell_of_pandas_does_not_change_what_other_cells_mean(cell, said):
    """pandas makes the column complex, and text names of categories were then found in no row."""
    cells = [1.0, 2.0, 3.0, 0.0, np.nan] * 4

    def rows(first):
        frame = pd.DataFrame({"a": [first, *cells[1:]], "b": np.arange(20.0)})
        return np.concatenate(list(open_source(frame, columns={"a": said, "b": None}).blocks()))

    assert pd.Series([cell, *cells[1:]]).dtype.kind == "c"
    np.testing.assert_array_equal(rows(cell)[1:], rows(1.0)[1:])


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_one_cell_of_a_target_in_a_frame_does_not_decide_whether_a_fit_works(kind):
    rows = np.random.default_rng(0).normal(size=(300, 2))
    options = {"epsilon": 100.0, "delta": 1e-5, "missing": "correct", "random_state": 1}

    def heard(cell):
        target = (10 * rows[:, 0]).astype(int).tolist()
        target[7] = cell
        if kind == "pandas":
            frame = pd.DataFrame({"y": target})
        else:
            polars = pytest.importorskip("polars")
            frame = polars.DataFrame({"y": polars.Series(target, strict=False)})
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            PrivateRidge(**options).fit(rows, frame)
        return [str(warning.message) for warning in caught]

    assert heard(1 + 2j if kind == "pandas" else LONG) == heard(3)


def test_a_complex_id_of_pandas_is_a_person_of_its_own():
    frame = pd.DataFrame({"who": [1, 1, 2, 2 + 1j, 2 + 1j, np.nan], "x": np.arange(6.0), "y": np.ones(6)})
    assert frame["who"].dtype.kind == "c"
    assert open_source(frame, unit="who").count_rows() == 4
    assert open_source(frame.astype({"who": object}), unit="who").count_rows() == 4


@pytest.mark.parametrize("name", ["__order__", "__whose__", "__number__"])
def test_names_that_a_query_adds_are_refused_as_columns(name):
    polars = pytest.importorskip("polars")
    query = polars.LazyFrame({"who": [1, 1, 2], "x": [1.0, 2.0, 3.0], name: [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match=f"without a column named '{name}'"):
        open_source(query, unit="who")
