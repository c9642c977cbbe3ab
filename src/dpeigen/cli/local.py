"""``dpeigen local``: randomise rows on the client, aggregate reports, and run or use the ingestion service."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpeigen._text import json_text
from dpeigen.cli._config import Study
from dpeigen.cli._errors import USAGE, UnreadableError, fail, one_line_errors, tell
from dpeigen.cli._reading import reading_of, reads_files

if TYPE_CHECKING:
    from dpeigen.local.client import LocalRandomizer
    from dpeigen.local.parameters import LocalParameters
    from dpeigen.local.server import LocalAggregator

__all__ = [
    "PARAMETERS",
    "TOKEN",
    "Agreed",
    "Bound",
    "Delta",
    "Epsilon",
    "Features",
    "Mechanism",
    "MostRows",
    "Rows",
    "TokenFile",
    "aggregate",
    "app",
    "parameters",
    "post",
    "randomize",
    "serve",
]

app = typer.Typer(help="Local privacy: clients randomise their own rows.", no_args_is_help=True)
PARAMETERS = "parameters.json"
_PER_FILE = 5000

Features = Annotated[int, typer.Option(help="Number of columns of a row.")]
Epsilon = Annotated[float, typer.Option(help="Privacy loss ε > 0 of one report. There is no default.")]
Delta = Annotated[float, typer.Option(help="δ of one report; 0 asks for pure privacy.")]
Bound = Annotated[float, typer.Option(help="Public bound on the norm of a row; longer rows are clipped to it.")]
Mechanism = Annotated[str, typer.Option(help="auto, gaussian or privunit.")]
Rows = Annotated[str, typer.Option("--rows", help="clip longer rows to the bound, or scale every row to it.")]
MostRows = Annotated[int, typer.Option(help="Maximum number of rows in one report; more than 1 if sites report sums.")]
TOKEN = "DPEIGEN_TOKEN"
TokenFile = Annotated[
    Path | None,
    typer.Option(help=f"File with the token that senders share; by default the environment variable {TOKEN}."),
]
Agreed = Annotated[Path, typer.Option("--parameters", help="File made by 'dpeigen local parameters'.")]


@app.command()
def parameters(
    features: Features,
    epsilon: Epsilon,
    out: Annotated[Path, typer.Option(help="File to write.")],
    delta: Delta = 0.0,
    bound: Bound = 1.0,
    mechanism: Mechanism = "auto",
    rows: Rows = "clip",
    most_rows: MostRows = 1,
    seeded_test: Annotated[
        bool, typer.Option("--seeded-test", help="A rehearsal: reports made with a seed are accepted. NOT PRIVATE.")
    ] = False,
) -> None:
    """Write the parameters that clients and server agree on, and print the digest to be approved."""
    with one_line_errors():
        from dpeigen.local.journal import write_parameters
        from dpeigen.local.parameters import LocalParameters

        agreed = LocalParameters(features, epsilon, delta, bound, mechanism, rows, most_rows, seeded_test)
        if out.exists():
            fail(USAGE, f"--out {out} exists already, and reports may have been made with it. Choose another file.")
        write_parameters(out, agreed)
        typer.echo(agreed.digest)


@app.command()
@reads_files()
def randomize(
    file: Annotated[Path, typer.Argument(help="Rows: a CSV (with a header line), Parquet or Feather file.")],
    epsilon: Epsilon,
    out: Annotated[Path, typer.Option(help="Folder for the reports; must not contain reports yet.")],
    delta: Delta = 0.0,
    bound: Bound = 1.0,
    mechanism: Mechanism = "auto",
    rows: Rows = "clip",
    most_rows: MostRows = 1,
    site: Annotated[
        bool, typer.Option("--site", help="One report for all rows, up to --most-rows: the site is trusted with them.")
    ] = False,
    on_bad_row: Annotated[str, typer.Option(help="Rows that are not finite: refuse or drop-to-zero.")] = "refuse",
    columns: Annotated[str | None, typer.Option(help="Columns to use, as a,b,c; all by default.")] = None,
    *,
    reading: dict[str, Any],
) -> None:
    """Turn rows into reports that may be shown to anyone, in random order."""
    with one_line_errors():
        from dpeigen.local.client import LocalRandomizer
        from dpeigen.local.journal import write_parameters
        from dpeigen.local.store import write_reports
        from dpeigen.sources import open_source

        if not file.exists():
            raise UnreadableError(f"No such file: {file}")
        if out.exists() and any(out.glob("*.parquet")):
            fail(USAGE, f"--out {out} already holds reports, which cost privacy. Choose another folder.")
        chosen = None if columns is None else [name.strip() for name in columns.split(",")]
        source = open_source(file, columns=chosen, **reading_of(reading, Study({}, None)))
        client = LocalRandomizer(
            source.n_features, epsilon=epsilon, delta=delta, bound=bound, mechanism=mechanism, rows=rows,
            most_rows=most_rows, on_bad_row=on_bad_row,
        )  # fmt: skip
        count = source.count_rows()
        made = _reports(client, source, site)
        with _all_or_nothing(out) as written:
            while group := list(islice(made, _PER_FILE)):
                written.append(out / f"reports-{len(written):05d}.parquet")
                write_reports(written[-1], group)
            written.append(out / PARAMETERS)
            write_parameters(written[-1], client.parameters)
        what = f"1 report of {count} rows" if site else f"{count} reports"
        typer.echo(f"{what}, {client.report_size} bytes each, written to {out}")
        typer.echo(str(client.guarantee))


def _reports(client: LocalRandomizer, source: Any, site: bool) -> Iterator[bytes]:
    """Reports of all rows in random order, over all files: the position of a report does not reveal its row."""
    import numpy as np

    from dpeigen.privacy import randomness

    table = np.concatenate(list(source.blocks()))  # smaller than the reports by far
    if site:
        yield client.report_rows(table)
        return
    for i in randomness(None).permutation(len(table)):
        yield client.report(table[i])


@contextmanager
def _all_or_nothing(folder: Path) -> Iterator[list[Path]]:
    """Files of a folder that are removed if not all could be made: a part of them costs as much as all."""
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    try:
        yield written
    except BaseException:
        for file in written:
            file.unlink(missing_ok=True)
        if made:
            folder.rmdir()
        raise


def _agreed(path: Path | None, folder: Path) -> LocalParameters:
    from dpeigen.local.journal import read_parameters

    path = path or (folder if folder.is_dir() else folder.parent) / PARAMETERS
    if not path.exists():
        raise FileNotFoundError(f"There are no parameters at {path}. Name their file with --parameters.")
    return read_parameters(path)


@app.command()
def aggregate(
    reports: Annotated[Path, typer.Argument(help="A Parquet or Arrow file of reports, or a folder of them.")],
    components: Annotated[int, typer.Option("--components", "-k", help="Number of components.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the release.")] = None,
    sparse: Annotated[bool, typer.Option("--sparse", help="Components that use the same few columns.")] = False,
    penalty: Annotated[
        float | None, typer.Option(help="The penalty for --sparse; by default from the noise level.")
    ] = None,
    shuffled_delta: Annotated[
        float | None,
        typer.Option(help="If the reports were shuffled together: the δ of the central guarantee to state."),
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="File that keeps the sum: read first if it exists, then written.")
    ] = None,
    agreed: Annotated[
        Path | None, typer.Option("--parameters", help="File of the agreed parameters; beside the reports by default.")
    ] = None,
    robust: Annotated[
        bool, typer.Option("--robust", help="Shorten reports that are longer than honest ones, to limit false reports.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Add up reports and release the components of their average."""
    with one_line_errors():
        from rich.progress import Progress

        from dpeigen.cli import _show
        from dpeigen.local.server import LocalAggregator

        if penalty is not None and not sparse:
            raise ValueError("--penalty goes with --sparse.")
        if not reports.exists():
            raise UnreadableError(f"No such file or folder: {reports}")
        known = _agreed(agreed, reports)
        server = LocalAggregator(known, shuffled_delta=shuffled_delta, aggregate="clipped" if robust else "mean")
        if state is not None and state.exists():
            server = _resumed(state, server)
        with Progress(console=_show.error_console(), transient=True, disable=as_json) as progress:
            task = progress.add_task("reports", total=None)
            server.add_files(reports, lambda done, total: progress.update(task, completed=done, total=total))
        if not server.n_reports:
            raise UnreadableError(f"No report in {reports} could be accepted; refused: {dict(server.refused)}.")
        if state is not None:
            server.save(state)
        release = server.sparse_pca(components, penalty) if sparse else server.pca(components)
        if out is not None:
            release.save(out)
        _tell(server, release, out, as_json)


