"""The steps before a release: the table, its columns, the question, the privacy. Each is a separate form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dpeigen.studio import forms
from dpeigen.studio.bounds import BoundsTemplates
from dpeigen.studio.errors import RefusedError
from dpeigen.studio.header import READING, TableHeader, header_of
from dpeigen.studio.jobs import Job
from dpeigen.studio.outcome import nothing_found
from dpeigen.studio.project import QUESTIONS, Project
from dpeigen.studio.rehearse import check_columns

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from dpeigen.studio.rendering import Pages
    from dpeigen.studio.workspace import Workspace

__all__ = [
    "STEPS",
    "Form",
    "Site",
    "columns",
    "help_page",
    "names_digest",
    "open_table",
    "question",
    "read_settings",
    "start",
]

Form = dict[str, str] | None
STEPS = {"columns": "Columns", "question": "Question", "privacy": "Privacy", "check": "Dry run and release"}


@dataclass(frozen=True)
class Site:
    """What all pages share."""

    workspace: Workspace
    pages: Pages
    start: str | None

    def page(self, name: str, status: int = 200, **values: Any) -> Response:
        from starlette.responses import HTMLResponse

        shown = {"error": None, "project": None, "step": None, "steps": STEPS, "refresh": None, **values}
        return HTMLResponse(self.pages.render(name, **shown), status)

    def refusal(self, refused: RefusedError) -> Response:
        return self.page("refused.html", refused.status, words=str(refused))

    def go(self, project: Project, where: str) -> Response:
        from starlette.responses import RedirectResponse

        return RedirectResponse(f"{self.pages.base}/p/{quote(project.name, safe='')}/{where}", 303)

    def project(self, request: Request) -> Project:
        return self.workspace.project(request.path_params["project"])


def start(site: Site, request: Request, form: Form) -> Response:  # noqa: ARG001
    """The tables and projects of the folder."""
    workspace = site.workspace
    projects = [(p, len(p.numbers())) for p in workspace.projects()]
    return site.page(
        "start.html", tables=workspace.tables(), projects=projects, folder=str(workspace.folder), chosen=site.start
    )


def open_table(site: Site, request: Request, form: Form) -> Response:  # noqa: ARG001
    """Open the project of a table."""
    return site.go(site.workspace.open((form or {}).get("table", "")), "columns")


def help_page(site: Site, request: Request, form: Form) -> Response:  # noqa: ARG001
    """The one page to read."""
    return site.page("help.html")


# --- columns --------------------------------------------------------------------------------------------------------


def columns(site: Site, request: Request, form: Form) -> Response:
    """Whose rows, how the file is written, and what each column is."""
    project, error = site.project(request), None
    if form is not None:
        try:
            project = _save_columns(project, form)
            return site.go(project, "columns" if form.get("go") == "again" else "question")
        except RefusedError as refused:
            error, project = str(refused), site.project(request)
    header, unreadable = None, None
    try:
        header = header_of(project.table_path, project.content)
    except RefusedError as refused:
        unreadable = str(refused)
    templates = BoundsTemplates.of(site.workspace.folder)
    shown = [] if header is None else _shown_columns(header, project, form if error else None, templates)
    return site.page(
        "columns.html",
        200 if error is None and unreadable is None else 400,
        project=project,
        step="columns",
        error=error,
        unreadable=unreadable,
        header=header,
        columns=shown,
        reading=_shown_reading(header, project, form if error or unreadable else None),
        content=project.content,
        form=form or {},
        missing_codes=(form or {}).get("missing_codes", "; ".join(map(str, project.content.get("missing_codes", [])))),
        kinds=forms.KINDS,
        templates=templates,
        names_digest="" if header is None else names_digest(header),
        unit=(form or {}).get("unit", project.content.get("unit", _likely_unit(header, project))),
    )


def _likely_unit(header: TableHeader | None, project: Project) -> str:
    """The first column whose name looks like an id, before anything is declared."""
    if header is None or project.content.get("columns"):
        return ""
    return next((column.name for column in header.columns if column.identifier), "")


def _save_columns(project: Project, form: Mapping[str, str]) -> Project:
    """Check and save the declarations; those that the commands would refuse are not saved."""
    kept = {name: value for name, value in project.content.items() if name not in (*READING, "columns")}
    try:
        header = header_of(project.table_path, project.content)
    except RefusedError:  # the declared format is wrong, and about to be corrected
        header = TableHeader("csv", (), {}, ())
    reading = forms.reading_in(form, header)
    header = header_of(project.table_path, reading)
    reading = dict(header.reading)
    if form.get("go") == "again":  # only the format of the file
        old = project.content.get("columns", {})
        tables = {c.name: old.get(c.name, {"use": False}) for c in header.columns} if old else {}
        return project.save(content={**kept, **reading, **({"columns": tables} if tables else {})})
    if form.get("names") != names_digest(header):
        raise RefusedError(
            "The header of the table has changed since the page was shown. Look at the columns again.", 409
        )
    unit = form.get("unit", "")
    if unit and unit not in [c.name for c in header.columns]:
        raise RefusedError("The column that identifies the person must be one of the table. Choose it from the list.")
    if reading.get("separator") == ";" and "decimal" not in reading:  # a wrong guess makes every number a missing cell
        raise RefusedError(
            "Choose the decimal mark under “File format”: the comma (1,5) or the point (1.5). With the "
            "wrong one, numbers cannot be read and count as missing."
        )
    content: dict[str, Any] = {**kept, **reading}
    for name in ("unit", "max_rows", "missing_codes"):
        content.pop(name, None)
    if unit:
        content["unit"] = unit
        most = forms.whole(form, "max_rows", "The maximum number of rows per person")
        if most is not None:
            content["max_rows"] = most
    content["missing"] = forms.choice(form, "missing", forms.MISSING, "correct")
    if listed := forms.codes(form, "missing_codes", "The codes for missing cells"):
        content["missing_codes"] = listed
    content["relation"] = forms.choice(form, "relation", ("replace", "add_remove"), "replace")
    content["columns"] = forms.columns_in(form, header, unit or None)
    defaults = {"delta": 1e-6, "components": 2, "center": "private", "scale": "private", "method": "auto"}
    content = {**defaults, "require_ledger": True, **content}
    before = project.content
    saved = project.save(content=content)
    try:
        check_columns(saved)
    except RefusedError:
        if before:
            project.save(content=before)
        else:
            project.settings_path.unlink()
        raise
    return saved


def names_digest(header: TableHeader) -> str:
    """A digest that shows whether the header is still that of the form."""
    import hashlib

    return hashlib.sha256("\x1f".join(c.name for c in header.columns).encode()).hexdigest()[:16]


def _shown_columns(
    header: TableHeader, project: Project, form: Mapping[str, str] | None, templates: BoundsTemplates
) -> list[dict[str, Any]]:
    """The fields of each column: as sent if the form was refused, otherwise as saved, otherwise from its name."""
    saved, found = project.content.get("columns", {}), []
    for at, column in enumerate(header.columns):
        table = saved.get(column.name)
        fresh = table is None
        table = table or {}
        listed = table.get("categories", table.get("levels", []))
        kind = "category" if "categories" in table else "ordinal" if "levels" in table else table.get("type")
        values = {
            "use": "yes" if (bool(column.type) and not column.identifier if fresh else table.get("use", True)) else "",
            "kind": kind or column.type or "category",
            "lower": table.get("lower", ""),
            "upper": table.get("upper", ""),
            "outside": table.get("outside", "missing" if fresh or "lower" not in table else "clip"),
            "transform": table.get("transform", "none"),
            "measure": table.get("unit_of_measure", ""),
            "list": "\n".join(map(str, listed)),
            "codes": "; ".join(map(str, table.get("missing_codes", []))),
        }
        if form is not None:
            values = {key: form.get(f"{key}_{at}", "") for key in values}
        found.append({"at": at, "column": column, "values": values, "suggested": templates.for_name(column.name)})
    return found


def _shown_reading(header: TableHeader | None, project: Project, form: Mapping[str, str] | None) -> dict[str, str]:
    declared = dict(project.content if header is None else header.reading)
    found = {}
    for name in READING:
        value = declared.get(name, "")
        text = ", ".join(value) if name == "names" else "\n".join(value) if isinstance(value, list) else str(value)
        found[name] = form.get(f"reading_{name}", text) if form else text
    return found


# --- question -------------------------------------------------------------------------------------------------------


def question(site: Site, request: Request, form: Form) -> Response:
    """The question, and texts for the card."""
    project, error = site.project(request), None
    if "columns" not in project.content:
        return site.go(project, "columns")
    if form is not None:
        try:
            return site.go(_save_question(project, form), "privacy")
        except RefusedError as refused:
            error, project = str(refused), site.project(request)
    content = project.content
    planes = []
    for number in project.numbers():
        job = Job(project, number)
        if job.state == "done" and job.about.get("question") == "pca":
            planes.append({"number": number, "nothing": nothing_found(job)})
    used = [name for name, table in content["columns"].items() if table.get("use", True)]
    numbers = [name for name in used if not {"categories"} & set(content["columns"][name])]
    return site.page(
        "question.html",
        200 if error is None else 400,
        project=project,
        step="question",
        error=error,
        form=form or {},
        content=content,
        questions=QUESTIONS,
        columns=used,
        targets=numbers,
        every=[*content["columns"]],
        planes=planes,
        map=project.map,
    )


def _save_question(project: Project, form: Mapping[str, str]) -> Project:
    content, state = dict(project.content), dict(project.state)
    asked = forms.choice(form, "question", QUESTIONS, "pca")
    state["question"] = asked
    if asked == "pca":
        private = form.get("components") == "private"
        k = forms.whole(form, "components", "The number of components", high=1000) if not private else "private"
        content["components"] = k or 2
    if asked != "scoremap":
        content["scale"] = forms.choice(form, "scale", ("private", "none"), "private")
        content["robust"] = forms.choice(form, "robust", ("yes", "no"), "no") == "yes"
        if asked == "ridge":
            content["robust"] = False
    if asked == "ridge":
        target = form.get("target", "")
        if target not in content["columns"] or not content["columns"][target].get("use", True):
            raise RefusedError(
                "Choose the column to predict: one that is used and that is a number or an ordered scale."
            )
        content["target"], content["alpha"] = target, "auto"
    if asked == "scoremap":
        state["map"] = {**project.map, **_map_in(project, form)}
    for name in forms.ABOUT:
        content.pop(name, None)
    content |= forms.texts_in(form)
    tables = content.pop("columns")
    return project.save(content={**content, "columns": tables}, state=state)


def _map_in(project: Project, form: Mapping[str, str]) -> dict[str, Any]:
    number = form.get("map_release", "")
    if number not in project.numbers():
        raise RefusedError("A map uses the first two components of a release. Make a release of components first.")
    label, listed = form.get("map_label", ""), forms.names_listed(form.get("map_labels", ""))
    if bool(label) != bool(listed):
        raise RefusedError(
            "To mark classes on the map, choose their column and list their names, one per line; or leave both empty."
        )
    if any("," in name for name in listed):
        raise RefusedError("Class names must not contain commas.")
    return {"release": number, "label": label or None, "labels": listed or None}


def read_settings(path: Path) -> str:
    """The text of a file of settings."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RefusedError("There are no settings yet. Declare the columns first.", 404) from None
