"""AnnData in and out: `obs` are the instances, `var` the tasks, `X` or a layer the labels.

What describes a side lies beside it: features in `obsm` and `varm`, kernels in `obsp` and `varp`. Everything is matched
by `obs_names` and `var_names`, never by position. Predictions go into layers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array, csr_matrix
from sklearn.utils import Bunch

from dyadlearn._array import is_foreign, is_sparse, to_numpy
from dyadlearn._checks import check_choice, check_memory
from dyadlearn._files.tables import text_ids
from dyadlearn._tables import Ids, Table, make_ids, read_table, shown
from dyadlearn.diagnostics.fitted import held_out, ids_of, known_settings, labelled_model
from dyadlearn.exceptions import IdError
from dyadlearn.kernels.descriptions import Descriptions
from dyadlearn.models._observed import listed_labels
from dyadlearn.settings import Setting, as_setting

__all__ = ["from_anndata", "to_anndata"]

# Where predictions go that have no other place, and what those begin with that were held out.
_PREDICTED, _HELD_OUT = "predicted", "holdout_"
_SIDES = {"obs": "instances", "var": "tasks"}


def from_anndata(
    adata: Any,
    *,
    layer: str | None = None,
    obsm: str | Sequence[str] | None = None,
    varm: str | Sequence[str] | None = None,
    obsp: str | Sequence[str] | None = None,
    varp: str | Sequence[str] | None = None,
    labels: bool = True,
    unstored: str = "zero",
) -> Bunch:
    """Return what a model is fitted on out of an AnnData: ``model.fit(data.X, data.Y, tasks=data.tasks)``.

    Parameters
    ----------
    adata : AnnData
        In memory, or backed by a file, out of which only what is asked for is read. Of a view only its part is taken.
    layer : str, optional
        The layer that holds the labels; `X` where not given.
    obsm, varm : str or sequence of str, optional
        Which entries are features of the instances, and of the tasks: arrays, sparse matrices or frames of numbers.
    obsp, varp : str or sequence of str, optional
        Which entries are kernels of the instances, and of the tasks, for ``kernel="precomputed"`` and
        ``task_kernel="precomputed"``. Sparse ones are made dense.
    labels : bool, default=True
        Whether labels are read; not needed for what is only predicted for.
    unstored : {"zero", "missing"}, default="zero"
        What the cells are that a sparse matrix of labels does not store. ``"zero"``: labels that are 0, as in counts
        and expression; the grid is made dense. ``"missing"``: not observed; zeros that are stored are labels, and the
        matrix stays sparse. NaN is not observed either way.

    Returns
    -------
    data : Bunch
        `Y`, the labels with `obs_names` and `var_names` as ids, None where there are none. `X` and `tasks`, what the
        instances and the tasks are described by, None where nothing was asked for: one entry as it is, several as
        `dyadlearn.kernels.Descriptions` for `dyadlearn.LearnedKernelRidge`. What is dense is a frame of pandas, so that
        predictions are frames too; what is sparse is a table that models take as they take frames.

    Raises
    ------
    IdError
        If `obs_names` or `var_names` repeat.
    ValueError
        If an entry is not there or holds no numbers, or nothing describes either side.
    NotEnoughMemoryError
        If what is to be made dense does not fit.

    See Also
    --------
    to_anndata : the way back.

    Examples
    --------
    >>> import anndata
    >>> import numpy as np
    >>> import pandas as pd
    >>> from dyadlearn import TwoStepRidge
    >>> from dyadlearn.exchange import from_anndata
    >>> rng = np.random.default_rng(0)
    >>> cells, genes = pd.DataFrame(index=["c1", "c2", "c3", "c4"]), pd.DataFrame(index=["TP53", "MYC", "KRAS"])
    >>> adata = anndata.AnnData(rng.poisson(2.0, size=(4, 3)).astype(float), obs=cells, var=genes)
    >>> adata.obsm["X_pca"], adata.varm["embedding"] = rng.normal(size=(4, 2)), rng.normal(size=(3, 2))
    >>> data = from_anndata(adata, obsm="X_pca", varm="embedding")
    >>> model = TwoStepRidge().fit(data.X, data.Y, tasks=data.tasks)
    >>> model.holdout("B").loc["c1"].index.tolist()
    ['TP53', 'MYC', 'KRAS']
    """
    check_choice(unstored, "unstored", ("zero", "missing"))
    _check_anndata(adata)
    asked = {"obsm": _keys(obsm), "obsp": _keys(obsp), "varm": _keys(varm), "varp": _keys(varp)}
    if not any(asked.values()):
        there = {slot: list(getattr(adata, slot).keys()) for slot in asked}
        known = "; ".join(f"{slot} has {shown(keys)}" for slot, keys in there.items() if keys) or "it has none of these"
        raise ValueError(f"Nothing describes the instances or the tasks: name entries by {', '.join(asked)} ({known}).")
    rows, columns = (_names(adata, axis) for axis in _SIDES)
    return Bunch(
        X=_described(adata, "obs", rows, asked),
        Y=_labels(adata, layer, rows, columns, unstored) if labels else None,
        tasks=_described(adata, "var", columns, asked),
    )


def _check_anndata(adata: Any) -> None:
    if not all(hasattr(adata, name) for name in ("obs_names", "var_names", "layers", "uns")):
        raise TypeError(f"adata must be an AnnData, found {type(adata).__name__}.")


def _keys(given: str | Sequence[str] | None) -> list[str]:
    return [] if given is None else [given] if isinstance(given, str) else list(given)


def _names(adata: Any, axis: str) -> Ids:
    """Return `obs_names` or `var_names`, refusing those that repeat."""
    try:
        return make_ids(list(map(str, getattr(adata, f"{axis}_names"))), None, f"adata.{axis}_names")
    except IdError as error:
        raise IdError(f"{error} adata.{axis}_names_make_unique() does the latter.") from None


def _described(adata: Any, axis: str, ids: Ids, asked: Mapping[str, list[str]]) -> Any:
    """Return what one side is described by: a frame or table, several descriptions, or None."""
    features, kernels = asked[f"{axis}m"], asked[f"{axis}p"]
    both = sorted(set(features) & set(kernels))
    if both:
        raise ValueError(
            f"{axis}m and {axis}p both have an entry {both[0]!r} among those asked for: descriptions of the "
            f"{_SIDES[axis]} need different names, so rename one of them."
        )
    tables = {key: _entry(adata, f"{axis}m", key, ids) for key in features}
    tables |= {key: _entry(adata, f"{axis}p", key, ids) for key in kernels}
    return next(iter(tables.values()), None) if len(tables) < 2 else Descriptions(tables)


def _entry(adata: Any, slot: str, key: str, ids: Ids) -> Any:
    """Return one description of a side with the ids of its rows, of a kernel those of its columns too."""
    values = _loaded(_found(getattr(adata, slot), key, slot), f"adata.{slot}[{key!r}]")
    if hasattr(values, "columns"):
        read_table(values, f"adata.{slot}[{key!r}]")  # refuses words
        return values
    is_kernel = slot.endswith("p")
    return _named(_dense(values, f"adata.{slot}[{key!r}]") if is_kernel else values, ids, ids if is_kernel else None)


def _found(entries: Mapping[str, Any], key: str, slot: str) -> Any:
    if key not in entries:
        names = [name for name in entries.keys() if name is not None]  # noqa: SIM118 (AnnData 0.13 calls X the layer None)
        there = shown(names, 12) or "none"
        raise ValueError(f"adata.{slot} has no entry {key!r}: it has {there}.")
    return entries[key]


def _labels(adata: Any, layer: str | None, rows: Ids, columns: Ids, unstored: str) -> Any:
    """Return the labels with their ids, None where there are none."""
    title = "adata.X" if layer is None else f"adata.layers[{layer!r}]"
    given = adata.X if layer is None else _found(adata.layers, layer, "layers")
    if given is None:
        return None
    values = _loaded(given, title)
    if unstored == "zero":
        return _named(_dense(values, title), rows, columns)
    if not is_sparse(values):
        raise ValueError(
            f"{title} is dense and stores all labels: leave unstored out, and give NaN for what is not observed."
        )
    return replace(listed_labels(values), row_ids=rows, column_ids=columns, kind="pandas")


def _loaded(values: Any, title: str) -> Any:
    """Return what an AnnData holds as a plain array, sparse matrix or frame, out of its file if it lies in one."""
    for way in ("to_memory", "compute"):  # of matrices in files, and of lazy arrays
        if hasattr(values, way):
            return _loaded(getattr(values, way)(), title)
    if is_sparse(values):
        return csr_array(values)
    if is_foreign(values):
        return values
    if hasattr(values, "columns"):
        import pandas as pd

        return pd.DataFrame(values)  # of a view of a frame
    shape = getattr(values, "shape", None)
    if not hasattr(values, "dtype") or not shape:
        raise TypeError(f"{title} must be an array, a sparse matrix or a frame, found {type(values).__name__}.")
    if len(shape) != 2:
        raise ValueError(f"{title} must have a row of numbers for each name, found the shape {tuple(shape)}.")
    if not isinstance(values, np.ndarray):
        check_memory(values.dtype.itemsize * math.prod(values.shape), None, f"{title} in memory")
    return np.asarray(values[...])


def _dense(values: Any, title: str) -> Any:
    if not is_sparse(values):
        return values
    m, q = values.shape
    mend = 'take fewer rows or columns, or unstored="missing" if what is not stored was not observed'
    check_memory(values.dtype.itemsize * m * q, None, f"{title} as a dense matrix of {m} × {q}", mend)
    return values.toarray()


def _named(values: Any, rows: Ids, columns: Ids | None) -> Any:
    """Return values with their ids: a frame of pandas where they are dense and numpy's, else a table."""
    if not isinstance(values, np.ndarray):
        return Table(values, rows, columns, "pandas" if is_sparse(values) else None)
    import pandas as pd

    # Both are left to share memory: a frame of labels is as large as they are.
    return pd.DataFrame(values, index=list(rows.labels), columns=None if columns is None else list(columns.labels))


