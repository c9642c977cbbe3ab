"""``dpeigen covariance FILE``: a private covariance matrix of a table in a file, written as a release with its card."""

from __future__ import annotations

from typing import Any

from dpeigen.cli import _options as option
from dpeigen.cli._reading import fits_files
from dpeigen.cli._run import run

__all__ = ["covariance"]


@fits_files
def covariance(
    file: option.File,
    *,
    fitting: dict[str, Any],
    reading: dict[str, Any],
) -> None:
    """Release the covariance matrix of a table with differential privacy."""
    run("covariance", {"file": file, **fitting, "reading": reading})
