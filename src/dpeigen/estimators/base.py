"""The steps from a call of ``fit`` to a release, shared by all estimators.

The order matters: the source is opened, parameters are checked, the method is chosen and checks the task, the ledger
reserves the cost, and only then is a value read. (If the number of rows is public but a file does not state it, the
file is read once before, to count them.) A refusal before the end of the first pass over the rows spends nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from dpeigen._types import Floats
from dpeigen._validate import check_choice, check_count, check_delta, check_epsilon, check_flag, complain
from dpeigen.estimators.counted import counted
from dpeigen.estimators.course import PaidCourse, refusal
from dpeigen.estimators.describe import describe, row_notes
from dpeigen.estimators.missing import MissingCells
from dpeigen.estimators.mixed import MixedColumns, warn_of_ids
from dpeigen.estimators.record import about, per_unit, planned_split, unit_of
from dpeigen.estimators.rehearsal import FitPlan, rehearse
from dpeigen.estimators.surroundings import look_around
from dpeigen.methods import Estimate, Method, Task, check_bound, check_center, check_method, resolve
from dpeigen.methods.auto import resolve_with_reasons
from dpeigen.methods.base import Box, run_method
from dpeigen.methods.foreseen import only_noise, refuse_random_directions, warn_of_noise
from dpeigen.methods.public_facts import check_scale_of_columns
from dpeigen.methods.wrapped import itself
from dpeigen.privacy import Budget, Relation, randomness
from dpeigen.privacy.guarantee import WeakBudgetWarning, weak_budget
from dpeigen.privacy.ledger import Ledger, ledger_for
from dpeigen.privacy.randomness import NotPrivateWarning
from dpeigen.release import Release
from dpeigen.sources import ArraySource, Source
from dpeigen.sources.base import UnreadableRowsError
from dpeigen.sources.columns import NO_COLUMNS
from dpeigen.sources.memory import RefusedSource
from dpeigen.sources.opening import as_table, open_units
from dpeigen.sources.progress import rows_are_public
from dpeigen.sources.units import UnitSource
from dpeigen.stats import BadRowsError
from dpeigen.stats.together import MOST_CAPPED

__all__ = ["Finish", "PrivateEstimator", "check_robust"]

Finish = Callable[[Release, Method], Release]


class PrivateEstimator(MixedColumns, MissingCells, BaseEstimator):
    """The base class of the estimators."""

    def _ledger(self) -> Ledger | None:
        """The ledger of this estimator; refuses if one is mandatory and missing. Called before any row is read."""
        return ledger_for(self.ledger, type(self).__name__)

    def _open(self, X: Any, unit: Any = None) -> Source:
        """A source for X; sets ``n_features_in_`` and ``feature_names_in_``.

        ``unit`` is the argument of ``fit``, which overrides the parameter.
        """
        owner, unit = type(self).__name__, getattr(self, "unit", None) if unit is None else unit
        max_rows = getattr(self, "max_rows", None)
        max_rows = None if max_rows is None else check_count("max_rows", max_rows, owner, high=MOST_CAPPED)
        if unit is None and not isinstance(X, UnitSource):
            if max_rows is not None:
                remedy = "It limits the rows of one unit."
                raise ValueError(complain("max_rows", owner, "None without 'unit'", max_rows, remedy))
            source = self._open_rows(X)
            warn_of_ids(source.feature_names or list(getattr(self, "feature_names_in_", ())))
            return source
        if isinstance(X, UnitSource) and isinstance(unit, str) and unit != X.name:
            raise ValueError(complain("unit", owner, f"{X.name!r}, that of the source", unit))
        given = getattr(self, "columns", None), None, None
        found = (
            copy(X) if isinstance(X, UnitSource) else open_units(X, unit, self._open_rows, *given, name=self._said())
        )
        found.check_width()
        self._take_names(found)
        found.max_rows = max_rows
        found.thinned = max_rows is not None and self.relation == Relation.ADD_REMOVE
        return found

    def _said(self) -> str | None:
        """The name of the unit from the parameter, if ids are given to ``fit``."""
        unit = getattr(self, "unit", None)
        return unit if isinstance(unit, str) and unit.strip() else None

    def _open_rows(self, X: Any) -> Source:
        """A source for rows without ids."""
        self._refuse_unknown_width(X)
        source = self._open_declared(X)
        if source is None:
            # The statistics always check that entries are finite; scikit-learn's own check can be switched off.
            # If the number of rows is private, an error "too few rows" would reveal something about it.
            return self._array_source(X, ensure_min_samples=0 if self.relation == Relation.ADD_REMOVE else 2)
        source.check_width()
        self._take_names(source)
        return source

    def _take_names(self, source: Source) -> None:
        self.n_features_in_ = source.n_features
        if source.feature_names is not None:
            self.feature_names_in_ = np.array(source.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _array_source(self, X: Any, **options: Any) -> Source:
        """A source for anything that scikit-learn reads as a table; cells of lists and objects are read one by one."""
        known = None if options.get("reset", True) else self.n_features_in_
        table, misfits = as_table(X, known)
        array = self._table(table, dtype="numeric", ensure_all_finite=False, **options)
        if array.dtype.kind not in "fiub":
            raise ValueError(f"X must hold real numbers. Got an array of dtype {array.dtype}.")
        names = getattr(self, "feature_names_in_", None)
        kind = RefusedSource if misfits and self._missing() == "refuse" else ArraySource
        return kind(array, None if names is None else list(names), typed=isinstance(X, np.ndarray))

    def _refuse_unknown_width(self, X: Any) -> None:
        """Under add/remove, always refuse data whose number of columns is known from the rows only.

        A table without rows and one with a single row are neighbours there, and an error must not distinguish them.
        """
        if isinstance(X, Source):
            by_rows = not X.width_declared
        else:  # by the type, because a lazy table would run a computation to answer
            told = any(hasattr(type(X), name) for name in ("__array__", "shape", "columns", "schema"))
            by_rows = not told and not isinstance(X, (str, Path))
        if by_rows and self.relation == Relation.ADD_REMOVE:
            must = "a table whose number of columns is known without its rows, under relation='add_remove'"
            remedy = (
                "Give an array of shape (rows, columns), a data frame or a file; blocks as "
                "dpeigen.sources.BlockSource(blocks, n_features=…)."
            )
            raise ValueError(complain("X", type(self).__name__, must, f"a {type(X).__name__}", remedy))

    def _table(self, X: Any, **options: Any) -> Any:
        """X as scikit-learn reads tables, but with errors that contain no entry of X.

        A column of ids is not a feature, and is skipped.
        """
        unit, names = getattr(self, "unit", None), getattr(X, "columns", ())
        if isinstance(unit, str) and type(X).__module__.split(".")[0] in ("pandas", "polars") and unit in names:
            X = X[[name for name in names if name != unit]]
        try:
            return validate_data(self, X, **options)
        except (TypeError, ValueError) as error:
            message, kind = _discreet(str(error)), TypeError if isinstance(error, TypeError) else ValueError
        raise kind(message)  # outside the handler, so that the old error is not attached as context

    def _bound_and_center(self, d: int, owner: str) -> tuple[float | Box | str | None, Floats | str | None]:
        """The checked parameters, for rows of d columns."""
        return check_bound(self.bound, d, owner), check_center(self.center, d, owner)

    def _scale(self, d: int, owner: str) -> Floats | str | None:
        """The checked parameter."""
        return check_scale_of_columns(self.scale, d, owner)

    def _task(self, source: Source, n_components: int | None, shrink: bool, *, count: bool = True) -> Task:
        owner, d = type(self).__name__, source.n_features
        relation = Relation.parse(self.relation, owner)
        budget = Budget(check_epsilon(self.epsilon, owner), check_delta(self.delta, owner))
        check_method(self.method, owner, budget.delta)
        bound, center = self._bound_and_center(d, owner)
        if self.ledger is not None:
            # Checked before a file is read to count its rows.
            Ledger.at(self.ledger).require(Budget(budget.epsilon), split_unknown=True)
        n_rows = self._count(source) if relation is Relation.REPLACE and count else None
        if n_rows is not None and n_rows < 2:
            units = isinstance(source, UnitSource)
            of_whom = f"rows of at least 2 different units ({unit_of(source)!r})" if units else "at least 2 rows"
            raise ValueError(f"X must hold {of_whom}. Got {n_rows} instead. A release needs more rows.")
        robust = check_flag("robust", self.robust, owner)
        if self.units is not None:
            check_choice("units", self.units, ["same"], owner)
        return Task(
            owner=owner,
            n_features=d,
            n_components=n_components,
            budget=budget,
            relation=relation,
            bound=bound,
            center=center,
            n_rows=n_rows,
            missing=self._missing(warn=True),
            shrink=shrink,
            scale=(scale := self._scale(d, owner)),
            indicators=self._indicators(source, scale, center, owner),
            spans=self._spans(source, owner),
            robust=robust,
            same_units=self.units is not None,
            unit=unit_of(source),
            max_rows=source.max_rows if isinstance(source, UnitSource) else None,
        )

    def _count(self, source: Source) -> int:
        """The number of rows, which is public here; a failure to count them is recorded."""
        try:
            return source.count_rows()
        except BadRowsError as error:
            if self.ledger is not None:
                Ledger.at(self.ledger).refused("counting the rows", refusal(error))
            raise

    def _release(self, source: Source, task: Task, kind: str, finish: Finish) -> Release:
        """Reserve, draw, keep, commit. ``finish`` completes the release and stores it on the estimator."""
        method, choice = resolve_with_reasons(self.method, task)
        check_robust(method, task)
        refuse_random_directions(method, task, self.method)
        _refuse_second_passes(source, method, task)
        rng = randomness(self.random_state)
        ledger = self._ledger()
        look_around(self, alone=ledger is None and not rng.seeded)
        cost = method.price(task)
        if method.basis != "worst-case":
            warnings.warn(_caution(method, task), NotPrivateWarning, stacklevel=3)
        warn_of_noise(method, task, self.method)
        if not rng.seeded and (text := weak_budget(cost.epsilon, cost.delta, task.n_rows, task.unit)):
            warnings.warn(f"{text} Nothing has been spent yet.", WeakBudgetWarning, stacklevel=3)
        what = f"{kind} by {method.name}" + (" (seeded: not private)" if rng.seeded else "")
        what += "" if method.basis == "worst-case" else f" (basis: {method.basis})"
        what += per_unit(task.unit)
        course = PaidCourse(source, ledger)
        planned = planned_split(method, task) if ledger and ledger.wants_split else None
        course.reserve(cost, what, task.relation, split=planned, about=about(method, task, kind, rng.seeded))

        def described(estimate: Estimate) -> Release:
            ticket = {"release_id": course.ticket} if ledger else {}
            found = describe(
                estimate, method, task, cost, kind, source, seeded=rng.seeded, choice=choice, ticket=ticket
            )
            return counted(found, method)

        with rows_are_public(task.relation is Relation.REPLACE and unit_of(source) == "row"):
            return course.release(
                lambda: run_method(method, source, task, rng), described, lambda made: finish(made, method)
            )

    def _plan(self, source: Source, task: Task) -> FitPlan:
        """The plan of a fit; reads and spends nothing (but see `_task` for rows that must be counted)."""
        counting = task.relation is Relation.REPLACE and source.n_rows is None
        method = resolve(self.method, task)
        check_robust(method, task)
        refuse_random_directions(method, task, self.method)
        found = rehearse(method, task, counting=counting)
        weak = weak_budget(found.cost.epsilon, found.cost.delta, task.n_rows, task.unit)
        guarantee = found.guarantee.with_notes(*row_notes(source, task))
        return replace(found, guarantee=guarantee, only_noise=only_noise(method, task, self.method), weak=weak)

    def _check_fitted(self) -> None:
        check_is_fitted(self, "release_")


def check_robust(method: Method, task: Task) -> None:
    """Refuse a named method whose directions are not robust if robust ones are asked for."""
    if task.robust and not itself(method).robust:
        must = f"False for method={method.name!r}, whose directions are those of the covariance"
        remedy = "Use method='auto', or 'spatial-sign', 'refined' or 'kendall'."
        raise ValueError(complain("robust", task.owner, must, True, remedy))


def _refuse_second_passes(source: Source, method: Method, task: Task) -> None:
    """Refuse, before anything is spent, a method that reads rows more than once if they can be read only once."""
    passes = 0 if method.holds_rows or not source.read_once else rehearse(method, task, counting=False).passes
    if passes + (task.max_rows is not None) > 1:  # one more to find the joint lengths of units first
        raise UnreadableRowsError(
            f"The blocks come from a generator, which can be read only once, and method={method.name!r} takes more "
            "passes. Give BlockSource a function that makes it, or a method that reads once, such as 'gaussian' with a "
            "public bound. Nothing was spent."
        )


def _caution(method: Method, task: Task) -> str:
    reasons = "; ".join(method.assumptions(task))
    if method.basis == "none":
        return f"method={method.name!r} is NOT private: {reasons}."
    return f"The guarantee of method={method.name!r} is not worst-case. It holds only if: {reasons}."


_WITHOUT_VALUES = (
    "Found array with",
    "Sparse data",
    "X has ",
    "The feature names",
    "Feature names",
    "Input X contains",
)


def _discreet(message: str) -> str:
    """scikit-learn's message if it is known to contain no entry of the table, else our own."""
    if message.startswith(_WITHOUT_VALUES):
        return message
    if "omplex data" in message:
        return "Complex data not supported: X must hold real numbers. Give real and imaginary parts as columns."
    if message.startswith("at least one array"):
        return NO_COLUMNS
    if message.startswith(("Expected 2D", "Expected a 2-dimensional")):
        return (
            "X must be two-dimensional, rows × features. Reshape your data: X.reshape(-1, 1) for a single column, "
            "X.reshape(1, -1) for a single row."
        )
    if "inhomogeneous" in message:
        return "X must be a table: its rows differ in length."
    return (
        "X must hold real numbers: an entry's argument must be a string of digits or a number. "
        "Encode text and dates as numbers, or leave those columns out."
    )
