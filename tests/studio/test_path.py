"""The steps one by one: what is filled in is what the settings say, and what is wrong is refused with a remedy."""

import re
import subprocess
import sys

import numpy as np
import pytest
from studio_client import Client, declared, prepared

from dpeigen.cli._config import read_study
from dpeigen.studio.bounds import BoundsTemplates
from dpeigen.studio.foresee import Facts, Foreseen, coarse, facts_of, only_noise_words, refined
from dpeigen.studio.made_up import ColumnFacts, made_up
from dpeigen.studio.project import Project
from dpeigen.studio.toml import render
from dpeigen.studio.wording import in_words

for package in ("starlette", "jinja2"):
    pytest.importorskip(package, reason="the studio needs it")

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

BASE = "/p/visits-study"


def columns_page(client):
    client.post("/open", {"table": "visits.csv"})
    return client.get(f"{BASE}/columns")


def test_what_the_header_says_is_filled_in(client):
    page = columns_page(client)
    assert page.field("reading_separator") == ";"
    assert page.field("reading_encoding") == "cp1252"
    assert "größe" in page.words
    assert "looks like an identifier" in page.words
    used = re.findall(r'name="use_(\d+)" value="yes" checked', page.text)
    assert "0" not in used  # patient
    assert len(used) == 12


def test_declarations_become_settings_that_commands_read(client):
    client.post(f"{BASE}/columns", declared(columns_page(client)))
    study = read_study(client.folder / "visits-study" / "study.toml")
    assert study.settings["unit"] == "patient"
    assert study.settings["missing"] == "correct"
    assert study.settings["require_ledger"] is True
    assert study.columns["größe"].unit_of_measure == "cm"
    assert (study.columns["größe"].lower, study.columns["größe"].outside) == (100, "missing")
    assert study.columns["schmerz"].levels == ("keine", "leicht", "mäßig", "stark")
    assert "notiz" not in study.columns
    again = client.get(f"{BASE}/columns")
    assert again.field("lower_2") == "100"
    assert 'value="1900-01-01"' in again.text
    assert again.field("reading_date_format") == "%d.%m.%Y"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lower_2": "tall"}, "must be a number"),
        ({"lower_2": "300"}, "lower"),
        ({"list_9": ""}, "list its possible values"),
        ({"lower_5": "-1"}, "transform"),
        ({"lower_1": "once upon a time"}, "a date such as"),
        ({"unit": "nobody"}, "must be one of the table"),
        ({"reading_decimal": "x"}, "decimal"),
        ({"reading_decimal": ""}, "Choose the decimal mark"),
        ({"max_rows": "many"}, "whole number"),
        ({f"use_{at}": "" for at in range(13)}, "uses no column"),
    ],
)
def test_what_cannot_be_is_refused_with_a_remedy_and_kept_on_the_page(client, change, words):
    form = declared(columns_page(client)) | change
    answer = client.post(f"{BASE}/columns", form)
    assert answer.status == 400
    assert words in answer.words
    assert "Unexpected" not in answer.words
    assert not (client.folder / "visits-study" / "study.toml").exists()
    if "lower_2" in change:
        assert answer.field("lower_2") == change["lower_2"]
        assert answer.field("measure_2") == "cm"


def test_limits_of_a_single_column_are_shown_by_the_dry_run(client):
    prepared(client)
    form = declared(client.get(f"{BASE}/columns")) | {"outside_2": "clip"}
    assert client.post(f"{BASE}/columns", form).status in (200, 303)
    read = read_study(client.folder / "visits-study" / "study.toml").columns["größe"]
    assert (read.lower, read.outside) == (100, "clip")
    words = client.get(f"{BASE}/check").words
    assert "größe 100 to 230 (clipped)" in words
    assert "Other columns are not affected" in words


def test_a_refused_change_leaves_the_settings_as_they_were(client):
    prepared(client)
    before = (client.folder / "visits-study" / "study.toml").read_bytes()
    form = declared(client.get(f"{BASE}/columns")) | {"lower_2": "300"}
    assert client.post(f"{BASE}/columns", form).status == 400
    assert (client.folder / "visits-study" / "study.toml").read_bytes() == before


