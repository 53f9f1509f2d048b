"""AnnData in and out, with the real package: by names, in memory and in files, for what is known and what is new."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dyadlearn import (
    IndependentTaskRidgeCV,
    LearnedKernelRidge,
    OnlineTwoStepRidge,
    PairRegressor,
    TwoStepRidge,
    TwoStepRidgeCV,
    evaluate,
)
from dyadlearn._tables import Table
from dyadlearn.exceptions import IdError, NotEnoughMemoryError
from dyadlearn.exchange import from_anndata, to_anndata
from dyadlearn.kernels import Descriptions
from dyadlearn.labels import to_long
from dyadlearn.models import _observed

anndata = pytest.importorskip("anndata")
pd = pytest.importorskip("pandas")

M, Q = 12, 8
CELLS, GENES = [f"cell{i}" for i in range(M)], [f"gene{j}" for j in range(Q)]


def layers_of(adata):
    """Return the names of the layers, without X, which AnnData 0.13 lists among them."""
    return [name for name in adata.layers if name is not None]


def make(seed=0, dtype=np.float64, as_sparse=False):
    """Return conditions × genes as single-cell people have them: names, categories, embeddings, many zeros."""
    rng = np.random.default_rng(seed)
    values = rng.poisson(1.0, size=(M, Q)).astype(dtype)
    batch = pd.Categorical(["b", "a"] * (M // 2), categories=["b", "a", "unused"])
    obs = pd.DataFrame({"batch": batch, "depth": np.arange(M)}, index=CELLS)
    var = pd.DataFrame({"length": np.arange(Q)}, index=GENES)
    adata = anndata.AnnData(sparse.csr_matrix(values) if as_sparse else values, obs=obs, var=var)
    adata.obsm["X_pca"] = rng.normal(size=(M, 3)).astype(dtype)
    adata.obsm["traits"] = pd.DataFrame(rng.normal(size=(M, 2)), index=CELLS, columns=["dose", "time"])
    adata.obsm["words"] = pd.DataFrame({"drug": ["x", "y"] * (M // 2)}, index=CELLS)
    adata.obsm["bits"] = sparse.csr_matrix(rng.integers(2, size=(M, 5)).astype(dtype))
    adata.varm["embedding"] = rng.normal(size=(Q, 2)).astype(dtype)
    K, G = adata.obsm["X_pca"], adata.varm["embedding"]
    adata.obsp["similarity"] = sparse.csr_matrix(K @ K.T + np.eye(M))
    adata.varp["similarity"] = (G @ G.T + np.eye(Q)).astype(dtype)
    holes = values.copy().astype(np.float64)
    holes[rng.random((M, Q)) < 0.2] = np.nan
    adata.layers["holes"] = holes
    return adata


# In -------------------------------------------------------------------------------------------------


def test_it_goes_straight_into_fit():
    adata = make()
    data = from_anndata(adata, obsm="X_pca", varm="embedding")
    model = TwoStepRidge().fit(data.X, data.Y, tasks=data.tasks)
    twin = TwoStepRidge().fit(adata.obsm["X_pca"], adata.X, tasks=adata.varm["embedding"])
    for setting in "ABCD":
        found = model.holdout(setting)
        assert (found.index.tolist(), found.columns.tolist()) == (CELLS, GENES)
        assert_allclose(found, twin.holdout(setting), rtol=1e-12)
    new = make(seed=1)[[4, 2]].copy()
    rows = from_anndata(new, obsm="X_pca", labels=False)
    assert rows.Y is None
    assert rows.tasks is None
    assert_allclose(model.predict(rows.X), twin.predict(new.obsm["X_pca"]), rtol=1e-12)
    assert model.predict(rows.X).index.tolist() == ["cell4", "cell2"]


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_labels_keep_their_values(as_sparse, dtype):
    adata = make(dtype=dtype, as_sparse=as_sparse)
    data = from_anndata(adata, obsm="X_pca")
    assert_array_equal(data.Y, make().X)
    assert data.Y.dtypes.unique().tolist() == [dtype]
    assert (data.Y.index.tolist(), data.Y.columns.tolist()) == (CELLS, GENES)


def test_entries_of_every_kind_describe_a_side():
    adata = make()
    for key in ("X_pca", "traits", "bits"):
        data = from_anndata(adata, layer="holes", obsm=key, varp="similarity")
        model = TwoStepRidge(task_kernel="precomputed").fit(data.X, data.Y, tasks=data.tasks)
        plain = adata.obsm[key].toarray() if key == "bits" else np.asarray(adata.obsm[key])
        twin = TwoStepRidge(task_kernel="precomputed").fit(plain, adata.layers["holes"], tasks=adata.varp["similarity"])
        assert_allclose(model.predict(), twin.predict(), rtol=1e-8)
        assert model.predict(data.X).index.tolist() == CELLS
    assert from_anndata(adata, obsm="traits").X.columns.tolist() == ["dose", "time"]
    assert isinstance(from_anndata(adata, obsm="bits").X, Table)
    kernel = from_anndata(adata, obsp="similarity").X
    assert kernel.index.tolist() == kernel.columns.tolist() == CELLS
    assert_allclose(kernel, adata.obsp["similarity"].toarray())


def test_several_entries_are_descriptions():
    adata = make()
    data = from_anndata(adata, obsm=["X_pca", "traits"], obsp="similarity", varm="embedding")
    assert isinstance(data.X, Descriptions)
    assert data.X.names == ("X_pca", "traits", "similarity")
    assert data.X.row_ids.labels == tuple(CELLS)
    kernels = {"X_pca": "rbf", "traits": "rbf", "similarity": "precomputed"}
    model = LearnedKernelRidge(kernel=kernels, setting="B", max_iter=3, random_state=0)
    model.fit(data.X, data.Y, tasks=data.tasks)
    assert model.predict().index.tolist() == CELLS
    adata.obsp["X_pca"] = adata.obsp["similarity"]
    with pytest.raises(ValueError, match="obsm and obsp both have an entry 'X_pca'"):
        from_anndata(adata, obsm="X_pca", obsp="X_pca")


def test_what_is_not_stored_is_zero_or_missing_as_told():
    adata = make(as_sparse=True)
    dense = adata.X.toarray()
    # A zero that is stored is a label either way, and NaN is none.
    at, stored = tuple(np.argwhere(dense == 0)[0]), adata.X.tocoo()
    data, rows, columns = np.append(stored.data, 0.0), np.append(stored.row, at[0]), np.append(stored.col, at[1])
    stored = sparse.csr_matrix((data, (rows, columns)), shape=dense.shape)
    gone = tuple(np.argwhere(dense > 0)[-1])
    stored[gone] = np.nan
    adata.X = stored
    missing = np.where(dense == 0, np.nan, dense)
    missing[at], missing[gone] = 0.0, np.nan
    dense[gone] = np.nan
    options = {"obsm": "X_pca", "varm": "embedding"}
    for unstored, expected in (("zero", dense), ("missing", missing)):
        data = from_anndata(adata, unstored=unstored, **options)
        assert isinstance(data.Y, Table) == (unstored == "missing")
        model = TwoStepRidge().fit(data.X, data.Y, tasks=data.tasks)
        twin = TwoStepRidge().fit(adata.obsm["X_pca"], expected, tasks=adata.varm["embedding"])
        assert_allclose(model.predict(data.X), twin.predict(adata.obsm["X_pca"]), rtol=1e-6)
        assert model.predict().columns.tolist() == GENES
    with pytest.raises(ValueError, match=r"adata.layers\['holes'\] is dense and stores all labels"):
        from_anndata(adata, layer="holes", unstored="missing", **options)


def test_views_and_files_are_read_in_part(tmp_path):
    options = {"obsm": ["X_pca", "bits"], "varm": "embedding"}
    for as_sparse in (False, True):
        adata = make(as_sparse=as_sparse)
        adata.write_h5ad(tmp_path / "a.h5ad")
        backed = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
        expected = make().X
        for source, rows in ((adata, None), (backed, None), (adata, [5, 2, 9]), (backed, [2, 5, 9])):
            part = source if rows is None else source[rows]
            data = from_anndata(part, **options)
            taken = slice(None) if rows is None else rows
            assert_array_equal(data.Y, expected[taken])
            assert data.Y.index.tolist() == part.obs_names.tolist()
            assert_array_equal(data.X.tables["X_pca"].values, adata.obsm["X_pca"][taken])
            assert_array_equal(data.X.tables["bits"].values.toarray(), adata.obsm["bits"][taken].toarray())
            assert type(data.Y) is pd.DataFrame
        if as_sparse:
            assert from_anndata(backed, unstored="missing", **options).Y.values.nnz == adata.X.nnz
        backed.file.close()


def test_lazy_arrays_are_computed():
    dask = pytest.importorskip("dask.array")
    adata = make()
    expected = adata.X.copy()
    adata.X = dask.from_array(adata.X, chunks=(5, 4))
    assert_array_equal(from_anndata(adata, obsm="X_pca").Y, expected)


def test_what_is_not_there_or_no_description_is_told(monkeypatch):
    adata = make()
    cases = [
        ({}, ValueError, r"Nothing describes .*obsm has 'X_pca', 'traits', 'words', 'bits'; obsp has 'similarity'"),
        ({"obsm": "X_umap"}, ValueError, r"adata.obsm has no entry 'X_umap': it has 'X_pca', 'traits'"),
        ({"obsm": "X_pca", "layer": "raw"}, ValueError, r"adata.layers has no entry 'raw': it has 'holes'"),
        ({"obsm": "words"}, ValueError, r"adata.obsm\['words'\] holds text in column 'drug'"),
        ({"obsm": "X_pca", "unstored": "nan"}, ValueError, "unstored must be"),
    ]
    for options, error, message in cases:
        with pytest.raises(error, match=message):
            from_anndata(adata, **options)
    adata.uns.clear()
    adata.obsm["odd"] = adata.obsm["X_pca"].reshape(M, 3, 1)
    with pytest.raises(ValueError, match=r"adata.obsm\['odd'\] must have a row of numbers .*the shape \(12, 3, 1\)"):
        from_anndata(adata, obsm="odd")
    for wrong in (np.eye(3), None, adata.obs):
        with pytest.raises(TypeError, match=f"adata must be an AnnData, found {type(wrong).__name__}"):
            from_anndata(wrong, obsm="odd")
    adata.obs_names = ["cell0", *CELLS[:-1]]
    with pytest.raises(IdError, match=r"adata.obs_names has repeated ids: 'cell0'.*obs_names_make_unique"):
        from_anndata(adata, obsm="X_pca")
    empty = anndata.AnnData(obs=pd.DataFrame(index=CELLS), var=pd.DataFrame(index=GENES), obsm={"a": np.ones((M, 1))})
    assert from_anndata(empty, obsm="a").Y is None
    monkeypatch.setattr("dyadlearn._checks.available_memory", lambda like: 10)
    with pytest.raises(NotEnoughMemoryError, match=r"adata.X as a dense matrix of 12 × 8 .*unstored=\"missing\""):
        from_anndata(make(as_sparse=True), obsm="X_pca")


# Out ------------------------------------------------------------------------------------------------


@dataclass
class Fitted:
    adata: object
    model: object


@pytest.fixture
def fitted():
    adata = make()
    data = from_anndata(adata, obsm="X_pca", varm="embedding")
    model = TwoStepRidgeCV(setting="B", alphas=[0.5], task_alphas=[2.0])
    return Fitted(adata, model.fit(data.X, data.Y, tasks=data.tasks))


def test_a_new_one_holds_labels_and_predictions(fitted, tmp_path):
    model = fitted.model
    found = to_anndata(model)
    assert (found.obs_names.tolist(), found.var_names.tolist()) == (CELLS, GENES)
    assert_array_equal(found.X, fitted.adata.X)
    assert_allclose(found.layers["predicted"], model.predict())
    for setting in "ABCD":
        assert_allclose(found.layers[f"holdout_{setting}"], model.holdout(setting))
    assert layers_of(found) == ["predicted", "holdout_A", "holdout_B", "holdout_C", "holdout_D"]
    about = found.uns["dyadlearn"]
    assert (about["model"], about["alpha"], about["task_alpha"]) == ("TwoStepRidgeCV", model.alpha_, model.task_alpha_)
    assert list(about["holdout"]) == list("ABCD")
    found.write_h5ad(tmp_path / "found.h5ad")
    again = anndata.read_h5ad(tmp_path / "found.h5ad")
    assert_array_equal(again.layers["holdout_D"], found.layers["holdout_D"])
    assert again.uns["dyadlearn"]["holdout"] == about["holdout"]
    some = to_anndata(model, settings=["D", "B"], layer="score")
    assert some.X is None
    assert layers_of(some) == ["predicted", "holdout_D", "holdout_B", "score"]
    assert_array_equal(some.layers["score"], fitted.adata.X)


def test_layers_hold_what_evaluate_scores():
    """Of labels with holes too, which are held out in folds."""
    adata = make()
    data = from_anndata(adata, layer="holes", obsm="X_pca", varm="embedding")
    model = TwoStepRidgeCV(setting="B", alphas=[0.5], task_alphas=[2.0]).fit(data.X, data.Y, tasks=data.tasks)
    found = to_anndata(model)
    assert_array_equal(found.X, adata.layers["holes"])
    assert_allclose(found.layers["predicted"], model.predict())
    scored = evaluate(model, scoring="neg_mean_squared_error")
    for setting, score in zip(scored["setting"], scored["neg_mean_squared_error"], strict=True):
        errors = (found.layers[f"holdout_{setting}"] - found.X) ** 2
        # Over all cells for A and D, per instance for B and per task for C.
        errors = {"B": np.nanmean(errors, axis=1), "C": np.nanmean(errors, axis=0)}.get(setting, errors)
        assert_allclose(-np.nanmean(errors), score, rtol=1e-9)


def test_an_existing_one_is_written_into_by_its_names(fitted):
    model = fitted.model
    # Another order, some genes that the model has not seen, and two cells more.
    more = make(seed=5)[::-1, :].copy()
    extra = anndata.AnnData(np.ones((2, Q)), obs=pd.DataFrame(index=["late1", "late2"]), var=more.var.copy())
    adata = anndata.concat([more[:3], extra, more[3:]], join="outer", merge="same")
    before = adata.copy()
    assert to_anndata(model, adata=adata, settings="B") is adata
    held_out = model.holdout("B")
    frame = pd.DataFrame(adata.layers["holdout_B"], adata.obs_names, adata.var_names)
    assert_allclose(frame.loc[CELLS, GENES], held_out)
    assert frame.loc[["late1", "late2"]].isna().all(axis=None)
    assert sorted(layers_of(adata)) == sorted([*layers_of(before), "predicted", "holdout_B"])
    assert_array_equal(adata.X, before.X)
    pd.testing.assert_frame_equal(adata.obs, before.obs)
    in_place = make()
    to_anndata(model, adata=in_place, settings="A")
    assert in_place.obs["batch"].cat.categories.tolist() == ["b", "a", "unused"]
    pd.testing.assert_frame_equal(in_place.obs, make().obs)
    pd.testing.assert_frame_equal(in_place.var, make().var)


def test_predictions_for_what_is_new(fitted):
    model, new = fitted.model, make(seed=3)
    new.obs_names, new.var_names = [f"new{name}" for name in CELLS], [f"new{name}" for name in GENES]
    data = from_anndata(new, obsm="X_pca", varm="embedding", labels=False)
    expected = model.predict(data.X, tasks=data.tasks)
    made = to_anndata(model, data.X, data.tasks)
    assert (made.obs_names.tolist(), made.var_names.tolist()) == (list(new.obs_names), list(new.var_names))
    assert_allclose(made.X, expected)
    assert not made.layers
    turned = new[::-1, ::-1].copy()
    to_anndata(model, data.X, data.tasks, adata=turned, layer="guess")
    frame = pd.DataFrame(turned.layers["guess"], turned.obs_names, turned.var_names)
    assert_allclose(frame.loc[new.obs_names, new.var_names], expected)
    assert_array_equal(turned.X, new.X[::-1, ::-1])
    # One side new: the other is that of training.
    known = make()
    known.obs_names = new.obs_names
    to_anndata(model, data.X, adata=known)
    assert_allclose(known.layers["predicted"], model.predict(data.X))


def test_models_of_every_kind(fitted, monkeypatch):
    adata = make()
    data = from_anndata(adata, obsm="X_pca", varm="embedding")
    each = IndependentTaskRidgeCV(alphas=[0.1, 1.0], alpha_per_task=True).fit(data.X, data.Y)
    found = to_anndata(each)
    assert layers_of(found) == ["predicted", "holdout_A", "holdout_B"]
    assert_array_equal(found.uns["dyadlearn"]["alpha"], each.alpha_)
    plain = TwoStepRidge().fit(adata.obsm["X_pca"], adata.X, tasks=adata.varm["embedding"])
    assert to_anndata(plain, settings="A").obs_names.tolist() == [str(place) for place in range(M)]
    single = TwoStepRidge().fit(data.X, data.Y["gene3"])
    assert to_anndata(single, settings="B").shape == (M, 1)
    long = to_long(data.Y)
    wrapped = PairRegressor(TwoStepRidge(), instances=data.X, tasks=data.tasks)
    wrapped.fit(np.array(long.iloc[:, :2]), long.iloc[:, 2])
    frame = to_anndata(wrapped, settings="D").to_df("holdout_D")
    model = TwoStepRidge().fit(data.X, data.Y, tasks=data.tasks)
    assert_allclose(frame.loc[CELLS, GENES], model.holdout("D"), rtol=1e-9)
    online = OnlineTwoStepRidge().partial_fit(data.X, data.Y, tasks=data.tasks)
    assert_allclose(to_anndata(online, data.X).X, online.predict(data.X))
    with pytest.raises(ValueError, match="keeps statistics only"):
        to_anndata(online)
    monkeypatch.setattr(_observed, "SMALL_GRID", 0)
    monkeypatch.setattr(_observed, "prefers_pairs", lambda *given, **options: True)
    monkeypatch.setattr("dyadlearn.models._training.prefers_pairs", lambda *given, **options: True)
    listed = from_anndata(make(as_sparse=True), obsm="X_pca", varm="embedding", unstored="missing")
    pairs = TwoStepRidge().fit(listed.X, listed.Y, tasks=listed.tasks)
    assert pairs._is_listed
    found = to_anndata(pairs, settings="B")
    assert layers_of(found) == ["holdout_B"]
    assert_array_equal(found.X.toarray(), adata.X)
    turned = make()[::-1].copy()
    to_anndata(pairs, settings="B", adata=turned)
    assert_array_equal(turned.layers["holdout_B"].toarray(), found.layers["holdout_B"].toarray()[::-1])


def test_nothing_is_written_where_something_is_wrong(fitted):
    model, adata = fitted.model, make()
    layers = layers_of(adata)
    with pytest.raises(IdError, match="'gene7' not among the ids of adata.var_names"):
        to_anndata(model, adata=adata[:, :7].copy())
    with pytest.raises(ValueError, match=r"adata is a view .* adata.copy\(\)"):
        to_anndata(model, adata=adata[:5])
    plain = TwoStepRidge().fit(adata.obsm["X_pca"], adata.X, tasks=adata.varm["embedding"])
    with pytest.raises(ValueError, match=r"knows its instances by no ids, .* adata.obs_names"):
        to_anndata(plain, adata=adata, settings="A")
    with pytest.raises(ValueError, match="settings are those of the training grid"):
        to_anndata(model, adata.obsm["X_pca"], settings="B")
    with pytest.raises(ValueError, match="layer='predicted' is that of predictions"):
        to_anndata(model, layer="predicted", settings="B")
    with pytest.raises(ValueError, match="nowhere|setting"):
        to_anndata(model, adata=adata, settings="Z")
    numbers = pd.DataFrame(adata.X, index=[1, "1", *range(2, M)])
    both = TwoStepRidge().fit(adata.obsm["X_pca"], numbers)
    with pytest.raises(IdError, match="The instances of the model have the ids 1 and '1'"):
        to_anndata(both, settings="A")
    assert layers_of(adata) == layers
    assert "dyadlearn" not in adata.uns


def test_a_file_is_written_into_and_saved(fitted, tmp_path):
    make().write_h5ad(tmp_path / "a.h5ad")
    backed = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
    to_anndata(fitted.model, adata=backed, settings="B")
    backed.write_h5ad(tmp_path / "b.h5ad")
    backed.file.close()
    again = anndata.read_h5ad(tmp_path / "b.h5ad")
    assert_allclose(again.layers["holdout_B"], fitted.model.holdout("B"))
    assert_array_equal(again.X, make().X)


# A journey: what knocking out a gene does to all others ------------------------------------------------


def test_perturbed_genes_from_a_file_to_predictions(tmp_path):
    """Conditions × genes: fit on the perturbations that were measured, predict those that were not."""
    rng = np.random.default_rng(0)
    genes = [f"G{j}" for j in range(40)]
    embedding = rng.normal(size=(40, 4))
    perturbed = rng.permutation(40)[:24]
    effects = embedding[perturbed] @ rng.normal(size=(4, 4)) @ embedding.T + 0.5 * rng.normal(size=(24, 40))
    obs = pd.DataFrame({"gene": [genes[j] for j in perturbed]}, index=[f"KO_{genes[j]}" for j in perturbed])
    adata = anndata.AnnData(effects, obs=obs, var=pd.DataFrame(index=genes))
    adata.obsm["embedding"], adata.varm["embedding"] = embedding[perturbed], embedding
    adata.write_h5ad(tmp_path / "screen.h5ad")
    screen = anndata.read_h5ad(tmp_path / "screen.h5ad")
    train, test = screen[:18], screen[18:].copy()
    data = from_anndata(train, obsm="embedding", varm="embedding")
    model = TwoStepRidgeCV(setting="B").fit(data.X, data.Y, tasks=data.tasks)
    new = from_anndata(test, obsm="embedding", labels=False)
    to_anndata(model, new.X, adata=test)
    found, truth = test.layers["predicted"], test.X
    assert ((found - truth) ** 2).mean() < 0.1 * (truth**2).mean()
    # Predictions do not depend on the order of conditions or genes in the file.
    turned = screen[:18][::-1, ::-1]
    data = from_anndata(turned, obsm="embedding", varm="embedding")
    again = TwoStepRidgeCV(setting="B").fit(data.X, data.Y, tasks=data.tasks).predict(new.X)
    assert_allclose(again[genes], found, rtol=1e-6)


def test_a_layer_of_labels_is_not_written_into_what_has_them(fitted):
    model = fitted.model
    with pytest.raises(ValueError, match="layer names where labels go, which are not written into adata"):
        to_anndata(model, adata=make(), layer="labels")
    with pytest.raises(TypeError, match="adata must be an AnnData, found ndarray"):
        to_anndata(model, adata=np.eye(3))
