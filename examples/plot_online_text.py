"""
Online learning of texts
========================

Descriptions of packages arrive in batches, with their tags. The model learns each batch and does
not store it. It always equals a model that is fitted to all batches so far.
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
# The tags form a hierarchy. The inner products of these features are the kernel exp(−distance/10):
G = graph_distance_kernel(data.edges, data.task_names, scale=10.0)
values, vectors = np.linalg.eigh(G)
tags = vectors * np.sqrt(np.clip(values, 0, None))

# %%
# Every batch is predicted before it is learned, by a model with the hierarchy and by one without
# it.
models = {
    "two-step": OnlineTwoStepRidge(alpha=1.0, task_alpha=0.1).fit(X[:50], Y[:50], tasks=tags),
    "independent": OnlineTwoStepRidge(alpha=1.0).fit(X[:50], Y[:50]),
}
seen = []
scores = {name: [] for name in models}
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
# The hierarchy helps a little with few packages, and not with many.
#
# Rows can be removed. Afterwards the model equals one that never saw these rows.
model = models["two-step"]
before = model.n_seen_
model.forget(X[100:110], Y[100:110])
print(f"{before} packages, then {model.n_seen_}")
