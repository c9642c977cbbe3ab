"""``dpeigen demo``: a guided tour, in less than a minute, of what a release is and what can be done with one.

The table is scikit-learn's breast cancer data, so no download is needed, and because it is public the tour may do what
one must not do with private rows: compare with the answer without privacy. The tour is a list of `STEPS`; each takes
the `Tour`, prints, and adds what it released and wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpeigen.cli._errors import one_line_errors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.console import Console

    from dpeigen.privacy.ledger import Ledger
    from dpeigen.release import Release
    from dpeigen.score_map import ScoreMap
    from dpeigen.sources import ArraySource

    Floats = NDArray[np.float64]

__all__ = [
    "COVARIANCE_BUDGET",
    "COVARIANCE_COLUMNS",
    "LABELS",
    "LEDGER_BUDGET",
    "LOCAL_COLUMNS",
    "LOCAL_EPSILON",
    "LOCAL_PEOPLE",
    "MAP_EPSILON",
    "PCA_BUDGET",
    "STEPS",
    "Tour",
    "card",
    "compare",
    "components",
    "covariance",
    "demo",
    "files",
    "introduce",
    "ledger",
    "local_collection",
    "plan",
    "regressions",
    "score_map",
    "total",
]

# 569 rows are few. Accuracy depends on rows × ε, so a small table needs a large ε; the text printed says so.
PCA_BUDGET = (2.0, 1e-6)
COVARIANCE_BUDGET = (2.0, 1e-6)
MAP_EPSILON = 1.0
LEDGER_BUDGET = (6.0, 1e-5)
COVARIANCE_COLUMNS = 10
LABELS = ("malignant", "benign")
LOCAL_EPSILON = 4.0
LOCAL_COLUMNS = 3
LOCAL_PEOPLE = 3000


@dataclass
class Tour:
    """State that the steps share."""

    console: Console
    out: Path
    rows: Floats
    names: list[str]
    target: Any
    ledger: Ledger
    releases: dict[str, Release | ScoreMap] = field(default_factory=dict)
    written: list[Path] = field(default_factory=list)

    def source(self, columns: int | None = None) -> ArraySource:
        """The first columns as a source with names."""
        from dpeigen.sources import ArraySource

        return ArraySource(self.rows[:, :columns], self.names[:columns])

    def rule(self, title: str) -> None:
        self.console.rule(f"[bold]{title}", align="left")

    def say(self, text: str) -> None:
        self.console.print(text, markup=False)

    def draw(self, name: str, display: Any) -> None:
        """Write a picture without a window."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=display._size, layout="constrained")
        display.plot(display.axes_on(figure) if hasattr(display, "axes_on") else figure.subplots())
        self.out.mkdir(parents=True, exist_ok=True)
        figure.savefig(self.out / name, dpi=150)
        self.written.append(self.out / name)


def demo(out: Annotated[Path, typer.Option(help="Folder for the releases and the pictures.")] = Path("demo")) -> None:
    """A guided tour: a plan, components, covariance, regressions, a map and local reports of a public table."""
    with one_line_errors():
        from dpeigen.cli import _show
        from dpeigen.datasets import load_breast_cancer

        table = load_breast_cancer()
        if table.bounds is None or table.target is None:
            raise AssertionError("the tour needs public column bounds and labels")
        lower, upper = table.bounds
        rows = (table.X - lower) / (upper - lower)
        tour = Tour(_show.console(), out, rows, list(table.feature_names), table.target, _ledger(out))
        for step in STEPS:
            step(tour)


def _ledger(out: Path) -> Ledger:
    """A new ledger for this run: the table is public, so replacing the ledger of the last run harms nobody."""
    from dpeigen import Ledger

    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("demo.ledger*"):
        old.unlink()
    return Ledger.create(out / "demo.ledger", epsilon=LEDGER_BUDGET[0], delta=LEDGER_BUDGET[1])


def introduce(tour: Tour) -> None:
    n, d = tour.rows.shape
    tour.say(
        f"Breast cancer table of scikit-learn: {n} rows, {d} columns. Each column is rescaled to [0, 1] by public "
        "bounds, taken from the published description of the data and never from its rows. The noise is drawn "
        "from the operating system, so every run differs."
    )


