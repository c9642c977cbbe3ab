"""Nothing that a user can reach changes with the data, except through a paid mechanism.

Two fits of quite different data with the same public facts (numbers of rows and columns, names, types), the same seed,
and the same releases (`conftest.Doors`): everything reachable from estimators, releases and warnings, every log record,
every saved byte and everything the command prints must be the same. Planted leaks show that the test can fail.
"""

from __future__ import annotations

import gc
import logging
import warnings
import weakref

import numpy as np
import pytest
from typer.testing import CliRunner

from dpeigen import PrivateCovariance, PrivatePCA, PrivateRidge
from dpeigen.cli.app import app
from dpeigen.local import LocalRandomizer
from dpeigen.methods import METHODS, Gaussian
from dpeigen.privacy.randomness import SeededRandomness
from dpeigen.stats import BadRowsError

EPSILON, DELTA, D, SEED = 8.0, 1e-6, 3, 11
SIZES = {"dp-pca": 12_000, "oja": 2_000}


def tables(n):
    """Two data sets that share nothing but their public facts."""
    rng = np.random.default_rng(1)
    first = rng.normal(size=(n, D)) * [1.5, 1.0, 0.5]
    second = 40.0 * rng.standard_t(3, size=(n, D)) @ rng.normal(size=(D, D)) + [300.0, -7.0, 0.0]
    return first, second


def options(name, **changes):
    given = {
        "method": name,
        "epsilon": EPSILON,
        "delta": DELTA,
        "bound": 5.0,
        "center": "private",
        "random_state": SEED,
    }
    if name in ("spiked", "kendall", "geodesic", "refined", "dp-pca"):
        given |= {"bound": None}
    if name == "spiked":
        given |= {"center": None}
    return given | changes


CASES = [
    *((PrivatePCA, name, {}) for name in ["auto", *METHODS]),
    *((PrivateCovariance, name, {}) for name in METHODS if name not in ("dp-pca", "oja", "geodesic")),
    *((PrivatePCA, name, {"bound": "private"}) for name in ("gaussian", "laplace", "eigenvector-sampling")),
    *((PrivatePCA, name, {"relation": "add_remove"}) for name in ("gaussian", "matrix-laplace", "refined", "auto")),
    *((PrivatePCA, name, {"center": "pairs"}) for name in ("gaussian", "spatial-sign", "kendall")),
    (PrivatePCA, "gaussian", {"n_components": "private"}),
    (PrivateCovariance, "gaussian", {"bound": ([-9.0] * D, [9.0] * D)}),
    (PrivatePCA, "auto", {"missing": "drop"}),
    (PrivatePCA, "whitened", {"missing": "correct"}),
    (PrivateCovariance, "gaussian", {"missing": "correct"}),
]  # fmt: skip


def make(kind, name, changes):
    given = options(name, **changes)
    if kind is PrivatePCA:
        return PrivatePCA(given.pop("n_components", 2), **given)
    return kind(**given)


def observed(fit, folder, reachable, caplog):
    """All that a fit lets anyone see."""
    caplog.clear()
    with warnings.catch_warnings(record=True) as warned, caplog.at_level(logging.DEBUG):
        warnings.simplefilter("always")
        fitted = fit()
    fitted.release_.save(folder)
    seen = reachable({"estimator": fitted, "release": fitted.release_, "guarantee": fitted.guarantee_})
    seen["text"] = [repr(fitted), repr(fitted.release_), str(fitted.release_), str(fitted.guarantee_)]
    seen["warnings"] = [(w.category.__name__, str(w.message)) for w in warned]
    seen["logs"] = [record.getMessage() for record in caplog.records]
    seen["files"] = [(f.name, f.read_bytes()) for f in sorted(folder.rglob("*")) if f.is_file()]
    return seen


def differences(doors, fits, tmp_path, reachable, caplog):
    first = observed(fits[0], tmp_path / "a", reachable, caplog)
    doors.replay()
    second = observed(fits[1], tmp_path / "b", reachable, caplog)
    assert doors.at == len(doors.released) > 0
    assert len(first) > 30  # something was looked at
    return sorted(path for path in first.keys() | second.keys() if first.get(path) != second.get(path))


@pytest.mark.parametrize(("kind", "name", "changes"), CASES, ids=lambda v: getattr(v, "__name__", str(v)))
def test_only_what_was_paid_for_depends_on_the_data(kind, name, changes, doors, tmp_path, reachable, caplog):
    pair = tables(SIZES.get(name, 800))
    fits = [lambda X=X: make(kind, name, changes).fit(X) for X in pair]
    assert differences(doors, fits, tmp_path, reachable, caplog) == []


