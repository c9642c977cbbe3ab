"""Exports of the studio: the settings, the command, a Python script that does the same, and archives."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from pprint import pformat
from typing import Any

from dpeigen.studio.errors import RefusedError, words_for_the_page
from dpeigen.studio.header import READING
from dpeigen.studio.jobs import JOB, Job, arguments, command_text
from dpeigen.studio.project import SETTINGS, STATE, Project
from dpeigen.studio.rehearse import map_release, options_of, said_before

__all__ = ["archive", "command", "out_name", "project_files", "script"]


def out_name(project: Project) -> str:
    """The name of a folder for a release that the user makes by hand."""
    return f"{project.name}-{'map' if project.question == 'scoremap' else 'release'}"


def command(project: Project) -> str:
    """The command that makes the release of the settings as they are now, typed in the folder of the table."""
    return command_text(arguments(project, f"{project.name}/{SETTINGS}", out_name(project)))


def script(project: Project) -> str:
    """A Python script that makes the same release, run in the folder of the table."""
    with words_for_the_page(), said_before():
        if project.question == "scoremap":
            return _map_script(project)
        return _fit_script(project)


def _fit_script(project: Project) -> str:
    from dpeigen.cli._columns import open_columns
    from dpeigen.cli._config import read_study
    from dpeigen.cli._fit import prepare
    from dpeigen.cli._reading import reading_of

    if project.epsilon is None:
        raise RefusedError("Choose ε first, in the Privacy step.")
    given = options_of(project)
    fit, study = prepare(project.question, given), read_study(project.settings_path)
    unit = study.settings.get("unit")
    _, known = open_columns(project.table_path, given, study, unit)
    declared = {name: said.to_dict() for name, said in known.items()}
    name = type(fit.estimator).__name__
    options = _changed(fit.estimator)
    options["ledger"] = project.ledger
    first = options.pop("n_components", None) if project.question == "pca" else None
    reading = reading_of({}, study)
    data = "rows" if fit.target is None else f"rows, {fit.target!r}"
    return f'''\
"""The release that dpeigen studio would make with these settings. Run it in the folder of {_told(project.table)}."""

from dpeigen import {name}
from dpeigen.report import write_card
from dpeigen.sources import open_source

rows = open_source(
    {project.table!r},
    columns={_literal(declared, 4)},
{_keywords({"unit": unit, **reading} if unit else reading)})
estimator = {name}(
{f"    {first!r}," + chr(10) if first is not None else ""}{_keywords(options)})
release = estimator.fit({data}).release_{f".describe({_inline(fit.about)})" if fit.about else ""}
release.save({out_name(project)!r})
write_card(release, {out_name(project)!r})
'''


def _map_script(project: Project) -> str:
    from dpeigen.cli.score_map import prepare_map

    estimator, _ = prepare_map(options_of(project))
    plane = map_release(project).relative_to(project.root).as_posix()
    asked = {"epsilon": estimator.epsilon, "label": estimator.label, "labels": estimator.labels}
    asked |= {"missing": estimator.missing, "ledger": project.ledger}
    asked = {name: value for name, value in asked.items() if value is not None}
    reading = {name: project.content[name] for name in READING if name in project.content}
    unit = None if estimator.release.unit == "row" else estimator.release.unit
    more = {"unit": unit, **reading} if unit else reading
    label = f" | {{{estimator.label!r}: {{'categories': {estimator.labels!r}}}}}" if estimator.label else ""
    return f'''\
"""The map that dpeigen studio would make with these settings. Run it in the folder of {_told(project.table)}."""

from dpeigen import PrivateScoreMap, load_release
from dpeigen.sources import open_source

release = load_release({plane!r})
declared = release.columns or dict.fromkeys(release.feature_names)
rows = open_source(
    {project.table!r},
    columns=declared{label},
{_keywords(more)})
found = PrivateScoreMap(
    release,
{_keywords(asked)}).fit(rows).map_
found.save({out_name(project)!r})
'''


def _told(name: str) -> str:
    """A name inside a docstring: its quotes must not end it, because what follows is code."""
    return repr(name).replace("\\", "\\\\").replace('"', '\\"')


def _changed(estimator: Any) -> dict[str, Any]:
    """The parameters of an estimator that are not its defaults."""
    import inspect

    defaults = {name: p.default for name, p in inspect.signature(type(estimator)).parameters.items()}
    given = estimator.get_params(deep=False)
    return {name: value for name, value in given.items() if not _same(value, defaults[name])}


def _same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and one == other)


def _keywords(given: Mapping[str, Any]) -> str:
    return "".join(f"    {name}={_literal(value, 4)},\n" for name, value in given.items())


def _inline(given: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in given.items())


def _literal(value: Any, indent: int) -> str:
    return pformat(value, width=100, sort_dicts=False).replace("\n", "\n" + " " * indent)


def archive(files: Iterable[tuple[str, Path]]) -> bytes:
    """A ZIP archive of files by name, without their times, which would reveal how long a fit took."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as target:
        for name, path in files:
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(entry, path.read_bytes())
    return buffer.getvalue()


def project_files(project: Project) -> list[tuple[str, Path]]:
    """The files of the project without the table and the ledger, which stay in its folder."""
    found = [(f"{project.name}/{name}", project.folder / name) for name in (SETTINGS, STATE)]
    for number in project.numbers():
        folder = project.release_path(number)
        inside, job = f"{project.name}/releases/{number}", Job(project, number)
        found += [(f"{inside}/{name}", folder / name) for name in (SETTINGS, JOB)]
        found += [(f"{inside}/release/{name}", job.file(name)) for name in job.files()]
    return [(name, path) for name, path in found if path.is_file()]
