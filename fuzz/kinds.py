"""The kinds of cases that are compared between old and new: every model, and every answer that it can give."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from cases import LEARNED, TOL, Drawing, kind
from posing import (
    Problem,
    dense,
    draw_alpha,
    draw_alphas,
    draw_groups,
    draw_labels,
    draw_missing,
    draw_network,
    draw_problem,
    draw_side,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

__all__: list[str] = []

# What is allowed of scores, whose size is about one, and of numbers that have no scale but their
# own.
UNIT = {"scale": 1.0}
OWN = {"scale": 0.0}
# Of what a search chose: nothing, where it looked at other points.
CHOSEN = {"given": "landscape_"}


def fit(case: Drawing, problem: Problem) -> Any:
    """Return the fitted model of a problem, or None where it is refused."""
    lib = case.lib
    return case.make(
        "fit", lambda: lib.do(lib.call(problem.name, **problem.params), "fit", **problem.data)
    )


def saved_and_loaded(case: Drawing, model: Any) -> Any:
    """Return a model after a round trip through a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.dyad"
        case.lib.call("save", model=model, path=path)
        return case.lib.call("load", path=path)


# --- predictions and hold-out ------------------------------------------------------------------------


def note_predictions(case: Drawing, model: Any, problem: Problem, prefix: str = "") -> None:
    """Note predictions for known and new rows and tasks."""
    new = problem.new_rows
    tasks = problem.new_tasks
    case.ask(f"{prefix}predict()", model, "predict", X=None)
    case.ask(f"{prefix}predict(X)", model, "predict", X=new)
    if tasks is not None:
        case.ask(f"{prefix}predict(tasks)", model, "predict", X=None, tasks=tasks)
        case.ask(f"{prefix}predict(X, tasks)", model, "predict", X=new, tasks=tasks)
        pairs = np.array([[0, 1], [1, 1], [1, 0]])
        case.ask(f"{prefix}predict_pairs", model, "predict_pairs", X=new, tasks=tasks, pairs=pairs)


def note_holdout(case: Drawing, model: Any, problem: Problem) -> None:
    """Note held-out predictions in two settings, alone and in groups."""
    m, q = problem.shape
    for letter in case.some(2, *problem.settings):
        case.ask(f"holdout {letter}", model, "holdout", setting=letter)
        groups: dict[str, Any] = {}
        if letter in "BD":
            groups["groups"] = draw_groups(case, m)
        if letter in "CD":
            groups["task_groups"] = draw_groups(case, q)
        if letter == "A":
            groups["cells"] = case.rng.integers(0, 4, size=(m, q))
        if case.chance(0.05 if problem.network else 0.6):
            case.ask(f"holdout {letter} groups", model, "holdout", setting=letter, **groups)


@kind
def models(case: Drawing) -> None:
    """Fits, predictions, hold-out, coefficients and intervals of the models with a given regularisation."""
    problem = draw_problem(case)
    model = fit(case, problem)
    if model is None:
        return
    note_predictions(case, model, problem)
    note_holdout(case, model, problem)
    case.look(model, "dual_coef_ coef_ intercept_", OWN)
    case.look(model, "completed_")
    tasks = {} if problem.tasks is None else {"tasks": problem.tasks}
    case.ask("score", model, "score", UNIT, X=problem.X, y=dense(problem.Y), **tasks)
    letter = str(case.pick(*problem.settings))
    coverage = float(case.pick(0.8, 0.9))
    new = {"X": problem.new_rows} if letter in "BD" else {}
    new |= {"tasks": problem.new_tasks} if letter in "CD" else {}
    if case.chance(0.6):
        case.ask(f"interval {letter}", model, "predict_interval", coverage=coverage, **new)
    if problem.name in ("KroneckerRidge", "PairKernelRidge") and (
        problem.form == "full" or case.chance(0.1)
    ):
        case.look(model, "scale_", OWN)
        # Determinants and traces lose some digits.
        loose = {"scale": 1.0, "share": 100 * case.share}
        case.ask("likelihood", model, "log_marginal_likelihood", loose, eval_gradient=True)
        case.ask("std", model, "predict", X=problem.new_rows, return_std=True)
    if case.chance(0.3):
        alphas = {"alpha": draw_alpha(case)}
        if problem.name == "TwoStepRidge" and problem.tasks is not None:
            alphas["task_alpha"] = draw_alpha(case)
        changed = case.make("set_alpha", lambda: case.lib.do(model, "set_alpha", **alphas))
        case.ask("set_alpha predict", changed, "predict", X=problem.new_rows)


@kind
def networks(case: Drawing) -> None:
    """Two-step ridge regression on networks: fits, hold-out, intervals, searches and answers."""
    problem = draw_network(case)
    model = fit(case, problem)
    if model is not None:
        note_predictions(case, model, problem)
        note_holdout(case, model, problem)
        case.look(model, "dual_coef_", OWN)
        case.ask("interval B", model, "predict_interval", X=problem.new_rows)
        note_answers(case, model, problem, 2)
    if case.chance(0.3):
        note_search(case, problem)


