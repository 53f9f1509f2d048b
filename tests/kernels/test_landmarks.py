"""Landmarks, against Nyström's formula and against a Cholesky factorisation that takes one pivot at a time."""

import itertools
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from conventions import conventions
from dyadlearn import Landmarks, load, save
from dyadlearn.exceptions import IdError, KernelError, KernelRepairWarning, ModelFileError
from dyadlearn.kernels import Sum, gram, kernel_names
from dyadlearn.kernels import landmarks as room
from dyadlearn.kernels.landmarks import Source, pivoted
from problems import INDEFINITE
from sweeps import covering, lines, over

METHODS = ("rpcholesky", "uniform")
SUM = Sum(["rbf", "linear"])


# One check centres a precomputed kernel entry by entry, which makes it indefinite; the warning is
# right.
@pytest.mark.filterwarnings("default::dyadlearn.exceptions.KernelRepairWarning")
@conventions(Landmarks(random_state=0))
def test_scikit_learn_conventions(estimator, checks, each):
    for check in each(checks):
        check(estimator)


def points(n=60, p=3, seed=0):
    return default_rng(seed).normal(size=(n, p))


def nystroem(K, at, K_new=None):
    """Return K_{·L} K_LL⁻¹ K_{L·} as it reads; of new rows against those of training with `K_new`."""
    left = K if K_new is None else K_new
    return left[:, at] @ np.linalg.pinv(K[np.ix_(at, at)], hermitian=True) @ K[at]


# The slow twin -----------------------------------------------------------------------------------


def one_by_one(K, r, rng, block):
    """Choose r pivots out of proposals that come in blocks; all of what is left of K is updated after each."""
    left = K.copy()
    chosen = []
    features = []
    while len(chosen) < r:
        then = np.diag(left).copy()
        then[chosen] = 0.0
        proposals = np.searchsorted(np.cumsum(then), rng.random(block) * then.sum(), side="right")
        for s, u in zip(proposals, rng.random(block), strict=True):
            if s not in chosen and left[s, s] > u * then[s] and len(chosen) < r:
                features.append(left[:, s] / np.sqrt(left[s, s]))
                left = left - np.outer(features[-1], features[-1])
                chosen.append(int(s))
    return np.array(chosen), np.array(features).T, left


@over(covering(kernel=["rbf", "linear", "laplacian"], block=[1, 2, 7, 128], r=[1, 5, 12]))
def test_blocks_choose_what_one_pivot_at_a_time_does(kernel, block, r, monkeypatch):
    monkeypatch.setattr(room, "_BLOCK", block)
    K = gram(points(40, 14), kernel=kernel)
    for seed in range(5):
        found = pivoted(Source(K, None), r, "rpcholesky", default_rng(seed))
        chosen, Phi, left = one_by_one(K, r, default_rng(seed), block)
        assert_array_equal(found.positions, chosen)
        assert_allclose(found.features, Phi, atol=1e-12)
        assert_allclose(found.residual, np.diag(left), atol=1e-12)
        assert_allclose(found.factor, np.tril(Phi[chosen]), atol=1e-12)
        assert_allclose(found.error, np.trace(left) / np.trace(K), rtol=1e-9)


# What the features are ---------------------------------------------------------------------------


