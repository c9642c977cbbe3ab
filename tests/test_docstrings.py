"""Everything public has a docstring in numpydoc's form: a summary, each parameter with its meaning, what is returned.

A method that overrides a documented one of its base needs no docstring of its own. A frozen value may describe its
fields under "Attributes" instead of "Parameters".
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path

import pytest

import dpeigen

numpydoc = pytest.importorskip("numpydoc.validate", reason="numpydoc is not installed")

MODULES = [
    "dpeigen",
    "dpeigen.auditing",
    "dpeigen.datasets",
    "dpeigen.evaluation",
    "dpeigen.intervals",
    "dpeigen.local",
    "dpeigen.planner",
    "dpeigen.plotting",
    "dpeigen.privacy",
    "dpeigen.privacy.ledger",
    "dpeigen.regression",
    "dpeigen.report",
    "dpeigen.sources",
]
# No docstring, no summary; a parameter that is not described, not there, out of order, without a meaning; no returns.
ERRORS = {"GL08", "SS01", "PR01", "PR02", "PR03", "PR04", "PR07", "RT01", "RT03"}


def public_objects(module: str) -> list[str]:
    found = []
    names = importlib.import_module(module).__all__
    for name in names:
        thing = getattr(importlib.import_module(module), name)
        if not (inspect.isclass(thing) or inspect.isfunction(thing)):
            continue
        found.append(f"{module}.{name}")
        if not inspect.isclass(thing) or not thing.__module__.startswith("dpeigen"):
            continue
        for member, value in vars(thing).items():
            function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if member.startswith("_") or not inspect.isfunction(function):
                continue
            if not any(getattr(base, member, None) is not None for base in thing.__mro__[1:]):
                found.append(f"{module}.{name}.{member}")
    return found


def problems(name: str) -> list[str]:
    module, _, rest = name.partition(".")
    thing = importlib.import_module(module)
    for part in rest.split("."):
        thing = getattr(thing, part) if hasattr(thing, part) else importlib.import_module(f"{thing.__name__}.{part}")
    found = [(code, text) for code, text in numpydoc.validate(name)["errors"] if code in ERRORS]
    if is_dataclass(thing) and "Attributes\n" in (thing.__doc__ or ""):
        found = [(code, text) for code, text in found if code != "PR01"]
    if inspect.isclass(thing) and issubclass(thing, Enum):
        found = [(code, text) for code, text in found if code != "PR01"]
    if inspect.isgeneratorfunction(inspect.unwrap(thing) if callable(thing) else thing):
        found = [(code, text) for code, text in found if code != "RT01"]
    return [f"{code} {text}" for code, text in found]


@pytest.mark.parametrize("name", [name for module in MODULES for name in public_objects(module)])
def test_public_name_is_documented(name):
    assert problems(name) == []


def test_a_missing_parameter_is_noticed(monkeypatch):
    monkeypatch.setattr(
        dpeigen.load_release, "__doc__", "Read a saved release.\n\nReturns\n-------\nRelease\n    It.\n"
    )
    assert [text[:4] for text in problems("dpeigen.load_release")] == ["PR01"]


def undocumented_attributes(estimator: type) -> list[str]:
    """Names of fitted attributes that the docstring of an estimator does not mention."""
    own = [base for base in estimator.__mro__ if base.__module__.startswith("dpeigen")]
    names = {name for base in own for name in re.findall(r"self\.([a-z]\w*_) ?[:=]", inspect.getsource(base))}
    names |= {name for base in own for name, v in vars(base).items() if isinstance(v, property) and name[-1] == "_"}
    return sorted(name for name in names if not re.search(rf"\b{name}(?!\w)", inspect.getdoc(estimator)))


@pytest.mark.parametrize("name", ["PrivatePCA", "PrivateCovariance", "PrivateRidge", "PrivateScoreMap"])
def test_every_fitted_attribute_is_described(name, monkeypatch):
    estimator = getattr(dpeigen, name)
    assert undocumented_attributes(estimator) == []
    monkeypatch.setattr(estimator, "__doc__", estimator.__doc__.replace("guarantee_", "it"))
    assert "guarantee_" in undocumented_attributes(estimator)


def test_every_module_lists_its_public_names():
    root = Path(dpeigen.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if path.name == "__main__.py":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        targets = [t for node in tree.body if isinstance(node, ast.Assign) for t in node.targets]
        targets += [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
        assert any(getattr(t, "id", "") == "__all__" for t in targets), path.relative_to(root)
