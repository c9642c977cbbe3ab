"""Maps before the last moment: what they are judged by, and means that are drawn towards 0."""

import numpy as np

from dpeigen.stats.whitening import noise_across, shrunk_mean


def turned(rough, back, radius, rng, k=1):
    """How far noise of deviation R² on the moment of turned rows turns the leading directions, on average."""
    d, found = len(rough), []
    truth = np.linalg.eigh(rough)[1][:, -k:]
    for _ in range(40):
        noise = rng.normal(size=(d, d))
        moved = rough + back @ (noise + noise.T) @ back.T * (radius**2 * 1e-4)
        leading = np.linalg.eigh(moved)[1][:, -k:]
        found.append(np.linalg.norm(leading - truth @ (truth.T @ leading)))
    return float(np.mean(found))


def test_the_map_with_the_least_noise_across_turns_leading_directions_least():
    """Three maps, and variances of which one or two stand out: the order of the errors is the order of the figures."""
    rng = np.random.default_rng(0)
    for variances, k in ((np.array([100.0, 1, 1, 1, 1]), 1), (np.array([9.0, 8, 1, 0.5, 0.1]), 2)):
        rough = np.diag(variances)
        errors, figures = [], []
        for power in (0.0, 0.5, 1.0):
            factors = (variances / variances.min()) ** (-power / 2)
            back, radius = np.diag(1 / factors), float(np.sqrt(np.sum(factors**2 * variances)))
            errors.append(turned(rough, back, radius, rng, k))
            figures.append(noise_across(rough, k)(radius, back))
        assert np.argmin(errors) == np.argmin(figures)
        np.testing.assert_allclose(np.array(figures) / figures[0], np.array(errors) / errors[0], rtol=0.3)


def test_a_mean_below_its_noise_is_drawn_to_0_and_a_long_one_stays():
    rng = np.random.default_rng(1)
    for length, most in ((0.0, 0.35), (1.0, 1.0), (100.0, 1.01)):
        truth = np.full(12, length / np.sqrt(12))
        noisy = truth + 0.5 * rng.normal(size=(400, 12))
        shrunk = np.stack([shrunk_mean(row, 0.5) for row in noisy])
        error, plain = (np.mean(np.sum((v - truth) ** 2, axis=1)) for v in (shrunk, noisy))
        assert error <= most * plain
    np.testing.assert_array_equal(shrunk_mean(np.zeros(3), 1.0), np.zeros(3))
