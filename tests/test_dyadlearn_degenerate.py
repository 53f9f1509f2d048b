"""Labels that hardly say anything: equal, single, of one row, column or class. Each call is right or says why not.

`CASES` are the labels, `MODELS` the models and `CALLS` what is asked of each. `refusal` has the
rules of what cannot be answered, with the sentence that says so. Everything else must be answered,
and the check of the call knows the answer.
"""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import problems
from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    KroneckerRidge,
    KroneckerRidgeCV,
    OnlineTwoStepRidge,
    PairKernelRidge,
    PairKernelRidgeCV,
    TwoStepRegressor,
    TwoStepRidge,
    TwoStepRidgeCV,
    calibrate,
    compare,
    evaluate,
    landscape,
    nested_score,
    permutation_test,
    recommend,
    screen,
    top_pairs,
)
from dyadlearn.exceptions import (
    BaselineWarning,
    GridEdgeWarning,
    LeverageError,
    NoLabelWarning,
    UnboundedIntervalWarning,
)
from dyadlearn.models import reading
from dyadlearn.report import write_report
from dyadlearn.selection.edges import edges_of
from market import ShortRidge
from sweeps import lines, over

M = 5
Q = 4
X, V, T = problems.data(M, Q, 3, 2)
RNG = np.random.default_rng(1)
X_NEW = RNG.normal(size=(2, 3))
T_NEW = RNG.normal(size=(2, 2))
ALPHAS = [0.1, 1.0, 10.0]
ERRORS = "neg_mean_squared_error"


@dataclass(frozen=True)
class Case:
    """Labels (m, q) of the first rows of X and T."""

    Y: np.ndarray

    @cached_property
    def observed(self):
        return ~np.isnan(self.Y)

    @cached_property
    def values(self):
        return np.unique(self.Y[self.observed])

    @property
    def is_constant(self):
        return self.values.size == 1

    @property
    def is_complete(self):
        return bool(self.observed.all())

    @property
    def given(self):
        return X[: len(self.Y)], self.Y, T[: self.Y.shape[1]]


def changed(Y, key, value):
    Y = Y.copy()
    Y[key] = value
    return Y


NOTHING = np.full((M, Q), np.nan)
CASES = {
    "all 0": Case(np.zeros((M, Q))),
    "all 7": Case(np.full((M, Q), 7.0)),
    "all 1e6, one missing": Case(changed(np.full((M, Q), 1e6), (3, 2), np.nan)),
    "all equal but one": Case(changed(np.zeros((M, Q)), (3, 2), 1.0)),
    "one label": Case(changed(NOTHING, (2, 1), V[2, 1])),
    "two labels in a row": Case(changed(NOTHING, (2, [1, 3]), V[2, [1, 3]])),
    "one row": Case(V[:1]),
    "one column": Case(V[:, :1]),
    "one row and column": Case(V[:1, :1]),
    "a row without labels": Case(changed(V, 1, np.nan)),
    "a column without labels": Case(changed(V, (slice(None), 2), np.nan)),
}


@dataclass(frozen=True)
class Kind:
    """A model, and what the rules need to know of it."""

    make: Callable[[], Any]
    family: str
    intercept: bool = True
    searches: bool = False

    @property
    def knows_tasks(self):
        return self.family != "independent"

    @property
    def has_formula(self):
        return self.family != "regressor"

    def fit(self, case):
        return self.make().fit(*case.given[: 3 if self.knows_tasks else 2])