def _resumed(state: Path, asked: LocalAggregator) -> LocalAggregator:
    """The sum so far, if its settings are those of the requested one."""
    from dpeigen.local.server import LocalAggregator

    found = LocalAggregator.load(state)
    if found.parameters != asked.parameters:
        raise ValueError(f"--state {state} was made with other parameters.")
    if found.aggregate != asked.aggregate:
        was = "with" if found.aggregate == "clipped" else "without"
        raise ValueError(f"--state {state} was made {was} --robust. Do the same, or use a new state file.")
    if asked.shuffled_delta is not None and found.n_reports and found.shuffled_delta is None:
        remedy = "Leave out --shuffled-delta, or use a new state file."
        raise ValueError(f"--state {state} contains reports that were not declared shuffled. {remedy}")
    found.shuffled_delta = asked.shuffled_delta
    return found


def _tell(server: Any, release: Any, out: Path | None, as_json: bool) -> None:
    from dpeigen.cli import _show

    if as_json:
        told = {**_show.as_json(release, str(out)), "reports": server.n_reports, "refused": dict(server.refused)}
        typer.echo(json_text(told))
        return
    console = _show.console()
    _show.show_release(console, release, "Local PCA")
    shuffled = server.shuffled_guarantee
    if shuffled is not None:
        console.print(f"shuffled   ({shuffled.epsilon:.4g}, {shuffled.delta:g}) to all but the shuffler", markup=False)
    elif server.shuffled_delta is not None:
        console.print("shuffled   no guarantee: some reports are sums of sites, which are recognisable", markup=False)
    console.print(_show.components_table(release))
    refused = ", ".join(f"{n} {reason}" for reason, n in server.refused.items()) or "none"
    console.print(f"{server.n_reports} reports of {server.n_rows} rows accepted; refused: {refused}", markup=False)
    if server.aggregate == "clipped":
        console.print(f"{server.n_clipped} reports were longer than honest ones and were shortened", markup=False)
    if out is not None:
        console.print(f"Release written to {out}", markup=False)


