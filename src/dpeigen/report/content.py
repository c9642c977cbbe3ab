"""What a card says: the promise, the budget, what may be concluded, how to cite and how to check.

Everything is read from the release. The results themselves are in `results`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from dpeigen._version import __version__
from dpeigen.privacy import Guarantee, Relation
from dpeigen.release import Release
from dpeigen.report.blocks import Block, Card, Code, Formula, Items, More, Notice, Section, Table, Text, clean, count
from dpeigen.report.results import KIND_TITLES, result_blocks, standing

_TRUST = {
    "central": "Whoever ran the computation saw the rows and is trusted with them. Readers of this release are not.",
    "local": "Nobody is trusted: each person randomised their own row before it left their device.",
    "shuffled": "Each person randomised their own row; the mixing of the reports is trusted, nobody else is.",
}
_NUMERICS = {
    "exact": "Exact: integer statistics and integer noise drawn exactly, so the proof covers the numbers really drawn.",
    "idealised": "Idealised: proven for real-valued noise, which was drawn in floating point and rounded to a grid.",
    "seeded": "Seeded: the noise can be computed again from a seed. NOT PRIVATE.",
}
_BASIS = {
    "worst-case": "Worst case: it holds for every table, whatever the values, and against any other knowledge.",
    "distributional": "Under assumptions about the data only; they are listed here and were not checked.",
    "none": "None: there is no proof of privacy for this method.",
}


def make_card(release: Release, digests: Mapping[str, str]) -> Card:
    """The card of a release whose files have these digests."""
    g = release.guarantee
    title = f"{KIND_TITLES.get(release.kind, 'Private release')} of {count(release.n_features, 'column')}"
    sections = [
        Section("promise", "The promise", _promise(g)),
        Section("budget", "What the budget was spent on", _budget(release)),
        Section("result", "The result", result_blocks(release)),
        Section("conclusions", "What may and may not be concluded", _conclusions(release)),
        Section("data", "What is known about the data", _data(release)),
        Section("cite", "How to cite", _cite(release, title, digests)),
        Section("check", "How to check the files", _check(digests)),
    ]
    return Card(title, _tiles(release), _notices(g), sections, f"dpeigen {__version__}")


def _tiles(release: Release) -> list[tuple[str, str]]:
    g = release.guarantee
    tiles = [("ε", f"{g.epsilon:g}"), ("δ", f"{g.delta:g}"), ("columns", f"{release.n_features:,}")]
    rows = release.facts.get("n_rows")
    if rows is not None:
        words = _terms(g)
        words += " (released, with noise)" if release.facts.get("n_rows_is") == "released" else ""
        tiles.append((words, f"{rows:,.0f}"))
    if release.kind == "pca":
        tiles.append(("components", f"{len(release.components)}"))
    return [*tiles, ("mechanism", g.mechanism)]


def _notices(g: Guarantee) -> list[Notice]:
    notices = []
    if g.numerics == "seeded":
        notices.append(
            Notice(
                "danger",
                "Seeded: not private",
                "The noise was drawn from a seed and can be taken off again. This release is for tests and papers on "
                "public data. Do not publish it if the rows are anybody's secret.",
            )
        )
    if g.basis == "none":
        reasons = " ".join(f"{a}." for a in g.assumptions)
        notices.append(
            Notice("danger", "Not private", f"The method has no proof of differential privacy. {reasons}".strip())
        )
    if g.basis == "distributional":
        reasons = "; ".join(g.assumptions)
        notices.append(
            Notice("warning", "Private under assumptions only", f"The promise below holds only if: {reasons}.")
        )
    if g.numerics == "idealised":
        notices.append(
            Notice(
                "note",
                "Idealised numerics",
                "The proof is about noise with infinitely many digits; the noise really drawn has those of a computer. "
                "A proven allowance for rounding is in it, but the draw itself is not covered by the proof.",
            )
        )
    return notices


# --- the promise ----------------------------------------------------------------------------------------------------


def _whom(g: Guarantee) -> tuple[str, str, str, str]:
    """What nothing depends on much, what changes, what an attacker guesses about, and what neighbours are."""
    replaced, unit = g.relation is Relation.REPLACE, clean(g.unit)
    if g.unit == "row":
        change = "the row of one person is replaced by any other values"
        neighbours = "Two tables that differ in the values of one row. The number of rows is public."
        if not replaced:
            change = "one person's row is added or taken away"
            neighbours = "Two tables of which one has one row more. The number of rows is private."
        return "any one row", change, "the last one is", neighbours
    change = f"all rows of one {unit!r} are {'replaced by any other rows' if replaced else 'added or taken away'}"
    neighbours = (
        f"Two tables that differ in all rows of one {unit!r}, however many they are. How many different ones there "
        "are is public, and the number of rows is private."
        if replaced
        else f"Two tables of which one has all rows of one {unit!r} more, however many they are. How many "
        "different ones there are is private, and so is the number of rows."
    )
    return f"all rows of any one {unit!r} together", change, "those are", neighbours


def _promise(g: Guarantee) -> list[Block]:
    depends, change, last, neighbours = _whom(g)
    factor = _power(g.epsilon)
    slack = f", plus {g.delta:g}" if g.delta else ""
    words = [
        f"Nothing in this release depends much on {depends}. If {change}, no result becomes more than {factor} times "
        f"as likely as before{slack}. That holds whatever a reader knows already, and whatever they compute from it."
    ]
    if g.is_private and g.basis == "worst-case":
        words.append(
            f"Put as a test: someone who knows all other rows guesses whether {last} "
            f"{g.secret} with a success of at most {100 * g.best_attack():.1f}%. Tossing a coin has 50%."
        )
    elif not g.is_private:
        words = [f"This release is not private. The noise in it is what the following promise would need: {words[0]}"]
    else:
        words = [f"Under the assumptions listed here, and only then: {words[0]}"]
    rows = [
        ("ε, the privacy loss", f"{g.epsilon:g}"),
        ("δ, the probability set aside for more", f"{g.delta:g}" + ("" if g.delta else " (pure privacy)")),
        *([("About", g.about)] if g.estimand else []),
        ("Neighbours", neighbours),
        ("Trust", _TRUST[g.trust]),
        ("Basis", _BASIS[g.basis]),
        ("Numerics", _NUMERICS[g.numerics]),
        ("Mechanism", g.mechanism + (f" [{g.reference}]" if g.reference else "")),
    ]
    blocks: list[Block] = [Text(text) for text in words]
    blocks += [Formula(_INEQUALITY, "Pr[M(D) ∈ S] ≤ e^ε · Pr[M(D′) ∈ S] + δ"), Text(_where(g))]
    blocks.append(Table("The promise in full", ["what", "value"], rows, numbers=False))
    if g.assumptions:
        blocks.append(Items("Assumptions", g.assumptions))
    if g.notes:
        blocks.append(Items("Remarks", g.notes))
    attack: list[Block] = [Formula(_ATTACK, "success ≤ 1/2 + (e^ε − 1 + 2δ) / (2·(e^ε + 1))"), Text(_attack_words(g))]
    blocks.append(More("The best possible attack, as a formula", attack))
    return blocks


def _power(epsilon: float) -> str:
    return f"{math.exp(epsilon):.3g}" if epsilon < 30 else f"e^{epsilon:g}"


def _where(g: Guarantee) -> str:
    return (
        f"Here M is the whole computation, D and D′ any two neighbouring tables, S any set of results, "
        f"ε = {g.epsilon:g} (e^ε = {_power(g.epsilon)}) and δ = {g.delta:g}. "
        + (
            "A person with several rows is protected less: with k rows, by k times ε or worse."
            if g.unit == "row"
            else f"It does not matter how many rows a {clean(g.unit)!r} has."
        )
    )


def _attack_words(g: Guarantee) -> str:
    shrink = math.exp(-g.epsilon)
    plain = 0.5 + (1 - shrink + 2 * g.delta * shrink) / (2 * (1 + shrink))
    text = f"For this ε and δ the bound is {100 * min(1.0, plain):.1f}% (Kairouz, Oh, Viswanath 2015)."
    if g.split and g.best_attack() < plain - 5e-4:
        text += f" Composing the shares of the budget exactly gives {100 * g.best_attack():.1f}%."
    return text


_PRIME = '<mi>D</mi><mo lspace="0" rspace="0">′</mo>'
_PR = "<mi>Pr</mi><mo>[</mo><mi>M</mi><mo>(</mo>{}<mo>)</mo><mo>∈</mo><mi>S</mi><mo>]</mo>"
_EXP = "<msup><mi>e</mi><mi>ε</mi></msup>"
_INEQUALITY = (
    f'<math display="block"><mrow>{_PR.format("<mi>D</mi>")}<mo>≤</mo>{_EXP}<mo>·</mo>'
    f"{_PR.format(_PRIME)}<mo>+</mo><mi>δ</mi></mrow></math>"
)
_ATTACK = (
    '<math display="block"><mrow><mtext>success</mtext><mo>≤</mo><mfrac><mn>1</mn><mn>2</mn></mfrac><mo>+</mo>'
    f"<mfrac><mrow>{_EXP}<mo>−</mo><mn>1</mn><mo>+</mo><mn>2</mn><mi>δ</mi></mrow>"
    f"<mrow><mn>2</mn><mo>(</mo>{_EXP}<mo>+</mo><mn>1</mn><mo>)</mo></mrow></mfrac></mrow></math>"
)


# --- the budget -----------------------------------------------------------------------------------------------------


def _budget(release: Release) -> list[Block]:
    g = release.guarantee
    blocks: list[Block] = []
    if g.split:
        rows = [(spend.purpose, str(spend.cost), spend.mechanism) for spend in g.split]
        blocks.append(Table("Shares", ["what it bought", "cost", "how the noise was drawn"], rows, numbers=False))
        blocks.append(
            Text(
                f"Composed exactly, the shares come to ε = {g.spent_epsilon:.4g} at δ = {g.delta:g}; "
                f"ε = {g.epsilon:g} was set aside. A cost of μ is that of telling two normal distributions with unit "
                "variance and means μ apart from each other; ρ is concentrated privacy."
                if any(str(spend.cost)[0] in "μρ" for spend in g.split)
                else f"Composed exactly, the shares come to ε = {g.spent_epsilon:.4g} at δ = {g.delta:g}; "
                f"ε = {g.epsilon:g} was set aside."
            )
        )
    blocks.append(
        Text(
            "Other releases about the same people add to this cost: their ε and δ add up. Whatever is computed from "
            "this release costs nothing more."
        )
    )
    choice = release.facts.get("choice")
    if choice:
        blocks.append(More("Why this method", _why(choice)))
    return blocks


def _why(choice: Any) -> list[Block]:
    """Why "auto" chose the method, in whatever plain form the release says it."""
    if isinstance(choice, str):
        return [Text(clean(choice))]
    if isinstance(choice, Mapping):
        flat = {name: value for name, value in choice.items() if not isinstance(value, Mapping)}
        blocks: list[Block] = [Table("The choice", ["what", "value"], _facts_rows(flat), numbers=False)]
        for name, value in choice.items():
            if isinstance(value, Mapping):
                blocks.append(
                    Table(clean(name).replace("_", " ").capitalize(), ["method", "value"], _facts_rows(value))
                )
        return blocks
    return [Items("The choice", [clean(_plain(part)) for part in choice])]


def _facts_rows(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(clean(name).replace("_", " "), clean(_plain(value))) for name, value in facts.items() if value is not None]


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.6g}"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 400 else text[:399] + "…"


# --- conclusions ----------------------------------------------------------------------------------------------------


def _conclusions(release: Release) -> list[Block]:
    may = [
        "The numbers describe the people in the table as a group. They are right up to the noise, which is on purpose.",
        "Anything may be computed from this release, and published, without another privacy cost: regressions between "
        "its columns, synthetic rows, pictures.",
        *standing(release),
    ]
    may_not = [
        "Nothing about a single person: not their values, and beyond the odds above not whether they are in the table.",
        "No usual standard errors or p-values: formulas that do not know the noise are too confident.",
        "No causes: columns that go together need not act on each other.",
        "No sharp statement about extremes: values beyond the bounds were clipped, so variances may be too small.",
    ]
    if release.kind == "pca":
        may_not.insert(2, "Nothing from the sign of a component: (+, −) and (−, +) are the same component.")
        may_not.insert(3, "Nothing from the order of components whose variances are close: noise can swap or mix them.")
    may_not.append(
        "Scores or predictions for the people in the table are not covered: they are as secret as their rows."
    )
    return [Items("You may conclude", may), Items("You may not conclude", may_not)]


# --- data, citation, files ------------------------------------------------------------------------------------------

_KNOWN = {
    "n_rows": "rows",
    "max_rows": "rows of one unit that are used, at most",
    "radius": "length that rows were clipped to",
    "center": "centre",
    "noise_deviation": "standard deviation of the noise on an entry of the covariance, at most",
    "release_id": "entry in the ledger",
    "covariance_error": "error of the covariance (spectral norm, 95%)",
}


def _terms(g: Guarantee) -> str:
    """What a number of rows is one of, where rows belong to units."""
    return "rows" if g.unit == "row" else f"different {clean(g.unit)!r}"


def _data(release: Release) -> list[Block]:
    facts = release.facts
    rows = []
    for name, words in {**_KNOWN, "n_rows": _terms(release.guarantee)}.items():
        value = facts.get(name)
        if value is not None:
            origin = facts.get(f"{name}_is")
            rows.append((words, _plain(value) + (f" ({origin})" if origin else "")))
    blocks: list[Block] = [Text("Public facts, and numbers that were paid for. Nothing else was read out of the data.")]
    if rows:
        blocks.append(Table("Facts", ["what", "value"], rows, numbers=False))
    units = facts.get("rescaled")
    if units:
        bounds = list(zip(release.labels, units["lower"], units["upper"], strict=True))
        table = [(clean(name), f"{low:g}", f"{high:g}") for name, low, high in bounds[:_MOST_BOUNDS]]
        left = len(bounds) - len(table)
        note = f"{count(left, 'column')} more: in release.json." if left else ""
        blocks.append(
            Text("Every column was brought to [0, 1] by its public bounds first. All results are in these units.")
        )
        blocks.append(
            More("The public bounds", [Table("Bounds", ["column", "lower (now 0)", "upper (now 1)"], table, note=note)])
        )
    if release.scale is not None:
        pairs = list(zip(release.labels, release.scale, strict=True))[:_MOST_BOUNDS]
        left = release.n_features - len(pairs)
        note = f"{count(left, 'column')} more: in release.safetensors." if left else ""
        divided = [
            (clean(name), clean(release.center_text(j)), f"{scale:.4g}") for j, (name, scale) in enumerate(pairs)
        ]
        blocks.append(
            More(
                "What columns were divided by", [Table("Scale", ["column", "centre", "divided by"], divided, note=note)]
            )
        )
    details = facts.get("details")
    if details:
        blocks.append(
            More(
                "Numbers of the method itself",
                [Table("Details", ["what", "value"], _facts_rows(details), numbers=False)],
            )
        )
    return blocks


_MOST_BOUNDS = 60


def _cite(release: Release, title: str, digests: Mapping[str, str]) -> list[Block]:
    g = release.guarantee
    digest = digests["release.json"]
    version = release.facts.get("dpeigen", __version__)
    private = "" if g.is_private else "NOT PRIVATE; the noise is that of "
    neighbours = _latex(g.neighbours)
    text = f"""\
