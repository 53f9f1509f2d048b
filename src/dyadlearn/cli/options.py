"""Shared options of the commands, and the function that makes a command from a class of options.

This module imports neither numpy nor the library, so that --help and errors about options are fast.
"""

from __future__ import annotations

import errno
import inspect
import os
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar, dataclass_transform, get_type_hints

import typer
from typer import Argument, Option

from dyadlearn._files.atomic import TABLES, check_place, ids_file
from dyadlearn._registry import SCORINGS, names_where
from dyadlearn.cli.terminal import OPTIONS, Terminal

#: Names that --scoring takes, for help texts; 10 stands for any number.
SCORES = ", ".join(name.replace("_at_k", "_at_10") for name in SCORINGS)
SCORES += ", or a name that scikit-learn has for regression"
#: Endings of the names of reports.
PAGES = (".html", ".htm")
#: The models of tune.
MODELS = names_where()
#: The models that are compared if none is named.
COMPARED = ("two-step", "kronecker")
#: Options that only some models have.
OF_MODELS: dict[str, tuple[str, ...]] = {
    "task_alphas": names_where(has_alpha="task_alpha"),
    **dict.fromkeys(("task_kernel", "task_groups"), names_where(setting="C")),
    "constants": ("kronecker", "pair"),
    "shares": ("pair",),
    "method": names_where(has_alpha="alpha"),
    "keep_labels": ("online",),
    **dict.fromkeys(("alphas", "exhaustive"), names_where(has_alpha="alpha")),
    **dict.fromkeys(("scoring", "average", "device"), (*names_where(has_alpha="alpha"), "learned")),
    **dict.fromkeys(("stages", "steps", "shrinkage", "normalize", "seed"), ("learned",)),
}
_FILES = "a file of features, embeddings, a kernel, SMILES or FASTA; learned kernels take several, as NAME=FILE."
_SETTINGS = "A (new pairs), B (new instances), C (new tasks), D (both new)"

_KERNELS = "linear, rbf:gamma=0.1, tanimoto (for SMILES), precomputed, smith-waterman or spectrum:k=3 (for FASTA)."
Files = list[str] | None
Paths = list[Path] | None
Instances = Annotated[Files, Option(metavar="[NAME=]FILE", help=f"Instances: {_FILES}")]
Tasks = Annotated[Files, Option(metavar="[NAME=]FILE", help=f"Tasks: {_FILES}")]
Kernel = Annotated[
    Files, Option(metavar="[NAME=]KERNEL", help=f"Kernel of the instances: {_KERNELS}")
]
Setting = Annotated[str, Option(help=f"One of {_SETTINGS}.")]
Settings = Annotated[
    str | None,
    Option(help=f"{_SETTINGS}, or several, such as BD; by default all that are possible."),
]
Scoring = Annotated[
    list[str] | None,
    Option(metavar="SCORE", help=f"Repeatable; by default as tuned. One of {SCORES}."),
]
Average = Annotated[
    str | None,
    Option(
        help="pooled, instance, task or fold: one score of all labels, or the mean of the scores of "
        "each; by default pooled in A and D, per instance in B, per task in C."
    ),
]
Folds = Annotated[
    int | None,
    Option("--cv", help="Number of folds; by default exact leave-one-out if possible, else 5."),
]
Method = Annotated[
    str | None,
    Option(help="exact or folds: hold out by a formula whatever it costs, or refit folds."),
]
Fingerprint = Annotated[
    Files,
    Option(
        metavar="[NAME=]KIND",
        help="Fingerprints of SMILES: morgan:radius=3,n_bits=4096, feature_morgan, atom_pairs, torsions, "
        "paths, maccs, descriptors; default morgan.",
    ),
]
Clip = Annotated[
    str | None, Option(metavar="LOW,HIGH", help="Clip predictions to a scale, such as 1,5.")
]
Nested = Annotated[
    bool, Option(help="Learn kernels again in each fold, or keep those of the model.")
]
Prevalence = Annotated[
    float | None,
    Option(help="Fraction of positive pairs among those to predict; default that of the labels."),
]
Number = Annotated[int, Option("-n", "--number", min=1, help="Number of rows to list.")]
Seed = Annotated[int, Option(min=0, help="Seed of the random numbers.")]
Rules = dict[str, tuple[str, ...]]
# Options for files that describe a side, with names and options of files.
_DESCRIPTIONS = ("instances", "tasks", "new", "entities")
Force = Annotated[bool, Option("--force", "-f", help="Replace the output file if it exists.")]


