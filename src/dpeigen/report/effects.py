"""How noise and clipping changed the numbers of a release, in plain words."""

from __future__ import annotations

from dpeigen.clipped import clipped_share
from dpeigen.methods.auto import METHODS
from dpeigen.release import Release
from dpeigen.report.blocks import Block, Items, clean

__all__ = ["effects"]

_ELLIPTICAL = "rows are distributed like a normal distribution, perhaps with longer tails (elliptical)"


def effects(release: Release) -> list[Block]:
    """The effects of noise and of clipping, and how far intervals account for them."""
    said = [*_noise(release), *_clipping(release)]
    if release.usual_intervals is not None:
        said.append(
            "Intervals: 95% intervals for the population that the rows were drawn from. They allow for privacy noise, "
            f"for clipping as far as it is known, and for sampling. They assume that {_ELLIPTICAL}.{_tails(release)}"
            f"{_cut(release)}"
        )
    elif release.resolved is not None:
        said.append(
            "Intervals: not shown, because with this many columns they take minutes. release.intervals() computes them."
        )
    else:
        said.append(
            "Intervals: none. The release does not contain what they are computed from, so the errors "
            "of its numbers are not known."
        )
    return [Items("Noise, clipping, intervals", said)]


def _tails(release: Release) -> str:
    """How far intervals account for tails if rows were clipped to a paid radius; limits of methods of signs."""
    if release.measured is not None and release.measured.kind == "signs":
        return (
            " Directions of rows do not show whether that holds. For columns with few distinct values, or with rare "
            "large values, variances and components can be off by more than their intervals say. An interval that "
            "would not contain the released number is extended to it, so that the number is one of its ends."
        )
    if clipped_share(release) is None:
        return ""
    return (
        " Where the released radius or counts show longer tails, intervals are wider. Tails of too few rows to be seen "
        "through the noise are not covered."
    )


def _cut(release: Release) -> str:
    """A remark that shares have one end only, if clipping may have removed any part of the largest variance."""
    found = release.usual_intervals
    if found is None or not found.cut_column:
        return ""
    column = clean(release.labels[int((release.components[0] ** 2).argmax())])
    return (
        f" A few rows of {column} lie far out, and nothing shows how far. Clipping may have made its variance much too "
        "small, so the share of component 1 has no upper end, and the shares of the others have no lower end."
    )


def _noise(release: Release) -> list[str]:
    floor, largest = release.noise_floor, float(release.eigenvalues.max(initial=0.0))
    beside = "" if release.too_few_known else f" The largest released variance is {largest:.3g}."
    if floor is None:
        size = "This method does not state how large its noise is."
    elif release.noise_floors is not None:  # here "noise floor" means that of a component
        size = f"Privacy noise alone would show variances up to {floor.value:.3g} in 95% of releases.{beside}"
    else:
        size = f"The noise floor is {floor.value:.3g}: {floor.words}.{beside}"
    bias = "Noise rotates components, makes large variances larger and small ones smaller, and weakens correlations."
    method = clean(release.facts.get("method") or release.guarantee.mechanism)
    if method.startswith("local") or (method in METHODS and METHODS[method].shrinks):
        bias += " The released variances are shrunk to correct for this bias on average. The remaining error is random."
    else:
        bias += " This method does not correct for this bias."
    return [f"Noise: {size} {bias}"]


def _clipping(release: Release) -> list[str]:
    measured, facts = release.measured, release.facts
    if measured is not None and measured.kind == "signs":
        return [
            "Clipping: none. Each row counts by its direction and not by its length, so outliers have little "
            f"influence. The components are those of the covariance if {_ELLIPTICAL}."
        ]
    if facts.get("estimand") in ("spatial signs", "Kendall's tau"):
        return ["Clipping: none. Each row counts by its direction and not by its length."]
    smaller = (
        "Clipping makes variances too small, most for columns with rare large values, and weakens their correlations."
    )
    if measured is not None and measured.clipped is not None:
        share, rows = 100 * measured.clipped, measured.clipped * measured.terms
        return [
            "Clipping: rows far from the centre were moved towards it, to limit the influence of any one row. This "
            f"affected at most about {rows:,.0f} of {measured.terms:,.0f} ({share:.2g}%). {smaller}"
        ]
    if facts.get("radius_is") == "released":
        return [
            "Clipping: rows far from the centre were moved towards it, to limit the influence of any one row. "
            f"{smaller}"
        ]
    return [
        "Clipping: values outside the public bounds were moved to the bounds. How many is not known. If there were "
        f"any: {smaller[0].lower()}{smaller[1:]}"
    ]
