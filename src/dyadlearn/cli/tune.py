"""``dyadlearn tune``: fit a model, choose its regularisation or kernels, and write its file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np

import dyadlearn
from dyadlearn._checks import check_alphas
from dyadlearn._files.packed import parse_number
from dyadlearn._interrupts import Interrupted, Interrupts, keeping_best
from dyadlearn._registry import MODELS
from dyadlearn._text import make_list, number
from dyadlearn.cli.cells import tune_cells
from dyadlearn.cli.commands import Tune
from dyadlearn.cli.dyads import Dyads, names_of, read_dyads, read_groups
from dyadlearn.cli.entities import in_words
from dyadlearn.cli.models import Loaded, one_setting, save_model
from dyadlearn.cli.one_table import names_of_columns
from dyadlearn.cli.terminal import Arguments, Figures, Terminal
from dyadlearn.holdout.actual import actual_settings, counts_of, in_one_line
from dyadlearn.metrics.cells import as_average
from dyadlearn.metrics.scorers import usual_scoring
from dyadlearn.selection.choosing import Better, better_of
from dyadlearn.selection.evaluate import in_words as baseline_in_words
from dyadlearn.selection.evaluate import nothing_learnt
from dyadlearn.settings import as_setting
from dyadlearn.sides import SideNames
from dyadlearn.views.weights import weights_of_model

# Figures that are stored in the model file.
_ORIGIN = ("model", "setting", "scoring", "alpha", "task_alpha", "constants", "shares", "score")


@dataclass(frozen=True)
class Outcome:
    """What a fit has found.

    Attributes
    ----------
    model : estimator
        The model to write.
    figures : dict
        The regularisation and the score, for JSON and for the model file.
    rows : sequence of (str, str)
        The regularisation or the weights, for people.
    scoring : str
        Name of the score.
    score : float
        The best held-out score.
    sign : int
        Factor of scores for people: -1 if they are shown as errors.
    """

    model: Any
    figures: Figures
    rows: Sequence[tuple[str, str]]
    scoring: str
    score: float
    sign: int = 1


@dataclass(frozen=True)
class Tuned:
    """A fitted search, and all that `tune` tells people about it.

    Attributes
    ----------
    kind : str
        Name of the model, as in --model.
    search : estimator
        The search, or the model with learned kernels.
    choice : Better or None
        The comparison of several models that this one comes from.
    outcome : Outcome
    baselines : dict of str to float
        Scores of the baselines.
    data : Dyads
    names : SideNames
        Names of the sides.
    """

    kind: str
    search: Any
    choice: Better | None
    outcome: Outcome
    baselines: dict[str, float]
    data: Dyads
    names: SideNames

    @property
    def figures(self) -> Figures:
        """The figures for JSON."""
        search = self.search
        choice = self.choice
        instances, tasks = self.data.labels.values.shape
        figures = {
            "model": self.kind,
            "setting": search.holdout_setting_,
            "alpha": float(search.alpha_),
            **self.outcome.figures,
            "holdout": search.holdout_method_,
            "baselines": self.baselines,
            "instances": instances,
            "tasks": tasks,
            "observed": self.data.observed.size,
        }
        if self.kind != "learned":
            figures["reason"] = search.holdout_reason_
        if choice is not None:
            figures["choice"] = {
                "reason": choice.reason,
                "scores": choice.scores,
                "plans": choice.plans,
            }
        return figures

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Names and values for people."""
        search = self.search
        outcome = self.outcome
        reason = getattr(search, "holdout_reason_", search.holdout_method_)
        return [
            ("model", self.kind),
            ("labels", self._labels),
            *zip(self.names.both, map(in_words, self.data.recipes), strict=True),
            (self._title, f"{number(outcome.sign * outcome.score)}, {reason}"),
            ("baselines", self._baselines or "left out, because of the interrupt"),
            ("alpha", number(float(search.alpha_))),
            *outcome.rows,
        ]

    @property
    def _labels(self) -> str:
        instances, tasks = self.data.labels.values.shape
        percentage = 100 * self.data.observed.size / (instances * tasks)
        grid = f"{instances} {self.names.instances} × {tasks} {self.names.tasks}"
        return f"{grid}, {percentage:.4g} % observed"

    @property
    def _title(self) -> str:
        """The name of the score."""
        setting = self.search.holdout_setting_
        scoring = self.outcome.scoring if self.outcome.sign > 0 else "held-out error"
        title = f"{scoring} in setting {setting}"
        average = getattr(self.search, "average", None) or as_average(None, setting)
        averaged = {
            "instance": self.names.instances,
            "task": self.names.tasks,
            "fold": "folds",
        }.get(average)
        if averaged is None:
            return title
        return f"{title}, mean over {averaged}"

    @property
    def _baselines(self) -> str:
        return ", ".join(
            f"{number(self.outcome.sign * mean)} {baseline_in_words(name, self.names)}"
            for name, mean in self.baselines.items()
        )