def option(help: str, *names: str, default: Any = None, **more: Any) -> Any:
    """Return the field of an option; without `names` it is called as the field.

    Parameters
    ----------
    help : str
    *names : str
    default : object, default=None
    **more
        Further arguments of `typer.Option`.
    """
    return field(default=default, metadata={"option": Option(*names, help=help, **more)})


@dataclass_transform(kw_only_default=True, frozen_default=True)
@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of every command.

    A derived class is a command and a frozen dataclass: its docstring is the help, and its fields
    are the options. `needs` maps an option to the options that it has no effect without. `excludes`
    maps an option to those that have no effect beside it. The keyword `module` of the class names
    the module of this package that has the function of the command.
    """

    json: bool = option("Print the figures as one JSON object.", default=False)
    quiet: bool = option("Print no notes and no progress.", "--quiet", "-q", default=False)

    needs: ClassVar[Rules] = {}
    excludes: ClassVar[Rules] = {}
    #: Endings that the name of the output may have; empty allows any.
    endings: ClassVar[tuple[str, ...]] = ()
    #: Input that the output may replace.
    in_place: ClassVar[tuple[str, ...]] = ()
    module: ClassVar[str]

    def __init_subclass__(cls, module: str = "commands") -> None:
        cls.module = module
        OPTIONS.update(cls.__annotations__)
        dataclass(frozen=True, kw_only=True)(cls)

    def check(self) -> None:
        """Raise if an option has no effect, or if the output cannot be written."""
        self._check_needs()
        self._check_excludes()
        output: Path | None = getattr(self, "output", None)
        if output is None:
            return
        self._check_inputs(output)
        check_target(output, getattr(self, "force", False))
        ending = Path(output.name.lower().removesuffix(".gz")).suffix
        if self.endings and ending not in self.endings:
            raise ValueError(
                f"{output} must end in one of {', '.join(self.endings)}, so that its format is "
                f"known."
            )

    def has(self, name: str) -> bool:
        """Return whether an option is given."""
        return bool(getattr(self, name))

    def _check_needs(self) -> None:
        """Raise if an option is given without one that it needs."""
        for name, needed in self.needs.items():
            lacking = [other for other in needed if not self.has(other)]
            for option in written_options(name) if lacking else ():
                with_other = f"--{lacking[0].replace('_', '-')}"
                raise ValueError(f"{option} goes with {with_other}: add it, or leave {option} out.")

    def _check_excludes(self) -> None:
        """Raise if an option is given beside one that excludes it."""
        for mode, others in self.excludes.items():
            for option in written_options(*others) if getattr(self, mode) else ():
                raise ValueError(f"{option} has no effect beside --{mode}: leave one of them out.")

    def _check_inputs(self, output: Path) -> None:
        """Raise if the output is a file that the command reads, under its name or through a link."""
        if not output.exists():
            return
        for path in self._inputs():
            if path.exists() and path.samefile(output):
                raise ValueError(
                    f"The output {output} would replace {path}, which this command reads: choose "
                    f"another name for the output."
                )

    def _inputs(self) -> list[Path]:
        """Return the files that the command may read."""
        inputs: list[Path] = []
        for name, value in vars(self).items():
            if name == "output" or name in self.in_place:
                continue
            values = value if isinstance(value, list) else [value]
            inputs += [path for path in values if isinstance(path, Path)]
            if name in _DESCRIPTIONS:
                for text in values:
                    inputs += [] if text is None else _inputs_of(str(text))
        return inputs


def refuse(options: Options, used: tuple[str, ...], why: str) -> None:
    """Raise if an option is written that is not among those `used`."""
    others = [name for name in vars(options) if name not in (*used, "json", "quiet")]
    for option in written_options(*others):
        raise ValueError(f"{option} {why}: leave it out.")


def check_scores(average: str | None, method: str | None) -> None:
    """Raise if an average or a method of hold-out is unknown."""
    if average not in (None, "pooled", "instance", "task", "fold"):
        raise ValueError(f"--average is pooled, instance, task or fold, found {average!r}.")
    if method not in (None, "exact", "folds"):
        raise ValueError(f"--method is exact or folds, found {method!r}.")


class Sides(Options):
    """Option for the names of the sides."""

    sides: str | None = option("Words for an instance and a task, such as host,parasite.")


class OfModel(Sides):
    """Argument for a model file."""

    source: Annotated[Path, Argument(metavar="MODEL", help="A model file.")]


class TableOutput(Sides):
    """Options for writing a table to a file."""

    output: Path | None = option("A .csv, .tsv or .parquet to write.", "--output", "-o")
    force: Force = False

    endings: ClassVar[tuple[str, ...]] = TABLES


class Structures(Options):
    """Options for one table, whose columns hold the structures of both sides."""

    smiles: Files = option("One table: its column of SMILES; repeatable.", metavar="COLUMN")
    sequence: Files = option("One table: its column of sequences; repeatable.", metavar="COLUMN")
    id_column: str | None = option(
        "One table: ids of tasks that have no structure.", "--id", metavar="COLUMN"
    )

    @property
    def structures(self) -> list[tuple[str, str]]:
        """The kind and the name of each column of one table that describes a side, in their order."""
        columns = [("smiles", name) for name in self.smiles or ()]
        columns += [("sequences", name) for name in self.sequence or ()]
        columns += [("ids", self.id_column)] if self.id_column else []
        return columns


class Cells(Options):
    """Options for labels of cells of three or more sides, which are columns of one table."""

    terms: str | None = option(
        "Three or more sides: a random effect for each side or interaction, as "
        "'mother + father + mother:father'; a*b is a + b + a:b."
    )
    entities: Files = option(
        "Features of a side of --terms, or its kernel; repeatable.", metavar="SIDE=FILE"
    )
    fixed: str | None = option("Columns with fixed effects, as trial,year.", metavar="COLUMNS")
    weights: str | None = option("Column of the weights of labels of --terms.", metavar="COLUMN")
    symmetric: str | None = option(
        "Two sides of --terms whose order does not matter.", metavar="A,B"
    )


class LabelFile(Options):
    """Options for reading a file of labels."""

    format: str | None = option("Form of the labels, grid or long; by default detected.")
    columns: str | None = option("Columns of a long table, such as user,item,stars or 1,2,3.")
    fill: float | None = option("Value of pairs that a long table lacks; by default missing.")
    transpose: bool = option("The rows of the labels are tasks.", default=False)


# Files that a command reads ------------------------------------------------------------------------

# Parameters of `read_features` that may follow the name of a file of features after two colons.
_OPTIONS = ("key", "ids", "row_ids", "pool")


def file_options(text: Path) -> tuple[Path, dict[str, str]]:
    """Split ``file::key,option=value`` into a file and options, unless a file with that whole name exists."""
    name, colons, rest = text.as_posix().partition("::")
    if not colons or text.exists():
        return text, {}
    options: dict[str, str] = {}
    for part in rest.split(","):
        option, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            value = option
            option = "key"
        if option not in _OPTIONS or not value or option in options:
            such = f"{', '.join(_OPTIONS[1:])}, such as {name}::group/data,pool=mean"
            raise ValueError(
                f"{name}:: takes the name of a part of the file and {such}; found {part!r}."
            )
        options[option] = value
    return Path(name), options


def is_named(text: str) -> bool:
    """Return whether a text is ``name=file``, unless a file with that whole name exists."""
    before = text.partition("::")[0]  # options of a file have equals signs too
    name, _, path = before.partition("=")
    exists = Path(text).exists() or Path(before).exists()
    return bool(name.strip() and path.strip()) and not {"/", "\\"} & set(name) and not exists


def _inputs_of(text: str) -> list[Path]:
    """Return the files that are read for ``[name=]file[::options]``: the file, and possible files of its ids."""
    # Only learned models take names; for others, the name is part of the path.
    texts = [text]
    if is_named(text):
        texts.append(text.partition("=")[2])
    paths: list[Path] = []
    for name in texts:
        path, options = file_options(Path(name))
        paths.append(path)
        if path.name:
            paths.append(ids_file(path))
        if "ids" in options:
            paths.append(Path(options["ids"]))
        if "row_ids" in options:
            paths += [Path(options["row_ids"]), path.parent / options["row_ids"]]
    return paths


# Files that a command writes -----------------------------------------------------------------------


def check_target(path: Path, force: bool) -> None:
    """Raise if a file cannot be written, before any work is done for it; with `force` it may exist."""
    check_place(path)
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "this folder cannot be written to", str(path.parent))
    if path.exists() and not force:
        raise FileExistsError(
            errno.EEXIST, "it exists already, choose another name or add --force", str(path)
        )


# From classes to commands --------------------------------------------------------------------------

# The context of the running command; typer may bundle its own click, whose current context click
# does not know.
_running: ContextVar[Any] = ContextVar("running")


def make_command(kind: type[Options]) -> Callable[..., None]:
    """Return the function that typer runs for a class of options; it calls the function of that name in its module."""
    name = kind.__name__.lower()
    parameters = _parameters(kind)

    def called(context: Any, **values: Any) -> None:
        run = getattr(import_module(f"dyadlearn.cli.{kind.module}"), name)
        if context.obj is not None:
            context.obj()  # everything that the command needs is imported
        _running.set(context)
        options = kind(**values)
        with Terminal(options.json, options.quiet) as terminal:
            options.check()
            run(options, terminal)

    called.__name__ = name
    called.__doc__ = kind.__doc__
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


def _parameters(kind: type[Options]) -> list[inspect.Parameter]:
    """Return the parameters of a command: the options of its class, then those of the base classes, and its context."""
    types = get_type_hints(kind, include_extras=True)
    defaults = inspect.signature(kind).parameters
    known = {entry.name: entry for entry in fields(kind)}
    order: dict[str, None] = {}
    for base in kind.__mro__:
        order |= dict.fromkeys(vars(base).get("__annotations__", ()))
    parameters = []
    for name in filter(known.__contains__, order):
        annotation = types[name]
        if known[name].metadata:
            annotation = Annotated[annotation, known[name].metadata["option"]]
        parameter = defaults[name].replace(annotation=annotation)
        about = annotation.__metadata__[0]
        if parameter.default is False and not about.param_decls:
            # No option to switch it off.
            about.param_decls = (f"--{name.replace('_', '-')}",)
        parameters.append(parameter)
    keyword_only = inspect.Parameter.KEYWORD_ONLY
    parameters.append(inspect.Parameter("context", keyword_only, annotation=typer.Context))
    return parameters


def written_options(*names: str) -> list[str]:
    """Return the options among `names` that the user wrote on the command line, as they were written."""
    context = _running.get()
    written = []
    for param in context.command.params:
        if param.name in names and context.get_parameter_source(param.name).name == "COMMANDLINE":
            is_off = bool(param.secondary_opts) and context.params[param.name] is False
            written.append(max(param.secondary_opts if is_off else param.opts, key=len))
    return written
