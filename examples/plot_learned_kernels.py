"""
Kernels that learn
==================

The accuracy of a kernel model is the accuracy of its kernels. :class:`~dyadlearn.LearnedKernelRidge` takes several
descriptions of each side and learns how much each of them weighs, for the setting that is asked for.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import cdist

from dyadlearn import LearnedKernelRidge

# Drugs have four traits. Their structure tells two of them, a kernel that somebody computed the other two, and the
# weather on the day that they were made tells nothing.
rng = np.random.default_rng(0)
traits, weather = rng.normal(size=(100, 4)), rng.normal(size=(100, 6))
structure, similarity = traits[:, :2], np.exp(-0.1 * cdist(traits[:, 2:], traits[:, 2:], "sqeuclidean"))
proteins = rng.normal(size=(25, 2))
binding = np.sin(1.5 * traits) @ rng.normal(size=(4, 2)) @ np.cos(proteins).T + 0.2 * rng.normal(size=(100, 25))

# %%
# New drugs
# ---------
# A fifth of the drugs is put aside, and kernels are learned for setting B from the others. The kernel that was computed
# beforehand has a column for each of these, also where new drugs bring their rows of it.
old, new = slice(0, 80), slice(80, 100)
drugs = {"structure": structure[old], "similarity": similarity[old, old], "weather": weather[old]}
others = {"structure": structure[new], "similarity": similarity[new, old], "weather": weather[new]}
kernels = {"structure": "rbf", "similarity": "precomputed", "weather": "rbf"}


def error(predicted: np.ndarray) -> float:
    """Return the mean squared error for the new drugs."""
    return float(((predicted - binding[new]) ** 2).mean())


model = LearnedKernelRidge(kernel=kernels, setting="B", n_steps=40).fit(drugs, binding[old], tasks=proteins)
print(f"all three, learned: {error(model.predict(others)):.3f}, held out while learning: {model.holdout_error_:.3f}")
for name in drugs:
    alone = LearnedKernelRidge(kernel=kernels[name], setting="B", n_steps=40)
    alone.fit(drugs[name], binding[old], tasks=proteins)
    print(f"{name} alone: {error(alone.predict(others[name])):.3f}")
print(f"as the mean says: {error(np.full((20, 25), binding[old].mean())):.3f}")

# %%
# What matters is found, and what does not weighs next to nothing. An exponent above one makes a kernel narrower. The
# error held out while learning was minimised, and so is no honest estimate; that of drugs that were put aside is one.
figure, ax = plt.subplots(layout="constrained")
for side, weights in model.weights_.items():
    ax.barh([f"{name} ({side})" for name in weights], list(weights.values()))
ax.set(xlabel="Weight")

# %%
# New pairs of what is known
# --------------------------
# Where both sides are known and labels are missing, the labels themselves describe drugs and proteins. Here the one
# description says nothing, so that the first stage predicts little more than means; the next ones have the profiles
# of the grid that it completed, and the error tells how many of them to keep.
hidden = rng.random(binding.shape) < 0.4
labels = np.where(hidden, np.nan, binding)
staged = LearnedKernelRidge(n_steps=20, random_state=0).fit(weather, labels, tasks=proteins)
completed = np.asarray(staged.completed_)
print(f"hidden pairs: {((completed - binding)[hidden] ** 2).mean():.3f} after {staged.n_stages_} stages")

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(np.arange(1, len(staged.stage_errors_) + 1), staged.stage_errors_, "o-")
left.set(
    xlabel="Stage", ylabel="Held-out squared error", ylim=(0, None), xticks=range(1, len(staged.stage_errors_) + 1)
)
for side, weights in staged.weights_.items():
    right.barh([f"{name} ({side})" for name in weights], list(weights.values()))
right.set(xlabel="Weight")

# %%
# A drug that is not there has no profile of labels, and such a model refuses it:
try:
    staged.predict(weather[:2] + 1.0)
except ValueError as refused:
    print(refused)
