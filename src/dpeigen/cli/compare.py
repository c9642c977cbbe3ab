"""``dpeigen compare``: methods side by side on public or synthetic data, with their exact errors.

Errors against the truth are private data, so a table is read only if it is declared public.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpeigen._text import clean, json_text
from dpeigen.cli._config import Study
from dpeigen.cli._errors import USAGE, UnreadableError, fail, one_line_errors
from dpeigen.cli._reading import reading_of, reads_files

if TYPE_CHECKING:
    from rich.table import Table

    from dpeigen.evaluation import Comparison

__all__ = ["compare"]


@reads_files()
def compare(
    epsilon: Annotated[str, typer.Option(help="Privacy losses, as 0.5,1,2. There is no default.")],
    data: Annotated[
        Path | None, typer.Option(help="A public CSV (with a header line), Parquet or Feather file.")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Declare that anyone may see the table. The errors reveal its rows.")
    ] = False,
    synthetic: Annotated[
        str | None,
        typer.Option(
            help="Made-up rows instead, as spiked:rows=5000,columns=20,spikes=3,strength=10 or "
            "power:rows=5000,columns=20,decay=1; tail=5 for Student's distribution, offset=1 for the mean of a column."
        ),
    ] = None,
    components: Annotated[
        int | None, typer.Option("--components", "-k", help="Number of components; the whole covariance by default.")
    ] = None,
    method: Annotated[str | None, typer.Option(help="Methods, as auto,gaussian; the usual ones by default.")] = None,
    repetitions: Annotated[int, typer.Option(help="Fits for each method and ε.")] = 20,
    delta: Annotated[float, typer.Option(help="δ in [0, 1); 0 asks for pure privacy.")] = 0.0,
    bound: Annotated[
        str | None, typer.Option(help="Public bound on the norm of a row, or 'private' to estimate one.")
    ] = None,
    lower: Annotated[str | None, typer.Option(help="Public lower bounds of the columns: a number or a,b,c.")] = None,
    upper: Annotated[str | None, typer.Option(help="Public upper bounds of the columns: a number or a,b,c.")] = None,
    center: Annotated[str, typer.Option(help="none (columns have mean 0), private or pairs.")] = "private",
    relation: Annotated[str, typer.Option(help="Neighbouring data sets: replace or add_remove.")] = "replace",
    columns: Annotated[str | None, typer.Option(help="Columns to use, as a,b,c; all by default.")] = None,
    category: Annotated[
        list[str] | None,
        typer.Option(help="A categorical column and the list of its categories, as name=a|b|c; may be repeated."),
    ] = None,
    column_type: Annotated[
        list[str] | None,
        typer.Option("--type", help="A column's declared type, as name=number|bool|date|timestamp; may be repeated."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Makes the results reproducible; random by default.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="File for the results: .parquet, .feather or .csv. A stopped run resumes from it."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="File for a picture: error against ε, as .png, .pdf or .svg.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="Shown error: sin_theta, projection_distance, captured_variance or relative_frobenius."),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes; the number of cores by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Compare methods on public or synthetic data by their error against the truth."""
    with one_line_errors():
        if (data is None) == (synthetic is None):
            fail(USAGE, "Give --data, a public table, or --synthetic, made-up rows.")
        if data is not None and not public:
            fail(
                USAGE,
                "Errors against the truth are private data: they reveal the rows without any noise. Add --public if "
                "anyone may see this table; otherwise use --synthetic.",
            )
        _check_picture(plot)
        from dpeigen.evaluation import METRICS, Synthetic
        from dpeigen.evaluation import compare as run
        from dpeigen.evaluation.running import USUAL

        if metric is not None and metric not in METRICS[3 * (components is None) :]:
            fail(USAGE, f"--metric must be one of {METRICS if components else METRICS[3:]}. Got {metric!r} instead.")
        chosen = None if columns is None else [name.strip() for name in columns.split(",")]
        table: Any = (
            Synthetic.parse(synthetic)
            if synthetic is not None
            else _open(
                Path(str(data)), chosen, _declared("category", category), _declared("type", column_type), reading
            )
        )
        with _told_when_stopped(out), _bar() as progress:
            found = run(
                table,
                public=public,
                epsilons=_numbers("epsilon", epsilon),
                n_components=components,
                methods=USUAL if method is None else [name.strip() for name in method.split(",")],
                repetitions=repetitions,
                delta=delta,
                bound=_bound(bound, lower, upper),
                center=None if center == "none" else center,
                relation=relation,
                seed=seed,
                out=out,
                workers=workers,
                progress=progress,
            )
        if plot is not None:
            _draw(found, plot, metric)
        _print(found, found.check_metric(metric), [path for path in (out, plot) if path is not None], as_json)


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--{option} must be numbers separated by commas. Got {text!r} instead.") from None


