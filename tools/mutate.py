"""Mutation testing of the privacy layer: break a line, run the tests of its file, count what they notice.

    python tools/mutate.py --per-file 20 --minutes 60 --out mutants.json

Mutants are drawn at random with a fixed seed, the same number from each file, and each one meets only the tests of its
own file (`TESTS`), stopping at the first failure. Tools that exist (mutmut, cosmic-ray) run every mutant: the
statistical tests take seconds, there are well over a thousand mutants, and they neither draw a sample nor stop in time.
Mutations: comparison and arithmetic operators, and/or, signs, negated conditions, numbers (n + 1), True/False, dropped
unary operators, returned None, `continue`/`break` swapped. Not mutated: annotations, doc strings, texts of messages,
imports, `__all__`.

A mutant that no test can notice (it means the same) is left out of the share only if `EQUIVALENT` lists it, with a
reason.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import contextlib
import copy
import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYER = ROOT / "src" / "dpeigen" / "privacy"
IN_FILES = ("-k", "not postgresql")  # the same tests run on a server for hours of mutants would not find more
# What each file's mutants meet. Every file of privacy/ that has any is here; `files` sees to it.
TESTS = {
    "accounting.py": ["tests/privacy/test_exactness.py", "tests/privacy/test_accounting.py"],
    "attack.py": ["tests/privacy/test_attack.py"],
    "audit.py": ["tests/privacy/test_audit.py"],
    "budget.py": ["tests/privacy/test_budget.py", "tests/privacy/test_exactness.py"],
    "calibration.py": ["tests/privacy/test_exactness.py", "tests/privacy/test_calibration.py"],
    "discrete.py": ["tests/privacy/test_exactness.py", "tests/privacy/test_discrete.py"],
    "guarantee.py": ["tests/privacy/test_guarantee.py"],
    "histogram.py": ["tests/privacy/test_exactness.py", "tests/privacy/test_histogram.py"],
    "noise.py": ["tests/privacy/test_exactness.py", "tests/privacy/test_noise.py"],
    "randomness.py": ["tests/privacy/test_exactness.py", "tests/privacy/test_randomness.py"],
    "shuffling.py": ["tests/privacy/test_shuffling.py"],
    "sphere.py": ["tests/privacy/test_exactness.py", "tests/privacy/test_sphere.py"],
    "subsampling.py": ["tests/privacy/test_subsampling.py"],
    "ledger/book.py": [
        *(f"tests/ledger/test_{name}.py" for name in ("ids", "ledger", "refunds", "store", "rules", "chain", "faults")),
        "tests/ledger/test_postgres.py::test_waiting_writers_see_what_was_done_meanwhile",
        *IN_FILES,
    ],
    "ledger/chain.py": [
        "tests/ledger/test_chain.py",
        "tests/ledger/test_ids.py",
        "tests/ledger/test_ledger.py::test_a_ledger_keeps_to_one_relation",
        *IN_FILES,
    ],
    "ledger/page.py": [
        "tests/ledger/test_ids.py",
        "tests/ledger/test_chain.py",
        "tests/ledger/test_store.py",
        "tests/ledger/test_postgres.py::test_waiting_writers_see_what_was_done_meanwhile",  # locks are the server's
        *IN_FILES,
    ],
    "ledger/postgres.py": [
        "tests/ledger/test_faults.py::test_no_server_no_data_and_no_password",
        "tests/ledger/test_postgres.py",
    ],
    "ledger/room.py": ["tests/ledger/test_rules.py", "tests/ledger/test_ledger.py", *IN_FILES],
    "ledger/rules.py": ["tests/ledger/test_rules.py", "tests/ledger/test_ledger.py", *IN_FILES],
    "ledger/store.py": [
        "tests/ledger/test_store.py",
        "tests/ledger/test_chain.py",
        "tests/ledger/test_faults.py",
        *IN_FILES,
    ],
    "ledger/texts.py": ["tests/ledger/test_ids.py", "tests/ledger/test_ledger.py", *IN_FILES],
    "ledger/tickets.py": [
        *(f"tests/ledger/test_{name}.py" for name in ("ids", "ledger", "refunds", "chain")),
        *IN_FILES,
    ],
}
# The mutated line, or how it begins: why no test can notice it. The text of the line, so that it follows edits.
EQUIVALENT: dict[str, str] = {
    "discrete.py: batch = int(missing / _ACCEPTED) + 17": "more proposals at a time: the same law, another speed",
    "sphere.py: _BATCH_NUMBERS = ": "the size of a batch: the same law, another speed",
    "budget.py: down = 1 - 2**-51": "still more than the two roundings of a share",
    "ledger/page.py: return Event(1, ": "only the body of this event is read",
    "discrete.py: negative = (shape >> np.uint64(63) != 1)": "the other sign of a symmetric law",
    "noise.py: pool = ThreadPoolExecutor(2)": "one draw is handed to it",
    "calibration.py: eta = coordinates * ((_TAIL**2 + 1) / (8 * sigma**2) + 4 * math.exp(": (
        "what stays below the last bit of the first term at every scale that can be drawn"
    ),
    "calibration.py: eta = coordinates * ((_TAIL**2 + 1) / (8 * sigma**2) + 5 * math.exp(": "likewise",
    "discrete.py: _ACCEPTED = ": "more or fewer proposals at a time: the same law, another speed",
    "sphere.py: count = int(np.clip(": "the size of a batch: the same law, another speed",
    "calibration.py: if (low <= 1e-290):": "low is a power of two and 1e-290 is none",
    "accounting.py: while (compose_delta(spends, high) >= delta):": "a tie in a bisection",
    "histogram.py: _NARROW = 65": "another border between two ways to count the same",
    "noise.py: upper = rng.discrete_gaussian(_up(off), d * (d - 1) // 2) if d > 1 else diagonal[:1]": (
        "with one column there is no place off the diagonal to put it"
    ),
    "discrete.py: error = context.multiply(target, context.scaleb(abs(exponent) + 10, 2 - digits))": (
        "a wider margin: the same decision after more words"
    ),
    "subsampling.py: while (subsampled_epsilon(size, rows, steps, high, delta) >= epsilon):": "a tie in a bisection",
    "ledger/page.py: def __init__(self, store: Store, db: Transaction, by: str, host: str, *, lock: bool = True)": (
        "the ledger always says whether to lock"
    ),
    "subsampling.py: if not (noise >= _LEAST_NOISE):": "a tie, where both answers are right",
    "subsampling.py: _ORDERS = [": "any Rényi order gives a bound, and its neighbour nearly the same one",
    "subsampling.py: fits = (subsampled_epsilon(size, rows, steps, middle, delta) < epsilon)": "a tie in a bisection",
    "subsampling.py: while (high - low >= 0.001 * high):": "a tie in a bisection",
    "subsampling.py: low = high / 2 if high > 2 else 0.0": "a lower start of the same bisection",
    "audit.py: for bound, event in zip(bounds, find_events(*search, delta=delta, confidence=confidence), "
    "strict=False):": "both always have two",
    "calibration.py: if t < -6.0: # δ is of order one: no cancellation, and erfcx would overflow": (
        "both formulas are right to the last digits between"
    ),
}

COMPARE = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
           ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In}  # fmt: skip
ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
              ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
              ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.MatMult: ast.Mult}  # fmt: skip


def mutations(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes to put in the place of one."""
    new = copy.deepcopy(node)
    if isinstance(new, ast.Compare) and type(new.ops[0]) in COMPARE:
        new.ops[0] = COMPARE[type(new.ops[0])]()
        yield new
    elif isinstance(new, ast.BinOp) and type(new.op) in ARITHMETIC:
        new.op = ARITHMETIC[type(new.op)]()
        yield new
    elif isinstance(new, ast.BoolOp):
        new.op = ast.And() if isinstance(new.op, ast.Or) else ast.Or()
        yield new
    elif isinstance(new, ast.UnaryOp) and isinstance(new.op, (ast.USub, ast.Not)):
        yield new.operand
    elif isinstance(new, ast.Constant):
        if isinstance(new.value, bool):
            yield ast.Constant(not new.value)
        elif isinstance(new.value, (int, float)):
            yield ast.Constant(new.value + 1)
    elif isinstance(new, ast.Return) and new.value is not None and not _is_none(new.value):
        new.value = ast.Constant(None)
        yield new
    elif isinstance(new, (ast.If, ast.IfExp, ast.While)):
        yield ast.UnaryOp(ast.Not(), new.test)
    elif isinstance(new, ast.Continue):
        yield ast.Break()
    elif isinstance(new, ast.Break):
        yield ast.Continue()


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def visit(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those that are not behaviour."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, (ast.JoinedStr, ast.Import, ast.ImportFrom)):
                continue
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue  # a doc string
            if isinstance(child, ast.Assign) and ast.unparse(child.targets[0]) in ("__all__", "Cost", "Shape"):
                continue
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            yield child
            yield from visit(child)


def mutants(source: str) -> list[tuple[int, str, str]]:
    """(line, the line as mutated, the whole source as mutated)."""
    found = []
    for node in visit(ast.parse(source)):
        for new in mutations(node):
            old = node.test if isinstance(node, (ast.If, ast.IfExp, ast.While)) else node
            start, end = (
                _offset(source, old.lineno, old.col_offset),
                _offset(source, old.end_lineno, old.end_col_offset),
            )
            text = ast.unparse(new)
            if not isinstance(new, (ast.stmt, ast.Constant)):
                text = f"({text})"
            whole = source[:start] + text + source[end:]
            try:
                ast.parse(whole)
            except SyntaxError:
                continue
            found.append((old.lineno, " ".join(whole.splitlines()[old.lineno - 1].split()), whole))
    return found


def _offset(source: str, line: int, column: int) -> int:
    lines = source.splitlines(keepends=True)
    return sum(map(len, lines[: line - 1])) + len(lines[line - 1].encode()[:column].decode())


def files() -> list[str]:
    """All files of the layer that can be mutated; none is left out in silence."""
    paths = (path for path in LAYER.rglob("*.py") if mutants(path.read_text(encoding="utf-8")))
    found = sorted(path.relative_to(LAYER).as_posix() for path in paths)
    if set(found) != set(TESTS):
        sys.exit(f"TESTS and privacy/ do not hold the same files: {sorted(set(found) ^ set(TESTS))}")
    return found


def run_tests(folder: Path, tests: list[str], limit: float) -> tuple[bool, float]:
    """Whether the tests pass with the package in ``folder``, and how long they took; too long is a failure."""
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # none is needed, and half of a short run is loading them
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", "-W", "ignore"]
    # Its own session, so that what it leaves running can be ended, and a file, not a pipe, for that to hold open.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch, Path(scratch, "said").open("wb") as said:
        Path(scratch).chmod(0o711)  # servers in it run as someone else
        environment["TMPDIR"] = scratch
        began = time.monotonic()
        running = subprocess.Popen(
            [*command, *tests], cwd=ROOT, env=environment, stdout=said, stderr=said, start_new_session=True
        )
        try:
            passed = running.wait(limit) == 0
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGINT)  # lets fixtures stop their servers
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(10)
            passed = False
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        return passed, time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help="file names in privacy/, as ledger/book.py; all by default")
    parser.add_argument("--per-file", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--again", type=Path, help="an earlier --out: only the mutants that survived there")
    options = parser.parse_args()
    names = options.files or files()
    earlier = None
    if options.again:
        said = json.loads(options.again.read_text(encoding="utf-8"))
        earlier = {(r["file"], r["line"], r["mutant"]) for r in said if r["state"] != "killed"}
        names = [n for n in names if any(file == n for file, _, _ in earlier)]
    sampled, originals = {}, {name: (LAYER / name).read_text(encoding="utf-8") for name in names}
    for name in names:
        every = mutants(originals[name])
        order = random.Random(f"{options.seed} {name}").sample(range(len(every)), min(options.per_file, len(every)))
        chosen = [every[i] for i in order]
        if earlier is not None:
            chosen = [m for m in every if (name, m[0], m[1]) in earlier]
        sampled[name] = (len(every), chosen)
    deadline = time.monotonic() + 60 * options.minutes
    results: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(ROOT / "src" / "dpeigen", folder / "dpeigen", ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(folder, quiet=1)
        for name in names:  # of what is mutated, only the source
            Path(importlib.util.cache_from_source(folder / "dpeigen" / "privacy" / name)).unlink()
        limits: dict[str, float] = {}
        for name in names:
            if earlier is not None:  # the earlier run has seen the tests pass
                limits[name] = 600.0
                continue
            passed, seconds = run_tests(folder, TESTS[name], 900)
            if not passed:
                sys.exit(f"the tests of {name} fail without any mutation")
            limits[name] = 60 + 5 * seconds
            place = folder / "dpeigen" / "privacy" / name
            place.write_text("raise RuntimeError('planted')", encoding="utf-8")
            if run_tests(folder, TESTS[name], 900)[0]:
                sys.exit(f"the tests of {name} do not even notice that it is broken: they run another copy")
            place.write_text(originals[name], encoding="utf-8")
        for turn in range(max(len(chosen) for _, chosen in sampled.values())):
            for name in names:
                chosen = sampled[name][1]
                if turn >= len(chosen) or time.monotonic() > deadline:
                    continue
                line, text, whole = chosen[turn]
                place = folder / "dpeigen" / "privacy" / name
                place.write_text(whole, encoding="utf-8")
                survived, seconds = run_tests(folder, TESTS[name], limits[name])
                place.write_text(originals[name], encoding="utf-8")
                reason = next((why for key, why in EQUIVALENT.items() if f"{name}: {text}".startswith(key)), None)
                state = "equivalent" if survived and reason else "survived" if survived else "killed"
                results.append(
                    {"file": name, "line": line, "mutant": text, "state": state, "seconds": round(seconds, 1)}
                )
                print(f"{state:10} {name}:{line}  {text}", flush=True)
                if options.out:
                    options.out.write_text(json.dumps(results, indent=1, ensure_ascii=False), encoding="utf-8")
    return report(results, {name: sampled[name][0] for name in names})


def report(results: list[dict[str, object]], totals: dict[str, int]) -> int:
    """The table, and 1 if less than 85% of what counts was killed."""
    killed_all = counted_all = 0
    for name, total in totals.items():
        mine = [r for r in results if r["file"] == name]
        killed, same = (sum(r["state"] == s for r in mine) for s in ("killed", "equivalent"))
        counted = len(mine) - same
        killed_all, counted_all = killed_all + killed, counted_all + counted
        print(f"{name:18} {killed:4} of {counted:4} killed ({total} mutants, {len(mine)} sampled, {same} equivalent)")
    share = killed_all / counted_all if counted_all else 0.0  # no mutant, no evidence
    print(f"all                {killed_all:4} of {counted_all:4} killed: {100 * share:.1f}%")
    return 0 if share >= 0.85 else 1


if __name__ == "__main__":
    sys.exit(main())
