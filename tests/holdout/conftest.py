"""Small problems for the hold-out tests, and fifty digits."""

from __future__ import annotations

from types import ModuleType

import mpmath
import pytest

import problems


@pytest.fixture(scope="session")
def cases() -> ModuleType:
    """Give what the hold-out tests build their problems from."""
    return problems


@pytest.fixture
def fifty_digits():
    """Let mpmath compute in 50 digits."""
    with mpmath.workdps(50):
        yield
