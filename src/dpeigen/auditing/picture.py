"""A picture of the stated and the audited ε."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpeigen.auditing.exact import ExactLoss
from dpeigen.auditing.results import Result

__all__ = ["audit_picture"]


def audit_picture(results: Sequence[Result], losses: Sequence[ExactLoss] = ()) -> Any:
    """A Matplotlib figure: for each mechanism the audited lower bound on ε and the stated ε."""
    from matplotlib.figure import Figure

    rows: list[tuple[str, float, float, bool, str]] = [
        (f"{r.name}  (ε = {r.epsilon:g})", r.epsilon, r.lower, r.refuted, f"{r.trials:,} runs") for r in results
    ]
    rows += [(f"{x.name}  (ε = {x.stated:g})", x.stated, x.loss, x.refuted, "exact") for x in losses]
    figure = Figure(figsize=(9, 1.5 + 0.27 * len(rows)), layout="constrained")
    axes = figure.subplots()
    places = list(range(len(rows)))[::-1]
    largest = max((max(stated, found) for _, stated, found, _, _ in rows), default=1.0)
    for place, (_, stated, found, refuted, how) in zip(places, rows, strict=True):
        colour = "#c0392b" if refuted else "#8e9aaf" if how == "exact" else "#2e6f95"
        axes.barh(place, found, height=0.62, color=colour)
        axes.plot([stated, stated], [place - 0.4, place + 0.4], color="black", linewidth=1.8)
        axes.text(1.02 * largest, place, how, va="center", fontsize=7, color="#555555")
    axes.set_yticks(places, [name for name, *_ in rows], fontsize=8)
    axes.set_xlim(0, 1.16 * largest)
    axes.set_ylim(-0.8, len(rows) - 0.2)
    axes.set_xlabel("ε: bar, what was proven (a lower bound, or the exact loss); black line, what is stated")
    confidence = f", each bound at {100 * results[0].confidence:g}% confidence" if results else ""
    axes.set_title(f"Audited privacy loss{confidence}", fontsize=10, loc="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure
