"""The options that commands share, what their words mean, and where output may go."""

from __future__ import annotations

import errno
import inspect
import os
import re
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dyadlearn._files.atomic import check_place
from dyadlearn._files.packed import parse_number
from dyadlearn._files.tables import TABLES, suffix_of
from dyadlearn.metrics import scorer_names
from dyadlearn.settings import Setting, as_setting

MODELS = ("two-step", "kronecker", "independent", "online")
#: What --scoring takes, in words; 10 stands for any number.
SCORES = (
    f"{', '.join(name.replace('_at_k', '_at_10') for name in scorer_names())}, or a name that scikit-learn has for "
    "regression"
)
_FILES = "Features, embeddings, a kernel, SMILES or FASTA; learn takes several, each as NAME=FILE."

ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.")]
ModelName = Annotated[str, typer.Option("--model", help=f"One of {', '.join(MODELS)}.")]
_INSTANCES = typer.Option("--instances", metavar="[NAME=]FILE", help=f"Instances. {_FILES}")
Instances = Annotated[list[str], _INSTANCES]
MaybeInstances = Annotated[list[str] | None, _INSTANCES]
Tasks = Annotated[list[str] | None, typer.Option("--tasks", metavar="[NAME=]FILE", help=f"Tasks. {_FILES}")]
SmilesOfInstances = Annotated[
    list[str] | None,
    typer.Option("--instances-smiles", metavar="[NAME=]COLUMN", help="The column of the instances that holds SMILES."),
]
SmilesOfTasks = Annotated[
    list[str] | None,
    typer.Option("--tasks-smiles", metavar="[NAME=]COLUMN", help="The column of the tasks that holds SMILES."),
]
Sides = Annotated[
    str | None, typer.Option("--sides", metavar="I,T", help="Words for an instance and a task, such as host,parasite.")
]
Intercept = Annotated[
    bool,
    typer.Option(
        "--intercept/--no-intercept",
        help="With an overall mean and main effects of instances and tasks, or only with products of both sides.",
    ),
]
Device = Annotated[
    str | None, typer.Option("--device", help="Where to compute: cuda is a GPU, by torch or cupy; by default here.")
]
SettingOption = Annotated[
    str, typer.Option("--setting", help="What predictions do without: the pair A, its instance B, its task C, both D.")
]
Folds = Annotated[int | None, typer.Option("--cv", help="Folds where labels are missing and no shortcut exists.")]
Permutations = Annotated[int, typer.Option(min=0, help="How many permuted labels the null is the mean of.")]
OwnScoring = Annotated[
    str | None,
    typer.Option("--scoring", help=f"A score; by default the one that models were tuned for. One of {SCORES}."),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace the output file if it exists.")]


@dataclass(frozen=True)
class TableOutput:
    """Where a table goes; checked before any work is done for it."""

    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write a .csv, .tsv, .parquet or .npz instead of printing."),
    ] = None
    force: Force = False

    def __post_init__(self) -> None:
        if self.output is not None:
            if suffix_of(self.output) not in TABLES:
                raise ValueError(f"{self.output} must end in one of {', '.join(TABLES)}, so that its format is known.")
            check_target(self.output, self.force)


@dataclass(frozen=True)
class LabelOptions:
    """How a file of labels is to be read."""

    format: Annotated[
        str | None, typer.Option(help="What the labels are, grid or long; by default the file tells.")
    ] = None
    columns: Annotated[
        str | None, typer.Option(metavar="I,T,V", help="Columns of a long table: instance, task and value, by name.")
    ] = None
    fill: Annotated[
        float | None, typer.Option(help="The value of pairs that a long table lacks; by default they are not observed.")
    ] = None
    transpose: Annotated[bool, typer.Option("--transpose", help="The rows of the labels are tasks.")] = False


@dataclass(frozen=True)
class Reading(LabelOptions):
    """How labels and the files of both their sides are to be read."""

    fingerprint: Annotated[str | None, typer.Option(help="Options of fingerprints, such as radius=3,n_bits=4096.")] = (
        None
    )
    drop_invalid: Annotated[
        bool, typer.Option("--drop-invalid", help="Leave out SMILES and sequences that cannot be read.")
    ] = False
    kernel: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]KERNEL",
            help="Kernel of the instances, of one file by its name or of all: precomputed, linear, rbf:gamma=0.1, "
            "tanimoto, spectrum:k=3, taxonomy.",
        ),
    ] = None
    task_kernel: Annotated[
        list[str] | None, typer.Option(metavar="[NAME=]KERNEL", help="Kernel of the tasks, likewise.")
    ] = None
    instances_smiles: SmilesOfInstances = None
    tasks_smiles: SmilesOfTasks = None


