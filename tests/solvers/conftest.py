"""Small grids with holes, for all tests of solvers."""

from __future__ import annotations

from types import ModuleType

import pytest

import problems


@pytest.fixture(scope="session")
def grids() -> ModuleType:
    """Give what the tests of incomplete grids build their problems from."""
    return problems