def plan(tour: Tour) -> None:
    """Before anything is spent; from public facts, so it costs nothing."""
    from dpeigen import planner

    (n, d), (epsilon, delta) = tour.rows.shape, PCA_BUDGET
    found = planner.plan(n, d, 2, epsilon=epsilon, delta=delta)
    tour.rule("Before anything is spent: what to expect")
    tour.say(f"Predicted errors (sinΘ) of two components of {n} rows × {d} columns at ({epsilon:g}, {delta:g}):")
    for p in found.predictions:
        tour.say(f"  {p.method:14} {p.error:.2f}, in 90% of runs {p.low:.2f} to {p.high:.2f}")
    tour.say(
        f"Without privacy {found.floor:.2f}. The plan assumes two variances eleven times the others; it read no row. "
        "'dpeigen plan' also says which ε, or how many rows, reach a given error."
    )


def components(tour: Tour) -> None:
    from dpeigen import PrivatePCA
    from dpeigen.cli import _show
    from dpeigen.plotting import BiplotDisplay, ScreeDisplay

    epsilon, delta = PCA_BUDGET
    release = PrivatePCA(2, epsilon=epsilon, delta=delta, bound=(0, 1), ledger=tour.ledger).fit(tour.source()).release_
    _show.show_release(tour.console, release, f"1. Two principal components of {len(tour.names)} columns")
    tour.console.print(_show.components_table(release))
    tour.releases["pca"] = release
    tour.written.append(release.save(tour.out / "pca", overwrite=True))
    tour.draw("scree.png", ScreeDisplay(release))
    tour.draw("biplot.png", BiplotDisplay(release))


def covariance(tour: Tour) -> None:
    from dpeigen import PrivateCovariance
    from dpeigen.cli import _show

    epsilon, delta = COVARIANCE_BUDGET
    estimator = PrivateCovariance(epsilon=epsilon, delta=delta, bound=(0, 1), ledger=tour.ledger)
    release = estimator.fit(tour.source(COVARIANCE_COLUMNS)).release_
    _show.show_release(tour.console, release, f"2. Covariance of the first {COVARIANCE_COLUMNS} columns")
    tour.releases["covariance"] = release
    tour.written.append(release.save(tour.out / "covariance", overwrite=True))


def regressions(tour: Tour) -> None:
    """Post-processing of the covariance."""
    release: Any = tour.releases["covariance"]
    tour.rule("3. Regressions from that covariance, at no further cost")
    for target, features in (
        ("mean perimeter", ["mean radius", "mean texture"]),
        ("mean concavity", ["mean compactness", "mean smoothness"]),
    ):
        fit = release.ridge(target, alpha="auto", features=features)
        terms = " ".join(f"{c:+.2f} × {name}" for c, name in zip(fit.coef, fit.feature_names, strict=True))
        tour.say(f"{target} ≈ {fit.intercept:.2f} {terms}")


def score_map(tour: Tour) -> None:
    from dpeigen import PrivateScoreMap
    from dpeigen.plotting import ScoreMapDisplay

    plane: Any = tour.releases["pca"]
    labels = [LABELS[int(value)] for value in tour.target]
    estimator = PrivateScoreMap(plane, epsilon=MAP_EPSILON, labels=list(LABELS), ledger=tour.ledger)
    found = estimator.fit(tour.source(), labels).map_
    tour.rule("4. A map of the rows, which may be published")
    tour.say(
        f"A private density of the scores, ε = {MAP_EPSILON:g} on top of the components. Its labels, "
        f"{' and '.join(LABELS)}, are a public list; their centres:"
    )
    centroids = found.centroids()
    for name, (x, y), (dx, dy) in zip(centroids.labels, centroids.points, centroids.errors, strict=True):
        tour.say(f"  {name:10s} ({x:+.2f} ± {dx:.2f}, {y:+.2f} ± {dy:.2f})")
    tour.releases["map"] = found
    tour.written.append(found.save(tour.out / "map", overwrite=True))
    tour.draw("map.png", ScoreMapDisplay(found))


