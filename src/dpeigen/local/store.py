"""Reports and aggregates on disk: Parquet or Arrow files with a column of bytes, one safetensors file. No pickle."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen import io
from dpeigen.io import DamagedReleaseError
from dpeigen.local.containers import COLUMN, FORMATS

__all__ = ["read_state", "replace_file", "report_files", "sync_folder", "write_reports", "write_state"]


def replace_file(path: Path, content: bytes) -> None:
    """Write a file atomically; it is on the disk when this returns."""
    io.replace_file(path, content)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Write names of files to the disk, not only their content."""
    if os.name == "nt":  # where folders cannot be opened, and need not be
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_reports(path: str | Path, reports: Iterable[bytes]) -> Path:
    """Write reports as one Parquet file, atomically.

    Parameters
    ----------
    path : path
        The file.
    reports : iterable of bytes
        The reports.

    Returns
    -------
    Path
        The file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({COLUMN: pa.array(list(reports), type=pa.large_binary())})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="none")  # noise does not compress
    replace_file(path, sink.getvalue().to_pybytes())
    return path


def report_files(path: str | Path) -> list[Path]:
    """The file itself, or all files with reports in a folder, by name."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"No such file or folder: {path}")
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.suffix.lower() in FORMATS and file.is_file())
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"Cannot tell the format of {path.name!r}. Supported endings: {', '.join(FORMATS)}.")
    return [path]


def _digest(arrays: dict[str, NDArray[Any]], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


def write_state(path: str | Path, arrays: dict[str, NDArray[Any]], description: dict[str, Any]) -> Path:
    """Arrays and a description in one file, which is replaced as a whole."""
    from safetensors.numpy import save

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(description, sort_keys=True, allow_nan=False)
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    replace_file(path, save(arrays, metadata={"state": text, "sha256": _digest(arrays, text)}))
    return path


def read_state(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The inverse of `write_state`, checked."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="np") as file:
            said = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        text, claimed = said["state"], said["sha256"]
        description = json.loads(text)
    except (SafetensorError, OSError, KeyError, ValueError, TypeError):
        raise DamagedReleaseError(f"{path} is missing or is not the state of an aggregator.") from None
    if claimed != _digest(arrays, text):
        raise DamagedReleaseError(f"{path} was changed after it was written (its digest differs).")
    return arrays, description
