"""A file that is not what was saved is refused, whatever was done to it, and in the right words."""

import json
import math
import os
import pickle
import re
from functools import reduce
from operator import getitem

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

import problems
from dyadlearn import OnlineTwoStepRidge, PairRegressor, TwoStepRidge, TwoStepRidgeCV, load, save
from dyadlearn.exceptions import ModelFileError, NotEnoughMemoryError

pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")

X, Y, T = problems.data(4, 3, 2, 2)


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model.dyad"
    save(TwoStepRidge(kernel="rbf").fit(X, Y, T), path)
    return path.read_bytes()


@pytest.fixture
def refused(tmp_path):
    """Give a function that loads some bytes and returns the sentence they are refused with."""
    path = tmp_path / "damaged.dyad"

    def refusal(content):
        path.write_bytes(content)
        with pytest.raises(ModelFileError) as caught:
            load(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
        return str(caught.value).replace(str(path), "file")

    return refusal


# All of them, and in short every 23rd.
STEPS = pytest.mark.parametrize("step", [23, pytest.param(1, marks=pytest.mark.slow)])


@STEPS
def test_every_single_byte_counts(step, content, refused):
    for position in range(0, len(content), step):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        refused(bytes(damaged))


@STEPS
def test_every_cut_is_seen(step, content, refused):
    for length in range(0, len(content), step):
        words = refused(content[:length])
        # The first bytes alone are no more than those of any other file.
        if length == 0:
            wanted = "is empty"
        elif length <= 8:
            wanted = "is not a model file"
        else:
            wanted = "was cut short"
        assert wanted in words
    assert "it has 500 of" in refused(content[:500])


@settings(
    max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(data=st.data())
def test_whatever_else_is_done_is_seen(data, content, refused):
    start, stop = sorted(data.draw(st.tuples(*2 * [st.integers(0, len(content))])))
    inserted = data.draw(st.binary(max_size=20))
    damaged = content[:start] + inserted + content[stop:]
    if damaged != content:
        refused(damaged)


def test_foreign_files_are_told_so(each, refused):
    cases = [
        b"a,b\n1,2\n" * 100,
        b"\x93NUMPY\x01\x00" + b"\0" * 200,
        pickle.dumps({"a": [1, 2]}),
        b"PK\x03\x04" + b"\0" * 100,
        b"\0" * 4096,
        b"\xff" * 4096,
        (62).to_bytes(8, "little")
        + b'{"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}        '
        + b"\0" * 8,
        b"short",
    ]
    for foreign in each(cases):
        assert refused(foreign) == "file is not a model file of dyadlearn."


def test_a_newer_format_is_told_so(content, refused):
    newer = content.replace(b'"version":"11"', b'"version":"12"', 1)
    assert refused(newer) == (
        "file is in format 12 of a newer dyadlearn, and this one reads formats up to 11: upgrade "
        "dyadlearn."
    )
    assert "is in format 12" in refused(newer.replace(b'"checksum"', b'"changed!"'))
    assert "is damaged" in refused(content.replace(b'"version":"11"', b'"version":"0"', 1))


def test_a_missing_file_stays_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load(tmp_path / "nowhere.dyad")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)


@pytest.fixture(scope="module")
def models():
    table = pd.DataFrame(X, index=list("abcd"))
    holes = Y.copy()
    holes[0, 0] = holes[2, 1] = np.nan
    return {
        "two-step": TwoStepRidge(kernel="rbf").fit(table, pd.DataFrame(Y, index=table.index), T),
        "holes": TwoStepRidge().fit(X, holes, T),
        "search": TwoStepRidgeCV([0.01, 0.1, 1.0, 10.0], [0.1, 1e3, 1e9]).fit(X, Y, T),
        "pairs": PairRegressor(TwoStepRidge(), instances=table, tasks=T).fit(
            [("a", 0), ("b", 1), ("b", 2), ("c", 0)], [1.0, 2.0, 3.0, 4.0]
        ),
        "online": OnlineTwoStepRidge(keep_labels=True).fit(X, Y, T),
    }


def leaves(plain, path=()):
    """Yield the paths to everything in a header, small and large."""
    yield path
    for name, value in (
        plain.items()
        if isinstance(plain, dict)
        else enumerate(plain)
        if isinstance(plain, list)
        else ()
    ):
        yield from leaves(value, (*path, name))


JUNK = [
    None,
    True,
    -1,
    10**30,
    math.pi,
    "x",
    [],
    {},
    [[]],
    {"$array": "F"},
    {"$again": ""},
    {"$tuple": 3},
    {"$no": 1},
]
JUNK += [
    {"$numpy": ["O", 1]},
    {"$timestamp": ["x", "y", None]},
    {"$TwoStepRidge": {"parameters": {}}},
]


@pytest.mark.parametrize("name", ["two-step", "holes", "search", "pairs", "online"])
def test_a_forged_header_is_refused_or_read_but_never_crashes(name, models, apart, forge):
    header, arrays = apart(models[name])
    refused = []
    # Most leaves are those of every model: each model has another third of them.
    for number, path in enumerate(
        list(leaves(header["model"])), 16 * (list(models).index(name) % 3)
    ):
        *parents, last = ("model", *path)
        parent = reduce(getitem, parents, header)
        original = parent[last]
        for junk in JUNK[number % 48 : 16 : 16]:
            parent[last] = junk
            try:
                forge(header, arrays)
            except ModelFileError as error:
                refused.append(str(error))
        parent[last] = original
    assert len(refused) > 10
    assert all(re.search(r"forged\.dyad cannot be read: .*\.$", words) for words in refused)


@pytest.mark.parametrize("change", ["missing", "dtype", "length", "dimension"])
def test_forged_arrays_are_refused(change, models, apart, forge):
    header, arrays = apart(models["two-step"])
    for name, array in arrays.items():
        if change == "missing":
            forged = {other: value for other, value in arrays.items() if other != name}
        elif change == "dtype":
            forged = {**arrays, name: array.astype(np.int64)}
        elif change == "length":
            forged = {**arrays, name: array[:-1]}
        else:
            forged = {**arrays, name: array[None]}
        with pytest.raises(ModelFileError, match="cannot be read"):
            forge(header, forged)


def test_forged_ids_and_instances_are_refused(models, apart, forge):
    header, arrays = apart(models["two-step"])
    ids = header["model"]["$TwoStepRidge"]["fitted_"]["$FittedRidge"]["form"]["$Table"]["row_ids"][
        "$Ids"
    ]["labels"]
    assert ids == {"$tuple": ["a", "b", "c", "d"]}
    for forged in (["a", "b", "c", "a"], ["a", "b", "c"], ["a", "b", "c", {"$dict": []}]):
        ids["$tuple"] = forged
        with pytest.raises(ModelFileError, match="cannot be read"):
            forge(header, arrays)
    header, arrays = apart(models["online"])
    (name,) = [name for name in arrays if ".kept." in name and name.endswith(".rows")]
    with pytest.raises(
        ModelFileError, match=r"the parts of its learnt.*kept.* do not fit together"
    ):
        forge(header, {**arrays, name: arrays[name][1:]})


def test_a_forged_sparse_matrix_cannot_point_outside(apart, forge):
    features = sparse.csr_array(np.arange(8.0).reshape(4, 2))
    header, arrays = apart(TwoStepRidge().fit(features, Y))
    (name,) = [name for name in arrays if name.endswith("indices")]
    with pytest.raises(ModelFileError, match="cannot be read"):
        forge(header, {**arrays, name: arrays[name] + 10**6})
    (name,) = [name for name in arrays if name.endswith("indptr")]
    with pytest.raises(ModelFileError, match="cannot be read"):
        forge(
            header,
            {**arrays, name: np.array([0, 2**20, 2**20, 2**20, 0], dtype=arrays[name].dtype)},
        )


def parts(content):
    """Return the header of a file and what follows it."""
    stop = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:stop]), content[stop:]


