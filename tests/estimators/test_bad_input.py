"""Bad input gets a clear error and spends nothing: every error names what is wrong, and none quotes the data."""

from __future__ import annotations

import re
import shutil
import traceback

import numpy as np
import pytest
import scipy.sparse
import sklearn

from dpeigen import Ledger, PrivateCovariance, PrivatePCA
from dpeigen.methods import Gaussian, MatrixLaplace, SpatialSign
from dpeigen.privacy.ledger import BudgetExceededError
from dpeigen.privacy.randomness import SeededRandomness
from dpeigen.sources import PairedSource, Source
from dpeigen.stats import BadRowsError, Frame, Lattice, SecondMoment

X = np.random.default_rng(3).normal(size=(60, 3))
SECRET = 7.25  # stands in the data where an error is provoked; must appear in no message


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return Ledger.create(tmp_path_factory.mktemp("ledger") / "study.ledger", epsilon=100.0, delta=0.1).path


@pytest.fixture
def ledger(template, tmp_path):
    return Ledger(shutil.copy(template, tmp_path / "study.ledger"))


@pytest.fixture(params=[False, True], ids=["checks", "sklearn-checks-off"])
def switched_off(request):
    """scikit-learn's own validation as it is, and switched off: ours must not depend on it."""
    options = {"assume_finite": True, "skip_parameter_validation": True} if request.param else {}
    with sklearn.config_context(**options):
        yield request.param


def spent(ledger) -> list[str]:
    """States of all entries that count as spent."""
    return [entry["state"] for entry in ledger.history() if entry["state"] != "cancelled"]


def refuse(estimator, data, error=ValueError, match="must be", *, ledger):
    """The fit fails with this error, leaves nothing behind, and costs nothing."""
    with pytest.raises(error, match=match) as caught:
        estimator.set_params(ledger=ledger).fit(data)
    assert spent(ledger) == []
    assert not hasattr(estimator, "release_")
    shown = "".join(traceback.format_exception(caught.value))
    assert "7.25" not in str(caught.value)
    assert "7.25" not in shown.replace("SECRET = 7.25", "")
    return caught.value


def pca(k=2, **options):
    return PrivatePCA(k, **{"epsilon": 1.0, "bound": 5.0, "random_state": 0, **options})


def covariance(**options):
    return PrivateCovariance(**{"epsilon": 1.0, "bound": 5.0, "random_state": 0, **options})


BOTH = pytest.mark.parametrize("make", [pca, covariance])

# --- parameters ---------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("epsilon", [0, 0.0, -1, -1e-300, np.nan, np.inf, -np.inf])
def test_epsilon_is_finite_and_positive(make, epsilon, ledger, switched_off):
    match = r"'epsilon' parameter of Private\w+ must be a finite number > 0\. Got .* instead\. There is no default"
    error = refuse(make(epsilon=epsilon), X, match=match, ledger=ledger)
    assert repr(epsilon) in str(error)


@BOTH
@pytest.mark.parametrize("epsilon", [True, np.True_, "1", None, [1.0], 1j])
def test_epsilon_is_a_number(make, epsilon, ledger, switched_off):
    refuse(make(epsilon=epsilon), X, TypeError, r"'epsilon' parameter .* Got .* There is no default", ledger=ledger)


def test_epsilon_and_n_components_have_no_default():
    with pytest.raises(TypeError, match="epsilon"):
        PrivateCovariance()
    with pytest.raises(TypeError, match="n_components"):
        PrivatePCA(epsilon=1.0)


@BOTH
@pytest.mark.parametrize("delta", [-1e-9, 1, 1.0, 2, np.nan, np.inf])
def test_delta_is_in_its_range(make, delta, ledger, switched_off):
    refuse(make(delta=delta), X, match=r"'delta' parameter .* \[0, 1\)\. Got .* Use 0 for pure", ledger=ledger)


@BOTH
@pytest.mark.parametrize("delta", [False, "0", None])
def test_delta_is_a_number(make, delta, ledger, switched_off):
    refuse(make(delta=delta), X, TypeError, r"'delta' parameter .* \[0, 1\)\. Got", ledger=ledger)


@BOTH
@pytest.mark.parametrize("method", ["gaussian", Gaussian()])
def test_gaussian_noise_needs_a_delta(make, method, ledger, switched_off):
    match = r"'delta' parameter .* > 0 for method='gaussian'\. Got 0\.0 .*1e-6, or use method='matrix-laplace'"
    refuse(make(method=method), X, match=match, ledger=ledger)


