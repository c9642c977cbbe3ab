"""Lines of a CSV file: each line is one row, so that one person's text cannot remove or add other rows.

In other readers, an unclosed quotation mark turns the following lines into text, up to the next mark, and a line break
inside quotes may or may not end a row, depending on the reader's buffer. In both cases one changed record changes the
number of rows. Here a line is a row, whatever it contains. It is a bad row unless it is a record by itself: each field
contains no mark or is enclosed by two (marks inside are doubled), there are as many fields as column names, the line is
at most 64 MiB long, and it contains no carriage return.

The lines before the rows are determined by declarations and by those lines: a comment further down is a bad row.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from dpeigen.sources.layout import PLAIN, Layout

__all__ = ["PACKED", "are_records", "header_line", "mended", "opened", "pieces"]

PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_PIECE = 2**22
_LONGEST = 2**26  # bytes of a line; longer ones are bad rows, and are not kept in memory
_NO_RECORD = b"\r\r"  # replaces a line that was too long


def opened(path: Path, layout: Layout = PLAIN) -> io.BufferedReader:
    """A file of lines as bytes, decompressed, without byte order mark; in UTF-8 if its line feeds are not one byte."""
    packed = PACKED.get(path.suffix.lower())
    if packed:
        import pyarrow as pa

        file: Any = io.BufferedReader(pa.CompressedInputStream(pa.OSFile(str(path)), packed), 2**18)
    else:
        file = path.open("rb")
    if layout.wide:
        file = io.BufferedReader(_Recoded(file, layout.encoding), 2**18)
    if layout.encoding == "utf-8" or layout.wide:
        file.read(3 if file.peek(3).startswith(codecs.BOM_UTF8) else 0)
    return file


def header_line(file: Any, layout: Layout = PLAIN) -> bytes:
    """The line with the column names; all lines after it are rows."""
    line, comment = b"", layout.comment.encode("utf-8" if layout.wide else layout.encoding, "replace")
    for _ in range(layout.header):
        line = file.readline()
        while comment and line.startswith(comment):
            line = file.readline()
    return line


def pieces(path: Path, layout: Layout = PLAIN) -> Iterator[bytes]:
    """The lines of a file after its header, many at a time, in UTF-8, each ended by a line feed."""
    return map(layout.to_utf8, _pieces(path, layout))


def _pieces(path: Path, layout: Layout) -> Iterator[bytes]:
    with opened(path, layout) as file:
        header_line(file, layout)
        begun: list[bytes] = []  # parts of a line whose end was not read yet
        size = 0
        while piece := file.read(_PIECE):
            first, last = piece.find(b"\n"), piece.rfind(b"\n") + 1
            size += first if last else len(piece)
            # The content of a line that is too long is not kept.
            begun = [_NO_RECORD] if size > _LONGEST else [*begun, piece[:first] if last else piece]
            if last:
                yield b"".join([*begun, piece[first:last]])
                begun, size = [piece[last:]], len(piece) - last
        if size:
            yield b"".join([*begun, b"\n"])


def are_records(piece: bytes, layout: Layout = PLAIN) -> bool:
    """Whether each of the lines is a record by itself, with any number of fields."""
    returns = piece.count(b"\r")
    if returns and returns != piece.count(b"\r\n"):
        return False
    mark, record, _ = _patterns(*layout.marks)
    if not mark or mark not in piece:
        return True
    return all(record.fullmatch(line.removesuffix(b"\r")) for line in piece.split(b"\n") if mark in line)


def mended(piece: bytes, n_fields: int, layout: Layout = PLAIN) -> tuple[bytes, list[int]]:
    """The lines, with empty records instead of those that are not records of ``n_fields`` fields; and their indices."""
    lines, separator = piece.split(b"\n"), layout.marks[0]
    mark, record, quoted = _patterns(*layout.marks)

    def fits(line: bytes) -> bool:
        line = line.removesuffix(b"\r")
        if b"\r" in line:
            return False
        if mark and mark in line:
            if record.fullmatch(line) is None:
                return False
            line = quoted.sub(b"", line)
        return line.count(separator) == n_fields - 1

    bad = [at for at, line in enumerate(lines[:-1]) if not fits(line)]
    for at in bad:
        lines[at] = separator * (n_fields - 1)
    return b"\n".join(lines), bad


@cache
def _patterns(separator: bytes, mark: bytes) -> tuple[bytes, re.Pattern[bytes], re.Pattern[bytes]]:
    """The quotation mark, and patterns of a record and of a quoted field."""
    s, q = re.escape(separator), re.escape(mark)
    quoted = rb"%s[^%s]*(?:%s%s[^%s]*)*%s" % (q, q, q, q, q, q) if mark else rb"(?!)"
    field = rb"(?:[^%s%s]*|%s)" % (q, s, quoted)
    return mark, re.compile(rb"%s(?:%s%s)*" % (field, s, field)), re.compile(quoted)


class _Recoded(io.RawIOBase):
    """A file in UTF-16 or UTF-32, as UTF-8."""

    def __init__(self, file: Any, encoding: str) -> None:
        self._file, self._decoder = file, codecs.getincrementaldecoder(encoding)("replace")
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            given = self._file.read(2**20)
            self._left = self._decoder.decode(given, not given).encode("utf-8", "replace")
            if not given:
                break
        part, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._file.close()
        super().close()
