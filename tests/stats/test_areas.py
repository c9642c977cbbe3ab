"""Means of groups drawn to their regression on public facts: better where groups are small, and never much worse."""

from __future__ import annotations

import numpy as np
import pytest

from dpeigen.stats.areas import drawn_to_regression

GROUPS = 40


def made(seed, between, noise):
    rng = np.random.default_rng(seed)
    facts = rng.normal(size=(GROUPS, 2))
    truth = facts @ rng.normal(size=(2, 2)) + between * rng.normal(size=(GROUPS, 2))
    deviations = np.repeat(noise * np.exp(rng.normal(size=(GROUPS, 1))), 2, axis=1)
    return facts, truth, truth + deviations * rng.normal(size=truth.shape), deviations


def error(points, truth):
    return float(np.sqrt(np.mean((points - truth) ** 2)))


@pytest.mark.parametrize("between", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("noise", [0.02, 0.5, 3.0])
def test_better_than_the_means_alone(between, noise):
    """Over 20 seeds; the twin, facts that were shuffled, loses what the facts say."""
    ours, plain, shuffled = [], [], []
    for seed in range(20):
        facts, truth, means, deviations = made(seed, between, noise)
        ours.append(error(drawn_to_regression(means, deviations, facts, 1.0)[0], truth))
        plain.append(error(means, truth))
        wrong = np.random.default_rng(seed).permutation(facts)
        shuffled.append(error(drawn_to_regression(means, deviations, wrong, 1.0)[0], truth))
    assert np.mean(ours) < 1.02 * np.mean(plain)
    if noise > between:
        assert np.mean(ours) < 0.9 * np.mean(plain)
        assert np.mean(ours) < 0.95 * np.mean(shuffled)


def test_errors_are_about_right():
    ratios = []
    for seed in range(20):
        facts, truth, means, deviations = made(seed, 0.5, 0.5)
        points, errors = drawn_to_regression(means, deviations, facts, 1.0)
        ratios.append(np.mean(((points - truth) / errors) ** 2))
    assert 0.7 < np.median(ratios) < 1.6


def test_facts_that_do_not_vary_and_units():
    facts, _, means, deviations = made(0, 0.3, 1.0)
    points, _ = drawn_to_regression(means, deviations, facts, 1.0)
    same, _ = drawn_to_regression(means, deviations, 1e3 * facts + 7.0, 1.0)
    np.testing.assert_allclose(points, same, rtol=1e-9, atol=1e-12)
    with_constant, _ = drawn_to_regression(means, deviations, np.column_stack([facts, np.full(GROUPS, 3.0)]), 1.0)
    np.testing.assert_allclose(points, with_constant, rtol=1e-9, atol=1e-12)