@kind
def listed(case: Drawing) -> None:
    """Labels of some pairs of a grid that is too large to form."""
    rng = case.rng
    name = str(case.pick("KroneckerRidge", "TwoStepRidge", "PairKernelRidge"))
    m = 1100
    q = 1000
    d = int(rng.integers(1, 4))
    r = int(rng.integers(1, 4))
    X = rng.normal(size=(m, d)) + 1.0
    T = rng.normal(size=(q, r))
    at = np.unique(rng.integers(0, [8, 9], size=(int(rng.integers(15, 60)), 2)), axis=0)
    values = np.einsum("nd,dr,nr->n", X[at[:, 0]], rng.normal(size=(d, r)), T[at[:, 1]]) + float(
        case.pick(0.0, 10.0)
    )
    values += 0.3 * rng.normal(size=len(at))
    if case.chance(0.25):
        values = (values > np.median(values)).astype(float)
    case.scale = float(np.ptp(values))
    Y = scipy.sparse.csr_array((values, (at[:, 0], at[:, 1])), shape=(m, q))
    params: dict[str, Any] = {
        "alpha": draw_alpha(case),
        "fit_intercept": case.chance(0.6),
        "tol": TOL,
    }
    if name == "TwoStepRidge":
        params["task_alpha"] = draw_alpha(case)
    if name == "PairKernelRidge":
        params["product"] = 0.7
    weights = None
    if case.chance(0.3):
        weights = scipy.sparse.csr_array(
            (rng.uniform(0.3, 3.0, size=len(at)), (at[:, 0], at[:, 1])), shape=(m, q)
        )
    case.what.append(
        f"{name} {m}x{q} of rank {d}x{r} with {len(at)} "
        f"labels{'' if weights is None else ' weights'}"
    )
    new = rng.normal(size=(2, d)), rng.normal(size=(2, r))
    problem = Problem(name, params, X, Y, T, *new, weights, "ABCD", form="list")
    model = fit(case, problem)
    if model is None:
        return
    case.ask("predict(X, tasks)", model, "predict", X=new[0], tasks=new[1])
    case.ask(
        "predict_pairs",
        model,
        "predict_pairs",
        X=X[:8],
        tasks=T[:9],
        pairs=np.array([[0, 2], [1, 3], [2, 4]]),
    )
    letter = str(case.pick(*"AABBCCD"))
    if letter == "A" or case.chance(0.1):
        case.ask(f"holdout {letter}", model, "holdout", setting=letter)
    if letter != "A":
        groups = {"groups": np.arange(m) % 4} if letter in "BD" else {}
        groups |= {"task_groups": np.arange(q) % 3} if letter in "CD" else {}
        case.ask(f"holdout {letter} groups", model, "holdout", setting=letter, **groups)
    # What follows takes a second, as conjugate gradients run in each fold.
    draw = rng.random()
    if draw < 0.05:
        case.ask("interval D", model, "predict_interval", X=new[0], tasks=new[1])
    elif draw < 0.2:
        note_evaluate(case, model, str(case.pick(*"ABCD")))
    elif draw < 0.3:
        note_landscape(case, model, problem, str(case.pick(*"AAB")))


# --- searches ----------------------------------------------------------------------------------------


def note_search(case: Drawing, problem: Problem) -> None:
    """Note what a search over given values finds."""
    rng = case.rng
    lib = case.lib
    m, q = problem.shape
    setting = str(case.pick(*problem.settings))
    scoring = "neg_mean_squared_error"
    if case.chance(0.35):
        scoring = str(
            case.pick(
                *(
                    ("roc_auc", "average_precision")
                    if problem.binary
                    else ("concordance_index", "r2")
                )
            )
        )
    dropped = {"alpha", "task_alpha", "product", "per_task", "per_instance"}
    params = {key: value for key, value in problem.params.items() if key not in dropped}
    params |= {
        "alphas": draw_alphas(case),
        "setting": setting,
        "scoring": scoring,
        "progress": False,
    }
    if problem.name == "TwoStepRidge" and not problem.network and problem.tasks is not None:
        params["task_alphas"] = draw_alphas(case, 3)
    if problem.name == "PairKernelRidge":
        params["shares"] = [(1.0, 0.0, 0.0), (1.0, 0.5, 0.5)]
    if params["kernel"] == "rbf" and case.chance(0.4):
        params["kernel_grid"], params["kernel_params"] = [{"gamma": 0.1}, {"gamma": 0.6}], None
    groups: dict[str, Any] = {}
    draw = rng.random()
    if draw < 0.2:
        if setting in "BD":
            groups["groups"] = draw_groups(case, m)
        if setting in "CD" and not problem.network:
            groups["task_groups"] = draw_groups(case, q)
    elif draw < 0.4:
        params["cv"] = int(rng.integers(2, 4))
    case.what.append(
        f"search {setting} {scoring} {'/'.join([*groups, *(['cv'] if 'cv' in params else [])])}"
    )

    def search() -> Any:
        return lib.call(problem.name + "CV", **params)

    fitted = case.make("search", lambda: lib.do(search(), "fit", **problem.data, **groups))
    if fitted is None:
        return
    case.look(fitted, "landscape_", {**OWN, "common": True})
    case.look(fitted, "alpha_ best_score_", OWN | CHOSEN)
    if "task_alphas" in params:
        case.look(fitted, "task_alpha_", OWN | CHOSEN)
    case.look(fitted, "holdout_", CHOSEN)
    case.ask("search predict(X)", fitted, "predict", CHOSEN, X=problem.new_rows)
    case.look(fitted, "baselines_", UNIT)
    draw = rng.random()
    if draw < 0.2:
        note_permutation(case, fitted, setting, CHOSEN)
    elif draw < 0.35:
        note_evaluate(case, fitted, setting, CHOSEN)
    elif draw < 0.5:
        data = {
            key: value for key, value in problem.data.items() if key != "sample_weight"
        } | groups
        take = "score fold_scores alphas predictions"
        random_state = case.seed % 97
        case.call(
            "nested", "nested_score", take, search=search(), **data, cv=2, random_state=random_state
        )


