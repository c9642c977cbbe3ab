"""Assumptions of ``dpeigen plan`` as they are typed. No message shows a cell of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpeigen.sources import Source
__all__ = ["bound_of", "components_of", "like_of", "spectrum_of", "tails_of"]


def components_of(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal():
        raise ValueError(f"--components is not understood: {text!r}. Give a number, or all for the whole covariance.")
    return int(text)


def bound_of(bound: str | None, lower: float | None, upper: float | None) -> Any:
    if lower is None and upper is None:
        return bound if bound is None or bound == "private" else _number("bound", bound)
    if bound is not None or lower is None or upper is None:
        raise ValueError("Give either --bound, or --lower and --upper together.")
    return lower, upper


def like_of(path: Path | None, columns: int | None, given: dict[str, Any]) -> tuple[Source | None, int]:
    """The public table that the rows are assumed to resemble, and the number of columns."""
    if path is None:
        for name, value in {**given, **given["reading"]}.items():
            if name != "reading" and value:
                raise ValueError(f"--{name.replace('_', '-').replace('column-', '')} goes with --like. Leave it out.")
        if columns is None:
            raise ValueError("Give --columns, or --like with a public table.")
        return None, columns
    from dpeigen.cli._columns import open_columns
    from dpeigen.cli._config import read_study

    source = open_columns(path, {**given, "columns": None}, read_study(given["config"]))[0]
    return source, source.n_features if columns is None else columns


def tails_of(text: str) -> float | None:
    return None if text == "normal" else _number("tails", text.removeprefix("t"))


def spectrum_of(text: str) -> Any:
    name, _, value = text.partition(":")
    if name in ("spiked", "power-law"):
        return name, _number("spectrum", value) if value else None
    path = Path(text)
    if path.is_dir():
        from dpeigen import load_release

        return load_release(path)
    if path.is_file():
        return _matrix(path)
    return [_number("spectrum", part) for part in text.split(",")]


def _matrix(path: Path) -> Any:
    """A public covariance. No message shows a cell: somebody may have named a private table by mistake."""
    import warnings

    import numpy as np

    must = "numbers separated by commas: a public covariance matrix, with as many lines as columns"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a file without lines
            found = np.loadtxt(path, delimiter=",", ndmin=2)
    except (ValueError, OverflowError):
        raise ValueError(f"--spectrum {path} must hold {must}. It cannot be read as such.") from None
    if found.shape[0] != found.shape[1]:
        raise ValueError(f"--spectrum {path} must hold {must}. It does not have as many lines as columns.")
    if not np.isfinite(found).all() or not np.allclose(found, found.T):
        raise ValueError(f"--spectrum {path} must hold {must}. It is not symmetric, or not finite.")
    return found


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--{option} is not understood: {text!r}. See dpeigen plan --help.") from None
