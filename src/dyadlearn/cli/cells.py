"""Labels of cells of any number of sides: ``tune --terms``, and what other commands do with such a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import dyadlearn
from dyadlearn._files.tables import FileTable, as_number, is_blank, read_cells
from dyadlearn._tables import id_text
from dyadlearn._text import joined, make_list, make_table, number
from dyadlearn.cli.commands import Predict, Tune
from dyadlearn.cli.entities import Files, open_source, training_side
from dyadlearn.cli.explained import figures_by, figures_of, table_by
from dyadlearn.cli.models import Loaded, save_model
from dyadlearn.cli.options import refuse, written_options
from dyadlearn.cli.predict_table import write_beside
from dyadlearn.cli.terminal import Arguments, Figures, Terminal, as_rows, column_table
from dyadlearn.diagnostics.asked_rows import Reason, is_predicted
from dyadlearn.exceptions import DataFileError, IdError
from dyadlearn.models.reading import among
from dyadlearn.views.cells import variance_columns

# Word for the setting in which no side is new.
_CELL = "cell"
# Number of fixed effects in the list for people.
_LISTED = 8
# Options of predict for models of cells.
_PREDICTED = ("source", "table", "interval", "output", "force")
_EXPLAINED = ("source", "explain", "cell", "by", "sort", "number", "output", "force")
# Why rows have no prediction, by the kind of the reason.
_WHY = {
    "no": "have no value of {!r}",
    "unknown": "have an unknown level of {!r}",
    "unlabelled": "have a category of {!r} without a label, whose effect cannot be estimated",
}


def cell_settings(text: str | None) -> list[tuple[str, ...]] | None:
    """Read settings of cells: names of new sides with plus signs, or "cell", separated by commas.

    Examples
    --------
    >>> from dyadlearn.cli.cells import cell_settings
    >>> cell_settings("cell, mother, mother+father")
    [(), ('mother',), ('mother', 'father')]
    """
    if text is None:
        return None
    settings = []
    for part in text.split(","):
        names = tuple(name.strip() for name in part.split("+"))
        settings.append(() if names == (_CELL,) else names)
    return settings


# Training ------------------------------------------------------------------------------------------


def tune_cells(options: Tune, terminal: Terminal) -> None:
    """Fit a model of cells with its variances, write its file, and print variances and scores."""
    with terminal.working("Reading"):
        cells = read_cells(options.labels)
        fixed = _names(options.fixed)
        y = cells.as_numbers([cells.place(str(options.label))])[:, 0]
        weights = None
        if options.weights is not None:
            weights = cells.as_numbers([cells.place(options.weights)])[:, 0]
        model = _model(options, fixed, terminal)
        table = _table(cells, fixed, {options.label, options.weights}, terminal)
    if np.isnan(y).any():
        n_blank = np.count_nonzero(np.isnan(y))
        terminal.note(f"{n_blank:,} of {len(y):,} rows have no label and were left out.")
    with terminal.working("Variances"):
        model.fit(table, y, sample_weight=weights)
    settings = None if model.variances == "likelihood" else [model.new]
    scores = scores_of_cells(model, settings, options.scoring, terminal)
    files = Files.of(options.entities or (), "--entities").words
    origin: dict[str, Any] = {"scoring": options.scoring}
    origin["files"] = {"labels": options.labels.name, "entities": files}
    # A fitted model does not need the tables any more.
    model.entities = None
    with terminal.working("Writing"):
        save_model(Loaded(model, ({}, None), origin), options.output)
    figures = _figures(model) | {"settings": list(figures_of_scores(scores).values())}
    terminal.result({**figures, "output": str(options.output)})
    terminal.say(make_list(_lines(model)), _table_of_variances(model), "")
    terminal.say("Scores of exact hold-out, by what is new:", make_table(*scores.table()))
    terminal.say(f"Wrote {options.output}.")


def _names(text: str | None) -> list[str]:
    """Read names of columns, separated by commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _model(options: Tune, fixed: list[str], terminal: Terminal) -> Any:
    """Return the model that the options ask for, not fitted."""
    files = Files.of(options.entities or (), "--entities")
    if "" in files.paths:
        raise ValueError(f"--entities names a side and its file, such as mother={files.paths['']}.")
    kernels = files.of_each(options.kernel, "--kernel", common=True)
    entities: Arguments = {}
    specs: Arguments = {}
    params: Arguments = {}
    for name, path in files.paths.items():
        source = open_source(path, kernel=kernels.get(name))
        entities[name], recipes, _ = training_side({"": source}, {"": None}, options, terminal)
        specs[name], params[name] = recipes[""].of_model
        if entities[name].row_ids is None:
            raise DataFileError(f"{path} has no ids: put the levels of {name} in its first column.")
    new = None
    if written_options("setting"):
        new = cell_settings(options.setting)
    if new is not None and len(new) != 1:
        raise ValueError(
            f"--setting must name one setting here, such as mother+father, found "
            f"{options.setting!r}."
        )
    return dyadlearn.MultiwayRidge(
        options.terms,
        entities=entities,
        kernels=specs,
        kernel_params=params,
        fixed=tuple(fixed),
        variances="likelihood" if new is None else "holdout",
        new=() if new is None else new[0],
        symmetric=tuple(_names(options.symmetric)) or None,
        fit_intercept=options.intercept,
        device=options.device,
    )


