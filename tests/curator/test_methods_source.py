"""What the code of the methods may touch: the curator, and neither rows, nor exact sums, nor noise."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import dpeigen.methods

FOLDER = Path(dpeigen.methods.__file__).parent
STARTS = {"methods/base.py": {"unprotected"}}  # where the one function stands that baselines call
MAKERS = {  # these make the curator, or are handed rows by the user and call the one that does
    "methods/base.py": {"run_method"},
    "methods/score_map.py": {"run_map"},
    "one_pass/mean.py": {"mean_of", "private_mean"},
    "one_pass/spread.py": {"top_eigenvalue", "private_top_eigenvalue"},
}
RAW = {"reduce", "reduce_in_sequence", "blocks", "gram", "augmented", "perturb", "perturb_with_count", "unprotected"}
DRAWS = {"uniform", "normal", "permutation", "discrete_gaussian", "discrete_laplace"}
RANDOM = {"rng", "_rng", "random_state"}


def touches(source: str) -> list[str]:
    """What a method reads past the curator: exact sums, rows, noise of its own, questions of its own making."""
    found = []
    for node in ast.walk(ast.parse(source)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Attribute):
            inside = node.attr.startswith("_") and isinstance(node.value, ast.Name) and node.value.id == "curator"
            drawn = isinstance(node.value, (ast.Name, ast.Attribute)) and _last(node.value) in RANDOM
            if node.attr in RAW | DRAWS or inside or drawn:
                found.append(f"{line}: .{node.attr}")
        elif isinstance(node, ast.Name) and node.id in RAW:
            found.append(f"{line}: {node.id}")
        elif isinstance(node, ast.ImportFrom):
            found += [f"{line}: {alias.name}" for alias in node.names if alias.name in RAW]
        elif isinstance(node, ast.Call):
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            found += [f"{line}: rng is passed on" for value in given if _last(value) in RANDOM]
        elif isinstance(node, ast.ClassDef):
            kinds = [_last(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases]
            found += [f"{line}: a question" for kind in kinds if kind in ("Question", "Statistic")]
    return found


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def past_the_curator(path: Path) -> list[str]:
    place = f"{path.parent.name}/{path.name}"
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if getattr(node, "name", "") not in MAKERS.get(place, ())]
    return [at for at in touches(ast.unparse(tree)) if at.split(": ")[1].lstrip(".") not in STARTS.get(place, ())]


CHECKED = sorted(FOLDER.rglob("*.py"))


@pytest.mark.parametrize("path", CHECKED, ids=lambda path: path.name)
def test_methods_touch_neither_rows_nor_sums_nor_noise(path):
    assert past_the_curator(path) == []


def test_those_who_make_the_curator_are_known():
    assert len(CHECKED) > 20
    for place, names in MAKERS.items():
        (path,) = (path for path in CHECKED if path.as_posix().endswith(place))
        made = [node for node in ast.parse(path.read_text()).body if getattr(node, "name", "") in names]
        assert len(made) == len(names)
        assert sum("DataCurator(" in ast.unparse(node) for node in made) == 1


@pytest.mark.parametrize(
    "planted",
    [
        "source.reduce(statistic)",
        "reduce = curator.source.reduce_in_sequence",
        "rows = list(source.blocks())",
        "trace = found.gram.trace()",
        "noisy = perturb(values, cost, l2=1, l1=1, rng=None)",
        "from dpeigen.privacy.noise import perturb",
        "from dpeigen.privacy.noise import perturb as add",
        "privacy.noise.perturb_with_count(values)",
        "noise = rng.normal((3, 3))",
        "noise = self.rng.discrete_gaussian(1.0, 3)",
        "law.draw(moment, cost, relation, rng)",
        "law.draw(moment, cost, relation, rng=self.rng)",
        "source, rng = unprotected(curator)",
        "curator.unprotected()[0]",
        "source = curator._DataCurator__source",
        "curator._left[purpose] = cost",
        "class Raw(Question[float]):\n    pass",
        "class Sum(Statistic):\n    pass",
    ],
)
def test_a_planted_reading_is_seen(planted):
    assert touches((FOLDER / "signs" / "spatial_sign.py").read_text()) == []
    assert touches((FOLDER / "signs" / "spatial_sign.py").read_text() + "\n" + planted)
