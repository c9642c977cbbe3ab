"""`compare`: public data only, exact errors, the same numbers in any order, and no cell lost or run twice."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from dpeigen import PrivatePCA
from dpeigen.curator import Purpose
from dpeigen.evaluation import METRICS, Synthetic, compare, projection_distance, sin_theta
from dpeigen.evaluation import cells as cells_module
from dpeigen.evaluation.store import OtherSettingError
from dpeigen.methods import Gaussian, Method
from dpeigen.privacy import PureCost
from dpeigen.privacy.randomness import derived_generator

MADE = Synthetic("spiked", rows=600, columns=5, spikes=2, strength=8.0)
CALL = {"epsilons": [1.0, 4.0], "n_components": 2, "repetitions": 3, "delta": 1e-6, "bound": 10.0, "center": None}
METHODS = ["gaussian", "spatial-sign"]


def table(n: int = 400, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 4)) * [3.0, 2.0, 1.0, 0.5] + [1.0, 0.0, -1.0, 0.0]


# --- public data only -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [table(), [[1.0, 2.0], [3.0, 5.0]], "secret.csv"])
def test_a_table_that_is_not_declared_public_is_refused_unread(data):
    """The file does not exist: it is not even looked for."""
    with pytest.raises(ValueError, match=r"'public' parameter of compare must be True.*private data"):
        compare(data, epsilons=[1.0])


def test_public_must_be_said_plainly():
    with pytest.raises(TypeError, match="'public'"):
        compare(table(), epsilons=[1.0], public="yes")


# --- exact errors ---------------------------------------------------------------------------------------------------


def test_errors_are_those_of_a_fit_by_hand():
    rows, seed = table(), 5
    found = compare(rows, public=True, methods="gaussian", seed=seed, workers=1, **CALL).table.to_pylist()
    truth = np.linalg.eigh(rows.T @ rows / len(rows))[1].T[::-1][:2]  # the centre is public: 0
    for row in found:
        if row["method"] == "gaussian":
            stream = derived_generator(seed, "gaussian", row["epsilon"], row["repetition"])
            options = {"delta": 1e-6, "bound": 10.0, "center": None, "method": "gaussian"}
            fitted = PrivatePCA(2, epsilon=row["epsilon"], random_state=stream, **options).fit(rows)
            assert row["sin_theta"] == pytest.approx(sin_theta(fitted.components_, truth), rel=1e-9)
            assert row["projection_distance"] == pytest.approx(projection_distance(fitted.components_, truth), rel=1e-9)
            assert (row["spent_epsilon"], row["spent_delta"]) == (row["epsilon"], 1e-6)


@pytest.mark.parametrize("center", [None, "private", np.array([1.0, 0.0, 0.0, 0.0])])
def test_the_truth_is_about_the_same_centre_as_the_estimate(center):
    """At a huge ε the covariance of every method that clips nothing is the truth."""
    call = {"methods": "gaussian", "epsilons": [100.0], "delta": 1e-6, "bound": 30.0, "repetitions": 1}
    rows = compare(table(40_000), public=True, seed=0, workers=1, center=center, **call).table.to_pylist()
    assert rows[0]["relative_frobenius"] < 0.01
    made = Synthetic("power", rows=100_000, columns=4, offset=2.0)
    center = np.full(4, 2.0) if isinstance(center, np.ndarray) else center
    rows = compare(made, seed=0, workers=1, center=center, **call).table.to_pylist()
    assert rows[0]["relative_frobenius"] < 0.05  # that of a sample


def test_a_whole_covariance_has_one_error():
    found = compare(
        table(), public=True, methods="gaussian", epsilons=[1.0], delta=1e-6, bound=10.0, repetitions=1, workers=1
    )
    assert found.metrics == ("relative_frobenius",)
    row = found.table.to_pylist()[0]
    assert row["relative_frobenius"] > 0
    assert all(row[metric] is None for metric in METRICS[:3])


def test_the_floor_is_the_error_without_privacy():
    """Of a sample against its distribution: it falls with the root of the rows. False alarms: below 1e-6."""
    few, many = (
        compare(Synthetic("spiked", rows=n, columns=5), methods="gaussian", epsilons=[1.0], delta=1e-6, bound=9.0,
                repetitions=30, n_components=3, seed=1, workers=1)
        for n in (400, 6400)
    )  # fmt: skip
    floors = [found.summary()[-1] for found in (few, many)]
    assert [floor["method"] for floor in floors] == ["non-private"] * 2
    ratio = floors[0]["sin_theta"]["median"] / floors[1]["sin_theta"]["median"]
    assert 2.5 < ratio < 6.5
    assert floors[0]["sin_theta"]["median"] < few.summary()[0]["sin_theta"]["median"]


# --- a setting that a method refuses --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Broken(Method):
    name = "broken"
    reference = "none"

    def shares(self, task):
        return {Purpose.MOMENT: PureCost(task.budget.epsilon)}

    def estimate(self, curator, task):
        raise RuntimeError("no such luck")


def test_refusals_and_failures_are_rows_with_reasons():
    methods = {"gaussian": "gaussian", "pure": "matrix-laplace", "broken": Broken()}
    call = CALL | {"delta": 0.0, "repetitions": 2, "epsilons": [1.0]}
    found = compare(MADE, methods=methods, seed=0, workers=1, **call)
    status = {row["method"]: (row["status"], row["reason"]) for row in found.table.to_pylist()}
    assert status["pure"] == ("done", None)
    assert status["gaussian"][0] == "refused"
    assert "'delta'" in status["gaussian"][1]
    assert status["broken"] == ("failed", "RuntimeError: no such luck")
    entry = found.summary()[0]
    assert (entry["done"], entry["of"], len(entry["reasons"])) == (0, 2, 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilons": []}, "'epsilons'"),
        ({"epsilons": [1.0, 1.0]}, "'epsilons'"),
        ({"epsilons": [-1.0]}, "'epsilon'"),
        ({"methods": []}, "'methods'"),
        ({"methods": ["gaussian", "gaussian"]}, "'methods'"),
        ({"methods": ["gausian"]}, "'method'"),
        ({"methods": {"non-private": "gaussian"}}, "'methods'"),
        ({"repetitions": 0}, "'repetitions'"),
        ({"n_components": 6}, "'n_components'"),
        ({"n_components": 1}, "'n_components'.*gap"),  # two spikes of one size
        ({"out": "results.txt"}, "'out'"),
        ({"workers": 0}, "'workers'"),
        ({"seed": -1}, "'seed'"),
        ({"relation": "swap"}, "'relation'"),
    ],
)
def test_a_wrong_call_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        compare(MADE, **({"methods": METHODS} | CALL | change))


@pytest.mark.parametrize("rows", [[[1.0, np.nan], [0.0, 1.0]], [[1.0, 2.0]], [[2.0, 2.0], [2.0, 2.0]]])
def test_tables_without_a_truth_are_refused(rows):
    with pytest.raises(ValueError, match="'data'"):
        compare(np.array(rows), public=True, epsilons=[1.0])


# --- the same numbers in any order ----------------------------------------------------------------------------------


def test_seeds_decide_and_nothing_else_does():
    found = compare(MADE, methods=METHODS, seed=3, workers=1, **CALL)
    assert compare(MADE, methods=METHODS, seed=3, workers=2, **CALL).table.equals(found.table)
    assert not compare(MADE, methods=METHODS, seed=4, workers=1, **CALL).table.equals(found.table)
    turned = compare(MADE, methods=METHODS[::-1], seed=3, workers=1, **(CALL | {"epsilons": [4.0, 1.0]}))
    key = [("method", "ascending"), ("epsilon", "ascending"), ("repetition", "ascending")]
    assert turned.table.sort_by(key).equals(found.table.sort_by(key))


def test_without_a_seed_runs_differ_and_say_their_seed():
    first, second = (compare(MADE, methods=METHODS[:1], workers=1, **CALL) for _ in range(2))
    assert first.setting["seed"] != second.setting["seed"]
    again = compare(MADE, methods=METHODS[:1], workers=1, seed=first.setting["seed"], **CALL)
    assert again.table.equals(first.table)


def test_no_two_cells_share_noise():
    values = compare(MADE, methods=METHODS, seed=3, workers=1, **CALL).table.column("sin_theta").to_pylist()
    assert len(set(values)) == len(values)


# --- on disk --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".parquet", ".feather", ".csv"])
def test_files_hold_the_table(tmp_path, ending):
    out = tmp_path / "deep" / f"results{ending}"
    found = compare(MADE, methods=METHODS, seed=3, out=out, workers=1, **CALL)
    read = {".parquet": pa.parquet.read_table, ".feather": pa.feather.read_table, ".csv": pa.csv.read_csv}[ending]
    back = read(str(out))
    assert back.column_names == found.table.column_names
    assert back.column("sin_theta").to_pylist() == found.table.column("sin_theta").to_pylist()
    if ending != ".csv":
        assert b"dpeigen.compare" in back.schema.metadata


def counted(monkeypatch) -> list:
    """The cells that are really run."""
    ran, run = [], cells_module.run_cell
    monkeypatch.setattr("dpeigen.evaluation.running.run_cell", lambda work, cell: ran.append(cell) or run(work, cell))
    return ran


def test_an_interrupted_run_goes_on_and_repeats_nothing(tmp_path, monkeypatch):
    whole = compare(MADE, methods=METHODS, seed=3, workers=1, **CALL)
    ran = counted(monkeypatch)

    def stop(done, total):
        if done == 5:
            raise KeyboardInterrupt

    call = {"methods": METHODS, "seed": 3, "out": tmp_path / "r.parquet", "workers": 1, **CALL}
    with pytest.raises(KeyboardInterrupt):
        compare(MADE, progress=stop, **call)
    assert len(ran) == 5
    assert not (tmp_path / "r.parquet").exists()
    assert compare(MADE, **call).table.equals(whole.table)
    assert len(ran) == len(set(ran)) == len(whole.table)
    assert compare(MADE, **call).table.equals(whole.table)
    assert len(ran) == len(whole.table)  # the third call ran nothing


def test_more_of_the_same_runs_only_what_is_new(tmp_path, monkeypatch):
    call = {"seed": 3, "out": tmp_path / "r.csv", "workers": 1}
    compare(MADE, methods=METHODS[:1], **call, **CALL)
    ran = counted(monkeypatch)
    more = compare(MADE, methods=METHODS, **call, **(CALL | {"repetitions": 4}))
    assert len(ran) == len(more.table) - (2 + 1) * 3
    assert more.table.equals(compare(MADE, methods=METHODS, seed=3, workers=1, **(CALL | {"repetitions": 4})).table)


def test_a_run_without_a_seed_keeps_its_own(tmp_path):
    call = {"methods": METHODS[:1], "out": tmp_path / "r.csv", "workers": 1, **CALL}
    first, second = compare(MADE, **call), compare(MADE, **call)
    assert second.table.equals(first.table)


@pytest.mark.parametrize(
    "change",
    [{"seed": 4}, {"delta": 1e-5}, {"bound": 9.0}, {"center": "private"}, {"n_components": 5},
     {"relation": "add_remove"}, {"methods": {"gaussian": Gaussian(tighten=True)}}],
)  # fmt: skip
def test_a_file_of_another_setting_is_refused(tmp_path, change):
    call = {"methods": {"gaussian": "gaussian"}, "seed": 3, "out": tmp_path / "r.csv", "workers": 1, **CALL}
    before = compare(MADE, **call).table
    with pytest.raises(OtherSettingError, match="another setting"):
        compare(MADE, **(call | change))
    assert compare(MADE, **call).table.equals(before)


def test_files_of_other_data_are_refused(tmp_path):
    call = {"methods": METHODS[:1], "public": True, "seed": 3, "out": tmp_path / "r.csv", "workers": 1, **CALL}
    compare(table(seed=0), **call)
    with pytest.raises(OtherSettingError, match="data"):
        compare(table(seed=1), **call)


def test_what_is_not_ours_is_not_overwritten(tmp_path):
    (tmp_path / "r.csv").write_text("precious", encoding="utf-8")
    with pytest.raises(ValueError, match=r"'out'.*would be lost"):
        compare(MADE, out=tmp_path / "r.csv", **CALL)
    (tmp_path / "s.csv.cells").write_text("precious " * 1000, encoding="utf-8")
    with pytest.raises(OtherSettingError, match=r"s\.csv\.cells"):
        compare(MADE, out=tmp_path / "s.csv", **CALL)
    assert (tmp_path / "r.csv").read_text(encoding="utf-8") == "precious"


SCRIPT = """
    import sys
    from dpeigen.evaluation import Synthetic, compare
    made = Synthetic("spiked", rows=2000, columns=12)
    compare(made, methods=["gaussian", "refined"], epsilons=[1.0, 2.0], delta=1e-6, n_components=3, bound=20.0,
            center=None, seed=2, workers=2, out="r.parquet", repetitions=int(sys.argv[1]))
