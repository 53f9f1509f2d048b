"""Frames in, frames out: ids are read, matched by label and written back."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from dyadlearn import TwoStepRidge, load, save
from dyadlearn._tables import Ids, in_rows_of, make_ids, read_table, write_table
from dyadlearn.exceptions import IdError
from sweeps import every, lines, over

VALUES = np.arange(6.0).reshape(3, 2)


def polars_frame(ids=None):
    columns = {"f": VALUES[:, 0], "g": VALUES[:, 1]}
    return pl.DataFrame(columns if ids is None else {"name": ids, **columns})


def pandas_frame(index=("a", "b", "c")):
    return pd.DataFrame(VALUES, index=pd.Index(list(index), name="name"), columns=["f", "g"])


# --- ids ---------------------------------------------------------------------------------------


def test_unknown_ids_are_named_with_a_few_known_ones():
    ids = Ids(tuple("abcdef"))
    with pytest.raises(
        IdError, match=r"^'x', 'y' not among the ids of X \(such as 'a', 'b', 'c', …\)\.$"
    ):
        ids.positions(["a", "x", "y", "x"], "X")


@over(every(labels=[("b", "c", "a"), (30, 10, 20), (("u", 1), ("u", 2), ("t", 1))]))
def test_order_as_brings_ids_into_the_order_of_the_target(labels):
    target = tuple(sorted(labels))
    order = Ids(labels).order_as(Ids(target), "X", "Y")
    assert [labels[position] for position in order] == list(target)


def test_ids_that_do_not_match_are_counted_and_a_few_are_shown():
    own = Ids(tuple("abcdefgh"))
    other = Ids(("h", "z"))
    with pytest.raises(IdError) as caught:
        own.order_as(other, "X", "the rows of Y")
    assert str(caught.value) == (
        "The ids of X and the rows of Y do not match: 1 only in the rows of Y ('z'); 7 only in X "
        "('a', 'b', 'c', 'd', 'e', …). Give both tables the same ids, in any order."
    )


def test_repeated_ids_are_named_once_each():
    with pytest.raises(
        IdError,
        match=r"^The index of X has repeated ids: 'b', 'a' \(2 of 3 ids\): aggregate or rename "
        r"them\.$",
    ):
        make_ids(["a", "b", "b", "b", "a", "c"], None, "The index of X")


# --- reading -----------------------------------------------------------------------------------


def test_pandas_numbers_are_ids_too():
    table = read_table(pd.DataFrame(VALUES, index=[30, 10, 20], columns=[5, 4]), "X")
    assert table.row_ids.labels == (30, 10, 20)
    assert table.column_ids.labels == (5, 4)
    assert all(type(label) is int for label in (*table.row_ids.labels, *table.column_ids.labels))


@over(every(dtype=[pl.Categorical, pl.Enum(["c", "b", "a"])]))
def test_polars_categories_are_text(dtype):
    frame = polars_frame(["a", "b", "c"]).with_columns(pl.col("name").cast(dtype))
    assert read_table(frame, "X").row_ids == Ids(("a", "b", "c"), "name")


@over(
    every(
        frame=[
            pd.DataFrame({"name": ["a", "b"], "f": [1.0, 2.0]}),
            pd.DataFrame({"f": [1.0, 2.0], "name": pd.Categorical(["a", "b"])}),
            pl.DataFrame({"f": [1.0, 2.0], "name": ["a", "b"]}),
            pl.DataFrame({"id": ["u", "v"], "name": ["a", "b"], "f": [1.0, 2.0]}),
        ]
    )
)
def test_text_among_the_values_is_refused(frame):
    with pytest.raises(
        ValueError,
        match=r"^tasks holds text \(such as 'a'\) in column 'name': expected numbers\. Put ids in "
        r"the index",
    ):
        read_table(frame, "tasks")


@over(
    lines(
        "table sentence",
        (pandas_frame("aab"), "The index of X has repeated ids: 'a'"),
        (polars_frame(["a", "b", "a"]), "Column 'name' of X has repeated ids: 'a'"),
        (pd.Series([1.0, 2.0], index=[3, 3]), "The index of X has repeated ids: 3"),
        (pd.DataFrame(VALUES, columns=["f", "f"]), "columns of X .*repeated ids: 'f'"),
    )
)
def test_repeated_ids_are_refused(table, sentence):
    with pytest.raises(IdError, match=sentence):
        read_table(table, "X")


def test_features_may_have_names_of_any_kind(tmp_path):
    rng = np.random.default_rng(0)
    wavelengths = [400.0, 400.5, 401.25]
    spectra = pd.DataFrame(rng.normal(size=(6, 3)), index=list("abcdef"), columns=wavelengths)
    dated = spectra.set_axis(pd.date_range("2020", periods=3), axis=1)
    labels = pd.DataFrame(rng.normal(size=(6, 2)), index=spectra.index, columns=["t", "u"])
    plain = TwoStepRidge().fit(spectra.to_numpy(), labels.to_numpy()).predict(spectra.to_numpy())
    for X in (spectra, dated):
        model = TwoStepRidge().fit(X, labels)
        save(model, tmp_path / "model.dyad")
        for each in (model, load(tmp_path / "model.dyad")):
            np.testing.assert_allclose(each.predict(X), plain, rtol=1e-12)
    assert read_table(spectra, "X").column_ids.labels == ("400.0", "400.5", "401.25")
    with pytest.raises(IdError, match=r"The columns of Y has the id 400.0 of type float"):
        TwoStepRidge().fit(spectra, spectra)
    with pytest.raises(IdError, match=r"The index of X has the id 0.5 of type float"):
        TwoStepRidge().fit(spectra.set_axis([0.5, 1.5, 2.5, 3.5, 4.5, 5.5]), labels)


# --- reordering --------------------------------------------------------------------------------

ROWS = np.array([2, 0, 1])
COLUMNS = np.array([1, 0])


@over(every(frame={"pandas": pandas_frame(), "polars": polars_frame(["a", "b", "c"])}))
def test_take_reorders_values_and_ids_together(frame):
    table = read_table(frame, "X").take(ROWS, COLUMNS)
    assert_array_equal(np.asarray(table.values), VALUES[np.ix_(ROWS, COLUMNS)])
    assert table.row_ids == Ids(("c", "a", "b"), "name")
    assert table.column_ids.labels == ("g", "f")
    assert type(table.values) is type(frame)
    assert_array_equal(np.asarray(read_table(frame, "X").take(ROWS).values), VALUES[ROWS])
    assert_array_equal(
        np.asarray(read_table(frame, "X").take(None, COLUMNS).values), VALUES[:, COLUMNS]
    )


# --- writing -----------------------------------------------------------------------------------


@over(
    lines(
        "kind rows columns",
        ("pandas", Ids(("a", "b", "c"), "name"), Ids(("f", "g"))),
        ("pandas", Ids((3, 1, 2), "instance"), Ids((10, 20), "task")),
        ("polars", Ids(("a", "b", "c"), "name"), Ids(("f", "g"))),
    )
)
def test_a_written_table_reads_back(kind, rows, columns):
    table = read_table(write_table(VALUES, rows, columns, kind), "the answer")
    assert table.kind == kind
    assert table.row_ids == rows
    assert table.column_ids == columns
    assert_array_equal(np.asarray(table.values), VALUES)


def test_a_task_named_as_the_column_of_ids_takes_nothing_away():
    frame = write_table(VALUES, Ids(("a", "b", "c")), Ids(("id", "g")), "polars")
    table = read_table(frame, "the answer")
    assert table.row_ids is not None
    assert table.row_ids.labels == ("a", "b", "c")
    assert_array_equal(table.values.to_numpy(), VALUES)


def test_ids_that_are_the_same_as_text_are_never_merged_in_frames_of_text():
    values = np.arange(4.0).reshape(2, 2)
    ids = Ids((1, "1"))
    for rows, columns in ((ids, None), (None, ids)):
        with pytest.raises(
            IdError, match=r"^The (rows|columns) have the ids 1 and '1', which are the same"
        ):
            write_table(values, rows, columns, "polars")
        assert write_table(values, rows, columns, "pandas").shape == (2, 2)
    assert write_table(values, Ids((1, "a")), None, "polars").columns == ["id", "0", "1"]


# --- values of the rows of a long table --------------------------------------------------------

MATCHED = [1.0, 2.0, 3.0]


@over(
    lines(
        "values index expected",
        (pd.Series(MATCHED, list("cab")), list("cab"), MATCHED),
        # The default index goes by position, unless the other has the same ids.
        (pd.Series(MATCHED), list("abc"), MATCHED),
        (pd.Series(MATCHED, list("abc")), None, MATCHED),
        (pd.Series(MATCHED, ["a", "a", "b"]), ["a", "a", "b"], MATCHED),
        (MATCHED, list("abc"), MATCHED),
        (pl.Series(MATCHED), list("abc"), MATCHED),
    )
)
def test_series_go_with_the_rows_of_a_frame(values, index, expected):
    frame = pd.DataFrame({"u": list("xyz"), "v": list("pqp")}, index)
    assert list(in_rows_of(values, frame, "y", "pairs")) == expected
    columns = {"u": frame["u"], "v": ["p", "q", "p"]}
    assert list(in_rows_of(values, columns, "y", "pairs")) == expected
    assert in_rows_of(values, frame.to_numpy(), "y", "pairs") is values


@over(
    lines(
        "index words",
        (
            list("abd"),
            r"the index of y and the index of pairs .* 1 only in the index of pairs .*pass y.to_numpy",
        ),
        (list("aab"), "the index of y and the index of pairs"),
        (list("cab"), "The index of y has the ids of pairs in another order"),
    )
)
def test_series_of_other_rows_are_refused(index, words):
    frame = pd.DataFrame({"u": list("xyz"), "v": list("pqp")}, list("abc"))
    with pytest.raises(IdError, match=words):
        in_rows_of(pd.Series(MATCHED, index), frame, "y", "pairs")
