"""A forged file, checksum and all, is refused before it costs memory, and with nothing but the one exception."""

import copy
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import problems
from dyadlearn import (
    KroneckerRidge,
    Landmarks,
    LearnedKernelRidge,
    OnlineTwoStepRidge,
    PairKernelRidgeCV,
    PairRegressor,
    TwoStepRidge,
)
from dyadlearn.exceptions import ModelFileError
from dyadlearn.kernels import Descriptions
from sweeps import lines, over

pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")

X, Y, T = problems.data(5, 3, 2, 2)


@contextmanager
def little_memory(more=2**28):
    """Allow this process that many bytes more than it has."""
    resource = pytest.importorskip("resource")
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("this system does not tell how much memory a process has")
    (now,) = [
        int(line.split()[1]) * 1024
        for line in status.read_text().splitlines()
        if line.startswith("VmSize")
    ]
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + more, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def side(header):
    return header["model"]["$TwoStepRidge"]["fitted_"]["$FittedRidge"]["sides"]["$tuple"][0][
        "$Side"
    ]


def spectrum_of(header, arrays, n_rows, features, components):
    """Give the spectrum rows that take no room in the file, and let the eigenvectors be made of them."""
    spectrum = side(header)["spectrum"]["$Spectrum"]
    spectrum |= {"n_rows": n_rows, "vectors": None, "features": features, "recomputed": True}
    spectrum["components"] = {"$array": "C"}
    arrays["fitted_.sides.0.spectrum.components"] = np.zeros(components)


def no_columns(n_rows):
    """The file allows 50 rows, but there are more eigenvalues than features."""

    def forged(header, arrays):
        spectrum_of(header, arrays, n_rows, {"$array": "C"}, (0, 2))
        arrays["fitted_.sides.0.spectrum.features"] = np.zeros((n_rows, 0))

    return forged


def by_columns(header, arrays):
    """Make the features sparse, in a form that keeps no room for rows."""
    parts = {name: {"$array": "C"} for name in ("data", "indices", "indptr")}
    matrix = {"$sparse": {"class": "csc_array", "shape": [2**40, 2], **parts}}
    spectrum_of(header, arrays, 2**40, matrix, (2, 2))
    for name, array in zip(parts, (np.zeros(0), np.zeros(0, int), np.zeros(3, int)), strict=True):
        arrays[f"fitted_.sides.0.spectrum.features.{name}"] = array


def no_coefficients(header, arrays):
    arrays["fitted_.coefficients"] = np.zeros((10**8, 0))


def folded(*value):
    def forged(header, arrays):
        fitted = header["model"]["$TwoStepRidge"]["fitted_"]["$FittedRidge"]
        fitted["folded"] = {"$tuple": [*value]}

    return forged


def parameter(value):
    def forged(header, arrays):
        header["model"]["$TwoStepRidge"]["parameters"]["alpha"] = value

    return forged


@over(
    lines(
        "change",
        no_columns(10**8),
        no_columns(50),
        by_columns,
        no_coefficients,
        folded(),
        folded(1, True),
        folded(True, True, True),
        parameter(
            {"$timestamp": ["2020-01-01", "ns", "Europe"]}
        ),  # the name of a folder of time zones
        parameter({"$numpy": ["a5", "x"]}),
        parameter({"$numpy": [[["a", "<f8"]], 1]}),
        parameter({"$numpy": ["<M8[99999999999Y]", 1]}),
        parameter("1.0"),
        parameter(-1.0),
        lambda header, arrays: header.update(model=["$array"]),
        lambda header, arrays: side(header)["spec"]["$KernelSpec"].update(kernel="precomputed"),
    )
)
def test_what_would_cost_memory_or_raise_something_else_is_refused(change, apart, forge):
    header, arrays = apart(TwoStepRidge().fit(X, Y, T))
    forge(header, arrays)
    change(header, arrays)
    with little_memory(), pytest.raises(ModelFileError, match=r"forged\.dyad") as caught:
        forge(header, arrays)
    assert "\n" not in str(caught.value)


