"""``dyadlearn evaluate``: how well a model does in each of the four settings."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from dyadlearn import verify_holdout
from dyadlearn.cli import dyads, options
from dyadlearn.cli.files import Files
from dyadlearn.cli.models import check_model, fitted, load_model
from dyadlearn.cli.options import (
    Json,
    ModelName,
    Quiet,
    Sides,
    check_beside,
    given_options,
    settings_of,
    sides_of,
)
from dyadlearn.cli.terminal import Terminal, make_table, number
from dyadlearn.diagnostics.fitted import known_settings, labelled_model
from dyadlearn.holdout.lone import scored_labels
from dyadlearn.metrics import scorer
from dyadlearn.selection.baselines import baseline_scores
from dyadlearn.selection.evaluate import model_holdout, scoring_of
from dyadlearn.selection.observed import prepared_score
from dyadlearn.selection.permuting import null_mean
from dyadlearn.selection.scores import HEADINGS, before, beside, remarks
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames, side_names
from dyadlearn.views.words import joined

__all__ = ["evaluate"]


@options.taking_options
def evaluate(
    source: Annotated[Path, typer.Argument(metavar="MODEL|LABELS", help="A model file, or labels with --instances.")],
    *,
    instances: options.MaybeInstances = None,
    tasks: options.Tasks = None,
    model: ModelName = "two-step",
    intercept: options.Intercept = True,
    alpha: Annotated[float | None, typer.Option(help="Regularisation of the instances; 1 where not given.")] = None,
    task_alpha: Annotated[float | None, typer.Option(help="Regularisation of the tasks; 1 where not given.")] = None,
    settings: Annotated[str, typer.Option(help="Which settings.")] = "ABCD",
    scoring: Annotated[
        list[str] | None, typer.Option(help=f"A score, which may be repeated. One of {options.SCORES}.")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Compare with models that are really fitted again.")] = False,
    cells: Annotated[int, typer.Option(min=1, help="How many cells --verify tries in each setting.")] = 20,
    cv: Annotated[int | None, typer.Option(help="Folds where labels are missing and no shortcut exists.")] = None,
    device: options.Device = None,
    permutations: Annotated[int, typer.Option(min=0, help="How many permuted labels the null is the mean of.")] = 10,
    nested: Annotated[
        bool,
        typer.Option(
            "--nested/--no-nested",
            help="Learn kernels again without what is scored, or score with those that were learned from all labels.",
        ),
    ] = True,
    how: options.Reading,
    sides: Sides = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score a model's exact hold-out predictions for new pairs, instances, tasks, and both, beside simple means.

    The best mean is that of all labels (grand), of the instance, of the task, or an effect of both (additive), held out
    as the model is; a model that has learnt something of the features does better. --json has all of them.
    The null is the mean score of a few permuted labels, where that is quickly had: see `dyadlearn permute` for a test.
    A model of dyadlearn learn learns its kernels again without each fold that is scored, which takes its time.

    For example:

        dyadlearn evaluate model.dyad --verify

        dyadlearn evaluate labels.csv --instances targets.csv --tasks drugs.csv --alpha 0.1 --task-alpha 10

        dyadlearn evaluate model.dyad --scoring roc_auc --scoring average_precision --json
    """
    with Terminal(json, quiet) as terminal:
        wanted = settings_of(settings)
        for name in scoring or ():
            scorer(name)
        check_beside(verify, "--verify", "cells")
        if instances is None:
            of_labels = ("tasks", "model", "intercept", "device", *(field.name for field in fields(how)))
            for option in given_options(*of_labels):
                raise ValueError(f"{option} goes with labels and --instances: a model in a file has its own.")
            found = load_model(source).named(sides)
            called = found.names
            estimator = labelled_model(found.model)
            if alpha is not None or task_alpha is not None:
                estimator = _with_alphas(estimator, alpha, task_alpha)
            wanted_scores = scoring or [found.origin.get("scoring") or scoring_of(estimator)]
        else:
            if model == "online":
                raise ValueError("An online model keeps no labels to hold out: evaluate --model two-step, its equal.")
            check_model(model, tasks is not None, searches=False)
            called = side_names(sides_of(sides))
            files = Files.one(instances, "--instances"), None if tasks is None else Files.one(tasks, "--tasks")
            data = dyads.read_dyads(source, *files, how, terminal)
            given = [1.0 if value is None else value for value in (alpha, task_alpha)]
            estimator = fitted(data, model, given[0], given[1], intercept, device=device)
            wanted_scores = scoring or [scoring_of(estimator)]
        if not nested and not estimator.learns_kernels:
            raise ValueError(
                "--no-nested goes with models of dyadlearn learn, and this one learned no kernels: leave it out."
            )
        rows = _scored(estimator, wanted, wanted_scores, cv, called, terminal, permutations, nested)
        names = list(rows[0]["scores"]) if rows else []
        if verify:
            _verify(estimator, rows, cells, terminal)
        # Several scores have a row each: side by side they would leave no room for anything else.
        own = [] if len(names) == 1 else ["scoring"]
        words, figures = HEADINGS
        headings = [*words, *own, *(names if not own else ["score"]), *figures]
        lines = [
            [*before(row), *([name] if own else []), *_beside(row, name, called)] for row in rows for name in names
        ]
        if verify:
            headings.append("from refitting")
            for line, row in zip(lines, [row for row in rows for _ in names], strict=True):
                line.append(number(row["difference"]))
        terminal.result({"settings": rows}, make_table(headings, lines, left=len(words) + len(own)))


