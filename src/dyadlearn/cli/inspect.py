"""``dyadlearn inspect`` and ``dyadlearn report``: what is in a model file, in a table or on a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dyadlearn._files.tables import writing
from dyadlearn._tables import id_text, shown
from dyadlearn._text import make_list, number
from dyadlearn.cli import options
from dyadlearn.cli.entities import in_words
from dyadlearn.cli.models import Loaded, ModelFile
from dyadlearn.cli.terminal import Terminal
from dyadlearn.holdout.baselines import BASELINES
from dyadlearn.selection.evaluate import in_words as baseline_in_words
from dyadlearn.views.grid import grid_of_model
from dyadlearn.views.summary import weights_of_model

# What has a line of its own for people.
_IN_WORDS = ("weights", "exponents", "shares", "stage_errors")


def inspect(source: ModelFile, terminal: Terminal) -> None:
    """Show what a model file holds: the model, its parameters, its data and how it was made.

    For example:

        dyadlearn inspect model.dyad
    """
    found = source.load()
    names, figures, weights = found.names, _figures(found), weights_of_model(found.model)
    if weights is not None:
        figures |= {"holdout_error": found.model.holdout_error_, **weights.figures()}
    # What figures are called, where that is more than their names in letters.
    words = {name: baseline_in_words(name, names) for name in BASELINES}
    words |= {"instances": names.instances, "tasks": names.tasks}
    words |= {f"{side}_{what}": f"{word} {what}" for side, word in names._asdict().items() for what in ("side", "ids")}
    told = {name: value for name, value in figures.items() if value not in (None, {}) and name not in _IN_WORDS}
    rows = [(words.get(name, name.replace("_", " ")), _line(value, words)) for name, value in told.items()]
    terminal.result(figures, make_list([*rows, *([] if weights is None else weights.lines(names))]))


def _figures(found: Loaded) -> dict[str, Any]:
    estimator, origin = found.model, found.origin
    figures: dict[str, Any] = {"model": type(estimator).__name__}
    if estimator.grows:  # statistics only
        figures |= {"instances": estimator.n_seen_, "tasks": estimator.n_tasks_}
    else:
        problem = estimator.fitted_.problem
        if problem.labels.grid is None:
            shape, labels = problem.labels.shape, problem.labels.values
            figures["fitted_on"] = f"{labels.size:,} observed pairs alone, without a grid"
        else:
            grid = grid_of_model(estimator)
            shape, labels = grid.values.shape, grid.values[grid.observed]
        figures |= {
            "instances": shape[0],
            "tasks": shape[1],
            "observed": labels.size,
            "mean_label": float(labels.mean()),
        }
    scoring = getattr(estimator, "scoring", origin.get("scoring"))
    return figures | {
        **{name: _plain(estimator._alphas.get(name)) for name in ("alpha", "task_alpha")},
        **_intercept(estimator),
        "setting": getattr(estimator, "setting", origin.get("setting")),
        "scoring": scoring if scoring is None else str(scoring),
        "score": getattr(estimator, "best_score_", origin.get("score")),
        "baselines": getattr(estimator, "baselines_", origin.get("baselines")),
        "holdout": getattr(estimator, "holdout_method_", None),
        "instance_side": in_words(found.instances),
        "task_side": None if found.tasks is None else in_words(found.tasks),
        **{
            f"{side}_ids": None if ids is None else list(map(id_text, ids.labels))
            for side, ids in zip(("instance", "task"), found.own_ids, strict=True)
        },
        "sides": None if found.sides is None else list(found.sides),
        "files": origin.get("files"),
        "versions": found.versions,
    }


def _intercept(estimator: Any) -> dict[str, Any]:
    """Return whether a model has a constant, and what it is: one for each task where these are independent."""
    has_constant = getattr(estimator, "fit_intercept", False)
    return {"fit_intercept": has_constant, "intercept": _plain(estimator.intercept_) if has_constant else None}


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _line(value: Any, words: dict[str, str]) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{words.get(key, key)} {number(entry)}" for key, entry in value.items() if entry is not None)
    return shown(value, 3) if isinstance(value, list) else number(value)


def report(
    source: ModelFile,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="The heading.")] = None,
    settings: Annotated[str | None, typer.Option(help="Which settings; by default all that are quick.")] = None,
    scoring: options.OwnScoring = None,
    permutations: options.Permutations = 0,
    force: options.Force = False,
    terminal: Terminal,
) -> None:
    """Write one page about a model that opens in any browser, without a network.

    For example:

        dyadlearn report model.dyad -o report.html --title "Nuclear receptors"
    """
    options.check_target(output, force)
    wanted = None if settings is None else options.settings_of(settings)
    found = source.load()
    shown: dict[str, Any] = {"title": title, "settings": wanted, "scoring": scoring, "sides": found.sides}
    write_page(found.model, output, terminal, **shown, n_permutations=permutations)
    terminal.result({"output": str(output)})


def write_page(model: Any, path: Path, terminal: Terminal, **how: Any) -> None:
    """Write one page about a model; `how` is what the library's function takes."""
    from dyadlearn.report import write_report

    with writing(path):
        write_report(model, path, **how, progress=terminal.progress)
    terminal.say(f"Wrote {path}: open it in a browser.")
