"""Folders of files that form one table, and columns given by folder names (key=value)."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote

__all__ = ["files_in", "partition_keys", "partition_of"]

_NOTHING = "__HIVE_DEFAULT_PARTITION__"  # the folder of rows without a value


def files_in(folder: Path) -> list[Path]:
    """All files in a folder and its subfolders, by name, or an error."""

    def unreadable(error: OSError) -> None:
        raise error

    files: list[Path] = []
    for at, inside, names in os.walk(folder, onerror=unreadable):
        inside[:] = [name for name in inside if not name.startswith((".", "_"))]
        found = [Path(at) / name for name in names if not name.startswith((".", "_"))]
        linked = [path for path in found if not path.is_file()]
        linked += [path for name in inside if (path := Path(at) / name).is_symlink()]
        if linked:
            raise FileNotFoundError(
                f"{linked[0]} is a link to a folder, a link to nothing, or not a file. Give the folder it stands for."
            )
        files += found
    files.sort()
    if not files:
        raise FileNotFoundError(f"There are no files in {folder}.")
    return files


def partition_keys(path: Path, files: list[Path]) -> list[str]:
    """The columns of a partitioned data set that are given by folder names."""
    folders = [file.relative_to(path).parts[:-1] for file in files] if path.is_dir() else []
    keys = {tuple(part.partition("=")[0] for part in parts if "=" in part) for parts in folders}
    if len(keys) > 1:
        raise ValueError(f"The folders in {path.name!r} are not partitioned by the same columns everywhere.")
    return list(keys.pop()) if keys else []


def partition_of(path: Path, file: Path) -> dict[str, str | None]:
    """The values of those columns, from the names of a file's folders."""
    found = (
        part.partition("=") for part in (file.relative_to(path).parts[:-1] if path.is_dir() else ()) if "=" in part
    )
    return {key: None if value == _NOTHING else unquote(value) for key, _, value in found}
