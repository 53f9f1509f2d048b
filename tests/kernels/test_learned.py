"""A kernel of several descriptions against plain numpy, description by description, from the full matrices."""

import itertools

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dyadlearn._tables import Ids, Table, write_table
from dyadlearn.exceptions import (
    IdError,
    KernelError,
    KernelRepairWarning,
    ModelFileError,
    NotEnoughMemoryError,
)
from dyadlearn.kernels import Descriptions, Sum, gram, gram_diagonal, learned, repair
from dyadlearn.kernels.learned import Description, LearnedKernel
from problems import INDEFINITE
from sweeps import covering, every, lines, over

N = 9
N_NEW = 4
TRAIN = np.arange(N)
TEST = np.arange(N, N + N_NEW)
rng = default_rng(0)
X = rng.normal(size=(N + N_NEW, 3))  # a linear kernel with negative entries
BITS = (rng.random((N + N_NEW, 8)) < 0.4).astype(float)
BITS[:, 0] = 1.0
BITS[1] = BITS[N + 1] = 0.0  # fingerprints without a bit
POINTS = rng.normal(size=(N + N_NEW, 2))
SIMILAR = 3.0 * np.exp(-((POINTS[:, None] - POINTS) ** 2).sum(axis=2))  # one diagonal, 3
KERNELS = {"x": "linear", "bits": "tanimoto", "counts": "linear", "similar": "precomputed"}
WEIGHTS = [0.5, 2.0, 0.25, 1.5]
EXPONENTS = [1.0, 2.0, 1.5, 0.5]


def tables(rows, columns, library=None):
    """Return the descriptions of some entities, with kernel values with others."""
    convert = np.asarray if library is None else library.asarray
    full = {
        "x": X[rows],
        "bits": BITS[rows],
        "counts": BITS[rows],
        "similar": SIMILAR[np.ix_(rows, columns)],
    }
    return {name: convert(table) for name, table in full.items()}


def twins(rows, columns, normalize):
    """Return the kernel of each description between any entities."""
    both = BITS @ BITS.T
    either = BITS.sum(axis=1)[:, None] + BITS.sum(axis=1) - both
    jaccard = np.where(either > 0, both / np.maximum(either, 1.0), 1.0)
    found = []
    for K in (X @ X.T, jaccard, both, SIMILAR):
        own = np.diagonal(K)
        scale = np.sqrt(np.outer(own, own)) if normalize else np.full(K.shape, own[TRAIN].mean())
        block = np.divide(K, scale, out=np.zeros(K.shape), where=scale > 0)
        found.append(block[np.ix_(rows, columns)])
    return found


def whole(blocks):
    powers = [1.0, *EXPONENTS[1:]]  # negative entries leave the first without an exponent
    return sum(w * block**p for w, block, p in zip(WEIGHTS, blocks, powers, strict=True))


def held(tables):
    """Return tables in a holder; rows of a holder know their places."""
    return tables if isinstance(tables, Descriptions) else Descriptions(tables)


def describe(tables, kernels, *, normalize=True, repair="clip", weights=None):
    """Return the kernel of descriptions in the scale of their rows, and their wide table."""
    kernel, wide = learned.describe(
        held(tables), kernels, name="X", normalize=normalize, repair=repair
    )
    return kernel.scaled(wide.values, "X", weights), wide


def widen(kernel, tables, places=None):
    """Return the wide table of new rows."""
    return learned.widen(kernel, held(tables), places, "X")


def described(library=None, normalize=True, kernels=KERNELS):
    return describe(tables(TRAIN, TRAIN, library), kernels, normalize=normalize)