@BOTH
@pytest.mark.parametrize("method", ["laplace", "matrix-laplace", MatrixLaplace(), "gaussian"])
def test_a_missing_bound_names_the_three_remedies(make, method, ledger, switched_off):
    error = refuse(make(method=method, bound=None, delta=1e-6), X, match="'bound' parameter", ledger=ledger)
    for remedy in ("Three remedies", "bound=R", "bound=(lower, upper)", "bound='private'"):
        assert remedy in str(error)


@BOTH
@pytest.mark.parametrize(
    "bound",
    [0, -1.0, np.nan, np.inf, 1e151, 1e-151, (1, 2, 3), (1.0,), (2.0, 1.0), (1.0, 1.0), (np.nan, 1.0), (0.0, np.inf),
     ([0, 0], [1, 1]), (0.0, 1e151), (-1e200, 0.0), (0.0, 1e-160), (-5e-324, 5e-324), "auto", "Private",
     ([0, 0, 3], [1, 1, 2])],
)  # fmt: skip
def test_bounds_make_sense(make, bound, ledger, switched_off):
    refuse(make(bound=bound), X, match=r"'bound' parameter of Private\w+ must be .* Got .* instead", ledger=ledger)


@BOTH
@pytest.mark.parametrize("bound", [True, {"a": 1}, 1j, ("a", "b"), object()])
def test_bounds_are_numbers(make, bound, ledger, switched_off):
    refuse(make(bound=bound), X, TypeError, r"'bound' parameter of Private\w+ must be", ledger=ledger)


def test_a_crossed_box_names_the_column(ledger):
    error = refuse(pca(bound=([0, 0, 3], [1, 1, 2])), X, match="lower < upper in every column", ledger=ledger)
    assert "lower=3, upper=2 in column 2" in str(error)


@BOTH
@pytest.mark.parametrize("bound", [1e150, 1e-150, (-1e150, 1e150), (-1e-150, 1e-150), (-1e150, [1.0, 1e150, 1e-150]),
                                   (0.0, [1e-150, 1e-200, 5e-324])])  # fmt: skip
@pytest.mark.parametrize("method", ["auto", "spatial-sign", "gaussian"])
def test_the_largest_and_smallest_bounds_give_finite_answers(make, bound, method):
    fitted = make(bound=bound, method=method, delta=1e-6, center=None).fit(X)
    assert np.isfinite(fitted.release_.covariance).all()
    assert (fitted.release_.eigenvalues >= 0).all()


@BOTH
@pytest.mark.parametrize("center", [np.nan, [1.0, 2.0], [0, np.inf, 0], 1e151, "mean"])
def test_centres_make_sense(make, center, ledger, switched_off):
    refuse(make(center=center), X, match=r"'center' parameter of Private\w+ must be", ledger=ledger)


@BOTH
def test_words_are_known(make, ledger, switched_off):
    refuse(make(method="gauss"), X, match="'method' parameter .* 'gaussian'.* Got 'gauss' instead", ledger=ledger)
    refuse(make(method=3), X, TypeError, "'method' parameter .* Got 3 instead", ledger=ledger)
    refuse(make(method=Gaussian), X, TypeError, "'method' parameter .* an instance", ledger=ledger)
    refuse(make(relation="swap"), X, match="'relation' parameter .* 'replace' or 'add_remove'", ledger=ledger)
    refuse(make(relation=None), X, match="'relation' parameter", ledger=ledger)
    refuse(make(missing="ignore"), X, match="'missing' parameter .* 'drop'", ledger=ledger)
    for seed in (-1, "0", 1.5, True):
        refuse(make(random_state=seed), X, match="'random_state' parameter", ledger=ledger)


@pytest.mark.parametrize("k", [0, -1, 4, 10**9])
def test_n_components_is_between_one_and_d(k, ledger, switched_off):
    error = refuse(pca(k), X, match="'n_components' parameter of PrivatePCA must be an integer", ledger=ledger)
    assert f"Got {k} instead" in str(error)


@pytest.mark.parametrize("k", [1.0, "2", True, None, [1]])
def test_n_components_is_an_integer(k, ledger, switched_off):
    refuse(pca(k), X, TypeError, "'n_components' parameter of PrivatePCA must be an integer", ledger=ledger)


def test_pairs_need_replacement(ledger, switched_off):
    match = r"'center' parameter .*add_remove.* Got 'pairs' instead\. Use relation='replace', or center='private'"
    refuse(pca(center="pairs", relation="add_remove"), X, match=match, ledger=ledger)


