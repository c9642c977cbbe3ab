"""The columns of a table from its header line or schema, as in `dpeigen init`. No row is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpeigen.cli._config import FILE_KEYS
from dpeigen.cli.init import declared_type, look_at_header
from dpeigen.sources.ids import looks_like_id
from dpeigen.studio.errors import words_for_the_page

__all__ = ["READING", "HeaderColumn", "TableHeader", "header_of"]

READING = FILE_KEYS
_IN_WORDS = (
    (r'so encoding = "(\S+)" is declared', r"so it is read as \1"),
    (r"if they are wrong, give --encoding\.", "if they are wrong, choose another encoding below."),
    (r"The header line is separated by (\S+|'\\t'), so .*", r"The fields are separated by \1."),
    (r"If this one does, declare decimal = .*", "Choose the decimal mark below."),
)
_OF_KIND = {
    "csv": tuple(name for name in READING if name != "sheet"),
    "tsv": tuple(name for name in READING if name != "sheet"),
    "xlsx": ("sheet", "header", "names", "decimal", "date_format"),
    "jsonl": ("names", "decimal", "date_format"),
}


@dataclass(frozen=True)
class HeaderColumn:
    """A column: its name, and its type if the file states one."""

    name: str
    type: str  # the initial type of its declaration; "" for text and types that cannot be used
    stated: bool  # whether the file states it
    identifier: bool  # whether the name looks like that of an identifier


@dataclass(frozen=True)
class TableHeader:
    """What is known about a table before anything is declared."""

    kind: str  # csv, xlsx, parquet, …
    columns: tuple[HeaderColumn, ...]
    reading: Mapping[str, Any]  # the format of the file: as declared, and as the header line shows
    said: tuple[str, ...]  # what was found in the header line, as sentences

    @property
    def options(self) -> tuple[str, ...]:
        """What may be declared about files of this kind."""
        return _OF_KIND.get(self.kind, ())

    @property
    def counted(self) -> bool:
        """Whether the file does not state its number of rows, so that a release counts them."""
        return self.kind in _OF_KIND


def header_of(path: Path, declared: Mapping[str, Any]) -> TableHeader:
    """Names, and types if the file states them; ``declared`` is the declared format of the file."""
    from dpeigen.sources.files import columns_of, look
    from dpeigen.sources.layout import PLAIN, Layout

    given = {name: declared[name] for name in READING if name in declared}
    with words_for_the_page():
        if _kind(path) == "jsonl":
            names = given.pop("names", [])
            layout = Layout.of(given) or PLAIN
            layout.check_kind("jsonl", path.name)
            kind, said, found = "jsonl", [], dict.fromkeys(names)
            given["names"] = names
        else:
            files, kind, _, _ = look(path, Layout.of(given) or PLAIN)
            said = look_at_header(files[0], given) if kind in ("csv", "tsv") and "names" not in given else []
            found = columns_of(path, Layout.of(given) or PLAIN)
    columns = []
    for name, stated in found.items():
        word = "" if not name.strip() or name.startswith("__index_level_") else declared_type(stated)[0]
        columns.append(HeaderColumn(name, word, stated is not None, looks_like_id(name)))
    return TableHeader(kind, tuple(columns), given, tuple(map(_for_the_page, said)))


def _kind(path: Path) -> str:
    return path.name.lower().partition(".jsonl")[1].removeprefix(".")


def _for_the_page(text: str) -> str:
    """The messages of `init`, without options of the command line."""
    for pattern, words in _IN_WORDS:
        text = re.sub(pattern, words, text)
    return text
