"""Hostile settings, ledgers and tables: files that people write, disks damage and exports get wrong.

Settings go through the reader and, in ``command``, through the whole command with a ledger. A ledger with 3/4 of its
budget spent is damaged and then asked for half: it may refuse in any clear way, and must never grant.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_kit import CLEAR, FOLDER, Generator, clear, put, spoil

from dpeigen import PrivatePCA
from dpeigen.cli._config import read_study
from dpeigen.methods import METHODS
from dpeigen.privacy import Budget
from dpeigen.privacy.ledger import (
    BudgetExceededError,
    DamagedLedgerError,
    Ledger,
    LedgerUnavailableError,
    RepeatedReleaseError,
)
from dpeigen.sources import open_source
from dpeigen.stats import BadRowsError

LEDGER_ERRORS = (DamagedLedgerError, LedgerUnavailableError, BudgetExceededError, RepeatedReleaseError)
ROWS = "age,dose,sex\n" + "".join(f"{20 + i % 60},{i % 9},{'fm'[i % 2]}\n" for i in range(40))


# --- settings -----------------------------------------------------------------------------------------------------

LINES = {
    "epsilon": "4.0",
    "delta": "1e-6",
    "components": "1",
    "rescale": "true",
    "center": '"private"',
    "method": '"auto"',
    "relation": '"replace"',
    "missing": '"refuse"',
    "ledger": '"study.ledger"',
    "target": '"dose"',
}
MILD = {
    "epsilon": ("0.5", "8", "20.0", "1e-3"),
    "delta": ("0.0", "1e-9", "0.1"),
    "components": ("2", "3", "4", '"private"'),
    "rescale": ("false",),
    "center": ('"pairs"', '"none"'),
    "method": tuple(f'"{name}"' for name in METHODS),
    "relation": ('"add_remove"',),
    "missing": ('"correct"', '"drop"'),
    "target": ('"age"', '"sex"'),
}
COLUMNS = {"age": {"lower": "0", "upper": "100"}, "dose": {"type": '"number"', "lower": "0", "upper": "10"},
           "sex": {"categories": '["f", "m"]'}}  # fmt: skip
HOSTILE = ("-1", "0", "nan", "inf", "-inf", "1e400", "1e-320", "9223372036854775808", "true", '""', '"x"', '"private"',
           '"pairs"', "[]", "[1, 2]", "{}", "{a = 1}", "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", '"\\u0000"',
           '"../../../etc/passwd"', "'''\na\n'''", "0x10", "1_000", '"add_remove"', '["f", 1, true]', '["f", "f"]',
           '[["f"]]', '"drop-to-zero"', '"date"', '"timestamp"', '"bool"', '"postgresql://a:b@c/d"',
           "1e308", "-0.0")  # fmt: skip


def settings_text(lines: dict[str, str], columns: dict[str, dict[str, str]]) -> str:
    """A file of settings."""
    text = "".join(f"{key} = {value}\n" for key, value in lines.items())
    return text + "".join(
        f"[columns.{name}]\n" + "".join(f"{key} = {value}\n" for key, value in table.items())
        for name, table in columns.items()
    )


def settings_seed() -> bytes:
    return settings_text(LINES, COLUMNS).encode()


def parse_settings(content: bytes) -> str:
    """A file of settings as it comes."""
    try:
        study = read_study(put("some.toml", content))
    except ValueError as error:
        return clear(error)
    assert study.columns is None or study.columns
    return "answered"


def hostile_settings(rng: Generator) -> bytes:
    """A good file with one to three values, keys or tables that are not."""
    lines, columns = dict(LINES), {name: dict(table) for name, table in COLUMNS.items()}
    for _ in range(int(rng.integers(1, 4))):
        how, value = int(rng.choice([0, 1, 2, 3, 4, 5], p=[0.3, 0.3, 0.1, 0.1, 0.1, 0.1])), str(rng.choice(HOSTILE))
        table = columns[str(rng.choice(list(columns)))] if columns else {}
        if how < 2:
            key = str(rng.choice(list(LINES)))
            lines[key] = str(rng.choice(MILD[key])) if key in MILD and rng.random() < 0.7 else value
        elif how == 2:
            table[str(rng.choice(["lower", "upper", "type", "categories", "use", "uper"]))] = value
        elif how == 3:
            lines.pop(str(rng.choice(list(LINES))), None)
        elif how == 4:
            lines[str(rng.choice(["target", "alpha", "bound", "Epsilon", '"a b"', "a.b", "columns"]))] = value
        else:
            columns[str(rng.choice(["none", '"Doe, J"', '"\\u0000"', "sex.x", '""']))] = {"lower": "0", "upper": value}
    return settings_text(lines, columns).encode()


def command_case(rng: Generator) -> str:
    """The whole command on hostile settings: one line and a code that says whose move it is; refusals are free."""
    from typer.testing import CliRunner

    from dpeigen.cli.app import app

    folder = FOLDER / f"command-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "rows.csv").write_text(ROWS, encoding="utf-8")
    content = hostile_settings(rng)
    (folder / "study.toml").write_bytes(spoil(content, rng) if rng.random() < 0.3 else content)
    ledger = Ledger.create(folder / "study.ledger", epsilon=100.0, delta=0.5)
    call = [str(rng.choice(["pca", "covariance", "ridge"])), str(folder / "rows.csv")]
    call += ["--config", str(folder / "study.toml"), "--out", str(folder / "out")]
    call += ["--dry-run"] if rng.random() < 0.6 else []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = CliRunner().invoke(app, call)
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    assert done.exit_code in (0, 2, 3, 4), f"exit code {done.exit_code}: {done.stderr}"
    spent = bool(ledger.history()) and ledger.history()[-1]["state"] != "cancelled"
    if done.exit_code:
        assert done.stderr.strip(), "a refusal without a word"
        assert len(done.stderr) < 3000, f"{len(done.stderr)} characters"
        assert "Traceback" not in done.stderr
        assert done.stderr.replace("\n", "").isprintable(), "a message with control characters"
        assert not spent, f"a refusal was charged: {done.stderr}"
        return "refused"
    assert (folder / "out").exists() or "--dry-run" in call
    assert not (spent and "--dry-run" in call), "a dry run was charged"
    return "answered"


# --- ledgers ------------------------------------------------------------------------------------------------------


@cache
def ledger_seed() -> bytes:
    """A ledger of (1, 0) with three quarters spent, one of them open."""
    path = FOLDER / "good.ledger"
    ledger = Ledger.create(path, epsilon=1.0, by="ada")
    for number in range(3):
        ticket = ledger.reserve(Budget(0.25), f"release {number}", id=f"r{number}")
        if number:
            ledger.start(ticket)
            ledger.commit(ticket)
    ledger.state()
    assert not Path(f"{path}-wal").exists() or not Path(f"{path}-wal").stat().st_size
    return path.read_bytes()


def _fresh(name: str) -> Path:
    path = FOLDER / f"{os.getpid()}-{name}"
    for file in FOLDER.glob(f"{path.name}*"):
        file.unlink()
    return path


def parse_ledger(content: bytes) -> str:
    """A damaged ledger: looking, verifying, exporting and asking are answered or refused; half is never granted."""
    path = _fresh("some.ledger")
    path.write_bytes(content)
    return _ask(path, Budget(0.5))


def _refused(path: Path, look: Callable[[Ledger], object]) -> bool:
    try:
        look(Ledger(path))
    except (*LEDGER_ERRORS, KeyError, FileNotFoundError) as error:
        clear(error)
        return True
    return False


def _ask(path: Path, much: Budget) -> str:
    outcome = "answered"
    looks: list[Any] = [
        lambda ledger: ledger.remaining(),
        lambda ledger: ledger.history(),
        lambda ledger: ledger.verify(),
        lambda ledger: ledger.events(),
        lambda ledger: ledger.resolve("r0", spent=True, reason="known"),
    ]
    for look in looks:
        if _refused(path, look):
            outcome = "refused"
    try:
        Ledger(path).reserve(much, "too much")
    except (*LEDGER_ERRORS, FileNotFoundError) as error:
        clear(error)
        return outcome
    raise AssertionError("more was granted than is left")


def ledger_log_case(rng: Generator) -> str:
    """A killed writer's log beside the file, damaged: SQLite drops what does not add up, and the rest is a ledger.

    What was in the dropped part is forgotten, as by any restored backup: only a head kept elsewhere shows that.
    """
    path = _fresh("log.ledger")
    ledger = Ledger.create(path, epsilon=1.0)
    before = ledger.verify().head
    held = sqlite3.connect(path)  # keeps the log from being folded into the file
    held.execute("SELECT count(*) FROM event").fetchone()
    for number in range(3):
        ledger.reserve(Budget(0.25), f"release {number}")
    head, log = ledger.verify().head, Path(f"{path}-wal")
    copy = _fresh("copy.ledger")
    copy.write_bytes(path.read_bytes())
    Path(f"{copy}-wal").write_bytes(spoil(log.read_bytes(), rng))
    held.close()
    found, outcome = Ledger(copy), "answered"
    try:
        left = found.remaining()
        spent = 1.0 - (left.epsilon if left else 0.0)
        verdict = found.verify(head=head)
        assert spent >= 0.75 - 1e-9 or not verdict.ok, "forgotten, and the head does not show it"
        assert found.verify(head=before).ok or not found.verify().ok
        found.reserve(Budget(1.0 - spent + 1e-6), "too much")
    except LEDGER_ERRORS as error:
        clear(error)
        outcome = "refused"
    else:
        raise AssertionError("more was granted than is left")
    return outcome


def ledger_calls_case(rng: Generator) -> str:
    """Odd costs, ids and relations: whatever is granted, the total stays within the cap and the record verifies."""
    path = _fresh("calls.ledger")
    pick = [1.0, 1e-300, 5e-324, 0.1, 1 / 3, 0.5, 1e300, 0.0, -1.0, np.nan, np.inf, "1", None, True]
    cap = float(rng.choice([1.0, 0.3, 1e-9, 1e6]))
    delta = float(rng.choice([0.0, 1e-6, 0.5]))
    accounting = str(rng.choice(["auto", "sum", "mixed", "gaussian", "x"]))
    try:
        ledger = Ledger.create(path, epsilon=cap, delta=delta, accounting=accounting)
    except ValueError as error:
        return clear(error)
    texts = ["r", "s", "t", "u", "v", "", "x" * 501, "a\nb", "\x00", "'; DROP TABLE event; --", "\u202e", 3, None]
    granted = 0.0
    for _ in range(8):
        epsilon, small = pick[rng.integers(len(pick))], [0.0, 0.0, 0.0, 1e-7, -1e-9, np.nan, 1.0, 0.4][rng.integers(8)]
        name, relation = (
            texts[rng.integers(len(texts))],
            ["replace", "replace", "replace", "add_remove", "x", None][rng.integers(6)],
        )
        try:
            cost = Budget(epsilon, small)  # type: ignore[arg-type]
            ticket = ledger.reserve(cost, "x", relation, id=name)  # type: ignore[arg-type]
        except (*LEDGER_ERRORS, ValueError, TypeError) as error:
            clear(error)
            continue
        granted = max(granted, cost.epsilon)
        step = rng.integers(4)
        if step:
            try:
                (ledger.start, ledger.commit, lambda ticket: ledger.cancel(ticket, "why"))[step - 1](ticket)
            except (*LEDGER_ERRORS, KeyError) as error:
                clear(error)
    assert granted <= cap * (1 + 1e-9) or accounting in ("mixed", "gaussian", "auto")
    entries = [entry for entry in ledger.history() if entry["state"] != "cancelled"]
    if ledger.state().accounting == "sum":
        assert sum(entry["epsilon"] for entry in entries) <= cap * (1 + 1e-9)
    verdict = ledger.verify()
    assert verdict.ok, verdict.problems
    return "answered" if entries else "refused"


# --- tables -------------------------------------------------------------------------------------------------------

CELLS = ("1", "-1.5", "1e308", "1e309", "-1e999", "nan", "NaN", "inf", "", " ", "0x10", "1,5", '"1"', '"a""b"', '"',
         "'", "=1+1", "@cmd", "\x00", "\ufeff", "é", "1\r", "\t", "1_000", "+3", "1e-320", "NULL", "true", "12/31/2020",
         "9" * 400, "٣", "1;2", "\\N", "Jane Doe")  # fmt: skip


def _fitted(path: Path, rng: Generator) -> str:
    """A fit of a file with a ledger: answered and charged, or refused and free."""
    ledger = Ledger.create(_fresh("table.ledger"), epsilon=100.0)
    given: dict[str, Any] = {"bound": 5.0, "center": None, "method": "laplace", "ledger": ledger}
    given["missing"] = str(rng.choice(["refuse", "correct", "drop"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            source = open_source(path)
            for block in source.blocks():
                assert np.asarray(block).ndim == 2
            fitted = PrivatePCA(1, epsilon=1.0, random_state=0, **given).fit(path)
        except (*CLEAR, OSError) as error:
            text = str(error)
            assert "Jane" not in text, "a message quotes an entry"
            assert ledger.remaining() == Budget(100.0), "a refusal was charged"
            return clear(error)
    assert np.isfinite(fitted.release_.covariance).all()
    left = ledger.remaining()
    assert left is not None
    assert left.epsilon < 100.0, "a release was not charged"
    return "answered"


def text_table_case(rng: Generator) -> str:
    """CSV as exports and people get it wrong: odd cells, lines of other lengths, encodings, ends of lines."""
    d, n = int(rng.integers(1, 5)), int(rng.integers(0, 30))
    names = [f"a{j}" for j in range(d)]
    if rng.random() < 0.2:
        names = [str(rng.choice(["a", "b", "", '"x,y"', "é", " ", "1", "\ufeffq"])) + str(j) for j in range(d)]
    elif rng.random() < 0.05:
        names = ["a"] * d
    share = float(rng.choice([0.0, 0.02, 0.3]))
    lines = [",".join(names)]
    for _ in range(n):
        cells = [f"{v:.5g}" for v in rng.normal(size=d)]
        cells = [str(rng.choice(CELLS)) if rng.random() < share else cell for cell in cells]
        if rng.random() < share / 4:
            cells = cells[:-1] if rng.random() < 0.5 else [*cells, "1"]
        lines.append(",".join(cells))
    end = str(rng.choice(["\n", "\r\n", "\r", "\n\n"], p=[0.7, 0.15, 0.05, 0.1]))
    text = end.join(lines) + (end if rng.random() < 0.8 else "")
    encoding = str(rng.choice(["utf-8", "utf-8-sig", "utf-16", "latin-1"], p=[0.8, 0.1, 0.05, 0.05]))
    return _fitted(put("hostile.csv", text.encode(encoding, "replace")), rng)


def typed_table_case(rng: Generator) -> str:
    """Parquet and Feather with columns of types that are no numbers, or nearly none."""
    import decimal

    import pyarrow as pa
    import pyarrow.feather as feather
    import pyarrow.parquet as pq

    n = int(rng.choice([0, 1, 2, 30]))
    numbers = rng.normal(size=n)
    kinds: list[Any] = [
        lambda: pa.array(numbers),
        lambda: pa.array(numbers.astype(np.float32)),
        lambda: pa.array(numbers.astype(np.float16)),
        lambda: pa.array(rng.integers(-(2**62), 2**62, n)),
        lambda: pa.array(rng.integers(0, 2**64 - 1, n, dtype=np.uint64)),
        lambda: pa.array([None if i % 3 else 1.0 for i in range(n)], pa.float64()),
        lambda: pa.nulls(n),
        lambda: pa.array([decimal.Decimal(f"{i}.5e30") for i in range(n)], pa.decimal256(60, 2)),
        lambda: pa.array(["Jane Doe"] * n, pa.string()),
        lambda: pa.array([str(i) for i in range(n)], pa.string()).dictionary_encode(),
        lambda: pa.array([[1.0, 2.0]] * n, pa.list_(pa.float64())),
        lambda: pa.array([{"x": 1.0}] * n, pa.struct([("x", pa.float64())])),
        lambda: pa.array([b"\x00\xff"] * n, pa.binary()),
        lambda: pa.array([i % 2 == 0 for i in range(n)], pa.bool_()),
        lambda: pa.array([2**62] * n, pa.int64()).cast(pa.timestamp("us")),
        lambda: pa.array([1] * n, pa.duration("s")),
        lambda: pa.array(rng.choice([np.nan, np.inf, 1e308, 5e-324], n)),
    ]
    d = int(rng.integers(0, 5))
    columns = [kinds[0 if rng.random() < 0.6 else int(rng.integers(len(kinds)))]() for _ in range(d)]
    names = [str(rng.choice(["a", "b", "", "c\x00", "é"])) + ("" if rng.random() < 0.1 else str(j)) for j in range(d)]
    table = pa.Table.from_arrays(columns, names=names)
    path = FOLDER / f"hostile.{'parquet' if rng.random() < 0.6 else 'feather'}"
    try:
        if path.suffix == ".parquet":
            pq.write_table(table, path, row_group_size=7)
        else:
            feather.write_feather(table, path)
    except (pa.ArrowException, ValueError, TypeError):
        return "refused"  # not by us: it cannot be written
    return _fitted(path, rng)


__all__ = [
    "BadRowsError",
    "command_case",
    "ledger_calls_case",
    "ledger_log_case",
    "ledger_seed",
    "parse_ledger",
    "parse_settings",
    "settings_seed",
    "text_table_case",
    "typed_table_case",
]
