"""Checks of what a score map is made from: the plane of a release, the public list of labels, and the window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import complain
from dpeigen.release import Release
from dpeigen.score_map import CLIP, REACH
from dpeigen.stats.frame import LARGEST_FACT

__all__ = ["check_labels", "check_plane", "plain_labels", "window_and_clip"]


def check_plane(release: Release, owner: str) -> None:
    """Check directions and centre: scores are exact for unit directions and moderate centres only."""
    components, mean, n = release.components, release.mean, release.facts.get("n_rows")
    scale = np.ones(1) if release.scale is None else release.scale
    sound = bool(scale.min() > 1 / LARGEST_FACT and scale.max() < LARGEST_FACT)
    sound = sound and bool(np.abs(components).max(initial=0.0) < 2 and np.abs(mean).max(initial=0.0) < LARGEST_FACT)  # type: ignore[arg-type]
    sound = sound and bool(np.abs(components @ components.T - np.eye(len(components))).max(initial=0.0) < 1e-6)
    if not sound or not (n is None or n >= 1):
        remedy = "It was not made by this library, or was changed."
        must = "one with orthonormal components, a centre and a scale of usual size and a positive number of rows"
        raise ValueError(complain("release", owner, must, "another one", remedy))


def check_labels(given: Any, y: Any, label: str | None, by_class: str, owner: str) -> None:
    """Check the list of labels, and that either a column or y holds them."""
    if given is None:
        if y is not None or label is not None:
            remedy = "A list made from the data would reveal which labels occur."
            raise ValueError(complain("labels", owner, "the public list of labels, where there are any", None, remedy))
        if by_class == "density":
            raise ValueError(complain("by_class", owner, "'centroids' without labels", by_class))
        return
    must = "a list of different names or numbers"
    if isinstance(given, str) or not isinstance(given, (Sequence, np.ndarray)):
        raise TypeError(complain("labels", owner, must, given))
    labels = plain_labels(given)
    known = all(isinstance(v, (str, int, float)) and not isinstance(v, bool) for v in labels)
    if not labels or not known or len(set(labels)) < len(labels):
        raise ValueError(complain("labels", owner, must, labels))
    if (y is None) == (label is None):
        remedy = "Name the column of the table that holds them, or give y to fit, not both."
        raise ValueError(complain("label", owner, "given with 'labels', or y", label, remedy))


def plain_labels(given: Any) -> list[Any]:
    """The public list of labels, in Python's own types."""
    return [value.item() if isinstance(value, np.generic) else value for value in (() if given is None else given)]


def window_and_clip(given: Any, release: Release, axes: list[int], owner: str) -> tuple[Floats, Floats]:
    """The window, and the half-axes for clipping: 2.5 standard deviations if the window has 3."""
    if given is None:
        variances = np.maximum(release.eigenvalues[axes], release.noise_variance)
        half = REACH * np.sqrt(variances)
        if not (half > 0).all():
            remedy = "The release found no variance along these components: give a window."
            raise ValueError(complain("window", owner, "public: ((x0, x1), (y0, y1))", None, remedy))
        window = np.column_stack([-half, half])
    else:
        must = "((x0, x1), (y0, y1)) with x0 < x1 and y0 < y1"
        try:
            window = np.array(given, dtype=np.float64)
        except (TypeError, ValueError):
            window = np.zeros(0)
        sound = window.shape == (2, 2) and (np.abs(window) < LARGEST_FACT).all()
        sound = sound and (np.diff(window) > 1 / LARGEST_FACT).all()
        if not sound:
            raise ValueError(complain("window", owner, must, given))
    return window, np.diff(window)[:, 0] / 2 * (CLIP / REACH)
