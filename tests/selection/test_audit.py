"""The audit of a split, against a loop that looks at every pair; and of cells of any number of sides."""

from itertools import chain, combinations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import cross_val_predict

from dyadlearn import MultiwayRidge, SettingKFold, audit
from dyadlearn.exceptions import IdError
from sweeps import covering, lines, over


def slow_settings(train, test):
    """Return the letter of each test pair, and whether it is in training itself."""
    instances = {i for i, _ in train}
    tasks = {j for _, j in train}
    pairs = {(i, j) for i, j in train}
    letters = {(True, True): "A", (False, True): "B", (True, False): "C", (False, False): "D"}
    return [letters[i in instances, j in tasks] for i, j in test], [
        (i, j) in pairs for i, j in test
    ]


tables = st.lists(st.tuples(st.integers(0, 6), st.sampled_from("uvwxyz")), min_size=1, max_size=25)


@settings(max_examples=30, deadline=None)
@given(train=tables, test=tables)
def test_settings_and_leaks_are_those_of_a_loop(train, test):
    letters, repeated = slow_settings(train, test)
    report = audit(train, test)
    assert report.settings.tolist() == letters
    assert report.is_repeated.tolist() == repeated
    assert report.counts == {letter: letters.count(letter) for letter in "ABCD"}
    assert sum(report.counts.values()) == report.n_test == len(test)
    assert report.n_train == len(train)
    assert report.setting == (letters[0] if len(set(letters)) == 1 else "mixed")
    assert report.n_repeated == report.n_leaks == sum(repeated)
    assert report.instances_seen == sum(letter in "AC" for letter in letters)
    assert report.tasks_seen == sum(letter in "AB" for letter in letters)
    assert report.n_harder == 0

    easier = {"A": "", "B": "AC", "C": "AB", "D": "ABC"}
    harder = {"A": "BCD", "B": "CD", "C": "BD", "D": ""}
    for claimed in "ABCD":
        report = audit(train, test, setting=claimed)
        leaks = [
            letter in easier[claimed] or (claimed == "A" and same)
            for letter, same in zip(letters, repeated, strict=True)
        ]
        assert report.is_leak.tolist() == leaks
        assert report.is_harder.tolist() == [letter in harder[claimed] for letter in letters]
        assert report.n_leaks == sum(leaks)
        assert ("does not hold" in report.message) == bool(report.n_leaks or report.n_harder)
        assert str(report).startswith(report.message)


@settings(max_examples=50, deadline=None)
@given(cells=st.lists(st.sampled_from(["train", "test", "both", "none"]), min_size=12, max_size=12))
def test_masks_are_tables_of_their_cells(cells):
    grid = np.array(["train", "test", *cells]).reshape(2, 7)
    train = np.isin(grid, ["train", "both"])
    test = np.isin(grid, ["test", "both"])
    by_mask = audit(train, test, "D")
    by_table = audit(np.argwhere(train), np.argwhere(test), "D")
    assert_array_equal(by_mask.settings, by_table.settings)
    assert repr(by_mask) == repr(by_table)


def test_tables_may_be_of_different_forms():
    train = [(1, "a"), (2, "b")]
    test = pl.DataFrame({"i": [1, 3], "j": ["b", "b"]})
    assert audit(train, test).settings.tolist() == ["A", "B"]
    assert audit(np.array([[1, 7]]), np.array([[1.0, 8.0]])).settings.tolist() == ["C"]
    with pytest.raises(IdError, match="differ in type"):
        audit(np.array([[1, 7]]), [("1", 7)])
    # Through floating point, these two would be one.
    assert audit(
        np.array([[2**53, 0]]), np.array([[2**53 + 1, 0]], dtype=np.uint64)
    ).settings.tolist() == ["B"]


