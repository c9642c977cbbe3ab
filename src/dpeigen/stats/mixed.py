"""Errors of a covariance whose columns were divided by released numbers: deviations, or roots of frequencies.

The divisors have errors too. To first order, with z_ij = C_ij/(s_i·s_j),

    dz_ij = dC_ij/(s_i·s_j) − z_ij·(ds_i/s_i + ds_j/s_j)

where ds/s is dC_ii/(2·C_ii) for a standard deviation and dp/(2p) for the root of a frequency p.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats

__all__ = ["divided_errors"]


def divided_errors(
    seen: Floats, deviations: Floats, draws: Floats, mean: Floats | None, roots: Floats, indicators: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """The divided matrix and draws of its error.

    ``seen`` has the errors ``draws`` (m × d × d), and the centre has the errors ``mean`` (m × d; None if the moment is
    about 0 and its diagonal gives the frequencies). ``roots``: square roots of the frequencies of ``indicators``. Other
    columns are divided by their ``deviations``, so that their variances are 1 by definition.
    """
    by = np.where(indicators, roots, deviations)
    inverse = np.divide(1.0, by, out=np.zeros_like(by), where=by > 0)
    area = np.outer(inverse, inverse)
    seen, draws = seen * area, draws * area
    own = np.einsum("mii->mi", draws) / 2
    if mean is not None:
        own = np.where(indicators, mean * inverse**2 / 2, own)
    draws = draws - seen * (own[:, :, None] + own[:, None, :])
    seen, numbers = seen.copy(), np.flatnonzero(~indicators)
    seen[numbers, numbers] = 1.0
    draws[:, numbers, numbers] = 0.0
    return seen, draws
