"""Folds of pairs: every pair tested once, nothing in training that the setting forbids."""

from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.dummy import DummyRegressor
from sklearn.model_selection import GridSearchCV, cross_val_predict

import problems
from dyadlearn import IndependentTaskRidgeCV, load, save
from dyadlearn.exceptions import IdError
from dyadlearn.holdout.splitters import SettingKFold
from dyadlearn.selection.audit import audit
from sweeps import covering, every, lines, over


def full_table(m, q):
    return [(f"instance {i}", f"task {j}") for i in range(m) for j in range(q)]


def random_table(n, m, q):
    """Pairs in any order, some of them twice."""
    rng = default_rng(0)
    return np.column_stack([rng.integers(m, size=n), rng.integers(q, size=n)])


def forbidden(setting, pair, test):
    """Tell, by looking, whether `pair` may not be trained on beside the pairs of `test`."""
    instances = {row[0] for row in test}
    tasks = {row[1] for row in test}
    return {
        "A": pair in test,
        "B": pair[0] in instances,
        "C": pair[1] in tasks,
        "D": pair[0] in instances or pair[1] in tasks,
    }[setting]


@over(lines("m q n_splits", (7, 5, 2), (5, 9, 5)))
@over(every(setting="ABCD", shuffle=[True, False]))
def test_training_is_all_that_the_setting_allows(setting, shuffle, m, q, n_splits):
    pairs = full_table(m, q)
    folds = SettingKFold(setting, n_splits, shuffle=shuffle, random_state=1 if shuffle else None)
    tested = Counter()
    unused = []
    for train, test in folds.split(pairs):
        held_out = {pairs[row] for row in test}
        allowed = [row for row, pair in enumerate(pairs) if not forbidden(setting, pair, held_out)]
        assert train.tolist() == allowed
        tested.update(test.tolist())
        unused.append(len(pairs) - len(train) - len(test))
    assert tested == Counter(range(len(pairs)))
    assert (
        len(unused)
        == folds.get_n_splits()
        == folds.get_n_splits(pairs)
        == n_splits ** (2 if setting == "D" else 1)
    )
    assert folds.n_unused(pairs).tolist() == unused
    assert all(count > 0 for count in unused) == (setting == "D")
    # Folds are as large as the others, or one larger.
    axis = {"B": 0, "C": 1}.get(setting)
    sizes = [
        len(test if axis is None else {pairs[row][axis] for row in test})
        for _, test in folds.split(pairs)
    ]
    assert setting == "D" or max(sizes) - min(sizes) <= 1


@over(every(setting="ABCD"))
def test_a_grid_is_split_as_the_table_of_its_cells(setting):
    m = 6
    q = 5
    folds = SettingKFold(setting, 3, random_state=3)
    in_table = list(folds.split(full_table(m, q)))
    in_grid = list(folds.split_grid(m, q))
    assert len(in_table) == len(in_grid)
    for rows, masks in zip(in_table, in_grid, strict=True):
        for positions, mask in zip(rows, masks, strict=True):
            assert mask.shape == (m, q)
            assert mask.dtype == bool
            assert_array_equal(positions, np.flatnonzero(mask))


@over(every(setting="ABCD"))
def test_an_int_seed_repeats_itself_and_another_does_not(setting):
    pairs = random_table(300, 20, 15)

    def splits(seed):
        return [
            np.concatenate(split).tolist()
            for split in SettingKFold(setting, 3, random_state=seed).split(pairs)
        ]

    assert splits(0) == splits(0)
    assert splits(0) != splits(1)
    state = np.random.RandomState(0)
    assert splits(state) == splits(0)
    assert splits(state) != splits(0)


def test_without_shuffling_folds_follow_the_order_of_the_table():
    pairs = [("z", 1), ("a", 1), ("z", 2), ("m", 1)]
    assert [test.tolist() for _, test in SettingKFold("B", 3, shuffle=False).split(pairs)] == [
        [0, 2],
        [1],
        [3],
    ]


def test_rows_that_repeat_a_pair_stay_together():
    pairs = random_table(200, 6, 5)
    for train, test in SettingKFold("A", 4, random_state=0).split(pairs):
        assert not {tuple(row) for row in pairs[train]} & {tuple(row) for row in pairs[test]}