def _table(
    cells: FileTable, fixed: Sequence[str], others: set[str | None], terminal: Terminal
) -> dict[str, Any]:
    """Return the columns of ids, and the fixed columns as numbers or categories."""
    table: dict[str, Any] = {}
    for name in dict.fromkeys(cells.headings):
        if name and name not in others and name not in fixed:
            table[name] = _ids(cells, name)
    for name in fixed:
        numbers = [as_number(cell) for cell in cells.column(name)]
        if any(value is None or np.isnan(value) for value in numbers):
            table[name] = _ids(cells, name)
            continue
        table[name] = np.array(numbers, dtype=np.float64)
        terminal.note(
            f"The fixed column {name} holds numbers and has one slope: write text, such as "
            f"{name}{cells.column(name)[0]}, if each value has an effect of its own."
        )
    return table


def _ids(cells: FileTable, name: str) -> list[str | None]:
    """Return a column of ids as text, None where they are missing."""
    return [None if is_blank(cell) else id_text(cell) for cell in cells.column(name)]


def scores_of_cells(
    model: Any, settings: Sequence[Any] | None, scoring: Any, terminal: Terminal
) -> Any:
    """Return the scores of a model in some settings, with their notes printed; None means the usual ones."""
    with terminal.working("Hold-out"):
        scores = dyadlearn.evaluate(model, new=settings, scoring=scoring or None)
    terminal.note(*scores.notes)
    return scores


def figures_of_scores(scores: Any) -> dict[str, Figures]:
    """Return the figures of each setting, with those of each score by its name."""
    figures: dict[str, Figures] = {}
    for result, new, key in zip(scores.results, scores["new"], keys_of_scores(scores), strict=True):
        start = {"setting": result.setting.value, "new": new, "method": result.method}
        if result.actual is not None:
            start["actual"] = result.actual.value
        row = figures.setdefault(key, start)
        row["reason"] = result.reason or None
        row["pairs"] = result.actual_counts or None
        name = result.judge.name
        row.setdefault("scores", {})[name] = result.score
        row.setdefault("averages", {})[name] = result.average
        row.setdefault("methods", {})[name] = result.method
        row.setdefault("baselines", {})[name] = result.baselines
        row.setdefault("undefined", {})[name] = result.n_undefined
    return figures


def keys_of_scores(scores: Any) -> list[str]:
    """Return the setting of each row, followed by the actual setting if rows are those of actual settings."""
    return [
        f"{result.setting.value}{'' if result.actual is None else result.actual.value}"
        for result in scores.results
    ]


# What a model is -----------------------------------------------------------------------------------


def inspect_cells(loaded: Loaded, terminal: Terminal) -> None:
    """Print the content of a model file."""
    model = loaded.model
    figures = _figures(model)
    figures |= {"files": loaded.origin.get("files"), "versions": loaded.versions}
    rows = _lines(model)
    for name in ("files", "versions"):
        values = figures[name] or {}
        rows.append((name, ", ".join(f"{key} {value}" for key, value in values.items() if value)))
    terminal.result(figures, make_list(rows), _table_of_variances(model))


