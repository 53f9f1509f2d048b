"""The last inverse over observed labels: computed once for a model, and gone with it."""

import gc

import numpy as np
import pytest
from numpy.testing import assert_allclose

import problems
from dyadlearn import KroneckerRidge, KroneckerRidgeCV, _memory, evaluate, explain
from dyadlearn.exceptions import NotEnoughMemoryError, PrecisionWarning
from dyadlearn.holdout import planning
from dyadlearn.models import reading
from dyadlearn.pairing import cells_process, inverses, pair_weights, remembering
from dyadlearn.pairing.remembering import LastInverse, last_inverse
from dyadlearn.solve import missing

RBF = {"kernel": "rbf", "task_kernel": "rbf"}
X, Y, T = problems.data(12, 9, 3, 2, missing=0.6)


@pytest.fixture(autouse=True)
def nothing_remembered():
    last_inverse.forget()
    yield
    last_inverse.forget()


@pytest.fixture
def computed(monkeypatch):
    """Return a list with the name of every inverse that a hold-out computes."""
    names = []

    def counted(model, labels, name, cache=None):
        names.append(name)
        assert last_inverse.is_empty  # two inverses are never in memory
        return inverses.inverse_of(model, labels, name, cache)

    monkeypatch.setattr(planning, "inverse_of", counted)
    return names


def fitted(alpha=0.5, **given):
    return KroneckerRidge(alpha, **RBF).fit(X, Y, T, **given)


def test_all_settings_share_one_inverse(computed):
    model = fitted()
    alone = []
    for setting in "ABCD":
        last_inverse.forget()
        alone.append(model.holdout(setting))
    assert computed == ["cells"] * 4
    computed.clear()
    last_inverse.forget()
    for setting, expected in zip("ABCD", alone, strict=True):
        assert_allclose(model.holdout(setting), expected, rtol=0)
    evaluate(model, "ABCD")
    assert computed == ["cells"]


def test_an_explanation_uses_the_inverse_of_a_holdout(monkeypatch):
    model = fitted()
    expected = explain(model, 3, 4)
    model.holdout("B")

    def refused(*_):
        raise AssertionError("a system was solved again")

    monkeypatch.setattr(pair_weights, "factor_of", refused)
    assert_allclose(explain(model, 3, 4).weights, expected.weights, rtol=0, atol=1e-13)
    last_inverse.forget()
    with pytest.raises(AssertionError, match="solved again"):
        explain(model, 3, 4)


@pytest.mark.parametrize(("fit_intercept", "is_weighted"), [(False, True), (True, False)])
def test_an_explanation_uses_the_factor_of_the_fit_of_a_list(
    monkeypatch, fit_intercept, is_weighted
):
    monkeypatch.setattr(missing, "ITERATIONS", 10**9)
    monkeypatch.setattr(reading, "SMALL_GRID", 0)
    monkeypatch.setattr(reading, "fits_in_memory", lambda *_: False)
    table = problems.stored(Y)
    if is_weighted:
        weights = np.random.default_rng(1).uniform(0.5, 2.0, size=Y.shape)
    else:
        weights = None
    model = KroneckerRidge(0.5, fit_intercept=fit_intercept, **RBF).fit(X, table, T, weights)
    assert last_inverse.known(model.fitted_.problem, "factor") is not None
    found = explain(model, 3, 4)
    last_inverse.forget()
    computed_again = explain(model, 3, 4)
    assert_allclose(found.weights.toarray(), computed_again.weights.toarray(), rtol=0, atol=1e-13)
    assert_allclose(found.prediction, model.predict()[3, 4], rtol=1e-10)
    model.set_alpha(2.0)

    def refused(*_):
        raise AssertionError("a system was solved again")

    monkeypatch.setattr(pair_weights, "factor_of", refused)
    again = explain(model, X[:1] + 0.1, 4)
    assert_allclose(again.prediction, model.predict(X[:1] + 0.1)[0, 4], rtol=1e-10)


def test_deviations_share_one_inverse(monkeypatch):
    made = []
    of = cells_process.CellsInverse.of
    monkeypatch.setattr(
        cells_process.CellsInverse,
        "of",
        lambda *given, **more: made.append(1) or of(*given, **more),
    )
    model = fitted()
    model.predict(return_std=True)
    assert np.isfinite([model.scale_, model.log_marginal_likelihood()]).all()
    assert len(made) == 1
    model.set_alpha(0.7)
    assert_allclose(model.scale_, fitted(0.7).scale_)
    assert len(made) == 3


def test_an_inverse_goes_with_its_model():
    model = fitted()
    model.holdout("A")
    assert not last_inverse.is_empty
    model.set_alpha(2.0)
    gc.collect()
    assert last_inverse.is_empty
    expected = fitted(2.0).holdout("B")
    assert_allclose(model.holdout("B"), expected, rtol=1e-12)
    del model
    gc.collect()
    assert last_inverse.is_empty


def test_a_search_keeps_one(computed):
    search = KroneckerRidgeCV(np.geomspace(0.01, 1000.0, 3), setting="D", **RBF).fit(X, Y, T)
    assert len(computed) == 4
    search.holdout("A")
    assert len(computed) == 4
    gc.collect()
    assert last_inverse.known(search.fitted_.problem, "cells") is not None


def test_a_large_inverse_is_not_kept(computed, monkeypatch):
    monkeypatch.setattr(remembering, "fits_in_memory", lambda n_bytes, like: False)
    model = fitted()
    for setting in "AB":
        model.holdout(setting)
        assert last_inverse.is_empty
    assert computed == ["cells"] * 2


def test_it_is_forgotten_before_memory_is_refused(monkeypatch):
    model = fitted()
    model.holdout("A")
    free = [100, 100, 1000]
    monkeypatch.setattr(
        _memory, "available_memory", lambda like: free.pop(0) if len(free) > 1 else free[0]
    )
    assert _memory.fits_in_memory(50, Y)
    assert not last_inverse.is_empty
    _memory.check_memory(500, Y, "A large product")
    assert last_inverse.is_empty
    with pytest.raises(NotEnoughMemoryError, match="A larger product needs about"):
        _memory.check_memory(5000, Y, "A larger product")


def test_a_warning_of_rounding_is_repeated():
    rows, labels, tasks = problems.data(40, 30, 3, 2, missing=0.6)
    model = KroneckerRidge(3e-13, **RBF).fit(rows, labels, tasks)
    for setting in "BB":
        with pytest.warns(PrecisionWarning, match="rounding leaves") as told:
            model.holdout(setting)
        assert told[0].filename == __file__


def test_any_object_may_own_an_inverse():
    class Owner:
        pass

    last = LastInverse()
    owner = Owner()
    other = Owner()
    like = np.zeros(1)
    assert last.of(owner, "cells", lambda: 1, 8.0, like) == 1
    assert last.known(owner, "cells", "factor") == ("cells", 1)
    assert last.known(owner, "factor") is None
    assert last.known(other, "cells") is None
    assert last.known(None, "cells") is None
    assert last.of(other, "cells", lambda: 2, 8.0, like) == 2
    assert last.known(owner, "cells") is None
    del owner  # it is no longer the owner
    assert last.known(other, "cells") == ("cells", 2)
