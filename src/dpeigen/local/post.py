"""The client's calls to the ingestion service: standard library only, so that a device needs no more than NumPy."""

from __future__ import annotations

import ipaddress
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from dpeigen._validate import check_count, check_positive, complain
from dpeigen.local.gate import check_token
from dpeigen.local.parameters import AT_MOST, LocalParameters, check_consent

__all__ = ["ServiceError", "fetch_parameters", "post_reports"]

_LARGEST_ANSWER = 2**20
_LARGEST_POST = 2**21  # bytes; below what the service takes by default


class ServiceError(OSError):
    """The service could not be reached, or did not take the reports."""


def fetch_parameters(
    url: str,
    *,
    digest: str | None = None,
    at_most: tuple[float, float] | None = None,
    timeout: float = 30.0,
    allow_http: bool = False,
) -> LocalParameters:
    """Ask a service for its parameters, and recompute everything that follows from them.

    A randomizer made from the parameters computes the noise itself.

    Parameters
    ----------
    url : str
        The address: https://, or one of this machine, unless ``allow_http``.
    digest : str, default=None
        That of the parameters that were approved: others are refused.
    at_most : (float, float), default=None
        The largest (ε, δ) that is consented to; without it and without a digest (8, 1e-5), since the service could
        otherwise ask for reports that hide nothing.
    timeout : float, default=30.0
        In seconds.
    allow_http : bool, default=False
        Allow http:// to other machines, where anyone on the way can change the answer.

    Returns
    -------
    LocalParameters
        The parameters.
    """
    said = _call(f"{url.rstrip('/')}/parameters", None, timeout, allow_http=allow_http)
    try:
        parameters = LocalParameters(**said["parameters"])
    except (KeyError, TypeError, ValueError) as error:
        raise ServiceError(f"The service does not state valid parameters: {error}") from None
    if digest is not None and parameters.digest != digest:
        raise ServiceError(f"The service asks for parameters {parameters.digest}, which are not the approved ones.")
    if at_most is not None or digest is None:
        check_consent(parameters, AT_MOST if at_most is None else at_most, "fetch_parameters")
    return parameters


def post_reports(
    url: str,
    reports: Iterable[bytes],
    *,
    batch: int = 500,
    timeout: float = 30.0,
    tries: int = 5,
    token: str | None = None,
    allow_http: bool = False,
) -> dict[str, Any]:
    """Send reports. Sending again is safe: a report is counted once.

    A batch that gets no answer is sent again, with growing pauses; reports that had arrived are then refused as
    duplicates, and are counted as accepted here.

    Parameters
    ----------
    url : str
        The address: https://, or one of this machine, unless ``allow_http``.
    reports : iterable of bytes
        The reports.
    batch : int, default=500
        Reports in one request.
    timeout : float, default=30.0
        In seconds.
    tries : int, default=5
        How often a batch is sent.
    token : str, default=None
        The one that the study gave to its senders.
    allow_http : bool, default=False
        Allow http:// to other machines.

    Returns
    -------
    dict
        How many were accepted and refused.
    """
    check_token(token, "post_reports")
    check_count("batch", batch, "post_reports")
    check_count("tries", tries, "post_reports")
    check_positive("timeout", timeout, "post_reports")
    _check_url(url, allow_http)
    accepted, refused = 0, Counter[str]()
    for group in _groups(reports, batch):
        body = b"".join(len(report).to_bytes(4, "little") + report for report in group)
        answer, resent = _send(f"{url.rstrip('/')}/reports", body, timeout, tries, token, allow_http)
        try:
            again = Counter({str(k): int(v) for k, v in answer["refused"].items()})
            accepted += int(answer["accepted"]) + (again.pop("duplicate", 0) if resent else 0)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise ServiceError("The service does not say what it accepted and refused.") from None
        refused += again
    return {"accepted": accepted, "refused": dict(refused)}


def _groups(reports: Iterable[bytes], size: int) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    for report in reports:
        if group and (len(group) == size or sum(map(len, group)) + len(report) > _LARGEST_POST):
            yield group
            group = []
        group.append(report)
    if group:
        yield group


def _send(
    url: str, body: bytes, timeout: float, tries: int, token: str | None, allow_http: bool
) -> tuple[dict[str, Any], bool]:
    """The answer, and whether the reports may have arrived before."""
    resent = False
    for attempt in range(1, tries + 1):
        try:
            return _call(url, body, timeout, token=token, allow_http=allow_http), resent
        except urllib.error.HTTPError as error:
            if error.code not in (429, 503) or attempt == tries:
                raise ServiceError(f"The service answered {error.code}: {error.reason}") from None
            told = error.headers.get("Retry-After", "")
            pause = float(told) if told.isdigit() else 0.5 * 2**attempt
        except (OSError, ValueError) as error:
            if attempt == tries:
                raise ServiceError(f"The service cannot be reached: {error}") from None
            resent, pause = True, 0.1 * 2**attempt
        time.sleep(min(pause, 30.0))
    raise AssertionError("unreachable")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the rules for the address would not apply there, and the token would be sent there."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _check_url(url: str, allow_http: bool) -> None:
    parts = urllib.parse.urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"The address of the service must begin with http:// or https://. Got {url!r}.")
    if parts.scheme == "http" and not allow_http and not _own_machine(parts.hostname):
        remedy = "Use https://, or allow_http=True if nobody can change what is sent on the way."
        raise ValueError(complain("url", "the client", "https:// unless the service is on this machine", url, remedy))


def _own_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _call(
    url: str, body: bytes | None, timeout: float, *, token: str | None = None, allow_http: bool = False
) -> dict[str, Any]:
    _check_url(url, allow_http)
    headers = {"Content-Type": "application/octet-stream"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, data=body, headers=headers)
    with urllib.request.build_opener(_NoRedirect).open(request, timeout=timeout) as answer:
        found = json.loads(answer.read(_LARGEST_ANSWER))
    if not isinstance(found, dict):
        raise ValueError("the answer is not an object")
    return found
