"""Models of pairs: coefficients, predictions and hold-out from the spectra of both sides."""

from dyadlearn.pairing import pair_holdout, pair_weights  # noqa: F401 - registers formulas
from dyadlearn.pairing.base import Coupled, Pairing
from dyadlearn.pairing.independent import Independent
from dyadlearn.pairing.network import Network
from dyadlearn.pairing.pair_kernel import Kronecker, PairKernel
from dyadlearn.pairing.two_step import TwoStep

__all__ = ["Coupled", "Independent", "Kronecker", "Network", "PairKernel", "Pairing", "TwoStep"]
