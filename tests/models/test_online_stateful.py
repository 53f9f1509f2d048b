"""Whatever is learned and forgotten, and in which order: the model equals one fitted on what remains."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy import sparse

from dyadlearn import OnlineTwoStepRidge
from dyadlearn._tables import Ids, Table
from sweeps import covering, over

N_STEPS = 8


class Learner:
    """A model that learns and forgets, and beside it the labels that it should know.

    With `keep`, instances have ids, and their labels stay with the model.
    """

    def __init__(self, seed, keep, constant, holes, has_tasks):
        self.rng = default_rng(seed)
        self.keep = keep
        self.constant = constant
        self.holes = holes
        self.has_tasks = has_tasks
        self.X = self.rng.normal(size=(4, int(self.rng.integers(1, 9))))
        self.T = self.rng.normal(size=(3, int(self.rng.integers(1, 5)))) + 10.0 * constant
        self.Y = self.labels(4, 3)
        self.ids = np.arange(4)
        self.model = OnlineTwoStepRidge(0.3, 2.0, fit_intercept=constant, keep_labels=keep)
        # `partial_fit` may come first too.
        first = self.model.fit if seed % 2 else self.model.partial_fit
        first(self.named(self.X, self.ids), self.Y, tasks=self.T if has_tasks else None)

    def labels(self, m, q):
        """Return labels, some of which may be missing, but at least one of each task is there."""
        Y = self.rng.normal(size=(m, q)) + 5.0 * self.constant
        if self.holes:
            Y[1:][self.rng.random((m - 1, q)) < 0.4] = np.nan
        return Y

    def named(self, rows, ids):
        return Table(rows, Ids(tuple(ids.tolist()))) if self.keep else rows

    def some(self, n):
        """Return some of n places, but not all."""
        return self.rng.permutation(n)[: int(self.rng.integers(1, n))]

    def learn(self):
        X = self.rng.normal(size=(3, self.X.shape[1]))
        Y = self.labels(3, len(self.T))
        ids = self.ids.max() + 1 + np.arange(3)
        given = sparse.csr_array(X) if self.rng.random() < 0.5 else X
        self.model.partial_fit(self.named(given, ids), Y)
        self.X, self.Y = np.vstack([self.X, X]), np.vstack([self.Y, Y])
        self.ids = np.append(self.ids, ids)

    def replace(self):
        if not self.keep:
            return
        rows = self.some(len(self.X))
        Y = self.labels(len(rows), len(self.T))
        self.X[rows] = self.rng.normal(size=(len(rows), self.X.shape[1]))
        self.Y[rows] = np.where(np.isnan(Y), self.Y[rows], Y)
        self.model.partial_fit(self.named(self.X[rows], self.ids[rows]), Y, known="replace")

    def learn_tasks(self):
        T = self.rng.normal(size=(2, self.T.shape[1])) + 10.0 * self.constant
        Y = self.labels(len(self.X), 2)
        tasks = T if self.has_tasks else None
        order = self.rng.permutation(len(self.X))
        if self.keep:
            self.model.partial_fit_tasks(tasks, self.named(Y[order], self.ids[order]))
        else:
            parts = np.split(order, [len(order) // 2])
            chunks = [(self.X[part], Y[part]) for part in parts]
            self.model.partial_fit_tasks(tasks, chunks=chunks)
        self.T, self.Y = np.vstack([self.T, T]), np.hstack([self.Y, Y])

    def forget(self):
        rows = self.some(len(self.X))
        self.model.forget(self.named(self.X[rows], self.ids[rows]), self.Y[rows])
        self.X, self.Y = np.delete(self.X, rows, axis=0), np.delete(self.Y, rows, axis=0)
        self.ids = np.delete(self.ids, rows)

    def forget_tasks(self):
        columns = self.some(len(self.T))
        self.model.forget_tasks(columns)
        self.T, self.Y = np.delete(self.T, columns, axis=0), np.delete(self.Y, columns, axis=1)

    def set_alpha(self):
        self.model.set_alpha(*(10.0 ** self.rng.uniform(-1, 1, 2)).tolist())

    def check(self):
        """Compare with a model that is fitted on what is known."""
        params = self.model.get_params()
        tasks = self.T if self.has_tasks else None
        fresh = OnlineTwoStepRidge(**params).fit(self.X, self.Y, tasks)
        assert (self.model.n_seen_, self.model.n_tasks_) == self.Y.shape
        new = default_rng(0).normal(size=(3, self.X.shape[1]))
        assert_allclose(self.model.predict(new), fresh.predict(new), atol=1e-8)
        for name in ("coef_", "intercept_"):
            found, expected = (getattr(model, name) for model in (self.model, fresh))
            assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.NoLabelWarning")
@over(
    covering(
        seed=range(4),
        keep=[False, True],
        constant=[False, True],
        holes=[False, True],
        has_tasks=[False, True],
    )
)
def test_the_order_of_changes_does_not_matter(seed, keep, constant, holes, has_tasks):
    learner = Learner(seed, keep, constant, holes, has_tasks)
    steps = (
        learner.learn,
        learner.replace,
        learner.learn_tasks,
        learner.forget,
        learner.forget_tasks,
        learner.set_alpha,
    )
    for step in learner.rng.integers(len(steps), size=N_STEPS):
        if len(learner.X) < 3 or len(learner.T) < 3:
            learner.learn(), learner.learn_tasks()
        steps[step]()
        learner.check()
