"""Wrong input, parameters and questions are refused by one sentence, and nothing is lost by it.

The tables have what is wrong, the type of the error and a part of its sentence.
"""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import NotFittedError

import problems
from dyadlearn import IndependentTaskRidge, KroneckerRidge, OnlineTwoStepRidge, TwoStepRidge
from dyadlearn.exceptions import IdError, KernelError, LeverageError
from dyadlearn.filters import Tikhonov
from sweeps import every, lines, over

M = 6
Q = 4
X, Y, T = problems.data(M, Q, 3, 2)
K = X @ X.T + np.eye(M)
G = T @ T.T + np.eye(Q)
ROWS = list("abcdef")
TASKS = ["t0", "t1", "t2", "t3"]
LABELS = pd.DataFrame(Y, ROWS, TASKS)
TEXT = np.array([["x"] * 4] * 6)

MODELS = [IndependentTaskRidge, KroneckerRidge, TwoStepRidge]
PAIR_MODELS = [KroneckerRidge, TwoStepRidge]
every_model = {"Model": MODELS}
every_pair_model = {"Model": PAIR_MODELS}


def precomputed(Model=TwoStepRidge, **params):
    """Return a model on given kernels."""
    if Model is not IndependentTaskRidge:
        params["task_kernel"] = "precomputed"
    return Model(kernel="precomputed", **params)


def spoilt(array, value, *where):
    """Return a copy with one entry, symmetric ones in a kernel, replaced."""
    copy = array.copy()
    copy[where or (0, 1)] = value
    return copy


def refused(call, error, sentence):
    """Assert that a call raises an error with a part of a sentence."""
    with pytest.raises(error, match=sentence):
        call()


def converted(library, given):
    """Return arguments with arrays of a library in place of arrays of numbers of numpy."""
    return {
        name: library.asarray(value)
        if isinstance(value, np.ndarray) and value.dtype.kind == "f"
        else value
        for name, value in given.items()
    }


# --- fit ---------------------------------------------------------------------------------------

ROWS_OF_LABELS = r"^X has 6 instances, but Y has 5 rows: give one row of labels per instance\.$"
ROWS_OF_TASKS = (
    r"^tasks has 3 rows, but Y has 4 columns: give one row per task\. If .* Tasks\(tasks\)\.$"
)
NOTHING = r"^Y is NaN everywhere: no label is observed, so there is nothing to learn from\.$"
SQUARE = r"^The precomputed {} kernel must be a square matrix, found shape \({}\)"
NO_WEIGHTS = "^sample_weight .*must hold finite numbers of at least 0"
#: What stands in place of X, Y and the other arguments of all models, and of models on kernels.
FIT = [
    ({"y": Y[:5]}, ValueError, ROWS_OF_LABELS),
    ({"tasks": T[:3]}, ValueError, ROWS_OF_TASKS),
    (
        {"X": pd.DataFrame(X[:5], ROWS[:5]), "y": LABELS},
        IdError,
        r"1 only in the rows of Y \('f'\)",
    ),
    (
        {"y": LABELS, "tasks": pd.DataFrame(T[:3], TASKS[:3])},
        IdError,
        r"1 only in the columns of Y \('t3'\).*Tasks\(tasks\)",
    ),
    ({"X": X[:, 0]}, ValueError, "must be a matrix, found 1 dimension|Expected 2D array, got 1D"),
    ({"tasks": T[:, 0]}, ValueError, "tasks must be a matrix|Expected 2D array, got 1D"),
    ({"y": Y[:, :0]}, ValueError, r"Y .*\(6, 0\).*empty|Y .*empty.*\(6, 0\)"),
    ({"y": Y[:0]}, ValueError, r"Y .*\(0, 4\).*empty|Y .*empty.*\(0, 4\)"),
    ({"tasks": T[:0]}, ValueError, r"tasks .*\(0, 2\).*empty|tasks .*empty.*\(0, 2\)"),
    ({"X": X[:0]}, ValueError, r"\(0, ?3\)"),
    ({"X": X[:, :0]}, ValueError, r"\(6, ?0\)"),
    ({"X": spoilt(X, np.nan)}, ValueError, "X contains (NaN|infinity)"),
    ({"tasks": spoilt(T, np.nan)}, ValueError, "tasks contains (NaN|infinity)"),
    ({"y": spoilt(spoilt(Y, np.nan, 2, 2), np.inf)}, ValueError, "Y contains infinity"),
    ({"y": np.full((M, Q), np.nan), "tasks": T}, ValueError, NOTHING),
    (
        {"sample_weight": np.ones(5)},
        ValueError,
        r"^sample_weight must give a weight for each of 6 instances, 4 tasks or 6 × 4 cells, found shape \(5,\)",
    ),
    ({"sample_weight": np.full((6, 4), np.nan)}, ValueError, NO_WEIGHTS),
    (
        {"sample_weight": np.zeros((6, 4))},
        ValueError,
        "^sample_weight is zero wherever Y is observed: give some cells a positive weight",
    ),
    ({"sample_weight": ["a"] * 6}, ValueError, "^sample_weight holds text where numbers belong"),
    (
        {"y": spoilt(Y, np.nan, 0), "sample_weight": np.eye(M, Q) * np.eye(M)[0][:, None]},
        ValueError,
        "^sample_weight is zero wherever Y is observed",
    ),
    (
        {"y": LABELS, "sample_weight": pd.Series(1.5, list("ghijkl"))},
        IdError,
        "sample_weight",
    ),
    (
        {"y": LABELS, "sample_weight": pd.DataFrame(1.5, ROWS, list("uvwx"))},
        IdError,
        "the columns of sample_weight",
    ),
]
FIT_KERNELS = [
    ({"X": X}, KernelError, SQUARE.format("instance", "6, 3") + r"\. For features, "),
    ({"tasks": T}, KernelError, SQUARE.format("task", "4, 2")),
]


