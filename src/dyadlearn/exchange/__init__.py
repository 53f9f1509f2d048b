"""Models and labels in the formats of other tools, and back."""

from __future__ import annotations

__all__: list[str] = []
