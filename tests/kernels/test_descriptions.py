"""Several descriptions of one side: names, rows, ids, and what scikit-learn makes of them."""

import pickle

import numpy as np
import pandas
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from dyadlearn import Descriptions
from dyadlearn._tables import Ids, Table, write_table
from dyadlearn.exceptions import IdError, ModelFileError
from dyadlearn.kernels.descriptions import read_descriptions
from dyadlearn.store.container import Reader, Writer
from sweeps import lines, over

F = np.arange(15.0).reshape(5, 3)
K = np.add.outer(np.arange(5.0), 10 * np.arange(5.0))


def holder():
    return Descriptions({"f": F, "k": K})


def values(given):
    found = {name: table.values for name, table in given.tables.items()}
    return {
        name: table.toarray() if sparse.issparse(table) else np.asarray(table)
        for name, table in found.items()
    }


def test_what_it_is():
    given = holder()
    assert given.names == ("f", "k")
    assert given.shape == (5, 8)
    assert len(given) == given.n_first == 5
    assert given.places is None
    assert given.row_ids is None
    assert given.kind is None
    assert repr(given) == "Descriptions of 5 entities: f (3 columns), k (5 columns)"
    assert Descriptions([F, K]).names == ("1", "2")


@over(
    lines(
        "rows expected",
        ([3, 0], [3, 0]),
        (np.array([3, 3, -1]), [3, 3, 4]),
        (np.array([True, False, False, True, False]), [0, 3]),
        ((slice(3, None, -2), Ellipsis), [3, 1]),
        ([], []),
    )
)
def test_rows_are_taken_of_all_tables_and_columns_stay(rows, expected, library):
    given = Descriptions({"f": library.asarray(F), "k": library.asarray(K)})
    taken = given[rows]
    assert_array_equal(taken.places, expected)
    assert taken.n_first == 5
    assert len(taken) == len(expected)
    places = np.array(expected, dtype=int)
    for name, table in (("f", F), ("k", K)):
        found = taken.tables[name].values
        assert type(found) is type(library.asarray(F))
        assert_array_equal(library.to_numpy(found), table[places])
    # Rows of rows know their places among the first.
    assert_array_equal(taken[::-1].places, expected[::-1])


def test_rows_of_sparse_tables_stay_sparse():
    taken = Descriptions({"f": sparse.csr_array(F)})[[2, 0]]
    assert sparse.issparse(taken.tables["f"].values)
    assert_array_equal(values(taken)["f"], F[[2, 0]])


def test_rows_that_cannot_be_taken():
    for rows in (1, "f", np.int64(2), (0, 1), (slice(None), 1)):
        with pytest.raises(TypeError, match="by a slice, a mask or a list of positions, found"):
            holder()[rows]
    with pytest.raises(IndexError):
        holder()[[5]]
    with pytest.raises(IndexError):
        holder()[[True, False]]


@over(
    lines(
        "tables error words",
        ({}, ValueError, "There is no description in X: give at least one table."),
        (
            {"a": F, "b": F[:4]},
            ValueError,
            "must have one row for each entity, but 'a' has 5, 'b' has 4 rows",
        ),
        ({"a": F[:, 0]}, ValueError, r"X\['a'\] must have two dimensions, found 1"),
        ({"a": F, "b": 3.0}, ValueError, r"X\['b'\] must have two dimensions, found none"),
        ([F, F[0]], ValueError, r"X\['2'\] must have two dimensions, found 1"),
        ({1: F}, TypeError, "names of the descriptions in X must be text, found 1"),
        ({"$k": F}, ValueError, r"names that do not begin with \$, found '\$k'"),
        (
            {" ": F},
            ValueError,
            "descriptions in X must have names that do not begin with \\$, found ' '",
        ),
    )
)
def test_what_is_refused(tables, error, words):
    with pytest.raises(error, match=words):
        read_descriptions(tables, "X")
    with pytest.raises(error, match=words.replace("X", "tables")):
        Descriptions(tables)


