"""``dyadlearn explain``: which training labels one prediction comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dyadlearn import explain as explained
from dyadlearn._checks import check_choice
from dyadlearn._files.tables import write_columns
from dyadlearn.cli import options
from dyadlearn.cli.entities import n_entities, new_side, take_rows
from dyadlearn.cli.files import Files
from dyadlearn.cli.models import Loaded, load_model
from dyadlearn.cli.options import Force, Json, ModelArgument, Quiet, Sides, check_beside, check_table
from dyadlearn.cli.terminal import Terminal, make_table, number
from dyadlearn.diagnostics.explaining import Explanation
from dyadlearn.exceptions import IdError
from dyadlearn.sides import SideNames

__all__ = ["explain"]

_KINDS = ("pair", "instance", "task")


def explain(
    model: ModelArgument,
    instance: Annotated[str | None, typer.Option(metavar="ID", help="An instance, of training or of a file.")] = None,
    task: Annotated[str | None, typer.Option(metavar="ID", help="A task, of training or of a file.")] = None,
    new_instance: Annotated[
        list[str] | None, typer.Option(metavar="[NAME=]FILE", help="New instances; one row, or --instance says which.")
    ] = None,
    new_task: Annotated[
        list[str] | None, typer.Option(metavar="[NAME=]FILE", help="New tasks; one row, or --task says which.")
    ] = None,
    top: Annotated[int, typer.Option("-k", "--top", min=1, help="How many contributions to list of each kind.")] = 10,
    by: Annotated[str, typer.Option(help="What is written with -o: by pair, instance or task.")] = "pair",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write one list to a table instead, see --by.")
    ] = None,
    instances_smiles: options.SeveralInstancesSmiles = None,
    tasks_smiles: options.SeveralTasksSmiles = None,
    sides: Sides = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Tell which training labels a prediction comes from: by pair, by instance and by task, each summing to it.

    For example:

        dyadlearn explain model.dyad --instance hsa2099 --task D00348

        dyadlearn explain model.dyad --new-instance new_targets.csv --instance hsa5468 --task D00348 --json
    """
    with Terminal(json, quiet) as terminal:
        check_table(output, force)
        check_beside(bool(new_instance), "--new-instance", "instances_smiles")
        check_beside(bool(new_task), "--new-task", "tasks_smiles")
        loaded = load_model(model).named(sides)
        by = _kind(by, loaded.names)
        check_beside(output is not None, "--output", "by")
        asked = (
            _asked(loaded, 0, instance, new_instance, instances_smiles, terminal),
            _asked(loaded, 1, task, new_task, tasks_smiles, terminal),
        )
        with terminal.working("Weighing labels"):
            found = explained(loaded.model, *asked, top=top, sides=loaded.sides)
        if found.note:
            terminal.note(found.note)
        _tell(found, by, output, terminal)


def _kind(by: str, names: SideNames) -> str:
    """Return by what contributions are gathered as the library says it; sides may be called by their own names."""
    words = {names.task: "task", names.instance: "instance", **{kind: kind for kind in _KINDS}}
    check_choice(by, "--by", tuple(dict.fromkeys(("pair", *names, *words))))
    return words[by]


def _asked(
    loaded: Loaded,
    side: int,
    wanted: str | None,
    given: list[str] | None,
    smiles: list[str] | None,
    terminal: Terminal,
) -> Any:
    """Return an instance (side 0) or a task as the library takes it: an id, a position, or one row of a file."""
    word, ids, own = ("instance", "task")[side], loaded.ids[side], loaded.own_ids[side]
    if given:
        return _of_files(loaded, side, wanted, given, smiles, terminal)
    if wanted is None:
        raise ValueError(f"Say which {word} is meant: give --{word}, an id of training, or --new-{word}, a file.")
    if ids is None or own is None:
        if not wanted.isdecimal():
            raise IdError(f"The model has no ids for {word}s: --{word} is a position from 0, found {wanted!r}.")
        return int(wanted)
    return own.labels[int(ids.positions([wanted], f"the {loaded.names.both[side]}")[0])]


def _of_files(
    loaded: Loaded, side: int, wanted: str | None, given: list[str], smiles: list[str] | None, terminal: Terminal
) -> Any:
    """Return the one row of a file, or of all files that describe it, that is meant."""
    word, recipe = ("instance", "task")[side], (loaded.instances, loaded.tasks)[side]
    if recipe is None:
        raise ValueError("The model knows nothing of tasks and cannot explain new ones: leave --new-task out.")
    files = Files.of(given, f"--new-{word}")
    rows = new_side(
        files,
        recipe,
        loaded.ids[side],
        terminal,
        smiles=smiles,
        smiles_option=f"--{word}s-smiles",
        asked=None if wanted is None else [wanted],
    )
    path = next(iter(files.paths.values()))
    if wanted is not None and rows.row_ids is not None:
        return take_rows(rows, rows.row_ids.positions([wanted], str(path)))
    if n_entities(rows) != 1:
        raise ValueError(f"{path} has {n_entities(rows)} rows: say which {word} is meant by --{word}.")
    return rows


def _tell(found: Explanation, by: str, output: Path | None, terminal: Terminal) -> None:
    """Write one list to a file, or print all of them."""
    figures: dict[str, Any] = {
        "instance": found.instance,
        "task": found.task,
        "setting": found.setting,
        "prediction": found.prediction,
        "label": found.label,
    }
    if output is not None:
        columns = found.columns(by)
        write_columns(output, columns)
        terminal.result({**figures, "output": str(output)})
        terminal.say(f"Wrote {len(found.by(by))} rows to {output}.")
        return
    things: list[Any] = [f"{number(found.prediction)} is predicted for {found.subject}, which comes from:"]
    for kind in _KINDS[:2] if found.is_network else _KINDS:
        columns, listed = found.columns(kind), found.by(kind)
        left = len(columns) - 3
        lines = [
            [str(cell) if place < left else number(cell) for place, cell in enumerate(line)]
            for line in zip(*columns.values(), strict=True)
        ]
        if listed.n_rest:
            others = [f"{listed.n_rest} others", *[""] * (left - 1)]
            lines.append([*others, number(listed.rest_weight), "", number(listed.rest)])
        things.append(make_table([name.replace("_", " ") for name in columns], lines, left=left))
        rows = [dict(zip(columns, line, strict=True)) for line in zip(*columns.values(), strict=True)]
        rest = {"count": listed.n_rest, "weight": listed.rest_weight, "contribution": listed.rest}
        figures[f"{kind}s"] = {"listed": rows, "rest": rest}
    terminal.result(figures, *things)
