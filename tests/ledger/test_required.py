"""Where a ledger is mandatory, nothing is read without one, and the message says what to do."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner
from unread_rows import Forbidden

from dpeigen import Ledger, PrivateCovariance, PrivatePCA, PrivateRidge, PrivateScoreMap
from dpeigen.cli.app import app
from dpeigen.privacy.ledger import LedgerRequiredError

X = np.random.default_rng(0).normal(size=(400, 3))
VARIABLE = "DPEIGEN_REQUIRE_LEDGER"


class NotEvenOpened:
    """What raises as soon as anything is asked of it."""

    def __getattr__(self, name):
        raise AssertionError("the data were touched")


@pytest.fixture(scope="module")
def release():
    return PrivatePCA(2, epsilon=1.0, bound=9.0, center=[0, 0, 0], random_state=0).fit(X).release_


def pca(rows, ledger):
    return PrivatePCA(1, epsilon=0.5, bound=4.0, ledger=ledger, random_state=0).fit(rows)


def stream(rows, ledger):
    options = {"epsilon": 0.5, "delta": 1e-6, "bound": 4.0, "method": "oja", "random_state": 0}
    return PrivatePCA(1, ledger=ledger, **options).partial_fit(rows)


FITS = {
    "PrivatePCA": lambda rows, ledger, release: pca(rows, ledger),
    "PrivateCovariance": lambda rows, ledger, release: PrivateCovariance(
        epsilon=0.5, bound=4.0, ledger=ledger, random_state=0
    ).fit(rows),
    "PrivateRidge": lambda rows, ledger, release: PrivateRidge(
        epsilon=0.5, bound=4.0, ledger=ledger, random_state=0
    ).fit(rows, X[:, 0]),
    "PrivateScoreMap": lambda rows, ledger, release: PrivateScoreMap(
        release, epsilon=0.5, ledger=ledger, random_state=0
    ).fit(rows),
    "a stream": lambda rows, ledger, release: stream(rows, ledger),
}


@pytest.mark.parametrize("name", FITS)
def test_without_a_ledger_nothing_is_read(name, release, monkeypatch, path):
    monkeypatch.setenv(VARIABLE, "1")
    for rows in (NotEvenOpened(), Forbidden(), X):
        with pytest.raises(LedgerRequiredError, match=f"must be a ledger, because {VARIABLE} is set.*ledger=PATH"):
            FITS[name](rows, None, release)
    ledger = Ledger.create(path, epsilon=1.0, delta=1e-5)
    FITS[name](X, ledger, release)
    assert len(ledger.history()) == 1


@pytest.mark.parametrize("value", ["1", "true", "Yes", "of", "", "0", "False", "off"])
def test_only_a_plain_no_means_no(value, monkeypatch):
    monkeypatch.setenv(VARIABLE, value)
    if value in ("", "0", "False", "off"):
        pca(X, None)
        return
    with pytest.raises(LedgerRequiredError):
        pca(X, None)


def test_a_saved_stream_is_not_resumed_without_a_ledger(path, tmp_path, monkeypatch):
    ledger = Ledger.create(path, epsilon=1.0, delta=1e-5)
    stream(X, ledger).save_stream(tmp_path / "saved")
    monkeypatch.setenv(VARIABLE, "1")
    with pytest.raises(LedgerRequiredError):
        PrivatePCA.resume_stream(tmp_path / "saved")
    resumed = PrivatePCA.resume_stream(tmp_path / "saved", ledger=ledger, random_state=0)
    resumed.partial_fit(X)  # paid for when it began
    assert len(ledger.history()) == 1


@pytest.mark.parametrize("name", ["PrivatePCA", "PrivateRidge"])
def test_audits_have_rows_of_their_own(name, monkeypatch):
    from dpeigen.auditing.targets import TARGETS

    monkeypatch.setenv(VARIABLE, "1")
    assert TARGETS[name].make(name, 1.0, TARGETS[name]).claim.budget.epsilon == pytest.approx(1.0)
    with pytest.raises(LedgerRequiredError):  # and nobody else
        pca(X, None)


# --- commands ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    np.savetxt(tmp_path / "table.csv", X, delimiter=",", header="a,b,c", comments="")
    return tmp_path / "table.csv"


def call(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.mark.parametrize("command", [["pca", "-k", "1"], ["covariance"], ["ridge", "--target", "a"]])
@pytest.mark.parametrize("by", ["variable", "setting"])
def test_commands_refuse_and_write_nothing(command, by, table, tmp_path, monkeypatch):
    settings, out = tmp_path / "study.toml", tmp_path / "out"
    settings.write_text("require_ledger = true\n" if by == "setting" else "require_ledger = false\n", encoding="utf-8")
    if by == "variable":  # a setting cannot lift what the site demands
        monkeypatch.setenv(VARIABLE, "1")
    options = ["--epsilon", 1, "--bound", 4, "--config", settings, "--out", out]
    done = call(command[0], table, *command[1:], *options)
    assert done.exit_code == 2
    assert (VARIABLE if by == "variable" else "'require_ledger' in") in done.stderr
    assert "--ledger PATH" in done.stderr
    assert not out.exists()


def test_a_score_map_refuses_too(table, release, tmp_path, monkeypatch):
    release.save(tmp_path / "release")
    monkeypatch.setenv(VARIABLE, "1")
    done = call("scoremap", tmp_path / "release", table, "--epsilon", 1, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert VARIABLE in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_setting_is_true_or_false(table, tmp_path):
    (tmp_path / "study.toml").write_text('require_ledger = "yes"\n', encoding="utf-8")
    done = call("pca", table, "-k", 1, "--epsilon", 1, "--bound", 4, "--config", tmp_path / "study.toml", "--dry-run")
    assert done.exit_code == 2
    assert "'require_ledger'" in done.stderr


def test_a_release_that_no_ledger_records_says_so(table, release, tmp_path, monkeypatch):
    monkeypatch.setattr("dpeigen.report.write_card", lambda release, where: None)  # pictures take seconds
    monkeypatch.setattr("dpeigen.cli.score_map._draw", lambda found, out: None)
    Ledger.create(tmp_path / "l", epsilon=5.0)
    plane = PrivatePCA(2, epsilon=1.0, bound=9.0, center=[0, 0, 0], random_state=0).fit(table).release_
    plane.save(tmp_path / "release")
    calls = [
        ["pca", table, "-k", 1, "--epsilon", 1, "--bound", 4],
        ["scoremap", tmp_path / "release", table, "--epsilon", 1],
    ]
    for number, arguments in enumerate(calls):
        done = call(*arguments, "--out", tmp_path / f"{number}")
        assert done.exit_code == 0, done.output
        assert "no ledger records this release" in done.stderr
        assert "no ledger" not in done.stdout
        kept = call(*arguments, "--out", tmp_path / f"{number}-kept", "--ledger", tmp_path / "l")
        assert kept.exit_code == 0, kept.output
        assert "no ledger" not in kept.stderr
        assert "no ledger" not in call(*arguments, "--dry-run").stderr  # nothing is released
