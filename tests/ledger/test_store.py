"""Making a file: never half of one, never over another, on file systems with and without links."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading

import pytest

from dpeigen import Ledger
from dpeigen.privacy import Budget
from dpeigen.privacy.ledger import DamagedLedgerError, LedgerUnavailableError, texts


def test_the_file_has_a_log_and_nothing_else_is_left(path):
    ledger = Ledger.create(path, epsilon=1.0)
    ledger.reserve(Budget(0.1), "x")
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    db.close()
    assert sorted(os.listdir(path.parent)) == [path.name, f"{path.name}-lock"]


def test_of_two_makers_one_wins(path, monkeypatch):
    link, other = os.link, path.with_name("other")
    Ledger.create(other, epsilon=7.0)

    def slow(source, target):  # another one, which knows of no lock, is quicker
        other.rename(path)
        return link(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", slow)
        with pytest.raises(FileExistsError, match="may hold what was spent"):
            Ledger.create(path, epsilon=1.0)
    assert Ledger(path).remaining() == Budget(7.0)
    assert sorted(os.listdir(path.parent)) == ["other-lock", path.name, f"{path.name}-lock"]


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

    monkeypatch.setattr(texts.getpass, "getuser", nobody)
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


# --- one file, one name ---------------------------------------------------------------------------------------------


def refused(ledger):
    for call in (lambda: ledger.reserve(Budget(0.1), "x"), ledger.state, ledger.verify):
        with pytest.raises(LedgerUnavailableError, match="more than one name"):
            call()


def test_a_second_name_is_refused_under_both(path):
    """The log of a hard link is another one: both would grant the whole budget."""
    ledger, other = Ledger.create(path, epsilon=1.0), path.with_name("other.ledger")
    os.link(path, other)
    refused(ledger)
    refused(Ledger(other))
    other.unlink()
    ledger.commit(ledger.reserve(Budget(1.0), "x"))
    assert ledger.verify().ok


def test_a_second_name_that_goes_away_is_waited_for(path):
    """As while another process is making the ledger."""
    ledger, other = Ledger.create(path, epsilon=1.0), path.with_name("other.ledger")
    os.link(path, other)
    threading.Timer(0.04, other.unlink).start()
    ledger.reserve(Budget(0.25), "x")
    assert ledger.remaining() == Budget(0.75)


def test_a_symbolic_link_is_the_same_name(path):
    ledger = Ledger.create(path, epsilon=1.0)
    path.with_name("link").symlink_to(path)
    Ledger(path.with_name("link")).reserve(Budget(0.5), "x")
    assert ledger.remaining() == Budget(0.5)


MOUNTED = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 4096, 16384, 1 << 18
source, target = map(os.fsencode, sys.argv[1:])
if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) or libc.mount(
    source, target, None, MS_BIND, None
):
    sys.exit(77)
from dpeigen import Ledger
from dpeigen.privacy import Budget
try:
    Ledger(sys.argv[2]).reserve(Budget(0.5), "x")
except RuntimeError as error:
    print(error)
Ledger(sys.argv[1]).reserve(Budget(0.25), "x")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="files are mounted on Linux only")
def test_a_file_mounted_by_itself_is_refused(path):
    ledger, box = Ledger.create(path, epsilon=1.0), path.parent / "a b\\c"
    box.mkdir()
    (box / "study.ledger").touch()
    script = [sys.executable, "-c", MOUNTED, str(path), str(box / "study.ledger")]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip("mounting needs rights that are not there")
    assert done.returncode == 0, done.stderr
    assert "mount its folder" in done.stdout
    assert ledger.remaining() == Budget(0.75)


def test_a_relative_path_stays_where_it_was(path, monkeypatch):
    elsewhere = path.parent / "elsewhere"
    elsewhere.mkdir()
    Ledger.create(elsewhere / path.name, epsilon=1.0)
    monkeypatch.chdir(path.parent)
    ledger = Ledger.create(path.name, epsilon=1.0)
    monkeypatch.chdir(elsewhere)
    ledger.reserve(Budget(1.0), "x")
    assert ledger.remaining() is None
    assert Ledger(path.name).remaining() == Budget(1.0)


def test_a_folder_that_is_not_there(path):
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        Ledger.create(path.parent / "missing" / path.name, epsilon=1.0)


def test_systems_that_cannot_mount_a_file_are_not_asked(path, monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    ledger = Ledger.create(path, epsilon=1.0)
    ledger.reserve(Budget(0.5), "x")
    assert ledger.remaining() == Budget(0.5)


@pytest.mark.parametrize(
    ("old", "new"), [(b"CREATE TABLE event", b"CREATE TABL\xff event"), (b'"by":"ada"', b'"by":"a\xffa"')]
)
def test_names_and_texts_that_are_no_text_are_damage(tmp_path, old, new):
    """Found by the fuzzer: SQLite's message quotes the bytes, and Python could not decode it."""
    path = tmp_path / "l"
    Ledger.create(path, epsilon=1.0, by="ada")
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))
    with pytest.raises(DamagedLedgerError):
        Ledger(path).reserve(Budget(0.1), "x")
    with pytest.raises(DamagedLedgerError):
        Ledger(path).verify()
