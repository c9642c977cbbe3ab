"""What hostile cases share: what counts as a clear refusal, where files go, how bytes are spoiled."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path

import numpy as np

from dpeigen.privacy.ledger import BudgetExceededError
from dpeigen.stats import BadRowsError

Generator = np.random.Generator
CLEAR = (
    ValueError,
    TypeError,
    BadRowsError,
    BudgetExceededError,
    FileNotFoundError,
)  # what a user may be told by an estimator
FOLDER = Path(tempfile.mkdtemp(prefix="dpeigen-fuzz-"))
MOST_WORDS = 900  # a message is read by a person


def clear(error: BaseException) -> str:
    """A refusal counts only if it says something, and not too much."""
    text = str(error)
    assert not isinstance(error, UnicodeError), f"a bare {type(error).__name__}"
    assert text.strip(), f"{type(error).__name__} without a message"
    assert len(text) < MOST_WORDS, f"a message of {len(text)} characters"
    return "refused"


def spoil(content: bytes, rng: Generator) -> bytes:
    """A few bits flipped, a part cut, doubled or filled: what disks, networks and people do."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        if not data:
            break
        at = int(rng.integers(len(data)))
        how = rng.integers(7)
        if how < 3:
            data[at] ^= 1 << int(rng.integers(8))
        elif how == 3:
            del data[at:]
        elif how == 4:
            data[at:at] = data[at : at + int(rng.integers(1, 40))]
        elif how == 5:
            data[at : at + 8] = rng.bytes(8)
        else:
            data[at : at + 4] = struct.pack("<I", int(rng.choice([0, 1, 2**31 - 1, 2**32 - 1])))
    return bytes(data)


def put(name: str, content: bytes) -> Path:
    path = FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