def _beside(row: dict[str, Any], name: str, called: SideNames) -> list[str]:
    return beside(row["scores"][name], row["null"][name], row["baselines"][name], called)


def _scored(
    model: Any,
    settings: list[Setting],
    scoring: list[Any],
    cv: int | None,
    called: SideNames,
    terminal: Terminal,
    permutations: int,
    nested: bool,
) -> list[dict[str, Any]]:
    """Score a model in several settings.

    Parameters
    ----------
    model : fitted model of a grid
    settings : list of Setting
        Those of new tasks are left out, and that is said, where the model knows nothing of tasks.
    scoring : list of str or Scorer
    cv : int or None
    called : SideNames
        What the sides are called.
    terminal : Terminal
    permutations : int
        Of the labels, for the null.
    nested : bool
        Whether kernels that were learned are learned again without what is scored.

    Returns
    -------
    list of dict
        One for each setting, with the scores by their names, those of permuted labels, and those of means by theirs.
    """
    problem, judges, known = model._problem(), [scorer(each) for each in scoring], known_settings(model, settings)
    refused = [setting for setting in settings if setting not in known]
    if refused and not problem.pairing.knows_tasks:
        terminal.note(
            f"The model knows nothing of {called.tasks} and cannot be asked about new ones: settings C and D are left "
            "out."
        )
    elif refused:
        if not known:
            problem.pairing.check_request(refused[0], None, None, None)  # which says why
        terminal.note(
            "The model describes what is known by profiles of its labels and cannot be asked about what is new: "
            f"setting {joined([setting.value for setting in refused])} is left out; learn --stages 1 does without them."
        )
    rows: list[dict[str, Any]] = []
    for setting in known:
        with terminal.working(f"Setting {setting.value}: hold-out"):
            found = model_holdout(model, setting, cv, nested=nested)
        labels = scored_labels(problem, found.predictions, setting)
        prepared = {judge.name: prepared_score(problem, judge, setting, labels) for judge in judges}
        means = {name: baseline_scores(problem, setting, found.units, judge) for name, judge in prepared.items()}
        rows.append(
            {
                "setting": setting.value,
                "new": called.new_in(setting),
                "method": found.method,
                "scores": {name: float(judge(found.predictions)) for name, judge in prepared.items()},
                "null": {
                    name: null_mean(problem, setting, found.units, judge, permutations if found.is_fixed else 0)
                    for name, judge in prepared.items()
                },
                "baselines": means,
                "undefined": {name: judge.n_undefined for name, judge in prepared.items()},
            }
        )
        for name, judge in prepared.items():
            for said in remarks(name, setting, rows[-1]["scores"][name], judge.n_undefined, means[name], called):
                terminal.note(said)
    return rows


def _with_alphas(model: Any, alpha: float | None, task_alpha: float | None) -> Any:
    if model.searches:
        raise ValueError(
            "This model chose its own regularisation: give other values together with the labels, --instances and "
            "--tasks."
        )
    given = {name: value for name, value in (("alpha", alpha), ("task_alpha", task_alpha)) if value is not None}
    if "task_alpha" in given and not hasattr(model, "task_alpha"):
        raise ValueError(f"--task-alpha is no option of {type(model).__name__}, which has --alpha alone.")
    return model.set_alpha(**given)


def _verify(model: Any, rows: list[dict[str, Any]], cells: int, terminal: Terminal) -> None:
    """Add to each row the largest difference from refitting."""
    for row in rows:
        row["difference"] = None
        if not model._problem().is_complete:
            terminal.note(
                "Labels are missing: hold-out predictions are made by solving again, there is nothing to verify."
            )
            return
        with terminal.working(f"Setting {row['setting']}: refitting"):
            row["difference"] = verify_holdout(model, row["setting"], n_cells=cells, random_state=0)
