"""Hostile input: some hundred cases of each kind here, a hundred thousand by ``python tools/fuzz.py``; properties.

The cases and what counts as a failure are in ``tools/fuzz_cases.py``.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpeigen import PrivateCovariance, PrivatePCA
from dpeigen.local import LocalAggregator, LocalRandomizer
from dpeigen.privacy.ledger import Ledger
from dpeigen.stats import BadRowsError, Frame, Lattice
from dpeigen.stats.lattice import LEVELS

TOOLS = Path(__file__).parent.parent / "tools"
sys.path.insert(0, str(TOOLS))
fuzz_cases = pytest.importorskip("fuzz_cases", reason="tools/ comes with the source checkout")


@pytest.mark.parametrize("kind", fuzz_cases.CASES)
def test_cases_are_refused_clearly_or_answered(kind):
    case, share = fuzz_cases.CASES[kind]
    seen = {case(np.random.default_rng([99, i])) for i in range(share)}
    assert seen <= {"refused", "answered"}


@pytest.mark.parametrize("name", fuzz_cases.PARSERS)
def test_good_files_are_read(name):
    assert fuzz_cases.PARSERS[name](fuzz_cases.seeds()[name]) == "answered"


def test_every_single_bit_of_a_report_counts():
    """One flipped bit, anywhere, and the report is refused."""
    good = fuzz_cases.seeds()["report"]
    server = LocalAggregator(fuzz_cases.parameters())
    for at in range(8 * len(good)):
        bad = bytearray(good)
        bad[at // 8] ^= 1 << at % 8
        assert not server.add(bytes(bad))
    assert server.n_reports == 0
    assert server.add(good)


@pytest.mark.parametrize("name", ["release description", "release arrays"])
def test_every_byte_of_a_release_counts(name, tmp_path):
    from dpeigen import load_release
    from dpeigen.io import ARRAYS, DESCRIPTION, DamagedReleaseError

    seeds = fuzz_cases.seeds()
    files = {DESCRIPTION: seeds["release description"], ARRAYS: seeds["release arrays"]}
    target = DESCRIPTION if name == "release description" else ARRAYS
    for file, content in files.items():
        (tmp_path / file).write_bytes(content)
    for at in range(0, len(files[target]), 7):
        bad = bytearray(files[target])
        bad[at] ^= 1 << at % 8
        (tmp_path / target).write_bytes(bytes(bad))
        with pytest.raises(DamagedReleaseError):
            load_release(tmp_path)


def test_a_planted_crash_is_a_finding(monkeypatch):
    """The runner reports what a case must not do: another exception, a charge, a dead process."""
    import os

    import fuzz

    def broken(rng):
        raise KeyError("x")

    monkeypatch.setitem(fuzz_cases.CASES, "broken", (broken, 1))
    outcomes, found = fuzz.in_child("broken", 0, 2, 0)
    assert outcomes == {"finding": 2}
    assert "KeyError" in found[0]
    monkeypatch.setitem(fuzz_cases.CASES, "dead", (lambda rng: os._exit(7), 1))
    outcomes, found = fuzz.in_child("dead", 0, 2, 0)
    assert outcomes["finding"] == 2
    assert "exit code 7" in found[0]


def test_column_names_that_are_no_text_are_refused(tmp_path):
    """Found by the fuzzer: a flipped bit in the name of a column."""
    import pyarrow as pa
    import pyarrow.feather as feather

    from dpeigen.sources import open_source

    feather.write_feather(pa.table({"name": [1.0, 2.0]}), tmp_path / "t.feather", compression="uncompressed")
    content = (tmp_path / "t.feather").read_bytes()
    (tmp_path / "t.feather").write_bytes(content.replace(b"name", b"na\xffe"))
    with pytest.raises(BadRowsError, match="damaged"):
        open_source(tmp_path / "t.feather")
    client = LocalRandomizer(2, epsilon=1.0, delta=0.0)
    feather.write_feather(
        pa.table({"report": [client.report([1.0, 0.0])]}), tmp_path / "r.arrow", compression="uncompressed"
    )
    content = (tmp_path / "r.arrow").read_bytes()
    (tmp_path / "r.arrow").write_bytes(content.replace(b"report", b"rep\xffrt"))
    server = LocalAggregator(client).add_files(tmp_path / "r.arrow")
    assert server.refused == {"unreadable file": 1}


def test_a_delta_of_almost_one_is_refused_with_a_private_rank():
    """Found by the fuzzer: an internal assertion instead of a refusal."""
    made = PrivatePCA("private", epsilon=2.0, delta=0.999999, bound=1.0, center=None, random_state=0)
    with pytest.raises(ValueError, match=r"of a usual size|leave no room"):
        made.fit(np.zeros((400, 3)))


def test_released_covariances_are_symmetric_to_the_last_bit():
    """Found by the fuzzer: the product of rotations and eigenvalues is so only up to rounding."""
    rows = np.random.default_rng(0).normal(size=(60, 5))
    for method in ("gaussian", "spatial-sign", "matrix-laplace"):
        made = PrivateCovariance(epsilon=1.0, delta=1e-6, method=method, bound=3.0, center=None, random_state=0)
        covariance = made.fit(rows).covariance_
        np.testing.assert_array_equal(covariance, covariance.T)


# --- properties ---------------------------------------------------------------------------------------------------

anything = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)
QUIET = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@QUIET
@given(st.integers(1, 6).flatmap(lambda d: hnp.arrays(np.float64, (3, d), elements=anything)), st.floats(1e-70, 1e70))
def test_an_image_depends_on_its_row_alone_and_stays_in_the_ball(rows, radius):
    lattice = Lattice(Frame(rows.shape[1], missing="drop"), radius)

    def image(block):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return lattice.integers(lattice.frame.image(block))

    together = image(rows)
    assert (np.einsum("ij,ij->i", together, together) <= float(LEVELS) ** 2).all()
    for i in range(3):
        np.testing.assert_array_equal(image(rows[i : i + 1])[0], together[i])
    np.testing.assert_array_equal(image(np.asfortranarray(rows)), together)


@QUIET
@given(
    hnp.arrays(np.float64, st.tuples(st.integers(2, 6), st.integers(1, 4)), elements=anything),
    st.sampled_from(["gaussian", "laplace", "matrix-laplace", "spatial-sign"]),
    st.booleans(),
)
def test_a_fit_answers_or_refuses_and_only_answers_are_charged(tmp_path_factory, rows, method, drop):
    ledger = Ledger.create(tmp_path_factory.mktemp("l") / "l", epsilon=10.0, delta=1e-3, accounting="sum")
    before = ledger.remaining()
    options = {"method": method, "epsilon": 1.0, "delta": 0.0 if "laplace" in method else 1e-6, "bound": 2.0}
    k = rows.shape[1]
    estimator = PrivatePCA(
        k, **options, center=None, missing="drop" if drop else "refuse", random_state=1, ledger=ledger
    )
    try:
        release = estimator.fit(rows).release_
    except BadRowsError:
        assert not drop
        assert not np.isfinite(rows).all()
        assert ledger.remaining() == before
        return
    assert drop or np.isfinite(rows).all()
    assert ledger.remaining().epsilon < before.epsilon
    fuzz_cases.check_release(release)


@QUIET
@given(hnp.arrays(np.float64, (5, 3), elements=st.floats(-4, 4)), st.randoms(use_true_random=False))
def test_order_memory_and_type_of_the_table_do_not_matter(rows, random):
    """The same rows in another order, layout, stride or byte order: the same release, bit for bit."""

    def fit(table):
        return PrivateCovariance(
            epsilon=1.0, delta=1e-6, method="gaussian", bound=3.0, center=None, random_state=3
        ).fit(table)

    expected = fit(rows).release_.covariance
    order = list(range(5))
    random.shuffle(order)
    padded = np.zeros((10, 6))
    padded[::2, ::2] = rows
    for table in (rows[order], np.asfortranarray(rows), padded[::2, ::2], rows.astype(">f8"), rows.astype(object)):
        np.testing.assert_array_equal(fit(table).release_.covariance, expected)


@QUIET
@given(st.binary(max_size=200))
def test_bytes_that_are_no_report_are_refused(content):
    server = LocalAggregator(fuzz_cases.parameters())
    assert not server.add(content)
    assert server.n_reports == 0
