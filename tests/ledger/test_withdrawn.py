"""Nothing that was reserved ever leaves the record: cancelled, refused and hand-closed entries stay to be seen."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from dpeigen import Ledger, PrivateCovariance, PrivatePCA, PrivateRidge, PrivateScoreMap
from dpeigen.cli.app import app
from dpeigen.privacy import Budget
from dpeigen.sources import Source, UnreadableRowsError, open_source
from dpeigen.stats import BadRowsError

X = np.random.default_rng(0).normal(size=(80, 3))
BAD = np.where(np.arange(240).reshape(80, 3) == 100, np.nan, X)


def run(*arguments):
    return CliRunner().invoke(app, ["ledger", *map(str, arguments)])


@pytest.fixture
def reused(place):
    """One id, cancelled before its start, after it, closed by hand, and at last released."""
    ledger = Ledger.create(place, epsilon=1.0)
    ledger.cancel(ledger.reserve(Budget(0.4), "first", id="w1"))
    ledger.start(ledger.reserve(Budget(0.3), "second", id="w1", about={"seeded": True}))
    ledger.cancel("w1", "the disk was full")
    ledger.start(ledger.reserve(Budget(0.2), "third", id="w1"))
    ledger.resolve("w1", spent=False, reason="the node died in the queue")
    ledger.start(ledger.reserve(Budget(0.1), "fourth", id="w1"))
    ledger.resolve("w1", spent=True, reason="the file was sent")
    return place


ENDS = [
    ("first", "cancelled", False, False, None),
    ("second", "cancelled", True, False, "the disk was full"),
    ("third", "cancelled", True, True, "the node died in the queue"),
    ("fourth", "committed", True, True, "the file was sent"),
]
CAUTIONS = [
    "1 entry drawn with a seed: not private",  # it was started, so it may have been
    "1 entry given back after the start (the disk was full)",
    "1 entry closed by hand as cancelled, and given back (the node died in the queue)",
    "1 entry closed by hand as spent (the file was sent)",
]


def test_every_use_of_an_id_stays_in_the_history(reused):
    ledger = Ledger(reused)
    kept = ("what", "state", "started", "by_hand", "reason")
    assert [tuple(entry[name] for name in kept) for entry in ledger.history()] == ENDS
    assert ledger.remaining().epsilon == pytest.approx(0.9)
    verdict = ledger.verify()
    assert verdict.ok
    assert list(verdict.cautions) == CAUTIONS


def test_commands_list_all_of_them(reused):
    lines = run("history", reused).output.splitlines()
    assert len(lines) == 4
    for line, (what, state, _, by_hand, reason) in zip(lines, ENDS, strict=True):
        assert what in line
        assert state + (" (by hand)" if by_hand else "") in line
        assert (reason or "") in line
    assert "cancelled (after the start)" in lines[1]
    shown = run("show", reused).output
    assert all(f"caution     {caution}" in shown for caution in CAUTIONS)
    assert "(after the start): the disk was full" in shown
    assert "(by hand): the node died in the queue" in shown
    assert "(by hand): the file was sent" in shown
    facts = json.loads(run("show", reused, "--json").output)
    assert [entry["reason"] for entry in facts["withdrawn"]] == [reason for *_, reason in ENDS[1:]]
    rows = list(csv.DictReader(io.StringIO(run("export", reused).output)))
    assert [(row["what"], row["state"], row["reason"]) for row in rows] == [
        (what, state, reason or "") for what, state, _, _, reason in ENDS
    ]
    exported = json.loads(run("export", reused, "--format", "json").output)
    assert [entry["what"] for entry in exported["history"]] == [what for what, *_ in ENDS]


def test_verify_ends_with_a_verdict_in_words(reused):
    done = run("verify", reused)
    *_, last = done.output.splitlines()
    assert last.startswith("verdict: in order. ")
    assert "Without a head noted earlier" in last
    assert "does not cover what was drawn in the entries that the 4 cautions name" in last
    assert all(f"caution: {caution}" in done.output for caution in CAUTIONS)
    head = json.loads(run("verify", reused, "--json").output)["head"]
    assert "The head given is in it" in run("verify", reused, "--head", head).output.splitlines()[-1]
    wrong = run("verify", reused, "--head", f"3:{'0' * 64}")
    assert wrong.exit_code == 4
    assert wrong.output.splitlines()[-1].startswith("dpeigen: verdict: not in order: the record was changed: the head")


def test_a_clean_record_needs_no_caution(place):
    ledger = Ledger.create(place, epsilon=1.0)
    ledger.commit(ledger.reserve(Budget(0.1), "x"))
    ledger.cancel(ledger.reserve(Budget(0.1), "nothing was read for it"))
    assert ledger.verify().cautions == ()
    assert "caution" not in ledger.verify().words
    assert len(ledger.history()) == 2


@pytest.mark.parametrize("reason", ["", "  ", 7, "a\nb", "x" * 501])
def test_a_reason_is_a_line_of_text(path, reason):
    ledger = Ledger.create(path, epsilon=1.0)
    ledger.start(ledger.reserve(Budget(0.1), "x", id="w1"))
    with pytest.raises(ValueError, match="'reason' parameter"):
        ledger.cancel("w1", reason)
    assert ledger.history()[0]["state"] == "reserved"


# --- refusals after rows were read ------------------------------------------------------------------------------------


class Lost(Source):
    n_features, n_rows = 3, 80

    def blocks(self):
        yield X[:40]
        raise UnreadableRowsError("A worker was lost. Nothing was spent.")


def stream(options, rows):
    PrivatePCA(1, **{**options, "method": "oja", "delta": 1e-6}).partial_fit(rows)


FITS = {
    "pca": lambda options, rows: PrivatePCA(1, **options).fit(rows),
    "covariance": lambda options, rows: PrivateCovariance(**options).fit(rows),
    "stream": stream,
}


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize(("rows", "kind"), [(BAD, "bad rows"), (Lost(), "rows that could not be read")], ids=["a", "b"])
def test_each_refusal_after_rows_were_read_is_on_record_with_its_kind(path, name, rows, kind):
    ledger = Ledger.create(path, epsilon=1.0, delta=1e-5)
    for _ in range(2):
        with pytest.raises(BadRowsError):
            FITS[name]({"epsilon": 0.5, "bound": 4.0, "ledger": ledger.named("r")}, rows)
    reason = f"refused after data were read: {kind}"
    ends = [(entry["state"], entry["started"], entry["reason"]) for entry in ledger.history()]
    assert ends == [("cancelled", True, reason)] * 2
    assert ledger.verify().cautions == (f"2 entries given back after the start ({reason})",)
    assert ledger.remaining() == Budget(1.0, 1e-5)


def test_so_are_refusals_before_there_is_a_reservation(place, tmp_path):
    """A CSV is read once to count its rows, before the price is known."""
    ledger, table = Ledger.create(place, epsilon=1.0, delta=1e-5), tmp_path / "table.csv"
    table.write_text("a,b\n1,2\n5,987654.125\n3,4\n", encoding="utf-8")
    source = open_source(table)
    table.unlink()
    for _ in range(2):
        with pytest.raises(BadRowsError):
            PrivatePCA(1, epsilon=0.5, bound=4.0, ledger=ledger).fit(source)
    reason = "refused after data were read: rows that could not be read"
    assert [(entry["state"], entry["reason"]) for entry in ledger.history()] == [("refused", reason)] * 2
    assert ledger.verify().ok
    assert ledger.verify().cautions == (f"2 entries refused before a reservation ({reason})",)
    assert (ledger.state().accounting, ledger.remaining()) == ("auto", Budget(1.0, 1e-5))
    outputs = [run(command, place).output for command in ("show", "history", "export", "verify")]
    assert all(reason in text for text in outputs)
    assert "2 refused" in outputs[0]
    assert "987654" not in "".join(outputs)
    PrivatePCA(1, epsilon=0.5, bound=4.0, ledger=ledger).fit(X)
    assert ledger.verify().ok


def test_so_are_those_of_regressions_and_maps(path):
    ledger = Ledger.create(path, epsilon=5.0, delta=1e-5)
    with pytest.raises(BadRowsError):
        PrivateRidge(epsilon=0.5, bound=4.0, ledger=ledger).fit(BAD[:, :2], X[:, 2])
    release = PrivatePCA(2, epsilon=1.0, bound=9.0, center=[0, 0, 0], random_state=0).fit(X).release_
    with pytest.raises(BadRowsError):
        PrivateScoreMap(release, epsilon=0.4, ledger=ledger).fit(BAD)
    assert {entry["reason"] for entry in ledger.history()} == {"refused after data were read: bad rows"}
    assert len(ledger.history()) == 2