@over(
    lines(
        "test setting message",
        ([(1, 1)], None, "The setting of 1 test pair is A."),
        ([(1, 1), (2, 2)], None, "The setting of 2 test pairs is mixed (1 A, 1 D)."),
        ([(2, 0), (3, 1)], "row", "Setting B holds for 2 test pairs."),
        (
            [(1, 1), (0, 0)],
            "A",
            "Setting A does not hold for 1 of 2 test pairs (2 A): 1 also in training (leak).",
        ),
        (
            [(2, 0), (1, 1), (2, 2)],
            "B",
            "Setting B does not hold for 2 of 3 test pairs (1 A, 1 B, 1 D): 1 with the instance in "
            "training (leak), "
            "1 with a new task (harder).",
        ),
        (
            [(0, 2), (1, 1), (2, 2), (3, 3)],
            "C",
            "Setting C does not hold for 3 of 4 test pairs (1 A, 1 C, 2 D): 1 with the task in "
            "training (leak), "
            "2 with a new instance (harder).",
        ),
        (
            [(0, 2), (1, 1), (2, 2)],
            "D",
            "Setting D does not hold for 2 of 3 test pairs (1 A, 1 C, 1 D): 2 with the instance "
            "(2) or the task (1) "
            "in training (leak).",
        ),
        (
            [(0, 2), (2, 1), (1, 1)],
            "A",
            "Setting A does not hold for 2 of 3 test pairs (1 A, 1 B, 1 C): 2 with a new instance "
            "or task (harder).",
        ),
    )
)
def test_the_verdict_is_one_sentence(test, setting, message):
    assert audit([(0, 0), (0, 1), (1, 0)], test, setting).message == message


def test_what_is_shown():
    report = audit([(0, 0), (0, 1), (1, 0)], [(1, 1), (2, 0), (1, 0)], "A")
    assert (
        repr(report)
        == "Audit(setting='mixed', claimed='A', A=2, B=1, C=0, D=0, n_repeated=1, n_leaks=1)"
    )
    assert str(report).splitlines()[1:] == [
        "  setting  new                    test pairs",
        "  A        only the pair                   2",
        "  B        instance                        1",
        "  C        task                            0",
        "  D        instance and task               0",
        "  3 training pairs, 1 test pair among them",
    ]


@over(
    lines(
        "train test message",
        ([(1, 1)], [], "test is empty"),
        (np.zeros((2, 2), dtype=bool), np.ones((2, 2), dtype=bool), "train is empty"),
        (
            np.ones((2, 2), dtype=bool),
            np.ones((2, 3), dtype=bool),
            r"found shapes \(2, 2\) and \(2, 3\)",
        ),
        (np.ones(2, dtype=bool), np.ones(2, dtype=bool), r"masks of the same grid"),
        ([(1, 1, 1)], [(1, 1)], "train must have two columns"),
        ([(1, 1), (1, 2)], [(1, 1), (1, None)], "train or test has a missing value in row 1"),
    )
)
def test_splits_that_are_none(train, test, message):
    with pytest.raises(ValueError, match=message):
        audit(train, test)


# --- networks, ids of two types ------------------------------------------------

edges = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12)


@settings(max_examples=30, deadline=None)
@given(train=edges, test=edges)
def test_a_network_is_audited_by_edges_and_nodes(train, test):
    nodes = {node for pair in train for node in pair}
    seen = {frozenset(pair) for pair in train}
    new = [[node not in nodes for node in pair] for pair in test]
    repeated = [frozenset(pair) in seen for pair in test]
    report = audit(train, test, network=True)
    assert report.settings.tolist() == ["ACBD"[2 * first + second] for first, second in new]
    assert report.is_repeated.tolist() == report.is_leak.tolist() == repeated
    for claimed, wanted in (("A", 0), ("B", 1), ("C", 1), ("D", 2)):
        report = audit(train, test, claimed, network=True)
        assert report.is_leak.tolist() == (
            repeated if claimed == "A" else [sum(pair) < wanted for pair in new]
        )
        assert report.is_harder.tolist() == [sum(pair) > wanted for pair in new]
        assert ("does not hold" in report.message) == bool(report.n_leaks or report.n_harder)


@over(
    lines(
        "test setting words",
        ([("b", "a")], "A", "1 also in training (leak)"),
        ([("x", "y")], "C", "1 with two new nodes (harder)"),
        ([("x", "a"), ("a", "c")], "D", "2 with one node (1) or both nodes (1) in training (leak)"),
        ([("x", "a")], "A", "1 with a new node (harder)"),
    )
)
def test_the_verdict_on_a_network_speaks_of_nodes(test, setting, words):
    report = audit([("a", "b"), ("c", "a")], test, setting, network=True)
    assert words in report.message
    assert "both nodes" in str(report)


@over(
    lines(
        "train test words",
        (
            np.array([[1, 2]]),
            np.array([["1", "9"]]),
            r"^Instances of train and test have ids that differ.*1 and '1'.*same type",
        ),
        (
            [("a", 2.0)],
            [("b", "2")],
            r"^Tasks of train and test have ids that differ in type or blanks only, such as 2\.0 "
            r"and '2'",
        ),
        ([("a", "x ")], [("b", "x")], r"^Tasks .*'x ' and 'x'"),
    )
)
def test_ids_that_differ_in_type_or_blanks_only_are_no_strangers(train, test, words):
    with pytest.raises(IdError, match=words):
        audit(train, test, "D")
    with pytest.raises(IdError, match=r"^Nodes of train and test"):
        audit(train, test, "D", network=True)


