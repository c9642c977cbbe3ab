"""Visits of patients: correlated rows, a few people with many."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

NAMES = ["pulse", "pressure", "weight", "sugar"]


def visits(people=1500, seed=0, most=9):
    """A frame of visits: ids that would be noticed, and rows that are more alike inside a person than between."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, most, people)
    whose = np.repeat(np.arange(people), sizes)
    rows = (rng.normal(size=(people, 4))[whose] + 0.5 * rng.normal(size=(len(whose), 4))) * [3.0, 2.0, 1.0, 1.0]
    table = pd.DataFrame(rows, columns=NAMES)
    table["patient_id"] = [f"SECRET{i:05d}" for i in whose]
    return table.iloc[rng.permutation(len(table))].reset_index(drop=True)


@pytest.fixture(scope="session")
def table():
    return visits()
