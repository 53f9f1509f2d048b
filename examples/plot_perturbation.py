"""
Perturbed genes: a baseline and its regularisation
==================================================

How does knocking out a gene change the expression of all other genes, if this perturbation was
never measured? A linear model with features of genes on both sides and a small fixed regularisation
is a baseline that is hard to beat (Ahlmann-Eltze, Huber and Anders, Nature Methods 2025). It is
two-step ridge regression on centred labels. Here both regularisations are chosen by exact hold-out
of perturbations, on synthetic data (see :doc:`/perturbation`).
"""

import matplotlib.pyplot as plt
import numpy as np

from dyadlearn import TwoStepRidge, TwoStepRidgeCV

rng = np.random.default_rng(0)
programs = rng.normal(size=(300, 30)) * 0.8 ** np.arange(30)
genes = programs + 0.3 * rng.normal(size=(300, 30))
perturbed = rng.permutation(300)[:150]
effects = programs[perturbed] @ rng.normal(size=(30, 30)) @ programs.T
effects = effects / effects.std() + rng.normal(size=300)
noise = rng.normal(size=effects.shape)
P = genes[perturbed]
train = slice(0, 100)
test = slice(100, 150)

# %%
# The first 100 perturbations are for training. The error of the other 50 is divided by the error of
# the mean of each gene, which predicts the same for every perturbation.
grid = 10.0 ** np.arange(-4, 6)
levels = np.array([1.5, 2, 3, 4, 6, 8])
names = ("both fixed at 0.01", "both fixed at 0.1", "both chosen by exact hold-out")
errors = np.empty((len(names), len(levels)))
for column, level in enumerate(levels):
    Y = effects + level * noise
    b = Y[train].mean(axis=0)
    search = TwoStepRidgeCV(setting="B", alphas=grid, task_alphas=grid, fit_intercept=False)
    search.fit(P[train], Y[train] - b, tasks=genes)
    for row, alphas in enumerate([(0.01, 0.01), (0.1, 0.1), (search.alpha_, search.task_alpha_)]):
        model = TwoStepRidge(*alphas, fit_intercept=False).fit(P[train], Y[train] - b, tasks=genes)
        off = model.predict(P[test]) + b - effects[test]
        errors[row, column] = (off**2).mean() / ((b - effects[test]) ** 2).mean()

# %%
# A small regularisation is enough for little noise. With more noise the model is worse than the
# mean, unless the regularisation is chosen:
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
for name, line in zip(names, errors, strict=True):
    ax.plot(levels, line, marker="o", label=name)
ax.axhline(1, color="grey", linestyle="--", label="the mean of each gene")
ax.set(xlabel="noise of the measured effects", ylabel="error on new perturbations")
ax.set(xscale="log", ylim=(0, None))
ax.set_xticks(levels, [f"{level:g}" for level in levels])
ax.minorticks_off()
_ = ax.legend()