def _figures(model: Any) -> Figures:
    """Return what is known of a model, for JSON."""
    fitted = model.fitted_
    return {
        "model": "multiway",
        "labels": len(fitted.values),
        "sides": {side.name: len(side.labelled) for side in fitted.sides},
        "terms": list(fitted.term_names),
        "estimation": fitted.estimation,
        "log_likelihood": fitted.log_likelihood,
        "variances": as_rows(variance_columns(fitted)),
        "fixed_effects": model.fixed_effects_,
    }


def _lines(model: Any) -> list[tuple[str, str]]:
    """Return names and values for people."""
    fitted = model.fitted_
    sides = joined([f"{len(side.labelled):,} {side.name}" for side in fitted.sides])
    effects = [f"{name} {number(value)}" for name, value in model.fixed_effects_.items()]
    more = ", …" if len(effects) > _LISTED else ""
    found = {
        "likelihood": f"restricted likelihood, log {number(fitted.log_likelihood, 6)}",
        "holdout": f"held-out error, new {fitted.setting(fitted.new).value}",
    }
    return [
        ("model", "multiway"),
        ("labels", f"{len(fitted.values):,} of {sides}"),
        ("fixed effects", ", ".join(effects[:_LISTED]) + more or "none"),
        ("variances by", found.get(fitted.estimation, "given numbers")),
    ]


def _table_of_variances(model: Any) -> Any:
    columns = variance_columns(model.fitted_)
    return column_table(columns, 1, [name.replace("_", " ") for name in columns])


# Predictions ---------------------------------------------------------------------------------------


def predict_cells(options: Predict, loaded: Loaded, terminal: Terminal) -> None:
    """Predict the cells of a table, or explain the prediction for one cell."""
    why = "is for pairs, and the model for cells of other sides"
    if options.explain:
        refuse(options, _EXPLAINED, why)
        _explain(options, loaded.model, terminal)
        return
    refuse(options, _PREDICTED, why)
    fitted = loaded.model.fitted_
    if options.table is None:
        names = joined([*fitted.side_names, *fitted.fixed.names])
        raise ValueError(f"Give the cells by --table, a table with the columns {names}.")
    cells = read_cells(options.table)
    table = {name: _ids(cells, name) for name in (*fitted.side_names, *fitted.fixed.names)}
    coverage = 0.9 if options.interval is None else options.interval
    read = _read_as(fitted, table)
    reasons = _reasons(fitted, read)
    _note_reasons(reasons, options.table, terminal)
    rows = np.flatnonzero(is_predicted(reasons))
    kept = {name: [column[row] for row in rows] for name, column in read.items()}
    with terminal.working("Predictions"):
        predicted = _predicted(loaded.model, kept, coverage, terminal)
    settings = dict(Counter(predicted["setting"]))
    figures = {"settings": settings, "coverage": coverage}
    write_beside(options, cells, predicted, reasons, figures, terminal)


def _reasons(fitted: Any, table: Mapping[str, Sequence[Any]]) -> np.ndarray:
    """Return why each row of a table has no prediction; None for rows with one."""
    n_rows = len(next(iter(table.values())))
    reasons = np.full(n_rows, None, dtype=object)
    for name, levels in zip(fitted.fixed.names, fitted.fixed.levels, strict=True):
        if levels is not None:
            reasons[among(table[name], levels) < 0] = Reason("unlabelled", name)
    for side in fitted.sides:
        ids = table[side.name]
        if side.spec is not None:
            reasons[among(ids, side.ids.labels) < 0] = Reason("unknown", side.name)
        reasons[np.array([one is None for one in ids], dtype=bool)] = Reason("no", side.name)
    return reasons


