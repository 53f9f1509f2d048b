"""Features that were read by their ids go wherever a frame goes."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose

import dyadlearn as dl
from dyadlearn import read_features
from dyadlearn._tables import Ids, Table

M = 12
Q = 7
PROTEINS = [f"P{i}" for i in range(M + 2)]
DRUGS = [f"D{j}" for j in range(Q + 2)]
RNG = np.random.default_rng(3)
X = RNG.normal(size=(M + 2, 3))
T = RNG.normal(size=(Q + 2, 2))
Y = pd.DataFrame(
    X[:M] @ RNG.normal(size=(3, 2)) @ T[:Q].T + 0.1, index=PROTEINS[:M], columns=DRUGS[:Q]
)
# Frames in another order than that of the labels, as the files are.
FRAMES = pd.DataFrame(X, index=PROTEINS)[::-1], pd.DataFrame(T, index=DRUGS)[::-1]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("features")
    np.savez(folder / "proteins.npz", **dict(zip(PROTEINS, X, strict=True)))
    np.savez(folder / "drugs.npz", values=T[::-1], ids=DRUGS[::-1])
    return folder / "proteins.npz", folder / "drugs.npz"


@pytest.fixture
def known(files):
    """Instances and tasks of the labels, in an order of their own."""
    return read_features(files[0], Y.index[::-1]), read_features(files[1], Y.columns)


@pytest.fixture
def new(files):
    return read_features(files[0], pd.Index(PROTEINS[M:])), read_features(
        files[1], pd.Index(DRUGS[Q:])
    )


def frames(ids, side):
    return FRAMES[side].loc[ids]


MODELS = [
    dl.TwoStepRidge(kernel="rbf", task_kernel="rbf"),
    dl.TwoStepRegressor(),
    dl.KroneckerRidgeCV(setting="B", alphas=[0.1, 1.0]),
    dl.OnlineTwoStepRidge(),
    dl.LearnedKernelRidge(setting="A", n_steps=2, stages=1, progress=False),
]


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_models_take_them_as_they_take_frames(model, known, new):
    from sklearn.base import clone

    twin = clone(model).fit(frames(Y.index[::-1], 0), Y, frames(Y.columns, 1))
    fitted = clone(model).fit(known[0], Y, known[1])
    expected = twin.predict(frames(PROTEINS[M:], 0), frames(DRUGS[Q:], 1))
    found = fitted.predict(new[0], new[1])
    assert list(found.index) == PROTEINS[M:]
    assert list(found.columns) == DRUGS[Q:]
    assert_allclose(found.to_numpy(), expected.to_numpy(), rtol=1e-9)


def test_ids_that_do_not_match_are_named(known, files):
    with pytest.raises(ValueError, match="1 only in the rows of Y .'P0'"):
        dl.TwoStepRidge().fit(read_features(files[0], PROTEINS[1 : M + 1]), Y, known[1])
    with pytest.raises(ValueError, match=r"2 features.* 3 features|3 features"):
        dl.TwoStepRidge().fit(known[0], Y, known[1]).predict(known[1])


def test_answers_come_as_the_ids_did(known, files):
    model = dl.TwoStepRidge().fit(known[0], Y, known[1])
    assert isinstance(model.predict(read_features(files[0], PROTEINS[M:])), np.ndarray)
    found = model.predict(read_features(files[0], pl.Series("protein", PROTEINS[M:])))
    assert isinstance(found, pl.DataFrame)
    assert found["protein"].to_list() == PROTEINS[M:]


def test_names_of_features_are_looked_at(tmp_path):
    for name, columns in {"x": "abc", "other": "abd"}.items():
        np.savez(tmp_path / f"{name}.npz", values=X[:M], rows=PROTEINS[:M], columns=list(columns))
    for model in (dl.TwoStepRidge(), dl.TwoStepRegressor()):
        model.fit(read_features(tmp_path / "x.npz", Y.index), Y)
        for ids in (Y.index, list(Y.index)):
            with pytest.raises(ValueError, match="The feature names of X should match"):
                model.predict(read_features(tmp_path / "other.npz", ids))


def test_a_table_can_be_looked_at(known):
    table = known[1]
    assert repr(table) == "Table of 7 rows × 2 columns (float64), ids 'D0', 'D1', 'D2', …"
    assert repr(Table(np.ones((2, 1)))) == "Table of 2 rows × 1 columns (float64)"
    assert Table(np.ones((2, 1))).ids is None
    assert table.ids == tuple(DRUGS[:Q])
    pd.testing.assert_frame_equal(table.to_frame("pandas"), pd.DataFrame(T[:Q], index=DRUGS[:Q]))
    frame = table.to_frame("polars")
    assert isinstance(frame, pl.DataFrame)
    assert frame.columns == ["id", "0", "1"]
    named = Table(np.ones((1, 2)), Ids(("a",), "drug"), Ids(("u", "v")), "polars")
    assert named.to_frame().columns == ["drug", "u", "v"]
