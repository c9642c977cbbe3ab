"""The folder that the studio works in, with its tables and projects. Nothing outside it is ever opened.

Names from a request are not turned into paths. They are looked up in the list of existing files.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

from dpeigen.studio.errors import RefusedError
from dpeigen.studio.project import STATE, Project

__all__ = ["TABLES", "Workspace", "is_table"]

TABLES = (".csv", ".tsv", ".xlsx", ".parquet", ".feather", ".arrow", ".orc", ".jsonl")
_PACKED = (".gz", ".bz2", ".zst")
_LONGEST_NAME = 120
_MOST_BYTES = 64 * 2**30  # the largest file that may be dropped


class Workspace:
    """A folder with tables, and a project folder for each table that was opened."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve(strict=True)
        if not self.folder.is_dir():
            raise ValueError(f"{folder} is not a folder. Give the path of a table or of the folder that it is in.")

    def _children(self) -> list[Path]:
        """The entries of the folder, without links that lead out of it."""
        found = []
        for path in sorted(self.folder.iterdir(), key=lambda path: path.name.lower()):
            try:
                inside = path.resolve(strict=True).parent == self.folder
            except OSError:
                continue
            if inside and not path.name.startswith("."):
                found.append(path)
        return found

    def tables(self) -> list[str]:
        """The names of files that look like tables."""
        return [path.name for path in self._children() if path.is_file() and is_table(path.name)]

    def ledgers(self) -> list[str]:
        """The names of ledgers in the folder, for teams that share one."""
        return [path.name for path in self._children() if path.is_file() and path.suffix == ".ledger"]

    def projects(self) -> list[Project]:
        """The projects in the folder."""
        return [Project(self.folder, path.name) for path in self._children() if (path / STATE).is_file()]

    def project(self, name: str) -> Project:
        """The project with this name."""
        for found in self.projects():
            if found.name == name:
                return found
        raise RefusedError(f"There is no project {name!r} in this folder. Choose one from the list.", 404)

    def table(self, name: str) -> str:
        """The name of an existing table."""
        if name not in self.tables():
            raise RefusedError(f"There is no table {name!r} in this folder. Choose one from the list.", 404)
        return name

    def open(self, table: str) -> Project:
        """The project of a table: the existing one, or a new one."""
        table = self.table(table)
        for found in self.projects():
            if found.table == table:
                return found
        stem = re.sub(r"[^\w.-]+", "-", table.split(".")[0]).strip("-.") or "table"
        for number in range(1, 1000):
            name = f"{stem}-study" if number == 1 else f"{stem}-study-{number}"
            try:
                (self.folder / name).mkdir(mode=0o700)
            except FileExistsError:
                continue
            return Project.create(self.folder, name, table)
        raise RefusedError(f"The folder is full of projects named {stem}-study. Move some of them elsewhere.")

    async def receive(self, name: str, parts: AsyncIterator[bytes]) -> str:
        """Save a file that was dropped on the page, readable by its owner only; never overwrites."""
        if not is_table(name) or not _is_plain(name):
            kinds = ", ".join(TABLES)
            raise RefusedError(f"{name!r} is not the name of a table. Drop a file that ends in one of {kinds}.")
        path, size = self.folder / name, 0
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        except FileExistsError:
            raise RefusedError(
                f"{name!r} is in the folder already and is not overwritten. Choose it from the list, or rename yours."
            ) from None
        try:
            with os.fdopen(handle, "wb") as file:
                async for part in parts:
                    size += len(part)
                    if size > _MOST_BYTES:
                        raise RefusedError("The file is larger than 64 GiB. Move it into the folder instead.")
                    file.write(part)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return name


def is_table(name: str) -> bool:
    """Whether the ending of a name is that of a readable kind of table."""
    lower = name.lower()
    for ending in _PACKED:
        if lower.endswith(ending):
            lower = lower.removesuffix(ending)
            return lower.endswith((".csv", ".tsv", ".jsonl"))
    return lower.endswith(TABLES)


def _is_plain(name: str) -> bool:
    """Whether a name is a plain file name on every system, without a path."""
    return (
        len(name) <= _LONGEST_NAME
        and name.isprintable()
        and not name.startswith((".", "-"))
        and not re.search(r'[/\\:*?"<>|]', name)
    )
