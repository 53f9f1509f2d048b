"""
KIBA: affinities with missing labels
====================================

KIBA scores of drugs and kinases, of which a quarter was measured. This example uses a small part,
so that it runs in less than a minute; the page :doc:`/records` uses all. The data are read from the
folder in ``DYADLEARN_DATA``. If they were missing when this page was built, there is no output.
"""

# sphinx_gallery_thumbnail_path = "images/thumbnails/data_kiba.png"

import numpy as np

from dyadlearn import KroneckerRidgeCV
from dyadlearn.datasets import fetch_kiba
from dyadlearn.metrics import concordance_index
from dyadlearn.plots import HoldoutDisplay

try:
    data = fetch_kiba()
except FileNotFoundError as absent:
    raise SystemExit(str(absent)) from None

# %%
# 200 drugs and the 40 kinases that were measured most often.
drugs = np.random.default_rng(0).choice(len(data.Y), 200, replace=False)
kinases = np.argsort(np.isnan(data.Y).sum(axis=0))[:40]
Y = data.Y[np.ix_(drugs, kinases)]
K = data.K[np.ix_(drugs, drugs)]
G = data.G[np.ix_(kinases, kinases)]
measured = np.mean(~np.isnan(Y))
print(f"{measured:.0%} of {Y.size} pairs measured, between {np.nanmin(Y):.1f} and {np.nanmax(Y):.1f}")

# %%
# The labels are far from zero, so the model has an intercept. Hold-out estimates it without the
# held-out labels.
given = {"kernel": "precomputed", "task_kernel": "precomputed"}
search = KroneckerRidgeCV([0.01, 0.1, 1.0, 10.0], setting="B", progress=False, **given)
search.fit(K, Y, tasks=G)
print(f"alpha {search.alpha_:g}, {search.holdout_method_}")

# %%
# New drugs:
error = np.nanmean((search.holdout_ - Y) ** 2)
print(f"mean squared error {error:.2f}, variance of the labels {np.nanvar(Y):.2f}")
print(f"concordance index {concordance_index(Y, search.holdout_):.2f}")
display = HoldoutDisplay.from_predictions(Y, search.holdout_, setting="B")
