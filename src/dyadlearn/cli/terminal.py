"""Output and errors of the commands.

Results go to standard output, everything else to standard error. An error is printed as one
sentence, and each kind of error has an exit code.
"""

from __future__ import annotations

import errno
import math
import os
import signal
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from json import dumps
from pathlib import Path
from typing import Any, Self

import typer
from rich.console import Console
from typer.core import TyperGroup

from dyadlearn._interrupts import ignore_signals, number_of
from dyadlearn._messages import Message, Parameter, message_of
from dyadlearn._progress import Progress, aside, cleared
from dyadlearn._text import PLAIN, make_table, number, printable
from dyadlearn.exceptions import (
    BaselineWarning,
    FileChangedError,
    ModelFileError,
    RenamedWarning,
)

#: Figures for JSON, and arguments of the library, by their names.
Figures = dict[str, Any]
Arguments = dict[str, Any]
#: Named columns of a table.
Columns = Mapping[str, Sequence[Any]]
#: Names of the options of all commands, which their classes add.
OPTIONS: set[str] = set()
# Parameters whose options have another name.
_OTHER_NAME: dict[str, str] = {
    "X": "--instances",
    "Y": "--labels",
    "y": "--labels",
    "alpha": "--alphas",
    "task_alpha": "--task-alphas",
    "fit_intercept": "--intercept",
    "n": "--number",
    "n_permutations": "--permutations",
    "n_resamples": "--resamples",
    "n_steps": "--steps",
    "random_state": "--seed",
}
# Options of parameters with a certain value.
_OPTIONS_WITH_VALUE: dict[tuple[str, str], str] = {("on_error", "drop"): "--drop-invalid"}


def spoken(message: str) -> str:
    """Return a message of the library with the options of the command line, escaped for a terminal."""
    return printable(with_options(message))


def with_options(message: str) -> str:
    """Return a message of the library with options in place of parameters."""
    if isinstance(message, Message):
        return message.written(option_of)
    return message


def option_of(parameter: Parameter) -> str:
    """Return the option of a parameter of the library, with its value; others are written as in Python."""
    name = parameter.name
    value = parameter.value
    if (name, value) in _OPTIONS_WITH_VALUE:
        return _OPTIONS_WITH_VALUE[name, value]
    if name in OPTIONS:
        option = f"--{name.replace('_', '-')}"
    elif name in _OTHER_NAME:
        option = _OTHER_NAME[name]
    else:  # such as a parameter of a kernel or of fingerprints
        return str(parameter)
    if value == "False":
        return option.replace("--", "--no-", 1)
    if value in ("", "True"):
        return option
    return f"{option} {value}"