@over(lines("given error sentence", *FIT))
@over(every(Model=[IndependentTaskRidge, TwoStepRidge]))
def test_arguments_of_fit(Model, given, error, sentence, library):
    model = Model().fit(X, Y)
    predicted = model.predict(X)
    arguments = converted(library, {"X": X, "y": Y} | given)
    if any(isinstance(value, pd.DataFrame | pd.Series) for value in given.values()):
        arguments = {"X": X, "y": Y} | given
    refused(lambda: model.fit(**arguments), error, sentence)
    assert_array_equal(model.predict(X), predicted)


@over(lines("given error sentence", *FIT_KERNELS))
@over(every(**every_pair_model))
def test_kernels_of_fit(Model, given, error, sentence, library):
    arguments = converted(library, {"X": K, "y": Y} | given)
    refused(lambda: precomputed(Model).fit(**arguments), error, sentence)


# --- parameters --------------------------------------------------------------------------------

NUMBER = "must be a (finite )?number of at least 0, found "
NUMBERS = [
    *((value, ValueError) for value in (-1e-9, np.nan, np.inf)),
    *((value, TypeError) for value in ("1", None, True, [1.0], np.ones(2))),
]
FILTER = r"filter must be a spectral filter such as Tikhonov\(\), found "
KERNEL = "kernel must be one of .*rbf.*, or a callable, found "
#: Parameters, the models that have them, the type of the error and a part of its sentence.
PARAMETERS = [
    *(({"alpha": value}, PAIR_MODELS, error, f"^alpha {NUMBER}") for value, error in NUMBERS),
    (
        {"alpha": [1.0]},
        [IndependentTaskRidge],
        ValueError,
        "^alpha has 1 values, but Y has 4 tasks",
    ),
    ({"alpha": -1.0}, [IndependentTaskRidge], ValueError, f"^alpha {NUMBER}"),
    ({"task_alpha": "1"}, [TwoStepRidge], TypeError, f"^task_alpha {NUMBER}"),
    ({"tol": np.nan}, PAIR_MODELS, ValueError, f"^tol {NUMBER}"),
    *(
        (
            {"max_iter": value},
            PAIR_MODELS,
            ValueError,
            "^max_iter must be a whole number of at least 1, found ",
        )
        for value in (0, 2.5, "1", True)
    ),
    ({"kernel": "rgf"}, MODELS, KernelError, r"^Unknown kernel 'rgf'\. Did you mean 'rbf'\?"),
    *(({"kernel": name}, MODELS, KernelError, KERNEL) for name in (3, None, ["rbf"])),
    (
        {"task_kernel": "tanimto"},
        PAIR_MODELS,
        KernelError,
        r"^Unknown kernel 'tanimto'\. Did you mean 'tanimoto'\? Known are .*linear",
    ),
    *(
        (
            {name: {"gamma": 1.0}},
            PAIR_MODELS,
            KernelError,
            "'linear' takes no parameter 'gamma'; it",
        )
        for name in ("kernel_params", "task_kernel_params")
    ),
    (
        {"kernel": lambda A, B: A[:, 0]},
        MODELS,
        KernelError,
        r"expected shape \(6, 6\), found \(6,\)",
    ),
    *(
        (
            {"repair": value},
            MODELS,
            ValueError,
            rf"^repair must be one of 'clip', 'shift', 'error', found {value!r}\.$",
        )
        for value in ("mend", None)
    ),
    *(
        ({name: value}, [TwoStepRidge], TypeError, f"^{name[:-6]}{FILTER}")
        for name in ("filter", "task_filter")
        for value in ("tikhonov", Tikhonov)
    ),
    ({"identity": -1.0}, PAIR_MODELS, ValueError, f"identity {NUMBER}-1"),
    ({"identity": (1, 2, 3)}, PAIR_MODELS, ValueError, "identity must be one number, or two "),
    ({"identity": "much"}, PAIR_MODELS, TypeError, f"identity {NUMBER}'much'"),
]


