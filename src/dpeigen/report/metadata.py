"""Machine-readable metadata of a card: a schema.org Dataset, for search engines and data catalogues."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dpeigen._text import clean
from dpeigen._version import __version__
from dpeigen.release import Release
from dpeigen.report.links import papers

__all__ = ["authors", "dataset"]

_MOST_COLUMNS = 500
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_FORMATS = {"release.json": "application/json", "release.safetensors": "application/octet-stream"}


def authors(release: Release) -> list[str]:
    """The authors of the release, as a list."""
    return [part.strip() for part in release.about.get("author", "").split(";") if part.strip()]


def dataset(release: Release, title: str, summary: str, digests: Mapping[str, str]) -> dict[str, Any]:
    """Facts of the release in the vocabulary of schema.org; ``summary`` is used if there is no description."""
    g, about = release.guarantee, release.about
    private = "" if g.is_private else "NOT PRIVATE; the noise is that of "
    found: dict[str, Any] = {
        "@context": "https://schema.org/",
        "@type": "Dataset",
        "name": clean(title),
        "description": _sentences(about.get("description"), about.get("population"), summary),
        "measurementTechnique": [
            f"{private}({g.epsilon:g}, {g.delta:g})-differential privacy, {clean(g.neighbours)}",
            clean(g.mechanism),
        ],
        "variableMeasured": [clean(name) for name in release.labels[:_MOST_COLUMNS]],
        "mentions": {
            "@type": "SoftwareApplication",
            "name": "dpeigen",
            "softwareVersion": clean(release.facts.get("dpeigen") or __version__),
        },
    }
    if release.date:
        found["dateCreated"] = release.date
    if names := authors(release):
        found["creator"] = [{"@type": "Person", "name": clean(name)} for name in names]
    if contact := about.get("contact"):
        kind = "email" if _EMAIL.fullmatch(contact) else "name"
        person = {"@type": "ContactPoint", "contactType": "questions about this release", kind: clean(contact)}
        found.setdefault("creator", [{"@type": "Organization"}])[0]["contactPoint"] = person
    if links := papers(g):
        found["citation"] = [address for _, address in links]
    if "release.json" in digests:
        found["identifier"] = f"sha256:{digests['release.json']}"
    found["distribution"] = [
        {"@type": "DataDownload", "name": name, "contentUrl": name, "sha256": digest, "encodingFormat": _FORMATS[name]}
        for name, digest in digests.items()
        if name in _FORMATS
    ]
    return found


def _sentences(*texts: str | None) -> str:
    """Texts one after another, each with a full stop where it ends without one."""
    told = [text for text in map(clean, filter(None, texts)) if text]
    return " ".join(text if text.rstrip("\"'”’»)]")[-1:] in (*".!?…",) else f"{text}." for text in told)
