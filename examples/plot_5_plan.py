"""
The error before anything is spent
==================================

Predicted errors for a table of a given size, at several ε. Nothing private is read.
"""

# %%
# A table of 4,000 rows and 12 columns; two components are wanted.

import matplotlib.pyplot as plt

from dpeigen.planner import plan

epsilons = [0.3, 1.0, 3.0]
plans = [plan(4_000, 12, 2, epsilon=epsilon, delta=1e-6, methods=["whitened", "spatial-sign"]) for epsilon in epsilons]
print(plans[1])

# %%
# The angle between predicted and true components falls about as 1/ε, down to the error of the sample itself.

for method in ("whitened", "spatial-sign"):
    predictions = [found[method] for found in plans]
    plt.plot(epsilons, [p.error for p in predictions], "o-", label=method)
    plt.fill_between(epsilons, [p.low for p in predictions], [p.high for p in predictions], alpha=0.2)
plt.axhline(plans[0].floor, color="grey", linestyle="--", label="without privacy")
plt.xscale("log")
plt.xticks(epsilons, [f"{e:g}" for e in epsilons])
plt.minorticks_off()
plt.xlabel("ε")
plt.ylabel("sinΘ of the first two components")
plt.legend()
plt.tight_layout()
plt.show()
