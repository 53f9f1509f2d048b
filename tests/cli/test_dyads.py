"""Labels and their sides: grids and long tables, matched by name, with every mismatch told."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from dyadlearn._files.tables import read_cells
from dyadlearn._tables import Ids
from dyadlearn.cli.commands import Tune
from dyadlearn.cli.dyads import read_dyads, read_groups, read_labels, shape_of
from dyadlearn.cli.options import LabelFile
from dyadlearn.cli.terminal import Terminal
from dyadlearn.exceptions import DataFileError, IdError
from sweeps import lines, over


def dyads(tables, terminal=None, **given):
    sides = {name: [str(given.pop(name, getattr(tables, name)))] for name in ("instances", "tasks")}
    labels = given.pop("labels", tables.labels)
    if "kernel" in given:
        given["kernel"] = [given["kernel"]]  # as typer gives what may be repeated
    command = Tune(labels=labels, output=Path("m.dyad"), **sides, **given)
    return read_dyads(command.labels, command, terminal or Terminal(quiet=True))


def test_entities_without_labels_are_left_out_and_counted(tables, put):
    put(tables.labels, tables.users[:5], tables.items[2:], tables.Y[:5, 2:])
    terminal = Terminal(quiet=True)
    found = dyads(tables, terminal)
    assert_array_equal(found.labels.values, tables.Y[:5, 2:])
    assert_array_equal(found.instances.values, tables.X[:5])
    assert_array_equal(found.tasks.values, tables.T[2:])
    assert found.labels.row_ids.labels == tuple(tables.users[:5])
    assert found.instances.column_ids.labels == ("age", "height", "mood")
    assert [note.partition(" in ")[0] for note in terminal.notes] == [
        "7 of 12 instances",
        "2 of 8 tasks",
    ]


def test_labels_without_their_entities_are_named(tables, put):
    put(tables.labels, tables.users, ["x", "y", *tables.items[2:]], tables.Y)
    message = r"items\.csv lacks 2 of the 8 tasks of .*labels\.csv: 'x', 'y'\. Its ids are such as"
    with pytest.raises(IdError, match=message):
        dyads(tables)


def test_the_nearest_id_is_named(tables, put):
    for own, known, hint in (
        ("P1", ["P10", "p1", "P11"], "p1"),
        ("u-0 1", ["u-0 2", "u0_1"], "u0_1"),
        ("user1", ["user01", "u1"], "user01"),
        ("user1", ["w1", "w3"], None),
    ):
        rest = tables.users[len(known) :]
        put(tables.instances, [*known, *rest], "abc", tables.X)
        expected = f"{own!r} (did you mean {hint!r}?)." if hint else f"{own!r}."
        for rows, words in (([own, *rest], "lacks 1 of"), ([own], "lacks all 1 instances")):
            put(tables.labels, rows, tables.items, tables.Y[: len(rows)])
            with pytest.raises(IdError, match=words) as caught:
                dyads(tables)
            assert expected in str(caught.value)


def test_files_without_headings(tables, put):
    put(tables.labels, tables.users, tables.items, np.arange(96.0).reshape(12, 8))
    for path in (tables.labels, tables.instances, tables.tasks):
        text = path.read_text()
        path.write_text(text.partition("\n")[2])
        with pytest.raises(DataFileError, match=rf"{path.name}, first line: '[ui]\d+' is an id"):
            dyads(tables)
        path.write_text(text)


def test_labels_on_their_side(tables, put):
    put(tables.labels, tables.items, tables.users, tables.Y.T)
    with pytest.raises(IdError, match="looks transposed.*--transpose"):
        dyads(tables)
    assert_array_equal(dyads(tables, transpose=True).labels.values, tables.Y)


def test_without_ids_the_order_counts(tables):
    path = tables.folder / "labels.npy"
    np.save(path, tables.Y[::-1, ::-1])
    terminal = Terminal(quiet=True)
    found = dyads(tables, terminal, labels=path)
    assert_array_equal(found.labels.values, tables.Y[::-1, ::-1])
    assert found.labels.row_ids.labels == tuple(tables.users[::-1])
    assert found.labels.column_ids.labels == tuple(tables.items[::-1])
    assert sum("are matched by their order" in note for note in terminal.notes) == 2
    np.save(path, tables.Y[:5])
    with pytest.raises(
        ValueError, match=r"users\.csv has 12 rows, but .*labels\.npy has 5 rows: without ids"
    ):
        dyads(tables, labels=path)


@pytest.mark.parametrize("heading", ["user,item,stars\n", ""], ids=["headings", "no headings"])
def test_long_tables_are_recognised(tables, heading):
    cells = [(i, j) for i in range(12) for j in range(8) if (i + j) % 3]
    lines = [f"{tables.users[i]},{tables.items[j]},{tables.Y[i, j]}\n" for i, j in cells]
    tables.labels.write_text(heading + "".join(lines))
    found = dyads(tables)
    missing = np.add.outer(np.arange(12), np.arange(8)) % 3 == 0
    order = [found.labels.column_ids.labels.index(item) for item in tables.items]
    rows = [found.labels.row_ids.labels.index(user) for user in tables.users]
    expected = np.where(missing, np.nan, tables.Y)
    assert_array_equal(found.labels.values[np.ix_(rows, order)], expected)
    assert_array_equal(found.instances.values[rows], tables.X)


def test_what_becomes_of_the_rows_is_told(tmp_path):
    path = tmp_path / "l.csv"
    path.write_text("time,user,item,stars\n1,a,p,5\n2,a,p,3\n3,b,q,\n5,b,q,2\n")
    terminal = Terminal(quiet=True)
    grid = read_labels(path, LabelFile(columns="user,item,stars"), terminal)
    assert_array_equal(grid.values, [[4, np.nan], [np.nan, 2]])
    assert terminal.notes == [
        f"1 of 4 rows of {path} lack a value and were dropped.",
        f"Averaged the repeated pairs of {path}: 1, 1 of them with different values.",
    ]
    filled = read_labels(path, LabelFile(columns="user,item,stars", fill=0.0), Terminal(quiet=True))
    assert_array_equal(filled.values, [[4, 0], [0, 2]])


@over(
    lines(
        "options message",
        (
            {"format": "long"},
            r"has 4 columns \('time', .*\).*name those of instance, task and value, such as by "
            r"--columns",
        ),
        ({"columns": "user,item"}, "--columns must name three columns"),
        ({"columns": "user,item,star"}, "no column 'star'"),
        ({"columns": "user,item,user"}, "--columns must name three columns"),
        ({"columns": "time,user,item"}, r"line 2, column 'item': 'p' is not a number"),
        (
            {"columns": "user,item,stars", "format": "grid"},
            "--columns names the columns of a long table",
        ),
        ({"format": "wide"}, "--format is grid or long, found 'wide'"),
    )
)
def test_long_tables_that_are_not(tmp_path, options, message):
    path = tmp_path / "l.csv"
    path.write_text("time,user,item,stars\n1,a,p,5\n")
    with pytest.raises(ValueError, match=message):
        read_labels(path, LabelFile(**options), Terminal(quiet=True))


def test_labels_that_are_none(tmp_path):
    path = tmp_path / "l.csv"
    for text, shape in (("id,p,q\na,,NA\n", None), ("id,p,q\na,b,\n", "long")):
        path.write_text(text)
        with pytest.raises(DataFileError, match=r"l\.csv holds no label"):
            read_labels(path, LabelFile(format=shape), Terminal(quiet=True))


def test_a_column_of_texts_may_hold_smiles(tables):
    path = tables.folder / "drugs.csv"
    rest = ": add --{0}-smiles smiles if it holds SMILES, or remove the column"
    for side, ids in (("instances", tables.users), ("tasks", tables.items)):
        for cells, hint in (
            (["CCO", ""], rest.format(side)),
            (["CCO", "1"], ""),
            (["0,5", "1,5"], ", write decimals with a point"),
        ):
            lines = [f"{name};7;{cells[place % 2]}" for place, name in enumerate(ids)]
            path.write_text("\n".join(["id;weight;smiles", *lines]) + "\n")
            with pytest.raises(DataFileError) as caught:
                dyads(tables, **{side: path})
            assert (
                str(caught.value)
                == f"{path}, line 2, column 'smiles': {cells[0]!r} is not a number{hint}."
            )


def test_what_cannot_be_read_is_left_out_with_its_labels(tables):
    path = tables.folder / "p.fa"
    texts = ["MKVL"[: i % 4 + 1] if i != 4 else "M1" for i in range(12)]
    path.write_text("".join(map(">{}\n{}\n".format, tables.users, texts)))
    options = {"instances": path, "kernel": "spectrum:k=1"}
    with pytest.raises(ValueError, match=r"Not valid: 1 of 12 .*: 'u4'"):
        dyads(tables, **options)
    with Terminal(quiet=True) as terminal:
        found = dyads(tables, terminal, drop_invalid=True, **options)
    assert_array_equal(found.labels.values, np.delete(tables.Y, 4, axis=0))
    ids = tuple(user for user in tables.users if user != "u4")
    assert found.labels.row_ids.labels == found.instances.row_ids.labels == ids
    assert found.instances.values.shape[0] == 11
    assert "'u4'" in terminal.notes[0]


def test_groups_are_matched_by_name(tables):
    path = tables.folder / "groups.csv"
    path.write_text("user,group\n" + "\n".join(f"u{i},{i % 3}" for i in reversed(range(12))))
    ids = dyads(tables).labels.row_ids
    assert_array_equal(read_groups(path, ids, "instances", {}), [str(i % 3) for i in range(12)])
    for text, words in (
        ("user,group\nu0,1\n", "no group for 11 of 12 instances, add them: 'u1'"),
        ("user,group,x\nu0,1,1\n", "must have two columns"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=words):
            read_groups(path, ids, "instances", {})


# Grids and long tables ---------------------------------------------------------------------------


GRID = "id,y1,y2\n" + "".join(f"r{k},{k / 2},{k / 4}\n" for k in range(8))
PAIRS = "".join(f"u{k // 2},i{k % 3},{k}\n" for k in range(8))
NUMBERS = "".join(f"{k // 3},{10 + k % 3},{k}\n" for k in range(9))


# The lines of a table, between spaces; what is told of it: its shape or a part of a sentence. A grid
# or a long table, with a slip: a typing error, a dash, a decimal comma, a comparison, a repeated id.
SHAPES = r"""
id,y a,1 b,2 | grid
GRID | grid
id,y1,y2 a,,1 b,NA,2 | grid
7,y1,y2 1,0,1 2,1,0 3,1,1 | grid
GRID r8,1.5x,0 | may be a grid .*line 10, column 'y1': '1.5x' is not a number
GRID r8,-,0 | line 10, column 'y1': '-' is not
GRID r8,"1,5",0 | '1,5' is not a number, write decimals with a point
GRID r8,<1,0 | '<1' is not a number
GRID r2,1.5,0 | the id 'r2' is repeated, in
id,y1,y2 1,0,1 1,1,0 2,1,1 | the id '1' is repeated, in lines 2 and 3
id;y1;y2 a;1,5;3 b;2,5;4 c;"3,5";5 | '1,5' is not a number, write decimals with a point
id;y1;y2;y3 a;-2,3e-05;1;2 | '-2,3e-05' is not a number, write decimals with a point\. Correct that
id,y1,y2 a,n.d.,3 b,n.d.,4 | 'n.d.' is not a number
id,y1,y2 a,x,3 | 'x' is not a number
id,y1,y2 a,0.5,1 a,0.6,1 b,0.7,2 b,0.4,2 | the id 'a' is repeated, in
id,y1,y2 a,1,1 a,1,1 b,1,2 b,0,2 | the id 'a' is repeated, in
user,item,stars PAIRS | long
PAIRS | long
user,item,stars a,p,5 b,q,4 | long
user,item,stars a,50-02-2,5 b,1.1.1.1,4 | long
user,item,stars NUMBERS | long
NUMBERS | long
user,item,stars NUMBERS 3,x10,9 | long
user,item,stars PAIRS u3,12,1 | long
user,item,stars PAIRS u3,,1 | may be a grid of the tasks 'item', 'stars' or a long table
user,item,stars NUMBERS 1,10,4 | may be a grid
id,y1,y2,y3 a,1,2,3 b,4,5,6 | grid
u,i,r,time a,i998,5,1 b,i9,4,1 | 'i998' is not a number\. .*--columns u,i,r\.
u,i,r,time 1,10,5,1 1,11,4,2 | the id '1' is repeated, in .*--columns u,i,r\.
1,10,5,99 1,11,4,98 1,12,4,98 | the id '1' is repeated, in .* by --columns 1,2,3\.
"""
# Where the tasks p, 1 and 2 are known: a list of one task, of one pair, and grids.
KNOWN = """
user,item,stars a,p,5 b,p,4 | long
user,item,stars a,p,5 | long
id,1,2 a,1,2 b,2,1 | grid
id,1,2 a,1,2 b,1,1 b,2,2 | the id 'b' is repeated, in lines 3 and 4
id,p,2 a,n.d.,3 b,n.d.,4 | 'n.d.' is not a number
user,item,stars a,p,5 b,,4 | may be a grid
"""


@pytest.mark.parametrize(("table", "known"), [(SHAPES, None), (KNOWN, Ids(("p", 1, "2")))])
def test_grid_or_long(tmp_path, each, table, known):
    path = tmp_path / "l.csv"
    for line in each(table.strip().splitlines()):
        text, _, shape = line.partition(" | ")
        for name, rows in (("GRID", GRID), ("PAIRS", PAIRS), ("NUMBERS", NUMBERS)):
            text = text.replace(name, rows.strip())
        path.write_text(text.replace(" ", "\n") + "\n")
        if shape in ("grid", "long"):
            assert shape_of(read_cells(path), known) == shape
        else:
            with pytest.raises(DataFileError, match=shape):
                shape_of(read_cells(path), known)


def test_the_files_of_both_sides_tell_a_list_of_one_task(tables):
    path = tables.folder / "list.csv"
    user = tables.users[3]
    item = tables.items[3]
    path.write_text("user,item,stars\n" + "".join(f"{each},{item},2\n" for each in tables.users))
    assert dyads(tables, labels=path).labels.column_ids.labels == (item,)
    path.write_text("item,user,stars\n" + "".join(f"{each},{user},2\n" for each in tables.items))
    assert dyads(tables, labels=path, transpose=True).labels.row_ids.labels == (user,)
    with pytest.raises(
        DataFileError, match="may be a grid of the tasks 'user', 'stars' or a long table"
    ):
        dyads(tables, labels=path)


def test_a_word_for_a_missing_number_that_may_be_an_id_is_named(tmp_path):
    path = tmp_path / "l.csv"
    path.write_text("user,item,stars\na,tea,2\nb,null,2\na,null,3\n")
    words = "'null' in line 3 may be a missing number or an id: correct that for a grid, or add"
    with pytest.raises(DataFileError, match=words):
        read_labels(path, LabelFile(), Terminal(quiet=True))
    grid = read_labels(path, LabelFile(format="long"), Terminal(quiet=True))
    assert grid.column_ids.labels == ("tea", "null")


def test_the_options_decide(tmp_path):
    path = tmp_path / "l.csv"
    path.write_text(GRID.replace("r3,1.5", "r3,1.5x"))
    with pytest.raises(
        DataFileError, match=r"l\.csv, line 5, column 'y1': '1.5x' is not a number\.$"
    ):
        read_labels(path, LabelFile(format="grid"), Terminal(quiet=True))
    assert read_labels(path, LabelFile(format="long"), Terminal(quiet=True)).values.shape == (8, 8)


def test_a_grid_that_could_be_long_is_told(tmp_path):
    path = tmp_path / "l.csv"
    path.write_text("user,item,stars\n1,10,5\n2,11,4\n3,12,3\n")
    for options, known, notes in (
        (LabelFile(), None, 1),
        (LabelFile(), Ids(("item", "stars")), 0),
        (LabelFile(format="grid"), None, 0),
    ):
        terminal = Terminal(quiet=True)
        assert read_labels(path, options, terminal, known=known).column_ids.labels == (
            "item",
            "stars",
        )
        assert sum("add --format long" in note for note in terminal.notes) == notes


FIRST = """
u0,i0,0x u0,i1,1 u1,i2,2 | 'u0' and 'i0' look like a pair, but '0x' is not
0,1,2 NUMBERS | '0', '1', '2' may be headings or a pair
1,10,5,99 1,11,4,98 | '1', '10', '5', '99' may be headings or a pair
1,2,3,99 1,11,4,98 | '1', '2', '3', '99' may be headings or a pair
"""


def test_first_lines_of_long_tables(tmp_path, each):
    path = tmp_path / "l.csv"
    path.write_text(PAIRS)
    grid = read_labels(path, LabelFile(), Terminal(quiet=True))
    assert_array_equal(grid.values[0], [0, 1, np.nan])
    for line in each(FIRST.strip().splitlines()):
        text, _, message = line.partition(" | ")
        path.write_text(text.replace("NUMBERS", NUMBERS.strip()).replace(" ", "\n") + "\n")
        columns = ",".join(text.split()[0].split(",")[:3]) if "99" in text else None
        options = LabelFile(format="long", columns=columns)
        with pytest.raises(DataFileError, match=f"first line: {message}"):
            read_labels(path, options, Terminal(quiet=True))


def test_long_tables_without_headings(tmp_path):
    """Ratings of MovieLens: user, item, rating and time, with tabs and no headings."""
    path = tmp_path / "u.data"

    def read(**options):
        return read_labels(path, LabelFile(**options), Terminal(quiet=True))

    path.write_text(
        "196\t242\t3\t881250949\n186\t302\t3\t891717742\n196\t302\t1\t878887116\n186\t242\t5\t1\n"
    )
    grid = read(columns="1,2,3")
    assert (grid.row_ids.labels, grid.column_ids.labels) == (("196", "186"), ("242", "302"))
    assert_array_equal(grid.values, [[3, 1], [5, 3]])
    assert read(columns="2,1,4").values[0, 0] == 881250949
    for options, words in (
        ({}, "--columns 1,2,3"),
        ({"format": "long"}, "--columns 1,2,3"),
        ({"columns": "1,2,5"}, r"no column '5': .* 4 columns"),
    ):
        with pytest.raises(ValueError, match=words):
            read(**options)
    # Numbers of columns go with headings too.
    path.write_text("user\ttime\titem\tstars\nu0\t1\ti0\t4\nu1\t2\ti0\t5\n")
    grid = read(columns="1,3,4")
    assert grid.row_ids.labels == ("u0", "u1")
    assert_array_equal(grid.values, [[4], [5]])


def test_names_of_columns_that_are_numbers(tmp_path):
    """A parquet file always has names of columns."""
    path = tmp_path / "l.parquet"
    pytest.importorskip("pyarrow")
    lines = {"0": ["u0", "u0", "u1"], "1": ["i0", "i1", "i1"], "2": [1.0, 2.0, 3.0]}
    pd.DataFrame(lines).to_parquet(path)
    grid = read_labels(path, LabelFile(), Terminal(quiet=True))
    assert_array_equal(grid.values, [[1, 2], [np.nan, 3]])


@over(
    lines(
        "text options where",
        ("id,y1,y2\na,1,2\n ,3,4\n", {}, "line 3, column 'id'"),
        ("user,item,stars\na,p,1\n,q,2\n", {"format": "long"}, "line 3, column 'user'"),
        ("user,item,stars\na,p,1\nb,,2\n", {"columns": "user,item,stars"}, "line 3, column 'item'"),
    )
)
def test_empty_ids_are_refused_everywhere(tmp_path, text, options, where):
    path = tmp_path / "l.csv"
    path.write_text(text)
    with pytest.raises(IdError, match=rf"l\.csv, {where}: the id is empty"):
        read_labels(path, LabelFile(**options), Terminal(quiet=True))
