"""A URL is not a path, a password is shown nowhere, and a server that is not checked is spoken of."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from test_postgres import execute
from typer.testing import CliRunner

from dpeigen import Ledger
from dpeigen.cli.app import app
from dpeigen.privacy import Budget
from dpeigen.privacy.ledger import DamagedLedgerError, UnverifiedServerWarning

X = np.random.default_rng(0).normal(size=(400, 3))


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A table here, and a file of settings in another folder."""
    monkeypatch.chdir(tmp_path)
    np.savetxt("table.csv", X, delimiter=",", header="a,b,c", comments="")
    (tmp_path / "settings").mkdir()

    def write(ledger):
        text = f"epsilon = 0.5\ncomponents = 1\nbound = 4\nledger = {json.dumps(ledger)}\n"
        (tmp_path / "settings" / "study.toml").write_text(text, encoding="utf-8")

    return write


def pca(*options):
    return CliRunner().invoke(app, ["pca", "table.csv", *options])


def test_a_url_in_a_file_of_settings_elsewhere(study, database, monkeypatch, tmp_path):
    monkeypatch.setattr("dpeigen.report.write_card", lambda release, where: None)  # pictures take seconds
    url = f"{database}&ledger=settings"
    ledger = Ledger.create(url, epsilon=1.0)
    study(url.replace("analyst@", "analyst:hunter2@"))
    planned = pca("--config", "settings/study.toml", "--dry-run")
    assert planned.exit_code == 0, planned.output
    assert "(ε, δ) = (1, 0) left now" in " ".join(planned.output.split())
    assert (
        json.loads(pca("--config", "settings/study.toml", "--dry-run", "--json").stdout)["ledger_left"]["epsilon"] == 1
    )
    done = pca("--config", "settings/study.toml", "--out", "out")
    assert done.exit_code == 0, done.output
    assert ledger.remaining() == Budget(0.5)
    assert "hunter2" not in planned.output + done.output
    option = pca("--config", "settings/study.toml", "--ledger", f"{url}_other", "--dry-run")
    assert option.exit_code == 2
    assert "No ledger at" in option.output


def test_a_url_with_an_empty_host_as_an_option(study, database, monkeypatch):
    monkeypatch.setenv("PGHOST", database.split("host=")[1])
    monkeypatch.setenv("PGUSER", "analyst")
    Ledger.create(f"{database}&ledger=option", epsilon=1.0)
    done = pca(
        "-k", "1", "--epsilon", "1", "--bound", "4", "--ledger", "postgresql:///postgres?ledger=option", "--dry-run"
    )
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    "ledger",
    [
        "postgresql://ada:hunter2@127.0.0.1:1/study",
        " postgresql://ada:hunter2@127.0.0.1:1/study",
        "./postgresql://ada:hunter2@127.0.0.1:1/study",
        "jdbc:postgresql://127.0.0.1:1/study?user=ada&password=hunter2",
        "PostgreSQL://ada:hunter2@127.0.0.1:1/study",
        "mysql://ada:hunter2@127.0.0.1/study",
        "sub/mysql://ada:hunter2@127.0.0.1/study",
    ],
)
def test_a_password_in_the_settings_is_in_no_message(study, ledger):
    pytest.importorskip("psycopg")
    study(ledger)
    for more in (["--dry-run"], ["--out", "out"]):
        done = pca("--config", "settings/study.toml", *more)
        assert done.exit_code in (2, 4)
        assert "hunter2" not in done.output
    for command in (["show"], ["init", "--epsilon", "1"], ["verify"]):
        done = CliRunner().invoke(app, ["ledger", command[0], ledger, *command[1:]])
        assert done.exit_code in (2, 4)
        assert "hunter2" not in done.output


def test_a_path_in_the_settings_is_from_beside_them(study, tmp_path):
    study("study.ledger")
    Ledger.create(tmp_path / "settings" / "study.ledger", epsilon=1.0)
    done = pca("--config", "settings/study.toml", "--dry-run")
    assert done.exit_code == 0, done.output


# --- a session that others have used before ---------------------------------------------------------------------------


