"""What workers of a cluster do, whichever engine runs them: measure a partition, and combine measurements.

A worker gets an empty statistic (public parameters) and the rows of a partition, and returns bytes. Both functions are
pure: they do not change their arguments, so a task that is retried or run twice gives the same bytes again. Each
measurement names its partitions, and a partition is never counted twice. Errors are returned as our own sentences,
because an engine writes the exceptions of its tasks, including values, to its logs.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from dpeigen._arithmetic import own_error_state
from dpeigen.sources.base import UnreadableRowsError
from dpeigen.stats import BadRowsError, Statistic
from dpeigen.stats.threads import single_blas
from dpeigen.stats.units import terms_of

__all__ = ["Measurement", "S", "T", "combine", "measure", "quietly", "result", "size_of"]

S = TypeVar("S", bound=Statistic)
T = TypeVar("T")


@dataclass(frozen=True)
class Measurement:
    """The statistic of some partitions, or the reason why there is none."""

    partitions: frozenset[int]
    statistic: Statistic | None
    rows: int = 0
    refusal: str = ""
    unreadable: bool = False


@own_error_state
def measure(empty: Statistic, partition: int, blocks: Iterable[Any], convert: Callable[[Any], Any]) -> bytes:
    """The statistic of the blocks of one partition; blocks that are converted to None are left out."""
    statistic, count = empty.fresh(), 0
    with single_blas():
        for block in blocks:  # errors of the engine itself are not caught here
            try:
                rows = convert(block)
                if rows is not None:
                    statistic.update(rows)
                    count += terms_of(rows)
                continue
            except BadRowsError as error:
                refusal, unreadable = str(error), isinstance(error, UnreadableRowsError)
            except Exception as error:  # its message may contain a value, its type does not
                refusal, unreadable = f"A partition could not be read ({type(error).__name__})", True
            return _packed(Measurement(frozenset([partition]), None, 0, refusal, unreadable))
    return _packed(Measurement(frozenset([partition]), statistic, count))


def combine(measurements: Iterable[bytes]) -> bytes:
    """One measurement of all their partitions."""
    partitions: frozenset[int] = frozenset()
    total: Statistic | None = None
    rows = 0
    for packed in measurements:
        part = _unpacked(packed)  # a new copy: merging does not change the arguments
        if part.statistic is None:
            return packed
        if partitions & part.partitions:
            return _packed(Measurement(frozenset(), None, 0, "A partition came back twice", True))
        partitions |= part.partitions
        rows += part.rows
        total = part.statistic if total is None else total.merge(part.statistic)
    return b"" if total is None else _packed(Measurement(partitions, total, rows))


def result(empty: S, packed: bytes, check_rows: Callable[[int], object], partitions: int | None = None) -> S:
    """The statistic in a measurement of all partitions, or its refusal. ``partitions``: their number, if known.

    ``check_rows`` is called with the number of rows.
    """
    if not packed:
        check_rows(0)
        return empty.fresh()
    found = _unpacked(packed)
    if found.refusal:
        kind = UnreadableRowsError if found.unreadable else BadRowsError
        text = found.refusal
        raise kind(text if "othing was spent" in text else f"{text}. Nothing was spent.")
    if partitions is not None and len(found.partitions) != partitions:
        raise UnreadableRowsError("Not every partition came back. Nothing was spent.")
    check_rows(found.rows)
    return found.statistic  # type: ignore[return-value]


def quietly(engine: str, call: Callable[[], T]) -> T:
    """The result of the call. An engine's exceptions may contain rows, so only their type is passed on."""
    try:
        return call()
    except UnreadableRowsError:
        raise
    except Exception as error:
        kind = type(error).__name__
    raise UnreadableRowsError(
        f"{engine} could not compute the rows ({kind}): a file or a step before this one failed, or workers were lost "
        f"too often. {engine}'s own log says more, and may quote rows. Nothing was spent."
    )


def size_of(empty: Statistic) -> int:
    """The size of a statistic in bytes; public, since the statistic is empty."""
    import cloudpickle

    return len(cloudpickle.dumps(empty))


def _packed(measurement: Measurement) -> bytes:
    import cloudpickle  # comes with Dask and PySpark; needed because a transform may be the caller's function

    return zlib.compress(cloudpickle.dumps(measurement), 1)


def _unpacked(packed: bytes) -> Measurement:
    found: Measurement = pickle.loads(zlib.decompress(packed))
    return found