@kind
def searches(case: Drawing) -> None:
    """Estimators that choose their regularisation from given values."""
    note_search(case, draw_problem(case, ("full", "full", "full", "missing", "weights", "sparse")))


# --- answers of fitted models ------------------------------------------------------------------------


def note_evaluate(case: Drawing, model: Any, letters: str, how: Any = None) -> None:
    """Note the scores in some settings, with those of permuted labels and of means."""

    def scores() -> dict[str, Any]:
        table = dict(case.lib.call("evaluate", model=model, setting=letters, n_permutations=3))
        for name in ("method", "new", "setting", "average"):
            table.pop(name, None)
        metric = next(iter(table))
        case.what.append(f"evaluate by {metric}")
        return table

    case.note(f"evaluate {letters}", scores, UNIT | (how or {}))


def note_permutation(case: Drawing, model: Any, letter: str, how: Any = None) -> None:
    """Note a permutation test."""
    drawn = {"n_permutations": 6, "random_state": case.seed % 89, "progress": False}
    take = "score null p_value setting"
    how = OWN | (how or {})
    case.call(
        f"permutation {letter}", "permutation_test", take, how, model=model, setting=letter, **drawn
    )


def note_comparison(case: Drawing, models: dict[str, Any], letter: str) -> None:
    """Note a comparison of models."""

    def compared() -> dict[str, Any]:
        drawn = {"n_resamples": 20, "random_state": case.seed % 83}
        comparison = case.lib.call("compare", models=models, setting=letter, **drawn)
        names = "better other difference low high p_value"
        apart = [
            case.lib.fields(difference, names)
            for difference in case.lib.get(comparison, "differences")
        ]
        return {
            **case.lib.fields(comparison, "scores best best_fractions n_cells n_undefined"),
            "differences": apart,
        }

    case.note(f"compare {letter}", compared, OWN)


def grid_of(Y: np.ndarray) -> dict[str, Any]:
    """Return a grid as the argument of `baselines`: the old version has no class of labels."""
    module = importlib.import_module("dyadlearn.labels")
    if hasattr(module, "Labels"):
        return {"labels": module.Labels.of_grid(Y)}
    return {"Y": Y}


def note_landscape(case: Drawing, model: Any, problem: Problem, letter: str) -> None:
    """Note the scores for every regularisation."""
    options: dict[str, Any] = {
        "alphas": draw_alphas(case, 3),
        "settings": letter,
        "progress": False,
    }
    if problem.name == "TwoStepRidge" and problem.tasks is not None:
        options["task_alphas"] = draw_alphas(case, 3)
    if case.chance(0.3):
        options["scoring"] = (
            "roc_auc" if problem.binary else str(case.pick("r2", "pearson", "concordance_index"))
        )
    if case.chance(0.3) and not problem.network:  # the old version ignored it on a full network
        options["cv"] = 2
    elif letter in "BD" and case.chance(0.3):
        options["groups"] = draw_groups(case, problem.shape[0])
    case.call(
        f"landscape {letter}", "landscape", "", OWN | {"common": True}, model=model, **options
    )


def note_explanation(case: Drawing, model: Any, problem: Problem) -> None:
    """Note where a prediction comes from."""
    new_instance = case.chance(0.5)
    new_task = case.chance(0.5) and problem.new_tasks is not None
    frames = isinstance(problem.Y, pd.DataFrame)
    instance: Any = problem.new_rows[:1] if new_instance else problem.Y.index[1] if frames else 1
    task: Any = problem.new_tasks[:1] if new_task else problem.Y.columns[2] if frames else 2

    def explained() -> dict[str, Any]:
        explanation = case.lib.call("explain", model=model, instance=instance, task=task, n=4)
        names = "ids weights labels contributions rest rest_weight n_rest"
        parts = {
            side: case.lib.fields(case.lib.get(explanation, side), names)
            for side in ("instances", "tasks", "pairs")
        }
        return {**case.lib.fields(explanation, "prediction label setting weights"), **parts}

    case.note("explain", explained)


