"""The private score map: what it costs, where rows may come from, what it refuses, and how good it is."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from dpeigen import Ledger, PrivatePCA, PrivateScoreMap, ScoreMap, load_release, load_score_map
from dpeigen.auditing.events import audit
from dpeigen.datasets import DatasetError, load_europe
from dpeigen.io import DamagedReleaseError
from dpeigen.methods.score_map import CLASSES, DENSITY, ROWS, MapTask, run_map
from dpeigen.privacy import Relation, compose
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.privacy.randomness import SeededRandomness
from dpeigen.questions import cells
from dpeigen.sources import ArraySource, open_source
from dpeigen.sources.labelled import Labelled
from dpeigen.stats import BadRowsError, Frame
from dpeigen.stats.cells import COUNT_WEIGHT, PlaneCells, PlaneView
from dpeigen.stats.lattice import LEVELS

NAMES = ["a", "b", "c", "d"]
CENTRES = {"north": (4.0, 0.0), "south": (-4.0, 0.0), "east": (0.0, 3.0)}


def table(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    label = np.array(list(CENTRES))[rng.integers(0, 3, size=n)]
    X = rng.normal(size=(n, 4)) * 0.7
    X[:, :2] += np.array([CENTRES[name] for name in label])
    return X, label


@pytest.fixture(scope="module")
def data():
    X, y = table()
    pca = PrivatePCA(2, epsilon=1.0, delta=1e-6, bound=6.0, random_state=0, method="gaussian")
    return X, y, pca.fit(X).release_


def fitted(data, **options):
    X, y, release = data
    options = {"epsilon": 1.0, "labels": list(CENTRES), "random_state": 1, **options}
    return PrivateScoreMap(release, **options).fit(X, y).map_


def test_centres_and_density_are_near_the_truth(data):
    X, y, release = data
    found = fitted(data)
    scores = (X - release.mean) @ release.components.T
    centroids = found.centroids()
    for name, point, error in zip(*centroids[:3], strict=True):
        assert np.linalg.norm(point - scores[y == name].mean(axis=0)) < 0.6
        assert (error < 0.2).all()
    assert centroids.shown.all()
    assert found.density.sum() == pytest.approx(len(X))
    m = found.counts.shape[-1]
    exact = np.histogram2d(*scores.T, bins=found.edges)[0]
    assert np.abs(found.density[0] - exact).sum() / len(X) < 0.35
    assert found.counts.shape == (1, m, m)


def test_a_density_for_each_class(data):
    _, y, _ = data
    found = fitted(data, by_class="density")
    assert len(found.counts) == 3
    sizes = np.array([np.sum(y == name) for name in CENTRES])
    assert np.abs(found.density.sum(axis=(1, 2)) / sizes - 1).max() < 0.1
    frame = found.to_arrow().to_pandas()
    assert set(frame["label"]) == set(CENTRES)
    assert frame["smoothed"].sum() == pytest.approx(found.density.sum())
    assert frame["count"].tolist() == found.counts.ravel().tolist()


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_the_guarantee_is_what_the_noise_gives(data, relation):
    X, y, _ = data
    pca = PrivatePCA(2, epsilon=1.0, delta=1e-6, bound=6.0, random_state=0, relation=relation, method="gaussian")
    release = pca.fit(X).release_
    maps = [PrivateScoreMap(release, epsilon=0.7, labels=list(CENTRES)).fit(X, y).map_ for _ in range(6)]
    found = maps[0]
    guarantee = found.guarantee
    assert guarantee.is_private
    assert (guarantee.epsilon, guarantee.delta, guarantee.relation) == (0.7, 0.0, Relation(relation))
    assert guarantee.numerics == "exact"
    assert guarantee.basis == "worst-case"
    assert sum(pure_epsilon(spend.cost) for spend in guarantee.split) <= 0.7
    assert compose(guarantee.split, 0.0) <= 0.7
    purposes = {spend.purpose for spend in guarantee.split}
    assert purposes == {DENSITY, CLASSES} | ({ROWS} if relation == "add_remove" else set())
    assert (found.total.epsilon, found.total.delta) == (1.7, 1e-6)
    # Noise on the number of rows, in whole rows, may be 0; in all of six maps it is with probability below 1e-6.
    assert ({each.n_rows for each in maps} == {len(X)}) == (relation == "replace")
    assert "score" in str(guarantee)
    assert any("not private" in note for note in guarantee.notes)  # the release above is seeded


def test_noise_has_the_stated_deviation(data):
    """Two maps differ by their noise alone. 256 cells each of 60 maps: false alarm below 1e-6 at 6 deviations."""
    X, _, release = data
    rng = np.random.default_rng(3)
    maps = [PrivateScoreMap(release, epsilon=0.5, cells=16, random_state=rng).fit(X).map_ for _ in range(60)]
    counts = np.array([one.counts for one in maps])
    deviation = counts.std(axis=0, ddof=1)
    stated = maps[0].facts["count_deviation"]
    assert np.sqrt(np.mean(deviation**2)) == pytest.approx(stated, rel=0.06)
    maps = [fitted(data, random_state=rng) for _ in range(150)]
    sums = np.array([one.class_sums for one in maps])
    assert np.sqrt(sums.var(axis=0, ddof=1).mean()) == pytest.approx(maps[0].facts["sum_deviation"], rel=0.2)
    sizes = np.array([one.class_counts for one in maps])
    assert np.sqrt(sizes.var(axis=0, ddof=1).mean()) == pytest.approx(maps[0].facts["class_count_deviation"], rel=0.25)


def test_scales_follow_from_the_sensitivity(data):
    _, _, release = data
    estimator = PrivateScoreMap(release, epsilon=1.0, labels=["x", "y"], label="z")
    for relation, double in ((Relation.REPLACE, 2), (Relation.ADD_REMOVE, 1)):
        task = estimator._map_task((0, 1, 2, 3), (4, 5))
        task = MapTask(1.0, relation, task.view, False, 8, 0.25)
        scales, shares = task.scales(), task.shares()
        assert scales[DENSITY] == double / pure_epsilon(shares[DENSITY])
        assert scales[CLASSES] == double * 1.5 * 2**20 / pure_epsilon(shares[CLASSES])


# --- where rows come from -------------------------------------------------------------------------------------------


def same(first: ScoreMap, second: ScoreMap) -> None:
    for name in ScoreMap._ARRAYS:
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes(), name
    assert (first.labels, first.guarantee, dict(first.facts)) == (second.labels, second.guarantee, dict(second.facts))


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "parquet", "csv", "dask", "source", "reordered"])
def test_every_source_gives_the_same_map(kind, tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = table(700)
    frame = pd.DataFrame(X, columns=NAMES)
    release = PrivatePCA(2, epsilon=1.0, delta=1e-6, bound=6.0, random_state=0).fit(frame).release_
    options = {"epsilon": 1.0, "labels": list(CENTRES), "random_state": 1}
    expected = PrivateScoreMap(release, **options).fit(frame, y).map_
    frame.insert(0, "place", y)
    frame["unused"] = 1.0
    if kind == "polars":
        frame = pytest.importorskip("polars").from_pandas(frame)
    elif kind == "arrow":
        frame = pytest.importorskip("pyarrow").Table.from_pandas(frame)
    elif kind in ("parquet", "csv"):
        path = tmp_path / f"rows.{kind}"
        getattr(frame, f"to_{kind}")(path, index=False)
        frame = path
    elif kind == "dask":
        frame = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3)
    elif kind == "source":
        frame = open_source(frame, columns=["place", *NAMES], categories={"place": list(CENTRES)})
    elif kind == "reordered":
        frame = frame[["d", "place", "c", "unused", "a", "b"]]
    same(PrivateScoreMap(release, label="place", **options).fit(frame).map_, expected)


def test_a_source_with_more_columns_and_labels_beside_it(data):
    pd = pytest.importorskip("pandas")
    X, y = table(700)
    frame = pd.DataFrame(X, columns=NAMES)
    release = PrivatePCA(2, epsilon=1.0, delta=1e-6, bound=6.0, random_state=0).fit(frame).release_
    options = {"epsilon": 1.0, "labels": list(CENTRES), "random_state": 1}
    wide = ArraySource(np.column_stack([np.ones(700), X[:, ::-1]]), ["one", *NAMES[::-1]])
    same(PrivateScoreMap(release, **options).fit(wide, y).map_, PrivateScoreMap(release, **options).fit(frame, y).map_)
    numbers = np.unique(y, return_inverse=True)[1]
    by_number = PrivateScoreMap(release, epsilon=1.0, labels=np.arange(3), random_state=1).fit(frame, numbers).map_
    assert by_number.labels == ("0", "1", "2")
    assert by_number.centroids().shown.all()


def test_explain_spends_and_reads_nothing(data, tmp_path):
    X, y, release = data
    ledger = Ledger.create(tmp_path / "l", epsilon=1.0)
    estimator = PrivateScoreMap(release, epsilon=0.5, labels=list(CENTRES), ledger=ledger)
    plan = estimator.explain(np.full_like(X, np.nan), y)
    assert (plan.cost.epsilon, plan.passes, plan.method) == (0.5, 1, "score-map")
    assert [spend.purpose for spend in plan.split] == [DENSITY, CLASSES]
    assert ledger.history() == []
    with pytest.raises(ValueError, match="epsilon"):
        estimator.set_params(epsilon=0.0).explain(X, y)


def test_labels_that_were_not_declared_are_in_no_class(data):
    X, y, release = data
    found = PrivateScoreMap(release, epsilon=1.0, labels=["north", "west"], random_state=0).fit(X, y).map_
    assert not found.centroids().shown[1]
    assert abs(found.class_counts[1]) < 60
    assert found.labels == ("north", "west")


def test_saved_and_read_back(data, tmp_path):
    found = fitted(data)
    found.save(tmp_path / "map")
    same(load_score_map(tmp_path / "map"), found)
    same(copy.deepcopy(found), found)
    with pytest.raises(FileExistsError):
        found.save(tmp_path / "map")
    with pytest.raises(DamagedReleaseError):
        load_release(tmp_path / "map")
    data[2].save(tmp_path / "release")
    with pytest.raises(DamagedReleaseError, match="load_release"):
        load_score_map(tmp_path / "release")
    with pytest.raises(ValueError, match="read-only"):
        found.counts[0] = 1


def test_it_has_its_own_ledger_entry(data, tmp_path):
    X, _, release = data
    ledger = Ledger.create(tmp_path / "l", epsilon=1.0, delta=1e-6)
    PrivateScoreMap(release, epsilon=0.6, ledger=ledger).fit(X)
    bad = X.copy()
    bad[0, 0] = np.nan
    with pytest.raises(BadRowsError):
        PrivateScoreMap(release, epsilon=0.3, ledger=ledger).fit(bad)
    states = [(entry["what"], entry["epsilon"], entry["delta"], entry["state"]) for entry in ledger.history()]
    assert states == [("score map", 0.6, 0.0, "committed"), ("score map", 0.3, 0.0, "cancelled")]
    with pytest.raises(RuntimeError):
        PrivateScoreMap(release, epsilon=0.6, ledger=ledger).fit(X)
    assert len(ledger.history()) == 2


def test_bad_rows_may_count_at_the_centre(data):
    X, _, release = data
    bad = np.where(np.arange(len(X))[:, None] < 100, np.nan, X)
    found = PrivateScoreMap(release, epsilon=5.0, cells=9, missing="drop", random_state=0).fit(bad).map_
    assert found.counts.sum() == pytest.approx(len(X), abs=60)


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [
        ({"epsilon": 0}, None, "epsilon"),
        ({"labels": ["a"]}, None, "label"),
        ({"labels": ["a"], "label": "b"}, "y", "not both"),
        ({}, "y", "'labels'"),
        ({"labels": ["a", "a"]}, "y", "different"),
        ({"labels": []}, "y", "different"),
        ({"by_class": "density"}, None, "without labels"),
        ({"axes": (0, 2)}, None, "axes"),
        ({"axes": (1, 1)}, None, "axes"),
        ({"window": ((1, 0), (0, 1))}, None, "window"),
        ({"window": "wide"}, None, "window"),
        ({"cells": 1}, None, "cells"),
        ({"density_share": 1.0, "labels": ["a"]}, "y", "density_share"),
        ({"missing": "skip"}, None, "missing"),
        ({"epsilon": 1e-12, "labels": ["a"]}, "y", "64-bit"),
        ({"label": "place", "labels": ["a"]}, None, "no column names"),
    ],
)
def test_refusals_spend_nothing(data, tmp_path, options, y, message):
    X, labels, release = data
    ledger = Ledger.create(tmp_path / "l", epsilon=1.0)
    with pytest.raises((ValueError, TypeError), match=message):
        PrivateScoreMap(release, **{"epsilon": 1.0, "ledger": ledger, **options}).fit(X, labels if y else None)
    assert ledger.history() == []


def test_releases_it_cannot_use(data):
    X, y, release = data
    pairs = PrivatePCA(2, epsilon=1.0, delta=1e-6, bound=6.0, center="pairs", random_state=0).fit(X).release_
    with pytest.raises(ValueError, match="centre"):
        PrivateScoreMap(pairs, epsilon=1.0).fit(X)
    with pytest.raises(TypeError, match="of type ndarray"):
        PrivateScoreMap(X, epsilon=1.0).fit(X)
    one = PrivatePCA(1, epsilon=1.0, delta=1e-6, bound=6.0, random_state=0).fit(X).release_
    with pytest.raises(ValueError, match="axes"):
        PrivateScoreMap(one, epsilon=1.0).fit(X)
    with pytest.raises(ValueError, match="4 columns"):
        PrivateScoreMap(release, epsilon=1.0).fit(X[:, :3])
    with pytest.raises(ValueError, match="one label for each row"):
        PrivateScoreMap(release, epsilon=1.0, labels=["a"]).fit(X, y[:-1])


# --- the map of Europe ----------------------------------------------------------------------------------------------


def test_the_map_of_europe_is_recognisable():
    """(2, 10⁻⁶) in all. The median of 9 fixed seeds; twelve countries of 20 people or more."""
    from scipy.linalg import orthogonal_procrustes
    from scipy.stats import spearmanr

    try:
        europe = load_europe()
    except DatasetError as error:
        pytest.skip(str(error))
    names, sizes = np.unique(europe.target, return_counts=True)
    large = sizes >= 20
    _, vectors = np.linalg.eigh(np.cov(europe.X.T))
    scores = europe.X @ vectors[:, :-3:-1]
    truth = np.array([scores[europe.target == name].mean(axis=0) for name in names[large]])
    truth -= truth.mean(axis=0)
    found = []
    for seed in range(9):
        pca = PrivatePCA(2, epsilon=0.7, delta=1e-6, center=None, robust=True, random_state=seed).fit(europe.X)
        one = PrivateScoreMap(pca.release_, epsilon=1.3, labels=names.tolist(), random_state=seed + 50)
        one.fit(europe.X, europe.target)
        points = one.map_.centroids().points[large]
        points = points - points.mean(axis=0)
        points = points @ orthogonal_procrustes(points, truth)[0]
        found.append(np.mean([spearmanr(points[:, axis], truth[:, axis])[0] for axis in (0, 1)]))
        assert (one.map_.total.epsilon, one.map_.total.delta) == (2.0, 1e-6)
    assert np.median(found) >= 0.9


# --- an audit, end to end --------------------------------------------------------------------------------------------


class Summed(ArraySource):
    """Rows whose sums are computed once: they are the same in every run."""

    def reduce(self, statistic):
        if not hasattr(self, "sums"):
            self.sums = super().reduce(statistic)
        return self.sums


def proven(relation: Relation, sensitivity: float, purpose: str, runs: int = 4000) -> tuple[float, float]:
    """(ε of a share, the largest lower bound that maps of two neighbours prove; false with probability 1e-6).

    The attacker knows both data sets and looks at the likelihood ratio of the noise.
    """
    view = PlaneView(Frame(2), np.eye(2), np.array([[-1.0, 1.0]] * 2), np.ones(2), (0, 1), (2, 3))
    task = MapTask(3.0, relation, view, False, 2, 0.5)
    here, there = [-10.0, 0.1, 1.0, 0.0], [10.0, -0.1, 0.0, 1.0]
    rows = [[0.2, 0.2, 1.0, 0.0], [-0.2, -0.2, 0.0, 1.0]] * 5
    pair = [here, there] if relation is Relation.REPLACE else [here, None]
    sources = [Summed(np.array(rows + ([] if row is None else [row]))) for row in pair]
    sums = [source.reduce(PlaneCells(view, 2)) for source in sources]
    exact = [(s.counts if purpose == DENSITY else s.sums).ravel() for s in sums]
    unit = 1 if purpose == DENSITY else np.array([COUNT_WEIGHT, LEVELS, LEVELS] * 2)

    def look(found):
        seen = found.counts if purpose == DENSITY else np.column_stack([found.class_counts, found.class_sums])
        values = seen.ravel() * unit
        return [np.sum(np.abs(values - exact[1]) - np.abs(values - exact[0]), dtype=float)]

    def run(source, count):
        rng = SeededRandomness(np.random.default_rng([17, sources.index(source)]))
        with pytest.MonkeyPatch.context() as patch:
            for name in ("cell_sensitivity", "class_sensitivity"):
                honest = getattr(cells, name)
                patch.setattr(cells, name, lambda r, honest=honest: max(1, int(honest(r) * sensitivity)))
            return np.array([look(run_map(source, task, rng)) for _ in range(count)])

    result = audit(run, *sources, runs=runs, confidence=1 - 1e-6)
    return pure_epsilon(task.shares()[purpose]), result.epsilon_lower


@pytest.mark.parametrize("purpose", [DENSITY, CLASSES])
@pytest.mark.parametrize("relation", list(Relation))
def test_an_audit_proves_no_violation_and_is_not_idle(relation, purpose):
    claimed, lower = proven(relation, 1.0, purpose)
    assert 0.3 * claimed < lower <= claimed


@pytest.mark.parametrize(("purpose", "factor"), [(DENSITY, 0.5), (CLASSES, 0.3)])
def test_the_audit_catches_too_little_noise(purpose, factor):
    """For the cells, the noise that addition and removal need; sums of six noisy numbers show less of what is lost."""
    claimed, lower = proven(Relation.REPLACE, factor, purpose)
    assert lower > claimed


def test_it_can_be_cloned(data):
    X, y, release = data
    again = clone(PrivateScoreMap(release, epsilon=1.0, labels=list(CENTRES), random_state=1)).fit(X, y)
    same(again.map_, fitted(data))


# --- what one person's entry, or a hostile file, may not do ---------------------------------------------------------


def plane(**changes):
    rows = np.random.default_rng(2).normal(size=(400, 3)) * [3.0, 2.0, 1.0]
    release = PrivatePCA(2, epsilon=2.0, delta=1e-6, bound=9.0, random_state=0).fit(rows).release_
    return rows, replace(release, **changes)


@pytest.mark.parametrize(
    ("entries", "labels", "odd"),
    [
        ([0, 1, 2, 0], [0, 1, 2], "unknown"),
        ([0, 1, 2, 0], [0, 1, 2], 0.25),
        ([2**53 + 1] * 4, [2**53 + 1], 0.5),
        (["a", "b", "a", "b"], ["a", "b"], None),
        (["a", "b", "a", "b"], ["a", "b"], pytest.importorskip("pandas").NA),
        (["a", "b", "a", "b"], ["a", "b"], [1, 2]),
        (["a", "b", "a", "b"], ["a", "b"], np.array(["a", "b"])),
    ],
)
def test_an_entry_of_y_says_nothing_about_others(entries, labels, odd):
    y = entries * 100
    other = [*y[:17], odd, *y[18:]]
    rows, release = plane()
    first, second = (Labelled(ArraySource(rows), given, labels) for given in (y, other))
    a, b = (np.concatenate(list(source.blocks()))[:, 3:] for source in (first, second))
    assert np.flatnonzero((a != b).any(axis=1)).tolist() in ([17], [])
    assert not b[17].any()
    PrivateScoreMap(release, epsilon=1.0, labels=labels, random_state=0).fit(rows, other)


@pytest.mark.parametrize(
    "y", ["text", [0, 1], np.zeros((400, 1)), iter([0])], ids=["text", "short", "table", "iterator"]
)
def test_y_of_another_shape_is_refused_without_its_length(y):
    rows, release = plane()
    with pytest.raises(ValueError, match="one label for each row") as caught:
        PrivateScoreMap(release, epsilon=1.0, labels=[0, 1]).fit(rows, y)
    assert "400" not in str(caught.value)


def test_every_window_has_a_cell_for_every_row():
    """0·∞ would be no cell, and an error about one row's value."""
    rows, release = plane()
    with pytest.raises(ValueError, match="window"):
        PrivateScoreMap(release, epsilon=1.0, window=((-5, 5), (0, 5e-324))).fit(rows)
    view = PlaneView(Frame(2), np.eye(2), np.array([[-1.0, 1.0], [0.0, 5e-324]]), np.ones(2), (0, 1))
    assert PlaneCells(view, cells=2).update(np.zeros((3, 2))).counts.sum() == 3


