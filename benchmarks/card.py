"""Cards: how large they are, how long they take to write, and how long a browser takes to load them.

Run by `make bench`, or alone: `python benchmarks/run.py card`. Needs Chromium and playwright; says so without them.
"""

from __future__ import annotations

import importlib.util
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

LOADED = """() => { const t = performance.getEntriesByType('navigation')[0]; return t.loadEventEnd / 1000 }"""


def write(d: int, k: int, folder: Path) -> float:
    """Seconds to write the card of k components of d columns, after a warm-up."""
    from dpeigen import PrivatePCA
    from dpeigen.report import write_card
    from dpeigen.sources import ArraySource

    rows = np.random.default_rng(0).normal(size=(5000, d)) * np.linspace(3, 1, d)
    source = ArraySource(rows, [f"column {j}" for j in range(d)])
    release = PrivatePCA(k, epsilon=1.0, delta=1e-6, bound=30.0).fit(source).release_
    write_card(release, folder)
    start = time.perf_counter()
    write_card(release, folder)
    return time.perf_counter() - start


def load(paths: list[Path], repeat: int = 7) -> list[float]:
    """Median seconds until everything is loaded, each time in a fresh browser context (nothing is cached)."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        medians = []
        for path in paths:
            times = []
            for _ in range(repeat):
                context = browser.new_context(viewport={"width": 390, "height": 844})
                page = context.new_page()
                page.goto(path.as_uri(), wait_until="load")
                page.wait_for_timeout(50)  # the entry is complete after the event
                times.append(page.evaluate(LOADED))
                context.close()
            medians.append(statistics.median(times))
        browser.close()
    return medians


def rows() -> list[tuple[str, str, str, bool | None]]:
    """(what, figure, bar, met)."""
    browser = any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
    browser = browser and importlib.util.find_spec("playwright") is not None
    found: list[tuple[str, str, str, bool | None]] = []
    with tempfile.TemporaryDirectory() as root:
        cases = [(30, 2), (400, 12)]
        folders = [Path(root) / f"{d}" for d, _ in cases]
        written = [write(d, k, folder) for (d, k), folder in zip(cases, folders, strict=True)]
        pages = [folder / "card.html" for folder in folders]
        loaded = load(pages) if browser else [None] * len(pages)
        for (d, k), seconds, page, taken in zip(cases, written, pages, loaded, strict=True):
            what = f"card.html of {k} components of {d} columns"
            size = f"{page.stat().st_size / 1000:.0f} kB, written with its figures in {seconds:.1f} s"
            if taken is None:
                found.append((what, f"{size}; no Chromium to load it", "loads in < 1 s", None))
            else:
                found.append((what, f"loads in {taken:.2f} s; {size}", "loads in < 1 s", taken < 1))
    return found


if __name__ == "__main__":
    for line in rows():
        print(*line, sep=" | ")
