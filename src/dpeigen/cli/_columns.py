"""Declarations of columns from a settings file and from options: one `Declared` for each. Options override the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpeigen._text import clean
from dpeigen.cli._codes import codes_for_all, codes_of_columns, with_codes
from dpeigen.cli._config import Study
from dpeigen.cli._errors import tell
from dpeigen.cli._reading import reading_of, without_skipped
from dpeigen.sources.declared import Declared, declared
from dpeigen.sources.missing_codes import fitting_codes

if TYPE_CHECKING:
    from dpeigen.sources import Source

__all__ = ["chosen", "declared_bounds", "open_columns", "pairs", "with_label", "with_options"]


def open_columns(
    path: Path, given: Mapping[str, Any], study: Study, unit: str | None = None
) -> tuple[Source, dict[str, Declared]]:
    """The source, and the declarations of its columns in the settings file and the options."""
    from dpeigen.sources import open_source

    reading, known = reading_of(given["reading"], study), dict(study.columns or {})
    if reading.get("separator") == ";" and "decimal" not in reading:
        _ask_for_decimal_mark(_missing(given, study))
    names = list(known) if study.columns is not None else None
    if "skip" in reading and (names is not None or given["columns"] is not None):
        names = without_skipped(reading.pop("skip"), given["columns"], known)
        known = {name: known[name] for name in names}
    if given["columns"] is not None:
        names = [name.strip() for name in given["columns"].split(",")]
        known = {name: known.get(name, Declared()) for name in names}
    elif unit is not None and names is not None:  # a file that `init` wrote lists all columns
        known.pop(unit, None)
        names = list(known)
    codes = codes_for_all(given, study)
    known = with_codes(with_options(known, given, names), codes)
    if "missing" in given and _missing(given, study) == "refuse" and (codes or codes_of_columns(given)):
        tell(
            "warning: codes for missing cells are declared, and one such cell stops the release, because cells may not "
            "be missing (--missing refuse, the default). Give --missing correct."
        )
    others = {"missing_codes": plain} if (plain := fitting_codes(codes, "number")) else None
    columns: Any = known if names is not None else {**known, ...: others} if known or others else None
    source = open_source(path, columns=columns, unit=unit, **reading)
    if names is None:
        _tell_of_one_name(path, source)
    _tell_of_encoding(path, known, reading)
    return source, known


def _is_lines(path: Path) -> bool:
    """Whether a file is a CSV or TSV file, perhaps compressed."""
    return any(part in (".csv", ".tsv", ".tab") for part in path.suffixes[-2:])


def _tell_of_one_name(path: Path, source: Source) -> None:
    """A title above the table is read as the name of its only column."""
    if (_is_lines(path) or path.suffix.lower() == ".xlsx") and len(source.feature_names or ()) == 1:
        tell(
            f"warning: the header line of {path.name} has only one name, {clean((source.feature_names or [''])[0])!r}. "
            "If the names of the columns are further down, give the number of their line: --header 3."
        )


def _tell_of_encoding(path: Path, known: Mapping[str, Declared], reading: Mapping[str, Any]) -> None:
    """In another encoding, cells with such names would be missing, and no row may be read to see it."""
    if not _is_lines(path) or "encoding" in reading:
        return
    beyond = [name for name, said in known.items() if not all(str(value).isascii() for value in said.listed or ())]
    if beyond:
        tell(
            f"warning: declared values of {', '.join(map(repr, map(clean, beyond[:5])))} have letters such as ä or é, "
            "and the file is read as UTF-8. If it is not in UTF-8, cells with these values are missing. Spreadsheet "
            "programs often write cp1252: give --encoding cp1252, or --encoding utf-8 if it is UTF-8."
        )


def _missing(given: Mapping[str, Any], study: Study) -> str:
    """What is asked for where cells are missing."""
    places = [(where, name) for where in (given, study.settings) for name in ("missing", "on_bad_row")]
    return str(next((where[name] for where, name in places if where.get(name) is not None), "refuse"))


def _ask_for_decimal_mark(asked: str) -> None:
    """Files with semicolons often have decimal commas, and no row may be read to see it.

    If missing cells are accepted, a wrong decimal mark would spend the budget on missing cells, so it must be declared.
    """
    often = (
        "Files with semicolons often have decimal commas. Without --decimal , cells such as 1,5 are not read as numbers"
    )
    if asked != "refuse":
        raise ValueError(
            f"{often}: they would be missing cells, and the budget would be spent on them. Give --decimal , or "
            "--decimal . (or the setting 'decimal'). Nothing was spent."
        )
    tell(f"warning: {often}.")


def with_options(
    known: Mapping[str, Declared], given: Mapping[str, Any], names: list[str] | None = None
) -> dict[str, Declared]:
    """The declarations with those of options; ``names``: the columns used, if they are listed."""
    found = dict(known)
    for name, changes in _options(given).items():
        if names is not None and name not in names:
            raise ValueError(f"Columns with declared categories or types are not among the columns used: [{name!r}].")
        lists = {"type", "categories", "levels"} & set(changes)
        said = {} if name not in found else found[name].to_dict()
        said = {key: value for key, value in said.items() if not (lists and key in ("type", "categories", "levels"))}
        found[name] = declared(name, said | changes)
    return found


def _options(given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The declarations of each column by options, in the format of a settings file."""
    found: dict[str, dict[str, Any]] = {}
    for option, key in (("category", "categories"), ("ordinal", "levels")):
        for name, text in pairs(option, given.get(option)).items():
            found.setdefault(name, {})[key] = listed(option, name, text)
    for name, text in pairs("type", given.get("column_type")).items():
        found.setdefault(name, {})["type"] = text
    for name, text in pairs("transform", given.get("transform")).items():
        word, _, points = text.partition(":")
        quantiles = {"quantiles": [_number("transform", part) for part in points.split("|")]} if points else {}
        found.setdefault(name, {}).update({"transform": word} | quantiles)
    for name, text in pairs("limits", given.get("limits")).items():
        found.setdefault(name, {}).update(_limits(text))
    outside = given.get("outside")
    if outside is not None:
        limited = [said for said in found.values() if "lower" in said or "upper" in said]
        if not limited:
            raise ValueError("--outside says what to do with values outside --limits: give --limits too.")
        for said in limited:
            said["outside"] = outside
    for name, text in pairs("measure", given.get("measure")).items():
        found.setdefault(name, {})["unit_of_measure"] = text
    for name, codes in codes_of_columns(given).items():
        found.setdefault(name, {})["missing_codes"] = codes
    return found


