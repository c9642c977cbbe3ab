"""The client's calls to the ingestion service: standard library only, so that a device needs no more than NumPy."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from dpeigen._validate import check_count, check_positive
from dpeigen.local.client import LocalParameters

_LARGEST_ANSWER = 2**20
_LARGEST_POST = 2**21  # bytes; below what the service takes by default


class ServiceError(OSError):
    """The service could not be reached, or did not take the reports."""


def fetch_parameters(url: str, *, digest: str | None = None, timeout: float = 30.0) -> LocalParameters:
    """What the service asks clients to use, computed anew from its values; ``digest``: what was approved.

    The noise is not taken from the service: a randomizer made from these parameters works it out itself.
    """
    said = _call(f"{url.rstrip('/')}/parameters", None, timeout)
    try:
        parameters = LocalParameters(**said["parameters"])
    except (KeyError, TypeError, ValueError) as error:
        raise ServiceError(f"The service does not state valid parameters: {error}") from None
    if digest is not None and parameters.digest != digest:
        raise ServiceError(f"The service asks for parameters {parameters.digest}, which are not the approved ones.")
    return parameters


def post_reports(
    url: str, reports: Iterable[bytes], *, batch: int = 500, timeout: float = 30.0, tries: int = 5
) -> dict[str, Any]:
    """Send reports and say how many were accepted and refused. Sending again is safe: a report is counted once.

    A batch that gets no answer is sent again, with growing pauses; reports that had arrived are then refused as
    duplicates, and are counted as accepted here.
    """
    check_count("batch", batch, "post_reports")
    check_count("tries", tries, "post_reports")
    check_positive("timeout", timeout, "post_reports")
    accepted, refused = 0, Counter[str]()
    for group in _groups(reports, batch):
        body = b"".join(len(report).to_bytes(4, "little") + report for report in group)
        answer, resent = _send(f"{url.rstrip('/')}/reports", body, timeout, tries)
        again = Counter({str(k): int(v) for k, v in answer["refused"].items()})
        accepted += int(answer["accepted"]) + (again.pop("duplicate", 0) if resent else 0)
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


def _send(url: str, body: bytes, timeout: float, tries: int) -> tuple[dict[str, Any], bool]:
    """The answer, and whether the reports may have arrived before."""
    resent = False
    for attempt in range(1, tries + 1):
        try:
            return _call(url, body, timeout), resent
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


def _call(url: str, body: bytes | None, timeout: float) -> dict[str, Any]:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"The address of the service must begin with http:// or https://. Got {url!r}.")
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/octet-stream"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        found = json.loads(answer.read(_LARGEST_ANSWER))
    if not isinstance(found, dict):
        raise ValueError("the answer is not an object")
    return found
