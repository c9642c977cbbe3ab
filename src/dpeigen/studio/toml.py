"""The text of a settings file: what was entered on the page, in the format that commands read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpeigen.cli.init import quoted

__all__ = ["render", "value_text"]

_HEAD = """\
# Settings for: dpeigen pca|covariance|ridge|scoremap --config THIS
# Written by dpeigen studio from what was filled in on its pages. No value of the table was read for it.
# Everything in it is public. It may be changed by hand; comments are lost when the page writes it again.
"""


def render(content: Mapping[str, Any]) -> str:
    """The text of a file with these settings, and a table for each column."""
    lines = [f"{name} = {value_text(value)}" for name, value in content.items() if name != "columns"]
    tables = [
        "\n".join(["", f"[columns.{quoted(name)}]", *(f"{key} = {value_text(value)}" for key, value in table.items())])
        for name, table in content.get("columns", {}).items()
    ]
    return "\n".join([_HEAD, *lines, *tables]) + "\n"


def value_text(value: Any) -> str:
    """A value in TOML.

    >>> value_text([1, 2.5, "a", True, 1e-06])
    '[1, 2.5, "a", true, 1e-06]'
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(value_text, value)) + "]"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("Settings must be finite numbers.")
        return repr(value)
    if isinstance(value, str):
        return quoted(value)
    return str(value.isoformat())  # dates, which a file may have had
