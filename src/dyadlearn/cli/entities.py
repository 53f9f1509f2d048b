"""Read the features or the kernel of one side from files, in training and for new instances and tasks.

A side is described by one file, or by several named files that describe the same entities. A single
file has the name "", which no named file can have.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dyadlearn._array import Array, double, is_sparse
from dyadlearn._checks import warn_renamed
from dyadlearn._files.embeddings import FeatureFile, open_features, read_ids
from dyadlearn._files.packed import parse_number, read_text
from dyadlearn._files.tables import check_whole, read_cells, suffix_of
from dyadlearn._messages import Message, message_of
from dyadlearn._state import Stored
from dyadlearn._tables import Ids, Table, id_text, make_ids, not_found, shown, text_ids
from dyadlearn.cli.commands import Audit, Tune
from dyadlearn.cli.options import file_options, is_named
from dyadlearn.cli.terminal import Arguments, Terminal
from dyadlearn.exceptions import DataFileError, KernelError
from dyadlearn.kernels.descriptions import Descriptions, check_description_names, read_descriptions
from dyadlearn.kernels.gram import check_kernel

_FASTA = (".fasta", ".fa", ".faa", ".fna")
_SEQUENCE_KERNELS = ("smith-waterman", "spectrum")
# Modules and functions that compute features of SMILES, and those of sequences for each kernel.
_FUNCTIONS = {
    "smiles": ("chemistry", "fingerprints"),
    "smith-waterman": ("sequences", "smith_waterman"),
    "spectrum": ("sequences", "kmer_counts"),
}
# Parameters of fingerprints and kernels that are no options of the command line.
_NOT_OPTIONS = ("smiles", "sequences", "ids", "kind", "on_error", "n_jobs", "progress")

# Positions in a file; None takes all in their order.
Places = np.ndarray | None
#: Input of a model for one side: a table (n, d), or several tables of the same entities.
Entities = Table | Descriptions


def parse_values(text: str) -> Arguments:
    """Read ``option=value,option=value``; numbers, true and false are converted."""
    options: Arguments = {}
    for part in text.split(","):
        option, _, value = (piece.strip() for piece in part.partition("="))
        if not option or not value:
            raise ValueError(
                f"Expected option=value, separated by commas, found {part!r} in {text!r}."
            )
        options[option] = _value(value)
    return options


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        number = parse_number(text)
    except ValueError:
        return text
    return int(text) if text.lstrip("+-").isdecimal() else number


def parse_kernel(text: str | None) -> tuple[str | None, Arguments]:
    """Split ``name:option=value,option=value`` into a name and options."""
    name, _, rest = (text or "").partition(":")
    return name.strip() or None, parse_values(rest) if rest else {}


# Names of files ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Files:
    """The files of one side.

    Attributes
    ----------
    paths : dict of str to Path
        The path of each file, by its name.
    option : str
        The option of the command line that gives them, such as "--instances".
    """

    paths: dict[str, Path]
    option: str

    @classmethod
    def of(cls, texts: Sequence[str], option: str, *, several: bool = True) -> Files:
        """Read the values of an option: one ``file``, or ``name=file`` for each of `several` files.

        If a file with the whole text as its name exists, an equals sign is part of its name.
        """
        count = len(texts)
        if not several and count > 1:
            raise ValueError(
                f"{option} takes one file, found {count}: only --model learned takes several."
            )
        unnamed = [text for text in texts if not several or not is_named(text)]
        if unnamed and count == 1:
            return cls({"": Path(texts[0])}, option)
        if unnamed:
            such = f"{option} structure={unnamed[0]}"
            raise ValueError(
                f"{option} is given {count} times: give each file a name, such as {such}."
            )
        paths: dict[str, Path] = {}
        for text in texts:
            before, _, path = text.partition("=")
            name = before.strip()
            if name in paths:
                raise ValueError(
                    f"{option} has two files with the name {name!r}: give different names."
                )
            paths[name] = Path(path)
        return cls(paths, option)

    @property
    def words(self) -> str:
        """The names of the files without their folders, as text."""
        words = []
        for name, whole in self.paths.items():
            path, colons, options = whole.as_posix().partition("::")
            prefix = f"{name}=" if name else ""
            words.append(f"{prefix}{Path(path).name}{colons}{options}")
        return " ".join(words)

    def of_each(
        self, texts: Sequence[str] | None, option: str, *, common: bool = False
    ) -> dict[str, str]:
        """Return the value of an option for each file, from texts ``name=value``.

        If `common` is true, a value without a name applies to all files that are not named.
        """
        texts = list(texts or ())
        if "" in self.paths:
            if len(texts) > 1:
                raise ValueError(
                    f"{option} is given {len(texts)} times, but {self.option} names a single file."
                )
            return {"": texts[0]} if texts else {}
        of_all: list[str] = []
        values: dict[str, str] = {}
        for text in texts:
            name, equals, value = (part.strip() for part in text.partition("="))
            # Options of a kernel have equals signs too, but after a colon.
            if not equals or ":" in name:
                of_all.append(text)
            elif name not in self.paths:
                names = shown(list(self.paths), 12)
                raise ValueError(
                    f"{option} {text} names the file {name!r}, but {self.option} has {names}."
                )
            elif name in values:
                raise ValueError(f"{option} is given twice for {name!r}.")
            else:
                values[name] = value
        if len(of_all) > 1 or (of_all and not common):
            such = f"{option} {next(iter(self.paths))}={of_all[-1]}"
            raise ValueError(
                f"{option} {of_all[-1]} does not name a file of {self.option}: write it as {such}."
            )
        if of_all:
            return {**dict.fromkeys(self.paths, of_all[0]), **values}
        return values


# How files were read -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recipe(Stored):
    """How a file was read; stored with the model, so that files of new instances or tasks are read in the same way.

    Attributes
    ----------
    kind : str
        "features", "kernel", "smiles" or "sequences".
    kernel : str
        The kernel of --kernel or --task-kernel.
    params : dict
        Parameters of the kernel.
    column : str or None
        Name of the column that holds SMILES.
    fingerprint : dict
        Parameters of the fingerprints.
    sequences : list of str
        The sequences of training, if new ones are aligned with them.
    names : list of str or None
        Names of the features.
    """

    kind: str
    kernel: str
    params: Arguments = field(default_factory=dict)
    column: str | None = None
    fingerprint: Arguments = field(default_factory=dict)
    sequences: list[str] = field(default_factory=list)
    names: list[str] | None = None

    @property
    def of_model(self) -> tuple[str, Arguments | None]:
        """The parameters `kernel` and `kernel_params` of the model."""
        if self.kind == "kernel" or self.kernel == "smith-waterman":
            return "precomputed", None
        if self.kernel == "spectrum":
            return "cosine", None
        return self.kernel, self.params or None

    @property
    def in_words(self) -> str:
        """The kind of data and the kernel, for people."""
        if self.kind == "kernel":
            return "a precomputed kernel"
        kind = self.kind
        if kind == "smiles":
            kind = f"SMILES, {self.fingerprint.get('kind', 'morgan')} fingerprints"
        if not self.params:
            return f"{kind}, {self.kernel} kernel"
        options = ", ".join(f"{name}={value}" for name, value in self.params.items())
        return f"{kind}, {self.kernel} ({options}) kernel"

    def _fits(self) -> bool:
        return self.kind in ("features", "kernel", "smiles", "sequences")


#: The recipes of one side by the names of its descriptions.
Recipes = dict[str, Recipe]


def in_words(recipes: Recipes | None) -> str:
    """Return the kinds of data and the kernels of a side, for people."""
    parts = []
    for name, recipe in (recipes or {}).items():
        prefix = f"{name}: " if name else ""
        parts.append(f"{prefix}{recipe.in_words}")
    return "; ".join(parts) or "none"


def recipes_state(recipes: Recipes | None) -> dict[str, Any] | None:
    """Return the recipes of a side as plain values, for the model file."""
    if recipes is None:
        return None
    return {name: recipe.state() for name, recipe in recipes.items()}


def recipes_from_state(state: Any, where: str) -> Recipes | None:
    """Return the recipes from their state, after checking it: a model file may come from anywhere."""
    if state is None:
        return None
    if type(state) is not dict or not state:
        raise TypeError("recipes have names")
    if set(state) != {""}:
        check_description_names(list(state), where)
    return {name: Recipe.from_state(part, where) for name, part in state.items()}


class Source(NamedTuple):
    """An opened file of instances or tasks.

    Attributes
    ----------
    kind : str
        "table", "smiles" or "sequences".
    file : FeatureFile
        Numbers or texts, with ids if the file has them.
    kernel, column, fingerprint : str or None
        The kernel with its options, the name of the column that holds SMILES, and the kind of
        fingerprints with its options; None by default.
    """

    kind: str
    file: FeatureFile
    kernel: str | None = None
    column: str | None = None
    fingerprint: str | None = None


def open_source(
    path: Path,
    smiles: str | None = None,
    kernel: str | None = None,
    option: str = "",
    fingerprint: str | None = None,
) -> Source:
    """Open a file of instances or tasks; `smiles` is the column of molecules, and `option` the option that names it."""
    path, options = file_options(path)
    is_fasta = suffix_of(path) in _FASTA
    if options and (is_fasta or smiles is not None):
        content = "sequences" if is_fasta else "SMILES"
        raise ValueError(f"{path} holds {content}: leave out :: and what follows.")
    if is_fasta and smiles is not None:
        raise ValueError(
            f"{path} contains sequences, but {option} names a column of a table: leave {option} "
            f"out."
        )
    if is_fasta:
        from dyadlearn.kernels.sequences import read_fasta

        texts = read_fasta(path)
        ids = make_ids(list(texts), None, str(path))
        return of_texts("sequences", path, list(texts.values()), ids, kernel)
    if smiles is not None:
        cells = read_cells(path)
        columns = (kernel, smiles, fingerprint)
        return of_texts("smiles", path, cells.column(smiles), cells.ids(), *columns)
    wanted = options.pop("ids", None)
    file = open_features(path, **options)
    if file.ids is not None:
        file = replace(file, ids=text_ids(file.ids, f"The rows of {path}"))
    if wanted is not None:
        file = file.only(read_ids(Path(wanted)), "ids")
    return Source("table", replace(file, rows=lambda places: double(file.rows(places))), kernel)


def read_names(path: Path) -> dict[Hashable, str]:
    """Return names by ids: the text after the id in each header of a FASTA file, or the columns of a table."""
    if suffix_of(path) in _FASTA:
        lines = read_text(path, "FASTA file").splitlines()
        headers = [line[1:].split(maxsplit=1) for line in lines if line[:1] == ">"]
        return {header[0]: header[1] for header in headers if len(header) == 2}
    return read_mapping(path, "name")


def read_mapping(path: Path, what: str) -> dict[Hashable, str]:
    """Read a table of two columns, an id and another text; errors name it as `what`."""
    cells = read_cells(path)
    if len(cells.headings) != 2:
        raise DataFileError(
            f"{path} must have two columns, an id and a {what}, found {shown(cells.headings)}."
        )
    return dict(zip(cells.ids().labels, cells.labels(1 - cells.id_place), strict=True))


def of_texts(
    kind: str,
    path: Path,
    texts: list[Any],
    ids: Ids,
    kernel: str | None = None,
    column: str | None = None,
    fingerprint: str | None = None,
) -> Source:
    """Return texts with ids as an opened file."""
    parse_fingerprint(fingerprint)  # raises before anything is computed
    table = Table(np.fromiter(texts, dtype=object, count=len(texts)), ids)
    return Source(kind, FeatureFile.of_table(path, table), kernel, column, fingerprint)


# In training ---------------------------------------------------------------------------------------


def training_side(
    sources: Mapping[str, Source],
    places: Mapping[str, np.ndarray | None],
    options: Tune | Audit,
    terminal: Terminal,
) -> tuple[Entities, Recipes, np.ndarray]:
    """Return one side of the training data, limited to the entities that all its files describe.

    Parameters
    ----------
    sources : mapping of str to Source
    places : mapping of str to integer array of shape (n,) or None
        Positions of the entities in each file, in the order of the labels; None takes all in their
        order.
    options : Tune
    terminal : Terminal

    Returns
    -------
    entities : Table or Descriptions
    recipes : dict of str to Recipe
    kept : integer array
        Positions of the entities among the n.
    """
    tables: dict[str, Table] = {}
    recipes: Recipes = {}
    readable: dict[str, np.ndarray] = {}
    for name, source in sources.items():
        read = _of_numbers if source.kind == "table" else _numbers_of_texts
        tables[name], recipes[name], readable[name] = read(source, places[name], options, terminal)
    common = reduce(np.intersect1d, readable.values())
    for name, places_of_file in readable.items():
        if len(places_of_file) > len(common):
            rows = np.searchsorted(places_of_file, common)
            tables[name], recipes[name] = _cut(tables[name], recipes[name], rows)
    return _joined(tables), recipes, common


def _joined(tables: dict[str, Table]) -> Entities:
    return tables[""] if "" in tables else Descriptions(tables)


def _cut(table: Table, recipe: Recipe, rows: np.ndarray) -> tuple[Table, Recipe]:
    """Return some of the entities of one file; a kernel keeps the same rows and columns."""
    if recipe.of_model[0] != "precomputed":
        return table.take(rows), recipe
    sequences = []
    if recipe.sequences:
        sequences = [recipe.sequences[row] for row in rows]
    return table.take(rows, rows), replace(recipe, sequences=sequences)


def _numbers_of_texts(
    source: Source, places: Places, options: Tune | Audit, terminal: Terminal
) -> tuple[Table, Recipe, Any]:
    """Return molecules or sequences as numbers, and the positions of those that could be read."""
    path = source.file.path
    table = source.file.take(places)
    recipe = _recipe_of_texts(source, table, terminal)
    on_error = "drop" if options.drop_invalid else "raise"
    with naming(path):
        values, left = _features(table, recipe, on_error, terminal)
    if options.device is not None and is_sparse(values):
        values = values.toarray()  # devices compute with dense arrays
    assert table.row_ids is not None  # texts always have ids
    kept = table.row_ids.positions(left, str(path))
    if recipe.kernel == "smith-waterman":
        recipe = replace(recipe, sequences=list(table.values[kept]))
    return Table(values, table.row_ids.take(kept)), recipe, kept


def _recipe_of_texts(source: Source, texts: Table, terminal: Terminal) -> Recipe:
    """Return how molecules or sequences are read; raise if their kernel is not for them."""
    kernel, params = parse_kernel(source.kernel)
    if source.kind == "sequences":
        if kernel not in (None, *_SEQUENCE_KERNELS):
            raise KernelError(
                f"The kernel of sequences is {' or '.join(_SEQUENCE_KERNELS)}, found {kernel!r}."
            )
        if kernel is None:
            from dyadlearn.kernels.sequences import usual_sequence_kernel

            kernel, reason = usual_sequence_kernel(list(texts.values))
            if reason:
                terminal.note(
                    f"{reason} To align them, add --kernel or --task-kernel smith-waterman."
                )
        return Recipe("sequences", kernel, params, source.column)
    if kernel == "precomputed":
        raise KernelError(
            f"{source.file.path} contains SMILES, no kernel: leave --kernel out, or use tanimoto."
        )
    fingerprint = parse_fingerprint(source.fingerprint)
    if kernel is None:
        from dyadlearn.kernels.chemistry import usual_kernel

        kernel = usual_kernel(fingerprint["kind"], fingerprint.get("counts") is True)
    check_kernel(kernel, params)
    return Recipe("smiles", kernel, params, source.column, fingerprint)


def parse_fingerprint(text: str | None) -> Arguments:
    """Return the kind and the options of fingerprints, from ``kind:option=value,option=value``."""
    from dyadlearn.kernels.chemistry import KINDS

    kind, options = parse_kernel(text)
    kind = kind or KINDS[0]
    if "=" in kind:  # options alone, as in release 0.1.0
        warn_renamed(f"--fingerprint {text}", f"--fingerprint {KINDS[0]}:{text}")
        kind, options = parse_kernel(f"{KINDS[0]}:{text}")
    if kind not in KINDS:
        raise ValueError(f"--fingerprint is one of {', '.join(KINDS)}, found {kind!r}.")
    return {"kind": kind, **options}


def _of_numbers(
    source: Source, places: Places, options: Tune | Audit, terminal: Terminal
) -> tuple[Table, Recipe, Any]:
    """Return a table of features or a precomputed kernel, its recipe, and the positions of its rows."""
    file = source.file
    kept = np.arange(file.n if places is None else len(places))
    name, params = parse_kernel(source.kernel)
    if name is None and _has_ids_of_rows_in_columns(file):
        features = "if it holds features, add --kernel or --task-kernel linear"
        terminal.note(
            f"{file.path} has the same ids in rows and columns and is read as a kernel; {features}."
        )
        name = "precomputed"
    if name == "precomputed":
        if params:
            raise KernelError(f"A precomputed kernel has no options, found {', '.join(params)}.")
        return _kernel_of(file, places), Recipe("kernel", "precomputed"), kept
    kernel = name or ("rbf" if options.model == "learned" else "linear")
    check_kernel(kernel, params)
    names = None
    if file.columns is not None:
        names = list(map(id_text, file.columns.labels))
    return file.read(places), Recipe("features", kernel, params, names=names), kept


def _has_ids_of_rows_in_columns(file: FeatureFile) -> bool:
    """Return whether the ids of the rows are those of the columns, in any order."""
    if file.ids is None or file.columns is None:
        return False
    return set(file.ids.labels) == set(file.columns.labels)


def _kernel_of(file: FeatureFile, places: Places) -> Table:
    """Return a precomputed kernel, limited to the given rows and the same columns."""
    path = file.path
    table = file.take()
    if is_sparse(table.values):
        raise KernelError(f"{path} is sparse: give a precomputed kernel as a dense matrix.")
    m, n = table.values.shape
    if m != n:
        fault = f"{path} has {m} rows and {n} columns, but a precomputed kernel is square"
        raise KernelError(f"{fault}: if it contains features, leave --kernel precomputed out.")
    table = table.columns_as(file.ids, f"the columns of {path}", "its rows").take(places, places)
    check_whole(table, path)
    return replace(table, column_ids=None)


def _features(
    texts: Table, recipe: Recipe, on_error: str | None, terminal: Terminal
) -> tuple[Array, list[Any]]:
    """Return fingerprints, counts of k-mers or alignments, and the ids of the texts that could be read.

    `on_error` is "raise" or "drop"; None raises too, but the message does not suggest dropping
    texts.
    """
    assert texts.row_ids is not None
    options = recipe.params
    owner = f"The kernel {recipe.kernel}"
    if recipe.kind == "smiles":
        options = recipe.fingerprint
        owner = "--fingerprint"
    module, name = _FUNCTIONS[recipe.kernel if recipe.kind == "sequences" else "smiles"]
    function = getattr(import_module(f"dyadlearn.kernels.{module}"), name)
    progress = {"progress": terminal.progress} if name == "smith_waterman" else {}
    known = [name for name in signature(function).parameters if name not in _NOT_OPTIONS]
    for name in options:
        if name not in known and name != "kind":
            raise ValueError(f"{owner} has no option {name!r}: its options are {', '.join(known)}.")
    values = list(texts.values)
    ids = list(texts.row_ids.labels)
    return function(values, ids, on_error=on_error, **options, **progress)  # type: ignore[no-any-return]


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the name of the file to errors about its texts that lack it."""
    try:
        yield
    except ValueError as error:
        if str(error).startswith(str(path)):
            raise
        raise type(error)(Message("{path}: {error}", path=path, error=message_of(error))) from error