def tune(options: Tune, terminal: Terminal) -> None:
    """Fit a model, write its file, and print its score beside those of baselines."""
    if options.has_cells:
        tune_cells(options, terminal)
        return
    if options.structures and options.sides is None:
        options = replace(options, sides=names_of_columns(options.structures))
    with keeping_best(terminal.progress) as interrupts:
        _tune(options, terminal, interrupts)
    if interrupts.heard is not None:
        # The model is written, and the exit code tells of the interrupt.
        raise Interrupted(interrupts.heard)


def _tune(options: Tune, terminal: Terminal, interrupts: Interrupts) -> None:
    names = names_of(options.sides)
    params = _params(options, terminal)
    with terminal.working("Reading"):
        data = read_dyads(options.labels, options, terminal)
    if options.model == "online":
        _check_online(data, names, terminal)
    params["scoring"] = options.scoring
    if options.scoring is None and options.model != "learned":
        params["scoring"] = usual_scoring(data.observed)
    kind, search, choice = _fit(options, data, params, names)
    if options.model == "learned":
        outcome = _outcome_of_learned(search, options, names)
    else:
        outcome = _outcome_of_search(kind, search, options, params["scoring"], data)
    baselines = _baselines(search, terminal, interrupts)
    tuned = Tuned(kind, search, choice, outcome, baselines, data, names)
    _note_nothing_learnt(tuned, terminal)
    _note_settings(search, terminal)
    loaded = _loaded(tuned, options)
    with terminal.working("Writing"):
        save_model(loaded, options.output)
    terminal.result({**tuned.figures, "sides": loaded.sides, "output": str(options.output)})
    terminal.say(make_list(tuned.lines))
    if choice is not None:
        terminal.say(f"Why {kind}: {choice.reason}")
    terminal.say(f"Wrote {options.output}.")


def _fit(
    options: Tune, data: Dyads, params: Arguments, names: SideNames
) -> tuple[str, Any, Better | None]:
    """Return the name of a model, its fitted search, and the comparison of two models that it comes from."""
    row_ids = data.labels.row_ids
    column_ids = data.labels.column_ids
    groups = {
        "groups": read_groups(options.groups, row_ids, names.instances, data.smiles[0]),
        "task_groups": read_groups(
            options.task_groups, column_ids, names.tasks, data.smiles[1], "task_groups"
        ),
    }
    tried = options.models
    if options.model == "online":
        # Its regularisation is chosen by the search of the equivalent model.
        tried = ("two-step",) if options.has("tasks") else ("independent",)
    if len(tried) == 1:
        search = fit_model(tried[0], data, params, **groups)
        return options.model or tried[0], search, None
    searches = {name: make_model(name, data, params) for name in tried}
    choice = better_of(searches, **_training(data), **groups)
    _forget_progress(choice.model)
    return choice.name, choice.model, choice


def _outcome_of_learned(model: Any, options: Tune, names: SideNames) -> Outcome:
    """Return the weights and the score of learned kernels; without --scoring, people read an error."""
    weights = weights_of_model(model)
    assert weights is not None
    figures = {
        "holdout_error": model.holdout_error_,
        "stages": model.n_stages_,
        **weights.figures(),
    }
    rows = weights.lines(names)
    score = model.holdout_score_
    if options.scoring is None:
        return Outcome(model, figures, rows, "neg_mean_squared_error", score, sign=-1)
    figures |= {"scoring": options.scoring, "score": score}
    return Outcome(model, figures, rows, options.scoring, score)


