"""Purposes: what shares of the budget are spent on. Releases and ledgers store the texts; code compares members."""

from __future__ import annotations

from enum import Enum

__all__ = ["Purpose"]


class Purpose(str, Enum):
    """What a share of the budget is spent on."""

    ROWS = "number of rows"
    RADIUS = "radius"
    HOLES = "shares of missing cells"
    SCALES = "scales of the columns"
    PLACES = "places of the columns"
    REACHES = "reaches of the columns"
    ROUGH_REACHES = "rough reaches of the columns"
    FIRST_CENTER_RADIUS = "radius for the first centre"
    FIRST_CENTER = "first centre"
    CENTER_RADIUS = "radius for the centre"
    CENTER = "centre"
    MOMENT = "second moment"
    FIRST_MOMENT_RADIUS = "radius for the first moment"
    FIRST_MOMENT = "first moment"
    WHITENED_RADIUS = "radius for the whitened moment"
    WHITENED_MOMENT = "whitened moment"
    FAR_ROWS = "rows far outside the radius"
    DIRECTIONS = "directions"
    DIRECTIONS_1 = "directions 1"
    DIRECTIONS_2 = "directions 2"
    DIRECTIONS_3 = "directions 3"
    DIRECTIONS_4 = "directions 4"
    DIRECTIONS_5 = "directions 5"
    DIRECTIONS_6 = "directions 6"
    SCORES_RADIUS = "radius for the scores"
    VARIANCES = "variances"
    TAU = "Kendall's tau"
    START = "start"
    STEPS = "steps"
    MODEL = "parameters of the model"
    DENSITY = "density"
    CLASSES = "class centres"
    REST = "what follows"
    SCALE = "scale"
    SCALE_THRESHOLD = "threshold of the scale"
    RANGES = "ranges"
    RANGES_THRESHOLD = "threshold of the ranges"
    FIRST_MEAN_RADIUS = "radius for the first mean"
    FIRST_MEAN = "first mean"
    MEAN = "mean"
    BATCHES = "every row, in its own batch"
    EIGENVALUES = "eigenvalues"
    EIGENVECTORS = "eigenvectors"

    @classmethod
    def look(cls, number: int) -> Purpose:
        """The purpose of the ``number``-th measurement of directions, counted from 1."""
        return cls(f"directions {number}")

    @property
    def is_look(self) -> bool:
        """Whether it is one of several successive measurements of directions."""
        return self.name.startswith("DIRECTIONS_")

    @property
    def is_radius(self) -> bool:
        """Whether it is the measurement of a radius."""
        return self.name.endswith("RADIUS")

    @property
    def threshold(self) -> Purpose:
        """The purpose under which the δ of a histogram's threshold is paid: the probability of showing an empty bin."""
        return Purpose(f"threshold of the {self.value}")

    def __str__(self) -> str:
        return self.value
