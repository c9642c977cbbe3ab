"""Rows that are in memory or mapped into it, and any iterable of blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpeigen._validate import check_count
from dpeigen.sources.base import Source, UnreadableRowsError
from dpeigen.sources.columns import Columns
from dpeigen.sources.frames import plain_frame
from dpeigen.sources.objects import numbers_of, table_of
from dpeigen.sources.wide_integers import narrowed
from dpeigen.stats import Statistic

__all__ = [
    "ArraySource",
    "Batch",
    "BlockSource",
    "FrameSource",
    "MisfitError",
    "PartSource",
    "RefusedSource",
    "S",
    "T",
    "block_rows",
]

S = TypeVar("S", bound=Statistic)
T = TypeVar("T")
_BLOCK_NUMBERS = 2**21  # numbers per block: enough work for one task of a thread


def block_rows(n_features: int) -> int:
    """The number of rows of a block; it is even."""
    return max(2, _BLOCK_NUMBERS // max(1, n_features) // 2 * 2)


class ArraySource(Source):
    """A two-dimensional array of numbers (any real dtype, any memory order, memory maps; never copied whole).

    Parameters
    ----------
    array : (n, d) array
        The rows.
    feature_names : list of str, default=None
        Public names of the columns.
    typed : bool, default=True
        Whether the type of the array is public: it was given as an array, so no value in it determined the type.
    """

    def __init__(
        self, array: NDArray[np.generic], feature_names: list[str] | None = None, *, typed: bool = True
    ) -> None:
        self._array, self.typed = array, typed
        self.n_rows, self.n_features = array.shape
        self.feature_names = feature_names

    def blocks(self) -> Iterator[NDArray[np.generic]]:
        step = block_rows(self.n_features)
        for start in range(0, len(self._array), step):
            yield self._array[start : start + step]

    def in_memory(self) -> NDArray[np.generic]:
        return self._array


class Batch(ArraySource):
    """Rows that were read already. One thread processes them, without a progress bar."""

    def __init__(self, array: NDArray[np.generic], *, in_random_order: bool) -> None:
        super().__init__(array)
        self.in_random_order = in_random_order

    def reduce(self, statistic: S) -> S:
        part = statistic.fresh()
        for block in self.blocks():
            part.update(block)
        return part

    def reduce_in_sequence(self, statistic: S) -> S:
        return self.reduce(statistic)


class PartSource(ArraySource):
    """Some rows of another source. A pass over them counts as a pass over that source."""

    def __init__(self, array: NDArray[np.generic], whole: Source) -> None:
        super().__init__(array)
        self._whole = whole

    def finished(self) -> None:
        self._whole.finished()


class MisfitError(UnreadableRowsError, TypeError):
    """A table in memory has cells that are not numbers, and the caller asked to refuse them."""


class RefusedSource(ArraySource):
    """A table with cells that are not numbers. It is refused when it is read, so that the ledger has a record of it."""

    def blocks(self) -> Iterator[NDArray[np.generic]]:
        raise MisfitError(
            "X must hold real numbers. An entry is not a number (its argument must be a string of digits or a number), "
            "or rows differ in length. Nothing was spent. This refusal itself says something about the data. Encode "
            "text and dates as numbers, leave those columns out, or set missing='correct' to let such cells be missing."
        )

    def in_memory(self) -> NDArray[np.generic]:
        return next(self.blocks())


class FrameSource(Source):
    """A pandas frame, converted to numbers block by block."""

    def __init__(self, frame: Any, columns: Columns) -> None:
        columns.check_pandas(frame)
        self._frame, self._columns = frame, columns
        self.n_rows, self.n_features, self.feature_names = len(frame), len(columns.features), columns.features
        self.schema = columns.schema

    def blocks(self) -> Iterator[NDArray[np.float64]]:
        step = block_rows(self.n_features)
        for start in range(0, len(self._frame), step):
            yield self._columns.from_pandas(self._frame.iloc[start : start + step])

    def in_memory(self) -> NDArray[np.float64]:
        return self._columns.from_pandas(self._frame)


class BlockSource(Source):
    """Blocks of rows (arrays, data frames or Arrow batches) from a function, a list or a generator of them.

    Parameters
    ----------
    blocks : function or iterable
        A function without arguments that returns a new iterator of blocks, or an iterable of them. Most methods read
        more than once, which is possible with a function but not with a generator.
    n_features : int, default=None
        Public number of columns; None: that of the first block. Required under relation="add_remove", because there may
        be no rows.
    n_rows : int, default=None
        Public number of rows, which saves a pass to count them under relation="replace".
    feature_names : list of str, default=None
        Public names of the columns.
    """

    def __init__(
        self,
        blocks: Callable[[], Iterable[Any]] | Iterable[Any],
        *,
        n_features: int | None = None,
        n_rows: int | None = None,
        feature_names: list[str] | None = None,
    ) -> None:
        self._make = blocks if callable(blocks) else None
        self._blocks: Iterable[Any] = () if callable(blocks) else blocks
        self._once = self.read_once = self._make is None and iter(self._blocks) is iter(self._blocks)
        self._spent = False
        self._first: list[Any] = []  # the first block of a generator, read for its width
        self.n_rows = None if n_rows is None else check_count("n_rows", n_rows, "BlockSource")
        self.width_declared = n_features is not None
        if n_features is None:
            self.n_features, names = self._look()
            feature_names = feature_names or names
        else:
            self.n_features = check_count("n_features", n_features, "BlockSource")
        self.feature_names = feature_names
        if not self.n_features:
            return  # unknown without rows: `check_width` refuses, where it is known whether the message may say so
        if feature_names is not None and len(feature_names) != self.n_features:
            raise ValueError(f"Got {len(feature_names)} names for {self.n_features} columns.")

    def blocks(self) -> Iterator[NDArray[Any]]:
        if self._spent:
            raise UnreadableRowsError(
                "The blocks come from a generator, which can be read only once, and this takes more passes (counting "
                "the rows is one: give n_rows). Give BlockSource a function that makes it. Nothing was spent."
            )
        self._spent = self._once
        blocks = _masked(lambda: chain(self._first, self._make() if self._make else self._blocks))
        count = 0
        while (block := _masked(lambda: self._next(blocks))) is not None:
            count += len(block)
            yield block
        self.check_rows(count)

    def _look(self) -> tuple[int, list[str] | None]:
        """The width and the names of the first block; 0 if there is none."""
        block = _masked(lambda: next(iter(self._make() if self._make else self._blocks), None))
        if block is None:
            return 0, None
        self._first = [block] if self._once else []
        rows, names = _masked(lambda: _block(block, 0))
        return rows.shape[1], names

    def _next(self, blocks: Iterator[Any]) -> NDArray[Any] | None:
        given = next(blocks, None)
        if given is None:
            return None
        rows, names = _block(given, self.n_features)
        if rows.shape[1] == self.n_features and (not names or self.feature_names in (None, names)):
            return rows
        raise UnreadableRowsError(
            "The blocks could not be read: a block has other columns than the first one. Nothing was spent."
        )


def _masked(call: Callable[[], T]) -> T:
    """The result of the call. Errors of the caller's code may contain values, so only their type is passed on."""
    try:
        return call()
    except UnreadableRowsError:
        raise
    except Exception as error:
        kind = type(error).__name__
    raise UnreadableRowsError(f"The blocks could not be read: reading them raised {kind}. Nothing was spent.")


