"""``dyadlearn learn``: from tables that describe each side, once or several times, to a model with learned kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dyadlearn import LearnedKernelRidge
from dyadlearn.cli import dyads, options
from dyadlearn.cli.files import Files
from dyadlearn.cli.models import Loaded, called, learned, save_model
from dyadlearn.cli.options import Force, Json, Quiet, Sides, check_has_tasks, check_target, sides_of
from dyadlearn.cli.terminal import Terminal, make_list, number
from dyadlearn.selection.baselines import in_words, nothing_learnt
from dyadlearn.settings import as_setting
from dyadlearn.sides import SideNames, side_names
from dyadlearn.views.weights import Weights, weights_of_model

__all__ = ["learn"]

# What kernels are learned by, in the words of scores.
_SCORING = "neg_mean_squared_error"


@options.taking_options
def learn(
    labels: options.Labels,
    instances: options.SeveralInstances,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write, by custom model.dyad.")],
    *,
    tasks: options.SeveralTasks = None,
    setting: Annotated[str, typer.Option(help="What will be new: a pair A, an instance B, a task C, both D.")] = "A",
    stages: Annotated[
        str, typer.Option(help="The most stages to try; auto is three for new pairs of what is known, else one.")
    ] = "auto",
    steps: Annotated[int, typer.Option(min=1, help="Steps of the descent in each stage.")] = 60,
    shrinkage: Annotated[float, typer.Option(help="How much weights are held together; 0 is not at all.")] = 0.1,
    normalize: Annotated[
        bool, typer.Option("--normalize/--no-normalize", help="Scale kernels to a unit diagonal, or by its mean.")
    ] = True,
    intercept: options.Intercept = True,
    groups: Annotated[Path | None, typer.Option(help="Instances to leave out together: a table of id, group.")] = None,
    task_groups: Annotated[Path | None, typer.Option(help="Tasks to leave out together: a table of id, group.")] = None,
    cv: Annotated[int, typer.Option(min=2, help="Folds to learn from where leave-one-out is not exact.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Of the folds.")] = 0,
    how: options.SeveralReading,
    sides: Sides = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit a model that learns its kernels: how much each description of a side weighs, for what will be new.

    Name the files where a side has several: new entities bring the same names. Ctrl-C ends the learning, and the
    model has what was best by then.

    For example:

        dyadlearn learn labels.csv --instances targets.csv --tasks drugs.csv --setting B -o model.dyad

        dyadlearn learn binds.csv --instances ecfp=drugs.csv --kernel ecfp=tanimoto --instances sim=similarity.csv
        --kernel sim=precomputed --tasks proteins.fasta -o model.dyad
    """
    with Terminal(json, quiet) as terminal:
        check_target(output, force)
        check_has_tasks(bool(tasks))
        names = side_names(sides_of(sides))
        chosen_setting = as_setting(setting).value
        first = Files.of(instances, "--instances")
        second = Files.of(tasks, "--tasks") if tasks else None
        params: dict[str, Any] = {
            "setting": chosen_setting,
            "stages": _stages(stages),
            "n_steps": steps,
            "shrinkage": shrinkage,
            "normalize": normalize,
            "fit_intercept": intercept,
            "cv": cv,
            "random_state": seed,
        }
        LearnedKernelRidge(**params)._check_params()  # before any file is read
        data = dyads.read_dyads(labels, first, second, how, terminal)
        model = learned(
            data,
            groups=dyads.read_groups(groups, data.labels.row_ids, "instances"),
            task_groups=dyads.read_groups(task_groups, data.labels.column_ids, "tasks"),
            progress=terminal.progress,
            **params,
        )
        weights = weights_of_model(model)
        assert weights is not None
        figures = _figures(model, data, weights)
        said = nothing_learnt(_SCORING, model._searched_setting, -model.holdout_error_, figures["baselines"], names)
        if said is not None:
            terminal.note(said)
        origin = {
            "files": {
                "labels": labels.name,
                "instances": first.words,
                "tasks": None if second is None else second.words,
            },
            **{name: figures[name] for name in ("model", "setting", "alpha")},
        }
        recipe = None if data.tasks is None else data.tasks.recipe
        words = called(sides, names)
        save_model(Loaded(model, data.instances.recipe, recipe, origin, sides=words), output)
        terminal.result({**figures, "sides": words, "output": str(output)})
        terminal.say(_summary(figures, data, weights, names), f"Wrote {output}.")


def _stages(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"--stages is a number or auto, found {text!r}.") from None


def _figures(model: LearnedKernelRidge, data: dyads.Dyads, weights: Weights) -> dict[str, Any]:
    """Return what was learned, for machines."""
    m, q = data.labels.values.shape
    return {
        "model": "learned",
        "setting": model.holdout_setting_,
        "alpha": model.alpha_,
        "holdout_error": model.holdout_error_,
        "stages": model.n_stages_,
        "holdout": model.holdout_method_,
        **weights.figures(),
        "baselines": model.baselines_,
        "instances": m,
        "tasks": q,
        "observed": data.observed.size,
    }


def _summary(figures: dict[str, Any], data: dyads.Dyads, weights: Weights, names: SideNames) -> Any:
    """Return what was learned, for people."""
    m, q = data.labels.values.shape
    share = 100 * figures["observed"] / (m * q)
    rows = [
        ("labels", f"{m} {names.instances} × {q} {names.tasks}, {share:.4g} % observed"),
        (names.instances, data.instances.recipe.in_words),
        (names.tasks, "none" if data.tasks is None else data.tasks.recipe.in_words),
        (
            f"held-out error in setting {figures['setting']}",
            f"{number(figures['holdout_error'])}, {figures['holdout']}",
        ),
        (
            "simple means reach",
            ", ".join(f"{number(-score)} {in_words(name, names)}" for name, score in figures["baselines"].items()),
        ),
        ("alpha", number(figures["alpha"])),
        *weights.lines(names),
    ]
    return make_list([("model", figures["model"]), *rows])
