"""Access control of the studio: requests must name this machine as their host, have the token, and come from its pages.

This is decided from the head of a request before anything else:

- The Host must be the loopback address and port that the server listens on. If another site makes its own name point to
  this machine (DNS rebinding), its requests have that name as their Host.
- The path must begin with the token, 128 random bits that are only in the printed address. If the studio starts a
  browser, its address has a code instead, since other users of the machine may see its command line. The code gives the
  token once, within a minute.
- A request that changes something must have this server as its Origin. A form or script of another site has another
  Origin, or none.
- Pages may load scripts, styles and pictures from this server alone. They run no inline script, send forms nowhere
else,
  and are not shown in frames.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

__all__ = ["HEADERS", "POLICY", "Receive", "RequestGuard", "Scope", "Send"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
_READS = ("GET", "HEAD")


class RequestGuard:
    """An ASGI application around another one. ``hosts`` are the accepted values of Host."""

    def __init__(self, app: Any, token: str, hosts: tuple[str, ...]) -> None:
        self._app, self._token, self._hosts = app, token, hosts
        self._entrance: tuple[str, float] | None = None

    def admit_once(self, code: str, seconds: float = 60.0) -> None:
        """Redirect the next request to ``/code`` to the address with the token, if it comes within this time."""
        self._entrance = code, time.monotonic() + seconds

    def _enters(self, scope: Scope, headers: dict[str, list[str]]) -> bool:
        if self._entrance is None or scope["method"] != "GET":
            return False
        code, until = self._entrance
        given = scope["path"].strip("/").encode("utf-8", "surrogateescape")
        here = headers.get("host", []) in [[host] for host in self._hosts]
        elsewhere = headers.get("sec-fetch-site", ["none"])[-1] != "none"
        if not here or elsewhere or time.monotonic() > until or not hmac.compare_digest(given, code.encode()):
            return False
        self._entrance = None
        return True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # there are no websockets
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        if self._enters(scope, headers):
            await _send_on(send, f"/{self._token}/")
            return
        wrong = self._wrong(scope["method"], scope["path"], headers)
        if wrong is not None:
            await _refuse(send, *wrong)
            return

        async def protected(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                given = {name.decode("latin-1").lower() for name, _ in message["headers"]}
                more = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n not in given]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        await self._app(scope, receive, protected)

    def _wrong(self, method: str, path: str, headers: dict[str, list[str]]) -> tuple[int, str] | None:
        """Why a request is refused; None if it is not."""
        if headers.get("host", []) not in [[host] for host in self._hosts]:
            return 421, "This server does not answer to that Host. Open the address that 'dpeigen studio' printed."
        given = path.removeprefix("/").partition("/")[0]
        if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token.encode()):
            return 404, "Open the whole address that 'dpeigen studio' printed, with its token."
        site = headers.get("sec-fetch-site", ["none"])
        if method in _READS:
            # Another site that knows the token may link here, but it may not load parts of pages.
            return None if site[-1] in ("same-origin", "none") else (403, "This page is not for other sites.")
        origins = [f"http://{host}" for host in self._hosts]
        if headers.get("origin", []) not in [[origin] for origin in origins]:
            return 403, "This request does not come from a page of the studio. Use the buttons on its pages."
        if site[-1] not in ("same-origin", "none"):
            return 403, "This request comes from another site."
        return None


async def _send_on(send: Send, path: str) -> None:
    heads = {**HEADERS, "location": path, "content-length": "0"}
    found = [(name.encode(), value.encode()) for name, value in heads.items()]
    await send({"type": "http.response.start", "status": 303, "headers": found})
    await send({"type": "http.response.body", "body": b""})


async def _refuse(send: Send, status: int, words: str) -> None:
    body = words.encode()
    heads = {**HEADERS, "content-type": "text/plain; charset=utf-8", "content-length": str(len(body))}
    found = [(name.encode(), value.encode()) for name, value in heads.items()]
    await send({"type": "http.response.start", "status": status, "headers": found})
    await send({"type": "http.response.body", "body": body})