def kinds():
    """Return the models; searches have intercepts, since their models without are those of the others."""
    plain = {
        "independent": (
            IndependentTaskRidge,
            lambda: IndependentTaskRidgeCV(ALPHAS, progress=False),
        ),
        "two-step": (TwoStepRidge, lambda: TwoStepRidgeCV(ALPHAS, ALPHAS, progress=False)),
        "kronecker": (KroneckerRidge, lambda: KroneckerRidgeCV(ALPHAS, progress=False)),
        "pair kernel": (
            PairKernelRidge,
            lambda: PairKernelRidgeCV(ALPHAS, shares=[(0.5, 0.25, 0.25)], progress=False),
        ),
        "online": (lambda **options: OnlineTwoStepRidge(keep_labels=True, **options), None),
    }
    found = {"regressor": Kind(lambda: TwoStepRegressor(ShortRidge(), ShortRidge()), "regressor")}
    for family, (model, search) in plain.items():
        found[family] = Kind(model, family)
        found[f"{family}, no intercept"] = Kind(
            lambda model=model: model(fit_intercept=False), family, intercept=False
        )
        if search is not None:
            found[f"{family}, searched"] = Kind(search, family, searches=True)
    return found


MODELS = kinds()


# --- what is asked, and what the answer must be --------------------------------------------------------------


def is_fitted_exactly(kind, case):
    """Return whether every model, whatever labels it was trained on, predicts the only value of the labels."""
    return case.is_constant and (kind.intercept or case.values[0] == 0)


def unpredicted(kind, case):
    """Return the tasks (q,) whose intercept has no label; `fit` warns of them."""
    alone = kind.family == "independent" and kind.intercept
    return ~case.observed.any(axis=0) & alone


def check(found, kind, case, tasks=slice(None)):
    """Check predictions (…, q) of the training tasks, or of new tasks if `tasks` is None."""
    found = np.asarray(found.toarray() if sparse.issparse(found) else found)
    if tasks is not None:
        missing = np.broadcast_to(unpredicted(kind, case)[tasks], found.shape)
        assert_array_equal(np.isnan(found), missing)
        found = found[~missing]
    assert np.isfinite(found).all()
    if is_fitted_exactly(kind, case):
        assert_allclose(found, case.values[0], rtol=1e-12, atol=1e-12)


def asks_predictions(model, kind, case, _):
    known = [case.given[0]] if model.grows else []
    check(model.predict(*known), kind, case)
    check(model.predict(X_NEW), kind, case)
    pairs = model.predict_pairs(known[0] if known else None, None, [(0, 0)])
    assert_allclose(pairs, np.asarray(model.predict(*known))[:1, 0], rtol=1e-12)
    if kind.knows_tasks:
        check(model.predict(X_NEW, T_NEW), kind, case, None)
        check(model.predict(*known or [None], T_NEW), kind, case, None)


def asks_fold_in(model, kind, case, _):
    few = np.full((1, case.Y.shape[1]), np.nan)
    few[0, 0] = case.values[0]
    check(model.predict(X_NEW[:1], labels=few), kind, case)


def asks_holdout(setting):
    def ask(model, kind, case, _):
        given = (*case.given[:2], setting) if model.grows else (setting,)
        check(model.holdout(*given), kind, case)

    return ask


def asks_groups(setting, n_groups):
    def ask(model, kind, case, _):
        names = {"B": ("groups",), "C": ("task_groups",), "D": ("groups", "task_groups")}[setting]
        groups = {name: np.arange(case.Y.shape[name == "task_groups"]) % n_groups for name in names}
        check(model.holdout(setting, **groups), kind, case)

    return ask


def asks_interval(setting):
    new = {"A": (None, None), "B": (X_NEW, None), "C": (None, T_NEW), "D": (X_NEW, T_NEW)}[setting]

    def ask(model, kind, case, _):
        lower, upper = (np.asarray(end) for end in model.predict_interval(*new, coverage=0.5))
        missing = np.isnan(lower)
        assert_array_equal(missing, np.isnan(upper))
        assert_array_equal(
            missing, np.broadcast_to(new[1] is None and unpredicted(kind, case), lower.shape)
        )
        assert (lower <= upper)[~missing].all()
        # Without a held-out residual, of the task in B and of the instance in C, a bound is
        # infinite.
        bare = {"B": ~case.observed.any(axis=0), "C": ~case.observed.any(axis=1)[:, None]}.get(
            setting, False
        )
        is_flat = not kind.has_formula
        unbounded = (
            np.broadcast_to(is_alone(kind, case, setting) or (bare & (not is_flat)), lower.shape)
            & ~missing
        )
        assert_array_equal(lower[unbounded], -np.inf)
        assert_array_equal(upper[unbounded], np.inf)
        bounds = np.stack([lower, upper])[:, ~unbounded & ~missing]
        assert np.isfinite(bounds).all()
        if is_fitted_exactly(kind, case):
            assert_allclose(bounds, case.values[0], rtol=1e-12, atol=1e-12)

    return ask


