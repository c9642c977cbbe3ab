"""From options and a settings file to an estimator and a source, for `pca`, `covariance` and `ridge`.

An option overrides the file of ``--config``, which overrides the default. Only the schema of the table is read here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpeigen._validate import nearest
from dpeigen.cli._columns import declared_bounds, open_columns
from dpeigen.cli._config import Study, read_study
from dpeigen.cli._errors import UnreadableError
from dpeigen.facts import ABOUT, check_about

if TYPE_CHECKING:
    from dpeigen.estimators.rehearsal import FitPlan
    from dpeigen.release import Release
    from dpeigen.sources import Source

__all__ = ["Box", "Fit", "number", "prepare", "rescaled_source"]

_DEFAULTS: dict[str, Any] = {
    "delta": 0.0,
    "center": "private",
    "method": "auto",
    "relation": "replace",
    "missing": "refuse",
    "alpha": "auto",
    "robust": False,
}
Box = tuple[list[float], list[float]]


@dataclass(frozen=True)
class Fit:
    """An estimator, its data, and, for a regression, the name of the target."""

    estimator: Any
    source: Source
    target: str | None
    units: Box | None  # the bounds that rescaled every column, if any
    counts: bool  # whether a release has to read the rows once more, to count them
    about: dict[str, str]  # texts for the card

    def _data(self) -> tuple[Any, ...]:
        return (self.source,) if self.target is None else (self.source, self.target)

    def plan(self) -> FitPlan:
        """What `release` would do; reads no row."""
        plan: FitPlan = self.estimator.explain(*self._data(), count=False)
        return plan

    def release(self) -> None:
        """Pay and compute; the keeper gets the release."""
        self.estimator.fit(*self._data())

    def completed(self, release: Release) -> Release:
        """The release with the bounds that rescaled its columns, and the texts for its card."""
        from dataclasses import replace

        release = release.describe(**self.about) if self.about else release
        if self.rescaled is None:
            return release
        return replace(release, facts={**release.facts, "rescaled": self.rescaled})  # type: ignore[arg-type]

    @property
    def bounded(self) -> bool:
        """Whether rows are clipped to public bounds of all columns."""
        return isinstance(self.estimator.bound, tuple)

    @cached_property
    def rescaled(self) -> dict[str, list[float]] | None:
        """The bounds that rescaled every column, if any, in the order of the release: the target last."""
        if self.units is None:
            return None
        box = dict(zip(self.source.feature_names or (), zip(*self.units, strict=True), strict=True))
        if self.target is not None:
            box[self.target] = box.pop(self.target)
        lower, upper = zip(*box.values(), strict=True)
        return {"lower": list(lower), "upper": list(upper)}


def prepare(command: str, given: Mapping[str, Any]) -> Fit:
    """Refuse everything that can be refused without reading rows, except what the estimators check."""
    from dpeigen import PrivateCovariance, PrivatePCA, PrivateRidge
    from dpeigen.privacy.ledger import ledger_for

    study = read_study(given["config"])

    def setting(name: str) -> Any:
        value = given.get(name)
        return value if value is not None else study.settings.get(name, _DEFAULTS.get(name))

    about = check_about({name: setting(name) for name in ABOUT}, f"dpeigen {command}")
    shared = _shared(setting) | _older_name(given, study)
    insists = f"'require_ledger' in {given['config']} says so" if setting("require_ledger") else ""
    ledger_for(shared["ledger"], f"dpeigen {command}", insists)
    source, box = _open(given, study, shared["unit"])
    counts = source.n_rows is None and shared["relation"] == "replace"
    if given["rows"] is not None and not (given["dry_run"] and counts):
        raise ValueError(
            "--rows is only for a --dry-run of a file that does not state its number of rows (a CSV), under "
            "relation='replace', where the number is public; with --unit it is the number of units. Leave it out."
        )
    if given["dry_run"] and counts:
        source.n_rows = given["rows"]  # as the caller says; a release counts
    names = source.feature_names or [f"x{j}" for j in range(source.n_features)]
    if box is not None:
        box = _whole(box, len(names))
    units = box if setting("rescale") else None
    if setting("rescale"):
        if box is None:
            raise ValueError(
                "Rescaling needs public bounds of every column: give --lower and --upper, or --limits (or 'lower' and "
                "'upper' in the file of --config) for each column; or leave it out with --no-rescale."
            )
        source, box = rescaled_source(source, box, names), ([0.0] * len(names), [1.0] * len(names))
    bound = box if box is not None else _bound(setting("bound"))
    shared["scale"] = _deviations(setting("scale"), len(names), units)
    if command == "pca":
        k = _required("components", setting("components"), "how many, for example 2, or 'private'")
        k = _number_of_components(k)
        return Fit(PrivatePCA(k, bound=bound, **shared), source, None, units, counts, about)
    if command == "covariance":
        return Fit(PrivateCovariance(bound=bound, **shared), source, None, units, counts, about)
    target = _target(setting("target"), source, names)
    if isinstance(bound, tuple):
        bound, shared["target_bounds"] = _without(bound, names.index(target))
    if isinstance(shared["scale"], list):
        shared["scale"].append(shared["scale"].pop(names.index(target)))
    alpha = setting("alpha")
    if isinstance(alpha, str) and alpha != "auto":
        alpha = number("alpha", alpha, "a number ≥ 0 or 'auto'")
    return Fit(PrivateRidge(alpha, bound=bound, **shared), source, target, units, counts, about)


def _shared(setting: Callable[[str], Any]) -> dict[str, Any]:
    """The parameters that all estimators have, but for the bound and the scale."""
    found = {name: setting(name) for name in ("delta", "method", "relation", "missing", "robust", "ledger", "max_rows")}
    found |= {name: None if setting(name) == "none" else setting(name) for name in ("units", "center", "unit")}
    what = "the privacy loss you can justify, for example 1"
    return found | {"epsilon": _required("epsilon", setting("epsilon"), what)}


def _target(name: str | None, source: Source, names: list[str]) -> str:
    """The column that a regression predicts."""
    from dpeigen.estimators.targets import refuse_category

    target: str = _required("target", name, "the name of the column to predict")
    refuse_category(target, source.schema)
    if target not in names:
        hint = nearest(target, names) or f"They are {names}."
        raise ValueError(f"--target must be one of the columns used. Got {target!r} instead. {hint}")
    return target


def _older_name(given: Mapping[str, Any], study: Study) -> dict[str, str]:
    """The value of ``on_bad_row``, as an option or in the file, if ``missing`` is not given with it."""
    if given.get("on_bad_row") is not None:
        return {"on_bad_row": given["on_bad_row"]} | ({} if given.get("missing") else {"missing": "refuse"})
    older = None if given.get("missing") else study.settings.get("on_bad_row")
    return {} if older is None else {"on_bad_row": older}


def _required(name: str, value: Any, what: str) -> Any:
    if value is None:
        raise ValueError(f"--{name} has no default: give {what}, here or as '{name}' in the file of --config.")
    return value


# --- data -----------------------------------------------------------------------------------------------------------


def _open(given: Mapping[str, Any], study: Study, unit: str | None) -> tuple[Source, Box | None]:
    """The source, and the public bounds of its columns, if there are any."""
    path: Path = given["file"]
    if not path.exists():
        raise UnreadableError(
            f"No such file or folder: {path}. Give the path of a CSV, Parquet or Feather file, or of a folder of them."
        )
    source, _ = open_columns(path, given, study, unit)
    lower, upper, bound = given["lower"], given["upper"], given["bound"]
    if lower is None and upper is None:
        return source, None if bound is not None else declared_bounds(source.schema or {}, study)
    if bound is not None:
        raise ValueError("Give either --bound or --lower and --upper, not both.")
    if lower is None or upper is None:
        raise ValueError("--lower and --upper go together: give both.")
    return source, (_numbers("lower", lower), _numbers("upper", upper))


def _number_of_components(given: Any) -> Any:
    """The number in a text; a share such as "0.95" becomes a number too, so that the refusal has a remedy."""
    for kind in (int, float):
        with contextlib.suppress(TypeError, ValueError):
            return kind(given) if isinstance(given, str) else given
    return given


def _bound(value: Any) -> Any:
    if isinstance(value, str) and value != "private":
        return number("bound", value, "a number or 'private'")
    if isinstance(value, (list, dict)):
        raise ValueError("'bound' must be a number or 'private'. Give bounds of columns with the columns.")
    return value


def _deviations(value: Any, d: int, units: Box | None) -> list[float] | str | None:
    """Public deviations of the d columns, "private" or None; in units of the bounds if columns are rescaled."""
    if value is None or value in ("private", "none"):
        return None if value == "none" else value
    must = f"'private', 'none', or positive numbers, one for each of the {d} columns used"
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    parts = [str(part) for part in parts]  # true is no number
    found = [number("scale", part, must) for part in parts]
    found = found * d if len(found) == 1 else found
    if len(found) != d:
        raise ValueError(f"--scale must be {must}. Got {len(found)} numbers instead.")
    return found if units is None else [s / (high - low) for s, low, high in zip(found, *units, strict=True)]


def _whole(box: Box, d: int) -> Box:
    """The bounds of d columns; a single number applies to all of them."""
    for option, side in zip(("lower", "upper"), box, strict=True):
        if len(side) not in (1, d):
            must = f"one number for all columns, or one for each of the {d} columns used, in their order"
            raise ValueError(f"--{option} must be {must}. Got {len(side)} numbers instead.")
    lower, upper = (side * d if len(side) == 1 else side for side in box)
    return lower, upper


def _without(box: Box, target: int) -> tuple[Box, tuple[float, float]]:
    """The bounds of the other columns, and those of the target."""
    lower, upper = box
    rest = [[value for j, value in enumerate(side) if j != target] for side in box]
    return (rest[0], rest[1]), (lower[target], upper[target])


def rescaled_source(source: Source, box: Box, names: list[str]) -> Source:
    """Rows with every column rescaled to [0, 1] by its bounds: a public function of each row alone."""
    import numpy as np

    from dpeigen.methods import check_bound
    from dpeigen.sources.mapped import mapped

    checked = check_bound(box, len(names), "--rescale")
    if not isinstance(checked, tuple):
        raise AssertionError("a pair is checked as a box")
    lower, upper = checked
    return mapped(source, partial(_to_unit, lower, np.subtract(upper, lower)), names)


def _to_unit(lower: Any, width: Any, block: Any) -> Any:
    import numpy as np

    rows = np.asarray(block, dtype=np.float64)
    largest = np.finfo(np.float64).max
    with np.errstate(over="ignore", invalid="ignore"):  # a finite entry stays finite: it is clipped, not a bad row
        moved = np.clip(rows - lower, -largest, largest)
        return np.where(np.isfinite(rows), np.clip(moved / width, -largest, largest), rows)


# --- text -----------------------------------------------------------------------------------------------------------


def _numbers(option: str, text: str) -> list[float]:
    return [number(option, part, "a number, or numbers separated by commas") for part in text.split(",")]


def number(option: str, text: str, must: str) -> float:
    """A number given as text."""
    try:
        return float(text)
    except (TypeError, ValueError):
        raise ValueError(f"--{option} must be {must}. Got {text!r} instead.") from None
