"""How the commands fail: one sentence on standard error, and an exit code that says what kind of failure it is."""

from __future__ import annotations

import errno
from typing import Any

import typer
from typer.core import TyperGroup

from dyadlearn.cli.words import spoken
from dyadlearn.exceptions import ModelFileError

__all__ = ["BAD_INPUT", "BAD_MODEL", "INTERRUPTED", "SURROUNDINGS", "Commands"]

#: 0 is success, and 1 a mistake in dyadlearn itself, which is shown in full.
BAD_INPUT = 2
BAD_MODEL = 3
SURROUNDINGS = 4
INTERRUPTED = 130

# What a user can mend by naming another file, as opposed to what the machine lacks.
_ABOUT_FILES = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)


class Commands(TyperGroup):
    """A group of commands whose foreseeable errors are one sentence; anything else is a bug and is not hidden."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _stop(INTERRUPTED, "interrupted; no output was written.")
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # typer ends quietly when nobody reads on
            _stop(BAD_INPUT if isinstance(error, _ABOUT_FILES) else SURROUNDINGS, _about(error))
        except ModelFileError as error:
            _stop(BAD_MODEL, str(error))
        except (MemoryError, ImportError) as error:
            _stop(SURROUNDINGS, str(error) or "there is not enough memory.")
        except ValueError as error:
            _stop(BAD_INPUT, str(error))


def _stop(code: int, sentence: str) -> None:
    # Some messages of other libraries have several lines.
    typer.echo(f"dyadlearn: {spoken(' '.join(sentence.split()))}", err=True)
    raise typer.Exit(code)


def _about(error: OSError) -> str:
    """Return what went wrong with a file, without the number of the error."""
    if error.strerror is None:
        return str(error)
    where = "" if error.filename is None else f"{error.filename}: "
    return f"{where}{error.strerror}."
