"""Every method against a slow version of itself: plain Python, no lattice, no blocks.

Without noise a method must give the covariance of the clipped rows, up to the lattice (about 1e-4). With noise it must
give the sum of Python integers plus the same draws, to the last digits.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dpeigen import PrivateCovariance, PrivatePCA
from dpeigen.curator import Purpose
from dpeigen.methods import Gaussian, Laplace, MatrixLaplace, SpatialSign
from dpeigen.methods.base import run_method
from dpeigen.methods.framing import frame_rows
from dpeigen.privacy.noise import matrix_laplace, symmetric_gaussian, symmetric_laplace
from dpeigen.sources import ArraySource
from dpeigen.stats import Lattice
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.norms import GRID

MOMENT_METHODS = [Gaussian(), Laplace(), MatrixLaplace()]
METHODS = [*MOMENT_METHODS, SpatialSign()]
N = 400
X = np.random.default_rng(5).normal(size=(N, 3)) @ np.array([[2.0, 0, 0], [0.5, 1.0, 0], [0.2, -0.3, 0.4]])
X += np.array([0.5, -0.25, 1.0])
X[::50] *= 4.0
BOX = ([-3.0, -2.0, -4.0], [4.0, 2.5, 3.0])
CENTER = np.array([0.4, -0.2, 0.9])

# --- the slow version -------------------------------------------------------------------------------------------------


def clip_to_ball(row, radius):
    length = math.sqrt(sum(v * v for v in row))
    return [v * min(1.0, radius / length) if length > 0 else v for v in row]


def clip_to_box(row, box):
    return row if box is None else [min(max(v, low), high) for v, low, high in zip(row, *box, strict=True)]


def framed(rows, origin, weights, box, pairs):
    """What a method looks at: box-clipped rows minus a centre, or half the differences of neighbours; weighted."""
    rows = [clip_to_box(row, box) for row in rows.tolist()]
    if pairs:
        rows = [[a / 2 - b / 2 for a, b in zip(x, y, strict=True)] for x, y in zip(rows[0::2], rows[1::2], strict=True)]
    else:
        rows = [[v - o for v, o in zip(row, origin, strict=True)] for row in rows]
    return [[v * w for v, w in zip(row, weights, strict=True)] for row in rows]


def quantile_radius(rows, cost, relation):
    """The first grid radius that holds 95% of the rows, less five noise scales of their count."""
    lengths = [math.sqrt(sum(v * v for v in row)) for row in rows]
    fewer = math.ceil(5 * (2 if relation == "replace" else 39) / cost.epsilon * (1 + 1e-12))
    needed = math.ceil(len(rows) * 19 / 20) - fewer if relation == "replace" else (19 * len(rows) - fewer) / 20
    return next(r for r in GRID.tolist() if sum(length <= r for length in lengths) >= needed)


def mean_of(rows):
    return [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]


def moment_of(rows):
    d = len(rows[0])
    return np.array([[math.fsum(r[i] * r[j] for r in rows) / len(rows) for j in range(d)] for i in range(d)])


def slow_centre(rows, bound, box, origin, costs, relation):
    """A clipped mean about a public point, or about places that are paid for, with a radius of its own."""
    radius = math.inf if bound == "private" or bound is None else public_radius(bound, origin, [1.0] * 3, pairs=False)
    if Purpose.PLACES in costs:
        far = 0.05 * len(rows) / 2 if relation == "replace" else 0.0
        apart = framed(rows, origin, [1.0] * 3, box, pairs=True)
        scale = 2 * math.sqrt(2) * leaving_radius(apart, costs[Purpose.SCALES], far) / math.sqrt(3)
        origin = [scale * slow_place([v / scale for v in column]) for column in rows.T.tolist()]
    seen = framed(rows, origin, [1.0] * 3, box, pairs=False)
    reach = min(
        radius,
        quantile_radius(seen, costs[Purpose.CENTER_RADIUS], relation) if Purpose.CENTER_RADIUS in costs else math.inf,
    )
    shift = mean_of([clip_to_ball(row, reach) for row in seen])
    return [o + s for o, s in zip(origin, shift, strict=True)]


def slow_place(entries):
    """Where most entries lie: the fullest octave about 0, then its fullest cell of width 1, or one beside the octave.

    The neighbours of that cell, as far as they were counted, tell where in it.
    """
    octaves = [0 if abs(v) < 1 else int(math.copysign(math.floor(math.log2(abs(v))) + 1, v)) for v in entries]
    best = max(sorted(set(octaves)), key=octaves.count)
    assert best in (0, 1)
    low, high = (-1.0, 1.0) if best == 0 else (1.0, 2.0)
    cells = math.ceil(high - low)
    assert cells <= 254  # one look is enough
    counts = [0, *(sum(low - 1 + j <= v < low + j for v in entries) for j in range(cells + 2)), 0]
    full = counts.index(max(counts))
    below, inside, above = counts[full - 1 : full + 2]
    return low - 1 + (full - 1) + 0.5 + (above - below) / (below + inside + above)


def public_radius(bound, origin, weights, pairs):
    if not isinstance(bound, tuple):
        return bound / (math.sqrt(2) if pairs else 1.0)
    halves = half_widths(bound, origin)
    return math.sqrt(sum((h * w) ** 2 for h, w in zip(halves, weights, strict=True)))


def half_widths(box, origin):
    return [max(abs(low - o), abs(high - o)) for low, high, o in zip(*box, origin, strict=True)]


def start(bound, center, weighted):
    box = bound if isinstance(bound, tuple) else None
    origin = [0.0] * 3 if center is None or isinstance(center, str) else list(center)
    if box is not None and isinstance(center, str):
        origin = [(low + high) / 2 for low, high in zip(*box, strict=True)]
    weights = [1.0] * 3
    if box is not None and weighted:
        weights = [h**-0.5 for h in half_widths(box, origin)]
    return box, origin, weights


def leaving_radius(rows, cost, outside):
    """The first grid radius that as many rows are longer than as balance noise, or as noise on a count would hide."""
    allowed = max(math.floor(outside), math.ceil(5 * math.nextafter(2 / cost.epsilon, math.inf)))
    lengths = [math.sqrt(sum(v * v for v in row)) for row in rows]
    return next(r for r in GRID.tolist() if sum(length > r for length in lengths) <= allowed)


def slow_moment_method(rows, bound, center, costs, outside, relation):
    """(covariance, mean) of the methods that release a second moment, without noise."""
    box, origin, weights = start(bound, center, weighted=True)
    pairs = isinstance(center, str) and center == "pairs"
    private = isinstance(center, str) and center == "private"
    if private and bound == "private":
        origin = slow_centre(rows, bound, box, origin, costs, relation)
    seen = framed(rows, origin, weights, box, pairs)
    paid = bound == "private"
    radius = (
        leaving_radius(seen, costs[Purpose.RADIUS], outside) if paid else public_radius(bound, origin, weights, pairs)
    )
    clipped = [clip_to_ball(row, radius) for row in seen]
    second = moment_of(clipped)
    mean = None if pairs else np.array(origin)
    if private:
        shift = np.array(mean_of(clipped))
        second, mean = second - np.outer(shift, shift), mean + shift / weights
    units = np.array([(math.sqrt(2) if pairs else 1.0) / w for w in weights])
    return second * np.outer(units, units), mean


def slow_spatial_sign(rows, bound, center, k, costs, relation):
    """(components, eigenvalues, left over, mean) without noise."""
    box, origin, weights = start(bound, center, weighted=False)
    pairs = isinstance(center, str) and center == "pairs"
    radius = None if bound in (None, "private") else public_radius(bound, origin, weights, pairs)
    if isinstance(center, str) and center == "private":
        origin = slow_centre(rows, bound, box, origin, costs, relation)
    seen = framed(rows, origin, weights, box, pairs)
    signs = [[v / math.sqrt(sum(u * u for u in row)) for v in row] for row in seen if any(row)]
    values, vectors = np.linalg.eigh(moment_of(signs))
    directions = vectors.T[np.argsort(-values)][:k]
    scores = []
    for row in seen:
        along = [float(np.dot(row, v)) for v in directions]
        rest = max(0.0, sum(v * v for v in row) - sum(s * s for s in along))
        scores.append([*along, math.sqrt(rest)] if k < 3 else along)
    cost = costs.get(Purpose.SCORES_RADIUS)
    paid = math.inf if cost is None else quantile_radius(scores, cost, relation)
    radius = paid if radius is None else min(paid, radius)
    clipped = [clip_to_ball(row, radius) for row in scores]
    unit = 2.0 if pairs else 1.0
    squares = (
        np.array([math.fsum(row[j] ** 2 for row in clipped) / len(clipped) for j in range(len(clipped[0]))]) * unit
    )
    order = np.argsort(-squares[:k])
    left = squares[k] / (3 - k) if k < 3 else 0.0
    return directions[order], squares[:k][order], left, None if pairs else np.array(origin)


# --- without noise --------------------------------------------------------------------------------------------------

BOUNDS = {"radius": 3.0, "box": BOX, "private": "private"}
CENTERS = {"none": None, "public": CENTER, "private": "private", "pairs": "pairs"}
RELATIONS = ["replace", "add_remove"]
CENTERED = [(c, r) for c in CENTERS for r in RELATIONS if (c, r) != ("pairs", "add_remove")]


@pytest.mark.parametrize("method", MOMENT_METHODS, ids=lambda m: m.name)
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(("center", "relation"), CENTERED)
def test_without_noise_it_is_the_covariance_of_the_clipped_rows(method, bound, center, relation, tools):
    bound, center = BOUNDS[bound], CENTERS[center]
    task = tools.task(X, epsilon=400.0, delta=1e-6, bound=bound, center=center, relation=relation)
    estimate = run_method(method, ArraySource(X), task, tools.Silent())
    costs = method.shares(task)
    outside = min(
        0.9 * method.law.deviation(3, costs[Purpose.MOMENT], task.relation), 0.05 * (task.n_terms or math.inf)
    )
    covariance, mean = slow_moment_method(X, bound, center, costs, outside, relation)
    if isinstance(center, str) and center == "private" and bound == "private" and relation == "replace":
        # Here the mean that is left may stay in (weight 0): the moment about the paid centre.
        left_in = estimate.covariance - covariance
        assert np.linalg.norm(left_in) <= 0.05 * np.linalg.norm(covariance)
        return
    np.testing.assert_allclose(estimate.covariance, covariance, rtol=1e-4, atol=1e-4 * np.linalg.norm(covariance))
    if mean is None:
        assert estimate.mean is None
    else:
        np.testing.assert_allclose(estimate.mean, mean, atol=2e-4)
    assert estimate.n_rows == pytest.approx(N)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("method", MOMENT_METHODS, ids=lambda m: m.name)
def test_without_noise_pca_is_numpys_eigh(method, k, tools):
    task = tools.task(X, epsilon=1e3, delta=1e-6, bound=3.0, center=CENTER, k=k, shrink=True)
    estimate = run_method(method, ArraySource(X), task, tools.Silent())
    values, vectors = np.linalg.eigh(slow_moment_method(X, 3.0, CENTER, {}, 0.0, "replace")[0])
    np.testing.assert_allclose(estimate.eigenvalues, values[::-1][:k], rtol=1e-3)
    cosines = np.abs(np.sum(estimate.components * vectors.T[::-1][:k], axis=1))
    np.testing.assert_allclose(cosines, 1.0, atol=1e-6)
    largest = np.abs(estimate.components).argmax(axis=1)
    assert (estimate.components[np.arange(k), largest] > 0).all()
    expected_rest = values[::-1][k:].mean() if k < 3 else 0.0
    assert estimate.noise_variance == pytest.approx(expected_rest, rel=2e-3)


@pytest.mark.parametrize("bound", [3.0, BOX, "private", None], ids=["radius", "box", "private", "none"])
@pytest.mark.parametrize(("center", "relation"), CENTERED)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_without_noise_spatial_sign_is_its_slow_version(bound, center, relation, k, tools):
    center = CENTERS[center]
    task = tools.task(X, epsilon=400.0, delta=1e-6, bound=bound, center=center, relation=relation, k=k)
    task = replace(task, same_units=True)  # `test_narrow` is about columns in smaller units
    estimate = run_method(SpatialSign(), ArraySource(X), task, tools.Silent())
    costs = SpatialSign().shares(task)
    components, eigenvalues, left, mean = slow_spatial_sign(X, bound, center, k, costs, relation)
    np.testing.assert_allclose(estimate.eigenvalues, eigenvalues, rtol=5e-4)
    np.testing.assert_allclose(np.abs(np.sum(estimate.components * components, axis=1)), 1.0, atol=1e-6)
    assert estimate.noise_variance == pytest.approx(left, rel=5e-4, abs=1e-9)
    spikes = (components.T * (eigenvalues - left)) @ components
    np.testing.assert_allclose(estimate.covariance, spikes + left * np.eye(3), atol=1e-3)
    if mean is not None:
        np.testing.assert_allclose(estimate.mean, mean, atol=2e-4)


# --- with noise, in Python integers ---------------------------------------------------------------------------------


def integer_moment(lattice, c):
    """Σ(c, z)(c, z)ᵀ with Python's own integers."""
    rows = [[c, *map(int, z)] if c else list(map(int, z)) for z in lattice.integers(X)]
    m = len(rows[0])
    return [[sum(z[i] * z[j] for z in rows) for j in range(m)] for i in range(m)]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("method", MOMENT_METHODS, ids=lambda m: m.name)
