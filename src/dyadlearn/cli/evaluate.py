"""``dyadlearn evaluate``, ``inspect`` and ``report``: scores of a model and the content of its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dyadlearn
from dyadlearn._files.tables import writing
from dyadlearn._tables import id_text, shown
from dyadlearn._text import joined, make_list, make_table, number
from dyadlearn.cli.commands import Evaluate, Inspect, Report
from dyadlearn.cli.entities import in_words, read_names
from dyadlearn.cli.models import Loaded, load, load_model, settings_of
from dyadlearn.cli.terminal import Terminal, column_table, stacked, to_plain
from dyadlearn.diagnostics.fitted import fitted_of, known_settings
from dyadlearn.holdout.baselines import BASELINES
from dyadlearn.selection.evaluate import in_words as baseline_in_words
from dyadlearn.settings import Setting
from dyadlearn.views.summary import weights_of_model

# Figures that are printed in separate lines for people.
_IN_WORDS = ("weights", "exponents", "shares", "stage_errors")
_TEST = (
    "setting",
    "permuted",
    "scoring",
    "method",
    "score",
    "null_mean",
    "null_deviation",
    "null",
    "p_value",
)
_NOT_FIGURES = ("differences", "drawn", "notes")


def evaluate(given: Evaluate, terminal: Terminal) -> None:
    """Score a model, compare it with others, or test it."""
    settings = None if given.setting is None else settings_of(given.setting)
    loaded = load(given)
    model = fitted_of(loaded.model)
    if (given.against or given.permutations) and given.scoring and given.scoring[1:]:
        raise ValueError("--against and --permutations take one --scoring: leave the others out.")
    if given.against:
        _compare(given, loaded, model, settings, terminal)
        return
    if not given.nested and not model.learns_kernels:
        raise ValueError(
            "--no-nested is for learned kernels, but this model has none: leave --no-nested out."
        )
    if given.permutations:
        _test(given, loaded, model, settings, terminal)
        return
    known = _known(model, settings or list(Setting), loaded, terminal)
    with terminal.working("Hold-out"):
        how: dict[str, Any] = {
            "scoring": given.scoring or loaded.origin.get("scoring"),
            "cv": given.cv,
        }
        how["method"] = given.method
        scores = dyadlearn.evaluate(model, known, **how, sides=loaded.names, nested=given.nested)
    terminal.note(*scores.notes)
    rows: dict[str, dict[str, Any]] = {}
    for each, new in zip(scores.results, scores["new"], strict=True):
        row = rows.setdefault(
            each.setting.value, {"setting": each.setting.value, "new": new, "method": each.method}
        )
        row["reason"] = each.reason or None
        for part, value in (
            ("scores", each.score),
            ("baselines", each.baselines),
            ("undefined", each.n_undefined),
        ):
            row.setdefault(part, {})[each.judge.name] = value
    headings, lines, left = scores.table()
    if given.verify:
        _verify(model, list(rows.values()), given, terminal)
        headings = [*headings, "from refitting"]
        differences = [number(rows[setting]["difference"]) for setting in scores["setting"]]
        lines = [[*line, difference] for line, difference in zip(lines, differences, strict=True)]
    terminal.table(
        {"settings": list(rows.values())},
        [make_table(headings, lines, left=left)],
        scores,
        given.output,
    )


def _known(
    model: Any, settings: list[Setting], loaded: Loaded, terminal: Terminal
) -> list[Setting]:
    """Return the settings in which a model can predict; a note names the others."""
    known = known_settings(model, settings)
    others = [setting.value for setting in settings if setting not in known]
    if others and not model.knows_tasks:
        terminal.note(
            f"The model uses no features of {loaded.names.tasks}: settings C and D are left out."
        )
    elif others and known:
        lacking = "The model needs labels of each instance and task, and new ones have none"
        terminal.note(
            f"{lacking}: setting {joined(others)} is left out; tune --stages 1 fits one that does "
            f"not."
        )
    return known or settings  # if none is known, the library raises an error that explains why


def _verify(model: Any, rows: list[dict[str, Any]], given: Evaluate, terminal: Terminal) -> None:
    """Add to each row the largest difference between hold-out predictions and those of refitted models."""
    is_complete = model.labels.full is not None
    if not is_complete:
        terminal.note(
            "Labels are missing or weighted: refits are compared for complete labels only, nothing "
            "is verified."
        )
    for row in rows:
        row["difference"] = None
        if is_complete:
            with terminal.working(f"Setting {row['setting']}: refitting"):
                how: dict[str, Any] = {"n": given.number, "random_state": given.seed}
                row["difference"] = dyadlearn.verify_holdout(model, row["setting"], **how)


def _test(given: Evaluate, loaded: Loaded, model: Any, settings: Any, terminal: Terminal) -> None:
    """Test whether the model is better than on permuted labels."""
    how: dict[str, Any] = {
        "permute": loaded.role(given.permute, "--permute", ("instances", "tasks"), "both")
    }
    how["scoring"] = given.scoring[0] if given.scoring else loaded.origin.get("scoring")
    how |= {
        "n_permutations": given.permutations,
        "random_state": given.seed,
        "progress": terminal.progress,
    }
    asked = settings or [model.searched_setting or Setting.B]
    with terminal.working("Permutations", len(asked)):
        tests: list[Any] = [dyadlearn.permutation_test(model, setting, **how) for setting in asked]
    lines = []
    for test in tests:
        null = f"{number(test.null_mean)} ± {number(test.null_deviation)}"
        words = {"instances": loaded.names.instances, "tasks": loaded.names.tasks}.get(
            test.permuted, test.permuted
        )
        lines.append(
            [test.setting, words, test.method, number(test.score), null, number(test.p_value)]
        )
    figures = [{name: getattr(test, name) for name in _TEST} for test in tests]
    table = make_table(
        ["setting", "permuted", "method", tests[0].scoring, "null", "p"], lines, left=3
    )
    things = [f"{given.permutations} permutations of the labels", table]
    terminal.table(
        {"settings": figures}, things, stacked([test.columns() for test in tests]), given.output
    )


def _compare(
    given: Evaluate, loaded: Loaded, model: Any, settings: Any, terminal: Terminal
) -> None:
    """Compare models on the same held-out labels."""
    paths = _names([given.source, *(given.against or ())])
    models = {
        name: model if path == given.source else load_model(path).model
        for name, path in paths.items()
    }
    figures = []
    tables = []
    columns = []
    how: dict[str, Any] = {
        "scoring": given.scoring[0] if given.scoring else None,
        "n_resamples": given.resamples,
    }
    how |= {"coverage": given.coverage, "random_state": given.seed, "sides": loaded.sides}
    for setting in settings or [_tuned_for(models)]:
        with terminal.working("Hold-out and resamples"):
            comparison = dyadlearn.compare(models, setting, **how)
        terminal.note(*comparison.notes)
        plain = {
            name: value for name, value in vars(comparison).items() if name not in _NOT_FIGURES
        }
        figures.append({name.removeprefix("n_"): value for name, value in plain.items()})
        figures[-1] |= {
            "verdict": comparison.verdict,
            "differences": [vars(each) for each in comparison.differences],
        }
        scores = comparison.columns()
        headings = [
            name if name == comparison.scoring else name.replace("_", " ") for name in scores
        ]
        tables += [
            f"Setting {comparison.setting}, {comparison.n_cells} labels; "
            f"{100 * comparison.coverage:g} % intervals "
            f"from {comparison.n_resamples} bootstrap samples of {comparison.resampled}",
            column_table(scores, 1, headings),
        ]
        columns.append({"setting": [comparison.setting] * len(models), **scores})
    verdicts = [each["verdict"] for each in figures]
    terminal.table({"settings": figures}, tables, stacked(columns), given.output, verdicts)


def _tuned_for(models: dict[str, Any]) -> str:
    """Return the setting that all models were tuned for; raise if they differ."""
    settings = {name: fitted_of(model).searched_setting for name, model in models.items()}
    different = set(settings.values())
    if len(different) == 1 and None not in different:
        return str(different.pop())
    listed = ", ".join(f"{name!r} for {setting or 'none'}" for name, setting in settings.items())
    raise ValueError(
        f"The models were not tuned for the same setting ({listed}): name one by --setting."
    )


def _names(paths: list[Path]) -> dict[str, Path]:
    """Return the paths by the names of the models: file names without endings, or whole paths if these are equal."""
    for path in paths:
        if paths.count(path) > 1:
            raise ValueError(f"{path} is given twice: name different model files.")
    short = [path.stem for path in paths]
    return {
        stem if short.count(stem) == 1 else str(path): path
        for stem, path in zip(short, paths, strict=True)
    }


# The content of a model file ---------------------------------------------------------------------------


def inspect(given: Inspect, terminal: Terminal) -> None:
    """Print the content of a model file."""
    loaded = load(given)
    names = loaded.names
    figures = _figures(loaded)
    weights = weights_of_model(loaded.model)
    if weights is not None:
        figures |= {"holdout_error": loaded.model.holdout_error_, **weights.figures()}
    # Names of figures that are printed differently for people.
    words = {name: baseline_in_words(name, names) for name in BASELINES}
    words |= {"instances": names.instances, "tasks": names.tasks}
    for side, word in zip(("instance", "task"), names, strict=True):
        words |= {f"{side}_{what}": f"{word} {what}" for what in ("side", "ids")}
    listed = {
        name: value
        for name, value in figures.items()
        if value not in (None, {}) and name not in _IN_WORDS
    }
    rows = [
        (words.get(name, name.replace("_", " ")), _line(value, words))
        for name, value in listed.items()
    ]
    terminal.result(figures, make_list([*rows, *([] if weights is None else weights.lines(names))]))


def _figures(loaded: Loaded) -> dict[str, Any]:
    model = loaded.model
    origin = loaded.origin
    instances, tasks = loaded.recipes
    figures: dict[str, Any] = {"model": type(model).__name__}
    if model.grows:  # an online model stores statistics only
        figures |= {"instances": model.n_seen_, "tasks": model.n_tasks_}
    else:
        labels = model.fitted_.labels
        if labels.grid is None:
            figures["fitted_on"] = f"{labels.size:,} observed pairs alone, without a grid"
        mean = float(labels.values[labels.observed].mean())
        figures |= {
            "instances": labels.shape[0],
            "tasks": labels.shape[1],
            "observed": labels.size,
            "mean_label": mean,
        }
    scoring = getattr(model, "scoring", origin.get("scoring"))
    if scoring is None and hasattr(model, "holdout_score_"):
        scoring = "neg_mean_squared_error"  # baselines are scores of this kind
    has_constant = getattr(model, "fit_intercept", False)
    ids = [None if side is None else list(map(id_text, side.labels)) for side in loaded.own_ids]
    return figures | {
        **{
            name: to_plain(getattr(model, f"{name}_", getattr(model, name, None)))
            for name in ("alpha", "task_alpha")
        },
        **_constants(model),
        "fit_intercept": has_constant,
        "intercept": to_plain(model.intercept_) if has_constant else None,
        "setting": getattr(model, "setting", origin.get("setting")),
        "scoring": scoring if scoring is None else str(scoring),
        "score": getattr(
            model, "best_score_", getattr(model, "holdout_score_", origin.get("score"))
        ),
        "baselines": getattr(model, "baselines_", origin.get("baselines")),
        "holdout": getattr(model, "holdout_method_", None),
        "reason": getattr(model, "holdout_reason_", None),
        "instance_side": in_words(instances),
        "task_side": None if tasks is None else in_words(tasks),
        **dict(zip(("instance_ids", "task_ids"), ids, strict=True)),
        "sides": None if loaded.sides is None else list(loaded.sides),
        "files": origin.get("files"),
        "versions": loaded.versions,
    }


def _constants(model: Any) -> dict[str, Any]:
    """Return the constants of both kernels, if the model has main effects whose weight is a parameter."""
    if not hasattr(model, "constants") or len(model.fitted_.sides) != 2 or not model.fit_intercept:
        return {}
    return {"constants": [side.spec.level for side in model.fitted_.sides]}


def _line(value: Any, words: dict[str, str]) -> str:
    if isinstance(value, dict):
        return ", ".join(
            f"{words.get(key, key)} {number(entry)}"
            for key, entry in value.items()
            if entry is not None
        )
    return shown(value, 3) if isinstance(value, list) else number(value)


def report(given: Report, terminal: Terminal) -> None:
    """Write an HTML report about a model."""
    settings = None if given.setting is None else settings_of(given.setting)
    loaded = load(given)
    how: dict[str, Any] = {
        "title": given.title,
        "setting": settings,
        "sides": loaded.sides,
        "scoring": given.scoring,
    }
    how["names"] = {
        label: name for path in given.names or () for label, name in read_names(path).items()
    }
    write_page(loaded.model, given.output, terminal, **how, n_permutations=given.permutations)
    terminal.result({"output": str(given.output)})


def write_page(model: Any, path: Path, terminal: Terminal, **how: Any) -> None:
    """Write an HTML report about a model; `how` has the parameters of `dyadlearn.report.write_report`."""
    from dyadlearn.report import write_report

    with writing(path):
        write_report(model, path, **how, progress=terminal.progress)
    terminal.say(f"Wrote {path}: open it in a browser.")
