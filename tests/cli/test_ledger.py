"""`dpeigen ledger`: what it prints, what it exits with, and that edits show."""

from __future__ import annotations

import csv
import io
import json
import sqlite3

import pytest
from typer.testing import CliRunner

from dpeigen import Ledger
from dpeigen.cli.app import app
from dpeigen.privacy import Budget


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.ledger"


def run(*arguments):
    return CliRunner().invoke(app, ["ledger", *map(str, arguments)])


@pytest.fixture
def used(path):
    run("init", path, "--epsilon", 2, "--delta", 1e-5, "--by", "the board")
    ledger = Ledger(path, by="ada", host="lab")
    ledger.commit(ledger.reserve(Budget(0.5, 1e-6), "pca of wave 1", id="w1"))
    ledger.start(ledger.reserve(Budget(0.25), "=cmd()", id="w2"))
    ledger.cancel(ledger.reserve(Budget(0.25), "a mistake", id="w3"))
    return path


def test_init_makes_one_and_never_overwrites(path):
    first = run("init", path, "--epsilon", 2, "--delta", 1e-5)
    assert first.exit_code == 0
    assert "(ε, δ) = (2, 1e-05), accounting: auto" in first.output
    again = run("init", path, "--epsilon", 9)
    assert again.exit_code == 2
    assert "exists already" in again.output
    assert Ledger(path).remaining() == Budget(2.0, 1e-5)


@pytest.mark.parametrize(
    "options",
    [["--epsilon", 0], ["--epsilon", -1], ["--epsilon", 1, "--delta", 2], ["--epsilon", 1, "--accounting", "x"]],
)
def test_a_wrong_budget_is_refused(path, options):
    assert run("init", path, *options).exit_code == 2
    assert not path.exists()


def test_a_folder_must_be_there(tmp_path):
    result = run("init", tmp_path / "none" / "study.ledger", "--epsilon", 1)
    assert result.exit_code == 2
    assert "There is no folder" in result.output


def test_show_says_where_the_rest_of_delta_is(tmp_path):
    """With mixed accounting less δ is left than the budget minus what is spent."""
    for accounting, divided in (("mixed", True), ("sum", False)):
        place = tmp_path / f"{accounting}.ledger"
        run("init", place, "--epsilon", 1.5, "--delta", 1e-5, "--accounting", accounting)
        assert ("the rest of δ is kept for sums of Gaussian noise" in run("show", place).output) == divided


def test_show_and_history(used):
    shown = run("show", used).output
    assert "budget      (ε, δ) = (2, 1e-05)" in shown
    assert "left        (1.25, 9e-06)" in shown
    assert "1 committed, 1 reserved, 1 cancelled" in shown
    assert "open        w2 (started) by ada on lab" in shown
    facts = json.loads(run("show", used, "--json").output)
    assert facts["remaining"]["epsilon"] == 1.25
    assert [entry["id"] for entry in facts["open"]] == ["w2"]
    lines = run("history", used).output.splitlines()
    assert len(lines) == 3
    assert "w1  committed  ε=0.5 δ=1e-06  ada@lab  pca of wave 1" in lines[0]
    assert [e["state"] for e in json.loads(run("history", used, "--json").output)] == [
        "committed",
        "reserved",
        "cancelled",
    ]


def test_verify_prints_a_head_and_finds_an_edit(used):
    first = run("verify", used)
    assert first.exit_code == 0
    head = first.output.split("head ")[1].split()[0]
    assert run("verify", used, "--head", head).exit_code == 0
    Ledger(used).reserve(Budget(0.1), "later")
    assert run("verify", used, "--head", head).exit_code == 0
    with sqlite3.connect(used) as db:
        db.execute("UPDATE event SET body = replace(body, 'wave 1', 'wave 2')")
    db.close()
    edited = run("verify", used)
    assert edited.exit_code == 4
    assert "the record was changed" in edited.output
    found = CliRunner().invoke(app, ["ledger", "verify", str(used), "--json"])
    assert json.loads(found.stdout)["ok"] is False


def test_verify_exits_with_4_whatever_was_written(used):
    for edit in (
        "body = CAST(body AS BLOB)",
        "hash = CAST(hash AS BLOB)",
        "body = '{\"a\":' || printf('%.*c', 200000, '[')",
    ):
        with sqlite3.connect(used) as db:
            db.execute(f"UPDATE event SET {edit} WHERE number = 3")
        db.close()
        assert run("verify", used).exit_code == 4
    with sqlite3.connect(used) as db:
        db.execute("DROP TABLE entry")
    db.close()
    assert run("verify", used).exit_code == 4


def test_what_the_budget_does_not_cover_is_shown(used):
    assert "caution" not in run("show", used).output + run("verify", used).output
    Ledger(used).reserve(Budget(0.1), "x", about={"seeded": True})
    assert "caution     1 entry drawn with a seed: not private" in run("show", used).output
    verified = run("verify", used)
    assert verified.exit_code == 0
    assert "caution: 1 entry drawn with a seed: not private" in verified.output
    for command in ("show", "verify"):
        assert json.loads(run(command, used, "--json").output)["cautions"] == ["1 entry drawn with a seed: not private"]


def test_export(used, tmp_path):
    rows = list(csv.DictReader(io.StringIO(run("export", used).output)))
    assert [row["id"] for row in rows] == ["w1", "w2", "w3"]
    assert rows[1]["what"] == "'=cmd()"  # a spreadsheet must not run it
    out = tmp_path / "ledger.json"
    assert run("export", used, "--format", "json", "--out", out).exit_code == 0
    exported = json.loads(out.read_text(encoding="utf-8"))
    assert exported["events"][0]["body"]["by"] == "the board"
    assert [entry["id"] for entry in exported["history"]] == ["w1", "w2", "w3"]
    assert run("export", used, "--out", out).exit_code == 2  # nothing is overwritten
    assert run("export", used, "--format", "xml").exit_code == 2


def test_resolve(used):
    assert run("resolve", used, "w2", "--as", "maybe", "--reason", "x").exit_code == 2
    assert run("resolve", used, "w2", "--as", "cancelled").exit_code == 2  # a reason is asked for
    assert run("resolve", used, "w9", "--as", "spent", "--reason", "x").exit_code == 2
    done = run("resolve", used, "w2", "--as", "cancelled", "--reason", "node died in the queue", "--by", "grace")
    assert done.exit_code == 0
    entry = Ledger(used).history()[1]
    assert (entry["state"], entry["settled_by"], entry["reason"]) == ("cancelled", "grace", "node died in the queue")
    assert Ledger(used).remaining().epsilon == 1.5
    assert "cancelled (by hand)" in run("history", used).output
    assert run("verify", used).exit_code == 0


def test_places_that_hold_no_ledger(tmp_path):
    assert run("show", tmp_path / "none").exit_code == 2
    (tmp_path / "text").write_text("no database " * 100)
    damaged = run("show", tmp_path / "text")
    assert damaged.exit_code == 2
    assert "is not a dpeigen ledger" in damaged.output


def test_a_server_out_of_reach_is_a_refusal_without_the_password():
    pytest.importorskip("psycopg")
    result = run("show", "postgresql://ada:hunter2@127.0.0.1:1/study")
    assert result.exit_code == 4
    assert "cannot be used now" in result.output
    assert "hunter2" not in result.output
