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
    papers: Annotated[
        Path | None, typer.Option(help="Another papers folder than that of the package's source; its code is run.")
    ] = None,
) -> None:
    """List or run the reproductions of papers in a source checkout."""
    with one_line_errors():
        papers = find_papers(papers)
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


def find_papers(named: Path | None = None) -> Path:
    """The folder that was named (an argument, or ``DPEIGEN_PAPERS``), or ``papers`` of the package's own source.

    What is found there is run. So nothing is looked for in the working folder or above it: whoever can write there
    could have their own code run.
    """
    given = named or (Path(os.environ["DPEIGEN_PAPERS"]) if os.environ.get("DPEIGEN_PAPERS") else None)
    place = given or own_papers()
    if place is not None and place.is_dir() and reproductions(place):
        return place
    where = f"No reproductions found in {given}." if given else "No reproductions found."
    raise FileNotFoundError(
        f"{where} They come with the source, not with the installed package: install dpeigen from a source checkout "
        "(pip install -e .), or name its papers folder, whose code is then run, with --papers or DPEIGEN_PAPERS."
    )


def own_papers() -> Path | None:
    """``papers`` of the source checkout that this very package was imported from; None if it is an installed copy."""
    package = Path(__file__).resolve().parents[1]
    root = package.parents[1]
    project = root / "pyproject.toml"
    if package.parent.name != "src" or not project.is_file():
        return None
    lines = project.read_text(encoding="utf-8", errors="replace").splitlines()
    return root / "papers" if 'name = "dpeigen"' in lines else None


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
