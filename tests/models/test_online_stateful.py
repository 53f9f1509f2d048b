"""Whatever is learnt and forgotten, and in which order: the model equals one fitted on what remains."""

from __future__ import annotations

import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import Ridge

from dyadlearn import IndependentTaskRidge, OnlineTwoStepRidge, TwoStepRegressor, TwoStepRidge
from dyadlearn._tables import Ids, Table
from dyadlearn.exceptions import NoLabelWarning, PrecisionWarning

seeds = st.integers(0, 2**32 - 1)
regularisations = st.sampled_from([0.05, 0.3, 1.0, 7.0])


class OnlineMachine(RuleBasedStateMachine):
    """A model that learns and forgets, and beside it the grid that it should be equal to."""

    @initialize(
        seed=seeds,
        n_features=st.integers(1, 12),
        n_task_features=st.integers(0, 6),
        keep_labels=st.booleans(),
        fit_intercept=st.booleans(),
        holes=st.booleans(),
        rows=st.integers(1, 6),
        tasks=st.integers(1, 4),
    )
    def start(self, seed, n_features, n_task_features, holes, fit_intercept, rows, tasks, **keep):
        rng = np.random.default_rng(seed)
        self.fit_intercept = fit_intercept
        self.holes = holes
        self.X, self.T = (
            rng.normal(size=(rows, n_features)),
            self.new_tasks_of(rng, tasks, n_task_features),
        )
        self.Y = self.with_holes(rng, rng.normal(size=(rows, tasks)) + 5 * fit_intercept)
        self.has_tasks = n_task_features > 0
        # Who is known by an id; without labels that are kept, ids are left out.
        self.is_named, self.ids = keep["keep_labels"], [f"first {row}" for row in range(rows)]
        self.model = OnlineTwoStepRidge(
            fit_intercept=fit_intercept,
            **keep,
        )
        # partial_fit may come first too.
        first = self.model.fit if seed % 2 else self.model.partial_fit
        first(self.named(self.X, self.ids), self.Y, tasks=self.T if self.has_tasks else None)

    def named(self, rows, ids):
        return Table(rows, Ids(tuple(ids))) if self.is_named else rows

    def with_holes(self, rng, labels):
        """Return labels of which some are not observed, but never all."""
        if not self.holes:
            return labels
        hidden = rng.random(labels.shape) < 0.4 * rng.integers(2)
        hidden.flat[rng.integers(labels.size)] = False
        return np.where(hidden, np.nan, labels)

    def random(self, seed):
        """Return a generator that no other step has."""
        self.steps = getattr(self, "steps", 0) + 1
        return np.random.default_rng([seed, self.steps])

    def new_labels(self, rng, rows, columns):
        """Return labels, many of which are zero, so that sparse ones leave something out."""
        labels = (rng.normal(size=(rows, columns)) + 5 * self.fit_intercept) * (
            rng.random((rows, columns)) < 0.5
        )
        return self.with_holes(rng, labels)

    def new_tasks_of(self, rng, count, width):
        """Return features of tasks, which with an intercept lie far from zero."""
        return rng.normal(size=(count, width)) + 100 * self.fit_intercept

    def given(self, array, is_sparse):
        if is_sparse and not np.isnan(array).any():
            return sparse.csr_array(array)
        return array

    @rule(
        seed=seeds, count=st.integers(1, 6), sparse_rows=st.booleans(), sparse_labels=st.booleans()
    )
    def new_instances(self, seed, count, sparse_rows, sparse_labels):
        rng = self.random(seed)
        X = rng.normal(size=(count, self.X.shape[1]))
        X[:, 1:] *= rng.random((count, self.X.shape[1] - 1)) < 0.7  # no two instances are alike
        Y = self.new_labels(rng, count, self.Y.shape[1])
        ids = [f"{self.steps} {row}" for row in range(count)]
        self.model.partial_fit(
            self.named(self.given(X, sparse_rows), ids), self.given(Y, sparse_labels)
        )
        self.X, self.Y, self.ids = np.vstack([self.X, X]), np.vstack([self.Y, Y]), [*self.ids, *ids]

    @precondition(lambda self: len(self.X) and self.is_named)
    @rule(data=st.data(), seed=seeds, same_features=st.booleans(), sparse_rows=st.booleans())
    def replaced_instances(self, data, seed, same_features, sparse_rows):
        rng = self.random(seed)
        some = data.draw(st.lists(st.integers(0, len(self.X) - 1), min_size=1, unique=True))
        if same_features:
            X = self.X[some]
        else:
            X = rng.normal(size=(len(some), self.X.shape[1]))
        Y = np.where(
            rng.random((len(some), self.Y.shape[1])) < 0.5, np.nan, rng.normal(size=(len(some), 1))
        )
        Y[0, 0] = rng.normal()
        self.X, self.Y = self.X.copy(), self.Y.copy()
        self.X[some], self.Y[some] = X, np.where(np.isnan(Y), self.Y[some], Y)
        with self.forgetting():
            self.model.partial_fit(
                self.named(self.given(X, sparse_rows), [self.ids[row] for row in some]),
                Y,
                known="replace",
            )

    def chunked(self, learn, tasks, labels, rng, n_chunks, is_sparse):
        """Hand in labels of tasks for all instances, in chunks in any order; at once where labels are kept."""
        order = rng.permutation(len(self.X))
        if self.is_named:
            ids = Ids(tuple(self.ids[row] for row in order))
            learn(
                tasks, Table(labels[order], ids), X=Table(self.given(self.X[order], is_sparse), ids)
            )
            return
        cuts = np.sort(rng.integers(0, len(self.X) + 1, size=n_chunks - 1))
        chunks = (chunk for chunk in np.split(order, cuts) if len(chunk))
        learn(
            tasks,
            chunks=(
                (self.given(self.X[rows], is_sparse), self.given(labels[rows], is_sparse))
                for rows in chunks
            ),
        )

    @precondition(lambda self: len(self.X))
    @rule(seed=seeds, count=st.integers(1, 3), n_chunks=st.integers(1, 3), is_sparse=st.booleans())
    def new_tasks(self, seed, count, n_chunks, is_sparse):
        rng = self.random(seed)
        T = self.new_tasks_of(rng, count, self.T.shape[1])
        Y = self.new_labels(rng, len(self.X), count)
        tasks = T if self.has_tasks else None
        self.chunked(self.model.partial_fit_tasks, tasks, Y, rng, n_chunks, is_sparse)
        self.T, self.Y = np.vstack([self.T, T]), np.hstack([self.Y, Y])

    @precondition(lambda self: len(self.X) and self.is_named)
    @rule(seed=seeds, count=st.integers(1, 3))
    def new_tasks_for_kept_instances(self, seed, count):
        rng = self.random(seed)
        T = self.new_tasks_of(rng, count, self.T.shape[1])
        Y = self.new_labels(rng, len(self.X), count)
        self.model.partial_fit_tasks(T if self.has_tasks else None, self.named(Y, self.ids))
        self.T, self.Y = np.vstack([self.T, T]), np.hstack([self.Y, Y])

    @precondition(lambda self: len(self.X))
    @rule(data=st.data(), sparse_rows=st.booleans())
    def forgotten_instances(self, data, sparse_rows):
        gone = data.draw(st.lists(st.integers(0, len(self.X) - 1), min_size=1, unique=True))
        X = self.given(self.X[gone], sparse_rows)
        Y = self.Y[gone]
        ids = [self.ids[row] for row in gone]
        self.X, self.Y = np.delete(self.X, gone, axis=0), np.delete(self.Y, gone, axis=0)
        self.ids = [label for label in self.ids if label not in ids]
        with self.forgetting():
            self.model.forget(self.named(X, ids), Y)

    @contextmanager
    def forgetting(self):
        """Let rounding be warned of where all labels that are left are zero: anything is large beside them."""
        with warnings.catch_warnings():
            if not np.nan_to_num(self.Y).any(axis=0).all():
                warnings.simplefilter("ignore", PrecisionWarning)
            yield

    @precondition(lambda self: len(self.X) and self.Y.shape[1] > 1)
    @rule(data=st.data())
    def forgotten_tasks(self, data):
        q = self.Y.shape[1]
        gone = data.draw(st.lists(st.integers(0, q - 1), min_size=1, max_size=q - 1, unique=True))
        self.T, self.Y = np.delete(self.T, gone, axis=0), np.delete(self.Y, gone, axis=1)
        with self.forgetting():
            self.model.forget_tasks(gone)

    @rule(alpha=st.none() | regularisations, task_alpha=st.none() | regularisations)
    def another_regularisation(self, alpha, task_alpha):
        self.model.set_alpha(alpha, task_alpha)

    @invariant()
    def equals_what_is_fitted_on_the_rest(self):
        if not hasattr(self, "model"):
            return
        model = self.model
        assert (model.n_seen_, model.n_tasks_) == self.Y.shape
        W = np.column_stack([self.column(labels, model.alpha) for labels in self.Y.T])
        if self.has_tasks:
            # A model without holes has labels of no instances; one with holes has no labels.
            if model.statistics_.is_complete:
                labelled = np.full(len(self.T), True)
            else:
                labelled = ~np.isnan(self.Y).all(axis=0)
            if not labelled.any():
                nothing = np.full((1, len(self.T)), np.nan if self.fit_intercept else 0.0)
                assert_allclose(model.predict(np.ones((1, self.X.shape[1]))), nothing)
                return
            W = W[:, labelled] @ self.side(self.T[labelled], model.task_alpha).T
        atol = 1e-8 * max(np.nanmax(np.abs(W)), 1e-3)
        if not self.fit_intercept:
            assert_allclose(model.coef_, W, rtol=0, atol=atol)
            return
        if self.has_tasks:
            assert_allclose(model.coef_, W[:-1, :-1], rtol=0, atol=atol)
            assert_allclose(model.instance_coef_, W[:-1, -1], rtol=0, atol=atol)
            assert_allclose(model.task_coef_, W[-1, :-1], rtol=0, atol=atol)
            assert_allclose(model.intercept_, W[-1, -1], rtol=0, atol=100 * atol)
        else:
            assert_allclose(model.coef_, W[:-1], rtol=0, atol=atol)
            assert_allclose(model.intercept_, W[-1], rtol=0, atol=atol)

    def column(self, labels, alpha):
        """Return the coefficients of one task, and of the constant, from the labels that it has."""
        seen = ~np.isnan(labels)
        W = self.side(self.X[seen], alpha) @ labels[seen]
        if self.fit_intercept and not seen.any() and not self.model.statistics_.is_complete:
            W[-1] = np.nan
        return W

    def side(self, rows, alpha):
        """Return what takes labels to coefficients of features as they come and of the constant."""
        if not self.fit_intercept:
            return np.linalg.solve(rows.T @ rows + alpha * np.eye(rows.shape[1]), rows.T)
        if not len(rows):
            return np.zeros((rows.shape[1] + 1, 0))
        mean = rows.mean(axis=0)
        about = rows - mean
        W = np.linalg.solve(about.T @ about + alpha * np.eye(rows.shape[1]), about.T)
        return np.vstack([W, 1 / len(rows) - mean @ W])

    def teardown(self):
        if not hasattr(self, "model") or not len(self.X):
            return
        rng = np.random.default_rng(0)
        X = rng.normal(size=(3, self.X.shape[1]))
        alphas = {
            "alpha": self.model.alpha,
            "task_alpha": self.model.task_alpha,
            "fit_intercept": self.fit_intercept,
        }
        if np.isnan(self.Y).all():
            return
        if self.has_tasks:
            T = self.new_tasks_of(rng, 2, self.T.shape[1])
            batch = TwoStepRidge(**alphas).fit(self.X, np.nan_to_num(self.Y), tasks=self.T)
            if np.isnan(self.Y).any():
                steps = (
                    Ridge(alphas[name], fit_intercept=self.fit_intercept)
                    for name in ("alpha", "task_alpha")
                )
                batch = TwoStepRegressor(*steps).fit(self.X, self.Y, tasks=self.T)
            assert_allclose(
                self.model.predict(X, tasks=T), batch.predict(X, tasks=T), rtol=1e-6, atol=1e-8
            )
        else:
            batch = IndependentTaskRidge(self.model.alpha, fit_intercept=self.fit_intercept).fit(
                self.X, self.Y
            )
        assert_allclose(self.model.predict(X), batch.predict(X), rtol=1e-6, atol=1e-8)


TestOnline = pytest.mark.filterwarnings(f"ignore::{NoLabelWarning.__module__}.NoLabelWarning")(
    OnlineMachine.TestCase
)
TestOnline.settings = settings(
    derandomize=True,  # the same examples in every run
    max_examples=6,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
