"""``dpeigen audit``: attack the library's own mechanisms and compare what is proven with what is stated.

The exit code is 0 if nothing stated was refuted (with ``--planted``: if every planted fault was), else 1.
"""

from __future__ import annotations

import json
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpeigen.cli._errors import USAGE, fail, one_line_errors

if TYPE_CHECKING:
    from rich.console import Console

    from dpeigen.auditing.results import AuditPlan, Result
    from dpeigen.auditing.written import AuditReport

__all__ = ["audit"]

_QUICK, _USUAL, _FULL = 1000, 4000, 10_000
_FULL_MINUTES = 50.0  # the default of --full; with start and end the audit takes less than an hour


def audit(
    methods: Annotated[
        list[str] | None, typer.Argument(help="Mechanisms to audit; all by default. --list names them.")
    ] = None,
    epsilon: Annotated[
        list[float] | None, typer.Option("--epsilon", help="Stated ε; may be given more than once. 4 by default.")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(help="Counted releases of each of two data sets; slow mechanisms get fewer.")
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="Stop after this many minutes and report what was found; 50 with --full, otherwise no limit."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few runs, part of the catalogue, no search.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Many runs, ε of 1 and 4, a long search.")] = False,
    planted: Annotated[bool, typer.Option("--planted", help="Audit broken mechanisms: all must be caught.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results and a picture; a second run with it resumes.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    seed: Annotated[int | None, typer.Option(help="Reproducible draws instead of the system's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the mechanisms and exit.")] = False,
) -> None:
    """Audit mechanisms: a lower bound on the real ε beside the stated one."""
    with one_line_errors():
        from dpeigen.auditing.exact import exact_losses
        from dpeigen.auditing.runner import run_audits
        from dpeigen.auditing.targets import TARGETS
        from dpeigen.auditing.written import AuditReport
        from dpeigen.cli._show import console, error_console

        if listed:
            typer.echo("\n".join(TARGETS))
            return
        if quick and full:
            fail(USAGE, "Give --quick or --full, not both.")
        if minutes is not None and minutes <= 0:
            fail(USAGE, f"--minutes must be above 0. Got {minutes}.")
        epsilons = tuple(epsilon or ((1.0, 4.0) if full else (4.0,)))
        count = runs or (_QUICK if quick else _FULL if full else _USUAL)
        plans = _plans(methods or [], epsilons, count, 0 if quick else 40 if full else 20, quick, planted, seed)
        if full and minutes is None:
            minutes = _FULL_MINUTES
        begun = time.monotonic()
        results: list[Result] = []
        missing: list[str] = []
        with nullcontext(str(out)) if out else tempfile.TemporaryDirectory() as folder:
            for number, plan in enumerate(plans):
                place = Path(folder) / f"planted-{number}" if planted else Path(folder)
                share = None if minutes is None else minutes / len(plans)
                found, late = run_audits(
                    plan, place, minutes=share, workers=workers, progress=lambda t: error_console().print(t)
                )
                results, missing = results + found, missing + late
        losses = [] if planted else [loss for e in epsilons for loss in exact_losses(e)]
        took = (time.monotonic() - begun) / 60
        report = AuditReport(results, losses, missing, took, workers, seed, AuditReport.now())
        if out:
            _save(out, report)
        if as_json:
            typer.echo(json.dumps(report.to_dict(), indent=2))
        else:
            _show(console(), report, planted)
        wrong = [r for r in results if r.refuted != planted]
        bad = bool(wrong or any(loss.refuted for loss in losses) or (planted and missing))
    if bad:
        raise typer.Exit(1)


def _plans(
    methods: list[str],
    epsilons: tuple[float, ...],
    runs: int,
    rounds: int,
    quick: bool,
    planted: bool,
    seed: int | None,
) -> list[AuditPlan]:
    from dpeigen.auditing.faults import FAULTS
    from dpeigen.auditing.results import AuditPlan
    from dpeigen.auditing.targets import select

    if not planted:
        return [AuditPlan(tuple(select(methods)), epsilons, runs, rounds, quick, seed=seed)]
    if methods:
        fail(USAGE, "--planted audits the broken mechanisms, not named ones.")
    by_epsilon = {fault.epsilon for fault in FAULTS.values()}
    return [
        AuditPlan(tuple(n for n, f in FAULTS.items() if f.epsilon == e), (e,), max(runs, 2000), 0, True, seed=seed)
        for e in sorted(by_epsilon)
    ]


def _save(out: Path, report: AuditReport) -> None:
    from dpeigen.auditing.picture import audit_picture

    (out / "audit.json").write_text(json.dumps(report.to_dict(), indent=2) + "\n", encoding="utf-8")
    (out / "audit.md").write_text(report.to_markdown(), encoding="utf-8")
    audit_picture(report.results, report.losses).savefig(out / "audit.png", dpi=150)


def _show(out: Console, report: AuditReport, planted: bool) -> None:
    from rich.table import Table

    table = Table(title="Lower bounds on the real ε", title_justify="left", title_style="bold")
    for heading in ("mechanism", "stated", "audited", "plain", "counted", "worst neighbours", "verdict"):
        table.add_column(heading, justify="right" if heading in ("audited", "plain") else "left")
    for r in report.results:
        stated = f"{r.epsilon:g}" + (f", {r.delta:g}" if r.delta else "")
        counted = f"{r.hits[0]} : {r.hits[1]} of {r.trials}" + (
            "" if r.trials == r.planned else f" ({r.planned} planned)"
        )
        verdict = ("caught" if planted else "REFUTED") if r.refuted else ("MISSED" if planted else "not refuted")
        table.add_row(r.name, stated, f"{r.lower:.3f}", f"{r.plain:.3f}", counted, r.pair, verdict)
    out.print(table)
    if report.losses:
        exact = Table(title="Exact losses of the worst known neighbours", title_justify="left", title_style="bold")
        for heading in ("mechanism", "stated", "exact", "verdict"):
            exact.add_column(heading)
        for loss in report.losses:
            stated = f"{loss.stated:g}" + (f", {loss.delta:g}" if loss.delta else "")
            exact.add_row(loss.name, stated, f"{loss.loss:.6g}", "REFUTED" if loss.refuted else "not refuted")
        out.print(exact)
    for name in report.missing:
        out.print(f"not reached in time: {name}", markup=False)
    if report.results:
        out.print(
            f"Each bound is wrong with probability at most {1 - report.results[0].confidence:.2g}, and "
            f"any of the {len(report.results)} with probability at most {report.false_alarm:.2g}. Audit a refuted "
            "mechanism again with fresh draws before you believe it. An audit can refute a guarantee, never prove it.",
            markup=False,
        )
