"""The runner: planted faults are caught, right mechanisms pass, stopping and going on change nothing that is said.

A right mechanism is called wrong with probability at most 1e-3 for each; seeds are fixed.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from dpeigen.auditing import FAULTS, TARGETS, AuditPlan, find_target, run_audits, runner
from dpeigen.auditing.draws import BufferedRandomness
from dpeigen.auditing.pairs import catalogue, neighbours_of
from dpeigen.auditing.targets import select
from dpeigen.methods import METHODS
from dpeigen.privacy import Relation
from dpeigen.privacy.randomness import SeededRandomness, made_up_generator


def audited(name, folder, epsilon, runs, seed=3):
    plan = AuditPlan((name,), (epsilon,), runs, rounds=0, quick=True, seed=seed)
    (result,), missing = run_audits(plan, folder, workers=1)
    assert missing == []
    return result


@pytest.mark.mostly_slow(fast=4)
@pytest.mark.parametrize("name", FAULTS)
def test_every_planted_fault_is_caught(name, tmp_path):
    fault = FAULTS[name]
    result = audited(name, tmp_path, fault.epsilon, fault.runs)
    assert result.refuted
    assert result.lower > result.epsilon == fault.epsilon


@pytest.mark.mostly_slow(fast=1)
@pytest.mark.parametrize(
    ("name", "epsilon", "least"),
    [("gaussian", 4.0, 0.4), ("laplace, one column", 2.0, 0.5), ("direction", 4.0, 0.1), ("local privunit", 2.0, 0.5)],
)
def test_the_right_mechanisms_pass_and_the_audit_is_not_idle(name, epsilon, least, tmp_path):
    result = audited(name, tmp_path, epsilon, 1200)
    assert not result.refuted
    assert least * epsilon < result.lower <= epsilon


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_runs_and_shows_finite_numbers_of_one_length(name):
    target = find_target(name, 4.0)
    pairs = catalogue(target)
    rng = SeededRandomness(made_up_generator(1))
    shapes = set()
    for pair in (pairs[0], pairs[-1]):
        for rows in (pair.first, pair.second):
            seen = target.run(rows, rng)
            assert np.isfinite(seen).all()
            shapes.add(seen.shape)
    assert len(shapes) == 1
    assert target.claim.budget.epsilon <= 4.0 or "as printed" in name  # which states what it really costs


def test_every_method_has_a_target():
    names = {name.split(",")[0] for name in TARGETS}
    assert names >= set(METHODS)
    assert names >= {"radius", "centre", "direction", "mean", "top eigenvalue", "score map"}  # steps that are paid for
    assert names >= {"local gaussian", "local privunit", "shuffled privunit", "PrivatePCA", "PrivateRidge"}


def test_draws_in_bulk_are_the_same_law_and_used_once():
    """Deviations of 40,000 integers within 5 standard errors; no integer is handed out twice."""
    rng = BufferedRandomness()
    for draw, variance in ((rng.discrete_gaussian, 2.0**60), (rng.discrete_laplace, 2 * 2.0**60)):
        parts = [draw(2.0**30, size) for size in (3, 509, 1, 600, *[1000] * 39)]
        assert [len(part) for part in parts[:4]] == [3, 509, 1, 600]
        values = np.concatenate(parts).astype(float)
        assert len(np.unique(values)) > 0.999 * len(values)
        assert abs(values.var() / variance - 1) < 5 * np.sqrt(5 / len(values))


@pytest.mark.slow
def test_the_pair_found_at_the_largest_epsilon_serves_for_all(tmp_path):
    plan = AuditPlan(("laplace, one column",), (1.0, 4.0), 400, rounds=2, quick=True, seed=1)
    results, missing = run_audits(plan, tmp_path, workers=1)
    assert missing == []
    assert [result.epsilon for result in results] == [1.0, 4.0]
    assert results[0].pair == results[1].pair


@pytest.mark.parametrize("name", ["gaussian", "gaussian, add/remove", "local gaussian", "spiked", "kendall"])
def test_pairs_are_neighbours_also_after_a_search(name):
    target = find_target(name, 4.0)
    uniform = SeededRandomness(made_up_generator(2)).uniform
    for pair in catalogue(target):
        for _ in range(5):
            first, second = pair.first, pair.second
            if target.relation is Relation.ADD_REMOVE:
                assert len(first) == len(second) + 1
                np.testing.assert_array_equal(first[:-1], second)
            else:
                assert first.shape == second.shape == (target.n_rows, target.n_features)
                assert np.count_nonzero((first != second).any(axis=1)) <= 1
            pair = neighbours_of(pair, target, uniform)


def test_names_of_mechanisms():
    assert select([]) == list(TARGETS)
    assert select(["laplace"]) == [n for n in TARGETS if n.split(",")[0] == "laplace"]
    assert select(["radius, add/remove"]) == ["radius, add/remove"]
    with pytest.raises(ValueError, match=r"no mechanism .lapalce.*laplace"):
        select(["lapalce"])


# --- time, and going on -------------------------------------------------------------------------------------------


def test_an_audit_that_is_interrupted_goes_on_and_says_the_same(tmp_path, monkeypatch):
    plan = AuditPlan(("laplace, one column",), (1.0,), 400, rounds=1, quick=True, seed=5)
    whole, _ = run_audits(plan, tmp_path / "whole", workers=1)
    right, calls = runner.work, []

    def breaks(job):
        calls.append(job.file)
        if len(calls) == 9:
            raise KeyboardInterrupt
        return right(job)

    monkeypatch.setattr(runner, "work", breaks)
    with pytest.raises(KeyboardInterrupt):
        run_audits(plan, tmp_path / "parts", workers=1)
    before = list(calls)
    done, _ = run_audits(plan, tmp_path / "parts", workers=1)
    assert done == whole
    assert len(set(before[:8]) & set(calls[9:])) <= 2  # only what was in flight is done again


def test_no_time_means_nothing_is_said(tmp_path):
    plan = AuditPlan(("laplace", "gaussian"), (1.0,), 400, rounds=0, quick=True, seed=5)
    results, missing = run_audits(plan, tmp_path, minutes=1e-9, workers=1)
    assert results == []
    assert missing == ["laplace, ε = 1", "gaussian, ε = 1"]


def test_when_time_is_up_the_last_whole_reading_counts(tmp_path, monkeypatch):
    plan = AuditPlan(("laplace, one column",), (1.0,), 400, rounds=0, quick=True, seed=5)
    right = runner.work

    def late(job):
        if job.stage == "fresh" and job.piece >= runner.READINGS[1]:
            raise runner.LateError
        return right(job)

    monkeypatch.setattr(runner, "work", late)
    (result,), missing = run_audits(plan, tmp_path, workers=1)
    assert missing == []
    assert (result.trials, result.planned) == (200, 400)
    # A reading may be wrong with a third of what the confidence allows.
    assert plan.level == pytest.approx(1 - 0.001 / 3)


def test_pilot_and_fresh_runs_share_no_draw(tmp_path):
    run_audits(AuditPlan(("laplace, one column",), (1.0,), 160, rounds=0, quick=True, seed=5), tmp_path, workers=1)
    (folder,) = [f for f in tmp_path.iterdir() if f.is_dir()]
    seen = [np.load(file).tobytes() for file in folder.glob("*.npy")]
    assert len(set(seen)) == len(seen) == 4 * runner.PIECES


def test_another_plan_in_the_same_folder_is_refused(tmp_path):
    run_audits(AuditPlan((), (1.0,)), tmp_path, workers=1)
    with pytest.raises(ValueError, match="another plan"):
        run_audits(AuditPlan((), (2.0,)), tmp_path, workers=1)
    assert json.loads((tmp_path / "plan.json").read_text())["epsilons"] == [1.0]


@pytest.mark.parametrize("bad", [{"runs": 1}, {"rounds": -1}, {"confidence": 1.0}, {"epsilons": (0.0,)}])
def test_bad_plans_are_refused(bad):
    with pytest.raises(
        ValueError, match=f"'{next(iter(bad)).removesuffix('s') if 'eps' in str(bad) else next(iter(bad))}"
    ):
        AuditPlan(("gaussian",), **bad)


def test_two_processes_say_what_one_says(tmp_path):
    plan = AuditPlan(("laplace, one column",), (1.0,), 160, rounds=0, quick=True, seed=5)
    assert run_audits(plan, tmp_path / "one", workers=1) == run_audits(plan, tmp_path / "two", workers=2)
