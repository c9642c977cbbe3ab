"""Dask: the integers of NumPy on any partitioning and scheduler, whatever happens to workers; and no value shown."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from dpeigen import Ledger, PrivateCovariance, PrivatePCA, PrivateRidge
from dpeigen.methods import Kendall
from dpeigen.privacy.randomness import SeededRandomness
from dpeigen.sources import PairedSource, UnreadableRowsError, open_source, remote
from dpeigen.stats import BadRowsError, Frame, KendallTau, Lattice, NormHistogram, SecondMoment
from dpeigen.stats.transform import Transform

dask = pytest.importorskip("dask", reason="Dask is not installed")
da = pytest.importorskip("dask.array", reason="Dask is not installed")
dd = pytest.importorskip("dask.dataframe", reason="Dask is not installed")
distributed = pytest.importorskip("distributed", reason="Dask's distributed scheduler is not installed")
pd = pytest.importorskip("pandas")

ROWS = np.random.default_rng(5).normal(size=(2001, 4)) * [1.0, 20.0, 0.1, 3.0]
NAMES = list("abcd")
LATTICE = Lattice(Frame(4, center=np.array([0.0, 1.0, 0.0, -1.0])), 15.0)
FIT = {"epsilon": 2.0, "delta": 1e-6, "bound": 40.0, "method": "gaussian", "center": None}
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore:Port .* is already in use:UserWarning")


@pytest.fixture(scope="module")
def cluster():
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    patience = dask.config.set({"distributed.scheduler.no-workers-timeout": "60s"})  # a failure, not a wait for ever
    with patience, distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


def moment():
    return SecondMoment(LATTICE, center_weight=500)


def same(first, second):
    np.testing.assert_array_equal(first.gram, second.gram)
    np.testing.assert_array_equal(first.total, second.total)
    assert first.count == second.count


def frame(rows=ROWS):
    return pd.DataFrame(rows, columns=NAMES)


@pytest.mark.parametrize("chunks", [(2001, 4), (1, 4), (100, 3), ((0, 1000, 0, 1001), (2, 2))], ids=str)
def test_any_partitioning_gives_the_same_integers(chunks):
    rows = ROWS if chunks != (1, 4) else ROWS[:100]
    source = open_source(da.from_array(rows, chunks=chunks))
    same(source.reduce(moment()), moment().update(rows))


def test_a_cluster_gives_the_same_integers(cluster):
    wanted = moment().update(ROWS)
    same(open_source(da.from_array(ROWS, chunks=(100, 3))).reduce(moment()), wanted)
    same(open_source(dd.from_pandas(frame(), npartitions=7)).reduce(moment()), wanted)
    shuffled = dd.from_pandas(frame(), npartitions=3).set_index("a", drop=False)
    same(open_source(shuffled).reduce(moment()), wanted)


def test_a_filter_may_leave_empty_partitions():
    data = da.from_array(ROWS, chunks=(200, 4))
    kept = data[data[:, 0] > 2.5]
    source = open_source(kept)
    assert source.n_rows is None
    assert not source.fixed_order
    same(source.reduce(moment()), moment().update(ROWS[ROWS[:, 0] > 2.5]))
    assert source.count_rows() == np.count_nonzero(ROWS[:, 0] > 2.5)
    nobody = open_source(data[data[:, 0] > 1e9])
    same(nobody.reduce(moment()), moment())


class Deadly:
    """A block function that kills its worker the first time it meets a certain block."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __call__(self, block, block_info=None):
        if block_info[0]["chunk-location"][0] == 3 and not self.marker.exists():
            self.marker.write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
        return block


def test_a_worker_killed_in_the_middle_changes_nothing(cluster, tmp_path):
    data = da.from_array(ROWS, chunks=(250, 4)).map_blocks(Deadly(tmp_path / "killed"), dtype=float)
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=5.0, delta=1e-5)
    fitted = PrivateCovariance(**FIT, ledger=ledger, random_state=1).fit(data)
    assert (tmp_path / "killed").exists()
    assert [entry["state"] for entry in ledger.history()] == ["committed"]
    assert ledger.remaining().epsilon == pytest.approx(3.0)
    alike = PrivateCovariance(**FIT, random_state=1).fit(ROWS)
    np.testing.assert_array_equal(fitted.covariance_, alike.covariance_)


def test_tasks_are_pure_and_counted_once():
    empty = moment()
    parts = [remote.measure(empty, j, [ROWS[j::3]], np.asarray) for j in range(3)]
    assert parts[0] == remote.measure(empty, 0, [ROWS[0::3]], np.asarray)
    assert empty.count == 0
    first = remote.combine(parts)
    assert first == remote.combine(parts)  # nothing that was given has changed
    rows = []
    same(remote.result(empty, first, rows.append, 3), moment().update(ROWS))
    again = remote.combine([remote.combine(parts[:2]), parts[2]])
    same(remote.result(empty, again, rows.append, 3), moment().update(ROWS))
    assert rows == [2001, 2001]
    with pytest.raises(UnreadableRowsError, match="came back twice"):
        remote.result(empty, remote.combine([*parts, parts[1]]), rows.append, 3)
    with pytest.raises(UnreadableRowsError, match="Not every partition"):
        remote.result(empty, remote.combine(parts[:2]), rows.append, 3)


# --- what goes wrong ----------------------------------------------------------------------------------------------


