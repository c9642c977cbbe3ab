"""``method="auto"``: the choice among worst-case methods, from public facts only.

Without a bound, ``refined`` where δ > 0, some directions are asked for but not all, and the rows (where their number
is public) are half as many again as its radii need; else ``spatial-sign``. With a bound, whichever of ``gaussian``
(when δ > 0), ``matrix-laplace`` and ``laplace`` adds the least noise to an off-diagonal entry of the second moment at
this number of columns, budget and relation. At equal noise a method with exact numerics comes first. With column
bounds, three columns or more and a public number of rows half as large again as a private radius needs, shares go to
a centre and a radius inside the bounds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpeigen._validate import check_choice, complain
from dpeigen.methods.base import Method, Task
from dpeigen.methods.dp_pca import DPPCA
from dpeigen.methods.eigenvector_sampling import EigenvectorSampling
from dpeigen.methods.framing import RADIUS_SHARE
from dpeigen.methods.gaussian import Gaussian
from dpeigen.methods.geodesic import Geodesic
from dpeigen.methods.kapralov_talwar import KapralovTalwar
from dpeigen.methods.kendall import Kendall
from dpeigen.methods.laplace import Laplace
from dpeigen.methods.matrix_laplace import MatrixLaplace
from dpeigen.methods.moment import MomentMethod
from dpeigen.methods.oja import Oja
from dpeigen.methods.radius import rows_needed
from dpeigen.methods.rank import PrivateRank
from dpeigen.methods.refined import RADIUS_SHARE as REFINED_RADIUS
from dpeigen.methods.refined import Refined
from dpeigen.methods.spatial_sign import SpatialSign
from dpeigen.methods.spiked import Spiked
from dpeigen.methods.whitened import Whitened
from dpeigen.privacy import PureCost

METHODS: dict[str, type[Method]] = {
    m.name: m
    for m in (
        Gaussian,
        Laplace,
        MatrixLaplace,
        SpatialSign,
        EigenvectorSampling,
        KapralovTalwar,
        Kendall,
        Geodesic,
        Spiked,
        Refined,
        Whitened,
    )
}
METHODS |= {m.name: m for m in (DPPCA, Oja)}  # in one pass


def choose(task: Task) -> Method:
    """The method for a task; deterministic."""
    if task.bound is None:
        return Refined() if _worth_refining(task) else SpatialSign()
    candidates: list[MomentMethod] = [Laplace(), MatrixLaplace()]
    if not task.budget.is_pure:
        candidates.insert(0, Gaussian())
    best = min(candidates, key=lambda m: m.deviation(task.n_features, task.budget, task.relation))
    return replace(best, tighten=_worth_tightening(task))


def _worth_refining(task: Task) -> bool:
    if task.budget.is_pure or task.n_components is None or task.n_components >= task.n_features:
        return False
    return task.n_terms is None or task.n_terms >= 1.5 * rows_needed(PureCost(REFINED_RADIUS * task.budget.epsilon))


def _worth_tightening(task: Task) -> bool:
    if not isinstance(task.bound, tuple) or task.n_features < 3 or task.n_terms is None:
        return False
    return task.n_terms >= 1.5 * rows_needed(PureCost(RADIUS_SHARE * task.budget.epsilon))


def check_method(method: Any, owner: str) -> None:
    """A name or an instance; looked at before anything is read."""
    if isinstance(method, str):
        check_choice("method", method, ["auto", *METHODS], owner)
    elif not isinstance(method, Method):
        raise TypeError(complain("method", owner, "a method name or an instance from dpeigen.methods", method))


def resolve(method: str | Method, task: Task) -> Method:
    """A method from a name, an instance, or "auto"; checked against the task."""
    check_method(method, task.owner)
    chosen = method if isinstance(method, Method) else METHODS[method]() if method != "auto" else choose(task)
    if task.private_rank and not isinstance(chosen, PrivateRank):
        chosen = PrivateRank(chosen)
    chosen.check(task)
    return chosen
