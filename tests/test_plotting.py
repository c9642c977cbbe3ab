"""Displays: drawn from releases only, captioned, marked when seeded, readable."""

import subprocess
import sys
from dataclasses import replace

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")
import itertools

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError

from dpeigen import Ledger, PrivateCovariance, PrivatePCA, PrivateScoreMap
from dpeigen.plotting import (
    BiplotDisplay,
    LedgerDisplay,
    LoadingsDisplay,
    PrivacyUtilityDisplay,
    ScoreMapDisplay,
    ScreeDisplay,
)
from dpeigen.plotting._biplot import _spread
from dpeigen.privacy import Budget
from dpeigen.sources import ArraySource

DISPLAYS = [ScreeDisplay, BiplotDisplay, LoadingsDisplay]
NAMES = [f"column {i}" for i in range(14)]


@pytest.fixture(scope="module")
def source():
    rows = np.random.default_rng(0).normal(size=(5000, 14)) * np.linspace(3, 0.5, 14)
    return ArraySource(rows, NAMES)


@pytest.fixture(scope="module")
def fitted(source):
    return {k: PrivatePCA(k, epsilon=2.0, delta=1e-6, bound=12.0).fit(source) for k in (1, 2, 5)}


@pytest.fixture(scope="module")
def seeded(source):
    return PrivatePCA(2, epsilon=2.0, bound=12.0, random_state=0).fit(source)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def texts(axes):
    return [t.get_text() for t in axes.texts] + [axes.get_title(loc="left")]


def lines(axes):
    """Texts without the line breaks that make them fit."""
    return [" ".join(text.split()) for text in texts(axes)]


@pytest.mark.parametrize("display", DISPLAYS)
@pytest.mark.parametrize("k", [1, 2, 5])
def test_new_figure_and_given_axes(display, k, fitted):
    shown = display.from_estimator(fitted[k])
    assert shown.ax_.figure is shown.figure_
    shown.figure_.canvas.draw()
    axes = Figure().subplots()
    assert display.from_release(fitted[k].release_, ax=axes).ax_ is axes
    assert display(fitted[k].release_).plot(axes).figure_ is axes.figure


@pytest.mark.parametrize("display", DISPLAYS)
def test_covariance_release(display, source):
    fit = PrivateCovariance(epsilon=2.0, bound=12.0, center="pairs").fit(source)
    assert fit.release_.mean is None
    display.from_estimator(fit).figure_.canvas.draw()


@pytest.mark.parametrize("display", DISPLAYS)
def test_a_single_column(display):
    fit = PrivatePCA(1, epsilon=2.0, bound=3.0).fit(np.random.default_rng(0).normal(size=(100, 1)))
    display.from_estimator(fit).figure_.canvas.draw()


@pytest.mark.parametrize("display", DISPLAYS)
def test_caption_and_mark(display, fitted, seeded):
    private, marked = (texts(display.from_estimator(e).ax_) for e in (fitted[2], seeded))
    assert any("(ε, δ) = (2, 1e-06), one row replaced" in text for text in private)
    assert not any("not private" in text for text in private)
    assert "seeded: not private" in marked


def test_scree_shows_the_released_variances(fitted):
    release = fitted[5].release_
    axes = ScreeDisplay.from_release(release).ax_
    heights = [bar.get_height() for bar in axes.patches]
    np.testing.assert_allclose(heights[:5], release.eigenvalues)
    assert len(heights) >= 12  # further axes were measured too
    low, high = release.intervals().eigenvalues
    whiskers = axes.collections[0].get_segments()
    np.testing.assert_allclose([[s[0][1], s[1][1]] for s in whiskers[:5]], np.column_stack([low, high]), rtol=1e-9)
    (right,) = axes.child_axes
    axes.figure.canvas.draw()
    share = right.get_ylim()[1] / axes.get_ylim()[1]
    assert share == pytest.approx(100 / np.trace(release.covariance), rel=1e-6)