# New instances and tasks ---------------------------------------------------------------------------


def new_side(
    files: Files, recipes: Recipes, ids: Ids | None, terminal: Terminal, asked: Any = None
) -> Entities:
    """Return new instances or tasks in the form that a fitted model takes.

    Parameters
    ----------
    files : Files
        Files with names of training; some may be missing if there are several.
    recipes : dict of str to Recipe
        Recipes of the side.
    ids : Ids or None
        The ids of training, which are the columns of a kernel between new and training entities.
    terminal : Terminal
    asked : sequence of ids or None
        The ids to predict for: if a file can be read in part, only these are read. None means all
        ids; a file that can be read in part is then limited to the ids of the other files.
    """
    _check_names(files, recipes)
    sources = {name: open_new(path, recipes[name]) for name, path in files.paths.items()}
    asked = _asked_of(sources, asked)
    tables: dict[str, Table] = {}
    for name, source in sources.items():
        places = _asked_places(source.file, asked)
        tables[name] = new_entities(source, recipes[name], ids, terminal, places, name)
    if "" in tables:
        return tables[""]
    return _several(tables, files, recipes, terminal)


def _check_names(files: Files, recipes: Recipes) -> None:
    """Raise if files have names that the files of training did not have."""
    if set(files.paths) <= set(recipes):
        return
    if "" in recipes:
        trained = "one file, without a name"
        such = "FILE"
    else:
        trained = f"files with the names {shown(list(recipes), 12)}"
        such = f"{next(iter(recipes))}=FILE"
    if "" in files.paths:
        named = "a file without a name"
    else:
        named = shown(list(files.paths), 12)
    raise ValueError(
        f"The model was trained on {trained}: use {files.option} {such}; found {named}."
    )


