"""A graph of ONNX that is put together node by node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dyadlearn._array import dense, to_numpy
from dyadlearn.kernels._strings import check_installed

__all__ = ["Graph", "load_onnx"]

# What all nodes mean; onnxruntime has known it since 1.14. The version of files is the oldest that may say so.
_OPSET, _FILE_VERSION = 18, 8

# A file of protocol buffers ends at 2 GiB; names and nodes take some of it.
_MOST_BYTES = 2**31 - 2**20


def load_onnx() -> Any:
    """Return the package onnx, or say what to do without it."""
    check_installed("onnx", "onnx", "onnx")
    import onnx

    return onnx


class Graph:
    """Nodes, constants, inputs and outputs; what a node gives has a name, by which others take it.

    Parameters
    ----------
    dtype : {"float32", "float64"}
        Of inputs and outputs, and of all numbers between them that are not said to be otherwise.
    """

    def __init__(self, dtype: str) -> None:
        self.onnx, self.dtype = load_onnx(), np.dtype(dtype)
        self._nodes: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._constants: dict[tuple[Any, ...], str] = {}
        self._tensors: list[Any] = []
        self._count, self._n_bytes = 0, 0

    def input(self, name: str, rows: str, width: int) -> str:
        """Add an input of any number of rows, which `rows` stands for, and return its name."""
        self._inputs.append(self._described(name, [rows, width]))
        return name

    def output(self, value: str, name: str, shape: list[str | int]) -> None:
        """Give a value out by a name."""
        self._nodes.append(self.onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._described(name, shape))

    def array(self, values: Any) -> np.ndarray:
        """Return numbers as an array of numpy, sparse ones made dense, if they are not more than a file can hold."""
        self._check_room(int(np.prod(values.shape)) * self.dtype.itemsize)
        return to_numpy(dense(values))

    def constant(self, values: Any, dtype: Any = None) -> str:
        """Add numbers and return their name; the same numbers are there once."""
        array = np.array(values, dtype=dtype or self.dtype, order="C", copy=None)
        # Of what is large nothing is the same but by chance.
        key = (array.dtype.str, array.shape, array.tobytes()) if array.size < 100 else (object(),)
        if key not in self._constants:
            self._check_room(array.nbytes)
            self._n_bytes += array.nbytes
            name = self._name("c")
            self._tensors.append(self.onnx.numpy_helper.from_array(array, name))
            self._constants[key] = name
        return self._constants[key]

    def _check_room(self, n_bytes: int) -> None:
        if self._n_bytes + n_bytes > _MOST_BYTES:
            raise ValueError(
                "The model has more than 2 GiB of numbers, and no file of ONNX can: fit it on the features of "
                'dyadlearn.Landmarks, or write it with dtype="float32".'
            )

    def node(self, kind: str, *inputs: Any, **attributes: Any) -> str:
        """Add a node, and return the name of what it gives; inputs that are no names are constants."""
        name = self._name("v")
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        self._nodes.append(self.onnx.helper.make_node(kind, names, [name], **attributes))
        return name

    def reduced(self, kind: str, value: str, axis: int, *, keepdims: bool = True) -> str:
        """Add a sum, or whatever reduces, along an axis."""
        return self.node(kind, value, self.constant([axis], np.int64), keepdims=int(keepdims))

    def scaled(self, value: str, factors: Any) -> str:
        """Add the product of each column (n, d) with a factor of its own (d,).

        A single number beside a product of matrices would be taken into it, which onnxruntime does in single precision:
        so factors are never one number, and a single column is multiplied as a matrix.
        """
        if len(factors) == 1:
            return self.node("MatMul", value, np.reshape(factors, (1, 1)))
        return self.node("Mul", value, np.reshape(factors, (1, -1)))

    def cast(self, value: str, dtype: Any) -> str:
        """Add a conversion; `dtype` None is that of the graph."""
        return self.node("Cast", value, to=self._type(dtype or self.dtype))

    def by_rows(self, rows: Any, measure: Callable[[str], str]) -> str:
        """Add a matrix whose columns (n,) are what `measure` makes of one row (d,) of constants (m, d) after the other.

        So nothing of size n × m × d is ever there.
        """
        scanned, outer = self.constant(rows), self._nodes
        self._nodes, row = [], self._name("row")
        column = measure(row)
        inside, self._nodes = self._nodes, outer
        helper = self.onnx.helper
        body = helper.make_graph(
            inside, "column", [self._described(row, [int(rows.shape[1])])], [self._described(column, None)]
        )
        return self.node("Scan", scanned, body=body, num_scan_inputs=1, scan_output_axes=[1])

    def model(self, doc: str, properties: dict[str, str], version: str) -> Any:
        """Return all of it as a model, checked."""
        helper = self.onnx.helper
        graph = helper.make_graph(self._nodes, "dyadlearn", self._inputs, self._outputs, self._tensors, doc_string=doc)
        model = helper.make_model(
            graph,
            producer_name="dyadlearn",
            producer_version=version,
            opset_imports=[helper.make_opsetid("", _OPSET)],
            ir_version=_FILE_VERSION,
            doc_string=doc,
        )
        helper.set_model_props(model, properties)
        self.onnx.checker.check_model(model, full_check=True)
        return model

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    def _described(self, name: str, shape: list[str | int] | None) -> Any:
        return self.onnx.helper.make_tensor_value_info(name, self._type(self.dtype), shape)

    def _type(self, dtype: Any) -> int:
        found: int = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return found
