"""``dyadlearn tune``: from three tables to a model that has chosen its own regularisation."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dyadlearn.cli import dyads, options
from dyadlearn.cli.files import Files, file_name
from dyadlearn.cli.models import Loaded, called, check_model, check_online, fitted, save_model, searched
from dyadlearn.cli.options import Force, Json, ModelName, Quiet, Scoring, Sides, alphas_of, check_target, sides_of
from dyadlearn.cli.terminal import Terminal, make_list, number
from dyadlearn.metrics.scorers import usual_scoring
from dyadlearn.selection.baselines import in_words, nothing_learnt
from dyadlearn.settings import as_setting
from dyadlearn.sides import SideNames, side_names

__all__ = ["tune"]

Alphas = Annotated[
    str | None,
    typer.Option(help="Regularisations to try: 0.1,1,10 or 1e-3:1e3:7 or auto; by default 1e-7 to 1e6."),
]


@options.taking_options
def tune(
    labels: options.Labels,
    instances: options.Instances,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write, by custom model.dyad.")],
    *,
    tasks: options.Tasks = None,
    model: ModelName = "two-step",
    intercept: options.Intercept = True,
    setting: Annotated[str, typer.Option(help="What will be new: a pair A, an instance B, a task C, both D.")] = "B",
    scoring: Scoring = None,
    alphas: Alphas = None,
    task_alphas: Annotated[str | None, typer.Option(help="The same for the tasks; by default as --alphas.")] = None,
    groups: Annotated[Path | None, typer.Option(help="Instances to leave out together: a table of id, group.")] = None,
    task_groups: Annotated[Path | None, typer.Option(help="Tasks to leave out together: a table of id, group.")] = None,
    cv: Annotated[int | None, typer.Option(help="Folds to leave out; by default one thing at a time.")] = None,
    keep_labels: Annotated[
        bool, typer.Option("--keep-labels", help="Let an online model keep its labels, for update --known replace.")
    ] = False,
    device: options.Device = None,
    budget: Annotated[
        float | None,
        typer.Option(help="Seconds to search labels with holes in; the best by then is kept. By default to the end."),
    ] = None,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Look at every regularisation, also where labels have holes.")
    ] = False,
    how: options.Reading,
    sides: Sides = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit a model that chooses its regularisation by exact hold-out predictions.

    Beside its score stands what simple means reach that are held out alike, which know nothing of the features.

    Where labels have holes, folds are solved again, from coarse to fine; how long that takes is said before. Ctrl-C or
    the end of --budget keeps what was best by then.

    For example:

        dyadlearn tune labels.csv --instances targets.csv --tasks drugs.csv --setting D -o model.dyad

        dyadlearn tune ratings.csv --instances users.parquet --tasks items.parquet --columns user,item,stars -o m.dyad

        dyadlearn tune binds.csv --instances proteins.h5 --tasks molecules.parquet --setting D -o model.dyad

        dyadlearn tune binds.csv --instances proteins.fasta --tasks drugs.csv --tasks-smiles smiles -o model.dyad

        dyadlearn tune found.csv --instances hosts.csv --tasks parasites.csv --sides host,parasite -o model.dyad
    """
    with Terminal(json, quiet) as terminal:
        check_target(output, force)
        names = side_names(sides_of(sides))
        check_model(model, tasks is not None, searches=True)
        chosen_setting = as_setting(setting).value
        grid = alphas_of(alphas, "--alphas")
        task_grid = grid if task_alphas is None else alphas_of(task_alphas, "--task-alphas")
        files = Files.one(instances, "--instances"), None if tasks is None else Files.one(tasks, "--tasks")
        data = dyads.read_dyads(labels, *files, how, terminal, may_list=model != "online")
        if model == "online":
            check_online(data)
            if data.tasks is not None and data.observed.size < math.prod(data.labels.values.shape):
                terminal.note(
                    "Some labels are missing. The online model learns every task from the labels it has; its "
                    "regularisation is the best of the two-step model, which also lets tasks lend each other labels."
                )
        scoring = scoring or usual_scoring(data.observed)
        search = searched(
            data,
            model if model != "online" or tasks is not None else "independent",
            lambda expected: terminal.note(expected.in_words),
            setting=chosen_setting,
            scoring=scoring,
            alphas=grid,
            task_alphas=task_grid,
            fit_intercept=intercept,
            cv=cv,
            device=device,
            budget=budget,
            exhaustive=exhaustive,
            groups=dyads.read_groups(groups, data.labels.row_ids, "instances"),
            task_groups=dyads.read_groups(task_groups, data.labels.column_ids, "tasks"),
            progress=terminal.progress,
        )
        figures = _figures(search, data, model, scoring)
        said = nothing_learnt(scoring, search._searched_setting, search.best_score_, figures["baselines"], names)
        if said is not None:
            terminal.note(said)
        kept = search
        if model == "online":
            alphas_found = figures["alpha"], figures["task_alpha"] or 1.0
            kept = fitted(data, "online", *alphas_found, intercept, keep_labels=keep_labels)
        origin = {
            "files": {
                side: None if path is None else file_name(path)
                for side, path in (("labels", labels), ("instances", instances), ("tasks", tasks))
            },
            **{name: figures[name] for name in ("model", "setting", "scoring", "alpha", "task_alpha", "score")},
            # The header of a file is strict JSON, which has no NaN.
            "baselines": {name: None if math.isnan(score) else score for name, score in figures["baselines"].items()},
        }
        recipe = None if data.tasks is None or model == "independent" else data.tasks.recipe
        words = called(sides, names)
        save_model(Loaded(kept, data.instances.recipe, recipe, origin, sides=words), output)
        terminal.result({**figures, "sides": words, "output": str(output)})
        terminal.say(_summary(figures, data, names), f"Wrote {output}.")


