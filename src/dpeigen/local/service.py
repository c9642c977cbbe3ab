"""A small ingestion service for local reports: an ASGI application on Starlette.

    GET  /parameters   what clients must use, with its digest
    GET  /status       how many reports were taken, and how many refused for which reason
    POST /reports      reports one after the other, each with its length (4 bytes, little-endian) before it

It is not trusted with anything but to keep what it acknowledges: a report that it counts as accepted is on the disk.
Reports are judged one by one; a request that is not a sequence of reports is refused as a whole. Bodies are limited in
size while they are read, senders in reports per second. It keeps no addresses and writes no log of requests.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpeigen._validate import check_count, check_positive, complain
from dpeigen.local.client import LocalParameters
from dpeigen.local.journal import Journal, unpack
from dpeigen.local.server import LocalAggregator
from dpeigen.local.wire import RefusedReportError, size_of

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse

_SENDERS = 10_000  # whose rates are remembered


class RateLimit:
    """A bucket of reports for each sender, filled at a steady rate; the oldest senders are forgotten."""

    def __init__(self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = per_second, burst, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, sender: str, cost: float) -> float:
        """0 if the sender may send this much now, else the seconds to wait. What it may not send is not counted.

        More than a bucket holds is let through when the bucket is full, and leaves a debt that is waited off.
        """
        now = self._clock()
        with self._lock:
            left, since = self._left.pop(sender, (self._burst, now))
            left = min(self._burst, left + (now - since) * self._rate)
            needed = min(cost, self._burst)
            allowed = needed <= left
            self._left[sender] = (left - cost if allowed else left, now)
            if len(self._left) > _SENDERS:
                self._left.popitem(last=False)
            return 0.0 if allowed else (needed - left) / self._rate


class Ingestion:
    """What the application does, without the protocol: judge, write, then count."""

    def __init__(self, folder: str | Path, parameters: LocalParameters, *, reports_per_file: int = 20_000) -> None:
        self.size = size_of(parameters.n_features)
        self.aggregate = LocalAggregator(parameters)
        self._journal = Journal(folder, parameters, reports_per_file=reports_per_file)
        self._lock = threading.Lock()
        for reports in self._journal.recover(2 * self.size):
            self.aggregate.add_many(reports)

    def take(self, reports: list[bytes]) -> dict[str, Any]:
        """Judge each report; those that are good are on the disk when this returns."""
        refused: Counter[str] = Counter()
        with self._lock:
            good, seen = [], set()
            for report in reports:
                try:
                    found = self.aggregate.read(report)
                    if found.identity in seen:
                        raise RefusedReportError("duplicate")
                except RefusedReportError as refusal:
                    refused[refusal.reason] += 1
                    continue
                seen.add(found.identity)
                good.append((report, found))
            if good:
                self._journal.append([report for report, _ in good])
                for _, found in good:
                    self.aggregate.take(found)
            self.aggregate.refused += refused
        return {"accepted": len(good), "refused": dict(refused)}

    def refuse(self, reason: str) -> None:
        """Count a request that was refused as a whole."""
        with self._lock:
            self.aggregate.refused[reason] += 1

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
    reports_per_second: float = 10_000.0,
    reports_per_file: int = 20_000,
    seconds_per_body: float = 30.0,
) -> Starlette:
    """The application. ``approved`` is the digest of the parameters that were signed off; others are not served.

    ``largest_body`` in bytes (by default 4 MiB, or one report if that is more) and ``reports_per_second`` (for one
    address; as many again at once) are the limits. A body that takes longer than ``seconds_per_body`` is refused.
    """
    try:
        from starlette.applications import Starlette
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import JSONResponse
        from starlette.routing import Route
    except ImportError as error:
        raise ImportError("The ingestion service needs Starlette: pip install 'dpeigen[serve]'") from error

    owner = "ingestion_app"
    least = size_of(parameters.n_features) + 4
    most = max(2**22, least) if largest_body is None else check_count("largest_body", largest_body, owner, low=least)
    check_positive("reports_per_second", reports_per_second, owner)
    check_positive("seconds_per_body", seconds_per_body, owner)
    if approved != parameters.digest:
        remedy = "Have the parameters approved, and give the digest that was approved."
        raise ValueError(
            complain("approved", owner, f"the digest of the parameters, {parameters.digest}", approved, remedy)
        )
    service = Ingestion(folder, parameters, reports_per_file=reports_per_file)
    limit = RateLimit(reports_per_second, max(2 * reports_per_second, 1.0))

    def refuse(status: int, reason: str, message: str, **headers: str) -> JSONResponse:
        service.refuse(reason)
        return JSONResponse({"error": message}, status, headers={k.replace("_", "-"): v for k, v in headers.items()})

    async def reports(request: Request) -> JSONResponse:
        try:
            body = await asyncio.wait_for(_body(request, most), seconds_per_body)
        except (TimeoutError, asyncio.TimeoutError):
            return refuse(408, "truncated", f"A request may take {seconds_per_body:g} seconds.", Connection="close")
        if body is None:
            return refuse(413, "oversized", f"A request may hold {most} bytes.", Connection="close")
        found, used = unpack(body, 2 * service.size, 2 * len(body) // least + 1)  # not a million empty ones
        if used != len(body) or not found:
            return refuse(400, "not a report", "The body must be reports, each with its length before it.")
        cost = max(len(found), len(body) / least)
        seconds = limit.wait(request.client.host if request.client else "", cost)
        if seconds > 0:
            wait = str(int(seconds) + 1)
            return JSONResponse({"error": "Too many reports."}, 429, headers={"Retry-After": wait})
        try:
            return JSONResponse(await run_in_threadpool(service.take, found))
        except OSError:
            return JSONResponse({"error": "The reports could not be written; send them again later."}, 503)

    async def agreed(request: Request) -> JSONResponse:  # noqa: ARG001
        return JSONResponse({"parameters": parameters.to_dict(), "digest": parameters.digest})

    async def status(request: Request) -> JSONResponse:  # noqa: ARG001
        known = service.aggregate
        return JSONResponse({"reports": known.n_reports, "rows": known.n_rows, "refused": dict(known.refused)})

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:  # noqa: ARG001
        try:
            yield
        finally:
            service.close()

    routes = [
        Route("/reports", reports, methods=["POST"]),
        Route("/parameters", agreed, methods=["GET"]),
        Route("/status", status, methods=["GET"]),
    ]
    app = Starlette(routes=routes, lifespan=lifespan)
    app.state.service = service
    return app


async def _body(request: Request, most: int) -> bytes | None:
    """The body, or None as soon as it is longer than it may be."""
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
