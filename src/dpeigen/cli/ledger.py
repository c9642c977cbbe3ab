"""``dpeigen ledger``: make a budget, look at it, check its record, and close what a crash left open."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpeigen._text import clean
from dpeigen.cli._errors import REFUSED, USAGE, fail, one_line_errors, one_line_warnings

if TYPE_CHECKING:
    from dpeigen.privacy.ledger import Ledger

__all__ = ["By", "Json", "Place", "app", "export", "history", "init", "resolve", "show", "verify"]

app = typer.Typer(help="The privacy budget of a data set, shared by everyone who uses it.", no_args_is_help=True)

Place = Annotated[str, typer.Argument(metavar="PATH", help="The ledger's file, or its postgresql:// URL.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
By = Annotated[str | None, typer.Option(help="Your name for the record; the system's user name by default.")]
_COLUMNS = ("id", "at", "by", "host", "what", "epsilon", "delta", "relation", "state", "started", "settled_at",
            "settled_by", "by_hand", "reason")  # fmt: skip
_END = ("state", "by_hand", "reason", "settled_at", "settled_by")


@app.command()
def init(
    place: Place,
    epsilon: Annotated[float, typer.Option(help="Total privacy loss ε > 0 of all releases. There is no default.")],
    delta: Annotated[
        float, typer.Option(help="Total δ of all releases; 0 allows only releases with pure privacy.")
    ] = 0.0,
    accounting: Annotated[
        str, typer.Option(help="auto, sum, mixed or gaussian: how releases add up (see the documentation).")
    ] = "auto",
    by: By = None,
) -> None:
    """Create a new ledger. Never overwrites one."""
    with one_line_errors(), one_line_warnings():
        from dpeigen.privacy.ledger import Ledger

        ledger = Ledger.create(place, epsilon=epsilon, delta=delta, accounting=accounting, by=by)
        typer.echo(f"{ledger.place}: (ε, δ) = ({epsilon:g}, {delta:g}), accounting: {ledger.state().accounting}")
        typer.echo(f"head {ledger.verify().head}")


@app.command()
def show(place: Place, as_json: Json = False) -> None:
    """Show the budget, what is spent and what is left."""
    with one_line_errors(), one_line_warnings():
        facts = _facts(_open(place))
        if as_json:
            typer.echo(json.dumps(facts, indent=2))
            return
        typer.echo(f"ledger      {facts['ledger']}")
        typer.echo(f"budget      (ε, δ) = ({facts['epsilon']:g}, {facts['delta']:g})")
        typer.echo(f"accounting  {facts['accounting']}")
        typer.echo(f"spent       ({facts['spent_epsilon']:g}, {facts['spent_delta']:g}) in plain sums")
        left = facts["remaining"]
        typer.echo("left        nothing" if left is None else f"left        ({left['epsilon']:g}, {left['delta']:g})")
        if left is not None and facts["accounting"] == "mixed":
            typer.echo(
                "            the rest of δ is kept for sums of Gaussian noise, which cost less (mixed accounting)"
            )
        if facts["gaussian_room"]:
            at = " or ".join(f"ε = {g['epsilon']:.4g} at δ = {g['delta']:g}" for g in facts["gaussian_room"])
            typer.echo(f"            for one release by Gaussian noise alone: {at}")
        counts = ", ".join(f"{count} {state}" for state, count in facts["entries"].items() if count)
        typer.echo(f"entries     {counts or 'none'}")
        for caution in facts["cautions"]:
            typer.echo(f"caution     {caution}")
        for entry in facts["withdrawn"]:
            typer.echo(
                f"{entry['state']:<11} {entry['id']} by {entry['settled_by']}, {entry['settled_at']}{_why(entry)}"
            )
        for entry in facts["open"]:
            begun = "started" if entry["started"] else "not started"
            typer.echo(clean(f"open        {entry['id']} ({begun}) by {entry['by']} on {entry['host']}, {entry['at']}"))


def _facts(ledger: Ledger) -> dict[str, Any]:
    from dpeigen.privacy.ledger.entries import cautions, withdrawn
    from dpeigen.privacy.ledger.rules import stated

    state, left, history = ledger.state(), ledger.remaining(), ledger.history()
    epsilon, delta = stated(state.total)
    rooms = [
        (d, ledger.room(d)) for d in (state.delta / 100, state.delta / 10) if state.accounting in ("mixed", "gaussian")
    ]
    kept = ("id", "at", "by", "host", "what", "started")
    return {
        "ledger": ledger.place,
        "epsilon": state.epsilon,
        "delta": state.delta,
        "accounting": state.accounting,
        "spent_epsilon": epsilon,
        "spent_delta": delta,
        "remaining": None if left is None else {"epsilon": left.epsilon, "delta": left.delta},
        "gaussian_room": [{"delta": d, "epsilon": e} for d, e in rooms],
        "entries": {
            s: sum(e["state"] == s for e in history) for s in ("committed", "reserved", "cancelled", "refused")
        },
        "cautions": list(cautions(history)),
        "open": [{name: e[name] for name in kept} for e in history if e["state"] == "reserved"],
        "withdrawn": [{name: e[name] for name in (*kept, *_END)} for e in withdrawn(history)],
    }


def _why(entry: Mapping[str, Any]) -> str:
    """How an entry was closed that did not end with a commit, and the recorded reason."""
    how = "by hand" if entry["by_hand"] else "after the start" if entry["started"] else "before a reservation"
    return f" ({how}): {entry['reason'] or 'no reason was recorded'}"


@app.command()
def history(place: Place, as_json: Json = False) -> None:
    """List every reservation: who, when, what, its cost, its outcome and the reason."""
    with one_line_errors(), one_line_warnings():
        entries = _open(place).history()
        if as_json:
            typer.echo(json.dumps(entries, indent=2))
            return
        for e in entries:
            cost = f"ε={e['epsilon']:g}" + (f" δ={e['delta']:g}" if e["delta"] else "")
            state = e["state"] + (" (by hand)" if e["by_hand"] else "")
            state += " (started)" if e["state"] == "reserved" and e["started"] else ""
            state += " (after the start)" if e["state"] == "cancelled" and e["started"] and not e["by_hand"] else ""
            why = f"  reason: {e['reason']}" if e["reason"] else ""
            typer.echo(clean(f"{e['at'][:19]}Z  {e['id']}  {state}  {cost}  {e['by']}@{e['host']}  {e['what']}{why}"))


@app.command()
def verify(
    place: Place,
    head: Annotated[
        str | None, typer.Option(help="A head noted earlier, as NUMBER:HASH. It must still be in the record.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Recompute every hash and total and give a verdict. The exit code is 4 if anything does not agree.

    Keep a copy of the head that it prints somewhere else.
    """
    with one_line_errors(), one_line_warnings():
        from dpeigen.privacy.ledger import DamagedLedgerError

        try:
            verdict = _open(place).verify(head)
        except DamagedLedgerError as error:
            fail(REFUSED, f"verdict: not in order. {error}")
        if as_json:
            facts = {"ok": verdict.ok, "verdict": verdict.words, "events": verdict.events, "head": verdict.head}
            lists = {"problems": list(verdict.problems), "cautions": list(verdict.cautions)}
            typer.echo(json.dumps({**facts, **lists}, indent=2))
        else:
            typer.echo(f"{verdict.events} events, head {verdict.head}")
            for caution in verdict.cautions:
                typer.echo(f"caution: {caution}")
            if verdict.ok:
                typer.echo(f"verdict: {verdict.words}")
        if not verdict.ok:
            fail(REFUSED, f"verdict: {verdict.words}")