@pytest.mark.parametrize(
    ("step", "form", "words"),
    [
        ("question", {"question": "ridge"}, "Choose the column to predict"),
        ("question", {"question": "scoremap"}, "Make a release of components first"),
        ("question", {"question": "poetry"}, "must be one of"),
        ("question", {"question": "pca", "components": "some"}, "whole number"),
        ("privacy", {"epsilon": ""}, "Enter ε"),
        ("privacy", {"epsilon": "-1"}, "at least"),
        ("privacy", {"epsilon": "nan"}, "must be a number"),
        ("privacy", {"epsilon": "1", "delta": "2"}, "at most"),
        ("privacy", {"epsilon": "1", "people": "a few"}, "whole number"),
    ],
)
def test_questions_and_budgets_that_cannot_be(client, step, form, words):
    prepared(client)
    answer = client.post(f"{BASE}/{step}", form)
    assert answer.status == 400
    assert words in answer.words


def test_the_dry_run_refuses_what_the_ledger_has_no_room_for(client):
    prepared(client, epsilon="11")
    page = client.get(f"{BASE}/check")
    assert page.status == 400
    assert "10" in page.words
    assert 'name="understood"' not in page.text


def test_the_dry_run_says_that_only_noise_is_to_be_expected(client):
    prepared(client, epsilon="0.03")
    page = client.get(f"{BASE}/check")
    assert page.status == 400
    assert "would be only noise" in page.words
    assert "larger" in page.words
    assert "bound=" not in page.words  # remedies are those of the page
    few = facts(people=300, columns=(NUMBER,) * 20, epsilon=0.2, standardised=False)
    assert "leave only noise" in only_noise_words(few)
    assert only_noise_words(facts(people=100_000, standardised=False)) is None


@pytest.mark.parametrize("question", ["pca", "covariance", "ridge"])
@pytest.mark.parametrize("robust", ["no", "yes"])
def test_every_question_has_a_dry_run(client, question, robust):
    if (question, robust) == ("ridge", "yes"):
        pytest.skip("regressions are not robust")
    prepared(client, question, robust=robust, target="systole")
    page = client.get(f"{BASE}/check")
    if (question, robust) == ("covariance", "yes"):
        assert page.status in (200, 400)  # what the library says of it is shown
        return
    if robust == "yes":
        assert page.status == 400  # holes are not corrected for by robust methods
        assert "missing" in page.words
        return
    assert page.status == 200, page.words
    assert "No row was read" in page.words
    assert "patient" in page.words


def test_the_number_of_people_may_be_private(client):
    form = declared(columns_page(client)) | {"relation": "add_remove", "missing": "drop"}
    assert client.post(f"{BASE}/columns", form).status == 303
    client.post(f"{BASE}/ledger", {"total_epsilon": "4", "total_delta": "1e-5"})
    client.post(f"{BASE}/question", {"question": "pca", "components": "2", "scale": "private"})
    client.post(f"{BASE}/privacy", {"epsilon": "2", "delta": "1e-6", "people": "3000"})
    page = client.get(f"{BASE}/check")
    assert page.status in (200, 400)
    assert "Unexpected" not in page.words


def test_a_ledger_is_made_once(client):
    prepared(client)
    client.post(f"{BASE}/ledger", {"total_epsilon": "1000"})
    assert "ε = 10 of 10" in client.get(f"{BASE}/privacy").words


def test_a_project_is_opened_again(client):
    prepared(client)
    other = Client(client.folder)
    assert "visits-study" in other.get("/").words
    assert other.post("/open", {"table": "visits.csv"}).headers["location"].endswith("/p/visits-study/columns")
    assert other.get(f"{BASE}/check").status == 200


def test_settings_that_were_changed_by_hand_are_used(client):
    prepared(client)
    path = client.folder / "visits-study" / "study.toml"
    path.write_text(path.read_text().replace("components = 2", "components = 3"))
    assert 'value="3"' in client.get(f"{BASE}/question").text
    path.write_text(path.read_text() + "\nnonsense")
    answer = client.get(f"{BASE}/check")
    assert answer.status == 400
    assert "not valid" in answer.words


def test_any_settings_survive_being_written():
    content = {
        "title": 'quotes " and \\ and\nlines \x7f é',
        "epsilon": 0.1,
        "delta": 1e-300,
        "components": 2,
        "robust": True,
        "names": ["a", 'b"'],
        "columns": {'odd "name".x': {"type": "number", "lower": -1.5e300}, "": {"use": False}},
    }
    assert tomllib.loads(render(content)) == content


