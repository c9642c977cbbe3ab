"""A release is frozen, comes back from disk bit for bit, and refuses anything else that stands there."""

from __future__ import annotations

import dataclasses
import json
import pickletools
import shutil

import numpy as np
import pytest
from scipy import stats

from dpeigen import PrivateCovariance, PrivatePCA, Release, io, load_release
from dpeigen.io import ARRAYS, DESCRIPTION, DamagedReleaseError

ARRAY_NAMES = ("components", "eigenvalues", "covariance", "mean")


def fit(center="private", names=None, kind="pca", **options):
    X = np.random.default_rng(1).normal(size=(300, 3)) * [2.0, 1.0, 0.5] + [1.0, 0.0, -1.0]
    if names:
        X = pytest.importorskip("pandas").DataFrame(X, columns=names)
    options = {"epsilon": 2.0, "delta": 1e-6, "bound": 6.0, "center": center, "random_state": 0, **options}
    estimator = PrivatePCA(2, **options) if kind == "pca" else PrivateCovariance(**options)
    return estimator.fit(X).release_


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("release") / "saved"
    release = fit(method="gaussian", names=["Größe", "weight, kg", 'the "third"'])
    assert release.save(folder) == folder
    return release, folder


def same(first: Release, second: Release) -> None:
    for name in ARRAY_NAMES:
        a, b = getattr(first, name), getattr(second, name)
        assert (a is None) == (b is None)
        if a is not None:
            assert a.tobytes() == b.tobytes()
    assert first.kind == second.kind
    assert first.noise_variance == second.noise_variance
    assert first.guarantee == second.guarantee
    assert dict(first.facts) == dict(second.facts)


