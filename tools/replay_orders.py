"""Random orders of two neighbouring tables that belong together: common rows stand where they stood, or next to it.

Every order of the second table is as likely as the one of the first that it belongs to, so that what is released is
compared under both. ``places`` says where each row of the first table is in the second, −1 for a row that it lacks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.intp]


def same_order(drawn: Places, places: Places, n: int) -> Places:
    """The order of the n rows of the second table that belongs to a drawn order of the first.

    Consecutive rows are a pair, and the last of an odd number sits out. One row more or less changes one pair, or
    there is one pair more or less; all others stay.
    """
    order, gone = places[drawn], np.flatnonzero(places[drawn] < 0)
    new = np.setdiff1d(np.arange(n), places)
    if len(new) == len(gone):
        order[gone] = new
        return order
    if len(new):
        return _with(order, new[0], drawn[0])
    return _without(order, int(gone[0]))


def _with(order: Places, new: np.intp, pick: np.intp) -> Places:
    """Of an even number of rows one makes room for the new one and sits out; of an odd number the last is its pair."""
    longer = np.append(order, new)
    if len(order) and len(order) % 2 == 0:
        at = int(pick) % len(order)  # any will do
        longer[[at, -1]] = longer[[-1, at]]
    return longer


def _without(order: Places, at: int) -> Places:
    """Of an odd number of rows the last takes the free place; of an even number the other of the pair sits out."""
    if len(order) % 2:
        order[at] = order[-1]
        return order[:-1]
    left_over = order[at ^ 1]
    return np.append(np.delete(order, [at, at ^ 1]), left_over)


def same_coins(drawn: NDArray[np.float64], places: Places) -> NDArray[np.float64]:
    """Each row of the second table gets the coin that it had in the first."""
    coins = np.empty_like(drawn)
    coins[places] = drawn
    return coins


def places_in_part(first: NDArray[np.bool_], second: NDArray[np.bool_], places: Places) -> Places:
    """Where each chosen row of the first table is among those chosen of the second."""
    ranks = np.cumsum(second) - 1
    return np.asarray(ranks[places[first]], dtype=np.intp)
