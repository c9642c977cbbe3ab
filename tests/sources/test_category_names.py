"""A cell is the same category in every reader, whatever type its column has there."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpeigen.sources import open_source

CASES = [
    (["yes", "no", "YES"], ["yes", "no"], [0, 1, None]),
    ([1, 2, 3], ["1", "2"], [0, 1, None]),
    ([1.0, 2.5, 3.0], ["1", "2.5"], [0, 1, None]),
    ([1, 2, 3], ["1.0", "02"], [None, None, None]),  # not as numbers are written
    ([True, False, True], ["true", "false"], [0, 1, 0]),
    ([True, False, True], ["TRUE", "False"], [0, 1, 0]),
    ([True, False, True], ["1", "0"], [None, None, None]),
    ([2**53 + 1, 2**60, 1], [str(2**53 + 1), "1"], [None, None, 1]),
]


def json_lines(folder: Path, cells):
    path = folder / "t.jsonl"
    path.write_text("".join(json.dumps({"c": cell, "z": 0}) + "\n" for cell in cells), encoding="utf-8")
    return path


def workbook(folder: Path, cells):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [["c", "z"], *([cell, 0] for cell in cells)]:
        book.active.append(row)
    book.save(folder / "t.xlsx")
    return folder / "t.xlsx"


READERS = {
    "jsonl": json_lines,
    "xlsx": workbook,
    "pandas": lambda _, cells: pd.DataFrame({"c": cells, "z": 0}),
    "objects": lambda _, cells: pd.DataFrame({"c": pd.Series(cells, dtype=object), "z": 0}),
    "category": lambda _, cells: pd.DataFrame({"c": pd.Categorical(cells), "z": 0}),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("cells", "listed", "wanted"), CASES)
def test_one_rule_for_all_readers(tmp_path, reader, cells, listed, wanted):
    data = READERS[reader](tmp_path, cells)
    if reader == "xlsx" and max(map(str, cells), key=len).isdigit() and len(str(cells[0])) > 15:
        pytest.skip("Excel itself holds 15 digits")
    rows = np.concatenate(list(open_source(data, columns={"c": {"categories": listed}, "z": None}).blocks()))
    for row, at in zip(rows[:, : len(listed)], wanted, strict=True):
        assert np.isnan(row).all() if at is None else row.tolist() == [float(j == at) for j in range(len(listed))]


@pytest.mark.parametrize("key", ["categories", "levels"])
def test_typed_tables_say_that_the_quotes_are_the_cause(tmp_path, key):
    pq.write_table(pa.table({"code": [1, 2, 3], "ok": [True, False, True], "z": [0.0, 1, 2]}), tmp_path / "t.parquet")
    with pytest.raises(
        ValueError, match=rf"'code' holds numbers \(int64\), and its {key} are texts, in quotes"
    ) as caught:
        open_source(tmp_path / "t.parquet", columns={"code": {key: ["1", "2"]}, "z": None})
    assert f"without quotes, as in {key} = [1, 2, 3]" in str(caught.value)
    with pytest.raises(ValueError, match=r"'ok' holds truth values .* Declare type='bool'"):
        open_source(tmp_path / "t.parquet", columns={"ok": {key: ["true", "false"]}, "z": None})
    open_source(tmp_path / "t.parquet", columns={"code": {key: [1, 2]}, "z": None})
