"""``dyadlearn tune`` and ``dyadlearn learn``: from tables to a model with chosen regularisation or learned kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from dyadlearn import LearnedKernelRidge
from dyadlearn._text import make_list, number
from dyadlearn.cli import options
from dyadlearn.cli.dyads import Dyads, read_dyads, read_groups
from dyadlearn.cli.entities import Files, in_words
from dyadlearn.cli.models import Loaded, check_model, check_online, fitted, learned, save_model, searched
from dyadlearn.cli.terminal import Terminal
from dyadlearn.metrics.scorers import usual_scoring
from dyadlearn.selection.evaluate import in_words as baseline_in_words
from dyadlearn.selection.evaluate import nothing_learnt
from dyadlearn.settings import as_setting
from dyadlearn.sides import side_names
from dyadlearn.views.summary import weights_of_model

# What is kept of the figures in a model file.
_ORIGIN = ("model", "setting", "scoring", "alpha", "task_alpha", "score")
_SETTING = "What will be new: a pair A, an instance B, a task C, both D."


@dataclass(frozen=True)
class Fitting:
    """The data to fit a model on, and the file that it goes to."""

    labels: Annotated[
        Path, typer.Argument(metavar="LABELS", help="A grid of instances × tasks, or a long table of pairs.")
    ]
    instances: options.Instances
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write, by custom model.dyad.")]
    tasks: options.Tasks = None
    intercept: options.Intercept = True
    groups: Annotated[Path | None, typer.Option(help="Instances to leave out together: a table of id, group.")] = None
    task_groups: Annotated[Path | None, typer.Option(help="Tasks to leave out together: a table of id, group.")] = None
    sides: options.Sides = None
    force: options.Force = False

    def __post_init__(self) -> None:
        options.check_target(self.output, self.force)
        _ = self.names

    @property
    def names(self) -> Any:
        """What the sides are called."""
        return side_names(options.sides_of(self.sides))

    def files(self, read: Any) -> tuple[Files, Files | None]:
        """Return the files of both sides, which `read` makes of what the options say."""
        return read(self.instances, "--instances"), read(self.tasks, "--tasks") if self.tasks else None

    def groups_of(self, data: Dyads) -> dict[str, Any]:
        """Return what is left out together, in the order of the labels."""
        return {
            "groups": read_groups(self.groups, data.labels.row_ids, "instances"),
            "task_groups": read_groups(self.task_groups, data.labels.column_ids, "tasks"),
        }

    def finish(
        self,
        model: Any,
        search: Any,
        data: Dyads,
        figures: dict[str, Any],
        rows: list[tuple[str, str]],
        terminal: Terminal,
    ) -> None:
        """Write the model file, and print what was found.

        Parameters
        ----------
        model : estimator
        search : estimator
            The one that was scored, which may be another.
        data : Dyads
        figures : dict
            What is particular to the command: `score` with its `scoring`, or `holdout_error`.
        rows : list of (str, str)
            The same for people, but for the score.
        terminal : Terminal
        """
        names, (m, q) = self.names, data.labels.values.shape
        setting, baselines = search.holdout_setting_, search.baselines_
        recipes = None if data.tasks is None else data.tasks.recipes
        figures = {
            **{name: figures[name] for name in ("model", "scoring") if name in figures},
            "setting": setting,
            "alpha": float(search.alpha_),
            **figures,
            "holdout": search.holdout_method_,
            "baselines": baselines,
            "instances": m,
            "tasks": q,
            "observed": data.observed.size,
        }
        scoring, sign = figures.get("scoring", "neg_mean_squared_error"), 1 if "score" in figures else -1
        score = figures["score"] if sign == 1 else -figures["holdout_error"]
        said = nothing_learnt(scoring, search._searched_setting, score, baselines, names)
        if said is not None:
            terminal.note(said)
        files = [each and each.words for each in self.files(Files.of)]
        origin = {
            "files": dict(zip(("labels", "instances", "tasks"), (self.labels.name, *files), strict=True)),
            **{name: figures[name] for name in _ORIGIN if name in figures},
            # The header of a file is strict JSON, which has no NaN.
            "baselines": {name: None if math.isnan(score) else score for name, score in baselines.items()},
        }
        words = None if self.sides is None else (names.instance, names.task)
        kept = None if figures["model"] == "independent" else recipes
        save_model(Loaded(model, data.instances.recipes, kept, origin, sides=words), self.output)
        terminal.result({**figures, "sides": words, "output": str(self.output)})
        share = 100 * data.observed.size / (m * q)
        means = [f"{number(sign * mean)} {baseline_in_words(name, names)}" for name, mean in baselines.items()]
        lines = [
            ("model", figures["model"]),
            ("labels", f"{m} {names.instances} × {q} {names.tasks}, {share:.4g} % observed"),
            (names.instances, in_words(data.instances.recipes)),
            (names.tasks, in_words(recipes)),
            (
                f"{scoring if sign == 1 else 'held-out error'} in setting {setting}",
                f"{number(sign * score)}, {figures['holdout']}",
            ),
            ("simple means reach", ", ".join(means)),
            ("alpha", number(figures["alpha"])),
            *rows,
        ]
        terminal.say(make_list(lines), f"Wrote {self.output}.")


def tune(
    given: Fitting,
    *,
    model: options.ModelName = "two-step",
    setting: Annotated[str, typer.Option(help=_SETTING)] = "B",
    scoring: Annotated[
        str | None,
        typer.Option(
            help="What is best; by default roc_auc for two values, else squared error. One of " + options.SCORES + "."
        ),
    ] = None,
    alphas: Annotated[
        str | None, typer.Option(help="Regularisations to try: 0.1,1,10 or 1e-3:1e3:7; by default 1e-7 to 1e6.")
    ] = None,
    task_alphas: Annotated[str | None, typer.Option(help="The same for the tasks; by default as --alphas.")] = None,
    cv: Annotated[int | None, typer.Option(help="Folds to leave out; by default one thing at a time.")] = None,
    keep_labels: Annotated[
        bool, typer.Option("--keep-labels", help="Let an online model keep its labels, for update --known replace.")
    ] = False,
    device: options.Device = None,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Score every regularisation, also where labels are missing.")
    ] = False,
    how: options.Reading,
    terminal: Terminal,
) -> None:
    """Fit a model that chooses its regularisation by exact hold-out predictions.

    Beside its score stands what simple means reach that are held out alike, which know nothing of the features.

    Where labels are missing, folds are solved again, from coarse to fine. Ctrl-C keeps what was best by then.

    For example:

        dyadlearn tune labels.csv --instances targets.csv --tasks drugs.csv --setting D -o model.dyad

        dyadlearn tune ratings.csv --instances users.parquet --tasks items.parquet --columns user,item,stars -o m.dyad

        dyadlearn tune binds.csv --instances proteins.h5 --tasks molecules.parquet --setting D -o model.dyad

        dyadlearn tune binds.csv --instances proteins.fasta --tasks drugs.csv --tasks-smiles smiles -o model.dyad

        dyadlearn tune found.csv --instances hosts.csv --tasks parasites.csv --sides host,parasite -o model.dyad
    """
    check_model(model, bool(given.tasks), searches=True)
    params: dict[str, Any] = {"setting": as_setting(setting).value, "alphas": options.alphas_of(alphas, "--alphas")}
    params["task_alphas"] = options.alphas_of(task_alphas, "--task-alphas") if task_alphas else params["alphas"]
    data = read_dyads(given.labels, *given.files(Files.single), how, terminal, may_list=model != "online")
    if model == "online":
        check_online(data)
        if data.tasks is not None and data.observed.size < math.prod(data.labels.values.shape):
            terminal.note(
                "Some labels are missing. The online model learns every task from the labels it has; its "
                "regularisation is the best of the two-step model, which also lets tasks lend each other labels."
            )
    scoring = scoring or usual_scoring(data.observed)
    params |= {"scoring": scoring, "fit_intercept": given.intercept, "cv": cv, "device": device}
    params |= {"exhaustive": exhaustive, "progress": terminal.progress, **given.groups_of(data)}
    search = kept = searched(data, "independent" if model == "online" and not given.tasks else model, **params)
    task_alpha = None if getattr(search, "task_alpha_", None) is None else float(search.task_alpha_)
    if model == "online":
        found = float(search.alpha_), task_alpha or 1.0
        kept = fitted(data, "online", *found, given.intercept, keep_labels=keep_labels)
    figures = {"model": model, "scoring": scoring, "score": search.best_score_, "task_alpha": task_alpha}
    given.finish(kept, search, data, figures, [("task alpha", number(task_alpha))], terminal)


def learn(
    given: Fitting,
    *,
    setting: Annotated[str, typer.Option(help=_SETTING)] = "A",
    stages: Annotated[
        str, typer.Option(help="The most stages to try; auto is three for new pairs of what is known, else one.")
    ] = "auto",
    steps: Annotated[int, typer.Option(min=1, help="Steps of the descent in each stage.")] = 60,
    shrinkage: Annotated[float, typer.Option(help="How much weights are held together; 0 is not at all.")] = 0.1,
    normalize: Annotated[
        bool, typer.Option("--normalize/--no-normalize", help="Scale kernels to a unit diagonal, or by its mean.")
    ] = True,
    cv: Annotated[int, typer.Option(min=2, help="Folds to learn from where leave-one-out is not exact.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Of the folds.")] = 0,
    how: options.Reading,
    terminal: Terminal,
) -> None:
    """Fit a model that learns its kernels: how much each description of a side weighs, for what will be new.

    Name the files where a side has several: new entities bring the same names. Ctrl-C ends the learning, and the
    model has what was best by then.

    For example:

        dyadlearn learn labels.csv --instances targets.csv --tasks drugs.csv --setting B -o model.dyad

        dyadlearn learn binds.csv --instances ecfp=drugs.csv --kernel ecfp=tanimoto --instances sim=similarity.csv
        --kernel sim=precomputed --tasks proteins.fasta -o model.dyad
    """
    options.check_has_tasks(bool(given.tasks))
    params: dict[str, Any] = {"setting": as_setting(setting).value, "stages": _stages(stages), "n_steps": steps}
    params |= {"shrinkage": shrinkage, "normalize": normalize, "fit_intercept": given.intercept}
    params |= {"cv": cv, "random_state": seed}
    LearnedKernelRidge(**params)._check_params()  # before any file is read
    data = read_dyads(given.labels, *given.files(Files.of), how, terminal, usual="rbf")
    model = learned(data, progress=terminal.progress, **given.groups_of(data), **params)
    weights = weights_of_model(model)
    assert weights is not None
    figures = {"model": "learned", "holdout_error": model.holdout_error_, "stages": model.n_stages_}
    figures |= weights.figures()
    given.finish(model, model, data, figures, weights.lines(given.names), terminal)


def _stages(text: str) -> int | str:
    try:
        return text if text == "auto" else int(text)
    except ValueError:
        raise ValueError(f"--stages is a number or auto, found {text!r}.") from None