class _Console(Console):
    """Console that raises if nobody reads its output any more; that of rich exits with code 1."""

    def on_broken_pipe(self) -> None:
        """Raise the error again, which ends the command."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


class Terminal:
    """The output of one command; within it, warnings of the library become notes.

    Parameters
    ----------
    json : bool
        Whether the result is printed as JSON.
    quiet : bool
        Whether notes and progress are left out.

    Attributes
    ----------
    notes : list of str
        All notes so far, printed or not.
    """

    def __init__(self, json: bool = False, quiet: bool = False) -> None:
        self.json = json
        self.quiet = quiet
        self.notes: list[str] = []
        self.console = _Console(**PLAIN)
        self._warnings = warnings.catch_warnings(action="ignore")
        # A line of progress for all that has no line of its own.
        self._line = self.working("Working")

    @property
    def progress(self) -> bool | None:
        """The parameter `progress` of the library: False shows none, None shows it on a terminal."""
        return False if self.quiet else None

    def __enter__(self) -> Self:
        self._warnings.__enter__()
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("always", RenamedWarning)
        # Commands compare with baselines themselves.
        warnings.simplefilter("ignore", BaselineWarning)
        warnings.showwarning = lambda message, *rest, **more: self.note(message_of(message))
        self._line.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._line.__exit__(*error)
        self._warnings.__exit__(*error)

    def note(self, *texts: str) -> None:
        """Print notes to standard error, each unless it was printed before."""
        for text in map(spoken, texts):
            if text not in self.notes:
                self.notes.append(text)
                if not self.quiet:
                    aside(f"note: {text}")

    def working(self, title: str, total: int | None = None) -> Progress:
        """Return a progress line for work of a number of steps, or of unknown length."""
        return Progress(total, title, self.progress)

    def printing(self, output: Path | None) -> AbstractContextManager[None]:
        """Show no progress in place while a table is printed; with an output, nothing is printed."""
        if output is None:
            return cleared()
        return nullcontext()

    def say(self, *things: Any) -> None:
        """Print sentences and tables for people, unless --json or --quiet is given."""
        if not self.json and not self.quiet:
            self._print(*things)

    def result(self, figures: Mapping[str, Any], *things: Any) -> None:
        """Print a result: figures as JSON for machines, sentences and tables for people."""
        if not self.json:
            self._print(*things)
            return
        text = dumps(
            to_plain({**figures, "notes": self.notes}),
            indent=2,
            ensure_ascii=False,
            allow_nan=False,
        )
        # JSON escapes most control codes of a terminal already; these are escaped too, and are read
        # as the same text.
        codes = [*range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
        escapes = {code: f"\\u{code:04x}" for code in codes}
        with cleared():
            sys.stdout.write(text.translate(escapes) + "\n")

    def table(
        self,
        figures: Mapping[str, Any],
        things: Sequence[Any],
        columns: Columns,
        output: Path | None,
        below: Any = (),
    ) -> None:
        """Write a table to a file, or print it as a result.

        Parameters
        ----------
        figures : mapping
            The result for JSON.
        things : sequence
            Sentences and tables for people.
        columns : mapping of str to sequence
            The table for the file.
        output : Path or None
        below : sequence of str
            Sentences to print below the table or below the name of the file.
        """
        from dyadlearn._files.tables import write_blocks

        if output is None:
            self.result(figures, *things, *below)
            return
        write_blocks(output, [columns])
        self.result({**figures, "output": str(output)})
        self.say(f"Wrote {len(next(iter(columns.values())))} rows to {output}.", *below)

    def _print(self, *things: Any) -> None:
        with cleared():
            for thing in things:
                self.console.print(printable(thing) if isinstance(thing, str) else thing)


def column_table(
    columns: Columns, left: int, headings: Any = None, more: Sequence[Sequence[str]] = ()
) -> Any:
    """Return named columns as a table for people: the first `left` columns hold text, and `more` has further lines."""
    texts = []
    for place, cells in enumerate(columns.values()):
        write = str if place < left else number
        texts.append(list(map(write, cells)))
    return make_table(headings or list(columns), [*zip(*texts, strict=True), *more], left=left)


def as_rows(columns: Columns) -> list[Figures]:
    """Return named columns as a dict for each row."""
    return [dict(zip(columns, line, strict=True)) for line in zip(*columns.values(), strict=True)]


def stacked(tables: Sequence[Columns]) -> dict[str, list[Any]]:
    """Return tables of the same columns, one below the other."""
    whole: dict[str, list[Any]] = {name: [] for name in tables[0]}
    for table in tables:
        for name, column in whole.items():
            column.extend(table[name])
    return whole


def to_plain(value: Any) -> Any:
    """Return a value in types that JSON can hold: NaN and infinity become None."""
    if isinstance(value, Mapping):
        return {str(key): to_plain(entry) for key, entry in value.items()}
    if hasattr(value, "tolist"):  # an array or a number of numpy
        return to_plain(value.tolist())
    if isinstance(value, list | tuple):
        return [to_plain(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int | bool):
        return value
    return str(value)


# Errors --------------------------------------------------------------------------------------------

# Exit code 0 is success; 1 is a bug in dyadlearn, whose traceback is shown; 128 and more are
# signals.

# The exit code of each kind of error: the first kind that fits.
_CODES: tuple[tuple[tuple[type[Exception], ...], int], ...] = (
    ((ModelFileError,), 3),
    ((FileChangedError,), 5),
    # Errors that a user can correct by naming another file, as opposed to errors of the machine.
    (
        (
            FileNotFoundError,
            FileExistsError,
            IsADirectoryError,
            NotADirectoryError,
            PermissionError,
        ),
        2,
    ),
    ((OSError, MemoryError, ImportError), 4),
    ((ValueError,), 2),
)


class Commands(TyperGroup):
    """Group of commands that prints expected errors as one sentence; other errors are bugs, shown with a traceback."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parse the command line."""
        try:
            return super().make_context(*args, **kwargs)
        except KeyboardInterrupt as error:
            _stop(*interrupted(error))
        except OSError as error:  # the help could not be printed
            _fail(error)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # raises if the disk is full
            ignore_signals()
            return result
        except KeyboardInterrupt as error:
            ignore_signals()
            _stop(*interrupted(error))
        except Exception as error:
            ignore_signals()
            _fail(error)


def _fail(error: Exception) -> None:
    """Print an expected error and exit with its code; raise others, which are bugs."""
    code = next((code for kinds, code in _CODES if isinstance(error, kinds)), None)
    if code is None:
        raise error
    if isinstance(error, OSError):
        _drop_output()
    if getattr(error, "errno", None) == errno.EPIPE:
        # The reader of the output, such as head, has read enough.
        raise typer.Exit(0) from None
    _stop(code, _about(error))


def interrupted(error: KeyboardInterrupt) -> tuple[int, str]:
    """Return the exit code of a command that a signal ended, and the words for it."""
    number = number_of(error)
    return 128 + number, "terminated." if number == signal.SIGTERM else "interrupted."


def _stop(code: int, sentence: str) -> None:
    """Print an error and exit with a code."""
    # Some messages of other libraries have several lines.
    line = " ".join(with_options(sentence).split())
    typer.echo(f"dyadlearn: {printable(line)}", err=True)
    raise typer.Exit(code)


def _drop_output() -> None:
    """Discard the output that could not be written; otherwise Python would try again at exit and print a traceback."""
    with suppress(OSError, ValueError):  # standard output may not be a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _about(error: Exception) -> str:
    """Return the message of an error, with the name of the file and without the number of the error."""
    if not isinstance(error, OSError) or error.strerror is None:
        return message_of(error) or "there is not enough memory."
    where = "" if error.filename is None else f"{error.filename}: "
    return f"{where}{error.strerror}."
