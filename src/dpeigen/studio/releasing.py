"""The steps that make and keep releases: the dry run, the payment, progress, results, history, export."""

from __future__ import annotations

import mimetypes
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpeigen.studio import exporting, jobs
from dpeigen.studio.choosing import ledger_left
from dpeigen.studio.errors import RefusedError, words_for_the_page
from dpeigen.studio.foresee import coarse, facts_of, only_noise_words
from dpeigen.studio.jobs import Job
from dpeigen.studio.outcome import nothing_found, outcome_of
from dpeigen.studio.project import QUESTIONS, SETTINGS, Project
from dpeigen.studio.rehearse import check_columns, dry_run
from dpeigen.studio.views import Form, Site, read_settings
from dpeigen.studio.wording import in_words

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = [
    "card",
    "check",
    "export",
    "exported",
    "history",
    "progress",
    "release",
    "released_file",
    "released_zip",
    "spend",
    "stop",
]

_CARD_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; sandbox"
)


def check(site: Site, request: Request, form: Form) -> Response:  # noqa: ARG001
    """What would be measured, its cost, the passes over the rows, and the only button that spends."""
    project, error, facts = site.project(request), None, None
    if "columns" not in project.content:
        return site.go(project, "columns")
    try:
        check_columns(project)
        facts = dry_run(project)
        known = facts_of(project, {})
        if known is not None:
            foreseen = coarse(known)
            facts["predicted"] = None if foreseen.later else in_words(foreseen, known.measure)
            if words := only_noise_words(known):
                facts["said"].append(words)
    except RefusedError as refused:
        error = str(refused).replace(f"{project.root}/", "")
    same = [n for n in project.numbers() if Job(project, n).about.get("digest") == project.digest]
    running = [n for n in project.numbers() if Job(project, n).running]
    return site.page(
        "check.html",
        200 if error is None else 400,
        project=project,
        step="check",
        error=error,
        facts=facts,
        guarantee=None if facts is None else _promise(facts["guarantee"]),
        command=exporting.command(project),
        number=project.next_number,
        digest=project.digest,
        same=same,
        running=running,
        left=ledger_left(project),
        question=QUESTIONS[project.question],
    )


def _promise(given: dict[str, Any]) -> dict[str, Any]:
    from dpeigen.privacy import Guarantee

    found = Guarantee.from_dict(given)
    return {"assumptions": found.assumptions, "notes": found.notes, "neighbours": found.neighbours, "unit": found.unit}


def spend(site: Site, request: Request, form: Form) -> Response:
    """The only request that pays. A number is paid for once, however often the request is sent."""
    project, form = site.project(request), form or {}
    number = form.get("number", "")
    if number in project.numbers():  # a reload, a second tab, the back button, a double click
        return site.go(project, f"releases/{number}")
    if form.get("understood") != "yes":
        raise RefusedError("Tick the box that says what is spent. Nothing was spent.")
    facts = dry_run(project)  # so that a refusal comes before a release is begun
    jobs.begin(project, number, form.get("digest", ""), facts["reads"])
    return site.go(project, f"releases/{number}")


def _job(site: Site, request: Request) -> Job:
    project = site.project(request)
    number = request.path_params["number"]
    project.release_path(number)  # refuses a release that does not exist
    return Job(project, number)


def release(site: Site, request: Request, form: Form) -> Response:  # noqa: ARG001
    """A release that was begun: its progress, or its outcome."""
    job = _job(site, request)
    state = job.state
    about = job.about
    return site.page(
        "release.html",
        project=job.project,
        step="check",
        job=job,
        state=state,
        about=about,
        question=QUESTIONS.get(about.get("question", ""), "Release"),
        messages=job.messages,
        outcome=outcome_of(job) if state == "done" else None,
        progress=job.progress(_passes(job)) if state == "running" else None,
        files=job.files(),
        pictures=[(name, _caption(name)) for name in job.files() if name.endswith(".svg")],
        command=jobs.command_text(about.get("arguments", [])),
        left=ledger_left(job.project),
        open=_open_entries(job.project) if state in ("killed", "stopped", "refused", "elsewhere") else [],
        refresh=2 if state == "running" else None,
    )


def _caption(name: str) -> str:
    """What a figure shows, from the name of its file.

    >>> _caption("figures/loadings-2.svg"), _caption("figures/scree.svg")
    ('Loadings of component 2', 'Scree plot: variances of the components')
    """
    stem, _, number = Path(name).stem.partition("-")
    known = {"loadings": f"Loadings of component {number}", "scree": "Scree plot: variances of the components"}
    return known.get(stem, Path(name).stem.replace("-", " ").capitalize())


def _passes(job: Job) -> int | None:
    found = job.about.get("passes")
    return found if isinstance(found, int) else None


def _open_entries(project: Project) -> list[dict[str, Any]]:
    """Reservations that their process left open: they count as spent."""
    from dpeigen.privacy.ledger import Ledger

    if not project.has_ledger:
        return []
    with words_for_the_page():
        return [entry for entry in Ledger(project.ledger_path).history() if entry["state"] == "reserved"]


