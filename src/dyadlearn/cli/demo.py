"""``dyadlearn demo``: everything once, on the data that come with the library."""

from __future__ import annotations

import time
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import typer

from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge, landscape, screen
from dyadlearn._files.tables import writing
from dyadlearn._tables import Ids, Table
from dyadlearn.cli.options import Force, check_target
from dyadlearn.cli.terminal import Terminal, column_table, make_table
from dyadlearn.datasets import debtags_kernels, load_debtags
from dyadlearn.diagnostics.fitted import known_settings
from dyadlearn.holdout import Units
from dyadlearn.metrics import scorer
from dyadlearn.selection.baselines import baseline_scores
from dyadlearn.settings import Setting
from dyadlearn.views.landscape import landscape_of_scores

__all__ = ["demo"]

_ALPHAS = (0.1, 1.0, 10.0, 100.0)
# What is known of popularity, and where: the mean of a tag is how many packages have it.
_MEANS = (("task_means", "tag means", "AB"), ("instance_means", "package means", "AC"), ("additive", "both means", "A"))
_NEW = {"A": "A: pair", "B": "B: new package", "C": "C: new tag", "D": "D: both new"}


def demo(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the page about the model goes.")] = Path(
        "report.html"
    ),
    force: Force = False,
    terminal: Terminal,
) -> None:
    """Tune the three models on Debian packages and tags, list the likeliest missing tags, write a report.

    Takes about ten seconds and needs no network.

    For example:

        dyadlearn demo
    """
    start = time.perf_counter()
    writes = not output.exists() or force
    check_target(output, force=True)
    data = load_debtags()
    m, q = data.Y.shape
    terminal.say(f"{m} Debian packages × {q} tags, {100 * data.Y.mean():.1f} % of the cells are 1.")
    models = _fitted(data)
    model = models["two-step"]
    scores, popularity = _scores(models, terminal), _popularity(model)
    said = "\nAUC in each setting: popularity alone, then each model with its best λ of four:"
    terminal.say(said, _comparison(scores, popularity))
    terminal.say(
        "Exact hold-out: what a score is about was never seen by its model, and none was fitted again. (Kronecker "
        "ridge answers in D too, in ten seconds more.)\n"
    )
    best = scores["two-step"]["A"]
    model.set_alpha(best["alpha"], best["task_alpha"])
    likeliest = screen(model, "A", label=0.0, k=10).columns()
    listed = {"package": likeliest["instance"], "tag": likeliest["task"], "score": likeliest["prediction"]}
    terminal.say("The likeliest tags that nobody has given:", column_table(listed, 2))
    if writes:
        _write_report(model, output, terminal)
    else:
        terminal.note(f"{output} exists already and was left as it is: --force replaces it, -o writes elsewhere.")
    figures = {"instances": m, "tasks": q, "models": scores, "baselines": popularity, "likeliest_missing": likeliest}
    terminal.result({**figures, "report": str(output) if writes else None})
    terminal.say(f"Done in {time.perf_counter() - start:.1f} s.")


def _fitted(data: Any) -> dict[str, Any]:
    """Fit all models on kernels of the texts."""
    K, G = debtags_kernels(data)
    packages, tags = (Ids(tuple(map(str, names))) for names in (data.instance_names, data.task_names))
    labels = Table(data.Y, packages, tags)
    kernels: dict[str, Any] = {"kernel": "precomputed", "task_kernel": "precomputed"}
    return {
        "independent": IndependentTaskRidge(kernel="precomputed").fit(K, labels),
        "kronecker": KroneckerRidge(**kernels).fit(K, labels, tasks=G),
        "two-step": TwoStepRidge(**kernels).fit(K, labels, tasks=G),
    }


def _scores(models: dict[str, Any], terminal: Terminal) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the best AUC of each model in each setting, and where it is."""
    scores: dict[str, dict[str, dict[str, Any]]] = {}
    for name, model in models.items():
        settings = known_settings(model)
        # There Kronecker ridge decomposes the tags anew without each of them, which would take half of the time.
        settings = [setting for setting in settings if name != "kronecker" or setting is not Setting.D]
        found = landscape(model, _ALPHAS, _ALPHAS, settings, "roc_auc", progress=terminal.progress)
        best = {setting: landscape_of_scores(values, _ALPHAS, _ALPHAS).best for setting, values in found.items()}
        scores[name] = {
            setting: dict(zip_longest(("auc", "alpha", "task_alpha"), each)) for setting, each in best.items()
        }
    return scores


def _popularity(model: TwoStepRidge) -> dict[str, dict[str, float]]:
    """Return the AUC of means in each setting: how many packages have a tag, how many tags a package has."""
    problem, judge = model._problem(), scorer("roc_auc")
    return {
        setting.value: baseline_scores(
            problem, setting, Units(), judge.prepare(problem.Y, setting=setting, tie_tolerance=None)
        )
        for setting in map(Setting, _NEW)
    }


def _comparison(scores: dict[str, dict[str, dict[str, Any]]], popularity: dict[str, dict[str, float]]) -> Any:
    """Put the scores in a table, those of models with their regularisation; of what is new there is no mean."""
    rows = [
        [words, *(f"{popularity[setting][name]:.3f}" if setting in known else "–" for setting in _NEW)]
        for name, words, known in _MEANS
    ]
    rows += [
        [name, *(_cell(found[setting]) if setting in found else "–" for setting in _NEW)]
        for name, found in scores.items()
    ]
    return make_table(["", *_NEW.values()], rows)


def _cell(best: dict[str, Any]) -> str:
    alphas = [best["alpha"]] + ([] if best["task_alpha"] is None else [best["task_alpha"]])
    return f"{best['auc']:.3f} ({', '.join(f'{alpha:g}' for alpha in alphas)})"


def _write_report(model: TwoStepRidge, path: Path, terminal: Terminal) -> None:
    from dyadlearn.report import write_report

    title, grid = "Debian packages and their tags", _ALPHAS
    with writing(path):
        shown: dict[str, Any] = {"title": title, "sides": ("package", "tag"), "scoring": "roc_auc"}
        write_report(model, path, **shown, alphas=grid, task_alphas=grid, progress=terminal.progress)
    terminal.say(f"Wrote {path}: open it in a browser.")
