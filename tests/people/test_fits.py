"""Fits that protect people: what is said, what is not, who is refused, and what more rows of the same people bring."""

from __future__ import annotations

import io
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from dpeigen import Ledger, PrivateCovariance, PrivatePCA, PrivateRidge, PrivateScoreMap, load_release
from dpeigen.methods import METHODS, OnePassMethod
from dpeigen.privacy.guarantee import Guarantee, UnitWarning
from dpeigen.report import write_card
from dpeigen.sources import open_source, show_progress
from dpeigen.stats import sin_theta

from .conftest import NAMES, visits

BUDGET = {"epsilon": 4.0, "delta": 1e-6}
UNIT = {**BUDGET, "unit": "patient_id"}


# --- what is said ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted(table):
    return PrivatePCA(2, **UNIT).fit(table)


def test_the_guarantee_says_whom_it_protects(fitted):
    assert fitted.guarantee_.unit == fitted.release_.unit == "patient_id"
    assert "all rows of one 'patient_id' replaced" in str(fitted.guarantee_)
    assert "knows all rows of every other 'patient_id' guesses the rows of the remaining one" in str(fitted.guarantee_)
    assert PrivatePCA(1, **BUDGET, bound=9).fit(np.eye(4)[[0, 1, 2, 3] * 5]).guarantee_.unit == "row"


def test_the_unit_is_no_feature(fitted, table):
    assert list(fitted.feature_names_in_) == NAMES
    assert fitted.release_.facts["feature_names"] == NAMES
    assert fitted.transform(table).shape == (len(table), 2)
    np.testing.assert_array_equal(fitted.transform(table), fitted.transform(table[NAMES]))


def test_the_number_of_people_is_public_and_that_of_rows_is_not(fitted, table, tmp_path):
    assert fitted.release_.facts["n_rows"] == table["patient_id"].nunique() == 1500
    more = pd.concat([table, table[table["patient_id"] == "SECRET00007"]] * 3)
    other = PrivatePCA(2, **UNIT).fit(more)
    assert other.release_.facts["n_rows"] == 1500
    other.release_.save(tmp_path / "r")
    assert str(len(more)) not in (tmp_path / "r" / "release.json").read_text() + str(other.guarantee_)


def test_release_files_and_cards_say_it_and_old_files_load(fitted, tmp_path):
    fitted.release_.save(tmp_path / "r")
    found = load_release(tmp_path / "r")
    assert found.unit == "patient_id"
    assert str(found.guarantee) == str(fitted.guarantee_)
    text = write_card(found, tmp_path / "r").read_text(encoding="utf-8")
    assert "all rows of one" in text
    assert "protected less" not in text
    old = fitted.guarantee_.to_dict()
    del old["unit"]
    assert Guarantee.from_dict(old).unit == "row"


def test_ids_are_nowhere(table, tmp_path, caplog, capsys):
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=20.0, delta=1e-4)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        fitted = PrivatePCA(2, **UNIT, ledger=ledger, random_state=0).fit(table)
        model = PrivateRidge(**UNIT, ledger=ledger).fit(table, "sugar")
    fitted.release_.save(tmp_path / "r")
    write_card(fitted.release_, tmp_path / "r")
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    said = capsys.readouterr()
    texts = f"{fitted.release_}{fitted.guarantee_}{caplog.text}{[str(w.message) for w in warned]}{said.out}{said.err}"
    for held in (written, pickle.dumps(fitted), pickle.dumps(model), texts.encode()):
        assert b"SECRET" not in held
    assert b"all rows of one 'patient_id'" in written


def test_ledgers_do_not_add_up_different_units(table, tmp_path):
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=20.0, delta=1e-4)
    PrivatePCA(2, **UNIT, ledger=ledger).fit(table)
    with pytest.raises(ValueError, match="do not add up"):
        PrivatePCA(2, **BUDGET, ledger=ledger).fit(table[NAMES])
    PrivateCovariance(**UNIT, ledger=ledger).fit(table)
    assert not ledger.verify().problems


def test_the_meter_counts_people(table):
    screen = Console(file=io.StringIO(), force_terminal=True, width=200)
    with show_progress(screen):
        PrivatePCA(2, **UNIT, method="gaussian", bound=9.0).fit(table)
    assert str(len(table)) not in screen.file.getvalue().replace(",", "")


# --- every method, both relations -----------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("method", ["auto", "gaussian", "laplace", "matrix-laplace", "spatial-sign", "refined",
                                    "whitened", "eigenvector-sampling", "kapralov-talwar", "kendall",
                                    "geodesic"])  # fmt: skip
