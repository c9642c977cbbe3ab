"""Access control of the ingestion service: accepted host names, a shared token, and rate limits.

This is decided from the head of a request and a few numbers in memory, before anything is written or waited for.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

from dpeigen._validate import complain

__all__ = ["CONTENT", "LOOPBACK", "Gate", "RateLimit", "check_token", "host_of", "sender_of"]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
CONTENT = "application/octet-stream"
_SENDERS = 10_000  # the number of senders whose rates are stored
_SHORTEST, _LONGEST = 16, 512  # characters of a token


def check_token(token: str | None, owner: str) -> str | None:
    """Check that a token can be sent in a header and is hard to guess; the message does not show it."""
    if token is None:
        return None
    good = isinstance(token, str) and token.isascii() and token.isprintable() and " " not in token
    if not good or not _SHORTEST <= len(token) <= _LONGEST:
        must = f"{_SHORTEST} to {_LONGEST} visible ASCII characters without spaces"
        remedy = "Make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        got = f"{len(token)} characters" if isinstance(token, str) else type(token).__name__
        raise ValueError(complain("token", owner, must, got, remedy))
    return token


def host_of(header: str) -> str:
    """The name in a Host header, without the port.

    >>> host_of("Study.example:8000"), host_of("[::1]:8000"), host_of("::1")
    ('study.example', '::1', '::1')
    """
    name = header.strip().lower()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    return name.removesuffix(".")


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


class Gate:
    """Checks the head of a request. ``hosts`` are the names and addresses that the service answers to.

    If another site makes its own name point to this machine (DNS rebinding), its requests have that name and are
    refused. If the service listens on all addresses (0.0.0.0 or ::), it answers to every address, but only to declared
    names.
    """

    def __init__(self, hosts: Iterable[str], token: str | None) -> None:
        self._hosts = {host_of(host) for host in (*LOOPBACK, *hosts)}
        addresses = [_address(host) for host in self._hosts]
        self._anywhere = any(address is not None and address.is_unspecified for address in addresses)
        self._token = None if token is None else _digest(token)

    def knows(self, headers: Mapping[str, str]) -> bool:
        """Whether the request is meant for this service."""
        name = host_of(headers.get("host", ""))
        return name in self._hosts or (self._anywhere and _address(name) is not None)

    def admits(self, headers: Mapping[str, str]) -> bool:
        """Whether the request has the token; compared in a time that does not depend on what was sent."""
        if self._token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        return hmac.compare_digest(_digest(given.strip()), self._token) and scheme.lower() == "bearer"


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


class RateLimit:
    """A token bucket for each sender, filled at a constant rate; the oldest senders are forgotten."""

    def __init__(self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = per_second, burst, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, sender: str, cost: float, others: RateLimit | None = None) -> float:
        """0 if the sender may send this much now, otherwise the seconds to wait. Refused reports are not counted.

        A request larger than the bucket is accepted when the bucket is full, and the sender then waits longer.
        ``others`` has one bucket for all senders together, which must allow it too.
        """
        now = self._clock()
        with self._lock:
            left, since = self._left.pop(sender, (self._burst, now))
            left = min(self._burst, left + (now - since) * self._rate)
            needed = min(cost, self._burst)
            seconds = max(0.0, (needed - left) / self._rate)
            if not seconds and others is not None:
                seconds = others.wait("", cost)
            self._left[sender] = (left if seconds else left - cost, now)
            if len(self._left) > _SENDERS:
                self._left.popitem(last=False)
            return seconds


def sender_of(address: str) -> str:
    """What counts as one sender: an IPv4 address, or the network of 64 bits that one IPv6 customer has.

    >>> sender_of("192.0.2.7"), sender_of("2001:db8::1:2:3:4")
    ('192.0.2.7', '2001:db8::')
    """
    found = _address(address)
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.IPv6Network((int(found) >> 64 << 64, 64)).network_address)
    return address
