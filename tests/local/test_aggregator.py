"""The aggregator: exact sums in any order, refusals one by one, and what comes out."""

from __future__ import annotations

import math
import struct

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpeigen import load_release
from dpeigen.evaluation import sin_theta
from dpeigen.io import DamagedReleaseError
from dpeigen.local import LocalAggregator, LocalParameters, LocalRandomizer, write_reports
from dpeigen.local.wire import REASONS, _checksum, encode, size_of
from dpeigen.privacy import GaussianCost
from dpeigen.privacy.shuffling import shuffled_epsilon


@pytest.fixture(scope="module")
def made(client):
    return client(3, epsilon=2.0, delta=1e-6, most_rows=7)


@pytest.fixture(scope="module")
def reports(made, rows):
    return [made.report(row) for row in rows] + [made.report_rows(rows[:7])]


def bits(server):
    return server._sum.limbs[0].tobytes() + server._sum.limbs[1].tobytes()


def resealed(report, at, content):
    """A report with some bytes exchanged and the checksum made to fit: a forger's, not the line's."""
    body = report[:at] + content + report[at + len(content) : -8]
    return body + _checksum(body)


def damaged(report):
    """(what, report, reason) of every way a report can be wrong."""
    nan, inf = struct.pack("<f", math.nan), struct.pack("<f", -math.inf)
    return [
        ("a number", 7, "not bytes"),
        ("text", "DPEL", "not bytes"),
        ("nothing", b"", "not a report"),
        ("junk", b"x" * len(report), "not a report"),
        ("header only", report[:50], "truncated"),
        ("short", report[:-1], "truncated"),
        ("long", report + b"\0", "oversized"),
        ("huge", report + b"\0" * 10**6, "oversized"),
        ("flipped bit", report[:60] + bytes([report[60] ^ 1]) + report[61:], "checksum"),
        ("flipped checksum", report[:-1] + bytes([report[-1] ^ 1]), "checksum"),
        ("version", resealed(report, 4, b"\x02"), "version"),
        ("mechanism", resealed(report, 5, b"\x02"), "parameters"),
        ("flags", resealed(report, 6, b"\x09"), "parameters"),
        ("scaled", resealed(report, 6, b"\x03"), "parameters"),
        ("grid", resealed(report, 7, b"\x3f"), "parameters"),
        ("columns", resealed(report, 8, struct.pack("<I", 4)), "parameters"),
        ("no rows", resealed(report, 12, struct.pack("<I", 0)), "parameters"),
        ("rows", resealed(report, 12, struct.pack("<I", 2**32 - 1)), "parameters"),
        ("epsilon", resealed(report, 16, struct.pack("<d", 2.0 + 1e-15 * 8)), "parameters"),
        ("epsilon is NaN", resealed(report, 16, struct.pack("<d", math.nan)), "parameters"),
        ("delta", resealed(report, 24, struct.pack("<d", 1e-5)), "parameters"),
        ("bound", resealed(report, 32, struct.pack("<d", 10.0)), "parameters"),
        ("NaN", resealed(report, 56, nan), "not finite"),
        ("infinite", resealed(report, 60, inf), "not finite"),
        ("off the grid", resealed(report, 64, struct.pack("<f", 0.5)), "off the grid"),
        ("out of range", resealed(report, 64, struct.pack("<f", 2.0**23)), "out of range"),
        ("all at the edge", resealed(report, 56, struct.pack("<6f", *[-(2.0**22)] * 6)), "out of range"),
    ]


def test_every_damage_is_refused_by_itself_and_counted(made, reports):
    server = LocalAggregator(made).add_many(reports[:50])
    before = bits(server)
    for what, bad, reason in damaged(reports[60]):
        counted = server.refused[reason]
        assert server.add(bad) is False, what
        assert server.refused[reason] == counted + 1, (what, dict(server.refused))
    assert bits(server) == before
    assert server.n_reports == 50
    assert set(server.refused) <= set(REASONS)
    assert server.add(reports[60])  # and the good one is still taken