def note_recommendation(case: Drawing, model: Any, problem: Problem) -> None:
    """Note what is recommended for an instance, a task or something new."""
    frames = isinstance(problem.Y, pd.DataFrame)
    asked: dict[str, Any] = case.pick(
        {"instance": problem.Y.index[2] if frames else 2},
        {"task": problem.Y.columns[1] if frames else 1},
        {"X": problem.new_rows},
        {"instance": list(problem.Y.index[:2]) if frames else [0, 1]},
    )
    if "X" not in asked:
        asked |= {"setting": str(case.pick(*problem.settings)), "cv": 3}
    case.call("recommend", "recommend", "ids scores labels", model=model, n=3, **asked)


def note_calibration(case: Drawing, model: Any, letter: str) -> None:
    """Note probabilities and their scores."""
    method = str(case.pick("sigmoid", "isotonic"))

    def calibrated() -> dict[str, Any]:
        calibration = case.lib.call("calibrate", model=model, setting=letter, method=method, cv=3)
        names = "brier baseline_brier log_loss calibration_error scores probabilities n_cells n_positive"
        return case.lib.fields(case.lib.get(calibration, "settings")[letter], names)

    # A sigmoid is fitted by iterations.
    case.note(
        f"calibrate {letter} {method}", calibrated, UNIT | {"share": max(LEARNED, case.share)}
    )


def note_answers(case: Drawing, model: Any, problem: Problem, number: int) -> None:
    """Note some of the answers that a fitted model can give."""
    lib, letter = case.lib, str(case.pick(*problem.settings))
    names = ["evaluate", "landscape", "permute", "compare", "explain", "screen"]
    names += ["verify"] if problem.form == "full" else []
    names += ["calibrate"] if problem.binary else []
    names += (
        ["recommend", "pairs"]
        if problem.binary or "missing" in problem.form or case.chance(0.1)
        else []
    )
    for name in case.some(number, *names):
        if name == "evaluate":
            note_evaluate(case, model, "".join(case.some(2, *problem.settings)))
        elif name == "landscape":
            note_landscape(case, model, problem, letter)
        elif name == "permute":
            note_permutation(case, model, letter)
        elif name == "explain":
            note_explanation(case, model, problem)
        elif name == "recommend":
            note_recommendation(case, model, problem)
        elif name == "calibrate":
            note_calibration(case, model, letter)
        elif name == "pairs":
            take = "instances tasks scores labels"
            case.call("top_pairs", "top_pairs", take, model=model, n=4, setting=letter, cv=3)
        elif name == "screen":
            take = "instances tasks labels predictions contradictions"
            case.call("screen", "screen", take, model=model, setting=letter, n=5, cv=3)
        elif name == "verify":
            # The difference of two ways to compute the same is rounding, unless one of them is
            # wrong.
            asked = {"model": model, "setting": letter, "n": 2, "random_state": 0}
            largest = 1e-5 * case.scale if case.share < LEARNED else case.scale
            case.note(
                "verify_holdout",
                lambda asked=asked, most=largest: lib.call("verify_holdout", **asked) < most,
            )
        elif name == "compare":
            params = {**problem.params, "alpha": 7.0} | (
                {"task_alpha": 7.0} if problem.network else {}
            )
            other = case.make(
                "other",
                lambda params=params: lib.do(
                    lib.call(problem.name, **params), "fit", **problem.data
                ),
            )
            if other is not None:
                note_comparison(case, {"one": model, "other": other}, letter)


@kind
def answers(case: Drawing) -> None:
    """Scores, landscapes, permutation tests, comparisons, explanations, recommendations, screening, calibration."""
    problem = draw_problem(case)
    model = fit(case, problem)
    if model is not None:
        note_answers(case, model, problem, 3)


@kind
def files(case: Drawing) -> None:
    """Models after a round trip through a file."""
    problem = draw_network(case) if case.chance(0.15) else draw_problem(case)
    model = fit(case, problem)
    if model is None:
        return
    loaded = case.make("load", lambda: saved_and_loaded(case, model))
    if loaded is None:
        return
    note_predictions(case, loaded, problem, "loaded ")
    letter = str(case.pick(*problem.settings))
    case.ask(f"loaded holdout {letter}", loaded, "holdout", setting=letter)
    case.look(loaded, "intercept_", OWN)
    kept = {
        key: value for key, value in problem.params.items() if isinstance(value, str | float | bool)
    }
    case.note("parameters", lambda: {key: case.lib.get(loaded, key) for key in kept})


# --- other models ------------------------------------------------------------------------------------


