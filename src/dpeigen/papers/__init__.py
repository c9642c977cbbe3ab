"""Baselines as papers print them, which are not private; for reproductions only."""

from dpeigen.papers.analyze_gauss import AnalyzeGaussPrinted
from dpeigen.papers.data_scaled import DataScaledGaussian

__all__ = ["AnalyzeGaussPrinted", "DataScaledGaussian"]
