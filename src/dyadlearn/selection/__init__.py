"""Judging and choosing models."""

from dyadlearn.selection.evaluate import evaluate

__all__ = ["evaluate"]