@pytest.mark.parametrize("bound", [3.0, BOX], ids=["radius", "box"])
def test_with_noise_it_is_the_sum_of_integers_plus_the_same_draws(method, relation, bound, tools):
    task = tools.task(X, epsilon=2.0, delta=1e-6, bound=bound, center=CENTER, relation=relation)
    estimate = run_method(method, ArraySource(X), task, tools.seeded(77))
    costs = {spend.purpose: spend.cost for spend in estimate.split}
    frame, radius = frame_rows(task)
    lattice, whole = Lattice(frame, radius), float(LEVELS**2)
    exact = integer_moment(lattice, 0)

    rng, replace = tools.seeded(77), relation == "replace"
    if isinstance(method, Gaussian):
        noise = symmetric_gaussian(3, whole * (math.sqrt(2) if replace else 1.0) / costs["second moment"].mu, rng)
    elif isinstance(method, Laplace):
        reach = min((3 + 1), math.sqrt(3 * 6 / 2)) if replace else (3 + 1) / 2
        noise = symmetric_laplace(3, whole * reach / costs["second moment"].epsilon, rng)
    else:
        scale = whole / costs["second moment"].epsilon / (1 if replace else 2)
        noise = np.rint(matrix_laplace(3, scale, rng))
    noisy = np.array([[float(exact[i][j] + int(noise[i, j])) for j in range(3)] for i in range(3)])
    if isinstance(method, MatrixLaplace):
        grid = 2 ** (math.floor(math.log2(scale)) - 8)
        noisy = np.floor(noisy / grid + 0.5) * grid
    count = float(N)
    if not replace:
        cost = costs["number of rows"]
        draw = rng.discrete_gaussian(2**32 / cost.mu, 1) if isinstance(method, Gaussian) else None
        draw = rng.discrete_laplace(2**32 / cost.epsilon, 1) if draw is None else draw
        count = (N * 2**32 + int(draw[0])) / 2**32
    covariance = noisy * lattice.step**2 / count
    assert (
        np.linalg.eigvalsh(covariance)[0] > 0
    )  # so that the projection has nothing to do, and the comparison is of the noise itself
    units = 1.0 if frame.weights is None else 1 / frame.weights
    covariance = covariance * np.outer(units * np.ones(3), units * np.ones(3))
    np.testing.assert_allclose(estimate.covariance, covariance, rtol=1e-9, atol=1e-12)
    assert estimate.n_rows == pytest.approx(count, rel=1e-12)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_private_centre_rides_on_the_same_draws(relation, tools):
    """The augmented moment: count, mean and second moment are one noisy matrix."""
    task = tools.task(X, epsilon=2.0, delta=1e-6, bound=3.0, center="private", relation=relation)
    method = Gaussian()
    estimate = run_method(method, ArraySource(X), task, tools.seeded(3))
    (spend,) = estimate.split
    c = method.center_weight(task, 3.0, None)
    lattice = Lattice(frame_rows(task)[0], 3.0)
    exact = integer_moment(lattice, c)
    sensitivity = (LEVELS**2 + c * c) * (math.sqrt(2) if relation == "replace" else 1.0)
    noise = symmetric_gaussian(4, sensitivity / spend.cost.mu, tools.seeded(3))
    if relation == "replace":
        noise[0, 0] = 0
    noisy = np.array([[float(exact[i][j] + int(noise[i, j])) for j in range(4)] for i in range(4)])
    count = noisy[0, 0] / c**2
    mean = noisy[0, 1:] / c / count * lattice.step
    covariance = noisy[1:, 1:] / count * lattice.step**2 - np.outer(mean, mean)
    assert np.linalg.eigvalsh(covariance)[0] > 0
    np.testing.assert_allclose(estimate.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(estimate.covariance, covariance, rtol=1e-9, atol=1e-12)
    assert estimate.n_rows == pytest.approx(count, rel=1e-12)


def test_negative_eigenvalues_are_projected_and_the_trace_is_kept(tools):
    """At a tiny budget the noise swamps everything; what comes out is still a covariance of rows in the ball."""
    for method in METHODS:
        for seed in range(5):
            task = tools.task(X, epsilon=0.01, delta=1e-9, bound=3.0, shrink=True)
            estimate = run_method(method, ArraySource(X), task, tools.seeded(seed))
            values = np.linalg.eigvalsh(estimate.covariance)
            assert values[0] >= -1e-9
            if method in MOMENT_METHODS:
                assert values.sum() <= 9.0 * (1 + 1e-9)


def test_the_estimators_hand_the_method_what_they_were_given(tools):
    """The same numbers through `fit` as through the method itself."""
    options = {"epsilon": 2.0, "delta": 1e-6, "bound": 3.0, "center": CENTER, "method": "gaussian"}
    fitted = PrivateCovariance(**options, shrink=False, random_state=np.random.default_rng(9)).fit(X)
    task = tools.task(X, epsilon=2.0, delta=1e-6, bound=3.0, center=CENTER)
    estimate = run_method(Gaussian(), ArraySource(X), task, tools.seeded(9))
    np.testing.assert_array_equal(fitted.covariance_, estimate.covariance)
    pca = PrivatePCA(2, **options, random_state=np.random.default_rng(9)).fit(X)
    task = tools.task(X, epsilon=2.0, delta=1e-6, bound=3.0, center=CENTER, k=2, shrink=True)
    estimate = run_method(Gaussian(), ArraySource(X), task, tools.seeded(9))
    np.testing.assert_array_equal(pca.components_, estimate.components)
    np.testing.assert_array_equal(pca.explained_variance_, estimate.eigenvalues)
