"""The dry run of a project: it calls the functions of the commands with the same options.

It reads no row and spends nothing.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpeigen.clipped import foreseen_clipping
from dpeigen.studio.errors import RefusedError, words_for_the_page
from dpeigen.studio.header import header_of
from dpeigen.studio.project import Project

__all__ = ["check_columns", "dry_run", "map_release", "options_of", "rows_help", "said_before"]

_one_at_a_time = threading.RLock()  # warnings are caught for the whole process


def options_of(project: Project, config: Path | None = None) -> dict[str, Any]:
    """The options of the command of a project, by their names; paths as they are on this machine."""
    from dpeigen.cli._options import FITTING

    given: dict[str, Any] = dict.fromkeys(FITTING)
    given |= {"file": project.table_path, "config": config or project.settings_path, "reading": {}}
    given |= {"ledger": str(project.ledger_path), "dry_run": True, "as_json": True}
    given |= dict.fromkeys(("components", "target", "alpha", "out"))
    if project.question == "scoremap":
        asked = project.map
        given |= {"release": map_release(project), "epsilon": project.epsilon, "by_class": "centroids"}
        given |= {"label": asked.get("label"), "labels": ",".join(asked["labels"]) if asked.get("labels") else None}
    elif project.people is not None and rows_help(project):
        given["rows"] = project.people
    return given


def map_release(project: Project) -> Path:
    """The folder of the release whose plane a map is drawn on."""
    number = project.map.get("release")
    if not isinstance(number, str):
        raise RefusedError("Choose the release that provides the components of the map.")
    return project.release_path(number) / "release"


def rows_help(project: Project) -> bool:
    """Whether the dry run may use the entered number of rows: the file does not state it, and it is public."""
    if project.content.get("relation", "replace") != "replace":
        return False
    return header_of(project.table_path, project.content).counted


def dry_run(project: Project) -> dict[str, Any]:
    """What a release would guarantee and measure, its cost, and the warnings before it; or a refusal."""
    from dpeigen.cli._dry_run import limits_words, plan_facts
    from dpeigen.cli._fit import prepare
    from dpeigen.cli.score_map import prepare_map
    from dpeigen.privacy.ledger import Ledger

    if project.epsilon is None:
        raise RefusedError("Choose ε first, in the Privacy step.")
    if not project.has_ledger:
        raise RefusedError("Create a ledger first, in the Privacy step: it records the budget of this table.")
    with words_for_the_page(), said_before() as said:
        given = options_of(project)
        if project.question == "scoremap":
            estimator, source = prepare_map(given)
            plan, ledger = estimator.explain(source), Ledger.at(given["ledger"])
            ledger.require(plan.cost, split_unknown=True)
            left = ledger.remaining()
            facts: dict[str, Any] = {
                "method": plan.method,
                "cost": {"epsilon": plan.cost.epsilon, "delta": plan.cost.delta},
                "split": [{"purpose": s.purpose, "cost": str(s.cost), "mechanism": s.mechanism} for s in plan.split],
                "passes": plan.passes,
                "reads": plan.passes,
                "columns": source.feature_names,
                "rows_known": True,
                "limits": {},
                "all_bounded": False,
                "read_as_numbers": [],  # a map reads only the columns of its release
                "without_missing_codes": [],
                "clipped": None,
                "guarantee": plan.guarantee.to_dict(),
                "ledger_left": None if left is None else {"epsilon": left.epsilon, "delta": left.delta},
            }
        else:
            facts = plan_facts(prepare(project.question, given), given["rows"])
    limits = limits_words(facts["limits"], facts["all_bounded"])
    return {
        **facts,
        "said": said,
        "predicted": None,
        "clipping": foreseen_clipping(facts["clipped"]),
        "limited": limits,
    }


def check_columns(project: Project) -> None:
    """Refuse declarations that the commands would refuse, with the same messages."""
    from dpeigen.cli._columns import declared_bounds, open_columns
    from dpeigen.cli._config import read_study

    if not project.settings_path.exists():
        raise RefusedError("Declare the columns first.")
    with words_for_the_page(), said_before():
        study = read_study(project.settings_path)
        given: dict[str, Any] = {"reading": {}, "columns": None}
        source, _ = open_columns(project.table_path, given, study, study.settings.get("unit"))
        declared_bounds(source.schema or {}, study)


@contextmanager
def said_before() -> Iterator[list[str]]:
    """The library's warnings, as the commands print them; those of other packages may quote values."""
    from dpeigen.methods.foreseen import OnlyNoiseWarning
    from dpeigen.privacy.guarantee import UnitWarning

    said: list[str] = []
    with _one_at_a_time, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield said
        finally:
            known = (OnlyNoiseWarning, UnitWarning)
            said.extend(dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, known)))
