"""Parameters and ids of every kind come back exactly; what cannot be stored is refused in one sentence."""

import datetime
import math
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold

from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    LearnedKernelRidge,
    OnlineTwoStepRidge,
    PairRegressor,
    SettingKFold,
    TwoStepRidge,
    TwoStepRidgeCV,
    load,
    save,
)
from dyadlearn._state import Stored, stored_class
from dyadlearn._tables import Ids
from dyadlearn.exceptions import IdError, ModelFileError
from dyadlearn.filters import SpectralFilter
from dyadlearn.kernels import Sum
from dyadlearn.store.container import _CODECS
from sweeps import lines, over

X = np.arange(6.0).reshape(3, 2)
Y = np.arange(9.0).reshape(3, 3) + 1.0

# Any text that a Python string can hold, among it halves of surrogate pairs.
TEXT = st.text(st.characters(codec=None), max_size=8)
NUMBERS = st.integers() | st.floats() | st.booleans()
NUMPY = (
    st.integers(-(2**31), 2**31 - 1).map(np.int32)
    | st.floats(width=32).map(np.float32)
    | st.floats().map(np.float64)
    | TEXT.filter(lambda text: not text.endswith("\x00")).map(np.str_)  # numpy drops them
    | st.booleans().map(np.bool_)
)
SCALARS = st.none() | NUMBERS | TEXT | NUMPY
PARAMETERS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(TEXT.filter(lambda text: not text.startswith("$")), inner, max_size=3)
    ),
    max_leaves=6,
)


