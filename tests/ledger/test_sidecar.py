"""The lock beside the file: other handles of the file do no harm, and what was granted is in the file."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from contextlib import contextmanager

import pytest
from test_faults import somebody

from dpeigen import Ledger
from dpeigen.privacy import Budget
from dpeigen.privacy.ledger import LedgerUnavailableError, sidecar, store

fcntl = pytest.importorskip("fcntl", reason="on Windows locks belong to handles, and there is no lock file")

LOOKING = """
import sys, threading
from dpeigen import Ledger
from dpeigen.privacy import Budget
from dpeigen.privacy.ledger import BudgetExceededError

path, (granted, refused), done = sys.argv[1], ([], []), threading.Event()
ledger = Ledger(path)

def look():  # as a backup or a checksum does
    while not done.is_set():
        open(path, "rb").close()

def work():
    for _ in range(12):
        try:
            granted.append(ledger.reserve(Budget(0.02), "share"))
        except BudgetExceededError:
            refused.append(1)

sys.stdin.readline()
looking = threading.Thread(target=look)
workers = [threading.Thread(target=work) for _ in range(2)]
for thread in (looking, *workers):
    thread.start()
for thread in workers:
    thread.join()
done.set()
looking.join()
assert len(granted) + len(refused) == 24  # nobody failed otherwise
print(*granted)
"""


def test_closing_another_handle_of_the_file_forgets_no_grant(path):
    """It drops SQLite's own locks: without a lock beside the file, more is granted than recorded or the file breaks."""
    ledger = Ledger.create(path, epsilon=1.0)  # room for 50 of 96
    command = [sys.executable, "-c", LOOKING, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, **pipes) for _ in range(4)]
    answers = []
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        answers += process.communicate()[0].split()
        assert process.returncode == 0
    assert len(answers) == 50
    assert sorted(entry["id"] for entry in ledger.history()) == sorted(answers)
    assert ledger.verify().ok


def test_what_is_not_in_the_file_any_more_is_not_granted(path, tmp_path, monkeypatch):
    """A program that knows of no lock puts an older copy in place just after the commit."""
    ledger = Ledger.create(path, epsilon=1.0)
    shutil.copy(path, tmp_path / "older")
    really, restored = sidecar.alone, []

    @contextmanager
    def alone(*arguments, **options):
        with really(*arguments, **options):
            yield
        if not restored:
            restored.append(shutil.copy(tmp_path / "older", path))

    monkeypatch.setattr(sidecar, "alone", alone)
    with pytest.raises(LedgerUnavailableError, match="what was written is not there any more"):
        ledger.reserve(Budget(0.25), "x")
    ticket = ledger.reserve(Budget(0.25), "y")
    shutil.copy(path, tmp_path / "older")
    restored.clear()
    with pytest.raises(LedgerUnavailableError, match="what was written is not there any more"):
        ledger.start(ticket)


@contextmanager
def held(place):
    handle = os.open(place, os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(handle)


def test_one_connection_at_a_time_also_through_links(path, monkeypatch):
    monkeypatch.setattr(store, "_WAIT", 0.05)
    ledger = Ledger.create(path, epsilon=1.0)
    folder = path.parent / "elsewhere"
    folder.mkdir()
    (folder / "link").symlink_to(path)
    (path.parent / "by folder").symlink_to(path.parent)
    names = [path, folder / "link", path.parent / "by folder" / path.name]
    with held(f"{path}-lock"):
        for name in names:
            for call in (Ledger(name).state, lambda name=name: Ledger(name).reserve(Budget(0.1), "x")):
                with pytest.raises(LedgerUnavailableError, match="locked"):
                    call()
    assert ledger.history() == []
    for name in names:
        Ledger(name).reserve(Budget(0.1), "x")
    assert len(ledger.history()) == 3
    assert list(folder.iterdir()) == [folder / "link"]  # the lock lies beside the file, as its log does


def test_a_lock_file_that_was_removed_is_made_anew(path):
    ledger = Ledger.create(path, epsilon=1.0)
    lock = path.with_name(f"{path.name}-lock")
    lock.unlink()
    ledger.reserve(Budget(0.25), "x")
    assert lock.read_bytes() == b""
    assert ledger.remaining() == Budget(0.75)


def mode(place):
    return stat.S_IMODE(place.stat().st_mode)


def test_who_may_use_the_ledger_may_lock_it(path):
    ledger, lock = Ledger.create(path, epsilon=1.0), path.with_name(f"{path.name}-lock")
    assert mode(lock) == mode(path)
    for wanted in (0o660, 0o600, 0o644):
        path.chmod(wanted)
        ledger.reserve(Budget(0.1), "x")
        assert mode(lock) == wanted
    lock.unlink()
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    path.chmod(0o600)
    ledger.reserve(Budget(0.1), "x")
    assert (mode(lock), lock.stat().st_uid) == (0o600, path.stat().st_uid)


def make_fifo(place, target):
    os.mkfifo(place)


def make_folder(place, target):
    place.mkdir()


def make_link(place, target):
    place.symlink_to(target)


@pytest.mark.parametrize("make", [make_fifo, make_folder, make_link])
def test_what_lies_in_the_place_of_the_lock_is_not_followed(path, tmp_path, make):
    ledger, lock, target = Ledger.create(path, epsilon=1.0), path.with_name(f"{path.name}-lock"), tmp_path / "other"
    lock.unlink()
    make(lock, target)
    for call in (ledger.state, lambda: ledger.reserve(Budget(0.1), "x")):
        with pytest.raises(LedgerUnavailableError, match="cannot be used now"):
            call()
    assert not target.exists()


def test_a_ledger_without_a_lock_is_shown_where_none_may_be_made(path):
    """Of an earlier version, in a folder that may only be read."""
    Ledger.create(path, epsilon=1.0).reserve(Budget(0.25), "x")
    path.with_name(f"{path.name}-lock").unlink()
    if os.geteuid() == 0:
        os.chown(path.parent, 65534, -1)
    path.parent.chmod(0o555)
    try:
        with somebody():
            assert Ledger(path).remaining() == Budget(0.75)
            assert Ledger(path).verify().ok
            with pytest.raises(LedgerUnavailableError, match="cannot be used now"):
                Ledger(path).reserve(Budget(0.1), "y")
    finally:
        path.parent.chmod(0o755)
    assert os.listdir(path.parent) == [path.name]


def test_a_lock_that_may_not_be_read_names_the_remedy(path):
    Ledger.create(path, epsilon=1.0)
    lock = path.with_name(f"{path.name}-lock")
    if os.geteuid() != 0:
        pytest.skip("needs two users")
    lock.chmod(0o600)
    path.parent.chmod(0o777)
    with somebody(), pytest.raises(LedgerUnavailableError, match="needs the ledger's permissions"):
        Ledger(path).state()


def test_a_file_system_that_cannot_lock_grants_nothing(path, monkeypatch):
    ledger = Ledger.create(path, epsilon=1.0)

    def refuse(handle, operation):
        raise OSError(95, "Operation not supported")

    with monkeypatch.context() as patched:
        patched.setattr(sidecar.fcntl, "flock", refuse)
        with pytest.raises(LedgerUnavailableError, match="file system does not lock files"):
            ledger.reserve(Budget(0.25), "x")
    assert ledger.remaining() == Budget(1.0)
