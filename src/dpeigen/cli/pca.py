"""``dpeigen pca FILE``: a private PCA of a table in a file, written as a release.

Everything that can be refused is refused before a row is read: parameters, the output folder, the ledger.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpeigen.cli._errors import USAGE, UnreadableError, fail, one_line_errors

if TYPE_CHECKING:
    from dpeigen.sources import Source


def pca(
    file: Annotated[Path, typer.Argument(help="A CSV (with a header line), Parquet or Feather file, or a folder.")],
    components: Annotated[
        str, typer.Option("--components", "-k", help="Number of components, or 'private' to pay for it.")
    ],
    epsilon: Annotated[float, typer.Option(help="Privacy loss ε > 0. There is no default.")],
    out: Annotated[Path, typer.Option(help="Folder for the release; must not hold one already.")],
    delta: Annotated[float, typer.Option(help="δ in [0, 1); 0 asks for pure privacy.")] = 0.0,
    bound: Annotated[
        str | None,
        typer.Option(help="Public bound on the length of a row (its distance from 0), or 'private' to pay for one."),
    ] = None,
    lower: Annotated[str | None, typer.Option(help="Public lower bounds of the columns: a number or a,b,c.")] = None,
    upper: Annotated[str | None, typer.Option(help="Public upper bounds of the columns: a number or a,b,c.")] = None,
    center: Annotated[str, typer.Option(help="none (centred already), private or pairs.")] = "private",
    method: Annotated[str, typer.Option(help="auto, or the name of a method.")] = "auto",
    relation: Annotated[str, typer.Option(help="Neighbouring data sets: replace or add_remove.")] = "replace",
    columns: Annotated[str | None, typer.Option(help="Columns to use, as a,b,c; all by default.")] = None,
    ledger: Annotated[Path | None, typer.Option(help="Ledger file that keeps the budget of this data set.")] = None,
    on_bad_row: Annotated[
        str, typer.Option(help="Rows that are not finite numbers: refuse or drop-to-zero.")
    ] = "refuse",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Release the principal components of a table with differential privacy."""
    with one_line_errors():
        from dpeigen import PrivatePCA

        estimator = PrivatePCA(
            int(components) if components.lstrip("-").isdecimal() else components,
            epsilon=epsilon,
            delta=delta,
            method=method,
            bound=_bound(bound, lower, upper),
            center=None if center == "none" else center,
            relation=relation,
            ledger=None if ledger is None else str(ledger),
            on_bad_row=on_bad_row,
        )
        source = _open(file, None if columns is None else [name.strip() for name in columns.split(",")])
        with _folder(out):
            release = estimator.fit(source).release_
            release.save(out)
        _print(release, out, as_json)


@contextmanager
def _folder(out: Path) -> Iterator[None]:
    """A folder that can be written to, made before anything is spent and removed again if nothing was released."""
    if (out / "release.json").exists():
        fail(USAGE, f"--out {out} already holds a release, which was paid for. Choose another folder.")
    made = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    if not os.access(out, os.W_OK):
        fail(USAGE, f"--out {out} cannot be written to.")
    try:
        yield
    except BaseException:
        if made and not any(out.iterdir()):
            out.rmdir()
        raise


def _print(release: Any, out: Path, as_json: bool) -> None:
    import json

    from dpeigen.cli import _show

    if as_json:
        typer.echo(json.dumps(_show.as_json(release, str(out)), indent=2, ensure_ascii=False))
        return
    console = _show.console()
    _show.show_release(console, release, "Private PCA")
    console.print(_show.components_table(release))
    console.print(f"Release written to {out}", markup=False)


def _bound(bound: str | None, lower: str | None, upper: str | None) -> Any:
    """The 'bound' parameter from the three options."""
    if lower is None and upper is None:
        return bound if bound is None or bound == "private" else _number("bound", bound, "a number or 'private'")
    if bound is not None:
        raise ValueError("Give either --bound or --lower and --upper, not both.")
    if lower is None or upper is None:
        raise ValueError("--lower and --upper go together: give both.")
    return _numbers("lower", lower), _numbers("upper", upper)


def _numbers(option: str, text: str) -> float | list[float]:
    must = "a number, or numbers separated by commas"
    values = [_number(option, part, must) for part in text.split(",")]
    return values[0] if len(values) == 1 else values


def _number(option: str, text: str, must: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--{option} must be {must}. Got {text!r} instead.") from None


def _open(path: Path, columns: list[str] | None) -> Source:
    """The file or folder as a source; nothing but its schema is looked at here."""
    from dpeigen.sources.arrow import open_files

    if not path.exists():
        raise UnreadableError(f"No such file or folder: {path}")
    return open_files(path, columns)
