"""A target that is a level of a category: the other levels would predict it without error, so R² would be 1."""

import numpy as np
import pytest

from dpeigen import Ledger, PrivateCovariance, PrivateRidge

COLUMNS = {"age": None, "ward": {"categories": ["a", "b", "c"]}, "died": {"categories": ["no", "yes"]}}
BUDGET = {"epsilon": 4.0, "delta": 1e-6, "columns": COLUMNS}


@pytest.fixture(scope="module")
def frame():
    pandas, rng = pytest.importorskip("pandas"), np.random.default_rng(0)
    age = rng.normal(60, 10, 20_000)
    died = np.where(age + rng.normal(0, 10, len(age)) > 70, "yes", "no")
    return pandas.DataFrame({"age": age, "ward": rng.choice(["a", "b", "c"], len(age)), "died": died})


@pytest.mark.parametrize("target", ["died=yes", "ward=b"])
def test_a_level_of_a_category_is_refused_as_target_before_spending(frame, tmp_path, target):
    ledger = Ledger.create(tmp_path / "l.ledger", epsilon=4.0, delta=1e-6)
    model = PrivateRidge("auto", **BUDGET, ledger=str(tmp_path / "l.ledger"))
    with pytest.raises(ValueError, match="follows from its other levels, which would be features"):
        model.fit(frame, target)
    with pytest.raises(ValueError, match="declare 'died' as an ordinal scale" if "died" in target else "'ward'"):
        model.explain(frame, target)
    assert ledger.history() == []


@pytest.mark.parametrize("scale", [None, "private"])
def test_a_regression_from_a_release_leaves_the_other_levels_out(frame, scale):
    release = PrivateCovariance(**BUDGET, scale=scale).fit(frame).release_
    wanted = ("age", "ward=a", "ward=b", "ward=c")
    assert release.ridge("died=yes", alpha="auto").feature_names == wanted
    found = release.regression("died=yes", alpha=1.0)
    assert found.feature_names == wanted
    assert 0.1 < found.r_squared < 0.6
    everything = [*wanted, "died=no"]
    assert release.ridge("died=yes", features=everything).feature_names == tuple(everything)  # if asked for


def test_two_levels_as_a_scale_are_a_target(frame):
    columns = {**COLUMNS, "died": {"levels": ["no", "yes"]}}
    model = PrivateRidge("auto", **{**BUDGET, "columns": columns}, scale="private").fit(frame, "died")
    assert model.release_.regression("died", alpha=1.0).r_squared < 0.6