def local_collection(tour: Tour) -> None:
    """Reports of made-up people: real ones would have to pay again."""
    from dpeigen.local import LocalAggregator, LocalRandomizer

    plane: Any = tour.releases["pca"]
    people = 2 * (plane.sample(LOCAL_PEOPLE)[:, :LOCAL_COLUMNS] - plane.mean[:LOCAL_COLUMNS])
    client = LocalRandomizer(LOCAL_COLUMNS, epsilon=LOCAL_EPSILON, delta=0.0, bound=1.0)
    server = LocalAggregator(client)
    server.add_many(client.report(row) for row in people)
    found = server.pca(1).components[0]
    tour.rule("5. If nobody is trusted with the rows")
    loadings = ", ".join(f"{c:+.2f} {n}" for c, n in zip(found, tour.names[:LOCAL_COLUMNS], strict=True))
    tour.say(
        f"{LOCAL_PEOPLE} made-up people, drawn from the first release at no cost, each randomise their own "
        f"{LOCAL_COLUMNS} numbers at ε = {LOCAL_EPSILON:g} and send {len(client.report(people[0]))} bytes. The first "
        f"component of their reports: {loadings}. Without a trusted curator, noise falls as 1/√n, not as 1/n."
    )


def compare(tour: Tour) -> None:
    """The errors, which only public data allow one to know."""
    import numpy as np

    from dpeigen.evaluation import captured_variance, relative_frobenius

    pca: Any = tour.releases["pca"]
    private: Any = tour.releases["covariance"]
    exact = np.cov(tour.rows, rowvar=False, bias=True)
    part = exact[:COVARIANCE_COLUMNS, :COVARIANCE_COLUMNS]
    captured, error = captured_variance(pca.components, exact), relative_frobenius(private.covariance, part)
    tour.rule("How good are they?")
    tour.say(
        f"These rows are public, so we may compare: the private components capture {captured:.0%} of the variance that "
        f"the best two capture, and the private covariance is off by {error:.0%} (Frobenius norm). Accuracy grows with "
        f"rows × ε. {len(tour.rows)} rows are few, hence ε = {PCA_BUDGET[0]:g} and {COVARIANCE_BUDGET[0]:g} here. "
        "A hundred times as many such rows reach the same accuracy at a hundredth of this ε."
    )


def total(tour: Tour) -> None:
    from functools import reduce
    from operator import add

    from dpeigen.privacy import Budget, compose

    guarantees = [release.guarantee for release in tour.releases.values()]
    budgets = [Budget(g.epsilon, g.delta) for g in guarantees]
    whole = reduce(add, budgets)
    exact = compose([spend for g in guarantees for spend in g.split], whole.delta)
    terms = " + ".join(f"({b.epsilon:g}, {b.delta:g})" for b in budgets)
    tour.rule("What all of it cost together")
    tour.say(
        f"All releases are about the same people, so their costs add up: {terms} = "
        f"({whole.epsilon:g}, {whole.delta:g}). "
        f"Composing the shares exactly gives ε = {exact:.2f} at that δ."
    )


def ledger(tour: Tour) -> None:
    tour.rule("What the ledger says")
    for entry in tour.ledger.history():
        tour.say(f"  {entry['what']}: ({entry['epsilon']:g}, {entry['delta']:g}), {entry['state']}")
    left = tour.ledger.remaining()
    tour.say(
        f"Its cap is ({LEDGER_BUDGET[0]:g}, {LEDGER_BUDGET[1]:g}), and ε = {0 if left is None else left.epsilon:.2f} "
        "is left. A release that would exceed the cap is refused before a row is read. 'dpeigen ledger verify' finds "
        "edits."
    )


def card(tour: Tour) -> None:
    from dpeigen.report import write_card

    plane: Any = tour.releases["pca"]
    write_card(plane, tour.out / "pca")
    tour.written.append(tour.out / "pca" / "card.html")


def files(tour: Tour) -> None:
    tour.rule("Written")
    for path in tour.written:
        tour.say(f"  {path}")
    tour.say(f'Read a release back with dpeigen.load_release("{tour.out / "pca"}").')


STEPS: tuple[Callable[[Tour], None], ...] = (
    introduce,
    plan,
    components,
    covariance,
    regressions,
    score_map,
    local_collection,
    compare,
    total,
    ledger,
    card,
    files,
)
