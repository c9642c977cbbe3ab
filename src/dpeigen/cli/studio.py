"""``dpeigen studio [FILE]``: the same commands as pages in a browser, for people who write no code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpeigen.cli._errors import one_line_errors

__all__ = ["studio"]


def studio(
    file: Annotated[
        Path, typer.Argument(help="A table, or the folder of tables and projects; the current folder by default.")
    ] = Path(),
    port: Annotated[int, typer.Option(help="Port on this machine; any free one by default.", min=0, max=65535)] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """Open a local web page that takes you from a table to a published card without code."""
    with one_line_errors():
        from dpeigen.studio import serve

        serve(file, port=port, browser=browser, tell=lambda text: typer.echo(text))
