"""A small ingestion service for local reports: an ASGI application on Starlette.

    GET  /parameters   what clients must use, with its digest
    GET  /status       how many reports were taken, and how many refused for which reason
    POST /reports      reports one after the other, each with its length (4 bytes, little-endian) before it

It is trusted only to keep what it acknowledges: a report that it counts as accepted is on the disk. Reports are checked
one by one; a request that is not a sequence of reports is refused as a whole. There are limits on the size of a body,
which is checked while it is read, on the reports per second of a sender, and on the reports of the study. Only valid
reports wait for the disk: refusals are decided, counted and answered without the lock of the journal. The service
stores no addresses and writes no log of requests.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpeigen._validate import check_count, check_positive, complain
from dpeigen.local.gate import CONTENT, Gate, RateLimit, check_token, sender_of
from dpeigen.local.journal import Journal, unpack
from dpeigen.local.parameters import LocalParameters
from dpeigen.local.server import LocalAggregator
from dpeigen.local.wire import RefusedReportError, Report, size_of

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse

__all__ = ["REPORTS_PER_REQUEST", "REPORTS_PER_SECOND", "Ingestion", "ingestion_app"]

REPORTS_PER_SECOND = 10.0  # from one address, unless told otherwise; ten times as many from all together
REPORTS_PER_REQUEST = 500


class Ingestion:
    """The work of the application, without the protocol: check, write, then count."""

    def __init__(
        self,
        folder: str | Path,
        parameters: LocalParameters,
        *,
        reports_per_file: int = 20_000,
        most_reports: int | None = None,
    ) -> None:
        self.size = size_of(parameters.n_features)
        self.most = None if most_reports is None else check_count("most_reports", most_reports, "Ingestion")
        self.aggregate = LocalAggregator(parameters)
        self._journal = Journal(folder, parameters, reports_per_file=reports_per_file)
        self._lock, self._counting = threading.Lock(), threading.Lock()  # the first is held while the disk works
        for reports in self._journal.recover(2 * self.size):
            self.aggregate.add_many(reports)

    def take(self, reports: list[bytes]) -> dict[str, Any]:
        """Check each report; valid ones are on the disk when this returns."""
        refused: Counter[str] = Counter()
        good: dict[bytes, tuple[bytes, Report]] = {}
        for report in reports:
            try:
                found = self.aggregate.read(report)
                if found.identity in good:
                    raise RefusedReportError("duplicate")
                if not self._room():
                    raise RefusedReportError("full")
            except RefusedReportError as refusal:
                refused[refusal.reason] += 1
                continue
            good[found.identity] = report, found
        accepted = 0
        if good:
            with self._lock:
                accepted = self._write(good, refused)
        with self._counting:
            self.aggregate.refused += refused
        return {"accepted": accepted, "refused": dict(refused)}

    def _room(self) -> float:
        return float("inf") if self.most is None else max(0, self.most - self.aggregate.n_reports)

    def _write(self, good: dict[bytes, tuple[bytes, Report]], refused: Counter[str]) -> int:
        """Write the reports that nobody else sent in the meantime, as far as there is room."""
        fresh: list[tuple[bytes, Report]] = []
        room = self._room()
        for report, found in good.values():
            if self.aggregate.holds(found):
                refused["duplicate"] += 1
            elif len(fresh) >= room:
                refused["full"] += 1
            else:
                fresh.append((report, found))
        if fresh:
            self._journal.append([report for report, _ in fresh])
            for _, found in fresh:
                self.aggregate.take(found)
        return len(fresh)

    def refuse(self, reason: str) -> None:
        """Count a request that was refused as a whole."""
        with self._counting:
            self.aggregate.refused[reason] += 1

    def status(self) -> dict[str, Any]:
        """The public status while reports arrive."""
        known = self.aggregate
        with self._counting:
            return {"reports": known.n_reports, "rows": known.n_rows, "refused": dict(known.refused)}

    def close(self) -> None:
        """Finish the current file."""
        with self._lock:
            self._journal.close()


def ingestion_app(
    folder: str | Path,
    parameters: LocalParameters,
    *,
    approved: str,
    largest_body: int | None = None,
    reports_per_second: float = REPORTS_PER_SECOND,
    reports_per_second_in_all: float | None = None,
    reports_per_request: int = REPORTS_PER_REQUEST,
    reports_per_file: int = 20_000,
    most_reports: int | None = None,
    seconds_per_body: float = 30.0,
    token: str | None = None,
    hosts: Iterable[str] = (),
) -> Starlette:
    """Make the application that receives reports.

    Parameters
    ----------
    folder : path
        Where reports are kept.
    parameters : LocalParameters
        The parameters that clients must use.
    approved : str
        The digest of the approved parameters; others are not served.
    largest_body : int, default=None
        In bytes; None: 4 MiB, or one report if that is more.
    reports_per_second : float, default=10.0
        For one address.
    reports_per_second_in_all : float, default=None
        For all; None: ten times that of one address.
    reports_per_request : int, default=500
        At most.
    reports_per_file : int, default=20000
        In one Parquet file.
    most_reports : int, default=None
        The most reports of the study; further ones are refused.
    seconds_per_body : float, default=30.0
        A body that takes longer is refused.
    token : str, default=None
        Only those who send it as "Authorization: Bearer TOKEN" may report.
    hosts : iterable of str, default=()
        Names of the service in addition to those of its machine; others are refused.

    Returns
    -------
    starlette.applications.Starlette
        The application.
    """
    try:
        from starlette.applications import Starlette
        from starlette.routing import Route
    except ImportError as error:
        raise ImportError("The ingestion service needs Starlette: pip install 'dpeigen[serve]'") from error

    owner = "ingestion_app"
    least = size_of(parameters.n_features) + 4
    most = max(2**22, least) if largest_body is None else check_count("largest_body", largest_body, owner, low=least)
    check_positive("reports_per_second", reports_per_second, owner)
    in_all = 10 * reports_per_second if reports_per_second_in_all is None else reports_per_second_in_all
    check_positive("reports_per_second_in_all", in_all, owner)
    check_count("reports_per_request", reports_per_request, owner)
    check_positive("seconds_per_body", seconds_per_body, owner)
    gate = Gate(hosts, check_token(token, owner))
    if approved != parameters.digest:
        remedy = "Have the parameters approved, and give the digest that was approved."
        raise ValueError(
            complain("approved", owner, f"the digest of the parameters, {parameters.digest}", approved, remedy)
        )
    service = Ingestion(folder, parameters, reports_per_file=reports_per_file, most_reports=most_reports)
    limits = tuple(RateLimit(rate, max(2 * rate, 1.0)) for rate in (reports_per_second, in_all))
    protocol = _Protocol(service, gate, limits, most, reports_per_request, seconds_per_body)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:  # noqa: ARG001
        try:
            yield
        finally:
            service.close()

    routes = [
        Route("/reports", protocol.reports, methods=["POST"]),
        Route("/parameters", protocol.agreed, methods=["GET"]),
        Route("/status", protocol.status, methods=["GET"]),
    ]
    app = Starlette(routes=routes, lifespan=lifespan)
    app.state.service = service
    return app


class _Protocol:
    """Requests and answers."""

    def __init__(
        self,
        service: Ingestion,
        gate: Gate,
        limits: tuple[RateLimit, ...],
        most_bytes: int,
        most_at_once: int,
        seconds: float,
    ) -> None:
        self._service, self._gate = service, gate
        self._own, self._all = limits
        self._bytes, self._count, self._seconds = most_bytes, most_at_once, seconds

    def _answer(self, status: int, content: Any, **headers: str) -> JSONResponse:
        from starlette.responses import JSONResponse

        said = {"error": content} if isinstance(content, str) else content
        return JSONResponse(said, status, headers={k.replace("_", "-"): v for k, v in headers.items()})

    def _refuse(self, status: int, reason: str, message: str, **headers: str) -> JSONResponse:
        self._service.refuse(reason)
        return self._answer(status, message, **headers)

    def _stranger(self, request: Request, open_to_all: bool = False) -> JSONResponse | None:
        if not self._gate.knows(request.headers):
            return self._answer(421, "This service does not answer to that Host.", Connection="close")
        if not open_to_all and not self._gate.admits(request.headers):
            words = "Send the token of the study: Authorization: Bearer TOKEN."
            return self._answer(401, words, WWW_Authenticate="Bearer", Connection="close")
        return None

    async def reports(self, request: Request) -> JSONResponse:
        from starlette.concurrency import run_in_threadpool

        stranger = self._stranger(request)
        if stranger is not None:
            return stranger
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != CONTENT:
            return self._answer(415, f"The Content-Type must be {CONTENT}.", Connection="close")
        found = await self._read(request)
        if not isinstance(found, list):
            return found
        try:
            return self._answer(200, await run_in_threadpool(self._service.take, found))
        except OSError:
            return self._answer(503, "The reports could not be written; send them again later.")

    async def _read(self, request: Request) -> list[bytes] | JSONResponse:
        """The reports of an accepted request, or the refusal."""
        try:
            body = await asyncio.wait_for(_body(request, self._bytes), self._seconds)
        except (TimeoutError, asyncio.TimeoutError):
            words = f"A request may take {self._seconds:g} seconds."
            return self._refuse(408, "truncated", words, Connection="close")
        if body is None:
            return self._refuse(413, "oversized", f"A request may hold {self._bytes} bytes.", Connection="close")
        size = self._service.size
        most = min(2 * len(body) // (size + 4), self._count) + 1  # not a million empty ones
        found, used = unpack(body, 2 * size, most)
        if len(found) > self._count:
            return self._refuse(413, "oversized", f"A request may hold {self._count} reports.")
        if used != len(body) or not found:
            return self._refuse(400, "not a report", "The body must be reports, each with its length before it.")
        cost = max(len(found), len(body) / (size + 4))
        sender = sender_of(request.client.host) if request.client else ""
        seconds = self._own.wait(sender, cost, self._all)
        if seconds > 0:
            return self._answer(429, "Too many reports.", Retry_After=str(int(seconds) + 1))
        return found

    async def agreed(self, request: Request) -> JSONResponse:
        known = self._service.aggregate.parameters
        said = {"parameters": known.to_dict(), "digest": known.digest}
        return self._stranger(request, open_to_all=True) or self._answer(200, said)

    async def status(self, request: Request) -> JSONResponse:
        return self._stranger(request) or self._answer(200, self._service.status())


async def _body(request: Request, most: int) -> bytes | None:
    """The body, or None as soon as it exceeds the limit."""
    claimed = request.headers.get("content-length", "")
    if claimed.isdigit() and int(claimed) > most:
        return None
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            return None
        parts.append(part)
    return b"".join(parts)