def test_an_online_model_has_the_maps_that_its_parameters_name(apart, forge):
    for name in ("feature_map", "task_feature_map"):
        header, arrays = apart(OnlineTwoStepRidge().fit(X, Y, T))
        header["model"]["$OnlineTwoStepRidge"]["parameters"][name] = 7
        with pytest.raises(ModelFileError, match="do not fit together"):
            forge(header, arrays)


def test_what_a_solver_of_pairs_starts_from_fits_the_sides(monkeypatch, apart, forge):
    monkeypatch.setattr("dyadlearn.models.reading.prefers_pairs", lambda *_, **__: True)
    monkeypatch.setattr("dyadlearn.solve.observed.quickest", lambda *_: "pairs")
    pairs = sparse.coo_array(np.where(Y > 0, Y, 0.0))
    weights = sparse.coo_array((np.arange(1.0, pairs.nnz + 1), pairs.coords), shape=pairs.shape)
    for labels, given, name, shape in (
        (np.where(Y > 0, Y, np.nan), None, "fitted_.solved.solution.values", (1, 2)),
        (pairs, None, "fitted_.solved.spectral", (2, 1)),
        (pairs, weights, "fitted_.labels.weights", (1,)),
        (pairs, weights, "fitted_.labels.values", (1,)),
    ):
        model = TwoStepRidge().fit(X, labels, T, given)
        header, arrays = apart(model)
        found = forge(header, arrays).set_alpha(2.0).predict()
        np.testing.assert_array_equal(found, model.set_alpha(2.0).predict())
        assert name in arrays
        with pytest.raises(ModelFileError, match="do not fit together"):
            forge(header, {**arrays, name: np.zeros(shape)})


def test_cells_of_a_list_of_labels_are_in_order_and_within_the_grid(monkeypatch, apart, forge):
    monkeypatch.setattr("dyadlearn.models.reading.prefers_pairs", lambda *_, **__: True)
    model = TwoStepRidge().fit(X, sparse.coo_array(np.where(Y > 0, Y, 0.0)), T)
    header, arrays = apart(model)
    rows = arrays["fitted_.labels.cells.0"]
    for wrong in (rows[::-1], rows - 1, rows + 1):
        with pytest.raises(ModelFileError, match="do not fit together"):
            forge(header, {**arrays, "fitted_.labels.cells.0": np.ascontiguousarray(wrong)})


def test_an_error_quotes_no_more_of_a_file_than_can_be_read(apart, forge, each):
    long = 10**5 * "long\n"
    places = {
        "parameter": lambda model: model["parameters"].update({long: 1}),
        "attribute": lambda model: model.update({long: 1}),
        "class": lambda model: model.update(task_side={f"${long}": {}}),
        "dtype": lambda model: model["parameters"].update(alpha={"$numpy": [long, 1]}),
        "value": lambda model: model["parameters"].update(alpha=long),
    }
    for name in each(places):
        header, arrays = apart(TwoStepRidge().fit(X, Y, T))
        places[name](header["model"]["$TwoStepRidge"])
        with pytest.raises(ModelFileError, match=r"forged\.dyad cannot be read: ") as caught:
            forge(header, arrays)
        assert len(str(caught.value)) < 600
        assert "\n" not in str(caught.value)


def test_a_model_that_learnt_nothing_is_refused(apart, forge, each):
    described = LearnedKernelRidge(setting="A", n_steps=1).fit(
        Descriptions({"a": X, "b": X[:, :1]}), Y, T
    )
    for model in (TwoStepRidge().fit(X, Y, T), described):
        header, arrays = apart(model)
        wrong = [("fitted_.labels.values", np.nan)]
        if model is not described:  # a learned kernel stores no eigenvectors
            wrong += [("fitted_.sides.0.spectrum.vectors", value) for value in (0, np.nan)]
        for name, value in each(wrong):
            with pytest.raises(ModelFileError, match=r"the parts of its .* do not fit together"):
                forge(header, {**arrays, name: np.full_like(arrays[name], value)})


