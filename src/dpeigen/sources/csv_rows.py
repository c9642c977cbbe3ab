"""Rows of CSV files, a few megabytes at a time: every line but the first is a row.

Arrow parses the lines as what their columns are declared to be. Where it cannot, the same lines are read once more as
text, lines that are no records and cells that do not fit become NaN, and all others come out as before. So a cell never
decides whether a file can be read, nor how another row is.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen.sources import cells
from dpeigen.sources.base import Source, UnreadableRowsError
from dpeigen.sources.columns import Columns
from dpeigen.sources.csv_lines import are_records, mended, pieces

_AHEAD = 2  # pieces parsed ahead
_LINES = (
    "A row is a line of a CSV file, and one that is not a record by itself counts as a row at the centre. A text with "
    "line breaks in it is several rows."
)


class CsvSource(Source):
    """CSV files with the same header. ``keys`` holds, for each file, columns that are told by names of folders."""

    row_note = _LINES

    def __init__(
        self, files: Sequence[Path], header: Sequence[str], columns: Columns, keys: Sequence[Mapping[str, str | None]]
    ) -> None:
        import pyarrow as pa

        columns.check_arrow(pa.schema([(name, columns.csv_type(name)) for name in columns.names]))
        twice = [name for name in columns.names if list(header).count(name) > 1]
        if twice:
            raise ValueError(f"Column names must differ from each other. Got {twice} more than once in the file.")
        self._files, self._columns, self._keys = files, columns, keys
        self._places = {name: str(place) for place, name in enumerate(header)}
        self._n_fields = len(header)
        self.feature_names, self.n_features = columns.features, len(columns.features)
        self.fixed_order = not any(keys)
        self._sound = False  # whether every line is known to be a record

    def _count(self) -> int:
        rows, sound = 0, True
        for path in self._files:
            for piece in _readable(pieces(path)):
                rows += piece.count(b"\n")
                sound = sound and are_records(piece)
        self._sound = sound
        return rows

    def blocks(self) -> Iterator[NDArray[Any]]:
        return _ahead(
            partial(self._numbers, piece, keys)
            for path, keys in zip(self._files, self._keys, strict=True)
            for piece in _readable(pieces(path))
        )

    def _numbers(self, piece: bytes, keys: Mapping[str, str | None]) -> NDArray[Any]:
        import pyarrow as pa

        rows = piece.count(b"\n")
        bad: list[int] = []
        kinds = {name: self._columns.csv_type(name) for name in self._columns.names if name not in keys}
        table = None
        try:
            if self._sound or are_records(piece):
                table = self._read(piece, kinds)
        except pa.ArrowException:  # its message may quote a whole line
            pass
        if table is None or table.num_rows != rows:
            piece, bad = mended(piece, self._n_fields)
            table = self._read(piece, dict.fromkeys(kinds, pa.binary()), block=len(piece) + 1)
            if table.num_rows != rows:
                raise AssertionError("a line is a row")
        found = [self._column(name, table, keys, rows) for name in self._columns.names]
        numbers = self._columns.from_arrow(pa.table(found, names=self._columns.names))
        if bad:
            numbers[bad] = np.nan
        return numbers

    def _read(self, piece: bytes, kinds: Mapping[str, Any], block: int | None = None) -> Any:
        """The lines as a table; the first of its columns at least, so that there are rows."""
        import pyarrow as pa
        import pyarrow.csv

        places = {self._places[name]: kind for name, kind in kinds.items()} or {"0": pa.binary()}
        names = [str(place) for place in range(self._n_fields)]
        return pyarrow.csv.read_csv(
            pa.BufferReader(piece),
            pyarrow.csv.ReadOptions(column_names=names, block_size=block),
            # A blank line is a row with nothing in it, not no row: the number of rows must not depend on values.
            pyarrow.csv.ParseOptions(ignore_empty_lines=False),
            pyarrow.csv.ConvertOptions(
                column_types=places, include_columns=list(places), strings_can_be_null=False
            ),  # "NA" may be a category
        )

    def _column(self, name: str, table: Any, keys: Mapping[str, str | None], rows: int) -> Any:
        import pyarrow as pa

        if name in keys:
            column = pa.repeat(pa.scalar(keys[name], pa.string()), rows)
        else:
            column = table.column(self._places[name])
        kind = self._columns.csv_kind(name)
        return column if kind is None or not cells.is_text(column.type) else cells.from_text(column, kind)


def csv_header(path: Path) -> list[str]:
    """The names in the header line, which says what the columns are called and nothing about their types."""
    with path.open("rb") as lines:
        header = lines.readline()
    try:
        names = next(csv.reader([header.decode("utf-8-sig")], strict=True), [])
    except (UnicodeDecodeError, csv.Error):
        names = []
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise UnreadableRowsError(f"The columns of {path.name!r} must be separated by commas.")
    if not names or any(_is_number(name) for name in names):
        raise UnreadableRowsError(
            f"The first line of {path.name!r} must hold column names in UTF-8 with commas between, not numbers: they "
            "are public, and a row must not become so."
        )
    return names


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _readable(found: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces of a file, or an error that says no more than that it cannot be read."""
    try:
        yield from found
        return
    except OSError:
        pass
    raise UnreadableRowsError("The data could not be read: a file is damaged or gone. Nothing was spent.")


def _ahead(calls: Iterable[Callable[[], NDArray[Any]]]) -> Iterator[NDArray[Any]]:
    """What the calls return, in order; the next ones are already under way."""
    pool = ThreadPoolExecutor(_AHEAD)
    waiting: deque[Future[NDArray[Any]]] = deque()
    try:
        for call in calls:
            waiting.append(pool.submit(call))
            if len(waiting) > _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
