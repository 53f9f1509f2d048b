"""On a cluster everything is what it is in memory."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.kernel_approximation import Nystroem

from dyadlearn import IndependentTaskRidge, OnlineTwoStepRidge, TwoStepRidge, TwoStepRidgeCV
from dyadlearn.exceptions import LeverageError, UndefinedScoreWarning
from sweeps import lines, over

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
cluster = pytest.importorskip("distributed")

from dyadlearn import distributed  # noqa: E402

M = 90
P = 6
Q = 8
R = 3
ALPHAS = [0.01, 0.3, 20.0]
TASK_ALPHAS = [0.1, 5.0]


@pytest.fixture(scope="module")
def client():
    with (
        cluster.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as workers,
        cluster.Client(workers) as client,
    ):
        yield client


@pytest.fixture
def threads():
    with dask.config.set(scheduler="threads"):
        yield


@pytest.fixture(scope="module")
def data():
    rng = default_rng(0)
    X = rng.normal(size=(M, P)) * (rng.random((M, P)) < 0.6)
    return X, rng.normal(size=(M, Q)), rng.normal(size=(Q, R))


def dense(matrix, *chunks):
    return da.from_array(matrix, chunks=chunks)


def as_csr(matrix, *chunks):
    return da.from_array(matrix, chunks=chunks).map_blocks(
        sparse.csr_array, meta=sparse.csr_array((0, 0))
    )


BLOCKS = {
    "dense": lambda X, Y: (dense(X, 40, P), dense(Y, 40, Q)),
    "sparse": lambda X, Y: (as_csr(X, 40, P), as_csr(Y, 40, Q)),
    "other sparse blocks of Y": lambda X, Y: (as_csr(X, 40, 4), as_csr(Y, 33, 3)),
    "empty blocks": lambda X, Y: (dense(X, (0, 50, 0, 40), P), dense(Y, (0, 50, 0, 40), Q)),
}


@pytest.fixture(params=[*BLOCKS, pytest.param("processes", marks=pytest.mark.slow)])
def blocks(request, data):
    if request.param == "processes":
        request.getfixturevalue("client")
        yield BLOCKS["sparse"](*data[:2])
    else:  # much quicker, and the shapes are what matters
        with dask.config.set(scheduler="threads"):
            yield BLOCKS[request.param](*data[:2])


def test_fit_and_predict_equal_the_local_models(each, data, blocks):
    X, Y, T = data
    for fit_intercept in each([True, False]):
        batch = TwoStepRidge(0.3, 0.2, fit_intercept=fit_intercept).fit(X, Y, T)
        options = {"fit_intercept": fit_intercept}
        model = distributed.fit(OnlineTwoStepRidge(0.3, 0.2, **options), *blocks, tasks=T)
        local = OnlineTwoStepRidge(0.3, 0.2, **options).fit(X, Y, T)
        assert (model.n_seen_, model.n_tasks_) == (M, Q)
        assert_allclose(model.coef_, local.coef_, rtol=1e-10, atol=1e-12)
        assert_allclose(model.intercept_, local.intercept_, rtol=1e-10, atol=1e-12)
        assert_allclose(model.predict(X), batch.predict(X), rtol=1e-10, atol=1e-12)
        predicted = distributed.predict(model, blocks[0])
        zero_shot = distributed.predict(model, blocks[0], T[:2])
        assert (predicted.shape, predicted.chunks[0]) == (
            (M, Q),
            tuple(filter(None, blocks[0].chunks[0])),
        )
        assert_allclose(predicted.compute(), batch.predict(X), rtol=1e-10, atol=1e-12)
        assert_allclose(zero_shot.compute(), batch.predict(X, T[:2]), rtol=1e-10, atol=1e-12)


@pytest.fixture(scope="module")
def held_out_locally(data):
    """Return what the local model predicts and scores, for each setting with and without a constant."""
    X, Y, T = data
    found = {}
    for fit_intercept, settings in ((True, "ABCD"), (False, "BD")):
        batch = TwoStepRidge(0.3, 0.2, fit_intercept=fit_intercept).fit(X, Y, T)
        for setting in settings:
            held_out = batch.set_alpha(0.3, 0.2).holdout(setting)
            scores = [
                [
                    -np.mean((batch.set_alpha(alpha, other).holdout(setting) - Y) ** 2)
                    for other in TASK_ALPHAS
                ]
                for alpha in ALPHAS
            ]
            found[setting, fit_intercept] = held_out, scores
    return found


def test_holdout_and_landscape_equal_the_local_models(
    each, data, blocks, held_out_locally, request
):
    _, _, T = data
    # Settings do not depend on the form of the blocks: each form meets a third of them.
    first = [*BLOCKS, "processes"].index(request.node.callspec.params["blocks"]) % 3
    models = {
        fit_intercept: distributed.fit(
            OnlineTwoStepRidge(0.3, 0.2, fit_intercept=fit_intercept), *blocks, tasks=T
        )
        for fit_intercept in (True, False)
    }
    for setting, fit_intercept in each(list(held_out_locally)[first::3]):
        model = models[fit_intercept]
        held_out = distributed.holdout(model, *blocks, setting)
        assert held_out.chunks == (tuple(filter(None, blocks[0].chunks[0])), (Q,))
        predictions, expected = held_out_locally[setting, fit_intercept]
        assert_allclose(held_out.compute(), predictions, rtol=1e-10, atol=1e-11)
        scores = distributed.landscape(model, *blocks, ALPHAS, TASK_ALPHAS, setting=setting)
        assert_allclose(scores, expected, rtol=1e-10)


def test_a_regularisation_that_interpolates_has_no_score(threads, data):
    X, Y, T = data
    # row 0 alone has the last feature
    X = np.column_stack([X, np.arange(M) == 0])
    blocks = dense(X, 40, P + 1), dense(Y, 40, Q)
    model = distributed.fit(OnlineTwoStepRidge(0.3, 0.2), *blocks, tasks=T)
    local = OnlineTwoStepRidge(0.3, 0.2).fit(X, Y, T)
    with pytest.warns(UndefinedScoreWarning, match="no score for alpha 0,"):
        found = distributed.tune(model, *blocks, [0.0, 0.3], TASK_ALPHAS)
    with pytest.warns(UndefinedScoreWarning, match="no score for alpha 0,"):
        expected = local.landscape(X, Y, [0.0, 0.3], TASK_ALPHAS)
    tuned = local.tune(X, Y, [0.3], TASK_ALPHAS)
    assert (found.alpha, found.task_alpha) == (0.3, tuned.task_alpha)
    assert_allclose(found.landscape_, expected, rtol=1e-10)
    assert_allclose(found.coef_, tuned.coef_, rtol=1e-10, atol=1e-12)
    with pytest.raises(LeverageError, match="In the block that begins with row 0"):
        distributed.tune(model, *blocks, [0.0], TASK_ALPHAS)


@over(lines("kind is_vector", (as_csr, False), (dense, True)))
def test_independent_tasks_and_a_vector_of_labels(threads, data, kind, is_vector):
    X, Y, _ = data
    Y = Y[:, 0] if is_vector else Y
    rows = kind(X, 40, P)
    labels = da.from_array(Y, chunks=40) if is_vector else kind(Y, 40, Q)
    model = distributed.fit(OnlineTwoStepRidge(0.3), rows, labels)
    local = IndependentTaskRidge(0.3).fit(X, Y)
    for ours, theirs in (
        (distributed.predict(model, rows), local.predict(X)),
        (distributed.holdout(model, rows, labels), local.holdout("B")),
    ):
        assert ours.shape == Y.shape
        assert_allclose(ours.compute(), theirs, rtol=1e-10, atol=1e-12)
    scores = distributed.landscape(model, rows, labels, ALPHAS)
    expected = [-np.mean((local.set_alpha(alpha).holdout("B") - Y) ** 2) for alpha in ALPHAS]
    assert_allclose(scores, expected, rtol=1e-10)


def test_a_feature_map_is_fitted_on_rows_of_all_blocks(threads, data, monkeypatch):
    X, Y, T = data
    monkeypatch.setattr(distributed, "SAMPLE", 9)
    feature_map = Nystroem(kernel="rbf", gamma=0.1, n_components=4, random_state=0)
    model = distributed.fit(
        OnlineTwoStepRidge(feature_map=feature_map), dense(X, 40, P), dense(Y, 40, Q), T
    )
    assert_array_equal(
        model.feature_map_.component_indices_, feature_map.fit(X[::10]).component_indices_
    )
    assert_array_equal(model.feature_map_.components_, feature_map.components_)
    local = OnlineTwoStepRidge(feature_map=feature_map).fit(X, Y, T)
    assert_allclose(model.predict(X), local.predict(X), rtol=1e-10, atol=1e-12)


def test_nothing_with_a_side_of_m_comes_to_the_caller(data, monkeypatch):
    rng = default_rng(0)
    m = 4_000
    X = rng.normal(size=(m, P))
    Y = rng.normal(size=(m, Q))
    T = data[2]
    come = []
    computed = distributed._computed

    def watched(values):
        found = computed(values)
        come.extend(found)
        return found

    monkeypatch.setattr(distributed, "_computed", watched)
    with dask.config.set(scheduler="threads"):
        blocks = dense(X, 500, P), dense(Y, 500, Q)
        model = distributed.fit(OnlineTwoStepRidge(), *blocks, tasks=T)
        distributed.landscape(model, *blocks, ALPHAS, TASK_ALPHAS, setting="B")
        distributed.landscape(model, *blocks, ALPHAS, TASK_ALPHAS, setting="D")
        distributed.predict(model, blocks[0])
        distributed.holdout(model, *blocks, "B")
    assert come
    for found in come:
        arrays = [
            part
            for part in getattr(found, "__dict__", {"": found}).values()
            if isinstance(part, np.ndarray)
        ]
        assert arrays
        assert max(part.size for part in arrays) <= max(P, Q) ** 2


def test_answers_wait_until_they_are_asked_for(data):
    X, Y, T = data

    def broken(block):
        raise RuntimeError("this block was asked for")

    with dask.config.set(scheduler="threads"):
        model = distributed.fit(OnlineTwoStepRidge(), dense(X, 40, P), dense(Y, 40, Q), T)
        rows = dense(X, 40, P).map_blocks(broken, dtype=X.dtype, meta=np.empty((0, 0)))
        lazy = distributed.predict(model, rows), distributed.holdout(model, rows, dense(Y, 40, Q))
        for answer in lazy:
            with pytest.raises(RuntimeError, match="was asked for"):
                answer.compute()


# Bad input ---------------------------------------------------------------------------------------


def refused(data, match, error=ValueError, *, model=None, X=None, Y=None, tasks=None):
    model = OnlineTwoStepRidge() if model is None else model
    X = dense(data[0], 40, P) if X is None else X
    Y = dense(data[1], 40, Q) if Y is None else Y
    with pytest.raises(error, match=match):
        distributed.fit(model, X, Y, data[2] if tasks is None else tasks)


def with_nan(array, row, value=np.nan):
    """Return the array with a value in the second column of a row."""
    changed = array.copy()
    changed[row, 1] = value
    return changed


@pytest.mark.usefixtures("threads")
@over(
    lines(
        "change error sentence",
        (lambda X, Y, T: {"X": X}, TypeError, "X must be a dask array, found ndarray"),
        (
            lambda X, Y, T: {"X": dense(X[:, 0], 40)},
            ValueError,
            r"X must be a matrix with rows and columns, found shape \(90,\)",
        ),
        (
            lambda X, Y, T: {"Y": dense(Y[:, :, None], 40, Q, 1)},
            ValueError,
            "y must have one or two dimensions and labels, found shape",
        ),
        (
            lambda X, Y, T: {"X": dense(X[:-1], 40, P)},
            ValueError,
            "X has 89 instances, but Y has 90 rows",
        ),
        (lambda X, Y, T: {"tasks": T[:-1]}, ValueError, "tasks has 7 rows, but Y has 8 columns"),
        (
            lambda X, Y, T: {"X": dense(X, 40, P)[dense(X, 40, P)[:, 0] > 0]},
            ValueError,
            r"X has chunks of unknown size: call its compute_chunk_sizes\(\)",
        ),
        (
            lambda X, Y, T: {"X": as_csr(with_nan(X, 47), 40, P)},
            ValueError,
            "In the block that begins with row 40: Input X contains NaN",
        ),
        (
            lambda X, Y, T: {"Y": dense(with_nan(Y, 84, np.inf), 40, Q)},
            ValueError,
            "In the block that begins with row 80: Input Y contains infinity",
        ),
        (
            lambda X, Y, T: {"Y": dense(with_nan(Y, 0), 40, Q)},
            ValueError,
            "on a cluster every label must be observed",
        ),
        (
            lambda X, Y, T: {"model": OnlineTwoStepRidge(keep_labels=True)},
            ValueError,
            "keep_labels=True would gather all rows",
        ),
        (
            lambda X, Y, T: {"model": TwoStepRidgeCV()},
            TypeError,
            "model must be an OnlineTwoStepRidge, found TwoStepRidgeCV",
        ),
    )
)
def test_what_is_refused(data, change, error, sentence):
    refused(data, sentence, error, **change(*data))


def masked(X, row, value):
    """Return a dask array with a value in all columns of a row."""
    return da.where(da.arange(M, chunks=40)[:, None] == row, value, X)


@pytest.mark.usefixtures("threads")
@over(
    lines(
        "ask sentence",
        (
            lambda model, X, Y, T: distributed.predict(model, X[:, :5]),
            "X has 5 features, but OnlineTwoStepRidge is expecting 6",
        ),
        (
            lambda model, X, Y, T: distributed.predict(model, masked(X, 47, np.nan)).compute(),
            "In the block that begins with row 40: Input X contains NaN",
        ),
        (lambda model, X, Y, T: distributed.predict(model, X, T), "knows nothing of tasks"),
        (
            lambda model, X, Y, T: distributed.holdout(model, X, Y, "D"),
            "Setting D has new tasks, which a model without features",
        ),
        (lambda model, X, Y, T: distributed.landscape(model, X, Y, []), "alphas is empty"),
        (
            lambda model, X, Y, T: distributed.holdout(model, masked(X, 3, 100.0), Y).compute(),
            "X holds instances that the model has not learned, among them row 3",
        ),
    )
)
def test_a_fitted_model_refuses_what_does_not_fit_it(data, ask, sentence):
    X, Y, T = data
    rows = dense(X, 40, P)
    labels = dense(Y, 40, Q)
    model = distributed.fit(OnlineTwoStepRidge(), rows, labels)
    with pytest.raises((TypeError, ValueError), match=sentence):
        ask(model, rows, labels, T)


@pytest.mark.usefixtures("threads")
def test_leverage_one_is_refused(data):
    X = np.zeros((M, P))
    Y = data[1]
    X[50, 0] = 1.0
    blocks = dense(X, 40, P), dense(Y, 40, Q)
    model = distributed.fit(OnlineTwoStepRidge(alpha=0.0), *blocks)
    with pytest.raises(
        LeverageError, match=r"begins with row 40: 1 of 40 rows have leverage 1 \(positions 10\)"
    ):
        distributed.holdout(model, *blocks).compute()
    with pytest.raises(LeverageError, match="begins with row 40: 1 of 40 rows"):
        distributed.landscape(model, *blocks, [0.0])
