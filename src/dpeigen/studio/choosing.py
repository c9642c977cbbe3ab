"""The step about privacy: ε and δ, the predicted error beside them, what an attacker could learn, and the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpeigen.privacy.attack import best_guess
from dpeigen.studio import forms
from dpeigen.studio.curve import curve_svg
from dpeigen.studio.errors import RefusedError, words_for_the_page
from dpeigen.studio.foresee import coarse, facts_of, refined
from dpeigen.studio.project import Project
from dpeigen.studio.views import Form, Site
from dpeigen.studio.wording import assumed, in_words

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["foreseen", "ledger", "ledger_left", "privacy"]


def privacy(site: Site, request: Request, form: Form) -> Response:
    """ε and δ, the predicted error beside them, and the ledger."""
    project, error = site.project(request), None
    if "columns" not in project.content:
        return site.go(project, "columns")
    if form is not None:
        try:
            project = _save_privacy(project, form)
            if form.get("go") != "stay":
                return site.go(project, "check")
        except RefusedError as refused:
            error, project = str(refused), site.project(request)
    epsilon, delta = project.epsilon or 1.0, project.content.get("delta", 1e-6)
    return site.page(
        "privacy.html",
        200 if error is None else 400,
        project=project,
        step="privacy",
        error=error,
        form=form or {},
        epsilon=epsilon,
        delta=delta,
        public=project.content.get("relation", "replace") == "replace",
        unit=project.content.get("unit", ""),
        ledgers=site.workspace.ledgers(),
        left=ledger_left(project),
        panel=_panel(site, project, {"epsilon": epsilon, "delta": delta}, fine=False),
    )


def _save_privacy(project: Project, form: Mapping[str, str]) -> Project:
    content, state = dict(project.content), dict(project.state)
    epsilon = forms.number(form, "epsilon", "ε", low=1e-6, high=1000)
    if epsilon is None:
        raise RefusedError(
            "Enter ε, which limits what can be learned about one person. There is no default that suits everyone."
        )
    people = forms.whole(form, "people", "The number of people", low=2)
    state["people"] = people
    if project.question == "scoremap":
        state["map"] = {**project.map, "epsilon": epsilon}
    else:
        delta = forms.number(form, "delta", "δ", low=0.0, high=0.5)
        content["epsilon"], content["delta"] = epsilon, 1e-6 if delta is None else delta
    tables = content.pop("columns")
    return project.save(content={**content, "columns": tables}, state=state)


def ledger(site: Site, request: Request, form: Form) -> Response:
    """Make the ledger of a project, or choose one that is in the folder. A ledger is never overwritten."""
    from dpeigen.privacy.ledger import Ledger

    project, form = site.project(request), form or {}
    if form.get("existing"):
        if form["existing"] not in site.workspace.ledgers():
            raise RefusedError("There is no such ledger in this folder. Choose one from the list.", 404)
        with words_for_the_page():
            Ledger(site.workspace.folder / form["existing"])
        project.save(state={**project.state, "ledger": form["existing"]})
        return site.go(project, "privacy")
    epsilon = forms.number(form, "total_epsilon", "The total ε", low=1e-6, high=1000)
    delta = forms.number(form, "total_delta", "The total δ", low=0.0, high=0.5)
    if epsilon is None:
        raise RefusedError("Enter the total ε for all releases of this table.")
    if not project.has_ledger:
        with words_for_the_page():
            Ledger.create(project.ledger_path, epsilon=epsilon, delta=1e-5 if delta is None else delta)
    return site.go(project, "privacy")


def ledger_left(project: Project) -> dict[str, Any] | None:
    """The budget and what is left of it; None without a ledger."""
    from dpeigen.privacy.ledger import Ledger

    if not project.has_ledger:
        return None
    with words_for_the_page():
        found = Ledger(project.ledger_path)
        state, left = found.state(), found.remaining()
    return {
        "epsilon": state.epsilon,
        "delta": state.delta,
        "left_epsilon": 0.0 if left is None else left.epsilon,
        "left_delta": 0.0 if left is None else left.delta,
    }


def foreseen(site: Site, request: Request, form: Form) -> Response:  # noqa: ARG001
    """The panel beside the sliders, for their present values; ``fine`` for the simulated curator."""
    from starlette.responses import HTMLResponse

    project, asked = site.project(request), dict(request.query_params)
    given: dict[str, Any] = {
        "epsilon": forms.number(asked, "epsilon", "ε", low=1e-6, high=1000),
        "delta": forms.number(asked, "delta", "δ", low=0.0, high=0.5) or 0.0,
        "people": forms.whole(asked, "people", "The number of people", low=2),
    }
    return HTMLResponse(_panel(site, project, given, fine=asked.get("fine") == "yes"))


def _panel(site: Site, project: Project, given: Mapping[str, Any], *, fine: bool) -> Any:
    from markupsafe import Markup

    facts = facts_of(project, {name: value for name, value in given.items() if value is not None})
    epsilon, delta = given.get("epsilon") or 1.0, given.get("delta") or 0.0
    shown: dict[str, Any] = {"found": None, "told": None, "curve": "", "fine": fine, "facts": facts, "assumed": []}
    if facts is not None:
        found = refined(facts) if fine else coarse(facts)
        shown |= {"found": found, "told": in_words(found, facts.measure), "assumed": assumed(facts)}
        shown["curve"] = Markup(
            curve_svg(found.curve, facts.epsilon, found.error, facts.measure)
        )  # made here, of numbers
    attack = best_guess(epsilon, 0.0 if project.question == "scoremap" else delta)
    left = ledger_left(project)
    after = None if left is None else left["left_epsilon"] - epsilon
    text = site.pages.render(
        "panel.html", **shown, attack=attack, epsilon=epsilon, left=left, after=after, project=project,
        unit=project.content.get("unit", ""),
    )  # fmt: skip
    return Markup(text)