@pytest.mark.parametrize("max_rows", [None, 3])
def test_methods_find_the_direction_of_people(table, method, relation, max_rows):
    if relation == "add_remove" and method in ("kendall", "geodesic"):
        pytest.skip("for replacement only")
    options = {"method": method, "relation": relation, "max_rows": max_rows, "random_state": 0}
    free = ("auto", "spatial-sign", "refined", "whitened", "kendall", "geodesic")
    bound = None if method in free else 15.0
    fitted = PrivatePCA(1, **{**UNIT, "epsilon": 20.0}, bound=bound, **options).fit(table)
    assert abs(fitted.components_[0, 0]) > 0.9
    assert fitted.guarantee_.unit == "patient_id"
    assert fitted.guarantee_.spent_epsilon <= 20.0 * (1 + 1e-9)


@pytest.mark.parametrize("method", [name for name, kind in METHODS.items() if issubclass(kind, OnePassMethod)])
def test_streams_see_people(method):
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(12_000), 2)
    rows = rng.normal(size=(len(ids), 3)) * [3.0, 1.0, 1.0]
    fitted = PrivatePCA(1, epsilon=30.0, delta=1e-5, method=method, bound=12.0, center=None, random_state=0)
    fitted.fit(rows, unit=ids)
    assert abs(fitted.components_[0, 0]) > 0.9
    assert fitted.guarantee_.unit == "unit"


def test_ridge_private_rank_and_maps(table):
    model = PrivateRidge(**{**UNIT, "epsilon": 20.0}).fit(table, "sugar")
    assert model.release_.unit == "patient_id"
    assert list(model.feature_names_in_) == NAMES[:3]
    again = PrivateRidge(**{**BUDGET, "epsilon": 20.0}).fit(table[NAMES[:3]], table["sugar"], unit=table["patient_id"])
    assert again.release_.unit == "patient_id"
    pca = PrivatePCA("private", **{**UNIT, "epsilon": 20.0}).fit(table)
    assert pca.release_.unit == "patient_id"
    found = PrivateScoreMap(PrivatePCA(2, **UNIT).fit(table).release_, epsilon=5.0).fit(table)
    assert found.guarantee_.unit == "patient_id"
    assert found.map_.n_rows == 1500
    assert abs(found.map_.counts.sum() - 1500) < 300  # one row of each, and noise on 256 cells


def test_a_map_protects_what_its_release_protects(table):
    by_row = PrivatePCA(2, **BUDGET, bound=15.0).fit(table[NAMES]).release_
    with pytest.raises(ValueError, match="that of the release"):
        PrivateScoreMap(by_row, epsilon=1.0, unit="patient_id").fit(table)


def test_rows_count_alike_under_a_cap():
    """People with many rows are spread more; under a cap they weigh more, without one every person weighs the same."""
    rng = np.random.default_rng(0)
    sizes = np.where(np.arange(4000) % 2, 1, 6)
    ids = np.repeat(np.arange(4000), sizes)
    rows = rng.normal(size=(len(ids), 2)) * np.where(sizes[ids] > 1, 3.0, 1.0)[:, None]
    options = {"epsilon": 30.0, "delta": 1e-6, "bound": 15.0, "center": None, "method": "gaussian", "random_state": 0}
    for relation in ("replace", "add_remove"):
        shared = PrivateCovariance(**options, relation=relation).fit(rows, unit=ids).covariance_[0, 0]
        alike = PrivateCovariance(**options, relation=relation, max_rows=6).fit(rows, unit=ids).covariance_[0, 0]
        assert shared == pytest.approx(5.0, rel=0.1)  # (9 + 1)/2
        assert alike == pytest.approx((6 * 9 + 1) / 7, rel=0.1)


# --- who is refused, and warned -------------------------------------------------------------------------------------


def test_refusals_before_spending(table, tmp_path):
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=20.0, delta=1e-4)
    rows = table[NAMES].to_numpy()
    numbered = table.assign(patient_id=table["patient_id"].str[6:].astype(float))
    cases = [
        (lambda: PrivatePCA(1, **UNIT, ledger=ledger).fit(rows), "fit\\(X, unit=ids\\)"),
        (lambda: PrivatePCA(1, **BUDGET, unit="nobody", ledger=ledger).fit(table), "one of the 5 columns"),
        (lambda: PrivatePCA(1, **BUDGET, ledger=ledger).fit(rows, unit=np.arange(7)), "one id for each row"),
        (lambda: PrivatePCA(1, **BUDGET, ledger=ledger).fit(rows, unit=np.ones((len(rows), 2))), "one dimension"),
        (lambda: PrivatePCA(1, **BUDGET, ledger=ledger).fit(rows, unit=np.zeros(len(rows))), "at least 2 different"),
        (lambda: PrivatePCA(1, **BUDGET, max_rows=3, ledger=ledger).fit(rows), "None without 'unit'"),
        (
            lambda: PrivatePCA(1, **BUDGET, ledger=ledger).fit(numbered, unit=numbered["patient_id"]),
            "not used as a feature",
        ),
        (lambda: PrivatePCA(1, **UNIT, max_rows=0, ledger=ledger).fit(table), "max_rows"),
    ]
    for call, words in cases:
        with pytest.raises((ValueError, TypeError), match=words) as refused:
            call()
        assert str(len(rows)) not in str(refused.value)
    assert ledger.remaining().epsilon == 20.0


