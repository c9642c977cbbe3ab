"""Write the notebooks of the first two tutorials: `python docs/notebooks/make.py`. A test keeps both the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGES = ("patients", "genomes")
_BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<body>.*?)^```$\n?", re.MULTILINE | re.DOTALL)
_NO_WINDOW = 'import matplotlib\n\nmatplotlib.use("Agg")\n'  # a page has no screen, a notebook has


def notebook(page: Path) -> dict[str, Any]:
    """The page as a notebook without outputs: its text, and its Python blocks as cells."""
    text, cells, at = page.read_text(encoding="utf-8"), [], 0
    for match in _BLOCK.finditer(text):
        if match["kind"] != "python":
            continue
        cells.append(_cell("markdown", text[at : match.start()], len(cells)))
        cells.append(_cell("code", match["body"].replace(_NO_WINDOW, ""), len(cells) + 1))
        at = match.end()
    cells.append(_cell("markdown", text[at:], len(cells)))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    filled = [cell for cell in cells if cell["source"]]
    return {"cells": filled, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _cell(kind: str, source: str, number: int) -> dict[str, Any]:
    if kind == "markdown":
        source = re.sub(r"^The same as a notebook:.*$\n?", "", source, flags=re.MULTILINE)
        source = re.sub(r"\]\((?:\.\./)?([\w/-]+)\.md(?:#[\w-]+)?\)", r"](../\1.md)", source).replace(
            "[](", "[this page]("
        )
    cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell | {"source": source.strip("\n").splitlines(keepends=True)}


if __name__ == "__main__":
    for name in PAGES:
        made = notebook(HERE.parent / "tutorials" / f"{name}.md")
        (HERE / f"{name}.ipynb").write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
