"""The ledger holds nothing of the rows: neither its file, nor its exports and messages, nor what a crash leaves in it.

Fits of two tables that share only their public facts, with the same seed. The record is written before a row is read,
so here nothing is replayed: not a released value may be in it either. Time and names are fixed; a planted leak shows
that the comparison can fail.
"""

from __future__ import annotations

import pickle
import shutil
import traceback
import warnings
from datetime import datetime, timezone

import numpy as np
import pytest
from typer.testing import CliRunner

from dpeigen import Ledger, PrivateCovariance, PrivatePCA, PrivateRidge
from dpeigen.cli.app import app
from dpeigen.methods import METHODS, Gaussian
from dpeigen.privacy.ledger import BudgetExceededError, RepeatedReleaseError, page
from dpeigen.stats import BadRowsError

D = 3
SIZES = {"dp-pca": 12_000, "oja": 2_000}
COMMANDS = (["show"], ["show", "--json"], ["history"], ["history", "--json"], ["verify"], ["verify", "--json"],
            ["export"], ["export", "--format", "json"])  # fmt: skip


def tables(n):
    rng = np.random.default_rng(1)
    first = rng.normal(size=(n, D)) * [1.5, 1.0, 0.5]
    return first, 40.0 * rng.standard_t(3, size=(n, D)) @ rng.normal(size=(D, D)) + [300.0, -7.0, 0.0]


@pytest.fixture
def fixed_time(monkeypatch):
    class Still(datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2030, 1, 1, tzinfo=timezone.utc)

    monkeypatch.setattr(page, "datetime", Still)


def seen(use, table, number, tmp_path):
    """Everything there is of the ledger after a use: bytes of the file, answers, and what the command prints."""
    folder = tmp_path / str(number)
    folder.mkdir()
    path = folder / "study.ledger"
    if not (tmp_path / "new").exists():
        Ledger.create(tmp_path / "new", epsilon=50.0, delta=0.01)
    shutil.copy(tmp_path / "new", path)  # the same name inside, which is drawn at random
    ledger = Ledger(path, by="ada", host="h")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            use(ledger, table)
            error = None
        except (ValueError, TypeError, RuntimeError, BadRowsError) as caught:
            error = caught
    found = {
        "bytes": path.read_bytes(),
        "beside": sorted(f.name for f in folder.iterdir()),
        "events": ledger.events(),
        "history": ledger.history(),
        "verdict": ledger.verify(),
        "left": (ledger.remaining(), ledger.room(1e-6)),
        "error": None if error is None else (pickle.dumps(error), *lines(error, folder)),
    }
    for command in COMMANDS:
        done = CliRunner().invoke(app, ["ledger", command[0], str(path), *command[1:]])
        assert done.exit_code == 0
        found[" ".join(command)] = (done.stdout + done.stderr).replace(str(folder), "FOLDER")
    return found


def lines(error, folder):
    """What a traceback prints, and the texts of all errors behind it."""
    text = "".join(traceback.format_exception(error)).replace(str(folder), "FOLDER")
    behind = []
    while error is not None:
        behind.append(repr(error))
        error = error.__cause__ or error.__context__
    return text, behind


def changed(use, tmp_path, n=800, *, refused=False):
    first, second = (seen(use, table, i, tmp_path) for i, table in enumerate(tables(n)))
    assert len(first["events"]) > 1  # something was written
    assert (first["error"] is not None) == refused
    return sorted(name for name in first if first[name] != second[name])


def pca(name, **changes):
    given = {"method": name, "epsilon": 8.0, "delta": 1e-6, "bound": 5.0, "center": "private", "random_state": 11}
    if name in ("spiked", "kendall", "geodesic", "refined", "dp-pca"):
        given["bound"] = None
    if name == "spiked":
        given["center"] = None
    return {**given, **changes}


@pytest.mark.parametrize("name", ["auto", *METHODS])
def test_a_fit_writes_the_same_whatever_the_rows_are(name, fixed_time, tmp_path):
    def use(ledger, X):
        PrivatePCA(2, **pca(name), ledger=ledger.named("r")).fit(X)

    assert changed(use, tmp_path, SIZES.get(name, 800)) == []


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (PrivateCovariance, {"relation": "add_remove"}),
        (PrivateCovariance, {"bound": "private"}),
        (PrivatePCA, {"n_components": "private"}),
        (PrivatePCA, {"n_components": 1, "missing": "drop"}),
    ],
    ids=str,
)
def test_so_do_private_counts_radii_and_ranks(kind, changes, fixed_time, tmp_path):
    def use(ledger, X):
        kind(**{**pca("gaussian"), **changes}, ledger=ledger.named("r")).fit(X)

    assert changed(use, tmp_path) == []


def test_so_does_a_regression(fixed_time, tmp_path):
    def use(ledger, X):
        bounds = {"bound": ([-5.0] * 2, [5.0] * 2), "target_bounds": (-5.0, 5.0)}
        PrivateRidge(epsilon=4.0, delta=1e-6, **bounds, random_state=1, ledger=ledger.named("r")).fit(X[:, :2], X[:, 2])

    assert changed(use, tmp_path) == []


def test_so_does_a_stream(fixed_time, tmp_path):
    def use(ledger, X):
        model = PrivatePCA(1, **pca("oja"), ledger=ledger.named("r"))
        for start in range(0, len(X), 700):
            model.partial_fit(X[start : start + 700])

    assert changed(use, tmp_path, 2100) == []


@pytest.mark.parametrize("fault", ["nan", "text", "no room", "used id"])
def test_refusals_and_what_they_leave_in_the_record(fault, fixed_time, tmp_path):
    def use(ledger, X):
        model = PrivatePCA(1, **pca("gaussian"), ledger=ledger.named("r"))
        if fault == "no room":
            ledger.reserve(ledger.remaining(), "everything", id="all")
        elif fault == "used id":
            model.fit(X)
        bad = X.astype(object) if fault == "text" else X.copy()
        if fault in ("nan", "text"):
            bad[7, 1] = np.nan if fault == "nan" else f"Jane Doe {X[7, 1]}"
            ledger.reserve(type(ledger.remaining())(1.0), "before", id="before")
        kinds = {"no room": BudgetExceededError, "used id": RepeatedReleaseError}
        with pytest.raises(kinds.get(fault, (ValueError, BadRowsError))) as caught:
            model.fit(bad)
        raise caught.value

    assert changed(use, tmp_path, refused=True) == []


class TellsTheLedger(Gaussian):
    """A method that puts the trace into its name, and so into the record."""

    @property
    def name(self):
        return f"gaussian {self.trace:g}"

    def price(self, task):
        return task.budget


def test_a_planted_leak_is_seen(fixed_time, tmp_path):
    def use(ledger, X):
        method = TellsTheLedger()
        object.__setattr__(method, "trace", float((X**2).sum()))
        PrivatePCA(2, **pca(method), ledger=ledger.named("r")).fit(X)

    assert {"bytes", "events", "history", "export"} <= set(changed(use, tmp_path))


def test_the_record_does_not_say_how_long_a_fit_took(tmp_path):
    """Times are whole minutes: durations of rejection samplers depend on the rows."""
    ledger = Ledger.create(tmp_path / "l", epsilon=1.0)
    ledger.commit(ledger.reserve(ledger.remaining(), "x"))
    for event in ledger.events():
        at = datetime.fromisoformat(event.at)
        assert (at.second, at.microsecond) == (0, 0)
        assert at.tzinfo is not None
