"""``dpeigen pca FILE``: a private PCA of a table in a file, written as a release with its card."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dpeigen.cli import _options as option
from dpeigen.cli._reading import fits_files
from dpeigen.cli._run import run

__all__ = ["pca"]


@fits_files
def pca(
    file: option.File,
    components: Annotated[
        str | None, typer.Option("--components", "-k", help="Number of components, or 'private' to estimate it.")
    ] = None,
    *,
    fitting: dict[str, Any],
    reading: dict[str, Any],
) -> None:
    """Release the principal components of a table with differential privacy."""
    run("pca", {"file": file, "components": components, **fitting, "reading": reading})