@BOTH
@pytest.mark.parametrize("rows", [60, 15])
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"bound": "private", "method": "matrix-laplace"}, r"'bound' parameter .* or give a bound"),
        ({"bound": None, "delta": 1e-6, "method": "spatial-sign"}, r"'bound' parameter .* or give a bound"),
        # A bound is given already, so the remedy is a method that uses it.
        ({"bound": (-1.0, 1.0), "delta": 1e-6, "method": "whitened"}, r"'method' parameter .* or method='auto'"),
    ],
)
def test_a_private_radius_for_too_few_rows(make, options, match, rows, ledger, switched_off):
    told = refuse(make(**options), X[:rows], match=match, ledger=ledger)
    assert f"Got '{rows} rows" in str(told)
    enough = float(re.search(r"at least \d+ rows .*: use epsilon=([\d.e+]+)", str(told))[1])
    for epsilon, accepted in ((enough, True), (enough * 0.7, False)):
        model = make(**options).set_params(epsilon=epsilon, ledger=None, random_state=0)
        try:
            model.explain(X[:rows])
        except ValueError:
            assert not accepted
        else:
            assert accepted
    if make is pca and rows == 60:  # "auto" finds a method that needs no radius
        assert pca(bound="private").fit(X).guarantee_.mechanism == "kendall"


def test_a_ledger_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No ledger at .*Ledger.create\(path, epsilon="):
        pca(ledger=tmp_path / "none.ledger").fit(X)


# --- data ---------------------------------------------------------------------------------------------------------


def with_entry(value, dtype=float):
    rows = X.astype(dtype)
    rows[:, 0] = SECRET
    rows[17, 1] = value
    return rows


@BOTH
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "options",
    [{}, {"center": None}, {"center": "pairs"}, {"relation": "add_remove"}, {"bound": (-5, 5)}, {"bound": "private"},
     {"method": "spatial-sign"}, {"method": "spatial-sign", "bound": None}, {"method": "laplace"},
     {"method": "gaussian", "delta": 1e-6}],
    ids=str,
)  # fmt: skip
def test_nan_and_infinite_entries_are_refused_and_the_reservation_is_given_back(
    make, value, options, ledger, switched_off
):
    estimator = make(**{"epsilon": 20.0, **options})
    error = refuse(estimator, with_entry(value), BadRowsError, "NaN or infinite entries; nothing was", ledger=ledger)
    assert "missing='correct'" in str(error)
    assert "This refusal itself says something about the data" in str(error)
    assert [entry["state"] for entry in ledger.history()] == ["cancelled"]
    assert ledger.remaining().epsilon == 100.0


def test_nan_hidden_by_numbers_that_overflow_is_found(ledger):
    rows = X.copy()
    rows[:, 0] = 1.7e308
    rows[5, 1] = np.nan
    refuse(pca(), rows, BadRowsError, "NaN or infinite", ledger=ledger)
    rows[5, 1] = 0.0
    assert np.isfinite(pca().fit(rows).components_).all()  # a sum that overflows is no reason to refuse


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(
    ("options", "stand_in"),
    [
        ({"center": None}, [0.0, 0.0, 0.0]),
        ({"center": [1.0, -1.0, 0.5]}, [1.0, -1.0, 0.5]),
        ({"center": "private", "method": "matrix-laplace"}, [0.0, 0.0, 0.0]),
        (
            {"center": "private", "method": "matrix-laplace", "bound": (-2.0, [2.0, 4.0, 6.0])},
            [0.0, 1.0, 2.0],
        ),
        ({"center": None, "method": "spatial-sign"}, [0.0, 0.0, 0.0]),
        ({"center": None, "method": "laplace", "relation": "add_remove"}, [0.0, 0.0, 0.0]),
        ({"center": None, "method": "gaussian", "delta": 1e-6}, [0.0, 0.0, 0.0]),
        ({"center": None, "bound": "private", "epsilon": 50.0, "method": "laplace"}, [0.0, 0.0, 0.0]),
    ],
    ids=str,
)
@BOTH
def test_a_dropped_row_counts_as_a_row_at_the_centre(make, options, stand_in, value):
    bad, replaced = X.copy(), X.copy()
    bad[[4, 40], [2, 0]] = value
    replaced[[4, 40]] = stand_in
    dropped = make(missing="drop", **options).fit(bad).release_
    expected = make(**options).fit(replaced).release_
    for name in ("components", "eigenvalues", "covariance", "mean"):
        np.testing.assert_array_equal(getattr(dropped, name), getattr(expected, name))
    # Row by row: what one row is counted as does not depend on any other.
    one = bad.copy()
    one[40] = stand_in
    np.testing.assert_array_equal(make(missing="drop", **options).fit(one).release_.covariance,
                                  expected.covariance)  # fmt: skip


