"""Rows of files whose cells have their own types: sheets of Excel workbooks, and lines of JSON.

A row is a row of the sheet, or a line, whatever it contains. Cells are read one by one, like objects of pandas
(`sources.objects`), and texts by the declared form (`sources.layout`). Cells that do not fit are NaN.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen._validate import complain
from dpeigen.sources.base import Source, UnreadableRowsError
from dpeigen.sources.category_names import is_written, written
from dpeigen.sources.columns import Columns
from dpeigen.sources.csv_lines import pieces
from dpeigen.sources.ids import as_text
from dpeigen.sources.layout import PLAIN, Layout
from dpeigen.sources.objects import numbers_of

__all__ = ["Cells", "RecordSource", "sheet_header"]

_ROWS = 2**13  # read at a time
Cells = list[Any]
_DAMAGED = "The data could not be read: a file is damaged or gone. Nothing was spent."


class RecordSource(Source):
    """Files of one kind with the same columns, in order."""

    def __init__(
        self, kind: str, files: Sequence[Path], header: Sequence[str], columns: Columns, layout: Layout
    ) -> None:
        self._read = _json_rows if kind == "jsonl" else _sheet_rows
        self._keeps = kind == "xlsx"  # kept in memory: a sheet has at most 2^20 rows, and reading it is slow
        self._kept: list[NDArray[Any]] | None = None
        self._files, self._columns, self._layout = files, columns, layout
        self._places = {name: list(header).index(name) for name in columns.names}
        self._header = list(header)
        self.feature_names, self.n_features = columns.features, len(columns.features)
        self.schema = columns.schema
        self.row_note = "A row is a line of the file, or a row of the sheet, and an empty one counts as a row."

    def blocks(self) -> Iterator[NDArray[Any]]:
        if self._kept is not None:
            yield from self._kept
            return
        kept = []
        for path in self._files:
            rows = self._read(path, self._header, self._layout)
            while listed := _discreetly(rows):
                block = self._numbers(listed)
                kept += [block] if self._keeps else []
                yield block
        self._kept = kept if self._keeps else None

    def cells(self, name: str) -> Iterator[Any]:
        """A column that is not a feature, as text, in the order of the rows; null if a line is not a record."""
        import pyarrow as pa

        place = self._header.index(name)
        for path in self._files:
            rows = self._read(path, self._header, self._layout)
            while listed := _discreetly(rows):
                texts = [as_text(cell) for cell in _at(place, listed)]
                yield pa.array([None if t is None else t.encode("utf-8", "surrogatepass") for t in texts], pa.binary())

    def _numbers(self, listed: list[Cells | None]) -> NDArray[Any]:
        found = []
        for name in self._columns.names:
            found += self._column(name, _at(self._places[name], listed))
        numbers = np.array(found, dtype=np.float64).T
        numbers[[at for at, row in enumerate(listed) if row is None]] = np.nan
        return numbers

    def _column(self, name: str, column: Cells) -> list[Any]:
        said = self._columns.declared[name]
        if said.listed is None:
            return [said.from_numbers(self._as_numbers(column, said.number_type or "number"))]
        if all(isinstance(value, (int, float)) for value in said.listed):
            numbers = self._as_numbers(column, "number")
            return list(said.from_matches([numbers == value for value in said.listed]))
        names = [value if isinstance(value, str) else written(value) for value in said.listed]
        matches = [np.array([is_written(cell, name) for cell in column], dtype=bool) for name in names]
        return list(said.from_matches(matches))

    def _as_numbers(self, column: Cells, kind: str) -> Floats:
        from dpeigen.sources import cells

        found = numbers_of(column, kind)
        texts = [at for at, cell in enumerate(column) if isinstance(cell, str)]
        if texts and self._layout != PLAIN:
            import pyarrow as pa

            encoded = [column[at].encode("utf-8", "surrogatepass") for at in texts]
            found[texts] = cells.numbers(self._layout.read(pa.array(encoded, pa.large_binary()), kind), kind)
        return found


def _at(place: int, listed: list[Cells | None]) -> Cells:
    """The cells of one column; None if a row has none."""
    return [None if row is None or place >= len(row) else row[place] for row in listed]


def _discreetly(rows: Iterator[Any]) -> list[Any]:
    """The next rows. Errors and warnings of a reader may contain a cell, so they are dropped."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(islice(rows, _ROWS))
    except ImportError:
        raise
    except Exception:
        pass
    raise UnreadableRowsError(_DAMAGED)


# --- lines of JSON --------------------------------------------------------------------------------------------------


def _json_rows(path: Path, names: list[str], _: Layout) -> Iterator[Cells | None]:
    """Rows, one for each line. Arrow's reader would skip blank lines, and read two objects on a line as two rows."""
    for piece in pieces(path, Layout(header=0, names=("",))):
        yield from (_record(line, names) for line in piece.split(b"\n")[:-1])


def _record(line: bytes, names: list[str]) -> Cells | None:
    try:
        found = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    return [found.get(name) for name in names] if isinstance(found, dict) else None


# --- sheets of workbooks --------------------------------------------------------------------------------------------


def sheet_header(path: Path, layout: Layout) -> list[str]:
    """The names in the header row of the sheet; no other row is kept."""
    if layout.names:
        return list(layout.names)
    rows = _sheet(path, layout)
    first = _discreetly(islice(rows, layout.header - 1, layout.header))
    rows.close()
    names = list(first[0]) if first else []
    while names and names[-1] is None:
        names.pop()
    names = ["" if name is None else name for name in names]
    if not names or not all(isinstance(name, str) for name in names):
        raise UnreadableRowsError(
            f"Row {layout.header} of the sheet in {path.name!r} must hold column names, and all of its cells must be "
            "texts. If the names are further down, below a title, give the number of their row, such as "
            "header=3 (--header 3)."
        )
    return names


def _sheet_rows(path: Path, _: list[str], layout: Layout) -> Iterator[Cells]:
    return islice(_sheet(path, layout), layout.header, None)


def _sheet(path: Path, layout: Layout) -> Any:
    """The rows of a sheet as lists of cells, including empty rows."""
    try:
        import openpyxl
    except ImportError:
        raise ImportError("Reading .xlsx files needs openpyxl: pip install 'dpeigen[excel]'.") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        sheets = book.worksheets
    except Exception:  # its message may contain content of the file
        book, sheets = None, []
    if book is None:
        raise UnreadableRowsError(_DAMAGED)
    found = [sheet for sheet in sheets if sheet.title == str(layout.sheet)]
    if isinstance(layout.sheet, int):
        found += sheets[layout.sheet - 1 : layout.sheet] if layout.sheet > 0 else []
    if not found:
        book.close()
        must = f"the name or the number of one of the {len(sheets)} sheets of {path.name!r}"
        raise ValueError(complain("sheet", "open_source", must, layout.sheet))
    return _rows_of(book, found[0])


def _rows_of(book: Any, sheet: Any) -> Iterator[Cells]:
    try:
        sheet.reset_dimensions()  # the size stated in the file may be wrong
        for row in sheet.iter_rows(values_only=True):
            yield list(row)
    finally:
        book.close()
