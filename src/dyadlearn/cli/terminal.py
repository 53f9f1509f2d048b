"""How the commands speak and how they fail.

Results go to standard output, everything else to standard error; a failure is one sentence there, and an exit code that
says what kind of failure it is.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import sys
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self

import numpy as np
import typer
from rich.console import Console
from typer.core import TyperGroup

from dyadlearn._files.atomic import Written, noting_files
from dyadlearn._printing import make_list, make_table, number, printable
from dyadlearn._progress import Progress
from dyadlearn.exceptions import FileChangedError, ModelFileError

__all__ = [
    "INTERRUPTED",
    "NOTHING_WRITTEN",
    "Commands",
    "Terminal",
    "make_list",
    "make_table",
    "number",
    "spoken",
]

# Arguments of the library that the command line has as options; not where they are part of a path or of an id.
_ARGUMENTS = re.compile(
    r"(?<![\w/\\.'\"-])(alphas|task_alphas|alpha|task_alpha|cv|data_home|groups|task_groups|kernel|task_kernel|scoring|"
    r"setting|stages|tasks|zeros)=(True|\"[^\"]*\"|'[^']*'|-?\d+(?:\.\d+)?|[A-Za-z_]\w*)?(?=[\s,;:)]|\.?$|\.\s)"
)

# What it has under another name, or not at all.
_PHRASES = (
    (re.compile(r'\bon_error="drop"'), "--drop-invalid"),
    (re.compile(r"^sides must be"), "--sides must be"),
    (re.compile(r'\("host", "parasite"\)'), "host,parasite"),
    (re.compile(r"\bgive cells=, a fold for each cell, so that"), "give --cv, a number of folds, so that"),
    (re.compile(r"\bgive groups= and task_groups=, a few of each"), "give --cv, a number of folds"),
    (re.compile(r"\bn_splits=(\d+) folds"), r"\1 folds (--cv)"),
    (re.compile(r"\bleave X out\b"), "leave --instances out"),
    (re.compile(r"\bleave tasks out\b"), "leave --tasks out"),
    (re.compile(r"\bX\[('[^']*')\]"), r"--instances \1"),
    (re.compile(r"\btasks\[('[^']*')\]"), r"--tasks \1"),
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


# Failing -------------------------------------------------------------------------------------------

#: 0 is success, and 1 a mistake in dyadlearn itself, which is shown in full.
BAD_INPUT = 2
BAD_MODEL = 3
SURROUNDINGS = 4
CHANGED_MEANWHILE = 5
DONE_BUT = 6
INTERRUPTED = 130

NOTHING_WRITTEN = "interrupted; no output was written."

# What a user can mend by naming another file, as opposed to what the machine lacks.
_ABOUT_FILES = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)


class Commands(TyperGroup):
    """A group of commands whose foreseeable errors are one sentence; anything else is a bug and is not hidden."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read the words of the command line."""
        try:
            return super().make_context(*args, **kwargs)
        except KeyboardInterrupt:
            _stop(INTERRUPTED, NOTHING_WRITTEN, [])

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with noting_files() as written:
            try:
                result = super().invoke(ctx)
                sys.stdout.flush()  # a disk that is full shows only now
                return result
            except KeyboardInterrupt:
                _stop(INTERRUPTED, NOTHING_WRITTEN if not written else "interrupted.", written)
            except OSError as error:
                if error.errno == errno.EPIPE and not any(file.in_place for file in written):
                    raise  # typer ends quietly when nobody reads on
                _drop_output()
                _stop(BAD_INPUT if isinstance(error, _ABOUT_FILES) else SURROUNDINGS, _about(error), written)
            except ModelFileError as error:
                _stop(BAD_MODEL, str(error), written)
            except FileChangedError as error:
                _stop(CHANGED_MEANWHILE, str(error), written)
            except (MemoryError, ImportError) as error:
                _stop(SURROUNDINGS, str(error) or "there is not enough memory.", written)
            except ValueError as error:
                _stop(BAD_INPUT, str(error), written)


def _stop(code: int, sentence: str, written: list[Written]) -> None:
    """End a command with a sentence, which names the files that were written all the same."""
    if written:
        sentence += f" Before that, {', '.join(str(file.path) for file in written)} was written in full"
        if any(file.in_place for file in written):
            code = DONE_BUT
            sentence += ": do not repeat the command, or the model learns the same once more"
        sentence += "."
    # Some messages of other libraries have several lines.
    typer.echo(f"dyadlearn: {spoken(' '.join(sentence.split()))}", err=True)
    raise typer.Exit(code)


def _drop_output() -> None:
    """Throw away what standard output could not take, or Python would try again at the end and complain in its way."""
    with suppress(OSError, ValueError):  # it may be no file at all
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _about(error: OSError) -> str:
    """Return what went wrong with a file, without the number of the error."""
    if error.strerror is None:
        return str(error)
    where = "" if error.filename is None else f"{error.filename}: "
    return f"{where}{error.strerror}."
