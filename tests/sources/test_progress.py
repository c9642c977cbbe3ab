"""Progress for programs: lines of JSON in a file, without the number of rows where that is private."""

import json

import numpy as np
import pytest

from dpeigen import PrivatePCA
from dpeigen.sources import BlockSource, progress, show_progress

ROWS = np.random.default_rng(0).normal(size=(1234, 3))


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_a_program_can_follow_a_fit(tmp_path, monkeypatch, relation):
    monkeypatch.setenv("DPEIGEN_PROGRESS", str(tmp_path / "lines"))
    with show_progress():
        PrivatePCA(1, epsilon=1.0, delta=1e-6, bound=5.0, relation=relation, method="gaussian").fit(ROWS)
    lines = [json.loads(line) for line in (tmp_path / "lines").read_text().splitlines()]
    passes = [line["pass"] for line in lines]
    assert passes == sorted(passes)
    assert passes[-1] >= 1
    assert lines[-1]["ended"]
    assert {line["of"] for line in lines} == ({1234} if relation == "replace" else {None})
    if relation == "add_remove":
        assert {line["rows"] for line in lines} <= {0, None}


def test_it_does_not_depend_on_how_many_rows_a_person_has(tmp_path, monkeypatch):
    """Blocks have a fixed number of rows: the number of people in the first ones is less if someone has many rows."""
    monkeypatch.setattr(progress, "_STEP", 0.0)
    seen = []
    for rows_of_one in (1, 3000):
        ids = np.append(np.zeros(rows_of_one, dtype=int), np.arange(1, 2000))
        table = np.random.default_rng(0).normal(size=(len(ids), 3))
        source = BlockSource([table[:1000], table[1000:]], n_features=3)
        path = tmp_path / f"lines{rows_of_one}"
        monkeypatch.setenv("DPEIGEN_PROGRESS", str(path))
        with show_progress():
            PrivatePCA(1, epsilon=1.0, delta=1e-6, bound=5.0, method="gaussian").fit(source, unit=ids)
        seen.append(path.read_text())
    assert seen[0] == seen[1]


def test_a_file_that_cannot_be_written_stops_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("DPEIGEN_PROGRESS", str(tmp_path / "nowhere" / "lines"))
    with show_progress():
        assert PrivatePCA(1, epsilon=1.0, delta=1e-6, bound=5.0, method="gaussian").fit(ROWS).release_
