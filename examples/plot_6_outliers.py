"""
Outliers
========

A few distant rows change ordinary components completely. ``robust=True`` asks for directions of signs, on which they
have little influence.
"""

# %%
# 5,000 rows whose first direction has most of the variance, and 5% of rows far away in another direction.

import matplotlib.pyplot as plt
import numpy as np

from dpeigen import PrivatePCA

rng = np.random.default_rng(3)
rows = rng.normal(size=(5_000, 6)) * [3, 1, 1, 1, 1, 1]
rows[:250, 1] += 40

angles = {}
for name, robust in (("covariance", False), ("robust", True)):
    runs = [PrivatePCA(1, epsilon=1.0, delta=1e-6, robust=robust).fit(rows) for _ in range(10)]
    angles[name] = [float(np.degrees(np.arccos(min(1.0, abs(run.components_[0, 0]))))) for run in runs]
print({name: f"{np.median(found):.0f} degrees" for name, found in angles.items()})

# %%
# The angle between the first component and the direction of the other 95% of the rows, in ten releases.

plt.boxplot(list(angles.values()))
plt.xticks([1, 2], list(angles))
plt.ylabel("angle to the direction without outliers (degrees)")
plt.tight_layout()
plt.show()