def joined(head, rest):
    header = json.dumps(head, separators=(",", ":")).encode()
    return len(header).to_bytes(8, "little") + header + rest


def test_a_header_of_huge_arrays_takes_no_memory(content, refused):
    head, rest = parts(content)
    place = head["fitted_.coefficients"]
    for shape in ([2**40], [0, 2**60], [0, *[2**47] * 7], [-1], [2.0], ["a"], [True], [1] * 40):
        place["shape"] = shape
        place["data_offsets"][1] = 2**43 if shape == [2**40] else place["data_offsets"][0]
        refused(joined(head, rest))


def test_a_file_larger_than_the_memory_is_told_before_it_is_read(content, tmp_path):
    head, rest = parts(content)
    end = max(table["data_offsets"][1] for name, table in head.items() if name[0] != "_")
    size = 2**42
    head["more"] = {"dtype": "U8", "shape": [size], "data_offsets": [end, end + size]}
    path = tmp_path / "forged.dyad"
    path.write_bytes(joined(head, rest))
    try:
        os.truncate(path, path.stat().st_size + size)
    except OSError:
        pytest.skip("this file system has no files with holes")
    with pytest.raises(
        NotEnoughMemoryError, match=r"Loading .*forged.dyad needs about 6144.0 GiB of memory"
    ):
        load(path)


def test_nothing_but_a_model_is_read(forge):
    with pytest.raises(ModelFileError, match="it holds an object of type Tikhonov, not a model"):
        forge({"model": {"$Tikhonov": {}}}, {})
    with pytest.raises(ModelFileError, match="not fitted"):
        forge({"model": {"$TwoStepRidge": TwoStepRidge().state()}}, {})
    with pytest.raises(ModelFileError, match=r"unknown parameters \['shell'\]"):
        forge({"model": {"$TwoStepRidge": {"parameters": {"shell": "ls"}}}}, {})
    deep: list = []
    for _ in range(600):
        deep = [deep]
    with pytest.raises(ModelFileError):
        forge({"model": deep}, {})
