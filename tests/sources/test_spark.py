"""Spark, classic and Connect: the integers of NumPy, refusals without a value, no RDD. Needs a Java runtime."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from dpeigen import Ledger, PrivateCovariance, PrivatePCA, PrivateRidge, PrivateScoreMap
from dpeigen.methods import Kendall
from dpeigen.privacy.randomness import randomness
from dpeigen.sources import UnreadableRowsError, open_source, spark
from dpeigen.stats import BadRowsError, Frame, Lattice, NormHistogram, RowSums, ScoreFrame, SecondMoment, SquareSums
from dpeigen.stats.holes import WHOLE, HoleCounts

pytest.importorskip("pyspark", reason="Spark's tests are left out: PySpark is not installed")
pd = pytest.importorskip("pandas")
if not shutil.which("java") and not os.environ.get("JAVA_HOME"):
    pytest.skip("Spark's tests are left out: there is no Java runtime", allow_module_level=True)

ROWS = np.random.default_rng(6).normal(size=(3000, 4)) * [1.0, 20.0, 0.1, 3.0]
NAMES = ["a", "b.x", "c`", "d e"]
FRAME = Frame(4, center=np.array([0.0, 1.0, 0.0, -1.0]))
SCORES = ScoreFrame(FRAME, np.eye(4)[:2], residual=True)
STATISTICS = {
    "moment": lambda: SecondMoment(Lattice(FRAME, 15.0), center_weight=500),
    "squares": lambda: SquareSums(Lattice(SCORES, 20.0)),
    "sums": lambda: RowSums(Lattice(FRAME, 40.0)),
    "norms": lambda: NormHistogram(SCORES),
}
FIT = {"epsilon": 5.0, "delta": 1e-6, "random_state": 1}
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    from pyspark.sql import SparkSession

    python = os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = (
        sys.executable
    )  # not the one on the path
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.pyspark.python", python).config("spark.pyspark.driver.python", python)
    builder = builder.config("spark.sql.shuffle.partitions", "4")
    builder = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Parquet, so that partitions are read by Spark itself."""
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pd.DataFrame(ROWS, columns=NAMES).assign(sex=["f", "m", "secret"] * 1000).to_parquet(path)
    return path


@pytest.fixture(scope="module")
def frame(session, path):
    return session.read.parquet(str(path)).repartition(3).cache()


def integers(statistic):
    kinds = ("gram", "total", "squares", "counts", "count")
    return [np.asarray(getattr(statistic, kind)) for kind in kinds if hasattr(statistic, kind)]


