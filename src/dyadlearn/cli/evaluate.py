"""``dyadlearn evaluate``, ``inspect`` and ``report``: scores of a model and the content of its file."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import dyadlearn
from dyadlearn._files.tables import writing
from dyadlearn._tables import Ids, id_text, shown
from dyadlearn._text import joined, make_list, make_table, number
from dyadlearn.cli.cells import (
    cell_settings,
    figures_of_scores,
    inspect_cells,
    keys_of_scores,
    scores_of_cells,
)
from dyadlearn.cli.commands import Evaluate, Inspect, Report
from dyadlearn.cli.entities import in_words, read_names
from dyadlearn.cli.models import Loaded, load, load_model, refuse_pairs, settings_of
from dyadlearn.cli.terminal import (
    Arguments,
    Figures,
    Terminal,
    column_table,
    stacked,
    to_plain,
    with_options,
)
from dyadlearn.diagnostics.fitted import fitted_of, known_settings
from dyadlearn.holdout.baselines import BASELINES
from dyadlearn.selection.evaluate import in_words as baseline_in_words
from dyadlearn.settings import Setting
from dyadlearn.views.weights import weights_of_model

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
# Options of evaluate that models of cells do not have.
_OF_PAIRS = ("average", "by", "cv", "method", "permute", "verify", "number", "nested")
_NOT_FIGURES = ("differences", "drawn", "notes")


def evaluate(options: Evaluate, terminal: Terminal) -> None:
    """Score a model, compare it with others, or test it."""
    loaded = load(options, cells=True)
    if loaded.has_cells:
        _evaluate_cells(options, loaded, terminal)
        return
    settings = None
    if options.setting is not None:
        settings = settings_of(options.setting)
    model = fitted_of(loaded.model)
    if (options.against or options.permutations) and options.scoring and options.scoring[1:]:
        raise ValueError("--against and --permutations take one --scoring: leave the others out.")
    asked = [{"setting": setting} for setting in settings or ()]
    if options.against:
        _compare(options, loaded, model, asked, terminal)
        return
    _check_nested(options.nested, model)
    if options.permutations:
        searched = {"setting": model.searched_setting or Setting.B}
        _test(options, loaded, model, asked or [searched], terminal)
    else:
        _score(options, loaded, model, settings, terminal)


def _evaluate_cells(options: Evaluate, loaded: Loaded, terminal: Terminal) -> None:
    """Score a model of cells, compare it with others, or test it."""
    refuse_pairs(options, *_OF_PAIRS)
    settings = cell_settings(options.setting)
    first = settings or [()]
    if options.against:
        _compare(options, loaded, loaded.model, [{"new": new} for new in first], terminal)
    elif options.permutations:
        _test(options, loaded, loaded.model, [{"new": new} for new in first], terminal)
    else:
        scoring = options.scoring or loaded.origin.get("scoring")
        scores = scores_of_cells(loaded.model, settings, scoring, terminal)
        figures = list(figures_of_scores(scores).values())
        table = make_table(*scores.table())
        terminal.table({"settings": figures}, [table], scores, options.output)


def _check_nested(nested: bool, model: Any) -> None:
    """Raise if kernels are to be kept that are not learned."""
    if not nested and not model.learns_kernels:
        raise ValueError(
            "--no-nested is for learned kernels, but this model has none: leave --no-nested out."
        )


def _score(
    options: Evaluate,
    loaded: Loaded,
    model: Any,
    settings: list[Setting] | None,
    terminal: Terminal,
) -> None:
    """Print the scores of hold-out predictions in each setting."""
    known = _known(model, settings or list(Setting), loaded, terminal)
    with terminal.working("Hold-out"):
        scores = dyadlearn.evaluate(
            model,
            known,
            scoring=options.scoring or _scoring_of(model, loaded),
            average=options.average,
            by=options.by,
            cv=options.cv,
            method=options.method,
            nested=options.nested,
            sides=loaded.names,
        )
    terminal.note(*scores.notes)
    figures = figures_of_scores(scores)
    headings, lines, left = scores.table()
    if options.verify:
        _verify(model, list(figures.values()), options, terminal)
    if options.verify and model.labels.is_full:
        headings = [*headings, "from refitting"]
        differences = [number(figures[key]["difference"]) for key in keys_of_scores(scores)]
        lines = [[*line, difference] for line, difference in zip(lines, differences, strict=True)]
    table = make_table(headings, lines, left=left)
    terminal.table({"settings": list(figures.values())}, [table], scores, options.output)


def _scoring_of(model: Any, loaded: Loaded) -> str | None:
    """Return the score that a file names; None for a search, which knows its score with the average."""
    scoring: str | None = loaded.origin.get("scoring")
    if model.searches and model.scoring is not None:
        return None
    return scoring


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


def _verify(model: Any, rows: list[Figures], options: Evaluate, terminal: Terminal) -> None:
    """Add to each row the largest difference between hold-out predictions and those of refitted models."""
    is_complete = model.labels.is_full
    if not is_complete:
        terminal.note(
            "Labels are missing or weighted: refits are compared for complete labels only, nothing "
            "is verified."
        )
    for row in rows:
        row["difference"] = None
        if is_complete:
            setting = row["setting"]
            with terminal.working(f"Setting {setting}: refitting"):
                row["difference"] = dyadlearn.verify_holdout(
                    model, setting, n=options.number, random_state=options.seed
                )


def _test(
    options: Evaluate,
    loaded: Loaded,
    model: Any,
    asked: Sequence[Arguments],
    terminal: Terminal,
) -> None:
    """Test whether the model is better than on permuted labels."""
    roles = ("instances", "tasks")
    scoring = options.scoring[0] if options.scoring else loaded.origin.get("scoring")
    permute = loaded.role(options.permute, "--permute", roles, "both")
    names = dict(zip(roles, loaded.names.both, strict=True))
    figures = []
    lines = []
    tables = []
    with terminal.working("Permutations", len(asked)):
        for setting in asked:
            test = dyadlearn.permutation_test(
                model,
                **setting,
                permute=permute,
                scoring=scoring,
                n_permutations=options.permutations or 0,
                random_state=options.seed,
                progress=terminal.progress,
            )
            figures.append({name: getattr(test, name) for name in _TEST})
            permuted = names.get(test.permuted, test.permuted)
            null = f"{number(test.null_mean)} ± {number(test.null_deviation)}"
            texts = [number(test.score), null, number(test.p_value)]
            lines.append([test.setting, permuted, test.method, *texts])
            tables.append(test.columns())
    headings = ["setting", "permuted", "method", figures[0]["scoring"], "null", "p"]
    table = make_table(headings, lines, left=3)
    title = f"{options.permutations} permutations of the labels"
    terminal.table({"settings": figures}, [title, table], stacked(tables), options.output)


def _compare(
    options: Evaluate,
    loaded: Loaded,
    model: Any,
    asked: Sequence[Arguments],
    terminal: Terminal,
) -> None:
    """Compare models on the same held-out labels."""
    models = {}
    for name, path in _names([options.source, *(options.against or ())]).items():
        if path == options.source:
            models[name] = model
        else:
            models[name] = _other(path, loaded)
    figures = []
    things: list[Any] = []
    columns = []
    verdicts = []
    for setting in asked or [{"setting": _tuned_for(models)}]:
        with terminal.working("Hold-out and resamples"):
            comparison = dyadlearn.compare(
                models,
                **setting,
                scoring=options.scoring[0] if options.scoring else None,
                average=options.average,
                n_resamples=options.resamples,
                coverage=options.coverage,
                random_state=options.seed,
                sides=loaded.sides,
            )
        terminal.note(*comparison.notes)
        scores = comparison.columns()
        figures.append(_figures_of_comparison(comparison))
        things += [_title_of_comparison(comparison), _table_of_scores(scores, comparison.scoring)]
        columns.append({"setting": [comparison.setting] * len(models), **scores})
        verdicts.append(comparison.verdict)
    terminal.table({"settings": figures}, things, stacked(columns), options.output, verdicts)


def _other(path: Path, loaded: Loaded) -> Any:
    """Return another model to compare with; raise if only one of both has labels of cells."""
    other = load_model(path, cells=True)
    if other.has_cells != loaded.has_cells:
        raise ValueError(
            f"{path} and {loaded.path} have different kinds of labels, of pairs and of cells: "
            f"compare models of one kind."
        )
    return other.model


def _figures_of_comparison(comparison: Any) -> Figures:
    """Return a comparison as figures for JSON."""
    figures = {}
    for name, value in vars(comparison).items():
        if name not in _NOT_FIGURES:
            figures[name.removeprefix("n_")] = value
    figures["verdict"] = comparison.verdict
    figures["differences"] = [vars(difference) for difference in comparison.differences]
    return figures


def _title_of_comparison(comparison: Any) -> str:
    """Return the line above the table of a comparison."""
    return (
        f"Setting {comparison.setting}, {comparison.n_cells} labels; "
        f"{100 * comparison.coverage:g} % intervals "
        f"from {comparison.n_resamples} bootstrap samples of {comparison.resampled}"
    )


def _table_of_scores(scores: dict[str, Any], scoring: str) -> Any:
    """Return the scores of a comparison as a table."""
    headings = [name if name == scoring else name.replace("_", " ") for name in scores]
    return column_table(scores, 1, headings)


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


def inspect(options: Inspect, terminal: Terminal) -> None:
    """Print the content of a model file."""
    loaded = load(options, cells=True)
    if loaded.has_cells:
        inspect_cells(loaded, terminal)
        return
    names = loaded.names
    figures = _figures(loaded)
    weights = weights_of_model(loaded.model)
    if weights is not None:
        figures |= {"holdout_error": loaded.model.holdout_error_, **weights.figures()}
    # Names of figures that are printed differently for people.
    words = {name: baseline_in_words(name, names) for name in BASELINES}
    words |= {"instances": names.instances, "tasks": names.tasks}
    for side, word in zip(("instance", "task"), names, strict=True):
        words[f"{side}_side"] = f"{word} side"
        words[f"{side}_ids"] = f"{word} ids"
    rows = []
    for name, value in figures.items():
        is_shown = name not in _IN_WORDS or (name == "shares" and weights is None)
        if value not in (None, {}) and is_shown:
            rows.append((words.get(name, name.replace("_", " ")), _line(value, words)))
    if weights is not None:
        rows += weights.lines(names)
    terminal.result(figures, make_list(rows))


def _figures(loaded: Loaded) -> Figures:
    """Return all that is known of a model."""
    model = loaded.model
    origin = loaded.origin
    instances, tasks = loaded.recipes
    instance_ids, task_ids = loaded.model_ids
    scoring = getattr(model, "scoring", origin.get("scoring"))
    if scoring is None and hasattr(model, "holdout_score_"):
        scoring = "neg_mean_squared_error"  # baselines are scores of this kind
    score = getattr(model, "holdout_score_", origin.get("score"))
    has_constant = getattr(model, "fit_intercept", False)
    return {
        "model": type(model).__name__,
        **_counts(model),
        "alpha": _parameter(model, "alpha"),
        "task_alpha": _parameter(model, "task_alpha"),
        **_constants(model),
        **_shares(model),
        "fit_intercept": has_constant,
        "intercept": to_plain(model.intercept_) if has_constant else None,
        "setting": getattr(model, "setting", origin.get("setting")),
        "scoring": scoring if scoring is None else str(scoring),
        "score": getattr(model, "best_score_", score),
        "baselines": getattr(model, "baselines_", origin.get("baselines")),
        "holdout": getattr(model, "holdout_method_", None),
        "reason": getattr(model, "holdout_reason_", None),
        "instance_side": in_words(instances),
        "task_side": None if tasks is None else in_words(tasks),
        "instance_ids": _listed(instance_ids),
        "task_ids": _listed(task_ids),
        "sides": None if loaded.sides is None else list(loaded.sides),
        "files": origin.get("files"),
        "versions": loaded.versions,
    }


def _counts(model: Any) -> Figures:
    """Return the numbers of instances, tasks and labels of training."""
    if model.grows:  # an online model stores statistics only
        return {"instances": model.n_seen_, "tasks": model.n_tasks_}
    labels = model.fitted_.labels
    counts: Figures = {}
    if labels.grid is None:
        counts["fitted_on"] = f"{labels.size:,} observed pairs alone, without a grid"
    instances, tasks = labels.shape
    mean = float(labels.values[labels.observed].mean())
    return counts | {
        "instances": instances,
        "tasks": tasks,
        "observed": labels.size,
        "mean_label": mean,
    }


def _parameter(model: Any, name: str) -> Any:
    """Return a regularisation: the chosen one of a search, else the parameter."""
    return to_plain(getattr(model, f"{name}_", getattr(model, name, None)))


def _listed(ids: Ids | None) -> list[str] | None:
    if ids is None:
        return None
    return list(map(id_text, ids.labels))


def _constants(model: Any) -> Figures:
    """Return the constants of both kernels, if the model has main effects whose weight is a parameter."""
    if not hasattr(model, "constants") or len(model.fitted_.sides) != 2 or not model.fit_intercept:
        return {}
    return {"constants": [side.spec.level for side in model.fitted_.sides]}


def _shares(model: Any) -> Figures:
    """Return the shares of the product kernel, per task and per instance, if they are parameters of the model."""
    is_pair = hasattr(model, "per_task") or hasattr(model, "shares")
    if not is_pair or len(model.fitted_.sides) != 2:
        return {}
    return {"shares": list(model.fitted_.pairing.shares)}


def _line(value: Any, words: dict[str, str]) -> str:
    """Return a figure as text."""
    if isinstance(value, dict):
        entries = [(words.get(key, key), entry) for key, entry in value.items()]
        return ", ".join(f"{name} {number(entry)}" for name, entry in entries if entry is not None)
    if isinstance(value, list):
        return shown(value, 3)
    return number(value)


def report(options: Report, terminal: Terminal) -> None:
    """Write an HTML report about a model."""
    from dyadlearn.report.write import write_page
    from dyadlearn.views.summary import SummaryOptions

    loaded = load(options, cells=True)
    names: dict[Hashable, str] = {}
    for path in options.names or ():
        names |= read_names(path)
    params: Arguments = {"title": options.title, "scoring": options.scoring, "names": names}
    if loaded.has_cells:
        refuse_pairs(options, "nested", "permutations")
        params["scoring"] = options.scoring or loaded.origin.get("scoring")
        new = cell_settings(options.setting)
    else:
        new = None
        _check_nested(options.nested, fitted_of(loaded.model))
        params["setting"] = None if options.setting is None else settings_of(options.setting)
        params["sides"] = loaded.sides
        params["nested"] = options.nested
        params["n_permutations"] = options.permutations
    with writing(options.output):
        asked = SummaryOptions(**params, progress=terminal.progress)
        write_page(loaded.model, options.output, asked, new, with_options)
    terminal.say(f"Wrote {options.output}: open it in a browser.")
    terminal.result({"output": str(options.output)})