@kind
def learned(case: Drawing) -> None:
    """Learned kernels, with few steps."""
    rng = case.rng
    m = int(rng.integers(6, 11))
    q = int(rng.integers(5, 9))
    rows, columns = (draw_side(case, n, ("tall", "rbf", "matrix")) for n in (m, q))
    Y = draw_labels(case, (m, q), rows, columns)
    form = str(case.pick("full", "full", "missing", "weights"))
    Y = draw_missing(case, Y) if form == "missing" else Y
    case.scale = float(np.nanmax(Y) - np.nanmin(Y))
    case.share = LEARNED
    setting = str(case.pick(*"ABCD"))
    X = rows.rows
    new = rows.new
    kernel: Any = "precomputed" if rows.kernel == "precomputed" else str(case.pick("rbf", "linear"))
    if case.chance(0.4) and kernel != "precomputed":
        extra = rng.normal(size=(m + 2, 2))
        X = {"first": X, "second": extra[:m]}
        new = {"first": new, "second": extra[m:]}
        kernel = {"first": kernel, "second": "rbf"}
    params = {
        "kernel": kernel,
        "task_kernel": "precomputed" if columns.kernel == "precomputed" else "rbf",
        "setting": setting,
        "stages": int(case.pick(1, 1, 2)),
        "n_steps": 3,
        "fit_intercept": case.chance(0.6),
        "cv": 2,
        "tol": TOL,
        "random_state": 0,
        "progress": False,
    }
    weights = rng.uniform(0.3, 3.0, size=(m, q)) if form == "weights" else None
    case.what.append(
        f"learned {m}x{q} {form} {setting} {rows.what} x {columns.what} stages={params['stages']}"
    )
    problem = Problem(
        "LearnedKernelRidge",
        params,
        X,
        Y,
        columns.rows,
        new,
        columns.new,
        weights,
        setting,
        form=form,
    )
    model = fit(case, problem)
    if model is None:
        return
    case.look(
        model,
        "weights_ exponents_ alpha_ shares_ holdout_error_ stage_errors_ n_stages_ holdout_",
        OWN,
    )
    note_predictions(case, model, problem)
    if case.chance(0.05):
        note_evaluate(case, model, setting)
    if case.chance(0.3):
        case.ask(
            "interval", model, "predict_interval", X=problem.new_rows if setting in "BD" else None
        )
    if case.chance(0.05):
        note_permutation(case, model, setting)


@kind
def regressors(case: Drawing) -> None:
    """Two regressors of scikit-learn in a row."""
    rng = case.rng
    m = int(rng.integers(5, 11))
    q = int(rng.integers(4, 9))
    rows, columns = (draw_side(case, n, ("tall", "wide", "rbf")) for n in (m, q))
    Y = draw_labels(case, (m, q), rows, columns)
    Y = draw_missing(case, Y) if case.chance(0.4) else Y
    case.scale = float(np.nanmax(Y) - np.nanmin(Y))
    alpha = draw_alpha(case)
    choices = (
        Ridge(alpha),
        KernelRidge(alpha=alpha, kernel="rbf", gamma=0.2),
        KNeighborsRegressor(2),
    )
    params = {
        "instance_estimator": case.pick(*choices),
        "task_estimator": case.pick(*choices),
        "first_step": str(case.pick("instances", "tasks")),
    }
    case.what.append(f"regressors {m}x{q} {', '.join(map(str, params.values()))}")
    problem = Problem(
        "TwoStepRegressor", params, rows.rows, Y, columns.rows, rows.new, columns.new, None, "ABCD"
    )
    model = fit(case, problem)
    if model is not None:
        note_predictions(case, model, problem)
        letter = str(case.pick(*"ABCD"))
        case.ask(f"holdout {letter}", model, "holdout", setting=letter, cv=2)


