"""Whatever text stands in a cell, every reader makes of it what the others do, and of the other cells what it did.

So neighbouring tables that differ in one cell have the same kind of outcome under "drop" and "correct": a release, paid
for.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpeigen import Ledger, PrivateCovariance, PrivatePCA, PrivateRidge
from dpeigen.sources import open_source
from dpeigen.stats import BadRowsError

pd = pytest.importorskip("pandas")
GOOD = {"number": "1.5", "bool": "true", "date": "2000-02-29", "timestamp": "2000-02-29 12:30:00", "category": "f",
        "ordinal": "m", "limited": "1.5", "logarithm": "2"}  # fmt: skip
CATEGORIES = ["f", "m", "1"]
KINDS = {"category": {"categories": CATEGORIES}, "ordinal": {"levels": CATEGORIES}, "logarithm": {"transform": "log"},
         "limited": {"lower": -2, "upper": 50, "outside": "missing"}}  # fmt: skip
FIT = {"epsilon": 1.0, "bound": 1e6, "center": None, "method": "laplace"}

# --- garbage: any text of one line, and texts that are nearly what they should be -------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"), max_size=12)
NEARLY = st.text("0123456789+-.,eE:T/ _xXinfaNtrueFALSfm'\"", max_size=20)
DATES = st.builds("{:04}-{:02}-{:02}".format, st.integers(0, 10000), st.integers(0, 13), st.integers(0, 32))
TIMES = st.builds("{} {:02}:{:02}:{:02}".format, DATES, st.integers(0, 25), st.integers(0, 61), st.integers(0, 61))
NUMBERS = st.one_of(st.floats().map(str), st.integers().map(str), st.integers(-400, 400).map("1e{}".format))
GARBAGE = st.one_of(TEXT, NEARLY, DATES, TIMES, NUMBERS, st.sampled_from([*GOOD.values(), "2", "", "NA", "m", "\0"]))


# --- readers ----------------------------------------------------------------------------------------------------------


def csv_text(cells, separator=","):
    lines = ['"' + cell.replace('"', '""') + f'"{separator}{at}' for at, cell in enumerate(cells)]
    return f"a{separator}b\n" + "\n".join(lines) + "\n"


def csv(folder, cells):
    (folder / "t.csv").write_bytes(csv_text(cells).encode())
    return folder / "t.csv", {}


def tsv(folder, cells):
    (folder / "t.tsv").write_bytes(csv_text(cells, "\t").encode())
    return folder / "t.tsv", {}


def packed(folder, cells):
    (folder / "t.csv.zst").write_bytes(pa.compress(csv_text(cells).encode(), codec="zstd", asbytes=True))
    return folder / "t.csv.zst", {}


def utf16(folder, cells):
    (folder / "u.csv").write_bytes(csv_text(cells, ";").encode("utf-16"))
    return folder / "u.csv", {"separator": ";", "decimal": ".", "encoding": "utf-16"}


def written_by(write, name):
    def make(folder, cells):
        write(pa.table({"a": cells, "b": np.arange(len(cells))}), str(folder / name))
        return folder / name, {}

    return make


def jsonl(folder, cells):
    lines = [json.dumps({"a": cell, "b": at}) for at, cell in enumerate(cells)]
    (folder / "t.jsonl").write_text("\n".join(lines))
    return folder / "t.jsonl", {}


def xlsx(folder, cells):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["a", "b"])
    for at, cell in enumerate(cells):
        book.active.cell(at + 2, 1, cell).data_type = "s"  # a text, not a formula
        book.active.cell(at + 2, 2, at)
    book.save(folder / "t.xlsx")
    return folder / "t.xlsx", {}


def frame(kind):
    def make(_, cells):
        return pd.DataFrame({"a": pd.Series(cells, dtype=object).astype(kind), "b": np.arange(len(cells))}), {}

    return make


def dictionary(_, cells):
    return pa.table({"a": pa.array(cells).dictionary_encode(), "b": np.arange(len(cells))}), {}


def polars(_, cells):
    return pytest.importorskip("polars").DataFrame({"a": cells, "b": np.arange(len(cells))}), {}


def dask(_, cells):
    return pytest.importorskip("dask.dataframe").from_pandas(frame("string")(_, cells)[0], npartitions=2), {}


READERS = {
    "csv": csv,
    "tsv": tsv,
    "csv.zst": packed,
    "utf-16": utf16,
    "parquet": written_by(pq.write_table, "t.parquet"),
    "feather": written_by(pyarrow.feather.write_feather, "t.feather"),
    "orc": written_by(pyarrow.orc.write_table, "t.orc"),
    "jsonl": jsonl,
    "xlsx": xlsx,
    "dictionary": dictionary,
    "pandas text": frame("string"),
    "pandas objects": frame(object),
    "pandas categories": frame("category"),
    "polars": polars,
    "polars lazy": lambda _, cells: (polars(_, cells)[0].lazy(), {}),
    "dask": dask,
}
SLOW = {"xlsx": 3, "dask": 3}
CELLS = {"xlsx": lambda text: text.isprintable()}  # Excel's files hold no other characters


def opened(data, how, kind):
    said = {"type": "number", **KINDS[kind]} if kind in ("limited", "logarithm") else KINDS.get(kind, kind)
    return open_source(data, columns={"a": said, "b": None}, **how)


def read(data, how, kind):
    source = opened(data, how, kind)
    rows = np.concatenate([np.asarray(block) for block in source.blocks()])
    return np.where(np.isfinite(rows), rows, np.nan)


def alone(cell, kind):
    """What Arrow's reader makes of a cell that stands alone."""
    return read(pa.table({"a": [cell], "b": [0]}), {}, kind)[0, :-1]


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_reads_every_cell_alike_and_by_itself(reader, kind):
    @settings(max_examples=SLOW.get(reader, 9), deadline=None, derandomize=True, database=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.lists(GARBAGE.filter(CELLS.get(reader, lambda _: True)), max_size=15))
    def check(cells):
        cells = [GOOD[kind], *cells, GOOD[kind]]
        with tempfile.TemporaryDirectory() as folder:
            rows = read(*READERS[reader](Path(folder), cells), kind)
        assert len(rows) == len(cells)
        np.testing.assert_array_equal(rows[:, -1], np.arange(len(cells)))
        for cell, row in zip(cells, rows, strict=True):
            np.testing.assert_array_equal(row[:-1], alone(cell, kind), err_msg=repr(cell))

    check()


