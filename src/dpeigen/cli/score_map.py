"""``dpeigen scoremap RELEASE FILE``: a private picture of the rows on the plane of a release, written as a map.

Everything that can be refused is refused before a row is read: parameters, the output folder, the ledger.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpeigen._text import clean, json_text
from dpeigen.cli._errors import (
    USAGE,
    UnreadableError,
    fail,
    one_line_errors,
    one_line_warnings,
)
from dpeigen.cli._options import LedgerFile

if TYPE_CHECKING:
    from dpeigen.estimators.rehearsal import FitPlan
    from dpeigen.release import Release
    from dpeigen.score_map import ScoreMap
    from dpeigen.sources import Source


def scoremap(
    release: Annotated[Path, typer.Argument(help="Folder of a release of the same table, with two components.")],
    file: Annotated[Path, typer.Argument(help="The table: CSV (with a header line), Parquet or Feather, or a folder.")],
    epsilon: Annotated[float, typer.Option(help="Privacy loss ε > 0 of the map. There is no default.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the map; must not hold one already. Needed unless --dry-run.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Column that holds the class of a row.")] = None,
    labels: Annotated[str | None, typer.Option(help="The public list of classes, as a,b,c.")] = None,
    by_class: Annotated[str, typer.Option(help="centroids, or density for one of each class.")] = "centroids",
    category: Annotated[
        list[str] | None,
        typer.Option(help="A feature column of categories as it was declared for the release: name=a|b|c."),
    ] = None,
    ledger: LedgerFile = None,
    on_bad_row: Annotated[
        str, typer.Option(help="Rows that are not finite numbers: refuse or drop-to-zero.")
    ] = "refuse",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be paid for; read no row, spend nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Release a private map of the scores: a density, and with labels the centres of the classes."""
    with one_line_errors(), one_line_warnings():
        from dpeigen import PrivateScoreMap, load_release
        from dpeigen.privacy.ledger import ledger_for

        ledger_for(ledger, "dpeigen scoremap")
        plane = load_release(release)
        listed = None if labels is None else [name.strip() for name in labels.split(",")]
        source = _in_units(_open(file, plane.feature_names, category or [], label, listed), plane)
        estimator = PrivateScoreMap(
            plane,
            epsilon=epsilon,
            labels=listed,
            label=label,
            by_class=by_class,
            ledger=ledger,
            on_bad_row=on_bad_row,
        )
        if dry_run:
            _print_plan(estimator.explain(source), as_json)
            return
        if out is None:
            fail(USAGE, "Give --out, a folder for the map, or --dry-run.")
        import dpeigen.plotting  # noqa: F401  (what the pictures need is there, or we stop here)
        from dpeigen.cli._keep import FolderKeeper
        from dpeigen.cli._run import pay_and_write

        pay_and_write(
            partial(estimator.fit, source),
            FolderKeeper(out),
            source.n_features,
            ledger=ledger,
            others=("map.svg", "map.png"),
            draw=_draw,
            again="Draw it again, for free, in Python: dpeigen.plotting.ScoreMapDisplay.",
            show=partial(_print, as_json=as_json),
        )


def _open(path: Path, features: list[str], declared: list[str], label: str | None, labels: list[str] | None) -> Source:
    from dpeigen.sources import open_source

    if not path.exists():
        raise UnreadableError(f"No such file or folder: {path}")
    pairs = [text.partition("=") for text in declared]
    if any(not name or not values for name, _, values in pairs):
        raise ValueError(f"--category must be given as name=a|b|c. Got {declared} instead.")
    categories = {name: values.split("|") for name, _, values in pairs}
    columns = {f"{name}={value}": name for name, values in categories.items() for value in values}
    names = list(dict.fromkeys(columns.get(feature, feature) for feature in features))
    if label is not None and labels:
        names, categories = [*names, label], categories | {label: labels}
    return open_source(path, columns=names, categories=categories or None)


def _in_units(source: Source, plane: Release) -> Source:
    """The rows in the units of the release, whose columns may have been rescaled by public bounds; labels stay."""
    from dpeigen.cli._fit import rescaled_source

    by = plane.facts.get("rescaled")
    if by is None:
        return source
    labels = source.n_features - len(by["lower"])
    box = (by["lower"] + [0.0] * labels, by["upper"] + [1.0] * labels)
    return rescaled_source(source, box, source.feature_names or [])


def _print_plan(plan: FitPlan, as_json: bool) -> None:
    import json

    spends = [{"purpose": s.purpose, "cost": str(s.cost), "mechanism": s.mechanism} for s in plan.split]
    if as_json:
        cost = {"epsilon": plan.cost.epsilon, "delta": plan.cost.delta}
        typer.echo(json.dumps({"method": plan.method, "cost": cost, "split": spends, "passes": plan.passes}, indent=2))
        return
    typer.echo(f"method   {plan.method}\ncost     ε = {plan.cost.epsilon:g}, δ = {plan.cost.delta:g}")
    for spend in spends:
        typer.echo(f"pays for {spend['purpose']}: {spend['cost']} ({spend['mechanism']})")
    typer.echo(f"passes   {plan.passes} over the data\nNothing was spent.")


def _draw(found: ScoreMap, out: Path) -> None:
    from matplotlib.figure import Figure

    from dpeigen.plotting import ScoreMapDisplay

    display, figure = ScoreMapDisplay(found), Figure(figsize=(10.5, 5.6), layout="constrained")
    display.plot(display.axes_on(figure))
    for ending in ("svg", "png"):
        figure.savefig(out / f"map.{ending}", dpi=150)


def _print(found: ScoreMap, out: Path, *, as_json: bool) -> None:
    from dpeigen.cli._show import visible

    centroids = found.centroids()
    lines: list[dict[str, Any]] = [
        {"label": name, "count": float(count), "x": float(x), "y": float(y), "shown": bool(shown)}
        for name, count, (x, y), shown in zip(
            centroids.labels, centroids.counts, centroids.points, centroids.shown, strict=True
        )
    ]
    if as_json:
        total = {"epsilon": found.total.epsilon, "delta": found.total.delta}
        text = {"out": str(out), "guarantee": found.guarantee.to_dict(), "total": total, "classes": lines}
        typer.echo(json_text(text))
        return
    typer.echo(f"{visible(found.guarantee)}\nwith the release: {clean(found.total_words)}")
    for line in lines:
        hidden = "" if line["shown"] else "   does not stand out of the noise"
        typer.echo(
            f"{clean(line['label']):<28} about {line['count']:8.0f} rows at ({line['x']:.3g}, {line['y']:.3g}){hidden}"
        )
    typer.echo(f"Map written to {out}")
