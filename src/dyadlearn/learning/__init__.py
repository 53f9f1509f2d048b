"""Kernels that are learned: weights, exponents, shares and regularisation, by the gradient of the hold-out error."""
