"""Documents of the challenges LSHTC: the real dry run, and small files in the format of the later ones."""

from __future__ import annotations

import gzip
from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dyadlearn.datasets import load_lshtc, load_lshtc3, read_hierarchy, read_libsvm_batches, scan_libsvm
from dyadlearn.exceptions import DataFileError
from dyadlearn.kernels import graph_distance_kernel

TEXT = """\
545, 32 8:1 18:2
32 2:0.5 3:1e-2

9,545,545 18:1 18:3 0:-4
7
\t
 5:.25
545 1:2
"""
# Line by line, by hand: labels and features.
DOCUMENTS = [
    ({545, 32}, {8: 1, 18: 2}),
    ({32}, {2: 0.5, 3: 0.01}),
    ({9, 545}, {18: 4, 0: -4}),
    ({7}, {}),
    (set(), {5: 0.25}),
    ({545}, {1: 2}),
]
LABELS = [7, 9, 32, 545]


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("DYADLEARN_DATA", str(tmp_path_factory.mktemp("home")))


def write(path, text, pack=False):
    path.write_bytes(gzip.compress(text.encode()) if pack else text.encode())
    return path


def expected(n_features=19, labels=LABELS):
    X, Y = np.zeros((len(DOCUMENTS), n_features)), np.zeros((len(DOCUMENTS), len(labels)))
    for row, (own, values) in enumerate(DOCUMENTS):
        for feature, value in values.items():
            if feature < n_features:
                X[row, feature] = value
        for label in own & set(labels):
            Y[row, labels.index(label)] = 1
    return X, Y


# -- the dry run of the first challenge ---------------------------------------------------------------------


def test_task2(shared_data):
    data = load_lshtc(shared_data)
    sizes = {"train": 4463, "validation": 1860, "test": 1858}
    assert {name: len(rows) for name, rows in data.splits.items()} == sizes
    assert_array_equal(np.concatenate(list(data.splits.values())), np.arange(8181))
    assert data.X.shape == (8181, 27129) == (len(data.target), len(data.feature_ids))
    assert data.X.has_canonical_format
    assert data.Y.shape == (8181, 1139)
    assert_array_equal(data.Y.sum(axis=1), 1)
    assert_array_equal(data.label_ids[data.Y.indices], data.target)
    assert data.edges.shape == (2377, 2)
    nodes, parents = set(data.edges.ravel().tolist()), set(data.edges[:, 0].tolist())
    assert len(nodes) == 2387
    assert nodes - parents == set(data.label_ids.tolist())
    # Every category occurs in every part, and one in three has a text of its own.
    for rows in data.splits.values():
        assert len(np.unique(data.target[rows])) == 1139
    assert data.descriptions.shape == (394, 27129)
    assert np.isin(data.description_ids, data.label_ids).all()
    # The shift of domain: crawled pages are ten times as long.
    terms = {name: data.X[rows].count_nonzero() / len(rows) for name, rows in data.splits.items()}
    assert terms["train"] < 14
    assert terms["validation"] < 14
    assert terms["test"] > 140
    for fact in ("task2", "2,387", "4,463", "shift of domain", "1503.08581"):
        assert fact in data.DESCR
    K = graph_distance_kernel(data.edges, data.label_ids[:50])
    assert K.shape == (50, 50)


def test_tasks_number_their_features_differently(shared_data):
    one, two = (load_lshtc(shared_data / "lshtc1_dryrun", task=task) for task in ("task1", "task2"))
    assert list(one.splits) == ["validation", "test"]
    assert one.descriptions.shape == (0, 29726)
    assert_array_equal(one.label_ids, two.label_ids)
    first, second = one.X[one.splits["test"]], two.X[two.splits["test"]]
    assert_array_equal(one.target[one.splits["test"]], two.target[two.splits["test"]])
    # The same pages: the same counts, of terms with other numbers.
    row = slice(5, 6)
    assert Counter(first[row].data) == Counter(second[row].data)
    assert set(one.feature_ids[first[row].indices]) != set(two.feature_ids[second[row].indices])


def write_dryrun(folder, edges="parent\tchild\n1\t29\n1\t33\n", **changes):
    part = {"y": [33, 29], "data": [2, 1, 3], "indices": [0, 2, 1], "indptr": [0, 2, 3]}
    arrays = {f"{name}_{key}": part[key] for name in ("train", "validation", "test") for key in part}
    arrays = {"feature_ids": [172, 179, 236]} | arrays | changes
    np.savez(folder / "task2.npz", **{key: value for key, value in arrays.items() if value is not None})
    write(folder / "edges.tsv", edges, pack=True)
    (folder / "edges.tsv").rename(folder / "edges.tsv.gz")
    return folder