def _token(file: Path | None) -> str | None:
    """The token in a file or in the environment: never an argument, which every user of the machine can read."""
    if file is None:
        return os.environ.get(TOKEN) or None
    return file.read_text(encoding="utf-8", errors="replace").strip()


@app.command()
def serve(
    folder: Annotated[Path, typer.Argument(help="Where reports are kept.")],
    agreed: Agreed,
    approved: Annotated[str, typer.Option(help="The digest of the parameters that was approved.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8000,
    largest_body: Annotated[int | None, typer.Option(help="Largest request in bytes; 4 MiB by default.")] = None,
    reports_per_second: Annotated[float, typer.Option(help="Maximum reports per second from one address.")] = 10.0,
    reports_per_second_in_all: Annotated[
        float | None,
        typer.Option(help="Maximum reports per second in all; ten times the limit of one address by default."),
    ] = None,
    reports_per_request: Annotated[int, typer.Option(help="Maximum reports in one request.")] = 500,
    reports_per_file: Annotated[int, typer.Option(help="Reports in one Parquet file.")] = 20_000,
    most_reports: Annotated[int | None, typer.Option(help="Accept at most this many reports in all.")] = None,
    host_name: Annotated[
        list[str] | None,
        typer.Option(help="A host name that clients use for the service; may be repeated. Other names are refused."),
    ] = None,
    token_file: TokenFile = None,
) -> None:
    """Receive reports over HTTP. A report is acknowledged once it is on disk."""
    with one_line_errors():
        from dpeigen.local.journal import read_parameters
        from dpeigen.local.service import ingestion_app

        try:
            import uvicorn
        except ImportError:
            fail(USAGE, "The service needs uvicorn: pip install 'dpeigen[serve]'")
        token = _token(token_file)
        application = ingestion_app(
            folder, read_parameters(agreed), approved=approved, largest_body=largest_body,
            reports_per_second=reports_per_second, reports_per_second_in_all=reports_per_second_in_all,
            reports_per_request=reports_per_request, reports_per_file=reports_per_file, most_reports=most_reports,
            token=token, hosts=(host, *(host_name or ())),
        )  # fmt: skip
        if token is None:
            tell(
                "warning: without a token, anyone who reaches this address can send reports, true or false "
                "(--token-file)"
            )
        typer.echo(f"Listening on http://{host}:{port}; reports go to {folder}")
        uvicorn.run(
            application, host=host, port=port, access_log=False, log_level="warning", limit_concurrency=64,
            timeout_keep_alive=30, proxy_headers=False,  # or a sender could name any address as its own
        )  # fmt: skip


@app.command()
def post(
    reports: Annotated[Path, typer.Argument(help="A Parquet or Arrow file of reports, or a folder of them.")],
    url: Annotated[str, typer.Option(help="Address of the service, http://… or https://…")],
    batch: Annotated[int, typer.Option(help="Reports in one request.")] = 500,
    token_file: TokenFile = None,
    allow_http: Annotated[
        bool,
        typer.Option(
            "--allow-http", help="Send over plain http:// to another machine; reports can be altered on the way."
        ),
    ] = False,
) -> None:
    """Send reports to the service. Sending the same reports again is safe."""
    with one_line_errors():
        from dpeigen.local.containers import reports_in
        from dpeigen.local.post import post_reports
        from dpeigen.local.store import report_files

        if not reports.exists():
            raise UnreadableError(f"No such file or folder: {reports}")
        found = (report for file in report_files(reports) for group in reports_in(file) for report in group)
        answer = post_reports(url, found, batch=batch, token=_token(token_file), allow_http=allow_http)
        typer.echo(f"{answer['accepted']} accepted; refused: {answer['refused'] or 'none'}")
        if answer["refused"]:
            raise typer.Exit(3)