@over(every(normalize=[True, False]))
def test_blocks_and_their_sum_of_training_rows_and_new_ones(normalize, library):
    kernel, wide = described(library, normalize)
    rtol = 2e-5 if library.dtype == "float32" else 1e-11
    assert kernel.names == tuple(KERNELS)
    assert [member.has_exponent for member in kernel.members] == [False, True, True, True]
    learnt = kernel.with_parameters(WEIGHTS, EXPONENTS)
    new = widen(kernel, tables(TEST, TRAIN, library)).values
    some = np.array([5, 0, 7, 2])
    take = lambda table, rows: library.asarray(library.to_numpy(table)[rows])  # noqa: E731
    cases = [
        (wide.values, None, TRAIN, TRAIN),
        (take(wide.values, some[:1]), take(wide.values, some), some[:1], some),
        (new, wide.values, TEST, TRAIN),
        (new, take(wide.values, some), TEST, some),
    ]
    for A, B, rows, columns in cases if library.name == "numpy" else cases[::2]:
        expected = twins(rows, columns, normalize)
        for found, block in zip(kernel.blocks(A, B), expected, strict=True):
            assert found.dtype == A.dtype
            assert_allclose(library.to_numpy(found), block, rtol=rtol, atol=rtol)
        for found in (learnt(A, B), gram(A, B, kernel=learnt)):
            found = library.to_numpy(found)
            assert_allclose(found, whole(expected), rtol=10 * rtol, atol=10 * rtol)
    for A, rows in ((wide.values, TRAIN), (new, TEST)):
        expected = np.diagonal(whole(twins(rows, rows, normalize)))
        for found in (learnt.diagonal(A), gram_diagonal(A, kernel=learnt)):
            assert_allclose(library.to_numpy(found), expected, rtol=10 * rtol, atol=10 * rtol)


def test_weights_of_zero_and_the_arrays_of_the_caller():
    kernel, wide = described()
    before = wide.values.copy()
    nothing = kernel.with_parameters([0] * 4, EXPONENTS)
    assert_array_equal(nothing(wide.values, wide.values[:2]), np.zeros((N, 2)))
    found = kernel.with_parameters([0, 0, 0, 1], [1] * 4)(wide.values)
    assert_allclose(found, SIMILAR[:N, :N] / 3.0, rtol=1e-14)
    found[:] = 7.0
    assert_array_equal(wide.values, before)
    assert kernel.members[0].weight == 1.0


def test_parameters_are_checked():
    kernel, _ = described()
    found = kernel.with_parameters(WEIGHTS, [3.0] * 4).members
    assert [member.exponent for member in found] == [1.0, 3.0, 3.0, 3.0]
    for weights, exponents, words in (
        ([1.0], EXPONENTS, "weights must hold one number for each of 4 descriptions, found 1"),
        (WEIGHTS, [1.0] * 5, "exponents must hold one number for each of 4 descriptions, found 5"),
        ([1.0, -1.0, 1.0, 1.0], EXPONENTS, "weights must be non-negative finite numbers, found -1"),
        ([np.nan] * 4, EXPONENTS, "weights must be non-negative finite numbers, found nan"),
        (WEIGHTS, [0.0] * 4, "exponents must be positive finite numbers, found 0"),
    ):
        with pytest.raises(ValueError, match=words):
            kernel.with_parameters(weights, exponents)
    with pytest.raises(ValueError, match="A has 3 columns, expected the 29 of the wide table"):
        kernel(X)


@over(
    lines(
        "kernels expected",
        ("cosine", ["cosine"] * 2),
        (("poly", {"degree": 2}), ["poly"] * 2),
        ({"b": "tanimoto", "a": ("rbf", {"gamma": 2.0})}, ["rbf", "tanimoto"]),
        (["linear", ("rbf", None)], ["linear", "rbf"]),
        (Sum(("linear", "rbf")), [Sum(("linear", "rbf"))] * 2),
    )
)
def test_ways_to_say_which_kernel(kernels, expected):
    kernel, _ = describe({"a": np.abs(X), "b": BITS}, kernels)
    assert [member.kernel for member in kernel.members] == expected
    assert kernel.names == ("a", "b")


@over(
    lines(
        "kernels error words",
        (
            {"a": "rbf"},
            ValueError,
            "The kernels of X lack 'b': give one for each description, 'a', 'b'",
        ),
        (
            {"a": "rbf", "b": "rbf", "c": "rbf"},
            ValueError,
            "The kernels of X have the unknown name 'c': give one for each description, 'a', 'b'",
        ),
        (
            ["rbf"],
            ValueError,
            r"one kernel for each of 2 descriptions of X \('a', 'b'\), found 1 kernels",
        ),
        (3, KernelError, "a mapping of descriptions to kernels or a list, found int"),
        ("rfb", KernelError, "Did you mean 'rbf'"),
        (
            ["rbf", ("precomputed", {"gamma": 1})],
            KernelError,
            r"X\['b'\] has a precomputed kernel, which takes no",
        ),
        (
            ["rbf", "precomputed"],
            KernelError,
            r"kernel X\['b'\] must be a square matrix, found shape \(13, 8\)",
        ),
        (
            ("poly", {"degree": 1, "coef0": -99.0}),
            KernelError,
            r"kernel of X\['a'\] is negative on its diagonal",
        ),
    )
)
def test_kernels_that_are_refused(kernels, error, words):
    with pytest.raises(error, match=words):
        describe({"a": X, "b": BITS}, kernels)


