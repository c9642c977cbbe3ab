"""The format of a text file: separator, decimal mark, encoding and the like, all declared and never guessed.

A declaration is public, and how a cell is read depends on it and on that cell alone. Texts are converted to the form
that Arrow reads ("1234.5", "2020-12-31"); a text that does not have the declared form is missing.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any

from dpeigen._validate import check_choice, complain
from dpeigen.sources import cells

__all__ = ["PLAIN", "Layout"]

_OWNER = "open_source"
_BLANKS = " \u00a0\u202f"  # files use any of these between thousands
_PARTS = {"%Y": "[0-9]{4}", **dict.fromkeys(("%y", "%m", "%d", "%H", "%M", "%S"), "[0-9]{1,2}")}
_WIDE = re.compile(r"utf-?(16|32)", re.IGNORECASE)


@dataclass(frozen=True)
class Layout:
    """The declarations about files; `open_source` describes them."""

    separator: str | None = None
    decimal: str = "."
    thousands: str = ""
    encoding: str = "utf-8"
    quote: str = '"'
    date_format: tuple[str, ...] = ()
    header: int = 1
    names: tuple[str, ...] = ()
    comment: str = ""
    sheet: str | int = 1

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Layout | None:
        """The checked declarations; None if there are none."""
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                raise TypeError(f"{_OWNER} has no parameter {name!r}.{hint} Known for files: {', '.join(known)}.")
        given = {name: value for name, value in given.items() if value is not None}
        for name in ("date_format", "names"):
            if name in given:
                listed = [given[name]] if isinstance(given[name], str) and name == "date_format" else given[name]
                if not isinstance(listed, (list, tuple)) or not all(isinstance(text, str) for text in listed):
                    raise ValueError(complain(name, _OWNER, "texts in a list", given[name]))
                given[name] = tuple(listed)
        return cls(**given) if given else None

    def __post_init__(self) -> None:
        self._check_marks()
        self._check_header()
        object.__setattr__(self, "encoding", _check_encoding(self.encoding))
        for text in self.date_format:
            _check_date_format(text)

    def _check_marks(self) -> None:
        remedy = "For a tab give 'tab' or \"\\t\"."
        object.__setattr__(self, "separator", {"tab": "\t", "\\t": "\t"}.get(self.separator or "", self.separator))
        object.__setattr__(self, "quote", "" if self.quote == "none" else self.quote)
        if self.separator is not None and not _is_mark(self.separator):
            raise ValueError(
                complain("separator", _OWNER, "one ASCII character, no letter or digit", self.separator, remedy)
            )
        if self.quote and (not _is_mark(self.quote) or self.quote in (self.separator, " ", "\t")):
            must = "one ASCII character, no letter or digit, other than the separator, or 'none'"
            raise ValueError(complain("quote", _OWNER, must, self.quote))
        check_choice("decimal", self.decimal, [".", ","], _OWNER)
        group = self.thousands
        if group and (len(group) != 1 or group.isalnum() or group in '+-"\r\n\t' or group == self.decimal):
            must = "one character that is no letter, digit or sign, and is not the decimal mark"
            remedy = "With '.' between thousands the decimal mark is usually decimal=','."
            raise ValueError(complain("thousands", _OWNER, must, group, remedy))
        if not isinstance(self.comment, str) or "\n" in self.comment or "\r" in self.comment:
            raise ValueError(complain("comment", _OWNER, "what comment lines begin with, such as '#'", self.comment))

    def _check_header(self) -> None:
        number, must = self.header, "the number of the line that holds the names of the columns, or 0 for none"
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= 1000:
            raise ValueError(complain("header", _OWNER, must, number))
        if bool(number) == bool(self.names):
            if self.names:
                must = "left out where the file has a header line"
                raise ValueError(
                    complain("names", _OWNER, must, list(self.names), "For a file without one give header=0.")
                )
            must = "the names of all columns of the file, in their order, with header=0"
            raise ValueError(complain("names", _OWNER, must, [], "They are not made from the rows, which are private."))
        if not number and self.comment:
            must = "left out with header=0"
            remedy = "Then every line is a row: whether one begins with the mark depends on private values."
            raise ValueError(complain("comment", _OWNER, must, self.comment, remedy))
        if isinstance(self.sheet, bool) or not isinstance(self.sheet, (str, int)):
            raise ValueError(complain("sheet", _OWNER, "the name of a sheet, or its number from 1 on", self.sheet))

    def check_kind(self, kind: str, name: str) -> None:
        """Refuse declarations that do not apply to files of this kind."""
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default and field.name not in _TAKES.get(kind, ()):
                must = f"left out for {name!r}, because {_WHY.get(kind, 'its format says how it is written')}"
                raise ValueError(complain(field.name, _OWNER, must, value))

    def separated_by(self, mark: str) -> Layout:
        """The same, with this separator if none was declared."""
        return self if self.separator is not None else replace(self, separator=mark)

    @property
    def marks(self) -> tuple[bytes, bytes]:
        """The separator and the quotation mark, which may be empty."""
        return (self.separator or ",").encode(), self.quote.encode()

    @property
    def wide(self) -> bool:
        """Whether a line feed has more than one byte."""
        return _WIDE.match(self.encoding) is not None

    def to_utf8(self, lines: bytes) -> bytes:
        """Lines in UTF-8, each decoded separately; invalid bytes become a character that no number contains."""
        if self.encoding == "utf-8" or self.wide or lines.isascii():  # wide encodings are already converted to UTF-8
            return lines
        if _is_single(self.encoding):
            return lines.decode(self.encoding, "replace").encode()
        return b"\n".join(line.decode(self.encoding, "replace").encode() for line in lines.split(b"\n"))

    # --- texts in cells ---------------------------------------------------------------------------------------------

    def needs_text(self, kind: str) -> bool:
        """Whether cells of a declared type have a form that Arrow's CSV reader does not know."""
        return bool(self.thousands if kind == "number" else self.date_format and kind in ("date", "timestamp"))

    def read(self, column: Any, kind: str) -> Any:
        """A column of text, or of bytes, as the declared type; null if a cell does not have the declared form."""
        if kind == "number" and (self.thousands or self.decimal != "."):
            return cells.from_text(self._number(column), kind)
        if self.date_format and kind in ("date", "timestamp"):
            return cells.from_text(self._moment(column), "timestamp")
        return cells.from_text(column, kind)

    def _number(self, column: Any) -> Any:
        """Numbers with a decimal point and without thousands separators."""
        import pyarrow.compute as pc

        text, mark = cells.as_text(column), re.escape(self.decimal)
        group = f"[{_BLANKS}]" if self.thousands and self.thousands in _BLANKS else re.escape(self.thousands)
        whole = f"([0-9]{{1,3}}({group}[0-9]{{3}})+|[0-9]+)" if group else "[0-9]+"
        form = rf"^[+-]?({whole}({mark}[0-9]*)?|{mark}[0-9]+)([eE][+-]?[0-9]+)?$"
        text = cells.without(text, pc.match_substring_regex(text, form))
        text = pc.replace_substring_regex(text, group, "") if group else text
        return pc.replace_substring(text, self.decimal, ".")

    def _moment(self, column: Any) -> Any:
        """Dates and times in ISO format, by the first declared format that fits a text."""
        import pyarrow.compute as pc

        text = cells.as_text(column)
        return pc.coalesce(*(_iso(text, form) for form in self.date_format))


