"""What the code may look like: imports point one way, randomness has one door, heavy packages wait until needed."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import dpeigen
from dpeigen.methods import METHODS

SRC = Path(dpeigen.__file__).parent
FILES = sorted(SRC.rglob("*.py"))

# A unit may import its own layer and those before it. "" is dpeigen/__init__.py, which re-exports what is left of it.
LAYERS = [
    {"_arithmetic", "_html", "_lazy", "_text", "_types", "_validate", "_version"},
    {"privacy"},
    {"stats"},
    {"sources"},
    {"questions"},
    {"curator"},
    {"methods"},
    {"papers"},
    {"facts", "io"},
    {
        "clipped",
        "clipping_errors",
        "columns",
        "computed",
        "drawn_errors",
        "errors",
        "exchange",
        "interval_basis",
        "intervals",
        "noise_floor",
    }
    | {"notebook", "regression", "release", "release_units", "ridge", "score_map", "spectral_intervals"},
    {"estimators", "local"},
    {"auditing", "planner", "evaluation", "plotting", "report", "datasets", ""},
    {"cli", "studio", "__main__"},
]
RANK = {unit: rank for rank, layer in enumerate(LAYERS) for unit in layer}
HEAVY = ["dp_accounting", "matplotlib", "pyarrow", "opendp", "dask", "pyspark", "pandas", "polars", "psycopg"]


def module_of(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(["dpeigen", *(p for p in parts if p != "__init__")])


MODULES = {module_of(path): path for path in FILES}


def unit_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imported(source: str, module: str, is_package: bool) -> list[tuple[int, str]]:
    """(line, module) of every import of dpeigen, wherever it stands: functions and TYPE_CHECKING blocks count."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".") if is_package else module.split(".")[:-1]
                package = package[: len(package) - (node.level - 1)]
                base = ".".join([*package, base] if base else package)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                if full == "dpeigen.__version__":
                    continue  # a constant, set before anything is imported: no layer
                unit_or_module = full in MODULES or (base == "dpeigen" and alias.name in RANK)
                found.append((node.lineno, full if unit_or_module else base))
    return [(line, name) for line, name in found if name == "dpeigen" or name.startswith("dpeigen.")]


def wrong_imports(source: str, module: str, is_package: bool = False) -> list[str]:
    """Imports that point to the right of the module's own layer."""
    own = RANK[unit_of(module)]
    return [
        f"{module}, line {line}: {name}"
        for line, name in imported(source, module, is_package)
        if RANK[unit_of(name)] > own
    ]


def test_every_file_has_a_layer():
    assert {unit_of(module) for module in MODULES} <= RANK.keys()
    assert len(MODULES) > 30  # the files were found at all


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_left(module):
    path = MODULES[module]
    assert wrong_imports(path.read_text(), module, path.name == "__init__.py") == []


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("dpeigen.privacy.noise", "from dpeigen.stats import Lattice"),
        ("dpeigen.privacy.noise", "import dpeigen.release"),
        ("dpeigen.privacy.noise", "from dpeigen import methods"),
        ("dpeigen.privacy.noise", "from .. import stats"),
        ("dpeigen.privacy.noise", "from ..stats.frame import Frame"),
        ("dpeigen.stats.moments", "def f():\n    from dpeigen.sources.memory import ArraySource"),
        ("dpeigen.methods.base", "if TYPE_CHECKING:\n    from dpeigen.release import Release"),
        ("dpeigen.sources.arrow", "class A:\n    def f(self):\n        import dpeigen.methods.auto as auto"),
        ("dpeigen.estimators.pca", "from dpeigen import Ledger"),
        ("dpeigen.release", "from dpeigen.plotting import scree"),
        ("dpeigen._validate", "from dpeigen.privacy import Budget"),
    ],
)
def test_the_checker_sees_a_planted_import(module, line):
    assert wrong_imports(line, module)


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("dpeigen.methods.base", "from dpeigen.sources import Source"),
        ("dpeigen.methods.base", "from . import gaussian"),
        ("dpeigen.release", "from dpeigen import io"),
        ("dpeigen.cli.app", "from dpeigen import PrivatePCA"),
        ("dpeigen.estimators.base", "from dpeigen import __version__"),
        ("dpeigen.privacy.noise", "import numpy as np"),
    ],
)
def test_the_checker_lets_right_imports_pass(module, line):
    assert wrong_imports(line, module) == []


# --- randomness ---------------------------------------------------------------------------------------------------


