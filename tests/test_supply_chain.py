"""What dpeigen is made of: licenses on a list, a bill of materials that names what runs, few dependencies."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
if not (ROOT / "tools").exists() or not importlib.util.find_spec("packaging"):
    pytest.skip("needs the tools folder of the repository and 'packaging'", allow_module_level=True)
spec = importlib.util.spec_from_file_location("supply_chain", ROOT / "tools" / "supply_chain.py")
supply = importlib.util.module_from_spec(spec)
spec.loader.exec_module(supply)


@pytest.mark.parametrize(
    "words",
    [["MIT"], ["Apache-2.0 OR GPL-3.0-only"], ["BSD-3-Clause AND MIT"], ["BSD License"], ["MPL-2.0"], ["Apache 2.0"]],
)
def test_licenses_on_the_list(words):
    assert supply.allowed("some-package", words)


@pytest.mark.parametrize(
    "words",
    [[], ["UNKNOWN"], ["GPL-3.0-only"], ["MIT AND AGPL-3.0-only"], ["LGPL-3.0-only"], ["Proprietary"], ["MITX"]],
)
def test_other_licenses_are_refused(words):
    assert not supply.allowed("some-package", words)


def test_what_is_installed_is_on_the_list(capsys):
    assert supply.licenses() == 0
    assert "packages are on the list" in capsys.readouterr().out


def test_a_planted_license_is_found(monkeypatch, capsys):
    real = supply.license_of
    monkeypatch.setattr(supply, "license_of", lambda p: ["AGPL-3.0"] if p.metadata["Name"] == "rich" else real(p))
    assert supply.licenses() == 1
    assert "license of rich: AGPL-3.0" in capsys.readouterr().out


class Answer:
    def __init__(self, text):
        self.stdout = text


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        ("", 0, "LEFT OUT, because the service that knows them did not answer"),
        ('{"dependencies": [{"name": "numpy", "skip_reason": "unknown"}]}', 0, "LEFT OUT, because the service did not"),
        ('{"dependencies": [{"name": "numpy", "version": "9", "vulns": [{"id": "CVE-1"}]}]}', 1, "numpy 9 (CVE-1)"),
        ('{"dependencies": [{"name": "numpy", "version": "9", "vulns": []}]}', 0, "1 packages audited, 0 with"),
    ],
)
def test_vulnerabilities_fail_and_silence_does_not(monkeypatch, capsys, answer, code, said):
    monkeypatch.setattr(supply.subprocess, "run", lambda *a, **k: Answer(answer))
    assert supply.vulnerabilities() == code
    assert said in capsys.readouterr().out


def test_the_bill_names_what_runs(monkeypatch, tmp_path):
    monkeypatch.setattr(supply, "ROOT", tmp_path)
    assert supply.sbom() == 0
    bill = json.loads((tmp_path / "dist" / "sbom.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    named = {component["name"].lower(): component for component in bill["components"]}
    for name in ("numpy", "scipy", "scikit-learn", "opendp", "safetensors"):
        assert named[name]["version"] == importlib.metadata.version(name)
        assert named[name]["purl"].startswith("pkg:pypi/")
    assert "pytest" not in named
    refs = {component["bom-ref"] for component in bill["components"]}
    assert {ref for entry in bill["dependencies"] for ref in entry["dependsOn"]} <= refs