@over(lines("params models error sentence", *PARAMETERS))
def test_parameters(params, models, error, sentence):
    for Model in models:
        refused(lambda Model=Model: Model(**params).fit(X, Y, T), error, sentence)


# --- questions ---------------------------------------------------------------------------------

NO_TASKS = r"knows nothing of tasks: fit it with tasks="
#: The method of a model that was fitted on X, Y and T, its arguments, and the error.
QUESTIONS = [
    ("predict", (X, T[:, :1]), ValueError, r"^tasks has 1 columns, expected 2 features\.$"),
    (
        "score",
        (X, Y, T[:2]),
        ValueError,
        r"^Y has shape \(6, 4\), but the predictions .* \(6, 2\)\. .* Tasks\(tasks\)\.$",
    ),
    ("score", (X, np.full((M, Q), np.nan)), ValueError, NOTHING),
    (
        "score",
        (X, spoilt(Y, np.nan), None, np.arange(6.0)),
        ValueError,
        "^score takes sample_weight only if no label is missing",
    ),
]


@over(lines("method given error sentence", *QUESTIONS))
@over(every(**every_pair_model))
def test_questions(Model, method, given, error, sentence):
    refused(lambda: getattr(Model().fit(X, Y, T), method)(*given), error, sentence)


@over(every(method=["predict", "predict_pairs", "score"]))
def test_without_a_task_side_there_are_no_new_tasks(method):
    model = TwoStepRidge().fit(X, Y)
    given = {"predict": (X, T), "predict_pairs": (X, T, [(0, 0)]), "score": (X, Y, T)}[method]
    sentence = f"^This TwoStepRidge {NO_TASKS}"
    refused(lambda: getattr(model, method)(*given), ValueError, sentence)


def test_only_a_few_of_many_ids_are_listed():
    names = [f"i{i}" for i in range(30)]
    rows = np.random.default_rng(0).normal(size=(30, 2))
    others = [f"j{i}" for i in range(30)]
    with pytest.raises(IdError) as caught:
        TwoStepRidge().fit(pd.DataFrame(rows, names), pd.DataFrame(rows, others))
    message = str(caught.value)
    assert "30 only in the rows of Y ('j0', 'j1', 'j2', 'j3', 'j4', …)" in message
    assert "30 only in X ('i0', 'i1', 'i2', 'i3', 'i4', …)" in message
    assert "i5" not in message


# --- frames, ids and text ----------------------------------------------------------------------