_TEXT = ("decimal", "thousands", "date_format")
_LINES = ("separator", "encoding", "quote", "header", "names", "comment")
_TAKES = {
    "csv": (*_TEXT, *_LINES),
    "tsv": (*_TEXT, *_LINES),
    "xlsx": (*_TEXT, "header", "names", "sheet"),
    "jsonl": _TEXT,
}
_WHY = {"csv": "it has no sheets", "tsv": "it has no sheets", "jsonl": "JSON says how its lines are written"}


def _is_mark(text: Any) -> bool:
    return isinstance(text, str) and len(text) == 1 and text.isascii() and not text.isalnum() and text not in "\r\n\0"


def _is_single(encoding: str) -> bool:
    """Whether every byte is one character, whatever the other bytes are."""
    return len(bytes(range(256)).decode(encoding, "replace")) == 256


def _check_encoding(name: Any) -> str:
    """Refuse encodings that do not contain ASCII unchanged, or in which one line can affect the next."""
    must = "the name of an encoding, such as 'utf-8', 'latin-1', 'cp1252' or 'utf-16'"
    try:
        known = codecs.lookup(name).name.replace("utf-8-sig", "utf-8")
        plain = bool(_WIDE.match(known)) or all(bytes([b]).decode(known) == chr(b) for b in range(128))
    except (LookupError, TypeError, ValueError, AttributeError):
        known, plain = "", False
    if not plain:
        remedy = "Encodings in which lines depend on each other are not read: write the file in UTF-8."
        raise ValueError(complain("encoding", _OWNER, must, name, remedy))
    return known


