"""Local privacy: the client, the sampler beside OpenDP's, sparse components, and the service under load and kill -9."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

Line = tuple[str, str, str, "bool | None"]
P, REPORTS, BATCH, SENDERS = 32, 12_000, 500, 2


def seconds(call, repeat: int = 3) -> float:
    call()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return sorted(times)[repeat // 2]


def client() -> list[Line]:
    from dpeigen.local import LocalAggregator, LocalRandomizer
    from dpeigen.privacy.randomness import DeviceRandomness, SystemRandomness

    lines: list[Line] = []
    row = np.full(P, 0.1)
    for name, delta in (("gaussian", 1e-6), ("privunit", 0.0)):
        made = LocalRandomizer(P, epsilon=1.0, delta=delta)
        took = seconds(lambda made=made: [made.report(row) for _ in range(50)]) / 50
        lines.append((f"local report `{name}`, p = {P}, ε = 1", f"{1000 * took:.2f} ms", "", None))
    reports = [made.report(row) for _ in range(2000)]
    took = seconds(lambda: LocalAggregator(made).add_many(reports)) / len(reports)
    lines.append((f"aggregate a report, p = {P}", f"{1e6 * took:.0f} µs", "", None))
    ours = seconds(lambda: DeviceRandomness().discrete_gaussian(2.0**40, 100_000))
    theirs = seconds(lambda: SystemRandomness().discrete_gaussian(2.0**40, 100_000))
    figure = f"{ours:.3f} s, {ours / theirs:.2f}× OpenDP ({theirs:.3f} s)"
    return [*lines, ("exact discrete Gaussians without OpenDP, 100,000 draws", figure, "≤ 1×", ours <= theirs)]


def sparse() -> list[Line]:
    from dpeigen.local.sparse import TOLERANCE, default_penalty
    from dpeigen.stats import fantope_admm, projection_distance

    lines: list[Line] = []
    noise = 0.008  # off-diagonal, of the average: PrivUnit at ε = 6, n = 2000 has 0.0073
    for p, bar in ((400, 5.0), (2000, 120.0)):
        rng = np.random.default_rng(0)
        V, support = np.zeros((10, p)), rng.choice(p, 20, replace=False)
        V[:, support] = np.linalg.qr(rng.normal(size=(20, 10)))[0].T
        N = rng.normal(size=(p, p))
        S = V.T @ V / 10 + noise * (N + N.T) / np.sqrt(2)
        start = time.perf_counter()
        found = fantope_admm(S, 10, default_penalty(p, noise), tolerance=TOLERANCE)
        took = time.perf_counter() - start
        plain = np.linalg.eigh(S)[1][:, -10:].T
        what = f"sparse components, p = {p}, k = 10, s = 20, default penalty"
        lines.append((what, f"{took:.1f} s, {found.iterations} iterations", f"≤ {bar:g} s", took <= bar))
        hits = [
            len(set(np.argsort(-np.linalg.norm(rows, axis=0))[:20]) & set(support))
            for rows in (found.components, plain)
        ]
        errors = [projection_distance(rows, V) for rows in (found.components, plain)]
        figure = f"{hits[0]} of 20 columns, plain {hits[1]}; subspace error {errors[0]:.2f}, plain {errors[1]:.2f}"
        lines.append(("  support recovered beside plain top-k, same noise", figure, "more", hits[0] > hits[1]))
    return lines


class Service:
    """The real service in a process of its own."""

    def __init__(self, folder: Path) -> None:
        from dpeigen.local import LocalParameters
        from dpeigen.local.journal import write_parameters

        self.folder, self.parameters = folder, LocalParameters(P, 1.0, 1e-6)
        self.agreed = folder.parent / "agreed.json"
        write_parameters(self.agreed, self.parameters)

    def start(self) -> None:
        from dpeigen.local import fetch_parameters

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "dpeigen", "local", "serve", str(self.folder), "--port", str(port)]
        command += ["--parameters", str(self.agreed), "--approved", self.parameters.digest]
        self.process = subprocess.Popen([*command, "--reports-per-second", "1e6"], stdout=subprocess.DEVNULL)
        for _ in range(600):
            with contextlib.suppress(OSError):
                fetch_parameters(self.url)
                return
            time.sleep(0.05)
        raise RuntimeError("the service did not start")

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


def service() -> list[Line]:
    from dpeigen.local import LocalAggregator, LocalRandomizer, post_reports

    with tempfile.TemporaryDirectory() as place:
        running = Service(Path(place) / "kept")
        made = LocalRandomizer.from_parameters(running.parameters)
        reports = [made.report(np.full(P, 0.1)) for _ in range(REPORTS)]
        running.start()
        share = REPORTS // SENDERS
        acknowledged = []

        def send(part: list[bytes]) -> None:
            acknowledged.append(post_reports(running.url, part, batch=BATCH)["accepted"])

        start = time.perf_counter()
        senders = [threading.Thread(target=send, args=(reports[i * share : (i + 1) * share],)) for i in range(SENDERS)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        rate = sum(acknowledged) / (time.perf_counter() - start)
        running.kill()
        running.start()
        running.kill()
        kept = LocalAggregator(running.parameters).add_files(running.folder)
        whole = kept == LocalAggregator(running.parameters).add_many(reports)
    what = f"service on loopback, p = {P}, {SENDERS} senders, {BATCH} reports a post, synced before each answer"
    return [
        (what, f"{rate:,.0f} reports/s", "≥ 2,000/s", rate >= 2000),
        ("  after kill -9 and restart", f"{kept.n_reports} of {sum(acknowledged)} acknowledged", "all", whole),
    ]


def rows() -> list[Line]:
    """(what, figure, bar, met) of everything here."""
    return [*client(), *sparse(), *service()]


if __name__ == "__main__":
    for line in rows():
        print(*line, sep=" | ")
