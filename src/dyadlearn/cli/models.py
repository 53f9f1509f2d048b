"""``dyadlearn tune`` and ``dyadlearn update``, and model files.

A model file stores how the data were read, so that new data are read in the same way.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

import dyadlearn
from dyadlearn._checks import check_alphas, check_choice
from dyadlearn._files.packed import parse_number
from dyadlearn._files.tables import writing
from dyadlearn._interrupts import Interrupted, Interrupts, keeping_best
from dyadlearn._registry import MODELS
from dyadlearn._tables import Ids, Table, id_text, shown, text_ids
from dyadlearn._text import make_list, number, one_line
from dyadlearn.cli import entities
from dyadlearn.cli.commands import Tune, Update
from dyadlearn.cli.dyads import (
    Axis,
    Dyads,
    names_of,
    places_in,
    read_dyads,
    read_groups,
    read_labels,
)
from dyadlearn.cli.entities import Recipe, Recipes, in_words
from dyadlearn.cli.options import OfModel, check_target
from dyadlearn.cli.terminal import Terminal, spoken
from dyadlearn.exceptions import IdError, ModelFileError
from dyadlearn.growing.knowledge import KNOWN
from dyadlearn.metrics.scorers import usual_scoring
from dyadlearn.models.fitted import predicting
from dyadlearn.selection.choosing import better_of
from dyadlearn.selection.evaluate import in_words as baseline_in_words
from dyadlearn.selection.evaluate import nothing_learnt
from dyadlearn.settings import Setting, as_setting, as_settings
from dyadlearn.sides import SideNames, side_names
from dyadlearn.store import read_model, write_model
from dyadlearn.store.container import read_checksum
from dyadlearn.views.summary import weights_of_model

# Figures that are stored in the model file.
_ORIGIN = ("model", "setting", "scoring", "alpha", "task_alpha", "constants", "score")


def settings_of(text: str) -> list[Setting]:
    """Read settings: letters without commas, such as AB, or names of other libraries, separated by commas."""
    return as_settings(text.split(",") if "," in text else text)


def one_setting(text: str | None) -> str:
    """Read an option that must name a single setting."""
    settings = settings_of(text or "")
    if len(settings) != 1:
        raise ValueError(f"--setting must name one setting here, found {text!r}.")
    return settings[0].value


# Model files ---------------------------------------------------------------------------------------

# Key of the header entry of a model file that only the command line uses.
_KEY = "command_line"


@dataclass(frozen=True)
class Loaded:
    """A model with the content of its file.

    Attributes
    ----------
    model : estimator
    recipes : (dict of str to Recipe, dict of str to Recipe or None)
        How the files of instances and of tasks are read; None for tasks if the model uses no
        features of tasks.
    origin : dict
        Names of the training files, and the setting, scoring and score of the search.
    versions : dict
        Versions of the libraries that wrote the file.
    path : Path or None
        The model file.
    checksum : str or None
        Checksum of the file when it was read.
    sides : SideNames or None
        Names of an instance and of a task; None means "instance" and "task".
    """

    model: Any
    recipes: tuple[Recipes, Recipes | None]
    origin: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    path: Path | None = None
    checksum: str | None = None
    sides: SideNames | None = None

    def named(self, words: str | None) -> Loaded:
        """Return the model with other names of its sides; None keeps the names in its file."""
        if words is None:
            return self
        return replace(self, sides=names_of(words, network=_is_network(self.model)))

    @property
    def names(self) -> SideNames:
        """The names of the sides in tables and sentences."""
        return side_names(self.sides, network=_is_network(self.model))

    def role(self, word: str | None, option: str, roles: tuple[str, str], *more: str) -> str | None:
        """Return the element of `roles` that the value of an option names, by that word or by the name of the side.

        `more` has other words that the option takes. None is returned as it is.
        """
        names = self.names.both if roles[0] == "instances" else tuple(self.names)
        words = {names[1]: roles[1], names[0]: roles[0], **{role: role for role in (*roles, *more)}}
        if word is not None and word not in words:
            raise ValueError(
                f"{option} must be {', '.join((*more, names[0]))} or {names[1]}, found {word!r}."
            )
        return None if word is None else words[word]

    @property
    def own_ids(self) -> tuple[Ids | None, Ids | None]:
        """The ids of the instances and of the tasks in the model: texts or whole numbers."""
        fitted = predicting(self.model)
        return fitted.instance_ids, fitted.task_ids

    @property
    def ids(self) -> tuple[Ids | None, Ids | None]:
        """The ids of the instances and of the tasks as text; an error is raised if two are equal as text."""
        sides = zip(self.own_ids, ("instances", "tasks"), strict=True)
        instances, tasks = (
            None if ids is None else text_ids(ids, f"The {side} of the model")
            for ids, side in sides
        )
        return instances, tasks

    def own_id(self, side: int, text: str, where: str) -> Any:
        """Return the id or the position of an instance (side 0) or a task (side 1) that a text names."""
        ids = self.ids[side]
        own = self.own_ids[side]
        if ids is None or own is None:
            return int(text)
        return own.labels[int(ids.positions([text], where)[0])]

    def new(
        self, given: list[str], side: int, option: str, terminal: Terminal, asked: Any = None
    ) -> entities.Entities:
        """Read the files of new instances (side 0) or tasks (side 1); `asked` is as in `entities.new_side`."""
        recipes = self.recipes[side]
        if recipes is None:
            tasks = self.names.tasks
            raise ValueError(
                f"The model knows nothing of {tasks} and cannot predict for new ones: leave "
                f"{option} out."
            )
        found = entities.new_side(
            entities.Files.of(given, option), recipes, self.ids[side], terminal, asked
        )
        return self.with_names(found, side) if isinstance(found, Table) else found

    def with_names(self, table: Table, side: int) -> Table:
        """Return new rows with the feature names that the model knows, which may be numbers; the file has the same."""
        names = predicting(self.model).descriptions[side].get("", (None, None))[1]
        return replace(table, column_ids=None if table.column_ids is None else names)


def _is_network(model: Any) -> bool:
    return not model.grows and model.fitted_.is_network


def load(given: OfModel) -> Loaded:
    """Read the model file that a command names."""
    return load_model(given.source).named(given.sides)


def save_model(loaded: Loaded, path: Path) -> None:
    """Write a model file atomically; the file that it was read from is replaced only if it did not change meanwhile."""
    instances, tasks = map(entities.recipes_state, loaded.recipes)
    sides = None if loaded.sides is None else list(loaded.sides)
    about = {"instances": instances, "tasks": tasks, "origin": loaded.origin, "sides": sides}
    is_own = loaded.path is not None and os.path.realpath(loaded.path) == os.path.realpath(path)
    with writing(path):
        write_model(loaded.model, path, over=loaded.checksum if is_own else None, **{_KEY: about})


def load_model(path: Path) -> Loaded:
    """Read a model file of the command line, or one that was saved in Python."""
    checksum = read_checksum(path)  # before the rest, so that a change in between is noticed
    model, header = read_model(path)
    if isinstance(model, dyadlearn.PairRegressor):
        model = model.model_
    if not hasattr(model, "predict"):
        raise ModelFileError(f"{path} holds a feature map, not a model: it cannot predict.")
    try:
        about, versions = header.get(_KEY), header.get("versions", {})
        if type(versions) is not dict or not {type(text) for text in versions.values()} <= {str}:
            raise TypeError("versions are names and texts")
        if about is None:
            loaded = Loaded(model, _python_recipes(model))
        else:
            loaded = _described(model, about)
        return replace(loaded, versions=versions, path=path, checksum=checksum)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        why = f"its header does not describe how its data were read ({type(error).__name__}: {one_line(error)})"
        raise ModelFileError(
            f"{path} is damaged or was written by another version: {why}."
        ) from error


def _described(model: Any, about: Any) -> Loaded:
    """Return a model with the header entry of the command line, after checking it: a file may come from anywhere."""
    instances, tasks = (
        entities.recipes_from_state(about[side], side) for side in ("instances", "tasks")
    )
    if instances is None:
        raise TypeError("no instances")
    origin = about["origin"]
    sides = about.get("sides")
    if type(origin) is not dict or any(
        not isinstance(origin.get(name), str | None) for name in ("scoring", "setting")
    ):
        raise TypeError("wrong types in origin")
    # Raises if a name has control characters.
    names = None if sides is None else side_names(sides, network=_is_network(model))
    return Loaded(model, (instances, tasks), origin, sides=names)


def _python_recipes(model: Any) -> tuple[Recipes, Recipes | None]:
    """Return the recipes of a model that was saved in Python, from its kernels and the names of its columns."""
    described = predicting(model).descriptions
    instances, *tasks = (
        {name: _recipe(*each) for name, each in side.items()} for side in described
    )
    return instances, tasks[0] if tasks else None


def _recipe(spec: Any, names: Ids | None) -> Recipe:
    kernel = spec.kernel if isinstance(spec.kernel, str) else "own"
    if names is None or spec.is_precomputed:
        labels = None
    else:
        labels = list(map(id_text, names.labels))
    return Recipe(
        "kernel" if spec.is_precomputed else "features",
        kernel,
        dict(spec.params or {}),
        names=labels,
    )


# Tuning ---------------------------------------------------------------------------------------------


def tune(given: Tune, terminal: Terminal) -> None:
    """Fit a model, write its file, and print its score beside those of baselines."""
    with keeping_best(terminal.progress) as interrupts:
        _tune(given, terminal, interrupts)
    if interrupts.heard is not None:
        raise Interrupted(
            interrupts.heard
        )  # the model is written, and the exit code tells of the interrupt


def _tune(given: Tune, terminal: Terminal, interrupts: Interrupts) -> None:
    is_learned = given.model == "learned"
    is_online = given.model == "online"
    names = names_of(given.sides)
    params = _params(given, terminal)
    with terminal.working("Reading"):
        data = read_dyads(given.labels, given, terminal)
    if is_online:
        _check_online(data, names, terminal)
    params["scoring"] = given.scoring or (None if is_learned else usual_scoring(data.observed))
    groups = {
        "groups": read_groups(given.groups, data.labels.row_ids, names.instances, data.smiles[0]),
        "task_groups": read_groups(
            given.task_groups, data.labels.column_ids, names.tasks, data.smiles[1]
        ),
    }
    # The regularisation of an online model is chosen by the search of the equivalent model.
    if not is_online:
        names_of_models = given.models
    elif given.tasks:
        names_of_models = ("two-step",)
    else:
        names_of_models = ("independent",)
    why = None
    if len(names_of_models) > 1:
        found = better_of(
            {each: make_model(each, data, params) for each in names_of_models},
            **_training(data),
            **groups,
        )
        model = search = found.model
        kind = found.name
        why = found.reason
        _forget_progress(search)
    else:
        kind = given.model or names_of_models[0]
        model = search = fit_model(names_of_models[0], data, params, **groups)
    figures: dict[str, Any] = {
        "model": kind,
        "setting": search.holdout_setting_,
        "alpha": float(search.alpha_),
    }
    if is_learned:
        weights = weights_of_model(model)
        assert weights is not None
        figures |= {
            "holdout_error": model.holdout_error_,
            "stages": model.n_stages_,
            **weights.figures(),
        }
        scoring = given.scoring or "neg_mean_squared_error"
        score = model.holdout_score_
        rows = weights.lines(names)
        sign = 1 if given.scoring else -1
        if given.scoring:
            figures |= {"scoring": scoring, "score": score}
    else:
        scoring = params["scoring"]
        score = search.best_score_
        sign = 1
        chosen = getattr(search, "task_alpha_", None)
        task_alpha = None if chosen is None else float(chosen)
        figures |= {"scoring": scoring, "score": score, "task_alpha": task_alpha}
        rows = [("task alpha", number(task_alpha))]
        if getattr(search, "constants", None) is not None and search.constants_ is not None:
            figures["constants"] = list(search.constants_)
            rows.append(("constants", " and ".join(map(number, search.constants_))))
        if is_online:
            how = {
                "alpha": figures["alpha"],
                "task_alpha": task_alpha or 1.0,
                "keep_labels": given.keep_labels,
            }
            model = fit_model("online", data, {**how, "fit_intercept": given.intercept})
    m, q = data.labels.values.shape
    n = data.observed.size
    baselines = _baselines(search, terminal, interrupts)
    warning = nothing_learnt(scoring, as_setting(search.holdout_setting_), score, baselines, names)
    if warning is not None and np.ptp(data.observed) > 0:
        terminal.note(warning)
    figures |= {
        "holdout": search.holdout_method_,
        "baselines": baselines,
        "instances": m,
        "tasks": q,
        "observed": n,
    }
    if not is_learned:
        figures["reason"] = search.holdout_reason_
    if why is not None:
        figures["choice"] = {"reason": why, "scores": found.scores, "plans": found.plans}
    origin = {
        "files": dict(
            zip(("labels", "instances", "tasks"), (given.labels.name, *data.files), strict=True)
        ),
        **{name: figures[name] for name in _ORIGIN if name in figures},
        # The header of a file is strict JSON, which has no NaN.
        "baselines": {name: None if math.isnan(mean) else mean for name, mean in baselines.items()},
    }
    recipes = data.recipes[0], None if kind == "independent" else data.recipes[1]
    loaded = Loaded(model, recipes, origin).named(given.sides)
    with terminal.working("Writing"):
        save_model(loaded, given.output)
    terminal.result({**figures, "sides": loaded.sides, "output": str(given.output)})
    means = [
        f"{number(sign * mean)} {baseline_in_words(name, names)}"
        for name, mean in baselines.items()
    ]
    title = f"{'held-out error' if sign < 0 else scoring} in setting {search.holdout_setting_}"
    if scoring == "r2" and search.holdout_setting_ in "BC":
        title += f", mean over {names.instances if search.holdout_setting_ == 'B' else names.tasks}"
    lines = [
        ("model", kind),
        (
            "labels",
            f"{m} {names.instances} × {q} {names.tasks}, {100 * n / (m * q):.4g} % observed",
        ),
        *zip(names.both, map(in_words, data.recipes), strict=True),
        (
            title,
            f"{number(sign * score)}, {getattr(search, 'holdout_reason_', search.holdout_method_)}",
        ),
        ("baselines", ", ".join(means) or "left out, because of the interrupt"),
        ("alpha", number(figures["alpha"])),
        *rows,
    ]
    terminal.say(
        make_list(lines),
        *([] if why is None else [f"Why {kind}: {spoken(why)}"]),
        f"Wrote {given.output}.",
    )


def _baselines(search: Any, terminal: Terminal, interrupts: Interrupts) -> dict[str, float]:
    """Return the scores of the baselines; none, and a note, after an interrupt."""
    with terminal.working("Baselines"):
        baselines: dict[str, float] | None = interrupts.attempt(lambda: search.baselines_)
    if baselines is None:
        terminal.note("Because of the interrupt, the model is not compared with baselines.")
    return baselines or {}


def make_model(name: str, data: Dyads, params: dict[str, Any]) -> Any:
    """Return a model that is not fitted, or the search that chooses its regularisation if there is one.

    Parameters
    ----------
    name : str
        Name of the model, as in --model.
    data : Dyads
    params : dict
        Parameters of the model; those that it does not have are ignored.
    """
    for prefix, recipes in zip(("", "task_"), data.recipes, strict=True):
        specs = {name: recipe.of_model for name, recipe in (recipes or {}).items()}
        if name == "learned" and specs:
            each = {
                key: kernel if options is None else (kernel, options)
                for key, (kernel, options) in specs.items()
            }
            params = {**params, f"{prefix}kernel": each.get("", each)}
        elif specs:
            params = {
                **params,
                f"{prefix}kernel": specs[""][0],
                f"{prefix}kernel_params": specs[""][1],
            }
    kind = getattr(dyadlearn, MODELS[name].search or MODELS[name].model)
    return kind(
        **{key: value for key, value in params.items() if key in signature(kind).parameters}
    )


def fit_model(name: str, data: Dyads, params: dict[str, Any], **groups: Any) -> Any:
    """Fit the model of `make_model` on data.

    Parameters
    ----------
    name, data, params : as in `make_model`
    **groups
        Groups of instances and of tasks, for searches and learned kernels.
    """
    model = make_model(name, data, params)
    given = _training(data)
    if "C" not in MODELS[name].settings:
        given["tasks"] = None
    model.fit(**given, **groups)
    _forget_progress(model)
    return model


def _training(data: Dyads) -> dict[str, Any]:
    """Return the arguments of `fit`."""
    return {"X": data.instances, "y": data.labels, "tasks": data.tasks}


def _forget_progress(model: Any) -> None:
    """Set progress to its default, because it is an option of this run and not of the model."""
    if hasattr(model, "progress"):
        model.progress = None


def _params(given: Tune, terminal: Terminal) -> dict[str, Any]:
    """Return the options as parameters of a search or of learned kernels."""
    setting = one_setting(given.setting)
    if setting in "CD" and given.model == "independent":
        raise ValueError(
            f"--model independent ignores --tasks: use --setting A or B instead of {setting}."
        )
    for option, path, letters in (
        ("--groups", given.groups, "BD"),
        ("--task-groups", given.task_groups, "CD"),
    ):
        if path is not None and setting not in letters and given.model != "learned":
            raise ValueError(
                f"{option} has no effect in setting {setting}: leave it out, or use setting "
                f"{letters[0]}."
            )
    params: dict[str, Any] = {"setting": setting, "fit_intercept": given.intercept}
    params |= {"progress": terminal.progress, "device": given.device}
    if given.model == "learned":
        if given.stages != "auto" and not given.stages.isdecimal():
            raise ValueError(f"--stages must be a whole number or auto, found {given.stages!r}.")
        stages = given.stages if given.stages == "auto" else int(given.stages)
        params |= {
            "stages": stages,
            "n_steps": given.steps,
            "shrinkage": given.shrinkage,
            "normalize": given.normalize,
        }
        return params | {"cv": 5 if given.cv is None else given.cv, "random_state": given.seed}
    alphas = _alphas(given.alphas, "--alphas")
    if given.task_alphas is None:
        task_alphas = alphas
    else:
        task_alphas = _alphas(given.task_alphas, "--task-alphas")
    constants = _alphas(given.constants, "--constants")
    if constants not in (None, [1.0]) and not given.intercept:
        raise ValueError(
            "--constants are weights of main effects, which --no-intercept leaves out: leave out "
            "either."
        )
    params |= {"alphas": alphas, "task_alphas": task_alphas, "constants": constants}
    return params | {"cv": given.cv, "method": given.method, "exhaustive": given.exhaustive}


def _alphas(text: str | None, option: str) -> list[float] | None:
    """Read regularisations or constants: numbers and commas, or ``first:last:count``, evenly spaced on a log scale."""
    if text is None:
        return None
    try:
        if ":" in text:
            first, last, count = text.split(":")
            alphas = [
                float(alpha)
                for alpha in np.geomspace(parse_number(first), parse_number(last), int(count))
            ]
        else:
            alphas = [parse_number(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(
            f"{option} takes numbers as 0.1,1,10 or a range as 1e-3:1e3:7; found {text!r}."
        ) from None
    return check_alphas(alphas, option)


def _check_online(data: Dyads, names: SideNames, terminal: Terminal) -> None:
    """Raise if a side is not linear in features, which an online model must be."""
    for side, recipes in zip(names.both, data.recipes, strict=True):
        if any(recipe.of_model[0] != "linear" for recipe in (recipes or {}).values()):
            raise ValueError(
                f"An online model needs features with a linear kernel; {side} are "
                f"{in_words(recipes)}."
            )
    if data.tasks is not None and data.observed.size < math.prod(data.labels.values.shape):
        terminal.note(
            "Some labels are missing: the online model learns each task from its observed labels "
            "only."
        )


# More data for online models -----------------------------------------------------------------------


def update(given: Update, terminal: Terminal) -> None:
    """Add instances, tasks or labels to an online model, and write its file."""
    check_choice(given.known, "known", KNOWN)
    target = given.source if given.output is None else given.output
    check_target(target, force=True)
    loaded = load(given)
    model = loaded.model
    names = loaded.names
    recipes, task_recipes = loaded.recipes
    if not model.grows:
        raise ValueError(
            f"{given.source} is no online model: only models of tune --model online can be updated."
        )
    if given.instances is None and given.tasks is None:
        raise ValueError("Give --instances or --tasks: the file of the new instances or tasks.")
    if given.tasks is not None and task_recipes is None:
        raise ValueError(
            "The model was tuned without --tasks: leave it out, new tasks are columns of the "
            "labels."
        )
    grid = read_labels(given.labels, given, terminal)
    m, q = grid.values.shape
    tasks = loaded.ids[1]
    rows = (names.instances, "rows", grid.row_ids)
    columns = (names.tasks, "columns", grid.column_ids)
    X = _new_side(given.instances, recipes, m, rows, given.labels, terminal)
    X = None if X is None else loaded.with_names(X, 0)
    if _are_new_tasks(grid, loaded, given.tasks):
        T = _new_side(given.tasks, task_recipes, q, columns, given.labels, terminal)
        T = None if T is None else loaded.with_names(T, 1)
        repeated = set(() if tasks is None else tasks.labels) & set(
            grid.column_ids.labels if grid.column_ids else ()
        )
        if repeated:
            raise IdError(
                f"{names.tasks.capitalize()} {shown(sorted(repeated))} are known already: rename "
                f"new ones."
            )
        model.partial_fit_tasks(T, grid, X=X)
    else:
        grid = _with_missing(grid, tasks, given.labels, terminal)
        grid = grid.columns_as(
            tasks, f"the columns of {given.labels}", f"the {names.tasks} of the model"
        )
        # The ids of a model may be whole numbers; the columns are in its order now, so their ids
        # can be dropped.
        model.partial_fit(X, replace(grid, column_ids=None), known=given.known)
    save_model(loaded, target)
    terminal.result({"instances": model.n_seen_, "tasks": model.n_tasks_, "output": str(target)})
    terminal.say(
        f"{target} knows {model.n_seen_} {names.instances} and {model.n_tasks_} {names.tasks} now."
    )


def _are_new_tasks(grid: Table, loaded: Loaded, tasks: Path | None) -> bool:
    """Return whether the labels are those of new tasks: --tasks is given or, without features of tasks, all are new."""
    known = loaded.ids[1]
    if loaded.recipes[1] is not None or known is None or grid.column_ids is None:
        return tasks is not None
    return not set(grid.column_ids.labels) & set(known.labels)


def _with_missing(grid: Table, known: Ids | None, labels: Path, terminal: Terminal) -> Table:
    """Return labels with a column for every known task, NaN for those that are not in the file."""
    if grid.column_ids is None or known is None or known.lacking(grid.column_ids.labels):
        return grid
    lacking = grid.column_ids.lacking(known.labels)
    if not lacking:
        return grid
    terminal.note(
        f"{labels} has no labels for {len(lacking)} of {len(known)} tasks: these labels are "
        f"missing."
    )
    missing = np.full((grid.values.shape[0], len(lacking)), np.nan)
    ids = Ids((*grid.column_ids.labels, *lacking), grid.column_ids.name)
    return replace(grid, values=np.hstack([grid.values, missing]), column_ids=ids)


def _new_side(
    path: Path | None, recipes: Recipes | None, n: int, axis: Axis, labels: Path, terminal: Terminal
) -> Table | None:
    """Read new instances or tasks in the order of the n rows or columns of the labels; None without a file."""
    if path is None or recipes is None:
        return None
    source = entities.open_new(path, recipes[""])  # an online model has one file a side
    return entities.new_entities(
        source, recipes[""], None, terminal, places_in(source.file, n, axis, labels, terminal)
    )
