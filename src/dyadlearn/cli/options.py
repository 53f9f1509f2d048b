"""The options that commands share, what their words mean, and where output may go."""

from __future__ import annotations

import errno
import inspect
import os
import re
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import typer
from typer.core import TyperCommand

from dyadlearn._files.atomic import check_place
from dyadlearn._files.packed import parse_number
from dyadlearn._files.tables import TABLES, suffix_of
from dyadlearn.metrics import scorer_names
from dyadlearn.settings import Setting, as_setting

__all__ = [
    "MODELS",
    "SCORES",
    "Command",
    "Force",
    "Instances",
    "InstancesSmiles",
    "Intercept",
    "Json",
    "LabelOptions",
    "Labels",
    "Making",
    "MaybeInstances",
    "MaybeSeveralInstances",
    "ModelArgument",
    "ModelName",
    "Quiet",
    "Reading",
    "Scoring",
    "SeveralInstances",
    "SeveralInstancesSmiles",
    "SeveralReading",
    "SeveralTasks",
    "SeveralTasksSmiles",
    "Sides",
    "Tasks",
    "TasksSmiles",
    "Title",
    "ToldScoring",
    "ToldSettings",
    "alphas_of",
    "check_beside",
    "check_has_tasks",
    "check_table",
    "check_target",
    "given_options",
    "parse_options",
    "parse_values",
    "settings_of",
    "sides_of",
    "taking_options",
]

# Labels and their sides.
Labels = Annotated[
    Path, typer.Argument(metavar="LABELS", help="A grid of instances × tasks, or a long table of pairs.")
]
Instances = Annotated[
    Path, typer.Option("--instances", help="Instances: features, embeddings, a kernel, SMILES or FASTA.")
]
MaybeInstances = Annotated[
    Path | None, typer.Option("--instances", help="Features, embeddings, a kernel, SMILES or FASTA.")
]
Tasks = Annotated[Path | None, typer.Option("--tasks", help="Tasks: features, embeddings, a kernel, SMILES or FASTA.")]
InstancesSmiles = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="The column of the instances that holds SMILES.")
]
TasksSmiles = Annotated[str | None, typer.Option(metavar="COLUMN", help="The column of the tasks that holds SMILES.")]

# The same of sides that may have several files.
_ALIKE = (
    "Features, embeddings, a kernel, SMILES or FASTA; repeated, each by a name, where the model learns from several."
)
SeveralInstances = Annotated[
    list[str],
    typer.Option(
        "--instances",
        metavar="[NAME=]FILE",
        help="Instances: features, embeddings, a kernel, SMILES or FASTA; repeated, each by a name, for several.",
    ),
]
MaybeSeveralInstances = Annotated[
    list[str] | None, typer.Option("--instances", metavar="[NAME=]FILE", help=f"Instances. {_ALIKE}")
]
SeveralTasks = Annotated[list[str] | None, typer.Option("--tasks", metavar="[NAME=]FILE", help=f"Tasks. {_ALIKE}")]
SeveralInstancesSmiles = Annotated[
    list[str] | None,
    typer.Option("--instances-smiles", metavar="[NAME=]COLUMN", help="The column of the instances that holds SMILES."),
]
SeveralTasksSmiles = Annotated[
    list[str] | None,
    typer.Option("--tasks-smiles", metavar="[NAME=]COLUMN", help="The column of the tasks that holds SMILES."),
]

# What the sides are called; the model file keeps what tune is told.
Sides = Annotated[
    str | None, typer.Option("--sides", metavar="I,T", help="Words for an instance and a task, such as host,parasite.")
]

# Models.
ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.")]
MODELS = ("two-step", "kronecker", "independent", "online")

ModelName = Annotated[str, typer.Option("--model", help=f"One of {', '.join(MODELS)}.")]
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
#: What --scoring takes, in words; 10 stands for any number.
SCORES = (
    f"{', '.join(name.replace('_at_k', '_at_10') for name in scorer_names())}, or a name that scikit-learn has for "
    "regression"
)

# What is told of a model on a page or a card.
Title = Annotated[str | None, typer.Option("--title", help="The heading.")]
ToldSettings = Annotated[str | None, typer.Option("--settings", help="Which settings; by default all that are quick.")]
ToldScoring = Annotated[
    str | None,
    typer.Option("--scoring", help=f"What is best; by default what the model was tuned for. One of {SCORES}."),
]
Scoring = Annotated[
    str | None,
    typer.Option(help=f"What is best; by default roc_auc for two values, else squared error. One of {SCORES}."),
]

# Output.
Json = Annotated[bool, typer.Option("--json", help="Print the figures as one JSON object, for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No notes and no progress bars.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace the output file if it exists.")]