def _outcome_of_search(kind: str, search: Any, options: Tune, scoring: str, data: Dyads) -> Outcome:
    """Return the regularisation and the score of a search, and the model: the search, or an online model."""
    chosen = getattr(search, "task_alpha_", None)
    task_alpha = None if chosen is None else float(chosen)
    figures = {
        "scoring": scoring,
        "score": search.best_score_,
        "task_alpha": task_alpha,
    }
    rows = [("task alpha", number(task_alpha))]
    if getattr(search, "constants", None) is not None and search.constants_ is not None:
        figures["constants"] = list(search.constants_)
        rows.append(("constants", " and ".join(map(number, search.constants_))))
    if kind == "pair":
        figures["shares"] = list(search.shares_)
        rows.append(("shares", ", ".join(map(number, search.shares_))))
    model = search
    if options.model == "online":
        params = {
            "alpha": float(search.alpha_),
            "task_alpha": task_alpha or 1.0,
            "keep_labels": options.keep_labels,
            "fit_intercept": options.intercept,
        }
        model = fit_model("online", data, params)
    return Outcome(model, figures, rows, scoring, search.best_score_)


def _baselines(search: Any, terminal: Terminal, interrupts: Interrupts) -> dict[str, float]:
    """Return the scores of the baselines; none, and a note, after an interrupt."""
    with terminal.working("Baselines"):
        baselines: dict[str, float] | None = interrupts.attempt(lambda: search.baselines_)
    if baselines is None:
        terminal.note("Because of the interrupt, the model is not compared with baselines.")
    return baselines or {}


def _note_nothing_learnt(tuned: Tuned, terminal: Terminal) -> None:
    """Print a note if the model is not better than the baselines, unless all labels are equal."""
    outcome = tuned.outcome
    setting = as_setting(tuned.search.holdout_setting_)
    note = nothing_learnt(outcome.scoring, setting, outcome.score, tuned.baselines, tuned.names)
    if note is not None and np.ptp(tuned.data.observed) > 0:
        terminal.note(note)


def _note_settings(search: Any, terminal: Terminal) -> None:
    """Print in one line which settings the held-out pairs are really in, where that is not the one of the search."""
    fitted = search.fitted_
    if fitted.is_network:
        return
    setting = as_setting(search.holdout_setting_)
    letters = actual_settings(fitted.labels, setting, fitted.validation.units)
    line = in_one_line({setting.value: counts_of(letters, setting)})
    if line is not None:
        terminal.note(f"{line} evaluate --by setting scores them apart.")


def _loaded(tuned: Tuned, options: Tune) -> Loaded:
    """Return the model with what its file tells about its origin."""
    data = tuned.data
    figures = tuned.figures
    names = ("labels", "instances", "tasks")
    origin: dict[str, Any] = {
        "files": dict(zip(names, (options.labels.name, *data.files), strict=True))
    }
    if options.structures:
        origin["columns"] = list(map(list, options.structures))
    origin |= {name: figures[name] for name in _ORIGIN if name in figures}
    # The header of a file is strict JSON, which has no NaN.
    origin["baselines"] = {
        name: None if math.isnan(mean) else mean for name, mean in tuned.baselines.items()
    }
    instances, tasks = data.recipes
    recipes = (instances, None if tuned.kind == "independent" else tasks)
    return Loaded(tuned.outcome.model, recipes, origin).named(options.sides)


# Models and their parameters -----------------------------------------------------------------------


def make_model(name: str, data: Dyads, params: Arguments) -> Any:
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
            kernels = {
                key: kernel if options is None else (kernel, options)
                for key, (kernel, options) in specs.items()
            }
            params = {**params, f"{prefix}kernel": kernels.get("", kernels)}
        elif specs:
            kernel, options = specs[""]
            params = {**params, f"{prefix}kernel": kernel, f"{prefix}kernel_params": options}
    kind = getattr(dyadlearn, MODELS[name].search or MODELS[name].model)
    known = signature(kind).parameters
    return kind(**{key: value for key, value in params.items() if key in known})