def drawn_floors(axes):
    """The height of every short line, and of every circle."""
    (lines,) = [found for found in axes.collections if str(found.get_label()).startswith("noise floor")]
    (circles,) = [found for found in axes.lines if str(found.get_label()).startswith("as measured")]
    return np.array([line[0][1] for line in lines.get_segments()]), np.array(circles.get_ydata(), dtype=float)


@pytest.mark.parametrize("scale", [None, "private"])
@pytest.mark.parametrize("epsilon", [0.8, 20.0])
def test_a_circle_lies_above_its_line_exactly_if_the_bar_is_drawn_as_a_result(epsilon, scale):
    """Released components and the axes after them follow one rule, whatever was shrunk."""
    rows = np.random.default_rng(5).normal(size=(3000, 6)) * [2.5, 1.6, 1.2, 1, 1, 0.8]
    release = PrivatePCA(2, epsilon=epsilon, delta=1e-6, scale=scale, random_state=3).fit(rows).release_
    axes = ScreeDisplay.from_release(release).ax_
    axes.figure.canvas.draw()
    floors, measured = drawn_floors(axes)
    empty = [bar.get_facecolor()[3] == 0 for bar in axes.patches[:6]]
    assert len(measured) == 6
    assert [not value > floor for value, floor in zip(measured, floors, strict=False)] == empty[: len(floors)]
    assert len(floors) == 6 or not any(empty)  # only the last of all has no floor, where all others are clear
    np.testing.assert_allclose(measured[:2], release.measured_variances)
    assert (np.append(measured, floors) <= axes.get_ylim()[1]).all()
    assert any("the circle lies above the line" in text for text in texts(axes))


def test_a_scree_plot_has_no_axes_of_unknown_columns():
    """Seven columns of which one is constant have six principal axes that were measured."""
    rows = np.random.default_rng(5).normal(size=(3000, 7)) * [2.5, 1.6, 1.2, 1, 1, 0.8, 0]
    release = PrivatePCA(2, epsilon=4.0, delta=1e-6, scale="private", random_state=3).fit(rows).release_
    assert release.unknown_columns
    axes = ScreeDisplay.from_release(release).ax_
    assert len([bar for bar in axes.patches if bar.get_x() > 0]) == 6
    assert np.isfinite(list(axes.collections[0].get_segments())).all()


def test_a_biplot_has_no_cross_over_the_whole_picture(monkeypatch, source):
    """A column whose variance is too uncertain may have any loading: it has no arrow, no cross and no label."""
    release = PrivatePCA(2, epsilon=4.0, delta=1e-6, scale=np.ones(14), random_state=4).fit(source).release_
    whole = BiplotDisplay.from_release(release).ax_
    assert any("column 0" in text for text in texts(whole))
    found = release.usual_intervals
    known, (low, high) = np.arange(14) > 0, found.components
    monkeypatch.setitem(vars(found), "known", known)
    monkeypatch.setitem(vars(found), "components", (np.where(known, low, -1.0), np.where(known, high, 1.0)))
    axes = BiplotDisplay.from_release(release).ax_
    assert not any("column 0" in text for text in texts(axes))
    assert "not known: 1" in axes.get_title(loc="left")
    assert len(axes.texts) == len(whole.texts) - 2  # an arrow and a label
    crosses = [part for lines in axes.collections[1:] for part in lines.get_segments()]
    assert max(np.ptp(part, axis=0).max() for part in crosses) < np.ptp(axes.get_xlim()) / 3


def test_a_release_that_holds_no_moment_has_one_dashed_floor(source):
    """As files of older versions."""
    gaussian = PrivatePCA(2, method="gaussian", bound=12.0, epsilon=2.0, delta=1e-6).fit(source)
    release = replace(gaussian.release_, measured=None)
    axes = ScreeDisplay.from_release(release).ax_
    (floor,) = [line for line in axes.lines if line.get_label().startswith("noise floor")]
    assert floor.get_ydata()[0] == release.noise_floor.value
    assert not any(str(line.get_label()).startswith("as measured") for line in axes.lines)


