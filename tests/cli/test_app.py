"""The command itself: help, version, `python -m dpeigen`, and the list of reproductions."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpeigen import __version__
from dpeigen.cli.app import app


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"], ["pca", "--help"], ["reproduce", "--help"]])
def test_help(arguments):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert "--help" in result.output


def test_epsilon_has_no_default():
    result = CliRunner().invoke(app, ["pca", "--help"], env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"})
    assert "There is no default" in " ".join(result.output.split())


def test_version():
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output.strip() == f"dpeigen {__version__}"


def test_python_dash_m():
    done = subprocess.run([sys.executable, "-m", "dpeigen", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"dpeigen {__version__}"


def test_output_that_cannot_show_greek(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n" + "1,0\n0,1\n" * 50, encoding="utf-8")
    call = ["pca", "t.csv", "-k", "1", "--epsilon", "1", "--bound", "2", "--center", "none", "--out", "out"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-m", "dpeigen", *call], cwd=tmp_path, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert b"Release written to out" in done.stdout


def test_help_loads_nothing_heavy():
    """Beyond what scikit-learn loads by itself."""
    code = (
        "import sys, sklearn.covariance, sklearn.decomposition; before = set(sys.modules)\n"
        "from typer.testing import CliRunner; from dpeigen.cli.app import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "heavy = {'matplotlib', 'pyarrow', 'dask', 'pyspark', 'dp_accounting', 'dpeigen.datasets'}\n"
        "assert not heavy & (set(sys.modules) - before)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def papers(tmp_path, monkeypatch):
    folder = tmp_path / "papers" / "someone-2020"
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("# Someone 2020: a table\n", encoding="utf-8")
    (folder / "run.py").write_text(
        "def main(quick, out):\n    print('quick' if quick else 'full', out.name)\n    return quick\n", encoding="utf-8"
    )
    monkeypatch.delenv("DPEIGEN_PAPERS", raising=False)
    return folder.parent


def test_reproduce_lists_a_folder_that_is_named(papers):
    result = CliRunner().invoke(app, ["reproduce", "--papers", str(papers)])
    assert result.exit_code == 0
    assert "someone-2020" in result.output
    assert "Someone 2020: a table" in result.output


def test_reproduce_lists_tables_and_figures_with_their_state(papers, tmp_path):
    """From what was recorded; without running anything of the folder."""
    folder = papers / "someone-2020"
    (folder / "run.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')", encoding="utf-8")
    named = [
        {"name": "Figure 1", "about": "a curve", "entries": ["a/*"], "repetitions": 50},
        {"name": "Figure 2", "about": "another", "entries": ["b/*"], "repetitions": 50},
        {"name": "Table 1", "about": "a survey", "looked": "the authors' page and two registries"},
        {"name": "Table 2", "about": "what nobody ran", "entries": ["c/*"]},
    ]
    runs = [{"date": "2026-01-02", "machine": "a machine", "minutes": 1.0, "entries": ["a/*"]}]
    entries = {f"a/{i}": {"mean": 1.0, "deviation": 0.1, "repetitions": 50 + i} for i in range(3)}
    entries |= {f"b/{i}": {"mean": 1.0, "deviation": 0.1, "repetitions": 50 - i} for i in range(3)}
    (folder / "contents.json").write_text(json.dumps(named), encoding="utf-8")
    (folder / "expected.json").write_text(json.dumps({"recorded": runs, "entries": entries}), encoding="utf-8")
    result = CliRunner().invoke(app, ["reproduce", "--list", "--papers", str(papers)])
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert lines[1:] == [
        "Figure 1 reproduced a curve",
        "50 repetitions, recorded 2026-01-02 on a machine",
        "Figure 2 quick only another",
        "48 of the paper's 50 repetitions, date and machine not recorded",
        "Table 1 data cannot be had a survey",
        "looked for: the authors' page and two registries",
        "Table 2 missing what nobody ran",
    ]
    assert CliRunner().invoke(app, ["reproduce", "someone-2020", "--list", "--papers", str(papers)]).exit_code == 0
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("arguments", [[], ["someone-2020"], ["--list"]])
def test_reproduce_runs_nothing_from_the_working_folder_or_above(papers, tmp_path, monkeypatch, arguments):
    """Whoever can write to a folder that all share could otherwise have their code run by whoever works below it."""
    mark = tmp_path / "ran"
    (papers / "someone-2020" / "run.py").write_text(f"open({str(mark)!r}, 'w')", encoding="utf-8")
    (tmp_path / "deep" / "deeper").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "deep" / "deeper"):
        monkeypatch.chdir(folder)
        result = CliRunner().invoke(app, ["reproduce", *arguments])
        assert "Someone 2020" not in result.output
        assert not mark.exists()


def test_the_papers_of_a_source_checkout_are_those_of_the_imported_package(tmp_path, monkeypatch):
    from dpeigen.cli import reproduce

    package = Path(reproduce.__file__).resolve().parents[1]
    found = reproduce.own_papers()
    assert found is None or found == package.parents[1] / "papers"
    for place in ("site-packages/dpeigen", "src/dpeigen"):  # an installed copy; the source of something else
        copy = tmp_path / place / "cli" / "reproduce.py"
        copy.parent.mkdir(parents=True)
        (tmp_path / "papers").mkdir(exist_ok=True)
        (tmp_path / "pyproject.toml").write_text('[project]\nname = "another"\n', encoding="utf-8")
        monkeypatch.setattr(reproduce, "__file__", str(copy))
        assert reproduce.own_papers() is None
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "dpeigen"\n', encoding="utf-8")
    assert reproduce.own_papers() == tmp_path / "papers"


def test_reproduce_runs_and_tells_disagreement(papers, monkeypatch):
    monkeypatch.setenv("DPEIGEN_PAPERS", str(papers))
    agrees = CliRunner().invoke(app, ["reproduce", "someone-2020", "--quick"])
    assert (agrees.exit_code, agrees.output.strip()) == (0, "quick out")
    differs = CliRunner().invoke(app, ["reproduce", "someone-2020"])
    assert (differs.exit_code, differs.output.strip()) == (1, "full out")


def test_reproduce_unknown_key(papers, monkeypatch):
    monkeypatch.setenv("DPEIGEN_PAPERS", str(papers))
    result = CliRunner().invoke(app, ["reproduce", "nobody-1900"])
    assert result.exit_code == 2
    assert "someone-2020" in result.output


def test_reproduce_without_a_checkout(tmp_path, monkeypatch):
    monkeypatch.delenv("DPEIGEN_PAPERS", raising=False)
    monkeypatch.setattr("dpeigen.cli.reproduce.own_papers", lambda: None)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["reproduce"])
    assert result.exit_code == 2
    assert "DPEIGEN_PAPERS" in result.output
