"""Lines of a CSV file: each is a row, so that one person's text cannot swallow or make other rows.

A quotation mark that is not closed makes a reader take the lines after it for text, up to the next mark wherever that
is, and a line break inside quotes may or may not be one, by where a reader's buffer ends. Under either, one changed
record changes how many rows there are. So a line is a row, whatever is in it, and it is a bad one unless it is a record
by itself: each of its fields either holds no mark or is wholly between two of them (marks inside doubled), there are as
many fields as names of columns, it is not longer than 64 MiB, and no carriage return stands inside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_PIECE = 2**22
_LONGEST = 2**26  # bytes of a line; longer ones are bad rows, and are not kept in memory
_QUOTED = rb'"[^"]*(?:""[^"]*)*"'
_FIELD = rb'(?:[^",]*|%s)' % _QUOTED
_RECORD = re.compile(rb"%s(?:,%s)*" % (_FIELD, _FIELD))
_MARKED = re.compile(_QUOTED)
_NO_RECORD = b'"'  # stands for a line that was too long


def pieces(path: Path) -> Iterator[bytes]:
    """The lines of a file but the first, many at a time, each ended by a line feed."""
    with path.open("rb") as file:
        file.readline()
        begun: list[bytes] = []  # of a line whose end was not read yet
        size = 0
        while piece := file.read(_PIECE):
            first, last = piece.find(b"\n"), piece.rfind(b"\n") + 1
            size += first if last else len(piece)
            # Of a line that is too long nothing is kept but that it is one.
            begun = [_NO_RECORD] if size > _LONGEST else [*begun, piece[:first] if last else piece]
            if last:
                yield b"".join([*begun, piece[first:last]])
                begun, size = [piece[last:]], len(piece) - last
        if size:
            yield b"".join([*begun, b"\n"])


def are_records(piece: bytes) -> bool:
    """Whether each of the lines is a record by itself, of however many fields."""
    returns = piece.count(b"\r")
    if returns and returns != piece.count(b"\r\n"):
        return False
    return b'"' not in piece or all(_is_record(line) for line in piece.split(b"\n") if b'"' in line)


def mended(piece: bytes, n_fields: int) -> tuple[bytes, list[int]]:
    """The lines with an empty record in place of each that is no record of so many fields, and which these are."""
    lines = piece.split(b"\n")
    bad = [at for at, line in enumerate(lines[:-1]) if not _is_record(line) or _fields(line) != n_fields]
    for at in bad:
        lines[at] = b"," * (n_fields - 1)
    return b"\n".join(lines), bad


def _is_record(line: bytes) -> bool:
    line = line.removesuffix(b"\r")
    return b"\r" not in line and (b'"' not in line or _RECORD.fullmatch(line) is not None)


def _fields(record: bytes) -> int:
    return (_MARKED.sub(b"", record) if b'"' in record else record).count(b",") + 1
