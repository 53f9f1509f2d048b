"""Words for people at a terminal: options instead of arguments of Python, and no codes that a terminal obeys."""

from __future__ import annotations

import re

__all__ = ["printable", "spoken"]

# Controls of C0 (but for ends of lines and tabs), C1 and Unicode: they move the cursor, hide text or turn it around.
_CODES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")

# Arguments of the library that the command line has as options; not where they are part of a path or of an id.
_ARGUMENTS = re.compile(
    r"(?<![\w/\\.'\"-])(alphas|task_alphas|alpha|task_alpha|cv|data_home|groups|task_groups|kernel|task_kernel|scoring|"
    r"setting|tasks|zeros)=(True|\"[^\"]*\"|'[^']*'|-?\d+(?:\.\d+)?|[A-Za-z_]\w*)?(?=[\s,;:)]|\.?$|\.\s)"
)

# What it has under another name, or not at all.
_PHRASES = (
    (re.compile(r'\bon_error="drop"'), "--drop-invalid"),
    (re.compile(r"\bgive cells=, a fold for each cell, so that"), "give --cv, a number of folds, so that"),
    (re.compile(r"\bgive groups= and task_groups=, a few of each"), "give --cv, a number of folds"),
    (re.compile(r"\bn_splits=(\d+) folds"), r"\1 folds (--cv)"),
    (re.compile(r"\braise max_iter, tol or the regularisation"), "raise the regularisation"),
    (re.compile(r" Use dyadlearn\.kernels\.repair to do this explicitly, or repair='error' to refuse it\."), ""),
)


def spoken(sentence: str) -> str:
    """Return a sentence of the library as the command line says it: with its options and safe for a terminal."""
    for phrase, words in _PHRASES:
        sentence = phrase.sub(words, sentence)
    return printable(_ARGUMENTS.sub(_as_option, sentence))


def _as_option(found: re.Match[str]) -> str:
    name, value = found.groups()
    option = "--" + name.replace("_", "-")
    return option if value in (None, "True") else f"{option} {value.strip(chr(34) + chr(39))}"


def printable(text: str) -> str:
    r"""Return a text with the codes that a terminal obeys written out, such as the escape as ``\x1b``."""
    return _CODES.sub(lambda found: found.group().encode("unicode_escape").decode(), text)
