"""
Honest evaluation
=================

The best of 196 scores is optimistic. Nested scores are not, intervals show how much a score depends
on the sampled rows and columns, and an audit shows which setting a split really has.
"""

import numpy as np
from sklearn.model_selection import train_test_split

from dyadlearn import SettingKFold, TwoStepRidgeCV, audit, bootstrap_interval, nested_score
from dyadlearn.datasets import make_dyads
from dyadlearn.plots import HoldoutDisplay

data = make_dyads(30, 20, noise=1.5, random_state=1)
search = TwoStepRidgeCV(setting="D", scoring="r2", kernel="rbf", task_kernel="rbf")
search.fit(data.X, data.Y, tasks=data.tasks)
print(f"best of {search.landscape_.size} scores: {search.best_score_:.2f}")

# %%
# A nested score repeats the whole search without each block of instances and tasks, and scores this
# block:
nested = nested_score(search, data.X, data.Y, tasks=data.tasks, cv=4, random_state=0)
print(f"nested score: {nested.score:.2f}")

# %%
# A bootstrap over instances and tasks gives an interval of the score:
interval = bootstrap_interval(
    data.Y, nested.predictions, "r2", setting="D", over="both", n_resamples=300, random_state=0
)
print(f"95 % interval: {interval.low:.2f} … {interval.high:.2f}")
display = HoldoutDisplay.from_predictions(
    data.Y, {"best of the search": search.holdout_, "nested": nested.predictions}, setting="D"
)

# %%
# A random split of pairs has setting A, even if D was intended:
pairs = np.array([(i, j) for i in range(30) for j in range(20)])
train, test = train_test_split(pairs, random_state=0)
print(audit(train, test, setting="D").message)

# %%
# A split for setting D leaves out instances and tasks:
train, test = next(SettingKFold("D", n_splits=3, random_state=0).split(pairs))
print(audit(pairs[train], pairs[test], setting="D").message)
