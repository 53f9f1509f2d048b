"""Every check of `dyadlearn.testing` fails for a model with a fault."""

import functools
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from dyadlearn import KroneckerRidge
from dyadlearn.testing import CHECKS, check_model, checks, model_checks

pytestmark = pytest.mark.filterwarnings("ignore")


def changing(change):
    """Return a decorator of methods that changes their answers."""

    def decorate(method):
        @functools.wraps(method)
        def changed(self, *given, **named):
            return change(method(self, *given, **named))

        return changed

    return decorate


def replacing(faulty):
    """Return a decorator of methods; `faulty` takes the method and its arguments."""

    def decorate(method):
        @functools.wraps(method)
        def replaced(self, *given, **named):
            return faulty(method, self, *given, **named)

        return replaced

    return decorate


def changes_a_parameter(fit, self, *given, **named):
    self.alpha = 2.0 * self.alpha
    return fit(self, *given, **named)


def keeps_the_first_fit(fit, self, *given, **named):
    return self if hasattr(self, "fitted_") else fit(self, *given, **named)


def weighs_the_first_row(fit, self, X, y, **named):
    if isinstance(y, np.ndarray) and y.ndim == 2:
        y = np.vstack([y[:1] * 1.5, y[1:]])
    return fit(self, X, y, **named)


def bends_labels(fit, self, X, y, **named):
    return fit(self, X, np.cbrt(y), **named)


def ignores_weights(fit, self, X, y, sample_weight=None, **named):
    return fit(self, X, y, **named)


def takes_what_is_not_stored_for_zero(fit, self, X, y, **named):
    return fit(self, X, y.toarray() if sparse.issparse(y) else y, **named)


def ignores_groups(holdout, self, setting, **groups):
    return holdout(self, setting)


def writes_into_its_input(fit, self, X, y, **named):
    fit(self, X, y, **named)
    X[0] = 0.0
    return self


def returns_what_it_keeps(predict, self, *given, **named):
    if not hasattr(self, "_last"):
        self._last = predict(self, *given, **named)
    return self._last


def ignores_ids(fit, self, X, y, tasks=None, **named):
    return fit(self, X, getattr(y, "values", y), tasks, **named)


def keeps_an_inverse(holdout, self, *given, **named):
    self._inverse_ = np.random.default_rng(0).normal(size=(35, 35))
    return holdout(self, *given, **named)


def shows_an_unfinished_fit(fit, self, X, y, **named):
    fit(self, X, 2.0 * y, **named)
    return fit(self, X, y, **named)


def accepts_infinite_features(fit, self, X, y, **named):
    if isinstance(X, np.ndarray):
        X = np.nan_to_num(X, posinf=0.0)
    return fit(self, X, y, **named)


def sets_the_parameter_only(set_alpha, self, alpha):
    self.alpha = alpha
    return self


#: The check that must fail, the method with the fault, and the fault.
FAULTS = [
    ("parameters", "fit", replacing(changes_a_parameter)),
    ("refit", "fit", replacing(keeps_the_first_fit)),
    ("set_alpha", "set_alpha", replacing(sets_the_parameter_only)),
    ("hold-out", "holdout", changing(lambda found: found * (1 + 1e-4))),
    ("groups", "holdout", replacing(ignores_groups)),
    ("order", "fit", replacing(weighs_the_first_row)),
    ("scale", "fit", replacing(bends_labels)),
    ("weights", "fit", replacing(ignores_weights)),
    ("list", "fit", replacing(takes_what_is_not_stored_for_zero)),
    ("vector", "predict", changing(lambda found: found.reshape(len(found), -1))),
    ("pairs", "predict_pairs", changing(lambda found: found + 1e-6)),
    ("score", "score", changing(lambda found: found + 1e-3)),
    ("input", "fit", replacing(writes_into_its_input)),
    ("input", "predict", replacing(returns_what_it_keeps)),
    ("float32", "predict", changing(lambda found: np.asarray(found, dtype=float))),
    ("libraries", "predict", changing(np.asarray)),
    ("frames", "fit", replacing(ignores_ids)),
    ("frames", "predict", changing(lambda found: getattr(found, "values", found))),
    ("pickle", "holdout", replacing(keeps_an_inverse)),
    ("intervals", "predict_interval", changing(lambda ends: ends[::-1])),
    ("threads", "fit", replacing(shows_an_unfinished_fit)),
    ("refusals", "fit", replacing(accepts_infinite_features)),
]


def fails(check, forms):
    """Return whether the check fails for one of the forms of labels."""
    wanted = {f"{check} ({form})" for form in forms}
    for name, run in model_checks(KroneckerRidge(), forms=forms):
        if name in wanted:
            try:
                run()
            except Exception:
                return True
    return False


@pytest.mark.parametrize(("check", "method", "fault"), FAULTS)
def test_a_check_fails_for_a_fault(check, method, fault, monkeypatch):
    if check == "libraries":
        pytest.importorskip("torch", reason="torch is not installed: its arrays are not tested")
    forms = CHECKS[check].forms[:1]
    assert not fails(check, forms)
    monkeypatch.setattr(KroneckerRidge, method, fault(getattr(KroneckerRidge, method)))
    assert fails(check, forms)


def test_the_check_of_files_fails_for_a_changed_file(monkeypatch):
    load = checks.load
    monkeypatch.setattr(checks, "load", lambda path: load(path).set_alpha(3.0))
    assert fails("file", ("full",))


def test_the_check_of_evaluate_fails_for_a_wrong_score(monkeypatch):
    evaluate = checks.evaluate

    def wrong(*given, **named):
        scores = evaluate(*given, **named)
        [result] = scores.results
        return replace(scores, results=(replace(result, score=2.0 * result.score),))

    monkeypatch.setattr(checks, "evaluate", wrong)
    assert fails("evaluate", ("full",))


def test_the_check_of_explain_fails_for_wrong_weights(monkeypatch):
    explain = checks.explain

    def wrong(*given):
        found = explain(*given)
        return replace(found, weights=found.weights + 1e-3)

    monkeypatch.setattr(checks, "explain", wrong)
    assert fails("explain", ("full",))


def test_there_is_a_fault_for_every_check():
    assert {check for check, *_ in FAULTS} | {"file", "evaluate", "explain"} == set(CHECKS)


def test_failed_checks_are_named(monkeypatch):
    fault = changing(lambda found: found + 1e-3)
    monkeypatch.setattr(KroneckerRidge, "score", fault(KroneckerRidge.score))
    with pytest.raises(
        AssertionError, match=r"KroneckerRidge fails 1 checks: score \(full\)\. The"
    ):
        check_model(KroneckerRidge(), forms=["full"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"forms": ["sparse"]}, "forms must be among full, missing, weights, list, found 'sparse'"),
        ({"skip": ["speed"]}, "skip must be among .*, found 'speed'"),
    ],
)
def test_wrong_options_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        check_model(KroneckerRidge(), **options)
