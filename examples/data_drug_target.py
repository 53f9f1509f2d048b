"""
Drugs and their targets
=======================

26 nuclear receptors and 54 drugs, with published similarities on both sides: which drug acts on which receptor? This
example reads the set ``nr`` of Yamanishi and others (2008) from the folder that ``DYADLEARN_DATA`` names; where it is
absent, this page has the code alone.
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
# The published similarities are neither symmetric nor positive semi-definite. The model mends them and says so; here
# we know. The regularisation is the best for a new receptor with a new drug (D): hardly any
# on the side of the receptors, the end of the grid, of which the model would warn too.
warnings.simplefilter("ignore", KernelRepairWarning)
warnings.simplefilter("ignore", GridEdgeWarning)
model = TwoStepRidgeCV(setting="D", kernel="precomputed", task_kernel="precomputed")
model.fit(data.K, data.Y, tasks=data.G)
print(evaluate(model, scoring="roc_auc"))

# %%
# Four questions, four answers: a missing pair is easy, a new receptor with a new drug is not.
figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
by_degree = data.Y.loc[data.Y.sum(axis=1).sort_values().index[::-1], data.Y.sum().sort_values().index[::-1]]
axes[0].imshow(by_degree, aspect="auto", cmap="Blues")
axes[0].set(xlabel="drugs", ylabel="receptors", title=f"{data.Y.size} pairs, {int(data.Y.sum().sum())} of them known")
display = HoldoutDisplay.from_estimator(model, ax=axes[1])

# %%
# The zeros of this grid are pairs that nobody reported. These contradict the model most, each judged by a model that
# never saw it: candidates for an experiment.
found = screen(model, n=5, label=0)
for target, drug, score in zip(found.instances, found.tasks, found.predictions, strict=True):
    print(f"{target} {drug} {score:.2f}")

# %%
# And the drugs to try first on one receptor:
print(recommend(model, instance=data.Y.index[0], n=3).ids)