def refuse(data, tmp_path, error, match):
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=5.0, delta=1e-5)
    with pytest.raises(error, match=match) as caught:
        PrivateCovariance(**FIT, ledger=ledger).fit(data)
    assert ledger.remaining().epsilon == 5.0
    chain, found = [], caught.value
    while found is not None:
        chain.append(str(found))
        found = found.__cause__ or found.__context__
    assert "secret" not in " ".join(chain)


def test_bad_rows_on_a_worker(tmp_path, cluster):
    rows = ROWS.copy()
    rows[700, 1] = np.nan
    refuse(da.from_array(rows, chunks=(100, 4)), tmp_path, BadRowsError, "NaN or infinite")


def _fail(block):
    raise ValueError("could not convert 'secret'")


def test_a_step_before_ours_that_fails(tmp_path):
    data = da.from_array(ROWS, chunks=(500, 4)).map_blocks(_fail, dtype=float, meta=np.empty((0, 4)))
    refuse(data, tmp_path, UnreadableRowsError, r"Dask could not compute the rows \(ValueError\)")


def _other(part):
    return part.rename(columns={"b": "z"}) if part.index[0] > 0 else part


def _text(part):
    return part.assign(b="secret") if part.index[0] > 0 else part


@pytest.mark.parametrize(("change", "error"), [(_other, UnreadableRowsError), (_text, BadRowsError)])
def test_partitions_that_are_not_what_the_frame_says(change, error, tmp_path):
    data = dd.from_pandas(frame(), npartitions=4).map_partitions(change, meta=frame().iloc[:0])
    refuse(data, tmp_path, error, "could not (be read|compute)|count as NaN")


def test_collections_that_are_not_rows():
    with pytest.raises(ValueError, match="two-dimensional"):
        open_source(da.zeros(10))
    with pytest.raises(ValueError, match="Of Dask's collections"):
        open_source(dd.from_pandas(frame(), npartitions=2)["a"])
    with pytest.raises(ValueError, match=r"must be numeric.*e \("):
        open_source(dd.from_pandas(frame().assign(e=np.datetime64("2020-01-31")), npartitions=2))


# --- pairs, declared columns, estimators --------------------------------------------------------------------------


def seeded(seed):
    return SeededRandomness(np.random.default_rng(seed))


@pytest.mark.parametrize(
    "empty",
    [
        SecondMoment(Lattice(Frame(4, pairs=True), 15.0)),
        NormHistogram(Frame(4, pairs=True)),
        KendallTau(Frame(4), Transform(), 64, 8),
    ],
    ids=["moment", "norms", "kendall"],
)
def test_chunks_are_paired_over_all_rows(empty):
    """The pairs of a Dask array are the same whatever its chunks are: they do not depend on where rows lie."""
    found, wanted = (
        PairedSource(open_source(da.from_array(ROWS, chunks=(lengths, (4,)))), seeded(3)).reduce(empty.fresh())
        for lengths in [(501, 501, 501, 498), (2001,)]
    )
    name = "counts" if hasattr(empty, "counts") else "gram"
    np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    assert found.count == wanted.count > 0


def test_declared_categories_on_workers():
    table = frame().assign(sex=["f", "m", "secret"] * 667)
    source = open_source(dd.from_pandas(table, npartitions=4), columns=["sex", "a"], categories={"sex": ["m", "f"]})
    assert source.feature_names == ["sex=m", "sex=f", "a"]
    read = np.concatenate(list(source.blocks()))
    np.testing.assert_array_equal(read[:, 0], np.tile([0, 1, np.nan], 667))
    np.testing.assert_array_equal(read[:, 2], ROWS[:, 0])


SETTINGS = {
    "gaussian": {"method": "gaussian", "bound": 40.0},
    "private": {"method": "auto", "bound": "private"},
    "laplace": {"method": "laplace", "bound": 40.0, "delta": 0.0},
    "spatial-sign": {"method": "spatial-sign", "bound": None},
    "kendall": {"method": Kendall(design=8), "bound": None},
    "kendall-blocks": {"method": Kendall(design="blocks"), "bound": None},
    "pairs": {"method": "gaussian", "bound": 40.0, "center": "pairs"},
    "eigenvector-sampling": {"method": "eigenvector-sampling", "bound": 40.0, "center": None},
}


@pytest.mark.parametrize("kind", ["array", "frame"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_every_method_runs(setting, kind):
    data = da.from_array(ROWS, chunks=(400, 4)) if kind == "array" else dd.from_pandas(frame(), npartitions=4)
    options = {"epsilon": 5.0, "delta": 1e-6, "random_state": 1, **SETTINGS[setting]}
    fitted = PrivatePCA(2, **options).fit(data)
    assert fitted.release_.facts["n_rows"] == 2001
    assert fitted.release_.facts["feature_names"] == (None if kind == "array" else NAMES)
    if setting not in ("pairs", "kendall-blocks"):  # pairs differ with the partitions
        alike = PrivatePCA(2, **options).fit(ROWS)
        np.testing.assert_array_equal(fitted.components_, alike.components_)
        np.testing.assert_array_equal(fitted.explained_variance_, alike.explained_variance_)


def test_ridge_takes_a_target_by_its_name():
    options = {"epsilon": 5.0, "delta": 1e-6, "bound": 40.0, "random_state": 1}
    data = dd.from_pandas(frame(), npartitions=4)
    fitted = PrivateRidge(1.0, **options).fit(data, "a")
    np.testing.assert_array_equal(fitted.coef_, PrivateRidge(1.0, **options).fit(frame(), "a").coef_)
    with pytest.raises(ValueError, match="the name of"):
        PrivateRidge(1.0, **options).fit(data, ROWS[:, 0])
