r"""Kronecker ridge regression on a network: one node set on both sides, labels that keep a symmetry.

With labels :math:`\mathbf{Y} = \epsilon\mathbf{Y}^\top` the coefficients have the same symmetry, and the model is ridge
regression on edges with the symmetric or antisymmetric kernel

.. math:: \tfrac12\left[k(u,u')\,k(v,v') + \epsilon\,k(u,v')\,k(v,u')\right].

What is left out is left out of both sides. An edge leaves with its transpose: with the residual operator
:math:`\mathbf{R}`, diagonal in the rotated labels with entries :math:`\rho_{kl}`, and what links (i, j) to (j, i),

.. math:: t_{ij} = \sum_{kl} U_{ik}U_{jk}\,\rho_{kl}\,U_{il}U_{jl}, \qquad
          F^A_{ij} = Y_{ij} - \frac{(\mathbf{RY})_{ij}}{R_{ij,ij} + \epsilon\,t_{ij}} \quad (i \ne j) .

That takes :math:`n^4` multiplications in all. So does B, which decomposes the kernel of the other vertices once for
each that leaves. Two vertices at a time would take :math:`n^5`, and D is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dyadlearn._array import (
    Array,
    as_array_of,
    itemsize,
    namespace,
    row_blocks,
    take_block,
    take_rows,
    with_diagonal,
    zeros,
)
from dyadlearn._threads import for_each
from dyadlearn.filters import Tikhonov
from dyadlearn.pairing.expansion import Folded, Part
from dyadlearn.pairing.leaving import Members, nothing_left
from dyadlearn.pairing.network import OneNodeSet
from dyadlearn.pairing.pair_kernel import PairKernel
from dyadlearn.settings import Setting
from dyadlearn.spectrum import Spectrum

__all__ = ["PairNetwork"]


@dataclass(frozen=True, eq=False)
class PairNetwork(OneNodeSet, PairKernel):
    """One spectrum, of the nodes, with the product of its kernel with itself; `symmetry` is +1 or −1."""

    words: ClassVar[str] = "Kronecker ridge regression on a network"

    symmetry: int = 1

    @classmethod
    def of(cls, nodes: Spectrum, alpha: float, symmetry: int, *, free_mean: bool = False) -> PairNetwork:
        """Return the model of a node set; an antisymmetric grid has no mean."""
        return cls(nodes, nodes, alpha, free_mean=free_mean and symmetry > 0, symmetry=symmetry)

    @property
    def nodes(self) -> Spectrum:
        """Spectrum of the nodes."""
        return self.spectrum

    @property
    def parts(self) -> tuple[Part, ...]:
        """How rows of each side multiply the coefficients."""
        return Folded(self.nodes), Folded(self.nodes)

    @property
    def process(self) -> None:
        """None: an edge and its transpose are one draw, not two."""
        return

    @property
    def settings(self) -> tuple[Setting, ...]:
        """All but two new vertices."""
        return Setting.A, Setting.B, Setting.C

    def check_request(self, setting: Setting, groups: Any, task_groups: Any, cells: Any) -> None:
        """Refuse two new vertices, groups and cells."""
        super().check_request(setting, groups, task_groups, cells)
        if setting is Setting.D:
            raise ValueError(
                "Setting D of Kronecker ridge regression on a network would be solved again for each pair of vertices: "
                "ask for A, B or C, or use TwoStepRidge(symmetry=...), which has it in closed form."
            )

    def coefficients(self, Y: Array) -> Array:
        """Return the coefficients; rounding must not break their symmetry."""
        found = super().coefficients(Y)
        return (found + self.symmetry * found.T) / 2

    def without_unlabelled(self, rows: np.ndarray, columns: np.ndarray) -> None:
        """Return none: an edge leaves in both directions."""

    def holdout(self, Y: Array, setting: Setting, members: Members = None, task_members: Members = None) -> Array:
        """Return held-out predictions, shape (n, n)."""
        if setting is Setting.A:
            return self._held_out(self._labels(Y), setting, None, None)
        held_out = self._new_vertices(Y)
        return held_out if setting is Setting.B else self.symmetry * held_out.T

    def decomposes(self, setting: Setting) -> bool:
        """Tell that every vertex that leaves does, alone or as one of an edge's two."""
        return setting is not Setting.A

    def _diagonal(self, weights: Array) -> Array:
        """Return what an operator does to an edge by itself and by its transpose, shape (n, n)."""
        alone = super()._diagonal(weights)
        xp, U = namespace(alone), self.nodes.vectors
        n, k = U.shape
        linked = zeros((n, n), alone)
        for rows in row_blocks(n, 3 * n * k * itemsize(U)):
            both = xp.reshape(U[rows, :][:, None, :] * U[None, :, :], (-1, k))
            linked[rows, :] = xp.reshape(xp.sum((both @ weights) * both, axis=1), (-1, n))
        return with_diagonal(alone + self.symmetry * linked, xp.linalg.diagonal(alone))

    def _leaving(self, weights: Array, rows: slice) -> Array:
        """Return twice the weights: an edge leaves with its transpose, but for one of a vertex with itself."""
        own = np.arange(rows.start, rows.stop)[:, None] == np.arange(weights.shape[1])[None, :]
        return weights * as_array_of(2.0 - own, weights, weights.dtype)

    def _new_vertices(self, Y: Array) -> Array:
        """Return setting B: what a model without a vertex predicts for its edges, and for its edge with itself."""
        n, nodes = Y.shape[0], self.nodes
        if n < 2:
            raise nothing_left()
        side = nodes.smoother(Tikhonov(), self.alpha)
        if side.contrast is None:
            side.check_slack()
        K, held_out = nodes.matrix(nodes.values), zeros((n, n), Y)

        def leave_out(vertex: int) -> None:
            own, kept = np.array([vertex]), np.delete(np.arange(n), vertex)
            part = nodes.part(kept)
            model = replace(self, spectrum=part, task_spectrum=part)
            rotated, mean = model._centred(take_block(Y, kept, kept))
            rotated *= model._phi
            # Kernel rows are zero along null directions, but for rounding.
            along = (take_block(K, own, kept) @ part.vectors) * namespace(K).astype(part.values > 0, K.dtype)
            half = along @ rotated
            known = (half * part.values) @ part.vectors.T + mean
            itself = half @ along.T + mean
            place = np.insert(np.arange(n - 1), vertex, n - 1)
            held_out[vertex, :] = take_rows(namespace(Y).concat([known[0, :], itself[0, :]]), place)

        for_each(leave_out, range(n), Y, n_operations=10.0 * n**4)
        return held_out
