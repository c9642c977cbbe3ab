"""Finding, fetching and checking the files behind the data sets.

Guarantees: a file with a recorded SHA-256 is used only if its content has this digest, wherever it is; a download is
saved atomically; a failure is one `DatasetError` with a remedy.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Dataset", "DatasetError", "File", "arrays", "cache_folder", "of_shape", "rows_only"]

_TIMEOUT = 60  # seconds


class DatasetError(RuntimeError):
    """A data set is missing, could not be fetched, or has unexpected content."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A public table.

    Attributes
    ----------
    X : (n, d) array
        Rows × features.
    feature_names : tuple of str
        Names of the d columns.
    target : (n,) array or None
        Labels or the variable to predict.
    description : str
        What the rows are, and under which licence.
    bounds : (lower, upper) or None
        Public bounds of the columns, where they are declared.
    """

    X: NDArray[Any]
    feature_names: tuple[str, ...]
    target: NDArray[Any] | None
    description: str
    bounds: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None


def rows_only(raw: bytes) -> bytes:
    """The lines that begin with a digit: headers, banners, blank lines and line endings differ between mirrors."""
    return b"".join(line + b"\n" for line in raw.splitlines() if line[:1].isdigit())


@dataclass(frozen=True)
class File:
    """One file: its path below a data folder, its public address, and the digest of its content."""

    path: str
    url: str | None = None
    sha256: str | None = None
    content: Callable[[bytes], bytes] = bytes

    def read(self) -> bytes:
        """The content, from the first location that has it."""
        for folder in filter(None, [_data_folder(), cache_folder()]):
            if (folder / self.path).is_file():
                return self._checked((folder / self.path).read_bytes(), str(folder / self.path))
        if self.url is None:
            raise DatasetError(
                f"{self.path} is not in the folder named by DPEIGEN_DATA, and its public form needs other software to "
                "read (R's RData or MATLAB's mat). Convert it as described in the loader's help and set DPEIGEN_DATA."
            )
        raw = self._download(self.url)
        content = self._checked(raw, self.url)
        _write(cache_folder() / self.path, raw)
        return content

    def _download(self, url: str) -> bytes:
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:
                return bytes(answer.read())
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise DatasetError(
                f"{self.path} could not be downloaded from {url} ({reason}). Connect to the network and try again, "
                "or put the file into a folder and name that folder in the environment variable DPEIGEN_DATA."
            ) from None

    def _checked(self, raw: bytes, origin: str) -> bytes:
        try:
            content = self.content(raw)
        except (OSError, EOFError):
            content = b""  # damaged gzip: the digest below does not fit
        if self.sha256 is not None and hashlib.sha256(content).hexdigest() != self.sha256:
            raise DatasetError(
                f"{origin} is not the file it should be: its SHA-256 differs from the recorded one. Nothing was kept. "
                "Delete it if it is a local copy, or put the right file into the folder named by DPEIGEN_DATA."
            )
        return content


def cache_folder() -> Path:
    """Return the folder where downloads are kept: ``DPEIGEN_CACHE``, or the operating system's place for caches.

    Returns
    -------
    Path
        The folder; it may not exist yet.
    """
    if os.environ.get("DPEIGEN_CACHE"):
        return Path(os.environ["DPEIGEN_CACHE"]).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "dpeigen" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "dpeigen"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dpeigen"


def _data_folder() -> Path | None:
    named = os.environ.get("DPEIGEN_DATA")
    return Path(named).expanduser() if named else None


def _write(path: Path, content: bytes) -> None:
    """Write a file atomically, also with several processes at once."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise DatasetError(
            f"The cache folder {path.parent} cannot be written to ({error.strerror}). Set DPEIGEN_CACHE to another."
        ) from None


def of_shape(name: str, X: NDArray[Any], shape: tuple[int, int]) -> NDArray[Any]:
    if X.shape != shape:
        raise DatasetError(f"The data set {name} should have shape {shape}; the file found has {X.shape}.")
    return X


def arrays(path: str, name: str, shape: tuple[int, int]) -> tuple[NDArray[Any], NDArray[Any]]:
    with np.load(io.BytesIO(File(path).read()), allow_pickle=False) as arrays:
        return of_shape(name, arrays["X"], shape), arrays["y"]
