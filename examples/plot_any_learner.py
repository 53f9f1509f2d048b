"""
Any learner in two steps
========================

Kernel ridge regression is smooth. If labels jump at thresholds of a few features, boosted trees
learn more from the same rows. :class:`~dyadlearn.TwoStepRegressor` takes any two regressors of
scikit-learn, one across instances and one across tasks, and has the same hold-out.
:class:`~dyadlearn.LearnedKernelRidge` is a third way: it learns which of many kernels count.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge

from dyadlearn import LearnedKernelRidge, TwoStepRegressor, TwoStepRidge, TwoStepRidgeCV

# Four of the eight features determine three switches. Each task has its own weights of the
# switches.
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(200, 8))
T = rng.normal(size=(12, 3))
jumps = np.stack([X[:, 0] > 0.2, (X[:, 1] > -0.3) ^ (X[:, 2] > 0), X[:, 3] < -0.5], axis=1) - 0.5
Y = 2 * jumps @ T.T + 0.3 * rng.normal(size=(200, 12))

boosted = HistGradientBoostingRegressor(max_iter=15, learning_rate=0.3, max_leaf_nodes=8, early_stopping=False)
model = TwoStepRegressor(boosted, Ridge(0.1)).fit(X, Y, tasks=T)

# %%
# The regularisation of ridge regression is chosen for each setting; the boosted model is not tuned.
# Both are held out in the same three folds: ridge regression by formulas, the boosted model by
# refitting.
folds = np.arange(200) % 3
task_folds = np.arange(12) % 3
left_out = {
    "B": {"groups": folds},
    "C": {"task_groups": task_folds},
    "D": {"groups": folds, "task_groups": task_folds},
}


def r2(predicted: np.ndarray) -> float:
    """Return the share of the labels' variance that is explained."""
    return float(1 - ((Y - predicted) ** 2).mean() / Y.var())


scores = {}
for setting, together in left_out.items():
    search = TwoStepRidgeCV(setting=setting, kernel="rbf", task_kernel="linear").fit(X, Y, tasks=T)
    ridge = TwoStepRidge(search.alpha_, search.task_alpha_, kernel="rbf").fit(X, Y, tasks=T)
    scores[setting] = r2(ridge.holdout(setting, **together)), r2(model.holdout(setting, **together))
    print(f"{setting}: kernel ridge {scores[setting][0]:.2f}, boosted {scores[setting][1]:.2f}")

# %%
# Ridge regression is limited here by its single smooth kernel of all features. If every feature,
# and every pair of neighbouring features, is a separate description, the learned weights select
# those that determine a switch. The weights are learned again in each of the three folds, from its
# training rows.
places = [[j] for j in range(8)] + [[j, j + 1] for j in range(7)]


def described(rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return the descriptions of some instances, by the numbers of their features."""
    return {"+".join(map(str, place)): X[np.ix_(rows, place)] for place in places}


predicted = np.empty_like(Y)
for fold in range(3):
    inside = np.flatnonzero(folds != fold)
    outside = np.flatnonzero(folds == fold)
    kernels = LearnedKernelRidge(task_kernel="linear", setting="B", normalize=False, n_steps=20)
    predicted[outside] = kernels.fit(described(inside), Y[inside], tasks=T).predict(described(outside))
weights = kernels.weights_["instances"]
print(f"B: learned kernels {r2(predicted):.2f}; largest weights: {sorted(weights, key=weights.get)[-3:]}")

# %%
# Boosting and learned kernels help if the instance is new. For a new task of known instances (C),
# the labels of the instances contain enough information.
figure, ax = plt.subplots(layout="constrained")
for shift, (name, values) in enumerate(
    zip(("kernel ridge", "boosted"), zip(*scores.values(), strict=True), strict=True)
):
    ax.bar(np.arange(3) + 0.4 * shift, values, width=0.38, label=name)
ax.bar(-0.4, r2(predicted), width=0.38, label="learned kernels")
ax.set_xticks(np.arange(3) + 0.2, ["B: new instance", "C: new task", "D: both new"])
ax.set_ylabel("R², held out")
ax.legend()

# %%
# If both learners are linear in the labels, the order of the steps does not matter. Two-step ridge
# regression then gives the same predictions faster. The largest difference is
pair = TwoStepRegressor(Ridge(1.0), Ridge(1.0)).fit(X, Y, tasks=T)
print(f"{np.abs(pair.predict(X, T) - TwoStepRidge().fit(X, Y, tasks=T).predict(X, T)).max():.0e}")

# %%
# Boosting is not linear, so the order of the steps matters:
turned = TwoStepRegressor(boosted, Ridge(0.1), first_step="tasks").fit(X, Y, tasks=T)
print(f"B with the tasks first: {r2(turned.holdout('B', groups=folds)):.2f}")
