"""Declarations from the types of a table's own columns, if the caller states that these are public.

Types of columns are not always public. pandas makes categories from the values with ``astype("category")``, and a
column of dates with one bad cell is a column of objects. So types are used only if asked for: with ``columns="schema"``
for all columns, or ``{"sex": "category"}`` for the list of one column, the caller states that the types, and the lists
in them, were fixed without looking at the data.

Arrow's dictionaries and Polars' Categorical contain values of the data and no declared list: they are not used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpeigen.sources.declared import Declared

__all__ = ["of_arrow", "of_pandas", "of_polars"]


def of_pandas(frame: Any) -> dict[str, Declared]:
    """Declarations from the types of a pandas frame, or of the meta frame of a Dask frame."""
    return {name: _of_pandas(frame[name].dtype) for name in frame.columns if isinstance(name, str)}


def _of_pandas(kind: Any) -> Declared:
    import pandas as pd

    if isinstance(kind, pd.CategoricalDtype):
        return _of_list(kind.categories.tolist() if kind.categories is not None else (), ordered=bool(kind.ordered))
    if isinstance(kind, pd.ArrowDtype):
        return _of_arrow(kind.pyarrow_dtype)
    if isinstance(kind, pd.BooleanDtype) or kind == np.dtype(bool):
        return Declared(type="bool")
    if isinstance(kind, pd.DatetimeTZDtype) or (isinstance(kind, np.dtype) and kind.kind == "M"):
        return Declared(type="timestamp")
    return Declared()


def of_arrow(schema: Any) -> dict[str, Declared]:
    """Declarations from an Arrow schema."""
    return {field.name: _of_arrow(field.type) for field in schema}


def _of_arrow(kind: Any) -> Declared:
    import pyarrow.types as types

    for name, fits in (("bool", types.is_boolean), ("date", types.is_date), ("timestamp", types.is_timestamp)):
        if fits(kind):
            return Declared(type=name)
    return Declared()


def of_polars(schema: Mapping[str, Any]) -> dict[str, Declared]:
    """Declarations from a Polars schema: an Enum has a declared list."""
    import polars as pl

    by_type = {pl.Boolean: "bool", pl.Date: "date", pl.Datetime: "timestamp"}

    def said(kind: Any) -> Declared:
        if isinstance(kind, pl.Enum):
            return _of_list(kind.categories.to_list(), ordered=False)
        return Declared(type=by_type.get(kind.base_type()))

    return {name: said(kind) for name, kind in schema.items()}


def _of_list(values: Any, *, ordered: bool) -> Declared:
    """The declaration of a list of names or numbers. For other values there is none; the type is refused later."""
    known = len(values) > 0 and all(isinstance(value, (str, int, float)) for value in values)
    if not known or "__UNKNOWN_CATEGORIES__" in values:  # Dask's marker for a list that is known from the data only
        return Declared()
    return Declared(levels=tuple(values)) if ordered else Declared(categories=tuple(values))
