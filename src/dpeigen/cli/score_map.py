"""``dpeigen scoremap RELEASE FILE``: a private picture of the rows on the plane of a release, written as a map.

Everything that can be refused is refused before a row is read: parameters, the output folder, the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpeigen._text import clean, json_text
from dpeigen.cli import _options as option
from dpeigen.cli._config import Study, read_study
from dpeigen.cli._errors import (
    USAGE,
    UnreadableError,
    fail,
    one_line_errors,
    one_line_warnings,
)
from dpeigen.cli._reading import reading_of, reads_files

if TYPE_CHECKING:
    from dpeigen import PrivateScoreMap
    from dpeigen.estimators.rehearsal import FitPlan
    from dpeigen.release import Release
    from dpeigen.score_map import ScoreMap
    from dpeigen.sources import Source

__all__ = ["prepare_map", "scoremap"]


_TWO_SIDED = 1.96  # deviations: 95% of a normal law


@reads_files("skip")
def scoremap(
    release: Annotated[Path, typer.Argument(help="Folder of a release of the same table, with two components.")],
    file: Annotated[
        Path, typer.Argument(help="The table: CSV, TSV, Excel, Parquet, Feather, ORC or JSON lines, or a folder.")
    ],
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Privacy loss ε > 0 of the map. No default: give it here, or as 'map_epsilon' in the --config file."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the map; must not contain one yet. Required unless --dry-run.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Column that holds the class of a row.")] = None,
    labels: Annotated[str | None, typer.Option(help="The public list of classes, as a,b,c.")] = None,
    by_class: Annotated[str, typer.Option(help="centroids, or density for a density of each class.")] = "centroids",
    category: Annotated[
        list[str] | None,
        typer.Option(
            help="A categorical feature column as it was declared for the release: name=a|b|c. Needed only for "
            "releases that do not record it."
        ),
    ] = None,
    column_type: option.ColumnType = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="The settings file of the release. It supplies the file format, types and categories of columns, "
            "ledger, require_ledger and missing. epsilon is read from 'map_epsilon', because the map has a cost of "
            "its own."
        ),
    ] = None,
    ledger: option.LedgerFile = None,
    missing: Annotated[
        str | None,
        typer.Option(
            help="Cells that are missing or unreadable. refuse: stop. correct: replace them by the released centre of "
            "their column. drop: replace the whole row by the centre."
        ),
    ] = None,
    on_bad_row: Annotated[str | None, typer.Option(help="The older name of --missing.", hidden=True)] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be measured. Reads no row and spends nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Release a private map of the scores: a density, and with labels the centres of the classes."""
    with one_line_errors(), one_line_warnings():
        given: dict[str, Any] = {"release": release, "file": file, "epsilon": epsilon, "label": label, "labels": labels}
        given |= {"by_class": by_class, "category": category, "column_type": column_type, "config": config}
        given |= {"ledger": ledger, "missing": missing, "on_bad_row": on_bad_row, "reading": reading}
        estimator, source = prepare_map(given)
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
            ledger=estimator.ledger,
            others=("map.svg", "map.png"),
            draw=_draw,
            again="Draw it again, at no cost, in Python: dpeigen.plotting.ScoreMapDisplay.",
            show=partial(_print, as_json=as_json),
        )


