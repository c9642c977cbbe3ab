"""A project: the folder beside a table that holds its settings, its ledger and its releases.

    visits-study/
      study.toml      the settings, which every command reads too
      studio.json     what the page alone knows: the table, the question, the number of people where it is public
      study.ledger    the budget
      releases/001/   one folder for each release: its settings, its command, its messages, and release/ itself

Everything in it except the ledger's record and the releases was entered by a person. No value of the table is stored.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dpeigen.io import replace_file
from dpeigen.studio.errors import RefusedError
from dpeigen.studio.toml import render

__all__ = ["LEDGER", "QUESTIONS", "RELEASES", "SETTINGS", "STATE", "Project"]

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

STATE, SETTINGS, LEDGER, RELEASES = "studio.json", "study.toml", "study.ledger", "releases"
QUESTIONS = {
    "pca": "Components",
    "covariance": "Covariance or correlation",
    "ridge": "Regression",
    "scoremap": "Map",
}


@dataclass(frozen=True)
class Project:
    """A project folder. It is read again at every request, because another tab or an editor may have changed it."""

    root: Path
    name: str

    @classmethod
    def create(cls, root: Path, name: str, table: str) -> Project:
        """A new project, in an existing empty folder."""
        project = cls(root, name)
        project.save(state={"table": table, "question": "pca"})
        return project

    @property
    def folder(self) -> Path:
        return self.root / self.name

    @property
    def settings_path(self) -> Path:
        return self.folder / SETTINGS

    @property
    def releases_path(self) -> Path:
        return self.folder / RELEASES

    @cached_property
    def state(self) -> dict[str, Any]:
        """State that only the page uses."""
        try:
            found = json.loads((self.folder / STATE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = None
        if not isinstance(found, dict) or not isinstance(found.get("table"), str):
            raise RefusedError(
                f"{self.name}/{STATE} cannot be read. Restore it, or delete it and open the table again."
            )
        return found

    @cached_property
    def content(self) -> dict[str, Any]:
        """The settings in the file; empty before any are saved."""
        try:
            return tomllib.loads(self.settings_path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise RefusedError(f"{self.name}/{SETTINGS} is not valid: {error}. Mend it in a text editor.") from None

    def save(self, *, state: dict[str, Any] | None = None, content: dict[str, Any] | None = None) -> Project:
        """Write what is given, each file atomically; returns the new project."""
        if content is not None:
            replace_file(self.settings_path, render(content).encode())
        if state is not None:
            replace_file(self.folder / STATE, json.dumps(state, indent=2, ensure_ascii=False).encode() + b"\n")
        return Project(self.root, self.name)

    # --- what it is about -------------------------------------------------------------------------------------------

    @property
    def table(self) -> str:
        return str(self.state["table"])

    @property
    def table_path(self) -> Path:
        """The table; it must still be in the folder."""
        path = self.root / self.table
        if path.name != self.table or not path.is_file() or path.resolve().parent != self.root:
            raise RefusedError(f"The table {self.table!r} is no longer in this folder. Put it back.", 404)
        return path

    @property
    def question(self) -> str:
        found = self.state.get("question", "pca")
        return found if found in QUESTIONS else "pca"

    @property
    def people(self) -> int | None:
        """The number of people (or rows), if it is public and was entered."""
        found = self.state.get("people")
        return found if isinstance(found, int) and found > 1 else None

    @property
    def map(self) -> dict[str, Any]:
        """The settings of a map: ``release``, ``epsilon``, ``label`` and ``labels``."""
        found = self.state.get("map")
        return found if isinstance(found, dict) else {}

    @property
    def epsilon(self) -> float | None:
        """The ε of the release; a map has its own."""
        found = self.map.get("epsilon") if self.question == "scoremap" else self.content.get("epsilon")
        return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else None

    @property
    def ledger(self) -> str:
        """The ledger, as a path relative to the folder of the table."""
        found = self.state.get("ledger")
        return found if isinstance(found, str) and Path(found).name == found else f"{self.name}/{LEDGER}"

    @property
    def ledger_path(self) -> Path:
        return self.root / self.ledger

    @property
    def has_ledger(self) -> bool:
        return self.ledger_path.is_file()

    @property
    def digest(self) -> str:
        """A digest of the settings of the next release, which differs after any change."""
        text = json.dumps([self.state, render(self.content)], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    # --- releases ---------------------------------------------------------------------------------------------------

    def numbers(self) -> list[str]:
        """The releases that were begun, oldest first."""
        if not self.releases_path.is_dir():
            return []
        return sorted(path.name for path in self.releases_path.iterdir() if path.name.isdigit() and path.is_dir())

    @property
    def next_number(self) -> str:
        """The number of the next release, which can be claimed once."""
        return f"{max(map(int, self.numbers()), default=0) + 1:03d}"

    def release_path(self, number: str) -> Path:
        """The folder of a release that was begun."""
        if number not in self.numbers():
            raise RefusedError(f"There is no release {number!r} in this project. Choose one from the history.", 404)
        return self.releases_path / number
