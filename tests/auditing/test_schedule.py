"""The schedule: no process waits while there is work, and first readings of all audits come before second ones."""

from __future__ import annotations

from concurrent.futures import Future

from dpeigen.auditing.schedule import LateError, work_off

STAGES, FIRST = 3, 2


class Audit:
    """Three stages: one piece, two pieces, two pieces."""

    def __init__(self, name, above=None):
        self.name, self.above, self.kept = name, above, {}

    def ready(self):
        return self.above is None or "0-0" in self.above.kept

    def jobs(self, stage, deadline):
        pieces = [f"{stage}-{i}" for i in range(1 if stage == 0 else 2)]
        return [(self, piece) for piece in pieces if piece not in self.kept]

    def save(self, job, value):
        self.kept[job[1]] = value


class Pool:
    """Processes that finish a piece only when every other one is busy: the longest search is the first one's."""

    def __init__(self, workers, slow):
        self.workers, self.slow, self.order, self.held = workers, slow, [], []

    def submit(self, job):
        future = Future()
        self.order.append((job[0].name, job[1]))
        if (job[0].name, job[1]) == self.slow:
            self.held.append(future)
        else:
            future.set_result(1)
        if len(self.order) > 12:
            for late in self.held:
                if not late.done():
                    late.set_result(1)
        return future


def run(audits, submit, workers=2):
    return work_off(
        audits, stages=STAGES, first=FIRST, submit=submit, workers=workers, deadline=None, progress=lambda stages: None
    )


def test_others_go_on_while_one_search_takes_long():
    audits = [Audit(str(i)) for i in range(6)]
    pool = Pool(2, ("0", "0-0"))
    assert run(audits, pool.submit) == [STAGES] * 6
    before = [name for name, _ in pool.order[:12]]
    assert before.count("0") == 1
    assert {"1", "2", "3", "4"} <= set(before)


def test_first_readings_come_before_second_ones():
    audits = [Audit(str(i)) for i in range(5)]
    pool = Pool(1, None)
    run(audits, pool.submit, workers=1)
    second = [place for place, (_, piece) in enumerate(pool.order) if piece.startswith("2")]
    first = [place for place, (_, piece) in enumerate(pool.order) if not piece.startswith("2")]
    assert len(pool.order) == len(set(pool.order)) == 25
    assert max(first) - min(second) <= 3  # but for what is in flight


def test_a_search_waits_for_the_one_that_it_repeats():
    large = Audit("large")
    small = Audit("small", above=large)
    pool = Pool(2, None)
    assert run([large, small], pool.submit) == [STAGES, STAGES]
    assert pool.order[0] == ("large", "0-0")


def test_a_late_piece_stops_its_audit_and_no_other():
    def submit(job):
        future = Future()
        if (job[0].name, job[1]) == ("0", "1-1"):
            future.set_exception(LateError())
        else:
            future.set_result(1)
        return future

    assert run([Audit("0"), Audit("1")], submit) == [1, STAGES]


def test_what_is_on_disk_is_not_done_again():
    audit = Audit("0")
    audit.kept = {"0-0": 1, "1-0": 1, "1-1": 1, "2-0": 1}
    pool = Pool(1, None)
    assert run([audit], pool.submit) == [STAGES]
    assert pool.order == [("0", "2-1")]