def _figures(search: Any, data: dyads.Dyads, model: str, scoring: str) -> dict[str, Any]:
    """Return what was found, for machines."""
    m, q = data.labels.values.shape
    return {
        "model": model,
        "setting": search.holdout_setting_,
        "scoring": scoring,
        "alpha": float(search.alpha_),
        "task_alpha": None if getattr(search, "task_alpha_", None) is None else float(search.task_alpha_),
        "score": search.best_score_,
        "baselines": search.baselines_,
        "holdout": search.holdout_method_,
        "looked_at": int(np.count_nonzero(search.looked_at_)),
        "regularisations": int(search.looked_at_.size),
        "stopped": search.stopped_,
        "instances": m,
        "tasks": q,
        "observed": data.observed.size,
    }


def _summary(figures: dict[str, Any], data: dyads.Dyads, names: SideNames) -> Any:
    """Return what was found, for people."""
    (m, q), means = data.labels.values.shape, figures["baselines"]
    share = 100 * figures["observed"] / (m * q)
    task_side = "none" if data.tasks is None else data.tasks.recipe.in_words
    rows = [
        ("labels", f"{m} {names.instances} × {q} {names.tasks}, {share:.4g} % observed"),
        (names.instances, data.instances.recipe.in_words),
        (names.tasks, task_side),
        ("alpha", number(figures["alpha"])),
        ("task alpha", number(figures["task_alpha"])),
        (f"{figures['scoring']} in setting {figures['setting']}", f"{number(figures['score'])}, {figures['holdout']}"),
        *_looked_at(figures),
        ("simple means reach", ", ".join(f"{number(score)} {in_words(name, names)}" for name, score in means.items())),
    ]
    return make_list([("model", figures["model"]), *rows])


def _looked_at(figures: dict[str, Any]) -> list[tuple[str, str]]:
    """Say how much of the grid the choice is made from, where that is not all of it."""
    if figures["looked_at"] == figures["regularisations"]:
        return []
    ended = {None: "from coarse to fine", "budget": "when the budget was used up", "interrupt": "when interrupted"}
    count = f"{figures['looked_at']} of {figures['regularisations']} regularisations in all folds"
    return [("looked at", f"{count}, {ended[figures['stopped']]}")]
