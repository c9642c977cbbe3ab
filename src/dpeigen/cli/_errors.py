"""Errors of the commands: one line on standard error without values of the data, and an exit code.

0: done · 2: the call must be changed · 3: the data cannot be read · 4: the ledger refuses · 5: a release was made and
paid for, but not everything could be written to the requested place; or noise was drawn and no release was made ·
130, 143: stopped by Ctrl-C or SIGTERM · 1: a bug.
"""

from __future__ import annotations

import re
import shlex
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer

from dpeigen._text import clean

__all__ = [
    "BUG",
    "EXIT_CODES",
    "REFUSED",
    "STOPPED",
    "UNREADABLE",
    "UNWRITTEN",
    "USAGE",
    "UnreadableError",
    "as_options",
    "fail",
    "one_line_errors",
    "one_line_warnings",
    "say_if_unrecorded",
    "tell",
]

USAGE, UNREADABLE, REFUSED, UNWRITTEN, BUG = 2, 3, 4, 5, 1
STOPPED = 128  # plus the number of the signal
EXIT_CODES = (
    "Exit codes: 0 success; 2 wrong options or settings, nothing was spent; 3 the data cannot be read, nothing was "
    "spent; 4 the ledger refuses, nothing was spent; 5 a release was made and its budget is spent, but not everything "
    "could be written (the message says where it is); 130 stopped by Ctrl-C before a release was made (the message "
    "says whether anything was spent); 1 a bug."
)


_OPTIONS = (
    (r"\bbound=\(lower, upper\)", "--lower and --upper"),
    (r"\bscale= public deviations", "public deviations, --scale a,b,c"),
    (r"\bn_components=", "components="),
    (
        r"`columns=` of the estimators and of .* types are public\.",
        "--skip leaves columns out; --category, --ordinal and --type declare what they are, as a settings file does "
        "(dpeigen init).",
    ),
    (r"The 'columns' parameter of open_source must", "Columns that options or settings declare must"),
    (r"The 'skip' parameter of open_source must", "--skip must"),
    (r"(?<=names must differ from each other) in X\.", "."),
)
_ASSIGNED = (
    r"(?<![\w-])(epsilon|delta|missing|on_bad_row|unit|center|relation|method|scale|components)="
    r"(?:'([^']*)'|(\d[\d.]*(?:e-?\d+)?(?<!\.)))"
)


class UnreadableError(Exception):
    """Data that cannot be read; the message shows no value."""


def tell(message: object) -> None:
    """One line on standard error, without control characters, which names in a file may contain."""
    typer.echo("dpeigen: " + clean(as_options(" ".join(str(message).split()))), err=True)


def as_options(text: str) -> str:
    """A message of the library with its parameters as options of the command line.

    >>> as_options("Three remedies: public bounds, bound=(lower, upper); 1,100 rows; or epsilon=3.4.")
    'Three remedies: public bounds, --lower and --upper; 1,100 rows; or --epsilon 3.4.'
    >>> as_options("Set missing='correct', or give unit='patient id'.")
    "Set --missing correct, or give --unit 'patient id'."
    """
    for pattern, words in _OPTIONS:
        text = re.sub(pattern, words, text)
    return re.sub(_ASSIGNED, lambda found: f"--{found[1].replace('_', '-')} {shlex.quote(found[2] or found[3])}", text)


def say_if_unrecorded(ledger: object) -> None:
    """Say that a release without a ledger is not added to any total."""
    if ledger is None:
        tell(
            "no ledger records this release, so the total cost of releases of this data set is not kept. Create a "
            "ledger with 'dpeigen ledger init' and name it with --ledger."
        )


def fail(code: int, message: object) -> NoReturn:
    """Print one line and exit."""
    tell(message)
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
    except KeyboardInterrupt:
        fail(STOPPED + signal.SIGINT, "Stopped. Nothing was reserved or spent.")
    except (BudgetExceededError, RepeatedReleaseError, LedgerUnavailableError) as error:
        fail(REFUSED, error)
    except (UnreadableError, BadRowsError, DatasetError) as error:
        fail(UNREADABLE, error)
    except (ValueError, TypeError, DamagedLedgerError, ImportError) as error:
        fail(USAGE, error)
    except OSError as error:
        fail(USAGE, f"{error.filename}: {error.strerror}" if error.strerror else error)
    except Exception as error:
        # The message is not shown: it may contain values of the data.
        fail(BUG, f"unexpected {type(error).__name__}; this is a bug: please report the command")


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Warnings of the library about its guarantee, one line each; those of other packages may quote values."""
    from dpeigen.methods.foreseen import OnlyNoiseWarning
    from dpeigen.privacy.guarantee import UnitWarning, WeakBudgetWarning
    from dpeigen.privacy.ledger import UnverifiedServerWarning
    from dpeigen.privacy.randomness import NotPrivateWarning

    def show(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
        older = issubclass(category, DeprecationWarning) and str(message).startswith("on_bad_row=")
        shown = (NotPrivateWarning, UnverifiedServerWarning, UnitWarning, OnlyNoiseWarning, WeakBudgetWarning)
        if older or issubclass(category, shown):
            tell(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show
        yield
