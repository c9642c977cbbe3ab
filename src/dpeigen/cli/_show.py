"""A release in the terminal: the guarantee, what the budget went to, the components and their variances."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from dpeigen.release import Release

_LARGEST_LOADINGS = 6


def console() -> Console:
    """Plain text of a steady width where the output is not a terminal."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=110)


def error_console() -> Console:
    """For progress, which is not part of the output."""
    return Console(stderr=True)


def show_release(out: Console, release: Release, title: str) -> None:
    """Everything a reader needs to judge one release."""
    out.rule(f"[bold]{title}", align="left")
    g = release.guarantee
    text = str(g).split("\nspent on", 1)[0]
    out.print(text, markup=False)
    out.print("".join(f"note       {note}\n" for note in g.notes), markup=False, end="")
    out.print(_split_table(release))


def _split_table(release: Release) -> Table:
    table = Table(title="What the budget was spent on", title_justify="left", title_style="bold")
    for heading in ("purpose", "cost", "mechanism"):
        table.add_column(heading)
    for spend in release.guarantee.split:
        table.add_row(spend.purpose, str(spend.cost), spend.mechanism)
    return table


def components_table(release: Release) -> Table:
    """Each component with its private variance and its largest loadings by column name."""
    table = Table(title="Components", title_justify="left", title_style="bold", show_lines=True)
    table.add_column("component", justify="right")
    table.add_column("private variance", justify="right")
    table.add_column("share", justify="right")
    table.add_column("largest loadings")
    total, names = float(np.trace(release.covariance)), release.feature_names
    for number, (component, value) in enumerate(zip(release.components, release.eigenvalues, strict=True), 1):
        largest = np.argsort(-np.abs(component), kind="stable")[:_LARGEST_LOADINGS]
        loadings = ", ".join(f"{component[i]:+.2f} {names[i]}".replace("[", r"\[") for i in largest)
        share = f"{100 * value / total:.1f}%" if total > 0 else ""
        table.add_row(str(number), f"{value:.4g}", share, loadings)
    return table


def as_json(release: Release, folder: str) -> dict[str, Any]:
    """The same for programs."""
    return {
        "out": folder,
        "guarantee": release.guarantee.to_dict(),
        "facts": dict(release.facts),
        "feature_names": release.feature_names,
        "components": release.components.tolist(),
        "explained_variance": release.eigenvalues.tolist(),
        "mean": None if release.mean is None else release.mean.tolist(),
        "noise_variance": release.noise_variance,
    }
