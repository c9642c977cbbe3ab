"""``dpeigen ridge FILE --target COLUMN``: a private ridge regression of a table in a file, written as a release.

What is released is one covariance of all columns used, so the release answers regressions on other columns too.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dpeigen.cli import _options as option
from dpeigen.cli._reading import fits_files
from dpeigen.cli._run import run

__all__ = ["ridge"]


@fits_files
def ridge(
    file: option.File,
    target: Annotated[str | None, typer.Option("--target", "-y", help="The column to predict from the others.")] = None,
    alpha: Annotated[
        str | None,
        typer.Option(
            help="Penalty ≥ 0 as in scikit-learn; auto (the default) chooses it from the release, at no cost."
        ),
    ] = None,
    *,
    fitting: dict[str, Any],
    reading: dict[str, Any],
) -> None:
    """Release a ridge regression of one column on the others with differential privacy."""
    run("ridge", {"file": file, "target": target, "alpha": alpha, **fitting, "reading": reading})
