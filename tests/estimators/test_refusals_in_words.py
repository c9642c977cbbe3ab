"""Refusals say what is wrong in this call, and name a remedy that works for it."""

import re

import numpy as np
import pandas as pd
import pytest

from dpeigen import Ledger, PrivateCovariance, PrivatePCA, PrivateRidge
from dpeigen.methods.columns import unknown_note
from dpeigen.sources import BlockSource, open_source
from dpeigen.stats import BadRowsError

ROWS = np.random.default_rng(0).normal(size=(3000, 3))
FRAME = pd.DataFrame(ROWS, columns=["a", "b", "c"])
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def refusal(fit, kind=ValueError):
    with pytest.raises(kind) as caught:
        fit()
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "rows", "words"),
    [
        ({"scale": "Private"}, ROWS, "must be 'private', None, or numbers"),
        ({"scale": True}, ROWS, "must be 'private', None, or numbers"),
        ({"scale": [1, 2]}, ROWS, "public standard deviations of the 3 columns, or one for all. Got [1, 2]"),
        ({"n_components": 2}, ROWS[:, :1], "must be 1, because there is one column. Got 2 instead"),
        ({"n_components": 4}, ROWS, "must be an integer between 1 and 3"),
        ({"scale": "private", "epsilon": 0.5}, ROWS[:60], "60 rows are too few to estimate the standard deviations"),
        ({"robust": True, "missing": "correct"}, ROWS, "must be other than 'correct' with robust=True"),
        ({"robust": True, "missing": "correct"}, ROWS, "Use robust=False (with method='auto'), or missing='drop'"),
        ({"method": "kendall", "missing": "correct"}, ROWS, "for method='kendall'"),
    ],
    ids=str,
)
def test_parameters(options, rows, words):
    model = PrivatePCA(**{"n_components": 1, **BUDGET, **options})
    assert words in refusal(lambda: model.fit(rows), (TypeError, ValueError))


def test_rows_in_memory_are_not_told_of_lines_of_a_file(tmp_path):
    frame = FRAME.copy()
    frame.loc[4, "b"] = np.nan
    for rows in (frame, frame.to_numpy(), frame.astype(object)):
        words = refusal(lambda rows=rows: PrivateCovariance(**BUDGET).fit(rows), BadRowsError)
        assert "CSV" not in words
        assert "missing='correct'" in words
    frame.to_csv(tmp_path / "rows.csv", index=False)
    for fit in (
        lambda: PrivateCovariance(**BUDGET).fit(tmp_path / "rows.csv"),
        lambda: PrivateRidge(**BUDGET).fit(open_source(tmp_path / "rows.csv"), "a"),
    ):
        assert "A line that does not have exactly 3 fields" in refusal(fit, BadRowsError)


def test_names_and_columns():
    assert "Got ['a'] more than once" in refusal(
        lambda: PrivatePCA(1, **BUDGET).fit(FRAME.set_axis(list("aab"), axis=1))
    )
    assert "'columns' and 'skip' must leave one" in refusal(lambda: PrivatePCA(1, **BUDGET, columns={}).fit(FRAME))
    both = FRAME.set_axis(["a", "a=x", "c"], axis=1)
    columns = {"a": {"categories": ["x", "y"]}, "a=x": None}
    assert "Got ['a=x'] more than once" in refusal(lambda: PrivatePCA(1, **BUDGET, columns=columns).fit(both))
    assert "n_features=3" in refusal(lambda: PrivatePCA(1, **BUDGET).fit(BlockSource(list)))


@pytest.mark.parametrize("values", [("F", "M"), ("F", "M", "X")])
def test_a_category_as_a_target_is_refused_with_a_declaration_that_works(values):
    frame = FRAME.assign(sex=np.resize(values, len(FRAME)))
    columns = {"a": None, "b": None, "sex": {"categories": list(values)}}
    words = refusal(lambda: PrivateRidge(**BUDGET, columns=columns).fit(frame, "sex"))
    assert "Got the category 'sex' instead" in words
    assert "sex=M" not in words
    if len(values) == 2:
        levels = re.search(r"levels = \['(\w)', '(\w)'\]", words).groups()
        PrivateRidge(**BUDGET, columns={**columns, "sex": {"levels": levels}}).fit(frame, "sex")


def test_a_ledger_says_what_it_counts(tmp_path):
    frame = FRAME.assign(id=np.arange(len(FRAME)))
    rows, people = (Ledger.create(tmp_path / f"{name}.ledger", epsilon=9.0, delta=1e-4) for name in ("rows", "people"))
    PrivateCovariance(**BUDGET, ledger=rows).fit(FRAME)
    PrivateCovariance(**BUDGET, ledger=people, unit="id").fit(frame)
    words = refusal(lambda: PrivateCovariance(**BUDGET, ledger=rows, unit="id").fit(frame))
    assert "counts releases about single rows; this one is about all rows of one id" in words
    assert "Give no unit as those did" in words
    words = refusal(lambda: PrivateCovariance(**BUDGET, ledger=people).fit(FRAME))
    assert "counts releases about all rows of one id; this one is about single rows" in words
    assert "Give unit='id' as those did" in words
    words = refusal(lambda: PrivateCovariance(**BUDGET, ledger=rows, relation="add_remove").fit(FRAME))
    assert "with relation='replace'; this one is with relation='add_remove'" in words
    assert "Give relation='replace' as those did" in words


def test_one_unknown_column_is_one():
    (one,), (two,) = unknown_note([3]), unknown_note([3, 5])
    assert "Its variance and covariances are given as 0, which says nothing about it." in one
    assert "Their variances and covariances are given as 0, which says nothing about them." in two
    shares = np.array([1.0, 1.0])
    assert "nearly all of its cells" in unknown_note([0], shares)[0]
    assert "nearly all of their cells" in unknown_note([0, 1], shares)[0]
