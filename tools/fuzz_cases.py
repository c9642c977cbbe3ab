"""Hostile input, one case at a time: a clear error or a right answer, never anything else.

A case is a function of a seeded generator. It raises `AssertionError`, or whatever the library must not raise, where
the library fails; otherwise it returns what happened ("refused", "answered"). `PARSERS` are functions of bytes, for the
mutation fuzzer here and for atheris (`fuzz.py --atheris`).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import fuzz_trust
import numpy as np
from fuzz_kit import CLEAR, FOLDER, Generator, clear, put, spoil

from dpeigen import PrivateCovariance, PrivatePCA, PrivateRidge, load_release
from dpeigen.io import ARRAYS, DESCRIPTION, DamagedReleaseError, _canonical, _digest, _rendered
from dpeigen.local import LocalAggregator, LocalParameters, LocalRandomizer, write_reports
from dpeigen.local.journal import read_parameters, unpack, write_parameters
from dpeigen.methods import METHODS
from dpeigen.privacy import Budget, gaussian_epsilon, gaussian_mu, sample_bingham
from dpeigen.privacy.ledger import Ledger
from dpeigen.sources import open_source
from dpeigen.stats import BadRowsError, Frame, Lattice
from dpeigen.stats.lattice import LEVELS

# --- tables -------------------------------------------------------------------------------------------------------

SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 1e-310, 2.2e-308, 1e-160, 1e-75, 1e75, 1e154, 1.4e154, 1e300,
     1.7976931348623157e308, -1.7976931348623157e308, 2**53, 2**53 + 2, 0.1, 1 / 3, np.nan, np.inf, -np.inf]
)  # fmt: skip
PAYLOADS = np.array([0x7FF8000000000001, 0xFFF8DEADBEEF0000, 0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF], dtype=np.uint64)


def hostile_table(rng: Generator) -> Any:
    """A table of some awkward kind."""
    n = int(rng.choice([0, 1, 2, 2, 3, 5, 17, 64, 200, 400]))
    d = int(rng.choice([0, 1, 1, 2, 3, 4, 7, 20], p=[0.02, 0.13, 0.1, 0.25, 0.2, 0.15, 0.1, 0.05]))
    kind = rng.integers(12)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4)
    if kind == 0:
        X = rng.choice(SPECIAL, size=(n, d))
    elif kind == 1 and X.size:
        X.ravel()[rng.integers(X.size)] = rng.choice(SPECIAL)
    elif kind == 2:
        X = np.zeros((n, d))
    elif kind == 3:
        X = np.tile(rng.normal(size=d), (n, 1))  # ties: every row the same
    elif kind == 4:
        X = X * 10.0 ** rng.integers(-320, 300)
    elif kind == 5 and d:
        X[:, rng.integers(d)] = 0.0
    elif kind == 6 and X.size:
        X.view(np.uint64).ravel()[rng.integers(X.size)] = rng.choice(PAYLOADS)
    elif kind == 7:
        X = rng.integers(-3, 4, size=(n, d)).astype(rng.choice(["i1", "i8", "u1", "f2", "f4", "?", ">f8", ">i4"]))
    elif kind == 8:
        X = np.asfortranarray(X)
    elif kind == 9:
        X = np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2]  # strides
    elif kind == 10:
        X = X[::-1, ::-1]
    else:
        X = np.frombuffer(rng.bytes(8 * n * d), dtype=np.float64).reshape(n, d)  # any bits; read-only
    return X


def other_things(rng: Generator) -> Any:
    """Things that are no table of numbers."""
    choices: list[Any] = [None, 3, "x", [], [[]], [[1, 2], [3]], [["a", "b"]], np.zeros(3), np.zeros((2, 2, 2)), {},
                          np.array([[1 + 2j, 0]]), np.array([["1", "2"], ["3", "4"]]), np.array([[None, 1.0]]),
                          object(), np.zeros((3, 2), dtype="datetime64[s]"), b"bytes",
                          Path("/nonexistent/file.csv")]  # fmt: skip
    return choices[rng.integers(len(choices))]


def hostile_options(rng: Generator, d: int) -> dict[str, Any]:
    """Parameters, most of them sane."""

    def pick(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    ones = np.ones(max(d, 1))
    method = pick("auto", *METHODS) if rng.random() < 0.97 else pick("none", 3, None)
    given = {
        "epsilon": float(pick(0.5, 2.0, 8.0)),
        "delta": 1e-6 if method not in ("laplace", "matrix-laplace") else 0.0,
        "method": method,
        "bound": None
        if method in ("kendall", "geodesic", "refined", "spiked", "dp-pca")
        else pick(1.0, 5.0, (-ones, ones)),
        "center": pick(None, "pairs", 0.5 * ones) if method != "spiked" else None,
        "relation": "replace",
        "missing": pick("refuse", "correct", "drop"),
        "random_state": int(rng.integers(1000)),
    }
    hostile = {
        "epsilon": (1e-3, 1e-12, 1e6, 20.0, 0.0, -1.0, np.nan, np.inf, "1", None),
        "delta": (0.0, 1e-300, 5e-324, 0.5, 0.999999, 1.0, -1e-9, np.nan, "0"),
        "bound": (None, "private", 1e-300, 1e300, 1e75, 1e-75, 0.0, -1.0, np.nan, (ones, ones), (-ones,), "x", 1.0),
        "center": ("private", "pairs", np.full(max(d, 1), 1e300), np.full(2, np.nan), "x", np.zeros(max(d, 1))),
        "relation": ("add_remove", "add_remove", "x"),
        "missing": ("x", None),
    }
    for name, values in hostile.items():
        if rng.random() < 0.15:
            given[name] = pick(*values)
    return given


def fresh_ledger(number: int) -> Ledger:
    """A real one, with room for anything; the last one of this process is removed."""
    path = FOLDER / f"{os.getpid()}.ledger"
    for file in FOLDER.glob(f"{path.name}*"):
        file.unlink()
    return Ledger.create(path, epsilon=1e9 + number, delta=0.999)


def fit_case(rng: Generator) -> str:
    """An estimator on a hostile table: refused without spending, or a release that is what it must be."""
    X = hostile_table(rng) if rng.random() < 0.97 else other_things(rng)
    shape = np.shape(X) if isinstance(X, np.ndarray) else ()
    d = shape[1] if len(shape) == 2 else 2
    options = hostile_options(rng, d)
    ledger = fresh_ledger(int(rng.integers(10))) if rng.random() < 0.05 else None
    before = None if ledger is None else ledger.remaining()
    kind = rng.integers(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if kind < 3:
                k = [1, 2, d, d + 1, 0, -1, "private", 1.5][
                    rng.choice(8, p=[0.4, 0.2, 0.2, 0.05, 0.04, 0.03, 0.05, 0.03])
                ]
                fitted = PrivatePCA(k, ledger=ledger, **options).fit(X)
            elif kind == 3:
                fitted = PrivateCovariance(ledger=ledger, **options).fit(X)
            else:
                options.pop("center")
                y = X[:, 0] if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] else X
                fitted = PrivateRidge(ledger=ledger, **options).fit(X, y)
        except CLEAR as error:
            if ledger is not None:
                assert ledger.remaining() == before, "a refusal was charged"
            return clear(error)
    if ledger is not None:
        after = ledger.remaining()
        assert after is not None
        assert before is None or after.epsilon < before.epsilon, "a release was not charged"
    check_release(fitted.release_)
    assert fitted.guarantee_.epsilon <= float(options["epsilon"]) * (1 + 1e-9)
    return "answered"


def check_release(release: Any) -> None:
    """What every release is, whatever the data were."""
    for name in ("components", "eigenvalues", "covariance"):
        assert np.isfinite(getattr(release, name)).all(), f"{name} is not finite"
    c = release.components
    assert np.allclose(c @ c.T, np.eye(len(c)), atol=1e-8), "components are not orthonormal"
    assert (np.diff(release.eigenvalues) <= 1e-9 * max(1.0, abs(release.eigenvalues[0]))).all(), "not sorted"
    assert (release.eigenvalues >= 0).all(), "a negative variance"
    assert np.array_equal(release.covariance, release.covariance.T), "not symmetric"
    assert release.guarantee.epsilon > 0


def lattice_case(rng: Generator) -> str:
    """Whatever a row holds, its image on the lattice is a vector of integers inside the ball."""
    d = int(rng.integers(1, 9))
    rows = np.frombuffer(rng.bytes(8 * 5 * d), dtype=np.float64).reshape(5, d).copy()
    if rng.random() < 0.5:
        rows = rng.choice(SPECIAL, size=(5, d))
    radius = float(10.0 ** rng.uniform(-70, 70))
    lattice = Lattice(Frame(d, missing="drop"), radius)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        z = lattice.integers(lattice.frame.image(rows))
    assert np.isfinite(z).all()
    assert (z == np.rint(z)).all()
    assert (np.einsum("ij,ij->i", z, z) <= float(LEVELS) ** 2).all(), "a row left the ball"
    return "answered"


def calibration_case(rng: Generator) -> str:
    """ε → μ → ε never promises more than it keeps."""
    epsilon, delta = float(10.0 ** rng.uniform(-6, 2.5)), float(10.0 ** rng.uniform(-60, -0.01))
    try:
        mu = gaussian_mu(epsilon, delta)
        assert mu > 0
        assert gaussian_epsilon(delta, mu) <= epsilon * (1 + 1e-6)
        assert Budget(epsilon, delta) <= Budget(epsilon, delta)
    except CLEAR as error:
        return clear(error)
    return "answered"


def bingham_case(rng: Generator) -> str:
    """Unit vectors for any symmetric matrix; anything else is refused."""
    d = int(rng.integers(1, 7))
    A = rng.normal(size=(d, d)) * 10.0 ** rng.integers(-300, 300)
    if rng.random() < 0.3:
        A = rng.choice(SPECIAL, size=(d, d))
    if rng.random() < 0.8:
        with np.errstate(all="ignore"):
            A = A + A.T
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            u = sample_bingham(A, size=2, random_state=int(rng.integers(100)))
    except CLEAR as error:
        return clear(error)
    assert np.allclose(np.linalg.norm(u, axis=1), 1.0)
    return "answered"


# --- bytes --------------------------------------------------------------------------------------------------------


@cache
def seeds() -> dict[str, bytes]:
    """Good files to start from."""
    import pyarrow as pa
    import pyarrow.feather as feather
    import pyarrow.parquet as pq

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = np.random.default_rng(0).normal(size=(60, 3))
        fitted = PrivatePCA(2, epsilon=2.0, delta=1e-6, bound=3.0, random_state=0).fit(rows)
        fitted.release_.save(FOLDER / "good")
        client = LocalRandomizer(3, epsilon=2.0, delta=1e-6, random_state=0)
        reports = [client.report(row) for row in rows[:5]]
        write_reports(FOLDER / "good.parquet", reports)
        LocalAggregator(client).add_many(reports).save(FOLDER / "good.state")
        write_parameters(FOLDER / "good.json", client.parameters)
    table = pa.table({"a": rows[:, 0], "b": rows[:, 1], "c": rows[:, 2]})
    parquet, arrow = io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet)
    feather.write_feather(table, arrow)
    csv = "a,b,c\n" + "\n".join(",".join(f"{v:.6g}" for v in row) for row in rows[:12]) + "\n"
    return {
        "release description": (FOLDER / "good" / DESCRIPTION).read_bytes(),
        "release arrays": (FOLDER / "good" / ARRAYS).read_bytes(),
        "report": reports[0],
        "report file": (FOLDER / "good.parquet").read_bytes(),
        "aggregator": (FOLDER / "good.state").read_bytes(),
        "parameters": (FOLDER / "good.json").read_bytes(),
        "journal": b"".join(struct.pack("<I", len(r)) + r for r in reports),
        "csv": csv.encode(),
        "parquet": parquet.getvalue(),
        "feather": arrow.getvalue(),
        "settings": fuzz_trust.settings_seed(),
        "ledger": fuzz_trust.ledger_seed(),
    }


def parse_description(content: bytes) -> str:
    """A description as it comes, and once more with the digest put right: an edit that covers its tracks."""
    folder = FOLDER / "edited"
    put(f"edited/{ARRAYS}", seeds()["release arrays"])
    outcome = "refused"
    for text in (content, _sealed(content)):
        if text is None:
            continue
        put(f"edited/{DESCRIPTION}", text)
        try:
            check_loaded(load_release(folder))
            outcome = "answered"
        except DamagedReleaseError as error:
            clear(error)
    return outcome


def _sealed(content: bytes) -> bytes | None:
    try:
        value = json.loads(content)
        value.pop("sha256", None)
        value["sha256"] = _digest(_canonical(value))
        return _rendered(value)
    except (ValueError, AttributeError, TypeError, RecursionError):
        return None


def check_loaded(release: Any) -> None:
    """What was read is usable: it can be shown, and saved again."""
    assert isinstance(str(release.guarantee), str)
    assert isinstance(repr(release), str)
    assert np.isfinite(release.covariance).all()


def parse_arrays(content: bytes) -> str:
    """Arrays under a description whose digest fits them."""
    value = json.loads(seeds()["release description"])
    value["arrays_sha256"] = hashlib.sha256(content).hexdigest()
    value.pop("sha256")
    value["sha256"] = _digest(_canonical(value))
    put(f"arrays/{DESCRIPTION}", _rendered(value))
    put(f"arrays/{ARRAYS}", content)
    try:
        check_loaded(load_release(FOLDER / "arrays"))
    except DamagedReleaseError as error:
        return clear(error)
    return "answered"


@cache
def parameters() -> LocalParameters:
    return LocalParameters(3, 2.0, 1e-6, seeded_test=True)


def parse_report(content: bytes) -> str:
    """A report, and once more with its checksum put right; a refusal leaves the aggregator as it was."""
    server = LocalAggregator(parameters())
    taken = 0
    for report in (content, content[:-8] + hashlib.blake2b(content[:-8], digest_size=8).digest()):
        taken += server.add(report)
    assert server.n_reports == taken
    assert server.n_reports + sum(server.refused.values()) == 2
    assert np.isfinite(server.moment).all() if taken else True
    return "answered" if taken else "refused"


def parse_report_file(content: bytes) -> str:
    server = LocalAggregator(parameters()).add_files(put("reports.parquet", content))
    return "answered" if server.n_reports else "refused"


def parse_aggregator(content: bytes) -> str:
    try:
        server = LocalAggregator.load(put("some.state", content))
    except (DamagedReleaseError, ValueError) as error:
        return clear(error)
    assert server.n_reports >= 0
    return "answered"


def parse_parameters(content: bytes) -> str:
    try:
        read_parameters(put("parameters.json", content))
    except ValueError as error:
        return clear(error)
    return "answered"


def parse_journal(content: bytes) -> str:
    found, used = unpack(content, 2000)
    assert 0 <= used <= len(content)
    assert sum(map(len, found)) + 4 * len(found) == used
    LocalAggregator(parameters()).add_many(found)
    return "answered" if found else "refused"


def _parse_table(name: str) -> Callable[[bytes], str]:
    def parse(content: bytes) -> str:
        path = put(name, content)
        try:
            source = open_source(path)
            rows = [np.asarray(block) for block in source.blocks()]
            assert all(block.ndim == 2 and block.shape[1] == source.n_features for block in rows)
        except (ValueError, TypeError, BadRowsError, OSError) as error:
            return clear(error)
        return "answered"

    return parse


PARSERS: dict[str, Callable[[bytes], str]] = {
    "release description": parse_description,
    "release arrays": parse_arrays,
    "report": parse_report,
    "report file": parse_report_file,
    "aggregator": parse_aggregator,
    "parameters": parse_parameters,
    "journal": parse_journal,
    "csv": _parse_table("some.csv"),
    "parquet": _parse_table("some.parquet"),
    "feather": _parse_table("some.feather"),
    "settings": fuzz_trust.parse_settings,
    "ledger": fuzz_trust.parse_ledger,
}


def _mutated(name: str) -> Callable[[Generator], str]:
    return lambda rng: PARSERS[name](spoil(seeds()[name], rng))


# A case, and how many of a thousand cases are of its kind.
CASES: dict[str, tuple[Callable[[Generator], str], int]] = {
    "fit": (fit_case, 180),
    "lattice": (lattice_case, 150),
    "calibration": (calibration_case, 30),
    "bingham": (bingham_case, 60),
    "command": (fuzz_trust.command_case, 2),
    "text table": (fuzz_trust.text_table_case, 40),
    "typed table": (fuzz_trust.typed_table_case, 40),
    "ledger calls": (fuzz_trust.ledger_calls_case, 12),
    "ledger log": (fuzz_trust.ledger_log_case, 12),
    **{name: (_mutated(name), 42) for name in PARSERS},
}