def _bound(bound: str | None, lower: str | None, upper: str | None) -> Any:
    """The 'bound' parameter from the three options."""
    if lower is None and upper is None:
        return bound if bound is None or bound == "private" else _numbers("bound", bound)[0]
    if bound is not None or lower is None or upper is None:
        raise ValueError("Give either --bound, or both --lower and --upper.")
    sides = (_numbers("lower", lower), _numbers("upper", upper))
    return tuple(side[0] if len(side) == 1 else side for side in sides)


def _declared(option: str, given: list[str] | None) -> dict[str, str]:
    """name=value options."""
    pairs = [text.partition("=") for text in given or []]
    if any(not name or not value for name, _, value in pairs):
        raise ValueError(f"--{option} must be given as name=value. Got {given} instead.")
    return {name: value for name, _, value in pairs}


def _open(
    path: Path,
    columns: list[str] | None,
    categories: dict[str, str],
    types: dict[str, str],
    reading: dict[str, Any],
) -> Any:
    from dpeigen.cli._columns import listed
    from dpeigen.sources import open_source

    if not path.exists():
        raise UnreadableError(f"No such file or folder: {path}")
    lists = {name: listed("category", name, text) for name, text in categories.items()}
    how = reading_of(reading, Study({}, None))
    return open_source(path, columns=columns, categories=lists or None, types=types or None, **how)


def _check_picture(plot: Path | None) -> None:
    """Refuse a picture that could not be written, before hours of work."""
    if plot is not None and plot.suffix not in (".png", ".pdf", ".svg"):
        fail(USAGE, f"--plot must end in .png, .pdf or .svg. Got {str(plot)!r} instead.")
    if plot is not None and not plot.absolute().parent.is_dir():
        fail(USAGE, f"--plot {plot}: there is no such folder.")


@contextmanager
def _told_when_stopped(out: Path | None) -> Iterator[None]:
    """Ctrl-C is not the end of a comparison that is kept."""
    try:
        yield
    except KeyboardInterrupt:
        kept = "" if out is None else f" Finished cells are kept beside {out}: run the same command to resume."
        typer.echo(f"dpeigen: stopped.{kept}", err=True)
        raise typer.Exit(130) from None


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None] | None]:
    """A bar on standard error, if that is a terminal."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from dpeigen.cli._show import error_console

    console = error_console()
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("cells"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task("", total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def _draw(found: Comparison, path: Path, metric: str | None) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.6, 5.4), layout="constrained")
    found.plot(figure.subplots(), metric=metric)
    figure.savefig(path, dpi=150)


def _print(found: Comparison, metric: str, written: list[Path], as_json: bool) -> None:
    from dpeigen.cli import _show

    summary = found.summary()
    if as_json:
        text = {"setting": found.setting, "summary": summary, "written": [str(path) for path in written]}
        typer.echo(json_text(text))
        return
    console = _show.console()
    console.print(_table(summary, metric, found.setting))
    for line in _reasons(summary):
        console.print(clean(line), markup=False)
    console.print(f"Seed {found.setting['seed']}. Public or made-up data; the noise is seeded.", markup=False)
    for path in written:
        console.print(f"Written to {path}", markup=False)


def _reasons(summary: list[dict[str, Any]]) -> list[str]:
    """Why cells are empty: one reason for each method, that of the first such ε, and all of them in the JSON."""
    told: dict[str, tuple[list[str], str]] = {}
    for entry in summary:
        if entry["reasons"]:
            told.setdefault(entry["method"], ([], entry["reasons"][0]))[0].append(f"{entry['epsilon']:g}")
    return [f"{label} at ε = {', '.join(epsilons)}: {reason}" for label, (epsilons, reason) in told.items()]


def _table(summary: list[dict[str, Any]], metric: str, setting: Any) -> Table:
    """Medians, with quartiles in brackets; a dash where nothing was done."""
    from rich.table import Table

    table = Table(title=f"{metric}: median (quartiles), {setting['data']['about']}", title_justify="left")
    epsilons = sorted({entry["epsilon"] for entry in summary if entry["epsilon"] is not None})
    table.add_column("method", no_wrap=True)
    for epsilon in epsilons:
        table.add_column(f"ε = {epsilon:g}", justify="right")
    lines: dict[str, dict[Any, str]] = {}
    for entry in summary:
        value = entry.get(metric)
        text = "–" if value is None else "{:.3g} ({:.2g}–{:.2g})".format(value["median"], *value["quartiles"])
        lines.setdefault(entry["method"], {})[entry["epsilon"]] = text
    for label, texts in lines.items():
        table.add_row(label, *(texts.get(epsilon, texts.get(None, "–")) for epsilon in epsilons))
    return table