def listed(option: str, name: str, text: str) -> list[str]:
    """The values in a list such as ``a|b|c``; refuse ``a,b,c``, which would be one value with commas in it."""
    values = text.split("|")
    if len(values) == 1 and "," in text:
        example = "|".join(part.strip() for part in text.split(","))
        raise ValueError(
            f"--{option} {name}={text} is a single value with commas in it. Separate values by |, in quotes: "
            f"--{option} {name + '=' + example!r}. A value that contains a comma can be listed in a settings file "
            "(`dpeigen init`)."
        )
    return values


def _limits(text: str) -> dict[str, Any]:
    """Limits from "low..high"; one of them may be left out. Dates are texts here, and numbers are numbers."""
    low, between, high = (part.strip() for part in text.partition(".."))
    if not between or not (low or high):
        raise ValueError(f"--limits must be given as name=low..high. Got {text!r} instead.")

    def value(part: str) -> Any:
        try:
            return float(part)
        except ValueError:
            return part

    return {key: value(part) for key, part in (("lower", low), ("upper", high)) if part}


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--{option} must be given as name=rank:0|10|50. Got {text!r} instead.") from None


def pairs(option: str, given: list[str] | None) -> dict[str, str]:
    """name=value options."""
    found = [text.partition("=") for text in given or []]
    if any(not name or not value for name, _, value in found):
        raise ValueError(f"--{option} must be given as name=value. Got {given} instead.")
    return {name: value for name, _, value in found}


def declared_bounds(known: Mapping[str, Declared], study: Study) -> tuple[list[float], list[float]] | None:
    """Bounds of all numeric columns, if every column has a declared range and at least one has limits; else None.

    ``known`` declares all columns used, in their order. Without bounds of all columns, limits still hold for the cells
    of their own column, as the reader clips them; they say nothing about other columns.
    """
    found = [said.bounds() for said in known.values()]
    limited = any(said.lower is not None and said.upper is not None for said in known.values())
    if not limited or None in found:
        return None
    if "bound" in study.settings:
        if any(map(_bounds_rows, known.values())):
            raise ValueError(
                "The file of --config has both 'bound' and bounds of columns. Delete one, or give --bound."
            )
        return None
    flat = [pair for bounds in found for pair in bounds or ()]
    return [low for low, _ in flat], [high for _, high in flat]


def _bounds_rows(said: Declared) -> bool:
    """Whether limits are bounds to clip rows to."""
    return said.lower is not None and said.upper is not None and said.outside == "clip" and said.transform is None


def chosen(columns: Mapping[str, Declared], features: list[str]) -> dict[str, Declared]:
    """The declarations of the columns that these numeric columns encode; columns without one are numbers."""
    owners = {feature: name for name, said in columns.items() for feature in said.features(name)}
    names = dict.fromkeys(owners.get(feature, feature) for feature in features)
    return {name: columns.get(name, Declared()) for name in names}


def with_label(known: Mapping[str, Declared], label: str, labels: list[str]) -> dict[str, Declared]:
    """The declarations with a column of classes."""
    return {**known, label: replace(Declared(), categories=tuple(labels))}