@pytest.mark.parametrize("kind", ["pca", "covariance"])
@pytest.mark.parametrize("center", [None, "private", "pairs"])
@pytest.mark.parametrize("options", [{}, {"method": "matrix-laplace", "relation": "add_remove"}])
def test_round_trip(kind, center, options, tmp_path):
    if center == "pairs":
        options = {**options, "relation": "replace"}
    release = fit(center, kind=kind, **options)
    assert (release.mean is None) == (center == "pairs")
    release.save(tmp_path / "new" / "folder")
    again = load_release(tmp_path / "new" / "folder")
    same(release, again)
    same(release, load_release(tmp_path / "new" / "folder" / DESCRIPTION))
    again.save(tmp_path / "second")  # and the bytes are the same every time
    for name in (ARRAYS, DESCRIPTION):
        assert (tmp_path / "new" / "folder" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


def test_names_come_back(saved):
    release, folder = saved
    assert load_release(str(folder)).feature_names == release.feature_names == ["Größe", "weight, kg", 'the "third"']
    assert fit().feature_names == ["x0", "x1", "x2"]


def test_saving_over_a_release_needs_a_word(saved, tmp_path):
    saved[0].save(tmp_path)
    other = fit(center=None)
    with pytest.raises(FileExistsError, match="holds a release already"):
        other.save(tmp_path)
    same(saved[0], load_release(tmp_path))
    other.save(tmp_path, overwrite=True)
    same(other, load_release(tmp_path))
    assert sorted(p.name for p in tmp_path.iterdir()) == [DESCRIPTION, ARRAYS]


# --- damage ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def copy(saved, tmp_path):
    return shutil.copytree(saved[1], tmp_path / "copy")


@pytest.mark.parametrize("name", [ARRAYS, DESCRIPTION])
def test_a_truncated_file_is_refused(copy, name):
    content = (copy / name).read_bytes()
    cuts = {0, 1, *(len(content) * q // 4 for q in (1, 2, 3)), len(content) - 2, len(content) - 1}
    for cut in sorted(cuts):
        (copy / name).write_bytes(content[:cut])
        with pytest.raises(DamagedReleaseError, match=r"release\.(json|safetensors)"):
            load_release(copy)
    (copy / name).write_bytes(content + b"\n")
    with pytest.raises(DamagedReleaseError):
        load_release(copy)
    (copy / name).write_bytes(content)
    load_release(copy)


@pytest.mark.parametrize("name", [ARRAYS, DESCRIPTION])
def test_a_changed_byte_is_refused(copy, name):
    content = (copy / name).read_bytes()
    rng = np.random.default_rng(4)
    positions = rng.choice(len(content), size=min(400, len(content)), replace=False)
    for position, flip in zip(positions, rng.integers(1, 256, size=len(positions)), strict=True):
        changed = bytearray(content)
        changed[position] ^= flip
        (copy / name).write_bytes(bytes(changed))
        with pytest.raises(DamagedReleaseError):
            load_release(copy)


def test_changes_that_mean_the_same_are_refused_too(copy):
    """A digit of another spelling, other white space, a key given twice: one content has one form."""
    text = (copy / DESCRIPTION).read_text(encoding="utf-8")
    assert "1e-06" in text
    first_key = '  "format": 1,\n'
    for changed in (
        text.replace("1e-06", "1E-06"),
        text.replace("\n", "\r\n"),
        text.replace(first_key, first_key.replace("1", "2") + first_key),
        json.dumps(json.loads(text)),
    ):
        assert changed != text
        (copy / DESCRIPTION).write_text(changed, encoding="utf-8", newline="")
        with pytest.raises(DamagedReleaseError, match="changed after it was written"):
            load_release(copy)


@pytest.mark.parametrize("name", [ARRAYS, DESCRIPTION])
def test_a_missing_file_is_refused(copy, name, tmp_path):
    (copy / name).unlink()
    with pytest.raises(DamagedReleaseError, match="No complete release in"):
        load_release(copy)
    with pytest.raises(DamagedReleaseError, match="No complete release in"):
        load_release(tmp_path / "nowhere")


def test_two_releases_cannot_be_mixed(copy, tmp_path):
    fit(center=None).save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / ARRAYS, copy / ARRAYS)
    with pytest.raises(DamagedReleaseError, match=r"safetensors is truncated or was changed"):
        load_release(copy)


@pytest.mark.parametrize("text", ["", "null", "[]", "3", "{}", '{"sha256": 1}', "[" * 100_000, "\x00", "NaN"])
def test_what_is_no_description_is_refused(copy, text):
    (copy / DESCRIPTION).write_text(text)
    with pytest.raises(DamagedReleaseError, match="truncated or edited"):
        load_release(copy)


def rewrite(copy, change):
    """A consistent pair of files whose content was changed: what someone does who can write both."""
    arrays, description = io.read_folder(copy)
    arrays = dict(arrays)
    change(arrays, description)
    io.write_folder(copy, arrays, description)


@pytest.mark.parametrize(
    "change",
    [
        lambda a, d: d["guarantee"].update(epsilon=0.001),  # less than the split is worth
        lambda a, d: d["guarantee"].update(epsilon=-1),
        lambda a, d: d["guarantee"].update(relation="none"),
        lambda a, d: d["guarantee"].update(surprise=1),
        lambda a, d: d["guarantee"]["split"][0].update(kind="free"),
        lambda a, d: d.pop("guarantee"),
        lambda a, d: d.update(noise_variance="x"),
        lambda a, d: a.pop("covariance"),
        lambda a, d: a.update(covariance=np.float64(3.0).reshape(())),
        lambda a, d: a.update(covariance=np.full((3, 3), np.nan)),
        lambda a, d: a.update(components=np.eye(4)),
        lambda a, d: a.update(mean=np.zeros(2)),
    ],
)
def test_a_consistent_pair_that_is_no_release_is_refused(copy, change):
    rewrite(copy, change)
    with pytest.raises(DamagedReleaseError, match="does not hold a valid release"):
        load_release(copy)


def test_an_unknown_format_is_refused(copy, monkeypatch):
    monkeypatch.setattr(io, "FORMAT", 99)
    fit().save(copy, overwrite=True)
    monkeypatch.undo()
    with pytest.raises(DamagedReleaseError, match="Format 99 is not known; this version reads format 1"):
        load_release(copy)


def test_no_pickle_is_written_or_read(saved, copy):
    for name in (ARRAYS, DESCRIPTION):
        with pytest.raises(ValueError):  # every pickle of Python ends with a STOP that is an opcode; these are none
            list(pickletools.genops((saved[1] / name).read_bytes()))
    source = (io.__file__, load_release.__code__.co_filename)
    for path in source:
        with open(path, encoding="utf-8") as file:
            code = file.read()
        assert "import pickle" not in code
        assert "joblib" not in code
    import pickle

    (copy / ARRAYS).write_bytes(pickle.dumps({"covariance": np.eye(3)}))
    with pytest.raises(DamagedReleaseError):
        load_release(copy)


# --- frozen ---------------------------------------------------------------------------------------------------------


def test_nothing_in_a_release_can_be_changed(saved):
    for release in (saved[0], load_release(saved[1])):
        for name in ARRAY_NAMES:
            with pytest.raises(ValueError, match="read-only"):
                getattr(release, name)[0] = 1.0
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(release, name, None)
        with pytest.raises(TypeError):
            release.facts["method"] = "other"
        with pytest.raises(dataclasses.FrozenInstanceError):
            release.guarantee.epsilon = 0.1


def test_a_release_keeps_no_reference_to_what_it_was_made_of(saved):
    covariance, facts = np.eye(2), {"method": "x"}
    release = Release("covariance", np.eye(2), np.ones(2), covariance, None, 0.0, saved[0].guarantee, facts)
    covariance[:], facts["method"] = 9.0, "y"
    np.testing.assert_array_equal(release.covariance, np.eye(2))
    assert release.facts["method"] == "x"


@pytest.mark.parametrize(
    "change",
    [{"covariance": np.ones((2, 3))}, {"eigenvalues": np.ones(3)}, {"components": np.ones(2)}, {"mean": np.ones(3)},
     {"covariance": np.full((2, 2), np.inf)}, {"noise_variance": np.nan}],
)  # fmt: skip
def test_arrays_that_do_not_fit_are_refused(change, saved):
    good = {"kind": "covariance", "components": np.eye(2), "eigenvalues": np.ones(2), "covariance": np.eye(2),
            "mean": None, "noise_variance": 0.0, "guarantee": saved[0].guarantee}  # fmt: skip
    Release(**good)
    with pytest.raises(ValueError, match="do not fit together or are not finite"):
        Release(**{**good, **change})


def test_the_stamp_is_shown(saved):
    assert "NOT PRIVATE" in repr(saved[0])
    assert "seeded: not private" in str(saved[0].guarantee)
    assert "NOT PRIVATE" not in repr(fit(random_state=None))


# --- synthetic rows -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("center", ["private", "pairs"])
def test_samples_have_the_released_moments(center):
    release = fit(center, kind="covariance", epsilon=20.0)
    n, alpha = 20_000, 1e-6
    rows = release.sample(n, random_state=2)
    values, vectors = np.linalg.eigh(release.covariance)
    assert values[0] > 0
    scores = (rows - (0.0 if release.mean is None else release.mean)) @ vectors / np.sqrt(values)
    # Independent standard Gaussians if mean and covariance are right: means, variances, correlations. Bonferroni.
    level = alpha / 9 / 2
    assert np.abs(scores.mean(axis=0)).max() < stats.norm.isf(level) / np.sqrt(n)
    squares = (scores**2).sum(axis=0)
    assert (stats.chi2.ppf(level, n) < squares).all()
    assert (squares < stats.chi2.isf(level, n)).all()
    correlations = np.corrcoef(scores.T)[np.triu_indices(3, 1)]
    assert np.abs(np.arctanh(correlations)).max() < stats.norm.isf(level) / np.sqrt(n - 3)
    # The twin: a covariance 10% too large would be seen.
    assert ((squares / 1.1 < stats.chi2.ppf(level, n)) | (squares * 1.1 > stats.chi2.isf(level, n))).all()


def test_samples_of_a_singular_covariance(saved):
    release = Release("covariance", np.eye(2), np.array([1.0, 0.0]), np.diag([1.0, 0.0]), np.array([5.0, 6.0]), 0.0,
                      saved[0].guarantee)  # fmt: skip
    rows = release.sample(100, random_state=0)
    np.testing.assert_array_equal(rows[:, 1], 6.0)
    assert rows[:, 0].std() > 0.5
    assert release.sample(0).shape == (0, 2)
    assert not np.array_equal(release.sample(5), release.sample(5))
    np.testing.assert_array_equal(release.sample(5, random_state=1), release.sample(5, random_state=1))
    for n in (-1, 1.5, True):
        with pytest.raises((TypeError, ValueError), match=r"'n' parameter of Release\.sample"):
            release.sample(n)
