"""``dyadlearn evaluate``: scores in the four settings, comparison of models, permutation tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dyadlearn
from dyadlearn._text import joined, make_table, number
from dyadlearn.cli.commands import Evaluate
from dyadlearn.cli.models import Loaded, load, load_model, settings_of
from dyadlearn.cli.terminal import Terminal, column_table, stacked
from dyadlearn.diagnostics.fitted import fitted_of, known_settings
from dyadlearn.metrics import scorer
from dyadlearn.settings import Setting

_TEST = ("setting", "permuted", "scoring", "method", "score", "null_mean", "null_deviation", "null", "p_value")
_NOT_FIGURES, _NAMES = ("differences", "drawn", "notes"), {"level": "coverage"}


def evaluate(given: Evaluate, terminal: Terminal) -> None:
    """Score a model, compare it with others, or test it."""
    for name in given.scoring or ():
        scorer(name)
    settings = None if given.setting is None else settings_of(given.setting)
    loaded = load(given)
    model = fitted_of(loaded.model).estimator
    if (given.against or given.permutations) and given.scoring and given.scoring[1:]:
        raise ValueError("--against and --permutations take one --scoring: leave the others out.")
    if given.against:
        _compare(given, loaded, model, settings, terminal)
        return
    if not given.nested and not model.learns_kernels:
        raise ValueError("--no-nested goes with learned kernels, and this model has none: leave it out.")
    if given.permutations:
        _test(given, loaded, model, settings, terminal)
        return
    scoring: Any = given.scoring if given.scoring and given.scoring[1:] else _scoring(given, loaded)
    known = _known(model, settings or list(Setting), loaded, terminal)
    with terminal.working("Hold-out"):
        scores = dyadlearn.evaluate(model, known, scoring, cv=given.cv, sides=loaded.names, nested=given.nested)
    for note in scores.notes:
        terminal.note(note)
    rows: dict[str, dict[str, Any]] = {}
    for each, new in zip(scores.results, scores["new"], strict=True):
        row = rows.setdefault(each.setting.value, {"setting": each.setting.value, "new": new, "method": each.method})
        for part, value in (("scores", each.score), ("baselines", each.baselines), ("undefined", each.n_undefined)):
            row.setdefault(part, {})[each.judge.name] = value
    headings, lines, left = scores.table()
    if given.verify:
        _verify(model, list(rows.values()), given, terminal)
        headings = [*headings, "from refitting"]
        differences = [number(rows[setting]["difference"]) for setting in scores["setting"]]
        lines = [[*line, difference] for line, difference in zip(lines, differences, strict=True)]
    terminal.table({"settings": list(rows.values())}, [make_table(headings, lines, left=left)], scores, given.output)


def _scoring(given: Evaluate, loaded: Loaded) -> str | None:
    """Return the score that is asked for, else that of the search."""
    return given.scoring[0] if given.scoring else loaded.origin.get("scoring")


def _known(model: Any, settings: list[Setting], loaded: Loaded, terminal: Terminal) -> list[Setting]:
    """Return the settings in which a model can predict; a note names the others."""
    known = known_settings(model.fitted_, settings)
    others = [setting.value for setting in settings if setting not in known]
    if others and not model.fitted_.pairing.knows_tasks:
        terminal.note(f"The model knows nothing of {loaded.names.tasks}: settings C and D are left out.")
    elif others and known:
        terminal.note(
            "The model describes instances and tasks by profiles of their labels, which new ones lack: setting "
            f"{joined(others)} is left out; tune --model learned --stages 1 has no profiles."
        )
    return known or settings  # of which the library says why it cannot


def _verify(model: Any, rows: list[dict[str, Any]], given: Evaluate, terminal: Terminal) -> None:
    """Add to each row the largest difference from refitting."""
    is_complete = model.fitted_.labels.full is not None
    if not is_complete:
        terminal.note("Labels are missing: hold-out predictions are made by solving again, there is nothing to verify.")
    for row in rows:
        row["difference"] = None
        if is_complete:
            with terminal.working(f"Setting {row['setting']}: refitting"):
                how: dict[str, Any] = {"n_cells": given.number, "random_state": given.seed}
                row["difference"] = dyadlearn.verify_holdout(model, row["setting"], **how)


def _test(given: Evaluate, loaded: Loaded, model: Any, settings: Any, terminal: Terminal) -> None:
    """Test whether the model is better than on permuted labels."""
    tests: list[Any] = []
    lines: list[list[str]] = []
    for setting in settings or [getattr(model, "holdout_setting_", "B")]:
        test = dyadlearn.permutation_test(
            model,
            setting,
            permute=loaded.role(given.permute, "--permute", ("instances", "tasks"), "both"),
            n_permutations=given.permutations or 0,
            scoring=_scoring(given, loaded),
            random_state=given.seed,
            progress=terminal.progress,
        )
        tests.append(test)
        null = f"{number(test.null_mean)} ± {number(test.null_deviation)}"
        words = {"instances": loaded.names.instances, "tasks": loaded.names.tasks}.get(test.permuted, test.permuted)
        lines.append([test.setting, words, test.method, number(test.score), null, number(test.p_value)])
    figures = [{name: getattr(test, name) for name in _TEST} for test in tests]
    table = make_table(["setting", "permuted", "method", tests[0].scoring, "null", "p"], lines, left=3)
    things = [f"{given.permutations} permutations of the labels", table]
    terminal.table({"settings": figures}, things, stacked([test.columns() for test in tests]), given.output)


def _compare(given: Evaluate, loaded: Loaded, model: Any, settings: Any, terminal: Terminal) -> None:
    """Compare models on the same held-out labels."""
    paths = _names([given.source, *(given.against or ())])
    first = next(iter(paths))
    models = {name: model if name == first else load_model(path).model for name, path in paths.items()}
    figures, tables, columns = [], [], []
    for setting in settings or [_tuned_for(models)]:
        with terminal.working("Hold-out and resamples"):
            comparison = dyadlearn.compare(
                models,
                setting,
                scoring=given.scoring[0] if given.scoring else None,
                n_resamples=given.resamples,
                level=given.coverage,
                random_state=given.seed,
                sides=loaded.sides,
            )
        for note in comparison.notes:
            terminal.note(note)
        own = {name: value for name, value in vars(comparison).items() if name not in _NOT_FIGURES}
        figures.append({_NAMES.get(name, name.removeprefix("n_")): value for name, value in own.items()})
        figures[-1] |= {"verdict": comparison.verdict, "differences": [vars(each) for each in comparison.differences]}
        found = comparison.columns()
        headings = [name if name == comparison.scoring else name.replace("_", " ") for name in found]
        tables += [
            f"Setting {comparison.setting}, {comparison.n_cells} labels; {100 * comparison.level:g} % intervals from "
            f"{comparison.n_resamples} bootstrap samples of {comparison.drawn}",
            column_table(found, 1, headings),
        ]
        columns.append({"setting": [comparison.setting] * len(models), **found})
    verdicts = [each["verdict"] for each in figures]
    terminal.table({"settings": figures}, tables, stacked(columns), given.output, verdicts)


def _tuned_for(models: dict[str, Any]) -> str:
    """Return the one setting that all models were tuned for."""
    settings = {name: getattr(model, "holdout_setting_", None) for name, model in models.items()}
    own = set(settings.values())
    if len(own) == 1 and None not in own:
        return str(own.pop())
    listed = ", ".join(f"{name!r} for {setting or 'none'}" for name, setting in settings.items())
    raise ValueError(f"The models were not tuned for the same setting ({listed}): name one by --setting.")


def _names(paths: list[Path]) -> dict[str, Path]:
    """Return names of models: their files without endings, or whole paths where these are equal."""
    for path in paths:
        if paths.count(path) > 1:
            raise ValueError(f"{path} is given twice: name different model files.")
    short = [path.stem for path in paths]
    return {stem if short.count(stem) == 1 else str(path): path for stem, path in zip(short, paths, strict=True)}