def same(first, second):
    for a, b in zip(integers(first), integers(second), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", STATISTICS)
def test_the_integers_of_numpy(frame, kind):
    source = open_source(frame, columns=NAMES)
    assert (source.n_features, source.feature_names) == (4, NAMES)
    same(source.reduce(STATISTICS[kind]()), STATISTICS[kind]().update(ROWS))


def test_hash_partitions_empty_partitions_and_adding_up_on_executors(frame, monkeypatch):
    monkeypatch.setattr(spark, "_LARGE", 0)
    lying = frame.repartition(5, "sex")  # three values in five partitions
    same(open_source(lying, columns=NAMES).reduce(STATISTICS["moment"]()), STATISTICS["moment"]().update(ROWS))
    nobody = open_source(frame.where("a > 1e9"), columns=NAMES)
    same(nobody.reduce(STATISTICS["moment"]()), STATISTICS["moment"]())
    assert nobody.count_rows() == 0


def test_rows_of_people_are_counted_by_spark(session):
    """The integers of pandas, rows without an id by themselves, and one row of each brought here."""
    who = [None if i % 97 == 0 else f"SECRET{i % 400}" + " \t"[i % 2] for i in range(len(ROWS))]
    table = pd.DataFrame(ROWS, columns=NAMES).assign(who=who)
    lying, here = open_source(session.createDataFrame(table), unit="who"), open_source(table, unit="who")
    assert lying.feature_names == NAMES
    assert lying.count_rows() == here.count_rows()
    for source in (lying, here):
        source.choose(randomness(None))
    found, expected = (source.reduce(STATISTICS["moment"]()) for source in (lying, here))
    np.testing.assert_array_equal(found.augmented, expected.augmented)
    for kind in ("squares", "sums"):  # lengths are counted of one row of each, drawn by either
        same(lying.reduce(STATISTICS[kind]()), here.reduce(STATISTICS[kind]()))
    each = np.concatenate(list(lying.one_each().blocks()))
    assert len(each) == here.count_rows()
    assert {tuple(row) for row in each} <= {tuple(row) for row in ROWS}


def test_spark_tells_apart_the_ids_that_pandas_does(session):
    ids = ["a", " a", "a\n", "a\u2028", "a \u2028", "a\u0085", "a \u0085", "\u00a0a", "A", "007", "7", "", "  ", None]
    table = pd.DataFrame({"x": np.arange(float(len(ids))), "who": ids})
    lying, here = open_source(session.createDataFrame(table), unit="who"), open_source(table, unit="who")
    assert lying.count_rows() == here.count_rows() == 12
    bare = [b"\xff", b"\xfe", b"\xff ", b"a\xff", b"a\xfe", b"\ta", b"a", b"\n"]  # no text in UTF-8
    table = pd.DataFrame({"x": np.arange(float(len(bare))), "who": bare})
    rows = [(float(x), bytearray(who)) for x, who in zip(table["x"], bare, strict=True)]
    lying = open_source(session.createDataFrame(rows, "x double, who binary"), unit="who")
    assert lying.count_rows() == open_source(table, unit="who").count_rows() == 6


def test_rows_of_people_are_clipped_together_by_spark(session):
    """The integers of pandas, though batches are so small that they cut people in two."""
    table = pd.DataFrame(ROWS, columns=NAMES).assign(who=[i % 400 for i in range(len(ROWS))])
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "13")
    try:
        found = []
        for source in (open_source(session.createDataFrame(table), unit="who"), open_source(table, unit="who")):
            source.max_rows = 8  # nobody has more
            source.choose(randomness(None))
            source.count_as(3, randomness(None))
            found.append([source.reduce(STATISTICS[kind]()) for kind in ("moment", "norms")])
    finally:
        session.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    for lying, here in zip(*found, strict=True):
        same(lying, here)


def test_rows_can_be_brought_here(frame):
    source = open_source(frame, columns=["a", "sex"], categories={"sex": ["m", "f"]})
    assert source.feature_names == ["a", "sex=m", "sex=f"]
    rows = np.concatenate(list(source.blocks()))
    assert rows.shape == (3000, 3)
    rows = rows[np.argsort(rows[:, 0])]
    order = np.argsort(ROWS[:, 0])
    np.testing.assert_array_equal(rows[:, 0], ROWS[order, 0])
    np.testing.assert_array_equal(rows[:, 1], np.where(order % 3 == 2, np.nan, order % 3 == 1))


SETTINGS = {
    "gaussian": {"method": "gaussian", "bound": 40.0},
    "private": {"method": "auto", "bound": "private"},
    "spatial-sign": {"method": "spatial-sign", "bound": None},
    "kendall-blocks": {"method": Kendall(design="blocks"), "bound": None},
    "pairs": {"method": "gaussian", "bound": 40.0, "center": "pairs"},
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_kind_of_method_runs(frame, setting):
    options = {**FIT, **SETTINGS[setting]}
    fitted = PrivatePCA(2, **options).fit(frame.select(*[f"`{n.replace('`', '``')}`" for n in NAMES]))
    assert fitted.release_.facts["n_rows"] == 3000
    if setting in ("gaussian", "private", "spatial-sign"):  # pairs are drawn anew
        np.testing.assert_array_equal(fitted.components_, PrivatePCA(2, **options).fit(ROWS).components_)


def test_ridge_and_add_remove(frame):
    data = frame.select("a", "`b.x`")
    options = {**FIT, "bound": 40.0}
    alike = PrivateRidge(1.0, **options).fit(pd.DataFrame(ROWS[:, :2], columns=NAMES[:2]), "a")
    np.testing.assert_array_equal(PrivateRidge(1.0, **options).fit(data, "a").coef_, alike.coef_)
    with pytest.raises(ValueError, match="no fixed order"):
        PrivateRidge(1.0, **options).fit(data, np.zeros(3000))
    fitted = PrivateCovariance(**options, relation="add_remove").fit(data)
    assert fitted.release_.facts["n_rows"] != 3000


# --- what goes wrong ----------------------------------------------------------------------------------------------


def refuse(data, tmp_path, error, match):
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=9.0, delta=1e-5)
    with pytest.raises(error, match=match) as caught:
        PrivateCovariance(**FIT, bound=40.0, relation="add_remove", ledger=ledger).fit(data)
    assert ledger.remaining().epsilon == 9.0
    chain, found = [], caught.value
    while found is not None:
        chain.append(str(found))
        found = found.__cause__ or found.__context__
    assert "secret" not in " ".join(chain)


