"""A reader sees one state of a model, whenever another thread changes its regularisation."""

import pickle
import sys

import numpy as np
from numpy.testing import assert_allclose

import problems
from dyadlearn import KroneckerRidge, TwoStepRidge
from sweeps import every, over

X, Y, T = problems.data(6, 5, 3, 2)
NEW = X[:2] + 0.1
ALPHAS = (0.1, 10.0)
RBF = {"kernel": "rbf", "task_kernel": "rbf"}

# Each model is made with both of its regularisations, so that a mixture of two states differs from
# either.
MODELS = {
    "two-step": lambda: TwoStepRidge(**RBF).fit(X, Y, T),
    "Kronecker": lambda: KroneckerRidge(**RBF).fit(X, Y, T),
}
READERS = {
    "predict": lambda model: model.predict(NEW),
    "predict_pairs": lambda model: model.predict_pairs(NEW, None, [(0, 1), (1, 2)]),
    "score": lambda model: model.score(X, Y),
    "coefficients": lambda model: model.dual_coef_,
    "scale_": lambda model: getattr(model, "scale_", None),
    "holdout": lambda model: model.holdout("B"),
    "holdout of pairs": lambda model: model.holdout("A"),
    "known pairs": lambda model: model.predict_interval(coverage=0.5),
    "new instances": lambda model: model.predict_interval(NEW, coverage=0.5),
    "deviations": lambda model: (
        model.predict(NEW, return_std=True) if hasattr(model, "scale_") else None
    ),
}


def change(model, alpha):
    two = "task_alpha" in model.get_params()
    model.set_alpha(alpha, alpha) if two else model.set_alpha(alpha)


def interrupted(read, model, at, then):
    """Return what is read while something else happens just before a call, and how many calls there were."""
    calls = 0

    def watch(frame, event, argument):
        nonlocal calls
        if event == "call" and "dyadlearn" in frame.f_code.co_filename:
            calls += 1
            if calls == at:
                sys.setprofile(None)
                then()
                sys.setprofile(watch)

    sys.setprofile(watch)
    try:
        return read(model), calls
    finally:
        sys.setprofile(None)


def flat(found):
    return np.concatenate(
        [np.ravel(part).astype(float) for part in (found if isinstance(found, tuple) else (found,))]
    )


@over(every(model=["two-step", "Kronecker"], reader=READERS))
def test_a_change_between_two_calls_is_seen_whole_or_not_at_all(model, reader):
    check(MODELS[model](), reader)


def check(fitted, reader):
    """Change the regularisation before one call of many."""
    change(fitted, ALPHAS[1])
    new = reader(fitted)
    if new is None:
        return
    change(fitted, ALPHAS[0])
    old, n_calls = interrupted(reader, pickle.loads(pickle.dumps(fitted)), 0, None)
    assert np.abs(flat(old) - flat(new)).max() > 1e-4
    for at in np.unique(np.linspace(2, n_calls, 3, dtype=int)).tolist():
        read = pickle.loads(pickle.dumps(fitted))
        found, n_made = interrupted(reader, read, at, lambda read=read: change(read, ALPHAS[1]))
        nearest = min((old, new), key=lambda state: np.abs(flat(found) - flat(state)).max())
        assert_allclose(
            flat(found),
            flat(nearest),
            rtol=1e-9,
            atol=1e-12,
            err_msg=f"before call {at} of {n_calls}",
        )
        # what others have loaded meanwhile is not called again
        if n_made >= at:
            now = new
        else:
            now = old
        assert_allclose(flat(reader(read)), flat(now), rtol=1e-9, atol=1e-12)
