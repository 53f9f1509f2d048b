"""
Spectral filters
================

A filter states how much ridge regression shrinks each eigendirection of the kernel. There are four
filters, and the two sides may have different ones.
"""

import matplotlib.pyplot as plt
import numpy as np

from dyadlearn import TwoStepRidge, landscape
from dyadlearn.datasets import make_dyads
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff, Tikhonov

filters = {
    "Tikhonov": Tikhonov(),
    "iterated three times": IteratedTikhonov(3),
    "cut-off": SpectralCutoff(),
    "Landweber": Landweber(),
}
values = np.logspace(-3, 1, 200)
figure, ax = plt.subplots(layout="constrained")
for name, chosen in filters.items():
    ax.semilogx(values, chosen.shrinkage(values, 0.1), label=name)
ax.set(xlabel="eigenvalue", ylabel="factor of the eigendirection", title="λ = 0.1")
legend = ax.legend()

# %%
# The best score of each filter for new instances, with the same filter on both sides. With a
# cut-off below all eigenvalues the model would interpolate and could not be held out, so the grid
# of regularisations starts above them.
alphas = np.logspace(-0.5, 1.5, 9)
data = make_dyads(60, 30, noise=0.5, random_state=0)
for name, chosen in filters.items():
    model = TwoStepRidge(kernel="rbf", task_kernel="rbf", filter=chosen, task_filter=chosen)
    model.fit(data.X, data.Y, tasks=data.tasks)
    scores = landscape(model, setting="B", scoring="r2", alphas=alphas, task_alphas=alphas)["B"]
    print(f"{name:21} {scores.max():.3f}")

# %%
# The factors of the filters at the eigenvalues of both sides. Their sum is the effective dimension.
model = TwoStepRidge(0.1, 0.1, kernel="rbf", task_kernel="rbf", task_filter=SpectralCutoff())
model.fit(data.X, data.Y, tasks=data.tasks)
figure, ax = plt.subplots()
for name, side in zip(["instances", "tasks"], model.fitted_.pairing.smoothers, strict=True):
    let_through = side.filter.shrinkage(side.spectrum.penalised, side.alpha)
    ax.semilogx(
        side.spectrum.penalised, let_through, "o-", label=f"{name}: {let_through.sum():.1f} directions"
    )
ax.set(xlabel="Eigenvalue σ", ylabel="Filter f(σ)")
ax.legend()
