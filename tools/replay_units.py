"""More subjects of the replay test in which rows belong to people: files and engines, streams, categories, caps, maps.

The last column of a table says whose row it is. Engines that bring rows of a person together by a secret hash get the
same secret in both fits, and tables in which nobody has another number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dask
import numpy as np
from numpy.typing import NDArray
from replay_subjects import (
    APPROXIMATE,
    BOUNDS,
    DELTAS,
    RELATIONS,
    REPLACE,
    Setting,
    Subject,
    of_people,
    plane,
)
from replay_tables import (
    holey_people,
    names,
    one_holey_person_less,
    one_person_less,
    people_neighbours,
    same_size_neighbours,
)

from dpeigen import PrivateCovariance, PrivatePCA, PrivateRidge, PrivateScoreMap

Floats = NDArray[np.float64]
Fit = Callable[[Setting, Any, Any], Any]
_GIVEN = BOUNDS[1:]


# --- sources ----------------------------------------------------------------------------------------------------------


def _frame(table: Floats, path: Path) -> Any:  # noqa: ARG001
    import pandas as pd

    return pd.DataFrame(table[:, :-1], columns=names(table.shape[1] - 1)).assign(who=table[:, -1].astype(int))


def _parquet(table: Floats, path: Path) -> str:
    _frame(table, path).to_parquet(path.with_suffix(".parquet"), row_group_size=97)
    return str(path.with_suffix(".parquet"))


def _csv(table: Floats, path: Path) -> str:
    _frame(table, path).to_csv(path.with_suffix(".csv"), index=False, na_rep="nan")
    return str(path.with_suffix(".csv"))


def _polars(table: Floats, path: Path) -> Any:
    import polars as pl

    return pl.from_pandas(_frame(table, path), nan_to_null=False)


def _lazy(table: Floats, path: Path) -> Any:
    return _polars(table, path).lazy()


def _dask(table: Floats, path: Path) -> Any:
    import dask.dataframe

    return dask.dataframe.from_pandas(_frame(table, path), npartitions=3)


PEOPLE_SOURCES: dict[str, Callable[[Floats, Path], Any]] = {
    "frame of people": _frame,
    "parquet of people": _parquet,
    "csv of people": _csv,
    "polars of people": _polars,
    "query of people": _lazy,
    "dask of people": _dask,
}
_FILES = tuple(PEOPLE_SOURCES)[:3]
_RANGE = tuple(PEOPLE_SOURCES)[:2]  # numbers of people do not depend on who comes first


# --- fits -------------------------------------------------------------------------------------------------------------


class _OneSecret:
    def token(self) -> bytes:
        return bytes(range(16))


def by_column(method: Any, **changes: Any) -> Fit:
    """The column "who" says whose row it is."""

    def fit(setting: Setting, source: Any, rng: Any) -> Any:
        options = {**setting.options(), "method": method, "random_state": rng, "unit": "who", **changes}
        kind = PrivateCovariance(**options) if setting.whole else PrivatePCA(setting.k, **options)
        with patch("dpeigen.sources.dask.SystemRandomness", _OneSecret), dask.config.set(scheduler="synchronous"):
            return kind.fit(source)

    return fit


def _stream(setting: Setting, source: Any, rng: Any) -> Any:
    """Three calls, each with all rows of its people."""
    options = {**setting.options(), "method": "dp-pca", "random_state": rng}
    fitted, ids = PrivatePCA(1, **options), source[:, -1].astype(int)
    calls = ids * 3 // (int(ids.max()) + 1)
    for call in range(3):
        fitted.partial_fit(source[calls == call, :-1], unit=ids[calls == call])
    return fitted


def _categories(setting: Setting, source: Any, rng: Any, **changes: Any) -> Any:
    """The first column becomes a category: of three that are declared, another one, or a missing cell."""
    frame = source.assign(c0=[_label(value) for value in source["c0"]])
    columns: dict[Any, Any] = {"c0": {"type": "category", "categories": ["a", "b", "c"]}, ...: None}
    options = {**setting.options(), "bound": None, "center": "private", "random_state": rng, "unit": "who"}
    options |= {"method": "whitened", "columns": columns, "scale": "private", **changes}
    return PrivateCovariance(**options).fit(frame)


def _label(value: float) -> str | None:
    return "abcz"[int(min(abs(value), 1e6) * 2) % 4] if np.isfinite(value) else None


def _ridge(**changes: Any) -> Fit:
    def fit(setting: Setting, source: Any, rng: Any) -> Any:
        options = {**setting.options(setting.d - 1), "random_state": rng, **changes}
        options["center"] = setting.options()["center"]  # of the joint row
        return PrivateRidge("auto", **options).fit(source[:, :-2], source[:, -2], unit=source[:, -1].astype(int))

    return fit


def _map(missing: str) -> Fit:
    def fit(setting: Setting, source: Any, rng: Any) -> Any:
        made = PrivateScoreMap(
            _of_units(setting.d, setting), epsilon=setting.epsilon, missing=missing, random_state=rng
        )
        return made.fit(source[:, :-1], unit=source[:, -1].astype(int))

    return fit


def _classes(setting: Setting, source: Any, rng: Any) -> Any:
    """The last column but one is the label."""
    by_class = "density" if setting.whole else "centroids"
    options: dict[str, Any] = {"epsilon": setting.epsilon, "labels": [0.0, 1.0, 3.0], "by_class": by_class}
    made = PrivateScoreMap(_of_units(setting.d - 1, setting), missing="drop", random_state=rng, **options)
    return made.fit(source[:, :-2], source[:, -2], unit=source[:, -1].astype(int))


def _of_units(d: int, setting: Setting) -> Any:
    made = plane(d, setting.relation)
    return replace(made, guarantee=replace(made.guarantee, unit="unit"))


# --- the list ---------------------------------------------------------------------------------------------------------

_ALIKE: Mapping[str, Any] = {"relations": REPLACE, "sources": tuple(PEOPLE_SOURCES)[1:],
                             "tables": same_size_neighbours, "rows": (40,)}  # fmt: skip
_IN_FILES: Mapping[str, Any] = {"relations": REPLACE, "sources": _FILES, "tables": people_neighbours}
_LESS_IN_FILES: Mapping[str, Any] = {"relations": RELATIONS[1:], "centers": ("none", "array", "private"),
                                     "sources": _RANGE, "tables": one_person_less}  # fmt: skip
_ARRAY: Mapping[str, Any] = {"relations": REPLACE, "sources": ("array",), "tables": people_neighbours}
_ARRAY_ALIKE: Mapping[str, Any] = {**_ARRAY, "tables": same_size_neighbours}
_LESS: Mapping[str, Any] = {**_LESS_IN_FILES, "sources": ("array",)}
_PICTURE: Mapping[str, Any] = {"bounds": BOUNDS[:1], "centers": ("none",), "deltas": DELTAS[:1], "rows": (40,)}
_MIXED: Mapping[str, Any] = {"bounds": BOUNDS[:1], "centers": ("private",), "rows": (700,), "epsilons": (8.0, 30.0),
                             "columns": (2, 3)}  # fmt: skip
_COUNTED: Mapping[str, Any] = {"rows": (700,), "columns": (4,), "bounds": _GIVEN, "deltas": APPROXIMATE}
_JOINT: Mapping[str, Any] = {"columns": (2, 3, 4), "bounds": ("none", "radius", "private"), "rows": (40, 700)}
_CORRECT: Mapping[str, Any] = {"missing": "correct"}

UNIT_SUBJECTS: list[Subject] = [
    Subject("people, every engine", by_column("gaussian"), **_ALIKE, bounds=("radius", "private"), deltas=APPROXIMATE),
    Subject("people, every engine, capped", by_column("gaussian", max_rows=3), **_ALIKE, bounds=("radius", "private"),
            deltas=APPROXIMATE),
    Subject("people, files", by_column("auto"), **_IN_FILES, rows=(40, 700)),
    Subject("people, files, capped", by_column("auto", max_rows=2), **_IN_FILES, rows=(700,), epsilons=(8.0, 30.0)),
    Subject("people, files, laplace", by_column("laplace", max_rows=5), **_IN_FILES, rows=(40,), bounds=_GIVEN),
    Subject("a person less, files", by_column("auto"), **_LESS_IN_FILES, rows=(40, 700)),
    Subject("a person less, files, capped", by_column("gaussian", max_rows=3), **_LESS_IN_FILES, rows=(40,),
            bounds=_GIVEN, deltas=APPROXIMATE),
    Subject("people, stream", _stream, **_ARRAY_ALIKE, bounds=("radius",), centers=("none",), deltas=APPROXIMATE,
            epsilons=(30.0,), columns=(2, 3), rows=(1500,)),
    Subject("people, categories", _categories, **{**_IN_FILES, **_MIXED, "sources": _FILES[:1]}),
    Subject("people, categories, holes, capped",
            lambda setting, source, rng: _categories(setting, source, rng, missing="correct", max_rows=3),
            **{**_IN_FILES, **_MIXED, "sources": _FILES[:1], "tables": holey_people}),
    Subject("a person less, categories", _categories, **{**_LESS_IN_FILES, **_MIXED, "sources": _FILES[:1]}),
    Subject("people, kendall, capped", of_people("kendall", max_rows=4), **_ARRAY, rows=(40,)),
    Subject("people, refined, capped", of_people("refined", max_rows=4), **_ARRAY, rows=(40,), deltas=APPROXIMATE),
    Subject("people, private rank, capped", of_people("gaussian", n_components="private", max_rows=3),
            **{**_ARRAY, **_COUNTED}),
    Subject("people, private rank, auto", of_people("auto", n_components="private"),
            **{**_ARRAY, **_COUNTED, "bounds": BOUNDS[:1]}),
    Subject("people, ridge, capped", _ridge(max_rows=3), **{**_ARRAY, **_JOINT}),
    Subject("people, ridge, holes", _ridge(**_CORRECT), **{**_ARRAY, **_JOINT, "tables": holey_people}),
    Subject("people, score map, holes", _map("correct"), **{**_ARRAY, **_PICTURE, "tables": holey_people},
            columns=(2, 3, 4)),
    Subject("people, score map, classes", _classes, **{**_ARRAY, **_PICTURE}, columns=(3, 4)),
    Subject("a person less, private rank, capped", of_people("gaussian", n_components="private", max_rows=3),
            **{**_LESS, **_COUNTED}),
    Subject("a person less, ridge, capped", _ridge(max_rows=3), **{**_LESS, **_JOINT}),
    Subject("a person less, ridge, holes", _ridge(**_CORRECT), **{**_LESS, **_JOINT, "tables": one_holey_person_less}),
    Subject("a person less, score map, classes", _classes, **{**_LESS, **_PICTURE}, columns=(3, 4)),
]  # fmt: skip
