"""The private map of Europe: 1387 people, 20 genetic coordinates, 37 countries, at (ε, δ) = (2, 10⁻⁶) in all.

Run by `make bench`, or alone: `python benchmarks/run.py score_map`. The plane takes ε = 0.7 (δ = 10⁻⁶), the map 1.3, of
which a quarter buys the density. The coordinates are centred by the software that made them, so the centre is public.

What is compared: centres of countries on the private map, beside those on the plane of the first two components
without privacy. A plane has no orientation, so the private centres are first turned (an orthogonal Procrustes rotation
or reflection about the mean, no scaling). Reported are medians over 20 seeded runs:

- rank correlation: Spearman's, of both coordinates, averaged;
- distances: Spearman's, of the distances between all pairs of countries, which needs no turning;
- named right: the share of countries whose nearest true centre is their own (a guess has 1/number of them);
- off by: the median distance between private and true centre in standard deviations of the first component.

The map says itself which countries stand out of its noise (`ScoreMap.centroids().shown`). They differ in size: 11 have
40 people or more, 12 at least 20, 19 at least 10, and 13 have four or fewer. What one person's row decides is what
privacy hides, so centres of the smallest cannot be known and are not meant to be.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

RUNS = 20
PLANE, MAP, DELTA = 0.7, 1.3, 1e-6
SIZES = (40, 20, 10, 1)


def compare(points: np.ndarray, truth: np.ndarray) -> tuple[float, float, float, np.ndarray]:
    """Rank correlation, that of distances, share named right, distances: all after a rotation."""
    from scipy.linalg import orthogonal_procrustes
    from scipy.spatial.distance import cdist, pdist
    from scipy.stats import spearmanr

    private, true = points - points.mean(axis=0), truth - truth.mean(axis=0)
    private = private @ orthogonal_procrustes(private, true)[0]
    ranks = float(np.mean([spearmanr(private[:, axis], true[:, axis])[0] for axis in (0, 1)]))
    distances = float(spearmanr(pdist(private), pdist(true))[0])
    named = float(np.mean(np.argmin(cdist(private, true), axis=1) == np.arange(len(true))))
    return ranks, distances, named, np.linalg.norm(private - true, axis=1)


def maps(relation: str, runs: int = RUNS) -> Iterator[tuple[object, object]]:
    """(map, release) of every run."""
    from dpeigen import PrivatePCA, PrivateScoreMap
    from dpeigen.datasets import load_europe

    europe = load_europe()
    labels = sorted(set(europe.target.tolist()))
    for seed in range(runs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plane = PrivatePCA(2, epsilon=PLANE, delta=DELTA, center=None, relation=relation, random_state=seed)
            release = plane.fit(europe.X).release_
            fitted = PrivateScoreMap(release, epsilon=MAP, labels=labels, random_state=1000 + seed)
            yield fitted.fit(europe.X, europe.target).map_, release


def truth() -> tuple[np.ndarray, np.ndarray, float]:
    """Centres of the countries without privacy, their numbers of people, and the deviation of the first component."""
    from dpeigen.datasets import load_europe

    europe = load_europe()
    names, country, sizes = np.unique(europe.target, return_inverse=True, return_counts=True)
    values, vectors = np.linalg.eigh(np.cov(europe.X.T))
    scores = (europe.X - europe.X.mean(axis=0)) @ vectors[:, :-3:-1]
    return np.array([scores[country == c].mean(axis=0) for c in range(len(names))]), sizes, float(np.sqrt(values[-1]))


def rows() -> list[tuple[str, str, str, bool | None]]:
    from dpeigen.datasets.others import EUROPE_CAPITALS

    centres, sizes, deviation = truth()
    found = []
    for relation in ("replace", "add_remove"):
        drawn = [one for one, _ in maps(relation)]
        centroids = [one.centroids() for one in drawn]
        shown = int(np.median([c.shown.sum() for c in centroids]))
        choices = {f"{(sizes >= n).sum()} countries of {n} people or more": sizes >= n for n in SIZES}
        for words, chosen in {f"the countries it shows (median {shown})": None, **choices}.items():
            results = []
            for one in centroids:
                kept = one.shown if chosen is None else chosen
                results.append(compare(one.points[kept], centres[kept]))
            ranks, distances, named = (float(np.median([r[i] for r in results])) for i in range(3))
            off = float(np.median(np.concatenate([r[3] for r in results]))) / deviation
            figure = f"rank correlation {ranks:.2f} (distances {distances:.2f}), "
            figure += f"named right {named:.0%}, off by {off:.2f}σ"
            barred = chosen is None or (sizes[chosen].min() >= 20)
            what = f"map of Europe, (2, 10⁻⁶) in all, {relation}: {words}"
            found.append((what, figure, "≥ 0.9" if barred else "", ranks >= 0.9 if barred else None))
        helped = [compare(one.centroids(public=EUROPE_CAPITALS).points, centres) for one in drawn]
        ranks, named = (float(np.median([r[i] for r in helped])) for i in (0, 2))
        off = float(np.median(np.concatenate([r[3] for r in helped]))) / deviation
        what = f"the same, {relation}: all 37 countries, drawn to their regression on public latitude and longitude"
        figure = f"rank correlation {ranks:.2f}, named right {named:.0%}, off by {off:.2f}σ"
        found.append((what, figure, "≥ 0.9", ranks >= 0.9))
    return [*found, speed()]


def speed() -> tuple[str, str, str, bool | None]:
    """A map of many rows beside NumPy's histogram of the same scores, which is not private; medians of 5."""
    import time

    from dpeigen import PrivatePCA, PrivateScoreMap

    X = np.random.default_rng(0).normal(size=(500_000, 30))
    release = PrivatePCA(2, epsilon=1.0, delta=1e-6, bound=8.0, center=None, method="gaussian").fit(X).release_
    ours, theirs = [], []
    for _ in range(6):  # interleaved; the first round warms up
        start = time.perf_counter()
        PrivateScoreMap(release, epsilon=1.0, cells=64).fit(X)
        middle = time.perf_counter()
        np.histogram2d(*(X @ release.components.T).T, bins=64, range=[(-3, 3), (-3, 3)])
        ours.append(middle - start)
        theirs.append(time.perf_counter() - middle)
    mine, peer = float(np.median(ours[1:])), float(np.median(theirs[1:]))
    figure = f"{mine:.2f} s, {mine / peer:.1f}× NumPy's histogram2d of the scores ({peer:.2f} s)"
    return "score map, 500,000×30, 64×64 cells, noise included", figure, "≤ 5×", mine <= 5 * peer