def test_nodes_of_two_types_are_refused_in_a_network():
    for call in (
        lambda: audit([(1, "2"), (2, "3")], [(2, "3")], network=True),
        lambda: next(SettingKFold("A", 2, network=True).split([(1, "2"), (2, "3")])),
    ):
        with pytest.raises(
            IdError, match="Instances and tasks of a network have ids that differ in type"
        ):
            call()


# --- cells of any number of sides ----------------------------------------------------------------

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "mother": RNG.integers(0, 9, 200),
        "father": RNG.integers(0, 8, 200).astype(str),
        "trial": RNG.choice(list("abcd"), 200),
    }
)
SETTINGS = list(chain.from_iterable(combinations(TABLE, k) for k in range(4)))


@over(covering(new=SETTINGS, shuffle=[True, False], strength=1))
def test_every_row_is_tested_once_and_new_sides_are_not_in_training(new, shuffle):
    folds = SettingKFold(new, 3, shuffle=shuffle, random_state=1 if shuffle else None)
    n_tested = np.zeros(200)
    splits = list(folds.split(TABLE))
    for train, test in splits:
        n_tested[test] += 1
        for name in new:
            assert not set(TABLE[name].iloc[train]) & set(TABLE[name].iloc[test])
        cells = [set(map(tuple, TABLE.iloc[rows].to_numpy())) for rows in (train, test)]
        assert not cells[0] & cells[1]
        found = audit(TABLE.iloc[train], TABLE.iloc[test], new)
        assert not found.is_leak.any()
        assert set(found.claimed) == set(new)
    assert_array_equal(n_tested, 1.0)
    assert folds.get_n_splits(TABLE) == len(splits)
    assert folds.get_n_splits() >= len(splits)


def test_refits_in_these_folds_are_the_hold_out_of_groups():
    y = RNG.normal(size=200)
    model = MultiwayRidge("mother + father", variances={"mother": 1.0, "father": 0.5})
    folds = SettingKFold(["mother"], 3, random_state=0)
    refitted = cross_val_predict(model, TABLE, y, cv=folds)
    fold_of = np.zeros(200, dtype=int)
    for number, (_, test) in enumerate(folds.split(TABLE)):
        fold_of[test] = number
    held_out = clone(model).fit(TABLE, y).holdout("mother", groups={"mother": fold_of})
    assert_allclose(refitted, held_out)


def test_groups_of_a_side_stay_together():
    family = TABLE["mother"].to_numpy() // 3
    folds = SettingKFold(("mother", "trial"), 2, random_state=0)
    for train, test in folds.split(TABLE, groups={"mother": family}):
        assert not set(family[train]) & set(family[test])


def test_audits_count_what_is_new():
    train = {"a": [1, 1, 2], "b": ["x", "y", "x"], "c": [0, 0, 0]}
    test = {"a": [2, 3, 2, 1], "b": ["y", "z", "x", "x"], "c": [0, 1, 0, 0]}
    found = audit(train, test, ["a", "b"])
    assert found.settings.tolist() == ["cell", "a + b + c", "cell", "cell"]
    assert found.counts == {"a + b + c": 1, "cell": 3}
    assert found.is_leak.tolist() == [True, False, True, True]
    assert found.is_harder.tolist() == [False, True, False, False]
    assert str(found).startswith("A new a + b does not hold for 4 of 4 test rows")
    cells = audit(train, test, ())
    assert cells.is_leak.tolist() == [False, False, True, True]
    assert audit(train, {"a": [2], "b": ["y"], "c": [0]}, ()).message == (
        "A new cell holds for 1 test row."
    )


def test_wrong_names_and_ids_are_refused():
    with pytest.raises(ValueError, match="no column 'd'"):
        list(SettingKFold(["d"]).split(TABLE))
    with pytest.raises(ValueError, match="which setting names"):
        audit(TABLE, TABLE, ["d"])
    with pytest.raises(IdError, match="'a' of train and test"):
        audit({"a": [1, 2]}, {"a": ["1"]}, ["a"])
    with pytest.raises(ValueError, match="A network has pairs of nodes"):
        SettingKFold(["a"], network=True)
    with pytest.raises(ValueError, match="levels of 'trial'.*found 4"):
        list(SettingKFold(["trial"], 5).split(TABLE))