@kind
def long_tables(case: Drawing) -> None:
    """Long tables of pairs with ids: models, splits, grids, audits and answers."""
    rng = case.rng
    lib = case.lib
    m = int(rng.integers(7, 10))
    q = int(rng.integers(7, 9))
    n = int(rng.integers(25, 45))
    if case.chance(0.3):
        people = [10 + i for i in range(m)]
    else:
        people = [f"p{i}" for i in range(m)]
    drinks = [f"d{j}" for j in range(q)]
    instances = pd.DataFrame(rng.normal(size=(m, 3)), index=people)
    tasks = pd.DataFrame(rng.normal(size=(q, 2)), index=drinks)
    at = rng.integers(0, [m - 1, q - 1], size=(n, 2))
    pairs = pd.DataFrame(
        {"person": [people[i] for i in at[:, 0]], "drink": [drinks[j] for j in at[:, 1]]}
    )
    truth = np.einsum("nd,nd->n", instances.to_numpy()[at[:, 0], :2], tasks.to_numpy()[at[:, 1]])
    y = truth + 0.5 * rng.normal(size=n)
    case.scale = float(np.ptp(y))
    name = case.pick(
        "IndependentTaskRidge",
        "KroneckerRidge",
        "TwoStepRidge",
        "PairKernelRidge",
        "TwoStepRidgeCV",
    )
    params: dict[str, Any] = {
        "alpha": draw_alpha(case),
        "tol": TOL,
        "fit_intercept": case.chance(0.6),
    }
    if name == "IndependentTaskRidge":
        del params["tol"]
    if name == "TwoStepRidgeCV":
        params |= {"alphas": [0.1, 1.0], "task_alphas": [0.5, 2.0], "progress": False}
        del params["alpha"]
    if case.chance(0.3):
        weights = {"sample_weight": rng.uniform(0.5, 2.0, size=n)}
    else:
        weights = {}
    case.what.append(f"long table {name} {m}x{q} of {n} rows")
    known = {"instances": instances, "tasks": None if name == "IndependentTaskRidge" else tasks}
    regressor = lib.call("PairRegressor", model=lib.call(name, **params), **known)
    model = case.make("fit", lambda: lib.do(regressor, "fit", pairs=pairs, y=y, **weights))
    asked = pd.DataFrame(
        {"person": [people[-1], people[2], people[0]], "drink": [drinks[0], drinks[1], drinks[-1]]}
    )
    asked = asked.iloc[:2] if name == "IndependentTaskRidge" else asked
    if model is not None:
        case.ask("predict", model, "predict", pairs=asked)
        if case.chance(0.3):
            case.ask("interval", model, "predict_interval", pairs=asked)
        case.ask("score", model, "score", UNIT, pairs=pairs, y=y)
        case.look(model, "instance_ids_ task_ids_ n_dropped_ n_repeated_ n_contradicting_")
        letter = str(case.pick(*("AB" if name == "IndependentTaskRidge" else "ABCD")))
        which = str(
            case.pick(
                "evaluate",
                "explain",
                "explain",
                "recommend",
                "recommend",
                "screen",
                "permute",
                "save",
            )
        )
        first = {"model": model, "instance": people[int(at[0, 0])]}
        if which == "evaluate":
            note_evaluate(case, model, letter)
        elif which == "permute":
            note_permutation(case, model, letter)
        elif which == "explain":
            take = "prediction label setting weights"
            case.call("explain", "explain", take, **first, task=drinks[int(at[0, 1])], n=3)
        elif which == "recommend":
            case.call("recommend", "recommend", "ids scores labels", **first, n=2)
        elif which == "screen":
            take = "instances tasks labels predictions contradictions"
            case.call("screen", "screen", take, model=model, setting="A", n=3, cv=3)
        else:
            loaded = case.make("load", lambda: saved_and_loaded(case, model))
            case.ask("loaded predict", loaded, "predict", pairs=asked)
    folds = lib.call(
        "SettingKFold", setting=str(case.pick(*"ABCD")), n_splits=2, random_state=case.seed % 71
    )
    splits = case.note("split", lambda: list(lib.do(folds, "split", pairs=pairs)))
    take = "instances tasks grid weights n_observed n_repeated"
    case.call("to_grid", "labels.to_grid", take, pairs=pairs, y=y)
    if splits:
        train, test = (pairs.iloc[part] for part in splits[0])
        case.call(
            "audit", "audit", "counts setting n_leaks n_harder", train=train, test=test, setting="B"
        )


@kind
def online(case: Drawing) -> None:
    """Learning and forgetting batch by batch."""
    rng = case.rng
    lib = case.lib
    m = int(rng.integers(8, 16))
    q = int(rng.integers(3, 8))
    d = int(rng.integers(1, 5))
    r = int(rng.integers(1, 4))
    X = rng.normal(size=(m, d)) + float(case.pick(0.0, 3.0))
    T = rng.normal(size=(q, r))
    holes = case.chance(0.3)
    has_tasks = case.chance(0.7)
    Y = X @ rng.normal(size=(d, r)) @ T.T + rng.normal(size=(m, q)) + float(case.pick(0.0, 5.0))
    case.scale = float(np.ptp(Y))
    if holes:
        Y[4:, 1:][rng.random((m - 4, q - 1)) < 0.2] = np.nan
    params = {
        "alpha": draw_alpha(case),
        "task_alpha": draw_alpha(case),
        "fit_intercept": case.chance(0.6),
        "keep_labels": case.chance(0.3),
    }
    words = f"online {m}x{q}x{d}x{r} {params}{' holes' if holes else ''}{'' if has_tasks else ' no tasks'}"
    if case.chance(0.2):
        params["feature_map"] = lib.call("Landmarks", n_components=3, kernel="rbf", random_state=0)
        words += " landmarks"
    case.what.append(words)
    first = int(rng.integers(4, m - 2))
    n_columns = q if holes else int(rng.integers(2, q + 1))
    stream = _Stream(
        case,
        lib.call("OnlineTwoStepRidge", **params),
        X,
        Y,
        T if has_tasks else None,
        case.chance(0.25),
    )
    stream.start(first, n_columns)
    new = {"X": rng.normal(size=(2, d))}
    asked = [new] + ([{**new, "tasks": rng.normal(size=(2, r))}] if has_tasks else [])
    for step in range(int(rng.integers(2, 5))):
        if step:
            stream.step(step)
        for arguments in asked:
            case.ask(f"predict{len(arguments)} {step}", stream.model, "predict", **arguments)
    letter = str(case.pick(*("ABCD" if has_tasks else "AB")))
    known = {**stream.rows(stream.known), "setting": letter}
    case.ask(f"holdout {letter}", stream.model, "holdout", **known)
    alphas: dict[str, Any] = {
        "alphas": [0.1, 1.0, 10.0],
        **({"task_alphas": [0.3, 3.0]} if has_tasks else {}),
    }
    case.ask(f"landscape {letter}", stream.model, "landscape", OWN, **known, **alphas)
    case.look(stream.model, "coef_ intercept_ n_seen_ n_tasks_", OWN)
    if case.chance(0.3):
        tuned = case.make("tune", lambda: lib.do(stream.model, "tune", **known, **alphas))
        case.look(tuned, "alpha task_alpha", OWN)
    if case.chance(0.3):
        loaded = case.make("load", lambda: saved_and_loaded(case, stream.model))
        case.ask("loaded predict", loaded, "predict", **new)
    if params["keep_labels"]:
        case.call("recommend", "recommend", "ids scores", model=stream.model, **new, n=2)


