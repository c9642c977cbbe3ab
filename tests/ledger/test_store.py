"""Making a file: never half of one, never over another, on file systems with and without links."""

from __future__ import annotations

import os
import sqlite3

import pytest

from dpeigen import Ledger
from dpeigen.privacy import Budget
from dpeigen.privacy.ledger import DamagedLedgerError, book


def test_the_file_has_a_log_and_nothing_else_is_left(path):
    ledger = Ledger.create(path, epsilon=1.0)
    ledger.reserve(Budget(0.1), "x")
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    db.close()
    assert os.listdir(path.parent) == [path.name]


def test_of_two_makers_one_wins(path, monkeypatch):
    link = os.link

    def slow(source, target):
        Ledger.create(path, epsilon=7.0) if not path.exists() else None
        return link(source, target)

    with monkeypatch.context() as patched:
        calls = iter([slow])
        patched.setattr(os, "link", lambda a, b: next(calls, link)(a, b))
        with pytest.raises(FileExistsError, match="may hold what was spent"):
            Ledger.create(path, epsilon=1.0)
    assert Ledger(path).remaining() == Budget(7.0)
    assert os.listdir(path.parent) == [path.name]


def test_a_file_system_without_links(path, monkeypatch):
    def refuse(source, target):
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    ledger = Ledger.create(path, epsilon=1.0)
    ledger.commit(ledger.reserve(Budget(0.25), "x"))
    assert ledger.remaining() == Budget(0.75)
    assert ledger.verify().ok
    with pytest.raises(FileExistsError):
        Ledger.create(path, epsilon=2.0)


@pytest.mark.parametrize("state", ["[", "{}", '{"total": {}, "filters": [{"a": 1}]}'])
def test_totals_that_cannot_be_read(path, state):
    ledger = Ledger.create(path, epsilon=1.0)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE budget SET state = ?", (state,))
    db.close()
    with pytest.raises(DamagedLedgerError, match="its totals cannot be read"):
        ledger.reserve(Budget(0.1), "x")
    assert not ledger.verify().ok


def test_a_user_without_a_name_is_a_number(path, monkeypatch):
    def nobody():
        raise KeyError("uid not found")

    monkeypatch.setattr(book.getpass, "getuser", nobody)
    Ledger.create(path, epsilon=1.0).reserve(Budget(0.1), "x")
    assert Ledger(path).history()[0]["by"] == f"uid {os.getuid()}"


@pytest.mark.parametrize("by", ["", "a\nb", 3])
def test_names_of_people_are_one_line(path, by):
    with pytest.raises(ValueError, match="'by' parameter"):
        Ledger.create(path, epsilon=1.0, by=by)
    assert not path.exists()


def test_a_file_that_vanished_is_not_made_anew(path):
    ledger = Ledger.create(path, epsilon=1.0)
    path.unlink()
    with pytest.raises(RuntimeError, match="cannot be used now"):
        ledger.reserve(Budget(0.1), "x")
    assert not path.exists()


def test_a_ledger_says_where_it_is(path):
    ledger = Ledger.create(path, epsilon=1.0)
    assert (ledger.path, ledger.place, repr(ledger)) == (path, str(path), f"Ledger({str(path)!r})")
