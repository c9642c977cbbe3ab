"""A release for other programs: scikit-learn's PCA and Arrow tables hold the same numbers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dpeigen import PrivatePCA
from dpeigen.exchange import read_arrow, write_arrow
from dpeigen.sources import ArraySource

NAMES = ["age", "Größe (cm)", "weight"]
ROWS = np.random.default_rng(0).normal(size=(800, 3)) @ np.diag([3, 2, 1.0]) + [1, 2, 3]


@pytest.fixture(scope="module")
def pca():
    return PrivatePCA(2, epsilon=3.0, delta=1e-6, bound=12.0, random_state=0).fit(ArraySource(ROWS, NAMES))


@pytest.fixture(scope="module")
def release(pca):
    return pca.release_


def test_scikit_learn_pca_does_what_a_fitted_one_does(pca, release):
    peer = release.to_sklearn()
    assert isinstance(peer, PCA)
    frame = pytest.importorskip("pandas").DataFrame(ROWS, columns=NAMES)
    np.testing.assert_allclose(peer.transform(frame), pca.transform(frame))
    np.testing.assert_allclose(
        peer.inverse_transform(peer.transform(frame)), pca.inverse_transform(pca.transform(frame))
    )
    assert peer.score(frame) < 0
    assert peer.get_covariance().shape == (3, 3)
    assert peer.get_feature_names_out().tolist() == ["pca0", "pca1"]
    assert (peer.n_samples_, peer.n_features_in_, peer.n_components_) == (800, 3, 2)
    assert peer.feature_names_in_.tolist() == NAMES
    wanted = {name for name in vars(PCA(2).fit(ROWS)) if name.endswith("_") and not name.startswith("_")}
    assert wanted <= set(vars(peer))
    peer.components_[:] = 0  # a copy
    assert release.components.any()


def test_it_fits_into_a_pipeline(release):
    scaled = make_pipeline(release.to_sklearn(), StandardScaler())
    with pytest.warns(UserWarning, match="feature names"):
        assert scaled[:1].transform(ROWS).shape == (800, 2)


def test_without_a_centre_it_asks_for_one():
    release = PrivatePCA(1, epsilon=2.0, bound=12.0, center="pairs").fit(ROWS).release_
    with pytest.raises(ValueError, match="no centre"):
        release.to_sklearn()
    assert release.to_sklearn(mean=[1, 2, 3]).mean_.tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="mean"):
        release.to_sklearn(mean=[1, 2])


def test_arrow_comes_back_bit_for_bit(release, tmp_path):
    table = release.to_arrow()
    assert table.column_names[:4] == ["feature", "mean", "component_1", "component_2"]
    assert table["feature"].to_pylist() == NAMES
    path = write_arrow(release, tmp_path / "new" / "release")
    assert path.name == "release.arrow"
    for again in (read_arrow(table), read_arrow(path), read_arrow(str(path))):
        for name in ("components", "eigenvalues", "covariance", "mean"):
            assert getattr(again, name).tobytes() == getattr(release, name).tobytes()
        assert again.guarantee == release.guarantee
        assert dict(again.facts) == dict(release.facts)
    described = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    assert described["guarantee"]["epsilon"] == 3.0
    assert described["eigenvalues"] == release.eigenvalues.tolist()
    with pytest.raises(FileExistsError):
        write_arrow(release, path)


def test_other_tables_are_refused(release):
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="not a release"):
        read_arrow(pa.table({"a": [1]}))
    with pytest.raises(ValueError, match="not a release"):
        read_arrow(release.to_arrow().drop_columns(["component_1"]))


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="there is no R")
def test_the_page_for_r_reads_a_release(release, tmp_path):
    if subprocess.run(["Rscript", "-e", "library(jsonlite)"], capture_output=True).returncode:
        pytest.skip("there is no jsonlite for R")
    page = (Path(__file__).parents[1] / "docs" / "r-and-julia.md").read_text(encoding="utf-8")
    code = next(block for block in re.findall(r"```r\n(.*?)```", page, re.DOTALL) if "read_safetensors" in block)
    release.save(tmp_path / "release")
    code += '\nwrite.csv(cbind(pca$rotation, pca$center), "out.csv")'
    subprocess.run(["Rscript", "-e", code], cwd=tmp_path, check=True, capture_output=True)
    found = np.loadtxt(tmp_path / "out.csv", delimiter=",", skiprows=1, usecols=(-3, -2, -1))
    np.testing.assert_allclose(found, np.column_stack([release.components.T, release.mean]), rtol=1e-12)
