"""How the commands fail: one sentence on standard error, and an exit code that says what kind of failure it is."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import Any

import typer
from typer.core import TyperGroup

from dyadlearn._files.atomic import Written, noting_files
from dyadlearn.cli.terminal import spoken
from dyadlearn.exceptions import FileChangedError, ModelFileError

__all__ = [
    "BAD_INPUT",
    "BAD_MODEL",
    "CHANGED_MEANWHILE",
    "DONE_BUT",
    "INTERRUPTED",
    "NOTHING_WRITTEN",
    "SURROUNDINGS",
    "Commands",
]

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
