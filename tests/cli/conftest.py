"""Releases from the command line come with pictures. Here each is drawn for the first release only and used again.

What pictures show is tested in tests/report; these tests are about the command.
"""

import pytest

import dpeigen.report.figures

drawn = {}


@pytest.fixture(autouse=True)
def pictures_are_drawn_once(monkeypatch, request):
    if "walkthrough" in request.node.nodeid:
        return
    really = dpeigen.report.figures.draw

    def draw(release, picture):
        if picture.name not in drawn:
            drawn[picture.name] = really(release, picture)
        return drawn[picture.name]

    monkeypatch.setattr(dpeigen.report.figures, "draw", draw)