@over(every(form=[np.asarray, sparse.csr_array, np.float32]))
def test_gamma_of_rbf_is_one_over_the_mean_squared_distance(form):
    kernel, wide = describe({"a": form(BITS[:N])}, "rbf")
    squares = ((BITS[:N, None] - BITS[:N]) ** 2).sum(axis=2)
    mean = squares.sum() / (N * (N - 1))
    rtol = 1e-5 if form is np.float32 else 1e-12
    assert_allclose(kernel.members[0].params["gamma"], 1 / mean, rtol=rtol)
    assert_allclose(kernel(wide.values), np.exp(-squares / mean), rtol=1e-5)


@over(
    lines(
        "rows gamma",
        (np.ones((1, 2)), 0.5),
        (np.ones((3, 2)), 0.5),
        (np.full((7, 3), 0.1), 1 / 0.03),
        (np.full((7, 3), 1e9), 1 / 3e18),
        (np.zeros((3, 2)), 1.0),
    )
)
@over(every(form=[np.asarray, sparse.csr_array]))
def test_gamma_where_all_rows_are_the_same(rows, gamma, form):
    """The mean of equal numbers may differ from them by rounding, which is no distance."""
    kernel, wide = describe([form(rows)], "rbf")
    [member] = kernel.members
    assert_allclose(member.params["gamma"], gamma)
    assert not member.has_exponent
    assert_allclose(kernel(wide.values), 1.0, rtol=1e-12)


@over(
    every(
        kernel=["linear", "rbf"],
        factor=[1e-160, 1e-180, 1e145],
        form=[np.asarray, sparse.csr_array],
    )
)
def test_features_whose_squares_are_out_of_range(kernel, factor, form):
    words = r"The largest feature of X\['b'\] must be between .* multiply the features"
    with pytest.raises(KernelError, match=words):
        describe({"a": BITS[:N], "b": form(BITS[:N] * factor)}, kernel)


def test_kernels_that_are_too_small_to_scale():
    K = np.diag([1.0, 2.0, 3.0])
    words = r"The kernel of X\['a'\] has a mean diagonal of only 2e-310: multiply it"
    for normalize in (True, False):
        with pytest.raises(KernelError, match=words):
            describe({"a": K * 1e-310}, "precomputed", normalize=normalize)
        kernel, wide = describe({"a": K * 1e-290}, "precomputed", normalize=normalize)
        assert_allclose(kernel(wide.values), np.eye(3) if normalize else K / 2)


GROUPS = np.kron(np.eye(3), np.ones((3, 3)))


@over(
    lines(
        "K expected",
        (np.eye(N), False),
        (np.ones((N, N)), False),
        (GROUPS, False),
        (5.0 * GROUPS, False),
        (GROUPS + 0.5, True),
        (SIMILAR[:N, :N], True),
        (np.eye(N) - 0.005, False),
        (np.eye(N) + GROUPS - 0.01, True),
        (np.eye(N) + GROUPS - 0.03, False),
    )
)
def test_what_has_an_exponent(K, expected):
    for normalize in (True, False):
        kernel, _ = describe([K], "precomputed", normalize=normalize)
        assert kernel.members[0].has_exponent is expected


def test_entries_a_hair_below_zero_count_as_zero_where_there_is_an_exponent():
    K = np.eye(N) + GROUPS - 0.01
    kernel, wide = describe([K], "precomputed", normalize=False)
    scaled = np.maximum(K, 0.0) / 1.99
    for found in (kernel.blocks(wide.values)[0], kernel(wide.values)):
        assert_allclose(found, scaled, rtol=1e-12)
    assert_allclose(kernel.with_parameters([2.0], [1.5])(wide.values), 2 * scaled**1.5, rtol=1e-12)


def test_what_weighs_nothing_is_not_computed():
    calls = []

    def counted(A, B):
        calls.append(A.shape)
        return A @ B.T

    kernel, wide = describe([X, X], ["rbf", counted])
    calls.clear()
    kernel.with_parameters([1.0, 0.0], [1.0, 1.0])(wide.values)
    assert not calls
    kernel(wide.values)
    assert calls


def test_many_rows_tell_by_some_of_them_whether_there_is_an_exponent():
    features = default_rng(1).normal(size=(700, 2))
    for given, expected in ((features, False), (np.abs(features), True)):
        kernel, _ = describe([given], "linear")
        assert kernel.members[0].has_exponent is expected