@over(
    covering(
        kernel=["rbf", "linear", "tanimoto", "precomputed", SUM],
        method=METHODS,
        as_sparse=[False, True],
        r=[1, 4, 11],
        where=lambda kernel, as_sparse, **_: not (kernel == "precomputed" and as_sparse),
    )
)
def test_features_are_those_of_nystroem(kernel, method, as_sparse, r, library):
    X = points(50, 12)
    new = points(20, 12, seed=1)
    form = "rbf" if kernel == "precomputed" else kernel
    K = gram(X, kernel=form)
    K_new = gram(new, X, kernel=form)
    given, others = (K, K_new) if kernel == "precomputed" else (X, new)
    put = sparse.csr_array if as_sparse and library.name == "numpy" else library.asarray
    found = Landmarks(r, kernel=kernel, method=method, random_state=0)
    features = found.fit_transform(put(given))
    assert type(features) is type(library.asarray(X))
    Phi = library.to_numpy(features)
    new_Phi = library.to_numpy(found.transform(put(others)))
    at = found.component_indices_
    by_numpy = Landmarks(r, kernel=kernel, method=method, random_state=0).fit(given)
    assert_array_equal(at, by_numpy.component_indices_)
    assert Phi.shape == (50, r)
    assert len(set(at)) == r == found.n_components_
    scale = np.diag(K).max()
    atol = library.rtol / 10 * scale
    low_rank = nystroem(K, at)
    assert_allclose(Phi @ Phi.T, low_rank, atol=atol)
    again = library.to_numpy(found.transform(put(given)))
    assert_allclose(again, Phi, atol=library.rtol / 10 * np.sqrt(scale))
    assert_allclose(new_Phi @ Phi.T, nystroem(K, at, K_new), atol=atol)
    left = np.diag(gram(new, kernel=form)) - np.sum(new_Phi**2, axis=1)
    residual = library.to_numpy(found.residual(put(others)))
    assert_allclose(residual, np.maximum(left, 0), atol=atol / 100 if atol < 1e-6 else atol)
    residual = library.to_numpy(found.residual(put(given)))
    assert_allclose(residual, np.diag(K - low_rank), atol=atol)
    share = np.trace(K - low_rank) / np.trace(K)
    assert_allclose(found.error_, share, rtol=10 * library.rtol, atol=library.rtol / 1000)
    if kernel == "precomputed":
        assert found.components_ is None
    elif library.name == "numpy":
        assert_array_equal(sparse.csr_array(found.components_).toarray(), X[at])


@over(covering(kernel=kernel_names(), method=METHODS, width=[6, 1]))
def test_all_rows_reproduce_the_kernel(kernel, method, width):
    X = np.minimum(np.abs(points(25, width)), 2)
    X[7] = X[3]
    K = gram(X, kernel=kernel)
    found = Landmarks(100, kernel=kernel, method=method, random_state=0)
    Phi = found.fit_transform(X)
    assert found.n_components_ <= 24
    assert found.error_ == 0
    assert_allclose(Phi @ Phi.T, K, atol=1e-12 * K.max())
    again = found.transform(X)
    assert_allclose(again @ again.T, K, atol=1e-12 * K.max())
    assert_allclose(found.residual(X), np.zeros(25), atol=1e-12 * K.max())


@over(
    covering(
        method=METHODS,
        block=[1, 5, 128],
        X={
            "repeated": np.repeat(points(8), 10, axis=0),
            "of rank 3": points(80, 3) @ points(3, 20, seed=1),
            "of unlike sizes": points(80, 8) * np.logspace(-6, 6, 80)[:, None],
            "with zeros": np.vstack([np.zeros((40, 8)), np.repeat(points(4, 8), 10, axis=0)]),
        },
        dtype=["float64", "float32"],
    )
)
def test_there_are_no_more_features_than_the_rank(method, block, X, dtype, monkeypatch):
    monkeypatch.setattr(room, "_BLOCK", block)
    X = X.astype(dtype)
    found = Landmarks(50, kernel="linear", method=method, random_state=0)
    Phi = found.fit_transform(X)
    rank = np.linalg.matrix_rank(X)
    assert Phi.dtype == found.transform(X).dtype == dtype
    assert np.all(np.isfinite(Phi))
    assert Phi.shape[1] == found.n_components_ == len(found.component_indices_)
    eps = np.finfo(dtype).eps
    lengths = np.linalg.norm(X.astype(float), axis=1) + 1e-300
    gap = np.abs(Phi.astype(float) @ Phi.T.astype(float) - X.astype(float) @ X.T.astype(float))
    assert (gap / lengths[:, None] / lengths).max() < 1000 * eps
    # Rows of unlike sizes have a rank that depends on what is called small. Rounding to single
    # precision raises it.
    if dtype == np.float64:
        assert found.n_components_ <= (8 if X.shape[1] == 8 else rank)


