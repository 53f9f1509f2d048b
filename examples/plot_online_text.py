"""
Texts that keep coming
======================

Descriptions of packages arrive in batches, with their tags. The model learns each batch and keeps none of it; at every
moment it equals a model fitted anew on all that came.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer

from dyadlearn import OnlineTwoStepRidge
from dyadlearn.datasets import load_debtags
from dyadlearn.kernels import graph_distance_kernel
from dyadlearn.metrics import roc_auc

data = load_debtags()
order = np.random.default_rng(0).permutation(1500)
Y = data.Y[order]
weighted = TfidfTransformer().fit_transform(data.X[order])
X = TruncatedSVD(100, random_state=0).fit(weighted[:200]).transform(weighted)

# %%
# The tags form a hierarchy. Features of them whose products are the kernel exp(−distance/10):
G = graph_distance_kernel(data.edges, data.task_names, scale=10.0)
values, vectors = np.linalg.eigh(G)
tags = vectors * np.sqrt(np.clip(values, 0, None))

# %%
# Every batch is predicted before it is learnt, with the tags related and with each tag on its own.
models = {
    "two-step": OnlineTwoStepRidge(alpha=1.0, task_alpha=0.1).fit(X[:50], Y[:50], tasks=tags),
    "independent": OnlineTwoStepRidge(alpha=1.0).fit(X[:50], Y[:50]),
}
seen, scores = [], {name: [] for name in models}
for start in range(50, 1450, 200):
    batch = slice(start, start + 200)
    seen.append(start)
    for name, model in models.items():
        scores[name].append(roc_auc(Y[batch], model.predict(X[batch]), setting="B"))
        model.partial_fit(X[batch], Y[batch])

figure, ax = plt.subplots(layout="constrained")
for name, values in scores.items():
    ax.plot(seen, values, marker="o", label=name)
ax.set(xlabel="Number of packages", ylabel="AUC of the next batch")
ax.legend()

# %%
# The hierarchy helps a little while there are few packages, and no longer when there are many.
#
# Somebody asks to be forgotten. Afterwards the model is the one that never saw these rows.
model = models["two-step"]
before = model.n_seen_
model.forget(X[100:110], Y[100:110])
print(f"{before} packages, then {model.n_seen_}")