"""


def test_a_killed_process_loses_nothing(tmp_path):
    """kill -9 in the middle of a parallel run, from a script without a guard; then the same, with fewer repetitions.

    The first run would take an hour, so it is always killed before its end.
    """
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    started = subprocess.Popen([sys.executable, "script.py", "20000"], cwd=tmp_path, start_new_session=True)
    state = tmp_path / "r.parquet.cells"
    while finished(state) < 8 and started.poll() is None:
        time.sleep(0.02)
    os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    before = contents(state)
    assert len(before) >= 8
    assert not (tmp_path / "r.parquet").exists()
    subprocess.run([sys.executable, "script.py", "8"], cwd=tmp_path, check=True)
    after = contents(state)
    assert before.items() <= after.items()
    made, call = Synthetic("spiked", rows=2000, columns=12), {"epsilons": [1.0, 2.0], "delta": 1e-6, "bound": 20.0}
    whole = compare(made, methods=["gaussian", "refined"], n_components=3, center=None, seed=2, repetitions=8,
                    workers=1, **call)  # fmt: skip
    assert pa.parquet.read_table(tmp_path / "r.parquet").equals(whole.table)
    assert len(after) >= len(whole.table) == 40


def contents(state) -> dict[str, str]:
    db = sqlite3.connect(state)
    try:
        return dict(db.execute("SELECT cell, result FROM cells").fetchall())
    except sqlite3.OperationalError:
        return {}
    finally:
        db.close()


def finished(state) -> int:
    return len(contents(state)) if state.exists() else 0


# --- the picture ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
def test_the_picture_shows_every_method_and_the_floor(metric):
    from matplotlib.figure import Figure

    methods = ["gaussian", "spatial-sign", "kapralov-talwar"]
    call = CALL | {"bound": None}  # two of the three need one: refused
    found = compare(MADE, methods=methods, seed=0, workers=1, **call)
    ax = found.plot(Figure().subplots(), metric=metric)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["spatial-sign", "without privacy"]
    words = " ".join(text.get_text() for text in ax.texts).replace("\n", " ")
    assert "refused or failed: gaussian, kapralov-talwar" in words
    line = next(line for line in ax.lines if line.get_label() == "spatial-sign")
    entries = [entry for entry in found.summary() if entry["method"] == "spatial-sign"]
    medians = [entry[metric]["median"] for entry in entries]
    expected = [1 - m for m in medians] if metric == "captured_variance" else medians
    np.testing.assert_allclose(line.get_ydata(), expected)


def test_an_unknown_metric_is_refused():
    found = compare(MADE, methods="spatial-sign", epsilons=[1.0], repetitions=1, seed=0, workers=1)
    with pytest.raises(ValueError, match="'metric'"):
        found.plot(metric="sin_theta")  # whole covariances have no angles