# --- templates ------------------------------------------------------------------------------------------------------


def test_templates_have_sources_and_fit_names(tmp_path):
    templates = BoundsTemplates.of(tmp_path)
    assert len(templates.found) > 20
    assert all(t.source and t.lower < t.upper for t in templates.found)
    for column, name in {
        "age": "age",
        "Age_years": "age",
        "bodyHeight": "height",
        "SBP": "systolic blood pressure",
        "größe": "height",
        "serum_creatinine": "creatinine",
    }.items():
        assert name in [t.name for t in templates.for_name(column)]
    for column in ("wage", "percentage", "phase", "sex", "x1"):
        assert templates.for_name(column) == []


def test_templates_of_ones_own_come_first(client):
    own = '["weight of a child"]\nwords = ["gewicht"]\nlower = 1\nupper = 100\nunit = "kg"\n'
    own += 'source = "our <b>scales</b>"\n'
    (client.folder / "bounds.toml").write_text(own)
    page = columns_page(client)
    assert "Use 1 to 100 kg" in page.words
    assert "your own template" in page.words
    assert "<b>scales" not in page.text
    (client.folder / "bounds.toml").write_text('["x"]\nlower = 2\n')
    page = client.get(f"{BASE}/columns")
    assert page.status == 200
    assert "must have words" in page.words


# --- predictions ----------------------------------------------------------------------------------------------------


NUMBER = ColumnFacts("number")


def facts(**changes):
    given = {"question": "pca", "people": 5000, "columns": (NUMBER,) * 8, "components": 2, "epsilon": 1.0}
    return Facts(**given | {"delta": 1e-6} | changes)


@pytest.mark.parametrize("question", ["pca", "covariance", "ridge", "scoremap"])
def test_predictions_fall_with_epsilon_and_both_kinds_agree_about(question):
    least, *more = (coarse(facts(question=question, epsilon=e), 60).error for e in (0.5, 2.0, 8.0))
    assert max(more) < least  # of three made-up tables each, so errors at 2 and at 8 may lie in either order
    given = facts(question=question)
    quick, slow = coarse(given, 60), refined(given, 60)
    assert len(quick.curve) >= 10
    assert 1 / 4 < quick.error / slow.error < 4
    if question != "scoremap":
        assert slow.low < slow.error < slow.high


@pytest.mark.parametrize(
    "changes",
    [
        {"delta": 0.0, "epsilon": 3.0},  # at ε = 1 such a covariance is refused
        {"people": 1500},
        {"columns": (NUMBER,) * 8 + (ColumnFacts("category", 8),) * 2},
        {"missing": "correct", "visits": True, "max_rows": 3},
        {"relation": "add_remove", "people": 2000},
    ],
)
def test_what_makes_a_question_harder_makes_the_prediction_larger(changes):
    same = {"epsilon": changes.get("epsilon", 1.0)}
    easy, hard = (refined(facts(question="covariance", **given), 60).error for given in (same, changes))
    assert hard > 1.05 * easy


def test_declared_columns_missing_cells_and_people_are_those_of_the_prediction(client):
    prepared(client)
    found = facts_of(Project(client.folder, "visits-study"), {"people": 3000})
    assert (found.features, len(found.columns)) == (16, 11)
    assert (found.missing, found.visits, found.bounded) == ("correct", True, False)
    assert [c.kind for c in found.columns].count("transformed") == 3
    text = client.get(f"{BASE}/foresee?epsilon=1&delta=1e-6&people=3000&fine=yes").words
    assert "In most tables" in text
    assert "5% of the cells are missing" in text
    assert "A person has 3 rows on average" in text


def test_a_made_up_table_has_the_declared_columns():
    columns = (NUMBER, ColumnFacts("bool"), ColumnFacts("category", 4), ColumnFacts("number", 0, 10.0, 20.0))
    table = made_up(columns, 500, 1, visits=True, holes=True)
    assert table.complete.shape[1] == 7
    assert set(np.unique(table.complete[:, 1])) == {0.0, 1.0}
    assert np.all(table.complete[:, 2:6].sum(axis=1) == 1)
    assert np.all((table.complete[:, 6] >= 10) & (table.complete[:, 6] <= 20))
    gone = np.isnan(table.seen)
    assert 0.03 < gone.mean() < 0.07
    assert np.all(gone[:, 2] == gone[:, 5])  # a category is missing as a whole
    assert len(np.unique(table.people)) == 500
    assert np.isclose(table.weights.sum(), 1)


