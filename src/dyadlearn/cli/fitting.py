"""``dyadlearn tune`` and ``dyadlearn update``: models are fitted, and online models learn more."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dyadlearn._checks import check_choice
from dyadlearn._files.packed import parse_number
from dyadlearn._tables import Ids, Table, shown
from dyadlearn._text import make_list, number
from dyadlearn.cli.commands import Tune, Update
from dyadlearn.cli.dyads import Dyads, names_of, places_in, read_dyads, read_groups, read_labels
from dyadlearn.cli.entities import Recipes, in_words, new_entities, open_new
from dyadlearn.cli.models import Loaded, fit_model, load, one_setting, save_model
from dyadlearn.cli.options import check_target
from dyadlearn.cli.terminal import Terminal
from dyadlearn.exceptions import IdError
from dyadlearn.growing.knowledge import KNOWN
from dyadlearn.metrics import scorer
from dyadlearn.metrics.scorers import usual_scoring
from dyadlearn.selection.evaluate import in_words as baseline_in_words
from dyadlearn.selection.evaluate import nothing_learnt
from dyadlearn.settings import as_setting
from dyadlearn.sides import SideNames
from dyadlearn.views.summary import weights_of_model

# The figures that the model file keeps.
_ORIGIN = ("model", "setting", "scoring", "alpha", "task_alpha", "score")


def tune(given: Tune, terminal: Terminal) -> None:
    """Fit a model, write its file, and print its score beside those of baselines."""
    is_learned, is_online, names = given.model == "learned", given.model == "online", names_of(given.sides)
    params = _params(given, terminal)
    data = read_dyads(given.labels, given, terminal)
    if is_online:
        _check_online(data, names, terminal)
    if not is_learned:
        params["scoring"] = given.scoring or usual_scoring(data.observed)
        scorer(params["scoring"])
    groups = {
        "groups": read_groups(given.groups, data.labels.row_ids, names.instances),
        "task_groups": read_groups(given.task_groups, data.labels.column_ids, names.tasks),
    }
    # An online model has the regularisation that its equal chooses.
    searched = given.model if not is_online else "two-step" if given.tasks else "independent"
    model = search = fit_model(searched, data, params, searches=not is_learned, **groups)
    figures: dict[str, Any] = {"model": given.model, "setting": search.holdout_setting_, "alpha": float(search.alpha_)}
    if is_learned:
        weights = weights_of_model(model)
        assert weights is not None
        figures |= {"holdout_error": model.holdout_error_, "stages": model.n_stages_, **weights.figures()}
        scoring, score, sign, rows = "neg_mean_squared_error", -model.holdout_error_, -1, weights.lines(names)
    else:
        scoring, score, sign = params["scoring"], search.best_score_, 1
        task_alpha = getattr(search, "task_alpha_", None)
        task_alpha = None if task_alpha is None else float(task_alpha)
        figures |= {"scoring": scoring, "score": score, "task_alpha": task_alpha}
        rows = [("task alpha", number(task_alpha))]
        if is_online:
            own = {"alpha": figures["alpha"], "task_alpha": task_alpha or 1.0, "keep_labels": given.keep_labels}
            model = fit_model("online", data, {**own, "fit_intercept": given.intercept})
    baselines, (m, q), n = search.baselines_, data.labels.values.shape, data.observed.size
    warning = nothing_learnt(scoring, as_setting(search.holdout_setting_), score, baselines, names)
    if warning is not None:
        terminal.note(warning)
    figures |= {"holdout": search.holdout_method_, "baselines": baselines, "instances": m, "tasks": q, "observed": n}
    origin = {
        "files": dict(zip(("labels", "instances", "tasks"), (given.labels.name, *data.files), strict=True)),
        **{name: figures[name] for name in _ORIGIN if name in figures},
        # The header of a file is strict JSON, which has no NaN.
        "baselines": {name: None if math.isnan(mean) else mean for name, mean in baselines.items()},
    }
    recipes = data.recipes[0], None if given.model == "independent" else data.recipes[1]
    loaded = Loaded(model, recipes, origin).named(given.sides)
    save_model(loaded, given.output)
    terminal.result({**figures, "sides": loaded.sides, "output": str(given.output)})
    means = [f"{number(sign * mean)} {baseline_in_words(name, names)}" for name, mean in baselines.items()]
    title = f"{'held-out error' if is_learned else scoring} in setting {search.holdout_setting_}"
    lines = [
        ("model", given.model),
        ("labels", f"{m} {names.instances} × {q} {names.tasks}, {100 * n / (m * q):.4g} % observed"),
        *zip(names.both, map(in_words, data.recipes), strict=True),
        (title, f"{number(sign * score)}, {search.holdout_method_}"),
        ("baselines", ", ".join(means)),
        ("alpha", number(figures["alpha"])),
        *rows,
    ]
    terminal.say(make_list(lines), f"Wrote {given.output}.")


def _params(given: Tune, terminal: Terminal) -> dict[str, Any]:
    """Return the parameters of the library's searches, or of learned kernels, that the options give."""
    params: dict[str, Any] = {"setting": one_setting(given.setting), "fit_intercept": given.intercept}
    params["progress"] = terminal.progress
    if given.model == "learned":
        stages = given.stages if given.stages == "auto" else _stages(given.stages)
        params |= {"stages": stages, "n_steps": given.steps, "shrinkage": given.shrinkage, "normalize": given.normalize}
        return params | {"cv": 5 if given.cv is None else given.cv, "random_state": given.seed}
    alphas = _alphas(given.alphas, "--alphas")
    task_alphas = alphas if given.task_alphas is None else _alphas(given.task_alphas, "--task-alphas")
    params |= {"alphas": alphas, "task_alphas": task_alphas, "cv": given.cv, "device": given.device}
    return params | {"exhaustive": given.exhaustive}


