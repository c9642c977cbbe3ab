"""The lock file of a ledger: one connection at a time, whatever else opens and closes the ledger's file.

SQLite locks its file with POSIX locks, which belong to the process. When a process closes *any* handle of the file (a
backup thread, a checksum, `open(path).close()`), it loses all its locks on it, and SQLite does not notice. Another
process can then remove the log while a writer uses it, and grants are lost or the file is destroyed. A lock by `flock`
belongs to one opened file: no other handle can release it, and it ends with its process. It is taken on a separate
file, ``<ledger>-lock``, which is empty and has the ledger's permissions. That file is never removed: if it were removed
while locked, two processes could hold the lock.

Windows needs none of this: there locks belong to handles.
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

_PAUSES = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.025)  # seconds between attempts; the last value repeats
_SAFE = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def beside(ledger: Path) -> Path:
    """The lock file of a ledger. Symbolic links are followed first, as SQLite does for its log."""
    real = ledger.resolve()
    return real.with_name(f"{real.name}-lock")


@contextmanager
def alone(ledger: Path, *, reading: bool, wait: float) -> Iterator[None]:
    """Hold the lock of this ledger, or raise OSError. ``wait`` is in seconds.

    A reader who may not create a missing lock file continues without a lock: a writer would have created the file.
    """
    handle = None if fcntl is None else _acquire(beside(ledger), ledger, reading, wait)
    try:
        yield
    finally:
        if handle is not None:
            fcntl.flock(handle, fcntl.LOCK_UN)  # even if a forked process has a copy of the handle
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
    """The lock file, created if it is missing; None for a reader who may not create it."""
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
    """Give the lock file the ledger's permissions if allowed, so that everyone who may use the ledger can lock it."""
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
    """Whether the lock file is still the one that was opened; a removed file locks nobody out."""
    try:
        there = place.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    found = os.fstat(handle)
    return (found.st_dev, found.st_ino) == (there.st_dev, there.st_ino)
