"""Releases that anyone may have written, with digests that fit: a clear refusal or text, never a crash or an escape."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from dpeigen import PrivateCovariance, PrivatePCA, PrivateRidge, io, load_release
from dpeigen.cli.app import app
from dpeigen.io import DamagedReleaseError
from dpeigen.report.content import make_card
from dpeigen.report.html import render
from dpeigen.report.markdown import render as render_markdown

ROWS = np.random.default_rng(0).normal(size=(400, 3)) * [2.0, 1.0, 0.5]
ESCAPES = (
    "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e[bold red]loud[/bold red][link=file:///x]here[/link]\nnote       all is well"
)
HOSTILE = [
    7, -1, 0, 1.5, 1e308, -1e308, 10**400, True, "", "text", ESCAPES, [], ["a"], [1, 2, 3], [None] * 3, {}, {"a": 1},
    {"lower": 1, "upper": [2]}, {"lower": [0, 0, 0], "upper": [0, 0, 0]}, {"alpha": []}, {"alpha": -1},
    {"tau_eigenvalues": 3}, {"tau_eigenvalues": [1, 2, 3]}, {"variances": {}}, [[1], [2], [3]], [0, 0, 0], [1e-300] * 3,
]  # fmt: skip


def fitted(kind):
    options = {"epsilon": 2.0, "delta": 1e-6, "bound": 6.0, "random_state": 0}
    if kind == "covariance":
        return PrivateCovariance(**options).fit(ROWS).release_
    if kind == "ridge":
        return PrivateRidge("auto", **options).fit(ROWS[:, :2], ROWS[:, 2]).release_
    method = "kendall" if kind == "kendall" else "gaussian"
    return PrivatePCA(2, method=method, **options).fit(ROWS).release_


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """(arrays, description) of good releases of every kind, and a folder to write others to."""
    place = tmp_path_factory.mktemp("hostile")
    good = {}
    for kind in ("pca", "covariance", "ridge", "kendall"):
        folder = fitted(kind).save(place / kind)
        good[kind] = io.read_folder(folder)
    return good, place / "bad"


def put(arrays, description, folder):
    """A release with these contents and digests that fit."""
    return io.write_folder(folder, arrays, description)


def read_and_show(folder):
    """What a reader does; every text that comes out is returned."""
    try:
        release = load_release(folder)
    except DamagedReleaseError as refusal:
        return f"REFUSED: {refusal}"
    with np.errstate(all="ignore"):
        card = make_card(release, io.digests(folder))
        pictures = {picture.name: "" for picture in card.pictures()}
        return render(card, pictures) + render_markdown(card)


FACTS = ["feature_names", "n_rows", "n_rows_is", "noise_deviation", "covariance_error", "radius", "radius_is", "center",
         "details", "choice", "dpeigen", "units", "rescaled", "ridge", "release_id", "method", "estimand",
         "about", "date", "other"]  # fmt: skip


@pytest.mark.parametrize("kind", ["pca", "covariance", "ridge", "kendall"])
def test_no_value_of_a_fact_crashes_the_card(folders, kind):
    good, bad = folders
    arrays, description = good[kind]
    for name in FACTS:
        for value in HOSTILE:
            changed = copy.deepcopy(description)
            changed["facts"][name] = value
            read_and_show(put(arrays, changed, bad))
    assert not read_and_show(put(arrays, description, bad)).startswith("REFUSED")


@pytest.mark.parametrize("kind", ["pca", "kendall"])
def test_no_detail_and_no_part_of_the_guarantee_crashes_the_card(folders, kind):
    good, bad = folders
    arrays, description = good[kind]
    for value in [None, *HOSTILE]:
        for place in (("facts", "details"), ("guarantee",), ("guarantee", "split", 0), ()):
            target = description
            for step in place:
                target = target[step]
            for name in target:
                changed = copy.deepcopy(description)
                inner = changed
                for step in place:
                    inner = inner[step]
                inner[name] = value
                read_and_show(put(arrays, changed, bad))


@pytest.mark.parametrize(
    "scales", [[1.0], [1.0, 0.0], [1.0, -2.0], [1e-200, 1.0], [True, 1.0], "ab", 3, {}, [[1], [2]]]
)
def test_scales_of_a_regression_that_are_no_scales_are_refused(folders, scales):
    good, bad = folders
    arrays, description = good["ridge"]
    changed = copy.deepcopy(description)
    changed["facts"]["ridge"]["scales"] = scales
    assert read_and_show(put(arrays, changed, bad)).startswith("REFUSED")
    changed["facts"]["ridge"].pop("scales")  # as earlier versions wrote it
    assert not read_and_show(put(arrays, changed, bad)).startswith("REFUSED")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(["pca", "covariance", "ridge", "kendall"]), name=st.sampled_from(FACTS), value=JSON)
def test_made_up_facts_do_not_crash_the_card(folders, kind, name, value):
    good, bad = folders
    arrays, description = good[kind]
    changed = {**description, "facts": {**description["facts"], name: value}}
    read_and_show(put(arrays, changed, bad))


def test_a_wrong_type_is_refused_by_name_and_without_its_value(folders):
    good, bad = folders
    arrays, description = good["pca"]
    changed = copy.deepcopy(description)
    changed["facts"]["n_rows"] = "many secrets"
    with pytest.raises(DamagedReleaseError, match="'n_rows' is not what a release holds") as refusal:
        load_release(put(arrays, changed, bad))
    assert "many secrets" not in str(refusal.value)


def unsafe(text):
    return [c for c in text if not c.isprintable() and c != "\n"]


@pytest.mark.parametrize("command", [["check"], ["card"]])
def test_texts_of_a_release_do_not_reach_the_terminal_as_they_are(folders, command):
    """Escapes move the cursor or set a title; markup makes links; a line break makes up a line of the guarantee."""
    good, bad = folders
    arrays, description = good["pca"]
    changed = copy.deepcopy(description)
    changed["guarantee"] |= {"mechanism": ESCAPES, "reference": ESCAPES, "notes": [ESCAPES]}
    changed["guarantee"]["split"][0] |= {"purpose": ESCAPES, "mechanism": ESCAPES}
    changed["facts"] |= {"feature_names": [ESCAPES] * 3, "center": ESCAPES}
    put(arrays, changed, bad)
    result = CliRunner().invoke(app, [*command, str(bad)])
    assert result.exit_code == 0, result.output
    assert unsafe(result.output) == []
    assert "\nnote       all is well" not in result.output
    if command == ["check"]:
        assert "[bold red]" in result.output  # shown as it stands, not obeyed


def test_names_of_columns_do_not_reach_the_terminal_as_they_are(tmp_path):
    name = ESCAPES.replace("\n", " ")
    (tmp_path / "t.csv").write_text(f"a,{name}\n" + "1,2\n3,4\n" * 50, encoding="utf-8")
    options = ["--epsilon", "1", "--bound", "9", "-k", "1"]
    for extra in (["--dry-run"], ["--dry-run", "--json"], ["--out", str(tmp_path / "o")]):
        result = CliRunner().invoke(app, ["pca", str(tmp_path / "t.csv"), *options, *extra])
        assert result.exit_code == 0, result.output
        assert unsafe(result.output) == []
        if extra == ["--dry-run", "--json"]:
            assert json.loads(result.stdout)["columns"][1] == name  # programs get the very name


@pytest.mark.parametrize("kind", ["pca", "covariance", "ridge"])
def test_a_scale_that_cannot_be_is_refused(folders, kind):
    good, bad = folders
    arrays, description = good[kind]
    for scale in (
        [1.0, 2.0],
        [[1.0, 2.0, 3.0]],
        [1.0, 0.0, 1.0],
        [1.0, -1.0, 1.0],
        [1.0, np.nan, 1.0],
        [1.0, np.inf, 1.0],
        [],
    ):
        folder = put(arrays | {"scale": np.array(scale)}, description, bad)
        assert read_and_show(folder).startswith("REFUSED"), scale
    assert not read_and_show(put(arrays | {"scale": np.array([1.0, 2.0, 3.0])}, description, bad)).startswith("REFUSED")


def test_what_a_release_says_it_is_about_is_text(folders):
    good, bad = folders
    arrays, description = good["pca"]
    for value in HOSTILE:
        changed = copy.deepcopy(description)
        changed["guarantee"]["estimand"] = value
        text = read_and_show(put(arrays, changed, bad))
        assert text.startswith("REFUSED") == (not isinstance(value, str))
        assert "\x1b" not in text
    shown = CliRunner().invoke(app, ["check", str(put(arrays, _about(description, ESCAPES), bad))]).output
    assert "\x1b" not in shown
    assert "[bold red]" in shown


def _about(description, text):
    changed = copy.deepcopy(description)
    changed["guarantee"]["estimand"] = text
    return changed


@pytest.mark.parametrize("columns", [3, [3], [-1], [0.5], [True], ["a"], {"a": 1}])
def test_columns_without_scale_are_places_of_columns(folders, columns):
    good, bad = folders
    arrays, description = good["pca"]
    changed = copy.deepcopy(description)
    changed["facts"]["details"]["columns_without_scale"] = columns
    assert read_and_show(put(arrays, changed, bad)).startswith("REFUSED")