TWICE = ["a", *ROWS[:5]]
FEATURES = pd.DataFrame(X, ROWS)
TASK_FEATURES = pd.DataFrame(T, TASKS)
MISSING_FEATURE = pd.DataFrame(spoilt(X, np.nan, 3, 1), ROWS, list("uvw"))
EXTREMES = sparse.csr_array((Y.max() == Y) | (Y.min() == Y), dtype=float)
COMMAS = pd.DataFrame(Y).map(lambda value: f"{value:.2f}".replace(".", ","))
REPEATED = "has repeated ids: 'a' "
TRANSPOSED = "^Y looks transposed"
NAN = "^Input {} contains NaN in {}"
EMPTY = "has no id at position"
#: The arguments of `fit`, the type of the error and a part of its sentence.
FRAMES = [
    (
        (pd.DataFrame(X, TWICE), LABELS),
        IdError,
        rf"^The index of X {REPEATED}\(1 of \d+ ids\): aggregate or rename them\.$",
    ),
    (
        (X, LABELS, pd.DataFrame(T, ["t0", "t1", "t1", "t0"])),
        IdError,
        r"^The index of tasks has repeated ids: 't[01]', 't[01]' \(2 of 2 ids\)",
    ),
    ((pl.DataFrame({"who": TWICE, "f": X[:, 0]}), Y), IdError, f"^Column 'who' of X {REPEATED}"),
    (
        (X, EXTREMES),
        ValueError,
        "^All 2 labels that Y stores are 1, and cells that a sparse matrix",
    ),
    (
        (FEATURES, LABELS.T),
        IdError,
        rf"{TRANSPOSED}: its columns have the ids of X.* pass Y\.T\.$",
    ),
    (
        (FEATURES, LABELS.T, TASK_FEATURES),
        IdError,
        rf"{TRANSPOSED}.* pass Y\.T, or exchange X and tasks\.$",
    ),
    ((TASK_FEATURES, LABELS, FEATURES), IdError, "exchange X and tasks"),
    (
        (X, Y.T),
        ValueError,
        r"^X has 6 instances, but Y has 4 rows: .* Y looks transposed: pass Y\.T\.$",
    ),
    ((T, Y, X), ValueError, r"Y looks transposed: pass Y\.T, or exchange X and tasks\.$"),
    (
        (pd.DataFrame(X, range(6)), pd.DataFrame(Y, list("012345"))),
        IdError,
        r"'0' and 0 differ in type or blanks only: read both alike\.$",
    ),
    (
        (MISSING_FEATURE, Y),
        ValueError,
        NAN.format("X", "row 'd', column 'v': only labels may be missing"),
    ),
    ((MISSING_FEATURE.to_numpy(), Y), ValueError, NAN.format("X", "row 3, column 1, counted")),
    ((X, Y, spoilt(T, np.nan, 2, 0)), ValueError, NAN.format("tasks", "row 2, column 0")),
    (
        (pd.DataFrame({"smiles": ["CCO"] * M}, ROWS), Y),
        ValueError,
        r"text \(such as 'CCO'\) in column 'smiles'.*kernels\.chemistry\.Fingerprints",
    ),
    ((X, COMMAS), ValueError, r"^Y holds text .* Write decimals with a point\.$"),
    ((pl.LazyFrame({"a": X[:, 0]}), Y), TypeError, "X is a lazy frame: collect it first"),
    *(
        case
        for label in ("  ", None, float("nan"))
        for case in (
            (
                (pd.DataFrame(X, pd.Index([*ROWS[:-1], label], dtype=object)), Y),
                IdError,
                f"^The index of X {EMPTY} 5",
            ),
            (
                (X, pd.DataFrame(Y, columns=pd.Index([*TASKS[:-1], label], dtype=object))),
                IdError,
                f"^The columns of Y {EMPTY} 3",
            ),
        )
    ),
    *(
        case
        for text in (TEXT, TEXT.astype(object), pd.DataFrame(TEXT))
        for case in (
            ((text, Y), ValueError, r"\bX\b"),
            ((X, text), ValueError, r"\bY\b"),
            ((X, Y, text[:4]), ValueError, r"\btasks\b"),
        )
    ),
]


@over(lines("given error sentence", *FRAMES))
def test_frames_of_fit(given, error, sentence):
    refused(lambda: TwoStepRidge().fit(*given), error, sentence)


def test_frames_of_other_questions():
    repeated = pd.DataFrame(X, TWICE)
    refused(lambda: TwoStepRidge().fit(X, Y).predict(repeated), IdError, f"index of X {REPEATED}")
    refused(lambda: OnlineTwoStepRidge().fit(FEATURES, LABELS.T), IdError, TRANSPOSED)
    dense = r"[Ss]parse.* {}, but dense data is required"
    for given, name in (((sparse.csr_array(K), Y), "X"), ((K, Y, sparse.csr_array(G)), "tasks")):
        refused(lambda given=given: precomputed().fit(*given), TypeError, dense.format(name))


def test_a_block_of_a_kernel_on_its_side_is_told():
    model = precomputed().fit(
        pd.DataFrame(K, index=ROWS, columns=ROWS),
        pd.DataFrame(Y, index=ROWS, columns=TASKS),
        pd.DataFrame(G, TASKS, TASKS),
    )
    block, task_block = (
        pd.DataFrame(part[:2], index=["u", "v"], columns=ids)
        for part, ids in ((K, ROWS), (G, TASKS))
    )
    with pytest.raises(
        IdError, match=r"^X looks transposed: the training ids are in its rows.*pass X\.T\.$"
    ):
        model.predict(block.T)
    with pytest.raises(IdError, match=r"^tasks looks transposed"):
        model.predict(block, task_block.T)


