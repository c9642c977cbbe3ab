"""missing="correct" as users call it: every engine, both relations, people, files, cards, commands, and the ledger."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from dpeigen import Ledger, PrivateCovariance, PrivatePCA, PrivateRidge, PrivateScoreMap, load_release
from dpeigen.cli.app import app
from dpeigen.report.content import make_card
from dpeigen.report.markdown import render
from dpeigen.sources import BlockSource
from dpeigen.stats import BadRowsError

GIVEN = {"epsilon": 8.0, "delta": 1e-6, "random_state": 0, "missing": "correct"}
ESTIMATORS = {
    "pca": lambda **given: PrivatePCA(2, **given),
    "covariance": PrivateCovariance,
    "ridge": lambda **given: PrivateRidge(0.0, **given),
}


def complete(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)) @ np.array([[2.0, 1.0, 0.0], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]])
    y = x @ [1.0, -2.0, 0.5] + rng.normal(size=n)
    return pd.DataFrame(np.column_stack([x + np.array([100.0, -5.0, 0.0]), y * 10]), columns=["a", "b", "c", "y"])


def blanked(frame, share=0.15, seed=1):
    return frame.mask(np.random.default_rng(seed).random(frame.shape) < share)


WHOLE = complete()
HOLES = blanked(WHOLE)


def render_markdown(release):
    return render(make_card(release, {"release.json": "0" * 64, "release.safetensors": "1" * 64}))


def fit(name, table, **changes):
    model = ESTIMATORS[name](**{**GIVEN, **changes})
    return model.fit(table, "y") if name == "ridge" else model.fit(table)


# --- results --------------------------------------------------------------------------------------------------------


def test_covariance_is_that_of_the_complete_table():
    found = fit("covariance", HOLES)
    truth, deviations = WHOLE.cov().to_numpy(), WHOLE.std().to_numpy()
    assert np.abs((found.covariance_ - truth) / np.outer(deviations, deviations)).max() < 0.1
    assert (np.abs(found.location_ - WHOLE.mean()) / deviations).max() < 0.06
    dropped = fit("covariance", HOLES, missing="drop")
    assert (np.diag(dropped.covariance_) < 0.7 * np.diag(truth)).all()  # what "drop" does to so many holes


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_components_of_standardised_columns(relation):
    found = fit("pca", HOLES, scale="private", relation=relation)
    _, vectors = np.linalg.eigh(WHOLE.corr().to_numpy())
    assert abs(found.components_[0] @ vectors[:, -1]) > 0.995
    assert abs(found.components_[1] @ vectors[:, -2]) > 0.99


def test_a_regression_with_holes_in_features_and_target():
    found = fit("ridge", HOLES, epsilon=20.0)
    truth = np.linalg.lstsq(np.column_stack([np.ones(len(WHOLE)), WHOLE[["a", "b", "c"]]]), WHOLE["y"], rcond=None)[0]
    assert np.abs(found.coef_ - truth[1:]).max() < 2.5  # of 10, −20 and 5
    rows = HOLES[["a", "b", "c"]].iloc[:50]
    filled = rows.fillna(dict(zip("abc", found.release_.mean, strict=False)))
    assert np.allclose(found.predict(rows), found.predict(filled))


def test_a_complete_table_costs_little_for_having_been_allowed_holes():
    truth = WHOLE.corr().to_numpy()
    errors = {
        missing: np.mean([np.abs(fit("covariance", WHOLE, missing=missing, epsilon=1.0, random_state=s).correlation_
                                 - truth).mean() for s in range(6)])
        for missing in ("refuse", "correct")
    }  # fmt: skip
    assert errors["correct"] < 1.5 * errors["refuse"]


def test_people_share_their_weight_in_counts_of_holes_too():
    """People with many rows miss far more; each counts once."""
    rng = np.random.default_rng(0)
    sizes = np.where(np.arange(3000) % 10 == 0, 30, 1)
    ids = np.repeat(np.arange(3000), sizes)
    rows = complete(len(ids)).to_numpy(copy=True)
    share = np.where(np.repeat(sizes, sizes) > 1, 0.6, 0.0)
    rows[rng.random(rows.shape) < share[:, None]] = np.nan
    found = PrivateCovariance(**GIVEN).fit(rows, unit=ids).release_
    assert found.missing_shares == pytest.approx([0.06] * 4, abs=0.02)  # a tenth of the people, not most of the rows
    capped = PrivateCovariance(**{**GIVEN, "epsilon": 60.0}, max_rows=30).fit(rows, unit=ids).release_
    assert capped.facts["rows_that_count"] == 30  # noise is small enough
    assert capped.missing_shares == pytest.approx([0.6 * 9000 / 11700] * 4, abs=0.05)


# --- new rows -------------------------------------------------------------------------------------------------------


def test_new_rows_with_holes_are_filled_by_released_centres():
    pca, covariance = fit("pca", HOLES), fit("covariance", HOLES)
    rows = HOLES.iloc[:30]
    filled = rows.fillna(dict(zip("abcy", pca.mean_, strict=True)))
    assert np.allclose(pca.transform(rows), pca.transform(filled))
    assert np.isfinite(covariance.mahalanobis(rows)).all()
    with pytest.raises(ValueError, match="NaN"):
        fit("pca", WHOLE, missing="refuse").transform(rows)
    with pytest.raises(ValueError, match="'center' parameter"):
        fit("pca", HOLES, center="pairs").transform(rows)
    mapped = PrivateScoreMap(pca.release_, epsilon=4.0, missing="correct", random_state=0).fit(HOLES).map_
    assert any("released centre of its column" in note for note in mapped.guarantee.notes)


# --- engines --------------------------------------------------------------------------------------------------------


def nullable():
    return HOLES.convert_dtypes().astype({"a": "Float64"})


def csv(folder):
    HOLES.to_csv(folder / "t.csv", index=False)
    return str(folder / "t.csv")


def parquet(folder):
    HOLES.to_parquet(folder / "t.parquet")
    return str(folder / "t.parquet")


def arrow():
    return pa.Table.from_pandas(HOLES.convert_dtypes())  # nulls, not NaN


SOURCES = {
    "array": lambda folder: HOLES.to_numpy(),
    "float lists": lambda folder: HOLES.astype(object).where(HOLES.notna(), None).to_numpy().tolist(),
    "nullable": lambda folder: nullable(),
    "polars": lambda folder: pl.from_pandas(nullable()),
    "arrow": lambda folder: arrow(),
    "csv": csv,
    "parquet": parquet,
    "lazy": lambda folder: pl.scan_parquet(parquet(folder)),
    "dask": lambda folder: pytest.importorskip("dask.dataframe").from_pandas(HOLES, npartitions=3),
    "blocks": lambda folder: BlockSource(lambda: iter(np.array_split(HOLES.to_numpy(), 9)), n_features=4),
}  # fmt: skip


@pytest.mark.parametrize("engine", SOURCES)
def test_every_engine_gives_the_same_release(engine, tmp_path):
    given = {"method": "gaussian", "bound": 200.0, "center": None}
    found = fit("covariance", SOURCES[engine](tmp_path), **given)
    expected = fit("covariance", HOLES, **given)
    assert np.array_equal(found.covariance_, expected.covariance_)
    assert found.release_.missing_shares.tolist() == expected.release_.missing_shares.tolist()


# --- neighbours with one cell that is none --------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["correct", "drop"])
@pytest.mark.parametrize("cell", [None, "garbage", "1e999", "nan", "", float("inf"), b"x", 10**400, object()])
def test_one_unreadable_cell_changes_neither_outcome_nor_spend(cell, missing, tmp_path):
    rows = WHOLE.head(400).astype(object).to_numpy()
    other = rows.copy()
    other[7, 2] = cell
    records = []
    for number, table in enumerate((rows, other)):
        ledger = Ledger.create(tmp_path / f"{number}.ledger", epsilon=50.0, delta=1e-5)
        found = fit("covariance", table.tolist(), missing=missing, bound=50.0, ledger=ledger)
        records.append(
            (found.guarantee_.split, found.guarantee_.notes, ledger.remaining(), found.release_.facts["method"])
        )
    assert records[0] == records[1]


def test_a_refusal_recommends_to_correct():
    with pytest.raises(BadRowsError, match="cells that are really missing set missing='correct'"):
        fit("covariance", HOLES, missing="refuse")
    with pytest.raises(ValueError, match="'missing' parameter of PrivateCovariance"):
        fit("covariance", HOLES, missing="fill")


# --- what is released -----------------------------------------------------------------------------------------------


def test_the_release_states_assumption_and_shares_and_keeps_them_in_files(tmp_path):
    release = fit("pca", HOLES).release_
    assert release.missing_shares == pytest.approx([0.15] * 4, abs=0.03)
    assert any("missing completely at random" in note for note in release.guarantee.notes)
    assert any(spend.purpose == "shares of missing cells" for spend in release.guarantee.split)
    release.save(tmp_path / "out")
    loaded = load_release(tmp_path / "out")
    assert loaded.missing_shares.tolist() == release.missing_shares.tolist()
    card = render_markdown(loaded)
    assert "missing completely at random" in card
    assert f"{100 * release.missing_shares[1]:.1f}%" in card
    assert fit("pca", WHOLE, missing="refuse").release_.missing_shares is None


def test_shares_that_may_all_be_0_are_one_sentence(capsys):
    from dpeigen.cli._show import console, show_release

    few, many = np.array(WHOLE, dtype=float), np.array(HOLES, dtype=float)
    few[::700, 1] = np.nan
    for rows, one in ((few, True), (many, False)):
        budget = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
        release = PrivatePCA(2, scale="private", missing="correct", **budget).fit(rows).release_
        low, high = release.intervals().missing_shares
        assert (low > 0).any() != one
        said = f"below {100 * high.max():.1f}% in every column (95% intervals), not distinguishable from 0."
        show_release(console(), release, "")
        for text in (render_markdown(release), capsys.readouterr().out):
            words = " ".join(text.split())
            assert (said in words) == one
            assert ("% (0.0 to " not in words) or not one


def test_a_card_says_that_rows_were_put_at_the_centre():
    dropped = fit("covariance", HOLES, missing="drop").release_
    assert "replaced by the centre" in render_markdown(dropped)
    assert dropped.missing_shares is None


def test_a_plan_names_the_share_and_reads_nothing():
    plan = PrivateCovariance(**GIVEN).explain(HOLES)
    fitted = fit("covariance", HOLES)
    assert [s.purpose for s in plan.split] == [s.purpose for s in fitted.guarantee_.split]
    assert "shares of missing cells" in [s.purpose for s in plan.split]
    assert plan.guarantee.notes == fitted.guarantee_.notes


# --- the older name -------------------------------------------------------------------------------------------------


def test_the_older_name_still_works_and_warns():
    given = {**GIVEN, "bound": 200.0, "center": None, "method": "gaussian"}
    del given["missing"]
    with pytest.warns(DeprecationWarning, match="use missing='drop'"):
        older = PrivateCovariance(**given, on_bad_row="drop-to-zero").fit(HOLES)
    newer = PrivateCovariance(**given, missing="drop").fit(HOLES)
    assert np.array_equal(older.covariance_, newer.covariance_)
    with pytest.raises(ValueError, match=r"'on_bad_row' parameter .* older name"):
        PrivateCovariance(**given, missing="drop", on_bad_row="refuse").fit(HOLES)
    with pytest.raises(ValueError, match=r"'on_bad_row' parameter .* 'drop-to-zero'"):
        PrivateCovariance(**given, on_bad_row="skip").fit(HOLES)


# --- commands -------------------------------------------------------------------------------------------------------


def test_a_command_and_its_file_of_settings_correct(tmp_path):
    path = csv(tmp_path)
    settings = tmp_path / "study.toml"
    settings.write_text('epsilon = 4.0\ndelta = 1e-6\ncomponents = 2\nmissing = "correct"\nscale = "private"\n')
    runs = {
        "option": ["--epsilon", "4", "--delta", "1e-6", "-k", "2", "--missing", "correct"],
        "settings": ["--config", str(settings)],
    }
    for name, options in runs.items():
        out = tmp_path / name
        result = CliRunner().invoke(app, ["pca", path, *options, "--out", str(out)])
        assert result.exit_code == 0, result.output
        assert load_release(out).missing_shares == pytest.approx([0.15] * 4, abs=0.04)
        assert "completely at random" in (out / "card.md").read_text(encoding="utf-8")
    refused = CliRunner().invoke(app, ["pca", path, "--epsilon", "4", "-k", "2", "--out", str(tmp_path / "no")])
    assert refused.exit_code == 3
    assert "--missing correct" in refused.output
    options = ["--config", str(settings), "--on-bad-row", "drop-to-zero"]
    older = CliRunner().invoke(app, ["pca", path, *options, "--out", str(tmp_path / "older")])
    assert older.exit_code == 0, older.output
    assert "--on-bad-row drop-to-zero is deprecated" in older.output
    assert load_release(tmp_path / "older").facts["missing"] == "drop"
    both = CliRunner().invoke(app, ["pca", path, *options, "--missing", "correct", "--out", str(tmp_path / "both")])
    assert both.exit_code == 2
    settings.write_text(settings.read_text() + 'on_bad_row = "refuse"\n')
    assert CliRunner().invoke(app, ["pca", path, *runs["settings"], "--out", str(tmp_path / "both")]).exit_code == 2
