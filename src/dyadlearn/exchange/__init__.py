"""Models in the formats of other tools."""

from __future__ import annotations

from dyadlearn.exchange.graphs import to_onnx

__all__ = ["to_onnx"]
