"""Numbers are shown with as many digits as their intervals support."""

import math

import numpy as np
import pytest

from dpeigen import PrivateCovariance
from dpeigen._text import number_text
from dpeigen.report.matrices import covariance_tables
from dpeigen.sources import ArraySource


def test_a_number_known_to_one_digit_is_not_shown_with_four():
    for number, low, high, shown in (
        (1.206, 0.9473, 1.514, "1.21 (0.95 to 1.51)"),
        (31.11, 28.08, 41.92, "31 (28 to 42)"),
        (1390.0, 1336.0, 1696.0, "1390 (1340 to 1700)"),
        (22031.4, 21210.0, 22904.0, "22000 (21200 to 22900)"),
        (1996.77, 1996.62, 1996.92, "1996.77 (1996.62 to 1996.92)"),
        (1000000.01127, 1000000.01082, 1000000.01173, "1000000.01127 (1000000.01082 to 1000000.01173)"),
        (2.5e11, 2.31e11, 2.72e11, "2.50e+11 (2.31e+11 to 2.72e+11)"),
        (1.70000002e9, 1.69999996e9, 1.70000007e9, "1700000020 (1699999960 to 1700000070)"),
        (0.005071, 0.0002708, 0.01188, "0.0051 (0.0003 to 0.0119)"),
        (-0.00012, -0.4, 0.2, "0.00 (-0.40 to 0.20)"),
    ):
        first, *ends = (number_text(one, (low, high)) for one in (number, low, high))
        assert f"{first} ({' to '.join(ends)})" == shown


@pytest.mark.parametrize("size", [1e-12, 1e-3, 1.0, 1e4, 1e9, 1e200])
def test_rounding_moves_no_end_past_its_number_and_to_no_other_sign(size):
    rng = np.random.default_rng(0)
    for _ in range(500):
        low, number, high = np.sort(rng.normal(rng.normal(0, 3), 10 ** rng.uniform(-6, 1), 3)) * size
        shown = [float(number_text(float(one), (float(low), float(high)), "+")) for one in (low, number, high)]
        assert shown == sorted(shown)
        assert np.abs(np.array(shown) - [low, number, high]).max() <= 0.1001 * (high - low) / 2
        assert np.sign(low) != np.sign(high) or np.sign(shown[0]) == np.sign(shown[2]) != 0


@pytest.mark.parametrize(
    "ends", [(0.0, 0.0), (math.nan, 1.0), (-math.inf, math.inf), (1.0, math.inf), (5e-324, 1e-323), (-1.7e308, 1.7e308)]
)
def test_ends_that_say_nothing_leave_four_digits_or_round_like_others(ends):
    for number in (0.0, 1.23456, -1.7e308, math.nan, math.inf):
        assert isinstance(float(number_text(number, ends)), float)
    assert number_text(1.23456) == "1.235"


def test_a_table_of_centres_shows_large_amounts_without_exponents():
    rows = np.random.default_rng(0).normal(size=(4000, 2)) * [60_000.0, 0.3] + [250_000.0, 4.5]
    source = ArraySource(rows, ["platelets", "potassium"])
    release = PrivateCovariance(epsilon=1.0, delta=1e-6, random_state=0).fit(source).release_
    centres = {row[0]: row[1:] for row in covariance_tables(release)[0].rows}
    for cells in centres.values():
        for value, ends in cells:
            assert "e+" not in value + ends
            low, high = map(float, ends.split(" to "))
            places = max(len(end.partition(".")[2]) for end in (value, *ends.split(" to ")))
            assert (high - low) / 2 < 60 * 10.0**-places or "." not in value
