"""Arrays in fewer bytes come back bit for bit, and learned kernels leave out what can be computed again."""

import json
import pickle

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn import LearnedKernelRidge, load, save
from dyadlearn.exceptions import KernelError, ModelFileError
from dyadlearn.spectrum import Eigenvalues, Spectrum
from dyadlearn.store.compact import compact, expanded
from dyadlearn.store.container import Reader, Writer, read_container, write_container
from problems import data
from sweeps import every, lines, over

RNG = default_rng(0)
SHAPE = (90, 80)
SQUARE = RNG.normal(size=(90, 90))
WHOLE = {
    "normal": RNG.normal(size=SHAPE),
    "bits": (RNG.random(SHAPE) < 0.3).astype(float),
    "one bit": np.where(np.arange(7201) == 7200, 1.0, 0.0),
    "counts": RNG.integers(0, 200, size=SHAPE).astype(float),
    "large counts": RNG.integers(0, 60_000, size=SHAPE).astype(float),
    "single": RNG.normal(size=SHAPE).astype(np.float32).astype(float),
    "float32": RNG.normal(size=SHAPE).astype(np.float32),
    "holes": np.where(RNG.random(SHAPE) < 0.3, np.nan, np.round(RNG.normal(size=SHAPE))),
    "minus zero": np.where(RNG.random(SHAPE) < 0.3, -0.0, 1.0),
    "tiny": np.where(np.arange(7200) == 5001, 1e-310, 1.0),
    "last": np.where(np.arange(7200) == 7199, 0.1, 1.0),
    "int64": RNG.integers(0, 5, size=SHAPE),
    "int32": RNG.integers(-300, 300, size=SHAPE).astype(np.int32),
    "symmetric": SQUARE + SQUARE.T,
    "symmetric bits": np.eye(90),
    "nearly symmetric": SQUARE + SQUARE.T + 1e-300 * (np.arange(8100).reshape(90, 90) == 5),
    "asymmetric zero": np.where(np.arange(8100).reshape(90, 90) == 91 * 7 + 1, -0.0, 0.0),
    "empty": np.ones((0, 5)),
    "cube": np.ones((20, 20, 20)),
}


@over(every(name=WHOLE, order=["C", "F", "steps"]))
def test_arrays_come_back_bit_for_bit(name, order):
    array = name
    if order == "F":
        array = np.asfortranarray(array)
    elif order == "steps":
        array = np.repeat(array, 2, axis=-1)[..., ::2]
    small, how = compact(array)
    assert small.nbytes <= array.nbytes
    back = expanded(small, how) if how else small
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert np.ascontiguousarray(back).tobytes() == np.ascontiguousarray(array).tobytes()
    json.dumps(how, allow_nan=False)
    # As a model file writes and reads it.
    writer = Writer()
    plain = json.loads(json.dumps(writer.write(array, "a")))
    again = Reader(writer.arrays).read(plain, "a")
    assert np.ascontiguousarray(again).tobytes() == np.ascontiguousarray(array).tobytes()