def test_series_of_groups_and_times_have_the_index_of_their_frame():
    rows = [f"row {place}" for place in range(40)]
    pairs = pd.DataFrame(random_table(40, 8, 6), rows, ["u", "t"])
    groups = pairs["u"] // 2
    moved = groups.iloc[::-1]
    for setting, given in (("B", moved), (["u"], {"u": moved})):
        with pytest.raises(IdError, match="in another order"):
            list(SettingKFold(setting, 2, random_state=0).split(pairs, groups=given))
    pairs = pd.DataFrame(full_table(8, 5), rows)
    times = pd.Series(np.arange(40), rows[::-1])
    with pytest.raises(IdError, match="in another order"):
        list(SettingKFold("A", shuffle=False).split(pairs, time=times))


def test_blocks_without_pairs_are_left_out_in_setting_d():
    pairs = [(i, j) for i in range(8) for j in range(8) if (i < 4) == (j < 4)]
    folds = SettingKFold("D", 2, shuffle=False)
    splits = list(folds.split(pairs))
    assert len(splits) == folds.get_n_splits(pairs) == 2
    assert sum(len(test) for _, test in splits) == len(pairs)
    assert folds.get_n_splits() == 4


def test_a_block_with_nothing_to_train_on_is_an_error():
    pairs = [(i, 0) for i in range(3)] + [(0, j) for j in range(1, 3)]
    with pytest.raises(ValueError, match="no pair to train on: each of 5 pairs shares"):
        list(SettingKFold("D", 2, shuffle=False).split(pairs))


# -- forms of tables ------------------------------------------------------------------------------------


def as_pandas(pairs):
    return pd.DataFrame(pairs, columns=["who", "what"], index=range(100, 100 + len(pairs)))


def as_polars(pairs):
    return pl.DataFrame({"who": [row[0] for row in pairs], "what": [row[1] for row in pairs]})


def as_torch(pairs):
    torch = pytest.importorskip("torch")
    return torch.tensor(pairs)


@over(covering(setting="ABCD", form=[np.array, as_pandas, as_polars, as_torch, tuple]))
def test_every_form_of_a_table_gives_the_same_splits(setting, form):
    pairs = random_table(80, 7, 6).tolist()
    folds = SettingKFold(setting, 2, random_state=0)
    for expected, found in zip(folds.split(pairs), folds.split(form(pairs)), strict=True):
        assert_array_equal(expected[0], found[0])
        assert_array_equal(expected[1], found[1])


# -- groups -----------------------------------------------------------------------------------------------


