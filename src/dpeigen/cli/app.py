"""The ``dpeigen`` command and its subcommands.

A failure is one line on standard error without a traceback, because a traceback may show values of the data.
"""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from dpeigen.cli._errors import EXIT_CODES
from dpeigen.cli.audit import audit
from dpeigen.cli.check import card, check
from dpeigen.cli.compare import compare
from dpeigen.cli.covariance import covariance
from dpeigen.cli.demo import demo
from dpeigen.cli.init import init
from dpeigen.cli.ledger import app as ledger
from dpeigen.cli.local import app as local
from dpeigen.cli.pca import pca
from dpeigen.cli.plan import plan
from dpeigen.cli.reproduce import reproduce
from dpeigen.cli.ridge import ridge
from dpeigen.cli.score_map import scoremap
from dpeigen.cli.studio import studio

__all__ = ["app", "main"]

app = typer.Typer(
    name="dpeigen",
    help="Differentially private PCA and covariance estimation.",
    no_args_is_help=True,
    epilog=EXIT_CODES,
    pretty_exceptions_enable=False,
)
for command in (init, plan, pca, covariance, ridge, scoremap, check, card, compare, audit, demo, studio):
    app.command(epilog=EXIT_CODES)(command)
app.command()(reproduce)
app.add_typer(ledger, name="ledger")
app.add_typer(local, name="local")


def _version(wanted: bool) -> None:
    if wanted:
        from dpeigen import __version__

        typer.echo(f"dpeigen {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Differentially private PCA and covariance estimation."""


def main() -> None:
    """Entry point of the script and of ``python -m dpeigen``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an output that cannot show ε must not stop a paid release
    app(prog_name="dpeigen")