def picture(path: str) -> None:
    """The map without privacy, turned to match, beside one private run with noise from the operating system."""
    from matplotlib.figure import Figure
    from scipy.linalg import orthogonal_procrustes

    from dpeigen import PrivatePCA, PrivateScoreMap
    from dpeigen.datasets import load_europe
    from dpeigen.plotting import ScoreMapDisplay
    from dpeigen.plotting._score_map import _name

    europe = load_europe()
    centres, sizes, _ = truth()
    labels = sorted(set(europe.target.tolist()))
    release = PrivatePCA(2, epsilon=PLANE, delta=DELTA, center=None).fit(europe.X).release_
    found = PrivateScoreMap(release, epsilon=MAP, labels=labels).fit(europe.X, europe.target).map_
    _, vectors = np.linalg.eigh(np.cov(europe.X.T))
    large = sizes >= 40
    turn = orthogonal_procrustes(centres[large], found.centroids().points[large])[0]
    points, centres = europe.X @ vectors[:, :-3:-1] @ turn, centres @ turn
    figure = Figure(figsize=(13, 5.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.scatter(points[:, 0], points[:, 1], s=6, color="#0072B2", alpha=0.35, linewidths=0)
    left.plot(*centres[large].T, "o", color="#D55E00", markersize=4.5)
    (x0, x1), (y0, y1) = found.window
    left.set(xlim=(x0, x1), ylim=(y0, y1), xlabel="first coordinate", ylabel="second coordinate")
    _name(left, centres[large], [name for name, shown in zip(labels, large, strict=True) if shown])
    left.set_title("Without privacy: every person is a point", loc="left")
    for side in ("top", "right"):
        left.spines[side].set_visible(False)
    ScoreMapDisplay.from_map(found, right)
    figure.savefig(path, dpi=90)


if __name__ == "__main__":
    import sys

    picture(sys.argv[1])