@over(every(form=[list, np.array, pd.Series]))
def test_groups_are_held_out_together(form):
    pairs = random_table(200, 12, 10)
    groups = [f"family {i % 4}" for i in pairs[:, 0]]
    task_groups = [int(j) // 3 for j in pairs[:, 1]]
    for setting, given in (
        ("B", {"groups": groups}),
        ("C", {"task_groups": task_groups}),
        ("D", {"groups": groups, "task_groups": task_groups}),
    ):
        tested = []
        folds = SettingKFold(setting, 2, random_state=0)
        labels = {name: form(codes) for name, codes in given.items()}
        for train, test in folds.split(pairs, **labels):
            for codes in given.values():
                assert not {codes[row] for row in train} & {codes[row] for row in test}
            tested += test.tolist()
        assert sorted(tested) == list(range(len(pairs)))


# -- in scikit-learn --------------------------------------------------------------------------------------


@over(lines("setting form", ("A", list), ("D", as_pandas)))
def test_scikit_learn_takes_it_as_cv(setting, form):
    pairs = full_table(6, 5)
    y = default_rng(0).normal(size=len(pairs))
    folds = SettingKFold(setting, 2, random_state=0)
    expected = np.empty(len(pairs))
    for train, test in folds.split(pairs):
        expected[test] = y[train].mean()
    found = cross_val_predict(DummyRegressor(), form(pairs), y, cv=folds)
    assert_allclose(found, expected, rtol=1e-14)
    search = GridSearchCV(DummyRegressor(), {"strategy": ["mean", "median"]}, cv=folds)
    assert search.fit(form(pairs), y).n_splits_ == folds.get_n_splits()


def test_scikit_learn_routes_groups_of_tasks():
    pairs = np.array([(i, j) for i in range(6) for j in range(6)])
    y = np.arange(36.0)
    labels = {"groups": pairs[:, 0] // 2, "task_groups": pairs[:, 1] // 2}
    folds = SettingKFold("D", 3, random_state=0)
    expected = cross_val_predict(DummyRegressor(), pairs, y, cv=list(folds.split(pairs, **labels)))
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_val_predict(DummyRegressor(), pairs, y, cv=folds, params=labels)
    assert_array_equal(found, expected)


# -- bad input ----------------------------------------------------------------------------------------------


@over(
    lines(
        "setting n_splits message",
        ("A", 13, "13 folds need at least as many distinct pairs in setting A, found 12"),
        ("B", 4, "4 folds need at least as many instances or groups of them in setting B, found 3"),
        ("C", 5, "5 folds need at least as many tasks or groups of them in setting C, found 4"),
        ("D", 4, "4 folds need at least as many instances or groups of them in setting D, found 3"),
    )
)
def test_more_folds_than_things_to_deal_out(setting, n_splits, message):
    folds = SettingKFold(setting, n_splits)
    with pytest.raises(ValueError, match=message):
        next(folds.split(full_table(3, 4)))
    with pytest.raises(ValueError, match=message):
        next(folds.split_grid(3, 4))


@over(every(n_splits=[1, 0, 2.0, True, "3"]))
def test_a_number_of_folds_is_a_whole_number_from_two(n_splits):
    with pytest.raises(ValueError, match="n_splits must be a whole number of at least 2"):
        SettingKFold("A", n_splits)


def test_an_unknown_setting_and_a_seed_without_a_shuffle():
    with pytest.raises(ValueError, match="Unknown setting 'E'"):
        SettingKFold("E")
    with pytest.raises(ValueError, match="random_state has no effect without shuffling"):
        SettingKFold("A", shuffle=False, random_state=0)


@over(
    lines(
        "pairs error message",
        ([], ValueError, "pairs is empty"),
        (np.zeros((4, 3)), ValueError, r"two columns \(instance, task\), found shape \(4, 3\)"),
        ([(1, 2), (1, 2, 3)], ValueError, "two columns .* rows of another form"),
        ([1, 2], ValueError, "two columns .* rows of another form"),
        ("abcd", TypeError, "an array, a list of rows or a data frame, found str"),
        ([(1, 2), (None, 2)], ValueError, "missing value in row 1"),
        (np.array([(1, 2), (1, 3), (1, np.nan)]), ValueError, "missing value in row 2"),
        ([(1, 2), ([], 2)], TypeError, "cannot be an id"),
    )
)
def test_tables_that_are_none(pairs, error, message):
    with pytest.raises(error, match=message):
        next(SettingKFold("A", 2).split(pairs))


@over(
    lines(
        "setting labels message",
        (
            "A",
            {"groups": [0, 0, 1, 1]},
            "groups of left-out instances, and setting A leaves none out",
        ),
        (
            "B",
            {"task_groups": [0, 1, 0, 1]},
            "groups of left-out tasks, and setting B leaves none out",
        ),
        (
            "B",
            {"groups": [0, 1]},
            r"groups must have one value for each of 4 rows, found shape \(2,\)",
        ),
        ("B", {"groups": [0, 0, 1, None]}, "groups has a missing value in row 3"),
        (
            "B",
            {"groups": [0, 1, 1, 1]},
            r"same in all rows of one instance, found two groups for 'a' .*row 0",
        ),
        (
            "D",
            {"task_groups": [0, 0, 0, 1]},
            r"same in all rows of one task, found two groups for 2 .*row 1",
        ),
    )
)
def test_groups_that_are_none(setting, labels, message):
    pairs = [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    with pytest.raises(ValueError, match=message):
        next(SettingKFold(setting, 2).split(pairs, **labels))


# --- networks -----------------------------------------------------------------------------------


def edges_of(n, seed, both_ways):
    """Some edges of a network, in one direction or both, loops among them."""
    rng = default_rng(seed)
    pairs = [(f"n{i}", f"n{j}") for i in range(n) for j in range(i, n) if rng.random() < 0.7]
    return pairs + [(j, i) for i, j in pairs if i != j] if both_ways else pairs


@over(every(setting="ABCD", both_ways=[True, False]))
def test_folds_of_a_network_hide_nodes_on_both_sides(setting, both_ways):
    pairs = edges_of(9, 0, both_ways)
    folds = SettingKFold(setting, 3, random_state=0, network=True)
    tested = Counter()
    unused = []
    for train, test in folds.split(pairs):
        kept = [pairs[row] for row in train]
        asked = [pairs[row] for row in test]
        report = audit(kept, asked, network=True)
        assert report.n_repeated == 0
        nodes = {node for pair in kept for node in pair}
        if setting == "D":
            assert report.counts["D"] == len(asked)
        elif setting != "A":
            # One end is new wherever it stands, and no more is left out of training than its fold.
            end = "BC".index(setting)
            assert not nodes & {pair[end] for pair in asked}
            left_out = {node for pair in pairs for node in pair} - nodes
            assert all(
                left_out & set(pair)
                for row, pair in enumerate(pairs)
                if row not in set(train.tolist())
            )
            assert len(left_out) <= 3
        tested.update(test.tolist())
        unused.append(len(pairs) - len(train) - len(test))
    assert folds.get_n_splits(pairs) == len(unused)
    assert folds.n_unused(pairs).tolist() == unused
    assert max(tested.values()) == 1
    if setting in "AD":
        assert len(tested) == len(pairs)
    assert folds.get_n_splits() == (6 if setting == "D" else 3)


@over(every(setting="ABCD"))
def test_the_grid_of_a_network_is_cut_like_its_table(setting):
    cells = np.argwhere(np.ones((6, 6), dtype=bool))
    folds = SettingKFold(setting, 3, random_state=0, network=True)
    table = list(folds.split(cells))
    grid = list(folds.split_grid(6, 6))
    assert len(table) == len(grid)
    for (train, test), (train_mask, test_mask) in zip(table, grid, strict=True):
        assert_array_equal(np.flatnonzero(train_mask), train)
        assert_array_equal(np.flatnonzero(test_mask), test)
        assert_array_equal(train_mask, train_mask.T)
        if setting in "AD":
            assert_array_equal(test_mask, test_mask.T)


def test_nodes_of_one_group_are_hidden_together():
    pairs = edges_of(8, 1, True)
    group = {f"n{i}": i % 4 for i in range(8)}
    groups, task_groups = ([group[pair[end]] for pair in pairs] for end in (0, 1))
    folds = SettingKFold("D", 3, random_state=0, network=True)
    for fold in folds.split(pairs, None, groups, task_groups):
        kept, asked = ({group[node] for row in rows for node in pairs[row]} for rows in fold)
        assert not kept & asked
    folds = SettingKFold("B", 2, network=True)
    for ask, message in (
        (lambda: folds.split(pairs, None, groups), "pass both groups, of the first node of each"),
        (
            lambda: folds.split(pairs, None, groups, [0] * len(pairs)),
            "same in all rows of one node",
        ),
        (
            lambda: folds.split_grid(8, 8, groups=groups, task_groups=groups),
            "leave task_groups out",
        ),
        (lambda: folds.split_grid(8, 7), "square, found 8 × 7"),
    ):
        with pytest.raises(ValueError, match=message):
            next(ask())


def test_folds_of_a_network_are_refused_where_a_grid_is_cut(tmp_path):
    X, Y, _ = problems.data(6, 4, 2)
    refused = r"^cv has network=True.*use network=False"
    with pytest.raises(ValueError, match=refused):
        IndependentTaskRidgeCV([1.0], cv=SettingKFold("B", 2, network=True)).fit(X, Y)
    search = IndependentTaskRidgeCV([1.0], cv=SettingKFold("B", 2)).fit(X, Y)
    save(search, tmp_path / "model.dyad")
    assert load(tmp_path / "model.dyad").cv.network is False
    with pytest.raises(ValueError, match=refused):
        save(search.set_params(cv=SettingKFold("B", 2, network=True)), tmp_path / "other.dyad")
    assert not (tmp_path / "other.dyad").exists()
