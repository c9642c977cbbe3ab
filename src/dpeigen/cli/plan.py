"""``dpeigen plan``: which method, which ε, how many rows; from public facts and assumptions, without any data."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpeigen.cli import _options as option
from dpeigen.cli._assumed import bound_of, components_of, like_of, spectrum_of, tails_of
from dpeigen.cli._errors import one_line_errors
from dpeigen.cli._reading import reads_files

if TYPE_CHECKING:
    from dpeigen.methods import Method
    from dpeigen.planner import Plan

__all__ = ["plan"]

_FAILED = 3.0  # times the end of the interval


@reads_files()
def plan(
    rows: Annotated[int, typer.Option(help="Number of rows.")],
    components: Annotated[
        str, typer.Option("--components", "-k", help="Number of components, or all for the whole covariance.")
    ],
    epsilon: Annotated[float, typer.Option(help="Privacy loss ε > 0.")],
    columns: Annotated[int | None, typer.Option(help="Number of columns; with --like, that of the table.")] = None,
    delta: Annotated[float, typer.Option(help="δ in [0, 1); 0 asks for pure privacy.")] = 0.0,
    target: Annotated[
        float | None, typer.Option(help="A target error: also print the ε, or the number of rows, that reaches it.")
    ] = None,
    bound: Annotated[str | None, typer.Option(help="Public bound on the norm of a row, or 'private'.")] = None,
    lower: Annotated[float | None, typer.Option(help="Public lower bound of the columns.")] = None,
    upper: Annotated[float | None, typer.Option(help="Public upper bound of the columns.")] = None,
    center: Annotated[str, typer.Option(help="none (columns have mean 0), private or pairs.")] = "private",
    relation: Annotated[str, typer.Option(help="Neighbouring data sets: replace or add_remove.")] = "replace",
    like: Annotated[
        Path | None,
        typer.Option(
            help="A PUBLIC or SYNTHETIC table (CSV, Parquet, Feather, NumPy). Its rows are drawn with replacement, "
            "instead of --spectrum, --tails and --contamination. Never a private table: the plan would leak it."
        ),
    ] = None,
    spectrum: Annotated[
        str | None,
        typer.Option(
            help="The assumed eigenvalues: spiked[:SIGNAL] (the default), power-law[:EXPONENT], numbers as a,b,c, the "
            "folder of an earlier release, or a CSV file with a public covariance matrix."
        ),
    ] = None,
    tails: Annotated[str, typer.Option(help="normal, or t3 for Student's t with 3 degrees of freedom.")] = "normal",
    contamination: Annotated[float, typer.Option(help="Share of rows that are outliers.")] = 0.0,
    metric: Annotated[
        str | None,
        typer.Option(
            help="sin_theta (the default) or projection_distance; for a covariance relative_frobenius (the default) or "
            "relative_operator."
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="A method to plan for; may be repeated. By default all with a worst-case guarantee."),
    ] = None,
    trust: Annotated[
        str,
        typer.Option(
            help="central: a curator holds the rows. local: every person sends one report about their row, and "
            "--epsilon and --delta are per report."
        ),
    ] = "central",
    sparsity: Annotated[
        int | None, typer.Option(help="With --trust local: the assumed number of columns with nonzero loadings.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a picture of error against ε to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    category: option.Category = None,
    column_type: option.ColumnType = None,
    config: Annotated[
        Path | None,
        typer.Option(help="With --like: a file of settings that declares the table's format and columns."),
    ] = None,
    *,
    reading: dict[str, Any],
) -> None:
    """Predict the error of every method before anything is spent. Reads no private data."""
    with one_line_errors():
        from dpeigen.planner.beside import beside
        from dpeigen.planner.inverse import check_target, epsilon_for, rows_for
        from dpeigen.planner.picture import PARTS, curves, draw, start_curves
        from dpeigen.planner.planning import MODELLED, plan_problem
        from dpeigen.planner.problem import Problem, Simulator

        given = {"category": category, "column_type": column_type, "config": config, "reading": reading}
        source, width = like_of(like, columns, given)
        if trust != "central":
            if trust != "local":
                raise ValueError(f"--trust is not understood: {trust!r}. Give central or local.")
            refused = {"like": like, "lower": lower, "upper": upper, "method": method, "plot": plot}
            _plan_local(
                (rows, width, components_of(components)),
                {"epsilon": epsilon, "delta": delta},
                {
                    "bound": bound_of(bound, None, None),
                    "spectrum": None if spectrum is None else spectrum_of(spectrum),
                    "tails": tails_of(tails),
                    "contamination": contamination,
                    "metric": metric,
                },
                refused,
                target,
                as_json,
                sparsity,
            )
            return
        if sparsity is not None:
            raise ValueError("--sparsity goes with --trust local. Leave it out.")
        problem = Problem.of(
            rows,
            width,
            components_of(components),
            epsilon=epsilon,
            delta=delta,
            bound=bound_of(bound, lower, upper),
            center=None if center == "none" else center,
            relation=relation,
            spectrum=None if spectrum is None else spectrum_of(spectrum),
            like=source,
            tails=tails_of(tails),
            contamination=contamination,
            metric=metric,
        )
        if target is not None:
            check_target(target)
        more = (2 if target is not None else 0) + (PARTS if plot is not None else 0)
        jobs = len(method or MODELLED) + more
        with beside(jobs) as pool, _progress(jobs) as step:
            searches: dict[str, Any] = {}
            if target is not None:
                searches = {
                    "epsilon": pool.submit(_attempt, epsilon_for, target, problem),
                    "rows": pool.submit(_attempt, rows_for, target, problem),
                }
            parts = [] if plot is None else start_curves(problem, method, pool)
            found = plan_problem(problem, Simulator(problem), method, progress=step, pool=pool)
            needed: dict[str, Any] = {}
            for name, search in searches.items():
                step(f"the {'ε' if name == 'epsilon' else 'rows'} for {target:g}")
                needed[name] = search.result()
            if plot is not None:
                draw(curves(parts, progress=lambda: step("the picture")), found, plot, target)
        _print(found, target, needed, as_json)
        if plot is not None and not as_json:
            typer.echo(f"Picture written to {plot}")


def _plan_local(
    sizes: tuple[int, int, int | None],
    budget: dict[str, Any],
    facts: dict[str, Any],
    refused: dict[str, Any],
    target: float | None,
    as_json: bool,
    sparsity: int | None,
) -> None:
    """The plan for local reports."""
    import json

    from dpeigen.planner.local import needed_local_epsilon, needed_local_rows, plan_local

    for name, value in refused.items():
        if value:
            raise ValueError(f"--{name} goes with --trust central. Leave it out.")
    rows, width, k = sizes
    if k is None:
        raise ValueError("--components must be a number with --trust local.")
    if facts["bound"] == "private":
        raise ValueError(
            "--bound must be a public number with --trust local, or left out, in which case rows are scaled."
        )
    found = plan_local(rows, width, k, **budget, **facts, sparsity=sparsity)
    needed: dict[str, float | None] = {}
    if target is not None:
        needed["epsilon"] = _attempt(
            lambda: needed_local_epsilon(target, rows, width, k, delta=budget["delta"], **facts)
        )
        needed["rows"] = _attempt(lambda: needed_local_rows(target, width, k, **budget, **facts))
    if as_json:
        text = found.to_dict() | ({} if target is None else {"target": {"error": target, **needed}})
        typer.echo(json.dumps(text, indent=2, ensure_ascii=False))
        return
    from rich.table import Table

    from dpeigen.cli._show import console
    from dpeigen.planner.picture import METRIC_NAMES

    out, delta = console(), budget["delta"]
    out.print(
        f"{rows:,} reports of {width} columns, {k} components, ε = {budget['epsilon']:g}, δ = {delta:g} for each "
        "report. Nobody is trusted with a row. No data were read.",
        markup=False,
    )
    table = Table(title=f"Predicted {METRIC_NAMES[found.metric]}", title_justify="left", title_style="bold")
    for heading in ("reports", "mean", "90% of studies", "real ε", "best attack on a row"):
        table.add_column(heading, justify="left" if heading == "reports" else "right")
    for p in found.predictions:
        table.add_row(
            p.method, f"{p.error:.3g}", f"{p.low:.3g} – {p.high:.3g}", f"{p.epsilon:.4g}", f"{100 * p.success:.1f}%"
        )
    out.print(table)
    out.print(f"without privacy    {found.floor:.3g}")
    for name, rate in found.rates.items():
        unmet = f"; not met: {'; '.join(rate.unmet)}" if rate.unmet else ""
        out.print(f"{name}: squared distance {rate.value:.3g} times an unknown constant{unmet}", markup=False)
    if target is not None:
        e, n = needed["epsilon"], needed["rows"]
        out.print(
            f"for {target:g} in 95% of studies: "
            + ("no ε is enough with these reports" if e is None else f"ε = {e:.3g} with these reports")
            + ", or "
            + ("no number of reports" if n is None else f"{n:,} reports")
            + " at this ε",
            markup=False,
        )


@contextlib.contextmanager
def _progress(steps: int) -> Iterator[Callable[[str], None]]:
    """A progress bar on standard error; nothing if that is not a terminal."""
    from rich.progress import Progress

    from dpeigen.cli._show import error_console

    console = error_console()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("planning", total=steps)

        def step(what: str) -> None:
            bar.update(task, advance=1, description=what)

        yield step


def _attempt(search: Callable[..., float], *facts: Any) -> float | None:
    """The result of a search, or None if nothing is enough."""
    from dpeigen.planner import OutOfReachError

    try:
        return search(*facts)
    except OutOfReachError:
        return None


def _print(found: Plan, target: float | None, needed: dict[str, Any], as_json: bool) -> None:
    import json

    if as_json:
        text = found.to_dict()
        if target is not None:
            text["target"] = {"error": target, **needed}
        typer.echo(json.dumps(text, indent=2, ensure_ascii=False))
        return
    from rich.table import Table

    from dpeigen.cli._show import console, left_out
    from dpeigen.planner.picture import METRIC_NAMES, wanted

    out, facts = console(), found.facts
    out.print(
        f"{facts['n_rows']:,} rows × {facts['n_features']} columns, {wanted(found)}, "
        f"ε = {facts['epsilon']:g}, δ = {facts['delta']:g}, {facts['relation']}. {_read(facts['like'])}",
        markup=False,
    )
    table = Table(title=f"Predicted {METRIC_NAMES[found.metric]}", title_justify="left", title_style="bold")
    for heading in ("method", "mean", "90% of runs", "simulated runs", "best attack on a row", ""):
        table.add_column(heading, justify="left" if heading in ("method", "") else "right")
    listed = list(found.predictions)
    if found.chosen is not None and found.chosen not in listed:  # one of them, with options of its own
        listed = sorted([*listed, found.chosen], key=lambda p: p.error)
    for p in listed:
        mark = '← "auto"' if p == found.chosen else ""
        table.add_row(
            p.method, f"{p.error:.3g}", f"{p.low:.3g} – {p.high:.3g}", str(p.runs), f"{100 * p.success:.1f}%", mark
        )
    out.print(table)
    if len(listed) > len(found.predictions):
        out.print(f'"auto" chooses {found.choice.method.name} with {_options(found.choice.method)}', markup=False)
    for p in found.predictions:
        if p.assumptions:
            out.print(f"{p.method} is not worst-case; its guarantee assumes: {'; '.join(p.assumptions)}", markup=False)
        if p.worst > _FAILED * p.high:
            out.print(f"{p.method}: a run in {p.runs} failed, with an error of {p.worst:.2g}", markup=False)
    for line in left_out(found.refused):
        out.print(line, markup=False)
    out.print(f"without privacy    {found.floor:.3g}")
    if found.rate is not None:
        out.print(f"minimax rate       {found.rate:.3g} (its constant is not known)")
    about = "one row's values" if facts["relation"] == "replace" else "whether one row is present"
    out.print(
        f"best attack        from (ε, δ) alone, guesses {about} correctly in {100 * found.success:.1f}% of cases "
        "(a coin: 50%)"
    )
    if target is not None:
        epsilon, rows = needed["epsilon"], needed["rows"]
        out.print(f"for {target:g} in 95% of runs, with what \"auto\" chooses: "
                  + ("no ε is enough with these rows" if epsilon is None else f"ε = {epsilon:.3g} with these rows")
                  + ", or " + ("no number of rows" if rows is None else f"{rows:,} rows") + " at this ε",
                  markup=False)  # fmt: skip


def _read(like: int | None) -> str:
    """What was read."""
    if like is None:
        return "No data were read."
    return (
        f"Rows are drawn from the {like:,} rows of --like, which must be public or synthetic. No other data were read."
    )


def _options(method: Method) -> str:
    """The options that are not the method's defaults."""
    from dataclasses import fields

    own = type(method)()
    changed = [f.name for f in fields(method) if getattr(method, f.name) != getattr(own, f.name)]  # type: ignore[arg-type]
    return ", ".join(f"{name}={getattr(method, name)}" for name in changed)
