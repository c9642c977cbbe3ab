"""Under add/remove a table without rows and one with a single row are neighbours: both are answered, or both refused.

Under replacement the number of rows is public, and a table without rows is refused.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from dpeigen import PrivateCovariance, PrivatePCA, PrivateRidge, PrivateScoreMap
from dpeigen.sources import BlockSource

ROW = np.array([[0.5, 0.25]])


def frame(n):
    return pd.DataFrame(ROW[:n], columns=["a", "b"])


def written(n, folder, ending):
    path = folder / f"{n}.{ending}"
    table = pa.table({"a": ROW[:n, 0], "b": ROW[:n, 1]})
    writers = {
        "csv": lambda: frame(n).to_csv(path, index=False),
        "parquet": lambda: pyarrow.parquet.write_table(table, path),
        "feather": lambda: pyarrow.feather.write_feather(table, str(path)),
        "npy": lambda: np.save(path, ROW[:n]),
    }
    writers[ending]()
    return path


ANSWERED = {
    "array": lambda n, _: ROW[:n],
    "array of objects": lambda n, _: ROW[:n].astype(object),
    "pandas": lambda n, _: frame(n),
    "pandas of two types": lambda n, _: frame(n).astype({"a": "float32"}),
    "polars": lambda n, _: pl.from_pandas(frame(n)),
    "lazy polars": lambda n, _: pl.from_pandas(frame(n)).lazy(),
    "arrow": lambda n, _: pa.table({"a": ROW[:n, 0], "b": ROW[:n, 1]}),
    "declared blocks": lambda n, _: BlockSource(lambda: (ROW[i : i + 1] for i in range(n)), n_features=2),
    "declared list": lambda n, _: BlockSource([ROW] * n, n_features=2),
    "declared lists": lambda n, _: BlockSource(lambda: iter([ROW[:n].tolist()]), n_features=2),
    "declared generator": lambda n, _: BlockSource((ROW for _ in range(n)), n_features=2),
} | {
    ending: lambda n, folder, ending=ending: written(n, folder, ending)
    for ending in ("csv", "parquet", "feather", "npy")
}
REFUSED = {
    "list": lambda n, _: ROW[:n].tolist(),
    "list of arrays": lambda n, _: list(ROW[:n]),
    "tuple": lambda n, _: tuple(map(tuple, ROW[:n])),
    "generator": lambda n, _: (ROW for _ in range(n)),
    "generator of frames": lambda n, _: (frame(1) for _ in range(n)),
    "function": lambda n, _: lambda: [ROW] * n,
    "blocks": lambda n, _: BlockSource(lambda: (ROW for _ in range(n))),
    "blocks in a list": lambda n, _: BlockSource([ROW] * n),
    "blocks from a generator": lambda n, _: BlockSource(ROW for _ in range(n)),
}
OPTIONS = {"epsilon": 1.0, "relation": "add_remove", "random_state": 0}


def pca(data):
    return PrivatePCA(1, method="laplace", bound=1.0, center=None, **OPTIONS).fit(data)


def outcome(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "done"


@pytest.mark.parametrize("kind", ANSWERED)
def test_tables_that_tell_their_columns_are_answered(kind, tmp_path):
    assert [outcome(lambda n=n: pca(ANSWERED[kind](n, tmp_path))) for n in (0, 1)] == ["done", "done"]


@pytest.mark.parametrize("kind", REFUSED)
def test_tables_that_tell_their_columns_by_their_rows_are_refused(kind, tmp_path):
    none, one = (outcome(lambda n=n: pca(REFUSED[kind](n, tmp_path))) for n in (0, 1))
    assert none == one
    assert none.startswith(
        "ValueError: The 'X' parameter of PrivatePCA must be a table whose number of columns is known"
    )
    assert "n_features" in none
    assert "0.25" not in none


@pytest.mark.parametrize(
    "model",
    [
        PrivatePCA(1, bound=1.0, **OPTIONS),
        PrivatePCA(1, delta=1e-6, **OPTIONS),
        PrivatePCA("private", delta=1e-6, method="spatial-sign", **OPTIONS),
        PrivateCovariance(bound=(-1, 1), **OPTIONS),
        PrivateCovariance(delta=1e-6, method="whitened", **OPTIONS),
        PrivateCovariance(bound="private", method="matrix-laplace", **OPTIONS),
    ],
    ids=lambda model: f"{type(model).__name__}-{model.method}-{model.bound}",
)
def test_whatever_the_method(model):
    for fewer, more in ((ROW[:0], ROW), (frame(0), frame(1))):
        assert [outcome(lambda data=data: model.fit(data)) for data in (fewer, more)] == ["done", "done"]


def test_regressions_and_maps():
    ridge = PrivateRidge(bound=1.0, **OPTIONS)
    assert [outcome(lambda n=n: ridge.fit(ROW[:n], [0.5] * n)) for n in (0, 1)] == ["done", "done"]
    assert len({outcome(lambda n=n: ridge.fit(ROW[:n].tolist(), [0.5] * n)) for n in (0, 1)}) == 1
    plane = PrivatePCA(2, bound=1.0, **OPTIONS).fit(ROW).release_
    mapped = PrivateScoreMap(plane, epsilon=1.0, random_state=0, window=((-1, 1), (-1, 1)))
    for kind in (ANSWERED["array"], ANSWERED["declared blocks"]):
        assert [outcome(lambda n=n, kind=kind: mapped.fit(kind(n, None))) for n in (0, 1)] == ["done", "done"]
    for kind in (REFUSED["list"], REFUSED["blocks"], REFUSED["function"]):
        none, one = (outcome(lambda n=n, kind=kind: mapped.fit(kind(n, None))) for n in (0, 1))
        assert none == one
        assert "whose number of columns is known" in none


def test_under_replacement_a_table_without_rows_is_refused():
    for data in (ROW[:0], BlockSource([]), BlockSource(lambda: []), BlockSource([], n_features=2)):
        with pytest.raises(ValueError, match=r"at least 2 rows|no blocks|minimum of 2"):
            PrivatePCA(1, epsilon=1.0, bound=1.0).fit(data)
