"""Real tables for `tables.py`: every public table at hand, cleaned by one rule. Nothing is downloaded here.

Where they come from: scikit-learn, statsmodels if it is installed, the folder named by DPEIGEN_DATA (the loaders of
`dpeigen.datasets` and `tables/*.csv`), and every .csv file in the folder named by
DPEIGEN_TABLES (`make bench` fills one by `tools/public_tables.py`).

The rule: numeric columns; without columns that miss more than 20% of their cells; rows without holes; without constant
columns and columns that number the rows. Tables above 60,000 rows are cut to a random part with a fixed seed.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import pkgutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

MOST_ROWS = 60_000
COLUMNS = (4, 25)
SKLEARN = ("iris", "wine", "breast_cancer", "diabetes", "digits", "linnerud")
OURS = ("adult_numeric", "airfoil", "wine", "europe", "isolet")


@dataclass(frozen=True, eq=False)
class Table:
    """Rows × numeric columns in the units they came in, and what is true of them without privacy."""

    name: str
    X: np.ndarray

    @property
    def deviations(self) -> np.ndarray:
        return self.X.std(axis=0)

    @property
    def spread(self) -> float:
        """The largest deviation of a column over the smallest."""
        return float(self.deviations.max() / self.deviations.min())

    @property
    def offset(self) -> float:
        """The largest |mean| of a column, in its own deviations."""
        return float(np.max(np.abs(self.X.mean(axis=0)) / self.deviations))

    @cached_property
    def correlation(self) -> np.ndarray:
        return np.corrcoef(self.X.T)

    @cached_property
    def standardised(self) -> np.ndarray:
        """Mean 0 and variance 1 in every column: a step that is free only because these tables are public."""
        return (self.X - self.X.mean(axis=0)) / self.deviations

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The exact range of every column."""
        return self.X.min(axis=0), self.X.max(axis=0)

    def __str__(self) -> str:
        return f"{self.name} {len(self.X):,}×{self.X.shape[1]}"


def cleaned(frame: Any) -> np.ndarray:
    """The numbers of a data frame by the rule above."""
    numbers = frame.select_dtypes("number").astype("float64")
    numbers = numbers.where(np.isfinite(numbers)).set_axis(range(numbers.shape[1]), axis=1)
    kept = [j for j in numbers if numbers[j].isna().mean() <= 0.2 and not numbers_rows(numbers[j].to_numpy())]
    X = numbers[kept].dropna().to_numpy(dtype=np.float64)
    if len(X) > MOST_ROWS:
        X = X[np.sort(np.random.default_rng(0).choice(len(X), MOST_ROWS, replace=False))]
    return np.ascontiguousarray(X[:, np.ptp(X, axis=0) > 0] if len(X) else X)


def numbers_rows(column: np.ndarray) -> bool:
    """Whole numbers of which none comes twice, in increasing order or without a gap: a number of the row."""
    if len(np.unique(column)) < len(column) or np.any(column != np.floor(column)):
        return False  # NaN is no whole number
    return bool(np.all(np.diff(column) > 0) or np.ptp(column) == len(column) - 1)


@cache
def _read() -> tuple[list[Table], list[str]]:
    """Every table once, smallest first, and what was left out."""
    found: dict[str, Table] = {}
    notes: list[str] = []
    for name, load in _all(notes.append):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                X = cleaned(load())
        except Exception as error:  # a file that is no table is left out
            notes.append(f"{name} is left out: {type(error).__name__}: {str(error)[:100]}")
            continue
        if X.size:
            columns = X[:, np.lexsort(np.sort(X, axis=0))]
            content = hashlib.sha256(columns.tobytes()).hexdigest()
            taken = {table.name for table in found.values()}
            found.setdefault(content, Table(f"{name}-2" if name in taken else name, X))
    return sorted(found.values(), key=lambda table: (len(table.X), table.name)), notes


def tables(
    fewest: int = 0, columns: tuple[int, int] = COLUMNS, note: Callable[[str], None] = lambda _: None
) -> list[Table]:
    """All tables with at least that many rows and a number of columns in that range, each once; smallest first.

    ``note`` is told what could not be read.
    """
    found, notes = _read()
    for line in notes:
        note(line)
    return [t for t in found if len(t.X) >= fewest and columns[0] <= t.X.shape[1] <= columns[1]]


def _all(note: Callable[[str], None]) -> Iterator[tuple[str, Callable[[], Any]]]:
    yield from _from_sklearn()
    yield from _from_statsmodels(note)
    yield from _from_dpeigen(note)
    for variable, below in (("DPEIGEN_DATA", "tables"), ("DPEIGEN_TABLES", "")):
        if named := os.environ.get(variable):
            for path in sorted((Path(named).expanduser() / below).glob("*.csv")):
                yield path.stem, lambda path=path: _csv(path)
        else:
            note(f"{variable} names no folder: its tables are left out")


def _csv(path: Path) -> Any:
    import pandas

    return pandas.read_csv(path, low_memory=False)


def _frame(X: np.ndarray) -> Any:
    import pandas

    return pandas.DataFrame(X)


def _from_sklearn() -> Iterator[tuple[str, Callable[[], Any]]]:
    datasets = importlib.import_module("sklearn.datasets")
    for name in SKLEARN:
        yield name, lambda name=name: _frame(getattr(datasets, f"load_{name}")().data)


def _from_statsmodels(note: Callable[[str], None]) -> Iterator[tuple[str, Callable[[], Any]]]:
    try:
        package = importlib.import_module("statsmodels.datasets")
    except ImportError:
        note("statsmodels is not installed: its tables are left out")
        return
    for module in pkgutil.iter_modules(package.__path__):
        if module.ispkg and module.name != "tests":
            path = f"statsmodels.datasets.{module.name}"
            yield module.name, lambda path=path: importlib.import_module(path).load_pandas().data


def _from_dpeigen(note: Callable[[str], None]) -> Iterator[tuple[str, Callable[[], Any]]]:
    if not os.environ.get("DPEIGEN_DATA"):  # the loaders would download
        note("DPEIGEN_DATA names no folder: adult, airfoil, wine, europe and isolet are left out")
        return
    datasets = importlib.import_module("dpeigen.datasets")
    for name in OURS:
        yield name, lambda name=name: _frame(getattr(datasets, f"load_{name}")().X)
