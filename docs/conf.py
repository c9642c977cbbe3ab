"""Sphinx configuration. Nothing here, and nothing on the built pages, needs a network."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import dpeigen

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "dpeigen"
author = "The dpeigen developers"
copyright = "The dpeigen developers, Apache-2.0"
release = version = dpeigen.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_gallery.gen_gallery", "mathml"]
exclude_patterns = ["_build", "_ext", "auto_examples/README.*"]
nitpicky = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 3600,  # times are those of the machine that built the pages
    "write_computation_times": False,
    "download_all_examples": False,
    "abort_on_example_error": True,
}

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_title = f"dpeigen {release}"
html_copy_source = False
html_show_sphinx = False

myst_heading_anchors = 3
myst_enable_extensions = ["deflist", "dollarmath"]
myst_fence_as_directive = ["math"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True}
napoleon_google_docstring = False
napoleon_custom_sections = ["Attributes"]  # free text: see `attributes_as_list`


def plain_mathematics(lines: list[str]) -> list[str]:
    """Docstrings write |x| and ‖·‖_* as mathematicians do; tell reStructuredText that this is no markup."""
    escaped = []
    for line in lines:
        parts = re.split(r"(``.*?``|`.*?`)", line)
        escaped.append("".join(p if p.startswith("`") else re.sub(r"([|*])", r"\\\1", p) for p in parts))
    return escaped


def attributes_as_list(lines: list[str]) -> list[str]:
    """An "Attributes" section as a list: napoleon takes names that end in an underscore, several to a line, amiss."""
    heads = [i for i in range(len(lines) - 1) if lines[i] == "Attributes" and set(lines[i + 1]) == {"-"}]
    if not heads:
        return lines
    start = heads[0]
    end = next((i for i in range(start + 2, len(lines)) if not lines[i].strip()), len(lines))
    items = [re.sub(r"^(\w+(?:, \w+)*) : ", lambda m: f"* ``{m[1]}``: ", line) for line in lines[start + 2 : end]]
    return [*lines[: start + 2], *items, *lines[end:]]


def on_docstring(_app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = attributes_as_list(plain_mathematics(lines))


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", on_docstring, priority=100)  # before napoleon