@pytest.mark.parametrize("factor", [1e10, 1.001, 1.7e308])
def test_directions_that_are_not_unit_vectors_are_refused(factor):
    rows, release = plane()
    with np.errstate(over="ignore"):
        bent = release.components.copy()
        bent[0] = np.eye(3)[0] * factor
    ledger_free = PrivateScoreMap(replace(release, components=bent), epsilon=1.0)
    with pytest.raises(ValueError, match="orthonormal"):
        ledger_free.fit(rows)
    with pytest.raises(ValueError, match="orthonormal"):
        PrivateScoreMap(replace(release, mean=np.full(3, 1.7e308)), epsilon=1.0).fit(rows)
    with pytest.raises(ValueError, match="positive number of rows"):
        PrivateScoreMap(replace(release, facts={**release.facts, "n_rows": -3}), epsilon=1.0).fit(rows)


def test_one_id_is_one_map_and_it_is_not_lost_if_the_ledger_fails(tmp_path, monkeypatch):
    rows, release = plane()
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=3.0)
    once = PrivateScoreMap(release, epsilon=1.0, ledger=ledger.named("map"))
    monkeypatch.setattr(type(ledger), "commit", lambda self, ticket: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(ValueError, match=r"full.*'map' counts as spent") as caught:
        once.fit(rows)
    assert caught.value.release is once.map_
    monkeypatch.undo()
    with pytest.raises(RuntimeError, match="map"):
        PrivateScoreMap(release, epsilon=1.0, ledger=ledger.named("map")).fit(rows)
    assert ledger.remaining().epsilon == 2.0


def test_the_total_carries_its_condition():
    rows, release = plane()
    seeded = PrivateScoreMap(release, epsilon=1.0).fit(rows).map_
    assert "NOT PRIVATE" in seeded.total_words
    assert "NOT PRIVATE" in repr(seeded)
    model = replace(release.guarantee, numerics="exact", basis="distributional", assumptions=("the model",))
    found = PrivateScoreMap(replace(release, guarantee=model), epsilon=1.0).fit(rows).map_
    assert "assumptions only" in found.total_words
    assert any("assumptions" in note for note in found.guarantee.notes)


def test_public_facts_of_labels_help_the_small_ones():
    rng = np.random.default_rng(5)
    labels = [f"place {i}" for i in range(20)]
    places = rng.uniform(-4, 4, size=(20, 2))
    sizes = np.array([300] * 8 + [3] * 12)
    rows = np.concatenate([np.column_stack([p + 0.3 * rng.normal(size=(n, 2)), 0.1 * rng.normal(size=n)])
                           for p, n in zip(places, sizes, strict=True)])  # fmt: skip
    y = np.repeat(labels, sizes)
    release = PrivatePCA(2, epsilon=8.0, delta=1e-6, bound=9.0, center=None, random_state=0).fit(rows).release_
    found = PrivateScoreMap(release, epsilon=1.0, labels=labels, random_state=1).fit(rows, y).map_
    truth = np.array([(rows[y == name] @ release.components.T).mean(axis=0) for name in labels])
    public = dict(zip(labels, places, strict=True))
    small = sizes < 10
    plain, helped = (np.linalg.norm(found.centroids(facts).points - truth, axis=1) for facts in (None, public))
    assert np.median(helped[small]) < 0.5 * np.median(plain[small])
    assert np.median(helped[~small]) < 2 * np.median(plain[~small])
    for wrong in ({}, {name: [np.nan] for name in labels}, {name: [[1]] * i for i, name in enumerate(labels)}):
        with pytest.raises(ValueError, match="'public' parameter"):
            found.centroids(wrong)