def to_anndata(
    model: Any,
    X: Any = None,
    tasks: Any = None,
    *,
    adata: Any = None,
    settings: Iterable[str | Setting] | None = None,
    layer: str | None = None,
) -> Any:
    """Return labels and predictions of a fitted model as an AnnData, or write its predictions into one.

    Without `X` and `tasks` it is about the grid of training. The layer ``"predicted"`` holds what the model predicts,
    which has seen the labels; ``"holdout_A"`` to ``"holdout_D"`` what it predicts for each label without having seen
    what the setting leaves out, as `dyadlearn.evaluate` scores it (learned kernels stay as they are). With `X` or
    `tasks` it is about their predictions. ``uns["dyadlearn"]`` tells the model, its regularisation and how labels were
    held out.

    Parameters
    ----------
    model : fitted model
    X, tasks : as in `predict`, optional
        What to predict for; one that is left out stands for that of training.
    adata : AnnData, optional
        Written into, and returned: predictions become layers, matched by `obs_names` and `var_names`, NaN for what the
        model says nothing of. All else in it stays as it is, its labels too. Nothing is written before all is computed.
    settings : iterable of {"A", "B", "C", "D"} or aliases, optional
        Which hold-out predictions of the training grid are made; all that the model has where not given.
    layer : str, optional
        Where the labels go, or the predictions for `X` and `tasks`. Where not given, that is `X` of a new AnnData, and
        the layer ``"predicted"`` of one that is given. Labels are not written into `adata`, which has them.

    Returns
    -------
    AnnData
        A new one has the ids of the model for names, as text, or numbers where it has none. Labels that are not
        observed are NaN; of a model of observed pairs alone, labels and hold-out predictions are sparse, and there is
        no layer ``"predicted"``.

    Raises
    ------
    IdError
        If `adata` lacks instances or tasks of the model, or names repeat.
    ValueError
        If `adata` is a view, the model has no ids to match with its names, or it keeps no labels.

    See Also
    --------
    from_anndata : the way in.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from dyadlearn import TwoStepRidge
    >>> from dyadlearn.exchange import to_anndata
    >>> rng = np.random.default_rng(0)
    >>> Y = pd.DataFrame(rng.normal(size=(5, 3)), index=list("abcde"), columns=["TP53", "MYC", "KRAS"])
    >>> model = TwoStepRidge().fit(rng.normal(size=(5, 2)), Y, tasks=rng.normal(size=(3, 2)))
    >>> to_anndata(model, settings=["B", "D"])
    AnnData object with n_obs × n_vars = 5 × 3
        uns: 'dyadlearn'
        layers: 'predicted', 'holdout_B', 'holdout_D'...
    """
    if adata is not None:
        _check_anndata(adata)
        if layer is not None and X is None and tasks is None:
            raise ValueError(
                "layer names where labels go, which are not written into adata: leave layer out, or adata."
            )
    about: dict[str, Any] = _about(model)
    if X is None and tasks is None:
        main, beside, words = _of_training(model, settings)
        about["holdout"] = words
    else:
        if settings is not None:
            raise ValueError("settings are those of the training grid: leave them out, or X and tasks.")
        main, beside = _of_new(model, X, tasks), {}
    if adata is None:
        return _made(main, beside, layer, about)
    layers = beside if beside else {layer or _PREDICTED: main}
    return _written(adata, layers, about)


