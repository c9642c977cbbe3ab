"""Run hostile cases: a hundred thousand by default, each reproducible by its number.

    python tools/fuzz.py --cases 100000             # all kinds, in child processes: a crash or a hang is one finding
    python tools/fuzz.py --kind fit --only 1234     # one case again, in this process
    python tools/fuzz.py --atheris csv -- -runs=100000   # coverage-guided, for one parser (needs the "fuzz" extra)

The exit code is 0 if there was no finding. A finding is: an exception that is not a clear refusal, a wrong answer, a
refusal that was charged to a ledger, a process that dies, a case that takes more than a minute.
"""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
LIMIT = 60  # seconds for a case
BATCH = 500


def run_case(kind: str, number: int, seed: int = 0) -> str:
    """One case; what happened, or an exception."""
    import numpy as np
    from fuzz_cases import CASES

    def hang(*_: Any) -> None:
        raise TimeoutError(f"no answer in {LIMIT} seconds")

    signal.signal(signal.SIGALRM, hang)
    signal.alarm(LIMIT)
    try:
        return CASES[kind][0](np.random.default_rng([seed, sorted(CASES).index(kind), number]))
    finally:
        signal.alarm(0)


def run_batch(kind: str, start: int, count: int, seed: int, findings: Any) -> None:
    """In a child process: outcomes and findings go to the queue."""
    outcomes: collections.Counter[str] = collections.Counter()
    for number in range(start, start + count):
        findings.put(("at", number))
        try:
            outcomes[run_case(kind, number, seed)] += 1
        except BaseException:
            outcomes["finding"] += 1
            findings.put(("finding", f"{kind} {number}\n{traceback.format_exc(limit=-6)}"))
    findings.put(("done", dict(outcomes)))


def in_child(kind: str, start: int, count: int, seed: int) -> tuple[collections.Counter[str], list[str]]:
    """A batch in a process of its own; one that dies is a finding, and the batch goes on behind it."""
    context = multiprocessing.get_context("fork")
    outcomes: collections.Counter[str] = collections.Counter()
    found: list[str] = []
    while count > 0:
        queue: Any = context.SimpleQueue()
        child = context.Process(target=run_batch, args=(kind, start, count, seed, queue))
        child.start()
        at, done = start, False
        while True:
            if queue.empty():
                if not child.is_alive() and queue.empty():
                    break
                time.sleep(0.002)
                continue
            what, value = queue.get()
            if what == "at":
                at = value
            elif what == "finding":
                found.append(value)
            else:
                outcomes.update(value)
                done = True
        child.join()
        if done:
            return outcomes, found
        found.append(f"{kind} {at}: the process died with exit code {child.exitcode}")
        outcomes["finding"] += 1
        start, count = at + 1, count - (at + 1 - start)
    return outcomes, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind")
    parser.add_argument("--only", type=int, help="run this one case in this process")
    parser.add_argument("--atheris", metavar="PARSER")
    parser.add_argument("--out", type=Path)
    options, rest = parser.parse_known_args()
    if options.atheris:
        return atheris(options.atheris, [a for a in rest if a != "--"])
    from fuzz_cases import CASES, seeds

    if options.only is not None:
        print(run_case(options.kind, options.only, options.seed))
        return 0
    seeds()
    total = sum(share for _, share in CASES.values())
    outcomes: dict[str, collections.Counter[str]] = {}
    findings: list[str] = []
    began = time.monotonic()
    kinds = [options.kind] if options.kind else list(CASES)
    wanted = {k: options.cases if options.kind else -(-options.cases * CASES[k][1] // total) for k in kinds}
    done = dict.fromkeys(kinds, 0)
    while any(done[k] < wanted[k] for k in kinds):
        for kind in kinds:  # in turns, so that whatever time there is covers every kind
            count = min(BATCH, wanted[kind] - done[kind])
            if count <= 0:
                continue
            counted, found = in_child(kind, done[kind], count, options.seed)
            outcomes.setdefault(kind, collections.Counter()).update(counted)
            findings += found
            done[kind] += count
            for text in found:
                print(f"FINDING {text}", flush=True)
        print(f"{sum(done.values())} cases, {len(findings)} findings, {time.monotonic() - began:.0f} s", flush=True)
        if options.out:
            result = {"outcomes": {k: dict(v) for k, v in outcomes.items()}, "findings": findings,
                      "seconds": round(time.monotonic() - began)}  # fmt: skip
            options.out.write_text(json.dumps(result, indent=1), encoding="utf-8")
    for kind, counted in outcomes.items():
        print(f"{kind:22}{sum(counted.values()):8} cases  {dict(counted)}")
    return 1 if findings else 0


def atheris(name: str, arguments: list[str]) -> int:
    """Coverage-guided fuzzing of one parser, from the good file of its kind."""
    import atheris as engine

    with engine.instrument_imports(include=["dpeigen"]):
        import fuzz_cases

    corpus = fuzz_cases.FOLDER / "corpus"
    corpus.mkdir(exist_ok=True)
    (corpus / "good").write_bytes(fuzz_cases.seeds()[name])

    def one_input(content: bytes) -> None:
        fuzz_cases.PARSERS[name](content)

    engine.Setup([sys.argv[0], str(corpus), *arguments], one_input)
    engine.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
