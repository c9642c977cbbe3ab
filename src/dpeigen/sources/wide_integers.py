"""Types of Polars that Arrow lacks, and that one cell gives to a whole column: long integers, and Python objects.

So that no cell decides whether a fit fails, columns of integers beyond 64 bits are read as other numbers are: in double
precision. Ids are compared as text, since rounding would make one person of two; ids that are objects, cell by cell.
"""

from __future__ import annotations

from typing import Any

__all__ = ["ids_in_arrow", "is_object", "is_wide", "narrowed"]


def is_wide(kind: Any) -> bool:
    """Whether a type of Polars is one of integers beyond 64 bits."""
    return str(kind) in ("Int128", "UInt128")


def is_object(kind: Any) -> bool:
    """Whether a type of Polars is that of Python objects, which one cell may give to a whole column too."""
    return str(kind) == "Object"


def narrowed(frame: Any, unit: str | None = None) -> Any:
    """A frame or a query with such columns in double precision, but for the column of ids."""
    import polars as pl

    schema = frame.collect_schema()
    wide = [name for name, kind in schema.items() if is_wide(kind) and name != unit]
    return frame.with_columns(pl.col(wide).cast(pl.Float64)) if wide else frame


def ids_in_arrow(ids: Any) -> Any:
    """A Polars series of ids in Arrow."""
    import polars as pl

    return (ids.cast(pl.String) if is_wide(ids.dtype) else ids).to_arrow()
