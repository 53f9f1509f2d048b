"""``dyadlearn inspect`` and ``dyadlearn report``: what is in a model file, in a table or on a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dyadlearn._files.tables import id_text, writing
from dyadlearn._tables import shown
from dyadlearn.cli.models import Loaded, load_model
from dyadlearn.cli.options import (
    Force,
    Json,
    ModelArgument,
    Quiet,
    Sides,
    Title,
    ToldScoring,
    ToldSettings,
    check_target,
    settings_of,
)
from dyadlearn.cli.terminal import Terminal, make_list, number
from dyadlearn.holdout.baselines import BASELINES
from dyadlearn.selection.baselines import in_words
from dyadlearn.sides import SideNames
from dyadlearn.views.grid import grid_of_model
from dyadlearn.views.weights import weights_of_model

__all__ = ["inspect", "report"]

# What has a line of its own for people.
_IN_WORDS = ("weights", "exponents", "shares", "stage_errors")


def inspect(model: ModelArgument, sides: Sides = None, json: Json = False, quiet: Quiet = False) -> None:
    """Show what a model file holds: the model, its parameters, its data and how it was made.

    For example:

        dyadlearn inspect model.dyad
    """
    with Terminal(json, quiet) as terminal:
        found = load_model(model).named(sides)
        figures, words = _figures(found), _words(found.names)
        weights = weights_of_model(found.model)
        if weights is not None:
            figures |= {"holdout_error": found.model.holdout_error_, **weights.figures()}
        told = {name: value for name, value in figures.items() if value not in (None, {}) and name not in _IN_WORDS}
        rows = [(words.get(name, name.replace("_", " ")), _line(value, words)) for name, value in told.items()]
        terminal.result(figures, make_list([*rows, *([] if weights is None else weights.lines(found.names))]))


def _words(names: SideNames) -> dict[str, str]:
    """Return what figures are called, where that is more than their names in letters."""
    return {
        **{name: in_words(name, names) for name in BASELINES},
        "instances": names.instances,
        "tasks": names.tasks,
        "pending_tasks": f"pending {names.tasks}",
        "instance_side": f"{names.instance} side",
        "task_side": f"{names.task} side",
        "instance_ids": f"{names.instance} ids",
        "task_ids": f"{names.task} ids",
    }


def _figures(found: Loaded) -> dict[str, Any]:
    estimator = found.model
    figures: dict[str, Any] = {"model": type(estimator).__name__}
    if not estimator.grows and estimator._problem().is_listed:
        labels = estimator._problem().labels
        figures |= {
            "fitted_on": f"{labels.size:,} observed pairs alone, without a grid",
            "instances": labels.shape[0],
            "tasks": labels.shape[1],
            "observed": labels.size,
            "mean_label": float(labels.values.mean()),
        }
    elif not estimator.grows:
        grid = grid_of_model(estimator)
        figures |= {
            "instances": grid.values.shape[0],
            "tasks": grid.values.shape[1],
            "observed": grid.n_observed,
            "mean_label": float(grid.values[grid.observed].mean()),
        }
    else:  # statistics only
        figures |= {
            "instances": estimator.n_seen_,
            "tasks": estimator.n_tasks_,
            "pending_tasks": estimator.n_pending_tasks_,
        }
    scoring = getattr(estimator, "scoring", found.origin.get("scoring"))
    figures |= {
        **{name: _plain(estimator._alphas.get(name)) for name in ("alpha", "task_alpha")},
        **_intercept(estimator),
        "setting": getattr(estimator, "setting", found.origin.get("setting")),
        "scoring": scoring if scoring is None or isinstance(scoring, str) else str(scoring),
        "score": getattr(estimator, "best_score_", found.origin.get("score")),
        "baselines": getattr(estimator, "baselines_", found.origin.get("baselines")),
        "holdout": getattr(estimator, "holdout_method_", None),
        "instance_side": found.instances.in_words,
        "task_side": None if found.tasks is None else found.tasks.in_words,
        **{
            f"{side}_ids": None if ids is None else list(map(id_text, ids.labels))
            for side, ids in zip(("instance", "task"), found.own_ids, strict=True)
        },
        "sides": None if found.sides is None else list(found.sides),
        "files": found.origin.get("files"),
        "versions": found.versions,
    }
    return figures


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
    model: ModelArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    title: Title = None,
    settings: ToldSettings = None,
    scoring: ToldScoring = None,
    sides: Sides = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write one page about a model that opens in any browser, without a network.

    For example:

        dyadlearn report model.dyad -o report.html --title "Nuclear receptors"
    """
    with Terminal(json, quiet) as terminal:
        check_target(output, force)
        wanted = None if settings is None else settings_of(settings)
        found = load_model(model).named(sides)
        from dyadlearn.report import write_report

        with writing(output):
            shown: dict[str, Any] = {"title": title, "settings": wanted, "scoring": scoring, "sides": found.sides}
            write_report(found.model, output, **shown, progress=terminal.progress)
        terminal.result({"output": str(output)})
        terminal.say(f"Wrote {output}: open it in a browser.")
