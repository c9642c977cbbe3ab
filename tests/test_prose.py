"""The check of English finds the words of its list in prose, and looks at no code."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("prose", Path(__file__).parents[1] / "tools/prose.py")
prose = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(prose)


def test_words_are_found_in_prose_and_not_in_code():
    code = "```python\nhole = 1\n```\n\n    hole\n\nThe `hole` parameter, [a page](hole.md)."
    page = f"A hole.\n\n{code}\n\nThey promise much.\n"
    assert [number for number, _ in prose.own_words(page)] == [1, 11]


@pytest.mark.parametrize(
    "text",
    [
        "The column is no feature.",
        "Options given here come first.",
        "Name the column that says whose row it is.",
        "Lines above the header are passed over.",
        "Every value is paid for apart.",
        "Components that can be told from noise.",
        "It stops after so many minutes.",
        "Regressions, for nothing more.",
        "Each row counts alike.",
    ],
)
def test_translated_english_is_found(text):
    assert len(prose.own_words(text)) == 1


def test_plain_english_is_not():
    assert prose.own_words("It is not used as a feature, and options on the command line override the file.") == []


def test_proselint_runs_and_finds_a_planted_fault(tmp_path, monkeypatch):
    pytest.importorskip("proselint", reason="proselint is not installed")
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("This is a very large number.\n", encoding="utf-8")
    assert len(prose.by_proselint([page])) == 1
    page.write_text("This is a large number.\n", encoding="utf-8")
    assert prose.by_proselint([page]) == []