def test_bad_rows(session, tmp_path):
    refuse(session.createDataFrame([(1.0, 2.0), (None, 3.0)], "a double, b double"), tmp_path, BadRowsError, "NaN")


def test_text_is_refused_by_its_type(frame):
    with pytest.raises(ValueError, match=r"must be numeric.*sex \(string\)") as caught:
        open_source(frame)
    assert "secret" not in str(caught.value)


def test_text_that_is_not_a_number(session, tmp_path):
    data = session.createDataFrame([("1.5",), ("secret",), ("1e3",)], "a string")
    refuse(open_source(data, types={"a": "number"}), tmp_path, BadRowsError, "count as NaN")
    rows = np.concatenate(list(open_source(data, types={"a": "number"}).blocks()))
    np.testing.assert_array_equal(np.sort(rows[:, 0]), [1.5, 1000.0, np.nan])
    lattice = Lattice(Frame(1, missing="drop"), 1e4)
    found = open_source(data, types={"a": "number"}).reduce(SecondMoment(lattice))
    wanted = SecondMoment(lattice).update(rows)
    assert (found.count, found.gram.tolist()) == (wanted.count, wanted.gram.tolist())
    holes = open_source(data, types={"a": "number"}).reduce(HoleCounts(Frame(1, missing="correct")))
    assert (holes.count, holes.together.tolist()) == (3, [[WHOLE]])


def test_a_damaged_file_among_sparks_own(session, path, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    pd.DataFrame({"a": [1.0, 2.0]}).to_parquet(folder / "1.parquet")
    data = session.read.parquet(str(folder))
    (folder / "1.parquet").write_bytes(b"PAR1secret" * 50)
    refuse(data, tmp_path, UnreadableRowsError, r"Spark could not compute the rows \(\w+\).*Nothing was spent")


def test_there_are_no_rdds():
    text = Path(spark.__file__).read_text()
    assert ".rdd" not in text
    assert "sparkContext" not in text


def run(script, **variables):
    """The lines a script prints, in a process of its own: sessions of different kinds cannot live side by side."""
    source = Path(spark.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, **variables}
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    found = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("found")]
    assert found, done.stderr[-2000:]
    return found[0]


@pytest.mark.nightly
def test_an_executor_killed_in_the_middle_changes_nothing(path, tmp_path):
    """Two executors, each a virtual machine of its own; one dies of SIGKILL while it is measuring."""
    import pyspark

    script = f"""
        import os
        import signal
        import warnings
        from pathlib import Path

        warnings.simplefilter("ignore")
        import numpy as np
        from pyspark.sql import SparkSession
        from dpeigen import Ledger, PrivateCovariance

        folder = Path({str(tmp_path)!r})

        class Deadly:
            def __call__(self, batches):
                from pyspark import TaskContext

                for batch in batches:
                    if TaskContext.get().partitionId() == 2 and not (folder / "killed").exists():
                        (folder / "killed").write_text("")
                        above = os.getpid()
                        while (found := Path(f"/proc/{{above}}/stat").read_text().rsplit(")", 1))[0][-4:] != "java":
                            above = int(found[1].split()[1])
                        os.kill(above, signal.SIGKILL)
                    yield batch

        builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.executor.memory", "512m")
        session = builder.config("spark.ui.enabled", "false").getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        frame = session.read.parquet({str(path)!r}).select("a", "d e").repartition(6).toDF("a", "d")
        frame = frame.mapInArrow(Deadly(), frame.schema)
        ledger = Ledger.create(folder / "ledger.db", epsilon=5.0, delta=1e-5)
        options = dict(epsilon=2.0, delta=1e-6, bound=40.0, method="gaussian", random_state=1, relation="add_remove")
        fitted = PrivateCovariance(**options, ledger=ledger).fit(frame)
        print("found", (folder / "killed").exists(), *fitted.covariance_.ravel())
        session.stop()
    """
    if not Path("/proc/self/stat").exists():
        pytest.skip("finding the virtual machine to kill needs Linux")
    home = str(Path(pyspark.__file__).parent)
    found = run(script, SPARK_HOME=home, SPARK_WORKER_DIR=str(tmp_path), SPARK_LOCAL_IP="127.0.0.1")
    options = {**FIT, "epsilon": 2.0, "bound": 40.0, "method": "gaussian", "relation": "add_remove"}
    alike = PrivateCovariance(**options).fit(ROWS[:, [0, 3]])
    assert found == ["True", *[str(v) for v in alike.covariance_.ravel()]]
    ledger = Ledger(tmp_path / "ledger.db")
    assert [entry["state"] for entry in ledger.history()] == ["committed"]
    assert ledger.remaining().epsilon == pytest.approx(3.0)


