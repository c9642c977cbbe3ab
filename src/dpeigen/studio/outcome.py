"""The outcome of a release, in the words of its card. Only the release is read, which is public."""

from __future__ import annotations

from dataclasses import dataclass

from dpeigen.studio.errors import RefusedError, words_for_the_page
from dpeigen.studio.jobs import Job

__all__ = ["Outcome", "nothing_found", "outcome_of"]


@dataclass(frozen=True)
class Outcome:
    """What can be distinguished from noise."""

    nothing: bool
    said: tuple[str, ...]


def outcome_of(job: Job) -> Outcome | None:
    """The outcome as the card states it; None for maps, and if the files are not those of a release."""
    from dpeigen import load_release
    from dpeigen.report.results import clear_correlations, standing

    if job.about.get("question") not in ("pca", "covariance", "ridge"):
        return None
    try:
        with words_for_the_page():
            release = load_release(job.out)
            said = tuple(standing(release))
    except RefusedError:
        return None
    if release.kind == "ridge":
        return Outcome("R² is not known" in said[0], said)
    return Outcome(release.resolved == 0 and not clear_correlations(release), said)


def nothing_found(job: Job) -> bool:
    """Whether the card says that there is no result."""
    found = outcome_of(job)
    return found is not None and found.nothing
