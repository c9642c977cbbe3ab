"""Privacy on a card: the guarantee in words and formulas, and how the budget was spent."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sized
from typing import Any

from dpeigen.privacy import Guarantee, Relation
from dpeigen.release import Release
from dpeigen.report.blocks import Block, Formula, Items, More, Notice, Table, Text, clean

__all__ = ["budget", "facts_rows", "notices", "plain", "privacy_unit", "promise"]

_TRUST = {
    "central": "Whoever ran the computation saw the rows and is trusted with them. Readers of this release are not.",
    "local": "Nobody is trusted: each person randomised their own row before it left their device.",
    "shuffled": "Each person randomised their own row. Only the shuffler of the reports is trusted.",
}
_NUMERICS = {
    "exact": "Exact: integer statistics and integer noise, drawn exactly. The proof covers the numbers actually drawn.",
    "idealised": "Idealised: proven for real-valued noise, which was drawn in floating point and rounded to a grid.",
    "seeded": "Seeded: the noise can be computed again from a seed. NOT PRIVATE.",
}
_COSTS = {
    "μ": "At a cost of μ, neighbouring tables are as hard to distinguish as two normal distributions with variance 1 "
    "whose means differ by μ.",
    "ρ": "A cost of ρ is one of zero-concentrated privacy.",
}
_BASIS = {
    "worst-case": "Worst case: it holds for every table, and whatever else an attacker knows.",
    "distributional": "Holds only under assumptions about the data, which are listed here and were not checked.",
    "none": "None: there is no proof of privacy for this method.",
}


def notices(g: Guarantee) -> list[Notice]:
    """Notices that a reader must not miss."""
    found = []
    if g.numerics == "seeded":
        found.append(
            Notice(
                "danger",
                "Seeded: not private",
                "The noise was drawn from a seed, so anyone who has the seed can remove it. Use this release for tests "
                "and public data only. Do not publish it if the rows are private.",
            )
        )
    if g.basis == "none":
        reasons = " ".join(f"{a}." for a in g.assumptions)
        found.append(
            Notice("danger", "Not private", f"The method has no proof of differential privacy. {reasons}".strip())
        )
    if g.basis == "distributional":
        reasons = "; ".join(g.assumptions)
        found.append(
            Notice("warning", "Private under assumptions only", f"The guarantee below holds only if: {reasons}.")
        )
    if g.numerics == "idealised":
        found.append(
            Notice(
                "note",
                "Idealised numerics",
                "The proof is for real-valued noise, but the noise was drawn in floating point. The proof accounts for "
                "rounding, but not for the draw itself.",
            )
        )
    return found


# --- the promise ----------------------------------------------------------------------------------------------------


def _whom(g: Guarantee) -> tuple[str, str, str]:
    """Texts for: whose data the result hardly depends on, what changes, and what neighbouring tables are."""
    replaced, unit = g.relation is Relation.REPLACE, clean(g.unit)
    if g.unit == "row":
        if replaced:
            neighbours = "Two tables that differ in the values of one row. The number of rows is public."
            return "any one row", "one row is replaced by any other values", neighbours
        neighbours = "Two tables, one of which has one row more. The number of rows is private."
        return "any one row", "one row is added or removed", neighbours
    change = f"all rows of one {unit!r} are {'replaced by any other rows' if replaced else 'added or removed'}"
    neighbours = (
        f"Two tables that differ in all rows of one {unit!r}, however many rows those are. The number of distinct "
        f"{unit!r} is public; the number of rows is private."
        if replaced
        else f"Two tables, one of which has all rows of one {unit!r} more, however many rows those are. The number of "
        f"distinct {unit!r} and the number of rows are private."
    )
    return f"all rows of any one {unit!r} together", change, neighbours


def privacy_unit(g: Guarantee) -> str:
    """Whom the guarantee protects, in plain words."""
    if g.unit == "row":
        return "One row. A person with several rows is protected less: with k rows, by k times ε or worse."
    return f"All rows of one {clean(g.unit)!r} together, however many they are."


def promise(g: Guarantee) -> list[Block]:
    """The guarantee."""
    depends, change, neighbours = _whom(g)
    slack = f", plus {g.delta:g}" if g.delta else ""
    words = [
        f"This release depends little on {depends}. If {change}, no result becomes more than "
        f"{_power(g.epsilon)} times as likely as before{slack}. This holds whatever a reader already knows and "
        "whatever they compute from the release.",
        g.attack_words,
    ]
    if not g.is_private:
        words = [f"This release is not private. The noise in it is what the following guarantee would need: {words[0]}"]
    elif g.basis != "worst-case":
        words = [f"Only under the assumptions listed here: {words[0]}"]
    rows = [
        ("ε, the privacy loss", f"{g.epsilon:g}"),
        ("δ, the probability of more", f"{g.delta:g}" + ("" if g.delta else " (pure privacy)")),
        ("Neighbours", neighbours),
        ("Trust", _TRUST[g.trust]),
        ("Basis", _BASIS[g.basis]),
        ("Numerics", _NUMERICS[g.numerics]),
        ("Mechanism", g.mechanism + (f" [{g.reference}]" if g.reference else "")),
    ]
    blocks: list[Block] = [Text(text) for text in words if text]
    blocks.append(Table("The guarantee in full", [], rows, numbers=False))
    if g.assumptions:
        blocks.append(Items("Assumptions", g.assumptions))
    if g.notes:
        blocks.append(Items("Remarks", g.notes))
    formulas: list[Block] = [
        Formula(_INEQUALITY, "Pr[M(D) ∈ S] ≤ e^ε · Pr[M(D′) ∈ S] + δ"),
        Text(_where(g)),
        Formula(_ATTACK, "success ≤ 1/2 + (e^ε − 1 + 2δ) / (2·(e^ε + 1))"),
        Text(_attack_words(g)),
    ]
    blocks.append(More("The guarantee and the best possible attack, as formulas", formulas))
    return blocks


def _power(epsilon: float) -> str:
    return f"{math.exp(epsilon):.3g}" if epsilon < 30 else f"e^{epsilon:g}"


def _where(g: Guarantee) -> str:
    return (
        f"Here M is the whole computation, D and D′ any two neighbouring tables, S any set of results, "
        f"ε = {g.epsilon:g} (e^ε = {_power(g.epsilon)}) and δ = {g.delta:g}."
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


def budget(release: Release) -> list[Block]:
    g = release.guarantee
    blocks: list[Block] = []
    if g.split:
        rows = [(spend.purpose, str(spend.cost), spend.mechanism) for spend in g.split]
        blocks.append(Table("Shares", ["what was measured", "cost", "how the noise was drawn"], rows, numbers=False))
        symbols = {str(spend.cost)[0] for spend in g.split}
        total = f"Composed exactly, the shares come to ε = {g.spent_epsilon:.4g} at δ = {g.delta:g}; "
        said = [f"{total}ε = {g.epsilon:g} was set aside.", *(_COSTS[one] for one in _COSTS if one in symbols)]
        blocks.append(Text(" ".join(said)))
    blocks.append(
        Text(
            "Other releases about the same people add to this cost: their ε and δ add up. Anything computed from this "
            "release costs nothing more."
        )
    )
    choice = release.facts.get("choice")
    if choice and (why := _why(choice)):
        blocks.append(More("Why this method", why))
    return blocks


def _why(choice: Any) -> list[Block]:
    """Why "auto" chose the method, as the release states it."""
    if isinstance(choice, str):
        return [Text(clean(choice))]
    if isinstance(choice, Mapping):
        flat = {name: value for name, value in choice.items() if not isinstance(value, Mapping)}
        rows = facts_rows(flat)
        blocks: list[Block] = [Table("The choice", ["what", "value"], rows, numbers=False)] if rows else []
        for name, value in choice.items():
            if isinstance(value, Mapping) and facts_rows(value):
                blocks.append(Table(clean(name).replace("_", " ").capitalize(), ["method", "value"], facts_rows(value)))
        return blocks
    return [Items("The choice", [clean(plain(part)) for part in choice])]


def facts_rows(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Facts as rows of a table; empty ones are left out."""
    known = {
        name: value
        for name, value in facts.items()
        if value is not None and not (isinstance(value, Sized) and not len(value))
    }
    return [(clean(name).replace("_", " "), clean(plain(value))) for name, value in known.items()]


def plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.6g}"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 400 else text[:399] + "…"
