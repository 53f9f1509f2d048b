"""Whether a table of labels is a grid or a long table; where a slip could turn one into the other, nobody guesses."""

from __future__ import annotations

import re
from typing import Any

from dyadlearn._files.packed import parse_number
from dyadlearn._files.tables import Cells, id_text, is_missing
from dyadlearn._tables import Ids, shown
from dyadlearn.exceptions import DataFileError

__all__ = ["could_be_long", "is_number", "shape_of"]

# Numbers as people write them and programs do not, such as <5, 1,5, 1'000 and 3 %, or dashes for nothing: no ids.
_NEARLY_A_NUMBER = re.compile(r"[<>=~≤≥≈±]*\s*[-+−]?\s*\d+(?:[ .,'_]\d{3})*(?:[.,]\d+)?\s*%?|[-–—.*/#]+")
_WHOLE = re.compile(r"[0-9]+")


def is_number(cell: Any) -> bool:
    """Tell whether a cell can be one of a grid: a number, or a missing one."""
    if is_missing(cell):
        return True
    try:
        parse_number(cell) if isinstance(cell, str) else float(cell)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def shape_of(cells: Cells, tasks: Ids | None = None) -> str:
    """Tell whether a table is a "grid" or "long"; refuse to guess where a single slip could decide.

    A grid has numbers in all columns but that of the ids, which are all different. A long table has ids in its first
    two columns and numbers in its third. In the order in which they are asked:

    1. The tasks, where they are known: they are the headings of a grid, or stand in the second column of a long table.
    2. A table that is a grid without fault is one.
    3. One of three columns is long if its second column has texts only, of several kinds or beside repeated ids, none
       of which is nearly a number; or if the ids of its first column stand there twice on average, those of its second
       are whole numbers or texts, and no pair stands twice.

    Anything else may be a grid with a typing error, or a long table: it is refused with its first fault as a grid and
    with how to go on.

    Parameters
    ----------
    cells : Cells
    tasks : Ids or None
        The ids of all tasks.
    """
    has_three = len(cells.headings) == 3
    if has_three and tasks is not None and (known := _shape_by_tasks(cells, tasks)):
        return known
    fault = _fault_of_grid(cells)
    if fault is None or len(cells.headings) < 3:
        return "grid"
    if has_three and _is_surely_long(cells):
        return "long"
    if has_three:
        raise DataFileError(
            f"{cells.path} may be a grid of the tasks {shown(cells.headings[1:])} or a long table of instance, task "
            f"and value. As a grid it has a fault: {fault}. Correct that, or say what it is by --format grid or "
            "--format long."
        )
    names = f"--columns {','.join(cells.headings[:3])}"
    if any(map(is_number, cells.headings[1:3])):
        names = "--columns, after putting a line of headings above them"
    raise DataFileError(
        f"{fault}. Correct that; or, if {cells.path} is no grid but has an instance, a task and a value in each line, "
        f"name their columns, such as by {names}."
    )


def could_be_long(cells: Cells) -> bool:
    """Tell whether a grid without fault would make a long table too: each instance once, and tasks that are numbers."""
    second = [id_text(line[1]) for line in cells.lines] if len(cells.headings) == 3 else []
    return len(set(second)) > 2 and all(map(_WHOLE.fullmatch, second))


def _shape_by_tasks(cells: Cells, tasks: Ids) -> str | None:
    known = {id_text(label) for label in tasks.labels}
    listed = sum(id_text(line[1]) in known for line in cells.lines)
    if known.issuperset(cells.headings[1:]) and not listed:
        return "grid"
    return "long" if not known & set(cells.headings) and listed > len(cells.lines) / 2 else None


def _fault_of_grid(cells: Cells) -> str | None:
    """Return the first thing that a grid must not have, None where there is none."""
    # Ids stand in the first column or, as pandas writes them, in the last; texts in between are those of a long table.
    place = cells.id_place if cells.id_place == len(cells.headings) - 1 else 0
    lines: dict[str, int] = {}
    for number, line in zip(cells.numbers, cells.lines, strict=True):
        label = id_text(line[place])
        if label in lines:
            return f"{cells.path}: the id {label!r} stands in the lines {lines[label]} and {number}"
        lines[label] = number
    for row, line in enumerate(cells.lines):
        for column, cell in enumerate(line):
            if column != place and not is_number(cell):
                return f"{cells.where(row, column)}: {cell!r} is not a number"
    return None


def _is_surely_long(cells: Cells) -> bool:
    """Tell whether no few typing errors can have made this table of three columns out of a grid."""
    if any(is_missing(line[1]) for line in cells.lines):
        return False
    first, second = ([id_text(line[place]) for line in cells.lines] for place in (0, 1))
    n, n_ids = len(first), len(set(first))
    if not any(is_number(label) or _NEARLY_A_NUMBER.fullmatch(label) for label in second):
        return n > 1 and (len(set(second)) > 1 or n_ids < n)
    are_ids = all(_WHOLE.fullmatch(label) or not is_number(label) for label in second)
    return are_ids and n > 3 and n >= 2 * n_ids and len(set(zip(first, second, strict=True))) == n
