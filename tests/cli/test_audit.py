"""``dpeigen audit`` from the outside."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from dpeigen._version import __version__
from dpeigen.cli import audit as command
from dpeigen.cli.app import app

SMALL = ["--runs", "160", "--seed", "1", "--quick", "--workers", "1"]


def call(*arguments):
    return CliRunner().invoke(app, ["audit", *arguments])


def test_a_named_mechanism_with_a_folder(tmp_path):
    done = call("laplace, one column", "--epsilon", "1", *SMALL, "--out", str(tmp_path / "a"), "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert [a["name"] for a in found["audits"]] == ["laplace, one column"]
    assert found["audits"][0]["lower"] <= 1.0
    assert len(found["exact"]) == 6
    assert (tmp_path / "a" / "audit.png").stat().st_size > 5000
    assert json.loads((tmp_path / "a" / "audit.json").read_text()) == found
    assert found["date"].startswith("20")
    assert found["dpeigen"] == __version__
    page = (tmp_path / "a" / "audit.md").read_text(encoding="utf-8")
    assert found["date"][:10] in page
    assert "**Nothing was refuted.**" in page
    assert "| laplace, one column | 1 | 0 |" in page
    again = call("laplace, one column", "--epsilon", "1", *SMALL, "--out", str(tmp_path / "a"))
    assert again.exit_code == 0
    assert "not refuted" in again.stdout
    assert "never prove it" in " ".join(again.stdout.split())


def test_errors_are_one_line():
    for arguments, words in (
        (["nothing"], "There is no mechanism 'nothing'"),
        (["--quick", "--full"], "not both"),
        (["--minutes", "0"], "above 0"),
        (["gaussian", "--epsilon", "-1"], "'epsilon'"),
        (["gaussian", "--planted"], "broken mechanisms"),
    ):
        done = call(*arguments)
        assert done.exit_code == 2
        assert words in done.stderr
        assert "Traceback" not in done.stderr


def test_the_list():
    done = call("--list")
    assert done.exit_code == 0
    assert "matrix-laplace" in done.stdout.splitlines()


def test_out_of_time_is_said():
    done = call("gaussian, one column", *SMALL, "--minutes", "0.000001")
    assert done.exit_code == 0
    assert "not reached in time: gaussian, one column" in done.stdout


def test_a_full_audit_ends_within_the_hour(monkeypatch):
    from dpeigen.auditing import runner

    allowed = []
    monkeypatch.setattr(
        runner, "run_audits", lambda plan, place, minutes, **rest: (allowed.append(minutes), ([], []))[1]
    )
    assert call("--full").exit_code == 0
    assert call("--full", "--minutes", "120").exit_code == 0
    assert call().exit_code == 0
    assert allowed == [command._FULL_MINUTES, 120.0, None]
    assert command._FULL_MINUTES <= 50
