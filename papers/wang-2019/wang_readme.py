"""The table of recorded cells in README.md, written from expected.json whenever something is recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

START, END = "<!-- recorded -->", "<!-- end -->"
CURVES = ("printed", "corrected", "pure")
NAMES = {"eps": "ε"}


def table(expected: dict[str, dict[str, float]]) -> str:
    """A line for each cell: how many runs, and the mean of each curve."""
    lines = ["| cell | runs | printed | corrected | pure |", "|---|---|---|---|---|"]
    for key in dict.fromkeys(name.rsplit("/", 1)[0] for name in expected):
        found = [expected[f"{key}/{curve}"] for curve in CURVES]
        runs = f"{found[0]['repetitions']}"
        if found[2]["repetitions"] != found[0]["repetitions"]:
            runs += f" ({found[2]['repetitions']} pure)"
        parts = [part.split("=") for part in key.split("/")]
        cell = ", ".join(" = ".join([NAMES.get(part[0], part[0]), *part[1:]]) for part in parts)
        lines.append(f"| {cell} | {runs} | " + " | ".join(f"{entry['mean']:.3f}" for entry in found) + " |")
    return "\n".join(lines)


def when(runs: list[dict[str, Any]]) -> str:
    """What was recorded when, on what, and how long it took."""
    lines = []
    for run in runs:
        parts = [pattern.split("/") for pattern in run["entries"]]
        names = dict.fromkeys("/".join(part[:2]) if part[0] == "table" else part[0] for part in parts)
        some = " (some cells)" if any(len(part) > 3 for part in parts) else ""
        lines.append(f"- {', '.join(names)}{some}: {run['date']}, {run['machine']}, {run['minutes']} minutes")
    return "\n".join(lines)


def rewrite(here: Path) -> None:
    """Put the table between its two marks."""
    recorded = json.loads((here / "expected.json").read_text(encoding="utf-8"))
    path = here / "README.md"
    text = path.read_text(encoding="utf-8")
    before, after = text.split(START)[0], text.split(END)[1]
    inside = f"\n{when(recorded['recorded'])}\n\n{table(recorded['entries'])}\n"
    path.write_text(before + START + inside + END + after, encoding="utf-8")
