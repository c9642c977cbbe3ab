"""Formulas as MathML, made when the pages are built: browsers show it themselves, without a script or a network.

Blocks between ```` ```math ```` and ```` ``` ```` are LaTeX, which code hosts show as formulas too. A formula that the
converter does not understand stops the build.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.errors import SphinxError
from sphinx.util.typing import ExtensionMetadata


def mathml(latex: str, display: str) -> str:
    """A formula as MathML; what the converter left as it was is an error, not text on the page."""
    made = convert(latex.replace("{aligned}", "{align*}"), display=display)  # the converter knows the second name only
    left = re.findall(r"\\\w+|<mi>&</mi>", made)
    if left:
        raise SphinxError(f"The formula {latex!r} has parts that cannot be shown: {', '.join(left)}.")
    return made


def visit_inline(self: Any, node: nodes.math) -> None:
    self.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_block(self: Any, node: nodes.math_block) -> None:
    self.body.append(f'<div class="formula" tabindex="0">{mathml(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> ExtensionMetadata:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
