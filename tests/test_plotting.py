"""Displays: drawn from releases only, captioned, marked when seeded, readable."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError

from dpeigen import PrivateCovariance, PrivatePCA
from dpeigen.plotting import BiplotDisplay, ScreeDisplay, _spread
from dpeigen.sources import ArraySource

DISPLAYS = [ScreeDisplay, BiplotDisplay]
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
    assert len(heights) == 14
    line = next(other for other in axes.figure.axes if other is not axes).lines[0]
    shares = line.get_ydata()
    assert shares[-1] == pytest.approx(100)
    assert shares[0] == pytest.approx(100 * release.eigenvalues[0] / np.trace(release.covariance), rel=1e-6)


def test_biplot_labels_ten_arrows_over_synthetic_rows(fitted):
    axes = BiplotDisplay.from_estimator(fitted[2]).ax_
    labels = [text for text in texts(axes) if text.startswith("column")]
    assert 2 <= len(labels) <= 10
    assert [entry.get_text() for entry in axes.get_legend().get_texts()] == ["synthetic rows drawn from the release"]
    assert len(axes.collections[0].get_offsets()) == 400  # of 5000 rows: not the data


def test_biplot_labels_do_not_overlap():
    """Thirty columns that all load the same way: the worst case for labels."""
    rows = np.random.default_rng(0).normal(size=(5000, 1)) + 0.1 * np.random.default_rng(1).normal(size=(5000, 30))
    fit = PrivatePCA(2, epsilon=8.0, delta=1e-6, bound=12.0).fit(ArraySource(rows, [f"name {i}" for i in range(30)]))
    shown = BiplotDisplay.from_estimator(fit)
    shown.figure_.canvas.draw()
    boxes = [t.get_window_extent() for t in shown.ax_.texts if t.get_text().startswith("name")]
    assert len(boxes) == 10
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_one_component_is_a_bar_chart(fitted):
    axes = BiplotDisplay.from_estimator(fitted[1]).ax_
    widths = sorted(abs(bar.get_width()) for bar in axes.patches)
    np.testing.assert_allclose(widths, np.sort(np.abs(fitted[1].components_[0])))


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
