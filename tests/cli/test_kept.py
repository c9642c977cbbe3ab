"""What was paid for is not lost: whatever fails after noise was drawn, the release is saved somewhere that is named."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat

import numpy as np
import pytest
from typer.testing import CliRunner

from dpeigen import Ledger, PrivatePCA, load_release, load_score_map
from dpeigen.cli.app import app
from dpeigen.estimators.course import PaidCourse
from dpeigen.sources.csv_rows import CsvSource

NAMES = [r"$\frac{$", "dose", "y"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    rows = np.random.default_rng(0).normal(size=(800, 3)).clip(-3, 3)
    np.savetxt(folder / "table.csv", rows, delimiter=",", header=",".join(NAMES), comments="")
    PrivatePCA(2, epsilon=1.0, delta=1e-6, bound=6.0).fit(folder / "table.csv").release_.save(folder / "plane")
    return folder


@pytest.fixture(params=["pca", "ridge", "scoremap"])
def command(request, folder):
    """A command that releases, with a way to read what it has saved."""
    table, bound = str(folder / "table.csv"), ["--lower", "-3", "--upper", "3", "--delta", "1e-6"]
    calls = {
        "pca": ["pca", table, "--components", "1", *bound],
        "ridge": ["ridge", table, "--target", "y", *bound],
        "scoremap": ["scoremap", str(folder / "plane"), table],
    }
    return calls[request.param], load_score_map if request.param == "scoremap" else load_release


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "study.ledger", epsilon=10.0, delta=1e-3)


def call(command, out, ledger, *more):
    options = ["--epsilon", "1", "--out", str(out), "--ledger", str(ledger.path), *more]
    return CliRunner().invoke(app, [*command[0], *options])


def at_the_end_of_the_draw(monkeypatch, event):
    deliver = PaidCourse.deliver

    def then(self, *arguments):
        event()
        return deliver(self, *arguments)

    monkeypatch.setattr(PaidCourse, "deliver", then)


def states(ledger):
    return [(entry["state"], entry["started"]) for entry in ledger.history()]


def named_folder(result, beside):
    """The folder that the message names."""
    found = [path for path in beside.iterdir() if path.is_dir() and str(path) in result.stderr]
    assert len(found) == 1
    return found[0]


def test_a_folder_that_was_lost_is_replaced_by_one_beside_it(command, ledger, tmp_path, monkeypatch):
    out = tmp_path / "out"

    def lose():
        out.rmdir()
        out.write_text("in the way", encoding="utf-8")

    at_the_end_of_the_draw(monkeypatch, lose)
    result = call(command, out, ledger)
    assert result.exit_code == 5, result.output
    where = named_folder(result, tmp_path)
    assert where.name.startswith("out-")
    assert stat.S_IMODE(where.stat().st_mode) == 0o700
    assert command[1](where).guarantee.epsilon == 1
    assert states(ledger) == [("committed", True)]


def test_where_nothing_beside_it_can_be_written_the_temporary_folder_serves(command, ledger, tmp_path, monkeypatch):
    deep, temporary = tmp_path / "deep", tmp_path / "temporary"
    temporary.mkdir()

    def lose():
        shutil.rmtree(deep)
        deep.write_text("in the way", encoding="utf-8")
        monkeypatch.setattr("tempfile.tempdir", str(temporary))

    at_the_end_of_the_draw(monkeypatch, lose)
    result = call(command, deep / "out", ledger)
    assert result.exit_code == 5, result.output
    where = named_folder(result, temporary)
    assert stat.S_IMODE(where.stat().st_mode) == 0o700
    assert command[1](where).guarantee.epsilon == 1


def test_what_cannot_be_described_is_printed(folder, ledger, tmp_path, monkeypatch):
    monkeypatch.setattr("dpeigen.estimators.describe.promise", lambda *_: 1 / 0)
    table = str(folder / "table.csv")
    pca = (["pca", table, "--components", "1", "--lower", "-3", "--upper", "3", "--delta", "1e-6"], load_release)
    result = call(pca, tmp_path / "out", ledger)
    assert result.exit_code == 5, result.output
    assert len(json.loads(result.stdout)["components"][0]) == 3
    assert "It was printed: keep it." in result.stderr
    assert states(ledger) == [("committed", True)]


def test_a_release_that_can_be_saved_nowhere_is_printed(command, ledger, tmp_path, monkeypatch):
    at_the_end_of_the_draw(monkeypatch, lambda: monkeypatch.setattr("dpeigen.io.write_folder", None))
    result = call(command, tmp_path / "out", ledger)
    assert result.exit_code == 5, result.output
    assert json.loads(result.stdout)["guarantee"]["epsilon"] == 1
    assert "keep it" in result.stderr
    assert states(ledger) == [("committed", True)]


def test_a_ledger_that_is_gone_does_not_take_the_release_with_it(command, ledger, tmp_path, monkeypatch):
    kept = tmp_path / "elsewhere"

    def lose():
        for file in tmp_path.glob("study.ledger*"):
            kept.mkdir(exist_ok=True)
            file.rename(kept / file.name)

    at_the_end_of_the_draw(monkeypatch, lose)
    result = call(command, tmp_path / "out", ledger)
    assert result.exit_code == 5, result.output
    assert "counts as spent" in result.stderr
    assert str(tmp_path / "out") in result.stderr
    assert command[1](tmp_path / "out").guarantee.epsilon == 1
    found = Ledger(kept / "study.ledger")
    assert states(found) == [("reserved", True)]
    assert found.remaining().epsilon == pytest.approx(9.0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_after_the_draw_waits_for_the_release(command, ledger, tmp_path, monkeypatch, number):
    at_the_end_of_the_draw(monkeypatch, lambda: os.kill(os.getpid(), number))
    result = call(command, tmp_path / "out", ledger)
    assert result.exit_code == 5, result.output
    assert str(tmp_path / "out") in result.stderr
    assert command[1](tmp_path / "out").guarantee.epsilon == 1
    assert states(ledger) == [("committed", True)]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_the_first_pass_costs_nothing(command, ledger, tmp_path, monkeypatch, number, code):
    blocks, before = CsvSource.blocks, signal.getsignal(number)

    def then(self):
        os.kill(os.getpid(), number)
        return blocks(self)

    monkeypatch.setattr(CsvSource, "blocks", then)
    result = call(command, tmp_path / "out", ledger)
    assert result.exit_code == code, result.output
    assert "was cancelled: nothing was spent" in result.stderr
    assert states(ledger) == [("cancelled", True)]
    assert not (tmp_path / "out").exists()
    assert signal.getsignal(number) == before


def test_a_stop_says_what_to_do_where_the_ledger_cannot_be_told(command, ledger, tmp_path, monkeypatch):
    def then(self):
        ledger.path.rename(tmp_path / "elsewhere")
        raise KeyboardInterrupt

    monkeypatch.setattr(CsvSource, "blocks", then)
    result = call(command, tmp_path / "out", ledger)
    assert result.exit_code == 130, result.output
    assert "Nothing was drawn, but" in result.stderr
    assert "dpeigen ledger resolve" in result.stderr


def test_an_error_after_the_draw_exits_5_and_says_that_the_budget_is_spent(command, ledger, tmp_path, monkeypatch):
    def broken():
        raise ZeroDivisionError("987654.125")

    at_the_end_of_the_draw(monkeypatch, broken)
    result = call(command, tmp_path / "out", ledger)
    assert result.exit_code == 5, result.output
    assert "counts as spent" in result.stderr
    assert "987654.125" not in result.output
    assert states(ledger) == [("reserved", True)]


def test_a_name_that_is_no_formula_is_drawn_as_it_is(command, ledger, tmp_path):
    result = call(command, tmp_path / "out", ledger)
    assert result.exit_code == 0, result.output
    pictures = [*(tmp_path / "out").rglob("*.svg")]
    assert pictures


@pytest.mark.parametrize("error", [RuntimeError("no fonts"), KeyboardInterrupt()])
def test_pictures_that_fail_leave_the_release_and_name_it(command, ledger, tmp_path, monkeypatch, error):
    def broken(*_):
        raise error

    monkeypatch.setattr("dpeigen.report.write_card", broken)
    monkeypatch.setattr("dpeigen.cli.score_map._draw", broken)
    result = call(command, tmp_path / "out", ledger)
    assert result.exit_code == 5, result.output
    assert str(tmp_path / "out") in result.stderr
    assert "at no cost" in result.stderr
    assert command[1](tmp_path / "out").guarantee.epsilon == 1
    assert states(ledger) == [("committed", True)]
