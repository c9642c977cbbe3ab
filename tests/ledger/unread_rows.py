"""Rows that must not be read: a refused release opens no block of them."""

from __future__ import annotations

from dpeigen.sources import Source


class Forbidden(Source):
    """Rows that must not be read."""

    n_features, n_rows = 3, 80

    def blocks(self):
        raise AssertionError("a row was read")
