"""What dpeigen is made of: licenses, known vulnerabilities, a bill of materials, a wheel that anyone can build again.

    python tools/supply_chain.py licenses vulnerabilities reproducible sbom [wheel]

Everything is about the packages that dpeigen asks for, directly or not, as installed here: with ``dev`` for the checks
and without for the bill of materials. The vulnerability check asks a service; where it cannot be reached that is said
and nothing fails, because a build must not depend on it.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata as metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
EPOCH = "1577836800"  # the date of every file in a wheel
EXTRAS = ("accounting", "dask", "spark", "serve", "studio", "postgres")
ALLOWED = re.compile(
    r"(apache(-2\.0| software license| license,? version 2\.0| 2\.0)?|mit( license|-cmu)?"
    r"|(new |modified )?bsd( license)?"
    r"|bsd-[23]-clause|[23]-clause bsd( license)?|0bsd|isc( license)?( \(iscl\))?|psf-2\.0|psfl|python-2\.0"
    r"|python software foundation license|mpl-2\.0|mozilla public license 2\.0 \(mpl 2\.0\)|zlib|cc0-1\.0"
    r"|public domain|the unlicense \(unlicense\)|unlicense)",
    re.IGNORECASE,
)
# LGPL: optional, imported as a whole and never copied, so its terms ask nothing of dpeigen's users.
EXCEPTIONS = {"psycopg": "LGPL-3.0-only", "psycopg-binary": "LGPL-3.0-only"}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def installed(extras: tuple[str, ...]) -> dict[str, metadata.Distribution]:
    """dpeigen and everything it asks for, by name; what is not installed here is left out."""
    from packaging.requirements import Requirement

    found: dict[str, metadata.Distribution] = {}
    waiting, seen = [("dpeigen", frozenset(extras))], set()
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        try:
            package = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        found[canonical(name)] = package
        for line in package.requires or []:
            need = Requirement(line)
            if need.marker is None or any(need.marker.evaluate({"extra": e}) for e in ("", *wanted)):
                waiting.append((canonical(need.name), frozenset(need.extras)))
    return dict(sorted(found.items()))


def license_of(package: metadata.Distribution) -> list[str]:
    """What a package says about its license: an expression, its classifiers, a first line, or its file's first line."""
    facts = package.metadata
    if facts.get("License-Expression"):
        return [facts["License-Expression"]]
    kinds = [c.split("::")[-1].strip() for c in facts.get_all("Classifier") or [] if c.startswith("License ::")]
    kinds = [kind for kind in kinds if kind != "OSI Approved"]
    text = (facts.get("License") or "").strip()
    if not kinds and not text:
        files = [f for f in package.files or [] if f.name.upper().startswith("LICENSE") and ".dist-info" in str(f)]
        text = files[0].read_text(encoding="utf-8").strip() if files else ""
    return kinds or ([text.splitlines()[0].strip()] if text else [])


def allowed(name: str, words: list[str]) -> bool:
    """Any of several classifiers, any side of OR, every side of AND."""
    if words == [EXCEPTIONS.get(name)]:
        return True
    sides = [side for word in words for side in word.split(" OR ")]
    return any(
        all(ALLOWED.fullmatch(part.strip(" ()")) or ALLOWED.fullmatch(part.strip()) for part in s.split(" AND "))
        for s in sides
    )


def licenses() -> int:
    """Refuse a dependency whose license is not on the list."""
    packages = installed((*EXTRAS, "dev"))
    wrong = {n: license_of(p) for n, p in packages.items() if not allowed(n, license_of(p))}
    for name, words in wrong.items():
        print(f"license of {name}: {' / '.join(words) or 'not stated'} is not on the list in tools/supply_chain.py")
    print(f"licenses: {len(packages) - len(wrong)} of {len(packages)} packages are on the list")
    return int(bool(wrong))


