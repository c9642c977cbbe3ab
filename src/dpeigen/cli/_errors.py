"""How the commands fail: one line on standard error, an exit code that says whose move it is, and no value of the data.

2: the call must be changed · 3: the data cannot be read · 4: the ledger refuses · 1: a bug.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

USAGE, UNREADABLE, REFUSED, BUG = 2, 3, 4, 1


class UnreadableError(Exception):
    """Data that cannot be read; the message shows no value."""


def fail(code: int, message: object) -> NoReturn:
    """Print one line and leave."""
    typer.echo("dpeigen: " + " ".join(str(message).split()), err=True)
    raise typer.Exit(code)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn exceptions of the library into exits. Parameter errors name the parameter; data errors name no value."""
    from dpeigen.datasets import DatasetError
    from dpeigen.privacy.ledger import (
        BudgetExceededError,
        DamagedLedgerError,
        LedgerUnavailableError,
        RepeatedReleaseError,
    )
    from dpeigen.stats import BadRowsError

    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except (BudgetExceededError, RepeatedReleaseError, LedgerUnavailableError) as error:
        fail(REFUSED, error)
    except (UnreadableError, BadRowsError, DatasetError) as error:
        fail(UNREADABLE, error)
    except (ValueError, TypeError, DamagedLedgerError, ImportError) as error:
        fail(USAGE, error)
    except OSError as error:
        fail(USAGE, f"{error.filename}: {error.strerror}" if error.strerror else error)
    except Exception as error:
        # The message is not shown: it was written by code that does not know it may be looking at private data.
        fail(BUG, f"unexpected {type(error).__name__}; this is a bug, please report how it was called")
