"""Texts for the card: given with a release or later, kept with it, refused before anything is spent."""

import json

import numpy as np
from typer.testing import CliRunner

from dpeigen import load_release
from dpeigen.cli.app import app

TEXTS = {"title": "A title", "author": "A; B", "contact": "c@example.org", "description": "d", "population": "p"}


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_texts_come_from_settings_and_options_and_are_drawn_again(tmp_path, monkeypatch):
    monkeypatch.setattr("dpeigen.report.write_card", lambda release, where: where / "card.html")  # takes seconds
    np.savetxt(
        tmp_path / "t.csv", np.random.default_rng(0).normal(size=(400, 2)), delimiter=",", header="a,b", comments=""
    )
    lines = [f"{name} = {json.dumps(text)}" for name, text in TEXTS.items()]
    (tmp_path / "study.toml").write_text("\n".join(lines), encoding="utf-8")
    out = tmp_path / "out"
    fit = ("pca", tmp_path / "t.csv", "--config", tmp_path / "study.toml", "-k", 1, "--epsilon", 1, "--bound", 4)
    refused = run(*fit, "--title", "x" * 201, "--out", out)
    assert refused.exit_code == 2
    assert "'title'" in refused.output
    assert not out.exists()
    assert run(*fit, "--title", "Another", "--out", out).exit_code == 0
    assert load_release(out).about == {**TEXTS, "title": "Another"}
    again = run("card", out, "--title", "Third")
    assert again.exit_code == 0
    assert "digest has changed" in again.output
    assert load_release(out).about == {**TEXTS, "title": "Third"}
