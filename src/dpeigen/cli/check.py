"""``dpeigen check FOLDER`` and ``dpeigen card FOLDER``: read a release back, and make its card again. Both are free."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpeigen._text import clean
from dpeigen.cli import _options as option
from dpeigen.cli._errors import UNREADABLE, USAGE, fail, one_line_errors
from dpeigen.facts import ABOUT

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Folder", "card", "check"]

_COMPLETE = "Complete, and unchanged since it was written"
Folder = Annotated[Path, typer.Argument(help="The folder of a release.")]


def check(folder: Folder) -> None:
    """Check that a release is complete and unchanged, and show what it guarantees."""
    with one_line_errors():
        from dpeigen import load_release
        from dpeigen.cli import _show
        from dpeigen.io import DamagedReleaseError

        try:
            if _is_map(folder):
                _check_map(folder)
                return
            release = load_release(folder)
        except DamagedReleaseError as error:
            fail(UNREADABLE, f"{error} Do not use it: ask whoever published it for another copy.")
        console = _show.console()
        _show.show_release(console, release, _COMPLETE)
        _show_digests(console, folder)


def _is_map(folder: Path) -> bool:
    from dpeigen.io import read_folder

    description: object = read_folder(folder)[1]
    return isinstance(description, dict) and description.get("kind") == "score-map"


def _check_map(folder: Path) -> None:
    from dpeigen import load_score_map
    from dpeigen.cli import _show

    found, console = load_score_map(folder), _show.console()
    _show.show_guarantee(console, found.guarantee, f"A score map. {_COMPLETE}")
    console.print(f"together with the mapped release: {clean(found.total_words)}", markup=False)
    _show_digests(console, folder)


def _show_digests(console: Console, folder: Path) -> None:
    from dpeigen.io import digests

    for name, digest in digests(folder).items():
        console.print(f"{digest}  {name}", markup=False, soft_wrap=True)
    console.print(
        "Compare these digests with the published ones: someone who can change the folder can change these too."
    )


def card(
    folder: Folder,
    title: option.Title = None,
    author: option.Author = None,
    contact: option.Contact = None,
    description: option.Description = None,
    population: option.Population = None,
) -> None:
    """Write card.html, card.md and the figures of a saved release again. Costs nothing.

    Texts that are given here are kept with the release, so release.json and its digest change.
    """
    given = {name: value for name, value in locals().items() if name in ABOUT and value is not None}
    with one_line_errors():
        from dpeigen import load_release
        from dpeigen.io import DamagedReleaseError
        from dpeigen.report import write_card

        try:
            if _is_map(folder):
                fail(
                    USAGE,
                    f"{folder} holds a score map, which has no card; its pictures are map.svg and map.png. Give the "
                    "folder of the release that it maps.",
                )
            release = load_release(folder)
        except DamagedReleaseError as error:
            fail(UNREADABLE, f"{error} Give the folder of a release.")
        if given:
            release = release.describe(**given)
            release.save(folder, overwrite=True)
            typer.echo("release.json now contains these texts. Its digest has changed: publish the new one.")
        typer.echo(f"Wrote {write_card(release, folder)}")
