"""What is equal to scikit-learn, himalaya, implicit and Surprise, for `peers.py`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from peers_problem import (
    ALPHA,
    ALPHAS,
    BOTH_GIVEN,
    GAMMA,
    GIVEN,
    RBF,
    TASK_ALPHA,
    Problem,
    Row,
    compare,
)
from sklearn.metrics.pairwise import rbf_kernel

from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    KroneckerRidge,
    PairKernelRidge,
    TwoStepRidge,
)
from dyadlearn.kernels import Sum

# A regularisation for each task.
BEST = "`alpha_per_task=True`"


def scikit_learn(on: Problem) -> Iterator[Row]:
    """Kernel ridge regression of one side, its searches, and everything on all pairs at once."""
    from sklearn.gaussian_process import GaussianProcessRegressor, kernels
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import Ridge, RidgeCV
    from sklearn.model_selection import GridSearchCV, LeaveOneOut

    plain = {"fit_intercept": False}
    ours = IndependentTaskRidge(ALPHA, **RBF, **plain).fit(on.X, on.Y)
    theirs = KernelRidge(alpha=ALPHA, kernel="rbf", gamma=GAMMA).fit(on.X, on.Y)
    yield compare(
        '`KernelRidge(kernel="rbf")`',
        "`IndependentTaskRidge`",
        theirs.predict(on.X_new),
        ours.predict(on.X_new),
    )
    shape = {"gamma": 0.2, "degree": 2, "coef0": 0.5}
    theirs = KernelRidge(alpha=ALPHA, kernel="poly", **shape).fit(on.X, on.Y)
    ours = IndependentTaskRidge(ALPHA, kernel="poly", kernel_params=shape, **plain).fit(on.X, on.Y)
    yield compare(
        "`gamma`, `degree`, `coef0`",
        "`kernel_params`",
        theirs.predict(on.X_new),
        ours.predict(on.X_new),
    )
    theirs = KernelRidge(alpha=ALPHA, kernel="precomputed").fit(on.K, on.Y)
    ours = IndependentTaskRidge(ALPHA, **GIVEN).fit(on.K, on.Y)
    yield compare(
        '`kernel="precomputed"`', "the same", theirs.predict(on.K_new), ours.predict(on.K_new)
    )
    theirs = Ridge(alpha=ALPHA).fit(on.X, on.Y)
    ours = IndependentTaskRidge(ALPHA).fit(on.X, on.Y)
    yield compare(
        "`Ridge`, with its intercept",
        "`IndependentTaskRidge`",
        theirs.predict(on.X_new),
        ours.predict(on.X_new),
    )

    weight = 0.5 + np.arange(len(on.X)) % 3
    theirs = KernelRidge(alpha=ALPHA, kernel="precomputed").fit(on.K, on.Y, sample_weight=weight)
    ours = IndependentTaskRidge(ALPHA, **GIVEN).fit(on.K, on.Y, sample_weight=weight)
    yield compare(
        "`sample_weight`", "`sample_weight`", theirs.predict(on.K_new), ours.predict(on.K_new)
    )
    columns = [
        KernelRidge(alpha=ALPHA, kernel="precomputed")
        .fit(on.K[np.ix_(actual, actual)], on.Y[actual, j])
        .predict(on.K_new[:, actual])
        for j, actual in enumerate(on.observed.T)
    ]
    ours = IndependentTaskRidge(ALPHA, **GIVEN).fit(on.K, on.holes)
    yield compare(
        "a fit for each column on its observed rows",
        "NaN in `y`",
        np.stack(columns, axis=1),
        ours.predict(on.K_new),
    )

    search = GridSearchCV(
        KernelRidge(kernel="precomputed"),
        {"alpha": ALPHAS},
        cv=LeaveOneOut(),
        scoring="neg_mean_squared_error",
    ).fit(on.K, on.Y)
    ours = IndependentTaskRidgeCV(ALPHAS, **GIVEN).fit(on.K, on.Y)
    yield compare(
        "`GridSearchCV(KernelRidge(), cv=LeaveOneOut())`",
        "`IndependentTaskRidgeCV().landscape_`",
        search.cv_results_["mean_test_score"],
        ours.landscape_,
    )
    per_target = RidgeCV(ALPHAS, alpha_per_target=True).fit(on.X, on.Y)
    ours = IndependentTaskRidgeCV(ALPHAS, alpha_per_task=True).fit(on.X, on.Y)
    yield compare("`RidgeCV(alpha_per_target=True).alpha_`", BEST, per_target.alpha_, ours.alpha_)
    yield compare(
        "its predictions", "the same", per_target.predict(on.X_new), ours.predict(on.X_new)
    )
    ours = IndependentTaskRidge(per_target.alpha_, **GIVEN).fit(on.K, on.Y)
    theirs = KernelRidge(alpha=per_target.alpha_, kernel="precomputed").fit(on.K, on.Y)
    yield compare(
        "`KernelRidge(alpha=array)`",
        "`alpha`, an array",
        theirs.predict(on.K_new),
        ours.predict(on.K_new),
    )

    first = KernelRidge(alpha=ALPHA, kernel="precomputed").fit(on.K, on.Y).predict(on.K_new)
    second = (
        KernelRidge(alpha=TASK_ALPHA, kernel="precomputed").fit(on.G, first.T).predict(on.G_new).T
    )
    ours = TwoStepRidge(ALPHA, TASK_ALPHA, **BOTH_GIVEN).fit(on.K, on.Y, tasks=on.G)
    yield compare(
        "`KernelRidge` on the predictions of a `KernelRidge`",
        "`TwoStepRidge`",
        second,
        ours.predict(on.K_new, on.G_new),
    )
    pairs = KernelRidge(alpha=ALPHA, kernel="precomputed").fit(np.kron(on.K, on.G), on.Y.ravel())
    ours = KroneckerRidge(ALPHA, **BOTH_GIVEN).fit(on.K, on.Y, tasks=on.G)
    asked = pairs.predict(np.kron(on.K_new, on.G_new)).reshape(len(on.K_new), -1)
    yield compare(
        "`KernelRidge` on all pairs, `np.kron(K, G)`",
        "`KroneckerRidge`",
        asked,
        ours.predict(on.K_new, on.G_new),
    )

    def all_pairs(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return np.hstack([np.repeat(rows, len(columns), axis=0), np.tile(columns, (len(rows), 1))])

    # One RBF kernel of the features of both sides side by side is the product of theirs.
    process = GaussianProcessRegressor(
        kernels.RBF(1 / np.sqrt(2 * GAMMA)), alpha=ALPHA, optimizer=None
    )
    process.fit(all_pairs(on.X, on.tasks), on.Y.ravel())
    ours = KroneckerRidge(
        ALPHA, **RBF, task_kernel="rbf", task_kernel_params={"gamma": GAMMA}, fit_intercept=False
    ).fit(on.X, on.Y, tasks=on.tasks)
    mean, deviation = process.predict(all_pairs(on.X_new, on.tasks_new), return_std=True)
    actual, own_deviation = ours.predict(on.X_new, on.tasks_new, return_std=True)
    yield compare(
        "`GaussianProcessRegressor` on features of all pairs",
        "`KroneckerRidge`",
        mean,
        actual.ravel(),
    )
    yield compare(
        "its `return_std=True`",
        "`return_std=True` / `scale_`",
        deviation,
        own_deviation.ravel() / ours.scale_,
    )
    yield compare(
        "its `log_marginal_likelihood()`",
        "`log_marginal_likelihood(scale=1)`",
        process.log_marginal_likelihood(),
        ours.log_marginal_likelihood(scale=1.0),
    )


def himalaya(on: Problem) -> Iterator[Row]:
    """Many targets at once, and kernels with weights."""
    from himalaya.kernel_ridge import (
        KernelRidge,
        KernelRidgeCV,
        MultipleKernelRidgeCV,
        WeightedKernelRidge,
    )
    from himalaya.ridge import Ridge
    from sklearn.model_selection import KFold, PredefinedSplit

    def target_by_target(
        alphas: np.ndarray, kernels: list[np.ndarray], new: list[np.ndarray]
    ) -> np.ndarray:
        """Return our predictions for each target with its own regularisation and its own kernel."""
        columns = [
            IndependentTaskRidge(alpha, **GIVEN).fit(kernel, on.Y[:, j]).predict(rows)
            for j, (alpha, kernel, rows) in enumerate(zip(alphas, kernels, new, strict=True))
        ]
        return np.stack(columns, axis=1)

    q = on.Y.shape[1]
    theirs = KernelRidge(alpha=ALPHA, kernel="rbf", kernel_params={"gamma": GAMMA}).fit(on.X, on.Y)
    ours = IndependentTaskRidge(ALPHA, **RBF, fit_intercept=False).fit(on.X, on.Y)
    yield compare(
        "`KernelRidge`", "`IndependentTaskRidge`", theirs.predict(on.X_new), ours.predict(on.X_new)
    )
    theirs = KernelRidge(
        alpha=ALPHA, kernel="rbf", kernel_params={"gamma": GAMMA}, fit_intercept=True
    )
    theirs = theirs.fit(on.X, on.Y)
    ours = IndependentTaskRidge(ALPHA, **RBF).fit(on.X, on.Y)
    yield compare(
        "its `fit_intercept=True`", "the default", theirs.predict(on.X_new), ours.predict(on.X_new)
    )
    theirs = Ridge(alpha=ALPHA, fit_intercept=True).fit(on.X, on.Y)
    ours = IndependentTaskRidge(ALPHA).fit(on.X, on.Y)
    yield compare("`Ridge`", '`kernel="linear"`', theirs.predict(on.X_new), ours.predict(on.X_new))
    alphas = np.linspace(0.1, 3, q)
    theirs = KernelRidge(alpha=alphas, kernel="precomputed", solver="eigenvalues").fit(on.K, on.Y)
    ours = IndependentTaskRidge(alphas, **GIVEN).fit(on.K, on.Y)
    yield compare(
        "an `alpha` for each target",
        "`alpha`, an array",
        theirs.predict(on.K_new),
        ours.predict(on.K_new),
    )

    for words, cv, groups in (
        ("one fold for each row", KFold(len(on.K)), None),
        ("folds", PredefinedSplit(on.fold), on.fold),
    ):
        search = KernelRidgeCV(ALPHAS, kernel="precomputed", cv=cv).fit(on.K, on.Y)
        ours = IndependentTaskRidgeCV(ALPHAS, alpha_per_task=True, **GIVEN).fit(
            on.K, on.Y, groups=groups
        )
        here = BEST + ("" if groups is None else ", `groups=`")
        yield compare(
            f"`KernelRidgeCV`, {words}: `best_alphas_`", here, search.best_alphas_, ours.alpha_
        )
        yield compare(
            "its predictions", "the same", search.predict(on.K_new), ours.predict(on.K_new)
        )

    kernels, new = np.stack([on.K, on.X @ on.X.T]), np.stack([on.K_new, on.X_new @ on.X.T])
    weights = np.array([0.7, 0.3])
    theirs = WeightedKernelRidge(
        ALPHA, np.log(weights), "precomputed", solver_params={"tol": 1e-14, "max_iter": 1000}
    )
    theirs = theirs.fit(kernels, on.Y)
    ours = IndependentTaskRidge(
        ALPHA,
        kernel=Sum([partial(rbf_kernel, gamma=GAMMA), "linear"], weights),
        fit_intercept=False,
    )
    ours = ours.fit(on.X, on.Y)
    yield compare(
        "`WeightedKernelRidge(deltas)`",
        "`Sum(kernels, exp(deltas))`",
        theirs.predict(new),
        ours.predict(on.X_new),
    )
    params = {"n_iter": 20, "alphas": ALPHAS, "progress_bar": False}
    theirs = MultipleKernelRidgeCV("precomputed", solver_params=params, random_state=0).fit(
        kernels, on.Y
    )
    shares = np.exp(theirs.deltas_)
    actual = target_by_target(
        np.ones(q),
        [np.tensordot(w, kernels, 1) for w in shares.T],
        [np.tensordot(w, new, 1) for w in shares.T],
    )
    words = "`MultipleKernelRidgeCV`, with the weights that it chose"
    yield compare(words, "a model for each target with these weights", theirs.predict(new), actual)


def implicit(on: Problem) -> Iterator[Row]:
    """One step of alternating least squares is ridge regression on the factors of the items."""
    from implicit.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix

    listens = np.random.default_rng(0).poisson(0.5, size=on.Y.shape).astype(float)
    theirs = AlternatingLeastSquares(
        5, regularization=2.0, alpha=3.0, dtype=np.float64, random_state=0, num_threads=1
    )
    theirs.fit(csr_matrix(listens), show_progress=False)
    users = theirs.recalculate_user(np.arange(len(listens)), csr_matrix(listens))
    confidence = np.where(listens > 0, 3.0 * listens, 1.0)
    liked = (listens > 0).astype(float)
    ours = IndependentTaskRidge(2.0, fit_intercept=False).fit(
        theirs.item_factors, liked.T, sample_weight=confidence.T
    )
    yield compare(
        "`recalculate_user`, times the factors of the items",
        "`IndependentTaskRidge` on these, `sample_weight=`",
        users @ theirs.item_factors.T,
        ours.predict(theirs.item_factors).T,
    )


def surprise(on: Problem) -> Iterator[Row]:
    """Effects of users and of items are a kernel of pairs."""
    import pandas as pd
    from surprise import BaselineOnly, Dataset, Reader

    user, item = np.nonzero(on.observed)
    frame = pd.DataFrame({"user": user, "item": item, "rating": on.Y[on.observed]})
    train = Dataset.load_from_df(frame, Reader(rating_scale=(-100, 100))).build_full_trainset()
    options = {"method": "als", "n_epochs": 500, "reg_u": 7.0, "reg_i": 3.0}
    theirs = BaselineOnly(options, verbose=False).fit(train)
    m, q = on.Y.shape
    answer = [[theirs.predict(i, j).est for j in range(q)] for i in range(m)]
    mean = on.Y[on.observed].mean()
    ours = PairKernelRidge(
        1.0, product=0, per_task=1 / 3, per_instance=1 / 7, **BOTH_GIVEN, tol=1e-13
    )
    ours = ours.fit(np.ones((m, m)), on.holes - mean, tasks=np.ones((q, q)))
    yield compare(
        "`BaselineOnly`, until nothing changes",
        "`PairKernelRidge` of kernels of ones",
        answer,
        mean + ours.predict(),
    )
