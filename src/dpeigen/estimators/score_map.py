"""`PrivateScoreMap`: a map of the rows on the plane of two released components, under differential privacy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dpeigen._arithmetic import own_error_state
from dpeigen._validate import check_choice, check_count, check_epsilon, check_fraction, complain
from dpeigen.estimators.base import PrivateEstimator
from dpeigen.estimators.course import PaidCourse
from dpeigen.estimators.map_checks import check_labels, check_plane, plain_labels, window_and_clip
from dpeigen.estimators.map_facts import described_map, map_guarantee
from dpeigen.estimators.record import per_unit, unit_fact, unit_of
from dpeigen.estimators.rehearsal import FitPlan
from dpeigen.methods.score_map import MapEstimate, MapTask, cells_for, run_map
from dpeigen.privacy import Budget, Guarantee, Relation, Spend, randomness
from dpeigen.privacy.ledger import Ledger
from dpeigen.release import Release
from dpeigen.score_map import ScoreMap
from dpeigen.sources import Source, open_source
from dpeigen.sources.labelled import Labelled
from dpeigen.sources.opening import open_units
from dpeigen.sources.progress import rows_are_public
from dpeigen.sources.units import UnitsByPlace, UnitSource
from dpeigen.stats import Frame
from dpeigen.stats.cells import PlaneView

__all__ = ["PrivateScoreMap"]

_DENSITY_SHARE = {"centroids": 0.25, "density": 0.5}


class PrivateScoreMap(PrivateEstimator):
    """A private density of the scores, and private centres of classes, on the plane of two released components.

    The release is public, so the plane and the window cost nothing. The map is ε-differentially private (δ = 0) about
    the same neighbours as the release; the two costs add up. Plane, window, grid and list of labels are public.

    Parameters
    ----------
    release : Release
        A release of the same table, with at least two components and a centre. Rows are divided by its ``scale``.
    epsilon : float
        Privacy loss ε > 0 of the map. There is no default.
    labels : list of names or numbers, default=None
        Public list of the classes. It must not be made from the data. Rows with another label belong to no class.
    label : str, default=None
        Name of the column of labels, for tables with named columns; or give ``y`` to `fit`.
    by_class : {"centroids", "density"}, default="centroids"
        With labels, the centre of each class on a density of all rows, or a density for each class as well.
    axes : pair of int, default=(0, 1)
        The indices of the two components.
    window : ((x0, x1), (y0, y1)) or None, default=None
        Public window in scores; None: three standard deviations about the centre, from the released variances.
    cells : int or "auto", default="auto"
        Cells along an axis; "auto": from ε and the public or released number of rows.
    density_share : float or None, default=None
        The share of ε for the density if there are labels; None: a quarter, or half for a density of each class.
    ledger : path, postgresql:// URL or Ledger, default=None
        The ledger that keeps the budget of the data set.
    random_state : int, Generator or None, default=None
        For tests and papers only: a seeded release is not private, and is marked as such.
    unit : str or None, default=None
        The name of the column of ids, as in `PrivatePCA`; None: that of the release. The map must
        protect the same unit as the release. One row of each unit, drawn at random, is on the map.
    missing : {"refuse", "correct", "drop"}, default="refuse"
        As in `PrivatePCA`, but with "correct" a missing cell is replaced by the released centre of its column.
    on_bad_row : str, default=None
        Deprecated: use ``missing``.

    Attributes
    ----------
    map_ : `ScoreMap`, the only thing that the fit took from the data.
    guarantee_ : `Guarantee` of the map alone; ``map_.total`` adds the release.
    n_features_in_, feature_names_in_ : public facts.

    Examples
    --------
    >>> import numpy as np
    >>> from dpeigen import PrivatePCA, PrivateScoreMap
    >>> X = np.random.default_rng(0).normal(size=(5000, 4)) * [3, 2, 1, 1]
    >>> release = PrivatePCA(2, epsilon=1.0, delta=1e-6, bound=9.0).fit(X).release_
    >>> PrivateScoreMap(release, epsilon=1.0).fit(X).map_
    ScoreMap(16 × 16 cells, ε = 1)
    """

    def __init__(
        self,
        release: Release,
        *,
        epsilon: float,
        labels: Sequence[Any] | None = None,
        label: str | None = None,
        by_class: str = "centroids",
        axes: tuple[int, int] = (0, 1),
        window: Any = None,
        cells: int | str = "auto",
        density_share: float | None = None,
        ledger: str | Ledger | None = None,
        random_state: Any = None,
        unit: str | None = None,
        missing: str = "refuse",
        on_bad_row: str | None = None,
    ) -> None:
        self.release = release
        self.epsilon = epsilon
        self.labels = labels
        self.label = label
        self.by_class = by_class
        self.axes = axes
        self.window = window
        self.cells = cells
        self.density_share = density_share
        self.ledger = ledger
        self.random_state = random_state
        self.unit = unit
        self.missing = missing
        self.on_bad_row = on_bad_row

    @property
    def relation(self) -> Relation:
        """The neighbouring relation of the release: costs under different relations cannot be added."""
        return self.release.guarantee.relation

    @own_error_state
    def fit(self, X: Any, y: Any = None, *, unit: Any = None) -> PrivateScoreMap:
        """Release the map of X, the table of the release.

        Parameters
        ----------
        X : array, data frame, Arrow table, path of a file, or source
            The table of the release: anything that `dpeigen.sources.open_source` accepts, or a source that it made
            (then with the label's categories declared).
        y : (n,) array or None, default=None
            Labels, one for each row, unless the ``label`` parameter names their column.
        unit : array of n ids, str or None, default=None
            The id of each row's unit: ids in the order of the rows, or the name of a column of X. None: the ``unit``
            parameter.

        Returns
        -------
        PrivateScoreMap
            The fitted estimator itself; ``map_`` is the map.
        """
        ledger = self._ledger()
        source, task = self._prepare(X, y, unit)
        rng = randomness(self.random_state)
        what = "score map" + (" (seeded: not private)" if rng.seeded else "") + per_unit(self.release.unit)
        about = {"kind": "score map", "basis": "worst-case", "seeded": rng.seeded, "columns": self.release.n_features,
                 **unit_fact(self.release.unit)}  # fmt: skip
        course = PaidCourse(source, ledger)
        course.reserve(Budget(task.epsilon), what, task.relation, split=task.spends(), about=about)
        with rows_are_public(task.relation is Relation.REPLACE and unit_of(source) == "row"):
            describe = partial(self._describe, task=task, seeded=rng.seeded)
            course.release(lambda: run_map(source, task, rng), describe, self._publish)
        return self

    def _publish(self, found: ScoreMap) -> ScoreMap:
        self.map_, self.guarantee_ = found, found.guarantee
        return found

    def explain(self, X: Any, y: Any = None, *, unit: Any = None) -> FitPlan:
        """Say what `fit` would pay for, and how often it would read X. Spends nothing and reads no value.

        Parameters
        ----------
        X : table
            As for `fit`.
        y : labels or target
            As for `fit`.
        unit : ids, name or None
            As for `fit`.

        Returns
        -------
        FitPlan
            The plan; printing it shows the guarantee and what would be measured.
        """
        _, task = self._prepare(X, y, unit)
        promise = self._promise(task, task.spends(), seeded=False)
        return FitPlan("score-map", Budget(task.epsilon), task.spends(), passes=1, counting=False, guarantee=promise)

    def _prepare(self, X: Any, y: Any, unit: Any = None) -> tuple[Source, MapTask]:
        """Source and task, with all checks that are possible before a row is read."""
        self._check_parameters(y)
        source, features, classes = self._places(X, y, unit)
        task = self._map_task(features, classes)
        task.check()
        return source, task

    def _check_parameters(self, y: Any) -> None:
        owner = type(self).__name__
        if not isinstance(self.release, Release):  # the message contains no value: the argument may be rows
            kind = type(self.release).__name__
            raise TypeError(f"The 'release' parameter of {owner} must be a Release. Got an object of type {kind}.")
        if self.release.mean is None:
            raise ValueError(
                f"The 'release' parameter of {owner} must have a centre, and this one has none. Make a release with "
                "a public centre, or with center='private' and a method by name, such as 'spatial-sign'."
            )
        check_plane(self.release, owner)
        check_epsilon(self.epsilon, owner)
        check_choice("by_class", self.by_class, list(_DENSITY_SHARE), owner)
        self._missing(warn=True)
        check_labels(self.labels, y, self.label, self.by_class, owner)

    def _by_unit(self, X: Any, unit: Any) -> Source:
        """The table as a source of rows, or of rows that belong to the unit of the release."""
        protected = self.release.unit
        unit = self.unit if unit is None else unit
        unit = protected if unit is None and protected != "row" and not isinstance(X, UnitSource) else unit
        if unit is None and not isinstance(X, UnitSource):
            return self._source(X, self.label)
        label = self.label

        def rows(rest: Any) -> Source:
            return self._source(rest, label)

        source = X if isinstance(X, UnitSource) else open_units(X, unit, rows, self._columns(label), None, None)
        if unit_of(source) != protected:
            remedy = "The map and the release must protect the same unit; otherwise their costs do not add up."
            raise ValueError(complain("unit", type(self).__name__, f"{protected!r}, that of the release",
                                      unit_of(source), remedy))  # fmt: skip
        return source

    def _places(self, X: Any, y: Any, unit: Any) -> tuple[Source, tuple[int, ...], tuple[int, ...]]:
        """A source, and the indices of its columns that are features and classes."""
        source, labels = self._by_unit(X, unit), plain_labels(self.labels)
        have, width = source.feature_names or [], source.n_features
        if y is not None:
            plain = source.plain if isinstance(source, UnitsByPlace) else source
            labelled, classes = Labelled(plain, y, labels), tuple(range(width, width + len(labels)))
            source = source.over(labelled) if isinstance(source, UnitsByPlace) else labelled
        else:
            wanted = [f"{self.label}={value}" for value in labels]
            missing = [name for name in wanted if name not in have]
            if missing:
                raise ValueError(f"The source has no columns {missing}. Declare the categories of {self.label!r}.")
            classes = tuple(have.index(name) for name in wanted)
        names = self.release.facts.get("feature_names")
        if names and set(names) <= set(have):
            return source, tuple(have.index(name) for name in names), classes
        features = tuple(i for i in range(width) if i not in classes)
        self._check_width(len(features), names and have)
        return source, features, classes

    def _source(self, X: Any, label: str | None) -> Source:
        """The table as a source: with columns by name if table and release have names."""
        if isinstance(X, Source):
            self._refuse_unknown_width(X)
            X.check_width()
            return X
        names = self.release.facts.get("feature_names")
        if _has_names(X) and (names or label is not None):
            return open_source(X, columns=self._columns(label))
        source = self._open_rows(X)
        if label is not None:
            raise ValueError(f"These data have no column names, so there is no column {label!r}: give y to fit.")
        self._check_width(source.n_features, names and source.feature_names)
        return source

    def _columns(self, label: str | None) -> dict[Any, Any] | None:
        """The columns of the release with their declarations, and the column of labels."""
        names = self.release.facts.get("feature_names")
        found: dict[Any, Any] = dict(self.release.columns or dict.fromkeys(names or ()))
        if label is not None:
            found[label] = {"categories": plain_labels(self.labels)}
        return found if names else {**found, ...: None} if found else None

    def _check_width(self, n_features: int, renamed: Any) -> None:
        if renamed or n_features != self.release.n_features:
            raise ValueError(
                f"The table must have the {self.release.n_features} columns of the release: "
                f"{self.release.feature_names}."
            )

    def _map_task(self, features: tuple[int, ...], classes: tuple[int, ...]) -> MapTask:
        owner, release = type(self).__name__, self.release
        k = len(release.components) - 1
        if not isinstance(self.axes, Sequence) or len(self.axes) != 2 or self.axes[0] == self.axes[1]:
            raise ValueError(complain("axes", owner, "two different components", self.axes))
        axes = [check_count("axes", axis, owner, low=0, high=k) for axis in self.axes]
        window, clip = window_and_clip(self.window, release, axes, owner)
        weights = None if release.scale is None else 1 / release.scale
        frame = Frame(release.n_features, release.mean, weights, missing=self._missing())
        view = PlaneView(frame, release.components[axes], window, clip, features, classes)
        share = _DENSITY_SHARE[self.by_class]
        if self.density_share is not None:
            share = check_fraction("density_share", self.density_share, owner)
        by_class = self.by_class == "density"
        spent = float(self.epsilon) * (share if classes else 1.0)
        groups = len(classes) if by_class else 1
        cells = cells_for(release.facts.get("n_rows"), spent, self.relation, groups)
        if not (isinstance(self.cells, str) and self.cells == "auto"):
            cells = check_count("cells", self.cells, owner, low=2, high=512)
        return MapTask(float(self.epsilon), self.relation, view, by_class, cells, share)

    def _promise(self, task: MapTask, split: tuple[Spend, ...], *, seeded: bool) -> Guarantee:
        return map_guarantee(self.release, task, split, self._missing(), seeded=seeded)

    def _describe(self, estimate: MapEstimate, task: MapTask, *, seeded: bool) -> ScoreMap:
        guarantee = self._promise(task, estimate.split, seeded=seeded)
        axes = [int(axis) for axis in self.axes]
        return described_map(self.release, estimate, task, axes, plain_labels(self.labels), guarantee)


def _has_names(X: Any) -> bool:
    """Whether a table or file has named columns; by its type, because a lazy table would run a computation."""
    known = isinstance(X, (str, Path)) or type(X).__module__.split(".")[0] == "pyarrow"
    return known or hasattr(type(X), "columns")
