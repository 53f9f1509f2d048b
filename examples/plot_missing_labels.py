"""
Missing labels
==============

Most pairs have no label. NaN in the grid means *not observed*. It is not a zero, and nothing is
imputed before the fit.
"""

import matplotlib.pyplot as plt
import numpy as np

from dyadlearn import KroneckerRidge, TwoStepRidge
from dyadlearn.datasets import make_dyads

data = make_dyads(60, 40, noise=0.2, missing=0.7, random_state=0)
print(f"{data.observed.mean():.0%} of {data.Y.size} labels are observed")

# %%
# Both models take a grid with NaN. ``residual_`` is the relative residual of the iterative
# solution.
models = {}
for model in (
    KroneckerRidge(alpha=0.1, kernel="rbf", task_kernel="rbf"),
    TwoStepRidge(alpha=0.1, task_alpha=0.1, kernel="rbf", task_kernel="rbf"),
):
    name = type(model).__name__
    models[name] = model.fit(data.X, data.Y, tasks=data.tasks)
    error = (model.predict(data.X) - data.truth)[~data.observed]
    print(f"{name}: error of missing labels {np.mean(error**2):.3f}")
    print(f"    {model.n_iter_} iterations, residual {model.residual_:.0e}")

# %%
# Replacing NaN by zeros is much worse:
filled = KroneckerRidge(0.1, kernel="rbf", task_kernel="rbf")
filled.fit(data.X, np.nan_to_num(data.Y), tasks=data.tasks)
print(f"zeros instead of NaN: {np.mean((filled.predict(data.X) - data.truth)[~data.observed] ** 2):.3f}")

# %%
# ``completed_`` is the grid with predictions in place of the missing labels:
figure, axes = plt.subplots(1, 3, figsize=(12, 5), layout="constrained")
grids = {"observed": data.Y, "completed": models["KroneckerRidge"].completed_, "truth": data.truth}
for ax, (name, grid) in zip(axes, grids.items(), strict=True):
    ax.imshow(grid, aspect="auto")
    ax.set(title=name, xlabel="tasks", ylabel="instances")
