"""
Learned kernels
===============

A kernel model is only as accurate as its kernels. :class:`~dyadlearn.LearnedKernelRidge` takes
several descriptions of each side and learns their weights for a setting.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import cdist

from dyadlearn import LearnedKernelRidge

# Drugs have four traits. Their structure contains two of them, a precomputed kernel contains the
# other two, and the weather on the day of their synthesis contains none.
rng = np.random.default_rng(0)
traits = rng.normal(size=(100, 4))
weather = rng.normal(size=(100, 6))
structure = traits[:, :2]
similarity = np.exp(-0.1 * cdist(traits[:, 2:], traits[:, 2:], "sqeuclidean"))
proteins = rng.normal(size=(25, 2))
binding = np.sin(1.5 * traits) @ rng.normal(size=(4, 2)) @ np.cos(proteins).T
binding = binding + 0.2 * rng.normal(size=binding.shape)

# %%
# New drugs
# ---------
# A fifth of the drugs is test data. The kernels are learned for setting B from the others. A row of
# the precomputed kernel has one column for each training drug, also for new drugs.
old = slice(0, 80)
new = slice(80, 100)
drugs = {"structure": structure[old], "similarity": similarity[old, old], "weather": weather[old]}
others = {"structure": structure[new], "similarity": similarity[new, old], "weather": weather[new]}
kernels = {"structure": "rbf", "similarity": "precomputed", "weather": "rbf"}


def error(predicted: np.ndarray) -> float:
    """Return the mean squared error for the new drugs."""
    return float(((predicted - binding[new]) ** 2).mean())


model = LearnedKernelRidge(kernel=kernels, setting="B", n_steps=40).fit(drugs, binding[old], tasks=proteins)
print(f"all three, learned: {error(model.predict(others)):.3f}")
print(f"all three, held-out error that was minimised: {model.holdout_error_:.3f}")
for name in drugs:
    alone = LearnedKernelRidge(kernel=kernels[name], setting="B", n_steps=40)
    alone.fit(drugs[name], binding[old], tasks=proteins)
    print(f"{name} alone: {error(alone.predict(others[name])):.3f}")
print(f"mean of all labels: {error(np.full((20, 25), binding[old].mean())):.3f}")

# %%
# The informative descriptions have large weights, and the weather has nearly none. The held-out
# error was minimised, so it is not an unbiased estimate. The error of the test drugs is.
figure, ax = plt.subplots(layout="constrained")
for side, weights in model.weights_.items():
    ax.barh([f"{name} ({side})" for name in weights], list(weights.values()))
_ = ax.set(xlabel="Weight")

# %%
# New pairs of known drugs and proteins
# -------------------------------------
# If both sides are known and labels are missing, the labels themselves describe drugs and proteins.
# Here the only description of drugs is uninformative, so the first stage predicts little more than
# means. Later stages also use the rows and columns of the grid that the stage before completed. The
# held-out error determines the number of stages.
hidden = rng.random(binding.shape) < 0.4
labels = np.where(hidden, np.nan, binding)
staged = LearnedKernelRidge(setting="A", n_steps=10, random_state=0, progress=False)
staged = staged.fit(weather, labels, tasks=proteins)
completed = np.asarray(staged.completed_)
print(f"hidden pairs: {((completed - binding)[hidden] ** 2).mean():.3f} after {staged.n_stages_} stages")

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(np.arange(1, len(staged.stage_errors_) + 1), staged.stage_errors_, "o-")
left.set(
    xlabel="Stage",
    ylabel="Held-out squared error",
    ylim=(0, None),
    xticks=range(1, len(staged.stage_errors_) + 1),
)
for side, weights in staged.weights_.items():
    right.barh([f"{name} ({side})" for name in weights], list(weights.values()))
_ = right.set(xlabel="Weight")

# %%
# A new drug has no profile of labels, so this model raises an error:
try:
    staged.predict(weather[:2] + 1.0)
except ValueError as refused:
    print(refused)
