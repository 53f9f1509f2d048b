"""Powers of ten, and names in a row, as a reader wants them."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["joined", "power", "superscript"]

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def power(value: float) -> str:
    """Return a regularisation: a power of ten where it is one beyond everyday size.

    Examples
    --------
    >>> from dyadlearn._words import power
    >>> power(1e-7), power(0.01), power(2.5e5)
    ('10⁻⁷', '0.01', '2.5·10⁵')
    """
    if value > 0 and not 1e-3 <= value <= 1e4:
        exponent = math.floor(math.log10(value) + 1e-12)
        mantissa = f"{value / 10.0**exponent:.3g}"
        return f"10{superscript(exponent)}" if mantissa == "1" else f"{mantissa}·10{superscript(exponent)}"
    return f"{value:.3g}" if value < 1000 else f"{value:.5g}"


def superscript(exponent: int) -> str:
    """Return a whole number in raised digits.

    Examples
    --------
    >>> from dyadlearn._words import superscript
    >>> superscript(-12)
    '⁻¹²'
    """
    return str(exponent).translate(_RAISED)


def joined(names: Sequence[str]) -> str:
    """Return names in a row.

    Examples
    --------
    >>> from dyadlearn._words import joined
    >>> joined(["A", "C", "D"])
    'A, C and D'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
