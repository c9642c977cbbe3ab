"""Streams: any block sizes, constant memory, saved without rows, cut short, one reservation in the ledger."""

import copy
import json
import pickle

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from dpeigen import Ledger, PaidError, PrivatePCA, load_release
from dpeigen.io import DamagedReleaseError
from dpeigen.methods import DPPCA, Oja
from dpeigen.privacy.ledger import BudgetExceededError

pytestmark = pytest.mark.filterwarnings("ignore:.*seeded.*")
N, D = 24_000, 3
METHODS = {"dp-pca": DPPCA(batch=1200), "oja": Oja(block=2000)}


def rows(n=N, seed=0):
    return np.random.default_rng(seed).normal(size=(n, D)) * [4.0, 1.0, 1.0] + 0.5


def make(name, **options):
    bound = None if name == "dp-pca" else 10.0
    options = {"epsilon": 2.0, "delta": 1e-6, "method": METHODS[name], "bound": bound, "random_state": 1, **options}
    return PrivatePCA(1, **options)


def stream(pca, X, size):
    for start in range(0, len(X), size):
        pca.partial_fit(X[start : start + size])
    return pca


@pytest.mark.parametrize("name", METHODS)
def test_the_size_of_the_blocks_does_not_matter(name):
    X = rows()
    one, many = stream(make(name), X, N), stream(make(name), X, 777)
    np.testing.assert_array_equal(one.components_, many.components_)
    np.testing.assert_array_equal(one.explained_variance_, many.explained_variance_)
    assert abs(one.components_[0, 0]) > 0.95
    assert one.n_samples_seen_ == many.n_samples_seen_ <= N
    assert one.release_.facts["n_rows"] == one.n_samples_seen_
    assert one.guarantee_.epsilon == 2.0


@pytest.mark.parametrize("name", METHODS)
def test_single_rows_and_other_kinds_of_blocks(name):
    pca, X = make(name), rows(60)
    for row in X[:20]:
        pca.partial_fit(row[None])
    pca.partial_fit(pa.table({"x0": X[20:, 0], "x1": X[20:, 1], "x2": X[20:, 2]}))
    assert pca._stream.stream.rows_used + pca._stream.feed.pending == 60
    with pytest.raises(ValueError, match=r"columns|features"):
        pca.partial_fit(np.zeros((5, D + 1)))
    with pytest.raises(ValueError, match="columns"):
        pca.partial_fit(pa.table({"x0": X[:, 0]}))
    assert pca.n_features_in_ == D


@pytest.mark.parametrize("name", METHODS)
def test_too_short_a_stream_says_how_many_rows_are_missing(name):
    pca = make(name).partial_fit(rows(500))
    with pytest.raises(NotFittedError, match=r"has used \d+ rows and \d+ wait; the first release needs \d+"):
        pca.transform(rows(5))
    needed = pca._stream.stream.rows_to_release
    stream(pca, rows(needed - 501), 1000)
    assert not hasattr(pca, "release_")
    pca.partial_fit(rows(1))
    assert pca.transform(rows(5)).shape == (5, 1)


@pytest.mark.parametrize("name", METHODS)
def test_cut_short_the_release_is_that_of_what_was_paid_for(name, tmp_path):
    X = rows()
    whole = make(name)
    seen = []
    for start in range(0, N, 1000):
        whole.partial_fit(X[start : start + 1000])
        if hasattr(whole, "release_"):
            seen.append(whole.release_)
    assert len({id(release) for release in seen}) > 2
    early = seen[0]
    assert early.guarantee.epsilon == 2.0
    assert early.facts["n_rows"] < seen[-1].facts["n_rows"]
    early.save(tmp_path / "early")
    np.testing.assert_array_equal(load_release(tmp_path / "early").components, early.components)


def contains_rows(blob: bytes, X) -> bool:
    """Whether any entry of X is in the bytes, as a double or a single."""
    return any(np.asarray(v, dtype=t).tobytes() in blob for v in X.ravel() for t in (np.float64, np.float32))


@pytest.mark.parametrize("name", METHODS)
def test_what_is_saved_holds_no_rows_and_goes_on(name, tmp_path):
    X = rows(9999)
    pca = stream(make(name), X, 500)
    assert pca._stream.feed.pending > 0
    folder = pca.save_stream(tmp_path / "state")
    waiting = X[pca.n_samples_seen_ :]
    blob = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
    assert not contains_rows(blob, X[-200:])
    assert contains_rows(pca._stream.feed._buffer.tobytes(), X[-5:])  # the check can see rows where they are
    assert not contains_rows(pickle.dumps(pca._stream.feed), X[-200:])
    on = PrivatePCA.resume_stream(folder)
    assert on.n_samples_seen_ == pca.n_samples_seen_
    np.testing.assert_array_equal(on.components_, pca.components_)
    assert on.guarantee_.numerics == "seeded"  # once seeded, always
    stream(on, np.vstack([waiting, rows(8000, 5)]), 900)
    assert on.n_samples_seen_ > pca.n_samples_seen_
    assert abs(on.components_[0, 0]) > 0.9
    with pytest.raises(FileExistsError):
        on.save_stream(folder)
    on.save_stream(folder, overwrite=True)


