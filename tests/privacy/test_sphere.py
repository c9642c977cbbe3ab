"""Bingham draws against quadrature, an exact integral formula for any dimension, and a slow independent sampler.

False alarms: at most 1e-6 per test over the choice of seed. The twin has the sign that two libraries have wrong.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import dblquad, quad
from scipy.special import ive

from dpeigen.auditing.events import bingham_circle_log_density, hockey_stick_density
from dpeigen.privacy import randomness, sample_bingham
from dpeigen.privacy.randomness import SeededRandomness
from dpeigen.privacy.sphere import _GRID, _complement, _draw, envelope, sample_orthonormal

CLT = 1e-8  # z-tests: leaves a factor of a hundred for the central limit theorem's error
SEEDED = 1e-6


def exact_squares(values):
    """E[uᵢ²] for density ∝ exp(Σ aᵢuᵢ²), any concentration, to about 10 digits up to d = 50.

    The integral of exp(−Σ βᵢzᵢ²) over |z|² = r is the inverse Laplace transform of Π(βᵢ + s)^{−1/2} at r, and zᵢ²
    multiplies the transform by 1/2(βᵢ + s). All branch cuts are on the negative axis, inside Talbot's contour.
    """
    values = np.asarray(values, dtype=float)
    beta = values.max() - values
    nodes = 24
    angle = np.arange(1, nodes) * math.pi / nodes
    radius, cot = 2 * nodes / 5, 1 / np.tan(angle)
    s = np.append(radius, radius * angle * (cot + 1j))
    weight = np.append(0.5, 1 + 1j * (angle + (angle * cot - 1) * cot))
    terms = np.exp(s) * weight * np.prod((beta[:, None] + s) ** -0.5, axis=0)
    return (terms / (2 * (beta[:, None] + s))).sum(axis=1).real / terms.sum().real


def by_rejection_from_uniform(values, size, rng):
    """The slow independent sampler: uniform directions, kept with probability exp(uᵀAu − λ_max)."""
    values, kept = np.asarray(values), []
    while sum(map(len, kept)) < size:
        u = rng.normal((20_000, len(values)))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        kept.append(u[np.log(rng.uniform(len(u))) < u**2 @ values - values.max()])
    return np.concatenate(kept)[:size]


def by_the_common_recipe(values, size, rng, sign):
    """Kent, Ganeiber, Mardia for diagonal A, once more; sign = −1 is the fault of diffprivlib 0.6.6 and OpenDP 0.16."""
    values = np.asarray(values)
    beta, d, kept = values.max() - values, len(values), []
    b = envelope(beta)
    omega = 1 + 2 * beta / b
    while sum(map(len, kept)) < size:
        z = rng.normal((50_000, d)) / np.sqrt(omega)
        u = z / np.linalg.norm(z, axis=1, keepdims=True)
        log_keep = -(u**2) @ beta + sign * d / 2 * np.log(u**2 @ omega) + (d - b) / 2 - d / 2 * math.log(d / b)
        kept.append(u[np.log(rng.uniform(len(u))) < log_keep])
    return np.concatenate(kept)[:size]


# --- the reference itself ----------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [0.0, 0.1, 5.0, 100.0])
def test_reference_on_the_circle(gap):
    """E[u₁²] − E[u₂²] = I₁(r)/I₀(r), r half the gap."""
    expected = 0.5 + 0.5 * ive(1, gap / 2) / ive(0, gap / 2)
    assert exact_squares([gap, 0.0])[0] == pytest.approx(expected, rel=1e-9)


def test_reference_on_the_sphere():
    a = np.array([3.0, 1.0, -4.0])

    def density(z, angle):
        return math.exp(a[0] * z**2 + (1 - z**2) * (a[1] * math.cos(angle) ** 2 + a[2] * math.sin(angle) ** 2))

    total = dblquad(density, 0, math.pi / 2, 0, 1)[0]
    first = dblquad(lambda z, t: z**2 * density(z, t), 0, math.pi / 2, 0, 1)[0] / total
    assert exact_squares(a)[0] == pytest.approx(first, rel=1e-8)


@pytest.mark.parametrize("d", [2, 10, 50])
def test_reference_sums_to_one(d):
    for concentration in (0.0, 10.0, 300.0, 1e5):
        assert exact_squares(np.linspace(0, concentration, d)).sum() == pytest.approx(1, abs=1e-9)
    np.testing.assert_allclose(exact_squares(np.zeros(d)), 1 / d, rtol=1e-9)


# --- the sampler -------------------------------------------------------------------------------------

SPECTRA = {
    "circle": [0.0, -5.0],
    "circle, sharp": [0.0, -400.0],
    "sphere": [3.0, 1.0, -4.0],
    "sphere, girdle": [0.0, 0.0, -30.0],
    "d=10, flat": np.zeros(10),
    "d=10": np.linspace(0, 6, 10),
    "d=10, spike": np.append(np.zeros(9), 40.0),
    "d=50": np.linspace(0, 60, 50),
    "d=50, two spikes": np.concatenate([np.zeros(48), [1e3, 1.01e3]]),
}


@pytest.mark.parametrize("name", SPECTRA)
def test_second_moments(chance, name):
    values = np.asarray(SPECTRA[name])
    draws = sample_bingham(np.diag(values), size=20_000, random_state=61)
    np.testing.assert_allclose(np.linalg.norm(draws, axis=1), 1, rtol=1e-12)
    assert chance.means(draws, 0.0) > CLT  # u and −u are equally likely
    assert chance.means(draws**2, exact_squares(values)) > CLT
    products = draws[:, :-1] * draws[:, 1:]
    assert chance.means(products, 0.0) > CLT


@pytest.mark.parametrize("name", ["circle", "sphere", "d=10"])
def test_the_same_test_catches_the_wrong_sign(chance, name):
    values = np.asarray(SPECTRA[name])
    expected, rng = exact_squares(values), randomness(62)
    right = by_the_common_recipe(values, 5_000, rng, sign=+1)
    wrong = by_the_common_recipe(values, 5_000, rng, sign=-1)
    assert chance.means(right**2, expected) > CLT
    assert chance.means(wrong**2, expected) < CLT


def test_known_values_of_the_faulty_libraries(chance):
    """d = 2, A = diag(0, 5): E[u₂²] is 0.8825; the wrong sign gives 0.965."""
    values = np.array([0.0, 5.0])
    assert exact_squares(values)[1] == pytest.approx(0.8825, abs=1e-4)
    wrong = by_the_common_recipe(values, 20_000, randomness(63), sign=-1)
    assert (wrong[:, 1] ** 2).mean() == pytest.approx(0.965, abs=0.003)


@pytest.mark.parametrize("values", [np.linspace(0, 6, 10), np.repeat([0.0, 6.0], 25), np.linspace(-4, 4, 50)])
def test_draws_agree_with_a_slow_independent_sampler(chance, values):
    """The whole law of uᵀAu and of one coordinate, not only moments."""
    size = 6_000
    ours = sample_bingham(np.diag(values), size=size, random_state=64)
    slow = by_rejection_from_uniform(values, size, randomness(65))
    assert chance.two_samples(ours**2 @ values, slow**2 @ values) > SEEDED
    assert chance.two_samples(ours[:, -1], slow[:, -1]) > SEEDED
    # Planted faults: half the concentration, and the wrong sign where it can be sampled in reasonable time.
    fault = sample_bingham(np.diag(values / 2), size=size, random_state=66)
    assert chance.two_samples(fault**2 @ values, slow**2 @ values) < SEEDED
    if len(values) == 10:
        fault = by_the_common_recipe(values, size, randomness(67), sign=-1)
        assert chance.two_samples(fault**2 @ values, slow**2 @ values) < SEEDED


def test_angles_on_the_circle_follow_the_density(chance):
    matrix = np.array([[1.0, 2.0], [2.0, -1.0]])
    log_density = bingham_circle_log_density(matrix)
    draws = sample_bingham(matrix, size=20_000, random_state=68)
    cells = np.floor(np.arctan2(draws[:, 1], draws[:, 0]) % math.pi / math.pi * 24)
    edges = np.linspace(0, math.pi, 25)
    pmf = {k: quad(lambda t: math.exp(log_density(t)), edges[k], edges[k + 1])[0] for k in range(24)}
    assert math.fsum(pmf.values()) == pytest.approx(1, abs=1e-10)
    assert chance.counts(cells, pmf) > SEEDED
    turned = {k: pmf[(k + 1) % 24] for k in pmf}  # planted fault: off by one cell
    assert chance.counts(cells, turned) < SEEDED


def test_any_basis_and_any_shift_of_the_spectrum(chance):
    basis, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))
    values = np.array([5.0, 2.0, 0.0, -3.0])
    draws = sample_bingham(basis @ np.diag(values + 1e4) @ basis.T, size=20_000, random_state=69)
    assert chance.means((draws @ basis) ** 2, exact_squares(values)) > CLT
    assert chance.means(draws**2, exact_squares(values)) < CLT  # planted fault: the basis forgotten


class Counting(SeededRandomness):
    """Counts the rows of normal numbers asked for, which is the number of proposals."""

    proposals = 0

    def normal(self, size):
        self.proposals += size[0]
        return super().normal(size)


@pytest.mark.parametrize(("d", "size"), [(2, 100_000), (10, 100_000), (100, 4_000), (400, 1_000)])
@pytest.mark.parametrize("concentration", [0.0, 1.0, 30.0, 1e3, 1e6])
@pytest.mark.parametrize("shape", ["spike", "slope"])
def test_few_proposals_at_any_concentration(d, size, concentration, shape):
    """At most 2√d each on average (measured: about 0.6√d); the wrong sign needs 10^4.9 at d = 10."""
    values = concentration * (np.arange(d) == 0 if shape == "spike" else np.linspace(0, 1, d))
    rng = Counting(np.random.Generator(np.random.PCG64(70)))
    sample_bingham(np.diag(values), size=size, random_state=rng)
    assert rng.proposals >= size
    assert rng.proposals <= 2 * math.sqrt(d) * size


def test_the_wrong_sign_fails_the_same_bound():
    beta, d, rng = 30.0 - 30.0 * (np.arange(10) == 0), 10, randomness(71)
    b = envelope(beta)
    omega = 1 + 2 * beta / b
    z = rng.normal((50_000, d)) / np.sqrt(omega)
    squares = z**2 / np.sum(z**2, axis=1, keepdims=True)
    ratio, bound = d / 2 * np.log(squares @ omega), (d - b) / 2 - d / 2 * math.log(d / b)
    kept = [np.exp(np.minimum(-squares @ beta + sign * ratio + bound, 0)).mean() for sign in (+1, -1)]
    assert 1 / kept[0] <= 2 * math.sqrt(d) < 1 / kept[1]


def test_the_envelope_solves_its_equation():
    for beta in (np.array([0.0, 5.0]), np.linspace(0, 1e6, 30), np.append(0.0, np.full(9, 1e-12))):
        b = envelope(beta)
        assert 1 <= b <= len(beta)
        assert np.sum(1 / (b + 2 * beta)) == pytest.approx(1, rel=1e-9)
    assert envelope(np.zeros(7)) == 7.0
    assert envelope(np.zeros(1)) == 1.0


def test_edges():
    np.testing.assert_array_equal(np.abs(sample_bingham([[3.0]], size=3, random_state=0)), np.ones((3, 1)))
    assert sample_bingham(np.eye(3), size=0, random_state=0).shape == (0, 3)
    assert sample_bingham(np.eye(3)).shape == (1, 3)
    first, second = (sample_bingham(np.eye(3), size=5, random_state=9) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(sample_bingham(np.eye(3)), sample_bingham(np.eye(3)))


@pytest.mark.parametrize(
    "bad", [np.zeros((2, 3)), np.zeros(3), np.zeros((0, 0)), [[0, 1], [0, 0]], [[math.nan, 0], [0, 1]]]
)
def test_bad_matrices_are_refused(bad):
    with pytest.raises(ValueError, match="'A' parameter of sample_bingham"):
        sample_bingham(bad)


# --- the privacy loss of one draw, exactly, on the circle ---------------------------------------------


def direction(angle):
    return np.array([math.cos(angle), math.sin(angle)])


@pytest.mark.parametrize("seed", range(6))
def test_half_of_epsilon_suffices_for_replacement_and_all_of_it_for_adding(seed):
    """δ(ε) = 0 by quadrature over the angle; at twice the concentration it is not."""
    rng, epsilon = np.random.default_rng(seed), 1.0
    x, y = direction(rng.uniform(0, math.pi)), direction(rng.uniform(0, math.pi))
    rest = rng.uniform(0, 5) * np.outer(*[direction(rng.uniform(0, math.pi))] * 2)
    pairs = (
        (epsilon / 2, rest + np.outer(x, x), rest + np.outer(y, y)),
        (epsilon, rest, rest + np.outer(x, x)),
    )
    for c, first, second in pairs:
        densities = [bingham_circle_log_density(c * m) for m in (first, second)]
        for log_p, log_q in (densities, densities[::-1]):
            assert hockey_stick_density(log_p, log_q, epsilon, 0, math.pi, np.linspace(0, 3, 20)) == 0.0


def test_the_loss_at_too_high_a_concentration_is_seen():
    x, y = direction(0.0), direction(math.pi / 2)
    densities = [bingham_circle_log_density(2.0 * np.outer(v, v)) for v in (x, y)]
    assert hockey_stick_density(*densities, 1.0, 0, math.pi, np.linspace(0, 3, 20)) > 0.1


# --- several directions, one after the other ------------------------------------------------------------


def frames(matrix, concentrations, size, seed):
    """``size`` independent draws, size × k × d."""
    rng = randomness(seed)
    return np.stack([sample_orthonormal(np.asarray(matrix), np.asarray(concentrations), rng) for _ in range(size)])


DEGENERATE = {
    "slope": np.diag(np.linspace(1.0, 5.0, 6)),
    "zero": np.zeros((6, 6)),
    "repeated": np.diag([4.0, 4.0, 4.0, 1.0, 1.0, 0.0]),
    "rank one": np.full((6, 6), 3.0),
    "rank two": np.diag([7.0, 2.0, 0.0, 0.0, 0.0, 0.0]),
    "tiny": 1e-300 * np.eye(6),
    "huge": 1e12 * np.diag(np.arange(6.0)),
}


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("k", [1, 3, 6])
def test_rows_are_orthonormal(name, k):
    for seed in range(5):
        rows = sample_orthonormal(DEGENERATE[name], np.linspace(2.0, 0.0, k), randomness(seed))
        assert rows.shape == (k, 6)
        np.testing.assert_allclose(rows @ rows.T, np.eye(k), atol=1e-10)


def test_many_rows_stay_orthonormal():
    rows = sample_orthonormal(np.diag(np.geomspace(1, 1e6, 120)), np.full(120, 0.5), randomness(0))
    np.testing.assert_allclose(rows @ rows.T, np.eye(120), atol=1e-10)


def test_one_column_is_no_choice():
    rng = Counting(np.random.Generator(np.random.PCG64(0)))
    np.testing.assert_allclose(np.abs(sample_orthonormal(np.array([[3.0]]), np.array([1.0]), rng)), [[1.0]])
    assert rng.proposals == 0


class Calls(Counting):
    """Counts calls too, and the widths asked for."""

    def __init__(self, generator):
        super().__init__(generator)
        self.widths = []

    def normal(self, size):
        self.widths.append(size[1])
        return super().normal(size)


def test_the_last_row_is_free():
    """No number is drawn for it, whatever its concentration; each draw is one dimension smaller."""
    matrix = np.diag([5.0, 2.0, 1.0])
    runs = []
    for last in (0.0, 1e9):
        rng = Calls(np.random.Generator(np.random.PCG64(3)))
        runs.append(sample_orthonormal(matrix, np.array([1.0, 1.0, last]), rng))
        assert sorted(set(rng.widths), reverse=True) == [3, 2]
    np.testing.assert_array_equal(*runs)


@pytest.mark.parametrize("values", [[6.0, 2.0, 0.0], [3.0, 3.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [9.0, 0.0, 0.0, 0.0]])
def test_the_first_row_has_the_bingham_law(chance, values):
    c, size = 0.8, 3_000
    basis, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(len(values), len(values))))
    matrix = basis @ np.diag(values) @ basis.T
    rows = frames(matrix, [c, 2 * c], size, 72)[:, 0]
    assert chance.means((rows @ basis) ** 2, exact_squares(c * np.array(values))) > CLT
    single = sample_bingham(c * matrix, size=size, random_state=73)
    quadratic = [np.einsum("ij,jk,ik->i", u, matrix, u) for u in (rows, single)]
    if np.ptp(values) > 0:
        assert chance.two_samples(*quadratic) > SEEDED
        # planted fault: the second concentration used for the first row
        assert chance.means((rows @ basis) ** 2, exact_squares(2 * c * np.array(values))) < CLT


def ranks_in_the_complement(draws, matrix, c):
    """The distribution function of the second row's angle, given the first, at that angle: uniform if it is right."""
    found = []
    grid = np.linspace(0, math.pi, 1001)
    for first, second in draws[:, :2]:
        basis = np.linalg.svd(first[None])[2][1:].T
        (a, b), (_, e) = c * basis.T @ matrix @ basis
        x, y = second @ basis
        angle = math.atan2(y, x) % math.pi
        exponent = (a - e) / 2 * np.cos(2 * grid) + b * np.sin(2 * grid)
        density = np.exp(exponent - exponent.max())
        cumulative = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
        found.append(np.interp(angle, grid, cumulative / cumulative[-1]))
    return np.array(found)