@app.command()
def export(
    place: Place,
    out: Annotated[Path | None, typer.Option(help="File to write; standard output by default.")] = None,
    format: Annotated[
        str,
        typer.Option("--format", help="csv (one line per entry) or json (entries and the record with its hashes)."),
    ] = "csv",
) -> None:
    """Write everything in the ledger to a file, for an archive or a spreadsheet."""
    with one_line_errors(), one_line_warnings():
        if format not in ("csv", "json"):
            fail(USAGE, f"--format must be csv or json. Got {format!r}.")
        ledger = _open(place)
        if format == "json":
            record = [vars(event) | {"body": event.values} for event in ledger.events()]
            text = json.dumps({**_facts(ledger), "history": ledger.history(), "events": record}, indent=2) + "\n"
        else:
            sheet = StringIO()
            writer = csv.writer(sheet, lineterminator="\n")
            writer.writerow(_COLUMNS)
            writer.writerows([_cell(entry[name]) for name in _COLUMNS] for entry in ledger.history())
            text = sheet.getvalue()
        if out is None:
            sys.stdout.write(text)
        else:
            with out.open("x", encoding="utf-8", newline="") as file:
                file.write(text)


def _cell(value: Any) -> Any:
    """Text that a spreadsheet does not interpret as a formula."""
    return "'" + value if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


@app.command()
def resolve(
    place: Place,
    ticket: Annotated[str, typer.Argument(metavar="ID", help="The open entry, as 'show' names it.")],
    outcome: Annotated[
        str,
        typer.Option("--as", help="spent, or cancelled: nobody saw a result of it, and the cost is returned."),
    ],
    reason: Annotated[str, typer.Option(help="How you know this; goes into the record.")],
    by: By = None,
) -> None:
    """Close a reservation that its process left open. Until then it counts as spent."""
    with one_line_errors(), one_line_warnings():
        if outcome not in ("spent", "cancelled"):
            fail(USAGE, f"--as must be spent or cancelled. Got {outcome!r}.")
        try:
            _open(place, by=by).resolve(ticket, spent=outcome == "spent", reason=reason)
        except KeyError as error:
            fail(USAGE, error.args[0])
        typer.echo(f"{ticket}: {outcome}")


def _open(place: str, by: str | None = None) -> Ledger:
    from dpeigen.privacy.ledger import Ledger

    return Ledger(place, by=by)
