"""The documentation runs: every Python block of README.md and docs/, page by page, and what it points to exists."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("README.md"), *(p for p in ROOT.glob("docs/**/*.md") if "_build" not in p.parts)])
FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL)
# What a fence may be: code that is run, text that is not, or a directive of the documentation itself.
KINDS = {"python", "text", "{toctree}", "{eval-rst}"}
NEEDS = {"compose_pld": "dp_accounting", "dask": "dask", "pyspark": "pyspark"}  # names that need an optional package


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[tuple[int, str, str]]:
    """(line of the first line of code, kind, code) of every fenced block."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start("body")) + 1
        found.append((line, match["info"].strip(), match["body"]))
    return found


def runnable(code: str) -> bool:
    java = shutil.which("java") or os.environ.get("JAVA_HOME")
    found = all(word not in code or importlib.util.find_spec(package) for word, package in NEEDS.items())
    return found and bool(java or "pyspark" not in code)


def test_there_is_documentation():
    assert {"docs/index.md", "docs/quickstart.md", "docs/sensitivity.md", "docs/api.md"} <= set(map(name, PAGES))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_block_escapes(page):
    """Nothing that looks like Python is shown without being run."""
    assert {kind for _, kind, _ in blocks(page)} <= KINDS
    assert not re.search(r"^[ \t>]+(?:```|~~~)|^~~~", page.read_text(encoding="utf-8"), re.MULTILINE)
    for _, kind, code in blocks(page):
        assert kind != "text" or not re.search(r"^(from \S+ )?import |^>>> ", code, re.MULTILINE)


@pytest.mark.parametrize("page", [p for p in PAGES if any(k == "python" for _, k, _ in blocks(p))], ids=name)
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # Spark leaves sockets to the garbage collector
def test_python_blocks_run(page, tmp_path, monkeypatch):
    """In order, in one fresh namespace for a page; warnings are errors."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__docs__"}
    for line, kind, code in blocks(page):
        if kind == "python" and runnable(code):
            exec(compile("\n" * (line - 1) + code, name(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_tests_and_files_that_are_named_exist(page):
    text = page.read_text(encoding="utf-8")
    for path in re.findall(r"`((?:tests|src|docs|benchmarks)/[\w./-]+)`", text):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_pages_name_no_machine_and_need_no_network(page):
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w.])/(?:home|work|tmp|root|opt|usr)/", text)
    assert not re.search(r"!\[[^\]]*\]\(https?:|<(?:script|link|img)\b", text)
