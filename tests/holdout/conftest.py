"""Small problems for the hold-out tests."""

from __future__ import annotations

from types import ModuleType

import pytest

import problems


@pytest.fixture(scope="session")
def cases() -> ModuleType:
    """Give what the hold-out tests build their problems from."""
    return problems
