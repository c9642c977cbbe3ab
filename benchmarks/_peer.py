"""Run by `peers.py` inside a peer's own environment: fits of one table, one JSON line for each.

Usage: python _peer.py PEER TABLE.npy K RADIUS SECONDS EPSILON REPETITIONS …   (the last two repeated)

K may be several numbers of components, separated by commas. A line is {"epsilon", "k", "seconds", "components",
"variances"}, or {"epsilon", "gave_up"} when SECONDS were over before all repetitions were done. Needs NumPy and the
peer only.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
import warnings

import numpy as np


def ibm(X, k, radius, epsilon):
    from diffprivlib.models import PCA

    model = PCA(k, epsilon=epsilon, centered=True, data_norm=radius).fit(X.copy())
    return model.components_, model.explained_variance_


def opendp(X, k, radius, epsilon):
    """With a known centre, at the ε that its own map states for one row replaced."""
    import opendp.prelude as dp
    from opendp.extras.sklearn.decomposition import make_private_pca

    d = X.shape[1]
    domain = dp.numpy.array2_domain(num_columns=d, size=len(X), norm=radius, p=2, origin=np.zeros(d), T=float)
    measurement = make_private_pca(domain, dp.symmetric_distance(), float(epsilon), num_components=k)
    assert measurement.map(2) <= epsilon * (1 + 1e-6)
    found = measurement(X)
    return found.Vt[:k], np.asarray(found.S)[:k] ** 2 / (len(X) - 1)


def opendp_class(X, k, radius, epsilon):
    """The class, which estimates a mean. By its own map it spends twice the ε that it is given: it gets half."""
    from opendp.extras.sklearn.decomposition import PCA

    model = PCA(epsilon=epsilon / 2, row_norm=radius, n_samples=len(X), n_features=X.shape[1], n_components=k)
    model.fit(X.copy())
    return model.components_, model.explained_variance_


PEERS = {"diffprivlib": ibm, "opendp": opendp, "opendp-class": opendp_class}


def say(**line):
    print(json.dumps(line), flush=True)


def fits(fit, X, k, radius, epsilon, repetitions):
    for _ in range(repetitions):
        start = time.perf_counter()
        components, variances = (np.asarray(part).tolist() for part in fit(X, k, radius, epsilon))
        seconds = time.perf_counter() - start
        say(epsilon=epsilon, k=k, seconds=seconds, components=components, variances=variances)


def limited(seconds, call, *arguments):
    """Run in a process of its own, and end that when the time is over; whether it ended by itself."""
    process = multiprocessing.get_context("fork").Process(target=call, args=arguments)
    process.start()
    process.join(seconds)
    ended = process.exitcode is not None
    if not ended:
        process.kill()
        process.join()
    elif process.exitcode:
        raise SystemExit(process.exitcode)
    return ended


def main(peer, table, k, radius, seconds, *cells):
    warnings.simplefilter("ignore")
    if peer.startswith("opendp"):
        import opendp.prelude as dp

        dp.enable_features("contrib", "idealized-numerics", "honest-but-curious", "floating-point")
    X, fit = np.load(table), PEERS[peer]
    fit(X[:50, :2], 1, float(radius), 1.0)  # importing is not timed
    for epsilon, repetitions in zip(map(float, cells[::2]), map(int, cells[1::2]), strict=True):
        for each in map(int, k.split(",")):
            if not limited(float(seconds), fits, fit, X, each, float(radius), epsilon, repetitions):
                say(epsilon=epsilon, gave_up=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
