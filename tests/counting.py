"""Multiplications of torch, counted while they are made: what estimates of work are compared with."""

import numpy as np
import pytest

# Multiplications of an operation of torch, given the shapes of the result and of the operands.
_COUNTS = {
    "matmul": lambda result, left, right: np.prod(result) * left[-1],
    "linalg_solve": lambda result, matrix, right: np.prod(matrix) * (matrix[-1] / 3 + right[-1]),
    "linalg_solve_triangular": lambda result, matrix, right: np.prod(result) * matrix[-1] / 2,
    "linalg_cholesky": lambda result, matrix: np.prod(matrix) * matrix[-1] / 3,
    "cholesky_inverse": lambda result, matrix: np.prod(matrix) * matrix[-1] * 2 / 3,
    "linalg_eigh": lambda result, matrix: np.prod(matrix) * matrix[-1] * 10,
    "linalg_eigvalsh": lambda result, matrix: np.prod(matrix) * matrix[-1] * 10,
}


def asarray(values):
    """Return an array of torch, whose products are counted; without torch the test is skipped."""
    torch = pytest.importorskip("torch", reason="torch is not installed: no products are counted")
    return torch.as_tensor(np.asarray(values), dtype=torch.float64)


def multiplications(work, *given):
    """Return the multiplications of the products and systems of matrices of a call that computes with torch."""
    from torch.overrides import TorchFunctionMode

    counts = []

    class Counter(TorchFunctionMode):
        def __torch_function__(self, operation, types, args=(), kwargs=None):
            result = operation(*args, **(kwargs or {}))
            if operation.__name__ in _COUNTS:
                shapes = [each.shape for each in args]
                counts.append(_COUNTS[operation.__name__](getattr(result, "shape", ()), *shapes))
            return result

    with Counter():
        work(*given)
    return float(sum(counts))
