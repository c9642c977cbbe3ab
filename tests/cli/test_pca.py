"""`dpeigen pca`: releases from files, exit codes, and silence about the values of the data."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from dpeigen import Ledger, load_release
from dpeigen.cli.app import app

SECRETS = ("987654.125", "secret-name")
NAMES = ("age", "dose", "score")


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(4000, 3)) * [3.0, 1.0, 0.5]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("tables")
    np.savetxt(folder / "table.csv", rows, delimiter=",", header=",".join(NAMES), comments="")
    table = pa.table(dict(zip(NAMES, rows.T, strict=True)))
    pyarrow.parquet.write_table(table, folder / "table.parquet")
    pyarrow.feather.write_feather(table, str(folder / "table.feather"))
    named = table.append_column("name", pa.array(["secret-name"] * len(rows)))
    pyarrow.parquet.write_table(named, folder / "named.parquet")
    lines = [f"{a},{b},secret-name" for a, b, _ in rows]
    (folder / "named.csv").write_text("\n".join(["age,dose,name", *lines]) + "\n", encoding="utf-8")
    (folder / "text.csv").write_text("a,b\n1,2\n987654.125,secret-name\n", encoding="utf-8")
    (folder / "ragged.csv").write_text("a,b\n1,2\n987654.125\n", encoding="utf-8")
    (folder / "nan.csv").write_text("a,b\n1,2\nnan,987654.125\n3,4\n", encoding="utf-8")
    (folder / "headerless.csv").write_text("987654.125,2\n3,4\n5,6\n", encoding="utf-8")
    (folder / "broken.parquet").write_text("987654.125,secret-name", encoding="utf-8")
    (folder / "empty.csv").write_text("", encoding="utf-8")
    (folder / "latin.csv").write_bytes("a,\xe9\n1,2\n3,4\n".encode("latin-1"))
    (folder / "table.xyz").write_text("a,b\n987654.125,2\n", encoding="utf-8")
    return folder


@pytest.fixture
def run(folder, tmp_path):
    def call(name, *options, out=None):
        arguments = ["pca", str(folder / name), "--components", "1", "--out", str(out or tmp_path / "out"), *options]
        return CliRunner().invoke(app, arguments)

    return call


@pytest.mark.parametrize("name", ["table.csv", "table.parquet", "table.feather"])
@pytest.mark.parametrize(
    "options",
    [
        ["--bound", "12", "--center", "none"],
        ["--lower", "-12,-4,-2", "--upper", "12,4,2"],
        ["--lower", "-12", "--upper", "12", "--center", "pairs"],
        ["--bound", "private", "--delta", "1e-6"],
        ["--bound", "12", "--relation", "add_remove"],
    ],
)
def test_release_from_a_file(run, tmp_path, name, options):
    result = run(name, "--epsilon", "2", *options)
    assert result.exit_code == 0, result.output
    release = load_release(tmp_path / "out")
    assert release.feature_names == list(NAMES)
    assert release.guarantee.epsilon == 2
    assert abs(release.components[0, 0]) > 0.9
    assert "age" in result.output


def test_columns_and_json(run, tmp_path):
    for name in ("named.csv", "named.parquet"):
        out = tmp_path / name
        result = run(name, "--epsilon", "1", "--bound", "12", "--columns", "dose, age", "--json", out=out)
        assert result.exit_code == 0, result.output
        told = json.loads(result.stdout)
        assert told["feature_names"] == ["dose", "age"]
        assert told["guarantee"]["epsilon"] == 1
        np.testing.assert_allclose(told["components"], load_release(out).components)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "epsilon"),
        (["--epsilon", "0", "--bound", "1"], "'epsilon'"),
        (["--epsilon", "nan", "--bound", "1"], "'epsilon'"),
        (["--epsilon", "1", "--delta", "1", "--bound", "1"], "'delta'"),
        (["--epsilon", "1", "--method", "gaussian", "--bound", "1"], "'delta'"),
        (["--epsilon", "1", "--method", "matrix-laplace"], "Three remedies"),
        (["--epsilon", "1", "--method", "nonsense", "--bound", "1"], "'method'"),
        (["--epsilon", "1", "--bound", "wide"], "--bound must be a number or 'private'"),
        (["--epsilon", "1", "--bound", "1", "--lower", "0", "--upper", "1"], "not both"),
        (["--epsilon", "1", "--lower", "0"], "give both"),
        (["--epsilon", "1", "--lower", "0,0", "--upper", "1"], "one for each of the 3 columns"),
        (["--epsilon", "1", "--lower", "0,x,0", "--upper", "1"], "--lower must be"),
        (["--epsilon", "1", "--bound", "1", "--components", "9"], "'n_components'"),
        (["--epsilon", "1", "--bound", "1", "--center", "middle"], "'center'"),
        (["--epsilon", "1", "--bound", "1", "--relation", "none"], "'relation'"),
        (["--epsilon", "1", "--bound", "1", "--columns", "age,height"], "height"),
        (["--epsilon", "1", "--bound", "1", "--missing", "skip"], "'missing'"),
        (["--epsilon", "1", "--bound", "1", "--ledger", "no-such-ledger"], "No ledger"),
    ],
)
def test_bad_calls_exit_2(run, tmp_path, options, words):
    result = run("table.csv", *options)
    assert result.exit_code == 2
    assert words in result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "name",
    ["missing.csv", "text.csv", "ragged.csv", "nan.csv", "headerless.csv", "broken.parquet", "empty.csv", "latin.csv"],
)
def test_unreadable_data_exit_3_in_one_line_without_values(run, tmp_path, name):
    result = run(name, "--epsilon", "1", "--bound", "1", "--center", "none")
    assert result.exit_code == 3
    said = result.output.strip().splitlines()
    assert len([line for line in said if "leave only noise" not in line]) == 1  # which is said of so few rows first
    assert result.output.startswith("dpeigen: ")
    assert not any(secret in result.output for secret in SECRETS)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["named.parquet", "named.csv", "table.xyz"])
def test_text_columns_are_refused_without_values(run, name):
    result = run(name, "--epsilon", "1", "--bound", "1")
    assert result.exit_code in (2, 3)
    assert not any(secret in result.output for secret in SECRETS)


def test_bad_rows_can_be_dropped_to_zero(run, tmp_path):
    result = run("nan.csv", "--epsilon", "1", "--bound", "1", "--center", "none", "--missing", "drop")
    assert result.exit_code == 0, result.output
    everything = result.output + (tmp_path / "out" / "release.json").read_text(encoding="utf-8")
    assert not any(secret in everything for secret in SECRETS)


def test_ledger_refusal_exits_4_and_spends_nothing(run, tmp_path):
    ledger = Ledger.create(tmp_path / "study.ledger", epsilon=1.0)
    options = ["--epsilon", "0.75", "--bound", "12", "--ledger", str(ledger.path)]
    assert run("table.csv", *options, out=tmp_path / "first").exit_code == 0
    refused = run("table.csv", *options, out=tmp_path / "second")
    assert refused.exit_code == 4
    assert "0.25" in refused.output
    assert not (tmp_path / "second").exists()
    assert ledger.remaining().epsilon == pytest.approx(0.25)


def test_unreadable_data_give_the_reservation_back(run, tmp_path):
    ledger = Ledger.create(tmp_path / "study.ledger", epsilon=1.0)
    assert run("text.csv", "--epsilon", "1", "--bound", "1", "--ledger", str(ledger.path)).exit_code == 3
    assert ledger.remaining().epsilon == pytest.approx(1.0)


def test_a_file_that_is_no_ledger_exits_2(run, tmp_path):
    (tmp_path / "notes").write_text("not a ledger " * 100, encoding="utf-8")
    result = run("table.csv", "--epsilon", "1", "--bound", "1", "--ledger", str(tmp_path / "notes"))
    assert result.exit_code == 2
    assert "ledger" in result.output


def test_a_paid_release_is_not_overwritten(run, tmp_path):
    options = ["--epsilon", "1", "--bound", "12"]
    assert run("table.csv", *options).exit_code == 0
    before = (tmp_path / "out" / "release.json").read_bytes()
    again = run("table.csv", *options)
    assert again.exit_code == 2
    assert "already holds a release" in again.output
    assert (tmp_path / "out" / "release.json").read_bytes() == before


def test_bugs_exit_1_without_the_message(run, monkeypatch):
    from dpeigen import PrivatePCA

    def broken(self, X):
        raise ZeroDivisionError("987654.125")

    monkeypatch.setattr(PrivatePCA, "fit", broken)
    result = run("table.csv", "--epsilon", "1", "--bound", "1")
    assert result.exit_code == 1
    assert "ZeroDivisionError" in result.output
    assert "987654.125" not in result.output


@pytest.mark.parametrize(
    ("name", "options", "passes"),
    [
        ("table.parquet", ["--bound", "12", "--center", "none"], 1),
        ("table.parquet", ["--bound", "12"], 1),
        ("table.parquet", ["--bound", "private"], 7),
        ("table.parquet", ["--bound", "private", "--center", "none"], 2),
        ("table.csv", [], 8),
        ("table.parquet", ["--method", "kendall"], 1),
        ("table.parquet", ["--bound", "12", "--relation", "add_remove"], 1),
    ],
)
def test_a_dry_run_says_how_often_the_data_are_read(name, options, passes, folder, tmp_path, monkeypatch):
    """Itself it reads nothing, and the fit then reads so often."""
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=1.0, delta=0.0)
    call = ["pca", str(folder / name), "-k", "1", "--epsilon", "1", "--ledger", str(tmp_path / "ledger.db"), *options]
    if "--method" not in options:
        call += ["--method", "laplace" if "--bound" in options else "spatial-sign"]
    from dpeigen.sources.arrow import ArrowSource
    from dpeigen.sources.csv_rows import CsvSource

    reads, kind = [], CsvSource if name == "table.csv" else ArrowSource
    for reader in ("blocks", "_count"):  # a CSV is counted by its lines
        real = getattr(kind, reader)
        monkeypatch.setattr(kind, reader, lambda self, real=real: (reads.append(1), real(self))[1])
    done = CliRunner().invoke(app, [*call, "--dry-run", "--json"])
    assert done.exit_code == 0, done.output
    plan = json.loads(done.stdout)
    assert (plan["passes"], plan["reads"]) == (passes, passes + (name == "table.csv"))
    assert ledger.remaining().epsilon == 1.0
    told = CliRunner().invoke(app, [*call, "--dry-run"]).stdout
    assert f"passes     {passes} over the data" in told
    assert reads == []
    done = CliRunner().invoke(app, [*call, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert len(reads) == plan["reads"]


def test_declared_categories_on_the_command_line(folder, tmp_path):
    out = str(tmp_path / "out")
    call = [
        "pca",
        str(folder / "named.csv"),
        "-k",
        "1",
        "--epsilon",
        "1",
        "--out",
        out,
        "--lower",
        "-9",
        "--upper",
        "9",
    ]
    done = CliRunner().invoke(app, [*call, "--category", "name=secret-name|other", "--type", "age=number"])
    assert done.exit_code == 0, done.output
    assert load_release(out).feature_names == ["age", "dose", "name=secret-name", "name=other"]
    wrong = CliRunner().invoke(app, [*call[:-4], "--category", "name", "--explain"])
    assert wrong.exit_code == 2
    commas = CliRunner().invoke(app, [*call[:-4], "--category", "name=secret-name,other", "--explain"])
    assert commas.exit_code == 2
    assert "secret-name|other" in commas.output.replace("\n", "")  # the list as it should be written
    assert CliRunner().invoke(app, call[:6]).exit_code == 2  # neither --out nor --dry-run


def test_a_share_of_variance_as_number_of_components_is_explained(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n3,4\n", encoding="utf-8")
    done = CliRunner().invoke(
        app, ["pca", str(tmp_path / "rows.csv"), "-k", "0.95", "--epsilon", "1", "--out", str(tmp_path / "out")]
    )
    assert done.exit_code == 2
    assert "The number of components that reach a share of the variance" in done.stderr
