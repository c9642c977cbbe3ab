"""Errors of a private answer against the same rows without privacy, for `tables.py`.

None in place of an answer: the fit refused. It counts as the answer of somebody who knows the number of columns only.
"""

from __future__ import annotations

import numpy as np

K = 2  # components asked for


def correlation_error(covariance: np.ndarray | None, truth: np.ndarray) -> float:
    """Root mean square error of the correlations off the diagonal; a column without variance correlates with none."""
    found = np.eye(len(truth))
    if covariance is not None:
        root = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        safe = np.where(root > 0, root, 1.0)
        found = np.where(np.outer(root, root) > 0, covariance / safe / safe[:, None], 0.0)
    above = np.triu_indices(len(truth), 1)
    return float(np.sqrt(np.mean((found - truth)[above] ** 2)))


def variance_error(covariance: np.ndarray | None, truth: np.ndarray) -> float:
    """The largest relative error of a column's variance."""
    return 1.0 if covariance is None else float(np.max(np.abs(np.diag(covariance) / truth - 1)))


def captured(components: np.ndarray | None, correlation: np.ndarray) -> float:
    """Variance of standardised rows along k components over the most that k components can have (1: as good as any)."""
    best = float(np.sum(np.linalg.eigvalsh(correlation)[-K:]))
    if components is None:
        return K / best  # the mean over random planes: the trace is d
    rows = np.linalg.qr(np.asarray(components).T)[0].T
    return float(np.trace(rows @ correlation @ rows.T)) / best


def explained_error(variances: np.ndarray | None, correlation: np.ndarray) -> float:
    """The largest relative error of a component's variance against the eigenvalue of the same rank."""
    truth = np.linalg.eigvalsh(correlation)[::-1][:K]
    return 1.0 if variances is None else float(np.max(np.abs(np.asarray(variances) / truth - 1)))


def mahalanobis_error(covariance: np.ndarray, truth: np.ndarray) -> float:
    """‖Σ^-½(Σ̂ − Σ)Σ^-½‖_F: the same in all units and coordinates."""
    factor = np.linalg.inv(np.linalg.cholesky(truth))  # differs from Σ^-½ by a rotation, which the norm does not see
    return float(np.linalg.norm(factor @ (covariance - truth) @ factor.T))


def frobenius_error(covariance: np.ndarray | None, truth: np.ndarray) -> float:
    """‖Σ̂ − Σ‖_F/‖Σ‖_F."""
    return 1.0 if covariance is None else float(np.linalg.norm(covariance - truth) / np.linalg.norm(truth))


def with_variances(covariance: np.ndarray | None, truth: np.ndarray) -> np.ndarray | None:
    """The covariance with the same correlations and exact variances; a column without variance correlates with none."""
    if covariance is None:
        return None
    root = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    factors = np.divide(np.sqrt(np.diag(truth)), root, out=np.zeros_like(root), where=root > 0)
    found = covariance * np.outer(factors, factors)
    np.fill_diagonal(found, np.diag(truth))
    return found