def test_a_dropped_row_empties_its_pair_only():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(10, 2))
    bad = rows.copy()
    bad[3, 0] = np.nan
    frame = Frame(2, pairs=True, missing="drop")
    whole, dropped = frame.image(rows), frame.image(bad)
    np.testing.assert_array_equal(dropped[1], [0.0, 0.0])
    np.testing.assert_array_equal(np.delete(dropped, 1, axis=0), np.delete(whole, 1, axis=0))
    fitted = covariance(center="pairs", missing="drop").fit(bad)
    assert np.isfinite(fitted.covariance_).all()


@BOTH
@pytest.mark.parametrize(
    ("data", "match"),
    [
        (with_entry("alice 7.25", object), "real numbers"),
        (np.full((4, 3), "7.25 mg"), "real numbers"),
        (np.full((4, 3), b"7.25 mg"), "real numbers"),
        (np.full((4, 3), "2020-07-25", dtype="M8[D]"), "real numbers"),
        (X + SECRET * 1j, "[Cc]omplex"),
        ([[SECRET, 2.0], [SECRET]], "rows differ in length"),
        ([[SECRET, [2.0, 3.0]], [SECRET, 1.0]], "rows differ in length"),
        (np.full(9, SECRET), "two-dimensional.*Reshape"),
        (SECRET, "two-dimensional"),
        (None, "two-dimensional"),
        (X[None], "dim"),
        (X[:1], "minimum of 2 is required"),
        (X[:0], "minimum of 2 is required"),
        (X[:, :0], "feature"),
        (np.array([(SECRET, 2.0)] * 4, dtype=[("a", "f8"), ("b", "f8")]), "two-dimensional"),
    ],
)
def test_what_is_not_a_table_of_numbers(make, data, match, ledger, switched_off):
    refuse(make(), data, ValueError, match, ledger=ledger)


@BOTH
@pytest.mark.parametrize("entry", [{"weight": SECRET}, 1 + SECRET * 1j, [SECRET], object()])
def test_objects_that_are_no_numbers(make, entry, ledger, switched_off):
    refuse(make(), with_entry(entry, object), (TypeError, ValueError), "real numbers|length", ledger=ledger)


@BOTH
@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_sparse_matrices_with_bad_entries_are_refused(make, form, ledger, switched_off):
    for kind in (scipy.sparse.coo_array, scipy.sparse.coo_matrix):
        refuse(make(), kind(with_entry(np.nan, float)).asformat(form), BadRowsError, "NaN", ledger=ledger)


def test_frames_with_text_or_missing_values(ledger):
    pandas = pytest.importorskip("pandas")
    numbers = [SECRET, 1.0, 2.0]
    text = pandas.DataFrame({"a": numbers, "name": ["7.25 mg", "y", "z"]})
    refuse(pca(1), text, ValueError, "real numbers", ledger=ledger)
    dates = pandas.DataFrame({"a": numbers, "born": pandas.to_datetime(["2007-07-25"] * 3)})
    refuse(pca(1), dates, (TypeError, ValueError), "real numbers", ledger=ledger)
    missing = pandas.DataFrame({"a": [SECRET, None, 2.0], "b": numbers})
    refuse(pca(1), missing, BadRowsError, "NaN", ledger=ledger)
    nullable = pandas.DataFrame({"a": pandas.array([7, None, 2], dtype="Int64"), "b": numbers})
    refuse(pca(1), nullable, BadRowsError, "NaN", ledger=ledger)


@pytest.mark.parametrize("text", ["a,b\n7.25,x\n1,2\n", "a,b\n7.25\n1,2\n", "a,b\n7.25,\n1,2\n"])
def test_files_with_something_else_than_numbers(text, tmp_path, ledger):
    (tmp_path / "rows.csv").write_text(text)
    refuse(pca(1), tmp_path / "rows.csv", BadRowsError, "nothing was spent|Nothing was spent", ledger=ledger)