@over(
    lines(
        "name bytes_",
        ("bits", 900),
        ("one bit", 901),
        ("large counts", 2 * 7200),
        ("single", 4 * 7200),
        ("int64", 7200),
        ("int32", 2 * 7200),
        ("symmetric", 8 * 90 * 91 // 2),
        ("symmetric bits", -(-90 * 91 // 16)),
        ("normal", 8 * 7200),
        ("holes", 4 * 7200),
        ("tiny", 8 * 7200),
        ("last", 8 * 7200),
    )
)
def test_what_arrays_take(name, bytes_):
    assert compact(WHOLE[name])[0].nbytes == bytes_


@over(
    lines(
        "how words",
        ({"dtype": "f8", "bits": 100_000}, "bits of an array have another length"),
        ({"dtype": "f8", "bits": [10, -1]}, "unknown way"),
        ({"dtype": "f8", "triangle": 5}, "triangle .* has another length"),
        ({"dtype": "f8", "triangle": True}, "unknown way"),
        ({"dtype": "O"}, "unknown way"),
        ({"dtype": ["f8"]}, "."),
        ({"bits": 8}, "unknown way"),
        ({"dtype": "f8", "gzip": 1}, "unknown way"),
    )
)
def test_forged_descriptions_are_refused(how, words):
    with pytest.raises((ModelFileError, TypeError), match=words):
        expanded(np.zeros(100, dtype=np.uint8), how)


def test_memory_is_checked_before_bits_become_numbers(monkeypatch):
    asked = []

    def check(n_bytes, *_):
        asked.append(n_bytes)

    monkeypatch.setattr("dyadlearn.store.compact.check_memory", check)
    expanded(np.zeros(1000, dtype=np.uint8), {"dtype": "f8", "bits": 8000})
    assert asked == [8000, 64_000]
    asked.clear()
    expanded(np.zeros(10, dtype=np.uint8), {"dtype": "f8", "triangle": 4})
    assert asked == [8 * 16]


# --- learned kernels -------------------------------------------------------------------------------


def learned(form="full", setting="B", stages=1, frames=False):
    X, Y, T = data(30, 18)
    rng = default_rng(1)
    bits = (rng.random((30, 80)) < 0.2).astype(float)
    K = np.exp(-((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2))
    Y = np.where(rng.random(Y.shape) < 0.3, np.nan, Y) if form == "holes" else Y
    sides = {"bits": bits, "shape": X, "similarity": K}
    kernels = {"bits": "tanimoto", "shape": "rbf", "similarity": "precomputed"}
    model = LearnedKernelRidge(
        kernel=kernels, setting=setting, stages=stages, n_steps=2, progress=False
    )
    return model.fit(sides, Y, T), {
        "bits": bits[:4],
        "shape": X[:4] + 0.1,
        "similarity": K[:4],
    }


def arrays_of(path):
    return read_container(path)[1]


@over(
    lines(
        "form setting stages",
        ("full", "B", 1),
        ("holes", "A", 2),
        ("holes", "C", 1),
    )
)
def test_learned_kernels_predict_bit_for_bit(tmp_path, form, setting, stages):
    model, new = learned(form, setting, stages)
    path = tmp_path / "m.dyad"
    save(model, path)
    again = load(path)
    names = arrays_of(path)
    assert not [name for name in names if "vectors" in name]
    spectrum = again.fitted_.sides[0].spectrum
    assert "vectors" not in vars(spectrum)  # not computed yet
    if stages == 1:
        assert_array_equal(again.predict(new), model.predict(new))
    assert_array_equal(again.predict(), model.predict())
    assert_array_equal(spectrum.vectors, model.fitted_.sides[0].spectrum.vectors)
    assert_array_equal(again.fitted_.sides[0].features, model.fitted_.sides[0].features)
    assert_array_equal(again.holdout(setting), model.holdout(setting))
    for found, expected in zip(
        again.predict_interval(coverage=0.8), model.predict_interval(coverage=0.8), strict=True
    ):
        assert_array_equal(found, expected)
    # The file of a loaded model is the same.
    save(again, tmp_path / "again.dyad")
    assert (tmp_path / "again.dyad").read_bytes() == path.read_bytes()
    copy = pickle.loads(pickle.dumps(load(path)))
    assert_array_equal(copy.predict(), model.predict())


def test_other_eigenvalues_than_those_of_the_kernel_are_refused(tmp_path):
    model, new = learned()
    path = tmp_path / "m.dyad"
    save(model, path)
    header, arrays = read_container(path)
    name = "fitted_.sides.0.spectrum.values"
    write_container(path, header, {**arrays, name: 2 * arrays[name]})
    forged = load(path)
    assert_array_equal(forged.predict(new).shape, (4, 18))
    with pytest.raises(KernelError, match="not those in the file: fit the model again"):
        forged.holdout("B")


def test_a_spectrum_without_eigenvectors():
    """All that a spectrum does is the same, whenever its eigenvectors are computed."""
    whole = Spectrum.from_gram(SQUARE @ SQUARE.T, constant="free")
    calls = []

    def source():
        calls.append(1)
        return whole.vectors

    bare = whole.eigenvalues
    assert type(bare) is Eigenvalues
    lazy = bare.spectrum(source)
    assert lazy.has_vectors
    assert calls == []
    labels = RNG.normal(size=(90, 3))
    assert_array_equal(lazy.rotate(labels), whole.rotate(labels))
    assert_array_equal(lazy.vectors, whole.vectors)
    assert len(calls) == 1
    assert_allclose(lazy.with_identity(0.5).values, whole.with_identity(0.5).values)
    state = lazy.state()
    assert_array_equal(state["vectors"], whole.vectors)
    assert "source" not in state
    assert_array_equal(Spectrum.from_state(state, "side").vectors, whole.vectors)