def test_ten_thousand_malformed_reports_leave_the_sum_as_it_was(made, reports):
    """Random bytes, random cuts, random flips."""
    rng = np.random.default_rng(0)
    server = LocalAggregator(made).add_many(reports[:20])
    before, report = bits(server), reports[30]
    for _ in range(10_000):
        kind = rng.integers(3)
        if kind == 0:
            bad = rng.bytes(int(rng.integers(0, 300)))
        elif kind == 1:
            bad = report[: int(rng.integers(0, len(report)))]
        else:
            at = int(rng.integers(0, len(report)))
            bad = report[:at] + bytes([report[at] ^ int(rng.integers(1, 256))]) + report[at + 1 :]
        assert not server.add(bad)
    assert bits(server) == before
    assert sum(server.refused.values()) == 10_000


def test_a_report_counts_once(made, reports):
    server = LocalAggregator(made).add_many(reports)
    before = bits(server)
    server.add_many(reports)
    assert server.refused == {"duplicate": len(reports)}
    assert bits(server) == before


def test_nobody_can_take_the_place_of_a_report(made, reports):
    """A forged report with the random bytes of another one does not keep that one out."""
    forged = resealed(reports[1], 40, reports[0][40:56])
    server = LocalAggregator(made).add_many([forged, reports[0]])
    assert (server.n_reports, dict(server.refused)) == (2, {})


def test_a_report_speaks_for_the_agreed_number_of_rows_and_no_more(made, client, rows):
    """A fake one that claims a million rows would be the aggregate."""
    liar = client(3, epsilon=2.0, delta=1e-6, most_rows=2**20, seed=9)
    server = LocalAggregator(made)
    assert not server.add(liar.report_rows(np.tile([1.0, 0.0, 0.0], (8, 1))))
    assert dict(server.refused) == {"parameters": 1}
    assert server.add(liar.report_rows(rows[:7]))
    assert not LocalAggregator(client(3, epsilon=2.0, delta=1e-6)).add(made.report_rows(rows[:2]))


@given(st.lists(st.integers(0, 2), min_size=30, max_size=30), st.permutations(range(30)))
def test_any_split_order_and_merging_gives_the_same_bits(made, reports, shards, order):
    whole = LocalAggregator(made).add_many(reports[:30])
    parts = [LocalAggregator(made) for _ in range(3)]
    for i in order:
        parts[shards[i]].add(reports[i])
    left = LocalAggregator(made).merge(parts[0]).merge(parts[1]).merge(parts[2])
    right = LocalAggregator(made).merge(parts[2]).merge(LocalAggregator(made).merge(parts[1]).merge(parts[0]))
    assert left == right == whole
    assert bits(left) == bits(right) == bits(whole)


def test_merging_refuses_other_parameters_and_shared_reports(made, client, reports):
    one, two = LocalAggregator(made).add_many(reports[:10]), LocalAggregator(made).add_many(reports[9:20])
    with pytest.raises(ValueError, match="1 reports are in both"):
        one.merge(two)
    assert one.n_reports == 10
    with pytest.raises(ValueError, match="different parameters"):
        one.merge(LocalAggregator(client(3, epsilon=1.0, most_rows=7)))


def test_saved_and_resumed(made, reports, tmp_path):
    server = LocalAggregator(made, shuffled_delta=1e-5).add_many([*reports[:40], b"junk"])
    path = server.save(tmp_path / "state.safetensors")
    again = LocalAggregator.load(path)
    assert again == server
    assert (again.refused, again.shuffled_delta) == (server.refused, server.shuffled_delta)
    assert not again.add(reports[0])  # it remembers what it has seen
    assert again.add_many(reports[40:]) == LocalAggregator(made).add_many(reports)