def test_made_up_tables_need_no_ledger_where_one_is_mandatory(monkeypatch):
    """It would say that the method refused every table, and advise a larger ε."""
    monkeypatch.setenv("DPEIGEN_REQUIRE_LEDGER", "1")
    assert coarse(facts(people=4321)).runs > 0


def test_a_prediction_without_hope_says_what_would_do():
    found = coarse(facts(people=200, columns=(NUMBER,) * 30, epsilon=0.1))
    assert found.error is None
    assert "larger" in found.why
    assert in_words(Foreseen(0.9, 0.5, 1.0, runs=9, unclear=9), "angle").level == "poor"
    assert "No result in 9 of 9" in in_words(Foreseen(0.9, 0.5, 1.0, runs=9, unclear=9), "angle").words
    assert in_words(Foreseen(0.01, 0.005, 0.02, runs=9), "angle").level == "good"


@pytest.mark.slow
def test_first_requests_at_once_are_all_answered(tmp_path, messy):
    """A fresh process, whose modules are still to be loaded: by several threads at a time they would be half loaded."""
    (tmp_path / "visits.csv").write_bytes(messy)
    code = f"""
import sys, threading
sys.path[:0] = {[*sys.path]!r}
from pathlib import Path
from studio_client import Client, declared
from dpeigen.studio.serving import _warm
client = Client(Path({str(tmp_path)!r}))
threading.Thread(target=_warm).start()
client.post("/open", {{"table": "visits.csv"}})
page = client.get("/p/visits-study/columns")
form, found = declared(page), []
calls = [threading.Thread(target=lambda: found.append(client.post("/p/visits-study/columns", form))) for _ in range(4)]
[call.start() for call in calls]
[call.join() for call in calls]
print([answer.status for answer in found])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[303, 303, 303, 303]"


def test_a_release_without_a_result_says_so_wherever_it_is_shown(client):
    """The page of the release, the history, and the question about a map: independent columns, with a fixed seed."""
    from dpeigen import PrivatePCA

    prepared(client)
    for number, strength in (("001", 0.0), ("002", 3.0)):
        folder = client.folder / "visits-study" / "releases" / number
        folder.mkdir(parents=True)
        (folder / "job.json").write_text('{"question": "pca", "epsilon": 1.0}')
        rng = np.random.default_rng(0)
        rows = rng.normal(size=(3000, 6)) + strength * rng.normal(size=(3000, 1))
        with pytest.warns(UserWarning, match="seed"):
            fit = PrivatePCA(1, epsilon=1.0, delta=1e-6, scale="private", random_state=0).fit(rows)
        fit.release_.save(folder / "release")
    assert "No result." in client.get(f"{BASE}/releases/001").words
    clear = client.get(f"{BASE}/releases/002").words
    assert "No result" not in clear
    assert "can be distinguished from noise" in clear
    assert client.get(f"{BASE}/history").words.count("made: no result") == 1
    assert client.get(f"{BASE}/question").words.count("its components are noise") == 1


def test_codes_for_missing_cells_are_declared_for_all_columns_or_for_one(client):
    form = declared(columns_page(client)) | {"missing_codes": "-99; 9999", "codes_3": "0"}
    assert client.post(f"{BASE}/columns", form).status == 303
    study = read_study(client.folder / "visits-study" / "study.toml")
    assert study.settings["missing_codes"] == [-99, 9999]
    assert study.columns["gewicht"].missing_codes == (0.0,)
    page = client.get(f"{BASE}/columns")
    assert (page.field("missing_codes"), page.field("codes_3")) == ("-99; 9999", "0")
    refused = client.post(f"{BASE}/columns", form | {"missing_codes": "-99,5"})
    assert refused.status == 400
    assert "separated by semicolons" in refused.words
    assert refused.field("missing_codes") == "-99,5"
    prepared(client)
    assert "No codes for missing cells" not in client.get(f"{BASE}/check").words


def test_the_dry_run_says_where_a_code_would_count_as_a_value(client):
    prepared(client)
    words = client.get(f"{BASE}/check").words
    assert "No codes for missing cells are declared for gewicht" in words
