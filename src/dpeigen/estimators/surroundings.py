"""Warnings about the callers of a fit: pipelines whose earlier steps learnt from the rows, and searches that fit often.

Neither is covered by the guarantee of one fit, and both are easy to write in scikit-learn, so there is a warning.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from typing import Any

from dpeigen.privacy.randomness import NotPrivateWarning

__all__ = ["RepeatedFitsWarning", "learnt", "look_around"]

# Fitted attributes that depend only on the names and the number of columns.
_OF_COLUMNS = {"n_features_in_", "feature_names_in_", "n_output_features_", "n_features_out_"}
_said: set[str] = set()  # each warning is given once per process


class RepeatedFitsWarning(UserWarning):
    """The costs of several fits of the same rows add up, and nothing keeps the total."""


def look_around(estimator: Any, *, alone: bool) -> None:
    """Warn about the callers of a fit; ``alone``: about repeated fits too, because no ledger adds up their costs."""
    owner = type(estimator).__name__
    pipelines: dict[int, list[Any]] = {}
    search = False
    frame: Any = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        # Only scikit-learn's frames are inspected: reading f_locals makes a frame keep its variables, including rows.
        caller = frame.f_locals.get("self") if module == "sklearn.pipeline" else None
        if caller is not None and hasattr(caller, "steps"):
            # The innermost call knows the current step: the last step is fitted by another function than the others.
            until = frame.f_locals.get("step_idx", -1) if frame.f_code.co_name == "_fit" else -1
            pipelines.setdefault(id(caller), list(caller.steps[:until]))
        search = search or module.startswith("sklearn.model_selection")
        frame = frame.f_back
    steps = [f"{name} ({type(step).__name__})" for found in pipelines.values() for name, step in found if learnt(step)]
    if steps:
        warnings.warn(
            f"Steps before {owner} in the pipeline learnt from the rows without noise: {', '.join(steps)}. The "
            "guarantee does not cover what they learnt, or anything computed from it. Leave them out: use "
            "scale='private', public numbers, or sklearn.frozen.FrozenEstimator of a step fitted to public rows.",
            NotPrivateWarning,
            stacklevel=4,
        )
    if search and alone and not _said:
        _said.add(owner)
        warnings.warn(
            f"{owner} is fitted many times by scikit-learn's model selection. Each fit spends its epsilon on the same "
            "rows. These costs add up, and without a ledger nothing keeps the total. The scores are not private "
            "either. Give ledger=…, or choose without the private rows: n_components='private', dpeigen.planner, or a "
            "search on public or synthetic rows.",
            RepeatedFitsWarning,
            stacklevel=4,
        )


def learnt(step: Any) -> bool:
    """Whether a fitted step of scikit-learn, or one inside it, contains anything learnt from rows."""
    inside = _inside(step)
    if inside is not None:
        return any(learnt(part) for part in inside)
    if hasattr(step, "release_") or type(step).__module__ == "sklearn.random_projection":
        return False  # paid for, or drawn independently of the rows
    listed = getattr(step, "categories", "auto")
    declared = not isinstance(listed, str)  # for encoders: whether the lists were given
    fitted = [name for name in getattr(step, "__dict__", {}) if name.endswith("_") and not name.startswith("_")]
    return not declared and not _OF_COLUMNS.issuperset(fitted)


def _inside(step: Any) -> Iterable[Any] | None:
    """The steps of a pipeline, a union or a column transformer."""
    for name in ("steps", "transformer_list", "transformers_"):
        found = getattr(step, name, None)
        if isinstance(found, list):
            return [part[1] for part in found]
    return None
