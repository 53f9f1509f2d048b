"""
Symmetric and antisymmetric networks
====================================

In a network, instances and tasks are the same entities. Proteins that bind give a symmetric grid,
and matches between players an antisymmetric one. With ``symmetry=`` the predictions have this
symmetry too.
"""

import numpy as np

from dyadlearn import TwoStepRidge, evaluate, landscape
from dyadlearn.datasets import make_dyads
from dyadlearn.plots import HoldoutDisplay

data = make_dyads(80, labels="binary", symmetry="symmetric", noise=0.5, random_state=0)
network = TwoStepRidge(kernel="rbf", symmetry="symmetric").fit(data.X, data.Y)

# %%
# A network has one kernel and one regularisation, so the landscape is a curve. The best value for
# new vertices (D):
alphas = np.logspace(-3, 3, 7)
scores = landscape(network, setting="D", scoring="roc_auc", alphas=alphas)["D"]
best = alphas[scores.argmax()]
network.set_alpha(best, best)
print(f"alpha {best:g}")

# %%
np.testing.assert_allclose(network.predict(data.X), network.predict(data.X).T, atol=1e-9)
print(evaluate(network, scoring="roc_auc"))

# %%
# Hold-out leaves out an edge in both directions (A), a vertex as a row and as a column (B and C),
# or two vertices (D). If only one direction were left out, the other one would reveal the label.
display = HoldoutDisplay.from_estimator(network, "AD")

# %%
# Who beats whom: the prediction for (i, j) is minus the prediction for (j, i), and the prediction
# for (i, i) is zero.
games = make_dyads(60, symmetry="antisymmetric", noise=0.5, random_state=1)
ranking = TwoStepRidge(0.1, 0.1, kernel="rbf", symmetry="antisymmetric").fit(games.X, games.Y)
predicted = ranking.predict(games.X)
print(f"largest deviation from antisymmetry: {abs(predicted + predicted.T).max():.0e}")
above = np.triu_indices(60, 1)
right = np.sign(ranking.holdout("A")[above]) == np.sign(games.truth[above])
print(f"winner of a held-out match: {right.mean():.0%} correct")
