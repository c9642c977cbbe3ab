"""How a file is written, on the command line and in a file of settings: the same for every command that reads one."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from dpeigen import Ledger, PrivatePCA, load_release, load_score_map
from dpeigen.cli._config import SETTINGS, read_study
from dpeigen.cli._reading import READING
from dpeigen.cli.app import app
from dpeigen.sources import open_source

SECRET = "xyzzy-4111"
RNG = np.random.default_rng(1)
ROWS = np.add(RNG.normal(size=(300, 2)) @ [[3.0, 1.0], [0.0, 1.0]], [1000.0, 0.0]).round(2)
SEX = RNG.choice(["f", "m"], size=300)
OFFICE = ["--separator", ";", "--decimal", ",", "--thousands", ".", "--encoding", "latin-1", "--header", "2"]
SETTINGS_TEXT = 'separator = ";"\ndecimal = ","\nthousands = "."\nencoding = "latin-1"\nheader = 2\n'
PRECISE = ["--epsilon", "1e7", "--center", "none", "--bound", "2000", "--method", "laplace"]


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    lines = ["Stand 2020", "größe;maß;sex;notiz"]
    for (a, b), sex in zip(ROWS.tolist(), SEX, strict=True):
        lines.append(";".join([f"{a:,.2f}".replace(",", " ").replace(".", ",").replace(" ", "."),
                               f"{b:.2f}".replace(".", ","), sex, SECRET]))  # fmt: skip
    (folder / "office.csv").write_bytes("\r\n".join(lines).encode("latin-1"))
    plain = [f"{a},{b},{sex},{SECRET}" for (a, b), sex in zip(ROWS.tolist(), SEX, strict=True)]
    (folder / "plain.csv").write_text("\n".join(["größe,maß,sex,notiz", *plain]), encoding="utf-8")
    (folder / "study.toml").write_text(
        SETTINGS_TEXT + 'components = 2\n[columns."größe"]\n[columns."maß"]\n[columns.sex]\ncategories = ["f", "m"]\n',
        encoding="utf-8",
    )
    return folder


def test_every_option_is_a_setting():
    assert set(READING) <= set(SETTINGS)


def test_options_and_settings_read_the_plain_twin(folder, tmp_path):
    given = {
        "options": [folder / "office.csv", "-k", 2, *OFFICE, "--skip", "notiz", "--category", "sex=f|m"],
        "settings": [folder / "office.csv", "--config", folder / "study.toml"],
        "plain": [folder / "plain.csv", "-k", 2, "--columns", "größe,maß,sex", "--category", "sex=f|m"],
    }
    found = {}
    for name, options in given.items():
        done = call("pca", *options, *PRECISE, "--out", tmp_path / name)
        assert done.exit_code == 0, done.output
        found[name] = load_release(tmp_path / name)
        assert found[name].feature_names == ["größe", "maß", "sex=f", "sex=m"]
    for name in ("options", "settings"):  # noise of about 1e-1 on second moments of 1e6
        np.testing.assert_allclose(found[name].eigenvalues, found["plain"].eigenvalues, atol=2.0)


@pytest.mark.parametrize(
    "command",
    [
        ["pca", "FILE", "-k", 1, "--dry-run"],
        ["covariance", "FILE", "--dry-run"],
        ["ridge", "FILE", "--target", "maß", "--dry-run"],
    ],
    ids=lambda command: command[0],
)
def test_commands_that_fit(command, folder):
    command = [folder / "office.csv" if word == "FILE" else word for word in command]
    done = call(*command, "--epsilon", 1, *OFFICE, "--skip", "notiz,sex", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["columns"] == ["größe", "maß"]


def test_semicolons_without_a_decimal_mark_are_warned_of_before_spending(folder):
    options = ["pca", folder / "office.csv", "-k", 1, "--epsilon", 1, "--skip", "notiz,sex", "--dry-run"]
    assert "decimal commas" not in call(*options, *OFFICE).output
    without = [word for word in OFFICE if word not in ("--decimal", ",", "--thousands", ".")]
    assert "warning: Files with semicolons often have decimal commas" in call(*options, *without).output


@pytest.mark.parametrize("accepted", [["--missing", "correct"], ["--missing", "drop"]])
def test_semicolons_need_a_decimal_mark_if_missing_cells_are_accepted(folder, tmp_path, accepted):
    """Otherwise numbers such as 1,5 would be missing cells, and the budget would be spent on them."""
    options = [
        "pca",
        folder / "office.csv",
        "-k",
        1,
        "--epsilon",
        1,
        "--delta",
        "1e-6",
        "--skip",
        "notiz,sex",
        *accepted,
    ]
    without = [word for word in OFFICE if word not in ("--decimal", ",", "--thousands", ".")]
    done = call(*options, *without, "--out", tmp_path / "o")
    assert done.exit_code == 2, done.output
    assert "Give --decimal , or --decimal ." in done.output
    assert "Nothing was spent" in done.output
    assert not (tmp_path / "o").exists()
    assert call(*options, *without, "--decimal", ".", "--dry-run").exit_code == 0


def test_plan_compare_and_local_read_alike(folder, tmp_path):
    few = [*OFFICE, "--skip", "notiz,sex"]
    plan = ["plan", "--rows", 5000, "-k", 1, "--epsilon", 2, "--method", "laplace", "--bound", 2000, "--json"]
    done = call(*plan, "--like", folder / "office.csv", *few)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["facts"]["n_features"] == 2
    done = call(*plan, "--like", folder / "office.csv", "--config", folder / "study.toml")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["facts"]["n_features"] == 4
    for option in (["--separator", ";"], ["--type", "a=bool"], ["--config", folder / "study.toml"]):
        done = call(*plan, "--columns", 2, *option)
        assert done.exit_code == 2
        assert f"{option[0]} goes with --like" in done.output
    done = call("compare", "--data", folder / "office.csv", "--public", "--epsilon", 1, "-k", 1, "--method", "laplace",
                "--repetitions", 1, "--bound", 2000, "--workers", 1, "--json", *few)  # fmt: skip
    assert done.exit_code == 0, done.output
    done = call("local", "randomize", folder / "office.csv", "--epsilon", 1, "--out", tmp_path / "reports", *few)
    assert done.exit_code == 0, done.output
    assert "300 reports" in done.output


def test_scoremap_takes_types_and_settings(folder, tmp_path):
    declared = {"columns": ["größe", "maß", "sex"], "categories": {"sex": ["f", "m"]}}
    source = open_source(folder / "plain.csv", **declared)
    PrivatePCA(2, epsilon=50.0, delta=1e-6, bound=2000.0).fit(source).release_.save(tmp_path / "release")
    ledger = Ledger.create(tmp_path / "l", epsilon=9.0)
    study = tmp_path / "study.toml"
    study.write_text(f'ledger = "l"\nrequire_ledger = true\n{(folder / "study.toml").read_text(encoding="utf-8")}'
                     '[columns.notiz]\ncategories = ["x"]\n', encoding="utf-8")  # fmt: skip
    table = [tmp_path / "release", folder / "office.csv"]
    done = call("scoremap", *table, "--epsilon", 1, "--config", study, "--out", tmp_path / "map")
    assert done.exit_code == 0, done.output
    assert load_score_map(tmp_path / "map").feature_names == ["größe", "maß", "sex=f", "sex=m"]
    assert [entry["what"] for entry in ledger.history()] == ["score map"]
    same = [*OFFICE, "--category", "sex=f|m", "--type", "maß=number", "--dry-run"]
    assert call("scoremap", *table, "--epsilon", 1, *same).exit_code == 0
    done = call("scoremap", *table, "--epsilon", 1, *OFFICE[6:], "--category", "sex=f|m", "--dry-run")
    assert done.exit_code == 3
    assert "--separator ';'" in done.output


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ([], 3, "encoding='cp1252'"),
        (["--encoding", "latin-1"], 3, "Declare separator=';' (--separator ';')"),
        (["--separator", ";;"], 2, "'separator' parameter"),
        (["--separator", ";"], 3, "encoding='cp1252'"),
        (["--separator", ";", "--encoding", "klingon"], 2, "'encoding' parameter"),
        (["--separator", ";", "--encoding", "latin-1", "--skip", "notiz"], 3, "nothing was spent"),
        (["--separator", ";", "--encoding", "latin-1", "--skip", "note"], 2, "--skip must be names"),
        (["--separator", ";", "--encoding", "latin-1", "--skip", "notiz", "--columns", "maß"], 2, "not both"),
        (["--header", "0"], 2, "'names' parameter"),
        (["--sheet", "1", "--separator", ";", "--encoding", "latin-1"], 3, ""),
        (["--sheet", "Zahlen"], 2, "'sheet' parameter"),
        (["--date-format", "%d"], 2, "'date_format' parameter"),
    ],
)
def test_wrong_declarations_end_alike_for_neighbours_and_spend_nothing(options, code, words, tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=9.0)
    said = set()
    for cell in ("1,5", SECRET, "", '"open'):
        (tmp_path / "t.csv").write_bytes(f"größe;maß;notiz\n1,5;2;x\n{cell};3;y\n".encode("latin-1"))
        done = call("covariance", tmp_path / "t.csv", "--epsilon", 1, "--bound", 9, "--ledger", ledger.path,
                    *options, "--out", tmp_path / "out")  # fmt: skip
        assert done.exit_code == code, done.output
        assert words in " ".join(done.stderr.split())
        assert SECRET not in done.output
        said.add(done.stderr)
    assert len(said) == 1
    assert ledger.remaining().epsilon == 9.0


def neighbours(ending, cell):
    """A table in a file of some kind, with a cell."""
    rows = [[1.5 + at, "2020-01-01", "f"] for at in range(30)]
    rows[7] = cell
    if ending == "jsonl":
        return "\n".join(json.dumps(dict(zip("abc", row, strict=True))) for row in rows)
    mark = {"tsv": "\t"}.get(ending, ",")
    return "\n".join(mark.join(map(str, row)) for row in [["a", "b", "c"], *rows])


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
@pytest.mark.parametrize(("policy", "code"), [("drop", 0), ("correct", 0), ("refuse", 3)])
def test_neighbours_end_with_the_same_code_message_and_spend(ending, policy, code, tmp_path):
    """Under "refuse" those with garbage, whatever it is; under "drop" and "correct" all of them."""
    garbage = [["x", "2020-01-01", "f"], [1, "2021-02-29", "f"], ["", "", ""], [1, SECRET, "no such"]]
    ends = set()
    for number, row in enumerate(garbage if code else [[1, "2020-01-01", "f"], *garbage[1:3]]):
        ledger = Ledger.create(tmp_path / f"{number}.ledger", epsilon=9.0)
        (tmp_path / f"t.{ending}").write_text(neighbours(ending, row))
        done = call("covariance", tmp_path / f"t.{ending}", "--columns", "a,b,c", "--type", "b=date",
                    "--category", "c=f|m", "--epsilon", 1, "--bound", 1e5, "--method", "laplace", "--center", "none",
                    "--missing", policy, "--ledger", ledger.path, "--out", tmp_path / str(number))  # fmt: skip
        assert SECRET not in done.output
        ends.add((done.exit_code, done.stderr.replace(f"{number}.ledger", ""), ledger.remaining().epsilon))
    assert len(ends) == 1
    found, _, left = ends.pop()
    assert (found, left) == (code, 9.0 if code else 8.0)


# --- init -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options", "declared"),
    [
        ("a;b;c", [], {"separator": ";"}),
        ("a\tb", [], {"separator": "\t"}),
        ("größe;b".encode("cp1252"), [], {"separator": ";", "encoding": "cp1252"}),
        ("größe;b\n".encode("utf-16"), [], {"separator": ";", "encoding": "utf-16"}),
        ("a,b;c", [], {}),
        ("a,b", [], {}),
        ("x\n# y\na|b", ["--header", "2", "--comment", "#"], {"separator": "|", "header": 2, "comment": "#"}),
        ("", ["--header", "0", "--names", "a,b"], {"header": 0, "names": ["a", "b"]}),
    ],
)
def test_init_says_what_to_declare_by_the_header_line_alone(text, options, declared, tmp_path):
    header = text if isinstance(text, bytes) else text.encode()
    written = set()
    for number, rows in enumerate((b"", b"\n1;2;3\n4,5;6\n", f"\n{SECRET}|\xff\t;;;;;\n".encode("latin-1"))):
        rows = rows if not header.startswith(b"\xff\xfe") else rows.decode("latin-1").encode("utf-16-le")
        (tmp_path / "t.csv").write_bytes(header + rows)
        done = call("init", tmp_path / "t.csv", "--out", tmp_path / f"{number}.toml", *options)
        assert done.exit_code == 0, done.output
        written.add((tmp_path / f"{number}.toml").read_text(encoding="utf-8"))
        for name in declared if not options else ():
            assert f"{name} = " in done.output
    assert len(written) == 1
    study = read_study(tmp_path / "0.toml")
    assert {name: study.settings[name] for name in READING if name in study.settings} == declared
    assert SECRET not in written.pop()
    assert open_source(tmp_path / "t.csv", **{"decimal": "."} | declared).n_features == len(study.columns)


def test_a_semicolon_hints_at_decimal_commas(tmp_path):
    (tmp_path / "t.csv").write_text("a;b\n1;2\n")
    done = call("init", tmp_path / "t.csv", "--out", tmp_path / "s.toml")
    assert 'decimal = ","' in done.output
    assert '# decimal = ","' in (tmp_path / "s.toml").read_text(encoding="utf-8")


def test_from_a_workbook_to_a_plan(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.create_sheet("Werte")
    for row in (["a", "b"], *ROWS.tolist()):
        sheet.append(row)
    book.save(tmp_path / "t.xlsx")
    done = call("init", tmp_path / "t.xlsx", "--out", tmp_path / "s.toml", "--sheet", "Werte")
    assert done.exit_code == 0, done.output
    assert read_study(tmp_path / "s.toml").settings["sheet"] == "Werte"
    fit = ["covariance", tmp_path / "t.xlsx", "--config", tmp_path / "s.toml", *PRECISE, "--scale", "none"]
    done = call(*fit, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    np.testing.assert_allclose(load_release(tmp_path / "out").covariance, ROWS.T @ ROWS / 300, rtol=1e-3, atol=2.0)
