"""Small pieces of HTML for notebooks: every text is escaped, nothing is loaded from anywhere.

Colours are those of the surrounding page, so that they fit a light and a dark notebook.

>>> escape("<b>\\x1b")
'&lt;b&gt;�'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape as _escape

from dpeigen._text import clean

__all__ = ["box", "escape", "paragraph", "table"]

_BOX = "border:1px solid rgba(128,128,128,.5);border-radius:.4em;padding:.6em .9em;max-width:60em;overflow-x:auto"
_CELL = "text-align:left;vertical-align:top;padding:.15em .9em .15em 0;white-space:normal"


def escape(text: object) -> str:
    """Text that HTML shows as it is."""
    return _escape(clean(text))


def table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with its first column as headings of the rows."""
    heads = "".join(f'<th scope="col" style="{_CELL}">{escape(heading)}</th>' for heading in headings)
    lines = "".join(
        f'<tr><th scope="row" style="{_CELL};font-weight:500">{escape(row[0])}</th>'
        + "".join(f'<td style="{_CELL}">{escape(cell)}</td>' for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    head = f"<thead><tr>{heads}</tr></thead>" if any(headings) else ""
    said = f'<caption style="text-align:left;font-weight:600">{escape(caption)}</caption>' if caption else ""
    return f'<table style="border-collapse:collapse;margin:.4em 0">{said}{head}<tbody>{lines}</tbody></table>'


def paragraph(text: str, *, loud: bool = False) -> str:
    """A paragraph; ``loud`` for what must not be missed."""
    style = "margin:.3em 0" + (";font-weight:700;color:#c0392b" if loud else "")
    return f'<p style="{style}">{escape(text)}</p>'


def box(title: str, *parts: str) -> str:
    """Parts that are HTML already under a title."""
    return f'<div style="{_BOX}"><strong>{escape(title)}</strong>{"".join(parts)}</div>'