def _asked_of(sources: dict[str, Source], asked: Any) -> Any:
    """Return the ids to read: those asked for, or those of the files that are read already; None means all."""
    if all(source.file.is_whole for source in sources.values()):
        return None
    if asked is not None:
        return asked
    for source in sources.values():
        if source.file.is_whole and source.file.ids is not None:
            return source.file.ids.labels
    return None


def _several(
    tables: dict[str, Table], files: Files, recipes: Recipes, terminal: Terminal
) -> Descriptions:
    """Return several tables of the same new entities, with a note about what they lack."""
    tables = {name: replace(table, column_ids=None) for name, table in tables.items()}
    # The columns are already those of training; only the rows must be brought into one order.
    with_ids = [name for name, table in tables.items() if table.row_ids is not None]
    first = with_ids[0] if with_ids else next(iter(tables))
    row_ids = tables[first].row_ids
    for name, table in tables.items():
        tables[name] = table.rows_as(row_ids, str(files.paths[name]), str(files.paths[first]))
    lacking = [
        name for name in recipes if name not in tables or np.isnan(tables[name].values.max())
    ]
    if lacking:
        terminal.note(
            f"Some rows of {files.option} lack {shown(lacking)}: predicted from their other "
            f"descriptions."
        )
    several = read_descriptions(tables, files.option.removeprefix("--"))
    assert several is not None
    return several


