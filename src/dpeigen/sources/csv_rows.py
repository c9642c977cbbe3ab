"""Rows of CSV files, a few megabytes at a time: every line after the header is a row.

Arrow parses the lines by the declared types of their columns, in the declared form (`sources.layout`). If it fails, the
same lines are read again as text; lines that are not records and cells that do not fit become NaN, and all others are
read as before. So a cell never decides whether a file can be read, or how another row is read.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen.sources import cells
from dpeigen.sources.base import Source, UnreadableRowsError
from dpeigen.sources.columns import Columns, refuse_repeated
from dpeigen.sources.csv_lines import PACKED, are_records, header_line, mended, opened, pieces
from dpeigen.sources.layout import PLAIN, Layout

__all__ = ["CsvSource", "csv_header", "header_text", "likely_encoding", "likely_separator", "names_in"]

_AHEAD = 2  # pieces parsed ahead
_BETWEEN = {",": "commas", "\t": "tabs", ";": "semicolons"}


class CsvSource(Source):
    """CSV files with the same header. ``keys``: for each file, the columns given by folder names."""

    def __init__(
        self,
        files: Sequence[Path],
        header: Sequence[str],
        columns: Columns,
        keys: Sequence[Mapping[str, str | None]],
        layout: Layout = PLAIN,
    ) -> None:
        import pyarrow as pa

        columns.check_arrow(pa.schema([(name, columns.csv_type(name)) for name in columns.names]))
        refuse_repeated(columns.names, header)
        self._files, self._columns, self._keys, self._layout = files, columns, keys, layout
        self._places = {name: str(place) for place, name in enumerate(header)}
        self._n_fields = len(header)
        fields = "1 field" if len(header) == 1 else f"{len(header)} fields"
        self.row_note = (
            f"Each line of a CSV file is one row. A line that does not have exactly {fields}, like the names of the "
            "columns, is a row without readable cells. A text with line breaks counts as several rows."
        )
        self.feature_names, self.n_features = columns.features, len(columns.features)
        self.schema = columns.schema
        self.fixed_order = not any(keys)
        self._sound = False  # whether every line is known to be a record

    def _count(self) -> int:
        rows, sound = 0, True
        for path in self._files:
            for piece in self._pieces(path):
                rows += piece.count(b"\n")
                sound = sound and are_records(piece, self._layout)
        self._sound = sound
        return rows

    def _pieces(self, path: Path) -> Iterator[bytes]:
        return _readable(pieces(path, self._layout))

    def blocks(self) -> Iterator[NDArray[Any]]:
        return _ahead(
            partial(self._numbers, piece, keys)
            for path, keys in zip(self._files, self._keys, strict=True)
            for piece in self._pieces(path)
        )

    def cells(self, name: str) -> Iterator[Any]:
        """A column that is not a feature, as text, in the order of the rows; null in lines that are not records."""
        import pyarrow as pa

        for path, keys in zip(self._files, self._keys, strict=True):
            for piece in self._pieces(path):
                if name in keys:
                    yield pa.repeat(pa.scalar(keys[name], pa.string()), piece.count(b"\n")).cast(pa.binary())
                    continue
                table, bad = self._table(piece, {name: pa.binary()})
                column = table.column(0).combine_chunks()
                if bad:
                    known = np.ones(len(column), dtype=bool)
                    known[bad] = False
                    column = pa.compute.if_else(pa.array(known), column, pa.scalar(None, column.type))
                yield column

    def _numbers(self, piece: bytes, keys: Mapping[str, str | None]) -> NDArray[Any]:
        import pyarrow as pa

        kinds = {name: self._kind(name) for name in self._columns.names if name not in keys}
        table, bad = self._table(piece, kinds)
        found = [self._column(name, table, keys, table.num_rows) for name in self._columns.names]
        numbers = self._columns.from_arrow(pa.table(found, names=self._columns.names))
        if bad:
            numbers[bad] = np.nan
        return numbers

    def _kind(self, name: str) -> Any:
        """The type as which Arrow reads a column: bytes if Arrow does not know the declared form."""
        import pyarrow as pa

        return (
            pa.binary() if self._layout.needs_text(self._columns.csv_kind(name) or "") else self._columns.csv_type(name)
        )

    def _table(self, piece: bytes, kinds: Mapping[str, Any]) -> tuple[Any, list[int]]:
        """The lines as a table, and the indices of lines that are not records."""
        import pyarrow as pa

        rows = piece.count(b"\n")
        bad: list[int] = []
        table = None
        try:
            if self._sound or are_records(piece, self._layout):
                table = self._read(piece, kinds)
        except pa.ArrowException:  # its message may contain a whole line
            pass
        if table is None or table.num_rows != rows:
            piece, bad = mended(piece, self._n_fields, self._layout)
            table = self._read(piece, dict.fromkeys(kinds, pa.binary()), block=len(piece) + 1)
            if table.num_rows != rows:
                raise AssertionError("a line is a row")
        return table, bad

    def _read(self, piece: bytes, kinds: Mapping[str, Any], block: int | None = None) -> Any:
        """The lines as a table with at least the first column, so that there are rows."""
        import pyarrow as pa
        import pyarrow.csv

        places = {self._places[name]: kind for name, kind in kinds.items()} or {"0": pa.binary()}
        names = [str(place) for place in range(self._n_fields)]
        layout = self._layout
        return pyarrow.csv.read_csv(
            pa.BufferReader(piece),
            pyarrow.csv.ReadOptions(column_names=names, block_size=block),
            # A blank line is an empty row, not skipped: the number of rows must not depend on values.
            pyarrow.csv.ParseOptions(
                delimiter=layout.separator or ",", quote_char=layout.quote or False, ignore_empty_lines=False
            ),
            pyarrow.csv.ConvertOptions(
                column_types=places,
                include_columns=list(places),
                strings_can_be_null=False,  # "NA" may be a category
                decimal_point=layout.decimal,
            ),
        )

    def _column(self, name: str, table: Any, keys: Mapping[str, str | None], rows: int) -> Any:
        import pyarrow as pa

        kind = self._columns.csv_kind(name)
        if name in keys:
            column = pa.repeat(pa.scalar(keys[name], pa.string()), rows)
            return column if kind is None else cells.from_text(column, kind)
        column = table.column(self._places[name])
        return column if kind is None or not cells.is_text(column.type) else self._layout.read(column, kind)


def csv_header(path: Path, layout: Layout = PLAIN) -> list[str]:
    """The column names in the header line. It says nothing about their types."""
    if layout.names:
        return list(layout.names)
    line = header_text(path, layout)
    names = [] if line is None else names_in(line, layout)
    other = None if line is None or len(names) != 1 else likely_separator(line, layout)
    between = _BETWEEN.get(layout.separator or ",", repr(layout.separator))
    if other is not None:
        mark = "tab" if other == "\t" else other
        raise UnreadableRowsError(
            f"The columns of {path.name!r} must be separated by {between}, and its header line has {mark!r} instead. "
            f"Declare separator={mark!r} (--separator {mark!r})."
        )
    where = "first line" if layout.header == 1 and not layout.comment else f"header line (header={layout.header})"
    if line is not None and not line.strip():
        raise UnreadableRowsError(
            f"The {where} of {path.name!r} must hold column names, and it is empty. If the names are in another line, "
            "give its number, such as header=3 (--header 3)."
        )
    if not names or any(_is_value(name, layout) for name in names):
        another = _other_encoding(path) if line is None else ""
        raise UnreadableRowsError(
            f"The {where} of {path.name!r} must hold column names in {layout.encoding.upper()} with {between} between, "
            f"not numbers: they are public, and a row must not become so.{another}"
        )
    return names


def header_text(path: Path, layout: Layout = PLAIN) -> str | None:
    """The header line; None if it is not in the declared encoding, or if the file cannot be decompressed."""
    import pyarrow as pa

    try:
        with opened(path, layout) as file:
            line = header_line(file, layout)
        return line.decode("utf-8" if layout.wide else layout.encoding)
    except (UnicodeDecodeError, pa.ArrowException):
        return None
    except OSError:
        if path.suffix.lower() not in PACKED:
            raise
        return None


def names_in(line: str, layout: Layout) -> list[str]:
    """The names in a header line, without the blanks around them."""
    how: Any = {"quotechar": layout.quote} if layout.quote else {"quoting": csv.QUOTE_NONE}
    try:
        found = next(csv.reader([line], strict=True, delimiter=layout.separator or ",", **how), [])
    except csv.Error:
        return []
    return [name.strip() for name in found]


def likely_encoding(path: Path) -> str:
    """A likely encoding of a header line that is not in UTF-8."""
    with opened(path, Layout(encoding="latin-1")) as file:
        line = file.readline()
    if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    return "latin-1" if any(byte in line for byte in b"\x81\x8d\x8f\x90\x9d") else "cp1252"


def _other_encoding(path: Path) -> str:
    """The remedy for a header line that cannot be decoded; empty if the file is damaged."""
    import pyarrow as pa

    try:
        likely = likely_encoding(path)
    except (OSError, pa.ArrowException):
        return " It cannot be read: perhaps the file is damaged."
    return f" It is in another encoding, probably {likely}: declare encoding={likely!r} (--encoding {likely})."


def likely_separator(line: str, layout: Layout) -> str | None:
    """The other separator that divides a header line into the most names, if there is one."""
    found = {mark: len(names_in(line, replace(layout, separator=mark))) for mark in ",;\t|" if mark != layout.quote}
    best = max(found, key=lambda mark: found[mark])
    return best if found[best] > 1 and best != (layout.separator or ",") else None


def _is_value(text: str, layout: Layout) -> bool:
    """Whether a text is a number rather than a name, or, if the header is declared to be further down, a date."""
    group = layout.thousands
    try:
        float((text.replace(group, "") if group else text).replace(layout.decimal, "."))
    except ValueError:
        date = re.fullmatch(r"\s*[0-9]{1,4}([-./])[0-9]{1,2}\1[0-9]{1,4}([ T].*)?", text)
        return layout.header > 1 and date is not None
    return True


def _readable(found: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces of a file, or an error that only says that it cannot be read."""
    try:
        yield from found
        return
    except OSError:
        pass
    raise UnreadableRowsError("The data could not be read: a file is damaged or gone. Nothing was spent.")


def _ahead(calls: Iterable[Callable[[], NDArray[Any]]]) -> Iterator[NDArray[Any]]:
    """The results of the calls, in order; the next ones are already running."""
    pool = ThreadPoolExecutor(_AHEAD)
    waiting: deque[Future[NDArray[Any]]] = deque()
    finished = False
    try:
        for call in calls:
            waiting.append(pool.submit(call))
            if len(waiting) > _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
        finished = True
    finally:
        # An unfinished iterator may be closed by the garbage collector while a thread starts; waiting for threads
        # there would never end.
        pool.shutdown(wait=finished, cancel_futures=True)