def test_uniform_landmarks_that_nearly_repeat_wait_while_others_are_far_off():
    X = points(60, 4)
    X[30:] = X[:30] + 1e-7 * points(30, 4, seed=1)
    K = gram(X, kernel="rbf")
    found = Landmarks(30, method="uniform", random_state=0)
    Phi = found.fit_transform(X)
    assert len(set(found.component_indices_ % 30)) == 30  # one of each two
    assert found.error_ < 1e-13
    assert_allclose(Phi @ Phi.T, K, atol=1e-12)


def test_no_landmark_is_chosen_twice_where_the_kernel_itself_is_rounded():
    noisy = np.array([[1.0, 0.9], [0.9, 1.0]])
    ones = np.ones(2)
    candidates = room._Candidates(np.array([3, 3]), ones, ones, 0 * ones)
    again, _ = room._accepted(candidates, noisy, 0.0, 9, in_order=True)
    assert_array_equal(again, [0])
    for offset, level in ((0.0, 1e-14), (3e3, 1e-8), (1e5, 1e-4)):  # what k(x, x) is wrong by
        X = points(40, 2) + offset
        K = gram(X, kernel="rbf")
        for method, seed in itertools.product(METHODS, range(2)):
            found = Landmarks(40, method=method, random_state=seed)
            with warnings.catch_warnings():
                warnings.simplefilter("error" if level < 1e-6 else "ignore", KernelRepairWarning)
                Phi = found.fit_transform(X)
            assert len(set(found.component_indices_)) == found.n_components_
            assert_allclose(Phi @ Phi.T, K, atol=50 * level)
            assert_allclose(found.transform(X) @ Phi.T, K, atol=50 * level)


def test_arrays_of_two_libraries_are_refused():
    strict = pytest.importorskip("array_api_strict")
    found = Landmarks(3).fit(points())
    with pytest.raises(TypeError, match="X of array_api_strict, the landmarks of numpy"):
        found.transform(strict.asarray(points()))
    with pytest.raises(ValueError, match="X has 2 features, but Landmarks is expecting 3"):
        Landmarks(3).fit(strict.asarray(points())).transform(strict.asarray(points()[:, :2]))


# What it costs -----------------------------------------------------------------------------------


def test_few_values_of_the_kernel_are_computed(monkeypatch):
    monkeypatch.setattr(room, "_BLOCK", 10)
    computed = 0

    def counted(A, B):
        nonlocal computed
        computed += A.shape[0] * B.shape[0]
        return gram(A, B, kernel="rbf")

    X = points(1000, 8)
    for method in METHODS:
        computed = 0
        Landmarks(40, kernel=counted, method=method, random_state=0).fit(X)
        assert computed < 1.1 * 1000 * 40 + 16 * 1000  # the diagonal is read off small blocks


def test_too_many_landmarks_are_refused_before_any_work(monkeypatch):
    monkeypatch.setattr("dyadlearn._memory.available_memory", lambda like: 10_000)
    with pytest.raises(MemoryError, match="50 landmarks of 100 rows needs about .* use fewer"):
        Landmarks(50).fit(points(100))


# Things that are no vectors ----------------------------------------------------------------------

WORDS = ["MKVLAAGIW", "MKVLAAGW", "WWPTTS", "MKVLA", "WWPTT", "AAGIWMK", "MKVLAAGIW"]


def shared_letters(A, B):
    """Return how many letters two texts share, each counted once; for lists only."""
    assert type(A) is type(B) is list
    return [[float(len(set(a) & set(b))) for b in B] for a in A]