def _block(given: Any, width: int) -> tuple[NDArray[Any], list[str] | None]:
    """A block as an array of real numbers, and its column names. An empty list is a block without rows.

    The types of a block may depend on its values, so none is refused: a cell that is not a number is NaN.
    """
    kind = type(given).__module__.split(".")[0]
    if kind == "polars":
        given, kind = _from_polars(given), "pyarrow"
    if kind == "pyarrow":
        columns = Columns(given.schema.names)
        return columns.from_arrow(given), columns.features
    if kind == "pandas" and all(isinstance(name, str) for name in given.columns):
        columns = Columns(list(given.columns))
        return columns.from_pandas(given), columns.features
    if isinstance(given, (list, tuple)) and not given:
        return np.empty((0, width)), None
    found = table_of(plain_frame(given) if kind == "pandas" else given, width or None)
    if found is None:
        raise UnreadableRowsError("A block must be a table of real numbers, rows × features. Nothing was spent.")
    return found[0], None


def _from_polars(frame: Any) -> Any:
    """An Arrow table. Columns that are of another type because of one cell (object, list) are read cell by cell."""
    import polars as pl

    odd = [name for name, kind in frame.schema.items() if kind == pl.Object or kind.is_nested()]
    return narrowed(frame.with_columns([pl.Series(name, numbers_of(frame[name].to_list())) for name in odd])).to_arrow()
