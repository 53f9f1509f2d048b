"""
Drug combinations: rows that are pairs
======================================

Which combination of two drugs works in which cell line? The rows of the grid are pairs of drugs,
and ``pairs_of`` computes their kernels from a kernel of the drugs. The data are synthetic, so the
truth is known: the effect of a combination is the sum of the effects of both drugs and an
interaction.
"""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from dyadlearn import TwoStepRidgeCV
from dyadlearn.kernels import gram, pairs_of

rng = np.random.default_rng(0)
names = [f"drug {i}" for i in range(20)]
cells = pd.DataFrame(rng.normal(size=(30, 3)), [f"cell {j}" for j in range(30)])
first, second = np.array(list(combinations(range(20), 2))).T
hidden = rng.normal(size=(20, 4))
a = hidden[first]
b = hidden[second]
single = (a + b) @ rng.normal(size=(4, 3)) @ cells.T.to_numpy()
together = (a * b) @ rng.normal(size=(4, 3)) @ cells.T.to_numpy()
truth = single / single.std() + together / together.std()
labels = truth + rng.normal(size=truth.shape)
drugs = pd.DataFrame(hidden + 0.7 * rng.normal(size=(20, 4)), names)

# %%
# The features of a drug are noisy copies of the hidden variables that determine its effect. 120 of
# the 190 combinations were measured. ``pairs_of`` computes two kernels of the combinations from a
# kernel of the drugs: the sum represents effects of single drugs, the product represents
# interactions.
first = np.array(names)[first]
second = np.array(names)[second]
measured = np.sort(rng.permutation(190)[:120])
others = np.setdiff1d(np.arange(190), measured)
known = first[measured], second[measured]
K = gram(drugs)
trained = pairs_of(K, *known)
Y = pd.DataFrame(labels[measured], trained["sum"].index, cells.index)
print(trained["sum"].iloc[:2, :3].round(2))


# %%
# Four descriptions of a combination. The last one adds an identity to the kernel of the drugs, so
# that each drug and each combination also has effects of its own, which no feature explains.
def rows_of(description, *pairs):
    """Return the kernel of the given combinations with those of training."""
    own = np.eye(20) if description == "both, and each drug" else 0.0
    kernels = pairs_of(K + own, *pairs, known=known)
    return kernels.get(description, kernels["sum"] + kernels["product"])


# %%
# A search chooses the regularisation for new combinations (setting B), and predicts intervals for
# the 70 others. For a new drug, all combinations with this drug are left out together. A
# combination belongs to two drugs, so one drug is left out at a time, and only the predictions of
# its combinations are used.
table = {}
grids = (np.logspace(-1, 5, 13), np.logspace(-4, 2, 7))
for description in ("sum", "product", "both", "both, and each drug"):
    search = TwoStepRidgeCV(*grids, setting="B", kernel="precomputed")
    search.fit(rows_of(description, *known), Y, tasks=cells)
    lower, upper = search.predict_interval(rows_of(description, first[others], second[others]))
    inside = (lower.to_numpy() <= labels[others]) & (labels[others] <= upper.to_numpy())
    errors = {}
    for drug in names:
        out = (known[0] == drug) | (known[1] == drug)
        errors[drug] = (search.holdout("B", groups=out).to_numpy() - truth[measured])[out] ** 2
    table[description] = {
        "new combination": ((search.holdout("B").to_numpy() - truth[measured]) ** 2).mean() / truth.var(),
        "new drug": np.concatenate(list(errors.values())).mean() / truth.var(),
        "90 % intervals contain": inside.mean(),
        "width": (upper - lower).to_numpy().mean(),
    }
table = pd.DataFrame(table).T
print(table.round(2))

# %%
# Errors are shares of the variance of the truth. The sum misses interactions, and the product is
# weak for effects of single drugs. The identity helps most with new combinations, in which both
# drugs are known. In a combination with a new drug the other one is known, so it helps there too,
# but less.
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
table.iloc[:, :2].T.plot.bar(ax=ax, rot=0, ylabel="squared error / variance of the truth")
_ = ax.legend(title="description of a combination")