def test_a_small_archive(tmp_path):
    data = load_lshtc(write_dryrun(tmp_path))
    assert_array_equal(data.X.toarray(), [[2, 0, 1], [0, 3, 0]] * 3)
    assert_array_equal(data.Y.toarray(), [[0, 1], [1, 0]] * 3)
    assert_array_equal(data.splits["validation"], [2, 3])
    assert_array_equal(data.edges, [[1, 29], [1, 33]])
    assert data.description_ids.shape == (0,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test_y": None}, "task2.npz lacks the arrays test_y: found feature_ids, train_y"),
        ({"test_y": [0.5]}, r"task2\.npz: test_y must be a list of whole numbers, found float64 \(1,\)"),
        ({"feature_ids": [[1]]}, r"task2\.npz: feature_ids must be a list of whole numbers, found int64 \(1, 1\)"),
        ({"train_indices": [0, 3, 1]}, r"the part 'train' is no sparse matrix of shape \(2, 3\)"),
        ({"train_indptr": [0, 2]}, r"the part 'train' is no sparse matrix of shape \(2, 3\)"),
        ({"edges": "parent\tchild\n1\t29\n"}, "1 categories are not in edges.tsv.gz, such as 33"),
        ({"edges": "1\t29\n1\n"}, "line 2: expected the numbers of parent and child, found '1"),
    ],
)
def test_malformed_archives(tmp_path, changes, message):
    write_dryrun(tmp_path, **changes)
    with pytest.raises(ValueError, match=message):
        load_lshtc(tmp_path)


def test_missing_and_damaged_files(tmp_path):
    with pytest.raises(ValueError, match="task must be one of 'task2', 'task1', found 'task3'"):
        load_lshtc(task="task3")
    with pytest.raises(FileNotFoundError, match="task2.npz, edges.tsv .*lshtc1_dryrun.*data_home= .*DYADLEARN_DATA"):
        load_lshtc()
    write_dryrun(tmp_path)
    for name in ("edges.tsv.gz", "task2.npz"):
        path = tmp_path / name
        path.write_bytes(path.read_bytes()[:-15])
        with pytest.raises(ValueError, match=f"{name} is damaged or no .*: put a good copy in its place"):
            load_lshtc(tmp_path)


# -- the text format of the later challenges ----------------------------------------------------------------


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("batch_size", [1, 2, 4, 6, 100])
def test_batches(tmp_path, pack, batch_size):
    path = write(tmp_path / "train.txt", TEXT, pack)
    batches = list(read_libsvm_batches(path, batch_size))
    assert [X.shape[0] for X, _ in batches[:-1]] == [batch_size] * (len(batches) - 1)
    X, Y = expected()
    assert_array_equal(np.vstack([batch.toarray() for batch, _ in batches]), X)
    assert_array_equal(np.vstack([batch.toarray() for _, batch in batches]), Y)
    assert all(batch.format == "csr" for pair in batches for batch in pair)


def test_a_scan(tmp_path):
    found = scan_libsvm(write(tmp_path / "train.txt", TEXT))
    assert (found.n_rows, found.n_features) == (6, 19)
    assert_array_equal(found.labels, LABELS)


def test_everything_at_once(tmp_path):
    documents = write(tmp_path / "train.txt", TEXT, pack=True)
    # A child with two parents, a cycle and a loop, as they occur.
    hierarchy = write(tmp_path / "hierarchy.txt", "1 545\n2 545\n545 2\n\n2 2\n1 32\n9 1\n2 7\n", pack=True)
    data = load_lshtc3(str(documents), str(hierarchy))
    X, Y = expected()
    assert_array_equal(data.X.toarray(), X)
    assert_array_equal(data.Y.toarray(), Y)
    assert_array_equal(data.label_ids, LABELS)
    assert_array_equal(data.edges, [[1, 545], [2, 545], [545, 2], [2, 2], [1, 32], [9, 1], [2, 7]])
    K = graph_distance_kernel(data.edges, data.label_ids, scale=1)
    # 7 - 2 - 545, whatever the direction.
    assert_array_equal(K[0, 3], np.exp(-2))
    assert load_lshtc3(documents).edges.shape == (0, 2)


def test_given_columns(tmp_path):
    path = write(tmp_path / "train.txt", TEXT)
    labels = [545, 7, 9, 32, 1000]
    X, Y = expected(25, labels)
    data = load_lshtc3(path, n_features=25, labels=labels)
    assert_array_equal(data.X.toarray(), X)
    assert_array_equal(data.Y.toarray(), Y)
    assert_array_equal(data.label_ids, labels)