def test_a_stream_with_public_bounds_and_names_is_restored(tmp_path):
    import pandas as pd

    table = pd.DataFrame(rows(9000), columns=["a", "b", "c"])
    pca = make("dp-pca", bound=([-20.0] * D, [25.0] * D), center=np.array([2.0, 2.0, 2.0])).partial_fit(table)
    on = PrivatePCA.resume_stream(pca.save_stream(tmp_path / "s"))
    assert list(on.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_array_equal(on.center, [2.0, 2.0, 2.0])
    assert on._stream.task.bound[1][0] == 25.0
    on.partial_fit(table)


@pytest.mark.parametrize("damage", ["truncate", "kind", "facts"])
def test_damaged_states_are_refused(tmp_path, damage):
    folder = stream(make("dp-pca"), rows(9000), 9000).save_stream(tmp_path / "s")
    path = folder / "release.json"
    if damage == "truncate":
        path.write_bytes(path.read_bytes()[:-10])
    else:
        content = json.loads(path.read_text())
        content["release"][damage] = "something"
        path.write_text(json.dumps(content))
    with pytest.raises(DamagedReleaseError):
        PrivatePCA.resume_stream(folder)


def test_a_release_is_not_a_stream(tmp_path):
    X = rows(400)
    folder = PrivatePCA(1, epsilon=1.0, bound=9.0, center=None).fit(X).release_.save(tmp_path / "r")
    with pytest.raises(ValueError, match="saved stream"):
        PrivatePCA.resume_stream(folder)


def test_the_ledger_reserves_once_and_commits_with_the_first_batch(tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=2.0, delta=1e-6)
    pca = make("dp-pca", ledger=str(tmp_path / "l"))
    pca.partial_fit(rows(10))
    assert [entry["state"] for entry in ledger.history()] == ["reserved"]
    stream(pca, rows(), 2000)
    assert [entry["state"] for entry in ledger.history()] == ["committed"]
    with pytest.raises(BudgetExceededError):
        make("dp-pca", ledger=ledger).partial_fit(rows(10))


def test_bad_rows_before_and_after_the_first_batch(tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=2.0, delta=1e-6)
    bad = rows(50)
    bad[3, 1] = np.nan
    pca = make("dp-pca", ledger=ledger)
    with pytest.raises(ValueError, match="nothing was spent"):
        pca.partial_fit(bad)
    assert [entry["state"] for entry in ledger.history()] == ["cancelled"]
    stream(pca, rows(9000), 3000)
    used = pca._stream.stream.rows_used + pca._stream.feed.pending
    with pytest.raises(ValueError, match=r"None of its rows were used.*stays spent"):
        pca.partial_fit(bad)
    assert pca._stream.stream.rows_used + pca._stream.feed.pending == used
    assert [entry["state"] for entry in ledger.history()] == ["cancelled", "committed", "refused"]
    assert ledger.history()[-1]["reason"] == "refused after data were read: bad rows, in a stream"


def test_every_refusal_of_a_stream_is_on_the_ledgers_record(tmp_path):
    """A reservation can be returned once at most, so each refusal after that has an entry of its own."""
    ledger = Ledger.create(tmp_path / "l", epsilon=2.0, delta=1e-6)
    bad = rows(50)
    bad[3, 1] = np.nan
    pca = make("dp-pca", ledger=ledger).partial_fit(rows(50))  # nothing is drawn yet
    for _ in range(2):
        with pytest.raises(ValueError, match="None of its rows were used"):
            pca.partial_fit(bad)
    assert [entry["state"] for entry in ledger.history()] == ["reserved", "refused", "refused"]
    pca.save_stream(tmp_path / "s")
    resumed = PrivatePCA.resume_stream(tmp_path / "s", ledger=ledger)
    with pytest.raises(ValueError, match="None of its rows were used"):
        resumed.partial_fit(bad)
    assert [entry["state"] for entry in ledger.history()] == ["reserved", "refused", "refused", "refused"]


def test_a_refusal_that_cannot_be_recorded_says_so(tmp_path, monkeypatch):
    ledger = Ledger.create(tmp_path / "l", epsilon=2.0, delta=1e-6)
    bad = rows(50)
    bad[3, 1] = np.nan
    pca = make("dp-pca", ledger=ledger).partial_fit(rows(50))

    def gone(*_):
        raise OSError("gone")

    monkeypatch.setattr(Ledger, "refused", gone)
    with pytest.raises(ValueError, match=r"None of its rows were used.*could not record this refusal: gone"):
        pca.partial_fit(bad)


def test_only_for_methods_that_see_rows_once():
    for method in ("auto", "gaussian"):
        pca = PrivatePCA(1, epsilon=1.0, delta=1e-6, method=method, bound=1.0)
        assert not hasattr(pca, "partial_fit")
        with pytest.raises(AttributeError, match="partial_fit"):
            pca.partial_fit(rows(10))
    with pytest.raises(NotFittedError, match="partial_fit"):
        make("oja").save_stream("nowhere")


def test_a_fit_ends_the_stream_and_clones_start_afresh():
    pca = stream(make("dp-pca"), rows(9000), 3000)
    assert "_stream" not in vars(clone(pca))
    pca.fit(rows())
    assert "_stream" not in vars(pca)
    assert not hasattr(pca, "n_samples_seen_")


def test_a_batch_that_breaks_is_spent_and_the_stream_ends(monkeypatch, tmp_path):
    """Otherwise the same rows could be fed, and released, again."""
    pca = make("dp-pca")
    stream(pca, rows(9000), 3000)
    before = pca.n_samples_seen_
    monkeypatch.setattr(type(pca._stream.stream), "use", lambda self, batch: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pca.partial_fit(rows(9000))
    assert pca.n_samples_seen_ > before
    with pytest.raises(RuntimeError, match="failed inside a batch"):
        pca.partial_fit(rows(10))
    with pytest.raises(RuntimeError, match="failed inside a batch"):
        pca.save_stream(tmp_path / "s")


def test_a_bad_row_late_in_an_array_uses_none_of_it():
    pca = make("dp-pca")
    stream(pca, rows(9000), 3000)
    known = pca._stream.stream.rows_used, pca._stream.feed.pending
    late = np.repeat(rows(1000), 800, axis=0)  # more than one block of the source
    late[-1, 0] = np.nan
    with pytest.raises(ValueError, match="None of its rows were used"):
        pca.partial_fit(late)
    assert (pca._stream.stream.rows_used, pca._stream.feed.pending) == known


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda pca: pickle.loads(pickle.dumps(pca))])
def test_a_copy_of_a_stream_does_not_go_on(copied, tmp_path):
    """Else every copy would release the next rows anew, and the ledger has one charge."""
    ledger = Ledger.create(tmp_path / "study.ledger", epsilon=9.0, delta=1e-3)
    pca = make("dp-pca", ledger=ledger).partial_fit(rows(9000))
    twin = copied(pca)
    np.testing.assert_array_equal(twin.transform(rows(5)), pca.transform(rows(5)))
    with pytest.raises(RuntimeError, match=r"copy of a stream.*resume_stream"):
        twin.partial_fit(rows(9000, 5))
    with pytest.raises(RuntimeError, match="copy of a stream"):
        twin.save_stream(tmp_path / "state")
    seen = pca.n_samples_seen_
    assert pca.partial_fit(rows(9000, 5)).n_samples_seen_ > seen
    assert len(ledger.history()) == 1