def test_a_damaged_state_is_refused(made, reports, tmp_path):
    path = LocalAggregator(made).add_many(reports[:5]).save(tmp_path / "state")
    content = path.read_bytes()
    for at in (0, 20, 100, len(content) // 2, len(content) - 3):
        path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        with pytest.raises(DamagedReleaseError):
            LocalAggregator.load(path)
    path.write_bytes(content[:-5])
    with pytest.raises(DamagedReleaseError):
        LocalAggregator.load(path)
    with pytest.raises(DamagedReleaseError):
        LocalAggregator.load(tmp_path / "nowhere")


def test_files_and_folders(made, reports, tmp_path):
    write_reports(tmp_path / "a.parquet", reports[:100])
    column = pa.table({"report": pa.array(reports[100:], type=pa.binary()), "other": [1] * len(reports[100:])})
    pyarrow.feather.write_feather(column, str(tmp_path / "b.arrow"))
    (tmp_path / "c.parquet").write_bytes(b"not parquet")
    pa.parquet.write_table(pa.table({"x": [1.0]}), tmp_path / "d.parquet")
    pa.parquet.write_table(pa.table({"report": [1.0, None]}), tmp_path / "e.parquet")
    (tmp_path / "notes.txt").write_text("ignored")
    seen = []
    server = LocalAggregator(made).add_files(tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert server == LocalAggregator(made).add_many(reports)
    assert server.refused == {"unreadable file": 3}
    assert seen == [(i, 5) for i in range(1, 6)]
    with pytest.raises(FileNotFoundError):
        server.add_files(tmp_path / "nowhere")


def test_nothing_comes_from_no_reports(made):
    for call in (lambda s: s.moment, lambda s: s.pca(1), lambda s: s.covariance(), lambda s: s.sparse_pca(1)):
        with pytest.raises(ValueError, match="no reports"):
            call(LocalAggregator(made))


def test_releases(made, reports, tmp_path):
    server = LocalAggregator(made, shuffled_delta=1e-6).add_many(reports[:400])
    assert server.moment.tolist() == server.moment.T.tolist()
    release = server.pca(2)
    assert release.guarantee.trust == "local"
    assert release.components.shape == (2, 3)
    told = release.facts["details"]["shuffled_guarantee"]
    assert told["trust"] == "shuffled"
    assert told["epsilon"] == pytest.approx(shuffled_epsilon(GaussianCost(made.parameters.share), 400, 1e-6))
    covariance = server.covariance().covariance
    assert np.linalg.eigvalsh(covariance).min() > -1e-12
    assert np.trace(covariance) <= 1 + 1e-9
    assert load_release(server.covariance().save(tmp_path / "out")).guarantee == server.guarantee
    assert LocalAggregator(made).add_many(reports).pca(1).facts["details"]["shuffled_guarantee"] is None


def test_shuffling_helps_where_there_are_many(client):
    """The same reports, stated locally and shuffled."""
    pure = LocalAggregator(client(2, epsilon=1.0, delta=0), shuffled_delta=1e-6)
    pure.n_reports = pure.n_rows = 10_000
    assert pure.shuffled_guarantee.epsilon < 0.06 < pure.guarantee.epsilon


def test_the_sum_of_a_site_ends_the_shuffled_guarantee(made, reports):
    server = LocalAggregator(made, shuffled_delta=1e-6).add_many(reports[:400])
    assert server.shuffled_guarantee is not None
    server.add(reports[400])  # seven rows in one report
    assert server.shuffled_guarantee is None
    assert server.pca(1).facts["details"]["shuffled_guarantee"] is None


def test_batches_that_were_shuffled_apart_do_not_hide_each_other(made, reports, tmp_path):
    def batch(low, high, delta=1e-6):
        return LocalAggregator(made, shuffled_delta=delta).add_many(reports[low:high])

    assert batch(0, 300).merge(batch(300, 400)).n_shuffled == 100
    assert batch(0, 0).merge(batch(0, 300)).n_shuffled == 300
    merged = batch(0, 300).merge(batch(300, 400))
    assert merged.shuffled_guarantee.epsilon == batch(300, 400).shuffled_guarantee.epsilon
    assert batch(0, 300).merge(batch(300, 400, None)).shuffled_guarantee is None
    assert batch(0, 300, None).merge(batch(300, 400)).shuffled_guarantee is None
    resumed = LocalAggregator.load(batch(0, 300).save(tmp_path / "state"))
    assert resumed.n_shuffled == 300
    assert resumed.add_many(reports[300:350]).n_shuffled == 50


@pytest.mark.parametrize("delta", [0, 0.0, -1e-6, 1.0, math.nan])
def test_shuffling_needs_a_delta(made, delta):
    with pytest.raises(ValueError, match="delta"):
        LocalAggregator(made, shuffled_delta=delta)


def test_components_are_found(client):
    """8 columns, a strong direction, 3000 rows at ε = 4: the sine of the angle is below ½ for both mechanisms."""
    X = np.random.default_rng(3).normal(size=(3000, 8)) * 0.1
    X[:, 2] += np.random.default_rng(4).normal(size=3000) * 0.6
    truth = np.eye(8)[2:3]
    for delta in (1e-6, 0.0):
        made = client(8, epsilon=4.0, delta=delta)
        server = LocalAggregator(made).add_many(made.report(row) for row in X)
        assert sin_theta(server.pca(1).components, truth) < 0.5
        assert sin_theta(server.sparse_pca(1).components, truth) < 0.5


def test_sparse_components(client):
    X = np.zeros((2000, 30))
    X[:, :3] = np.random.default_rng(3).normal(size=(2000, 1)) * np.array([0.5, -0.4, 0.3])
    made = client(30, epsilon=6.0, delta=1e-6, most_rows=1000)
    server = LocalAggregator(made).add_many([made.report_rows(X[:1000]), made.report_rows(X[1000:])])
    release = server.sparse_pca(1, penalty=0.02)
    assert set(np.flatnonzero(release.components[0])) == {0, 1, 2}
    assert release.facts["details"]["support"] == [0, 1, 2]
    assert server.sparse_pca(1).facts["details"]["converged"]
    with pytest.raises(ValueError, match="penalty"):
        server.sparse_pca(1, penalty=-1.0)
    with pytest.raises(ValueError, match="k"):
        server.sparse_pca(31)


@pytest.mark.parametrize("p", [1, 2, 32])
def test_the_size_of_a_report(client, p):
    made = client(p)
    assert len(made.report(np.zeros(p))) == size_of(p) == made.report_size == 64 + 2 * p * (p + 1)


def test_the_grid_is_fine_beside_the_noise():
    for epsilon in (1e-3, 1.0, 50.0):
        for rows in (1, 1000, 2**20):
            parameters = LocalParameters(10, epsilon, 1e-6)
            limits = parameters.limits(rows)
            assert limits.units < 2**23
            assert 2.0**limits.exponent < max(parameters.scale / 2**16, rows * 2.0**40 / 2**21)


# --- reports that would mark a study, and lies ---------------------------------------------------------------------


def test_one_seeded_report_does_not_mark_a_study_as_not_private(client):
    """A single flag byte, from anyone, was enough."""
    agreed = LocalParameters(3, 2.0, 1e-6)
    honest = LocalRandomizer.from_parameters(agreed)
    forged = resealed(honest.report([0.1, 0.2, 0.3]), 6, b"\x01")
    server = LocalAggregator(agreed).add_many([honest.report([0.1, 0.2, 0.3]), forged])
    assert (server.n_reports, dict(server.refused)) == (1, {"seeded": 1})
    assert server.guarantee.is_private
    assert LocalAggregator(agreed).add(client(3).report([0.1, 0.2, 0.3])) is False


def test_a_study_can_be_declared_a_seeded_test(client, tmp_path):
    rehearsal = LocalParameters(3, 2.0, 1e-6, seeded_test=True)
    assert rehearsal.digest != LocalParameters(3, 2.0, 1e-6).digest
    assert client(3).parameters == rehearsal
    server = LocalAggregator(rehearsal).add_many([client(3).report([0.1, 0.2, 0.3])])
    assert server.n_reports == 1
    assert not server.guarantee.is_private
    assert LocalAggregator.load(server.save(tmp_path / "state")) == server
    unseeded = LocalRandomizer.from_parameters(rehearsal)
    assert not LocalAggregator(rehearsal).add_many([unseeded.report([0.1, 0.2, 0.3])]).guarantee.is_private


def test_digests_of_other_studies_are_what_they_were():
    """Approved digests stay valid: the new parameter is part of them only where it is set."""
    assert set(LocalParameters(3, 1.0, 1e-6).to_dict()) == {
        "n_features", "epsilon", "delta", "bound", "mechanism", "rows", "most_rows",
    }  # fmt: skip


def lies_of(made, count, rows=1):
    """The largest report that is taken, all of it along one direction in the last two columns."""
    parameters, limits = made.parameters, made.parameters.limits(rows)
    p = parameters.n_features
    u = np.r_[np.zeros(p - 2), 1.0, 1.0] / math.sqrt(2)
    upper = np.triu_indices(p)
    weights = np.where(upper[0] == upper[1], 1.0, math.sqrt(2) if parameters.mechanism == "privunit" else 1.0)
    steps = np.trunc(np.outer(u, u)[upper] * weights * 0.999 * limits.norm).astype(np.int64)
    return [
        encode(steps, parameters.header, limits, rows=rows, seeded=False, name=i.to_bytes(16, "little"))
        for i in range(count)
    ]


@pytest.mark.parametrize(("delta", "count"), [(1e-6, 65), (0.0, 130)])
def test_lies_weigh_less_in_a_clipped_sum(client, delta, count):
    """A few lies among 2000 reports: the plain component is theirs, the clipped one is that of the rows."""
    made = client(16, epsilon=4.0, delta=delta)
    X = np.random.default_rng(7).normal(size=(2000, 16)) * 0.05
    X[:, 0] = 0.9
    reports = [made.report(row) for row in X]
    plain = LocalAggregator(made).add_many(reports).add_many(lies_of(made, count))
    clipped = LocalAggregator(made, aggregate="clipped").add_many(reports).add_many(lies_of(made, count))
    assert plain.n_reports == clipped.n_reports == 2000 + count
    assert abs(plain.pca(1).components[0, 0]) < 0.5
    assert abs(clipped.pca(1).components[0, 0]) > 0.8
    assert count <= clipped.n_clipped <= count + 10
    assert clipped.pca(1).facts["details"]["aggregate"] == "clipped"


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_honest_reports_are_clipped_no_more_often_than_is_said(client, delta):
    """At most one in a thousand; of 3000, more than 13 with probability below 1e-5."""
    made = client(2, epsilon=1.0, delta=delta)
    server = LocalAggregator(made, aggregate="clipped")
    server.add_many(made.report([1.0, 0.0]) for _ in range(3000))
    assert server.n_clipped <= 13


def test_clipped_sums_are_saved_merged_and_kept_apart_from_plain_ones(made, reports, tmp_path):
    lies = lies_of(made, 40, rows=7)
    whole = LocalAggregator(made, aggregate="clipped").add_many([*reports[:30], *lies])
    first = LocalAggregator(made, aggregate="clipped").add_many(lies[:20])
    second = LocalAggregator(made, aggregate="clipped").add_many([*reports[:30], *lies[20:]])
    assert bits(first.merge(second)) == bits(whole)
    assert (first, first.n_clipped) == (whole, 40)
    again = LocalAggregator.load(whole.save(tmp_path / "state"))
    assert (again, again.n_clipped) == (whole, 40)
    with pytest.raises(ValueError, match="kinds"):
        whole.merge(LocalAggregator(made).add_many(reports[30:40]))
    with pytest.raises(ValueError, match="aggregate"):
        LocalAggregator(made, aggregate="median")


def test_released_facts_have_the_names_that_readers_look_for(made, reports):
    facts = LocalAggregator(made).add_many(reports[:50]).pca(1).facts
    assert facts["feature_names"] is None
    assert "feature_seen" not in facts
