"""A card as one HTML page without scripts: it asks for nothing from anywhere, and says so to the browser.

Every text is escaped. Tables that are wider than a phone scroll by themselves, colours follow the reader's choice of
light or dark, and everything can be reached by keyboard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from itertools import count

from dpeigen.report.blocks import Block, Card, Code, Formula, Items, More, Notice, Picture, Table, Text, clean
from dpeigen.report.style import CSS

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def render(card: Card, pictures: Mapping[str, str]) -> str:
    """The whole page; ``pictures`` holds the SVG of each picture by its name."""
    page = _Page(pictures)
    links = "".join(f'<li><a href="#{s.key}">{text(s.title)}</a></li>' for s in card.sections)
    tiles = "".join(f"<div><dt>{text(what)}</dt><dd>{text(much)}</dd></div>" for what, much in card.tiles)
    notices = "".join(page.block(notice) for notice in card.notices)
    sections = "".join(
        f'<section id="{s.key}" aria-labelledby="{s.key}-title"><h2 id="{s.key}-title">{text(s.title)}</h2>'
        f"{''.join(page.block(block) for block in s.blocks)}</section>\n"
        for s in card.sections
    )
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
</head>
<body>
<a class="skip" href="#result">Skip to the result</a>
<header><h1>{text(card.title)}</h1><dl class="tiles">{tiles}</dl></header>
<nav aria-label="On this page"><ul>{links}</ul></nav>
<main>{f'<div class="notices" role="group" aria-label="Notices">{notices}</div>' if notices else ""}
{sections}</main>
<footer><p>Made by {text(card.made_by)} from the release alone; no row was looked at for this page.</p></footer>
</body>
</html>
"""


def text(raw: str) -> str:
    """Text that HTML shows as it is."""
    return escape(clean(raw))


class _Page:
    """Renders blocks; numbers what needs a name of its own."""

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
        return (
            f'<p class="label" id="{name}">{text(block.title)}</p>'
            f'<pre class="scroll" role="region" tabindex="0" aria-labelledby="{name}"><code>{lines}</code></pre>'
        )

    def _table(self, table: Table) -> str:
        name = f"table-{next(self._numbers)}"
        heads = "".join(f'<th scope="col">{text(heading)}</th>' for heading in table.headings)
        rows = "".join(
            f'<tr><th scope="row">{text(row[0])}</th>{"".join(f"<td>{text(cell)}</td>" for cell in row[1:])}</tr>'
            for row in table.rows
        )
        note = f'<p class="hint">{text(table.note)}</p>' if table.note else ""
        kind = ' class="numbers"' if table.numbers else ""
        return (
            f'<p class="label" id="{name}">{text(table.title)}</p>'
            f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{name}">'
            f'<table{kind} aria-labelledby="{name}"><thead><tr>{heads}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div>{note}"
        )
