"""What the command line says before paying and after: warnings, proposals for settings, and numbers with intervals."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from dpeigen.cli.app import app
from dpeigen.cli.init import render, whose_row


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Two columns that go together, one that does not."""
    path = tmp_path_factory.mktemp("told") / "t.csv"
    rng = np.random.default_rng(0)
    common = rng.normal(size=8000)
    rows = np.column_stack([common + 0.3 * rng.normal(size=8000), common, rng.normal(size=8000)])
    np.savetxt(path, rows, delimiter=",", header="a,b,c", comments="", fmt="%.6g")
    return path


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr("dpeigen.report.write_card", lambda release, where: where / "card.html")  # takes seconds


def test_tables_of_components_have_intervals_and_name_noise(table, tmp_path, quick):
    done = call("pca", table, "-k", 2, "--epsilon", 4, "--delta", "1e-6", "--scale", "private", "--out", tmp_path / "o")
    assert done.exit_code == 0, done.output
    first = next(line for line in done.output.splitlines() if "│         1 │" in line)
    assert "a (+0." in first or "b (+0." in first or "a (-0." in first or "b (-0." in first
    assert "Components (95% interval)" in done.output
    told = json.loads((tmp_path / "o" / "release.json").read_text(encoding="utf-8"))
    assert told["release"]["kind"] == "pca"
    noise = call("pca", table, "-k", 2, "--columns", "a,c", "--epsilon", 0.3, "--delta", "1e-6", "--scale", "private",
                 "--out", tmp_path / "n")  # fmt: skip
    assert noise.exit_code == 0, noise.output
    assert "not distinguishable from noise" in noise.output


def test_tables_of_covariances_and_regressions_have_intervals(table, tmp_path, quick):
    budget = ("--epsilon", 4, "--delta", "1e-6")
    done = call("covariance", table, *budget, "--out", tmp_path / "c")
    assert done.exit_code == 0, done.output
    line = next(line for line in done.output.splitlines() if line.startswith("│ a "))
    assert line.count(" to ") == 2  # of the centre and of the deviation
    assert "The strongest correlations (95% interval)" in done.output
    done = call("ridge", table, "--target", "a", *budget, "--out", tmp_path / "r")
    assert done.exit_code == 0, done.output
    line = next(line for line in done.output.splitlines() if line.startswith("│ b "))
    assert " to +" in line
    assert "coefficients can be distinguished from 0. R² is" in " ".join(done.output.split())
    done = call("ridge", table, "--target", "a", *budget, "--out", tmp_path / "j", "--json")
    found = json.loads(done.stdout)
    low, high = found["coef_intervals"]["b"]
    assert low < found["coef"]["b"] < high
    low, high = found["r_squared_interval"]
    assert low <= found["r_squared"] <= high


def test_a_dry_run_says_what_to_expect(table):
    fit = ("pca", table, "-k", 1, "--bound", 10, "--dry-run")
    noise = call(*fit, "--epsilon", 0.05, "--delta", "1e-6", "--rows", 100)
    assert noise.exit_code == 0
    assert "warning: 100 rows, 3 columns, --epsilon 0.05" in noise.output
    assert "leave only noise" in noise.output
    random = call(*fit, "--epsilon", 0.003, "--delta", "1e-6", "--rows", 100)
    assert random.exit_code == 2
    assert "the components would be random directions" in random.output
    assert re.search(r"; or --epsilon [\d.]+\. Nothing was spent", random.output)
    enough = call(*fit, "--epsilon", 4, "--delta", "1e-6", "--rows", 100_000)
    assert "warning" not in enough.output
    pure = call(*fit, "--epsilon", 4, "--rows", 100_000)
    assert "warning: delta is 0. That is pure privacy, which needs far more rows" in pure.output
    told = json.loads(call(*fit, "--epsilon", 0.05, "--rows", 100, "--json").stdout)
    assert len(told["warnings"]) == 2
    weak = call(*fit, "--epsilon", 4, "--delta", 0.01, "--rows", 100_000)
    assert "warning: The budget is weak: --delta 0.01 is not below 1 / number of rows (100,000)" in weak.output
    assert "give --rows: this run then also says" in " ".join(call(*fit, "--epsilon", 4).output.split())