METRICS = [ERRORS, "r2", "spearman", "concordance_index", "roc_auc", "neg_median_absolute_error"]
UNDEFINED = (
    "No label remains to learn from|is undefined here: it needs .*, and (Y does not have|no row of "
    "Y has|no column of "
    "Y has) that. Give such labels, or use another metric.$|needs labels of exactly two values, "
    "found 1 in Y. Give "
    "labels of both values|needs labels of exactly two values, found .* in Y. For real labels use "
    "the concordance index"
)


def asks_scores(setting):
    def ask(model, kind, case, _):
        scores = evaluate(model, setting, scoring=METRICS, error_score=np.nan)
        for each in scores.results:
            if each.trouble is not None:
                assert np.isnan(each.score)
                assert re.search(UNDEFINED, each.trouble), each.trouble
                assert is_alone(kind, case, setting) or not each.judge.name.startswith("neg_")
                continue
            assert np.isfinite(each.score)
            if is_fitted_exactly(kind, case) and each.judge.name.startswith("neg_mean"):
                assert each.score == 0.0

    return ask


def asks_landscape(model, kind, case, _):
    (scores,) = landscape(
        model, "A", alphas=ALPHAS[:2], task_alphas=ALPHAS[:1], scoring=ERRORS
    ).values()
    assert np.isfinite(scores).all()
    if is_fitted_exactly(kind, case):
        assert_array_equal(scores, 0.0)


def asks_choice(model, kind, case, _):
    assert model.alpha_ in ALPHAS
    assert not is_fitted_exactly(kind, case) or not edges_of(model)
    if is_fitted_exactly(kind, case):
        assert model.alpha_ == ALPHAS[-1]  # of equally good values the largest
        assert model.best_score_ == 0.0


def asks_nested(model, kind, case, _):
    given = case.given[: 3 if kind.knows_tasks else 2]
    found = nested_score(kind.make().set_params(alphas=ALPHAS[:2]), *given, cv=4, random_state=0)
    assert np.isfinite(found.score)
    if is_fitted_exactly(kind, case):
        assert found.score == 0.0


def asks_permutations(model, kind, case, _):
    found = permutation_test(model, "A", scoring=ERRORS, n_permutations=2, progress=False)
    assert found.p_value in {1 / 3, 2 / 3, 1.0}
    assert np.isfinite(found.null).all()
    if is_fitted_exactly(kind, case) or (case.is_constant and case.is_complete):
        assert found.p_value == 1.0


def asks_comparison(model, kind, case, _):
    if kind.has_formula:
        other = Kind(lambda: kind.make().set_params(alpha=7.0), kind.family)
    else:
        other = kind
    models = {"one": model, "other": model if kind.searches else other.fit(case)}
    found = compare(models, "A", scoring=ERRORS, n_resamples=20).differences[0]
    assert np.isfinite([found.difference, found.low, found.high]).all()
    if is_fitted_exactly(kind, case):
        assert (found.difference, found.p_value) == (0.0, 1.0)


def asks_screening(model, kind, case, _):
    found = screen(model, "A", n=None)
    assert len(found.labels) == case.observed.sum()
    assert np.isfinite(found.contradictions).all()
    if is_fitted_exactly(kind, case):
        assert_array_equal(found.contradictions, 0.0)