def _tokens(form: str) -> list[str]:
    """Parts of a format: %Y and the like, and single characters."""
    return re.findall(r"%.|[^%]", form, re.DOTALL)


def _check_date_format(form: str) -> None:
    found = [part for part in _tokens(form) if part in _PARTS]
    known = all(part in _PARTS or part == "%%" or not part.startswith("%") for part in _tokens(form))
    times = [part for part in ("%H", "%M", "%S") if part in found]
    whole = {"%m", "%d"} <= set(found) and ("%Y" in found) != ("%y" in found)
    if not known or len(set(found)) < len(found) or not whole or times != ["%H", "%M", "%S"][: len(times)]:
        must = "made of %d, %m, %Y (or %y) and perhaps %H, %M, %S, such as '%d.%m.%Y' or '%d.%m.%Y %H:%M'"
        remedy = "Several formats are a list (on the command line: --date-format again); names of months are not read."
        raise ValueError(complain("date_format", _OWNER, must, form, remedy))


def _iso(text: Any, form: str) -> Any:
    """Texts of this format in ISO format; null if a text does not fit."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = _tokens(form)
    pattern = ""
    for at, part in enumerate(parts):
        beside = {*parts[max(at - 1, 0) : at], *parts[at + 1 : at + 2]} & set(_PARTS)
        digits = _PARTS.get(part, "").replace("{1,2}", "{2}" if beside or part == "%y" else "{1,2}")
        pattern += f"(?P<x{at}>{digits})" if digits else re.escape(part.replace("%%", "%"))
    found = pc.extract_regex(text, f"^{pattern}$")
    order = [part for part in parts if part in _PARTS]

    def digits_of(part: str) -> Any:
        if part not in order:
            return pa.scalar("00", text.type)
        return pc.utf8_lpad(pc.struct_field(found, [order.index(part)]), 2, "0")

    year = digits_of("%Y")
    if "%y" in parts:
        year = digits_of("%y")
        century = pc.if_else(pc.greater_equal(year, pa.scalar("69", text.type)), "19", "20")
        year = pc.binary_join_element_wise(century.cast(text.type), year, pa.scalar("", text.type))
    day = pc.binary_join_element_wise(year, digits_of("%m"), digits_of("%d"), pa.scalar("-", text.type))
    time = [digits_of(part) for part in ("%H", "%M", "%S")]
    if "%H" not in parts:
        return day
    time_of_day = pc.binary_join_element_wise(*time, pa.scalar(":", text.type))
    return pc.binary_join_element_wise(day, time_of_day, pa.scalar(" ", text.type))


PLAIN = Layout()