def progress(site: Site, request: Request, form: Form) -> Response:  # noqa: ARG001
    """The progress of a release, for the script of its page."""
    from starlette.responses import JSONResponse

    job = _job(site, request)
    return JSONResponse({"state": job.state, **job.progress(_passes(job))})


def stop(site: Site, request: Request, form: Form) -> Response:  # noqa: ARG001
    """Ask a release to stop."""
    job = _job(site, request)
    job.stop()
    return site.go(job.project, f"releases/{job.number}")


def card(site: Site, request: Request, form: Form) -> Response:  # noqa: ARG001
    """Draw the card of a release again, at no cost: the command `dpeigen card`."""
    job = _job(site, request)
    if job.state != "done":
        raise RefusedError("There is no release to draw a card of.")
    words = [sys.executable, "-c", "import sys; sys.path[:] = [p for p in sys.path if p]; "
             "from dpeigen.cli.app import main; main()", "card", str(job.out)]  # fmt: skip
    done = subprocess.run(words, cwd=job.project.root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RefusedError(f"The card could not be drawn. {done.stderr.strip().removeprefix('dpeigen: ')}")
    return site.go(job.project, f"releases/{job.number}")


def released_file(site: Site, request: Request, form: Form) -> Response:  # noqa: ARG001
    """A file of a release: the card is displayed; other files are displayed or downloaded."""
    from starlette.responses import FileResponse

    job = _job(site, request)
    path = job.file(request.path_params["file"])
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    headers = {}
    if kind in ("text/html", "image/svg+xml"):
        headers["content-security-policy"] = _CARD_POLICY
    if request.query_params.get("save") or kind not in ("text/html", "image/svg+xml", "image/png"):
        headers["content-disposition"] = f'attachment; filename="{path.name}"'
    return FileResponse(path, media_type=kind, headers=headers)


def released_zip(site: Site, request: Request, form: Form) -> Response:  # noqa: ARG001
    """All files of a release."""
    job = _job(site, request)
    name = f"{job.project.name}-{job.number}"
    return _saved(exporting.archive((f"{name}/{file}", job.file(file)) for file in job.files()), f"{name}.zip")


def _saved(content: bytes, name: str, kind: str = "application/zip") -> Response:
    from urllib.parse import quote

    from starlette.responses import Response as Plain

    disposition = f"attachment; filename*=utf-8''{quote(name, safe='')}"
    return Plain(content, media_type=kind, headers={"content-disposition": disposition})


def history(site: Site, request: Request, form: Form) -> Response:  # noqa: ARG001
    """The releases of a project with their cards, and the ledger's timeline."""
    project = site.project(request)
    found = []
    for number in reversed(project.numbers()):
        job = Job(project, number)
        found.append({"number": number, "state": job.state, "about": job.about, "card": "card.html" in job.files(),
                      "nothing": job.state == "done" and nothing_found(job),
                      "question": QUESTIONS.get(job.about.get("question", ""), "Release")})  # fmt: skip
    return site.page("history.html", project=project, releases=found, left=ledger_left(project), **_timeline(project))


def _timeline(project: Project) -> dict[str, Any]:
    from dpeigen.privacy.ledger import Ledger

    if not project.has_ledger:
        return {"entries": [], "verdict": None, "cautions": []}
    with words_for_the_page():
        ledger = Ledger(project.ledger_path)
        verdict, total, entries = ledger.verify(), 0.0, []
        for entry in ledger.history():
            counts = entry["state"] in ("committed", "reserved")
            total += entry["epsilon"] if counts else 0.0
            entries.append({**entry, "total": total, "counts": counts})
    return {"entries": entries, "verdict": verdict.words, "cautions": list(verdict.cautions)}


def export(site: Site, request: Request, form: Form) -> Response:  # noqa: ARG001
    """The settings, the command and the script that do the same."""
    project = site.project(request)
    text, error = "", None
    try:
        text = exporting.script(project)
    except RefusedError as refused:
        error = str(refused).replace(f"{project.root}/", "")
    return site.page(
        "export.html",
        project=project,
        error=error,
        settings=read_settings(project.settings_path),
        command=exporting.command(project),
        script=text,
    )


def exported(site: Site, request: Request, form: Form) -> Response:  # noqa: ARG001
    """One of these as a file."""
    project, name = site.project(request), request.path_params["file"]
    if name == SETTINGS:
        return _saved(read_settings(project.settings_path).encode(), SETTINGS, "application/toml")
    if name == "release.py":
        return _saved(exporting.script(project).encode(), name, "text/x-python")
    if name == "command.txt":
        return _saved(exporting.command(project).encode() + b"\n", name, "text/plain")
    if name == "project.zip":
        return _saved(exporting.archive(exporting.project_files(project)), f"{project.name}.zip")
    raise RefusedError("There is no such file to save.", 404)