@over(
    lines(
        "wrap",
        list,
        lambda words: np.array(words, dtype=object)[:, None],
        lambda words: pd.DataFrame({"word": words}),
        lambda words: pl.DataFrame({"id": [f"p{n}" for n in range(len(words))], "word": words}),
    )
)
def test_texts_are_compared_by_a_function_of_two_lists(wrap):
    K = np.array(shared_letters(WORDS, WORDS))
    new = ["MKW", "TTT"]
    K_new = np.array(shared_letters(new, WORDS))
    for r in (3, 20):
        found = Landmarks(r, kernel=shared_letters, random_state=0)
        Phi = found.fit_transform(wrap(WORDS))
        at = found.component_indices_
        assert Phi.shape == (7, min(r, np.linalg.matrix_rank(K)))  # the last word is the first
        assert found.components_.tolist() == [WORDS[position] for position in at]
        assert_allclose(found.transform(wrap(new)) @ Phi.T, nystroem(K, at, K_new), atol=1e-12)
        assert_allclose(found.transform(wrap(WORDS)), Phi, atol=1e-12)
        wanted = np.diag(shared_letters(new, new)) - np.sum(found.transform(wrap(new)) ** 2, axis=1)
        assert_allclose(found.residual(wrap(new)), np.maximum(wanted, 0), atol=1e-12)
        assert not hasattr(found, "n_features_in_")


def test_a_kernel_of_texts_may_have_its_diagonal_and_parameters():
    class Shared:
        def __call__(self, A, B, scale=1.0):
            assert A is not B
            return scale * np.array(shared_letters(A, B))

        def diagonal(self, A, scale=1.0):
            return [scale * len(set(a)) for a in A]

    found = Landmarks(4, kernel=Shared(), kernel_params={"scale": 2.0}, random_state=0)
    Phi = found.fit_transform(WORDS)
    wanted = Landmarks(4, kernel=shared_letters, random_state=0).fit_transform(WORDS)
    assert_allclose(Phi, np.sqrt(2) * wanted, atol=1e-12)


def test_a_callable_of_vectors_gets_vectors():
    found = Landmarks(5, kernel=lambda A, B: (A @ B.T) ** 2, random_state=0)
    wanted = Landmarks(
        5, kernel="poly", kernel_params={"degree": 2, "gamma": 1, "coef0": 0}, random_state=0
    )
    for X in (
        points(),
        points().tolist(),
        pd.DataFrame(points(), columns=list("abc")),
        points(60, 1).astype(object),
    ):
        assert_allclose(found.fit_transform(X), wanted.fit_transform(X), atol=1e-10)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D"):
        found.fit(np.arange(5.0))


# A kernel that is there already ------------------------------------------------------------------


def test_a_precomputed_kernel_is_that_of_its_rows():
    X = points()
    new = points(7, seed=1)
    by_rows = Landmarks(10, random_state=0).fit(X)
    found = Landmarks(10, kernel="precomputed", random_state=0).fit(gram(X, kernel="rbf"))
    assert_array_equal(found.component_indices_, by_rows.component_indices_)
    K_new = gram(new, X, kernel="rbf")
    assert_allclose(found.transform(K_new), by_rows.transform(new), atol=1e-12)
    assert_allclose(found.residual(K_new), by_rows.residual(new), atol=1e-12)
    assert found.components_ is None
    alone = Landmarks(1, kernel="precomputed").fit([[2.0]])
    assert_allclose(alone.residual([[1.0]]), [1.5])

    K_new = gram(new, X)
    own = np.sum(new**2, axis=1)
    found = Landmarks(2, kernel="precomputed", random_state=0).fit(gram(X))
    with pytest.raises(KernelError, match="give diagonal="):
        found.residual(K_new)
    by_rows = Landmarks(2, kernel="linear", random_state=0).fit(X)
    assert_allclose(found.residual(K_new, diagonal=own), by_rows.residual(new), atol=1e-12)
    with pytest.raises(ValueError, match=r"a number for each of 7 rows, found \(6,\)"):
        found.residual(K_new, diagonal=own[1:])


