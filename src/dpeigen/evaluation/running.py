"""`compare`: methods × ε × repetitions on public or synthetic data, with exact errors against the truth.

Guarantee: none. An error against the truth is a function of the rows without noise, so the data must be public or made
up; `compare` refuses data that are not declared so. All noise is seeded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import check_count, check_delta, check_epsilon, check_flag, complain
from dpeigen._version import __version__
from dpeigen.evaluation.cells import FLOOR, Cell, Result, Work, run_cell, second_moment
from dpeigen.evaluation.comparison import Comparison, check_file
from dpeigen.evaluation.store import CellStore
from dpeigen.evaluation.synthetic import Synthetic
from dpeigen.methods import Method, check_bound, check_center, check_method
from dpeigen.privacy import Relation
from dpeigen.privacy.randomness import SystemRandomness
from dpeigen.sources import open_source

__all__ = ["USUAL", "compare"]

USUAL = ("auto", "gaussian", "matrix-laplace", "spatial-sign", "refined", "eigenvector-sampling")
_OWNER = "compare"


def compare(
    data: Any,
    *,
    epsilons: Sequence[float],
    n_components: int | None = None,
    methods: str | Method | Sequence[str | Method] | Mapping[str, str | Method] = USUAL,
    repetitions: int = 20,
    public: bool = False,
    delta: float = 0.0,
    bound: Any = None,
    center: Any = "private",
    relation: str = "replace",
    seed: int | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Measure errors of methods against the truth, for every ε and repetition.

    Parameters
    ----------
    data : Synthetic or table
        A public table: anything that `dpeigen.sources.open_source` accepts, if it fits in memory.
    epsilons : list of float
        Privacy losses.
    n_components : int, default=None
        Number of components; None compares whole covariances.
    methods : str, Method, list or dict
        Names or instances; a dictionary gives them your own labels.
    repetitions : int, default=20
        Fits for each method and ε. On synthetic data each draws new rows, the same for all methods.
    public : bool, default=False
        Must be True for a table. The errors reveal facts about its rows that no budget pays for.
    delta : float, default=0.0
        As for `PrivatePCA`, the same for all methods.
    bound : float, (lower, upper), "private" or None, default=None
        As for `PrivatePCA`.
    center : None, array, "private" or "pairs", default="private"
        As for `PrivatePCA`.
    relation : {"replace", "add_remove"}, default="replace"
        As for `PrivatePCA`.
    seed : int, default=None
        The same seed gives the same table of results, whatever ``workers`` is. None draws one.
    out : path, default=None
        A ``.parquet``, ``.feather`` or ``.csv`` file for the results. Finished cells are kept beside it in a file whose
        name ends in ``.cells``; the same call continues from there.
    workers : int, default=None
        Processes; None: the number of cores.
    progress : function of (int, int), default=None
        Called with the number of finished cells and of all cells.

    Returns
    -------
    Comparison
        One row for each cell. A method that refuses the setting has rows that say why. The rows of "non-private" are
        the answer without privacy: of the same rows against their distribution for synthetic data, of bootstrap samples
        against the table for a table.

    Examples
    --------
    >>> made = Synthetic("spiked", rows=2000, columns=5)
    >>> found = compare(made, methods="spatial-sign", epsilons=[1.0], n_components=3, repetitions=2, seed=0, workers=1)
    >>> found.table.column("method").to_pylist()
    ['spatial-sign', 'spatial-sign', 'non-private', 'non-private']
    """
    table = _public_data(data, public)
    d = table.columns if isinstance(table, Synthetic) else table.shape[1]
    named = _named(methods)
    cells = _cells(named, [check_epsilon(e, _OWNER) for e in epsilons], check_count("repetitions", repetitions, _OWNER))
    if n_components is not None:
        check_count("n_components", n_components, _OWNER, high=d)
    if seed is not None:
        seed = check_count("seed", seed, _OWNER, low=0)
    if workers is not None:
        check_count("workers", workers, _OWNER)
    facts: dict[str, Any] = {
        "n_components": n_components,
        "delta": check_delta(delta, _OWNER),
        "bound": check_bound(bound, d, _OWNER),
        "center": check_center(center, d, _OWNER),
        "relation": Relation.parse(relation, _OWNER).value,
    }
    path = None if out is None else check_file(out)
    state = None if path is None else path.with_name(path.name + ".cells")
    if path is not None and state is not None and path.exists() and not state.exists():
        remedy = "It is not a comparison that can be continued, and would be lost."
        raise ValueError(complain("out", _OWNER, "a new file", str(path), remedy))
    with CellStore(state) as store:
        kept = store.seed()
        seed = seed if seed is not None else kept if kept is not None else SystemRandomness().word()
        setting = {"data": _described(table), **_plain(facts), "seed": seed, "dpeigen": __version__}
        store.claim(setting, {label: repr(method) for label, method in named.items()})
        truth = _truth(table, facts["center"], seed)
        _check_truth(truth, n_components)
        work = Work(table, named, seed=seed, truth=truth, **facts)
        _finish(work, cells, store, workers, progress)
        comparison = Comparison.of(store.results(cells), setting)
    if path is not None:
        comparison.save(path)
    return comparison