def _stages(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"--stages is a number or auto, found {text!r}.") from None


def _alphas(text: str | None, option: str) -> list[float] | None:
    """Read regularisations: numbers with commas, or ``first:last:count`` in even steps of the exponent."""
    if text is None:
        return None
    try:
        if ":" in text:
            first, last, count = text.split(":")
            return [float(alpha) for alpha in np.geomspace(parse_number(first), parse_number(last), int(count))]
        return [parse_number(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} takes numbers as 0.1,1,10 or a range as 1e-3:1e3:7; found {text!r}.") from None


def _check_online(data: Dyads, names: SideNames, terminal: Terminal) -> None:
    """Raise if a side is not linear in features, which an online model must be."""
    for side, recipes in zip(names.both, data.recipes, strict=True):
        if any(recipe.of_model[0] != "linear" for recipe in (recipes or {}).values()):
            raise ValueError(f"An online model is linear in features, but its {side} are {in_words(recipes)}.")
    if data.tasks is not None and data.observed.size < math.prod(data.labels.values.shape):
        terminal.note("Some labels are missing: the online model learns each task from its own labels alone.")


# More data for online models -----------------------------------------------------------------------


def update(given: Update, terminal: Terminal) -> None:
    """Let an online model learn more, and write its file."""
    check_choice(given.known, "--known", KNOWN)
    target = given.source if given.output is None else given.output
    check_target(target, force=True)
    loaded = load(given)
    model, names, (recipes, task_recipes) = loaded.model, loaded.names, loaded.recipes
    if not model.grows:
        kind = type(model).__name__
        raise ValueError(f"{given.source} holds a {kind}: only models of tune --model online learn more.")
    if given.instances is None and given.tasks is None:
        raise ValueError("There is nothing new: give --instances, or --tasks.")
    if given.tasks is not None and task_recipes is None:
        raise ValueError("The model was made without --tasks: leave them out, new tasks are columns of the labels.")
    grid = read_labels(given.labels, given, terminal)
    (m, q), tasks = grid.values.shape, loaded.ids[1]
    rows, columns = (names.instances, "rows", grid.row_ids), (names.tasks, "columns", grid.column_ids)
    X = _new_side(given.instances, recipes, m, rows, given.labels, terminal)
    if _are_new_tasks(grid, loaded, given.tasks):
        T = _new_side(given.tasks, task_recipes, q, columns, given.labels, terminal)
        repeated = set(() if tasks is None else tasks.labels) & set(grid.column_ids.labels if grid.column_ids else ())
        if repeated:
            raise IdError(f"{names.tasks.capitalize()} {shown(sorted(repeated))} are known already: rename new ones.")
        model.partial_fit_tasks(T, grid, X=X)
    else:
        grid = _with_missing(grid, tasks, given.labels, terminal)
        grid = grid.columns_as(tasks, f"the columns of {given.labels}", f"the {names.tasks} of the model")
        # The ids of a model need not be texts; now that the columns are in their order, they need none.
        model.partial_fit(X, replace(grid, column_ids=None), known=given.known)
    save_model(loaded, target)
    terminal.result({"instances": model.n_seen_, "tasks": model.n_tasks_, "output": str(target)})
    terminal.say(f"{target} knows {model.n_seen_} {names.instances} and {model.n_tasks_} {names.tasks} now.")


def _are_new_tasks(grid: Table, loaded: Loaded, tasks: Path | None) -> bool:
    """Return whether the labels are those of new tasks: described by a file or, without features, all unknown."""
    known = loaded.ids[1]
    if tasks is not None or loaded.recipes[1] is not None or known is None or grid.column_ids is None:
        return tasks is not None
    return not set(grid.column_ids.labels) & set(known.labels)


def _with_missing(grid: Table, known: Ids | None, labels: Path, terminal: Terminal) -> Table:
    """Return labels with a column for every known task, NaN for those that are not in the file."""
    if grid.column_ids is None or known is None or known.lacking(grid.column_ids.labels):
        return grid
    lacking = grid.column_ids.lacking(known.labels)
    if not lacking:
        return grid
    terminal.note(f"{labels} has no labels of {len(lacking)} of {len(known)} tasks: these are missing.")
    missing = np.full((grid.values.shape[0], len(lacking)), np.nan)
    ids = Ids((*grid.column_ids.labels, *lacking), grid.column_ids.name)
    return replace(grid, values=np.hstack([grid.values, missing]), column_ids=ids)


def _new_side(
    path: Path | None,
    recipes: Recipes | None,
    n: int,
    axis: tuple[str, str, Ids | None],
    labels: Path,
    terminal: Terminal,
) -> Table | None:
    """Read new instances or tasks in the order of the n rows or columns of the labels; None without a file."""
    if path is None or recipes is None:
        return None
    source = open_new(path, recipes[""])  # an online model has one file a side
    return new_entities(source, recipes[""], None, terminal, places_in(source.file, n, axis, labels, terminal))
