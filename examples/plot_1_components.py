"""
Components with their errors
============================

Principal components of a public medical table: 569 tumours and ten measurements of cell nuclei. Each loading has a
95% interval.
"""

# %%
# The measurements have different units, so we ask for the components of the correlation matrix: ``scale="private"``.
# No bounds are given. The budget is ε = 4 because there are few rows.

import pandas as pd

from dpeigen import PrivatePCA
from dpeigen.datasets import load_breast_cancer
from dpeigen.plotting import LoadingsDisplay, ScreeDisplay

table = load_breast_cancer()
names = [name.removeprefix("mean ") for name in table.feature_names[:10]]
rows = pd.DataFrame(table.X[:, :10], columns=names)

pca = PrivatePCA(3, epsilon=4.0, delta=1e-6, scale="private").fit(rows)
print(pca.guarantee_)

# %%
# The scree plot shows variances with their intervals. The dashed line is the largest variance that noise alone would
# show.

ScreeDisplay.from_estimator(pca)

# %%
# Loadings of the first component. A loading whose interval contains 0 has a whisker and no bar.

LoadingsDisplay.from_release(pca.release_, component=0)

# %%
# How many components can be distinguished from noise:

print(pca.release_.resolved)