def test_a_scree_plot_has_no_bars_for_what_was_never_measured(source):
    """`oja` releases two components and measures nothing of the other twelve axes."""
    release = PrivatePCA(2, method="oja", epsilon=2.0, delta=1e-6, bound=12.0).fit(source).release_
    assert release.usual_intervals is None
    axes = ScreeDisplay.from_release(release).ax_
    assert len(axes.patches) == 2
    assert any("no intervals" in text for text in texts(axes))


@pytest.fixture(scope="module")
def noise():
    """Too few rows: no component stands out."""
    rows = np.random.default_rng(3).normal(size=(60, 4))
    release = PrivatePCA(2, epsilon=0.5, delta=1e-6, bound=5.0, random_state=0).fit(rows).release_
    assert release.resolved == 0
    return release


@pytest.mark.parametrize("display", [BiplotDisplay, LoadingsDisplay])
def test_noise_is_never_drawn_as_loadings(noise, fitted, display):
    axes = display.from_release(noise).ax_
    assert not axes.patches
    assert not axes.collections
    assert any("not distinguishable from noise" in text for text in texts(axes))
    assert not any("not distinguishable" in text for text in texts(display.from_release(fitted[2].release_).ax_))


def test_variances_that_are_noise_are_hollow_and_called_so(noise, fitted):
    axes = ScreeDisplay.from_release(noise).ax_
    assert all(bar.get_facecolor()[3] == 0 for bar in axes.patches)
    assert "not distinguishable from noise" in [text.get_text() for text in axes.get_legend().get_texts()]
    clear = ScreeDisplay.from_release(fitted[2].release_).ax_
    assert all(bar.get_facecolor()[3] == 1 for bar in clear.patches[:2])


def test_loadings_have_whiskers_and_no_bar_where_the_sign_is_not_known(fitted):
    release = fitted[2].release_
    axes = LoadingsDisplay.from_release(release, component=1).ax_
    low, high = (side[1] for side in release.intervals().components)
    order = [int(label.get_text().split()[1]) for label in axes.get_yticklabels()]
    segments = axes.collections[0].get_segments()
    np.testing.assert_allclose([[s[0][0], s[1][0]] for s in segments], np.column_stack([low, high])[order], atol=1e-12)
    widths = np.array([bar.get_width() for bar in axes.patches])
    unclear = ((low <= 0) & (high >= 0))[order]
    assert unclear.any()
    assert (widths[unclear] == 0).all()
    np.testing.assert_allclose(widths[~unclear], release.components[1][order][~unclear])
    with pytest.raises(ValueError, match="'component'"):
        LoadingsDisplay(release, component=2)


def test_colours_follow_a_dark_background(fitted, mapped):
    import matplotlib.pyplot as plt

    def contrast(colour, face):
        def light(c):
            c = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in c[:3]]
            return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]

        dark, bright = sorted((light(colour), light(face)))
        return (bright + 0.05) / (dark + 0.05)

    for style in ("default", "dark_background"):
        with plt.style.context(style):
            ScoreMapDisplay.from_map(mapped["centroids"].map_).figure_.canvas.draw()
            axes = LoadingsDisplay.from_estimator(fitted[2]).ax_
            face = matplotlib.colors.to_rgb(axes.get_facecolor())
            inks = [c for part in axes.collections for c in part.get_colors()]
            inks += [matplotlib.colors.to_rgb(text.get_color()) for text in axes.texts]
            assert min(contrast(ink, face) for ink in inks) >= 4.5
            bars = [bar.get_facecolor() for bar in axes.patches]
            assert min(contrast(bar, face) for bar in bars) >= 2  # orange on white


def test_biplot_labels_ten_arrows_over_synthetic_rows(fitted):
    axes = BiplotDisplay.from_estimator(fitted[2]).ax_
    labels = [text for text in texts(axes) if text.startswith("column")]
    assert 2 <= len(labels) <= 10
    assert any("points: synthetic rows drawn from the release" in text for text in lines(axes))
    assert len(axes.collections[0].get_offsets()) == 400  # of 5000 rows: not the data