@pytest.mark.nightly
def test_spark_connect(path):
    import pyspark

    if int(pyspark.__version__.split(".")[0]) < 4:
        pytest.skip("Spark Connect's server comes with PySpark from version 4 on")
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio: pip install 'pyspark[connect]'")
    found = run(f"""
        import warnings
        warnings.simplefilter("ignore")
        import numpy as np
        from pyspark.sql import SparkSession
        from dpeigen.sources import open_source
        from dpeigen.stats import Frame, Lattice, SecondMoment
        session = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        frame = session.read.parquet({str(path)!r}).select("a", "d e").repartition(3)
        assert "connect" in type(frame).__module__
        source = open_source(frame)
        found = source.reduce(SecondMoment(Lattice(Frame(2), 4.0)))
        print("found", found.count, *found.gram.ravel(), sum(map(len, source.blocks())))
        session.stop()
    """)
    wanted = SecondMoment(Lattice(Frame(2), 4.0)).update(ROWS[:, [0, 3]])
    assert found == [str(v) for v in (3000, *wanted.gram.ravel(), 3000)]


def test_a_score_map_of_a_spark_frame(frame, path):
    release = PrivatePCA(2, bound=40.0, method="gaussian", **FIT).fit(open_source(path, columns=NAMES)).release_
    options = {"epsilon": 1.0, "label": "sex", "labels": ["f", "m"], "random_state": 3}
    here, there = (PrivateScoreMap(release, **options).fit(data).map_ for data in (path, frame))
    assert (here.counts == there.counts).all()
    assert (here.class_sums == there.class_sums).all()


GARBAGE = ["", "secret", "2", "1_000", "0x10", "nan", "-inf", "1e400", "１２", "1,5", "2020-13-01", "2021-02-29",
           "1\x00", "9" * 400, "NA", " 7 ", "yes", "true", "f", "2000-02-29", "2000-02-29 12:60", "\u2028", "'", '"',
           "+.5e1"]  # fmt: skip


KINDS = {"category": {"categories": ["f", "m"]}, "ordinal": {"levels": ["f", "m"]},
         "limited": {"type": "number", "lower": 0, "upper": 9, "outside": "missing"},
         "logarithm": {"type": "number", "transform": "log"}}  # fmt: skip


@pytest.mark.parametrize("kind", ["number", "bool", "date", "timestamp", *KINDS])
def test_garbage_in_cells_is_read_as_elsewhere(session, kind):
    import pyarrow as pa

    declared = {"columns": {"a": KINDS.get(kind, kind), "b": None}}
    cells = [*GARBAGE, None]
    found = open_source(session.createDataFrame([(cell, 1.0) for cell in cells], "a string, b double"), **declared)
    elsewhere = open_source(pa.table({"a": cells, "b": np.ones(len(cells))}), **declared)

    def integers(source):
        lattice = Lattice(Frame(source.n_features, missing="drop"), 1e9)
        moment = source.reduce(SecondMoment(lattice))
        return moment.count, moment.gram.tolist()

    assert integers(found) == integers(elsewhere)
    assert integers(elsewhere)[0] == len(cells)
