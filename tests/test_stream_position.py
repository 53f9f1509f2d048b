"""A stream is known again by its numbers and ids, and by nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from dyadlearn.exceptions import ModelFileError
from dyadlearn.streams import Position, _marks, _read_position

X = np.array([[1.0, 0.0, -2.0], [0.0, 3.0, 0.0]])
Y = np.array([[1.0, 2.0], [-3.0, 4.0]])


def digest(X, Y):
    (found,) = Position().after(X, Y, is_kept=True).digests
    return found


def test_equal_numbers_are_no_change():
    repeated = sparse.coo_array(([1.0, -1.0, -1.0, 3.0, 0.0], ([0, 0, 0, 1, 1], [0, 2, 2, 1, 2])), shape=(2, 3))
    for same in (
        np.asfortranarray(X),
        X.astype(np.float32),
        X.astype(np.int8),
        X.astype(">f8"),
        np.where(X == 0, -0.0, X),
        X.tolist(),
        sparse.csr_array(X),
        sparse.csc_matrix(X),
        repeated,
    ):
        assert digest(same, Y) == digest(X, Y)


def test_everything_else_is_a_change():
    others = [(-X, Y), (X[::-1], Y), (X[:, ::-1], Y), (X, -Y), (X, Y[:, ::-1]), (X, Y[:, 0]), (X, Y[:, :1]), (Y, X)]
    others += [(X[:1], Y[:1]), (np.nextafter(X, 1.0), Y), (np.column_stack([X, [0.0, 0.0]]), Y), (X.T, Y), (X == 0, Y)]
    assert len({digest(*pair) for pair in [(X, Y), *others]}) == 1 + len(others)


def test_ids_count():
    pd = pytest.importorskip("pandas")

    def described(rows, columns):
        return digest(X, pd.DataFrame(Y, index=list(rows), columns=list(columns)))

    found = [described(*axes) for axes in (("ab", "st"), ("ab", "ts"), ("ba", "st"), ("ab", [1, 2]))]
    assert len(set(found)) == 4
    assert described("ab", np.array([1, 2])) == found[-1]
    assert described("ab", ["1", "2"]) != found[-1]


def test_few_digests_are_kept_and_tell_where_a_change_was():
    position, everything = Position(), []
    for number in range(1, 40):
        position = position.after(X + number, Y, is_kept=True)
        everything.append(position.digests[-1])
        assert (position.n_batches, position.n_rows) == (number, 2 * number)
        assert list(position.digests) == [everything[mark - 1] for mark in _marks(number)]
    assert _marks(39) == [1, 2, 4, 8, 16, 32, 39]
    assert len(set(everything)) == 39


def test_what_is_not_kept_is_counted_only():
    assert Position().after(X, Y, is_kept=False) == Position(1, 2, ())


def test_what_does_not_describe_a_position_is_refused():
    position = Position().after(X, Y, is_kept=True).after(Y, X, is_kept=True)
    plain = position.state()
    assert _read_position(plain, Path("file")) == position
    changes = [{"digests": ["x"]}, {"digests": [1, 2]}, {"digests": 3}, {"n_batches": 2**70}, {"n_batches": 0}]
    changes += [{"n_rows": "4"}, {"n_rows": True}, {"n_batches": -1}, {"n_batches": 2.0}, {"size": 1.0}]
    for forged in ({}, [], None, 3, "digests", {"n_batches": 2}, *(plain | change for change in changes)):
        with pytest.raises(ModelFileError, match=r"file does not say how far its stream was learnt"):
            _read_position(forged, Path("file"))
