"""Graphs of ONNX predict what the models do that they were made of, in another program."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import dyadlearn
from dyadlearn import (
    CanonicalProjection,
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    KroneckerRidge,
    KroneckerRidgeCV,
    Landmarks,
    LearnedKernelRidge,
    OnlineTwoStepRidge,
    PairKernelRidge,
    PairRegressor,
    TwoStepRegressor,
    TwoStepRidge,
    TwoStepRidgeCV,
)
from dyadlearn.exceptions import GridEdgeWarning, KernelRepairWarning
from dyadlearn.exchange import to_onnx
from dyadlearn.filters import SpectralCutoff
from dyadlearn.kernels import Product, Sum, kernel_names

onnxruntime = pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")


class Data:
    """Instances, tasks and labels of training, and as many new ones; all features are at least zero."""

    def __init__(self, m=14, q=9, d=3, e=2, seed=0):
        rng = np.random.default_rng(seed)
        self.X, self.T = rng.uniform(0, 2, size=(m, d)), rng.uniform(0, 2, size=(q, e))
        self.new, self.new_tasks = rng.uniform(0, 2, size=(5, d)), rng.uniform(0, 2, size=(4, e))
        self.Y = np.sin(self.X @ rng.normal(size=(d, e))) @ self.T.T + rng.normal(size=(m, q))

    def fit(self, model):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GridEdgeWarning)
            warnings.simplefilter("ignore", KernelRepairWarning)
            return model.fit(self.X, self.Y, tasks=self.T)


def run(graph, **inputs):
    [name] = [each.name for each in graph.graph.output]
    assert name == "predictions"
    return onnxruntime.InferenceSession(graph.SerializeToString()).run([name], inputs)[0]


def check(model, data, tolerance=1e-10):
    """Compare both graphs of a model that knows tasks with its predictions."""
    wanted = model.predict(data.new, tasks=data.new_tasks)
    found = run(to_onnx(model), X=data.new, tasks=data.new_tasks)
    assert found.dtype == wanted.dtype
    assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max())
    check_training(model, data, tolerance)


def check_training(model, data, tolerance=1e-10):
    wanted = model.predict(data.new)
    found = run(to_onnx(model, tasks="training"), X=data.new)
    assert found.shape == wanted.shape
    assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max())


@pytest.mark.parametrize("kernel", kernel_names())
def test_every_kernel_with_a_name(kernel):
    data = Data()
    data.new[0], data.new_tasks[1] = 0.0, data.T[3]
    for kind in (TwoStepRidge, KroneckerRidge):
        check(data.fit(kind(kernel=kernel, task_kernel=kernel)), data)


RBF = {"gamma": 0.7}
MODELS = {
    "two-step, wide": (TwoStepRidge(1e-3, 1e3, kernel="rbf", task_kernel="poly"), (6, 15, 3, 2)),
    "two-step, tall": (TwoStepRidge(1e3, 1e-3, kernel="rbf", task_kernel="linear", kernel_params=RBF), (15, 6, 3, 2)),
    "more features than rows": (TwoStepRidge(0.1, 0.1), (6, 5, 12, 9)),
    "primal beside dual": (TwoStepRidge(0.1, 0.1), (12, 5, 3, 9)),
    "dual beside primal": (TwoStepRidge(0.1, 0.1, fit_intercept=False), (5, 12, 9, 3)),
    "without a constant": (TwoStepRidge(kernel="rbf", task_kernel="tanimoto", fit_intercept=False), (9, 7, 3, 2)),
    "other filters": (TwoStepRidge(0.5, 0.5, filter=SpectralCutoff(), task_kernel="rbf"), (9, 7, 3, 2)),
    "one feature": (TwoStepRidge(kernel=Sum([("linear", None)], [0.3]), task_kernel="linear"), (9, 7, 1, 1)),
    "Kronecker": (KroneckerRidge(0.1, kernel="rbf", task_kernel="rbf"), (9, 7, 3, 2)),
    "Kronecker, least squares": (KroneckerRidge(0.0), (9, 7, 3, 2)),
    "Kronecker, dual": (KroneckerRidge(0.1, fit_intercept=False), (5, 4, 8, 9)),
    "sums and products": (
        TwoStepRidge(
            kernel=Sum(["linear", ("rbf", RBF)], [0.3, 1.7]),
            task_kernel=Product(["linear", Sum(["rbf", "tanimoto"])], [2, 1]),
        ),
        (9, 7, 3, 2),
    ),
    "pair kernel": (
        PairKernelRidge(0.5, per_task=0.3, per_instance=0.2, kernel="rbf", task_kernel="rbf"),
        (9, 7, 3, 2),
    ),
    "pair kernel, no constant": (PairKernelRidge(0.5, per_task=0.3, fit_intercept=False), (9, 7, 3, 2)),
    "nothing shared": (PairKernelRidge(0.5, product=0.0, per_task=1.0, per_instance=0.2, kernel="rbf"), (9, 7, 3, 2)),
    "nothing of new instances": (
        PairKernelRidge(0.5, product=0.0, per_instance=0.2, task_kernel="linear"),
        (9, 7, 3, 2),
    ),
    "two-step, searched": (TwoStepRidgeCV(setting="D", kernel="rbf"), (9, 7, 3, 2)),
    "Kronecker, searched": (KroneckerRidgeCV(setting="B", task_kernel="rbf"), (9, 7, 3, 2)),
    "learned": (LearnedKernelRidge(setting="B", n_steps=3, kernel="rbf", task_kernel="linear"), (9, 7, 3, 2)),
    "learned, scaled": (LearnedKernelRidge(setting="C", n_steps=3, normalize=False, task_kernel="poly"), (9, 7, 3, 2)),
    "online": (OnlineTwoStepRidge(0.1, 0.2), (9, 7, 3, 2)),
    "online, no constant": (OnlineTwoStepRidge(0.1, 0.2, fit_intercept=False), (9, 7, 3, 2)),
    "online, mapped": (
        OnlineTwoStepRidge(feature_map=Landmarks(6, random_state=0), task_feature_map=StandardScaler()),
        (9, 7, 3, 2),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_of_pairs(name):
    model, shape = MODELS[name]
    data = Data(*shape)
    check(data.fit(model), data)


@pytest.mark.parametrize(
    "model",
    [
        IndependentTaskRidge(0.1, kernel="rbf"),
        IndependentTaskRidge(0.1, fit_intercept=False),
        IndependentTaskRidgeCV(kernel="poly"),
        TwoStepRidge(kernel="rbf"),
        LearnedKernelRidge(setting="B", n_steps=3),
        OnlineTwoStepRidge(feature_map=CanonicalProjection(2, intercept=True, random_state=0)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_models_that_know_nothing_of_tasks(model):
    data = Data()
    data.T = None
    fitted = data.fit(model)
    assert [each.name for each in to_onnx(fitted).graph.input] == ["X"]
    check_training(fitted, data)
    with pytest.raises(ValueError, match="nothing of new tasks"):
        to_onnx(fitted, tasks="new")


def test_one_column_of_labels_has_one_dimension():
    data = Data()
    check_training(IndependentTaskRidge(kernel="rbf").fit(data.X, data.Y[:, 0]), data)


def test_large_offsets_of_features_cost_no_digits():
    data = Data()
    for rows in (data.X, data.new, data.T, data.new_tasks):
        rows += 1e6
    for model in (TwoStepRidge(0.1, 0.1), OnlineTwoStepRidge(0.1, 0.1)):
        check(data.fit(model), data)


@pytest.mark.parametrize("kernel", ["rbf", "tanimoto"])
def test_rows_whose_length_overflows(kernel):
    data = Data()
    for name in ("X", "T", "Y"):
        setattr(data, name, getattr(data, name).astype(np.float32))
    model = data.fit(LearnedKernelRidge(setting="B", n_steps=2, kernel="rbf", task_kernel=kernel))
    data.new = np.array([[1e25, 0.0, 0.0], [1e15, 1.0, 1.0]], dtype=np.float32)
    check_training(model, data, 1e-4)


@pytest.mark.parametrize("kernel", ["linear", "cosine", "poly"])
def test_new_rows_that_are_like_none_of_training(kernel):
    # A kernel that has powers, as it is never negative in training, is nothing where it would be; zeros have no length.
    data = Data()
    model = data.fit(LearnedKernelRidge(setting="D", n_steps=5, kernel=kernel, task_kernel="rbf"))
    [member] = model._kernel.members
    assert member.has_exponent
    data.new = np.concatenate([-data.new[:2], np.zeros((1, 3)), data.new * [1, -1, 1]])
    check(model, data)


def test_rows_of_training_and_single_rows():
    data = Data()
    model = data.fit(TwoStepRidge(1e-4, 1e-4, kernel="rbf", task_kernel="rbf"))
    data.new, data.new_tasks = data.X, data.T[:1]
    check(model, data, 1e-9)


def test_labels_with_holes_and_observed_pairs():
    data, rng = Data(m=12, q=8), np.random.default_rng(1)
    data.Y[rng.random(data.Y.shape) < 0.4] = np.nan
    check(data.fit(TwoStepRidge(kernel="rbf")), data)
    check(data.fit(OnlineTwoStepRidge()), data)
    rows, columns = np.nonzero(~np.isnan(data.Y))
    listed = sparse.csr_array((data.Y[rows, columns], (rows, columns)), shape=data.Y.shape)
    for model in (KroneckerRidge(0.3, tol=1e-12), TwoStepRidge(0.3, 0.3)):
        check(model.fit(data.X, listed, tasks=data.T), data)


def test_models_of_observed_pairs_alone():
    rng = np.random.default_rng(0)
    data = Data(m=1500, q=1200)
    rows, columns = rng.integers(1500, size=4000), rng.integers(1200, size=4000)
    labels = sparse.csr_array((rng.normal(size=4000), (rows, columns)), shape=(1500, 1200))
    model = KroneckerRidge(0.3).fit(data.X, labels, tasks=data.T)
    assert model._is_listed
    check(model, data)


def test_sparse_features():
    data = Data(m=12, q=8, d=5)
    data.X[data.X < 1] = 0.0
    dense = data.X
    data.X = sparse.csr_array(dense)
    for kernel in ("linear", "rbf"):
        check(data.fit(TwoStepRidge(0.1, kernel=kernel)), data)
        data.X = sparse.csr_array(dense[:4])
        data.Y = data.Y[:4]


@pytest.mark.parametrize("symmetry", ["symmetric", "antisymmetric"])
def test_networks(symmetry):
    data = Data(m=9, q=9, e=3)
    data.Y = data.Y + data.Y.T if symmetry == "symmetric" else data.Y - data.Y.T
    for kind in (TwoStepRidge, KroneckerRidge):
        check(kind(kernel="rbf", symmetry=symmetry).fit(data.X, data.Y), data)


def test_landmarks_on_both_sides_and_pipelines():
    data = Data(m=40, q=30)
    marks, task_marks = Landmarks(12, random_state=0), Landmarks(6, kernel="laplacian", random_state=0)
    Phi, Psi = marks.fit_transform(data.X), task_marks.fit_transform(data.T)
    model = TwoStepRidge(0.1, 0.1).fit(Phi, data.Y, tasks=Psi)
    wanted = model.predict(marks.transform(data.new), tasks=task_marks.transform(data.new_tasks))
    graph = to_onnx(model, feature_map=marks, task_feature_map=task_marks)
    assert_allclose(run(graph, X=data.new, tasks=data.new_tasks), wanted, rtol=1e-9, atol=1e-10)

    steps = StandardScaler(), Landmarks(12, random_state=0), IndependentTaskRidge(0.1)
    pipeline = make_pipeline("passthrough", *steps).fit(data.X, data.Y)
    assert_allclose(run(to_onnx(pipeline), X=data.new), pipeline.predict(data.new), rtol=1e-9, atol=1e-10)
    alone = make_pipeline(TwoStepRidge(kernel="rbf")).fit(data.X, data.Y)
    assert_allclose(run(to_onnx(alone), X=data.new), alone.predict(data.new), rtol=1e-10, atol=1e-10)


def test_scaling_of_a_single_feature_keeps_its_digits():
    # onnxruntime would take a single factor into the product that follows, in single precision.
    data = Data(d=1)
    pipeline = make_pipeline(StandardScaler(), IndependentTaskRidge(0.1, fit_intercept=False)).fit(data.X, data.Y)
    assert_allclose(run(to_onnx(pipeline), X=data.new), pipeline.predict(data.new), rtol=1e-12)


def test_several_descriptions_of_a_side():
    data = Data()
    more = np.random.default_rng(2).normal(size=(14, 4))
    given, new = {"shape": data.X, "other one": more}, {"shape": data.new, "other one": more[:5] + 0.1}
    kernels = {"shape": "tanimoto", "other one": "linear"}
    model = LearnedKernelRidge(setting="B", n_steps=3, kernel=kernels, task_kernel="cosine")
    model.fit(given, data.Y, tasks=data.T)
    graph = to_onnx(model)
    inputs = {"X.shape": new["shape"], "X.other one": new["other one"], "tasks": data.new_tasks}
    assert [each.name for each in graph.graph.input] == list(inputs)
    assert_allclose(run(graph, **inputs), model.predict(new, tasks=data.new_tasks), rtol=1e-9, atol=1e-10)


def test_pairs_row_by_row():
    data = Data()
    rows, columns = np.nonzero(np.ones(data.Y.shape))
    pairs = np.stack([rows, columns], axis=1)
    model = PairRegressor(TwoStepRidge(kernel="rbf"), instances=data.X, tasks=data.T).fit(pairs, data.Y.ravel())
    found = run(to_onnx(model), X=data.X[rows], tasks=data.T[columns])
    assert_allclose(found, model.predict(pairs), rtol=1e-10, atol=1e-10)
    grid = run(to_onnx(model, pairs=False), X=data.X, tasks=data.T)
    assert_allclose(grid.ravel(), found, rtol=1e-10, atol=1e-10)
    alone = PairRegressor(IndependentTaskRidge(), instances=data.X).fit(pairs, data.Y.ravel())
    assert_allclose(run(to_onnx(alone), X=data.X).ravel(), alone.predict(pairs), rtol=1e-10, atol=1e-10)
    # A pipeline of it alone is the same; what would come before it are pairs of ids, and no features.
    again = run(to_onnx(make_pipeline("passthrough", model)), X=data.X[rows], tasks=data.T[columns])
    assert_allclose(again, found, rtol=1e-12)
    with pytest.raises(ValueError, match="takes pairs of ids"):
        to_onnx(make_pipeline(StandardScaler().fit(pairs), model))
    knowing = PairRegressor(PairKernelRidge(per_task=1.0), instances=data.X, tasks=data.T)
    with pytest.raises(ValueError, match="by more than their features"):
        to_onnx(knowing.fit(pairs, data.Y.ravel()))


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "tanimoto"])
def test_single_precision(kernel):
    data = Data()
    model = data.fit(TwoStepRidge(0.1, 0.1, kernel=kernel, task_kernel=kernel))
    single = [rows.astype(np.float32) for rows in (data.new, data.new_tasks)]
    wanted = model.predict(data.new, tasks=data.new_tasks)
    found = run(to_onnx(model, dtype="float32"), X=single[0], tasks=single[1])
    assert found.dtype == np.float32
    assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())
    for name in ("X", "T", "Y", "new", "new_tasks"):
        setattr(data, name, getattr(data, name).astype(np.float32))
    check(data.fit(model), data, 1e-4)


def test_what_a_graph_tells_of_itself():
    pandas = pytest.importorskip("pandas")
    data = Data()
    ids = [f'task "{n}" | é' for n in range(9)]
    X, Y = pandas.DataFrame(data.X, columns=["a", "b", "c"]), pandas.DataFrame(data.Y, columns=ids)
    model = TwoStepRidge(0.25, 2.0, kernel="rbf").fit(X, Y, tasks=pandas.DataFrame(data.T, index=ids))
    graph = to_onnx(model, tasks="training")
    told = {each.key: each.value for each in graph.metadata_props}
    assert (graph.producer_name, graph.producer_version) == ("dyadlearn", dyadlearn.__version__)
    assert "TwoStepRidge" in graph.doc_string
    assert (told["model"], told["alpha"], told["task_alpha"]) == ("TwoStepRidge", "0.25", "2.0")
    assert json.loads(told["task_ids"]) == ids
    assert json.loads(told["feature_names"]) == ["a", "b", "c"]
    [output] = graph.graph.output
    assert [each.dim_value or each.dim_param for each in output.type.tensor_type.shape.dim] == ["n", 9]
    assert "task_ids" not in {each.key for each in to_onnx(model).metadata_props}
    listed = PairRegressor(IndependentTaskRidge(), instances=data.X).fit([(0, "x"), (1, "y")], [0.0, 1.0])
    told = {each.key: each.value for each in to_onnx(listed).metadata_props}
    assert json.loads(told["task_ids"]) == ["x", "y"]


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    data, path = Data(), tmp_path / "model.onnx"
    path.write_bytes(b"old")
    with pytest.raises(ValueError, match="computed beforehand"):
        to_onnx(TwoStepRidge(kernel="precomputed").fit(np.eye(14), data.Y, tasks=data.T), path)
    assert path.read_bytes() == b"old"
    model = data.fit(TwoStepRidge(kernel="rbf"))
    graph = to_onnx(model, path)
    assert path.read_bytes() == graph.SerializeToString()
    assert [each.name for each in tmp_path.iterdir()] == ["model.onnx"]
    onnx.checker.check_model(str(path), full_check=True)
    with pytest.raises(IsADirectoryError):
        to_onnx(model, tmp_path)


def own(A, B):
    return A @ B.T


def same(A, B):
    return np.array([[float(a == b) for b in B] for a in A])


def profiled(data):
    rng = np.random.default_rng(3)
    Y = np.tanh(rng.normal(size=(14, 2)) @ rng.normal(size=(2, 9)))
    model = LearnedKernelRidge(setting="A", stages=2, n_steps=5).fit(data.X, Y, tasks=data.T)
    assert model.n_stages_ == 2
    return model


REFUSED = {
    "precomputed": (lambda d: TwoStepRidge(kernel="precomputed").fit(np.eye(14), d.Y, tasks=d.T), "instances was comp"),
    "tasks": (lambda d: TwoStepRidge(task_kernel="precomputed").fit(d.X, d.Y, tasks=np.eye(9)), "tasks was computed"),
    "function": (lambda d: d.fit(TwoStepRidge(kernel=own)), "kernel own is a function of Python"),
    "profiles": (profiled, "profiles of their labels"),
    "transformer": (lambda d: make_pipeline(MinMaxScaler(), IndependentTaskRidge()).fit(d.X, d.Y), "MinMaxScaler"),
    "landmarks of a function": (
        lambda d: make_pipeline(Landmarks(3, kernel=own), IndependentTaskRidge()).fit(d.X, d.Y),
        "kernel own is a function of Python",
    ),
    "landmarks of texts": (
        lambda d: make_pipeline(Landmarks(3, kernel=same), IndependentTaskRidge()).fit(list("abcdefghijklmn"), d.Y),
        "made by Landmarks",
    ),
    "landmarks of a kernel": (
        lambda d: make_pipeline(Landmarks(3, kernel="precomputed"), IndependentTaskRidge()).fit(np.eye(14), d.Y),
        "instances was computed beforehand",
    ),
    "description": (
        lambda d: LearnedKernelRidge(setting="B", n_steps=2, kernel=["precomputed", "rbf"]).fit(
            [np.eye(14), d.X], d.Y, tasks=d.T
        ),
        "computed beforehand",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_such_form_is_refused(name):
    made, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        to_onnx(made(Data()))


def test_wrong_requests_are_refused():
    data = Data()
    model = data.fit(TwoStepRidge())
    for options, words in (
        ({"tasks": "old"}, "tasks must be"),
        ({"dtype": "float16"}, "dtype must be"),
        ({"tasks": "training", "pairs": True}, "those of training"),
        ({"tasks": "training", "task_feature_map": StandardScaler()}, "task_feature_map is for tasks"),
    ):
        with pytest.raises(ValueError, match=words):
            to_onnx(model, **options)
    # Of one column, subtracting would make three.
    for width, maps in (
        (1, StandardScaler().fit(data.X[:, :1])),
        (2, StandardScaler().fit(data.T)),
        (4, make_pipeline(StandardScaler(), Landmarks(4, random_state=0)).fit(data.X)),
    ):
        with pytest.raises(ValueError, match=f"instances come to {width} .* expects 3"):
            to_onnx(model, feature_map=maps)
    mapped = data.fit(OnlineTwoStepRidge(feature_map=Landmarks(6, random_state=0)))
    with pytest.raises(ValueError, match="come to 2 .* expects 3"):
        to_onnx(mapped, feature_map=StandardScaler().fit(data.T))
    with pytest.raises(TypeError, match="StandardScaler has no form in a graph"):
        to_onnx(StandardScaler().fit(data.X))
    with pytest.raises(TypeError, match="TwoStepRegressor has no form in a graph"):
        to_onnx(data.fit(TwoStepRegressor(LinearRegression(), LinearRegression())))
    with pytest.raises(ValueError, match="not fitted"):
        to_onnx(TwoStepRidge())


def test_more_numbers_than_a_file_can_hold_are_refused(monkeypatch):
    model = Data().fit(TwoStepRidge(kernel="rbf"))
    for most in (100, 500):  # the features of training, and those with the coefficients
        monkeypatch.setattr("dyadlearn.exchange._graph._MOST_BYTES", most)
        with pytest.raises(ValueError, match="more than 2 GiB of numbers"):
            to_onnx(model)