@misc{{release-{digest[:8]},
  title = {{{{{title}}}}},
  note  = {{{private}$(\\varepsilon, \\delta) = ({g.epsilon:g}, {g.delta:g})$-differential privacy,
           {neighbours}, mechanism {_latex(g.mechanism)}; SHA-256 of release.json:
           {digest}}}
}}
@software{{dpeigen,
  author  = {{{{The dpeigen developers}}}},
  title   = {{dpeigen: differentially private {{PCA}} and covariance estimation}},
  version = {{{_latex(version)}}}
}}"""
    blocks: list[Block] = [
        Text("Cite the release by its digest, which names it and no other, and the software that made it."),
        Code("BibTeX", text),
    ]
    if g.reference:
        blocks.append(Text(f"The mechanism: {clean(g.reference)}."))
    return blocks


def _latex(text: object) -> str:
    """Text that TeX prints as it is."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(special.get(c, f"\\{c}" if c in "&%$#_{}" else c) for c in clean(text))


def _check(digests: Mapping[str, str]) -> list[Block]:
    sums = "\n".join(f"{digest}  {name}" for name, digest in digests.items())
    return [
        Text(
            "The release is in two files beside this page. These are their SHA-256 digests; compare them with a copy "
            "from "
            "somewhere that whoever sent you the files cannot write to."
        ),
        Code("Digests", sums),
        Code("On the command line, in this folder", "sha256sum release.safetensors release.json\ndpeigen check ."),
        Code("In Python", 'from dpeigen import load_release\nrelease = load_release(".")  # refuses damaged files'),
    ]
