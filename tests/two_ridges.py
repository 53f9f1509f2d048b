"""Two ridge regressions in a row on labels of which some are missing, one regression at a time."""

import numpy as np
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy import sparse

import problems
from dyadlearn.settings import Setting


def ridge(rows, labels, alpha, constant):
    """Return coefficients (d,) or (d, k) and the constants of one ridge regression, as its definition reads."""
    if constant:
        mean, level = (rows.mean(axis=0), labels.mean(axis=0))
    else:
        mean, level = (np.zeros(rows.shape[1]), 0.0)
    about = np.vstack([rows - mean, alpha**0.5 * np.eye(rows.shape[1])])
    w = np.linalg.lstsq(
        about, np.concatenate([labels - level, np.zeros((rows.shape[1], *labels.shape[1:]))]), 1e-13
    )[0]
    return w, level - mean @ w


def two_ridges(X, Y, T, new, new_tasks, alpha, task_alpha, constant):
    """Predict in two steps, one ridge regression a task and then one an instance, in the obvious way."""
    first = np.full((len(new), Y.shape[1]), np.nan)
    for j, labels in enumerate(Y.T):
        seen = ~np.isnan(labels)
        if seen.any():
            w, b = ridge(X[seen], labels[seen], alpha, constant)
            first[:, j] = new @ w + b
        elif not constant:
            first[:, j] = 0.0
    if T is None:
        return first
    labelled = ~np.isnan(Y).all(axis=0)
    if not labelled.any():
        return np.full((len(new), len(new_tasks)), np.nan if constant else 0.0)
    w, b = ridge(
        T[labelled], first[:, labelled].T, task_alpha, constant
    )  # the regressions of instances are alike
    return (new_tasks @ w + b).T


def labels_with_holes(shape=(20, 4, 7, 3), holes=0.4, seed=0, offset=0.0):
    """Return instances, labels with holes and tasks; the last task but one has one label, the last none."""
    m, d, q, r = shape
    X, Y, T = problems.data(m, q, d, r, seed=seed)
    rng = default_rng([seed, 1])
    Y[rng.random((m, q)) < holes] = np.nan
    Y[:, 1] = np.where(np.isnan(Y[:, 0]), np.nan, Y[:, 1])  # two that are observed together
    Y[:, 0] = np.where(np.isnan(Y[:, 1]), np.nan, Y[:, 0])
    Y[:, -2:] = np.nan
    Y[3, -2] = 1.5
    return X + offset, Y + offset, T + offset


def predicted(model, new, new_tasks):
    half = model.rows(new) @ model.coefficients
    if new_tasks is None:
        return half
    return half @ model.statistics.rows_of_tasks(new_tasks).T


def check(model, X, Y, T, **options):
    rng = default_rng(5)
    new = rng.normal(size=(3, X.shape[1]))
    new_tasks = None if T is None else np.vstack([T, rng.normal(size=(2, T.shape[1]))])
    found = predicted(model, new, new_tasks)
    wanted = two_ridges(X, Y, T, new, new_tasks, *options.values())
    assert_allclose(found, wanted, rtol=1e-8, atol=1e-9)
    assert_allclose(
        predicted(model, sparse.csr_array(new), new_tasks), wanted, rtol=1e-8, atol=1e-9
    )
    interactions, instances, tasks, level = model.effects
    if T is None:
        assert_allclose(new @ interactions + (0 if level is None else level), wanted, atol=1e-8)
    else:
        half = new @ interactions + (0 if tasks is None else tasks)
        whole = half @ new_tasks.T + (
            0 if instances is None else (new @ instances)[:, None] + level
        )
        assert_allclose(whole, wanted, atol=1e-8)


def kept_beside(setting, shape, cell):
    """Return the rows and the columns that are left where a cell leaves in a setting."""
    sides = enumerate(zip(shape, cell, strict=True))
    return [
        np.delete(np.arange(n), at) if axis in setting.new else np.arange(n)
        for axis, (n, at) in sides
    ]


def refitted_without(X, Y, T, alpha, task_alpha, constant, setting):
    """Return hold-out predictions by refitting for every cell."""
    found = np.full(Y.shape, np.nan)
    for i in range(len(X)):
        for j in range(Y.shape[1]):
            rows, columns = kept_beside(setting, Y.shape, (i, j))
            labels = Y.copy()
            if setting is Setting.A or T is None:
                labels[i, j] = np.nan
            labels = labels[np.ix_(rows, columns)]
            tasks, new_task = (None, None) if T is None else (T[columns], T[[j]])
            row = two_ridges(X[rows], labels, tasks, X[[i]], new_task, alpha, task_alpha, constant)
            found[i, j] = row[0, j] if T is None else row[0, 0]
    return found
