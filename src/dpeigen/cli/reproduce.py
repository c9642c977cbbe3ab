"""``dpeigen reproduce``: run the reproductions of papers that come with a source checkout.

Each is a folder ``papers/<key>/`` with a ``run.py`` whose ``main(quick, out)`` prints its results and returns whether
they agree with its ``expected.json``. The exit code is 0 if they do and 1 if they do not.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from dpeigen.cli._errors import USAGE, fail, one_line_errors


def reproduce(
    key: Annotated[str | None, typer.Argument(help="Which one; without it, list them.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few repetitions: minutes become seconds.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; papers/KEY/out by default.")] = None,
) -> None:
    """List or run the reproductions of papers in a source checkout."""
    with one_line_errors():
        papers = find_papers()
        known = reproductions(papers)
        if key is None:
            for name, title in known.items():
                typer.echo(f"{name:<16}{title}")
            return
        if key not in known:
            fail(USAGE, f"There is no reproduction {key!r} in {papers}. There are: {', '.join(known) or 'none'}.")
        agrees = load_main(papers / key / "run.py")(quick, out or papers / key / "out")
    if not agrees:
        raise typer.Exit(1)


def find_papers() -> Path:
    """The folder ``DPEIGEN_PAPERS`` names, or ``papers`` in this folder or one above it."""
    named = os.environ.get("DPEIGEN_PAPERS")
    here = Path.cwd()
    places = [Path(named)] if named else [folder / "papers" for folder in (here, *here.parents)]
    for place in places:
        if place.is_dir() and reproductions(place):
            return place
    raise FileNotFoundError(
        "No reproductions found. They come with the source, not with the installed package: run this inside a source "
        "checkout of dpeigen, or set DPEIGEN_PAPERS to its papers folder."
    )


def reproductions(papers: Path) -> dict[str, str]:
    """Key → title, the first line of each README."""
    found = {}
    for run in sorted(papers.glob("*/run.py")):
        readme = run.with_name("README.md")
        lines = readme.read_text(encoding="utf-8").splitlines() if readme.is_file() else []
        found[run.parent.name] = lines[0].lstrip("# ") if lines else ""
    return found


def load_main(path: Path) -> Callable[[bool, Path], bool]:
    """The ``main`` of a ``run.py``."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(f"dpeigen_papers_{path.parent.name.replace('-', '_')}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} cannot be loaded.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    main: Callable[[bool, Path], bool] = module.main
    return main
