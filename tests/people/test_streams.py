"""Streams of people: all rows of a person come in one call, and only then is anything used."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest

from dpeigen import Ledger, PrivatePCA
from dpeigen.sources import BlockSource

RNG = np.random.default_rng(0)
IDS = np.repeat(np.arange(8000), 2)
ROWS = RNG.normal(size=(len(IDS), 3)) * [3.0, 1.0, 1.0]
OPTIONS = {"epsilon": 30.0, "delta": 1e-5, "method": "oja", "bound": 12.0, "center": None}


def started(**more):
    return PrivatePCA(1, **OPTIONS, **more).partial_fit(ROWS[:8000], unit=IDS[:8000])


def test_a_stream_uses_one_row_of_each_person():
    stream = started().partial_fit(ROWS[8000:], unit=IDS[8000:])
    used = stream.n_samples_seen_ + stream._stream.feed.pending
    assert used <= 8000
    assert stream._stream.task.unit == "unit"


def test_someone_who_was_there_before_is_refused_and_nothing_is_used(tmp_path):
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=100.0, delta=1e-3)
    stream = started(ledger=ledger)
    before, spent = stream.n_samples_seen_, ledger.remaining()
    mixed = np.concatenate([np.arange(9000, 9010), [17]])
    with pytest.raises(ValueError, match="earlier call") as refused:
        stream.partial_fit(ROWS[:11], unit=mixed)
    assert "17" not in str(refused.value)
    assert ledger.history()[-1]["reason"] == "refused after data were read: someone of an earlier call, in a stream"
    assert (stream.n_samples_seen_, ledger.remaining()) == (before, spent)
    stream.partial_fit(ROWS[:10], unit=mixed[:10])  # these are new, and were not taken in by the refused call
    with pytest.raises(ValueError, match="earlier call"):
        stream.partial_fit(ROWS[:1], unit=["17"])  # the same id, as text
    stream.partial_fit(ROWS[:2], unit=[None, None])  # people of their own, every time
    stream.partial_fit(ROWS[:2], unit=[None, None])


@pytest.mark.parametrize("draws", range(3))
def test_people_of_a_refused_block_may_come_again(draws):
    """One of twenty rows is bad, and mostly it would not stand for its person; it is refused all the same."""
    stream = started()
    rows, ids = ROWS[:20].copy(), np.repeat([9000, 9001 + draws], 10)
    rows[7] = np.nan
    before = stream.n_samples_seen_
    with pytest.raises(ValueError, match="not finite"):
        stream.partial_fit(rows, unit=ids)
    assert stream.n_samples_seen_ == before
    stream.partial_fit(ROWS[:20], unit=ids)
    with pytest.raises(ValueError, match="earlier call"):
        stream.partial_fit(ROWS[:1], unit=[9000])


def test_every_call_says_whose_rows_they_are():
    stream = started()
    with pytest.raises(ValueError, match="in every call"):
        stream.partial_fit(ROWS[:10])
    with pytest.raises(ValueError, match="one id for each row"):
        stream.partial_fit(ROWS[:10], unit=np.arange(9001, 9004))
    plain = PrivatePCA(1, **OPTIONS).partial_fit(ROWS[:10])
    with pytest.raises(ValueError, match="in every call"):
        plain.partial_fit(ROWS[:10], unit=np.arange(10))


def test_columns_of_frames_say_it_too():
    frame = pd.DataFrame(ROWS[:4000], columns=["a", "b", "c"]).assign(who=IDS[:4000])
    stream = PrivatePCA(1, **OPTIONS, unit="who").partial_fit(frame)
    assert list(stream.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="earlier call"):
        stream.partial_fit(frame)


def test_ids_are_not_saved_copied_or_pickled(tmp_path):
    frame = pd.DataFrame(ROWS[:100], columns=["a", "b", "c"]).assign(who=[f"SECRET{i}" for i in range(100)])
    stream = PrivatePCA(1, **OPTIONS, unit="who").partial_fit(frame)
    assert b"SECRET" not in pickle.dumps(stream)
    assert not copy.deepcopy(stream)._stream.people._digests
    with pytest.raises(ValueError, match="save_stream"):
        stream.save_stream(tmp_path / "s")


def test_a_cap_is_no_part_of_a_stream():
    with pytest.raises(ValueError, match="None for partial_fit"):
        started(max_rows=2)


def test_the_stream_protects_what_its_parameter_names():
    stream = started(unit="patient")
    assert stream._stream.task.unit == "patient"


def test_a_source_that_is_read_once_is_refused_before_anyone_is_taken_in():
    """Before, some rows were used, in another order than theirs, and nobody of the call could come again."""
    stream = started()
    rows, ids = np.full((20, 3), np.nan), np.arange(9000, 9020)
    before = stream.n_samples_seen_, stream._stream.feed.pending
    with pytest.raises(ValueError, match="None of its rows were used") as refused:
        stream.partial_fit(BlockSource(iter([rows]), n_features=3), unit=ids)
    assert "go on" not in str(refused.value)
    assert (stream.n_samples_seen_, stream._stream.feed.pending) == before
    stream.partial_fit(ROWS[:20], unit=ids)


@pytest.mark.parametrize("draws", range(4))
def test_a_refusal_of_a_source_that_is_read_once_does_not_depend_on_the_draw(draws):
    """One of fifty rows of a person is bad: drawn or not, it is refused, so that trying again says nothing."""
    stream = started()
    rows, ids = np.ones((60, 3)), np.append(np.full(50, 9000), np.arange(9001, 9011))
    rows[7, 1] = np.nan
    for _ in range(2):
        with pytest.raises(ValueError, match="None of its rows were used"):
            stream.partial_fit(BlockSource(iter([rows]), n_features=3), unit=ids)
