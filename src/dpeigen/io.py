"""Arrays and a description on disk: safetensors and JSON, without pickle, checked when they are read.

A saved folder has ``release.safetensors`` and ``release.json``. The JSON has the SHA-256 of the file of arrays and of
its own content, so a damaged, truncated or edited file is refused. This detects damage, not forgery: anyone who can
write both files can make a consistent pair. Publish the digest where it cannot be changed.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ARRAYS",
    "DESCRIPTION",
    "FORMAT",
    "DamagedReleaseError",
    "digests",
    "read_folder",
    "replace_file",
    "write_folder",
]

ARRAYS, DESCRIPTION = "release.safetensors", "release.json"
FORMAT = 1
_PARTS, _PART_NAMES = count(), 1000


class DamagedReleaseError(ValueError):
    """A release on disk is missing, truncated or was changed."""


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _canonical(description: dict[str, Any]) -> bytes:
    return json.dumps(description, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()


def write_folder(folder: str | Path, arrays: dict[str, NDArray[Any]], description: dict[str, Any]) -> Path:
    """Write both files, each complete or not at all; the description last."""
    from safetensors.numpy import save

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    blob = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    content = {"format": FORMAT, "arrays_sha256": _digest(blob), "release": description}
    content["sha256"] = _digest(_canonical(content))
    replace_file(folder / ARRAYS, blob)
    replace_file(folder / DESCRIPTION, _rendered(content))
    return folder


def _rendered(content: dict[str, Any]) -> bytes:
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically, and durably in case of a power cut.

    The content is first written to a new file in the same folder. This file must not exist before, so that no link or
    file that somebody put there is followed or overwritten.
    """
    handle, temporary = _fresh_part(path)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def _fresh_part(path: Path) -> tuple[int, Path]:
    """A new file beside ``path``, open for writing, with the permissions that any new file would have."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    for _ in range(_PART_NAMES):
        temporary = path.with_name(f"{path.name}.{os.getpid()}-{next(_PARTS)}.part")
        with suppress(FileExistsError):
            return os.open(temporary, flags, 0o666), temporary
    raise FileExistsError(f"{path.parent} is full of unfinished files (NAME.part). Remove them.")


def _sync(folder: Path) -> None:
    """Write the entries of a folder to the disk, if the system supports it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def digests(folder: str | Path) -> dict[str, str]:
    """The SHA-256 of both files, as ``sha256sum`` prints it."""
    return {name: _digest((Path(folder) / name).read_bytes()) for name in (ARRAYS, DESCRIPTION)}


def read_folder(folder: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read and check both files."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    folder = Path(folder)
    if folder.name in (ARRAYS, DESCRIPTION):
        folder = folder.parent
    try:
        blob, text = (folder / ARRAYS).read_bytes(), (folder / DESCRIPTION).read_bytes()
    except OSError as error:
        raise DamagedReleaseError(f"No complete release in {folder}: {error.strerror or error}.") from None
    try:
        content = json.loads(text)
        as_written = text == _rendered(
            content
        )  # one form only: no second value for a key, no other spelling of a number
        claimed = content.pop("sha256")
        arrays_claimed, description = content["arrays_sha256"], content["release"]
        intact = as_written and claimed == _digest(_canonical(content))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise DamagedReleaseError(
            f"{folder / DESCRIPTION} is not a release description: truncated or edited."
        ) from None
    if not intact:
        raise DamagedReleaseError(f"{folder / DESCRIPTION} was changed after it was written (its digest differs).")
    if content.get("format") != FORMAT:
        raise DamagedReleaseError(f"Format {content.get('format')!r} is not known; this version reads format {FORMAT}.")
    if arrays_claimed != _digest(blob):
        raise DamagedReleaseError(f"{folder / ARRAYS} is truncated or was changed (its digest differs).")
    try:
        return load(blob), description
    except (SafetensorError, ValueError, KeyError):
        raise DamagedReleaseError(f"{folder / ARRAYS} is not a safetensors file.") from None
