"""Storage of the ingestion service: reports are on the disk before they are acknowledged, and in Parquet soon after.

A folder has ``parameters.json``, ``batch-N.log`` (reports as they came, each with its length before it; synced before a
batch is acknowledged) and ``batch-N.parquet`` (the same, once a log is full). A full log is not written to again; it is
converted to a Parquet file, which is retried until it succeeds. A Parquet file is written atomically, and its log is
removed only afterwards. So at whatever moment the process is killed, every acknowledged report is in exactly one of the
two when the folder is opened again: a log that has a Parquet file is removed, and an incomplete report at the end of a
log, which was never acknowledged, is cut off. Only one process at a time may have the folder open.
"""

from __future__ import annotations

import json
import logging
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path

from dpeigen._validate import check_count
from dpeigen.local.containers import reports_in
from dpeigen.local.parameters import LocalParameters
from dpeigen.local.store import replace_file, sync_folder, write_reports

__all__ = ["PARAMETERS", "Journal", "pack", "read_parameters", "unfinished", "unpack", "write_parameters"]

_LENGTH = struct.Struct("<I")
PARAMETERS = "parameters.json"
_LOGGER = logging.getLogger(__name__)
_LARGEST_LOG = 2**26  # bytes, after which it becomes Parquet


def pack(reports: list[bytes]) -> bytes:
    """Reports one after the other, each with its length before it: the body of a post, and the content of a log."""
    return b"".join(_LENGTH.pack(len(report)) + report for report in reports)


def unpack(content: bytes, most: int, count: int | None = None) -> tuple[list[bytes], int]:
    """The (first ``count``) reports of at most ``most`` bytes each, and the number of bytes that they take up."""
    found: list[bytes] = []
    at = 0
    while at + _LENGTH.size <= len(content) and (count is None or len(found) < count):
        (length,) = _LENGTH.unpack_from(content, at)
        if length > most or at + _LENGTH.size + length > len(content):
            break
        at += _LENGTH.size + length
        found.append(content[at - length : at])
    return found, at


def unfinished(folder: Path, most: int) -> Iterator[tuple[Path, list[bytes]]]:
    """The complete reports in the logs of a folder, read only: the service may be running.

    Call it before listing Parquet files, and skip logs that have one in the list. A log is removed only after its
    Parquet file exists, so no report is missed.
    """
    contents = {}
    for log in sorted(folder.glob("batch-*.log")):
        with suppress(FileNotFoundError):
            contents[log] = log.read_bytes()
    return ((log, unpack(found, most)[0]) for log, found in contents.items())


def write_parameters(path: Path, parameters: LocalParameters) -> None:
    """Parameters as JSON, with their digest."""
    content = {"parameters": parameters.to_dict(), "digest": parameters.digest}
    replace_file(path, json.dumps(content, indent=2).encode() + b"\n")


def read_parameters(path: Path) -> LocalParameters:
    """Parameters from such a file; refused if they do not fit their digest."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        parameters, claimed = LocalParameters(**content["parameters"]), content["digest"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} does not hold parameters of local reports: {error}") from None
    if parameters.digest != claimed:
        raise ValueError(f"{path} was changed: its digest is not that of its parameters.")
    return parameters


class Journal:
    """The folder of one service."""

    def __init__(self, folder: str | Path, parameters: LocalParameters, *, reports_per_file: int = 20_000) -> None:
        import fcntl  # not on Windows: only the service needs it

        self.folder = Path(folder)
        self._most = check_count("reports_per_file", reports_per_file, "Journal")
        self.folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW  # a link is refused, and nothing is cut off
        self._lock = os.fdopen(os.open(self.folder / "lock", flags, 0o666), "r+b")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise ValueError(f"{self.folder} is in use by another service.") from None
        known = self.folder / PARAMETERS
        if not known.exists():
            write_parameters(known, parameters)
        elif read_parameters(known) != parameters:
            self.close()
            raise ValueError(f"{self.folder} holds reports made with other parameters. Use another folder.")
        self._log: FileIO | None = None
        self._number, self._count, self._size = 0, 0, 0
        self._full: list[Path] = []

    def recover(self, size_limit: int) -> Iterator[list[bytes]]:
        """All reports in the folder, batch by batch; afterwards the journal is ready to append."""
        for leftover in self.folder.glob("*.part"):
            leftover.unlink()
        finished = sorted(self.folder.glob("batch-*.parquet"))
        for file in finished:
            yield from reports_in(file)
        numbers = [_number(file) for file in finished]
        for log in sorted(self.folder.glob("batch-*.log")):
            if _number(log) in numbers:
                log.unlink()
                continue
            reports, good = unpack(log.read_bytes(), size_limit)
            with log.open("r+b") as torn:
                torn.truncate(good)
                os.fsync(torn.fileno())
            yield reports
            numbers.append(_number(log))
            self._full.append(log)
        self._finish_full()
        self._number = max(numbers, default=0)
        self._open()

    def append(self, reports: list[bytes]) -> None:
        """Write reports to the disk: all of them when this returns, none of them if it raises."""
        if self._log is None:
            raise OSError("The journal is closed.")
        content = pack(reports)
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[self._log.write(rest) :]
            os.fsync(self._log.fileno())
        except OSError:
            self._undo()
            raise
        self._size += len(content)
        self._count += len(reports)
        if self._count >= self._most or self._size >= _LARGEST_LOG:
            self.rotate()

    def _undo(self) -> None:
        """Undo a partial write; if that fails too, accept no more reports."""
        log, self._log = self._log, None
        if log is not None:
            log.truncate(self._size)
            log.seek(self._size)
            os.fsync(log.fileno())
            self._log = log

    def rotate(self) -> None:
        """Begin another log and convert the full ones to Parquet; what fails is tried again at the next call.

        It never raises: the reports are already on the disk, in logs that are read when the folder is opened again.
        """
        old, path = self._log, self._path(self._number)
        if old is None:
            return
        try:
            self._open()
        except OSError as error:  # the old log still exists and is used further
            _LOGGER.warning("No new log could be begun, the old one goes on: %s", error)
            return
        self._full.append(path)
        with suppress(OSError):
            old.close()
        self._finish_full()

    def _finish_full(self) -> None:
        while self._full:
            try:
                reports, _ = unpack(self._full[0].read_bytes(), 2**32)
                self._finish(self._full[0], reports)
            except Exception as error:  # of the disk, of memory or of Arrow: none of them may fail an append
                _LOGGER.warning("%s is kept as it is for now: %s", self._full[0].name, error)
                return
            del self._full[0]

    def close(self) -> None:
        """Convert the logs, as far as the disk allows, and release the folder."""
        if getattr(self, "_log", None) is not None:
            assert self._log is not None
            self._log.close()
            self._log = None
            self._full.append(self._path(self._number))
            self._finish_full()
        self._lock.close()

    def _path(self, number: int) -> Path:
        return self.folder / f"batch-{number:08d}.log"

    def _open(self) -> None:
        path = self._path(self._number + 1)
        log = path.open("xb", buffering=0)
        try:
            sync_folder(self.folder)
        except OSError:
            log.close()
            path.unlink()
            raise
        self._log, self._number, self._count, self._size = log, self._number + 1, 0, 0

    @staticmethod
    def _finish(log: Path, reports: list[bytes]) -> None:
        if reports:
            write_reports(log.with_suffix(".parquet"), reports)
        log.unlink(missing_ok=True)


def _number(file: Path) -> int:
    return int(file.stem.removeprefix("batch-"))
