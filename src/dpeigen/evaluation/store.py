"""Finished cells on disk: a killed comparison continues where it stopped, and no cell is stored twice.

An SQLite file beside the results has the setting and one row for each finished cell, written in its own transaction. A
file from another setting is refused; more methods, more ε and more repetitions are the same setting.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dpeigen.evaluation.cells import Cell, Result

__all__ = ["CellStore", "OtherSettingError"]

_FORMAT = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS methods (label TEXT PRIMARY KEY, what TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS cells (cell TEXT PRIMARY KEY, result TEXT NOT NULL);
"""


class OtherSettingError(ValueError):
    """The file on disk was made with another setting."""


class CellStore:
    """The finished cells of one setting; in memory if no path is given."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = sqlite3.connect(":memory:" if path is None else path, timeout=60, isolation_level=None)
            self._db.executescript(_TABLES)
        except sqlite3.DatabaseError as error:
            raise OtherSettingError(f"{path} holds no finished cells ({error}). Choose another 'out'.") from None

    def __enter__(self) -> CellStore:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def seed(self) -> int | None:
        """The seed of the stored cells."""
        found = self._db.execute("SELECT value FROM setting WHERE name = 'seed'").fetchone()
        return None if found is None else int(json.loads(found[0]))

    def claim(self, setting: Mapping[str, Any], methods: Mapping[str, str]) -> None:
        """Write the setting, or refuse if the stored cells belong to another one."""
        self._agree("setting", "name", "value", {"format": _FORMAT, **setting}, whole=True)
        self._agree("methods", "label", "what", methods, whole=False)

    def _agree(self, table: str, key: str, column: str, wanted: Mapping[str, Any], *, whole: bool) -> None:
        texts = {name: json.dumps(value, sort_keys=True) for name, value in wanted.items()}
        self._db.execute("BEGIN IMMEDIATE")
        try:
            found = dict(self._db.execute(f"SELECT {key}, {column} FROM {table}").fetchall())
            names = found.keys() | texts.keys() if whole and found else found.keys() & texts.keys()
            differ = sorted(name for name in names if found.get(name) != texts.get(name))
            if differ:
                one = differ[0]
                raise OtherSettingError(
                    f"{self.path} was made with another setting: {', '.join(differ)} "
                    f"({one}: {found.get(one)} there, {texts.get(one)} now). Choose another 'out', or remove the file."
                )
            self._db.executemany(f"INSERT OR IGNORE INTO {table} VALUES (?, ?)", texts.items())
        finally:
            self._db.execute("COMMIT")

    def add(self, cell: Cell, result: Result) -> None:
        """Store one finished cell permanently; an existing cell is not changed."""
        self._db.execute("INSERT OR IGNORE INTO cells VALUES (?, ?)", (_key(cell), json.dumps(result)))

    def results(self, cells: Iterable[Cell]) -> dict[Cell, Result]:
        """The results of those of these cells that are finished."""
        found = dict(self._db.execute("SELECT cell, result FROM cells").fetchall())
        return {cell: json.loads(found[key]) for cell in cells if (key := _key(cell)) in found}


def _key(cell: Cell) -> str:
    return json.dumps([cell.label, cell.epsilon, cell.repetition])
