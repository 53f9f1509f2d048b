"""Grids and long tables are told apart, and no single slip turns one into the other."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dyadlearn._files.tables import read_cells
from dyadlearn._tables import Ids
from dyadlearn.cli.dyads import read_labels, shape_of
from dyadlearn.cli.options import Reading
from dyadlearn.cli.terminal import Terminal
from dyadlearn.exceptions import DataFileError, IdError

GRID = "id,y1,y2\n" + "".join(f"r{k},{k / 2},{k / 4}\n" for k in range(8))
PAIRS = "user,item,stars\n" + "".join(f"u{k // 2},i{k % 3},{k}\n" for k in range(8))
NUMBERS = "user,item,stars\n" + "".join(f"{k // 3},{10 + k % 3},{k}\n" for k in range(9))


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        # Two columns.
        ("id,y\na,1\nb,2\n", "grid"),
        # Three: grids.
        (GRID, "grid"),
        ("id,y1,y2\na,,1\nb,NA,2\n", "grid"),
        ("7,y1,y2\n1,0,1\n2,1,0\n3,1,1\n", "grid"),
        # One slip in them: a typing error, a dash, a decimal comma, a comparison, a repeated id.
        (GRID.replace("r3,1.5", "r3,1.5x"), "fault: .*line 5, column 'y1': '1.5x' is not a number"),
        (GRID.replace("r3,1.5", "r3,-"), "line 5, column 'y1': '-' is not"),
        (GRID.replace("r3,1.5", 'r3,"1,5"'), "'1,5' is not a number, write decimals with a point"),
        (GRID.replace("r3,1.5", "r3,<1"), "'<1' is not a number"),
        (GRID.replace("r3,1.5", "r3,1.5,0.75").replace("r3,1.5,0.75,0.75", "r2,1.5,0.75"), "the id 'r2' stands in"),
        ("id,y1,y2\n1,0,1\n1,1,0\n2,1,1\n", "the id '1' stands in the lines 2 and 3"),
        # Many slips of one kind, too.
        ('id;y1;y2\na;1,5;3\nb;2,5;4\nc;"3,5";5\n', "'1,5' is not a number, write decimals with a point"),
        ("id;y1;y2;y3\na;-2,3e-05;1;2\n", r"'-2,3e-05' is not a number, write decimals with a point\. Correct that"),
        ("id,y1,y2\na,n.d.,3\nb,n.d.,4\n", "'n.d.' is not a number"),
        ("id,y1,y2\na,x,3\n", "'x' is not a number"),
        ("id,y1,y2\na,0.5,1\na,0.6,1\nb,0.7,2\nb,0.4,2\n", "the id 'a' stands in"),
        ("id,y1,y2\na,1,1\na,1,1\nb,1,2\nb,0,2\n", "the id 'a' stands in"),
        # Long tables, with and without headings, of texts and of numbers.
        (PAIRS, "long"),
        (PAIRS.partition("\n")[2], "long"),
        ("user,item,stars\na,p,5\nb,q,4\n", "long"),
        ("user,item,stars\na,50-02-2,5\nb,1.1.1.1,4\n", "long"),
        (NUMBERS, "long"),
        (NUMBERS.partition("\n")[2], "long"),
        (NUMBERS.replace(",10,", ",x10,"), "long"),
        # One slip in them.
        (PAIRS.replace("u1,i2", "u1,12"), "long"),
        (PAIRS.replace("u1,i2", "u1,"), "may be a grid of the tasks 'item', 'stars' or a long table"),
        (NUMBERS.replace("1,11,4", "1,10,4"), "may be a grid"),
        # Four: grids, or long tables whose columns want names.
        ("id,y1,y2,y3\na,1,2,3\nb,4,5,6\n", "grid"),
        ("u,i,r,time\na,i998,5,1\nb,i9,4,1\n", r"'i998' is not a number\. .*--columns u,i,r\."),
        ("u,i,r,time\n1,10,5,1\n1,11,4,2\n", r"the id '1' stands in .*--columns u,i,r\."),
        ("1,10,5,99\n1,11,4,98\n1,12,4,98\n", r"the id '1' stands in .* after putting a line of headings above"),
    ],
)
def test_grid_or_long(tmp_path, text, shape):
    path = tmp_path / "l.csv"
    path.write_text(text)
    if shape in ("grid", "long"):
        assert shape_of(read_cells(path)) == shape
    else:
        with pytest.raises(DataFileError, match=shape):
            shape_of(read_cells(path))


def test_the_options_decide(tmp_path):
    path = tmp_path / "l.csv"
    path.write_text(GRID.replace("r3,1.5", "r3,1.5x"))
    with pytest.raises(DataFileError, match=r"l\.csv, line 5, column 'y1': '1.5x' is not a number\.$"):
        read_labels(path, Reading(format="grid"), Terminal(quiet=True))
    assert read_labels(path, Reading(format="long"), Terminal(quiet=True)).values.shape == (8, 8)


def test_the_ids_of_the_tasks_decide(tmp_path):
    path = tmp_path / "l.csv"
    path.write_text("user,item,stars\n1,10,5\n2,11,4\n3,10,3\n")
    assert shape_of(read_cells(path)) == "grid"
    assert shape_of(read_cells(path), Ids(("10", "11", "12"))) == "long"
    assert shape_of(read_cells(path), Ids(("item", "stars"))) == "grid"
    path.write_text(GRID.replace("r3,1.5", "r3,1.5x"))
    assert shape_of(read_cells(path), Ids(("y1", "y2", "y3"))) == "grid"


def test_a_grid_that_could_be_long_is_told(tmp_path):
    path = tmp_path / "l.csv"
    path.write_text("user,item,stars\n1,10,5\n2,11,4\n3,12,3\n")
    for options, notes in ((Reading(), 1), (Reading(format="grid"), 0)):
        terminal = Terminal(quiet=True)
        assert read_labels(path, options, terminal).column_ids.labels == ("item", "stars")
        assert sum("add --format long" in note for note in terminal.notes) == notes


def test_first_lines_of_long_tables(tmp_path):
    path = tmp_path / "l.csv"
    path.write_text(PAIRS.partition("\n")[2])
    grid = read_labels(path, Reading(), Terminal(quiet=True))
    assert_array_equal(grid.values[0], [0, 1, np.nan])
    path.write_text(PAIRS.partition("\n")[2].replace("u0,i0,0", "u0,i0,0x"))
    with pytest.raises(DataFileError, match="first line: 'u0' and 'i0' look like a pair, but '0x' is not a number"):
        read_labels(path, Reading(), Terminal(quiet=True))
    path.write_text("0,1,2\n" + NUMBERS.partition("\n")[2])
    with pytest.raises(DataFileError, match="first line: '0', '1', '2' may be headings or a pair"):
        read_labels(path, Reading(format="long"), Terminal(quiet=True))
    path.write_text("1,10,5,99\n1,11,4,98\n")
    with pytest.raises(DataFileError, match="may be headings or a pair"):
        read_labels(path, Reading(columns="1,10,5"), Terminal(quiet=True))


@pytest.mark.parametrize(
    ("text", "options", "where"),
    [
        ("id,y1,y2\na,1,2\n ,3,4\n", {}, "line 3, column 'id'"),
        ("user,item,stars\na,p,1\n,q,2\n", {"format": "long"}, "line 3, column 'user'"),
        ("user,item,stars\na,p,1\nb,,2\n", {"columns": "user,item,stars"}, "line 3, column 'item'"),
    ],
)
def test_empty_ids_are_refused_everywhere(tmp_path, text, options, where):
    path = tmp_path / "l.csv"
    path.write_text(text)
    with pytest.raises(IdError, match=rf"l\.csv, {where}: the id is empty"):
        read_labels(path, Reading(**options), Terminal(quiet=True))
