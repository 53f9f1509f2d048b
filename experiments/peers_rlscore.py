"""RLScore's half of `peers.py`, which may have to run under a Python that RLScore still builds with.

    python experiments/peers_rlscore.py problem.npz answers.npz

Reads a problem, gives it to RLScore in RLScore's own shapes, and writes what comes out, as vectors
down the columns of a grid are written there. Knows nothing of this library, and runs from Python
3.6 on.
"""

import platform
import sys

import numpy as np
from rlscore.learner import RLS, CGKronRLS, KronRLS, TwoStepRLS
from rlscore.utilities.pairwise_kernel_operator import PairwiseKernelOperator


def grid_of(vector, shape):
    """Return a vector that runs down the columns as a grid."""
    return np.asarray(vector).reshape(shape, order="F")


def answers_to(problem):
    """Return a dictionary of arrays: what RLScore says."""
    X, tasks, K, G, Y = (problem[name] for name in ("X", "tasks", "K", "G", "Y"))
    X_new, tasks_new, K_new, G_new = (
        problem[name] for name in ("X_new", "tasks_new", "K_new", "G_new")
    )
    alpha, task_alpha = (float(problem[name]) for name in ("alpha", "task_alpha"))
    fold = problem["fold"]
    task_fold = problem["task_fold"]
    new = (len(X_new), len(tasks_new))
    vector = Y.flatten(order="F")
    answers = {}

    single = RLS(K, Y, regparam=2 * alpha, kernel="PrecomputedKernel")
    single.solve(alpha)
    answers["RLS.predict"] = single.predict(K_new)
    answers["RLS.leave_one_out"] = single.leave_one_out()
    answers["RLS.holdout"] = single.holdout(np.flatnonzero(fold == 1).tolist())
    answers["RLS.bias"] = RLS(X, Y, regparam=alpha, bias=1.0).predict(X_new)
    answers["RLS.gaussian"] = RLS(X, Y, regparam=alpha, kernel="GaussianKernel", gamma=0.1).predict(
        X_new
    )

    kronecker = KronRLS(K1=K, K2=G, Y=vector, regparam=2 * alpha)
    kronecker.solve(alpha)
    answers["KronRLS.predict"] = grid_of(kronecker.predict(K_new, G_new), new)
    answers["KronRLS.in_sample_loo"] = grid_of(kronecker.in_sample_loo(), Y.shape)
    linear = KronRLS(X1=X, X2=tasks, Y=vector, regparam=alpha)
    answers["KronRLS.linear"] = grid_of(linear.predict(X_new, tasks_new), new)

    two_step = TwoStepRLS(K1=K, K2=G, Y=vector, regparam1=2 * alpha, regparam2=2 * task_alpha)
    two_step.solve(alpha, task_alpha)
    answers["TwoStepRLS.predict"] = grid_of(two_step.predict(K_new, G_new), new)
    for name in ("in_sample_loo", "leave_x1_out", "leave_x2_out", "out_of_sample_loo"):
        answers["TwoStepRLS." + name] = grid_of(getattr(two_step, name)(), Y.shape)
    rows, columns = (
        [np.flatnonzero(installed == one).tolist() for one in np.unique(installed)]
        for installed in (fold, task_fold)
    )
    answers["TwoStepRLS.x1_kfold_cv"] = grid_of(two_step.x1_kfold_cv(rows), Y.shape)
    answers["TwoStepRLS.x2_kfold_cv"] = grid_of(two_step.x2_kfold_cv(columns), Y.shape)
    answers["TwoStepRLS.out_of_sample_kfold_cv"] = grid_of(
        two_step.out_of_sample_kfold_cv(rows, columns), Y.shape
    )
    linear = TwoStepRLS(X1=X, X2=tasks, Y=vector, regparam1=alpha, regparam2=task_alpha)
    answers["TwoStepRLS.linear"] = grid_of(linear.predict(X_new, tasks_new), new)

    for word in ("symmetric", "antisymmetric"):
        edges = problem[word]
        network = TwoStepRLS(
            K1=K, K2=K, Y=edges.flatten(order="F"), regparam1=alpha, regparam2=alpha
        )
        for name in ("in_sample_loo_symmetric", "out_of_sample_loo_symmetric", "leave_vertex_out"):
            answers[word + "." + name] = grid_of(getattr(network, name)(), edges.shape)

    row, column = np.nonzero(problem["observed"])
    few = {"Y": Y[row, column], "regparam": alpha, "label_row_inds": row, "label_col_inds": column}
    asked = np.repeat(np.arange(new[0]), new[1]), np.tile(np.arange(new[1]), new[0])
    answers["CGKronRLS.predict"] = (
        CGKronRLS(K1=K, K2=G, **few).predict(K_new, G_new, *asked).reshape(new)
    )
    answers["CGKronRLS.linear"] = (
        CGKronRLS(X1=X, X2=tasks, **few).predict(X_new, tasks_new, *asked).reshape(new)
    )
    # A sum of three Kronecker products: of the kernels, and of each with the identity of the other
    # side, which is 0 between what is new and what is not.
    weights = problem["shares"].tolist()
    train = ([row] * 3, [column] * 3)
    operator = PairwiseKernelOperator(
        [K, K, np.eye(len(K))], [G, np.eye(len(G)), G], *train, *train, weights
    )
    summed = CGKronRLS(pko=operator, Y=Y[row, column], regparam=alpha)
    kernels = [K_new, K_new, 0 * K_new], [G_new, 0 * G_new, G_new]
    operator = PairwiseKernelOperator(*kernels, [asked[0]] * 3, [asked[1]] * 3, *train, weights)
    answers["CGKronRLS.sum"] = summed.predict(pko=operator).reshape(new)
    return answers


if __name__ == "__main__":
    with np.load(sys.argv[1]) as stored:
        answers = answers_to(dict(stored))
    try:
        from importlib.metadata import version
    except ImportError:  # Python 3.6 and 3.7
        from pkg_resources import get_distribution

        installed = get_distribution("rlscore").version
    else:
        installed = version("rlscore")
    versions = (
        f"rlscore {installed} on Python {platform.python_version()} and numpy {np.__version__}"
    )
    np.savez(sys.argv[2], versions=versions, **answers)