@pytest.fixture
def lent(monkeypatch):
    """Sessions in which somebody before us has run statements, as a pool lends them."""
    import psycopg

    really, before = psycopg.connect, []

    def connect(*arguments, **options):
        db = really(*arguments, **options)
        for statement in before:
            db.execute(statement)
        db.commit()
        return db

    monkeypatch.setattr(psycopg, "connect", connect)
    return before


def test_temporary_tables_of_the_session_do_not_stand_for_the_ledger(database, lent):
    url = f"{database}&ledger=pooled"
    Ledger.create(url, epsilon=1.0)
    execute(database, *(f"CREATE TABLE public.fresh_{name} AS TABLE dpeigen_pooled.{name}" for name in TABLES))
    lent += [f"CREATE TEMP TABLE {name} AS TABLE public.fresh_{name}" for name in TABLES]
    ledger = Ledger(url)
    ticket = ledger.reserve(Budget(0.75), "x")
    ledger.start(ticket)
    assert ledger.remaining() == Budget(0.25)
    assert [entry["state"] for entry in ledger.history()] == ["reserved"]
    lent.clear()
    assert ledger.remaining() == Budget(0.25)  # it was not written into a table that is gone by now
    assert ledger.verify().ok


TABLES = ("budget", "event", "entry")


def test_nor_do_they_hide_what_is_not_a_ledgers(database, lent):
    ledger = Ledger.create(f"{database}&ledger=hidden", epsilon=1.0)
    execute(database, "CREATE VIEW dpeigen_hidden.odd AS SELECT 1 AS one")
    names = ("pg_class", "pg_trigger", "pg_rewrite", "pg_namespace")
    lent += [f"CREATE TEMP TABLE {name} AS SELECT * FROM pg_catalog.{name} LIMIT 0" for name in names]
    with pytest.raises(DamagedLedgerError, match="relation odd"):
        ledger.reserve(Budget(0.1), "x")


# --- servers on a network ---------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_settings_of_ours(monkeypatch):
    for name in ("PGSSLMODE", "PGHOST", "PGHOSTADDR", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("url", "environment"),
    [
        ("postgresql://ada:hunter2@db.example.org/study", {}),
        ("postgresql://ada:hunter2@db.example.org/study?sslmode=require", {}),
        ("postgresql://ada:hunter2@localhost,db.example.org/study", {}),
        ("postgresql://ada:hunter2@localhost/study?hostaddr=192.0.2.1", {}),
        ("postgresql:///study?user=ada&password=hunter2", {"PGHOST": "db.example.org"}),
    ],
)
def test_a_server_that_is_not_checked_is_spoken_of(url, environment, monkeypatch):
    pytest.importorskip("psycopg")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.warns(UnverifiedServerWarning, match="sslmode=verify-full") as caught:
        Ledger(url)
    assert "hunter2" not in str(caught[0].message)


@pytest.mark.parametrize(
    ("url", "environment"),
    [
        ("postgresql://ada@db.example.org/study?sslmode=verify-full", {}),
        ("postgresql://ada@db.example.org/study", {"PGSSLMODE": "verify-full"}),
        ("postgresql://ada@localhost/study", {}),
        ("postgresql://ada@127.0.0.1,[::1]/study", {}),
        ("postgresql:///study?host=/run/postgresql", {}),
        ("postgresql:///study", {}),
    ],
)
def test_one_that_is_checked_or_here_is_not(url, environment, monkeypatch):
    pytest.importorskip("psycopg")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ledger = Ledger(url)
        assert "sslmode" not in url or "sslmode=verify-full" in ledger.place  # the place is as safe as the URL
        Ledger(ledger.place)


def test_commands_speak_of_it_in_one_line(monkeypatch):
    pytest.importorskip("psycopg")
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "2")
    done = CliRunner().invoke(app, ["ledger", "show", "postgresql://ada:hunter2@192.0.2.1:1/study?connect_timeout=2"])
    assert done.exit_code == 4
    assert (
        "dpeigen: warning: The ledger on 192.0.2.1 is asked over a network without sslmode=verify-full" in done.stderr
    )
    assert "hunter2" not in done.output
