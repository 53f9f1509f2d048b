"""What leaving rows out asks of the Gram matrix of their side: what each weighs, and whether it was learnt at all."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dyadlearn._array import Array, as_array_of, matmul, namespace, to_numpy, zeros
from dyadlearn._means import about
from dyadlearn.filters import Tikhonov
from dyadlearn.spectrum import Smoother, Spectrum, leverage_error

__all__ = [
    "NOTHING_LEARNT",
    "check_learnt",
    "check_slack",
    "leverage_and_slack",
    "projected",
    "rotated",
    "side_of_rows",
]

NOTHING_LEARNT = "The model has learnt no instances, or forgotten all: only what was learnt can be left out."


def projected(Phi: Array, mean: Array | None, vectors: Array) -> Array:
    """Return features (l, d), where there is a mean less it, in an eigenbasis (d, k)."""
    if mean is None:
        return matmul(Phi, vectors)
    rows, rest = about(Phi, mean)
    product = matmul(rows, vectors)
    return product if rest is None else product - rest @ vectors


def rotated(columns: Array, vectors: Array, constant: bool) -> Array:
    """Return columns (c, r), with a constant (c, r + 1), in an eigenbasis (r, k) of the tasks."""
    if not constant:
        return columns @ vectors
    return namespace(columns).concat([columns[:, :-1] @ vectors, columns[:, -1:]], axis=1)


def side_of_rows(projected: Array, values: Array, n_rows: int, constant: bool) -> Spectrum:
    """Return rows of one side, (l, k) in the eigenbasis of its Gram matrix, as a spectrum that knows what each weighs.

    `n_rows` counts all rows of the side: where there are as many directions, they explain everything.
    """
    vectors = projected / values**0.5
    if not constant:
        return Spectrum(values, n_rows, None, vectors)
    xp = namespace(values)
    share = zeros((vectors.shape[0], 1), vectors) + 1.0 / math.sqrt(n_rows)
    values, vectors = xp.concat([values, zeros((1,), values)]), xp.concat([vectors, share], axis=1)
    return Spectrum(values, n_rows, None, vectors, constant="free")


def check_learnt(side: Spectrum) -> None:
    """Refuse rows that weigh more than learnt ones can."""
    values = side.penalised
    if values.shape[0] == 0:
        return
    # Small eigenvalues are too rough to judge by.
    solid = namespace(values).astype(values > 1e-6 * values[-1], values.dtype)
    if side.has_free_constant:
        solid = namespace(values).concat([solid, zeros((1,), values) + 1.0])
    weight = to_numpy(side.diagonal(solid))
    if weight.max() > 1 + 1e-6:
        raise ValueError(
            f"X holds instances that the model has not learnt, among them row {weight.argmax()}: only what was "
            "learnt can be left out."
        )


def check_slack(side: Smoother, what: str) -> None:
    """Refuse rows that are fitted whatever their label."""
    tight = to_numpy(side.slack) <= side.slack_floor
    if tight.any():
        raise leverage_error(np.flatnonzero(tight), len(tight), what)


def leverage_and_slack(side: Spectrum, alphas: Sequence[float]) -> tuple[Array, Array, np.ndarray]:
    """Return leverages and slacks (l, p) of rows under p ridge penalties, and what each slack has to exceed (p,).

    They are those of `Smoother`, of all penalties in one pass over the rows.
    """
    values = side.penalised[:, None]
    xp, penalties = namespace(values), as_array_of(np.array(alphas, dtype=np.float64), values, values.dtype)
    kept, rest = values / (values + penalties), penalties / (values + penalties)
    floors = np.array(
        [
            0.0 if alpha > 0 and bool(xp.all(rest[:, place] > 0)) else side.smoother(Tikhonov(), alpha).slack_floor
            for place, alpha in enumerate(alphas)
        ]
    )
    if side.has_free_constant:
        row = zeros((1, len(alphas)), values)
        kept, rest = xp.concat([kept, row + 1.0], axis=0), xp.concat([rest, row], axis=0)
    both = side.diagonal(xp.concat([kept, rest], axis=1))
    leverage, slack = both[:, : len(alphas)], both[:, len(alphas) :]
    return leverage, slack + side.outside[:, None] if side.is_truncated else slack, floors
