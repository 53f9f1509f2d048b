"""How the commands speak: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import math
import re
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from dyadlearn._files.writing import printable
from dyadlearn._progress import Progress

__all__ = ["Terminal", "make_list", "make_table", "number", "spoken"]

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


class Terminal:
    """The voice of one command; within it, warnings of the library become notes.

    Parameters
    ----------
    as_json : bool
        Whether the result is printed as JSON.
    quiet : bool
        Whether notes are kept back.

    Attributes
    ----------
    notes : list of str
        What was noted so far, also where nobody heard it.
    progress : bool or None
        What to tell functions that can show a progress bar: never, or where somebody watches.
    """

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json, self.quiet = as_json, quiet
        self.notes: list[str] = []
        self.progress = False if quiet else None
        # Ids are full of colons and brackets, which must not be read as codes of emoji or colours.
        self.console = Console(emoji=False, markup=False, highlight=False)
        self._warnings = warnings.catch_warnings()

    def __enter__(self) -> Self:
        self._warnings.__enter__()
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *rest, **more: self.note(str(message))
        return self

    def __exit__(self, *error: Any) -> None:
        self._warnings.__exit__(*error)

    def note(self, text: str) -> None:
        """Tell something worth knowing that is no result."""
        text = spoken(text)
        if text not in self.notes:
            self.notes.append(text)
            if not self.quiet:
                typer.echo(f"note: {text}", err=True)

    def working(self, title: str) -> Progress:
        """Show that something takes its time, where somebody watches."""
        return Progress(None, title, self.progress)

    def say(self, *things: Any) -> None:
        """Print sentences and tables for people; machines and the quiet do without."""
        if not self.as_json and not self.quiet:
            self.show(*things)

    def show(self, *things: Any) -> None:
        """Print sentences and tables on standard output."""
        for thing in things:
            self.console.print(printable(thing) if isinstance(thing, str) else thing)

    def result(self, figures: Mapping[str, Any], *things: Any) -> None:
        """Print a result: figures as JSON for machines, sentences and tables for people."""
        if self.as_json:
            plain = _plain({**figures, "notes": self.notes})
            text = json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False)
            # JSON escapes most of the codes that a terminal obeys by itself, and these are read as the same.
            sys.stdout.write(re.sub("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]", _escaped, text) + "\n")
        else:
            self.show(*things)


def make_table(headings: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Table:
    """Return a table that fits the terminal: long ids are folded, figures stay whole.

    Parameters
    ----------
    headings : sequence of str
    rows : iterable of sequences of str
    left : int, default=1
        How many columns, from the first, hold text; the others hold figures.
    """
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for place, heading in enumerate(headings):
        is_text = place < left
        table.add_column(_cell(heading), justify="left" if is_text else "right", overflow="fold", no_wrap=not is_text)
    for row in rows:
        table.add_row(*map(_cell, row))
    return table


def make_list(rows: Iterable[tuple[str, str]]) -> Table:
    """Return names and what they stand for, side by side."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row))
    return table


def number(value: Any) -> str:
    """Return a figure as people want to read it."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, str | bool):
        return str(value)
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)


def _cell(text: str) -> str:
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"


def _plain(value: Any) -> Any:
    """Return what JSON can hold: NaN and infinity become null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int | bool) else str(value)