# What is missing ------------------------------------------------------------------------------------

IDS = [f"i{row}" for row in range(5)]
TASKS = [f"t{column}" for column in range(3)]
PAIRS = [(instance, task) for instance in IDS for task in TASKS]
HOLES = np.where(np.eye(5, 3), np.nan, Y)
GRID = {"alphas": [0.1, 1.0, 10.0], "progress": False}


def pair_regressor():
    model = PairRegressor(
        KroneckerRidge(0.5), instances=pd.DataFrame(X, IDS), tasks=pd.DataFrame(T, TASKS)
    )
    return model.fit(PAIRS, Y.ravel())


def with_feature_map():
    landmarks = Landmarks(2, random_state=0).fit(X)
    return OnlineTwoStepRidge(feature_map=landmarks, task_feature_map=T[:2]).fit(X, Y, T)


# One of each class that a file can hold, and the forms that have attributes of their own.
WHOLE = {
    "landmarks": lambda: Landmarks(3, random_state=0).fit(X),
    "missing labels": lambda: KroneckerRidge(0.3).fit(sparse.csr_array(X), HOLES, T),
    "pair kernel search": lambda: PairKernelRidgeCV(**GRID).fit(X, Y, T),
    "learned": lambda: LearnedKernelRidge(setting="B", n_steps=1, progress=False).fit(
        Descriptions({"a": X, "b": X**2}), Y, T
    ),
    "online with maps": with_feature_map,
    "pairs": pair_regressor,
}


def entries(node, path=()):
    """Yield the path of every entry of the objects in a header."""
    if isinstance(node, dict):
        for name, part in node.items():
            yield (*path, name)
            yield from entries(part, (*path, name))
    elif isinstance(node, list):
        # Those beside the first are of the same class.
        for place, part in enumerate(node[:1]):
            yield from entries(part, (*path, place))


def without(node, path):
    """Return a header without an entry; what the path does not touch is not copied."""
    node = copy.copy(node)
    name, *rest = path
    if rest:
        node[name] = without(node[name], rest)
    else:
        del node[name]
    return node


def answers(model):
    """Return what a model predicts, holds out and shows."""
    if isinstance(model, Landmarks):
        return [
            model.transform(X),
            len(model.get_feature_names_out()),
        ]
    if isinstance(model, PairRegressor):
        return [model.predict(PAIRS), model.fitted_.labels.values, repr(model)]
    if isinstance(model, LearnedKernelRidge):
        return [model.predict(Descriptions({"a": X, "b": X**2})), model.holdout_, repr(model)]
    found = [model.predict(X), repr(model)]
    if isinstance(model, OnlineTwoStepRidge):
        return found
    return [*found, model.holdout("B")]


@pytest.mark.parametrize("name", WHOLE)
def test_a_file_that_lacks_an_entry_is_refused_or_means_the_same(name, apart, forge):
    model = WHOLE[name]()
    header, arrays = apart(model)
    expected = answers(model)
    n_refused = 0
    for path in entries(header["model"], ("model",)):
        try:
            loaded = forge(without(header, path), arrays)
        except ModelFileError:
            n_refused += 1
            continue
        # Without its tag, a parameter is an empty mapping, which is a valid value of some and an
        # error of others. In a mapping of values, such as parameters of a kernel, no entry is
        # required: it is the file of another model.
        is_entry = not path[-1].startswith("$") and path[-2] not in (
            "params",
            "kernel_params",
            "solved_with",
        )
        try:
            found = answers(loaded)
        except ValueError:
            assert not is_entry, path
            continue
        if is_entry:
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(one, other, err_msg=str(path))
    assert n_refused > 10