def test_columns_of_a_precomputed_kernel_are_found_by_their_ids():
    K = gram(points(6), kernel="rbf")
    names = list("abcdef")
    frame = pd.DataFrame(K, index=names, columns=names)
    order = list("fbadce")
    wanted = Landmarks(4, kernel="precomputed", random_state=0).fit(K)
    found = Landmarks(4, kernel="precomputed", random_state=0).fit(frame[order])
    assert_allclose(found.transform(frame.loc[["b"], order]), wanted.transform(K[[1]]))
    assert_allclose(found.transform(pl.DataFrame(K, schema=names)), wanted.transform(K))
    unnamed_rows = Landmarks(4, kernel="precomputed", random_state=0)
    unnamed_rows.fit(pl.DataFrame(K, schema=names))
    assert_allclose(unnamed_rows.transform(frame[order]), wanted.transform(K))
    with pytest.raises(IdError, match="'z'"):
        found.transform(frame.rename(columns={"a": "z"}))
    numbered = Landmarks(4, kernel="precomputed", random_state=0).fit(pd.DataFrame(K))
    assert_allclose(numbered.transform(pd.DataFrame(K)[[5, 1, 0, 3, 2, 4]]), wanted.transform(K))


@over(
    lines(
        "K message",
        (gram(points())[:, :50], r"must be a square matrix, found shape \(60, 50\)"),
        (np.array([[1.0, 0.5], [0.2, 1.0]]), "X is not symmetric"),
        (np.zeros((3, 3)), "with itself is zero or less"),
        (-np.eye(3), "with itself is zero or less"),
    )
)
def test_what_is_no_kernel_is_refused(K, message):
    with pytest.raises(ValueError, match=message):
        Landmarks(kernel="precomputed").fit(K)


def test_an_indefinite_kernel_is_told():
    K = INDEFINITE
    for seed in range(5):
        with pytest.warns(KernelRepairWarning, match="not positive semi-definite"):
            found = Landmarks(3, kernel="precomputed", random_state=seed).fit(K)
        assert np.all(np.isfinite(found.transform(K)))
        assert np.all(found.residual(K) >= 0)
    with pytest.warns(KernelRepairWarning, match=r"features exceed k\(x, x\) by up to 0.5"):
        found = Landmarks(3, kernel="precomputed", random_state=0).fit(np.diag([1.0, -0.5, 2.0]))
    assert found.n_components_ == 2
    X = points()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Landmarks(60, kernel="precomputed").fit(
            gram(X, kernel="rbf").astype(np.float32)
        )  # rounding is none


# An estimator like others ------------------------------------------------------------------------


@over(lines("kind", "pandas", "polars"))
def test_frames_go_in_and_out(kind):
    X = points()
    names = [f"r{n}" for n in range(60)]
    frame = pd.DataFrame(X, index=names, columns=list("abc"))
    if kind == "polars":
        frame = pl.DataFrame({"id": names, **frame})
    found = Landmarks(4, random_state=0).set_output(transform=kind).fit(frame)
    out = found.transform(frame)
    assert_allclose(np.asarray(out), Landmarks(4, random_state=0).fit_transform(X), atol=1e-12)
    assert list(out.columns) == [f"landmarks{n}" for n in range(4)]
    assert list(out.columns) == list(found.get_feature_names_out())
    assert kind == "polars" or list(out.index) == names
    with pytest.raises(ValueError, match="feature names"):
        found.transform(frame[[*frame.columns[::-1]]] if kind == "pandas" else frame[:, [0, 2, 1]])


