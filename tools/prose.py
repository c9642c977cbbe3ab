"""Check the English of everything a person reads: proselint's rules, and words that this project does not use.

    python tools/prose.py [FILES]     # README, docs and the other pages by default; exit code 1 if something is found

Texts in the program that people read (help of commands, cards, guarantees, the studio) are checked for the same words.
Code and formulas are left out. proselint's rules about quotation marks, repeated words and times of day do not fit
pages with code and tables. `WORDS` has what a reader would stumble over, with what to write instead.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ["*.md", "docs/*.md", "docs/*/*.md", "papers/*.md", "papers/*/*.md", ".github/*.md"]
PROGRAM = [
    "cli/*.py",
    "report/*.py",
    "studio/*.py",
    "estimators/*.py",
    "privacy/guarantee.py",
    "curator/purposes.py",
    "notebook.py",
    "clipped.py",
    "local/promise.py",
]
SKIPPED = {"CHANGELOG.md"}  # what was written about earlier versions stays
IGNORED = (
    "typography.symbols",
    "typography.diacritical_marks",
    "spelling.consistency",
    "lexical_illusions",
    "dates_times",
    "needless_variants",
    "misc.phrasal_adjectives",
    "misc.illogic",
    "uncomparables",  # "least absolute deviations" is a name
)
WORDS = {
    r"\bpromis\w+\b": "guarantee, state, predict",
    r"\bholes?\b": "missing cell",
    r"\b(?:has|have|had) teeth\b": "can find faults",
    r"\bdrowns?\b": "is hidden by the noise",
    r"\blouder\b": "has more noise",
    r"\bmeets? (?:\d|other|another)": "is compared with",
    r"\bbelieves? no\b": "caps, ignores",
    r"\bbrings? news\b": "is complete",
    r"\bamiss\b": "wrong",
    r"\bwhatever (?:he|she|they) (?:may )?(?:do|does)\b": "any attack",
    r"\bat will\b": "as often as needed",
    r"\bfor free\b": "at no cost",
    r"\b(?:very|quite|rather) (?:unique|good|bad|big|nice)\b": "say how much",
    r"\bis no (?:feature|mean|number|recommendation|secret|gain)\b": "is not (used as) a …",
    r"\bwhose row it is\b": "the column of ids, the id of the person",
    r"\bpaid for apart\b": "measured separately",
    r"\bunpaid\b": "without privacy, outside the budget",
    r"\btold (?:apart|from)\b": "distinguished",
    r"\bpassed over\b": "skipped",
    r"\boptions? (?:\w+ )?(?:\w+ )?comes? (?:first|before)\b": "override",
    r"\bgo(?:es)? on (?:from|where|without|with)\b": "continue, resume",
    r"\b(?:at most|after|up to|than|at) so (?:many|few)\b": "this many",
    r"\bfor nothing more\b": "at no further cost",
    r"\bnext to nothing\b": "almost nothing",
    r"\b(?:counts?|works?|treats?(?: \w+){1,2}) alike\b": "in the same way, equally",
    r"\bcounts? one\b": "has weight 1",
    r"\bmarked so\b": "marked",
    r"\bdo(?:es)? for all of them\b": "is enough for all of them",
    r"\bmay be off\b": "the error of",
    r"\bread out of\b": "computed from, taken from",
    r"\bnumbers really\b": "actually",
    r"\b(?:at|to) hand\b": "available",
    r"\bturn(?:s|ed)? (?:the )?(?:components?|directions?|planes?)\b": "rotate",
    r"\bnot (?:un(?:likely|common|usual|important|known)|infrequent\w*)\b": "say it without two negations",
}


def prose(text: str) -> str:
    """The text without code, formulas, links' targets and tables of numbers; lines stay where they are."""
    text = re.sub(r"^(```|~~~).*?^\1", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(?: {4}|\t).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`\n]*`", lambda m: "x" * len(m[0]), text)
    return re.sub(r"\]\([^)\n]*\)", lambda m: "]" + " " * (len(m[0]) - 1), text)


def own_words(text: str) -> list[tuple[int, str]]:
    """Lines with words of the list, and what to write instead."""
    found = []
    for number, line in enumerate(prose(text).split("\n"), start=1):
        for pattern, better in WORDS.items():
            found += [(number, f"{match[0]!r}: write {better}") for match in re.finditer(pattern, line, re.IGNORECASE)]
    return found


def in_program(page: Path) -> list[tuple[int, str]]:
    """The same for texts of several words in a Python file."""
    texts = [n for n in ast.walk(ast.parse(page.read_text(encoding="utf-8"))) if isinstance(n, ast.Constant)]
    found = []
    for node in texts:
        if isinstance(node.value, str) and node.value.count(" ") > 1:
            found += [(node.lineno + line - 1, text) for line, text in own_words(node.value.replace("    ", ""))]
    return found


def by_proselint(pages: list[Path]) -> list[str]:
    """What proselint finds in the pages, with IGNORED left out."""
    with tempfile.TemporaryDirectory() as folder:
        copies = {}
        for number, page in enumerate(pages):
            copy = Path(folder) / f"{number}.md"
            copy.write_text(prose(page.read_text(encoding="utf-8")), encoding="utf-8")
            copies[copy.name] = page
        command = [sys.executable, "-m", "proselint", "check", *(str(Path(folder) / name) for name in copies)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 1) or "Traceback" in ran.stderr:
        raise RuntimeError(f"proselint did not run: {ran.stderr[-300:]}")
    found = re.findall(r"^.*?([^/\\\n]+\.md):(\d+):\d+: ([\w.]+): (.*)$", ran.stdout + ran.stderr, re.MULTILINE)
    return [
        f"{copies[name].relative_to(ROOT)}:{line}: {message}"
        for name, line, check, message in found
        if not check.startswith(IGNORED)
    ]


def main(names: list[str]) -> int:
    """Print what is found; 1 if anything is."""
    pages = [Path(name).resolve() for name in names] or sorted(
        page for pattern in PAGES for page in ROOT.glob(pattern) if page.name not in SKIPPED
    )
    lines = [
        f"{p.relative_to(ROOT)}:{n}: {text}" for p in pages for n, text in own_words(p.read_text(encoding="utf-8"))
    ]
    lines += by_proselint(pages)
    program = (
        []
        if names
        else sorted(p for each in PROGRAM for p in (ROOT / "src/dpeigen").glob(each) if p.name != "style.py")
    )
    lines += [f"{page.relative_to(ROOT)}:{number}: {text}" for page in program for number, text in in_program(page)]
    print("\n".join(lines) or f"{len(pages)} pages and {len(program)} files of the program: nothing found.")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
