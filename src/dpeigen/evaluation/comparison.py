"""The result of a comparison: a tidy table, its summary, and a picture."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpeigen._validate import check_choice, complain
from dpeigen.evaluation.cells import Cell, Result
from dpeigen.io import replace_file

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes

__all__ = ["METRICS", "OUT_FORMATS", "Comparison", "check_file"]

METRICS = ("sin_theta", "projection_distance", "captured_variance", "relative_frobenius")
_WORDS = ("mechanism", "basis", "status", "reason")
_NUMBERS = ("spent_epsilon", "spent_delta", *METRICS)
OUT_FORMATS = (".parquet", ".feather", ".csv")


def check_file(path: str | Path) -> Path:
    """Check that the ending of a path is that of a known format."""
    found = Path(path)
    if found.suffix not in OUT_FORMATS:
        raise ValueError(complain("out", "compare", f"a file ending in one of {', '.join(OUT_FORMATS)}", str(path)))
    return found


@dataclass(frozen=True)
class Comparison:
    """The results of `compare`.

    Attributes
    ----------
    table : pyarrow.Table
        A row for each cell: method, epsilon (null without privacy), repetition, the mechanism that ran (what "auto"
        chose), the basis of its guarantee, the ε and δ it really spends, whether it was "done", "refused" or "failed"
        and why, and the errors.
    setting : dict
        Everything else that the results depend on.
    """

    table: pa.Table = field(repr=False)
    setting: Mapping[str, Any]

    @classmethod
    def of(cls, results: Mapping[Cell, Result], setting: Mapping[str, Any]) -> Comparison:
        """Make a comparison from finished cells; rows are in the order of methods, ε and repetitions.

        Parameters
        ----------
        results : dict of Cell to Result
            The results.
        setting : dict
            Everything else that they depend on.

        Returns
        -------
        Comparison
            The comparison.
        """
        import pyarrow as pa

        labels = list(dict.fromkeys(cell.label for cell in results))
        cells = sorted(results, key=lambda c: (labels.index(c.label), c.epsilon or 0.0, c.repetition))
        found = [results[cell] for cell in cells]
        columns: dict[str, pa.Array] = {
            "method": pa.array([c.label for c in cells], pa.string()),
            "epsilon": pa.array([c.epsilon for c in cells], pa.float64()),
            "repetition": pa.array([c.repetition for c in cells], pa.int64()),
        }
        columns |= {name: pa.array([r.get(name) for r in found], pa.string()) for name in _WORDS}
        columns |= {name: pa.array([r.get(name) for r in found], pa.float64()) for name in _NUMBERS}
        table = pa.table(columns).replace_schema_metadata({"dpeigen.compare": json.dumps(setting, sort_keys=True)})
        return cls(table, setting)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that were measured: whole covariances have no angles."""
        return METRICS if self.setting["n_components"] is not None else ("relative_frobenius",)

    def summary(self) -> list[dict[str, Any]]:
        """Summarise each method and ε.

        Returns
        -------
        list of dict
            How many cells are done, median and quartiles of each metric, and why some are not done.
        """
        groups: dict[tuple[str, float | None], list[dict[str, Any]]] = {}
        for row in self.table.to_pylist():
            groups.setdefault((row["method"], row["epsilon"]), []).append(row)
        found = []
        for (method, epsilon), rows in groups.items():
            done = [row for row in rows if row["status"] == "done"]
            reasons = sorted({row["reason"] for row in rows if row["reason"]})
            entry: dict[str, Any] = {
                "method": method,
                "epsilon": epsilon,
                "done": len(done),
                "of": len(rows),
                "reasons": reasons,
            }
            for metric in self.metrics if done else ():
                low, middle, high = np.quantile([row[metric] for row in done], (0.25, 0.5, 0.75)).tolist()
                entry[metric] = {"median": middle, "quartiles": [low, high]}
            found.append(entry)
        return found

    def save(self, path: str | Path) -> Path:
        """Write the table, atomically.

        Parameters
        ----------
        path : path
            Ends in .parquet, .feather or .csv.

        Returns
        -------
        Path
            The file.
        """
        import pyarrow as pa

        path, sink = check_file(path), pa.BufferOutputStream()
        if path.suffix == ".parquet":
            from pyarrow.parquet import write_table

            write_table(self.table, sink)
        elif path.suffix == ".feather":
            from pyarrow.feather import write_feather

            write_feather(self.table, sink)
        else:
            from pyarrow.csv import write_csv

            write_csv(self.table, sink)
        replace_file(path, sink.getvalue().to_pybytes())
        return path

    def check_metric(self, metric: str | None) -> str:
        """Check the name of a metric.

        Parameters
        ----------
        metric : str or None
            None: sin_theta, or relative_frobenius for covariances.

        Returns
        -------
        str
            A metric of this comparison.
        """
        return self.metrics[0] if metric is None else check_choice("metric", metric, self.metrics, "Comparison")

    def plot(self, ax: Axes | None = None, *, metric: str | None = None) -> Axes:
        """Draw the median error of every method against ε with its quartiles, and the error without privacy.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None: on a new figure.
        metric : str, default=None
            As for `check_metric`.

        Returns
        -------
        matplotlib Axes
            Where it was drawn.
        """
        from dpeigen.evaluation.figure import draw

        return draw(self, self.check_metric(metric), ax)
