"""``dpeigen reproduce``: run the reproductions of papers that come with a source checkout.

Each is a folder ``papers/<key>/`` with a ``run.py`` whose ``main(quick, out)`` prints its results and returns whether
they agree with its ``expected.json``. The exit code is 0 if they do and 1 if they do not.

``--list`` shows every table and figure that a folder's ``contents.json`` names, with its state. The state is computed
from recorded results, not declared; no code of the folder is run for it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer

from dpeigen.cli._errors import USAGE, fail, one_line_errors

__all__ = [
    "Shown",
    "find_papers",
    "load_main",
    "own_papers",
    "reproduce",
    "reproductions",
    "shown",
    "table_of_contents",
]


def reproduce(
    key: Annotated[str | None, typer.Argument(help="The reproduction to run; without it, they are listed.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few repetitions: minutes become seconds.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; papers/KEY/out by default.")] = None,
    papers: Annotated[
        Path | None, typer.Option(help="A papers folder other than that of the package's source. Its code is run.")
    ] = None,
    contents: Annotated[
        bool, typer.Option("--list", help="Show every table and figure of the papers, and whether it is reproduced.")
    ] = False,
) -> None:
    """List or run the reproductions of papers in a source checkout."""
    with one_line_errors():
        papers = find_papers(papers)
        known = reproductions(papers)
        if key is not None and key not in known:
            fail(USAGE, f"There is no reproduction {key!r} in {papers}. There are: {', '.join(known) or 'none'}.")
        if key is None or contents:
            for name, title in known.items() if key is None else [(key, known[key])]:
                typer.echo(f"{name:<16}{title}")
                for line in table_of_contents(papers / name) if contents else ():
                    typer.echo(f"  {line}")
            return
        agrees = load_main(papers / key / "run.py")(quick, out or papers / key / "out")
    if not agrees:
        raise typer.Exit(1)


def find_papers(named: Path | None = None) -> Path:
    """The folder that was named (an argument, or ``DPEIGEN_PAPERS``), or ``papers`` of the package's own source.

    The code found there is run. So the working folder and its parents are not searched: anyone who can write there
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


@dataclass(frozen=True)
class Shown:
    """A table, figure or experiment of a paper, and how far it is reproduced."""

    name: str
    about: str
    state: str  # "reproduced", "quick only", "data cannot be had", "missing"
    detail: str  # repetitions, date and machine; or where data were looked for


def shown(folder: Path) -> Iterator[Shown]:
    """What ``contents.json`` of a reproduction names, each with its state.

    "reproduced": recorded in full mode with at least the paper's repetitions (``repetitions``; the keys of its cells
    match one of ``entries``). "quick only": with fewer. "data cannot be had": ``looked`` says where they were looked
    for. "missing": no cell was recorded.
    """
    path, record = folder / "contents.json", folder / "expected.json"
    declared = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    expected = json.loads(record.read_text(encoding="utf-8")) if record.is_file() else {}
    entries, runs = expected.get("entries", {}), expected.get("recorded", [])
    for item in declared:
        cells = [key for key in entries if any(fnmatchcase(key, pattern) for pattern in item.get("entries", ()))]
        name, about = str(item["name"]), str(item["about"])
        if not cells:
            looked = str(item.get("looked", ""))
            state = "data cannot be had" if looked else "missing"
            yield Shown(name, about, state, f"looked for: {looked}" if looked else "")
            continue
        least, wanted = min(int(entries[key]["repetitions"]) for key in cells), int(item.get("repetitions", 1))
        state = "reproduced" if least >= wanted else "quick only"
        counts = f"{least} of the paper's {wanted} repetitions" if least < wanted else f"{least} repetitions"
        yield Shown(name, about, state, f"{counts}, {_recorded(runs, cells[0])}")


def _recorded(runs: list[dict[str, Any]], key: str) -> str:
    """When and on what a cell was recorded."""
    for run in reversed(runs):
        if any(fnmatchcase(key, pattern) for pattern in run["entries"]):
            return f"recorded {run['date']} on {run['machine']}"
    return "date and machine not recorded"


def table_of_contents(folder: Path) -> list[str]:
    """A line or two for each table and figure, or one that says that none is declared."""
    items = list(shown(folder))
    width = max((len(item.name) for item in items), default=0) + 2
    lines = []
    for item in items:
        lines.append(f"{item.name:<{width}}{item.state:<20}{item.about}")
        if item.detail:
            lines.append(" " * (width + 20) + item.detail)
    return lines or ["no contents.json: its tables and figures are not listed"]


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
