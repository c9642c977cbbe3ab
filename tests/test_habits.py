"""Files around the code agree: versions, dependencies, supported Pythons, and workflows call targets that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
VERSION = re.search(r'__version__ = "(.*)"', (ROOT / "src/dpeigen/_version.py").read_text())[1]


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def project() -> dict:
    tomllib = pytest.importorskip("tomllib", reason="tomllib came with Python 3.11")
    return tomllib.loads(text("pyproject.toml"))["project"]


def version_problems(version: str, changelog: str, citation: str, recipe: str) -> list[str]:
    """What is wrong with the version in the files that repeat it; a development version repeats the last release."""
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", changelog, re.MULTILINE)
    problems = [] if released else ["the changelog has no release with a date"]
    latest = released[0] if released else ("", "")
    if ".dev" not in version and version != latest[0]:
        problems.append(f"the changelog's latest release is {latest[0]}, the package is {version}")
    if f"\nversion: {latest[0]}\n" not in citation or f"\ndate-released: {latest[1]}\n" not in citation:
        problems.append(f"CITATION.cff is not about {latest[0]} of {latest[1]}")
    if f'version: "{latest[0]}"' not in recipe:
        problems.append(f"conda/recipe.yaml is not about {latest[0]}")
    return problems


def test_all_files_name_the_same_version():
    files = [text("CHANGELOG.md"), text("CITATION.cff"), text("conda/recipe.yaml")]
    assert version_problems(VERSION, *files) == []
    for i, planted in enumerate(["0.0.1"] * 3):  # a forgotten file is noticed
        stale = [f if i != j else re.sub(r"\d+\.\d+\.\d+", planted, f) for j, f in enumerate(files)]
        assert version_problems(VERSION, *stale)


def test_conda_recipe_has_the_dependencies_of_the_package():
    wanted = {re.match(r"[\w-]+", d)[0]: d.split(">=")[1] for d in project()["dependencies"] if ";" not in d}
    wanted["matplotlib-base"] = wanted.pop("matplotlib")
    run = text("conda/recipe.yaml").split("  run:\n")[1].split("\n\n")[0]
    found = dict(re.findall(r"- ([\w-]+) >=([\d.]+)", run))
    assert found.pop("python") == project()["requires-python"].removeprefix(">=")
    assert found == wanted


def test_workflows_call_targets_that_exist_on_the_supported_pythons():
    targets = set(re.findall(r"^([\w-]+(?: [\w-]+)*):", text("Makefile"), re.MULTILINE))
    targets = {name for line in targets for name in line.split()}
    workflows = sorted((ROOT / ".github/workflows").glob("*.yml"))
    assert workflows
    for workflow in workflows:
        called = re.findall(r"run: make (\w[\w-]*)", workflow.read_text(encoding="utf-8"))
        assert set(called) <= targets, workflow.name
    supported = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text("pyproject.toml"))
    assert [f'"{v}"' for v in supported] == re.search(r"python: \[(.*)\]", text(".github/workflows/test.yml"))[1].split(
        ", "
    )


@pytest.mark.parametrize("name", ["test", "audit", "release"])
def test_workflows_are_yaml_with_few_rights(name):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    workflow = yaml.safe_load(text(f".github/workflows/{name}.yml"))
    assert workflow["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job or name == "release" for job in workflow["jobs"].values())


def test_forms_and_citation_are_yaml():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    for path in [*(ROOT / ".github").rglob("*.yml"), ROOT / "CITATION.cff", ROOT / ".readthedocs.yaml"]:
        assert yaml.safe_load(path.read_text(encoding="utf-8")), path.name
