"""Releases of every kind to make cards of, with names of columns that try to be something else."""

import numpy as np
import pytest

from dpeigen import PrivateCovariance, PrivatePCA, PrivateRidge
from dpeigen.report import write_card
from dpeigen.sources import ArraySource

EVIL = [
    "<script>document.title='owned'</script>",
    "</style></svg><img src=x onerror=alert(1)>",
    "[click](javascript:alert(1)) ![x](https://example.org/x.png)",
    "a|b\n# heading\n- item",
    "$x^2$ \\frac{1}{",
    "**bold** _it_ `code` ~~gone~~ https://example.org www.example.org me@example.org",
    "\u202edesrever\x1b[31m",
    "温度 \" ' & &lt; &amp;",
    "n" * 300,
]


def rows(n, d):
    return np.random.default_rng(0).normal(size=(n, d)) * np.linspace(3, 1, d)


def make(kind):
    plain = [f"column {j}" for j in range(9)]
    few = ArraySource(rows(4000, 9), plain)
    budget = {"epsilon": 1.0, "delta": 1e-6}
    if kind == "covariance":
        return PrivateCovariance(bound=12.0, **budget).fit(few)
    if kind == "ridge":
        X = rows(4000, 9)
        return PrivateRidge("auto", method="gaussian", bound=12.0, **budget).fit(X, X @ np.linspace(-0.2, 0.2, 9))
    if kind == "scaled":
        table = np.random.default_rng(0).normal(size=(20_000, 4)) * [1e-3, 1.0, 1e5, 0.0] + [0, 7, 0, 1]
        table[:, 1] += 1e3 * table[:, 0]
        return PrivatePCA(2, scale="private", **budget).fit(ArraySource(table, ["mg", "kg", "count", "constant"]))
    if kind == "one":
        return PrivatePCA(1, epsilon=0.5, bound=12.0, relation="add_remove").fit(few)
    if kind == "spiked":
        return PrivatePCA(2, method="spiked", center=None, **budget).fit(few)
    if kind == "kendall":
        return PrivatePCA(2, method="kendall", **budget).fit(few)
    if kind == "wide":
        wide = np.random.default_rng(0).normal(size=(4000, 150))  # more columns than tables and intervals show
        wide[:, :12] *= np.linspace(12, 6, 12)
        return PrivatePCA(12, epsilon=50.0, delta=1e-6).fit(ArraySource(wide, [f"snp {j}" for j in range(150)]))
    if kind == "evil":
        return PrivatePCA(3, bound=12.0, random_state=0, **budget).fit(ArraySource(rows(4000, 9), EVIL))
    return PrivatePCA(2, bound=12.0, **budget).fit(few)


@pytest.fixture(scope="session")
def cards(tmp_path_factory):
    """(release, folder with its card) by kind, each made once."""
    made = {}

    def get(kind):
        if kind not in made:
            release = make(kind).release_
            folder = tmp_path_factory.mktemp("cards") / kind
            write_card(release, folder)
            made[kind] = (release, folder)
        return made[kind]

    return get
