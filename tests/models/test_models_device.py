"""Models that compute arrays of numpy on a device: the same answers, of numpy."""

import contextlib
import importlib.util
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import dyadlearn._array as array_module
import problems
from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    KroneckerRidge,
    KroneckerRidgeCV,
    OnlineTwoStepRidge,
    PairKernelRidge,
    PairKernelRidgeCV,
    TwoStepRidge,
    TwoStepRidgeCV,
    landscape,
    load,
    save,
)

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(
    not HAS_TORCH, reason="torch is not installed: its arrays are not tested"
)

X, Y, T = problems.data(7, 5, 3, 2, noise=0.1)
rng = default_rng(1)
HOLES = problems.with_holes(Y, 0.3)
GRIDS = {"alphas": [0.1, 10.0], "progress": False}

MODELS = [
    (IndependentTaskRidge, {}),
    (TwoStepRidge, {"task_alpha": 0.1}),
    (KroneckerRidge, {"kernel": "rbf", "task_kernel": "rbf"}),
    (PairKernelRidge, {"product": 0.5, "per_task": 0.5}),
    (IndependentTaskRidgeCV, GRIDS),
    (TwoStepRidgeCV, {**GRIDS, "task_alphas": [0.1], "setting": "D"}),
    (KroneckerRidgeCV, {**GRIDS, "setting": "A"}),
    (PairKernelRidgeCV, GRIDS),
]


def answers(model):
    """Return all that a fitted model is asked."""
    knows_tasks = not isinstance(model, IndependentTaskRidge | IndependentTaskRidgeCV)
    tasks = {"tasks": T[:4]} if knows_tasks else {}
    found = {
        "predict": model.predict(X[:5], **tasks),
        "training": model.predict(),
        "pairs": model.predict_pairs(X[:5], tasks.get("tasks"), [(0, 1), (3, 2)]),
        "holdout": model.holdout("B"),
        "completed": model.completed_,
        "dual": model.dual_coef_,
        "intercept": model.intercept_,
        "score": model.score(X, Y),
    }
    found["lower"], found["upper"] = model.predict_interval(X[:5], coverage=0.7)
    if knows_tasks:
        found["main effects"] = model.task_coef_
    if model.searches:
        found["kept"] = model.holdout_
    return found


@needs_torch
@pytest.mark.parametrize(
    ("kind", "options", "labels"),
    [
        *((*model, Y) for model in MODELS[2:4] + MODELS[7:]),
        *((*model, HOLES) for model in MODELS[:2] + MODELS[4:7:2]),
    ],
)
@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_answers_are_those_of_numpy(kind, options, labels):
    tasks = None if issubclass(kind, IndependentTaskRidge | IndependentTaskRidgeCV) else T
    if labels is HOLES and kind in (TwoStepRidgeCV, PairKernelRidgeCV):  # others have a shortcut
        options = {**options, "cv": 2}
    here = kind(**options).fit(X, labels, tasks)
    there = kind(**options, device="cpu").fit(X, labels, tasks)
    assert array_module.library(there.fitted_.coefficients) == "torch"
    for (name, expected), found in zip(answers(here).items(), answers(there).values(), strict=True):
        assert isinstance(found, (float, np.ndarray)), name
        assert_allclose(found, expected, rtol=1e-6, atol=1e-7, err_msg=name)
    grids = {"alphas": [0.1, 1.0], "task_alphas": [1.0], "setting": "B"}
    assert_allclose(landscape(there, **grids)["B"], landscape(here, **grids)["B"], rtol=1e-5)


@needs_torch
def test_a_file_opens_where_there_is_no_device(tmp_path, monkeypatch):
    model = KroneckerRidge(kernel="rbf", task_kernel="rbf", device="cpu").fit(X, Y, T)
    save(model, tmp_path / "model.dyad")
    expected = model.predict(X, T)
    monkeypatch.setattr(array_module, "find_spec", lambda name: None)
    opened = load(tmp_path / "model.dyad")
    assert opened.device == "cpu"
    assert array_module.library(opened.fitted_.coefficients) == "numpy"
    assert_allclose(opened.predict(X, T), expected, rtol=1e-10)
    assert_allclose(
        opened.set_alpha(2.0).holdout("D"), model.set_alpha(2.0).holdout("D"), rtol=1e-8
    )
    with pytest.raises(
        ImportError, match="device='cpu' needs torch or cupy, neither of which is installed"
    ):
        opened.fit(X, Y, T)


@needs_torch
def test_what_cannot_be_moved_is_refused():
    import torch

    model = IndependentTaskRidge(device="cpu")
    with pytest.raises(ValueError, match="device='cpu' is for numpy arrays: move X to the device"):
        model.fit(torch.asarray(X), torch.asarray(Y))
    with pytest.raises(TypeError, match="takes dense arrays, found X sparse"):
        model.fit(sparse.csr_array(X), Y)
    for device in ("nonsense", *([] if torch.cuda.is_available() else ["cuda"])):
        with pytest.raises(ValueError, match=f"torch cannot compute on device='{device}' here: "):
            IndependentTaskRidge(device=device).fit(X, Y)


def test_a_device_is_a_name():
    with pytest.raises(TypeError, match='name of a device such as "cuda", or None, found 3'):
        IndependentTaskRidge(device=3).fit(X, Y)


def test_without_libraries(monkeypatch):
    monkeypatch.setattr(array_module, "find_spec", lambda name: None)
    with pytest.raises(
        ImportError, match="device='cuda' needs torch or cupy, neither of which is installed"
    ):
        IndependentTaskRidge(device="cuda").fit(X, Y)
    IndependentTaskRidge().fit(X, Y)


def test_cupy_without_torch_takes_devices_of_cuda(monkeypatch):
    chosen = []
    cuda = SimpleNamespace(Device=lambda number: chosen.append(number) or contextlib.nullcontext())
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda, asarray=np.asarray))
    monkeypatch.setattr(array_module, "find_spec", lambda name: name == "cupy" or None)
    assert_array_equal(array_module.on_device(X, "cuda:1"), X)
    assert_array_equal(array_module.on_device(X, "cuda"), X)
    assert chosen == [1, 0]
    with pytest.raises(
        ValueError,
        match="cupy cannot compute on device='cpu' here: cupy knows devices such as 'cuda'",
    ):
        array_module.on_device(X, "cpu")


@pytest.mark.parametrize("Model", [TwoStepRidge, OnlineTwoStepRidge])
def test_a_device_without_double_precision_gets_one_sentence(Model):
    strict = pytest.importorskip(
        "array_api_strict", minversion="2.5", reason="no device without float64"
    )
    device = strict.Device("no_float64")
    rng = default_rng(0)
    X, T, Y = (
        strict.asarray(
            rng.normal(size=shape).astype(np.float32), dtype=strict.float32, device=device
        )
        for shape in ((8, 3), (5, 2), (8, 5))
    )
    message = r"^Models compute in double precision, which the device .*no_float64.* does not have: move the arrays to"
    with pytest.raises(TypeError, match=message):
        Model().fit(X, Y, T)