def test_ridge(doors, tmp_path, reachable, caplog):
    def fit(X):
        bounds = {"bound": ([-5.0] * 2, [5.0] * 2), "target_bounds": (-5.0, 5.0)}
        model = PrivateRidge(epsilon=EPSILON, delta=DELTA, **bounds, random_state=SEED)
        return model.fit(X[:, :2], X[:, 2])

    fits = [lambda X=X: fit(X) for X in tables(800)]
    assert differences(doors, fits, tmp_path, reachable, caplog) == []


def test_bad_rows_that_are_dropped_leave_no_trace(doors, tmp_path, reachable, caplog):
    first, second = tables(800)
    second[::3, 1] = np.nan
    second[5] = np.inf
    fits = [lambda X=X: make(PrivatePCA, "gaussian", {"missing": "drop"}).fit(X) for X in (first, second)]
    assert differences(doors, fits, tmp_path, reachable, caplog) == []


@pytest.mark.parametrize("name", ["gaussian", "kendall", "refined", "eigenvector-sampling", "dp-pca"])
def test_no_part_of_the_table_stays_alive(name):
    """Neither the estimator, nor a cache, nor a thread keeps the rows."""
    X = tables(SIZES.get(name, 800))[0].copy()
    watch = weakref.ref(X)
    fitted = make(PrivatePCA, name, {}).fit(X)
    del X
    gc.collect()
    assert watch() is None
    assert fitted.release_ is not None


# --- planted leaks ------------------------------------------------------------------------------------------------


class KeepsTheMaximum(PrivatePCA):
    def fit(self, X, y=None):
        super().fit(X)
        self._scale = float(np.abs(X).max())
        return self


class KeepsItInAClosure(PrivatePCA):
    def fit(self, X, y=None):
        super().fit(X)
        self.undo_ = lambda z: z + X.mean()
        return self


class Warns(PrivatePCA):
    def fit(self, X, y=None):
        warnings.warn(f"{np.count_nonzero(np.abs(X) > 5)} entries are large", UserWarning, stacklevel=2)
        return super().fit(X)


class Logs(PrivatePCA):
    def fit(self, X, y=None):
        logging.getLogger("dpeigen").debug("first row %s", X[0])
        return super().fit(X)


class ShowsTheStatistic(Gaussian):
    """A method that puts an unpaid number among its details, and so into the release and its files."""

    holds_rows = True

    def estimate(self, curator, task):
        from dataclasses import replace

        rows = np.concatenate(list(curator.unprotected()[0].blocks()))
        return replace(super().estimate(curator, task), details={"trace": float((rows**2).sum())})


@pytest.mark.parametrize("kind", [KeepsTheMaximum, KeepsItInAClosure, Warns, Logs, ShowsTheStatistic])
def test_a_planted_leak_is_seen(kind, doors, tmp_path, reachable, caplog):
    def fit(X):
        if kind is ShowsTheStatistic:
            return PrivatePCA(2, **options(ShowsTheStatistic())).fit(X)
        return kind(2, **options("gaussian")).fit(X)

    found = differences(doors, [lambda X=X: fit(X) for X in tables(300)], tmp_path, reachable, caplog)
    where = {KeepsTheMaximum: "_scale", KeepsItInAClosure: "undo_", Warns: "warnings", Logs: "logs"}
    assert any(where.get(kind, "trace") in path for path in found)
    if kind is ShowsTheStatistic:
        assert "files" in found


# --- errors -------------------------------------------------------------------------------------------------------


def spoiled(kind, table):
    """The same fault in a table of other numbers."""
    bad = table.copy()
    if kind == "nan":
        bad[7, 1] = np.nan
        return bad
    if kind == "infinite":
        bad[7, 1] = np.inf
        return bad
    if kind == "text":
        bad = bad.astype(object)
        bad[7, 1] = f"Jane Doe {table[7, 1]}"
        return bad
    if kind == "ragged":
        rows = bad.tolist()
        rows[3] = rows[3][:2]
        return rows
    if kind == "complex":
        return bad + 1j * bad
    if kind == "flat":
        return bad[:, 0]
    if kind == "objects":
        bad = bad.astype(object)
        bad[7, 1] = {"name": "Jane", "value": table[7, 1]}
        return bad
    return bad[:1]


@pytest.mark.parametrize("kind", ["nan", "infinite", "text", "ragged", "complex", "flat", "objects", "single"])
@pytest.mark.parametrize("name", ["gaussian", "kendall", "dp-pca", "auto"])
def test_errors_say_the_same_whatever_the_values_are(kind, name, reachable):
    said = []
    for table in tables(SIZES.get(name, 400)):
        with pytest.raises((ValueError, TypeError, BadRowsError)) as caught:
            make(PrivatePCA, name, {}).fit(spoiled(kind, table))
        error = caught.value
        error.__traceback__ = None
        said.append(reachable(error))
    assert said[0] == said[1]