def test_a_saved_stream_is_resumed_once(tmp_path):
    pca = make("dp-pca")
    stream(pca, rows(9000), 3000)
    pca.save_stream(tmp_path / "s")
    PrivatePCA.resume_stream(tmp_path / "s")
    with pytest.raises(ValueError, match="resumed before"):
        PrivatePCA.resume_stream(tmp_path / "s")
    PrivatePCA.resume_stream(tmp_path / "s", again=True)


def test_what_a_stream_released_is_there_when_the_ledger_is_gone(tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=9.0, delta=1e-3)
    pca, X = make("oja", ledger=ledger).partial_fit(rows(10)), rows()
    ledger.path.rename(tmp_path / "away")
    with pytest.raises(PaidError, match="counts as spent"):
        pca.partial_fit(X[:6000])
    assert pca.release_.facts["n_rows"] == pca.n_samples_seen_ > 0
    (tmp_path / "away").rename(ledger.path)
    assert [entry["state"] for entry in ledger.history()] == ["reserved"]
    pca.partial_fit(X[6000:6010])
    assert [entry["state"] for entry in ledger.history()] == ["committed"]


def test_a_stream_by_a_method_of_ones_own_says_that_it_cannot_be_saved(tmp_path):
    class Own(Oja):
        name = "own"

    pca = make("oja", method=Own(block=2000)).partial_fit(rows(4000))
    with pytest.raises(ValueError, match="'method' parameter of save_stream"):
        pca.save_stream(tmp_path / "state")
    assert not (tmp_path / "state").exists()