def vulnerabilities() -> int:
    """Refuse a dependency with a known vulnerability, where the service that knows them can be reached."""
    wanted = installed((*EXTRAS, "dev"))
    command = [sys.executable, "-m", "pip_audit", "--local", "--format", "json", "--progress-spinner", "off"]
    try:
        done = subprocess.run([*command, "--timeout", "10"], capture_output=True, text=True, timeout=120, check=False)
        reports = json.loads(done.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        print("vulnerabilities: LEFT OUT, because the service that knows them did not answer")
        return 0
    audited = [r for r in reports if "vulns" in r and canonical(r["name"]) in wanted]
    bad = [r for r in audited if r["vulns"]]
    for report in bad:
        ids = ", ".join(v["id"] for v in report["vulns"])
        print(f"vulnerable: {report['name']} {report['version']} ({ids})")
    if len(audited) < len(wanted) - 1:  # dpeigen itself is not asked about
        left = len(wanted) - 1 - len(audited)
        print(f"vulnerabilities: {left} of {len(wanted) - 1} packages LEFT OUT, because the service did not know them")
    print(f"vulnerabilities: {len(audited)} packages audited, {len(bad)} with known vulnerabilities")
    return int(bool(bad))


def _build(source: Path, out: Path) -> Path:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(
        command, cwd=source, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    (wheel,) = out.glob("*.whl")
    return wheel


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def reproducible() -> int:
    """Build the wheel twice, in other folders, with other rights and dates of the files, and compare the bytes."""
    digests = []
    with tempfile.TemporaryDirectory() as folder:
        for name, mode, date in (("one", 0o600, 1_000_000_000), ("two/deeper", 0o664, 1_500_000_000)):
            copy = Path(folder) / name
            shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
            for file in ("pyproject.toml", "README.md", "LICENSE"):
                shutil.copy(ROOT / file, copy / file)
            for file in copy.rglob("*"):
                if file.is_file():
                    file.chmod(mode)
                    os.utime(file, (date, date))
            digests.append(_digest(_build(copy, copy / "dist")))
    same = digests[0] == digests[1]
    print(f"reproducible: {'two builds of the wheel agree' if same else 'TWO BUILDS DIFFER'}, sha256 {digests[0]}")
    return int(not same)


def wheel() -> int:
    """The wheel, in dist/, as anyone else would build it from these files."""
    out = ROOT / "dist"
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        built = _build(ROOT, Path(folder))
        made = Path(shutil.copy(built, out))
    print(f"{made.relative_to(ROOT)}  sha256 {_digest(made)}")
    return 0


def _component(name: str, package: metadata.Distribution) -> dict[str, object]:
    words = license_of(package)
    expression = package.metadata.get("License-Expression")
    entry: dict[str, object] = {
        "type": "library",
        "bom-ref": f"pkg:pypi/{name}@{package.version}",
        "name": package.metadata["Name"],
        "version": package.version,
        "purl": f"pkg:pypi/{name}@{package.version}",
        "licenses": [{"expression": expression}] if expression else [{"license": {"name": word}} for word in words],
    }
    record = [f for f in package.files or [] if f.name == "RECORD"]
    if record:  # a digest of the digests of all its files
        content = hashlib.sha256(Path(str(record[0].locate())).read_bytes()).digest()
        entry["properties"] = [{"name": "dpeigen:record:sha256", "value": base64.b16encode(content).decode().lower()}]
    return entry


def sbom() -> int:
    """A bill of materials in CycloneDX 1.6 (JSON) of what runs: dpeigen, its dependencies, and installed extras."""
    from packaging.requirements import Requirement

    packages = installed(EXTRAS)
    ours = _component("dpeigen", packages.pop("dpeigen")) | {"type": "application"}
    ours.pop("properties", None)
    refs = {name: f"pkg:pypi/{name}@{package.version}" for name, package in packages.items()}
    tree = [{"ref": ours["bom-ref"], "dependsOn": sorted(refs.values())}]
    for name, package in packages.items():
        needs = {canonical(Requirement(line).name) for line in package.requires or []}
        tree.append({"ref": refs[name], "dependsOn": sorted(refs[n] for n in needs if n in refs)})
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": ours},
        "components": [_component(name, package) for name, package in packages.items()],
        "dependencies": tree,
    }
    out = ROOT / "dist"
    out.mkdir(exist_ok=True)
    (out / "sbom.json").write_text(json.dumps(bill, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    print(f"dist/sbom.json: {len(packages)} components")
    return 0


COMMANDS: dict[str, Callable[[], int]] = {f.__name__: f for f in (licenses, vulnerabilities, reproducible, wheel, sbom)}

if __name__ == "__main__":
    unknown = [name for name in sys.argv[1:] if name not in COMMANDS]
    if unknown or len(sys.argv) == 1:
        sys.exit(f"Give some of: {' '.join(COMMANDS)}")
    sys.exit(max(COMMANDS[name]() for name in sys.argv[1:]))
