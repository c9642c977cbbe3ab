"""Lines of a CSV file: each must be a record by itself, so that one person's text cannot swallow or make other rows.

A quotation mark that is not closed makes a reader take the lines after it for text, up to the next mark wherever that
is, and a line break inside quotes may or may not be one, by where a reader's buffer ends. Under either, one changed
record changes how many rows there are. So a file is refused unless, in every line, each field either holds no mark or
is wholly between two of them (marks inside doubled), and every carriage return ends a line. Then records are lines,
whoever reads them.
"""

from __future__ import annotations

import re
from pathlib import Path

from dpeigen.sources.base import UnreadableRowsError

_PIECE = 2**22
_FIELD = rb'(?:[^",]*|"[^"]*(?:""[^"]*)*")'
_RECORD = re.compile(rb"%s(?:,%s)*\r?" % (_FIELD, _FIELD))


def count_lines(path: Path) -> int:
    """How many lines a file has; refuses a file whose records are not its lines. Looks at no number in them."""
    lines, rest = 0, b""
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            whole, found, rest = (rest + piece).rpartition(b"\n")
            if found:
                lines += whole.count(b"\n") + 1
                _check(whole, path)
    if rest:
        lines += 1
        _check(rest, path)
    return lines


def _check(whole: bytes, path: Path) -> None:
    """Refuse lines that are not records by themselves."""
    returns = whole.count(b"\r")
    sound = returns == whole.count(b"\r\n") + whole.endswith(b"\r")
    if sound and b'"' in whole:
        sound = all(_RECORD.fullmatch(line) for line in whole.split(b"\n") if b'"' in line)
    if not sound:
        raise UnreadableRowsError(
            f"The data could not be read: in {path.name!r} a quotation mark is not closed in its own line, or stands "
            "inside a field, or a line ends in another way than \\n or \\r\\n. One record must be one line. Write the "
            "file anew, without line breaks in texts, or leave the columns of text out. Nothing was spent."
        )
