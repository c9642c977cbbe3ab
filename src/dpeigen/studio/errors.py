"""Refusals, with messages for the page, and the conversion of the library's errors to such messages.

The message of an exception that the library raises about parameters contains no value of the data. Of any other
exception only the type is shown, because code that does not handle private data with care may have written its message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["RefusedError", "plain_remedies", "words_for_the_page"]


class RefusedError(Exception):
    """A request that is refused: the message has the remedy, and ``status`` is the HTTP status."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


_PLAIN = (
    (r"The '(\w+)' parameter of \w+ must", r"\1 must"),
    (r"public bounds, bound=\(lower, upper\)", "lowest and highest values for every column, moved to the limit"),
    (r"scale= public deviations", "columns in their own units"),
    (r"missing=['\"]correct['\"]", "correcting for missing cells (in the Columns step)"),
    (r"missing=['\"]drop['\"]", "leaving out rows with missing cells"),
    (r"--(?=[a-z])", ""),
    (r"\bepsilon\b", "ε"),
    (r"\bdelta\b", "δ"),
    (r" in the file of config", ""),
    (r"Rename these columns\.", "Rename these columns in the file, then read the names again."),
    (r", such as header=3 \(-?-?header 3\)\.", ", then read the names again."),
)


def plain_remedies(text: str) -> str:
    """A message of the library, which names parameters and options, in the words of the pages.

    >>> plain_remedies("The 'epsilon' parameter of plan must be larger. Give --target.")
    'ε must be larger. Give target.'
    """
    for pattern, words in _PLAIN:
        text = re.sub(pattern, words, text)
    return text


@contextmanager
def words_for_the_page() -> Iterator[None]:
    """Turn exceptions of the library into refusals, as the commands do (`cli._errors.one_line_errors`)."""
    from dpeigen.cli._errors import UnreadableError
    from dpeigen.privacy.ledger import (
        BudgetExceededError,
        DamagedLedgerError,
        LedgerUnavailableError,
        RepeatedReleaseError,
    )
    from dpeigen.stats import BadRowsError

    known = (UnreadableError, BadRowsError, BudgetExceededError, RepeatedReleaseError, LedgerUnavailableError)
    try:
        yield
    except RefusedError:
        raise
    except (*known, ValueError, TypeError, DamagedLedgerError, ImportError) as error:
        raise RefusedError(plain_remedies(str(error))) from None
    except OSError as error:
        raise RefusedError(
            f"{error.filename}: {error.strerror}" if error.strerror else "A file cannot be used."
        ) from None
    except Exception as error:
        raise RefusedError(
            f"Unexpected {type(error).__name__}; this is a bug, please report what you did.", 500
        ) from None