@dataclass(frozen=True)
class LabelOptions:
    """How a file of labels is to be read; the fields are options of the commands that read one."""

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
class Making(LabelOptions):
    """How labels are to be read, and molecules and sequences to be made into numbers."""

    fingerprint: Annotated[
        str | None,
        typer.Option(help="Options of fingerprints, such as radius=3,n_bits=4096."),
    ] = None
    drop_invalid: Annotated[
        bool, typer.Option("--drop-invalid", help="Leave out SMILES and sequences that cannot be read.")
    ] = False


@dataclass(frozen=True)
class Reading(Making):
    """How labels and the files of both their sides are to be read, one file a side."""

    #: The kernel of features where none is said.
    usual_kernel: ClassVar[str] = "linear"

    kernel: Annotated[
        str | None,
        typer.Option(
            help="Kernel of the instances, as precomputed, linear, rbf:gamma=0.1, tanimoto, spectrum:k=3, taxonomy."
        ),
    ] = None
    task_kernel: Annotated[str | None, typer.Option(help="Kernel of the tasks.")] = None
    instances_smiles: InstancesSmiles = None
    tasks_smiles: TasksSmiles = None


@dataclass(frozen=True)
class SeveralReading(Making):
    """How labels and the files of both their sides are to be read, of which each side may have several."""

    usual_kernel: ClassVar[str] = "rbf"

    kernel: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]KERNEL",
            help="Kernel of the instances, by the name of its file, such as ecfp=tanimoto, or one for all of them: "
            "precomputed, linear, rbf, tanimoto, spectrum:k=3, taxonomy.",
        ),
    ] = None
    task_kernel: Annotated[
        list[str] | None, typer.Option(metavar="[NAME=]KERNEL", help="Kernel of the tasks, likewise.")
    ] = None
    instances_smiles: SeveralInstancesSmiles = None
    tasks_smiles: SeveralTasksSmiles = None


def taking_options(command: Callable[..., None]) -> Callable[..., None]:
    """Let the fields of a command's parameter `how`, a class of options, be options on the command line."""
    signature = inspect.signature(command, eval_str=True)
    kind = signature.parameters["how"].annotation
    fields = inspect.signature(kind, eval_str=True).parameters.values()
    options = [field.replace(kind=inspect.Parameter.KEYWORD_ONLY) for field in fields]

    @wraps(command)
    def called(**given: Any) -> None:
        how = kind(**{option.name: given.pop(option.name) for option in options})
        command(how=how, **given)

    parameters = list(signature.parameters.values())
    place = list(signature.parameters).index("how")
    parameters[place : place + 1] = options
    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return called


# Of the command that runs; typer may come with a click of its own, whose current context nobody else knows.
_running: ContextVar[Any] = ContextVar("running")


class Command(TyperCommand):
    """A command that knows which of its options were given."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        token = _running.set(ctx)
        try:
            return super().invoke(ctx)
        finally:
            _running.reset(token)


def given_options(*names: str) -> list[str]:
    """Return those parameters of the running command that stand on its command line, as they are written there."""
    context = _running.get()
    found = []
    for param in context.command.params:
        if param.name in names and context.get_parameter_source(param.name).name == "COMMANDLINE":
            is_off = bool(param.secondary_opts) and context.params[param.name] is False
            found.append(max(param.secondary_opts if is_off else param.opts, key=len))
    return found


def check_beside(present: bool, needed: str, *names: str) -> None:
    """Raise where one of some options is given that says nothing without another, which is not `present`."""
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


def alphas_of(text: str | None, option: str) -> Any:
    """Read regularisations: numbers with commas, ``first:last:count`` in even steps of the exponent, or auto."""
    if text is None or text == "auto":
        return text
    try:
        if ":" in text:
            first, last, count = text.split(":")
            return np.geomspace(parse_number(first), parse_number(last), int(count)).tolist()
        return [parse_number(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(
            f"{option} takes numbers as 0.1,1,10, a range as 1e-3:1e3:7, or auto; found {text!r}."
        ) from None


def settings_of(text: str) -> list[Setting]:
    """Read settings: letters in a row, or aliases with commas."""
    names = text.split(",") if "," in text or len(text) > 4 else list(text)
    return [as_setting(name) for name in names]


def sides_of(text: str | None) -> tuple[str, ...] | None:
    """Read what the sides are called, two words with a comma; whether they will do is looked at where they are used."""
    return None if text is None else tuple(text.split(","))


def check_target(path: Path, force: bool) -> None:
    """Refuse a place that cannot be written to, before any work is done for it; with `force` a file may be there."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "this is a folder, name a file to write", str(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder, make it or write elsewhere", str(path.parent))
    check_place(path)
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "this folder cannot be written to", str(path.parent))
    if path.exists() and not force:
        raise FileExistsError(errno.EEXIST, "it exists already, choose another name or add --force", str(path))


def check_table(path: Path | None, force: bool) -> None:
    """Refuse a place for a table that cannot be written to; None stands for standard output."""
    if path is None:
        return
    if suffix_of(path) not in TABLES:
        raise ValueError(f"{path} must end in one of {', '.join(TABLES)}, so that its format is known.")
    check_target(path, force)