def test_kernels_are_repaired_first():
    K = INDEFINITE
    for psd, normalize in itertools.product(("clip", "shift"), (False, True)):
        with pytest.warns(KernelRepairWarning, match=r"X\['1'\] is indefinite"):
            kernel, wide = describe([K], "precomputed", normalize=normalize, repair=psd)
        own = np.diagonal(mended := repair(K, psd=psd))
        roots = np.sqrt(own if normalize else np.full(3, own.mean()))
        assert_allclose(kernel(wide.values), mended / np.outer(roots, roots), rtol=1e-12)
    # New entities come as they are, and were 1 to themselves before the repair.
    new = widen(kernel, [K[:1, ::-1]]).values
    assert_allclose(kernel(new, wide.values), K[:1, ::-1] / roots, rtol=1e-12)
    for wrong, words in ((K, "is not positive semi-definite"), (K + np.eye(3, k=1), "is not symm")):
        with pytest.raises(KernelError, match=rf"X\['1'\] {words}"):
            describe([wrong], "precomputed", repair="error")


UNEVEN = SIMILAR * np.outer(np.arange(1.0, 14.0), np.arange(1.0, 14.0))


@over(every(normalize=[True, False]))
def test_a_diagonal_that_differs(normalize):
    kernel, wide = describe([pd.DataFrame(UNEVEN[:N, :N])], "precomputed", normalize=normalize)
    scaled = SIMILAR / 3.0 if normalize else UNEVEN / np.diagonal(UNEVEN)[:N].mean()
    assert_allclose(kernel(wide.values), scaled[:N, :N], rtol=1e-12)
    # The rows of training are known again.
    assert_array_equal(widen(kernel, [UNEVEN[:N, :N]]).values, wide.values)
    new = widen(kernel, [pd.DataFrame(UNEVEN[N:, :N])]).values
    assert_array_equal(new, np.column_stack([np.full(N_NEW, -1), UNEVEN[N:, :N]]))
    words = "to itself is not known .* scale it by dyadlearn.kernels.normalize"
    with pytest.raises(KernelError, match=words):
        kernel.diagonal(new)
    if normalize:
        with pytest.raises(KernelError, match=words):
            kernel(new, wide.values)
    else:
        assert_allclose(kernel(new, wide.values), scaled[N:, :N], rtol=1e-12)


def test_kernels_between_new_entities_are_not_known():
    kernel, wide = described()
    new = widen(kernel, tables(TEST, TRAIN)).values
    words = "The precomputed kernel 'similar' is not known between new entities"
    for A, B in ((new, None), (wide.values, new), (new[:1], new[:1].copy())):
        with pytest.raises(KernelError, match=words):
            kernel(A, B)


@over(
    covering(rows=[[4, 0, 7, 2, 11], [0, 1, 2, 3], list(range(12, -1, -1))], with_ids=[True, False])
)
def test_rows_of_one_holder_are_training_and_new(rows, with_ids):
    everybody = np.arange(N + N_NEW)
    ids = Ids(tuple(f"e{place}" for place in everybody))
    similar = Table(UNEVEN, ids, ids) if with_ids else UNEVEN
    first = Descriptions({**tables(everybody, everybody), "similar": similar})
    train = first[rows]
    kernel, wide = describe(train, KERNELS)
    assert wide.row_ids == (ids.take(rows) if with_ids else None)
    scaled = SIMILAR / 3.0
    assert_allclose(kernel.blocks(wide.values)[3], scaled[np.ix_(rows, rows)], rtol=1e-12)
    # Some of those asked for were there in training; of new ones the diagonal is not known.
    new = widen(kernel, first[[2, 0, 5]], train.places)
    expected = [rows.index(place) if place in rows else -1 for place in (2, 0, 5)]
    start = kernel.members[3].start
    assert_array_equal(new.values[:, start], expected)
    assert_array_equal(new.values[:, start + 1 :], UNEVEN[np.ix_([2, 0, 5], rows)])
    assert_allclose(
        kernel.blocks(new.values[:2], wide.values)[3], scaled[np.ix_([2, 0], rows)], rtol=1e-12
    )
    # All of them at once.
    if len(rows) < len(everybody) or with_ids:
        found = widen(kernel, first, train.places).values
        assert_array_equal(found[:, start + 1 :], UNEVEN[:, rows])
    # Or, of any origin, a column for each entity of training.
    alone = tables([5], rows)
    found = widen(kernel, alone, train.places).values
    assert_array_equal(found[:, start + 1 :], alone["similar"])
    few = Descriptions(tables(TRAIN[:2], TRAIN[:2]))
    with pytest.raises(ValueError, match="'similar'.* has 2 columns, expected one for each of"):
        widen(kernel, few, train.places)


