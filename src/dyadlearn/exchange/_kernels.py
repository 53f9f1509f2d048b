"""Kernels as nodes of a graph: between rows that come in and rows of training, and of rows with themselves.

Each is the formula of `dyadlearn.kernels`, on which side of a subtraction it rounds too. Squared distances are taken in
double precision whatever that of the graph, as they are there: single precision does not have the digits that cancel.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import singledispatch
from typing import Any

import numpy as np

from dyadlearn._array import to_numpy
from dyadlearn.exchange._graph import Graph
from dyadlearn.kernels import Product, Sum
from dyadlearn.kernels.gram import KERNELS, gram_diagonal
from dyadlearn.kernels.learned import LearnedKernel
from dyadlearn.kernels.members import Description

__all__ = ["block"]

# Rows that come in, by the names of what they describe; a single table has the name "".
Rows = Mapping[str, str]
Options = dict[str, Any]


def block(graph: Graph, kernel: Any, params: Mapping[str, Any] | None, rows: Rows, training: np.ndarray) -> str:
    """Add the kernel (n, m) between rows (n, d) and those of training (m, d), and return its name."""
    return _block(kernel, graph, dict(params or {}), rows, training)


def _refused(kernel: Any) -> ValueError:
    name = getattr(kernel, "__name__", type(kernel).__name__)
    return ValueError(
        f"The kernel {name} is a function of Python, which no graph holds: use one by its name, such as 'rbf', or a "
        "Sum or Product of such."
    )


@singledispatch
def _block(kernel: Any, graph: Graph, params: Options, rows: Rows, training: np.ndarray) -> str:
    raise _refused(kernel)


@_block.register
def _(kernel: str, graph: Graph, params: Options, rows: Rows, training: np.ndarray) -> str:
    if kernel not in _NAMED:
        raise ValueError(f"The kernel {kernel!r} has no form in a graph; those that have are {', '.join(_NAMED)}.")
    return _NAMED[kernel](graph, rows[""], training, **_options(kernel, params, training.shape[1]))


@_block.register
def _(kernel: Sum, graph: Graph, params: Options, rows: Rows, training: np.ndarray) -> str:
    members = _members(kernel, graph, rows, training)
    return _folded(graph, "Add", [graph.scaled(each, np.full(len(training), weight)) for each, weight in members])


@_block.register
def _(kernel: Product, graph: Graph, params: Options, rows: Rows, training: np.ndarray) -> str:
    members = _members(kernel, graph, rows, training)
    return _folded(graph, "Mul", [graph.node("Pow", each, weight) for each, weight in members])


@_block.register
def _(kernel: LearnedKernel, graph: Graph, params: Options, rows: Rows, training: np.ndarray) -> str:
    terms = [
        _term(graph, each, rows.get(each.name, rows.get("", "")), training[:, each.start : each.stop])
        for each in kernel.members
    ]
    return _folded(graph, "Add", terms)


def _members(kernel: Any, graph: Graph, rows: Rows, training: np.ndarray) -> list[tuple[str, float]]:
    """Return the blocks of a combination of kernels, with their weights."""
    given = [each if isinstance(each, tuple | list) else (each, None) for each in kernel.kernels]
    weights = kernel.weights or (1.0,) * len(given)
    return [(block(graph, name, own, rows, training), w) for (name, own), w in zip(given, weights, strict=True)]


def _folded(graph: Graph, kind: str, values: list[str]) -> str:
    total, *rest = values
    for each in rest:
        total = graph.node(kind, total, each)
    return total


def _term(graph: Graph, member: Description, rows: str, training: np.ndarray) -> str:
    """Return what one description adds to a learned kernel, see `Description`."""
    if member.is_precomputed:
        raise ValueError(
            f"The kernel of description {member.name!r} was computed beforehand, and a graph takes features: fit the "
            "model on features, or on those of dyadlearn.Landmarks."
        )
    found = block(graph, member.kernel, member.params, {"": rows}, training)
    if not member.normalized:
        found = graph.scaled(found, np.full(len(training), 1.0 / member.scale))
    else:
        diagonal = to_numpy(gram_diagonal(training, kernel=member.kernel, params=member.params))
        columns = np.where(diagonal == 0, 0.0, 1.0 / np.sqrt(np.where(diagonal == 0, 1.0, diagonal)))
        own = _own(graph, member.kernel, member.params, rows, training.shape[1])
        zero = graph.cast(graph.node("Equal", own, 0.0), None)
        scale = graph.node("Div", graph.node("Sub", 1.0, zero), graph.node("Sqrt", graph.node("Add", own, zero)))
        found = graph.node("Mul", found, graph.node("Mul", scale, columns[None, :]))
    if member.has_exponent:
        found = graph.node("Max", found, 0.0)
        if member.exponent != 1:
            found = graph.node("Pow", found, member.exponent)
    return graph.scaled(found, np.full(len(training), member.weight))


# k(x, x) -------------------------------------------------------------------------------------------


def _own(graph: Graph, kernel: Any, params: Mapping[str, Any] | None, rows: str, width: int) -> str:
    """Add the kernel of rows with themselves, (n, 1), or (1, 1) where it is one number, where a graph knows it."""
    if not isinstance(kernel, str) or kernel not in _OWN:
        raise ValueError(
            f"The kernel {kernel if isinstance(kernel, str) else type(kernel).__name__} of a description is scaled to "
            "a unit diagonal, which a graph knows of kernels with a name only: fit with normalize=False."
        )
    lengths = _square_norms(graph, rows)
    return _OWN[kernel](graph, lengths, **_options(kernel, dict(params or {}), width))


def _square_norms(graph: Graph, rows: str) -> str:
    return graph.reduced("ReduceSum", graph.node("Mul", rows, rows), 1)


def _all_ones(graph: Graph, lengths: str, **_: Any) -> str:
    return graph.constant(np.ones((1, 1)))  # not of lengths, which may overflow


def _nothing(graph: Graph, lengths: str) -> str:
    return graph.constant(np.zeros((1, 1)))


def _is_positive(graph: Graph, lengths: str) -> str:
    return graph.cast(graph.node("Greater", lengths, 0.0), None)


def _itself(graph: Graph, lengths: str) -> str:
    return lengths


def _own_polynomial(graph: Graph, lengths: str, *, degree: float, gamma: float, coef0: float) -> str:
    return graph.node("Pow", graph.node("Add", graph.scaled(lengths, np.full(1, gamma)), coef0), degree)


def _own_sigmoid(graph: Graph, lengths: str, *, gamma: float, coef0: float) -> str:
    return graph.node("Tanh", graph.node("Add", graph.scaled(lengths, np.full(1, gamma)), coef0))


_OWN: dict[str, Callable[..., str]] = {
    **dict.fromkeys(("rbf", "laplacian", "tanimoto", "minmax", "chi2", "delta"), _all_ones),
    "additive_chi2": _nothing,
    "cosine": _is_positive,
    "linear": _itself,
    "poly": _own_polynomial,
    "polynomial": _own_polynomial,
    "sigmoid": _own_sigmoid,
}


# k(x, b) -------------------------------------------------------------------------------------------


def _options(kernel: str, params: Options, width: int) -> Options:
    """Return all parameters of a kernel, those too that nobody gave."""
    known = inspect.signature(KERNELS[kernel]).parameters.values()
    found = {each.name: each.default for each in known if each.kind is each.KEYWORD_ONLY} | params
    return {name: 1.0 / width if value is None else float(value) for name, value in found.items()}


def _products(graph: Graph, rows: str, training: np.ndarray) -> str:
    return graph.node("MatMul", rows, training.T)


def _linear(graph: Graph, rows: str, training: np.ndarray) -> str:
    return _products(graph, rows, training)


def _poly(graph: Graph, rows: str, training: np.ndarray, *, degree: float, gamma: float, coef0: float) -> str:
    return graph.node("Pow", graph.node("Add", _products(graph, rows, gamma * training), coef0), degree)


def _sigmoid(graph: Graph, rows: str, training: np.ndarray, *, gamma: float, coef0: float) -> str:
    return graph.node("Tanh", graph.node("Add", _products(graph, rows, gamma * training), coef0))


def _rbf(graph: Graph, rows: str, training: np.ndarray, *, gamma: float) -> str:
    training, double = np.asarray(training, dtype=np.float64), np.float64
    rows = graph.cast(rows, double)
    squares = graph.node("MatMul", rows, graph.constant(-2.0 * training.T, double))
    squares = graph.node("Add", squares, _square_norms(graph, rows))
    squares = graph.node("Add", squares, graph.constant(np.sum(training**2, axis=1)[None, :], double))
    squares = graph.node("Max", squares, graph.constant(0.0, double))
    return graph.cast(graph.node("Exp", graph.node("Mul", squares, graph.constant(-gamma, double))), None)


def _tanimoto(graph: Graph, rows: str, training: np.ndarray) -> str:
    found = _products(graph, rows, training)
    lengths = graph.node("Add", _square_norms(graph, rows), np.sum(training**2, axis=1)[None, :])
    return _share(graph, found, graph.node("Sub", lengths, found))


def _share(graph: Graph, part: str, whole: str) -> str:
    """Add part over whole; two vectors of zeros are alike."""
    empty = graph.cast(graph.node("Equal", whole, 0.0), None)
    return graph.node("Div", graph.node("Add", part, empty), graph.node("Add", whole, empty))


def _cosine(graph: Graph, rows: str, training: np.ndarray) -> str:
    lengths = np.sqrt(np.sum(training**2, axis=1, keepdims=True))
    own = graph.node("Sqrt", _square_norms(graph, rows))
    zero = graph.cast(graph.node("Equal", own, 0.0), None)
    directions = graph.node("Div", rows, graph.node("Add", own, zero))
    return _products(graph, directions, training / np.where(lengths == 0, 1.0, lengths))


def _manhattan(graph: Graph, rows: str, training: np.ndarray) -> str:
    def measure(row: str) -> str:
        return graph.reduced("ReduceSum", graph.node("Abs", graph.node("Sub", rows, row)), 1, keepdims=False)

    return graph.by_rows(training, measure)


def _laplacian(graph: Graph, rows: str, training: np.ndarray, *, gamma: float) -> str:
    return graph.node("Exp", graph.node("Mul", _manhattan(graph, rows, training), -gamma))


def _minmax(graph: Graph, rows: str, training: np.ndarray) -> str:
    apart = _manhattan(graph, rows, training)
    total = graph.node("Add", graph.reduced("ReduceSum", rows, 1), np.sum(training, axis=1)[None, :])
    twice_min = graph.node("Max", graph.node("Sub", total, apart), 0.0)
    return _share(graph, twice_min, graph.node("Add", total, apart))


def _additive_chi2(graph: Graph, rows: str, training: np.ndarray) -> str:
    def measure(row: str) -> str:
        apart, total = graph.node("Sub", rows, row), graph.node("Add", rows, row)
        total = graph.node("Add", total, graph.cast(graph.node("Equal", total, 0.0), None))
        shares = graph.node("Div", graph.node("Mul", apart, apart), total)
        return graph.node("Neg", graph.reduced("ReduceSum", shares, 1, keepdims=False))

    return graph.by_rows(training, measure)


def _chi2(graph: Graph, rows: str, training: np.ndarray, *, gamma: float) -> str:
    return graph.node("Exp", graph.node("Mul", _additive_chi2(graph, rows, training), gamma))


def _delta(graph: Graph, rows: str, training: np.ndarray) -> str:
    def measure(row: str) -> str:
        return graph.reduced("ReduceMin", graph.cast(graph.node("Equal", rows, row), None), 1, keepdims=False)

    return graph.by_rows(training, measure)


_NAMED: dict[str, Callable[..., str]] = {
    "additive_chi2": _additive_chi2,
    "chi2": _chi2,
    "cosine": _cosine,
    "delta": _delta,
    "laplacian": _laplacian,
    "linear": _linear,
    "minmax": _minmax,
    "poly": _poly,
    "polynomial": _poly,
    "rbf": _rbf,
    "sigmoid": _sigmoid,
    "tanimoto": _tanimoto,
}
