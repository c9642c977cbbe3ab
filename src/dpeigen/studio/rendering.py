"""Pages from templates. Every text is escaped, and invisible characters are replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from dpeigen._text import clean
from dpeigen._version import __version__

__all__ = ["Pages", "short"]


class Pages:
    """Renders templates; ``base`` is the path that every address begins with."""

    def __init__(self, base: str) -> None:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        self.base = base
        self._environment = Environment(
            loader=FileSystemLoader(Path(__file__).with_name("pages")),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_visible,
        )
        self._environment.filters["path"] = lambda text: quote(str(text), safe="")
        self._environment.filters["short"] = short
        self._environment.globals |= {"base": base, "version": __version__}

    def render(self, name: str, **values: Any) -> str:
        return self._environment.get_template(name).render(**values)


def _visible(value: Any) -> Any:
    """A value for a page with visible characters only; line ends stay, for fields of several lines."""
    if value is None:
        return ""
    if hasattr(value, "__html__"):  # text that is HTML already
        return value
    return "\n".join(map(clean, str(value).split("\n")))


def short(value: Any) -> str:
    """A number as readable text.

    >>> short(0.30000000000000004), short(1e-06), short(12345)
    ('0.3', '1e-6', '12,345')
    """
    if isinstance(value, int):
        return f"{value:,}"
    return f"{float(value):.4g}".replace("e-0", "e-")