def test_the_second_row_has_the_bingham_law_of_the_complement(chance):
    matrix = np.array([[5.0, 1.0, 0.0], [1.0, 2.0, -1.0], [0.0, -1.0, 0.5]])
    draws = frames(matrix, [0.3, 1.5, 0.0], 3_000, 74)
    np.testing.assert_allclose(np.abs(np.einsum("ij,ij->i", np.cross(draws[:, 0], draws[:, 1]), draws[:, 2])), 1)
    assert chance.cdf(ranks_in_the_complement(draws, matrix, 1.5), lambda x: x) > SEEDED
    # planted faults: the first concentration again, and none at all
    assert chance.cdf(ranks_in_the_complement(draws, matrix, 0.3), lambda x: x) < SEEDED
    assert chance.cdf(ranks_in_the_complement(draws, matrix, 0.0), lambda x: x) < SEEDED


def test_the_last_bits_of_rows_do_not_tell_of_the_eigenbasis():
    """In the plane the second row must be the same function of the first, bit for bit, whatever the matrix was.

    Before draws were rounded it was so for a diagonal matrix in every run and for another one in a third of them.
    """
    for matrix in (np.diag([1.0, 3.0]), np.array([[2.0, 0.7], [0.7, 1.0]])):
        for seed in range(50):
            rows = sample_orthonormal(matrix, np.full(2, 0.3), randomness(seed))
            assert np.array_equal(rows[1], _complement(rows[0])[:, 0])
            steps = rows[0] * _GRID  # a normalised grid point: within rounding of the grid
            assert np.abs(steps - np.rint(steps)).max() < 1.0
    values, vectors = np.linalg.eigh(np.array([[2.0, 0.7], [0.7, 1.0]]))  # the twin: unrounded, in the eigenbasis
    same = []
    for seed in range(50):
        u = _draw(0.3 * (values[-1] - values), 1, randomness(seed))[0]
        first, second = vectors @ u, vectors @ _complement(u)[:, 0]
        same.append(any(np.array_equal(sign * second, _complement(first)[:, 0]) for sign in (1, -1)))
    assert not all(same)
