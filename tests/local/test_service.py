"""The ingestion service: what it acknowledges is kept through kill -9, what it refuses changes nothing."""

from __future__ import annotations

import asyncio
import http.client
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dpeigen.local import (
    LocalAggregator,
    LocalParameters,
    LocalRandomizer,
    fetch_parameters,
    post_reports,
    write_reports,
)
from dpeigen.local.gate import CONTENT, Gate, RateLimit, check_token, sender_of
from dpeigen.local.journal import Journal, pack, unpack, write_parameters
from dpeigen.local.post import ServiceError
from dpeigen.local.service import Ingestion, ingestion_app

pytest.importorskip("uvicorn")
starlette = pytest.importorskip("starlette")

PARAMETERS = LocalParameters(4, 2.0, 1e-6)
FAST = ("--reports-per-second", "1e5")
TOKEN = "a-token-of-the-study-0123456789"


@pytest.fixture(scope="module")
def reports():
    client = LocalRandomizer.from_parameters(PARAMETERS)
    rows = np.random.default_rng(0).normal(size=(600, 4)) * 0.3
    return [client.report(row) for row in rows]


class Service:
    """The real server in a process of its own."""

    def __init__(self, folder, *options):
        self.folder, self.options = folder, options
        self.agreed = folder.parent / "agreed.json"
        write_parameters(self.agreed, PARAMETERS)
        self.start()

    def start(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "dpeigen", "local", "serve", str(self.folder), "--port", str(self.port)]
        command += ["--parameters", str(self.agreed), "--approved", PARAMETERS.digest, *self.options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for _ in range(600):
            if self.process.poll() is not None:
                raise AssertionError(self.process.stderr.read())
            try:
                fetch_parameters(self.url)
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError("the service did not start")

    def kill(self, how=signal.SIGKILL):
        os.kill(self.process.pid, how)
        self.process.wait(30)
        self.process.stderr.close()

    def send(self, body, path="/reports", method="POST", headers=None):
        """A raw request: (status, body of the answer). An iterator is sent in chunks, without a length."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            line.request(method, path, body=body, headers={"Content-Type": CONTENT, **(headers or {})})
            answer = line.getresponse()
            return answer.status, answer.read()
        finally:
            line.close()


@pytest.fixture
def service(tmp_path):
    running = Service(tmp_path / "kept", "--reports-per-file", "150", *FAST)
    yield running
    if running.process.poll() is None:
        running.kill()


def kept(folder):
    return LocalAggregator(PARAMETERS).add_files(folder)


def test_nothing_acknowledged_is_lost_in_kill_9(service, reports):
    """Reports are posted in small batches while the service is killed twice; clients know which were acknowledged."""
    acknowledged: list[bytes] = []
    lock = threading.Lock()

    def post(group):
        try:
            answer = post_reports(service.url, group, batch=len(group), tries=1)
        except OSError:
            return
        assert answer["accepted"] == len(group)
        with lock:
            acknowledged.extend(group)

    groups = [reports[i : i + 7] for i in range(0, len(reports), 7)]
    for half in (groups[: len(groups) // 2], groups[len(groups) // 2 :]):
        with ThreadPoolExecutor(3) as pool:
            waiting = [pool.submit(post, group) for group in half]
            while sum(done.done() for done in waiting) < len(half) // 2:
                time.sleep(0.002)
            service.kill()
            for done in waiting:
                done.result()
        service.start()
    assert len(acknowledged) >= len(reports) // 4
    answer = post_reports(service.url, reports)  # everything again: what had arrived is recognised
    assert answer["refused"].get("duplicate", 0) >= len(acknowledged)
    service.kill(signal.SIGTERM)
    assert kept(service.folder) == LocalAggregator(PARAMETERS).add_many(reports)
    assert not list(service.folder.glob("*.log"))


def test_ten_thousand_malformed_reports_and_requests_leave_the_aggregate_as_it_was(service, reports):
    post_reports(service.url, reports[:100])
    rng, good = np.random.default_rng(1), reports[200]
    bad = [good[:-1], good + b"x", rng.bytes(len(good)), b"", good[:60] + b"\0\0\xc0\x7f" + good[64:]]
    for _ in range(20):
        status, answer = service.send(pack([bad[i % 5] for i in range(500)]))
        assert status == 200
        assert b'"accepted":0' in answer
    for body, status in [
        (b"", 400), (b"\xff\xff\xff\xff", 400), (pack([good])[:-3], 400), (pack([b"x" * 10**6]), 400), (b"{}" * 9, 400),
    ]:  # fmt: skip
        assert service.send(body)[0] == status
    assert service.send(pack([bad[0]] * 501))[0] == 413
    assert service.send(b"", "/reports", "GET")[0] == 405
    assert service.send(b"", "/elsewhere")[0] == 404
    service.kill(signal.SIGTERM)
    assert kept(service.folder) == LocalAggregator(PARAMETERS).add_many(reports[:100])


def test_limits(tmp_path, reports):
    service = Service(tmp_path / "kept", "--largest-body", "20000", "--reports-per-second", "40")
    try:
        assert service.send(b"x" * 20001)[0] == 413
        assert service.send(iter([b"x" * 15000] * 2))[0] == 413
        assert service.send(pack(reports[:70]))[0] == 200
        assert service.send(pack(reports[70:130]))[0] == 429
        assert service.send(pack(reports[70:130]), headers={"X-Forwarded-For": "198.51.100.7"})[0] == 429
        assert service.send(b"\0" * 20000)[0] == 400  # five thousand reports of nothing
        answer = post_reports(service.url, reports[70:130])  # the client waits as it is told
        assert answer == {"accepted": 60, "refused": {}}
    finally:
        service.kill()


def test_parameters_that_are_asked_for(service):
    assert fetch_parameters(service.url, digest=PARAMETERS.digest) == PARAMETERS
    with pytest.raises(ServiceError, match="not the approved"):
        fetch_parameters(service.url, digest="0" * 64)
    with pytest.raises(ValueError, match="http"):
        fetch_parameters("file:///etc/passwd")
    with pytest.raises(ServiceError, match="reached"):
        post_reports("http://127.0.0.1:9", [b"x"], tries=1, timeout=2)


# --- who may send --------------------------------------------------------------------------------------------------


def ask(app, path="/reports", body=b"", method="POST", client=("192.0.2.1", 1), **headers):
    """(status, answer) of the application to one request, without a server."""
    given = {"host": "localhost", "content-type": CONTENT, **{k.replace("_", "-"): v for k, v in headers.items()}}
    scope = {
        "type": "http", "method": method, "path": path, "query_string": b"", "client": client,
        "headers": [(k.encode(), v.encode()) for k, v in given.items() if v is not None],
    }  # fmt: skip
    answers = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        answers.append(message)

    asyncio.run(asyncio.wait_for(app(scope, receive, send), 30))
    return answers[0]["status"], json.loads(answers[1]["body"] or b"{}")


@pytest.fixture
def app(tmp_path):
    """A function that makes the application with options."""
    made = []

    def make(**options):
        options = {"approved": PARAMETERS.digest, "reports_per_second": 1e5, **options}
        made.append(ingestion_app(tmp_path / f"kept-{len(made)}", PARAMETERS, **options))
        return made[-1]

    yield make
    for one in made:
        one.state.service.close()


def test_a_token_is_asked_for_and_nothing_else_passes(app, reports):
    closed = app(token=TOKEN)
    body = pack(reports[:2])
    wrong = [None, "", TOKEN, f"Basic {TOKEN}", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer \xe9"]
    for given in wrong:
        assert ask(closed, body=body, authorization=given)[0] == 401
        assert ask(closed, "/status", method="GET", authorization=given)[0] == 401
    assert closed.state.service.aggregate.n_reports == 0
    assert ask(closed, "/parameters", method="GET")[0] == 200  # public
    assert ask(closed, body=body, authorization=f"bearer {TOKEN}") == (200, {"accepted": 2, "refused": {}})
    assert ask(closed, "/status", method="GET", authorization=f"Bearer {TOKEN}")[1]["reports"] == 2


def test_a_service_and_its_client_share_a_token(tmp_path, reports, monkeypatch):
    (tmp_path / "token").write_text(TOKEN + "\n")
    service = Service(tmp_path / "kept", "--token-file", str(tmp_path / "token"), *FAST)
    try:
        with pytest.raises(ServiceError, match="401"):
            post_reports(service.url, reports[:3])
        assert post_reports(service.url, reports[:3], token=TOKEN)["accepted"] == 3
        command = [sys.executable, "-m", "dpeigen", "local", "post", str(tmp_path / "r.parquet"), "--url", service.url]
        write_reports(tmp_path / "r.parquet", reports[3:5])
        assert subprocess.run(command, capture_output=True).returncode == 2
        told = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "DPEIGEN_TOKEN": TOKEN})
        assert "2 accepted" in told.stdout
    finally:
        service.kill()


@pytest.mark.parametrize("token", ["", "short", "with a space in it", "new\nline-0123456789", "é" * 20, "x" * 513])
def test_a_token_that_is_easy_to_guess_or_cannot_be_sent_is_refused_without_showing_it(token):
    with pytest.raises(ValueError, match="'token' parameter") as refusal:
        check_token(token, "ingestion_app")
    assert not token or token not in str(refusal.value).replace("a space", "")


def test_reports_come_as_bytes_and_not_from_forms(app, reports):
    open_to_all = app()
    for kind in (None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/json"):
        assert ask(open_to_all, body=pack(reports[:1]), content_type=kind)[0] == 415
    assert ask(open_to_all, body=pack(reports[:1]), content_type=f"{CONTENT}; v=1")[0] == 200


def test_requests_for_another_host_are_refused(app, reports):
    """A page elsewhere whose name points here (DNS rebinding) sends its own name."""
    named = app(hosts=["study.example"])
    for host in ("evil.example", "", None, "localhost.evil.example", "192.0.2.9:8000", "study.example.evil.example"):
        for path, method in (("/reports", "POST"), ("/parameters", "GET"), ("/status", "GET")):
            assert ask(named, path, pack(reports[:1]), method, host=host)[0] == 421
    for host in ("study.example", "Study.Example:443", "study.example.", "127.0.0.1:8000", "[::1]:8000", "localhost"):
        assert ask(named, "/parameters", method="GET", host=host)[0] == 200
    everywhere = Gate(["0.0.0.0"], None)
    assert everywhere.knows({"host": "192.0.2.9:8000"})
    assert not everywhere.knows({"host": "evil.example"})


def test_a_study_takes_so_many_reports_and_no_more(app, reports, tmp_path):
    small = app(most_reports=5)
    assert ask(small, body=pack(reports[:3]))[1]["accepted"] == 3
    assert ask(small, body=pack(reports[3:7])) == (200, {"accepted": 2, "refused": {"full": 2}})
    assert ask(small, body=pack([*reports[7:9], reports[0]]))[1] == {
        "accepted": 0, "refused": {"full": 2, "duplicate": 1},
    }  # fmt: skip
    small.state.service.close()
    again = Ingestion(tmp_path / "kept-0", PARAMETERS, most_reports=5)
    assert again.take(reports[10:12])["refused"] == {"full": 2}
    again.close()


def test_an_address_may_send_little_by_default(tmp_path, reports):
    """Ten a second: what is sent at once is waited for."""
    default = ingestion_app(tmp_path / "kept", PARAMETERS, approved=PARAMETERS.digest)
    try:
        assert ask(default, body=pack(reports[:500]))[0] == 200
        assert ask(default, body=pack(reports[500:501]))[0] == 429
    finally:
        default.state.service.close()


def test_all_addresses_together_may_send_so_much(app, reports):
    slow = app(reports_per_second_in_all=1e-3)
    assert ask(slow, body=pack(reports[:10]))[0] == 200
    assert ask(slow, body=pack(reports[10:11]), client=("192.0.2.2", 1))[0] == 429


def test_the_addresses_of_one_network_are_one_sender():
    assert sender_of("2001:db8::1") == sender_of("2001:db8::ffff:1:2:3") != sender_of("2001:db8:0:1::1")
    assert sender_of("::ffff:192.0.2.1") == sender_of("192.0.2.1") != sender_of("192.0.2.2")


def test_a_report_made_with_a_seed_does_not_mark_the_study(app, reports):
    with pytest.warns(UserWarning, match="not private"):
        seeded = LocalRandomizer.from_parameters(PARAMETERS, random_state=0)
    open_to_all = app()
    answer = ask(open_to_all, body=pack([reports[0], seeded.report(np.zeros(4))]))[1]
    assert answer == {"accepted": 1, "refused": {"seeded": 1}}
    assert open_to_all.state.service.aggregate.guarantee.is_private


def test_refusals_do_not_wait_for_the_disk(app, reports, monkeypatch):
    """While a write hangs, everything that is refused is answered."""
    busy = app(token=TOKEN, largest_body=20_000, reports_per_second=1.0)
    service = busy.state.service
    writing, go_on = threading.Event(), threading.Event()
    append = service._journal.append

    def hang(group):
        writing.set()
        assert go_on.wait(60)
        append(group)

    monkeypatch.setattr(service._journal, "append", hang)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(service.take, reports[:1])
        try:
            assert writing.wait(30)
            right = {"authorization": f"Bearer {TOKEN}"}
            assert ask(busy, body=pack(reports[1:2]))[0] == 401
            assert ask(busy, body=b"x" * 20_001, **right)[0] == 413
            assert ask(busy, body=b"junk", **right)[0] == 400
            bad = pack([b"DPELjunk", *[b"x" * len(reports[0])] * 60])
            assert ask(busy, body=bad, **right)[1]["refused"] == {"truncated": 1, "not a report": 60}
            assert ask(busy, body=bad, **right)[0] == 429
            assert ask(busy, "/status", method="GET", **right)[1]["refused"]["oversized"] == 1
        finally:
            go_on.set()
        assert slow.result()["accepted"] == 1


def test_one_report_from_two_requests_at_once_counts_once(app, reports):
    service = app().state.service
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: service.take(reports[:50]), range(8)))
    assert sum(answer["accepted"] for answer in answers) == 50
    assert service.aggregate == LocalAggregator(PARAMETERS).add_many(reports[:50])
    assert service.aggregate.refused == {"duplicate": 350}


# --- what a client agrees to ---------------------------------------------------------------------------------------


class Answering:
    """A server on this machine that gives one answer to everything."""

    def __init__(self, content, status=200, **headers):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(json.dumps(content).encode())

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self.url

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def test_a_server_that_asks_for_too_much_is_refused():
    greedy = LocalParameters(4, 50.0, 0.5)
    with Answering({"parameters": greedy.to_dict(), "digest": greedy.digest}) as url:
        with pytest.raises(ValueError, match="'epsilon' parameter of fetch_parameters must be at most 8"):
            fetch_parameters(url)
        with pytest.raises(ValueError, match="'delta' parameter"):
            fetch_parameters(url, at_most=(60.0, 1e-6))
        assert fetch_parameters(url, at_most=(50.0, 0.5)) == greedy
        assert fetch_parameters(url, digest=greedy.digest) == greedy  # somebody approved exactly these
        with pytest.raises(ValueError, match="consented"):
            fetch_parameters(url, digest=greedy.digest, at_most=(1.0, 1e-6))
        with pytest.raises(TypeError, match="at_most"):
            fetch_parameters(url, at_most=1.0)
    with pytest.raises(ValueError, match="consented"):
        LocalRandomizer.from_parameters(greedy)
    with pytest.raises(ValueError, match="'delta' parameter"):
        LocalRandomizer.from_parameters(LocalParameters(4, 1.0, 1e-3), at_most=1.0)
    assert LocalRandomizer.from_parameters(greedy, at_most=(50.0, 0.5)).parameters == greedy


@pytest.mark.parametrize("url", ["http://study.example", "http://192.0.2.1:8000", "http://localhost.evil.example"])
def test_plain_http_to_another_machine_is_refused(url):
    with pytest.raises(ValueError, match="https://"):
        fetch_parameters(url)
    with pytest.raises(ValueError, match="https://"):
        post_reports(url, [b"x"])


def test_plain_http_to_another_machine_can_be_allowed():
    with pytest.raises(OSError, match=r"reached|resol|known|unreach|timed out"):
        post_reports("http://study.invalid", [b"x"], tries=1, timeout=2, allow_http=True)


def test_nobody_is_sent_elsewhere(tmp_path):
    agreed = {"parameters": PARAMETERS.to_dict(), "digest": PARAMETERS.digest}
    with Answering(agreed) as other, Answering({}, 302, Location=other) as url, pytest.raises(OSError, match="302"):
        fetch_parameters(url)


@pytest.mark.parametrize("answer", [{}, {"accepted": "x", "refused": {}}, {"accepted": 1, "refused": 3}])
def test_an_answer_that_makes_no_sense_is_an_error_of_the_service(answer):
    with Answering(answer) as url, pytest.raises(ServiceError, match="does not say"):
        post_reports(url, [b"x"])


# --- without the protocol ------------------------------------------------------------------------------------------


def test_whatever_byte_a_log_is_torn_at_whole_reports_are_kept(tmp_path, reports):
    """A log cut at any byte (what a crash may leave) gives back the reports that are whole."""
    whole = pack(reports[:3])
    size = len(reports[0]) + 4
    for cut in range(0, len(whole) + 1, 7):
        folder = tmp_path / str(cut)
        Journal(folder, PARAMETERS).close()
        (folder / "batch-00000001.log").write_bytes(whole[:cut])
        (folder / "batch-00000002.parquet.part").write_bytes(b"half")
        service = Ingestion(folder, PARAMETERS)
        assert service.aggregate == LocalAggregator(PARAMETERS).add_many(reports[: cut // size])
        service.take(reports[3:5])
        service.close()
        assert kept(folder) == LocalAggregator(PARAMETERS).add_many([*reports[: cut // size], *reports[3:5]])


def test_a_log_that_became_parquet_is_not_counted_twice(tmp_path, reports):
    folder = tmp_path / "kept"
    service = Ingestion(folder, PARAMETERS)
    service.take(reports[:10])
    content = (folder / "batch-00000001.log").read_bytes()
    service.close()
    (folder / "batch-00000001.log").write_bytes(content)  # killed between the two
    again = Ingestion(folder, PARAMETERS)
    assert again.aggregate.n_reports == 10
    assert not again.aggregate.refused
    again.close()


def test_one_report_twice_in_one_request_counts_once(tmp_path, reports):
    service = Ingestion(tmp_path / "kept", PARAMETERS)
    assert service.take([reports[0], reports[0]]) == {"accepted": 1, "refused": {"duplicate": 1}}
    service.close()


def test_a_disk_that_is_full_is_not_acknowledged(tmp_path, reports, monkeypatch):
    service = Ingestion(tmp_path / "kept", PARAMETERS)
    service.take(reports[:2])
    sync, full = os.fsync, [True]

    def fsync(handle):
        if full.pop() if full else False:
            raise OSError(28, "No space left on device")
        sync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="No space"):
        service.take(reports[2:4])
    assert service.aggregate.n_reports == 2
    assert service.take(reports[2:5])["accepted"] == 3
    service.close()
    assert kept(tmp_path / "kept") == LocalAggregator(PARAMETERS).add_many(reports[:5])


@pytest.mark.parametrize("failing", ["write_reports", "sync_folder"])
def test_a_log_that_cannot_become_parquet_yet_costs_nothing(tmp_path, reports, monkeypatch, failing):
    """The disk has no room for the Parquet file, or not even for another log; later it has."""
    folder = tmp_path / "kept"
    service = Ingestion(folder, PARAMETERS, reports_per_file=10)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(f"dpeigen.local.journal.{failing}", full)
        for start in (0, 12, 24):
            assert service.take(reports[start : start + 12])["accepted"] == 12
        assert not list(folder.glob("*.parquet"))
        assert kept(folder) == service.aggregate == LocalAggregator(PARAMETERS).add_many(reports[:36])
    assert service.take(reports[36:50])["accepted"] == 14
    assert list(folder.glob("*.parquet"))
    assert kept(folder) == LocalAggregator(PARAMETERS).add_many(reports[:50])
    service.close()
    assert not list(folder.glob("*.log"))
    assert kept(folder) == LocalAggregator(PARAMETERS).add_many(reports[:50])


def test_a_folder_that_could_not_be_finished_is_let_go_and_recovered(tmp_path, reports, monkeypatch):
    service = Ingestion(tmp_path / "kept", PARAMETERS)
    service.take(reports[:5])
    with monkeypatch.context() as patch:
        patch.setattr("dpeigen.local.journal.write_reports", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
        service.close()
        again = Ingestion(tmp_path / "kept", PARAMETERS)  # even while the disk is still full
        assert again.aggregate.n_reports == 5
    again.close()
    assert kept(tmp_path / "kept") == LocalAggregator(PARAMETERS).add_many(reports[:5])
    assert not list((tmp_path / "kept").glob("*.log"))


def test_the_logs_of_a_running_or_killed_service_are_aggregated(tmp_path, reports):
    folder = tmp_path / "kept"
    service = Ingestion(folder, PARAMETERS, reports_per_file=10)
    service.take(reports[:10])
    service.take(reports[10:14])
    log = next(folder.glob("*.log"))
    content = log.read_bytes()
    assert kept(folder) == LocalAggregator(PARAMETERS).add_many(reports[:14])
    (folder / "batch-00000001.log").write_bytes(pack(reports[:10]))  # killed before it was removed
    found = kept(folder)
    assert (found.n_reports, dict(found.refused)) == (14, {})
    assert log.read_bytes() == content
    service.close()


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path):
    app = ingestion_app(tmp_path / "kept", PARAMETERS, approved=PARAMETERS.digest, seconds_per_body=0.05)
    answers = []

    async def receive():
        await asyncio.sleep(60)

    async def send(message):
        answers.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", CONTENT.encode())]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/reports",
        "headers": headers,
        "query_string": b"",
        "client": None,
    }
    asyncio.run(app(scope, receive, send))
    assert answers[0]["status"] == 408
    app.state.service.close()


def test_a_folder_has_one_service_and_one_set_of_parameters(tmp_path):
    service = Ingestion(tmp_path / "kept", PARAMETERS)
    with pytest.raises(ValueError, match="in use"):
        Ingestion(tmp_path / "kept", PARAMETERS)
    service.close()
    with pytest.raises(ValueError, match="other parameters"):
        Ingestion(tmp_path / "kept", LocalParameters(4, 3.0, 1e-6))
    Ingestion(tmp_path / "kept", PARAMETERS).close()


def test_posts_are_cut_by_bytes_too():
    from dpeigen.local.post import _groups

    sizes = [[len(report) for report in group] for group in _groups([b"x" * 10**6] * 5 + [b"y"] * 3, 3)]
    assert sizes == [[10**6] * 2, [10**6] * 2, [10**6, 1, 1], [1]]


def test_packing():
    assert unpack(pack([b"ab", b"", b"c"]), 10) == ([b"ab", b"", b"c"], 15)
    assert unpack(pack([b"abc"]), 2) == ([], 0)


def test_rate_limit():
    now = [0.0]
    limit = RateLimit(10.0, 20.0, lambda: now[0])
    assert limit.wait("a", 20) == 0
    assert limit.wait("a", 5) == pytest.approx(0.5)
    assert limit.wait("b", 20) == 0  # another sender
    now[0] = 0.6
    assert limit.wait("a", 5) == 0
    assert limit.wait("a", 1000) > 0
    now[0] = 100.0
    assert limit.wait("a", 1000) == 0  # one large batch may take more than a bucket, and is in debt for it
    now[0] = 197.9
    assert limit.wait("a", 1) == pytest.approx(0.2)  # 20 − 1000 + 979
    now[0] = 198.2
    assert limit.wait("a", 1) == 0
    for i in range(20_000):
        limit.wait(str(i), 1)
    assert len(limit._left) <= 10_001