def test_a_dry_run_says_which_columns_are_read_as_numbers(tmp_path):
    """Text in them would be missing cells, if missing cells are accepted; the file is not looked at."""
    (tmp_path / "t.csv").write_text("age,sex,note,born\n1,f,x,2000-01-01\n", encoding="utf-8")
    fit = (
        "covariance",
        tmp_path / "t.csv",
        "--epsilon",
        1,
        "--category",
        "sex=f|m",
        "--type",
        "born=date",
        "--dry-run",
    )
    told = call(*fit, "--missing", "correct")
    assert told.exit_code == 0, told.output
    assert "Read as numbers: age, note. Text in them counts as missing cells" in " ".join(told.output.split())
    assert "Read as numbers" not in call(*fit).output
    assert json.loads(call(*fit, "--missing", "drop", "--json").stdout)["read_as_numbers"] == ["age", "note"]
    call("init", tmp_path / "t.csv", "--out", tmp_path / "s.toml")
    written = call("covariance", tmp_path / "t.csv", "--config", tmp_path / "s.toml", "--epsilon", 1, "--missing",
                   "correct", "--dry-run")  # fmt: skip
    assert "Read as numbers: age, sex, note, born." in " ".join(written.output.split())


def test_refusals_name_options_and_remedies_that_work(tmp_path, quick):
    """The ε that a refusal names is accepted."""
    rows = np.random.default_rng(0).normal(50, 9, size=(300, 4))
    np.savetxt(tmp_path / "t.csv", rows, delimiter=",", header="a,b,c,d", comments="", fmt="%.6g")
    for fit in (("covariance", tmp_path / "t.csv"), ("pca", tmp_path / "t.csv", "-k", 2, "--scale", "private")):
        refused = call(*fit, "--epsilon", 0.5, "--delta", "1e-6", "--out", tmp_path / fit[0])
        assert refused.exit_code == 2
        assert "Nothing was spent" in refused.output
        assert "epsilon=" not in refused.output
        enough = re.search(r"or --epsilon ([\d.]+)\. Nothing", refused.output)
        done = call(*fit, "--epsilon", enough[1], "--delta", "1e-6", "--out", tmp_path / fit[0])
        assert done.exit_code == 0, done.output


def test_a_missing_ledger_is_explained_in_words_of_the_command_line(table, tmp_path, monkeypatch):
    fit = ("pca", table, "-k", 1, "--epsilon", 1, "--bound", 10, "--out", tmp_path / "o")
    none = call(*fit, "--ledger", tmp_path / "none")
    assert none.exit_code != 0
    assert f"Make one with 'dpeigen ledger init {tmp_path / 'none'} --epsilon …'" in none.output
    monkeypatch.setenv("DPEIGEN_REQUIRE_LEDGER", "1")
    required = call(*fit)
    assert required.exit_code != 0
    assert "dpeigen pca needs a ledger, because DPEIGEN_REQUIRE_LEDGER is set" in required.output
    assert "--ledger PATH" in required.output
    assert "Python" not in required.output
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("names", "whose"),
    [(["age", "patient_id"], "patient_id"), (["subjectid", "age"], "subjectid"), (["age", "paid"], None)],
)
def test_init_proposes_whose_row_it_is(names, whose):
    assert whose_row(names) == whose
    text = render(dict.fromkeys(names))
    if whose is None:
        assert '\n# unit = "patient_id"' in text
    else:
        assert f'\nunit = "{whose}" ' in text
        assert f'[columns."{whose}"]\nuse = false  # looks like the id of a person' in text
    assert '# target = "…"' in text  # and not the column that happens to be the last