@over(lines("kind", "pandas", "polars"))
def test_frames_with_ids_in_another_order(kind):
    names = [f"e{place}" for place in range(N + N_NEW)]
    features = ["one", "two", "three"]

    def frame(array, rows, columns):
        columns = [each if isinstance(each, str) else names[each] for each in columns]
        ids = Ids(tuple(names[place] for place in rows)), Ids(tuple(columns))
        return write_table(array, *ids, kind)

    def similar(rows, columns):
        return frame(SIMILAR[np.ix_(rows, columns)], rows, columns)

    def check(rows, table, wide):
        found = kernel.blocks(table.values, wide.values)
        expected = twins(rows, TRAIN, True)[::3]
        assert_allclose(list(found), expected, rtol=1e-12, atol=1e-12)

    order = rng.permutation(N)
    given = {"x": frame(X[TRAIN], TRAIN, features), "similar": similar(order, TRAIN)}
    kernels = ["linear", "precomputed"]
    kernel, wide = describe(given, kernels)
    assert wide.kind == kind
    assert wide.row_ids.labels == tuple(names[:N])
    check(TRAIN, wide, wide)
    # New entities, with the columns in another order and one too many, and the descriptions too.
    new = {"similar": similar(TEST, [*order, N]), "x": frame(X[TEST], TEST, features)}
    check(TEST, widen(kernel, new), wide)
    assert_array_equal(widen(kernel, Descriptions(given)[[3, 1]]).values[:, 3], [3, 1])
    with pytest.raises(
        IdError, match=r"X\['similar'\] has no column for 1 entities of training \('e0'\)"
    ):
        widen(kernel, {**new, "similar": similar(TEST, TRAIN[1:])})
    odd = frame(SIMILAR[:N, :N], TRAIN, [f"other{place}" for place in TRAIN])
    with pytest.raises(IdError, match=r"X\['similar'\] has no column for 9 of its rows \('e0'"):
        describe({**given, "similar": odd}, kernels)


def test_other_descriptions_than_in_training():
    kernel, _ = described()
    new = tables(TEST, TRAIN)
    rows = X[TEST]
    for change, words in (
        (
            {"y": rows},
            "The descriptions of X have the unknown name 'y': give those of training, 'x', ",
        ),
        ({"x": rows[:, :2]}, r"X\['x'\] has 2 columns, expected the 3 features of training"),
        ({"similar": SIMILAR[N:]}, r"X\['similar'\] has 13 columns, expected one for each of 9"),
        ({"x": np.where(rows > 0, rows, np.nan)}, r"X\['x'\] has NaN in part of row "),
        ({"x": abs(rows) * np.inf}, "infinity"),
    ):
        with pytest.raises(ValueError, match=words):
            widen(kernel, new | change)
    with pytest.raises(
        ValueError, match="X has no description of row 0, 1, 2, 3: give one of 'x', 'bits'"
    ):
        widen(kernel, {"x": rows * np.nan})
    turned = widen(kernel, dict(reversed(new.items()))).values
    assert_array_equal(turned, widen(kernel, new).values)


def test_descriptions_that_rows_lack():
    kernel, wide = described()
    new = tables(TEST, TRAIN)
    new["counts"] = np.where(np.arange(N_NEW)[:, None] == 2, np.nan, new["counts"])
    found = widen(kernel, {name: new[name] for name in ("x", "counts")}).values
    expected = [[False, True, row == 2, True] for row in range(N_NEW)]
    assert_array_equal(kernel.lacking(found), expected)
    assert not kernel.lacking(wide.values).any()
    only = kernel.only(np.array([True, False, False, False]))
    expected = kernel.members[0].term(twins(TEST, TRAIN, True)[0])
    assert_allclose(only(found, wide.values), expected, rtol=1e-12)
    bits = BITS[TEST]
    bits[1] = np.nan
    thin = {"x": new["x"], "bits": sparse.csr_array(bits)}
    found = widen(kernel, thin).values
    assert_array_equal(kernel.lacking(found)[:, 1], np.arange(N_NEW) == 1)
    thin["bits"][1, 0] = 1.0
    with pytest.raises(ValueError, match=r"X\['bits'\] has NaN in part of row 1: fill it in"):
        widen(kernel, thin)


