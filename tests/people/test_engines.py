"""The same people on every engine: the same integers, and where rows come in an order, the same release."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpeigen import PrivateCovariance, PrivatePCA, PrivateRidge
from dpeigen.estimators.people import KnownPersonError, Roll
from dpeigen.privacy.randomness import randomness
from dpeigen.sources import BlockSource, open_source
from dpeigen.stats import Frame, Lattice, NormHistogram, RowSums, SecondMoment, SquareSums
from dpeigen.stats.lattice import LEVELS

from .conftest import NAMES, visits

TABLE = visits(400)
IN_ORDER = {
    "pandas": lambda folder: TABLE,
    "polars": lambda folder: pl.from_pandas(TABLE),
    "arrow": lambda folder: pa.Table.from_pandas(TABLE),
    "parquet": lambda folder: written(folder / "t.parquet", TABLE.to_parquet),
    "csv": lambda folder: written(folder / "t.csv", lambda path: TABLE.to_csv(path, index=False)),
    "feather": lambda folder: written(folder / "t.feather", TABLE.to_feather),
    "folder": lambda folder: parts(folder / "parts"),
}


def written(path, write):
    write(path)
    return str(path)


def parts(folder):
    """Rows of one person lie in several files."""
    folder.mkdir()
    for number in range(4):
        step = -(-len(TABLE) // 4)
        TABLE.iloc[number * step : (number + 1) * step].to_parquet(folder / f"{number}.parquet")
    return str(folder)


def lazy(folder):
    return pl.scan_parquet(IN_ORDER["parquet"](folder))


def dask(folder):
    return pytest.importorskip("dask.dataframe").from_pandas(TABLE, npartitions=5)


ENGINES = {**IN_ORDER, "lazy": lazy, "dask": dask}


def integers(source, max_rows=None, counted=None):
    """What the sums over all rows are, with weights; and where they are clipped together, the lengths of people."""
    source.max_rows = max_rows
    source.choose(randomness(None))
    if counted is not None:
        source.count_as(counted, randomness(None))
    lattice = Lattice(Frame(4), 5.0)
    found = [
        source.reduce(kind) for kind in (SecondMoment(lattice, LEVELS // 3), SquareSums(lattice), RowSums(lattice))
    ]
    lengths = [] if max_rows is None else source.reduce(NormHistogram(Frame(4))).counts
    return [found[0].augmented, found[1].squares, found[2].fine, [part.count for part in found], lengths]


@pytest.mark.parametrize(
    ("max_rows", "counted"), [(None, None), (8, None), (8, 3)]
)  # nobody has more: nothing is drawn
@pytest.mark.parametrize("engine", ENGINES)
def test_sums_are_the_same_integers(engine, max_rows, counted, tmp_path):
    expected = integers(open_source(TABLE, unit="patient_id"), max_rows, counted)
    found = integers(open_source(ENGINES[engine](tmp_path), unit="patient_id"), max_rows, counted)
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("engine", IN_ORDER)
def test_releases_are_the_same(engine, tmp_path):
    options = {"epsilon": 5.0, "delta": 1e-6, "unit": "patient_id", "random_state": 1}
    given = IN_ORDER[engine](tmp_path)
    expected, found = (PrivateCovariance(**options).fit(table).release_ for table in (TABLE, given))
    np.testing.assert_array_equal(expected.covariance, found.covariance)
    assert found.facts["feature_names"] == NAMES
    assert found.facts["n_rows"] == 400


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_fits_regresses_and_caps(engine, tmp_path):
    given = ENGINES[engine](tmp_path)
    options = {"epsilon": 30.0, "delta": 1e-6, "unit": "patient_id"}
    assert abs(PrivatePCA(1, **options).fit(given).components_[0, 0]) > 0.8
    assert PrivateRidge(**options).fit(given, "sugar").release_.unit == "patient_id"
    for relation in ("replace", "add_remove"):
        fitted = PrivatePCA(1, **options, max_rows=2, relation=relation, bound=12.0, method="gaussian").fit(given)
        assert fitted.explained_variance_[0] == pytest.approx(11.5, rel=0.4)


@pytest.mark.parametrize("engine", ["lazy", "dask"])
def test_rows_without_an_id_and_blanks_on_engines(engine, tmp_path):
    ids = ["a", "a ", "", None, "b", "  ", None, "b\t", "b\u00a0"]
    frame = pd.DataFrame({"x": np.arange(9.0), "who": ids})
    given = pl.from_pandas(frame).lazy()
    if engine == "dask":
        given = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3)
    source = open_source(given, unit="who")
    assert source.count_rows() == 7 == open_source(frame, unit="who").count_rows()
    source.choose(randomness(None))
    assert sum(block.people for block in source.blocks()) == 7


@pytest.mark.parametrize("odd", [b"\xff", "\ud800", "\x000.3", " 0.3", "\x00", 10**30])
def test_no_id_decides_on_dask_whether_a_fit_succeeds_or_who_has_none(odd):
    frames, dask = pytest.importorskip("dask.dataframe"), pytest.importorskip("dask")
    ids = [*(f"p{number}" for number in range(9)), odd, "p0", odd]
    ids[3] = None
    table = pd.DataFrame({"a": np.arange(12.0), "who": pd.Series(ids, dtype=object)})
    with dask.config.set({"dataframe.convert-string": False}):
        assert open_source(frames.from_pandas(table, npartitions=2), unit="who").count_rows() == 10


def test_ids_that_are_objects_in_polars_are_compared_by_their_values():
    """Arrow got the addresses of such cells, so every row was a person of its own."""
    cells = [uuid.UUID(int=number // 4) for number in range(40)]
    table = pl.DataFrame({"who": pl.Series(cells, dtype=pl.Object), "x": np.arange(40.0)})
    assert open_source(table, unit="who").count_rows() == 10
    assert open_source(table.select("x"), unit=table["who"]).count_rows() == 10
    people = Roll(randomness(None))
    people.newcomers(table["who"][:4], open_source(table.select("x")[:4]))
    people.take_in()
    with pytest.raises(KnownPersonError):
        people.newcomers(pl.Series([uuid.UUID(int=0)], dtype=pl.Object), open_source(table.select("x")[:1]))


def test_ids_without_a_text_of_their_own_are_one_person():
    """Their text would be their address, so every row would be a person of its own."""

    class Key:
        pass

    table = pd.DataFrame({"who": [1, 1, Key(), Key(), object(), object()], "x": np.arange(6.0)})
    assert open_source(table, unit="who").count_rows() == 3


def test_one_odd_id_in_polars_does_not_change_who_the_others_are():
    cells = [10**12 + number // 4 for number in range(40)]
    odd = pl.Series([*cells[:-1], 1j], strict=False)
    assert odd.dtype == pl.Object
    rows = pl.DataFrame({"x": np.arange(40.0)})
    assert open_source(rows, unit=odd).count_rows() == 11 == open_source(rows, unit=pl.Series(cells)).count_rows() + 1


@pytest.mark.parametrize("resolution", ["ns", "us", "s"])
def test_a_duration_is_one_id_in_every_partition_of_dask(resolution):
    """One odd id makes a partition one of objects, in which durations were written in another way."""
    delayed = pytest.importorskip("dask").delayed
    frames = pytest.importorskip("dask.dataframe")
    whose = pd.Series(pd.to_timedelta([1, 2, 3], unit="D")).astype(f"timedelta64[{resolution}]")
    typed = pd.DataFrame({"a": np.arange(3.0), "who": whose})
    mixed = typed.assign(who=pd.Series([*whose[:2], "x"], dtype=object))
    given = frames.from_delayed([delayed(typed), delayed(mixed)], meta=typed.iloc[:0], verify_meta=False)
    assert open_source(given, unit="who").count_rows() == 4


@pytest.mark.parametrize("max_rows", [None, 2])
@pytest.mark.parametrize("engine", ["dask", "lazy", "parquet"])
def test_every_pass_uses_the_same_rows_of_a_person(engine, max_rows, tmp_path):
    """Dask brings rows together in another order in each pass."""
    source = open_source(ENGINES[engine](tmp_path), unit="patient_id")
    source.max_rows = max_rows
    source.choose(randomness(None))
    if engine == "parquet":
        source.draw()
    used = set()
    for _ in range(6):
        blocks = [np.column_stack([block.rows, block.heads]) for block in source.blocks()]
        table = np.concatenate(blocks)
        used.add(table[np.lexsort(table.T)].tobytes())
    assert len(used) == 1


def test_bytes_are_ids_without_the_blanks_around_them_on_a_lazy_frame():
    ids = [b"\xff", b"\xfe", b"\xff ", b" \t\xff", b"\x02\x00", b"\x02", b"a b", b"a\n", b"a", b"", b" ", None]
    here = pa.table({"x": np.arange(float(len(ids))), "who": pa.array(ids, pa.binary())})
    lying = open_source(pl.from_arrow(here).lazy(), unit="who")
    assert lying.count_rows() == open_source(here, unit="who").count_rows() == 9


def test_lines_that_are_no_records_are_people_of_their_own(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('x,who\n1,a\n2,"a\n3,a\n4\n5,b\n', encoding="utf-8")
    source = open_source(path, unit="who")
    assert source.count_rows() == 4
    source.choose(randomness(None))
    assert sum(len(block) for block in source.blocks()) == 5


def test_dask_names_of_its_own_are_refused_as_columns():
    """Its values were replaced by positions of rows."""
    frames = pytest.importorskip("dask.dataframe", reason="Dask is not installed")
    table = pd.DataFrame({"who": [1, 1, 2], "x": [1.0, 2.0, 3.0], "__place__": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match=r"without a column named '__place__'.*Rename that column"):
        open_source(frames.from_pandas(table, npartitions=1), unit="who")


def test_a_partition_key_may_be_the_unit(tmp_path):
    for who in ("a", "b", "c"):
        folder = tmp_path / f"who={who}"
        folder.mkdir()
        pd.DataFrame({"x": [1.0, 2.0], "y": [0.0, 1.0]}).to_parquet(folder / "t.parquet")
    source = open_source(tmp_path, unit="who")
    assert source.feature_names == ["x", "y"]
    assert source.count_rows() == 3
    source.choose(randomness(None))
    assert [list(block.sizes) for block in source.blocks()] == [[2, 2]] * 3 or sum(map(len, source.blocks())) == 6


def test_ids_beside_blocks_and_where_there_is_no_order(tmp_path):
    rows, ids = TABLE[NAMES].to_numpy(), TABLE["patient_id"]
    blocks = BlockSource(lambda: (rows[at : at + 100] for at in range(0, len(rows), 100)))
    fitted = PrivatePCA(1, epsilon=5.0, delta=1e-6).fit(blocks, unit=ids)
    assert fitted.release_.facts["n_rows"] == 400
    with pytest.raises(ValueError, match="no fixed order"):
        PrivatePCA(1, epsilon=5.0).fit(lazy(tmp_path).select(NAMES), unit=ids)
    short = BlockSource(lambda: iter([rows[:100]]))
    with pytest.raises(ValueError, match="one id for each row"):
        PrivatePCA(1, epsilon=5.0, bound=9.0).fit(short, unit=ids)


def test_memory_of_a_large_file(tmp_path):
    """10⁶ rows of 10⁵ people: less than 50 MiB beyond a fit without a unit (500 for ten times as many)."""
    script = (
        "import sys, resource, warnings; warnings.simplefilter('ignore')\n"
        "from dpeigen import PrivatePCA\n"
        "from dpeigen.sources import open_source\n"
        "unit = 'who' if sys.argv[2] == 'unit' else None\n"
        "source = open_source(sys.argv[1], columns=['x', 'y'], unit=unit)\n"
        "PrivatePCA(1, epsilon=1.0, delta=1e-6, bound=5.0, method='gaussian').fit(source)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)\n"
    )
    rng = np.random.default_rng(0)
    path = tmp_path / "t.parquet"
    frame = pd.DataFrame(rng.normal(size=(10**6, 2)).astype(np.float32), columns=["x", "y"])
    frame.assign(who=rng.integers(0, 10**5, 10**6)).to_parquet(path, row_group_size=10**5)
    peak = {
        kind: int(
            subprocess.run([sys.executable, "-c", script, str(path), kind], capture_output=True, check=True).stdout
        )
        for kind in ("row", "unit")
    }
    assert peak["unit"] - peak["row"] < 50
    assert Path(path).exists()
