"""
Hummingbirds and plants
=======================

Which hummingbird visits which plant? The predictions use two phylogenies and two traits: the length
of the corolla and the length of the bill. The visits (Tinoco and others) are read from the folder
in ``DYADLEARN_DATA``. If they were missing when this page was built, there is no output.
"""

# sphinx_gallery_thumbnail_path = "images/thumbnails/data_host_plant.png"

import warnings
from os import environ
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from dyadlearn import TwoStepRidgeCV, evaluate
from dyadlearn.exceptions import GridEdgeWarning
from dyadlearn.kernels import normalize
from dyadlearn.metrics import roc_auc

path = Path(environ.get("DYADLEARN_DATA", "."), "hummingbird_plant", "tinoco.npz")
if not path.exists():
    raise SystemExit(f"{path} does not exist: set DYADLEARN_DATA to the folder of the data.")
stored = np.load(path)
counts = stored["net_shrubs_counts"]


def species(side, names):
    """Return the phylogenetic covariance (n, n) and the trait (n, 1) of some species."""
    tips = stored[f"{side}_tree_tips"].tolist()
    traits = stored[f"{side}_trait_ids"].tolist()
    at = [tips.index(name) for name in names]
    trait_at = [traits.index(name) for name in names]
    return stored[f"{side}_phylo_vcv"][np.ix_(at, at)], stored[f"{side}_trait"][trait_at][:, None]


K, corolla = species("plant", stored["net_shrubs_plants"])
G, bill = species("humm", stored["net_shrubs_birds"])
visited = (counts > 0).astype(float)
rows, columns = ((-visited.sum(axis=axis)).argsort() for axis in (1, 0))
plt.imshow(visited[rows][:, columns], cmap="Blues")
plt.xlabel("hummingbirds, the most frequent first")
_ = plt.ylabel("plants")

# %%
# A kernel for each side from phylogeny, from traits, and from both. Lengths are compared on a
# logarithmic scale.


def kernels(covariance, trait):
    """Return the kernels (n, n) of one side."""
    length = np.log(trait)
    trees = normalize(covariance)
    traits = rbf_kernel((length - length.mean()) / length.std(), gamma=0.5)
    return {"phylogeny": trees, "traits": traits, "both": trees + traits}


plants = kernels(K, corolla)
birds = kernels(G, bill)

# %%
# AUC for new plants (B), new birds (C) and both (D). With a dozen birds all scores are uncertain;
# see the example on honest evaluation. Some of the best regularisations are at the ends of the
# grid, where the landscape of so few labels is flat.
warnings.simplefilter("ignore", GridEdgeWarning)
for name in plants:
    scores = {}
    for setting in "BCD":
        model = TwoStepRidgeCV(setting=setting, kernel="precomputed", task_kernel="precomputed")
        model.fit(plants[name], visited, tasks=birds[name])
        scores[setting] = round(roc_auc(visited, model.holdout_, setting=setting), 2)
    print(f"{name:10}", scores)

# %%
# The last model, scored in all four settings:
print(evaluate(model, scoring="roc_auc"))
