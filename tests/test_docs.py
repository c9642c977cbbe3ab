"""The documentation runs: every Python block of README.md and docs/, page by page, and what it points to exists."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
from pathlib import Path

import matplotlib
import pytest

from dpeigen.datasets import DatasetError

matplotlib.use("Agg")
ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("README.md"), *(p for p in ROOT.glob("docs/**/*.md") if "_build" not in p.parts)])
FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL)
# What a fence may be: code that is run, text that is not, a formula, or a directive of the documentation itself.
KINDS = {"python", "text", "math", "r", "julia", "{toctree}", "{eval-rst}"}
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


def run(code: str, where: str, namespace: dict[str, object]) -> None:
    try:
        exec(compile(code, where, "exec"), namespace)
    except DatasetError as absent:
        pytest.skip(str(absent))


# Pages that start clusters, or plan and collect at length.
SLOW = {"docs/scale.md", "docs/planning.md", "docs/tutorials/cluster.md", "docs/tutorials/local-collection.md"}
RUN = [
    pytest.param(page, id=name(page), marks=[pytest.mark.nightly] if name(page) in SLOW else [])
    for page in PAGES
    if any(kind == "python" for _, kind, _ in blocks(page))
]


@pytest.mark.parametrize("page", RUN)
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # Spark leaves sockets to the garbage collector
def test_python_blocks_run(page, tmp_path, monkeypatch, close_figures):
    """In order, in one fresh namespace for a page; warnings are errors."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__docs__"}
    for line, kind, code in blocks(page):
        if kind == "python" and runnable(code):
            run("\n" * (line - 1) + code, name(page), namespace)


@pytest.fixture
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def make_notebook(page: Path) -> dict[str, object]:
    spec = importlib.util.spec_from_file_location("make_notebooks", ROOT / "docs" / "notebooks" / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.notebook(page)


NOTEBOOKS = ["patients", "genomes"]


def notebook_of(name: str) -> dict[str, object]:
    return json.loads((ROOT / "docs" / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_notebooks_are_the_tutorials(notebook):
    """`python docs/notebooks/make.py` writes them again."""
    assert notebook_of(notebook) == make_notebook(ROOT / "docs" / "tutorials" / f"{notebook}.md")


@pytest.mark.slow  # their code is that of the tutorials, which are run anyway
@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_notebooks_run(notebook, tmp_path, monkeypatch, close_figures):
    made = notebook_of(notebook)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__notebook__"}
    cells = ["".join(cell["source"]) for cell in made["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 5
    for number, code in enumerate(cells):
        run(code, f"{notebook}.ipynb, code cell {number}", namespace)


def test_every_public_module_is_in_the_reference():
    """Packages with a list of public names, as a whole; what they list is shown by `automodule`."""
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"automodule:: ([\w.]+)", text))
    packages = {"dpeigen"}
    for module in (ROOT / "src" / "dpeigen").rglob("*.py"):
        parts = module.relative_to(ROOT / "src").with_suffix("").parts
        dotted = ".".join(p for p in parts if p != "__init__")
        if module.name == "__init__.py" and "__all__ = [" in module.read_text(encoding="utf-8"):
            packages.add(dotted)
    packages -= {"dpeigen.estimators"}  # all of it is in dpeigen itself
    packages -= {"dpeigen.studio"}  # a command, not a library
    assert packages <= shown


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_page_is_a_stub(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    assert len(text.split()) >= 60 or name(page) == "docs/api.md"
    assert not re.search(r"\b(TODO|FIXME|TBD|coming soon|lorem)\b", text, re.IGNORECASE)


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
