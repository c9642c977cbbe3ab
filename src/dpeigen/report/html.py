"""A card as one HTML page that loads nothing from elsewhere, which its content policy enforces.

It runs no script; the metadata in its head are data. Every text is escaped. Tables that are wider than a phone scroll
separately, colours follow the reader's choice of light or dark mode, and everything can be reached by keyboard. In
print the text has two columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from itertools import count
from typing import Any

from dpeigen._text import json_text
from dpeigen.report.blocks import (
    Block,
    Card,
    Cell,
    Code,
    Formula,
    Gallery,
    Items,
    Links,
    More,
    Notice,
    Picture,
    Table,
    Text,
    clean,
)
from dpeigen.report.style import CSS

__all__ = ["render", "text"]

_WIDE = 5  # from this number of columns on, a phone shows a table of text in a small font
_NARROW = 2  # a table of numbers with so many columns is printed in two halves beside each other
_MANY = 6  # with more columns, intervals do not fit beside numbers in print
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def render(card: Card, pictures: Mapping[str, str]) -> str:
    """The whole page; ``pictures`` has the SVG of each picture by its name."""
    page = _Page(pictures)
    links = "".join(f'<li><a href="#{s.key}">{text(s.title)}</a></li>' for s in card.sections)
    tiles = "".join(f"<div><dt>{text(what)}</dt><dd>{text(much)}</dd></div>" for what, much in card.tiles)
    notices = "".join(page.block(notice) for notice in card.notices)
    made = [
        f'<section id="{s.key}" aria-labelledby="{s.key}-title"><h2 id="{s.key}-title">{text(s.title)}</h2>'
        f"{''.join(page.block(block) for block in s.blocks)}</section>\n"
        for s in card.sections
    ]
    wide = 1 + max((i for i, s in enumerate(card.sections) if s.key == "result"), default=len(made) - 1)
    sections = f'{"".join(made[:wide])}<div class="words">{"".join(made[wide:])}</div>'
    subtitle = f'<p class="subtitle">{text(card.subtitle)}</p>' if card.subtitle else ""
    said = " · ".join(f"{text(what)} {text(who)}".strip() for what, who in card.byline)
    byline = f'<p class="byline">{said}</p>' if said else ""
    metadata = f'<script type="application/ld+json">{_json(card.metadata)}</script>\n' if card.metadata else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="{text(card.made_by)}">
<title>{text(card.title)}</title>
<link rel="icon" href="data:,">
<style>{CSS}</style>
{metadata}</head>
<body>
<a class="skip" href="#result">Skip to the result</a>
<header><h1>{text(card.title)}</h1>{subtitle}{byline}<dl class="tiles">{tiles}</dl></header>
<nav aria-label="On this page"><ul>{links}</ul></nav>
<main>{f'<div class="notices" role="group" aria-label="Notices">{notices}</div>' if notices else ""}
{sections}</main>
<footer><p>Made by {text(card.made_by)} from the release alone; no row was looked at for this page.</p></footer>
</body>
</html>
"""


def _json(value: Mapping[str, Any]) -> str:
    """JSON in which every character that is special in HTML is escaped, so that no text can end the element."""
    raw = json_text(value)
    return re.sub(r"[<>&'\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", raw)


def text(raw: str) -> str:
    """Text escaped for HTML."""
    return escape(clean(raw))


class _Page:
    """Renders blocks, and numbers the elements that need an id."""

    def __init__(self, pictures: Mapping[str, str]) -> None:
        self._pictures = pictures
        self._numbers: Iterator[int] = count(1)

    def block(self, block: Block, level: int = 3) -> str:
        if isinstance(block, Text):
            return f"<p>{text(block.text)}</p>"
        if isinstance(block, Notice):
            words = f"<strong>{text(block.title)}.</strong> {text(block.text)}"
            return f'<div class="notice {block.level}"><p>{words}</p></div>'
        if isinstance(block, Items):
            items = "".join(f"<li>{text(item)}</li>" for item in block.items)
            return f"<h{level}>{text(block.title)}</h{level}><ul>{items}</ul>"
        if isinstance(block, Formula):
            label = f'role="group" aria-label="{text(block.plain)}" tabindex="0"'
            return f'<div class="formula scroll" {label}>{block.mathml}</div>'
        if isinstance(block, Code):
            return self._code(block)
        if isinstance(block, Links):
            items = "".join(f"<li>{_link(*item)}</li>" for item in block.items)
            return f"<h{level}>{text(block.title)}</h{level}><ul>{items}</ul>"
        if isinstance(block, Gallery):
            return f'<div class="gallery">{"".join(self.block(picture, level) for picture in block.pictures)}</div>'
        if isinstance(block, Picture):
            return (
                f'<figure id="figure-{block.name}"><h{level}>{text(block.title)}</h{level}>{self._pictures[block.name]}'
                f"<figcaption>{text(block.caption)}</figcaption></figure>"
            )
        if isinstance(block, More):
            inside = "".join(self.block(part, level + 1) for part in block.blocks)
            return f"<details><summary>{text(block.title)}</summary>{inside}</details>"
        return self._table(block)

    def _code(self, block: Code) -> str:
        name = f"code-{next(self._numbers)}"
        lines = escape("\n".join(clean(line) for line in block.text.splitlines()))
        screen = "" if block.on_paper else ' class="screen"'
        return (
            f'<div{screen}><p class="label" id="{name}">{text(block.title)}</p>'
            f'<pre class="scroll" role="region" tabindex="0" aria-labelledby="{name}"><code>{lines}</code></pre></div>'
        )

    def _table(self, table: Table) -> str:
        name = f"table-{next(self._numbers)}"
        heads = "".join(f'<th scope="col">{text(heading)}</th>' for heading in table.headings)
        rows = "".join(
            f'<tr><th scope="row">{text(str(row[0]))}</th>{"".join(map(_cell, row[1:]))}</tr>' for row in table.rows
        )
        note = f'<p class="hint">{text(table.note)}</p>' if table.note else ""
        many = " many" if len(table.headings) > _MANY else " narrow" if len(table.headings) == _NARROW else ""
        wide = ' class="wide"' if len(table.headings) >= _WIDE else ""
        kind = f' class="numbers{many}"' if table.numbers else ' class="facts"' if not table.headings else wide
        head = f"<thead><tr>{heads}</tr></thead>" if heads else ""
        return (
            f'<p class="label" id="{name}">{text(table.title)}</p>'
            f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{name}">'
            f'<table{kind} aria-labelledby="{name}">{head}'
            f"<tbody>{rows}</tbody></table></div>{note}"
        )


def _cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return f"<td>{text(cell)}</td>"
    return f'<td>{text(cell[0])} <span class="interval">{text(cell[1])}</span></td>'


def _link(words: str, address: str | None) -> str:
    if address is None:
        return text(words)
    return f'{text(words)} <a href="{text(address)}" rel="noreferrer">{text(address)}</a>'