@pytest.mark.parametrize("where", ["stands for its person", "is passed over"])
def test_a_bad_row_is_refused_whether_it_stands_for_its_person_or_not(where, tmp_path):
    table = visits(300)
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=20.0, delta=1e-4)
    whose = table["patient_id"].value_counts()
    if where == "is passed over":
        theirs = np.flatnonzero(table["patient_id"] == whose.index[0])
        table.loc[theirs[:1], "pulse"] = np.nan
    else:
        alone = whose.index[whose == 1][0]
        table.loc[table["patient_id"] == alone, "pulse"] = np.nan
    for method in ("auto", "kendall", "gaussian"):
        with pytest.raises(ValueError, match="othing was spent"):
            PrivatePCA(1, **UNIT, method=method, bound=None if method != "gaussian" else 9.0, ledger=ledger).fit(table)
    assert ledger.remaining().epsilon == 20.0


@pytest.mark.parametrize(
    "name",
    ["id", "patient_id", "PatientID", "userId", "customer", "subject no", "MRN", "pid", "PatNo", "caseid", "household"],
)
def test_names_that_look_like_identifiers_are_warned_of(name):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=[name, "age"])
    with pytest.warns(UnitWarning, match="unit="):
        PrivatePCA(1, epsilon=1.0, bound=3.0).explain(frame)


@pytest.mark.parametrize(
    "name", ["age", "patient age", "humidity", "acid", "number of users", "width", "household size", "cases"]
)
def test_other_names_are_not(name):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=[name, "x"])
    PrivatePCA(1, epsilon=1.0, bound=3.0).explain(frame)  # a warning would be an error


# --- what more rows bring -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["correlated", "independent"])
@pytest.mark.parametrize("method", ["auto", "gaussian"])
def test_all_rows_are_no_worse_than_one_each(kind, method):
    """Mean sinΘ over 12 fits each; the same seed draws the same noise. All rows have 0.5–0.9 times the error of one."""
    errors = {"all": 0.0, "one": 0.0}
    for seed in range(12):
        rng = np.random.default_rng([seed, len(kind)])
        ids = np.repeat(np.arange(600), rng.integers(1, 12, 600))
        between = rng.normal(size=(600, 5))[ids] if kind == "correlated" else 0.0
        rows = (between + rng.normal(size=(len(ids), 5))) * [2.0, 1.6, 1.0, 1.0, 1.0]
        rows = rows @ np.linalg.qr(np.random.default_rng(1).normal(size=(5, 5)))[0]
        truth = np.linalg.qr(np.random.default_rng(1).normal(size=(5, 5)))[0][:2]
        _, first = np.unique(ids, return_index=True)
        options = {"epsilon": 8.0, "delta": 1e-6, "method": method, "bound": 9.0 if method == "gaussian" else None}
        for name, part in (("all", slice(None)), ("one", first)):
            found = PrivatePCA(2, **options, random_state=seed).fit(rows[part], unit=ids[part])
            errors[name] += sin_theta(found.components_, truth)
    assert errors["all"] <= 1.05 * errors["one"]


def test_explain_and_sources_opened_with_a_unit(table):
    source = open_source(table, unit="patient_id")
    plan = PrivatePCA(2, **BUDGET).explain(source)
    assert plan.guarantee.unit == "patient_id"
    assert PrivatePCA(2, **BUDGET).fit(source).release_.unit == "patient_id"
    with pytest.raises(ValueError, match="that of the source"):
        PrivatePCA(2, **BUDGET, unit="ward").fit(source)


def test_ids_given_to_fit_are_called_as_the_parameter_says(table):
    ids = np.arange(len(table)) // 2
    fit = PrivatePCA(1, **BUDGET, unit="patient", random_state=0).fit(table[NAMES].to_numpy(), unit=ids)
    assert fit.guarantee_.unit == "patient"
    with pytest.raises(ValueError, match="not used as a feature"):  # by which of the two?
        PrivatePCA(1, **UNIT).fit(table, unit=ids)
