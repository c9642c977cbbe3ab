"""The card of a release: one page, saved beside the release, from which a reader can judge it.

Guarantee: a card is a function of a `Release` alone, so it costs nothing and may be shown to anyone who may see the
release. It has the guarantee in words and formulas, how the budget was spent, the results as tables and pictures, which
conclusions are valid and which are not, how to cite it and how to check the files. ``card.html`` is one page that loads
nothing from elsewhere, ``card.md`` has the same content in Markdown, and ``figures/`` has the pictures as SVG and PNG.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dpeigen import io
from dpeigen.facts import ABOUT
from dpeigen.release import Release, load_release
from dpeigen.report import html, markdown
from dpeigen.report.content import make_card

__all__ = ["write_card"]


def write_card(release: Release, folder: str | Path) -> Path:
    """Write ``card.html``, ``card.md`` and ``figures/`` into a folder.

    Parameters
    ----------
    release : Release
        The release that the card describes.
    folder : path
        The release is saved there too, unless the folder already has it. A folder with another release, or with this
        one and other texts (`Release.describe`), is refused.

    Returns
    -------
    Path
        The page ``card.html``.
    """
    if not isinstance(release, Release):  # the message shows no value: it may be rows
        kind = type(release).__name__
        raise TypeError(
            f"The 'release' parameter of write_card must be a Release. Got an object of type {kind} instead."
        )
    from dpeigen.report.figures import draw  # loads scikit-learn

    folder = Path(folder)
    if not any((folder / name).exists() for name in (io.ARRAYS, io.DESCRIPTION)):
        release.save(folder)
    else:
        _refuse_another(release, load_release(folder), folder)
    card = make_card(release, io.digests(folder))
    pictures = {picture.name: draw(release, picture) for picture in card.pictures()}
    (folder / "figures").mkdir(exist_ok=True)
    for name, drawn in pictures.items():
        io.replace_file(folder / "figures" / f"{name}.svg", drawn.svg.encode())
        io.replace_file(folder / "figures" / f"{name}.png", drawn.png)
    io.replace_file(folder / "card.md", markdown.render(card).encode())
    inline = {name: drawn.inline for name, drawn in pictures.items()}
    io.replace_file(folder / "card.html", html.render(card, inline).encode())
    return folder / "card.html"


def _refuse_another(release: Release, held: Release, folder: Path) -> None:
    """Refuse a folder whose files belong to another release, or have other texts."""
    if not _same(release, held):
        raise FileExistsError(f"{folder} contains another release. Choose another folder.")
    texts = [name for name in ABOUT if release.about.get(name) != held.about.get(name)]
    if texts:
        raise FileExistsError(
            f"{folder} holds this release with other texts for its card ({', '.join(texts)}). Save it with the new "
            "ones first, release.save(folder, overwrite=True), which changes its digest; or choose another folder."
        )


def _same(one: Release, other: Release) -> bool:
    arrays = ("components", "eigenvalues", "covariance", "mean")
    return (
        one.kind == other.kind
        and one.guarantee == other.guarantee
        and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays)
    )
