"""A release for other programs: a fitted scikit-learn PCA, and an Arrow table that R, Julia and DuckDB read.

This is post-processing: it costs nothing, and the result may be shown to anyone who may see the release.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dpeigen._validate import check_vector
from dpeigen.stats.measured import Measured

if TYPE_CHECKING:
    import pyarrow as pa

    from dpeigen.release import Release
    from dpeigen.sources.declared import Declared

__all__ = ["read_arrow", "to_arrow", "to_sklearn", "write_arrow"]

_KEY = b"dpeigen"


def to_sklearn(release: Release, mean: ArrayLike | None = None) -> Any:
    """A fitted ``sklearn.decomposition.PCA`` with the released components, variances and centre.

    For a release with a ``scale`` it is a fitted Pipeline of a StandardScaler, with the released centre and scale, and
    a PCA of the divided columns. For a release of declared columns (categories, dates, transforms …) these are preceded
    by a fitted ColumnTransformer that encodes data frames, a SimpleImputer that fills missing cells with the released
    centre and, if public bounds rescaled the columns, a StandardScaler that does so.

    ``mean`` is a public centre for releases without one (center="pairs").
    """
    from sklearn.decomposition import PCA
    from sklearn.pipeline import Pipeline

    center = release.mean if mean is None else check_vector("mean", mean, release.n_features, "Release.to_sklearn")
    if center is None:
        raise ValueError(
            "This release has no centre (none was estimated), and scikit-learn's PCA needs one: give mean=, a public "
            "centre, or release with center='private' and a method by name, such as 'spatial-sign'."
        )
    n, k = release.facts.get("n_rows"), len(release.components)
    total = float(np.trace(release.covariance))
    pca = PCA(n_components=k)
    pca.components_ = release.components.copy()
    pca.explained_variance_ = release.eigenvalues.copy()
    pca.explained_variance_ratio_ = release.eigenvalues / total if total > 0 else np.zeros(k)
    pca.mean_ = center.copy() if release.scale is None else np.zeros(release.n_features)
    pca.noise_variance_ = release.noise_variance
    pca.n_components_ = k
    pca.n_features_in_ = release.n_features
    if n is not None:
        pca.n_samples_ = max(1, round(n))
        pca.singular_values_ = np.sqrt(release.eigenvalues * max(pca.n_samples_ - 1, 1))
    encoding = [] if release.columns is None else _encoding(release, center)
    if release.scale is None and not encoding:
        return _named(pca, release)
    steps = [*encoding, *([] if release.scale is None else [("scale", _scaler(center, release.scale, n))])]
    if not encoding:
        _named(steps[0][1], release)
    return Pipeline([*steps, ("pca", pca)])


def _named(step: Any, release: Release) -> Any:
    names = release.facts.get("feature_names")
    if names:
        step.feature_names_in_ = np.array(names, dtype=object)
    return step


def _scaler(center: Any, scale: Any, n: float | None = None) -> Any:
    """A fitted StandardScaler."""
    from sklearn.preprocessing import StandardScaler

    found = StandardScaler()
    found.mean_, found.scale_ = np.array(center, dtype=np.float64), np.array(scale, dtype=np.float64)
    found.var_, found.n_features_in_ = found.scale_**2, len(found.scale_)
    found.n_samples_seen_ = 1 if n is None else max(1, round(n))
    return found


def _encoding(release: Release, center: Any) -> list[tuple[str, Any]]:
    """Fitted steps from a data frame to numbers without missing cells."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import FunctionTransformer

    columns = dict(release.columns or {})
    steps = [
        (
            name,
            FunctionTransformer(
                partial(_encoded, name, said),
                feature_names_out=partial(_names, said.features(name)),
                check_inverse=False,
            ),
            [name],
        )
        for name, said in columns.items()
    ]
    order = [feature for name, said in columns.items() for feature in said.features(name)]
    encoder = ColumnTransformer(steps, verbose_feature_names_out=False)
    encoder.fit(_empty_frame(list(columns)))
    imputer = SimpleImputer(keep_empty_features=True).fit(np.zeros((1, release.n_features)))
    places = [order.index(name) for name in release.feature_names]
    found: list[tuple[str, Any]] = [("encode", encoder)]
    if places != list(range(len(places))):  # a regression has its target last
        names = partial(_names, release.feature_names)
        found.append(("order", FunctionTransformer(partial(_ordered, places), feature_names_out=names)))
    by = release.facts.get("rescaled")
    if by is not None:
        low, high = np.array(by["lower"]), np.array(by["upper"])
        found.append(("rescale", _scaler(low, high - low)))
    imputer.statistics_ = np.array(center, dtype=np.float64)
    return [*found, ("fill", imputer)]


