"""``dyadlearn evaluate``: how well a model does in each of the four settings."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from dyadlearn import evaluate as evaluated
from dyadlearn import verify_holdout
from dyadlearn._words import joined
from dyadlearn.cli import dyads, options
from dyadlearn.cli.files import Files
from dyadlearn.cli.models import check_model, fitted, load_model
from dyadlearn.cli.options import Sides, check_beside, given_options, settings_of, sides_of
from dyadlearn.cli.terminal import Terminal, make_table, number
from dyadlearn.diagnostics.fitted import known_settings, labelled_model
from dyadlearn.holdout.baselines import BASELINES
from dyadlearn.metrics import scorer
from dyadlearn.selection.evaluate import scoring_of
from dyadlearn.selection.scores import HEADINGS, before, beside
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames, side_names

__all__ = ["evaluate"]


def evaluate(
    source: Annotated[Path, typer.Argument(metavar="MODEL|LABELS", help="A model file, or labels with --instances.")],
    *,
    instances: options.MaybeInstances = None,
    tasks: options.Tasks = None,
    model: options.ModelName = "two-step",
    intercept: options.Intercept = True,
    alpha: Annotated[float | None, typer.Option(help="Regularisation of the instances; 1 where not given.")] = None,
    task_alpha: Annotated[float | None, typer.Option(help="Regularisation of the tasks; 1 where not given.")] = None,
    settings: Annotated[str, typer.Option(help="Which settings.")] = "ABCD",
    scoring: Annotated[
        list[str] | None, typer.Option(help=f"A score, which may be repeated. One of {options.SCORES}.")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Compare with models that are really fitted again.")] = False,
    cells: Annotated[int, typer.Option(min=1, help="How many cells --verify tries in each setting.")] = 20,
    cv: options.Folds = None,
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
    terminal: Terminal,
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
    wanted = settings_of(settings)
    for name in scoring or ():
        scorer(name)
    check_beside(verify, "--verify", "cells")
    own_scoring = None
    if instances is None:
        of_labels = ("tasks", "model", "intercept", "device", *(field.name for field in fields(how)))
        for option in given_options(*of_labels):
            raise ValueError(f"{option} goes with labels and --instances: a model in a file has its own.")
        loaded = load_model(source).named(sides)
        names, own_scoring = loaded.names, loaded.origin.get("scoring")
        estimator = _with_alphas(labelled_model(loaded.model), alpha, task_alpha)
    else:
        if model == "online":
            raise ValueError("An online model keeps no labels to hold out: evaluate --model two-step, its equal.")
        check_model(model, bool(tasks), searches=False)
        names = side_names(sides_of(sides))
        files = Files.single(instances, "--instances"), Files.single(tasks, "--tasks") if tasks else None
        data = dyads.read_dyads(source, *files, how, terminal)
        first, second = (1.0 if value is None else value for value in (alpha, task_alpha))
        estimator = fitted(data, model, first, second, intercept, device=device)
    if not nested and not estimator.learns_kernels:
        raise ValueError(
            "--no-nested goes with models of dyadlearn learn, and this one learned no kernels: leave it out."
        )
    params: dict[str, Any] = {"cv": cv, "n_permutations": permutations, "sides": names, "nested": nested}
    scores = scoring or [own_scoring or scoring_of(estimator)]
    rows = [
        _scored(estimator, setting, scores, params, terminal) for setting in _known(estimator, wanted, names, terminal)
    ]
    if verify:
        _verify(estimator, rows, cells, terminal)
    # Several scores have a row each: side by side they would leave no room for anything else.
    words, figures = HEADINGS
    judges = list(rows[0]["scores"]) if rows else []
    own = ["scoring"] if len(judges) > 1 else []
    headings = [*words, *own, *(["score"] if own else judges), *figures, *(["from refitting"] if verify else [])]
    lines = [
        [
            *before(row),
            *(judge for _ in own),
            *beside(row["scores"][judge], row["null"][judge], row["baselines"][judge], names),
            *([number(row["difference"])] if verify else []),
        ]
        for row in rows
        for judge in judges
    ]
    terminal.result({"settings": rows}, make_table(headings, lines, left=len(words) + len(own)))


def _known(model: Any, settings: list[Setting], names: SideNames, terminal: Terminal) -> list[Setting]:
    """Return the settings that a model can be asked about; others are left out, and that is noted."""
    known = known_settings(model, settings)
    refused = [setting for setting in settings if setting not in known]
    if refused and not model._problem().pairing.knows_tasks:
        terminal.note(
            f"The model knows nothing of {names.tasks} and cannot be asked about new ones: settings C and D are left "
            "out."
        )
    elif refused and known:
        terminal.note(
            "The model describes what is known by profiles of its labels and cannot be asked about what is new: "
            f"setting {joined([setting.value for setting in refused])} is left out; learn --stages 1 does without them."
        )
    elif refused:
        evaluated(model, refused)  # which raises and says why
    return known


def _scored(
    model: Any, setting: Setting, scoring: list[Any], params: dict[str, Any], terminal: Terminal
) -> dict[str, Any]:
    """Return the scores of a model in one setting by their names, with those of permuted labels and of means."""
    row: dict[str, Any] = {}
    for each in scoring:
        with terminal.working(f"Setting {setting.value}: hold-out"):
            found = evaluated(model, [setting], each, **params)
        for note in found.notes:
            terminal.note(note)
        figures, name = found.rows()[0], found.scoring
        row |= {word: figures[word] for word in ("setting", "new", "method")}
        means = {mean: figures[mean] for mean in BASELINES}
        parts = {
            "scores": figures[name],
            "null": figures["null"],
            "baselines": means,
            "undefined": figures["undefined"],
        }
        for part, value in parts.items():
            row.setdefault(part, {})[name] = value
    return row


def _with_alphas(model: Any, alpha: float | None, task_alpha: float | None) -> Any:
    given = {name: value for name, value in (("alpha", alpha), ("task_alpha", task_alpha)) if value is not None}
    if given and model.searches:
        raise ValueError(
            "This model chose its own regularisation: give other values together with the labels, --instances and "
            "--tasks."
        )
    if "task_alpha" in given and not hasattr(model, "task_alpha"):
        raise ValueError(f"--task-alpha is no option of {type(model).__name__}, which has --alpha alone.")
    return model.set_alpha(**given) if given else model


def _verify(model: Any, rows: list[dict[str, Any]], cells: int, terminal: Terminal) -> None:
    """Add to each row the largest difference from refitting."""
    is_complete = model._problem().is_complete
    if not is_complete:
        terminal.note("Labels are missing: hold-out predictions are made by solving again, there is nothing to verify.")
    for row in rows:
        row["difference"] = None
        if is_complete:
            with terminal.working(f"Setting {row['setting']}: refitting"):
                row["difference"] = verify_holdout(model, row["setting"], n_cells=cells, random_state=0)
