"""`init`, files of settings, `covariance`, `ridge`, dry runs that read no row, and what happens when writing fails."""

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from dpeigen import Ledger, load_release
from dpeigen.cli._config import read_study
from dpeigen.cli.app import app
from dpeigen.methods import METHODS

SECRET = "987654.125"
STUDY = """
epsilon = 4.0
components = 1
target = "dose"
rescale = {rescale}
[columns.age]
lower = 0
upper = 100
[columns.dose]
lower = 0
upper = 10
[columns.sex]
categories = ["f", "m"]
[columns.note]
use = false
"""


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 90, 20_000)
    dose = np.clip(age / 10 + rng.normal(0, 0.3, 20_000), 0, 10)
    sex = rng.choice(["f", "m"], 20_000)
    path = tmp_path_factory.mktemp("study") / "table.csv"
    lines = [f"{a},{b},{c},{SECRET}" for a, b, c in zip(age, dose, sex, strict=True)]
    path.write_text("age,dose,sex,note\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def study(tmp_path):
    def write(text, **values):
        path = tmp_path / "study.toml"
        path.write_text(text.format(**values) if values else text, encoding="utf-8")
        return path

    return write


# --- init -----------------------------------------------------------------------------------------------------------


def test_init_writes_names_and_no_value(table, tmp_path):
    out = tmp_path / "study.toml"
    assert call("init", table, "--out", out).exit_code == 0
    text = out.read_text(encoding="utf-8")
    assert SECRET not in text
    assert list(read_study(out).columns) == ["age", "dose", "sex", "note"]
    again = call("init", table, "--out", out)
    assert again.exit_code == 2
    assert "not overwritten" in again.output
    assert out.read_text(encoding="utf-8") == text


def test_init_takes_types_from_a_schema(tmp_path):
    table = pa.table(
        {
            "n": pa.array([1.5]),
            "yes": pa.array([True]),
            "day": pa.array([0], pa.date32()),
            "at": pa.array([0], pa.timestamp("ms")),
            "who": pa.array([SECRET]),
            "__index_level_0__": pa.array([7]),
        }
    )
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    assert call("init", tmp_path / "t.parquet", "--out", tmp_path / "s.toml").exit_code == 0
    text = (tmp_path / "s.toml").read_text(encoding="utf-8")
    assert SECRET not in text
    columns = read_study(tmp_path / "s.toml").columns
    assert {name: column.type for name, column in columns.items()} == {
        "n": "number",
        "yes": "bool",
        "day": "date",
        "at": "timestamp",
    }


@pytest.mark.parametrize("name", ['a"]\nepsilon = 9\n["b', "ä ö\t\\", "# x", "a.b", "'", "\x7f"])
def test_init_quotes_names(tmp_path, name):
    pa.parquet.write_table(pa.table({name: [1.0], "z": [2.0]}), tmp_path / "t.parquet")
    assert call("init", tmp_path / "t.parquet", "--out", tmp_path / "s.toml").exit_code == 0
    study = read_study(tmp_path / "s.toml")
    assert list(study.columns) == [name, "z"]
    assert "epsilon" not in study.settings


def test_init_of_what_has_no_schema(tmp_path):
    assert call("init", tmp_path / "none.csv").exit_code == 3
    np.save(tmp_path / "a.npy", np.eye(3))
    assert call("init", tmp_path / "a.npy", "--out", tmp_path / "s.toml").exit_code == 2
    assert not (tmp_path / "s.toml").exists()


# --- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("epsilonn = 1", "Did you mean 'epsilon'"),
        ("[columns.age]\nlow = 1", "Did you mean 'lower'"),
        ("[columns.age]\nepsilon = 1", "above the first [columns"),
        ("epsilon = ", "not valid TOML"),
        ("epsilon = '1'", "'epsilon'"),
        ("epsilon = 1\n[columns.age]\nlower = '1'\nupper = 2", "must be a number"),
        ("epsilon = 1\n[columns.age]\nlower = 3\nupper = 2", "lower < upper"),
        ("epsilon = 1\nbound = 3\n[columns.age]\nlower = 0\nupper = 2", "both 'bound'"),
        ("epsilon = 1\nbound = [0, 1]\n[columns.age]\n[columns.dose]", "'bound'"),
        ("epsilon = 1\n[columns.age]\nuse = false", "uses no column"),
        ("epsilon = 1\n[columns.age]\nuse = 'no'", "true or false"),
        ("epsilon = 1\n[columns.age]\ntype = 'text'", "'types'"),
        ("epsilon = 1\n[columns.sex]\ncategories = 'f'", "must be a list"),
        ("epsilon = 1\n[columns.sex]\ncategories = ['f']\ntype = 'bool'", "must not have other keys"),
        ("epsilon = 1\n[columns.height]", "height"),
        ("epsilon = 1\nrescale = true\nbound = 1\n[columns.age]", "--no-rescale"),
        ("epsilon = 1\nledger = 3", "path of a file"),
        ("columns = 3", "one table for each column"),
        ("epsilon = 1\ncomponents = 'many'\nbound = 1\n[columns.age]", "'n_components'"),
    ],
)
def test_bad_settings_exit_2_with_a_remedy(table, study, tmp_path, text, words):
    components = [] if "components" in text else ["-k", "1"]
    done = call("pca", table, "--config", study(text), *components, "--out", tmp_path / "out")
    assert done.exit_code == 2, done.output
    assert words in done.output
    assert len(done.output.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_settings_of_a_file_that_is_not_there(table, tmp_path):
    done = call("pca", table, "--config", tmp_path / "none.toml", "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "dpeigen init" in done.output


def test_options_come_before_the_file(table, study, tmp_path):
    options = ["--config", study(STUDY, rescale="true"), "--epsilon", "2", "--columns", "dose,age"]
    done = call("pca", table, *options, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    release = load_release(tmp_path / "out")
    assert release.guarantee.epsilon == 2
    assert release.feature_names == ["dose", "age"]


def test_a_ledger_lies_beside_its_file(table, study, tmp_path, monkeypatch):
    Ledger.create(tmp_path / "study.ledger", epsilon=5.0)
    path = study('ledger = "study.ledger"\n' + STUDY, rescale="true")
    monkeypatch.chdir(table.parent)
    assert call("pca", table, "--config", path, "--out", tmp_path / "a").exit_code == 0
    refused = call("covariance", table, "--config", path, "--out", tmp_path / "b")
    assert refused.exit_code == 4
    assert call("covariance", table, "--config", path, "--dry-run").exit_code == 4
    assert not (tmp_path / "b").exists()


def test_dates_as_bounds(tmp_path, study):
    (tmp_path / "t.csv").write_text("day,at\n" + "2000-01-01,2000-01-01T00:00:00\n" * 50, encoding="utf-8")
    path = study(
        "epsilon = 1\ncomponents = 1\n[columns.day]\ntype = 'date'\nlower = 1990-01-01\nupper = 2010-01-01\n"
        "[columns.at]\ntype = 'timestamp'\nlower = 1990-01-01\nupper = 2010-01-01T00:00:00\n"
    )
    columns = read_study(path).columns
    assert columns["day"].bounds() == [(7305, 14610)]
    assert columns["at"].bounds() == [(7305 * 86400, 14610 * 86400)]
    done = call("pca", tmp_path / "t.csv", "--config", path, "--rescale", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output


# --- covariance and ridge -------------------------------------------------------------------------------------------


def test_covariance_rescaled_by_public_bounds(table, study, tmp_path):
    for rescale, scale in (("true", 100.0), ("false", 1.0)):
        out = tmp_path / rescale
        done = call("covariance", table, "--config", study(STUDY, rescale=rescale), "--out", out, "--json")
        assert done.exit_code == 0, done.output
        told = json.loads(done.stdout)
        assert told["feature_names"] == ["age", "dose", "sex=f", "sex=m"]
        assert np.sqrt(told["covariance"][0][0]) * scale == pytest.approx(70 / np.sqrt(12), rel=0.1)
        assert ("rescaled" in load_release(out).facts) == (rescale == "true")


@pytest.mark.parametrize("alpha", ["auto", "0.5"])
@pytest.mark.parametrize("rescale", ["true", "false"])
def test_ridge(table, study, tmp_path, rescale, alpha):
    path = study(STUDY, rescale=rescale)
    done = call("ridge", table, "--config", path, "--alpha", alpha, "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["target"] == "dose"
    assert told["coef"]["age"] == pytest.approx(1.0 if rescale == "true" else 0.1, rel=0.25)
    assert alpha == "auto" or told["alpha"] == 0.5
    release = load_release(tmp_path / "out")
    assert release.facts["ridge"]["target"] == "dose"
    asked = release.facts["ridge"]
    fit = release.ridge("dose", asked["alpha"], scales=asked["scales"])
    assert dict(zip(fit.feature_names, fit.coef, strict=True)) == told["coef"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "--target has no default"),
        (["--target", "weight"], "one of the columns used"),
        (["--target", "dose", "--alpha", "much"], "--alpha must be"),
        (["--target", "dose", "--alpha", "-1"], "'alpha'"),
        (["--target", "dose", "--lower", "0", "--upper", "1,2,3"], "one for each of the 2 columns"),
    ],
)
def test_bad_regressions_exit_2(table, tmp_path, options, words):
    bound = [] if "--lower" in options else ["--bound", "100"]
    done = call("ridge", table, "--columns", "age,dose", "--epsilon", "1", *bound, *options, "--out", tmp_path / "out")
    assert done.exit_code == 2, done.output
    assert words in done.output


# --- dry runs -------------------------------------------------------------------------------------------------------

COMMANDS = [("pca", ["-k", "1"]), ("covariance", []), ("ridge", ["--target", "b"])]


@pytest.mark.parametrize(("command", "options"), COMMANDS, ids=[name for name, _ in COMMANDS])
@pytest.mark.parametrize("extra", [[], ["--rescale"], ["--rows", "5000"], ["--rescale", "--rows", "5000"]])
def test_a_dry_run_reads_no_row_of_a_csv(tmp_path, command, options, extra):
    """After the header come 2^42 bytes: whoever reads them does not come back. And they are no rows, so a fit fails."""
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n", encoding="utf-8")
    call_ = [command, path, *options, *extra, "--epsilon", "1", "--lower", "0", "--upper", "1"]
    with path.open("r+b") as file:
        file.truncate(2**42)
    done = call(*call_, "--dry-run")
    assert done.exit_code == 0, done.output
    assert "No row was read" in done.stdout
    told = json.loads(call(*call_, "--dry-run", "--json").stdout)
    assert told["reads"] == told["passes"] + 1
    assert told["rows_known"] == ("--rows" in extra)
    path.write_text("a,b,c\n" + "x,y,z\n" * 9, encoding="utf-8")
    assert call(*call_, "--dry-run").exit_code == 0
    without = [part for part in call_ if part not in ("--rows", "5000")]
    assert call(*without, "--out", tmp_path / "out").exit_code == 3


def test_a_dry_run_reads_no_row_of_a_parquet_file(tmp_path):
    """The pages are overwritten: the footer, which tells names, types and the number of rows, can be read alone."""
    path = tmp_path / "t.parquet"
    pa.parquet.write_table(pa.table({"a": np.random.default_rng(0).random(5000), "b": np.arange(5000.0)}), path)
    content = path.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    path.write_bytes(content[:4] + b"\xff" * (len(content) - 4 - footer) + content[-footer:])
    options = ["pca", path, "-k", "1", "--epsilon", "1", "--lower", "0", "--upper", "1"]
    done = call(*options, "--dry-run", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["rows_known"]
    assert told["reads"] == told["passes"]
    assert call(*options, "--out", tmp_path / "out").exit_code == 3


def test_a_dry_run_plans_what_the_fit_then_does(table, study, tmp_path):
    path = study(STUDY, rescale="true")
    for method in ("matrix-laplace", "auto"):
        options = ["pca", table, "--config", path, "--method", method]
        plan = json.loads(call(*options, "--dry-run", "--rows", "20000", "--json").stdout)["guarantee"]
        assert call(*options, "--out", tmp_path / method).exit_code == 0
        done = load_release(tmp_path / method).guarantee.to_dict()
        if method == "auto":  # how many rounds it takes is seen on the way; what is not used goes to the last
            assert [s["purpose"] for s in plan["split"]] == [s["purpose"] for s in done["split"]]
            plan, done = plan | {"split": []}, done | {"split": []}
        assert plan | {"notes": []} == done | {"notes": []}


@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_every_method_can_be_planned_without_rows(tmp_path, method):
    (tmp_path / "t.csv").write_text("a,b,c,d\n", encoding="utf-8")
    options = ["--epsilon", "1", "--delta", "1e-6", "--lower", "0", "--upper", "1", "--method", method, "--dry-run"]
    done = call("pca", tmp_path / "t.csv", "-k", "1", *options)
    assert done.exit_code in (0, 2), done.output  # some refuse a box, or a centre, with a remedy
    assert done.exit_code == 0 or "must be" in done.output


def test_rows_are_for_dry_runs_that_need_them(table, tmp_path):
    pa.parquet.write_table(pa.table({"age": np.arange(9.0)}), tmp_path / "t.parquet")
    options = ["-k", "1", "--epsilon", "1", "--columns", "age", "--bound", "100", "--rows", "9"]
    for path, more in (
        (table, ["--out", tmp_path / "out"]),
        (table, ["--dry-run", "--relation", "add_remove"]),
        (tmp_path / "t.parquet", ["--dry-run"]),
    ):
        done = call("pca", path, *options, *more)
        assert done.exit_code == 2
        assert "Leave it out" in done.output
    assert call("pca", table, *options, "--dry-run").exit_code == 0


def test_the_number_of_rows_stays_private(tmp_path):
    """Under add_remove the footer's count is neither shown nor used: tables of any length have the same plan."""
    plans = set()
    for n in (50, 5000):
        pa.parquet.write_table(pa.table({"age": np.arange(float(n))}), tmp_path / "t.parquet")
        options = ["-k", "1", "--epsilon", "1", "--bound", "100", "--relation", "add_remove", "--dry-run"]
        plans.add(call("pca", tmp_path / "t.parquet", *options).stdout)
    assert len(plans) == 1


# --- writing --------------------------------------------------------------------------------------------------------

RELEASE = ["-k", "1", "--columns", "age,dose", "--epsilon", "1", "--bound", "100"]


@pytest.mark.parametrize("name", ["release.safetensors", "card.html", "figures"])
def test_a_folder_that_holds_something_of_ours_is_refused_unread(table, tmp_path, name):
    ledger = Ledger.create(tmp_path / "ledger", epsilon=1.0)
    out = tmp_path / "out"
    (out / name).mkdir(parents=True)
    done = call("pca", table, *RELEASE, "--ledger", ledger.path, "--out", out)
    assert done.exit_code == 2
    assert "Choose another folder" in done.output
    assert ledger.remaining().epsilon == 1.0


def test_an_out_that_is_a_file_or_below_one(table, tmp_path):
    ledger = Ledger.create(tmp_path / "ledger", epsilon=1.0)
    for out in (table, table / "deeper"):
        assert call("pca", table, *RELEASE, "--ledger", ledger.path, "--out", out).exit_code == 2
    assert ledger.remaining().epsilon == 1.0


def test_a_full_disk_is_seen_before_paying(table, tmp_path, monkeypatch):
    import shutil

    ledger = Ledger.create(tmp_path / "ledger", epsilon=1.0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    done = call("pca", table, *RELEASE, "--ledger", ledger.path, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "no room" in done.output
    assert not (tmp_path / "out").exists()
    assert ledger.remaining().epsilon == 1.0


def test_a_release_that_cannot_be_saved_anywhere_is_printed(table, tmp_path, monkeypatch):
    from dpeigen import Release

    def broken(self, path, *, overwrite=False):
        raise ValueError("not JSON")

    monkeypatch.setattr(Release, "save", broken)
    done = call("pca", table, *RELEASE, "--out", tmp_path / "out")
    assert done.exit_code == 5
    assert json.loads(done.stdout)["guarantee"]["epsilon"] == 1
    assert "keep it" in done.stderr


def test_a_card_that_fails_leaves_the_release(table, tmp_path, monkeypatch):
    def broken(release, folder):
        raise RuntimeError("no fonts")

    monkeypatch.setattr("dpeigen.report.write_card", broken)
    done = call("pca", table, *RELEASE, "--out", tmp_path / "out")
    assert done.exit_code == 5
    assert "dpeigen card" in done.stderr
    monkeypatch.undo()
    assert load_release(tmp_path / "out").guarantee.epsilon == 1
    assert call("card", tmp_path / "out").exit_code == 0
    assert (tmp_path / "out" / "card.html").exists()


def test_check_tells_damage(table, tmp_path):
    out = tmp_path / "out"
    assert call("pca", table, *RELEASE, "--out", out).exit_code == 0
    good = call("check", out)
    assert good.exit_code == 0
    assert "differential privacy" in good.output
    content = (out / "release.safetensors").read_bytes()
    (out / "release.safetensors").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    for command in ("check", "card"):
        bad = call(command, out)
        assert bad.exit_code == 3
        assert "digest differs" in bad.output


def test_a_method_without_a_worst_case_warns_in_one_line(table, tmp_path):
    options = ["-k", "1", "--columns", "age,dose", "--epsilon", "2", "--delta", "1e-6", "--method", "spiked"]
    options += ["--center", "pairs"]
    done = call("pca", table, *options, "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["guarantee"]["basis"] == "distributional"
    assert done.stderr.startswith("dpeigen: warning: ")
    assert "holds only if" in done.stderr


# --- shell completion -----------------------------------------------------------------------------------------------


def complete(words):
    environment = os.environ | {
        "_DPEIGEN_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    code = "from dpeigen.cli.app import main; main()"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    return done.stdout.split()


def test_the_shell_completes():
    assert complete("dpeigen cov") == ["covariance"]
    assert complete("dpeigen pca table.csv --method matrix") == ["matrix-laplace"]
    assert complete("dpeigen ridge table.csv --relation add") == ["add_remove"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_shown(shell):
    environment = os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    call_ = [sys.executable, "-m", "dpeigen", "--show-completion", shell]
    done = subprocess.run(call_, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "_DPEIGEN_COMPLETE" in done.stdout


def test_messages_hold_no_control_characters(table, study):
    """Names from a file may hold what moves or colours a terminal."""
    done = call("pca", table, "--config", study('epsilon = 1.0\n"\\u001b[31m\\u0000evil" = 1\n'), "--dry-run")
    assert done.exit_code == 2
    assert "evil" in done.stderr
    assert done.stderr.replace("\n", "").isprintable()
