"""``dyadlearn inspect`` and ``dyadlearn report``: the content of a model file, in a table or on a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dyadlearn._files.tables import writing
from dyadlearn._tables import id_text, shown
from dyadlearn._text import make_list, number
from dyadlearn.cli.commands import Inspect, Report
from dyadlearn.cli.entities import in_words
from dyadlearn.cli.models import Loaded, load, settings_of
from dyadlearn.cli.terminal import Terminal
from dyadlearn.holdout.baselines import BASELINES
from dyadlearn.selection.evaluate import in_words as baseline_in_words
from dyadlearn.views.summary import weights_of_model

# Figures that have lines of their own for people.
_IN_WORDS = ("weights", "exponents", "shares", "stage_errors")


def inspect(given: Inspect, terminal: Terminal) -> None:
    """Print the content of a model file."""
    loaded = load(given)
    names, figures, weights = loaded.names, _figures(loaded), weights_of_model(loaded.model)
    if weights is not None:
        figures |= {"holdout_error": loaded.model.holdout_error_, **weights.figures()}
    # Names of figures for people, where they differ.
    words = {name: baseline_in_words(name, names) for name in BASELINES}
    words |= {"instances": names.instances, "tasks": names.tasks}
    for side, word in zip(("instance", "task"), names, strict=True):
        words |= {f"{side}_{what}": f"{word} {what}" for what in ("side", "ids")}
    listed = {name: value for name, value in figures.items() if value not in (None, {}) and name not in _IN_WORDS}
    rows = [(words.get(name, name.replace("_", " ")), _line(value, words)) for name, value in listed.items()]
    terminal.result(figures, make_list([*rows, *([] if weights is None else weights.lines(names))]))


def _figures(loaded: Loaded) -> dict[str, Any]:
    model, origin, (instances, tasks) = loaded.model, loaded.origin, loaded.recipes
    figures: dict[str, Any] = {"model": type(model).__name__}
    if model.grows:  # statistics only
        figures |= {"instances": model.n_seen_, "tasks": model.n_tasks_}
    else:
        labels = model.fitted_.labels
        if labels.grid is None:
            figures["fitted_on"] = f"{labels.size:,} observed pairs alone, without a grid"
        mean = float(labels.values[labels.observed].mean())
        figures |= {"instances": labels.shape[0], "tasks": labels.shape[1], "observed": labels.size, "mean_label": mean}
    scoring = getattr(model, "scoring", origin.get("scoring"))
    has_constant = getattr(model, "fit_intercept", False)
    ids = [None if side is None else list(map(id_text, side.labels)) for side in loaded.own_ids]
    return figures | {
        **{name: _plain(getattr(model, f"{name}_", getattr(model, name, None))) for name in ("alpha", "task_alpha")},
        "fit_intercept": has_constant,
        "intercept": _plain(model.intercept_) if has_constant else None,
        "setting": getattr(model, "setting", origin.get("setting")),
        "scoring": scoring if scoring is None else str(scoring),
        "score": getattr(model, "best_score_", origin.get("score")),
        "baselines": getattr(model, "baselines_", origin.get("baselines")),
        "holdout": getattr(model, "holdout_method_", None),
        "instance_side": in_words(instances),
        "task_side": None if tasks is None else in_words(tasks),
        **dict(zip(("instance_ids", "task_ids"), ids, strict=True)),
        "sides": None if loaded.sides is None else list(loaded.sides),
        "files": origin.get("files"),
        "versions": loaded.versions,
    }


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _line(value: Any, words: dict[str, str]) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{words.get(key, key)} {number(entry)}" for key, entry in value.items() if entry is not None)
    return shown(value, 3) if isinstance(value, list) else number(value)


def report(given: Report, terminal: Terminal) -> None:
    """Write one page about a model."""
    settings = None if given.setting is None else settings_of(given.setting)
    loaded = load(given)
    shown: dict[str, Any] = {"title": given.title, "settings": settings, "sides": loaded.sides}
    shown |= {"scoring": given.scoring, "n_permutations": given.permutations}
    write_page(loaded.model, given.output, terminal, **shown)
    terminal.result({"output": str(given.output)})


def write_page(model: Any, path: Path, terminal: Terminal, **how: Any) -> None:
    """Write one page about a model; `how` has the parameters of `dyadlearn.report.write_report`."""
    from dyadlearn.report import write_report

    with writing(path):
        write_report(model, path, **how, progress=terminal.progress)
    terminal.say(f"Wrote {path}: open it in a browser.")