def _of_training(
    model: Any, settings: Iterable[str | Setting] | None
) -> tuple[Table, dict[str, Table], dict[str, str]]:
    """Return the labels, the layers of predictions, and how each setting was held out, in words."""
    found, (rows, columns) = labelled_model(model), ids_of(model)
    asked = known_settings(found) if settings is None else list(dict.fromkeys(map(as_setting, settings)))
    grid = replace(found._grid, row_ids=rows, column_ids=columns)
    layers, words = {}, {}
    if found._is_listed:
        problem = found._fitted_problem
        for setting in asked:
            how = problem.plan(setting)
            values, words[setting.value] = problem.labels.to_sparse(to_numpy(how.held_out())), how.words
            layers[setting.value] = replace(grid, values=values)
    else:
        grid = replace(grid, values=to_numpy(grid.values))
        layers[""] = replace(grid, values=to_numpy(found._predicted(None, None).values).reshape(grid.values.shape))
        for setting in asked:
            values, words[setting.value] = held_out(found, setting)
            layers[setting.value] = replace(grid, values=values)
    return grid, {f"{_HELD_OUT}{name}" if name else _PREDICTED: table for name, table in layers.items()}, words


def _of_new(model: Any, X: Any, tasks: Any) -> Table:
    """Return predictions for others than those of training, with their ids."""
    if not hasattr(model, "_predicted"):
        raise TypeError(f"{type(model).__name__} predicts no grid: give to_anndata the model that it wraps.")
    predicted: Table = model._predicted(X, tasks)
    values = to_numpy(predicted.values)
    return replace(predicted, values=values.reshape(len(values), -1))