def test_independent_tasks_know_no_new_tasks():
    model = IndependentTaskRidge().fit(X, Y, T)
    with pytest.raises(
        ValueError, match="knows nothing of tasks: use TwoStepRidge or KroneckerRidge"
    ):
        model.predict(X, T)


@over(
    lines(
        "model tasks",
        (TwoStepRidge(kernel="rbf"), None),
        (IndependentTaskRidge(kernel="rbf"), None),
        (TwoStepRidge(task_kernel="rbf"), T),
        (KroneckerRidge(kernel="rbf"), T),
        (KroneckerRidge(task_kernel=lambda A, B: A @ B.T), T),
    )
)
def test_coef_exists_only_in_the_primal(model, tasks):
    model.fit(X, Y, tasks)
    assert not hasattr(model, "coef_")
    with pytest.raises(
        AttributeError,
        match=r"^coef_ exists only in the primal: linear kernels, fewer features than rows; see "
        r"dual_coef_\.$",
    ):
        _ = model.coef_


@over(every(**every_model))
def test_an_unfitted_model_says_so(Model):
    message = f"This {Model.__name__} instance is not fitted yet"
    model = Model()
    for call in (
        lambda: model.predict(X),
        lambda: model.predict_pairs(X, None, [(0, 0)]),
        lambda: model.score(X, Y),
        lambda: model.set_alpha(1.0),
        lambda: model.dual_coef_,
        lambda: model.coef_,
        lambda: model.completed_,
        lambda: model.n_iter_,
        lambda: model.residual_,
        lambda: model.holdout("B"),
    ):
        with pytest.raises(NotFittedError, match=message):
            call()
    assert not hasattr(model, "dual_coef_")


def test_a_failed_first_fit_leaves_the_model_unfitted():
    model = precomputed(repair="error")
    with pytest.raises(KernelError):
        model.fit(K, Y, spoilt(G, 9.0))
    with pytest.raises(NotFittedError):
        model.predict(K)


@over(every(alphas=[(2.0, -1.0), (-1.0, 2.0), (2.0, "x")]))
def test_one_refused_alpha_refuses_both(alphas):
    model = TwoStepRidge(0.5, 0.25).fit(X, Y, T)
    predicted = model.predict(X, T)
    with pytest.raises((TypeError, ValueError), match="alpha must be"):
        model.set_alpha(*alphas)
    assert (model.alpha, model.task_alpha) == (0.5, 0.25)
    assert_array_equal(model.predict(X, T), predicted)


@over(every(model=[TwoStepRidge(0.5, 0.25), KroneckerRidge(0.5)]))
def test_an_alpha_that_cannot_be_solved_leaves_the_model_as_it_was(model):
    """At λ = 0 too few labels are left to say anything of the missing ones: the last thing that may fail."""
    labels = np.full((M, Q), np.nan)
    labels[0] = 1.0
    model.fit(X, labels, T)
    params = model.get_params()
    predicted = model.predict(X)
    completed = model.completed_
    with pytest.raises(LeverageError):
        model.set_alpha(*[0.0] * (2 if isinstance(model, TwoStepRidge) else 1))
    assert model.get_params() == params
    assert_array_equal(model.predict(X), predicted)
    assert_array_equal(model.completed_, completed)
    assert_array_equal(model.set_alpha().predict(X), predicted)


def test_none_leaves_alphas_as_they_are():
    model = TwoStepRidge(0.5, 0.25).fit(X, Y, T)
    assert model.set_alpha().get_params()["alpha"] == 0.5
    model.set_alpha(task_alpha=3.0)
    assert (model.alpha, model.task_alpha) == (0.5, 3.0)
    assert_allclose(
        model.predict(X, T),
        TwoStepRidge(0.5, 3.0).fit(X, Y, T).predict(X, T),
        rtol=1e-12,
    )


def test_a_failed_refit_forgets_no_width():
    model = TwoStepRidge().fit(pd.DataFrame(X, columns=list("fgh")), Y)
    predicted = model.predict(pd.DataFrame(X, columns=list("fgh")))
    with pytest.raises(ValueError, match="Y contains infinity"):
        model.fit(pd.DataFrame(X[:, :2], columns=list("uv")), spoilt(Y, np.inf))
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.tolist() == ["f", "g", "h"]
    assert_array_equal(model.predict(pd.DataFrame(X, columns=list("fgh"))), predicted)