def _encoded(name: str, said: Declared, frame: Any) -> Any:
    """One column of a data frame, encoded as numbers; NaN if a cell does not fit the declaration."""
    from dpeigen.sources.columns import Columns

    frame = frame.to_pandas() if hasattr(frame, "to_pandas") else frame
    rows = Columns([name], {name: said}).from_pandas(frame)
    return np.where(np.isfinite(rows), rows, np.nan)


def _ordered(places: list[int], rows: Any) -> Any:
    return np.asarray(rows)[:, places]


def _names(features: list[str], *_: Any) -> Any:
    return np.array(features, dtype=object)


def _empty_frame(names: list[str]) -> Any:
    import pandas as pd

    return pd.DataFrame({name: pd.Series([None], dtype=object) for name in names})


def to_arrow(release: Release) -> pa.Table:
    """A table with one row for each column: its name, centre, scale, loadings, and its row of the covariance.

    The key ``dpeigen`` of the schema's metadata has JSON with the eigenvalues, the guarantee and the facts.
    """
    import pyarrow as pa

    names = release.feature_names
    columns: dict[str, Any] = {"feature": names}
    columns |= {name: value for name in ("mean", "scale") if (value := getattr(release, name)) is not None}
    own = len(columns)
    columns |= {f"component_{i}": row for i, row in enumerate(release.components, 1)}
    columns |= {f"cov_{name}": row for name, row in zip(names, release.covariance, strict=True)}
    if len(columns) < own + len(release.components) + len(names):
        raise ValueError("Two columns of the release have the same name, so it cannot be a table.")
    description = {
        "kind": release.kind,
        "eigenvalues": release.eigenvalues.tolist(),
        "noise_variance": release.noise_variance,
        "guarantee": release.guarantee.to_dict(),
        "facts": dict(release.facts),
    }
    if release.measured is not None:
        arrays, said = release.measured.described()
        description["measured"] = said | {name: array.tolist() for name, array in arrays.items()}
    text = json.dumps(description, ensure_ascii=False, allow_nan=False)
    return pa.table(columns).replace_schema_metadata({_KEY: text.encode()})


def _measured(said: dict[str, Any]) -> Measured:
    lists = {name: value for name, value in said.items() if isinstance(value, list)}
    arrays = {name: np.array(value, dtype=np.float64) for name, value in lists.items()}
    return Measured.read(arrays, {name: value for name, value in said.items() if name not in lists})


def write_arrow(release: Release, path: str | Path) -> Path:
    """Write `to_arrow` as a plain (uncompressed) Arrow file, and its description beside it as JSON."""
    import pyarrow.feather as feather

    path = Path(path).with_suffix(".arrow")
    if path.exists() or path.with_suffix(".json").exists():
        raise FileExistsError(f"{path} is there already. Choose another name.")
    path.parent.mkdir(parents=True, exist_ok=True)
    table = to_arrow(release)
    feather.write_feather(table, path, compression="uncompressed")
    described = json.loads(table.schema.metadata[_KEY])
    text = json.dumps(described, indent=2, ensure_ascii=False, allow_nan=False)
    path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    return path


def read_arrow(source: Any) -> Release:
    """A release from such a table or file. This format has no digest; the one that `load_release` reads has."""
    import pyarrow.feather as feather

    from dpeigen.facts import check_description
    from dpeigen.privacy import Guarantee
    from dpeigen.release import Release

    table = feather.read_table(source) if isinstance(source, (str, Path)) else source
    try:
        description = json.loads((table.schema.metadata or {})[_KEY])
        k = len(description["eigenvalues"])
        names = table["feature"].to_pylist()
        check_description(description, len(names))

        def matrix(wanted: list[str]) -> Any:
            return np.array([np.asarray(table[name], dtype=np.float64) for name in wanted])

        return Release(
            kind=description["kind"],
            components=matrix([f"component_{i}" for i in range(1, k + 1)]),
            eigenvalues=np.array(description["eigenvalues"]),
            covariance=matrix([f"cov_{name}" for name in names]),
            mean=matrix(["mean"])[0] if "mean" in table.column_names else None,
            noise_variance=float(description["noise_variance"]),
            guarantee=Guarantee.from_dict(description["guarantee"]),
            facts=description["facts"],
            scale=matrix(["scale"])[0] if "scale" in table.column_names else None,
            measured=None if description.get("measured") is None else _measured(description["measured"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"This table is not a release written by dpeigen: {error}") from None
