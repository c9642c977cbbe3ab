"""A card as Markdown, for a repository or an archive. Every text is escaped: names of columns are not markup."""

from __future__ import annotations

import re

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

__all__ = ["render", "text"]


def render(card: Card) -> str:
    """The whole file."""
    parts = [f"# {text(card.title)}"]
    parts += [f"*{text(card.subtitle)}*"] if card.subtitle else []
    parts += [" · ".join(f"{text(what)} {text(who)}".strip() for what, who in card.byline)] if card.byline else []
    parts += [" · ".join(f"{text(what)} **{text(much)}**" for what, much in card.tiles)]
    parts += [_block(notice) for notice in card.notices]
    for section in card.sections:
        parts.append(f"## {text(section.title)}")
        parts += [_block(block) for block in section.blocks]
    parts.append(f"Made by {text(card.made_by)} from the release alone.")
    return "\n\n".join(parts) + "\n"


def text(raw: str) -> str:
    """Text escaped for Markdown: anything that could be markup, a link or the start of a list."""
    shown = re.sub(r"([\\`*_{}\[\]|~$^!@])|(?<=www)\.|:(?=//)", lambda match: "\\" + match[0], clean(raw).strip())
    if not _number(shown):
        # A list begins with a number, a point and a blank; "1.5 to 2" and "−0.5 to 0" do not begin one.
        shown = re.sub(r"^([#+=-])(?!\d)", r"\\\1", re.sub(r"^(\d+)([.)])(?!\d)", r"\1\\\2", shown))
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _number(shown: str) -> bool:
    return re.fullmatch(r"[+-]?[\d.,]+(e[+-]?\d+)?%?", shown) is not None


def _block(block: Block) -> str:
    if isinstance(block, Text):
        return text(block.text)
    if isinstance(block, Notice):
        return f"> **{text(block.title)}.** {text(block.text)}"
    if isinstance(block, Items):
        return f"### {text(block.title)}\n\n" + "\n".join(f"- {text(item)}" for item in block.items)
    if isinstance(block, Formula):
        return f"> {text(block.plain)}"
    if isinstance(block, Code):
        return f"{text(block.title)}:\n\n" + "\n".join(f"    {line}" for line in block.text.splitlines())
    if isinstance(block, Links):
        return f"### {text(block.title)}\n\n" + "\n".join(f"- {_link(*item)}" for item in block.items)
    if isinstance(block, Gallery):
        return "\n\n".join(map(_block, block.pictures))
    if isinstance(block, Picture):
        caption = text(block.caption)
        return f"![{text(block.alt)}](figures/{block.name}.svg)\n\n*{caption}*"
    if isinstance(block, More):
        return f"### {text(block.title)}\n\n" + "\n\n".join(_block(part) for part in block.blocks)
    return _table(block)


def _table(table: Table) -> str:
    rule = ["---", *(["---:" if table.numbers else "---"] * (max(len(table.headings), 2) - 1))]
    headings = table.headings or ["", ""]
    lines = [_line([text(heading) for heading in headings]), _line(rule)]
    lines += [_line([_cell(cell) for cell in row]) for row in table.rows]
    note = f"\n\n{text(table.note)}" if table.note else ""
    return f"**{text(table.title)}**\n\n" + "\n".join(lines) + note


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    return text(cell) if isinstance(cell, str) else f"{text(cell[0])} ({text(cell[1])})"


def _link(words: str, address: str | None) -> str:
    return text(words) if address is None else f"{text(words)} <{address}>"