def n_entities(side: Entities) -> int:
    """Return the number of entities of a side."""
    if isinstance(side, Descriptions):
        return len(side)
    return int(side.values.shape[0])


def each_table(side: Entities, change: Callable[[Table], Table]) -> Entities:
    """Return a side after applying a function to each of its tables."""
    tables = {"": side} if isinstance(side, Table) else side.tables
    return _joined({name: change(table) for name, table in tables.items()})


def open_new(path: Path, recipe: Recipe) -> Source:
    """Open a file of new instances or tasks; structures are in the column of the same name as in training."""
    if recipe.kind == "sequences" and suffix_of(path) not in _FASTA:
        if recipe.column is not None:
            cells = read_cells(path)
            return of_texts("sequences", path, cells.column(recipe.column), cells.ids())
        raise ValueError(
            f"The model was trained on sequences: expected a FASTA file, found {path}."
        )
    source = open_source(path, None if suffix_of(path) in _FASTA else recipe.column)
    if source.kind not in ("table", recipe.kind):
        trained = "SMILES" if recipe.kind == "smiles" else recipe.kind
        raise ValueError(
            f"The model was trained on {trained}, but {path} holds {source.kind}: is it the file "
            f"of the other side?"
        )
    return source


def new_entities(
    source: Source,
    recipe: Recipe,
    ids: Ids | None,
    terminal: Terminal,
    places: Places = None,
    name: str = "",
) -> Table:
    """Return the new instances or tasks at the given positions of a file, with the columns of the model.

    The column ids of the table are the feature names as text, or None if the file or the model has
    none. Values of a named description may be missing. Other parameters are as in `new_side`.
    """
    path = source.file.path
    table = source.file.take(places)
    if source.kind in ("smiles", "sequences"):
        with naming(path):
            return replace(table, values=_new_features(table, recipe, terminal))
    is_kernel = recipe.kind == "kernel"
    if is_kernel:
        wanted = ids
    elif recipe.names is not None:
        wanted = make_ids(recipe.names, None, "The list of the model's features")
    else:
        wanted = None
    if wanted is not None and table.column_ids is not None:
        table = _with_columns(table, path, wanted, is_kernel, terminal)
    if not name:
        check_whole(table, path)
    are_checked = not is_kernel and wanted is not None
    if are_checked:
        return table
    return replace(table, column_ids=None)


