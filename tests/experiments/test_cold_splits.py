"""Splits of new drugs and new targets, the models on them, and the table of their scores."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal


def _table(script, shape=(40, 30)):
    """Return labels that follow from positions on lines, which the kernels tell, a tenth of them missing."""
    rng = np.random.default_rng(10)
    x, t = (rng.uniform(-2, 2, n) for n in shape)
    Y = np.where(rng.random(shape) < 0.1, np.nan, np.outer(x, t) > 0)
    K, G = (np.exp(-((line[:, None] - line) ** 2)) for line in (x, t))
    return script.Table(Y, {"line": K}, {"line": G})


def test_a_split_has_equally_many_labels_of_both_kinds_and_no_entity_twice(script):
    table = _table(script)
    data = script.split(table, 3, 60)
    known = data.Y[~np.isnan(data.Y)]
    for labels in (known, data.truth):
        assert_array_equal(np.bincount(labels.astype(int)), [len(labels) / 2] * 2)
    assert len(known) == 60
    assert data.pairs.min(axis=0).tolist() == [0, 0]
    # Only an entity with itself has a similarity of one.
    for fresh, size in ((data.fresh, len(data.Y)), (data.fresh_tasks, data.Y.shape[1])):
        assert fresh["line"].shape[1] == size
        assert fresh["line"].max() < 1
    rows, columns = (data.fresh["line"], data.fresh_tasks["line"])
    for (row, column), label in zip(data.pairs, data.truth, strict=True):
        matches = [
            np.flatnonzero(_equal(kernel, new[place]))
            for kernel, new, place in (
                (table.K["line"], rows, row),
                (table.G["line"], columns, column),
            )
        ]
        assert table.Y[matches[0][0], matches[1][0]] == label


def _equal(kernel, values):
    """Return which rows of a kernel have all the values."""
    return np.array([np.isin(values, row).all() for row in kernel])


@pytest.mark.parametrize("model", ["flat", "kronecker", "learned", "forest"])
def test_each_model_ranks_pairs_of_new_entities(script, model):
    scores = script.scored(model, script.split(_table(script), 0, 100))
    assert scores["AUROC"] > 0.8
    assert scores["AP"] > 0.8


def test_the_table_compares_the_same_splits(script):
    def line(model, seed, value):
        return {"model": model, "data": "gpcr", "kernels": "one", "seed": seed, "AP": value}

    lines = [
        line("flat", 0, 0.5),
        line("flat", 1, 0.7),
        line("learned", 0, 0.6),
        line("learned", 1, 0.6),
    ]
    lines.append(line("learned", 2, 0.9))
    assert script.table(lines, "AP").splitlines() == [
        "| AP | gpcr, one | minus flat | worst |",
        "|---|--:|--:|--:|",
        "| flat | 0.600 | – | – |",
        "| learned | 0.700 | +0.000 ± 0.100 | -0.100 |",
    ]
    alone = script.table(lines[2:], "AP").splitlines()
    assert alone[-1] == "| learned | 0.700 | – | – |"