def exact(value):
    """Return a value such that equal ones are of the same type and the same bits; scalars of numpy are plain."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | tuple):
        return type(value), [exact(item) for item in value]
    if isinstance(value, dict):
        return [(exact(name), exact(item)) for name, item in value.items()]
    if isinstance(value, float):
        # The bits of what is no number say nothing.
        return float, "nan" if math.isnan(value) else value.hex()
    return type(value), value


@settings(
    max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(
    labels=st.lists(TEXT | st.integers(), min_size=3, max_size=3, unique=True),
    name=st.none() | TEXT,
)
def test_ids_come_back_exactly(labels, name, round_trip):
    ids = Ids(tuple(labels), name)
    model = IndependentTaskRidge().fit(X, Y)
    form = replace(model.fitted_.form, row_ids=ids)
    model.fitted_ = replace(model.fitted_, form=form)
    found = round_trip(model).fitted_.form.row_ids
    assert exact(found.labels) == exact(ids.labels)
    assert found.name == name


@settings(
    max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(value=PARAMETERS)
def test_parameters_come_back_exactly(value, round_trip):
    model = IndependentTaskRidge().fit(X, Y).set_params(kernel_params={"value": value})
    assert exact(round_trip(model).kernel_params) == exact({"value": value})


def test_arrays_among_parameters_keep_how_they_lie_in_memory(round_trip):
    wide = np.arange(24.0).reshape(4, 6)
    arrays = {
        "rows": wide,
        "columns": np.asfortranarray(wide),
        "part": wide[:, :3],
        "gaps in columns": wide.T[::2, 1::2],
        "reversed": wide[::-1],
        "scalar": np.array(3),
        "cube": np.arange(24, dtype=np.int16).reshape(2, 3, 4)[:, ::2],
        "big-endian": wide.astype(">f4"),
        "truth": wide > 3,
    }
    model = IndependentTaskRidge().fit(X, Y).set_params(kernel_params=arrays)
    found = round_trip(model).kernel_params
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype.newbyteorder("<")
        np.testing.assert_array_equal(found[name], array)
        assert found[name].flags.writeable
    assert found["columns"].flags.f_contiguous
    assert found["part"].flags.c_contiguous
    assert found["gaps in columns"].flags.f_contiguous


class OwnFilter(SpectralFilter):
    qualification = 1.0

    def _phi(self, values, alpha):
        return 1 / (values + alpha)

    def _shrinkage(self, values, alpha):
        return values / (values + alpha)

    def _remainder(self, values, alpha):
        return alpha / (values + alpha)


class OwnRidge(TwoStepRidge):
    pass


def dot(A, B):
    return A @ B.T


def score(Y, F):
    return -abs(Y - F).max()


TASKS = {"tasks": X}
WIDE = {"alphas": [0.01, 0.1, 1.0, 1e9]}
REFUSED = {
    "kernel": (
        TwoStepRidge(kernel=dot),
        "kernel is a Python function (dot), which a model file cannot hold: use a k",
    ),
    "kernel within": (
        TwoStepRidge(kernel=Sum(["linear", dot])),
        "kernel is a Python function (dot), ",
    ),
    "scoring": (
        TwoStepRidgeCV(**WIDE, scoring=score),
        "scoring is a Python function (score), which a model file cann",
    ),
    "filter": (TwoStepRidge(filter=OwnFilter()), "filter is of type OwnFilter ("),
    "folds": (
        TwoStepRidgeCV(**WIDE, cv=SettingKFold("B", 2, random_state=np.random.RandomState(0))),
        "random_state is of type RandomState (RandomState(MT19937)",
    ),
    "own class": (
        OwnRidge(),
        "A model file holds a model of this library (Landmarks, IndependentTaskRidge, ",
    ),
    "foreign": (Ridge(), "not an object of class Ridge."),
}


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
@over(lines("what", *REFUSED))
def test_what_cannot_be_stored_is_refused_in_a_sentence(what, tmp_path):
    model, words = REFUSED[what]
    model.fit(X, Y, **({} if what == "foreign" else TASKS))
    with pytest.raises(ModelFileError) as caught:
        save(model, tmp_path / "model.dyad")
    assert words in str(caught.value)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


ODD_IDS = {
    "dates": (pd.date_range("2026-01-01", periods=3), "Timestamp"),
    "floats": (pd.Index([0.5, 1.5, 2.5]), "float"),
    "mixed": (pd.Index(["a", 1, datetime.date(2026, 1, 1)]), "date"),
    "truth values": (pd.Index([True, False, "a"], dtype=object), "bool"),
}
WITH_IDS = [
    IndependentTaskRidge,
    TwoStepRidge,
    KroneckerRidge,
    TwoStepRidgeCV,
    OnlineTwoStepRidge,
    LearnedKernelRidge,
]


@over(lines("what", *ODD_IDS))
def test_ids_that_are_neither_text_nor_whole_numbers_are_refused_by_fit(what):
    ids, kind = ODD_IDS[what]
    words = rf" has the id .* of type {kind}: ids must be text or whole numbers: use"
    frame = pd.DataFrame(X, ids)
    fits = [
        (Model().fit, given, place)
        for Model in WITH_IDS
        for given, place in (
            ((frame, Y, X), "The index of X"),
            ((X, pd.DataFrame(Y, columns=ids), X), "The columns of Y"),
            ((X, Y, frame), "The index of tasks"),
        )
    ]
    pairs = PairRegressor(KroneckerRidge(), instances=X, tasks=X).fit
    for column, rows in (
        ("first", [(each, 0) for each in ids]),
        ("second", [(0, each) for each in ids]),
    ):
        fits.append((pairs, (rows, [1.0, 2.0, 3.0]), f"The {column} column of pairs"))
    for fit, (rows, labels, *tasks), place in fits:
        with pytest.raises(IdError, match=place + words):
            fit(rows, labels, **({"tasks": tasks[0]} if tasks else {}))


@over(
    lines(
        "value",
        np.array(["a"]),
        np.array([1], dtype=np.longdouble),
        np.array(["a", 1], dtype=object),
        {1: 2},
        KFold(3),
    )
)
def test_parameters_that_cannot_be_stored_are_refused(value, tmp_path):
    model = IndependentTaskRidge().fit(X, Y).set_params(kernel_params={"value": value})
    with pytest.raises(ModelFileError, match=r"value is .*, which a model file cannot hold"):
        save(model, tmp_path / "model.dyad")


def test_a_model_that_is_not_fitted_is_refused(tmp_path):
    with pytest.raises(ValueError, match="not fitted yet"):
        save(TwoStepRidge(), tmp_path / "model.dyad")
    assert list(tmp_path.iterdir()) == []


def derived(cls):
    for child in cls.__subclasses__():
        yield child
        yield from derived(child)


def test_every_name_in_a_file_stands_for_one_class():
    named = [cls for cls in derived(Stored) if cls._file_name is not None]
    stored = [
        cls for cls in named if hasattr(sys.modules[cls.__module__], cls.__name__)
    ]  # none of another test
    assert len(stored) > 30
    assert all(stored_class(cls._file_name) is cls for cls in stored)
    assert not {cls._file_name for cls in stored} & _CODECS.keys()


def test_ids_too_long_for_a_header_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("dyadlearn.store.container._LONGEST_HEAD", 2000)
    model = IndependentTaskRidge().fit(X, Y)
    form = replace(model.fitted_.form, row_ids=Ids(("a" * 2000, "b", "c")))
    model.fitted_ = replace(model.fitted_, form=form)
    with pytest.raises(
        ModelFileError, match=r"take 4,\d{3} bytes, but at most 2,000 can be stored: use shorter"
    ):
        save(model, tmp_path / "model.dyad")
    form = replace(model.fitted_.form, row_ids=None)
    model.fitted_ = replace(model.fitted_, form=form)
    monkeypatch.undo()
    save(model, tmp_path / "model.dyad")
    load(tmp_path / "model.dyad")