def test_sparse_tables():
    kernels = {"bits": "tanimoto", "counts": "linear"}

    def thin(rows):
        return {name: sparse.csr_array(BITS[rows]) for name in kernels}

    kernel, wide = describe(Descriptions(thin(TRAIN)), kernels)
    new = widen(kernel, thin(TEST))
    for rows, table in ((TRAIN, wide), (TEST, new)):
        assert sparse.issparse(table.values)
        expected = twins(rows, TRAIN, True)[1:3]
        found = kernel.blocks(table.values, wide.values)
        assert_allclose(list(found), expected, rtol=1e-12, atol=1e-12)
    zero = kernel.with_parameters([0, 0], [1, 1])(new.values, wide.values)
    assert_array_equal(zero, np.zeros((N_NEW, N)))
    # What joins leaves the table sparse.
    both, wider = kernel.joined(["similar"], [SIMILAR[:N, :N]], wide)
    assert sparse.issparse(wider.values)
    found = both.blocks(wider.values, wider.values[[4, 1]])[2]
    assert_allclose(found, SIMILAR[:N, [4, 1]] / 3.0, rtol=1e-12)
    # Beside a dense one all are dense.
    mixed = tables(TRAIN, TRAIN)
    mixed |= {name: sparse.csr_array(mixed[name]) for name in ("bits", "similar")}
    _, dense = describe(mixed, KERNELS)
    assert_allclose(dense.values, described()[1].values, rtol=1e-14)


def test_precision_is_that_of_the_finest_and_whole_numbers_have_no_say():
    counts = BITS[:N].astype(np.int8)
    single = X[:N].astype(np.float32)
    for given, expected in (
        ([counts, single], np.float32),
        ([X[:N], single], np.float64),
        ([counts, counts], np.float64),
    ):
        kernel, wide = describe(given, "linear")
        assert wide.values.dtype == kernel(wide.values).dtype == expected


def test_one_library_and_enough_memory(monkeypatch):
    strict = pytest.importorskip("array_api_strict")
    with pytest.raises(TypeError, match=r"found X\['1'\] of numpy, X\['2'\] of array_api_strict"):
        describe([X, strict.asarray(X)], "linear")
    monkeypatch.setattr("dyadlearn._memory.available_memory", lambda like: 10)
    with pytest.raises(NotEnoughMemoryError, match="The table of 2 descriptions of X needs about"):
        describe([X, X], "linear")


def test_forged_states_are_refused():
    kernel, _ = described()
    members = kernel.members
    for wrong in ((), members[1:], (members[0], members[2])):
        with pytest.raises(ModelFileError, match="do not fit together"):
            LearnedKernel.from_state({"members": wrong}, "kernel")
    state = members[3].state()
    for change in ({"stop": 20}, {"diagonal": None}, {"start": -1}, {"kernel": "linear"}):
        with pytest.raises(ModelFileError, match="do not fit together"):
            Description.from_state({**state, **change}, "kernel")
    with pytest.raises(ModelFileError, match="weight is of type str"):
        Description.from_state({**state, "weight": "1"}, "kernel")


@over(lines("kernel form", ("rbf", np.asarray), ("linear", sparse.csr_array)))
def test_rows_of_weight_two_are_as_good_as_two(kernel, form):
    weights = np.array([1, 2, 0, 3, 1, 1, 2, 1, 0])
    rows = X[TRAIN]
    once, _ = describe({"a": form(rows)}, kernel, weights=weights.astype(float), normalize=False)
    often, _ = describe({"a": form(np.repeat(rows, weights, axis=0))}, kernel, normalize=False)
    assert_allclose(once(form(rows)), often(form(rows)), rtol=1e-12)


def test_columns_of_others_are_the_entities_of_training_in_their_order():
    """Rows that were taken out of another holder have a column for each entity of training, not for each of theirs."""
    order = [2, 0, 3, 1]
    training = Descriptions({"a": SIMILAR[:4, :4]})[order]
    kernel, wide = describe(training, "precomputed")
    block = SIMILAR[4:7, order]
    found = widen(kernel, Descriptions({"a": block})[[0, 2]], training.places)
    assert_allclose(kernel(found.values, wide.values), block[[0, 2]] / 3)


def test_mean_squared_distance_of_rows_with_a_total_weight_of_one():
    rows = np.array([[0.0], [2.0]])
    assert learned.mean_squared_distance(rows, np.array([0.5, 0.5])) == 2.0