def fit_model(name: str, data: Dyads, params: Arguments, **groups: Any) -> Any:
    """Fit the model of `make_model` on data.

    Parameters
    ----------
    name, data, params : as in `make_model`
    **groups
        Groups of instances and of tasks, for searches and learned kernels.
    """
    model = make_model(name, data, params)
    training = _training(data)
    if "C" not in MODELS[name].settings:
        training["tasks"] = None
    model.fit(**training, **groups)
    _forget_progress(model)
    return model


def _training(data: Dyads) -> Arguments:
    """Return the arguments of `fit`."""
    return {"X": data.instances, "y": data.labels, "tasks": data.tasks}


def _forget_progress(model: Any) -> None:
    """Set progress to its default, because it is an option of this run and not of the model."""
    if hasattr(model, "progress"):
        model.progress = None


def _params(options: Tune, terminal: Terminal) -> Arguments:
    """Return the options as parameters of a search or of learned kernels."""
    setting = one_setting(options.setting)
    _check_setting(options, setting)
    params: Arguments = {
        "setting": setting,
        "fit_intercept": options.intercept,
        "progress": terminal.progress,
        "device": options.device,
    }
    if options.model == "learned":
        return params | _params_of_learned(options)
    return params | _params_of_search(options)


def _check_setting(options: Tune, setting: str) -> None:
    """Raise if the model does not have the setting, or if groups have no effect in it."""
    if setting in "CD" and options.model == "independent":
        raise ValueError(
            f"--model independent ignores --tasks: use --setting A or B instead of {setting}."
        )
    for option, path, letters in (
        ("--groups", options.groups, "BD"),
        ("--task-groups", options.task_groups, "CD"),
    ):
        if path is not None and setting not in letters and options.model != "learned":
            raise ValueError(
                f"{option} has no effect in setting {setting}: leave it out, or use setting "
                f"{letters[0]}."
            )


def _params_of_learned(options: Tune) -> Arguments:
    """Return the options of learned kernels as parameters."""
    if options.stages != "auto" and not options.stages.isdecimal():
        raise ValueError(f"--stages must be a whole number or auto, found {options.stages!r}.")
    return {
        "stages": options.stages if options.stages == "auto" else int(options.stages),
        "n_steps": options.steps,
        "shrinkage": options.shrinkage,
        "normalize": options.normalize,
        "average": options.average,
        "cv": 5 if options.cv is None else options.cv,
        "random_state": options.seed,
    }


def _params_of_search(options: Tune) -> Arguments:
    """Return the options of a search as parameters."""
    alphas = _alphas(options.alphas, "alphas")
    if options.task_alphas is None:
        task_alphas = alphas
    else:
        task_alphas = _alphas(options.task_alphas, "task_alphas")
    constants = _alphas(options.constants, "constants")
    if constants not in (None, [1.0]) and not options.intercept:
        raise ValueError(
            "--constants are weights of main effects, which --no-intercept leaves out: leave out "
            "either."
        )
    return {
        "alphas": alphas,
        "task_alphas": task_alphas,
        "constants": constants,
        "shares": _shares(options.shares),
        "cv": options.cv,
        "method": options.method,
        "average": options.average,
        "exhaustive": options.exhaustive,
    }


def _shares(texts: list[str] | None) -> list[tuple[float, ...]] | None:
    """Read triples of shares; None without any."""
    if texts is None:
        return None
    triples: list[tuple[float, ...]] = []
    for text in texts:
        try:
            shares = tuple(float(parse_number(part)) for part in text.split(","))
        except ValueError:
            shares = ()
        if len(shares) != 3:
            raise ValueError(
                f"--shares takes three weights, such as 2,1,1: of the product kernel, per task and "
                f"per instance; found {text!r}."
            )
        triples.append(shares)
    return triples


def _alphas(text: str | None, name: str) -> list[float] | None:
    """Read the parameter `name`: numbers and commas, or ``first:last:count``, evenly spaced on a log scale."""
    if text is None:
        return None
    try:
        if ":" in text:
            first, last, count = text.split(":")
            alphas = np.geomspace(parse_number(first), parse_number(last), int(count)).tolist()
        else:
            alphas = [parse_number(part) for part in text.split(",")]
    except ValueError:
        option = f"--{name.replace('_', '-')}"
        raise ValueError(
            f"{option} takes numbers as 0.1,1,10 or a range as 1e-3:1e3:7; found {text!r}."
        ) from None
    return check_alphas(alphas, name)


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
