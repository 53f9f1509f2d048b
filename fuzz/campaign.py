"""What every generator of the campaign shares: a case, its verdicts, and the registry."""

from __future__ import annotations

import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import dyadlearn
from dyadlearn import exceptions

__all__ = [
    "GENERATORS",
    "Case",
    "Outcome",
    "RefusedError",
    "WrongAnswerError",
    "generator",
    "play",
    "refusing",
]

# Warnings that the documentation speaks of; any other is a failure.
DOCUMENTED_WARNINGS = (
    ConvergenceWarning,
    *(
        thing
        for thing in vars(exceptions).values()
        if isinstance(thing, type) and issubclass(thing, Warning)
    ),
)
# Warnings that own up to a wrong answer.
ADMITTED = {
    ConvergenceWarning: "iterations stopped short, and said so",
    exceptions.PrecisionWarning: "a kernel close to singular without regularisation, and said so",
}


class WrongAnswerError(Exception):
    """The library gave a wrong answer."""


class RefusedError(Exception):
    """The library declined for a good reason, or the reference has no digits left to judge by."""


@dataclass
class Case:
    """One random case: all its randomness comes from the generator's name and the seed.

    Attributes
    ----------
    name : str
        Of the generator.
    seed : int
    rng : numpy.random.Generator
    what : str
        What was drawn, for the report of a failure.
    """

    name: str
    seed: int
    what: str = ""
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([zlib.crc32(self.name.encode()), self.seed])

    def chance(self, probability: float) -> bool:
        """Return True with some probability."""
        return bool(self.rng.random() < probability)

    def pick(self, *things: Any) -> Any:
        """Return one of some things."""
        return things[int(self.rng.integers(len(things)))]


@dataclass(frozen=True)
class Outcome:
    """How a case ended.

    Attributes
    ----------
    verdict : {"agreed", "refused", "failed"}
    note : str
        The reason of a refusal, or what failed.
    what : str
        What was drawn.
    trace : str
        Of an unexpected error.
    """

    verdict: str
    note: str = ""
    what: str = ""
    trace: str = ""


GENERATORS: dict[str, Callable[[Case], None]] = {}


def generator(function: Callable[[Case], None]) -> Callable[[Case], None]:
    """Register a generator: a function that draws a case and checks it, and raises where it has something to say."""
    GENERATORS[function.__name__] = function
    return function


def play(name: str, seed: int) -> Outcome:
    """Run one case, and let nothing but a verdict out."""
    case = Case(name, seed)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            GENERATORS[name](case)
        except RefusedError as reason:
            outcome = Outcome("refused", str(reason), case.what)
        except WrongAnswerError as failure:
            outcome = Outcome("failed", str(failure), case.what)
        except exceptions.LeverageError as error:
            # Without a trace: whether a singular kernel has leverage 1 may hang on rounding that a
            # warning owned up to.
            outcome = Outcome("failed", f"LeverageError: {error}{_where(error)}", case.what)
        except Exception as error:
            where = _where(error)
            note = (
                f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}{where}"
            )
            outcome = Outcome("failed", note, case.what, traceback.format_exc())
        else:
            outcome = Outcome("agreed", "", case.what)
    strange = [warning for warning in told if not _is_documented(warning)]
    if strange and outcome.verdict != "failed":
        first = strange[0]
        note = f"undocumented {first.category.__name__}: {first.message} ({Path(first.filename).name}:{first.lineno})"
        return Outcome("failed", note, case.what)
    if outcome.verdict == "failed" and not outcome.trace:
        for category, reason in ADMITTED.items():
            if any(issubclass(warning.category, category) for warning in told):
                return Outcome("refused", reason, case.what)
    return outcome


@contextmanager
def refusing(justified: Callable[[Exception], str | None]) -> Iterator[None]:
    """Turn a documented error into a refusal where `justified` gives a reason for it; let all others through."""
    try:
        yield
    except ValueError as error:
        reason = None if isinstance(error, np.linalg.LinAlgError) else justified(error)
        if reason is None:
            raise
        raise RefusedError(reason) from None


def _is_documented(warning: warnings.WarningMessage) -> bool:
    return issubclass(warning.category, DOCUMENTED_WARNINGS) or warning.category is UserWarning


def _where(error: BaseException) -> str:
    """Return the line of the library in which an error arose."""
    home = Path(dyadlearn.__file__).parent
    lines = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if home in Path(frame.filename).parents
    ]
    if lines:
        return f" ({Path(lines[-1].filename).relative_to(home)}:{lines[-1].lineno})"
    return ""
