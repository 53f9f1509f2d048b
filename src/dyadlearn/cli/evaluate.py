"""``dyadlearn evaluate``: how well a model does in each of the four settings.

``dyadlearn permute``: whether a model does better than on labels that were permuted.

``dyadlearn compare``: whether one model is really better than another.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from dyadlearn import compare as compared
from dyadlearn import evaluate as evaluated
from dyadlearn import permutation_test, verify_holdout
from dyadlearn._text import joined, make_table, number
from dyadlearn.cli import dyads, options
from dyadlearn.cli.entities import Files
from dyadlearn.cli.models import Loaded, ModelFile, check_model, fitted, load_model
from dyadlearn.cli.options import Sides, check_beside, given_options, settings_of, sides_of
from dyadlearn.cli.terminal import Terminal
from dyadlearn.diagnostics.fitted import fitted_of, known_settings
from dyadlearn.metrics import scorer
from dyadlearn.selection.evaluate import Scores
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames, side_names


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
    cv: Annotated[int | None, typer.Option(help="Folds to leave out; by default one thing at a time.")] = None,
    device: options.Device = None,
    permutations: options.Permutations = 0,
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
    The null of --permutations is the mean score of a few permuted labels, where that is quickly had: see
    `dyadlearn permute` for a test.
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
    own_scoring = scoring[0] if scoring else None
    if instances is None:
        of_labels = ("tasks", "model", "intercept", "device", *(field.name for field in fields(how)))
        for option in given_options(*of_labels):
            raise ValueError(f"{option} goes with labels and --instances: a model in a file has its own.")
        loaded = load_model(source).named(sides)
        names, own_scoring = loaded.names, own_scoring or loaded.origin.get("scoring")
        estimator = _with_alphas(fitted_of(loaded.model).estimator, alpha, task_alpha)
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
    known = _known(estimator, wanted, names, terminal)
    with terminal.working("Hold-out"):
        found = evaluated(estimator, known, scoring if scoring and scoring[1:] else own_scoring, **params)
    for note in found.notes:
        terminal.note(note)
    rows = _by_setting(found)
    headings, lines, left = found.table()
    if verify:
        _verify(estimator, list(rows.values()), cells, terminal)
        headings = [*headings, "from refitting"]
        lines = [
            [*line, number(rows[setting]["difference"])] for line, setting in zip(lines, found["setting"], strict=True)
        ]
    terminal.result({"settings": list(rows.values())}, make_table(headings, lines, left=left))


def _known(model: Any, settings: list[Setting], names: SideNames, terminal: Terminal) -> list[Setting]:
    """Return the settings that a model can be asked about; others are left out, and that is noted."""
    known = known_settings(model.fitted_, settings)
    refused = [setting for setting in settings if setting not in known]
    if refused and not model.fitted_.pairing.knows_tasks:
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


def _by_setting(found: Scores) -> dict[str, dict[str, Any]]:
    """Return the figures of each setting, those that depend on the score by its name."""
    rows: dict[str, dict[str, Any]] = {}
    for each, new in zip(found.results, found["new"], strict=True):
        setting = each.setting.value
        row = rows.setdefault(setting, {"setting": setting, "new": new, "method": each.method})
        parts = {"scores": each.score, "null": each.null, "baselines": each.baselines, "undefined": each.n_undefined}
        for part, value in parts.items():
            row.setdefault(part, {})[each.judge.name] = value
    return rows


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
    is_complete = model.fitted_.labels.full is not None
    if not is_complete:
        terminal.note("Labels are missing: hold-out predictions are made by solving again, there is nothing to verify.")
    for row in rows:
        row["difference"] = None
        if is_complete:
            with terminal.working(f"Setting {row['setting']}: refitting"):
                row["difference"] = verify_holdout(model, row["setting"], n_cells=cells, random_state=0)


_FIGURES = ("setting", "permuted", "scoring", "method", "score", "null_mean", "null_deviation", "null", "p_value")


def permute(
    source: ModelFile,
    *,
    setting: Annotated[
        str | None,
        typer.Option(
            help="What predictions do without: A, B, C or D; by default what the model was tuned for, else B."
        ),
    ] = None,
    permuted: Annotated[
        str | None, typer.Option("--permute", help="instances, tasks or both; by default what is new in the setting.")
    ] = None,
    permutations: Annotated[int, typer.Option("-n", "--permutations", min=1, help="How many permutations.")] = 999,
    scoring: options.OwnScoring = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the permutations.")] = 0,
    terminal: Terminal,
) -> None:
    """Test whether a model predicts better than it would if its labels belonged to other instances or tasks.

    A model that was tuned is tuned again for every permutation, which takes as long as tuning did each time: try a
    few by -n first. p is how often permuted labels do as well, the labels themselves counted in.

    For example:

        dyadlearn permute model.dyad --setting B

        dyadlearn permute model.dyad --setting D -n 99 --json
    """
    loaded = source.load()
    found = permutation_test(
        loaded.model,
        setting or str(getattr(loaded.model, "holdout_setting_", "B")),
        permute=loaded.role(permuted, "--permute", ("instances", "tasks"), "both"),
        n_permutations=permutations,
        scoring=scoring or loaded.origin.get("scoring"),
        random_state=seed,
        progress=terminal.progress,
    )
    null = f"{number(found.null_mean)} ± {number(found.null_deviation)}"
    words = {"instances": loaded.names.instances, "tasks": loaded.names.tasks}.get(found.permuted, found.permuted)
    line = [found.setting, words, number(found.score), null, number(found.p_value)]
    title = f"{len(found)} permutations of {words} ({found.method})"
    table = make_table(["setting", "permuted", found.scoring, "null", "p"], [line], left=2)
    terminal.result({name: getattr(found, name) for name in _FIGURES}, title, table)


def compare(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Model files, fitted on the same labels.")],
    *,
    setting: Annotated[
        str | None,
        typer.Option(help="What predictions do without: A, B, C or D; by default what all were tuned for."),
    ] = None,
    scoring: options.OwnScoring = None,
    resamples: Annotated[int, typer.Option(min=10, help="How often instances and tasks are drawn again.")] = 1000,
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws.")] = 0,
    sides: options.Sides = None,
    target: options.TableOutput,
    terminal: Terminal,
) -> None:
    """Tell whether one model is really better than another, on the same held-out labels.

    Differences have intervals that hold together, from drawing instances and tasks again.

    For example:

        dyadlearn compare two_step.dyad kronecker.dyad

        dyadlearn compare two_step.dyad kronecker.dyad --setting B

        dyadlearn compare a.dyad b.dyad c.dyad --setting D --scoring average_precision --json
    """
    loaded = {name: load_model(path).named(sides) for name, path in _names(models).items()}
    given: dict[str, Any] = {"scoring": scoring, "n_resamples": resamples, "level": level, "random_state": seed}
    with terminal.working("Hold-out and resamples"):
        found = compared(
            {name: each.model for name, each in loaded.items()},
            setting or _tuned_for(loaded),
            sides=next(iter(loaded.values())).sides,
            **given,
        )
    for note in found.notes:
        terminal.note(note)
    same = ("setting", "scoring", "level", "scores", "best_shares", "methods", "verdict")
    figures = {
        **{name: getattr(found, name) for name in same},
        "differences": [vars(each) for each in found.differences],
        "cells": found.n_cells,
        "resamples": found.n_resamples,
        "undefined": found.n_undefined,
    }
    title = (
        f"Setting {found.setting}, {found.n_cells} labels; {100 * found.level:g} % intervals from drawing "
        f"{found.drawn} again, {found.n_resamples} times"
    )
    columns = found.columns()
    headings = [name if name == found.scoring else name.replace("_", " ") for name in columns]
    terminal.table(columns, figures, title=title, output=target.output, headings=headings, verdict=found.verdict)


def _tuned_for(loaded: dict[str, Loaded]) -> str:
    """Return the one setting that all models were tuned for."""
    settings = {name: getattr(each.model, "holdout_setting_", None) for name, each in loaded.items()}
    own = set(settings.values())
    if len(own) == 1 and None not in own:
        return str(own.pop())
    said = ", ".join(f"{name!r} for {setting or 'none'}" for name, setting in settings.items())
    raise ValueError(
        f"The models were not tuned for one and the same setting ({said}): say which is meant by --setting."
    )


def _names(paths: list[Path]) -> dict[str, Path]:
    """Return what models are called: their files without endings, or whole paths where these are not enough."""
    for path in paths:
        if paths.count(path) > 1:
            raise ValueError(f"{path} stands there twice: name different model files.")
    short = [path.stem for path in paths]
    return {stem if short.count(stem) == 1 else str(path): path for stem, path in zip(short, paths, strict=True)}