@over(
    lines(
        "kernel X",
        ("linear", sparse.csr_array(np.maximum(points(), 0))),
        (Sum(["rbf", ("laplacian", {"gamma": 0.5})]), points()),
        ("precomputed", pd.DataFrame(gram(points(), kernel="rbf"))),
    )
)
def test_landmarks_in_a_file(kernel, X, tmp_path):
    found = Landmarks(3, kernel=kernel, random_state=0).fit(X)
    save(found, tmp_path / "landmarks.dyad")
    same = load(tmp_path / "landmarks.dyad")
    assert_array_equal(same.transform(X), found.transform(X))
    assert_array_equal(same.residual(X), found.residual(X))
    assert_array_equal(same.component_indices_, found.component_indices_)
    assert (same.error_, same.n_components_) == (found.error_, 3)


def test_what_a_file_cannot_hold(tmp_path):
    with pytest.raises(ModelFileError, match="kernel is a Python function"):
        save(Landmarks(3, kernel=shared_letters).fit(WORDS), tmp_path / "landmarks.dyad")


@over(
    lines(
        "field value",
        ("factor", np.eye(2)),
        ("components", points(4)),
        ("component_indices", [0, 1]),
        ("component_indices_", [0, 1, -1]),
        ("component_indices_", [0, 1, 60]),
    )
)
def test_what_does_not_fit_together(field, value):
    found = Landmarks(3, kernel="precomputed").fit(gram(points(), kernel="rbf"))
    if field == "components":
        found = Landmarks(3).fit(points())
    state = found.state()
    name = next(key for key in state if key.strip("_") == field.strip("_"))
    with pytest.raises(ModelFileError, match="do not fit together"):
        Landmarks.from_state({**state, name: np.array(value)}, "it")


TWO = points(p=2)


@over(
    lines(
        "method change given message",
        ("fit", {"n_components": 0}, TWO, "n_components must be a whole number of at least 1"),
        ("fit", {"method": "leverage"}, TWO, "method must be one of 'rpcholesky', 'uniform'"),
        ("fit", {"kernel": "rbff"}, TWO, "Did you mean 'rbf'"),
        ("fit", {"kernel_params": {"degree": 2}}, TWO, "takes no parameter 'degree'"),
        ("fit", {"kernel": "minmax"}, TWO, "negative"),
        ("fit", {}, TWO[:0], "0 sample"),
        ("fit", {}, TWO * np.nan, "NaN"),
        ("fit", {}, WORDS, "holds text where numbers belong|Expected 2D array"),
        ("transform", {}, TWO, "2 features"),
        (
            "transform",
            {"kernel": shared_letters},
            WORDS,
            "X holds texts or other objects, but the",
        ),
    )
)
def test_bad_requests_change_nothing(method, change, given, message):
    X = points()
    found = Landmarks(5, random_state=0).fit(X)
    wanted = found.transform(X)
    with pytest.raises(ValueError, match=message):
        getattr(found.set_params(**change), method)(given)
    assert found.n_features_in_ == 3
    found.set_params(n_components=5, kernel="rbf", kernel_params=None, method="rpcholesky")
    assert_array_equal(found.transform(X), wanted)


def test_vectors_where_texts_were():
    found = Landmarks(3, kernel=shared_letters).fit(WORDS)
    with pytest.raises(
        ValueError, match="X holds vectors, but the landmarks are texts or other objects"
    ):
        found.transform(points())


@over(lines("method", *METHODS))
def test_landmarks_do_not_depend_on_the_scale_of_the_kernel(method):
    size = default_rng(1).uniform(0.1, 3.0, size=60)
    K = gram(points(), kernel="rbf") * np.outer(size, size)

    def chosen(kernel):
        landmarks = Landmarks(8, kernel="precomputed", method=method, random_state=0)
        return landmarks.fit(kernel).component_indices_

    assert_array_equal(chosen(2.0**-20 * K), chosen(K))
    assert_array_equal(chosen(2.0**20 * K), chosen(K))
