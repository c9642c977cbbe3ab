"""
Many regressions from one release
=================================

One private covariance matrix gives regressions of any column on any others, with standard errors, at no further cost.
"""

# %%
# A made-up survey of 20,000 people.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from dpeigen import PrivateCovariance

rng = np.random.default_rng(1)
age = rng.uniform(20, 80, 20_000)
schooling = rng.normal(12, 3, 20_000)
hours = rng.normal(38, 8, 20_000)
income = 300 + 12 * age + 90 * schooling + 25 * hours + rng.normal(0, 600, 20_000)
survey = pd.DataFrame({"age": age, "schooling": schooling, "hours": hours, "income": income})

release = PrivateCovariance(epsilon=1.0, delta=1e-6).fit(survey).release_

# %%
# The regression of income on the other columns. The truth is 12, 90 and 25.

print(release.regression("income"))

# %%
# Another question to the same release, at no further cost.

print(release.regression("hours", ["age", "schooling"]))

# %%
# Coefficients with their 95% intervals beside the regression without privacy.

fit = release.regression("income")
low, high = fit.intervals
exact = np.linalg.lstsq(
    np.column_stack([survey[["age", "schooling", "hours"]], np.ones(len(survey))]), income, rcond=None
)[0]
places = np.arange(3)
plt.errorbar(
    fit.coef, places, xerr=[fit.coef - low, high - fit.coef], fmt="o", capsize=4, label="private, 95% interval"
)
plt.plot(exact[:3], places, "x", label="without privacy")
plt.yticks(places, ["age (per year)", "schooling (per year)", "hours (per hour)"])
plt.xlabel("change of income")
plt.legend()
plt.tight_layout()
plt.show()
