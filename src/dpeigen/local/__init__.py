"""Local differential privacy: rows are randomised on the client, and an untrusted server adds up the reports.

`LocalRandomizer` needs NumPy only; everything else is loaded when used.
"""

from typing import TYPE_CHECKING

from dpeigen._lazy import lazy

if TYPE_CHECKING:
    from dpeigen.local.client import LocalRandomizer
    from dpeigen.local.parameters import LocalParameters
    from dpeigen.local.post import fetch_parameters, post_reports
    from dpeigen.local.server import LocalAggregator
    from dpeigen.local.service import ingestion_app
    from dpeigen.local.store import write_reports
    from dpeigen.local.wire import RefusedReportError

__all__ = [
    "LocalAggregator",
    "LocalParameters",
    "LocalRandomizer",
    "RefusedReportError",
    "fetch_parameters",
    "ingestion_app",
    "post_reports",
    "write_reports",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "LocalAggregator": "dpeigen.local.server",
        "LocalParameters": "dpeigen.local.parameters",
        "LocalRandomizer": "dpeigen.local.client",
        "RefusedReportError": "dpeigen.local.wire",
        "fetch_parameters": "dpeigen.local.post",
        "ingestion_app": "dpeigen.local.service",
        "post_reports": "dpeigen.local.post",
        "write_reports": "dpeigen.local.store",
    },
)
