"""What users hand in is read and never written to: arrays and frames that cannot be written do as well."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    KroneckerRidge,
    KroneckerRidgeCV,
    LearnedKernelRidge,
    OnlineTwoStepRidge,
    PairKernelRidge,
    PairKernelRidgeCV,
    PairRegressor,
    TwoStepRegressor,
    TwoStepRidge,
    TwoStepRidgeCV,
)
from dyadlearn.kernels import (
    Descriptions,
    Landmarks,
    delta,
    diffusion_kernel,
    gram,
    gram_diagonal,
    graph_distance_kernel,
    kernel_names,
    minmax,
    normalize,
    repair,
    shared_ancestors_kernel,
    tanimoto,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning"),
    pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.KernelRepairWarning"),
]

RNG = np.random.default_rng(0)
N = 9
Q = 6
X = RNG.random((N, 3))
T = RNG.random((Q, 2))
Y = RNG.normal(size=(N, Q))
HOLES = np.where(RNG.random((N, Q)) < 0.2, np.nan, Y)
BITS = (X > 0.5).astype(float)
K = gram(X, kernel="rbf")
G = gram(T, kernel="rbf")
# Within the rounding that is mended without a word, so that whoever mends in place writes here.
SKEW = K + 1e-9 * RNG.random((N, N))
GRAPH = np.maximum(BITS @ BITS.T > 1, np.eye(N)).astype(float)
EDGES = np.array([[0, 1], [1, 2], [0, 3], [3, 4]])
PRE = {"kernel": "precomputed", "task_kernel": "precomputed"}
WEIGHTS = RNG.uniform(0.5, 2, size=(N, Q))

KERNELS = {
    **{
        f"gram {name}": (lambda A, name=name: gram(A, kernel=name), BITS) for name in kernel_names()
    },
    "gram_diagonal": (gram_diagonal, X),
    "diffusion": (diffusion_kernel, GRAPH),
    "diffusion of a graph that is not quite symmetric": (
        diffusion_kernel,
        GRAPH * (1 + 1e-9 * X[:, :1]),
    ),
    "repair": (repair, SKEW),
    "repair indefinite": (repair, SKEW - 0.5 * np.eye(N)),
    "normalize": (normalize, K),
    "tanimoto": (tanimoto, BITS),
    "minmax": (minmax, X),
    "delta": (delta, X[:, :1]),
    "graph distance": (lambda A: graph_distance_kernel(A, nodes=[0, 1, 2]), EDGES),
    "shared ancestors": (lambda A: shared_ancestors_kernel(A, nodes=[2, 4]), EDGES),
    "landmarks": (lambda A: Landmarks(4, random_state=0).fit_transform(A), X),
}
MODELS = {
    "independent": (IndependentTaskRidge(), (X, HOLES, None)),
    "independent search": (IndependentTaskRidgeCV([0.1, 1.0]), (X, Y, None)),
    "two-step": (TwoStepRidge(), (X, Y, T)),
    "two-step holes": (TwoStepRidge(kernel="rbf"), (X, HOLES, T)),
    "two-step kernels": (TwoStepRidge(**PRE), (SKEW, Y, G)),
    "two-step search": (TwoStepRidgeCV([0.1, 1.0], [0.1, 1.0]), (X, Y, T)),
    "two-step regressor": (TwoStepRegressor(), (X, Y, T)),
    "kronecker": (KroneckerRidge(**PRE), (SKEW, Y, G)),
    "kronecker holes": (KroneckerRidge(), (X, HOLES, T)),
    "kronecker search": (KroneckerRidgeCV([0.1, 1.0]), (X, HOLES, T)),
    "pair kernel": (PairKernelRidge(), (X, Y, T)),
    "pair kernel search": (PairKernelRidgeCV([0.1, 1.0]), (X, Y, T)),
    "learned": (LearnedKernelRidge(n_steps=1, stages=1, cv=2), (X, Y, T)),
    "online": (OnlineTwoStepRidge(), (X, Y, T)),
}
FITTED_AGAIN = ("two-step holes", "kronecker holes", "kronecker search", "two-step regressor")
FORMS = ("array", "by columns", "pandas", "sparse")


def locked(values, form, prefix):
    """Return what cannot be written to, and arrays that belong to it."""
    if values is None:
        return None
    values = np.array(values, order="F" if form == "by columns" else "C")
    values.flags.writeable = False
    if form == "pandas":
        pd = pytest.importorskip("pandas")
        ids = [f"{prefix}{row}" for row in range(len(values))]
        return pd.DataFrame(values, index=ids, copy=False)
    if form == "sparse":
        matrix = sparse.csr_array(values)
        for part in (matrix.data, matrix.indices, matrix.indptr):
            part.flags.writeable = False
        return matrix
    return values


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.MarkerCodingWarning")
@pytest.mark.parametrize("form", FORMS[:3])
def test_kernels_do_not_write_into_what_they_are_given(form, each):
    for name in each(KERNELS):
        kernel, given = KERNELS[name]
        if form == "pandas" and name in ("graph distance", "shared ancestors"):
            continue  # a frame of edges has two named columns, and no ids of its own
        there = locked(given, form, "i")
        if form == "pandas" and np.asarray(given).shape == (N, N):
            there.columns = there.index
        kernel(there)
        assert_array_equal(np.asarray(there), given)
        # Where it may be written to, it is not either.
        free = np.array(given)
        kernel(free)
        assert_array_equal(free, given)


@pytest.mark.parametrize("form", FORMS)
def test_models_do_not_write_into_what_they_are_given(form, each):
    for name in each(MODELS):
        model, data = MODELS[name]
        if form == "sparse" and (
            "kernels" in name or model.get_params().get("kernel") == "precomputed"
        ):
            continue
        A, B, C = (
            locked(part, "array" if form == "sparse" and place else form, prefix)
            for place, (part, prefix) in enumerate(zip(data, "iij", strict=True))
        )
        if form == "pandas":
            B.columns = [f"j{column}" for column in range(Q)]
            for part in (A, C) if model.get_params().get("kernel") == "precomputed" else ():
                part.columns = part.index
        model.fit(A, B, **({} if C is None else {"tasks": C}))
        model.predict(A)
        if name != "online":
            # Folds are fitted again here; two of them read the same as one for each row.
            folds = {"groups": np.arange(N) % 2} if name in FITTED_AGAIN else {}
            model.holdout("B", **folds)
        for part, before in zip((A, B, C), data, strict=True):
            if part is not None:
                assert_array_equal(
                    part.toarray() if sparse.issparse(part) else np.asarray(part), before
                )


def test_weights_and_pairs_are_not_written_to():
    weights = locked(WEIGHTS, "array", "")
    pairs = locked(np.argwhere(~np.isnan(HOLES)), "array", "")
    rows, tasks, grid = (locked(part, "array", "") for part in (X, T, Y))
    for model in (KroneckerRidge(), TwoStepRidge(), IndependentTaskRidge()):
        model.fit(rows, grid, tasks=tasks, sample_weight=weights)
        model.predict_interval(rows)
    PairRegressor(KroneckerRidge(), instances=rows, tasks=tasks).fit(
        pairs, locked(Y[~np.isnan(HOLES)], "array", "")
    )
    LearnedKernelRidge(n_steps=1, stages=1, cv=2).fit(
        Descriptions({"a": rows, "b": rows[:, :2]}), grid, tasks=tasks
    )
    for part, before in ((weights, WEIGHTS), (rows, X), (tasks, T), (grid, Y)):
        assert_array_equal(part, before)
