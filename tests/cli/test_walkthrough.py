"""The first steps of the documentation, as a newcomer takes them: a CSV, a file of settings, a card."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpeigen import load_release
from dpeigen.cli.app import app

PAGE = Path(__file__).parents[2] / "docs" / "quickstart.md"


@pytest.fixture(scope="module")
def steps():
    """The block that makes a table, the commands, and the filled-in settings."""
    section = PAGE.read_text(encoding="utf-8").split("## From a CSV", 1)[1].split("\n## ", 1)[0]
    table, commands, settings, *_ = re.findall(r"^```\w+\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return table, commands.strip().splitlines(), settings, section


def test_five_commands_lead_to_a_card(steps, tmp_path, monkeypatch):
    table, commands, settings, section = steps
    assert len(commands) <= 5
    monkeypatch.chdir(tmp_path)
    exec(table, {})
    ran = []
    for command in commands:
        words = shlex.split(command, comments=True)
        if words[0] != "dpeigen":
            continue
        done = CliRunner().invoke(app, words[1:])
        assert done.exit_code == 0, done.output
        ran.append(words[1])
        if words[1] == "init":
            made = Path("study.toml").read_text(encoding="utf-8")
            assert all(f'[columns."{name}"]' in made for name in ("age", "systolic", "cholesterol", "sex"))
            Path("study.toml").write_text(settings, encoding="utf-8")
    assert ran == ["init", "pca", "pca"]
    shown = shlex.split(commands[-1])[-1]
    assert Path(shown).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert load_release("wave-1").feature_names == ["age", "systolic", "cholesterol"]
    short = shlex.split(re.search(r"^(dpeigen pca .*--scale private.*)$", section, re.MULTILINE)[1])
    short[-1] = "short"
    assert CliRunner().invoke(app, short[1:]).exit_code == 0
    assert Path("short/card.html").exists()