@pytest.mark.parametrize("make", [PrivateCovariance, PrivatePCA, PrivateRidge])
@pytest.mark.parametrize("reader", ["csv", "parquet", "jsonl", "xlsx", "pandas objects", "polars lazy"])
def test_neighbours_have_the_same_outcome_and_spend(reader, make, tmp_path):
    """Under "drop" and "correct" a release; under "refuse" one refusal, the same whatever the garbage is."""
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=1e6)
    arguments = (1,) if make is PrivatePCA else ()
    spent = set()
    refused = set()

    def fit(cell, kind, policy):
        data, how = READERS[reader](tmp_path, [GOOD[kind]] * 5 + [cell] + [GOOD[kind]] * 6)
        source = opened(data, how, kind)
        before = ledger.remaining().epsilon
        estimator = make(*arguments, **FIT, missing=policy, ledger=ledger)
        try:
            estimator.fit(source, "b") if make is PrivateRidge else estimator.fit(source)
        finally:
            after = before - ledger.remaining().epsilon
        return round(after, 6)

    @settings(max_examples=3, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(GARBAGE.filter(CELLS.get(reader, lambda _: True)), st.sampled_from(list(GOOD)))
    def check(cell, kind):
        spent.update(fit(text, kind, policy) for text in (GOOD[kind], cell) for policy in ("drop", "correct"))
        if not np.isfinite(alone(cell, kind)).all():
            with pytest.raises(BadRowsError) as caught:
                fit(cell, kind, "refuse")
            refused.add(str(caught.value))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check()
        with pytest.raises(BadRowsError) as caught:
            fit("no number", "number", "refuse")
    assert spent == {1.0}
    assert refused <= {str(caught.value)}
    assert {entry["state"] for entry in ledger.history()} == {"committed", "cancelled"}
