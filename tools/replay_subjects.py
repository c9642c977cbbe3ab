"""Whom the replay test is done to: every method and its variants, under every bound, centre, relation and source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from replay_kit import Promise, stated
from replay_tables import (
    SOURCES,
    Neighbours,
    holey_neighbours,
    holey_people,
    model_neighbours,
    neighbours,
    one_holey_person_less,
    one_person_less,
    people_neighbours,
)

from dpeigen import PrivateCovariance, PrivatePCA, PrivateRidge, PrivateScoreMap
from dpeigen.methods import (
    DPPCA,
    METHODS,
    Gaussian,
    Geodesic,
    Kendall,
    Laplace,
    Oja,
    Refined,
    SpatialSign,
    Spiked,
    Whitened,
    private_mean,
    private_top_eigenvalue,
)
from dpeigen.methods.sampling.eigenvector_sampling import EigenvectorSampling
from dpeigen.papers import OjaPrinted
from dpeigen.privacy import ApproximateCost, Budget, Guarantee, Relation, Spend
from dpeigen.release import Release

Generator = np.random.Generator
BOUNDS = ("none", "radius", "box", "private")
CENTERS = ("none", "array", "private", "pairs")
RELATIONS = ("replace", "add_remove")
DELTAS = (0.0, 1e-5)
REPLACE, APPROXIMATE = RELATIONS[:1], DELTAS[1:]
_GIVEN = BOUNDS[1:]
_FEW, _MANY = (2, 3, 5, 40, 700), (700,)
_LARGE = (1.0, 8.0, 30.0, 100.0, 1000.0)  # from 30 on `methods.large` asks other questions


@dataclass(frozen=True)
class Setting:
    """The public facts of one pair of fits."""

    bound: str
    center: str
    relation: str
    delta: float
    epsilon: float
    source: str
    d: int
    k: int
    whole: bool  # a covariance, or a few components

    def options(self, d: int | None = None) -> dict[str, Any]:
        """Parameters of an estimator for rows of d columns."""
        d = self.d if d is None else d
        bounds = {"none": None, "radius": 3.0, "box": ([-2.0] * d, [3.0] * (d - 1) + [4.0]), "private": "private"}
        centers = {"none": None, "array": np.linspace(-0.5, 0.5, d), "private": "private", "pairs": "pairs"}
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "bound": bounds[self.bound],
            "center": centers[self.center],
            "relation": self.relation,
            "missing": "drop",
        }


@dataclass(frozen=True)
class Subject:
    """Something to fit, and the settings it has."""

    name: str
    fit: Callable[[Setting, Any, Any], Any]  # setting, source, generator
    bounds: tuple[str, ...] = BOUNDS
    centers: tuple[str, ...] = CENTERS
    relations: tuple[str, ...] = RELATIONS
    deltas: tuple[float, ...] = DELTAS
    sources: tuple[str, ...] = tuple(SOURCES)
    rows: tuple[int, ...] = _FEW
    long_rows: tuple[int, ...] = ()  # in the command, besides
    columns: tuple[int, ...] = (1, 2, 3, 4)
    epsilons: tuple[float, ...] = (1.0, 8.0, 30.0)
    tables: Callable[..., Neighbours] = neighbours
    promise: Callable[[Setting], Callable[[Any], Promise]] = field(default=lambda setting: stated)  # noqa: ARG005


# --- estimators -------------------------------------------------------------------------------------------------------


def moments(method: Any, **changes: Any) -> Callable[[Setting, Any, Any], Any]:
    def fit(setting: Setting, source: Any, rng: Any) -> Any:
        options = {**setting.options(), "method": method, "random_state": rng, **changes}
        k = options.pop("n_components", setting.k)
        if options.get("scale") == "public":
            options["scale"] = np.logspace(-2, 3, setting.d)
        estimator = PrivateCovariance(**options) if setting.whole and k == setting.k else PrivatePCA(k, **options)
        return estimator.fit(source)

    return fit


def of_people(method: Any, **changes: Any) -> Callable[[Setting, Any, Any], Any]:
    """The last column says whose row it is."""

    def fit(setting: Setting, source: Any, rng: Any) -> Any:
        options = {**setting.options(), "method": method, "random_state": rng, **changes}
        k = options.pop("n_components", setting.k)
        estimator = PrivateCovariance(**options) if setting.whole and k == setting.k else PrivatePCA(k, **options)
        return estimator.fit(source[:, :-1], unit=source[:, -1].astype(int))

    return fit


def _ridge_of_people(setting: Setting, source: Any, rng: Any) -> Any:
    options = {**setting.options(setting.d - 1), "random_state": rng, "center": setting.options()["center"]}
    return PrivateRidge("auto", **options).fit(source[:, :-2], source[:, -2], unit=source[:, -1].astype(int))


def _map_of_people(setting: Setting, source: Any, rng: Any) -> Any:
    released = plane(setting.d, setting.relation)
    released = replace(released, guarantee=replace(released.guarantee, unit="unit"))
    made = PrivateScoreMap(released, epsilon=setting.epsilon, missing="drop", random_state=rng)
    return made.fit(source[:, :-1], unit=source[:, -1].astype(int))


def _ridge(setting: Setting, source: Any, rng: Any, **changes: Any) -> Any:
    options = {**setting.options(setting.d - 1), "random_state": rng, **changes}
    options["center"] = setting.options()["center"]  # of the joint row
    if setting.bound == "box":
        options["target_bounds"] = (-2.0, 4.0)
    if setting.source == "array":
        return PrivateRidge("auto", **options).fit(source[:, :-1], source[:, -1])
    return PrivateRidge("auto", **options).fit(source, f"c{setting.d - 1}")


def _ridge_with_holes(setting: Setting, source: Any, rng: Any) -> Any:
    return _ridge(setting, source, rng, missing="correct")


def plane(d: int, relation: str) -> Release:
    """A made-up release to draw maps on."""
    guarantee = Guarantee(1.0, 1e-6, Relation.parse(relation), "gaussian")
    return Release("pca", np.eye(d)[:2], np.ones(2), np.eye(d), np.zeros(d), 1.0, guarantee)


def _map(setting: Setting, source: Any, rng: Any, missing: str = "drop") -> Any:
    released = plane(setting.d, setting.relation)
    return PrivateScoreMap(released, epsilon=setting.epsilon, missing=missing, random_state=rng).fit(source)


def _map_with_holes(setting: Setting, source: Any, rng: Any) -> Any:
    return _map(setting, source, rng, "correct")


def _class_map(setting: Setting, source: Any, rng: Any) -> Any:
    """The last column is the label."""
    made = PrivateScoreMap(
        plane(setting.d - 1, setting.relation),
        epsilon=setting.epsilon,
        labels=[0.0, 1.0, 3.0],
        by_class="density" if setting.whole else "centroids",
        missing="drop",
        random_state=rng,
    )
    return made.fit(source[:, :-1], source[:, -1])


def _one_number(function: Callable[..., Any], *facts: float) -> Callable[[Setting, Any, Any], Any]:
    def fit(setting: Setting, source: Any, rng: Any) -> Any:
        rows = np.nan_to_num(source, nan=0.0, posinf=1e300, neginf=-1e300)  # these functions take finite rows
        return function(rows, *facts, epsilon=setting.epsilon, delta=setting.delta, random_state=rng)

    return fit


def _budget(setting: Setting) -> Callable[[Any], Promise]:
    """Of functions that state no guarantee: the budget they were given."""
    budget = Budget(setting.epsilon, setting.delta)
    split = (Spend("all", "all", ApproximateCost(budget.epsilon, budget.delta)),)
    return lambda found: Promise(budget, split)  # noqa: ARG005


def _spiked(rng: Generator, n: int, d: int, *, replace: bool) -> Neighbours:  # noqa: ARG001
    """From the model, because `spiked` promises nothing outside it."""
    return model_neighbours(rng, n, np.array([50.0]), d)


def _decay(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    return distances * np.exp(-distances)


# --- the list ---------------------------------------------------------------------------------------------------------

_PAIRED: Mapping[str, Any] = {"relations": REPLACE}
_ONE_PASS: Mapping[str, Any] = {"relations": REPLACE, "deltas": APPROXIMATE, "epsilons": (30.0,), "columns": (2, 3)}
_MODEL: Mapping[str, Any] = {"bounds": BOUNDS[:1], "centers": ("none", "pairs"), "relations": REPLACE,
                             "deltas": APPROXIMATE, "rows": (4000,), "columns": (4,), "epsilons": (8.0,),
                             "tables": _spiked}  # fmt: skip
_FUNCTION: Mapping[str, Any] = {"bounds": BOUNDS[:1], "centers": ("none",), "relations": REPLACE,
                                "deltas": APPROXIMATE, "sources": ("array",), "epsilons": (8.0,), "promise": _budget,
                                "rows": (3000,)}  # fmt: skip
_PICTURE: Mapping[str, Any] = {"bounds": BOUNDS[:1], "centers": ("none",), "deltas": DELTAS[:1]}
_PRINTED: Mapping[str, Any] = {"bounds": BOUNDS[1:3], "centers": ("none", "array", "pairs"), "relations": REPLACE}
_RANK: Mapping[str, Any] = {"rows": _MANY, "columns": (4,)}

_FAR: Mapping[str, Any] = {"bounds": BOUNDS[:1], "columns": (5, 6), "epsilons": (60.0, 100.0)}
_CORRECT: Mapping[str, Any] = {"missing": "correct"}
_HOLEY: Mapping[str, Any] = {"tables": holey_neighbours}
_HOLEY_PEOPLE: Mapping[str, Any] = {"relations": REPLACE, "sources": ("array",), "tables": holey_people}
_PEOPLE: Mapping[str, Any] = {"relations": REPLACE, "sources": ("array",), "tables": people_neighbours}
_LESS: Mapping[str, Any] = {"relations": RELATIONS[1:], "centers": CENTERS[:3], "sources": ("array",),
                            "tables": one_person_less}  # fmt: skip

SUBJECTS: list[Subject] = [
    Subject("auto", moments("auto")),
    Subject("gaussian", moments("gaussian"), bounds=_GIVEN, deltas=APPROXIMATE),
    Subject("gaussian, tightened", moments(Gaussian(tighten=True)), bounds=("box",), deltas=APPROXIMATE, rows=_MANY),
    Subject("gaussian, published", moments(Gaussian(constants="published")), **_PRINTED, deltas=APPROXIMATE),
    Subject("laplace", moments("laplace"), bounds=_GIVEN),
    Subject("laplace, published", moments(Laplace(constants="published")), **_PRINTED),
    Subject("matrix-laplace", moments("matrix-laplace"), bounds=_GIVEN),
    Subject("eigenvector-sampling", moments("eigenvector-sampling"), bounds=_GIVEN),
    Subject("eigenvector-sampling, published", moments(EigenvectorSampling(constants="published")), bounds=_GIVEN,
            relations=REPLACE),
    Subject("kapralov-talwar", moments("kapralov-talwar"), bounds=_GIVEN),
    Subject("spatial-sign", moments("spatial-sign")),
    Subject("whitened", moments("whitened"), epsilons=_LARGE),
    Subject("whitened, one unit", moments("whitened", units="same"), epsilons=_LARGE),
    Subject("whitened, correlation", moments("whitened", scale="private"), rows=(40, 41, 700), epsilons=_LARGE),
    Subject("whitened, public units", moments("whitened", scale="public"), rows=(40, 41, 700), epsilons=_LARGE),
    Subject("whitened, a part of the rows", moments(Whitened(least_sample=100)), **_PAIRED, rows=(6000,),
            epsilons=_LARGE[2:]),
    # Few components of five columns or more: far rows are counted.
    Subject("whitened, far rows", moments("whitened", n_components=2), **_FAR, rows=(40, 700),
            sources=("array", "frame")),
    Subject("whitened, far rows, one unit", moments("whitened", n_components=2, units="same"), **_FAR, rows=(40, 700),
            sources=("array",)),
    # From 24 columns on sums are turned after the rows are in, and lengths are told in single precision.
    Subject("whitened, many columns, a part of the rows", moments(Whitened(least_sample=100)), bounds=("box", "none"),
            relations=REPLACE, deltas=APPROXIMATE, sources=("array", "block function"), rows=(3000,), columns=(24, 26),
            epsilons=_LARGE[2:]),
    Subject("whitened, in single precision", moments(Whitened(least_sample=100)), **_PAIRED, rows=(6000,),
            columns=(4, 6, 25), epsilons=_LARGE[1:], sources=("single",)),
    Subject("whitened, many columns", moments("whitened"), rows=(700,), columns=(24, 25), epsilons=_LARGE,
            sources=("array", "single")),
    Subject("refined", moments("refined"), deltas=APPROXIMATE),
    Subject("refined, differences", moments(Refined(differences=True)), **_PAIRED, deltas=APPROXIMATE),
    Subject("refined, directions", moments(Refined(only_directions=True)), **_PAIRED, deltas=APPROXIMATE),
    Subject("refined, correlation", moments("refined", scale="private"), deltas=APPROXIMATE, rows=_MANY),
    Subject("spatial-sign, redescending", moments(SpatialSign("redescending", "private")), rows=_MANY),
    Subject("spatial-sign, winsorised", moments(SpatialSign("winsorized", 1.0))),
    Subject("refined, redescending", moments(Refined(cutoff="private")), deltas=APPROXIMATE, rows=_MANY),
    Subject("refined, public cutoff", moments(Refined(cutoff=1.0, differences=True)), **_PAIRED, deltas=APPROXIMATE),
    Subject("robust", moments("auto", robust=True), rows=_MANY),
    Subject("kendall", moments("kendall"), **_PAIRED),
    Subject("kendall, redescending", moments(Kendall("redescending", "private", design=7)), **_PAIRED, rows=_MANY),
    Subject("kendall, cutoff", moments(Kendall("winsorized-redescending", 1.0)), **_PAIRED),
    Subject("kendall, published", moments(Kendall(constants="published")), **_PAIRED, deltas=APPROXIMATE),
    Subject("kendall, winsorised", moments(Kendall(transform="winsorized", radius=1.0, design=3)), **_PAIRED),
    Subject("kendall, blocks", moments(Kendall(transform="winsorized", radius="private", design="blocks")), **_PAIRED,
            rows=_MANY, long_rows=(9000,)),
    Subject("kendall, own transform", moments(Kendall(transform=_decay, radius=1.0, design=5, variances="paid",
                                                       location="paid")), **_PAIRED),
    Subject("geodesic", moments("geodesic"), **_PAIRED, deltas=APPROXIMATE),
    Subject("geodesic, few steps", moments(Geodesic(steps=2)), **_PAIRED, deltas=APPROXIMATE),
    Subject("private rank, gaussian", moments("gaussian", n_components="private"), **_RANK, bounds=_GIVEN,
            deltas=APPROXIMATE),
    Subject("private rank, sampling", moments("eigenvector-sampling", n_components="private"), **_RANK,
            bounds=_GIVEN),
    Subject("private rank, refined", moments("refined", n_components="private"), **_RANK, deltas=APPROXIMATE),
    Subject("oja", moments(Oja(batch=1)), **_ONE_PASS, rows=(1500,), bounds=_GIVEN),
    Subject("oja, batches", moments(Oja(batch=20)), **_ONE_PASS, rows=(700, 1500), bounds=_GIVEN),
    Subject("oja, known gap", moments(Oja(batch="auto", gap=0.5)), **_ONE_PASS, rows=(1500,), bounds=_GIVEN),
    Subject("dp-pca", moments("dp-pca"), **_ONE_PASS, rows=(4000,), bounds=BOUNDS[:3]),
    Subject("dp-pca, box", moments(DPPCA(box=True, gap=0.5)), **_ONE_PASS, rows=(4000,), bounds=BOUNDS[:3]),
    Subject("dp-pca, published", moments(DPPCA(constants="published", gap=0.5, batch=400), n_components=1), **_ONE_PASS,
            rows=(4000,), bounds=BOUNDS[:3]),
    Subject("spiked", moments("spiked"), **_MODEL),
    Subject("spiked, known model", moments(Spiked(signal=50.0, noise_variance=1.0, rank=1)), **_MODEL),
    Subject("oja, as printed", moments(OjaPrinted(2.0), n_components=1), relations=REPLACE, deltas=APPROXIMATE,
            rows=(1500,), columns=(3,), bounds=BOUNDS[:1], centers=("none",), epsilons=(1.0,)),
    Subject("spiked, as printed", moments(Spiked(rank=1, constants="published", assumed=(50.0, 1.0))), **_MODEL),
    Subject("ridge", _ridge, columns=(2, 3, 4), sources=("array", "frame", "parquet", "csv")),
    Subject("score map", _map, **_PICTURE, columns=(2, 3, 4)),
    Subject("score map, classes", _class_map, **_PICTURE, columns=(3, 4), sources=("array",)),
    Subject("people", of_people("auto"), **_PEOPLE, rows=(5, 40, 700)),
    Subject("people, gaussian", of_people("gaussian"), **_PEOPLE, bounds=_GIVEN, deltas=APPROXIMATE, rows=(3, 40)),
    Subject("people, capped", of_people("gaussian", max_rows=3), **_PEOPLE, bounds=_GIVEN, deltas=APPROXIMATE,
            rows=(40,)),
    Subject("people, capped, auto", of_people("auto", max_rows=2), **_PEOPLE, rows=(700,), epsilons=_LARGE[1:]),
    Subject("people, laplace", of_people("laplace"), **_PEOPLE, bounds=_GIVEN, rows=(3, 40)),
    Subject("people, signs", of_people("spatial-sign"), **_PEOPLE, rows=(40,)),
    Subject("people, refined", of_people("refined"), **_PEOPLE, deltas=APPROXIMATE, rows=(40,)),
    Subject("people, refined, cutoff", of_people(Refined(cutoff="private")), **_PEOPLE, deltas=APPROXIMATE,
            rows=(150, 300), columns=(2, 3, 4), epsilons=_LARGE[1:]),
    Subject("people, refined, cutoff, capped", of_people(Refined(cutoff="private"), max_rows=3), **_PEOPLE,
            deltas=APPROXIMATE, rows=(150, 300), columns=(2, 3, 4), epsilons=_LARGE[1:]),
    Subject("people, far rows", of_people("whitened", n_components=2), **{**_FAR, **_PEOPLE}, rows=(40, 300)),
    Subject("people, kendall", of_people("kendall"), **_PEOPLE, rows=(40,)),
    Subject("people, sampling", of_people("eigenvector-sampling"), **_PEOPLE, bounds=_GIVEN, rows=(40,)),
    Subject("people, a part of them", of_people(Whitened(least_sample=100)), **_PEOPLE, rows=(3000,),
            epsilons=_LARGE[2:]),
    Subject("people, oja", of_people("oja"), **{**_ONE_PASS, **_PEOPLE}, rows=(1500,), bounds=_GIVEN),
    Subject("people, private rank", of_people("gaussian", n_components="private"), **_PEOPLE, rows=_MANY,
            columns=(4,), bounds=_GIVEN, deltas=APPROXIMATE),
    Subject("people, ridge", _ridge_of_people, **_PEOPLE, columns=(2, 3, 4), bounds=("none", "radius", "private"),
            rows=(40, 700)),
    Subject("people, score map", _map_of_people, **{**_PICTURE, **_PEOPLE}, columns=(2, 3, 4), rows=(40,)),
    Subject("a person less", of_people("auto"), **_LESS, rows=(5, 40, 700)),
    Subject("a person less, gaussian", of_people("gaussian"), **_LESS, bounds=_GIVEN, deltas=APPROXIMATE, rows=(3, 40)),
    Subject("a person less, far rows", of_people("whitened", n_components=2), **{**_FAR, **_LESS}, rows=(40, 300)),
    Subject("a person less, capped", of_people("gaussian", max_rows=3), **_LESS, bounds=_GIVEN, deltas=APPROXIMATE,
            rows=(3, 40)),
    Subject("a person less, capped, auto", of_people("auto", max_rows=2), **_LESS, rows=(700,), epsilons=_LARGE[1:]),
    Subject("a person less, laplace", of_people("laplace"), **_LESS, bounds=_GIVEN, rows=(3, 40)),
    Subject("a person less, signs", of_people("spatial-sign", max_rows=2), **_LESS, rows=(40,)),
    Subject("a person less, refined", of_people("refined"), **_LESS, deltas=APPROXIMATE, rows=(40,)),
    Subject("a person less, sampling", of_people("eigenvector-sampling"), **_LESS, bounds=_GIVEN, rows=(40,)),
    Subject("a person less, private rank", of_people("gaussian", n_components="private"), **_LESS, rows=_MANY,
            columns=(4,), bounds=_GIVEN, deltas=APPROXIMATE),
    Subject("a person less, ridge", _ridge_of_people, **_LESS, columns=(2, 3, 4), bounds=("none", "radius", "private"),
            rows=(40, 700)),
    Subject("a person less, score map", _map_of_people, **{**_LESS, **_PICTURE}, columns=(2, 3, 4), rows=(40,)),
    Subject("a person less, holes", of_people("whitened", **_CORRECT),
            **{**_LESS, "tables": one_holey_person_less}, rows=(40, 700), epsilons=_LARGE),
    Subject("a person less, holes, capped", of_people("gaussian", max_rows=3, **_CORRECT),
            **{**_LESS, "tables": one_holey_person_less}, bounds=_GIVEN, deltas=APPROXIMATE, rows=(40,)),
    Subject("holes", moments("auto", **_CORRECT), **_HOLEY, rows=(40, 700), bounds=("none", "box", "radius")),
    Subject("holes, whitened", moments("whitened", **_CORRECT), **_HOLEY, rows=(40, 41, 700), epsilons=_LARGE),
    Subject("holes, gaussian", moments("gaussian", **_CORRECT), **_HOLEY, bounds=_GIVEN, deltas=APPROXIMATE),
    Subject("holes, laplace", moments("laplace", **_CORRECT), **_HOLEY, bounds=_GIVEN),
    Subject("holes, matrix-laplace", moments("matrix-laplace", **_CORRECT), **_HOLEY, bounds=_GIVEN),
    Subject("holes, ridge", _ridge_with_holes, **_HOLEY, columns=(2, 3, 4), rows=(40, 700),
            sources=("array", "frame", "parquet", "csv")),
    Subject("holes, score map", _map_with_holes, **_PICTURE, **_HOLEY, columns=(2, 3, 4)),
    Subject("people, holes", of_people("whitened", **_CORRECT), **_HOLEY_PEOPLE, rows=(40, 700), epsilons=_LARGE),
    Subject("people, holes, laplace", of_people("laplace", **_CORRECT), **_HOLEY_PEOPLE, bounds=_GIVEN, rows=(3, 40)),
    Subject("people, holes, capped", of_people("gaussian", max_rows=3, **_CORRECT), **_HOLEY_PEOPLE, bounds=_GIVEN,
            deltas=APPROXIMATE, rows=(40,)),
    Subject("private mean", _one_number(private_mean, 1.0), **_FUNCTION),
    Subject("private top eigenvalue", _one_number(private_top_eigenvalue), **_FUNCTION),
]  # fmt: skip
assert {s.name for s in SUBJECTS} >= METHODS.keys(), "a method is missing"