def random_use(source: str) -> list[int]:
    """Lines that reach for random numbers: np.random, random, secrets, os.urandom, SciPy's rvs."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            bad = any(n.split(".")[0] in ("random", "secrets") or n.startswith("numpy.random") for n in names)
        elif isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
            root = (node.module or "").split(".")[0] if not node.level else ""
            bad = root in ("random", "secrets") or (node.module or "").startswith("numpy.random")
            bad = bad or (root == "numpy" and "random" in names) or (root == "os" and "urandom" in names)
        elif isinstance(node, ast.Attribute):
            bad = node.attr in ("urandom", "rvs") or ast.unparse(node) in ("np.random", "numpy.random")
        else:
            bad = False
        if bad:
            lines.append(node.lineno)
    return lines


@pytest.mark.parametrize("module", [m for m in MODULES if m != "dpeigen.privacy.randomness"])
def test_random_numbers_come_from_one_module(module):
    assert random_use(MODULES[module].read_text()) == []


@pytest.mark.parametrize(
    "line",
    [
        "x = np.random.default_rng()",
        "import random",
        "import secrets",
        "from numpy.random import default_rng",
        "from numpy import random",
        "def f():\n    from random import gauss",
        "x = os.urandom(8)",
        "x = norm.rvs(3)",
    ],
)
def test_a_planted_generator_is_seen(line):
    assert random_use(line)


def test_the_randomness_module_is_where_they_are():
    assert random_use(MODULES["dpeigen.privacy.randomness"].read_text())


# --- a method touches two files -----------------------------------------------------------------------------------

# Those who run methods, predict their errors or judge them. What they have to know of a method stands in its own file.
ABOUT_METHODS = ["curator", "estimators", "evaluation", "planner", "report", "exchange.py", "facts.py", "intervals.py"]
ABOUT_METHODS += ["interval_basis.py", "spectral_intervals.py"]
ABOUT_METHODS += ["methods/base.py", "methods/outline.py", "methods/prediction.py", "methods/wrapped.py"]
CLASSES = {kind.__name__ for kind in METHODS.values()}
DEFAULTS = {"evaluation/running.py": {"USUAL"}}  # which methods a comparison takes if none are named


def methods_known(source: str, without: set[str] = frozenset()) -> list[str]:
    """Classes of single methods, and names of methods other than in prose: compared, or listed."""
    tree = ast.parse(source)
    tree.body = [
        node for node in tree.body if not (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in without)
    ]
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found += [f"{node.lineno}: {alias.name}" for alias in node.names if alias.name in CLASSES]
        elif isinstance(node, (ast.Compare, ast.Dict, ast.Tuple, ast.List, ast.Set)):
            parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.Constant)]
            found += [f"{node.lineno}: {part.value}" for part in parts if part.value in METHODS]
    return found


def about_methods() -> list[Path]:
    return [path for path in FILES if path.relative_to(SRC).as_posix().startswith(tuple(ABOUT_METHODS))]


# Words for shapes of spectra that are names of methods too.
SPECTRA = ["planner/__init__.py", "planner/assumptions.py", "evaluation/synthetic.py"]


@pytest.mark.parametrize("path", about_methods(), ids=lambda path: path.relative_to(SRC).as_posix())
def test_no_method_is_known_by_its_name_outside_its_file_and_the_registry(path):
    place = path.relative_to(SRC).as_posix()
    found = methods_known(path.read_text(), DEFAULTS.get(place, set()))
    assert [at for at in found if not (place in SPECTRA and at.endswith(": spiked"))] == []


@pytest.mark.parametrize(
    "line",
    [
        "from dpeigen.methods import Kendall",
        "from dpeigen.methods.signs.refined import Refined",
        'if method.name == "kendall":\n    pass',
        '_SLOW = {"oja": 8}',
        'MODELLED = ("gaussian", "refined")',
    ],
)
def test_a_planted_method_is_seen(line):
    assert methods_known(line)


# --- what an import costs, and what it offers ---------------------------------------------------------------------


def loaded_by(statement: str) -> list[str]:
    """Heavy packages that a fresh interpreter holds after a statement.

    scikit-learn loads pandas (and that PyArrow) by itself where it is installed: it is told that there is none.
    """
    code = f"import sys; sys.modules['pandas'] = None; {statement}; del sys.modules['pandas']; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [name for name in done.stdout.split() if name in HEAVY]


def test_heavy_packages_are_not_loaded_by_the_import():
    assert loaded_by("import dpeigen") == []


def test_the_probe_sees_a_heavy_package():
    assert loaded_by("import dpeigen, pyarrow") == ["pyarrow"]


def test_public_names_are_sorted_and_there():
    assert dpeigen.__all__ == sorted(dpeigen.__all__)
    assert [name for name in dpeigen.__all__ if not hasattr(dpeigen, name)] == []
    assert {"PrivatePCA", "PrivateCovariance", "Guarantee", "Ledger", "load_release"} <= set(dpeigen.__all__)


@pytest.mark.parametrize("module", [m for m, path in MODULES.items() if path.name == "__init__.py"])
def test_every_package_keeps_what_it_promises(module):
    package = importlib.import_module(module)
    assert [name for name in getattr(package, "__all__", []) if not hasattr(package, name)] == []


# --- habits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", MODULES)
def test_every_module_says_what_it_is_and_stays_small(module):
    text = MODULES[module].read_text()
    tree = ast.parse(text)
    assert ast.get_docstring(tree)
    assert len(text.splitlines()) - _docstring_lines(tree) <= 400


def _docstring_lines(tree: ast.Module) -> int:
    """Lines of docstrings below that of the module: descriptions of parameters do not make code longer."""
    documented = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node.body[0] for node in ast.walk(tree) if isinstance(node, documented) and ast.get_docstring(node)]
    return sum(first.end_lineno - first.lineno + 1 for first in found)


SPENDING = {m.__module__ for m in METHODS.values()} | {"dpeigen.methods.radius", "dpeigen.methods.location"}
SPENDING |= {"dpeigen.local.client", "dpeigen.local.privunit", "dpeigen.methods.score_map"}


@pytest.mark.parametrize("module", sorted(SPENDING))
def test_every_mechanism_states_its_guarantee(module):
    assert "Guarantee" in inspect.getdoc(importlib.import_module(module))


def test_a_class_name_means_one_thing():
    """Readers find a class by its name; two of one name in different modules are told apart by nobody."""
    places: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(SRC)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
