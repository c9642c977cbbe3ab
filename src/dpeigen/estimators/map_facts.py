"""The description of a score map: its guarantee, and the public facts that go with the released counts and sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpeigen._version import __version__
from dpeigen.estimators.rehearsal import missing_notes
from dpeigen.methods.score_map import CLASSES, DENSITY, MapEstimate, MapTask
from dpeigen.privacy import Guarantee, Relation, Spend
from dpeigen.release import Release
from dpeigen.score_map import ScoreMap
from dpeigen.stats.cells import COUNT_WEIGHT
from dpeigen.stats.lattice import LEVELS

__all__ = ["described_map", "map_guarantee"]

_FILLED = "A missing or unreadable cell was replaced by the released centre of its column."


def map_guarantee(
    release: Release, task: MapTask, split: tuple[Spend, ...], missing: str, *, seeded: bool
) -> Guarantee:
    """The guarantee of the map alone, with notes on the release that defines the plane."""
    notes: tuple[str, ...] = ("The plane comes from a release of the same rows, whose cost adds to this one.",)
    if not release.guarantee.is_private:
        notes += ("That release is not private, so the two together are not.",)
    elif release.guarantee.basis != "worst-case":
        notes += ("That release is private only under its assumptions, and so are the two together.",)
    notes += (_FILLED,) if missing == "correct" else missing_notes(missing)
    return Guarantee(
        epsilon=task.epsilon,
        delta=0.0,
        relation=task.relation,
        mechanism="score-map",
        split=split,
        numerics="seeded" if seeded else "exact",
        reference="dpeigen; cf. Qardaji, Yang, Li 2013",
        notes=notes,
        unit=release.unit,
    )


def described_map(
    release: Release,
    estimate: MapEstimate,
    task: MapTask,
    axes: list[int],
    labels: Sequence[Any],
    guarantee: Guarantee,
) -> ScoreMap:
    """The published map: noisy counts and sums, and facts that are public or from the release."""
    scales, first = task.scales(), release.guarantee
    return ScoreMap(
        counts=estimate.counts.astype(np.float64),
        class_counts=estimate.class_counts,
        class_sums=estimate.class_sums,
        window=task.view.window,
        clip=task.view.clip,
        components=task.view.directions,
        labels=tuple(str(label) for label in labels),
        guarantee=guarantee,
        facts={  # type: ignore[arg-type]
            "n_rows": estimate.n_rows,
            "n_rows_is": "public" if task.relation is Relation.REPLACE else "released",
            "by_class": task.by_class,
            "axes": axes,
            "count_deviation": _laplace_deviation(scales[DENSITY]),
            "sum_deviation": 2**0.5 * scales[CLASSES] / LEVELS if CLASSES in scales else None,
            "class_count_deviation": 2**0.5 * scales[CLASSES] / COUNT_WEIGHT if CLASSES in scales else None,
            "release_cost": [first.epsilon, first.delta],
            "release_method": first.mechanism,
            "release_is_private": first.is_private,
            "release_basis": first.basis,
            "variances": [float(release.eigenvalues[axis]) for axis in axes],
            "total_variance": float(np.trace(release.covariance)),
            "feature_names": release.feature_names,
            "column_labels": release.labels,
            "told_from_noise": [bool(release.is_resolved(axis)) for axis in axes],
            "loading_intervals": _loading_intervals(release, axes),
            "scale": None if release.scale is None else release.scale.tolist(),
            "estimand": release.estimand,
            "dpeigen": __version__,
        },
    )


def _loading_intervals(release: Release, axes: list[int]) -> list[Any] | None:
    """Low and high ends of the loadings of both axes: computed from the release, so they cost nothing."""
    return [side[axes].tolist() for side in found.components] if (found := release.usual_intervals) else None


def _laplace_deviation(scale: float) -> float:
    """The standard deviation of discrete Laplace noise."""
    rate = np.exp(-1 / scale)
    return float(np.sqrt(2 * rate) / (1 - rate))
