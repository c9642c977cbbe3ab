"""
A publishable map of the rows
=============================

A private density of the rows on the plane of two private components, with private centres of known groups.
"""

# %%
# 1,797 public images of handwritten digits (8 × 8 pixels). All columns have the same unit: ``units="same"``.

from sklearn.datasets import load_digits

from dpeigen import PrivatePCA, PrivateScoreMap
from dpeigen.plotting import ScoreMapDisplay

digits = load_digits()
rows = digits.data[:, digits.data.std(axis=0) > 0]

pca = PrivatePCA(2, epsilon=4.0, delta=1e-6, bound=(0, 16), units="same").fit(rows)
labels = list(range(10))
mapped = PrivateScoreMap(pca.release_, epsilon=2.0, labels=labels).fit(rows, digits.target)

# %%
# The release and the map together cost the sum of both.

print(mapped.map_.total)

# %%
# Centres are drawn only for groups that can be distinguished from noise.

ScoreMapDisplay.from_map(mapped.map_)