def test_one_table_is_refused_as_a_holder():
    with pytest.raises(TypeError, match="a mapping or a list of tables, found ndarray"):
        Descriptions(F)


def test_what_is_one_table_and_what_are_several():
    plain = [
        F,
        F.tolist(),
        list(F),
        (1.0, 2.0),
        [],
        sparse.csr_array(F),
        pandas.DataFrame(F),
        Table(F),
        None,
        "text",
    ]
    for given in plain:
        assert read_descriptions(given, "X") is None
    several = [{"a": F}, [F], (F, K), [sparse.csr_array(F)], [pandas.DataFrame(F)], [Table(F)]]
    for given in several:
        assert len(read_descriptions(given, "X")) == 5
    made = holder()
    assert read_descriptions(made, "X") is made


def frames(kind, order):
    """Return features and a kernel with ids a to e, the kernel with its rows and columns in another order."""
    names = "abcde"
    turned = tuple(names[place] for place in order)
    kernel = K[np.ix_(order, order[::-1])]
    return (
        write_table(F, Ids(tuple(names)), Ids(tuple("xyz")), kind),
        write_table(kernel, Ids(turned), Ids(turned[::-1]), kind),
    )


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_are_brought_into_the_order_of_the_first_with_ids(kind):
    features, kernel = frames(kind, [3, 0, 4, 1, 2])
    given = Descriptions({"plain": F, "f": features, "k": kernel})
    assert given.row_ids.labels == tuple("abcde")
    assert given.kind == kind
    for name, expected in (("plain", F), ("f", F), ("k", K)):
        assert_array_equal(values(given)[name], expected)
    assert given.tables["k"].column_ids.labels == tuple("abcde")
    taken = given[[4, 1]]
    assert taken.row_ids.labels == ("e", "b")
    assert_array_equal(values(taken)["k"], K[[4, 1]])


def test_ids_that_differ():
    ids = list("abcde")
    with pytest.raises(IdError, match=r"The ids of X\['b'\] and X\['a'\] do not match"):
        read_descriptions(
            {"a": pandas.DataFrame(F, index=ids), "b": pandas.DataFrame(F, index=list("abcdf"))},
            "X",
        )
    # Whether the columns of a square table without ids should follow its rows, nobody knows.
    turned = pandas.DataFrame(K, index=ids[::-1])
    with pytest.raises(
        IdError,
        match=r"its columns, which have no ids, must be reordered too.* order 'a', 'b', 'c', …",
    ):
        read_descriptions({"a": pandas.DataFrame(F, index=ids), "k": turned}, "X")
    assert (
        len(
            Descriptions({"a": pandas.DataFrame(F, index=ids), "k": pandas.DataFrame(K, index=ids)})
        )
        == 5
    )


@over(lines("rows", [3, 0, 2], None))
def test_files_and_pickles_hold_it(rows):
    given = Descriptions(
        {"f": sparse.csr_array(F), "k.1": Table(K, Ids(tuple("abcde")), Ids(tuple("abcde")))}
    )
    given = given if rows is None else given[rows]
    writer = Writer()
    plain = writer.write(given, "side")
    for again in (Reader(writer.arrays).read(plain, "side"), pickle.loads(pickle.dumps(given))):
        assert again.names == given.names
        assert again.n_first == 5
        assert again.row_ids == given.row_ids
        assert_array_equal(again.places, given.places)
        assert_array_equal(values(again)["f"], values(given)["f"])
        assert_array_equal(values(again)["k.1"], values(given)["k.1"])


def test_a_forged_state_is_refused():
    state = holder()[[1, 2]].state()
    for wrong in (
        {"places": np.array([1, 5])},
        {"places": np.array([1])},
        {"tables": {}},
        {"tables": {"f": 3}},
        {"tables": {"f": Table(F[:2]), "g": Table(F[:2, 0])}, "places": None},
    ):
        with pytest.raises(ModelFileError):
            Descriptions.from_state({**state, **wrong}, "side")