def _asked_places(file: FeatureFile, asked: Sequence[Hashable] | None) -> np.ndarray | None:
    """Return the positions in the file of those ids in `asked` that it has; None means all positions."""
    if asked is None or file.ids is None:
        return None
    known = set(file.ids.labels)
    both = [label for label in dict.fromkeys(asked) if label in known]
    if not both:
        raise not_found(list(asked), len(asked), "requested ids", str(file.path), file.ids.labels)
    return file.ids.positions(both, str(file.path))


def _with_columns(
    table: Table, path: Path, wanted: Ids, is_kernel: bool, terminal: Terminal
) -> Table:
    """Return the table with the columns that a model needs; drop other columns, with a note."""
    assert table.column_ids is not None
    lacking = table.column_ids.lacking(wanted.labels)
    extra = wanted.lacking(table.column_ids.labels)
    if lacking:
        what = "ids of training" if is_kernel else "features"
        rows = table.row_ids
        hint = ""
        if is_kernel and rows is not None and not rows.lacking(wanted.labels):
            hint = " They are in its rows: the file looks transposed, its rows must be the new ids."
        needed = f"{len(lacking)} of the {len(wanted)} columns that the model needs, the {what}"
        raise DataFileError(f"{path} lacks {needed}: {shown(lacking)}.{hint}")
    if extra:
        terminal.note(
            f"Ignored columns of {path} that the model does not use: {shown(extra, 3)} "
            f"({len(extra)})."
        )
    return table.take(None, table.column_ids.positions(wanted.labels, str(path)))


def _new_features(texts: Table, recipe: Recipe, terminal: Terminal) -> Array:
    """Return new molecules or sequences as numbers; sequences are aligned with those of training."""
    if recipe.kernel != "smith-waterman":
        return _features(texts, recipe, None, terminal)[0]
    from dyadlearn.kernels.sequences import SmithWaterman

    assert texts.row_ids is not None
    named = dict(zip(texts.row_ids.labels, texts.values, strict=True))
    return (
        SmithWaterman(**recipe.params, progress=terminal.progress)
        .fit(recipe.sequences)
        .transform(named)
    )