def prepare_map(given: Mapping[str, Any]) -> tuple[PrivateScoreMap, Source]:
    """The estimator and the table, from the command's options by their names; looks at no row."""
    from dpeigen import PrivateScoreMap, load_release
    from dpeigen.privacy.ledger import ledger_for

    study, labels = read_study(given["config"]), given["labels"]
    epsilon = study.settings.get("map_epsilon") if given["epsilon"] is None else given["epsilon"]
    if epsilon is None:
        beside = ", where 'epsilon' is that of the release" if "epsilon" in study.settings else ""
        raise ValueError(
            "--epsilon has no default: give the privacy loss of the map, which adds to that of the release, for "
            f"example 1, here or as 'map_epsilon' in the file of --config{beside}."
        )
    ledger = study.settings.get("ledger") if given["ledger"] is None else given["ledger"]
    insists = f"'require_ledger' in {given['config']} says so" if study.settings.get("require_ledger") else ""
    ledger_for(ledger, "dpeigen scoremap", insists)
    plane = load_release(given["release"])
    listed = None if labels is None else [name.strip() for name in labels.split(",")]
    unit = None if plane.unit == "row" else plane.unit
    source = _in_units(_open(given["file"], plane, given, study, given["label"], listed, unit), plane)
    estimator = PrivateScoreMap(
        plane,
        epsilon=epsilon,
        labels=listed,
        label=given["label"],
        by_class=given["by_class"],
        ledger=ledger,
        missing=given["missing"] or study.settings.get("missing", "refuse"),
        on_bad_row=given["on_bad_row"] or study.settings.get("on_bad_row"),
    )
    return estimator, source


def _open(
    path: Path,
    plane: Release,
    given: Mapping[str, Any],
    study: Study,
    label: str | None,
    labels: list[str] | None,
    unit: str | None,
) -> Source:
    """The columns of the release, as they were declared for it, and that of the labels."""
    from dpeigen.cli._columns import chosen, with_label, with_options
    from dpeigen.sources import open_source

    if not path.exists():
        raise UnreadableError(f"No such file or folder: {path}")
    known = chosen(with_options(study.columns or {}, given) | (plane.columns or {}), plane.feature_names)
    known = with_label(known, label, labels) if label is not None and labels else known
    reading = {name: value for name, value in reading_of(given["reading"], study).items() if name != "skip"}
    return open_source(path, columns=known, unit=unit, **reading)


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
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from dpeigen.plotting import ScoreMapDisplay

    display, figure = ScoreMapDisplay(found), Figure(figsize=(10.5, 5.6), layout="constrained")
    display.plot(display.axes_on(figure))
    with mpl.rc_context({"svg.hashsalt": "dpeigen"}):  # the same map, the same file
        figure.savefig(out / "map.svg", metadata={"Date": None})  # a time would say how long the fit took
    figure.savefig(out / "map.png", dpi=150)


def _print(found: ScoreMap, out: Path, *, as_json: bool) -> None:
    from dpeigen.cli._show import visible
    from dpeigen.notebook import NOISE

    centroids = found.centroids()
    lines: list[dict[str, Any]] = [
        {
            "label": name,
            "count": float(count),
            "x": float(x),
            "y": float(y),
            "x_noise": float(wide),
            "y_noise": float(high),
            "shown": bool(shown),
        }
        for name, count, (x, y), (wide, high), shown in zip(
            centroids.labels, centroids.counts, centroids.points, centroids.errors, centroids.shown, strict=True
        )
    ]
    if as_json:
        total = {"epsilon": found.total.epsilon, "delta": found.total.delta}
        text = {"out": str(out), "guarantee": found.guarantee.to_dict(), "total": total, "classes": lines}
        typer.echo(json_text(text))
        return
    typer.echo(f"{visible(found.guarantee)}\nwith the release: {clean(found.total_words)}")
    what = "rows" if found.guarantee.unit == "row" else f"different {clean(found.guarantee.unit)!r}"
    off = _TWO_SIDED * float(found.facts.get("class_count_deviation") or 0.0)
    for line in lines:
        place = ", ".join(f"{line[at]:.3g} ± {_TWO_SIDED * line[at + '_noise']:.2g}" for at in "xy")
        where = f"at ({place})" if line["shown"] else NOISE
        typer.echo(f"{clean(line['label']):<28} about {line['count']:8.0f} ± {off:.0f} {what} {where}")
    if lines:
        typer.echo("±: contains the privacy noise in 95% of releases; sampling error comes on top.")
    typer.echo(f"Map written to {out}")