class _Stream:
    """Rows and tasks that come and go, and what a model knows of them."""

    def __init__(
        self, case: Drawing, model: Any, X: np.ndarray, Y: np.ndarray, T: Any, has_ids: bool
    ) -> None:
        self.case = case
        self.model = model
        self.X = X
        self.Y = Y
        self.T = T
        self.has_ids = has_ids
        self.known: list[int] = []
        self.columns: list[int] = []

    def rows(self, which: list[int], columns: list[int] | None = None) -> dict[str, Any]:
        """Return some rows and their labels, as arguments."""
        if self.has_ids:
            X = pd.DataFrame(self.X[which], index=[f"i{i}" for i in which])
        else:
            X = self.X[which]
        return {"X": X, "y": self.Y[np.ix_(which, self.columns if columns is None else columns)]}

    def start(self, n_rows: int, n_columns: int) -> None:
        """Fit the first rows and tasks."""
        self.known, self.columns = list(range(n_rows)), list(range(n_columns))
        tasks = {} if self.T is None else {"tasks": self.T[:n_columns]}
        self.case.make(
            "fit", lambda: self.case.lib.do(self.model, "fit", **self.rows(self.known), **tasks)
        )

    def _did(self, quantity: str, method: str, **arguments: Any) -> bool:
        return (
            self.case.make(quantity, lambda: self.case.lib.do(self.model, method, **arguments))
            is not None
        )

    def step(self, step: int) -> None:
        """Learn or forget something."""
        case = self.case
        rng = self.case.rng
        what = str(
            case.pick("learn", "learn", "forget", "tasks", "forget tasks", "replace", "stream")
        )
        fresh = [i for i in range(len(self.X)) if i not in self.known]
        unknown = [j for j in range(self.Y.shape[1]) if j not in self.columns]
        quantity = f"{what} {step}"
        if what in ("learn", "stream") and fresh:
            some = fresh[: int(rng.integers(1, len(fresh) + 1))]
            batch = self.rows(some)
            if what == "learn":
                done = self._did(quantity, "partial_fit", **batch)
            else:
                fed = {
                    "model": self.model,
                    "batches": [(batch["X"], batch["y"])],
                    "progress": False,
                }
                done = (
                    case.make(quantity, lambda: case.lib.call("streams.fit_stream", **fed))
                    is not None
                )
            self.known += some if done else []
        elif what == "forget" and len(self.known) > 5:
            gone = [int(case.pick(*self.known[4:]))]
            if self._did(quantity, "forget", **self.rows(gone)):
                self.known.remove(gone[0])
        elif what == "tasks" and unknown:
            tasks = None if self.T is None else self.T[unknown[:1]]
            if self._did(
                quantity, "partial_fit_tasks", tasks=tasks, **self.rows(self.known, unknown[:1])
            ):
                self.columns.append(unknown[0])
        elif what == "forget tasks" and len(self.columns) > 2:
            place = int(rng.integers(len(self.columns)))
            if self._did(quantity, "forget_tasks", tasks=[place]):
                del self.columns[place]
        elif what == "replace" and self.has_ids:
            before = self.Y[self.known[:2]].copy()
            self.Y[self.known[:2]] += 0.5
            if not self._did(quantity, "partial_fit", **self.rows(self.known[:2]), known="replace"):
                self.Y[self.known[:2]] = before


# --- functions ---------------------------------------------------------------------------------------

METRICS = (
    *(
        "average_precision",
        "concordance_index",
        "enrichment_factor",
        "ic_index",
        "mean_absolute_error",
        "ndcg_at_k",
    ),
    *(
        "mean_squared_error",
        "pearson",
        "precision_at_k",
        "r2",
        "recall_at_k",
        "roc_auc",
        "root_mean_squared_error",
    ),
    "spearman",
)


