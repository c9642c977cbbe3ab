"""``dpeigen demo``: two private releases of a public table, with everything a release carries.

The table is scikit-learn's breast cancer data, so no download is needed, and because it is public the demonstration may
do what one must not do with private rows: compare with the answer without privacy.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpeigen.cli._errors import one_line_errors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.console import Console

    from dpeigen.release import Release

    Floats = NDArray[np.float64]

# 569 rows are few. Accuracy depends on rows × ε, so a small table needs a large ε; the text printed says so.
PCA_BUDGET = (2.0, 1e-6)
COVARIANCE_BUDGET = (2.0, 1e-6)
COVARIANCE_COLUMNS = 10


def demo(out: Annotated[Path, typer.Option(help="Folder for the releases and the pictures.")] = Path("demo")) -> None:
    """Release a private PCA and a private covariance of a public table, and draw them."""
    with one_line_errors():
        from dpeigen import PrivateCovariance, PrivatePCA
        from dpeigen.cli import _show
        from dpeigen.datasets import load_breast_cancer
        from dpeigen.sources import ArraySource

        table = load_breast_cancer()
        if table.bounds is None:
            raise AssertionError("the demonstration needs public column bounds")
        lower, upper = table.bounds
        rows = (table.X - lower) / (upper - lower)
        names = list(table.feature_names)
        console = _show.console()
        _introduce(console, len(rows), len(names))

        epsilon, delta = PCA_BUDGET
        pca = PrivatePCA(2, epsilon=epsilon, delta=delta, bound=(0, 1)).fit(ArraySource(rows, names))
        _show.show_release(console, pca.release_, f"1. Two principal components of {len(names)} columns")
        console.print(_show.components_table(pca.release_))

        epsilon, delta = COVARIANCE_BUDGET
        few = ArraySource(rows[:, :COVARIANCE_COLUMNS], names[:COVARIANCE_COLUMNS])
        covariance = PrivateCovariance(epsilon=epsilon, delta=delta, bound=(0, 1)).fit(few)
        _show.show_release(console, covariance.release_, f"2. Covariance of the first {COVARIANCE_COLUMNS} columns")

        _compare(console, rows, pca.release_, covariance.release_)
        _total(console, pca.release_, covariance.release_)
        _write(console, out, pca.release_, covariance.release_)


def _introduce(console: Console, n: int, d: int) -> None:
    console.print(
        f"Breast cancer table of scikit-learn: {n} rows, {d} columns. Each column is rescaled to \\[0, 1] by public "
        "bounds, taken from the published description of the data and never from its rows. The noise is drawn "
        "from the operating system, so every run differs."
    )


def _compare(console: Console, rows: Floats, pca: Release, covariance: Release) -> None:
    """The errors, which only public data allow one to know."""
    import numpy as np

    from dpeigen.evaluation import captured_variance, relative_frobenius

    exact = np.cov(rows, rowvar=False, bias=True)
    part = exact[:COVARIANCE_COLUMNS, :COVARIANCE_COLUMNS]
    console.rule("[bold]How good are they?", align="left")
    captured, error = captured_variance(pca.components, exact), relative_frobenius(covariance.covariance, part)
    console.print(
        f"These rows are public, so we may look: the private plane holds {captured:.0%} of the variance that the best "
        f"plane holds, and the private covariance is off by {error:.0%} (Frobenius norm). Accuracy grows with "
        f"rows × ε, and {len(rows)} rows are few, hence ε = {pca.guarantee.epsilon:g} and "
        f"{covariance.guarantee.epsilon:g} here; a hundred times as many such rows do as well at a hundredth of it."
    )


def _total(console: Console, *releases: Release) -> None:
    from dpeigen.privacy import Budget, compose

    first, second = (Budget(r.guarantee.epsilon, r.guarantee.delta) for r in releases)
    total = first + second
    exact = compose([spend for r in releases for spend in r.guarantee.split], total.delta)
    console.rule("[bold]What both cost together", align="left")
    console.print(
        f"Both are about the same people, so their costs add up: ({first.epsilon:g}, {first.delta:g}) + "
        f"({second.epsilon:g}, {second.delta:g}) = ({total.epsilon:g}, {total.delta:g}). Composing the shares exactly "
        f"gives ε = {exact:.2f} at that δ."
    )


def _write(console: Console, out: Path, pca: Release, covariance: Release) -> None:
    from matplotlib.figure import Figure

    from dpeigen.plotting import BiplotDisplay, ScreeDisplay

    written = [pca.save(out / "pca", overwrite=True), covariance.save(out / "covariance", overwrite=True)]
    for name, display in (("scree.png", ScreeDisplay), ("biplot.png", BiplotDisplay)):
        figure = Figure(figsize=(7.5, 5.2), layout="constrained")
        display.from_release(pca, figure.subplots())
        figure.savefig(out / name, dpi=150)
        written.append(out / name)
    console.rule("[bold]Written", align="left")
    for path in written:
        console.print(f"  {path}", markup=False)
    console.print(f'Read a release back with dpeigen.load_release("{written[0]}").', markup=False)
