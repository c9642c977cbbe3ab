"""``dpeigen studio``: from a file to a published card in the browser, on the user's own machine.

A local web page for what the command line does: `init`, the planner, the dry run, `pca`, `covariance`, `ridge`,
`scoremap`, cards and the ledger. No computation is implemented a second time: dry runs call the functions that the
commands call, and a release is made by running the command that the page shows.

Guarantees of the page itself:

- The table is read only by the command that is paid for. Before that, only its header line or schema is read.
- It listens on the loopback interface, and answers only requests that have a random token, name this machine as their
  host and come from its own pages (`guard`).
- A release has a number that can be claimed once (`jobs`): no reload, second tab or double click pays a second time.

It needs ``pip install 'dpeigen[studio]'``.
"""

from __future__ import annotations

from dpeigen.studio.serving import serve, studio_app

__all__ = ["serve", "studio_app"]