@kind
def metrics(case: Drawing) -> None:
    """Metrics of grids, with ties, missing labels and all averages, and means of labels."""
    rng = case.rng
    m = int(rng.integers(3, 10))
    q = int(rng.integers(3, 9))
    Y = (rng.random((m, q)) < 0.4).astype(float)
    if case.chance(0.4):
        if case.chance(0.5):
            Y = rng.integers(0, 4, size=(m, q)).astype(float)
        else:
            Y = rng.normal(size=(m, q))
    F = rng.normal(size=(m, q)) + 0.7 * Y
    F = np.round(F, 1) if case.chance(0.4) else F
    if case.chance(0.4):
        Y[rng.random((m, q)) < 0.2] = np.nan
    case.scale = 1.0
    case.what.append(f"metrics {m}x{q} of {len(np.unique(Y[~np.isnan(Y)]))} values")
    for name in case.some(6, *METRICS):
        options: dict[str, Any] = (
            {"setting": str(case.pick("A", "B", "C"))} if name != "ic_index" else {}
        )
        options |= (
            {"k": 2}
            if name.endswith("at_k")
            else {"fraction": 0.3}
            if name == "enrichment_factor"
            else {}
        )
        case.call(name, f"metrics.{name}", Y=Y, F=F, return_undefined=True, **options)
    scoring = str(
        case.pick("neg_mean_squared_error", "r2", "pearson", "roc_auc", "neg_median_absolute_error")
    )
    if case.chance(0.3):
        drawn = {
            "scoring": scoring,
            "setting": "B",
            "n_resamples": 20,
            "random_state": case.seed % 61,
        }
        case.call(
            "bootstrap", "bootstrap_interval", "score low high n_undefined", Y=Y, F=F, **drawn
        )
    setting = str(case.pick(*"ABCD"))
    case.call("baselines", "holdout.baselines.baselines", **grid_of(Y), setting=setting)
    if case.chance(0.3):
        case.call("fisher_relabel", "labels.fisher_relabel", Y=np.nan_to_num(Y))


@kind
def kernels(case: Drawing) -> None:
    """Kernel functions, combinations, repairs, landmarks, graphs, trees, sequences and drawn data."""
    rng = case.rng
    lib = case.lib
    n = int(rng.integers(3, 10))
    d = int(rng.integers(1, 6))
    case.what.append(f"kernels {n}x{d}")
    numbers = rng.normal(size=(n + 3, d))
    counts = rng.integers(0, 4, size=(n + 3, d)).astype(float)
    of_counts = ("tanimoto", "minmax", "delta", "chi2")
    for name in case.some(4, "linear", "rbf", "poly", "laplacian", "cosine", *of_counts):
        features = counts if name in of_counts else numbers
        case.call(f"gram {name}", "kernels.gram", A=features[:n], B=features[n:], kernel=name)
        case.call(f"diagonal {name}", "kernels.gram_diagonal", A=features[:n], kernel=name)
    A = numbers[:n]
    B = numbers[n:]
    K = A @ A.T
    L = counts[:n] @ counts[:n].T + np.eye(n)
    case.call("normalize", "kernels.normalize", K=L)
    product = lib.call("kernels.Product", kernels=("rbf", "linear"), weights=(1.0, 1.0))
    case.note("Product", lambda: product(A, B))
    crooked = K + 0.3 * rng.normal(size=(n, n))
    psd = str(case.pick("clip", "shift", "error"))
    case.call("repair", "kernels.repair", K=crooked, psd=psd)
    drawn = {"method": str(case.pick("rpcholesky", "uniform")), "random_state": case.seed % 53}
    landmarks = lib.do(lib.call("Landmarks", n_components=3, kernel="rbf", **drawn), "fit", X=A)
    case.ask("landmarks", landmarks, "transform", {"share": LEARNED}, X=B)
    nodes = [f"n{i}" for i in range(n)]
    edges = [(nodes[int(rng.integers(i))], nodes[i]) for i in range(1, n)]
    case.call(
        "graph_distance", "kernels.graph_distance_kernel", edges=edges, nodes=nodes, scale=2.0
    )
    case.call("shared_ancestors", "kernels.shared_ancestors_kernel", edges=edges, nodes=nodes)
    way = str(case.pick("heat", "regularized_laplacian"))
    case.note(
        "diffusion", lambda: lib.find("kernels.diffusion_kernel")(edges, nodes, kind=way, beta=0.5)
    )
    tree = "((a:1,b:2):0.5,(c:1,(d:1,e:2):1):2);"
    case.call("brownian", "kernels.brownian_kernel", tree=tree)
    case.call(
        "tree_distance", "kernels.tree_distance_kernel", tree=tree, tips=["d", "a"], scale=2.0
    )
    ranks = pd.DataFrame(
        {"order": ["o1", "o1", "o2"], "family": ["f1", "f2", "f3"]}, index=["x", "y", "z"]
    )
    case.call("taxonomy", "kernels.taxonomy_kernel", A=ranks)
    words = ["".join(case.pick(*"ACDE") for _ in range(8)) for _ in range(3)]
    case.call("spectrum_kernel", "kernels.sequences.spectrum_kernel", sequences=words, k=2)
    chosen = {
        "missing": float(case.pick(0.0, 0.3)),
        "labels": str(case.pick("real", "binary")),
        "main_effects": 0.5,
    }
    drawn = {"n_instances": 4, "n_tasks": 3, "random_state": case.seed % 1000}
    case.call("make_dyads", "datasets.make_dyads", "X tasks K G Y truth", **chosen, **drawn)