def asks_recommendation(model, kind, case, _):
    found = recommend(model, instance=case.Y.shape[0] // 2, n=2, zeros=False)
    assert np.isfinite(list(found.columns().values())[1]).all()
    assert len(top_pairs(model, n=3, zeros=False).columns()) > 0


def asks_probabilities(model, kind, case, _):
    assert 0 <= calibrate(model, "A")["A"].brier <= 1


def asks_process(model, kind, case, _):
    mean, deviation = model.predict(X_NEW, return_std=True)
    assert np.isfinite(model.log_marginal_likelihood())
    check(mean, kind, case)
    assert (deviation >= 0).all()


def asks_scaled_process(model, kind, case, _):
    assert np.isfinite(model.log_marginal_likelihood(scale=1.0))


def asks_report(model, kind, case, folder):
    write_report(model, folder / "report.html", setting="A", alphas=ALPHAS, progress=False)
    assert "<html" in (folder / "report.html").read_text(encoding="utf-8")


CALLS: dict[str, Any] = {
    "predict": asks_predictions,
    "predict(labels=)": asks_fold_in,
    **{f"holdout {setting}": asks_holdout(setting) for setting in "ABCD"},
    **{f"holdout {setting}, two groups": asks_groups(setting, 2) for setting in "BCD"},
    **{f"holdout {setting}, one group": asks_groups(setting, 1) for setting in "BD"},
    **{f"interval {setting}": asks_interval(setting) for setting in "ABCD"},
    **{f"evaluate {setting}": asks_scores(setting) for setting in "ABCD"},
    "landscape": asks_landscape,
    "search": asks_choice,
    "nested_score": asks_nested,
    "permutation_test": asks_permutations,
    "compare": asks_comparison,
    "screen": asks_screening,
    "recommend": asks_recommendation,
    "calibrate": asks_probabilities,
    "return_std": asks_process,
    "log_marginal_likelihood(scale=)": asks_scaled_process,
    "write_report": asks_report,
}


# --- what cannot be answered --------------------------------------------------------------------------------


def is_alone(kind, case, setting):
    """Return whether a setting leaves out all labels at once, or in A all from which an intercept is estimated."""
    rows, columns = (int(case.observed.any(axis=axis).sum()) for axis in (1, 0))
    if setting == "A":
        if kind.family == "independent":
            return kind.intercept and bool((case.observed.sum(axis=0) <= 1).all())
        return case.observed.sum() == 1 and (kind.intercept or not kind.has_formula)
    return (rows < 2 and setting in "BD") or (columns < 2 and setting in "CD")


def does_not_apply(call, kind):
    """Return whether a model has no such method, which other tests check."""
    setting = re.match(r"(?:holdout|interval|evaluate) ([CD])", call)
    if setting and not kind.knows_tasks:
        return True
    if call in ("search", "nested_score"):
        return not kind.searches
    if call in ("return_std", "log_marginal_likelihood(scale=)"):
        return kind.family not in ("kronecker", "pair kernel") or kind.searches
    if call == "predict(labels=)":
        return kind.family in ("independent", "online", "regressor")
    if "group" in call:
        return kind.family in ("online", "regressor")
    return not kind.has_formula and call not in OF_REGRESSORS


NOTHING_LEFT = "No label remains to learn from, because all of them are left out at once"


def in_one_unit(kind, case, setting, groups):
    """Return whether all labels are left out at once, also if rows and columns are left out in one or two groups."""
    if groups is None or is_alone(kind, case, setting):
        return groups == "one" or is_alone(kind, case, setting)
    rows, columns = (np.flatnonzero(case.observed.any(axis=axis)) % 2 for axis in (1, 0))
    units = {"B": [rows], "C": [columns], "D": [rows, columns]}[setting]
    return groups == "one" or any((codes == codes[0]).all() for codes in units)


def refusal(call, kind, case):
    """Return the beginning of the sentence by which a call refuses, or None if it must answer."""
    asked = re.match(r"holdout ([A-D])(?:, (one|two) group)?", call)
    if asked:
        is_left = (
            not kind.intercept and kind.family == "online"
        )  # a model without labels predicts zero
        if in_one_unit(kind, case, asked[1], asked[2]) and not is_left:
            return NOTHING_LEFT
        return None
    m, q = case.Y.shape
    known = case.observed[m // 2]
    is_one = case.observed.sum() == 1
    is_alone_in_a = is_alone(kind, case, "A")
    searched = kind.make().setting if kind.searches else "A"
    if not kind.knows_tasks:
        leaves_in_a = "B"
    elif case.observed.sum() == 1:
        leaves_in_a = "D"
    else:
        leaves_in_a = "A"
    permutes_tasks = kind.knows_tasks and q == 1 and m == 1
    rules: dict[str, list[tuple[Any, str]]] = {
        "fit": [
            (
                kind.searches and is_alone(kind, case, searched),
                f"Setting {searched} leaves out each .* give more",
            )
        ],
        "landscape": [
            (is_alone(kind, case, leaves_in_a), "Setting A leaves out each .* give more")
        ],
        "permutation_test": [
            (
                m == 1 and not permutes_tasks and not kind.knows_tasks,
                "Permuting instances takes two instances or more",
            ),
            (
                permutes_tasks,
                "Permuting tasks takes two tasks or more, found 1: permute the other side, or fit "
                "the",
            ),
            (is_alone_in_a, NOTHING_LEFT),
        ],
        "compare": [
            (is_alone_in_a, NOTHING_LEFT),
            (m * q == 1, "There is only one label, which cannot be resampled"),
        ],
        "screen": [(is_alone_in_a, NOTHING_LEFT)],
        "calibrate": [
            (case.is_constant, "Probabilities need labels of two values, found only"),
            (case.values.size > 2, "Probabilities need labels of two values, found \\d+ values"),
            (is_alone_in_a, NOTHING_LEFT),
            (
                case.observed.sum() == 2 and kind.has_formula,
                "In setting A all labels are in one fold, so that no map can be scored: give",
            ),
        ],
        "recommend": [
            (
                known.all(),
                r"(Every label of \d|Everything is) .*, so there is nothing to recommend",
            ),
            ((known | unpredicted(kind, case)).all(), "Nothing is predicted for"),
        ],
        "return_std": [
            (
                is_one and kind.intercept,
                "One label and an unpenalised mean do not determine a scale: give more",
            ),
            (
                is_fitted_exactly(kind, case),
                "The labels are all zero or, with an unpenalised mean, constant",
            ),
        ],
        "log_marginal_likelihood(scale=)": [
            (
                is_one and kind.intercept,
                "One label and an unpenalised mean do not determine a scale: give more",
            ),
        ],
    }
    return next((sentence for applies, sentence in rules.get(call, []) if applies), None)


# Warnings that a call may raise, with what they say.
DOCUMENTED = {
    NoLabelWarning: "no label to estimate an intercept from|the only ones of their task|are left "
    "without a label",
    BaselineWarning: "the best baseline, which uses no features",
    GridEdgeWarning: "on the edge of the grid",
    UnboundedIntervalWarning: "^Some intervals are infinite, because .* too few for a coverage of "
    "0.5: .*give more",
    UserWarning: "^All labels are .*: there is nothing to learn|^Labels are missing, so this "
    "result is that of TwoStep",
}


def ask(function, sentence):
    """Call a function that must answer or refuse with a sentence, and check its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if sentence is None:
            found = function()
        else:
            with pytest.raises(
                ValueError, match=f"^('one' cannot be compared: )?{sentence}"
            ) as refused:
                function()
            found = None
            assert str(refused.value).endswith(".")
    for each in caught:
        assert each.category in DOCUMENTED, each
        assert re.search(DOCUMENTED[each.category], str(each.message)), each
    return found


# Slow calls are asked of a few models: with and without intercept, tasks and formulas. All others
# are asked of all.
SLOW = {
    "write_report": ("two-step",),
    "evaluate": ("independent", "two-step, no intercept"),
    "permutation_test": ("independent", "two-step", "kronecker, no intercept"),
    "compare": ("independent", "kronecker, no intercept"),
    "interval": (
        "independent",
        "two-step",
        "kronecker, no intercept",
        "pair kernel, searched",
        "regressor",
    ),
    "nested_score": ("independent, searched", "kronecker, searched"),
}
# Regressors of scikit-learn are fitted again for each fold.
OF_REGRESSORS = ("predict", "holdout A", "holdout B", "interval A", "calibrate")


@pytest.mark.parametrize("model", MODELS)
def test_every_call_is_right_or_says_why_not(model, each, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "dyadlearn.views.summary._DRAWS", 0
    )  # intervals of a report take longer than all the rest
    kind = MODELS[model]
    for name in each(CASES):
        case = CASES[name]
        sentence = refusal("fit", kind, case)
        fitted = ask(lambda: kind.fit(case), sentence)  # noqa: B023
        if sentence is not None:
            continue
        for call in each(CALLS):
            if does_not_apply(call, kind) or model not in SLOW.get(call.split()[0], MODELS):
                continue
            ask(lambda: CALLS[call](fitted, kind, case, tmp_path), refusal(call, kind, case))  # noqa: B023


# --- lists of pairs, and networks ------------------------------------------------------------------------


@over(lines("name", *CASES))
def test_a_list_of_pairs_says_what_the_grid_says(name, monkeypatch):
    # Take the pairs alone, although the grid is small.
    monkeypatch.setattr(reading, "SMALL_GRID", 0)
    monkeypatch.setattr(reading, "fits_in_memory", lambda *_: False)
    case = CASES[name]
    rows, Y, columns = case.given
    places = np.nonzero(case.observed)
    listed = sparse.coo_array((Y[places], places), shape=Y.shape)
    if case.is_constant and 1 < listed.nnz < Y.size:
        words = r"there is nothing to learn: if its zeros are labels too, pass Y.toarray"
        with pytest.raises(ValueError, match=words):
            KroneckerRidge().fit(rows, listed, columns)
        return
    found, grid = (KroneckerRidge().fit(rows, each, columns) for each in (listed, Y))
    assert_allclose(found.predict(), grid.predict(), atol=1e-9)
    if is_alone(MODELS["kronecker"], case, "A"):
        with pytest.raises(LeverageError, match=f"^{NOTHING_LEFT}"):
            found.holdout("A")
    else:
        expected = np.asarray(grid.holdout("A"))[places]
        assert_allclose(found.holdout("A").toarray()[places], expected, rtol=1e-6, atol=1e-8)


NETWORKS = {
    "all 0": np.zeros((4, 4)),
    "all 7": np.full((4, 4), 7.0),
    "one node": np.full((1, 1), 7.0),
    "two nodes": np.full((2, 2), 7.0),
    "one edge": changed(np.full((4, 4), np.nan), ([1, 2], [2, 1]), 7.0),
    "a node without labels": changed(
        changed(np.full((4, 4), 7.0), 1, np.nan), (slice(None), 1), np.nan
    ),
}


@over(lines("name", *NETWORKS))
def test_networks_of_one_value(name):
    Y = NETWORKS[name]
    value = Y[~np.isnan(Y)][0]
    model = TwoStepRidge(symmetry="symmetric").fit(X[: len(Y)], Y)
    assert_allclose(model.predict(), value, rtol=1e-12, atol=1e-12)
    assert_allclose(model.predict(X_NEW), value, rtol=1e-12, atol=1e-12)
    alone = {"one node": "ABCD", "two nodes": "D", "one edge": "ABCD"}.get(name, "")
    for setting in "ABCD" if not np.isnan(Y).any() else "A":
        if setting in alone:
            with pytest.raises(LeverageError, match=f"^{NOTHING_LEFT}"):
                model.holdout(setting)
        else:
            assert_allclose(model.holdout(setting), value, rtol=1e-12, atol=1e-12)
