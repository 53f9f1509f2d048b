"""Scores of scikit-learn: names and scorers, against their metrics applied to single rows."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import metrics as sk
from sklearn.metrics import get_scorer, get_scorer_names, make_scorer

from dyadlearn import TwoStepRidge, TwoStepRidgeCV, evaluate, save
from dyadlearn.exceptions import ModelFileError
from dyadlearn.metrics import scorer
from dyadlearn.metrics import scorers as borrowed
from dyadlearn.metrics.cells import METRICS
from sweeps import covering, lines, over

RNG = np.random.default_rng(0)
REAL = RNG.gamma(2.0, size=(6, 5))
STACK = RNG.gamma(2.0, size=(1, 2, 6, 5))
AVERAGES = ("pooled", "instance", "task")

# Of what scikit-learn has by name, what it is applied to numbers for; all others judge classes or
# probabilities.
BY_DISTANCE = {
    "explained_variance": sk.explained_variance_score,
    "d2_absolute_error_score": sk.d2_absolute_error_score,
    "neg_mean_absolute_percentage_error": lambda y, f: -sk.mean_absolute_percentage_error(y, f),
    "neg_mean_gamma_deviance": lambda y, f: -sk.mean_gamma_deviance(y, f),
    "neg_mean_poisson_deviance": lambda y, f: -sk.mean_poisson_deviance(y, f),
    "neg_mean_squared_log_error": lambda y, f: -sk.mean_squared_log_error(y, f),
    "neg_median_absolute_error": lambda y, f: -sk.median_absolute_error(y, f),
    "neg_root_mean_squared_log_error": lambda y, f: -sk.root_mean_squared_log_error(y, f),
}


def wide(y, f, power=1.0):
    return float(np.mean(np.abs(y - f) ** power))


def r2_score(y, f):
    """Has the name of a function of scikit-learn, and is another one."""
    return float(np.mean(y == f))


def by_rows(function, Y, F, average):
    """Return a function of vectors by its average."""
    pairs = {
        "pooled": [(Y.ravel(), F.ravel())],
        "instance": zip(Y, F, strict=True),
        "task": zip(Y.T, F.T, strict=True),
    }
    found = [
        function(y[~np.isnan(y)], f[~np.isnan(y)])
        for y, f in pairs[average]
        if not np.isnan(y).all()
    ]
    return np.mean([score for score in found if score is not None])


@over(covering(strength=1, name=[*BY_DISTANCE, "neg_max_error"], average=AVERAGES))
def test_names_of_scikit_learn(name, average):
    if name not in get_scorer_names():
        return  # older ones are called otherwise
    function = BY_DISTANCE.get(name, lambda y, f: -sk.max_error(y, f))
    Y = REAL.copy()
    Y[0, 1], Y[3] = np.nan, np.nan
    judge = scorer(name)
    assert judge.name == name
    expected = [[by_rows(function, Y, F, average) for F in row] for row in STACK]
    assert_allclose(judge(Y, STACK, average=average), expected, rtol=1e-13)
    prepared = judge.prepare(Y, average=average)
    assert prepared.n_undefined == (average == "instance")
    assert prepared(STACK[0, 1]) == pytest.approx(expected[0][1], rel=1e-13)
    assert scorer(get_scorer(name)) == judge


@over(
    lines(
        "name function",
        ("neg_mean_squared_error", make_scorer(sk.mean_squared_error, greater_is_better=False)),
        ("neg_mean_absolute_error", get_scorer("neg_mean_absolute_error")),
        ("r2", make_scorer(sk.r2_score)),
        ("roc_auc", get_scorer("roc_auc")),
        ("average_precision", get_scorer("average_precision")),
    )
)
def test_what_both_have_is_that_of_this_library(name, function):
    assert scorer(function) == scorer(name)
    assert scorer(function).metric is METRICS[name]


@over(
    lines(
        "made title function",
        (make_scorer(wide, power=3.0), "wide", lambda y, f: wide(y, f, 3.0)),
        (make_scorer(wide, greater_is_better=False), "neg_wide", lambda y, f: -wide(y, f)),
        (make_scorer(r2_score), "r2_score", r2_score),
        (
            make_scorer(sk.mean_pinball_loss, alpha=0.2),
            "mean_pinball_loss",
            lambda y, f: sk.mean_pinball_loss(y, f, alpha=0.2),
        ),
        (
            make_scorer(sk.r2_score, greater_is_better=False),
            "neg_r2_score",
            lambda y, f: -sk.r2_score(y, f),
        ),
    )
)
def test_scorers_of_any_metric_of_two_vectors(made, title, function, library):
    judge = scorer(made)
    assert judge.name == title
    assert judge.metric is borrowed.Borrowed
    labels, stack = map(library.asarray, (REAL, STACK))
    given = [library.to_numpy(values).astype(float) for values in (labels, stack)]
    for average in AVERAGES:
        expected = [[by_rows(function, given[0], F, average) for F in row] for row in given[1]]
        scores = judge(labels, stack, average=average)
        assert type(scores) is type(stack)
        assert_allclose(library.to_numpy(scores), expected, rtol=1e-12)
    assert_array_equal(judge(REAL, STACK, setting="B"), judge(REAL, STACK, average="instance"))
    assert_array_equal(pickle.loads(pickle.dumps(judge))(REAL, STACK), judge(REAL, STACK))


def test_what_judges_classes_is_refused(each):
    others = {*METRICS, *BY_DISTANCE, "neg_max_error", "max_error"}
    for name in each(name for name in get_scorer_names() if name not in others):
        for scoring in (name, get_scorer(name)):
            with pytest.raises(
                ValueError,
                match="of scikit-learn judges the classes, probabilities or decisions.*use "
                "'roc_auc'",
            ):
                scorer(scoring)
    area = make_scorer(sk.roc_auc_score, response_method="decision_function", max_fpr=0.5)
    others = (
        make_scorer(sk.ndcg_score),
        make_scorer(sk.fbeta_score, beta=2),
        sk.check_scoring(TwoStepRidge()),
    )
    for made in (area, *others):
        with pytest.raises(ValueError, match=r"these models predict numbers: use 'roc_auc'"):
            scorer(made)


def test_the_cause_of_a_refusal_is_told():
    def broken(y, f):
        raise KeyError("what")

    with pytest.raises(ValueError, match="of scikit-learn") as found:
        scorer(make_scorer(broken))
    assert isinstance(found.value.__cause__, KeyError)


def test_errors_of_the_metric_are_passed_on():
    with pytest.raises(ValueError, match="F contains NaN where Y is observed"):
        scorer("explained_variance")(REAL, np.where(STACK > 3, np.nan, STACK))
    with pytest.raises(ValueError, match="strictly positive"):
        scorer("neg_mean_gamma_deviance")(REAL, -STACK)
    with pytest.raises(ValueError, match="targets contain values"):
        scorer("neg_mean_squared_log_error")(-2.0 * np.ones((6, 5)), STACK)


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_selection_by_them(real, tmp_path):
    X, Y, T = real[0][:9], real[1][:9, :7], real[2][:7]
    made = make_scorer(wide, greater_is_better=False, power=0.5)
    for scoring in ("neg_median_absolute_error", made):
        search = TwoStepRidgeCV([0.1, 1.0, 10.0], [1.0, 10.0], setting="C", scoring=scoring)
        search.fit(X, Y, T)
        assert_allclose(search.best_score_, scorer(scoring)(Y, search.holdout_, setting="C"))
        assert_allclose(evaluate(search, "C")[scorer(scoring).name], [search.best_score_])
    with pytest.raises(ModelFileError, match="scoring is .*use a metric by its name"):
        save(search, tmp_path / "model.dyad")