@pytest.mark.parametrize("text", ["a,b\n", "a,b\n1.0,2.0\n"])
@pytest.mark.parametrize("options", [{}, {"center": "pairs"}, {"center": None}, {"method": "spatial-sign"}], ids=str)
def test_files_with_fewer_than_two_rows(text, options, tmp_path, ledger):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (tmp_path / "rows.csv").write_text(text)
    refuse(pca(1, **options), tmp_path / "rows.csv", ValueError, "at least 2 rows", ledger=ledger)
    values = [1.0] if "1.0" in text else []
    pq.write_table(pa.table({"a": pa.array(values, pa.float64())}), tmp_path / "rows.parquet")
    refuse(pca(1, **options), str(tmp_path / "rows.parquet"), ValueError, "at least 2 rows", ledger=ledger)


@BOTH
@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize(
    "options",
    [{}, {"center": None}, {"bound": "private"}, {"bound": (-5, 5)}, {"method": "spatial-sign", "bound": None},
     {"method": "gaussian", "delta": 1e-6}],
    ids=str,
)  # fmt: skip
def test_a_private_number_of_rows_is_not_told_by_a_refusal(make, n, options, tmp_path):
    """Under add/remove an empty table has neighbours: it gets an answer like any other."""
    (tmp_path / "rows.csv").write_text("a,b,c\n" + "0.1,0.2,0.3\n" * n)
    for data in (X[:n], tmp_path / "rows.csv"):
        release = make(relation="add_remove", **options).fit(data).release_
        assert np.isfinite(release.covariance).all()
        assert (release.eigenvalues >= 0).all()


def test_no_such_file_and_no_such_format(tmp_path, ledger):
    refuse(pca(), tmp_path / "rows.parquet", FileNotFoundError, "No such file", ledger=ledger)
    (tmp_path / "rows.sav").write_bytes(b"PK")
    refuse(pca(), tmp_path / "rows.sav", ValueError, r"Supported endings: .*\.parquet.*\.csv", ledger=ledger)


def test_a_wrong_number_of_columns_at_transform():
    fitted = pca().fit(X)
    with pytest.raises(ValueError, match="X has 2 features, but PrivatePCA is expecting 3"):
        fitted.transform(X[:, :2])
    for broken in (np.full((4, 3), "7.25 mg"), X + SECRET * 1j, np.full(3, SECRET)):
        with pytest.raises(ValueError) as caught:
            fitted.transform(broken)
        assert "7.25" not in "".join(traceback.format_exception_only(caught.value))


# --- order ----------------------------------------------------------------------------------------------------------


class Unreadable(Source):
    """Rows that must not be read."""

    n_features, n_rows = 3, 60

    def blocks(self):
        raise AssertionError("a row was read")


@pytest.mark.parametrize(
    "options",
    [{"epsilon": -1.0}, {"delta": 2.0}, {"bound": None}, {"bound": -1.0}, {"center": [1.0, 2.0]}, {"relation": "x"},
     {"method": "x"}, {"random_state": -1}, {"missing": "x"}, {"method": "gaussian"}, {"bound": "private"}],
    ids=str,
)  # fmt: skip
@BOTH
def test_parameters_are_refused_before_a_row_is_read(make, options, ledger):
    refuse(make(**{"method": "laplace", **options}), Unreadable(), ledger=ledger)
    assert ledger.history() == []


@BOTH
def test_the_ledger_refuses_before_a_row_is_read(make, ledger):
    with pytest.raises(BudgetExceededError, match="Nothing was spent"):
        make(epsilon=101.0, ledger=ledger).fit(Unreadable())
    assert ledger.history() == []


def test_an_error_after_the_first_draw_counts_as_spent(ledger):
    with pytest.raises(AssertionError, match="a row was read"):
        pca(ledger=ledger).fit(Unreadable())
    assert spent(ledger) == ["reserved"]


def test_the_probe_for_bad_rows_is_not_blind():
    """The twin of the refusals above: without the check a NaN would go through as a zero or worse."""
    lattice = Lattice(Frame(2, missing="drop"), 1.0)
    counted = SecondMoment(lattice).update(np.array([[np.nan, 1.0], [0.5, 0.5]]))
    assert counted.count == 2
    with pytest.raises(BadRowsError):
        SecondMoment(Lattice(Frame(2), 1.0)).update(np.array([[np.nan, 1.0], [0.5, 0.5]]))
    source = PairedSource(Unreadable(), SeededRandomness(np.random.default_rng(0)))
    with pytest.raises(AssertionError, match="a row was read"):
        list(source.blocks())
    assert SpatialSign.needs_bound is False
