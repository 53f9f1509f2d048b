"""A forged file, checksum and all, is refused before it costs memory, and with nothing but the one exception."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from dyadlearn import (
    KroneckerRidge,
    Landmarks,
    LearnedKernelRidge,
    OnlineTwoStepRidge,
    PairKernelRidgeCV,
    PairRegressor,
    TwoStepRidge,
    load,
    save,
)
from dyadlearn.exceptions import ModelFileError, NotEnoughMemoryError
from dyadlearn.kernels import Descriptions
from dyadlearn.store.container import VERSION
from sweeps import lines, over

pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 2))
T = RNG.normal(size=(3, 2))
Y = RNG.normal(size=(5, 3))


class Forgery:
    """A model file taken apart: its header, the table of its arrays, and their bytes."""

    def __init__(self, content: bytes) -> None:
        length = int.from_bytes(content[:8], "little")
        self.tables = json.loads(content[8 : 8 + length])
        self.header = json.loads(self.tables.pop("__metadata__")["header"])
        self.body = content[8 + length :]

    def content(self) -> bytes:
        """Return a file with a checksum that matches."""
        metadata = {
            "format": "dyadlearn",
            "version": str(VERSION),
            "checksum": "0" * 64,
            "header": json.dumps(self.header),
        }
        head = json.dumps({"__metadata__": metadata, **self.tables}, separators=(",", ":")).encode()
        unsigned = len(head).to_bytes(8, "little") + head + self.body
        return unsigned.replace(b"0" * 64, hashlib.sha256(unsigned).hexdigest().encode(), 1)

    def put(self, name: str, dtype: str, shape: list, content: bytes) -> None:
        """Exchange one array."""
        found = {
            other: self.body[slice(*table["data_offsets"])] for other, table in self.tables.items()
        }
        self.tables[name] = {"dtype": dtype, "shape": shape}
        self.body = b""
        found = {**found, name: content}
        for other, table in self.tables.items():
            table["data_offsets"] = [len(self.body), len(self.body) + len(found[other])]
            self.body += found[other]


def saved(model, folder: Path) -> bytes:
    save(model, folder / "saved.dyad")
    return (folder / "saved.dyad").read_bytes()


@contextmanager
def little_memory(more: int = 2**28):
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


def side(forgery: Forgery) -> dict:
    return forgery.header["model"]["$TwoStepRidge"]["fitted_"]["$FittedRidge"]["sides"]["$tuple"][
        0
    ]["$Side"]


def no_columns(forgery: Forgery) -> None:
    """Give the spectrum rows that take no room in the file, and let the eigenvectors be made of them."""
    spectrum = side(forgery)["spectrum"]["$Spectrum"]
    spectrum |= {"n_rows": 10**8, "vectors": None, "features": {"$array": "C"}, "recomputed": True}
    spectrum["components"] = {"$array": "C"}
    forgery.put("fitted_.sides.0.spectrum.components", "F64", [0, 2], b"")
    forgery.put("fitted_.sides.0.spectrum.features", "F64", [10**8, 0], b"")


def short_components(forgery: Forgery) -> None:
    """The same with a length that the size of the file allows, but more eigenvalues than features."""
    no_columns(forgery)
    side(forgery)["spectrum"]["$Spectrum"]["n_rows"] = 50
    forgery.put("fitted_.sides.0.spectrum.features", "F64", [50, 0], b"")


def by_columns(forgery: Forgery) -> None:
    """Make the features sparse, in a form that keeps no room for rows."""
    spectrum = side(forgery)["spectrum"]["$Spectrum"]
    parts = {"data": {"$array": "C"}, "indices": {"$array": "C"}, "indptr": {"$array": "C"}}
    matrix = {"$sparse": {"class": "csc_array", "shape": [2**40, 2], **parts}}
    spectrum |= {"n_rows": 2**40, "vectors": None, "features": matrix, "recomputed": True}
    spectrum["components"] = {"$array": "C"}
    forgery.put("fitted_.sides.0.spectrum.components", "F64", [2, 2], bytes(32))
    for name, dtype, array in (
        ("data", "F64", b""),
        ("indices", "I64", b""),
        ("indptr", "I64", bytes(24)),
    ):
        forgery.put(f"fitted_.sides.0.spectrum.features.{name}", dtype, [len(array) // 8], array)


def axes(*shape: int):
    return lambda forgery: forgery.put("fitted_.coefficients", "F64", list(shape), b"")


def folded(value):
    def forge(forgery: Forgery) -> None:
        forgery.header["model"]["$TwoStepRidge"]["fitted_"]["$FittedRidge"]["folded"] = value

    return forge


def parameter(value):
    def forge(forgery: Forgery) -> None:
        forgery.header["model"]["$TwoStepRidge"]["parameters"]["alpha"] = value

    return forge


@over(
    lines(
        "forge",
        no_columns,
        short_components,
        by_columns,
        axes(0, *[2**47] * 7),
        axes(10**8, 0),
        folded({"$tuple": []}),
        folded({"$tuple": [1, True]}),
        folded({"$tuple": [True, True, True]}),
        parameter(
            {"$timestamp": ["2020-01-01", "ns", "Europe"]}
        ),  # the name of a folder of time zones
        parameter({"$numpy": ["a5", "x"]}),
        parameter({"$numpy": [[["a", "<f8"]], 1]}),
        parameter({"$numpy": ["<M8[99999999999Y]", 1]}),
        parameter("1.0"),
        parameter(-1.0),
        lambda forgery: forgery.header.update(model=["$array"]),
    )
)
def test_what_would_cost_memory_or_raise_something_else_is_refused(forge, tmp_path):
    forgery = Forgery(saved(TwoStepRidge().fit(X, Y, tasks=T), tmp_path))
    path = tmp_path / "forged.dyad"
    path.write_bytes(forgery.content())
    load(path)
    forge(forgery)
    path.write_bytes(forgery.content())
    with little_memory(), pytest.raises(ModelFileError, match=r"forged\.dyad") as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_an_online_model_has_the_maps_that_its_parameters_name(tmp_path):
    path = tmp_path / "forged.dyad"
    for name in ("feature_map", "task_feature_map"):
        forgery = Forgery(saved(OnlineTwoStepRidge().fit(X, Y, tasks=T), tmp_path))
        forgery.header["model"]["$OnlineTwoStepRidge"]["parameters"][name] = 7
        path.write_bytes(forgery.content())
        with pytest.raises(ModelFileError, match="do not fit together"):
            load(path)


def test_what_a_solver_of_pairs_starts_from_fits_the_sides(monkeypatch, tmp_path):
    monkeypatch.setattr("dyadlearn.models.reading.prefers_pairs", lambda *_, **__: True)
    monkeypatch.setattr("dyadlearn.solve.observed.is_quicker_by_pairs", lambda *_: True)
    pairs = sparse.coo_array(np.where(Y > 0, Y, 0.0))
    path = tmp_path / "forged.dyad"
    weights = sparse.coo_array((np.arange(1.0, pairs.nnz + 1), pairs.coords), shape=pairs.shape)
    for labels, given, name, shape in (
        (np.where(Y > 0, Y, np.nan), None, "fitted_.solved.solution.values", [1, 2]),
        (pairs, None, "fitted_.solved.spectral", [2, 1]),
        (pairs, weights, "fitted_.labels.weights", [1]),
        (pairs, weights, "fitted_.labels.values", [1]),
    ):
        model = TwoStepRidge().fit(X, labels, tasks=T, sample_weight=given)
        forgery = Forgery(saved(model, tmp_path))
        path.write_bytes(forgery.content())
        np.testing.assert_array_equal(
            load(path).set_alpha(2.0).predict(), model.set_alpha(2.0).predict()
        )
        forgery.put(name, "F64", shape, bytes(8 * int(np.prod(shape))))
        path.write_bytes(forgery.content())
        with pytest.raises(ModelFileError, match="do not fit together"):
            load(path)


def test_cells_of_a_list_of_labels_are_in_order_and_within_the_grid(monkeypatch, tmp_path):
    monkeypatch.setattr("dyadlearn.models.reading.prefers_pairs", lambda *_, **__: True)
    model = TwoStepRidge().fit(X, sparse.coo_array(np.where(Y > 0, Y, 0.0)), tasks=T)
    rows = model.fitted_.labels.places[0]
    path = tmp_path / "forged.dyad"
    for wrong in (rows[::-1], rows - 1, rows + 1):
        forgery = Forgery(saved(model, tmp_path))
        kind = {4: "I32", 8: "I64"}[rows.itemsize]
        forgery.put(
            "fitted_.labels.cells.0", kind, list(rows.shape), np.ascontiguousarray(wrong).tobytes()
        )
        path.write_bytes(forgery.content())
        with pytest.raises(ModelFileError, match="do not fit together"):
            load(path)


def test_a_file_larger_than_the_memory_is_told_before_it_is_read(tmp_path):
    forgery = Forgery(saved(TwoStepRidge().fit(X, Y), tmp_path))
    path = tmp_path / "forged.dyad"
    size = 2**42
    forgery.tables["more"] = {
        "dtype": "U8",
        "shape": [size],
        "data_offsets": [len(forgery.body)] * 2,
    }
    forgery.tables["more"]["data_offsets"][1] += size
    path.write_bytes(forgery.content())
    try:
        os.truncate(path, path.stat().st_size + size)
    except OSError:
        pytest.skip("this file system has no files with holes")
    with pytest.raises(
        NotEnoughMemoryError, match=r"Loading .*forged.dyad needs about 6144.0 GiB of memory"
    ):
        load(path)


def test_an_error_quotes_no_more_of_a_file_than_can_be_read(tmp_path, each):
    whole = saved(TwoStepRidge().fit(X, Y, tasks=T), tmp_path)
    long = 10**5 * "long\n"
    places = {
        "parameter": lambda model: model["parameters"].update({long: 1}),
        "attribute": lambda model: model.update({long: 1}),
        "class": lambda model: model.update(task_side={f"${long}": {}}),
        "dtype": lambda model: model["parameters"].update(alpha={"$numpy": [long, 1]}),
        "value": lambda model: model["parameters"].update(alpha=long),
    }
    for name in each(places):
        forgery = Forgery(whole)
        places[name](forgery.header["model"]["$TwoStepRidge"])
        (tmp_path / "forged.dyad").write_bytes(forgery.content())
        with pytest.raises(ModelFileError, match=r"forged\.dyad cannot be read: ") as caught:
            load(tmp_path / "forged.dyad")
        assert len(str(caught.value)) < 600
        assert "\n" not in str(caught.value)


def test_a_model_that_learnt_nothing_is_refused(tmp_path, each):
    described = LearnedKernelRidge(setting="A", n_steps=1).fit(
        Descriptions({"a": X, "b": X[:, :1]}), Y, tasks=T
    )
    for model in (TwoStepRidge().fit(X, Y, tasks=T), described):
        whole = saved(model, tmp_path)
        wrong = [("fitted_.labels.values", np.nan)]
        if model is not described:  # a learned kernel stores no eigenvectors
            wrong += [("fitted_.sides.0.spectrum.vectors", value) for value in (0, np.nan)]
        for name, value in each(wrong):
            forgery = Forgery(whole)
            shape = forgery.tables[name]["shape"]
            forgery.put(name, "F64", shape, np.full(shape, float(value)).tobytes())
            (tmp_path / "forged.dyad").write_bytes(forgery.content())
            with pytest.raises(ModelFileError, match=r"the parts of its .* do not fit together"):
                load(tmp_path / "forged.dyad")


# What is missing ------------------------------------------------------------------------------------

IDS = [f"i{row}" for row in range(5)]
TASKS = [f"t{column}" for column in range(3)]
PAIRS = [(instance, task) for instance in IDS for task in TASKS]
HOLES = np.where(np.eye(5, 3), np.nan, Y)
GRID = {"alphas": [0.1, 1.0, 10.0], "progress": False}


def pair_regressor():
    pd = pytest.importorskip("pandas")
    model = PairRegressor(
        KroneckerRidge(0.5), instances=pd.DataFrame(X, IDS), tasks=pd.DataFrame(T, TASKS)
    )
    return model.fit(PAIRS, Y.ravel())


def with_feature_map():
    landmarks = Landmarks(2, random_state=0).fit(X)
    return OnlineTwoStepRidge(feature_map=landmarks, task_feature_map=T[:2]).fit(X, Y, tasks=T)


# One of each class that a file can hold, and the forms that have attributes of their own.
WHOLE = {
    "landmarks": lambda: Landmarks(3, random_state=0).fit(X),
    "two-step": lambda: TwoStepRidge(0.3).fit(X, Y, tasks=T),
    "missing labels": lambda: KroneckerRidge(0.3).fit(sparse.csr_array(X), HOLES, tasks=T),
    "pair kernel search": lambda: PairKernelRidgeCV(**GRID).fit(X, Y, tasks=T),
    "learned": lambda: LearnedKernelRidge(setting="B", n_steps=2, progress=False).fit(
        Descriptions({"a": X, "b": X**2}), Y, tasks=T
    ),
    "online": lambda: OnlineTwoStepRidge(keep_labels=True).fit(X, HOLES, tasks=T),
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
        for place, part in enumerate(node):
            yield from entries(part, (*path, place))


def without(header, path):
    header = copy.deepcopy(header)
    node = header
    for name in path[:-1]:
        node = node[name]
    del node[path[-1]]
    return header


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
def test_a_file_that_lacks_an_entry_is_refused_or_means_the_same(tmp_path, name):
    model = WHOLE[name]()
    forgery = Forgery(saved(model, tmp_path))
    header = forgery.header
    expected = answers(model)
    n_refused = 0
    for path in entries(header["model"], ("model",)):
        forgery.header = without(header, path)
        (tmp_path / "x.dyad").write_bytes(forgery.content())
        try:
            loaded = load(tmp_path / "x.dyad")
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