def taking_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose parameters are all options; a class of options stands for its fields.

    The parameter `terminal` is one of these classes, and the command runs within it.
    """
    groups: dict[str, tuple[Any, list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        kind = parameter.annotation
        if not (isinstance(kind, type) and is_dataclass(kind)):
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        fields = inspect.signature(kind, eval_str=True).parameters
        groups[name] = kind, list(fields)
        parameters += [field.replace(kind=inspect.Parameter.KEYWORD_ONLY) for field in fields.values()]
    parameters.append(inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context))

    @wraps(command)
    def called(context: Any, **given: Any) -> None:
        _running.set(context)
        made = {name: kind(**{option: given.pop(option) for option in names}) for name, (kind, names) in groups.items()}
        with made["terminal"]:
            command(**made, **given)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


# Of the command that runs; typer may come with a click of its own, whose current context nobody else knows.
_running: ContextVar[Any] = ContextVar("running")


def given_options(*names: str) -> list[str]:
    """Return those parameters of the running command that stand on its command line, as they are written there."""
    context = _running.get()
    found = []
    for param in context.command.params:
        if param.name in names and context.get_parameter_source(param.name).name == "COMMANDLINE":
            is_off = bool(param.secondary_opts) and context.params[param.name] is False
            found.append(max(param.secondary_opts if is_off else param.opts, key=len))
    return found


def check_beside(present: object, needed: str, *names: str) -> None:
    """Raise where one of some options is given that has no effect without another, which is not `present`."""
    for option in () if present else given_options(*names):
        raise ValueError(f"{option} goes with {needed}: add it, or leave {option} out.")


def check_has_tasks(has_tasks: bool) -> None:
    """Raise where there are no tasks, and an option is given that is about them."""
    about = ("task_kernel", "tasks_smiles", "task_groups", "task_alpha", "task_alphas")
    for option in () if has_tasks else given_options(*about):
        raise ValueError(f"{option} is about tasks, and there are none: give them by --tasks, or leave it out.")


def parse_options(text: str) -> tuple[str, dict[str, Any]]:
    """Split ``name:option=value,option=value`` into a name and options."""
    name, _, rest = text.partition(":")
    return name.strip(), parse_values(rest) if rest else {}


def parse_values(text: str) -> dict[str, Any]:
    """Read ``option=value,option=value``; numbers and truth values are read as such."""
    options: dict[str, Any] = {}
    for part in text.split(","):
        option, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not option or not value:
            raise ValueError(f"Expected option=value, separated by commas, found {part!r} in {text!r}.")
        options[option] = _value(value)
    return options


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        number = parse_number(text)
    except ValueError:
        return text
    return int(text) if re.fullmatch(r"[-+]?\d+", text) else number


def alphas_of(text: str | None, option: str) -> list[float] | None:
    """Read regularisations: numbers with commas, or ``first:last:count`` in even steps of the exponent."""
    if text is None:
        return None
    try:
        if ":" in text:
            first, last, count = text.split(":")
            return np.geomspace(parse_number(first), parse_number(last), int(count)).tolist()  # type: ignore[no-any-return]
        return [parse_number(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} takes numbers as 0.1,1,10 or a range as 1e-3:1e3:7; found {text!r}.") from None


def settings_of(text: str) -> list[Setting]:
    """Read settings: letters in a row, or aliases with commas."""
    names = text.split(",") if "," in text or len(text) > 4 else list(text)
    return [as_setting(name) for name in names]


def sides_of(text: str | None) -> tuple[str, ...] | None:
    """Read what the sides are called, two words with a comma; they are checked where they are used."""
    return None if text is None else tuple(text.split(","))


def check_target(path: Path, force: bool) -> None:
    """Raise for a place that cannot be written to, before any work is done for it; with `force` a file may be there."""
    check_place(path)
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "this folder cannot be written to", str(path.parent))
    if path.exists() and not force:
        raise FileExistsError(errno.EEXIST, "it exists already, choose another name or add --force", str(path))