def test_what_is_not_known_is_refused_or_left_out(tmp_path):
    path = write(tmp_path / "train.txt", TEXT)
    with pytest.raises(ValueError, match="train.txt, line 1: 18 is no feature below n_features=18; unknown='ignore'"):
        list(read_libsvm_batches(path, 2, 18, LABELS))
    with pytest.raises(ValueError, match="train.txt, line 4: 9 is not among the labels given; unknown='ignore' leaves"):
        list(read_libsvm_batches(path, 2, 19, [545, 32, 7]))
    for labels in ([545, 32], []):
        X, Y = expected(4, labels)
        data = load_lshtc3(path, n_features=4, labels=np.array(labels, dtype=int), unknown="ignore")
        assert_array_equal(data.X.toarray(), X)
        assert_array_equal(data.Y.toarray(), Y)


def test_a_stream_is_read_as_it_is_used(tmp_path):
    path = write(tmp_path / "train.txt", TEXT + "oops\n")
    batches = read_libsvm_batches(path, 1, 19, LABELS)
    for _ in range(6):
        next(batches)
    with pytest.raises(ValueError, match="line 9: expected labels"):
        next(batches)


@pytest.mark.parametrize(
    "line",
    [
        "Data",
        "545,32 8:1 18",
        "545,32 8:1:2 18",
        "545,32 8:",
        "545,32 :1",
        "545,32 8:x",
        "545,32 8:nan",
        "545,32 8:inf",
        "545,32,8:1",
        "545;32 8:1",
        "-1 8:1",
        "5.5 8:1",
        "545 -8:1",
        "545 8.5:1",
        "545 8:1,9:1",
        ",",
        "1234567890123456 8:1",
        "545 1234567890123456:1",
        "٣ 8:1",
    ],
)
def test_malformed_lines_are_named(tmp_path, line):
    path = write(tmp_path / "train.txt", f"1 1:1\n\n{line}\n2 2:1\n")
    with pytest.raises(
        ValueError, match=r"train.txt, line 3: expected labels and then feature:value pairs, such as '5"
    ):
        load_lshtc3(path)


@pytest.mark.parametrize("line", ["1 99999999999999999999", "1", "1 2 3", "1 x", "-1 2", "1,2", "parent child"])
def test_malformed_hierarchies(tmp_path, line):
    path = write(tmp_path / "hierarchy.txt", f"1 2\n{line}\n")
    with pytest.raises(ValueError, match=r"hierarchy.txt, line 2: expected the numbers of parent and child, found"):
        read_hierarchy(path)


def test_documents_without_any_feature(tmp_path):
    data = load_lshtc3(write(tmp_path / "train.txt", "545,32\n32\n"), n_features=3)
    assert data.X.shape == (2, 3)
    assert data.X.nnz == 0
    assert_array_equal(data.Y.toarray(), [[1, 1], [1, 0]])


def test_values_that_are_too_large_are_named(tmp_path):
    path = write(tmp_path / "train.txt", "1 1:1\n\n2 3:1 7:1e999\n")
    with pytest.raises(DataFileError, match=r"train\.txt, line 3: the value of feature 7 is too large"):
        load_lshtc3(path)


def test_wrong_arguments(tmp_path):
    path = write(tmp_path / "train.txt", TEXT)
    for value in (0, -1):
        with pytest.raises(ValueError, match="batch_size must be at least 1, found"):
            read_libsvm_batches(path, value)
    for value in (2.0, True, None):
        with pytest.raises(TypeError, match="batch_size must be a whole number of at least 1, found"):
            read_libsvm_batches(path, value)
    with pytest.raises(ValueError, match="n_features must be at least 1, found 0"):
        read_libsvm_batches(path, 1, 0)
    with pytest.raises(ValueError, match="unknown must be one of 'raise', 'ignore', found 'drop'"):
        read_libsvm_batches(path, unknown="drop")
    with pytest.raises(ValueError, match="labels must be a sequence of whole numbers, found"):
        read_libsvm_batches(path, labels=[0.5])
    with pytest.raises(ValueError, match="labels must be different, but 1 are repeated"):
        read_libsvm_batches(path, labels=[1, 2, 1])


def test_missing_empty_and_damaged_texts(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no file .*train.txt"):
        load_lshtc3(tmp_path / "train.txt")
    with pytest.raises(ValueError, match=r"empty.txt holds no documents"):
        load_lshtc3(write(tmp_path / "empty.txt", "\n"), n_features=3, labels=[1])
    with pytest.raises(ValueError, match=r"empty.txt holds no documents"):
        load_lshtc3(tmp_path / "empty.txt")
    path = write(tmp_path / "train.txt.gz", TEXT, pack=True)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValueError, match="train.txt.gz is damaged or no text .*: put a good copy in its place"):
        scan_libsvm(path)
    path.write_bytes(b"1 1:1\n\xff\xfe\n")
    with pytest.raises(ValueError, match="train.txt.gz is damaged or no text"):
        scan_libsvm(path)
