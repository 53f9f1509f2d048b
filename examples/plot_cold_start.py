"""
Cold start in a recommender
===========================

Users and items have features. The accuracy of a recommender depends on what is new: only the pair
(A), the user (B), the item (C) or both (D). The best regularisation depends on it too.
"""

import matplotlib.pyplot as plt

from dyadlearn import TwoStepRidge, TwoStepRidgeCV, evaluate, landscape
from dyadlearn.datasets import make_dyads
from dyadlearn.plots import LandscapeDisplay

data = make_dyads(120, 30, n_features=8, n_task_features=8, rank=8, noise=1.0, random_state=0)
model = TwoStepRidge(kernel="rbf", task_kernel="rbf").fit(data.X, data.Y, tasks=data.tasks)

# %%
# One fit gives the scores of all four settings at all regularisations, exactly and without fitting
# again:
scores = landscape(model, setting="ABCD")
figure, axes = plt.subplots(2, 2, figsize=(10, 8), layout="constrained")
for ax, (setting, grid) in zip(axes.flat, scores.items(), strict=True):
    LandscapeDisplay.from_landscape(grid, setting=setting, ax=ax)

# %%
# Models that are chosen for one setting, scored in all settings. Scores are negative mean squared
# errors:
for chosen_for in "AD":
    search = TwoStepRidgeCV(setting=chosen_for, kernel="rbf", task_kernel="rbf")
    search.fit(data.X, data.Y, tasks=data.tasks)
    print(f"chosen for {chosen_for}: alpha {search.alpha_:g}, task_alpha {search.task_alpha_:g}")
    print(evaluate(search), end="\n\n")
