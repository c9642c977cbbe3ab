"""Baselines as papers print them, and the papers' bounds; for reproductions and comparisons.

`AnalyzeGaussPrinted` and `DataScaledGaussian` are not private. `OjaPrinted` is, with an ε that its guarantee states.
Bounds are functions: `papers.amin`, `papers.cai`.
"""

from dpeigen.papers.analyze_gauss import AnalyzeGaussPrinted
from dpeigen.papers.data_scaled import DataScaledGaussian
from dpeigen.papers.dp_oja import OjaPrinted

__all__ = ["AnalyzeGaussPrinted", "DataScaledGaussian", "OjaPrinted"]