def _about(model: Any) -> dict[str, Any]:
    """Return what there is to tell of a model, in values that every file of an AnnData can hold."""
    from dyadlearn import __version__

    found = getattr(model, "model_", model)
    alphas = {name: to_numpy(np.asarray(value, dtype=np.float64)) for name, value in found._alphas.items()}
    return {
        "model": type(found).__name__,
        "version": __version__,
        **{name: float(value) if value.ndim == 0 else value for name, value in alphas.items()},
    }


def _made(main: Table, beside: Mapping[str, Table], layer: str | None, about: dict[str, Any]) -> Any:
    """Return a new AnnData."""
    try:
        from anndata import AnnData
    except ImportError as error:
        raise ImportError("An AnnData needs the anndata package: pip install dyadlearn[anndata].") from error
    import pandas as pd

    if layer in beside:
        raise ValueError(f"layer={layer!r} is that of predictions: the labels need another name.")
    names = [pd.DataFrame(index=list(_text(ids, n, axis).labels)) for ids, n, axis in _axes(main)]
    layers = {name: _plain(table.values) for name, table in beside.items()}
    layers |= {} if layer is None else {layer: _plain(main.values)}
    values = None if layer is not None else _plain(main.values)
    return AnnData(values, obs=names[0], var=names[1], layers=layers, uns={"dyadlearn": about})


def _plain(values: Any) -> Any:
    """Return values of a kind that every version of AnnData takes."""
    return csr_matrix(values) if is_sparse(values) else values


def _axes(table: Table) -> list[tuple[Ids | None, int, str]]:
    """Return the ids, the length and the name of each side."""
    return list(zip((table.row_ids, table.column_ids), table.values.shape, _SIDES, strict=True))


def _text(ids: Ids | None, n: int, axis: str) -> Ids:
    """Return the names of one side in an AnnData, which are texts; numbers where it has no ids."""
    return text_ids(ids or Ids(tuple(range(n))), f"The {_SIDES[axis]} of the model")


def _written(adata: Any, layers: Mapping[str, Table], about: dict[str, Any]) -> Any:
    """Write predictions into an AnnData, where their names are."""
    if adata.is_view:
        raise ValueError("adata is a view of another, which writing would not reach: give it as adata.copy().")
    placed = {name: _placed(adata, table) for name, table in layers.items()}
    for name, values in placed.items():
        adata.layers[name] = values
    adata.uns["dyadlearn"] = about
    return adata


def _placed(adata: Any, table: Table) -> Any:
    """Return predictions in the places that their ids have in an AnnData, NaN or nothing elsewhere."""
    places = []
    for ids, n, axis in _axes(table):
        if ids is None:
            raise ValueError(
                f"The model knows its {_SIDES[axis]} by no ids, which could be matched with adata.{axis}_names: fit it "
                "on what from_anndata returns, or on frames."
            )
        places.append(_names(adata, axis).positions(_text(ids, n, axis).labels, f"adata.{axis}_names"))
    if is_sparse(table.values):
        found = coo_array(table.values)
        at = (places[0][found.coords[0]], places[1][found.coords[1]])
        return _plain(coo_array((found.data, at), shape=adata.shape))
    values = np.full(adata.shape, np.nan, dtype=table.values.dtype)
    values[np.ix_(*places)] = table.values
    return values
