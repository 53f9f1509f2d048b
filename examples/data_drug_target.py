"""
Drugs and their targets
=======================

Which drug acts on which receptor? The data are 26 nuclear receptors and 54 drugs with published
similarities on both sides, the set ``nr`` of Yamanishi and others (2008). They are read from the
folder in ``DYADLEARN_DATA``. If they were missing when this page was built, there is no output.
"""

# sphinx_gallery_thumbnail_path = "images/thumbnails/data_drug_target.png"

import warnings

import matplotlib.pyplot as plt

from dyadlearn import TwoStepRidgeCV, evaluate, recommend, screen
from dyadlearn.datasets import fetch_yamanishi
from dyadlearn.exceptions import GridEdgeWarning, KernelRepairWarning
from dyadlearn.plots import HoldoutDisplay

try:
    data = fetch_yamanishi("nr", as_frame=True, download=False)
except FileNotFoundError as absent:
    raise SystemExit(str(absent)) from None

# %%
# The published similarities are neither symmetric nor positive semi-definite. The model repairs
# them, with a warning that is turned off here. The search chooses the regularisation for a new
# receptor with a new drug (D). The best value for the receptors is at the lower end of the grid;
# this warning is turned off too.
warnings.simplefilter("ignore", KernelRepairWarning)
warnings.simplefilter("ignore", GridEdgeWarning)
model = TwoStepRidgeCV(setting="D", kernel="precomputed", task_kernel="precomputed")
model.fit(data.K, data.Y, tasks=data.G)
print(evaluate(model, scoring="roc_auc"))

# %%
# A missing pair (A) is easier than a new receptor, alone (B) or with a new drug (D).
figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
by_degree = data.Y.loc[data.Y.sum(axis=1).sort_values().index[::-1], data.Y.sum().sort_values().index[::-1]]
axes[0].imshow(by_degree, aspect="auto", cmap="Blues")
axes[0].set(
    xlabel="drugs", ylabel="receptors", title=f"{data.Y.size} pairs, {int(data.Y.sum().sum())} of them known"
)
display = HoldoutDisplay.from_estimator(model, ax=axes[1])

# %%
# A zero in this grid is a pair that nobody reported. These zeros have the highest held-out
# predictions, so they are candidates for an experiment.
found = screen(model, n=5, label=0)
for target, drug, score in zip(found.instances, found.tasks, found.predictions, strict=True):
    print(f"{target} {drug} {score:.2f}")

# %%
# The drugs to try first on one receptor:
print(recommend(model, instance=data.Y.index[0], n=3).ids)
