"""The lock beside a ledger's file: one connection at a time, whatever else opens and closes the file.

SQLite locks its file with POSIX locks, which belong to the process: when a process closes *any* handle of the file (a
backup thread, a checksum, `open(path).close()`), all its locks on it are gone, and SQLite still counts on them. Another
process then takes the log away under a writer, and grants are forgotten or the file is destroyed. A lock by `flock`
belongs to one opened file: no other handle can drop it, and it ends when its process does. It lies on a file of its
own, ``<ledger>-lock``, which is empty, is made with the ledger's permissions, and is never removed: a lock file that is
removed while it is held lets two in.

Windows needs none of this: locks belong to handles there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from pathlib import Path

__all__ = ["alone", "beside"]

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_PAUSES = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.025)  # seconds between two attempts; the last one goes on
_SAFE = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def beside(ledger: Path) -> Path:
    """The lock file of a ledger; of a symbolic link, that of the file it leads to, where SQLite keeps its log too."""
    real = ledger.resolve()
    return real.with_name(f"{real.name}-lock")


@contextmanager
def alone(ledger: Path, *, reading: bool, wait: float) -> Iterator[None]:
    """Keep all others out of this ledger, or raise OSError. ``wait`` is in seconds.

    Who only reads, and may not make the lock file where there is none, goes on without: nobody can write there who did
    not make one first.
    """
    handle = None if fcntl is None else _acquire(beside(ledger), ledger, reading, wait)
    try:
        yield
    finally:
        if handle is not None:
            fcntl.flock(handle, fcntl.LOCK_UN)  # also where a process forked meanwhile holds a copy of the handle
            os.close(handle)


def _acquire(place: Path, ledger: Path, reading: bool, wait: float) -> int | None:
    end = time.monotonic() + wait
    for pause in chain(_PAUSES, repeat(_PAUSES[-1])):
        handle = _open(place, ledger, reading)
        if handle is None:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is(handle, place):
                return handle
        except BlockingIOError:
            pass
        except BaseException as error:
            os.close(handle)
            if isinstance(error, OSError):
                raise OSError(error.errno, f"its file system does not lock files ({error.strerror})") from None
            raise
        os.close(handle)
        if time.monotonic() > end:
            raise TimeoutError(errno.ETIMEDOUT, f"it is locked: others have been using it for {wait:g} seconds")
        time.sleep(pause)
    raise AssertionError("the pauses do not end")


def _open(place: Path, ledger: Path, reading: bool) -> int | None:
    """The lock file, made if there is none; None for a reader who may not make it."""
    try:
        handle = _existing(place)
    except FileNotFoundError:
        try:
            mode = stat.S_IMODE(ledger.stat().st_mode) & 0o666 if ledger.exists() else 0o644
            handle = os.open(place, os.O_RDWR | os.O_CREAT | _SAFE, mode)
        except OSError as error:
            if reading and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                return None
            raise
    except PermissionError:
        raise PermissionError(errno.EACCES, f"{place} may not be read; it needs the ledger's permissions") from None
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, f"{place} is not a plain file; remove it")
    _like(handle, found, ledger)
    return handle


def _existing(place: Path) -> int:
    try:
        return os.open(place, os.O_RDWR | _SAFE)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, f"{place} is a symbolic link; remove it") from None
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
    return os.open(place, os.O_RDONLY | _SAFE)  # enough for a lock


def _like(handle: int, found: os.stat_result, ledger: Path) -> None:
    """Give the lock file the ledger's permissions, where we may, so that whoever may use the one can lock the other."""
    with contextlib.suppress(OSError):
        due = ledger.stat()
        if os.geteuid() == 0 and (due.st_uid, due.st_gid) != (found.st_uid, found.st_gid):
            os.fchown(handle, due.st_uid, due.st_gid)
        elif os.geteuid() == found.st_uid and due.st_gid != found.st_gid:
            os.fchown(handle, -1, due.st_gid)
        mode = stat.S_IMODE(due.st_mode) & 0o666
        if os.geteuid() in (0, found.st_uid) and mode != stat.S_IMODE(found.st_mode):
            os.fchmod(handle, mode)


def _is(handle: int, place: Path) -> bool:
    """Whether the lock file is still the one that was opened; a removed one keeps nobody out."""
    try:
        there = place.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    found = os.fstat(handle)
    return (found.st_dev, found.st_ino) == (there.st_dev, there.st_ino)
