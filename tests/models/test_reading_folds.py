"""Groups and folds as frames and series of text, categories, booleans and dates, or as sparse matrices."""

from datetime import date, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy import sparse

import problems
from dyadlearn import KroneckerRidge, TwoStepRidge, TwoStepRidgeCV, nested_score, verify_holdout
from listed import listed

__all__ = ["listed"]

M = 8
Q = 6
X, Y, T = problems.data(M, Q)
ROWS = [f"i{i}" for i in range(M)]
COLUMNS = [f"t{j}" for j in range(Q)]
FOLDS = default_rng(0).integers(2, size=(M, Q))
OTHER = default_rng(1).permutation(M)

# Values of folds 0 and 1.
WORDS = {
    "text": ("CCO", "c1ccccc1"),
    "booleans": (False, True),
    "dates": (date(2024, 1, 1), date(2024, 1, 1) + timedelta(1)),
    "numbers": (0.5, 7.0),
    "lists": ("0", "1"),
}


def written(words, codes):
    """Return the words of codes as an array of objects."""
    values = np.empty(np.shape(codes), dtype=object)
    for place, code in np.ndenumerate(codes):
        values[place] = WORDS[words][code]
    return values


def pandas_frame(values, kind, order):
    frame = pd.DataFrame(values, index=ROWS, columns=COLUMNS).infer_objects()
    frame = frame.astype("category") if kind == "category" else frame
    return frame.iloc[order]


def polars_frame(values, kind, order, ids=True):
    frame = pl.DataFrame({name: values[:, j].tolist() for j, name in enumerate(COLUMNS)})
    frame = frame.cast(pl.Categorical) if kind == "category" else frame
    frame = frame.with_columns(pl.Series("id", ROWS)).select("id", *COLUMNS) if ids else frame
    return frame[order.tolist()]


@pytest.fixture(scope="module")
def model():
    return TwoStepRidge(0.5, 2.0).fit(X, pd.DataFrame(Y, ROWS, COLUMNS), T)


def test_cells_as_frames(each, model):
    expected = model.holdout("A", cells=FOLDS).to_numpy()
    reads = ["pandas", "polars", "polars without ids"] * 2
    for kind, read in each(
        [*zip([*WORDS, "category"], reads, strict=True), ("category", "pandas")]
    ):
        values = written("text" if kind == "category" else kind, FOLDS)
        if read == "pandas":
            cells = pandas_frame(values, kind, OTHER)
        else:
            has_ids = read == "polars"
            cells = polars_frame(values, kind, OTHER if has_ids else np.arange(M), has_ids)
        assert_allclose(model.holdout("A", cells=cells).to_numpy(), expected, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_groups_as_frames_and_series(each, model):
    groups = np.arange(M) // 2
    tasks = np.arange(Q) // 2
    expected = model.holdout("D", groups=groups, task_groups=tasks).to_numpy()
    words = [f"group {code}" for code in groups]
    task_words = [f"CC{code}" for code in tasks]
    forms = {
        "pandas frame": pd.DataFrame({"g": words}, ROWS).iloc[OTHER],
        "pandas categories": pd.Series(words, ROWS, dtype="category").iloc[OTHER],
        "pandas dates": pd.Series(
            pd.to_datetime("2024-01-01") + pd.to_timedelta(groups, "D"), ROWS
        ).iloc[OTHER],
        "polars frame": pl.DataFrame({"g": words}),
        "polars ids": pl.DataFrame({"id": ROWS, "g": words})[OTHER.tolist()],
        "polars categories": pl.Series(words, dtype=pl.Categorical),
    }
    task_forms = {
        "pandas frame": pd.DataFrame({"g": task_words}, COLUMNS).iloc[::-1],
        "polars frame": pl.DataFrame({"g": task_words}),
    }
    for form, other in each(zip(forms, [*task_forms] * 3, strict=True)):
        how = {"groups": forms[form], "task_groups": task_forms[other]}
        assert_allclose(model.holdout("D", **how).to_numpy(), expected, rtol=1e-12)
    both = {"groups": forms["pandas frame"], "task_groups": task_forms["pandas frame"]}
    assert verify_holdout(model, "D", **both, random_state=0) < 1e-9
    search = TwoStepRidgeCV([0.1, 10.0], [1.0], setting="B")
    given = {"X": X, "y": pd.DataFrame(Y, ROWS, COLUMNS), "tasks": T, "cv": 2, "random_state": 0}
    scores = [nested_score(search, groups=of, **given).score for of in (both["groups"], groups)]
    assert scores[0] == scores[1]


def test_sparse_cells(each):
    holes = problems.with_holes(Y, 0.2, seed=2)
    for labels in each([Y, holes]):
        model = KroneckerRidge(0.5).fit(X, labels, T)
        observed = ~np.isnan(labels)
        cells = sparse.coo_array(
            (FOLDS[observed], np.nonzero(observed)), shape=Y.shape
        )  # stores zeros
        found = model.holdout("A", cells=cells)
        assert_allclose(found[observed], model.holdout("A", cells=FOLDS)[observed], rtol=1e-9)
        with pytest.raises(
            ValueError, match="cells is sparse and must store a fold for every label of Y"
        ):
            model.holdout("A", cells=sparse.csr_array(FOLDS))
