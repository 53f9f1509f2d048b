"""
Zero-shot tags
==============

Debian packages have tags. Which packages should have a new tag, if only the description of the tag
is known? The data are part of the library.
"""

import numpy as np

from dyadlearn import TwoStepRidgeCV
from dyadlearn.datasets import debtags_kernels, load_debtags
from dyadlearn.metrics import roc_auc
from dyadlearn.plots import LandscapeDisplay

data = load_debtags()
K, G = debtags_kernels(data)
packages = np.arange(400)
print(data.Y.shape, f"of which {data.Y.mean():.1%} are set")

# %%
# Thirty tags are test data. The model sees their descriptions, through the kernel ``G``, but none
# of their labels.
shuffled = np.random.default_rng(0).permutation(G.shape[0])
unseen = shuffled[:30]
seen = shuffled[30:]

model = TwoStepRidgeCV(setting="C", scoring="roc_auc", kernel="precomputed", task_kernel="precomputed")
model.fit(K[np.ix_(packages, packages)], data.Y[np.ix_(packages, seen)], tasks=G[np.ix_(seen, seen)])
print(f"alpha {model.alpha_:g}, task_alpha {model.task_alpha_:g}, AUC held out {model.best_score_:.2f}")

# %%
# The regularisation was chosen for setting C, new tasks, from exact hold-out predictions at 196
# points:
display = LandscapeDisplay.from_estimator(model)

# %%
# The new tags are predicted for known packages (C) and for new packages (D):
new_packages = np.arange(400, 1500)
for name, rows in {"known packages": packages, "new packages": new_packages}.items():
    predicted = model.predict(K[np.ix_(rows, packages)], tasks=G[np.ix_(unseen, seen)])
    truth = data.Y[np.ix_(rows, unseen)]
    print(f"{name}: AUC {roc_auc(truth, predicted, average='task'):.2f}")

# %%
# Some tags have informative descriptions, others have not. For the new tag with the highest AUC,
# these new packages have the highest predictions:
per_tag = [roc_auc(truth[:, [j]], predicted[:, [j]], average="pooled") for j in range(30)]
tag = int(np.argmax(per_tag))
for package in np.argsort(-predicted[:, tag])[:5]:
    mark = "has the tag" if truth[package, tag] else "does not have it"
    print(f"{data.task_names[unseen[tag]]}: {data.instance_names[new_packages[package]]} ({mark})")
