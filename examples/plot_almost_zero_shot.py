"""
Almost zero-shot
================

A new task has a few labels, and the other tasks have all labels. Two-step ridge regression uses
both, with a closed form. Zero-shot learning uses the other tasks only.
"""

import matplotlib.pyplot as plt
import numpy as np

from dyadlearn import IndependentTaskRidge, TwoStepRidge
from dyadlearn.datasets import make_dyads

data = make_dyads(100, 15, n_task_features=8, rank=6, noise=0.3, random_state=3)
counts = [2, 4, 8, 16, 32, 64]
targets = range(8)
rng = np.random.default_rng(0)
orders = {target: rng.permutation(80) for target in targets}

# %%
# For each of eight tasks, keep a few labels and hide the others. The last twenty instances are test
# data; no model is fitted to them.
errors = {name: np.zeros((len(targets), len(counts))) for name in ("two-step", "the task alone", "zero-shot")}
for row, target in enumerate(targets):
    others = np.delete(np.arange(15), target)
    zero = TwoStepRidge(0.1, 0.1, kernel="rbf", task_kernel="rbf")
    zero.fit(data.X[:80], data.Y[:80, others], tasks=data.tasks[others])
    guess = zero.predict(data.X[80:], tasks=data.tasks[[target]])[:, 0]
    for column, count in enumerate(counts):
        Y = data.Y[:80].copy()
        Y[orders[target][count:], target] = np.nan
        both = TwoStepRidge(0.1, 0.1, kernel="rbf", task_kernel="rbf").fit(data.X[:80], Y, tasks=data.tasks)
        alone = IndependentTaskRidge(0.1, kernel="rbf").fit(data.X[:80], Y[:, [target]])
        predictions = both.predict(data.X[80:])[:, target], alone.predict(data.X[80:])[:, 0], guess
        for name, predicted in zip(errors, predictions, strict=True):
            errors[name][row, column] = np.mean((predicted - data.truth[80:, target]) ** 2)

# %%
# Zero-shot learning uses no label of the task. The task alone is bad with few labels and best with
# many. In between, using both is best.
figure, ax = plt.subplots(layout="constrained")
for name, values in errors.items():
    mean = values.mean(axis=0)
    spread = values.std(axis=0)
    ax.plot(counts, mean, marker="o", label=name)
    ax.fill_between(counts, mean - spread, mean + spread, alpha=0.18)
    print(f"{name:15}", mean.round(2))
ax.set(xlabel="Number of labels of the task", ylabel="mean squared error")
ax.legend()
