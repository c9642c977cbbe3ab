"""Local privacy: how many lying clients take the top component over, in the plain and in the clipped sum.

n honest rows vary along the first axis (second moment 0.49 there, 0.1 along all others together; bound 1). A liar sends
the largest report that is accepted, all of it along one direction at a right angle to that axis. The component is taken
when the one that is released is closer to the liars' direction than to the axis.
"""

from __future__ import annotations

import math

import numpy as np

from dpeigen.local import LocalAggregator, LocalParameters, LocalRandomizer
from dpeigen.local.privunit import SCALE
from dpeigen.local.wire import encode

N, DRAWS = 10_000, 3
SETTINGS = [(p, epsilon, delta) for p in (4, 32) for epsilon in (1.0, 4.0) for delta in (1e-6, 0.0)]


def lie(parameters: LocalParameters, number: int) -> bytes:
    """The largest report that is accepted, along u = (0, 1, …, 1)/√(p − 1)."""
    p, limits = parameters.n_features, parameters.limits(1)
    u = np.r_[0.0, np.ones(p - 1)] / math.sqrt(p - 1)
    upper = np.triu_indices(p)
    packed = np.outer(u, u)[upper]
    if parameters.mechanism == "privunit":
        packed = packed * np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
    steps = np.trunc(packed * 0.9999 * limits.norm).astype(np.int64)
    name = number.to_bytes(16, "little")
    return encode(steps, parameters.header, limits, rows=1, seeded=False, name=name)


def honest_rows(p: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rest = rng.normal(size=(N, p - 1)) * math.sqrt(0.1 / (p - 1))
    return np.c_[rng.choice([-0.7, 0.7], size=N), rest]


def taken(honest: LocalAggregator, lies: int) -> bool:
    """With real reports, through the checks that any report goes through."""
    parameters = honest.parameters
    server = LocalAggregator(parameters, aggregate=honest.aggregate)
    server.add_many(lie(parameters, i) for i in range(lies))
    assert (server.n_reports, dict(server.refused)) == (lies, {})
    total = (N * honest.moment + (lies * server.moment if lies else 0.0)) / (N + lies)
    top = np.linalg.eigh(total)[1][:, -1]
    u = np.r_[0.0, np.ones(parameters.n_features - 1)] / math.sqrt(parameters.n_features - 1)
    return bool(abs(top @ u) > abs(top[0]))


def fewest(honest: LocalAggregator) -> int:
    low, high = 0, 1
    while not taken(honest, high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if taken(honest, middle) else (middle, high)
    return high


def measure(p: int, epsilon: float, delta: float) -> str:
    counts: dict[str, list[int]] = {"mean": [], "clipped": []}
    angles: dict[str, list[float]] = {"mean": [], "clipped": []}
    clipped = 0
    for seed in range(DRAWS):
        client = LocalRandomizer(p, epsilon=epsilon, delta=delta)
        reports = [client.report(row) for row in honest_rows(p, seed)]
        for kind in counts:
            server = LocalAggregator(client, aggregate=kind).add_many(reports)
            component = server.pca(1).components[0]
            angles[kind].append(math.sqrt(max(0.0, 1 - component[0] ** 2)))
            counts[kind].append(fewest(server))
            clipped += server.n_clipped
    cells = [f"{p}", f"{epsilon:g}", client.parameters.mechanism]
    for kind in counts:
        cells += [f"{sorted(counts[kind])}", f"{np.median(angles[kind]):.3f}"]
    weights = client.parameters.limits(1).norm / (client.parameters.scale if delta else SCALE)
    return " | ".join([*cells, f"{clipped} of {DRAWS * N}", f"{weights:.1f}"])


if __name__ == "__main__":
    print("p | ε | mechanism | lies, mean | sin θ honest | lies, clipped | sin θ honest | shortened | largest lie / σ")
    for setting in SETTINGS:
        print(measure(*setting), flush=True)
