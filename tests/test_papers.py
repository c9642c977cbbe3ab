"""The reproductions run in quick mode and agree with what was recorded; the list and the layout are complete."""

import json
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dpeigen.cli.app import app
from dpeigen.cli.reproduce import load_main, reproductions, shown
from dpeigen.privacy import NotPrivateWarning

PAPERS = Path(__file__).parents[1] / "papers"
KEYS = sorted(reproductions(PAPERS))
needs_data = pytest.mark.skipif(not os.environ.get("DPEIGEN_DATA"), reason="DPEIGEN_DATA does not name a data folder")


def test_there_are_reproductions():
    assert {"amin-2019", "kim-jung-2025"} <= set(KEYS)


@pytest.mark.parametrize("key", KEYS)
def test_layout(key):
    assert reproductions(PAPERS)[key]
    assert json.loads((PAPERS / key / "expected.json").read_text(encoding="utf-8"))
    assert f"[{key}]({key})" in (PAPERS / "README.md").read_text(encoding="utf-8")
    assert callable(load_main(PAPERS / key / "run.py"))
    assert list(shown(PAPERS / key))


def test_every_figure_of_kim_and_jung_is_there():
    found = {item.name: item.state for item in shown(PAPERS / "kim-jung-2025")}
    assert found.keys() == {f"Figure {number}" for number in range(1, 7)}
    assert set(found.values()) <= {"reproduced", "quick only"}


@pytest.mark.parametrize(("key", "least"), [("amin-2019", 6), ("cai-2024", 7)])
def test_every_table_and_figure_of_these_is_reproduced(key, least):
    """With the paper's own number of repetitions."""
    found = {item.name: item.state for item in shown(PAPERS / key)}
    assert len(found) >= least
    assert set(found.values()) == {"reproduced"}, found


def recorded_module():
    load_main(PAPERS / "amin-2019" / "run.py")  # puts papers/ on the path
    import recorded

    return recorded


def test_a_mean_that_differs_and_one_that_was_never_recorded_do_not_agree(tmp_path, capsys):
    module, rng = recorded_module(), np.random.default_rng(0)
    before = {"a/1": rng.normal(1.0, 0.1, 40), "a/2": rng.normal(2.0, 0.1, 40), "b/1": rng.normal(3.0, 0.1, 40)}
    module.write_expected(tmp_path, "what", before)
    same = {key: rng.normal(values.mean(), 0.1, 10) for key, values in before.items()}
    assert module.verdict(module.compared(tmp_path, same, tmp_path / "out"), tmp_path)
    for change in ({"a/2": same["a/2"] + 0.5}, {"c/1": same["a/1"]}):
        results = module.compared(tmp_path, same | change, tmp_path / "out")
        assert [key for key, result in results.items() if not result["agrees"]] == list(change)
        assert not module.verdict(results, tmp_path)
        assert json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8")) == results
    assert not module.verdict(module.compared(tmp_path, same, tmp_path / "out"), tmp_path, ["a claim failed"])
    assert "not recorded" in capsys.readouterr().out


def test_some_cells_are_recorded_anew_and_the_rest_stays(tmp_path):
    module, rng = recorded_module(), np.random.default_rng(0)
    module.write_expected(tmp_path, "what", {"a/1": rng.normal(size=9), "a/2": rng.normal(size=9), "b/1": np.ones(9)})
    module.write_expected(tmp_path, "what", {"a/1": rng.normal(size=30)}, only=["a/*"])
    found = json.loads((tmp_path / "expected.json").read_text(encoding="utf-8"))
    assert {key: entry["repetitions"] for key, entry in found["entries"].items()} == {"b/1": 9, "a/1": 30}
    assert [run["entries"] for run in found["recorded"]] == [["*"], ["a/*"]]
    assert all(run["date"] and run["machine"] for run in found["recorded"])


