"""A running stream as a folder: only public and released numbers, no rows. `save` writes it, `restore` continues it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from dpeigen import io
from dpeigen._validate import complain
from dpeigen._version import __version__
from dpeigen.estimators.running import Running
from dpeigen.methods import METHODS, OnePassMethod, Task
from dpeigen.sources import ArraySource

__all__ = ["parameters", "read", "restore", "save"]

_PUBLIC = ("lower", "upper", "point")  # arrays of a task: column bounds and a public centre


def save(running: Running, path: str | Path, *, overwrite: bool) -> Path:
    """Write the folder. Commits the reservation of the ledger, if that is still due."""
    if not overwrite and any((Path(path) / name).exists() for name in (io.ARRAYS, io.DESCRIPTION)):
        raise FileExistsError(f"{path} holds something already. Choose another folder, or overwrite=True.")
    if METHODS.get(running.method.name) is not type(running.method):
        known = [name for name, kind in METHODS.items() if issubclass(kind, OnePassMethod)]
        remedy = "A saved stream names its method, and resume_stream could not find this one."
        raise ValueError(complain("method", "save_stream", f"one of {known}", running.method.name, remedy))
    running.feed.check()
    arrays, facts = running.stream.state()
    running.settle()
    description = {
        "kind": "stream",
        "method": running.method.name,
        "options": asdict(running.method),  # type: ignore[call-overload]
        "task": _facts_of(running.task),
        "facts": facts,
        "feature_names": running.names,
        "seeded": running.seeded,
        "dpeigen": __version__,
    }
    return io.write_folder(path, {**arrays, **_arrays_of(running.task)}, description)


def _facts_of(task: Task) -> dict[str, Any]:
    return {
        "n_features": task.n_features,
        "n_components": task.n_components,
        "epsilon": task.budget.epsilon,
        "delta": task.budget.delta,
        "bound": None if isinstance(task.bound, tuple) else task.bound,
        "center": None if isinstance(task.center, np.ndarray) else task.center,
        "missing": task.missing,
    }


def _arrays_of(task: Task) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if isinstance(task.bound, tuple):
        found |= dict(zip(_PUBLIC, task.bound, strict=False))
    if isinstance(task.center, np.ndarray):
        found["point"] = task.center
    return {f"task.{name}": array for name, array in found.items()}


def read(path: str | Path, *, again: bool) -> tuple[dict[str, Any], dict[str, Any], Path]:
    """The arrays and the description in a folder, and the file that marks it as resumed."""
    arrays, description = io.read_folder(path)
    marker = Path(path) / "resumed"
    if marker.exists() and not again:
        raise ValueError(
            f"{path} was resumed before. Rows fed to two streams are paid for twice: use again=True only if the "
            "first resumption was not fed."
        )
    return arrays, description, marker


def parameters(arrays: dict[str, Any], description: dict[str, Any], path: str | Path) -> dict[str, Any]:
    """The parameters of the estimator; takes the task's arrays out of ``arrays``."""
    if description["kind"] != "stream":
        raise ValueError(complain("path", "resume_stream", "the folder of a saved stream", str(path)))
    task = description["task"]
    public = {name: arrays.pop(f"task.{name}", None) for name in _PUBLIC}
    return {
        "n_components": task["n_components"],
        "epsilon": task["epsilon"],
        "delta": task["delta"],
        "method": METHODS[description["method"]](**description["options"]),
        "bound": task["bound"] if public["lower"] is None else (public["lower"], public["upper"]),
        "center": task["center"] if public["point"] is None else public["point"],
        "missing": "drop" if task.get("on_bad_row") == "drop-to-zero" else task.get("missing", "refuse"),
    }


def restore(estimator: Any, arrays: dict[str, Any], description: dict[str, Any]) -> tuple[Running, ArraySource]:
    """The stream as it was saved, and a source without rows that has its columns."""
    estimator.n_features_in_ = int(description["task"]["n_features"])
    names = description["feature_names"]
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    source = ArraySource(np.empty((0, estimator.n_features_in_)), names)
    running: Running = estimator._start_stream(source, paid=True)
    running.stream.restore(arrays, description["facts"])
    running.feed.spent = running.stream.rows_used > 0
    running.seeded |= bool(description["seeded"])
    return running, source
