"""``dyadlearn explain``: which training labels one prediction comes from."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dyadlearn import explain as explained
from dyadlearn._files.tables import write_columns
from dyadlearn.cli import options
from dyadlearn.cli.entities import n_entities, take_rows
from dyadlearn.cli.models import Loaded, ModelFile
from dyadlearn.cli.options import check_beside
from dyadlearn.cli.terminal import Terminal, as_rows, column_table, number
from dyadlearn.exceptions import IdError

__all__ = ["explain"]

_KINDS = ("pair", "instance", "task")


def explain(
    source: ModelFile,
    *,
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
    instances_smiles: options.SmilesOfInstances = None,
    tasks_smiles: options.SmilesOfTasks = None,
    target: options.TableOutput,
    terminal: Terminal,
) -> None:
    """Tell which training labels a prediction comes from: by pair, by instance and by task, each summing to it.

    For example:

        dyadlearn explain model.dyad --instance hsa2099 --task D00348

        dyadlearn explain model.dyad --new-instance new_targets.csv --instance hsa5468 --task D00348 --json
    """
    check_beside(new_instance, "--new-instance", "instances_smiles")
    check_beside(new_task, "--new-task", "tasks_smiles")
    loaded = source.load()
    kind = loaded.role(by, "--by", ("instance", "task"), "pair") or by
    check_beside(target.output, "--output", "by")
    asked = (
        _asked(loaded, 0, instance, new_instance, instances_smiles, terminal),
        _asked(loaded, 1, task, new_task, tasks_smiles, terminal),
    )
    with terminal.working("Weighing labels"):
        found = explained(loaded.model, *asked, top=top, sides=loaded.sides)
    if found.note:
        terminal.note(found.note)
    same = ("instance", "task", "setting", "prediction", "label")
    figures: dict[str, Any] = {name: getattr(found, name) for name in same}
    if target.output is not None:
        write_columns(target.output, found.columns(kind))
        terminal.result({**figures, "output": str(target.output)})
        terminal.say(f"Wrote {len(found.by(kind))} rows to {target.output}.")
        return
    tables = []
    for kind in _KINDS[:2] if found.is_network else _KINDS:
        columns, listed = found.columns(kind), found.by(kind)
        left = len(columns) - 3
        others = [f"{listed.n_rest} others", *[""] * (left - 1), number(listed.rest_weight), "", number(listed.rest)]
        headings = [name.replace("_", " ") for name in columns]
        tables.append(column_table(columns, left, headings, [others] if listed.n_rest else []))
        rest = {"count": listed.n_rest, "weight": listed.rest_weight, "contribution": listed.rest}
        figures[f"{kind}s"] = {"listed": as_rows(columns), "rest": rest}
    title = f"{number(found.prediction)} is predicted for {found.subject}, which comes from:"
    terminal.result(figures, title, *tables)


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
        how = {"smiles": smiles, "smiles_option": f"--{word}s-smiles", "asked": None if wanted is None else [wanted]}
        rows = loaded.new(given, side, f"--new-{word}", terminal, **how)
        if wanted is not None and rows.row_ids is not None:
            return take_rows(rows, rows.row_ids.positions([wanted], given[0]))
        if n_entities(rows) != 1:
            raise ValueError(f"{given[0]} has {n_entities(rows)} rows: say which {word} is meant by --{word}.")
        return rows
    if wanted is None:
        raise ValueError(f"Say which {word} is meant: give --{word}, an id of training, or --new-{word}, a file.")
    if ids is None or own is None:
        if not wanted.isdecimal():
            raise IdError(f"The model has no ids for {word}s: --{word} is a position from 0, found {wanted!r}.")
        return int(wanted)
    return own.labels[int(ids.positions([wanted], f"the {loaded.names.both[side]}")[0])]