@needs_data
@pytest.mark.parametrize("key", KEYS)
def test_quick_run_agrees(key, tmp_path, monkeypatch):
    monkeypatch.setenv("DPEIGEN_PAPERS", str(PAPERS))
    result = CliRunner().invoke(app, ["reproduce", key, "--quick", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert any(tmp_path.iterdir())


@needs_data
def test_a_wrong_scale_of_noise_is_noticed(tmp_path, monkeypatch):
    """With 10% less budget than stated the recorded errors are missed."""
    run = load_main(PAPERS / "amin-2019" / "run.py").__globals__
    monkeypatch.setitem(run, "SETS", {"adult": run["SETS"]["adult"]})
    honest = run["PrivateCovariance"]
    monkeypatch.setitem(run, "PrivateCovariance", lambda *, epsilon, **rest: honest(epsilon=0.9 * epsilon, **rest))
    assert not run["main"](True, tmp_path)


def recorded():
    return json.loads((PAPERS / "amin-2019" / "expected.json").read_text(encoding="utf-8"))["entries"]


def test_matrix_laplace_is_no_worse_than_the_recorded_bar():
    """Bars: normalised Frobenius error at ε = 0.1, 1, 4, plus 15%."""
    bars = {"wine": (2.6, 0.67, 0.17), "airfoil": (0.21, 0.03, 0.008), "adult": (0.24, 0.052, 0.016)}
    entries = recorded()
    for name, values in bars.items():
        for epsilon, bar in zip((0.1, 1, 4), values, strict=True):
            assert entries[f"{name}/matrix-laplace/{epsilon:g}"]["mean"] <= 1.15 * bar


@pytest.mark.parametrize("name", ["wine", "airfoil", "adult"])
@pytest.mark.parametrize(
    ("sharp", "published"),
    [("eigenvector-sampling", "AD"), ("kapralov-talwar", "KT"), ("laplace", "L"), ("gaussian-10", "G-10")],
)
def test_sharp_is_never_worse_than_published(name, sharp, published):
    """Over the whole range of ε, up to three standard errors."""
    entries = recorded()
    for epsilon in ("0.01", "0.1", "0.2", "0.5", "1", "2", "4"):
        ours, theirs = entries[f"{name}/{sharp}/{epsilon}"], entries[f"{name}/{published}/{epsilon}"]
        error = sum(entry["deviation"] ** 2 / entry["repetitions"] for entry in (ours, theirs)) ** 0.5
        assert ours["mean"] <= theirs["mean"] + 3 * error, epsilon


@pytest.mark.parametrize("name", ["airfoil", "adult"])
@pytest.mark.parametrize("epsilon", ["0.5", "1", "2", "4"])
def test_matrix_laplace_halves_the_error_of_the_published_adaptive_method(name, epsilon):
    entries = recorded()
    assert entries[f"{name}/matrix-laplace/{epsilon}"]["mean"] <= 0.5 * entries[f"{name}/AD/{epsilon}"]["mean"]


def test_local_reports_beat_the_printed_noise_in_every_cell_of_the_figures():
    """Wang and Xu 2019, at the same true guarantee; where the printed noise is not lost altogether, by far."""
    recorded_local = json.loads((PAPERS / "wang-2019" / "expected.json").read_text(encoding="utf-8"))["entries"]
    cells = {key.rsplit("/", 1)[0] for key in recorded_local if key.startswith(("figure-1/", "figure-2/"))}
    assert len(cells) >= 20
    for cell in cells:
        printed, corrected, pure = (recorded_local[f"{cell}/{c}"]["mean"] for c in ("printed", "corrected", "pure"))
        assert pure < corrected < printed, cell


# --- Kim and Jung 2025 --------------------------------------------------------------------------------------------


def claims():
    return load_main(PAPERS / "kim-jung-2025" / "run.py").__globals__["kim_claims"]


def kim_entries():
    return json.loads((PAPERS / "kim-jung-2025" / "expected.json").read_text(encoding="utf-8"))["entries"]


def test_sharp_constants_of_kendall_have_at_most_three_fifths_of_the_published_loss():
    """Wherever the published one lies between 0.15 and 0.6."""
    ratios = claims().halved(kim_entries())
    assert len(ratios) > 20
    assert max(ratios)[0] <= 0.6, max(ratios)


@pytest.mark.parametrize("kind", ["spherical", "winsorized"])
def test_kendall_is_below_every_baseline_on_heavy_tails_and_outliers(kind):
    """Spherical also below NSGGD at the best of six rates in hindsight; winsorised is level with it in one cell."""
    missed = claims().beaten(kim_entries(), kind)
    assert [miss for miss in missed if kind == "spherical" or "@" not in miss[0]] == []


@pytest.mark.parametrize(("d", "most"), [(5, 0.12), (10, 0.24)])
@pytest.mark.parametrize("kind", ["spherical", "winsorized"])
def test_five_percent_outliers_do_not_turn_kendall(kind, d, most):
    assert claims().mean(kim_entries(), "contaminated", d, 2000, kind) <= most


def test_with_25_columns_five_percent_outliers_are_too_many_for_the_population_itself():
    eigenvalues = claims().contaminated_eigenvalues
    for kind in ("spherical", "winsorized"):
        (_, second, outliers, _), (_, lost, found, _) = (eigenvalues(d, kind, draws=50_000) for d in (10, 25))
        assert second > 1.2 * outliers
        assert lost < 0.97 * found
        assert claims().mean(kim_entries(), "contaminated", 25, 2000, f"{kind}-exact") > 0.9


def test_steps_of_nsggd_may_be_taken_together():
    """The same loss as step by step, within five standard errors (false alarms below 1e-5), and not that of doing
    nothing."""
    run = load_main(PAPERS / "kim-jung-2025" / "run.py").__globals__
    rng = np.random.default_rng(0)
    rows = np.array([run["kim_data"].draw("gaussian", 60, 5, rng) for _ in range(150)])

    def losses(**options):
        found = run["kim_baselines"].nsggd(rows, 7.0, 1e-5, rng, rate=3.0, **options)
        return np.array([run["sin_theta"](v, run["kim_data"].plane(5)) for v in found])

    together, apart, away = losses(), losses(rounds=None), losses(sign=-1.0)
    error = np.hypot(together.std(), apart.std()) / np.sqrt(150)
    assert abs(together.mean() - apart.mean()) < 5 * error
    assert away.mean() > together.mean() + 5 * error


def test_half_the_budget_of_kendall_is_noticed(monkeypatch):
    run = load_main(PAPERS / "kim-jung-2025" / "run.py").__globals__

    def differing():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotPrivateWarning)
            found = run["cell"]("gaussian", 10, 1000, (0.5,), range(12), False)
        records = {cell: kim_entries()[run["key_of"](cell)] for cell in found}
        wrong = [c for c, v in found.items() if abs(v.mean() - records[c]["mean"]) > run["allowed"](records[c], len(v))]
        return {cell[-1] for cell in wrong}

    assert differing() == set()
    honest = run["private"]
    monkeypatch.setitem(run, "private", lambda X, method, epsilon, seed: honest(X, method, epsilon / 2, seed))
    assert differing() >= {"spherical", "winsorized"}


def test_a_budget_that_is_not_the_stated_one_is_noticed_in_one_pass(tmp_path, monkeypatch):
    """Liu et al. 2022, one cell: with four times the stated ε the recorded errors are missed."""
    run = load_main(PAPERS / "liu-2022" / "run.py").__globals__
    monkeypatch.setitem(run, "QUICK", {"low-noise/sigma": (0.001,)})
    monkeypatch.setitem(run, "claims", lambda found: [])
    assert run["main"](True, tmp_path)
    monkeypatch.setitem(run, "EPSILON", 4 * run["EPSILON"])
    assert not run["main"](True, tmp_path)
