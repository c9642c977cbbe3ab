"""The content of a card: sections of blocks, which are rendered as HTML and as Markdown.

Every text is plain text. Names of columns come from users, so renderers escape everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from dpeigen._text import clean as clean  # renderers apply it to all text
from dpeigen._text import short as short

__all__ = [
    "Block",
    "Card",
    "Cell",
    "Code",
    "Formula",
    "Gallery",
    "Items",
    "Level",
    "Links",
    "More",
    "Notice",
    "Picture",
    "Section",
    "Table",
    "Text",
    "count",
]

Level = Literal["danger", "warning", "note"]
Cell = str | tuple[str, str]  # a text, or a number and its interval


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Notice:
    """A paragraph that must not be missed."""

    level: Level
    title: str
    text: str


@dataclass(frozen=True)
class Items:
    """A list with its own heading."""

    title: str
    items: Sequence[str]


@dataclass(frozen=True)
class Formula:
    """A formula as MathML (made by us, never from users' text) and in one line of characters."""

    mathml: str
    plain: str


@dataclass(frozen=True)
class Table:
    """Text in the first column, numbers or text in the others. Without headings it is a list of facts."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numbers: bool = True  # whether the other columns are numbers
    note: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture drawn by `figures`, with alternative text."""

    name: str
    title: str
    alt: str
    caption: str


@dataclass(frozen=True)
class Gallery:
    """Pictures side by side, if there is room."""

    pictures: Sequence[Picture]


@dataclass(frozen=True)
class Code:
    """Lines to copy."""

    title: str
    text: str
    on_paper: bool = True


@dataclass(frozen=True)
class Links:
    """Texts with addresses (ours, never those of users), or without an address if there is none."""

    title: str
    items: Sequence[tuple[str, str | None]]


@dataclass(frozen=True)
class More:
    """Blocks that are hidden until the reader opens them."""

    title: str
    blocks: Sequence[Block]


Block = Text | Notice | Items | Formula | Table | Picture | Gallery | Code | Links | More


@dataclass(frozen=True)
class Section:
    """A heading with its blocks."""

    key: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Card:
    """The whole page."""

    title: str
    tiles: Sequence[tuple[str, str]]  # a few key facts: what, and how much
    notices: Sequence[Notice]
    sections: Sequence[Section]
    made_by: str = ""
    subtitle: str = ""
    byline: Sequence[tuple[str, str]] = ()  # who, when
    metadata: Mapping[str, Any] = field(default_factory=dict)  # for machines

    def pictures(self) -> Iterator[Picture]:
        """All pictures, in order."""
        for section in self.sections:
            for block in section.blocks:
                yield from block.pictures if isinstance(block, Gallery) else ()


def count(number: int, thing: str) -> str:
    """A number with its noun.

    >>> count(1, "column"), count(2, "column")
    ('1 column', '2 columns')
    """
    return f"{number:,} {thing}" + ("" if number == 1 else "s")
