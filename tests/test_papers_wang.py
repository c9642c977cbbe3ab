"""The tolerances of papers/wang-2019: a random subspace is no reproduction."""

import json
from pathlib import Path

from dpeigen.cli.reproduce import load_main

FOLDER = Path(__file__).parents[1] / "papers" / "wang-2019"


def test_a_random_subspace_fails_wherever_something_was_learnt():
    run = load_main(FOLDER / "run.py").__globals__
    entries = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))["entries"]
    learnt = 0
    for name, entry in entries.items():
        key = name.rsplit("/", 1)[0]
        assert run["agrees"](key, entry["mean"], entry, 20)
        if not run["lost"](key, entry):
            learnt += 1
            assert not run["agrees"](key, run["random_distance"](key), entry, 3)
        else:  # and what was lost must be lost again
            assert not run["agrees"](key, 0.5 * run["random_distance"](key), entry, 20)
    assert learnt > 60


def test_every_table_and_figure_is_listed():
    items = json.loads((FOLDER / "contents.json").read_text(encoding="utf-8"))
    names = " ".join(item["name"] for item in items)
    for name in ("Figure 1", "Figure 2", "Tables 1 and 2", "Covertype", "Buzz", "isolet5", "colon", "leukemia", "NIPS"):
        assert name in names
    assert all(item.get("entries") or item.get("looked") for item in items)


def test_the_table_of_the_readme_is_what_was_recorded():
    recorded = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
    module = load_main(FOLDER / "run.py").__globals__["wang_readme"]
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert module.table(recorded["entries"]) in text
    assert module.when(recorded["recorded"]) in text
