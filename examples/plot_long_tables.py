"""
Long tables and scikit-learn
============================

A long table has one row for each label: an instance, a task, a value. ``PairRegressor`` turns any
model into a regressor on such rows, which scikit-learn can split, search and score.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.model_selection import GridSearchCV, cross_val_score

from dyadlearn import KroneckerRidge, PairRegressor, SettingKFold
from dyadlearn.datasets import make_dyads

data = make_dyads(30, 20, noise=0.3, missing=0.5, random_state=0)
readers = pd.DataFrame(data.X, index=[f"reader {i}" for i in range(30)])
books = pd.DataFrame(data.tasks, index=[f"book {j}" for j in range(20)])
grid = pd.DataFrame(data.Y, index=readers.index, columns=books.index)
table = grid.rename_axis("instance").reset_index().melt("instance", var_name="task").dropna()
print(table.head())

# %%
# Two tables describe readers and books. Rows of the long table are matched with them by id.
pairs = table[["instance", "task"]]
y = table["value"]
model = PairRegressor(KroneckerRidge(kernel="rbf", task_kernel="rbf"), instances=readers, tasks=books)

# %%
# scikit-learn's search takes the folds of a setting from :class:`~dyadlearn.SettingKFold`, here new
# readers with new books:
folds = SettingKFold("D", n_splits=3, random_state=0)
search = GridSearchCV(model, {"model__alpha": [0.001, 0.01, 0.1, 1.0]}, cv=folds)
search.fit(pairs, y)
print(search.best_params_)

# %%
# The same model in the four settings, with the error of each fold:
errors = {}
for setting in "ABCD":
    folds = SettingKFold(setting, n_splits=3, random_state=0)
    errors[setting] = -cross_val_score(
        search.best_estimator_, pairs, y, cv=folds, scoring="neg_mean_squared_error"
    )
    print(setting, f"{errors[setting].mean():.2f}")

figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
ax.bar(list(errors), [each.mean() for each in errors.values()], color="#1668b0", alpha=0.7)
for setting, each in errors.items():
    ax.plot([setting] * len(each), each, "o", color="black", markersize=4)
ax.set(xlabel="setting", ylabel="mean squared error")
_ = ax.set_title("The error of each fold, and their mean")

# %%
# New pairs are given by their ids:
new = pd.DataFrame({"instance": ["reader 3", "reader 3"], "task": ["book 7", "book 8"]})
print(search.predict(new))
