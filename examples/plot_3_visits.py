"""
Visits of patients
==================

People with several rows: the guarantee is for a patient and all of their visits together.
"""

# %%
# 3,000 patients with 1 to 8 visits. Visits of one patient are similar.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from dpeigen import PrivatePCA

rng = np.random.default_rng(2)
visits = rng.integers(1, 9, 3_000)
patient = np.repeat(np.arange(3_000), visits)
usual = rng.multivariate_normal([0, 0, 0, 0], np.full((4, 4), 0.6) + 0.4 * np.eye(4), 3_000)
table = pd.DataFrame(
    usual[patient] + rng.normal(0, 0.5, (len(patient), 4)), columns=["systolic", "diastolic", "weight", "glucose"]
)
table["patient"] = patient

pca = PrivatePCA(1, epsilon=1.0, delta=1e-6, scale="private", unit="patient").fit(table)
print(pca.guarantee_.neighbours)

# %%
# The first component with 95% intervals, beside that of the same rows without privacy (each patient has weight 1).

low, high = pca.release_.intervals(of="table").components
weights = 1 / visits[patient]
standardised = (table.iloc[:, :4] - np.average(table.iloc[:, :4], axis=0, weights=weights)).to_numpy()
standardised = standardised / np.sqrt(np.average(standardised**2, axis=0, weights=weights))
exact = np.linalg.eigh((standardised * weights[:, None]).T @ standardised)[1][:, -1]
exact *= np.sign(exact @ pca.components_[0])

places = np.arange(4)
middle = pca.components_[0]
errors = np.maximum([middle - low[0], high[0] - middle], 0)
plt.errorbar(middle, places, xerr=errors, fmt="o", capsize=4, label="private, 95% interval")
plt.plot(exact, places, "x", label="without privacy")
plt.yticks(places, table.columns[:4])
plt.xlabel("loading of the first component")
plt.legend()
plt.tight_layout()
plt.show()
