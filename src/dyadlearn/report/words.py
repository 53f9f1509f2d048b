"""Numbers and names as a reader wants them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape

from dyadlearn.settings import Setting

__all__ = ["joined", "marked_up", "number", "power", "setting_words", "superscript"]

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float, digits: int = 4) -> str:
    """Return a number in a few digits.

    Examples
    --------
    >>> from dyadlearn.report.words import number
    >>> number(-0.123456), number(float("nan")), number(2e-9)
    ('−0.1235', '–', '2·10⁻⁹')
    """
    if math.isnan(value):
        return "–"
    text = f"{value:.{digits}g}"
    mantissa, _, exponent = text.partition("e")
    if exponent:
        text = f"{mantissa}·10{superscript(int(exponent))}"
    return text.replace("-", "−")


def power(value: float) -> str:
    """Return a regularisation: a power of ten where it is one beyond everyday size.

    Examples
    --------
    >>> from dyadlearn.report.words import power
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
    >>> from dyadlearn.report.words import superscript
    >>> superscript(-12)
    '⁻¹²'
    """
    return str(exponent).translate(_RAISED)


def marked_up(text: str, lowered: str = r"<sub>\1</sub>") -> str:
    """Return any text as safe markup, in which λ has its index lowered.

    Examples
    --------
    >>> from dyadlearn.report.words import marked_up
    >>> marked_up("λ_d < 1")
    'λ<sub>d</sub> &lt; 1'
    """
    return re.sub(r"(?<=λ)_([dt])", lowered, escape(text))


def joined(names: Sequence[str]) -> str:
    """Return names in a row.

    Examples
    --------
    >>> from dyadlearn.report.words import joined
    >>> joined(["A", "C", "D"])
    'A, C and D'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def setting_words(setting: Setting) -> str:
    """Return a setting with what is new in it.

    Examples
    --------
    >>> from dyadlearn.report.words import setting_words
    >>> from dyadlearn.settings import Setting
    >>> setting_words(Setting.D)
    'D: both new'
    """
    return f"{setting.value}: {'both new' if setting is Setting.D else f'new {setting.description}'}"