def _note_reasons(reasons: np.ndarray, path: Path, terminal: Terminal) -> None:
    """Say which rows have no prediction; raise if none has one."""
    counts = Counter(reasons[~is_predicted(reasons)])
    n_rows = len(reasons)
    if counts and counts.total() == n_rows:
        words = joined([f"{reason} ({count:,})" for reason, count in counts.items()])
        raise IdError(f"{path}: none of {n_rows:,} rows can be predicted: {words}.")
    for reason, count in counts.items():
        why = _WHY[reason.kind].format(reason.of)
        terminal.note(f"{count:,} of {n_rows:,} rows of {path} {why}: they have no prediction.")


def _read_as(fitted: Any, table: Mapping[str, Sequence[str | None]]) -> dict[str, Any]:
    """Return columns of text with the ids, categories and numbers of the model, which may not be text."""
    read: dict[str, Any] = {}
    known = {side.name: side.ids.labels for side in fitted.sides}
    known |= dict(zip(fitted.fixed.names, fitted.fixed.levels, strict=True))
    for name, texts in table.items():
        levels = known[name]
        if levels is None:
            numbers = [as_number(text) for text in texts]
            if None in numbers:
                text = texts[numbers.index(None)]
                raise DataFileError(f"The fixed column {name!r} holds numbers, found {text!r}.")
            read[name] = np.array(numbers, dtype=np.float64)
        else:
            id_of = {id_text(level): level for level in levels}
            read[name] = [text if text is None else id_of.get(text, text) for text in texts]
    return read


def _predicted(
    model: Any, table: dict[str, Any], coverage: float, terminal: Terminal
) -> dict[str, list[Any]]:
    """Return the columns of predictions: the setting of each row, the prediction, its deviation and an interval."""
    fitted = model.fitted_
    means, deviations = model.predict(table, return_std=True)
    settings = [fitted.setting_of(one) for one in fitted.asked(table).each()]
    bounds = np.full((2, len(means)), np.nan)
    for setting in dict.fromkeys(settings):
        rows = [row for row, other in enumerate(settings) if other == setting]
        some = {name: [column[row] for row in rows] for name, column in table.items()}
        try:
            bounds[:, rows] = model.predict_interval(some, coverage=coverage, new=setting.names)
        except ValueError as error:
            terminal.note(f"No interval for {setting.in_words}. {error}")
    return {
        "setting": [setting.value for setting in settings],
        "prediction": means.tolist(),
        "std": deviations.tolist(),
        "lower": _known(bounds[0]),
        "upper": _known(bounds[1]),
    }


def _known(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else value for value in values.tolist()]


def _explain(options: Predict, model: Any, terminal: Terminal) -> None:
    """List the training labels that the prediction for one cell comes from."""
    fitted = model.fitted_
    names = (*fitted.side_names, *fitted.fixed.names)
    cell = _cell(options.cell or "", names)
    table = _read_as(fitted, {name: [text] for name, text in cell.items()})
    with terminal.working("Label weights"):
        (explanation,) = dyadlearn.explain(model, table, n=options.number, sort=options.sort)
    terminal.note(*explanation.notes)
    by = options.by if written_options("by") else "label"
    if by not in explanation.kinds:
        raise ValueError(f"--by must be one of {', '.join(explanation.kinds)}, found {by!r}.")
    figures = figures_of(explanation, "cell") | {"terms": explanation.terms}
    kinds = ["label", *fitted.side_names]
    if options.output is None:
        figures["by"] = {kind: figures_by(explanation, kind) for kind in kinds}
    title = (
        f"The prediction for {explanation.subject} is {number(explanation.prediction)}. It is the "
        f"sum of:"
    )
    tables = [column_table(explanation.columns("term"), 1)]
    tables += [table_by(explanation, kind) for kind in kinds]
    terminal.table(figures, [title, *tables], explanation.columns(by), options.output)


def _cell(text: str, names: Sequence[str]) -> dict[str, str]:
    """Read the ids of a cell, ``side=id,side=id``."""
    cell = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name in names and equals and value:
            cell[name] = value
    missing = [name for name in names if name not in cell]
    if missing or len(cell) != len(text.split(",")):
        such = ",".join(f"{name}=…" for name in names)
        raise ValueError(f"--cell takes each side and fixed column, as {such}; found {text!r}.")
    return cell