def test_biplot_labels_do_not_overlap():
    """Thirty columns that load alike on component 1, the worst case for labels, and a second one beside it."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(5000, 2)) * [1.0, 0.3]
    rows = factors @ np.vstack([np.ones(30), np.linspace(-1, 1, 30)]) + 0.05 * rng.normal(size=(5000, 30))
    fit = PrivatePCA(2, epsilon=8.0, delta=1e-6, bound=12.0).fit(ArraySource(rows, [f"name {i}" for i in range(30)]))
    shown = BiplotDisplay.from_estimator(fit)
    shown.figure_.canvas.draw()
    boxes = [t.get_window_extent() for t in shown.ax_.texts if t.get_text().startswith("name")]
    assert len(boxes) == 10
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_one_component_is_a_bar_chart(fitted):
    axes = BiplotDisplay.from_estimator(fitted[1]).ax_
    found = fitted[1].release_.intervals()
    low, high = (side[0] for side in found.components)
    shown = np.where((low > 0) | (high < 0), fitted[1].components_[0], 0.0)[found.known]
    np.testing.assert_allclose(np.sort([bar.get_width() for bar in axes.patches]), np.sort(shown))


@pytest.mark.parametrize("display", DISPLAYS)
def test_rows_and_unfitted_estimators_are_refused(display):
    with pytest.raises(TypeError, match=r"must be a Release\. Got an object of type ndarray"):
        display.from_release(np.eye(3))
    with pytest.raises(NotFittedError):
        display.from_estimator(PrivatePCA(2, epsilon=1.0))


@pytest.mark.parametrize("seed", range(20))
def test_spread_keeps_order_gaps_and_edges(seed):
    heights = np.sort(np.random.default_rng(seed).uniform(-1.2, 1.2, size=seed + 1))
    placed = _spread(heights, gap=0.15, edge=0.95)
    assert (np.diff(placed) >= min(0.15, 1.9 / max(1, seed)) - 1e-9).all()
    assert np.abs(placed).max() <= 0.95 + 1e-9


def test_matplotlib_is_loaded_late():
    code = "import sys, dpeigen.plotting; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- score maps, results, ledgers -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mapped():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, size=4000)
    rows = rng.normal(size=(4000, 5)) * 0.7
    rows[:, :2] += np.array([[3, 0], [-3, 0], [0, 3]])[y]
    release = PrivatePCA(2, epsilon=2.0, delta=1e-6, bound=6.0).fit(ArraySource(rows, list("abcde"))).release_
    labels = [0, 1, 2, 7]
    return {
        kind: PrivateScoreMap(release, epsilon=2.0, labels=labels, by_class=kind, random_state=1).fit(rows, y)
        for kind in ("centroids", "density")
    }


def test_names_in_a_biplot_differ_and_ticks_do_not_touch():
    rows = np.random.default_rng(1).normal(size=(20_000, 4)) * [5, 4, 1, 1]
    rows[:, 2] += rows[:, 0]
    names = ["Geschlecht = weiblich", "Geschlecht = männlich", "age", "height"]
    release = PrivatePCA(2, epsilon=4.0, delta=1e-6).fit(ArraySource(rows, names)).release_
    figure = Figure(figsize=(4.6, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = BiplotDisplay.from_release(release, ax=figure.subplots()).ax_
    figure.canvas.draw()
    cut = [text for text in texts(axes) if text.startswith("Ge") and "…" in text]
    assert len(cut) == len({*cut}) == 2
    ends = [label.get_window_extent() for label in axes.get_xticklabels()]
    assert len(ends) >= 3
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(ends))


@pytest.mark.parametrize("kind", ["centroids", "density"])
def test_score_map_beside_its_components(mapped, kind):
    shown = ScoreMapDisplay.from_estimator(mapped[kind])
    shown.figure_.canvas.draw()
    names = lines(shown.ax_)
    assert names[:3] == ["0", "1", "2"]  # 7 holds nobody and does not stand out
    assert "1 of 4 labels" in shown.ax_.get_title(loc="left")
    assert any("with the release of the axes: (ε, δ) = (4, " in name for name in names)
    titles = [axes.get_title(loc="left") for axes in shown.figure_.axes]
    assert "Loadings" in titles
    axes = Figure().subplots()
    assert ScoreMapDisplay.from_map(mapped[kind].map_, ax=axes).ax_ is axes
    assert bool(axes.collections) == (kind == "density") or kind == "centroids"


def test_titles_and_labels_of_a_map_fit_the_figure():
    rows = np.random.default_rng(2).normal(size=(4000, 16))
    rows[:, :8] += 2 * np.random.default_rng(3).normal(size=(4000, 1))
    release = (
        PrivatePCA(2, epsilon=4.0, delta=1e-6, scale="private").fit(ArraySource(rows, [*NAMES, "y", "z"])).release_
    )
    shown = ScoreMapDisplay.from_estimator(PrivateScoreMap(release, epsilon=2.0).fit(rows))
    shown.figure_.canvas.draw()
    said = []
    for axes in shown.figure_.axes:
        for text in (axes._left_title, axes.xaxis.label):
            assert text.get_window_extent().x1 <= shown.figure_.bbox.x1
            said.append(text.get_text())
    assert any("4 smaller left out" in text for text in said)


def loading_bars(shown):
    axes = next(axes for axes in shown.figure_.axes if axes.get_title(loc="left").startswith("Loadings"))
    return axes, [bar.get_width() for bar in axes.patches if bar.get_height() < 0.5]


def test_loadings_beside_a_map_have_whiskers_and_noise_has_no_bars(mapped):
    from dataclasses import replace

    found = mapped["centroids"].map_
    axes, bars = loading_bars(ScoreMapDisplay.from_map(found))
    low, high = found.loading_intervals
    wanted = np.where((low > 0) | (high < 0), found.components, 0.0)
    np.testing.assert_allclose(np.sort(bars), np.sort(wanted, axis=None))
    assert len(axes.collections) > 0  # the whiskers
    noisy = replace(found, facts={**found.facts, "told_from_noise": [True, False]})
    axes, bars = loading_bars(ScoreMapDisplay.from_map(noisy))
    np.testing.assert_allclose(np.sort(bars), np.sort(wanted[0]))
    named = [text.get_text() for text in axes.get_legend().get_texts()]
    assert "component 2: not distinguishable from noise" in named
    older = {k: v for k, v in found.facts.items() if k not in ("loading_intervals", "told_from_noise", "column_labels")}
    axes, bars = loading_bars(ScoreMapDisplay.from_map(replace(found, facts=older)))
    np.testing.assert_allclose(np.sort(bars), np.sort(found.components, axis=None))
    assert "no intervals" in axes.get_xlabel()


@pytest.mark.parametrize(
    "facts", [{"loading_intervals": [[0.0]]}, {"told_from_noise": [True]}, {"column_labels": ["a"]}]
)
def test_a_map_whose_facts_do_not_fit_is_refused(mapped, facts):
    from dataclasses import replace

    found = mapped["centroids"].map_
    with pytest.raises(ValueError, match="do not fit together"):
        replace(found, facts={**found.facts, **facts})


@pytest.mark.filterwarnings("error:constrained_layout not applied")
@pytest.mark.parametrize("display", DISPLAYS)
@pytest.mark.parametrize("width", [4.7, 7.5])
def test_long_names_leave_room_for_the_picture(fitted, display, width):
    """Long names of columns and of the unit: the axes keep a third of the width, and no text leaves the figure."""
    from dataclasses import replace

    release = fitted[2].release_
    names = [f"a measurement with a long name and the number {j}" for j in range(14)]
    guarantee = replace(release.guarantee, unit="identifier_of_the_patient_in_the_hospital_information_system")
    long = replace(release, guarantee=guarantee, facts={**release.facts, "feature_names": names})
    figure = Figure(figsize=(width, 4.6), layout="constrained")
    axes = figure.subplots()
    display.from_release(long, axes)
    FigureCanvasAgg(figure).draw()  # which a figure's own canvas does not
    assert axes.get_position().width > 1 / 3
    whole = figure.bbox
    boxes = [text.get_window_extent() for text in [*axes.texts, *axes.get_yticklabels()] if text.get_text()]
    assert min(box.x0 for box in boxes) >= whole.x0 - 4
    assert max(box.x1 for box in boxes) <= whole.x1 + 4
    shown = [t.get_text() for t in [*axes.texts, *axes.get_yticklabels()] if "…" in t.get_text()]
    assert len(set(shown)) == len(shown)  # names that differ at their ends still do


def test_columns_of_which_nothing_is_known_are_not_named_beside_arrows():
    rows = np.random.default_rng(0).normal(size=(20_000, 4)) * [1e-3, 1.0, 1e5, 0.0] + [0, 7, 0, 1]
    rows[:, 1] += 1e3 * rows[:, 0]
    fit = PrivatePCA(2, epsilon=1.0, delta=1e-6, scale="private").fit(rows)  # of the last column nothing is known
    axes = BiplotDisplay.from_estimator(fit).ax_
    assert {"x0", "x1", "x2"} <= set(lines(axes))
    assert "x3" not in lines(axes)


def test_one_loading_that_is_left_out_is_one(source):
    rows = np.random.default_rng(0).normal(size=(3000, 16)) * np.linspace(3, 0.5, 16)
    shown = LoadingsDisplay.from_estimator(PrivatePCA(1, epsilon=4.0, delta=1e-6, bound=12.0).fit(rows))
    assert shown.ax_.get_xlabel().endswith("; 1 smaller one left out")


def test_no_share_of_the_variance_is_above_100_percent():
    rows = np.random.default_rng(0).normal(size=(2000, 3)) * [5, 0.1, 0.1]
    shown = ScreeDisplay.from_estimator(PrivatePCA(1, epsilon=1.0, delta=1e-6, bound=20.0).fit(rows))
    shown.figure_.canvas.draw()
    right = next(child for child in shown.ax_.child_axes if "share" in child.get_ylabel())
    assert max(right.get_yticks()) <= 100


def test_a_seeded_map_is_marked(mapped):
    release = mapped["density"].release
    rows = np.random.default_rng(0).normal(size=(500, 5))
    one = PrivateScoreMap(release, epsilon=1.0, random_state=0).fit(rows)
    assert "seeded: not private" in [text.get_text() for text in ScoreMapDisplay.from_estimator(one).ax_.texts]
    with pytest.raises(TypeError, match="must be a ScoreMap"):
        ScoreMapDisplay.from_map(rows)
    with pytest.raises(NotFittedError):
        ScoreMapDisplay.from_estimator(PrivateScoreMap(release, epsilon=1.0))


RESULTS = [
    {"method": m, "epsilon": e, "error": (1 + r) / e / f}
    for m, f in (("one", 1), ("two", 2))
    for e in (0.1, 1.0, 10.0)
    for r in range(5)
]


@pytest.mark.parametrize("form", ["lines", "columns", "pandas", "arrow"])
def test_privacy_utility_takes_tidy_results(form):
    results = RESULTS
    if form == "columns":
        results = {name: [line[name] for line in RESULTS] for name in RESULTS[0]}
    elif form == "pandas":
        results = pytest.importorskip("pandas").DataFrame(RESULTS)
    elif form == "arrow":
        results = pytest.importorskip("pyarrow").Table.from_pylist(RESULTS)
    shown = PrivacyUtilityDisplay.from_results(results)
    shown.figure_.canvas.draw()
    assert [text.get_text() for text in shown.ax_.get_legend().get_texts()] == ["one", "two"]
    np.testing.assert_allclose(shown.ax_.lines[0].get_ydata(), [30, 3, 0.3])
    np.testing.assert_allclose(shown.curves["two"][3], [23, 2.3, 0.23])


def test_privacy_utility_of_an_estimator():
    rows = np.random.default_rng(0).normal(size=(300, 3))
    estimator = PrivatePCA(2, epsilon=1.0, bound=4.0, center=None, method="matrix-laplace")
    shown = PrivacyUtilityDisplay.from_estimator(estimator, rows, epsilons=(0.5, 50.0), runs=3)
    x, _, middle, _ = next(iter(shown.curves.values()))
    assert x.tolist() == [0.5, 50.0]
    assert middle[1] < middle[0]
    estimator.set_params(ledger="l")
    with pytest.raises(ValueError, match="ledger"):
        PrivacyUtilityDisplay.from_estimator(estimator, rows, epsilons=(1.0,))


@pytest.mark.parametrize("results", [[], [{"method": "a"}], {"epsilon": [1.0]}, 3])
def test_other_results_are_refused(results):
    with pytest.raises(ValueError, match="results"):
        PrivacyUtilityDisplay.from_results(results)


def test_ledger_timeline(tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=2.0, delta=1e-5)
    empty = LedgerDisplay.from_ledger(tmp_path / "l")
    assert LedgerDisplay.from_ledger(str(tmp_path / "l")).history == []
    assert "0 of ε = 2" in empty.ax_.get_title(loc="left")
    first, second = (ledger.reserve(Budget(e, 1e-6), w) for e, w in ((0.5, "first"), (0.75, "second")))
    ledger.commit(first)
    ledger.cancel(second)
    ledger.reserve(Budget(0.25), "third")
    shown = LedgerDisplay.from_estimator(PrivatePCA(1, epsilon=1.0, ledger=ledger))
    shown.figure_.canvas.draw()
    assert "0.75 of ε = 2 spent" in shown.ax_.get_title(loc="left")
    lefts = [round(bar.get_x(), 6) for bar in shown.ax_.patches]
    assert lefts == [0.0, 0.5, 0.5, 0.75]  # the cancelled one moves nothing
    labels = [label.get_text() for label in shown.ax_.get_yticklabels()]
    assert [label.split("  ")[-1] for label in labels] == ["first", "second", "third", "left"]
    with pytest.raises(TypeError, match="Ledger"):
        LedgerDisplay.from_ledger(np.eye(2))
    with pytest.raises(ValueError, match="ledger"):
        LedgerDisplay.from_estimator(PrivatePCA(1, epsilon=1.0))


def test_a_long_ledger_shows_its_end(tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=10.0)
    for number in range(45):
        ledger.commit(ledger.reserve(Budget(0.1), f"release {number}"))
    shown = LedgerDisplay.from_ledger(ledger)
    assert len(shown.ax_.patches) == 41
    assert shown.ax_.patches[0].get_x() == pytest.approx(0.5)
    assert "4.5 of ε = 10" in shown.ax_.get_title(loc="left")


def test_names_are_never_read_as_formulas(source, tmp_path):
    odd = r"$\frac{$"
    rows = ArraySource(np.random.default_rng(0).normal(size=(800, 3)), [odd, "$x$", "b"])
    budget = {"epsilon": 5.0, "delta": 1e-6, "bound": 5.0, "random_state": 0}
    release, single = (PrivatePCA(k, method="gaussian", **budget).fit(rows).release_ for k in (2, 1))
    labels = {"labels": [odd, "$y$"], "by_class": "density"}
    found = PrivateScoreMap(release, epsilon=50.0, random_state=0, **labels).fit(rows, [odd, "$y$"] * 400).map_
    results = [{"method": odd, "epsilon": float(e), "error": 1.0 / e} for e in range(1, 12)]
    ledger = Ledger.create(tmp_path / "l", epsilon=1.0)
    ledger.commit(ledger.reserve(Budget(0.5), odd))
    for display in (
        ScreeDisplay.from_release(release),
        BiplotDisplay.from_release(release),
        BiplotDisplay.from_release(single),
        ScoreMapDisplay.from_map(found),
        PrivacyUtilityDisplay.from_results(results),
        LedgerDisplay.from_ledger(ledger),
    ):
        display.figure_.savefig(tmp_path / "picture.svg")