def test_a_planted_quotation_in_an_error_is_seen(reachable):
    first, second = (reachable(ValueError(f"bad value {table[0, 0]}")) for table in tables(10))
    assert first != second


# --- the command line and reports ---------------------------------------------------------------------------------


def written(table, path):
    lines = ["a,b,c", *(",".join(f"{v:.17g}" for v in row) for row in table)]
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("extra", [[], ["--json"], ["--relation", "add_remove"]], ids=str)
def test_the_command_prints_and_writes_the_same(extra, doors, tmp_path):
    seen = []
    for number, table in enumerate(tables(300)):
        folder = tmp_path / str(number)
        folder.mkdir()
        written(table, folder / "rows.csv")
        if number:
            doors.replay()
        arguments = ["pca", str(folder / "rows.csv"), "-k", "2", "--epsilon", "4", "--delta", "1e-6", "--bound", "5"]
        done = CliRunner().invoke(app, [*arguments, "--out", str(folder / "out"), "--method", "gaussian", *extra])
        assert done.exit_code == 0
        text = (done.stdout + done.stderr).replace(str(folder), "FOLDER")
        files = {f.name: f.read_bytes() for f in (folder / "out").rglob("*") if f.is_file()}
        seen.append((text, files))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("spoil", ["x", "nan", "1e999", '"Doe, Jane"'])
def test_the_command_s_errors_quote_no_entry(spoil, tmp_path):
    said = []
    for number, table in enumerate(tables(50)):
        path = tmp_path / f"{number}.csv"
        written(table, path)
        text = path.read_text().splitlines()
        text[9] = f"{table[8, 0]},{spoil},1"
        path.write_text("\n".join(text))
        done = CliRunner().invoke(
            app, ["pca", str(path), "-k", "1", "--epsilon", "4", "--bound", "5", "--out", str(tmp_path / f"o{number}")]
        )
        assert done.exit_code in (2, 3)
        said.append((done.stdout + done.stderr).replace(str(path), "FILE"))
        assert "Jane" not in said[-1]
        assert f"{table[8, 0]}"[:8] not in said[-1]
    assert said[0] == said[1]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_client_keeps_nothing_of_the_row(delta, reachable):
    kept = []
    for row in ([0.3, -0.4, 0.1], [0.9, 0.05, -0.2]):
        client = LocalRandomizer(3, epsilon=4.0, delta=delta)
        client.report(row)
        kept.append(reachable(client))
    assert kept[0] == kept[1]


# --- time ---------------------------------------------------------------------------------------------------------


class Counting(SeededRandomness):
    """Writes down what is asked for."""

    def __init__(self):
        super().__init__(np.random.default_rng(0))
        self.asked = []

    def uniform(self, size):
        self.asked.append(("uniform", size))
        return super().uniform(size)

    def normal(self, size):
        self.asked.append(("normal", size))
        return super().normal(size)

    def discrete_gaussian(self, scale, size):
        self.asked.append(("gaussian", size))
        return super().discrete_gaussian(scale, size)

    def discrete_laplace(self, scale, size):
        self.asked.append(("laplace", size))
        return super().discrete_laplace(scale, size)


def asked(name, changes, table):
    counting = Counting()
    fitted = make(PrivatePCA, name, {**changes, "random_state": counting}).fit(table)
    assert fitted.guarantee_.numerics == "seeded"
    return counting.asked


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("gaussian", {}),
        ("gaussian", {"bound": "private"}),
        ("laplace", {"relation": "add_remove", "bound": "private"}),
        ("spatial-sign", {"units": "same"}),
        ("kendall", {}),
    ],
    ids=str,
)
def test_exact_methods_draw_the_same_whatever_the_data_are(name, changes):
    """No loop of an exact method ends early because of a value: the draws are the same in number, kind and order.

    With signs and without `units="same"`, released counts decide whether narrow columns are counted again.
    """
    first, second = (asked(name, changes, table) for table in tables(800))
    assert first == second
    assert first


def test_rejection_sampling_is_what_the_notes_say_it_is():
    """The same comparison tells the methods apart whose time does depend on the data; their guarantee says so."""
    first, second = (asked("eigenvector-sampling", {}, table) for table in tables(800))
    fitted = make(PrivatePCA, "eigenvector-sampling", {}).fit(tables(800)[0])
    assert any("time of the rejection sampler depends on the data" in note for note in fitted.guarantee_.notes)
    assert {kind for kind, _ in first} >= {"normal", "uniform"}
    assert second