def test_what_init_proposes_can_be_fitted(tmp_path, quick):
    rows = np.random.default_rng(0).normal(size=(3000, 2)).round(3)
    lines = ["patient_id,a,b", *(f"p{i // 3},{x},{y}" for i, (x, y) in enumerate(rows))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    made = call("init", tmp_path / "t.csv", "--out", tmp_path / "s.toml")
    assert 'unit = "patient_id" is declared' in made.output
    done = call("covariance", tmp_path / "t.csv", "--config", tmp_path / "s.toml", "--epsilon", 1, "--dry-run")
    assert done.exit_code == 0, done.output
    assert "all rows of one 'patient_id' replaced" in done.output
    assert "looks like an identifier" not in done.output


def test_a_map_takes_its_own_epsilon_from_the_settings(table, tmp_path, quick):
    out, settings = tmp_path / "o", tmp_path / "s.toml"
    settings.write_text("epsilon = 1.0\ndelta = 1e-6\n", encoding="utf-8")
    assert call("pca", table, "-k", 2, "--bound", 10, "--config", settings, "--out", out).exit_code == 0
    none = call("scoremap", out, table, "--config", settings, "--dry-run")
    assert none.exit_code == 2
    assert "'map_epsilon' in the file of --config, where 'epsilon' is that of the release" in none.output
    settings.write_text("epsilon = 1.0\ndelta = 1e-6\nmap_epsilon = 0.25\n", encoding="utf-8")
    assert "ε = 0.25" in call("scoremap", out, table, "--config", settings, "--dry-run").output
    assert "ε = 0.5" in call("scoremap", out, table, "--config", settings, "--epsilon", 0.5, "--dry-run").output


def test_the_dry_run_says_how_many_rows_will_be_clipped(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n" + "1,2,3\n" * 5)
    common = ["pca", str(path), "-k", "1", "--epsilon", "1", "--delta", "1e-6", "--dry-run"]
    said = " ".join(CliRunner().invoke(app, [*common, "--rows", "4000"]).output.split())
    assert "of the rows would be clipped to a private radius" in said
    assert "would be clipped" not in CliRunner().invoke(app, common).output  # the number of rows is not known


COMMON = ("--epsilon", 1, "--delta", 1e-6, "--dry-run")


def said_of(path, *more):
    return " ".join(call("covariance", path, *COMMON, *more).output.split())


def test_a_title_above_the_table_is_told(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("Export from the laboratory\n\na,b\n1,2\n")
    said = said_of(path)
    assert "has only one name, 'Export from the laboratory'" in said
    assert "--header 3" in said
    assert "only one name" not in said_of(path, "--header", 3)
    assert "only one name" not in said_of(path, "--header", 3, "--columns", "a")
    said = " ".join(call("init", path, "--out", tmp_path / "s.toml").output.split())
    assert "1 column, no value read. If the names of the columns are further down in the file, give their" in said


def test_a_title_above_the_table_of_a_sheet_is_told(tmp_path):
    pytest.importorskip("openpyxl")
    frame, path = pytest.importorskip("pandas").DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}), tmp_path / "t.xlsx"
    with pytest.importorskip("pandas").ExcelWriter(path) as writer:
        frame.to_excel(writer, index=False, startrow=2)
        writer.sheets["Sheet1"]["A1"] = "Export"
    assert "has only one name, 'Export'" in said_of(path)
    assert "only one name" not in said_of(path, "--header", 3)
    assert "further down in the file" in call("init", path, "--out", tmp_path / "s.toml").output


def test_values_with_umlauts_ask_for_the_encoding(tmp_path):
    """The header is plain ASCII, so only the declared values show that the encoding matters."""
    path = tmp_path / "t.csv"
    path.write_bytes("age,sex\n1,männlich\n".encode("cp1252"))
    declared = ("--category", "sex=weiblich|männlich")
    assert "'sex' have letters such as ä or é, and the file is read as UTF-8" in said_of(path, *declared)
    for known in ("cp1252", "utf-8"):
        assert "letters such as" not in said_of(path, *declared, "--encoding", known)
    assert "letters such as" not in said_of(path, "--category", "sex=w|m")


def test_blanks_around_names_do_not_matter(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("age , weight\n1,2\n")
    assert "columns 2: weight, age" in said_of(path, "--columns", "weight,age")


def test_other_encodings_and_endings_are_refused_with_a_remedy(tmp_path):
    wide, text, broken = tmp_path / "w.csv", tmp_path / "t.txt", tmp_path / "b.csv.gz"
    wide.write_text("age,sex\n1,2\n", encoding="utf-16")
    text.write_text("age,sex\n1,2\n")
    broken.write_bytes(b"no gzip")
    assert "declare encoding='utf-16' (--encoding utf-16)" in said_of(wide)
    assert "ends in .csv or .tsv" in said_of(text)
    done = call("covariance", broken, *COMMON)
    assert (done.exit_code, "damaged" in done.output) == (3, True)


def test_a_deviation_of_dates_is_shown_in_days(tmp_path):
    path = tmp_path / "t.csv"
    rng = np.random.default_rng(0)
    days = np.datetime64("2010-01-01") + rng.normal(0, 300, 4000).astype(int)
    path.write_text("day,x\n" + "".join(f"{day},{x:.3f}\n" for day, x in zip(days, rng.normal(size=4000), strict=True)))
    more = ("--type", "day=date", "--scale", "private", "-k", 1, "--out", tmp_path / "r")
    done = call("pca", path, "--epsilon", 4, "--delta", 1e-6, *more)
    shown = re.search(r"(\d{3}\.?\d*) days \(", done.output)
    assert shown, done.output
    assert abs(float(shown[1]) / 300 - 1) < 0.2
