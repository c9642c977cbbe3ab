"""Declared codes for missing cells: read alike in every type, with limits, and saved with a release."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpeigen import PrivateCovariance, load_release
from dpeigen.report.content import make_card
from dpeigen.sources import open_source
from dpeigen.sources.declared import Declared
from dpeigen.sources.missing_codes import fitting_codes


def column(data, said):
    return np.concatenate([np.asarray(block) for block in open_source(data, columns={"a": said}).blocks()])[:, 0]


def test_a_code_is_found_in_every_type_of_numbers():
    for kind in ("float64", "float32", "int64", "int16"):
        values = np.array([1, -99, 3]).astype(kind)
        for data in (pa.table({"a": values}), pd.DataFrame({"a": values})):
            np.testing.assert_array_equal(column(data, {"missing_codes": [-99]}), [1, np.nan, 3])
    single = pa.table({"a": np.array([9.99, 1.0], dtype=np.float32)})
    assert np.isnan(column(single, {"missing_codes": [9.99]})).tolist() == [True, False]


def test_a_code_that_is_a_limit_leaves_the_limits_as_they_are():
    said = Declared(lower=0, upper=9, missing_codes=(0, 9))
    assert said.bounds() == [(0.0, 9.0)]
    np.testing.assert_array_equal(said.from_numbers(np.array([0.0, -5.0, 9.0, 99.0])), [np.nan, 0, np.nan, 9])


def test_codes_of_all_columns_are_those_that_fit():
    codes = [-99, "1900-01-01", datetime.date(1901, 1, 1), "k.A."]
    assert fitting_codes(codes, None) == [-99]
    assert fitting_codes(codes, "date") == ["1900-01-01", datetime.date(1901, 1, 1)]
    assert fitting_codes(codes, "category") == []
    with pytest.raises(ValueError, match=r"'missing_codes'.*Got \['-99'\]"):
        fitting_codes(["-99"], None)


def test_all_other_columns_may_have_codes():
    frame = pd.DataFrame({"a": [1.0, -99.0], "b": [-99.0, 2.0]})
    source = open_source(frame, columns={"a": None, ...: {"missing_codes": [-99]}})
    rows = np.concatenate([np.asarray(block) for block in source.blocks()])
    np.testing.assert_array_equal(rows, [[1, np.nan], [-99, 2]])


def test_a_release_without_codes_is_wrong_and_one_with_codes_is_right(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(50, 10, 5000), "b": rng.normal(5, 1, 5000)})
    complete = frame["a"].std()
    frame.loc[rng.random(5000) < 0.05, "a"] = 999
    options = {"epsilon": 2.0, "delta": 1e-6, "missing": "correct"}
    deviations = []
    for said in (None, {"missing_codes": [999]}):
        release = PrivateCovariance(columns={"a": said, "b": None}, **options).fit(frame).release_
        deviations.append(release.deviation(0))
    assert deviations[0] > 3 * complete
    assert abs(deviations[1] / complete - 1) < 0.1
    release.save(tmp_path / "r")
    again = load_release(tmp_path / "r")
    assert again.columns["a"].missing_codes == (999.0,)
    card = str(make_card(again, {"release.json": "0" * 64}))
    assert "Declared codes that count as missing: 999 in a." in card
