"""The files on a card: public facts, how to cite them, where the proof is, and how to check them."""

from __future__ import annotations

from collections.abc import Mapping

from dpeigen._version import __version__
from dpeigen.privacy import Guarantee
from dpeigen.release import Release
from dpeigen.report.blocks import Block, Code, Links, More, Table, Text, clean, count, short
from dpeigen.report.links import papers, proof_page, software
from dpeigen.report.metadata import authors
from dpeigen.report.promise import facts_rows, plain
from dpeigen.report.scales import scale_cells
from dpeigen.sources.wording import not_asked_for

__all__ = ["check", "cite", "data", "terms"]

_KNOWN = {
    "n_rows": "rows",
    "max_rows": "maximum number of rows used per unit",
    "rows_that_count": "rows as which one unit counts, at most (paid for)",
    "radius": "norm that rows were clipped to",
    "center": "centre of the rows",
    "noise_deviation": "largest standard deviation of the noise on an entry of the covariance",
    "release_id": "entry in the ledger",
    "covariance_error": "error of the covariance (spectral norm, 95%)",
    "date": "date (UTC)",
    "dpeigen": "dpeigen version",
}
_NAMED = 10  # most columns without codes that are named
_CENTRES = {"private": "estimated with noise", "pairs": "not needed: differences of pairs of rows were measured"}
_JOINT = "joint norm that all rows of one unit were clipped to: √(sum of their squared norms / rows that count)"


def terms(g: Guarantee) -> str:
    """What is counted as n: rows, or units if rows belong to units."""
    return "rows" if g.unit == "row" else f"units (different {clean(g.unit)!r})"


def data(release: Release) -> list[Block]:
    """What is known about the data."""
    facts = release.facts
    rows = []
    known = {**_KNOWN, "n_rows": terms(release.guarantee)}
    if facts.get("max_rows") is not None:
        known["radius"] = _JOINT
    for name, words in known.items():
        value = facts.get(name)
        if value is not None:
            origin = facts.get(f"{name}_is")
            value = _CENTRES.get(value, value) if name == "center" else value
            rows.append((words, plain(value) + (f" ({origin})" if origin else "")))
    blocks: list[Block] = [Text("These facts are public, or were released with noise. Nothing else was taken from "
                                "the data.")]  # fmt: skip
    if found := _without_codes(release):
        rows.append(("codes for missing cells", found))
    if rows:
        blocks.append(Table("Facts", [], rows, numbers=False))
    units = facts.get("rescaled")
    if units:
        bounds = list(zip(release.labels, units["lower"], units["upper"], strict=True))
        table = [(clean(name), f"{low:g}", f"{high:g}") for name, low, high in bounds[:_MOST_BOUNDS]]
        left = len(bounds) - len(table)
        note = f"{count(left, 'column')} more: in release.json." if left else ""
        blocks.append(
            Text("Every column was first rescaled to [0, 1] by its public bounds. All results are in these units.")
        )
        blocks.append(
            More("The public bounds", [Table("Bounds", ["column", "lower (now 0)", "upper (now 1)"], table, note=note)])
        )
    if release.scale is not None:
        cells = list(scale_cells(release, _MOST_BOUNDS))
        left = release.n_features - len(cells)
        note = f"{count(left, 'column')} more: in release.safetensors." if left else ""
        divided = [[clean(name), *pair] for name, pair in zip(release.labels, cells, strict=False)]
        level = " (95% intervals)" if any(isinstance(cell, tuple) for pair in cells for cell in pair) else ""
        by = Table(f"What columns were divided by{level}", ["column", "centre", "divided by"], divided, note=note)
        # The card of a covariance has the same numbers among its results.
        blocks.append(More("What columns were divided by", [by]) if release.kind == "covariance" else by)
    if details := facts_rows(facts.get("details") or {}):
        blocks.append(
            More(
                "Internal numbers of the method",
                [Table("Details", ["what", "value"], details, numbers=False)],
            )
        )
    return blocks


def _without_codes(release: Release) -> str:
    """Which columns have no declared codes for missing cells; empty if all have some, or need none."""
    names = not_asked_for(release.columns, release.labels)
    if not names:
        return ""
    every = len(names) == len(release.columns or names)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    which = "" if every else f" for {', '.join(short(clean(name)) for name in names[:_NAMED])}{more}"
    return f"none declared{which}: a code such as -99 would have been read as a value"


_MOST_BOUNDS = 60


def cite(release: Release, title: str, digests: Mapping[str, str]) -> list[Block]:
    """How to cite the release, and where the proof, the papers and the software are."""
    g = release.guarantee
    digest = digests["release.json"]
    version = str(release.facts.get("dpeigen") or __version__)
    private = "" if g.is_private else "NOT PRIVATE; the noise is that of "
    neighbours = _latex(g.neighbours)
    names = " and ".join(f"{{{_latex(name)}}}" for name in authors(release))
    optional = f"  author = {{{names}}},\n" if names else ""
    optional += f"  year   = {{{release.date[:4]}}},\n" if release.date else ""
    text = f"""\
@misc{{release-{digest[:8]},
{optional}  title  = {{{{{_latex(title)}}}}},
  note   = {{{private}$(\\varepsilon, \\delta) = ({g.epsilon:g}, {g.delta:g})$-differential privacy,
    {neighbours}, mechanism {_latex(g.mechanism)};
    SHA-256 of release.json:
    {digest}}}
}}
@software{{dpeigen,
  author  = {{{{The dpeigen developers}}}},
  title   = {{dpeigen: differentially private {{PCA}} and covariance estimation}},
  version = {{{_latex(version)}}}
}}"""
    links: list[tuple[str, str | None]] = [proof_page(g)]
    links += [(f"{clean(name)}:", address) for name, address in papers(g)]
    if g.reference and len(links) == 1:
        links.append((f"Method: {clean(g.reference)}", None))
    links.append((f"Software: dpeigen {clean(version)}", software() if version == __version__ else None))
    return [
        Text("The digest identifies this release."),
        Code("BibTeX", text),
        Links("Proof, papers and software", links),
    ]


def _latex(text: object) -> str:
    """Text escaped for TeX."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(special.get(c, f"\\{c}" if c in "&%$#_{}" else c) for c in clean(text))


def check(digests: Mapping[str, str]) -> list[Block]:
    """How to check the files."""
    sums = "\n".join(f"{digest}  {name}" for name, digest in digests.items())
    return [
        Text(
            "The release is in two files beside this page. Compare their SHA-256 digests with those published "
            "somewhere that the sender of the files cannot change."
        ),
        Code("Digests", sums),
        Code(
            "On the command line, in this folder",
            "sha256sum release.safetensors release.json\ndpeigen check .",
            on_paper=False,
        ),
        Code(
            "In Python",
            'from dpeigen import load_release\nrelease = load_release(".")  # refuses damaged files',
            on_paper=False,
        ),
    ]
