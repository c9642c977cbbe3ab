"""A release for other programs: a fitted scikit-learn PCA, and an Arrow table that R, Julia and DuckDB read.

Post-processing: costs nothing, and what comes out may be shown to anyone who may see the release.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dpeigen._validate import check_vector
from dpeigen.stats.measured import Measured

if TYPE_CHECKING:
    import pyarrow as pa

    from dpeigen.release import Release

_KEY = b"dpeigen"


def to_sklearn(release: Release, mean: ArrayLike | None = None) -> Any:
    """A fitted ``sklearn.decomposition.PCA`` with the released components, variances and centre.

    For a release with a ``scale`` it is a fitted Pipeline of a StandardScaler, with the released centre and scale, and
    a PCA of the divided columns.

    ``mean`` is a public centre for releases that hold none (center="pairs").
    """
    from sklearn.decomposition import PCA
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    center = release.mean if mean is None else check_vector("mean", mean, release.n_features, "Release.to_sklearn")
    if center is None:
        raise ValueError(
            "This release has no centre (none was paid for), and scikit-learn's PCA needs one: give mean=, a public "
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
    first: Any = pca if release.scale is None else StandardScaler()
    names = release.facts.get("feature_names")
    if names:
        first.feature_names_in_ = np.array(names, dtype=object)
    if release.scale is None:
        return pca
    first.mean_, first.scale_, first.var_ = center.copy(), release.scale.copy(), release.scale**2
    first.n_features_in_, first.n_samples_seen_ = release.n_features, getattr(pca, "n_samples_", 1)
    return Pipeline([("scale", first), ("pca", pca)])


def to_arrow(release: Release) -> pa.Table:
    """One line for each column: its name, centre, scale, loading on each component, and row of the covariance.

    The schema's metadata holds, under the key ``dpeigen``, JSON with the eigenvalues, the guarantee and the facts.
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
    """A release from such a table or file. There is no digest here: `load_release` reads the form that has one."""
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