def _public_data(data: Any, public: bool) -> Floats | Synthetic:
    if type(data) is Synthetic:  # not a subclass, which might draw real rows
        return data
    if not check_flag("public", public, _OWNER):
        remedy = (
            "Errors against the truth are private data: no noise hides what they say about the rows. Set it for a "
            "table that anyone may see, or use dpeigen.evaluation.Synthetic."
        )
        raise ValueError(complain("public", _OWNER, "True for a table", public, remedy))
    source = open_source(data)
    blocks = [np.asarray(block, dtype=np.float64) for block in source.blocks()]
    rows = np.ascontiguousarray(np.concatenate(blocks)) if blocks else np.zeros((0, source.n_features))
    if len(rows) < 2 or not np.isfinite(rows).all():
        raise ValueError(complain("data", _OWNER, "at least 2 rows of finite numbers", f"{len(rows)} rows"))
    return rows


def _named(methods: str | Method | Sequence[str | Method] | Mapping[str, str | Method]) -> dict[str, str | Method]:
    if isinstance(methods, (str, Method)):
        methods = [methods]
    pairs = list(methods.items()) if isinstance(methods, Mapping) else [(_label(m), m) for m in methods]
    for label, method in pairs:
        check_method(method, _OWNER)
        if " at 0x" in repr(method):
            remedy = "Make it a dataclass: its repr names the cells on disk."
            raise ValueError(complain("methods", _OWNER, "methods whose repr tells their parameters", method, remedy))
        if not isinstance(label, str) or label == FLOOR:
            raise ValueError(complain("methods", _OWNER, f"labelled by words other than {FLOOR!r}", label))
    labels = [label for label, _ in pairs]
    if not labels or len(set(labels)) < len(labels):
        raise ValueError(complain("methods", _OWNER, "at least one, and none twice", labels))
    return dict(pairs)


def _label(method: Any) -> str:
    """The name of a method, or its repr if it differs from the default instance of its class."""
    if isinstance(method, str) or not isinstance(method, Method):
        return str(method)
    try:
        plain = repr(type(method)())
    except TypeError:
        return repr(method)
    return method.name if repr(method) == plain else repr(method)


def _cells(methods: Mapping[str, Any], epsilons: list[float], repetitions: int) -> list[Cell]:
    """All cells, ordered by repetition, so that all methods use the rows drawn for it."""
    if not epsilons or len(set(epsilons)) < len(epsilons):
        raise ValueError(complain("epsilons", _OWNER, "at least one, and none twice", epsilons))
    kinds = [*((label, epsilon) for label in methods for epsilon in epsilons), (FLOOR, None)]
    return [Cell(label, epsilon, r) for r in range(repetitions) for label, epsilon in kinds]


def _truth(data: Floats | Synthetic, center: Any, seed: int) -> Floats:
    if not isinstance(data, Synthetic):
        return second_moment(data, center)
    covariance = data.covariance(seed)
    if isinstance(center, str):
        return covariance
    away = data.mean() - (0.0 if center is None else center)
    return covariance + np.outer(away, away)


def _check_truth(truth: Floats, n_components: int | None) -> None:
    """Check that errors are defined: relative ones need a variance, angles need a gap after the last component."""
    values = np.linalg.eigvalsh(truth)[::-1]
    if not values[0] > 0:
        raise ValueError(complain("data", _OWNER, "of some variance", "none"))
    if n_components is not None and n_components < len(values):
        gap = values[n_components - 1] - values[n_components]
        if gap <= 1e-9 * values[0]:
            remedy = "Where two variances are equal their directions are arbitrary, and so are the errors."
            must = "where the variances of the data have a gap"
            raise ValueError(complain("n_components", _OWNER, must, n_components, remedy))


def _described(data: Floats | Synthetic) -> dict[str, Any]:
    if isinstance(data, Synthetic):
        return {"synthetic": repr(data), "about": str(data)}
    digest = hashlib.sha256(data.tobytes()).hexdigest()
    return {"table": digest, "about": f"{len(data):,}×{data.shape[1]} table"}


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON values."""

    def plain(value: Any) -> Any:
        if isinstance(value, tuple):
            return [plain(part) for part in value]
        return value.tolist() if isinstance(value, np.ndarray) else value

    return {name: plain(value) for name, value in facts.items()}


def _finish(
    work: Work,
    cells: list[Cell],
    store: CellStore,
    workers: int | None,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Run the cells that are not on disk yet, and write each cell to the disk when it is done."""
    finished = store.results(cells)
    left = [cell for cell in cells if cell not in finished]
    done = len(cells) - len(left)
    if progress is not None:
        progress(done, len(cells))
    for cell, result in _run(work, left, workers):
        store.add(cell, result)
        done += 1
        if progress is not None:
            progress(done, len(cells))


def _run(work: Work, cells: list[Cell], workers: int | None) -> Iterator[tuple[Cell, Result]]:
    """Each cell with its result, in the order in which they finish."""
    from joblib import Parallel, cpu_count, delayed

    # joblib's processes need no guard in scripts, work in notebooks, share large arrays, and limit BLAS.
    count = min(workers or cpu_count(), len(cells))
    if count <= 1:
        for cell in cells:
            yield cell, run_cell(work, cell)
        return
    parallel = Parallel(n_jobs=count, return_as="generator_unordered", batch_size=1, pre_dispatch="4*n_jobs")
    yield from parallel(delayed(_with_cell)(work, cell) for cell in cells)


def _with_cell(work: Work, cell: Cell) -> tuple[Cell, Result]:
    return cell, run_cell(work, cell)
