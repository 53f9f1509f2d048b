"""From files to the entities of one side, known and new: features, a kernel, molecules, sequences, ranks.

The files of one side: one, or several that each describe the same entities, by names.

What is said of a single file stands under the name "", which no description has.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from dyadlearn._array import Array, is_sparse
from dyadlearn._files.embeddings import FeatureFile, open_features, read_ids
from dyadlearn._files.tables import as_number, check_whole, is_blank, read_cells, suffix_of
from dyadlearn._state import Stored
from dyadlearn._tables import Ids, Table, id_text, make_ids, shown, text_ids
from dyadlearn.cli.options import Reading, parse_options, parse_values
from dyadlearn.cli.terminal import Terminal
from dyadlearn.exceptions import DataFileError, IdError, KernelError
from dyadlearn.kernels.descriptions import Descriptions, check_description_names, read_descriptions
from dyadlearn.kernels.gram import check_kernel
from dyadlearn.kernels.trees import taxonomy_kernel

# What may be said of a file of features after its name, and is said to `read_features` in Python by the same words.
_OPTIONS = ("key", "ids", "row_ids", "pool")


def file_options(given: Path) -> tuple[Path, dict[str, str]]:
    """Split ``file::key,option=value`` into a file and what is said of it.

    A file that is there is one, though its name may have two colons.
    """
    name, colons, rest = given.as_posix().partition("::")
    if not colons or given.exists():
        return given, {}
    found: dict[str, str] = {}
    for part in rest.split(","):
        option, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            option, value = "key", option
        if option not in _OPTIONS or not value or option in found:
            raise ValueError(
                f"After {name}:: stand the name of what is to be read in it and {', '.join(_OPTIONS[1:])}, such as "
                f"{name}::group/data,pool=mean; found {part!r}."
            )
        found[option] = value
    return Path(name), found


def file_name(given: Path) -> str:
    """Return the name of a file without its folder, with what is said of it."""
    path, options = file_options(given)
    return path.name + given.as_posix().removeprefix(path.as_posix()) if options else path.name


@dataclass(frozen=True)
class Files:
    """The files of one side, by the names of what they describe it by.

    Attributes
    ----------
    paths : dict of str to Path
        A single file without a name has the name "".
    option : str
        How the command line calls the side.
    """

    paths: dict[str, Path]
    option: str

    @classmethod
    def one(cls, path: Path, option: str) -> Files:
        """Return a single file, whatever it is called."""
        return cls({"": path}, option)

    @classmethod
    def single(cls, given: Sequence[str], option: str) -> Files:
        """Read what an option says of which a command takes one only."""
        if len(given) > 1:
            raise ValueError(f"{option} names one file here, found {len(given)}: dyadlearn learn takes several.")
        return cls.one(Path(given[0]), option)

    @classmethod
    def of(cls, given: Sequence[str], option: str) -> Files:
        """Read what an option says that may be repeated: ``file``, or ``name=file`` each time.

        A file that is there is one, though its name may have an equals sign.
        """
        named = [text.partition("=") for text in given if _is_named(text)]
        if not named and len(given) == 1:
            return cls.one(Path(given[0]), option)
        if len(named) < len(given):
            raise ValueError(
                f"{option} is given {len(given)} times: say each time what the file describes by a name of its own, "
                f"such as {option} structure={next(text for text in given if not _is_named(text))}."
            )
        names = [name.strip() for name, _, _ in named]
        repeated = [name for place, name in enumerate(names) if name in names[:place]]
        if repeated:
            raise ValueError(f"{option} has two files for {repeated[0]!r}: give each description a name of its own.")
        return cls({name: Path(path) for name, (_, _, path) in zip(names, named, strict=True)}, option)

    @property
    def words(self) -> str:
        """The files as they are given, without their folders."""
        return " ".join(f"{name}={file_name(path)}" if name else file_name(path) for name, path in self.paths.items())

    def said_of_each(self, given: Sequence[str] | None, option: str, *, may_be_common: bool) -> dict[str, str]:
        """Return what an option says of each file: ``name=text``, or, where that makes sense, one text for all.

        Parameters
        ----------
        given : sequence of str or None
        option : str
            How the command line calls it.
        may_be_common : bool
            Whether one text may be said of several files.

        Returns
        -------
        dict of str to str
            Files of which nothing is said are not in it.
        """
        texts = list(given or ())
        if "" in self.paths:
            if len(texts) > 1:
                raise ValueError(f"{option} is given {len(texts)} times, but {self.option} names a single file.")
            return dict.fromkeys([""], texts[0]) if texts else {}
        common: list[str] = []
        found: dict[str, str] = {}
        for text in texts:
            name, equals, value = (part.strip() for part in text.partition("="))
            # Options of a kernel have equals signs too, but after a colon.
            if not equals or ":" in name:
                common.append(text)
            elif name not in self.paths:
                raise ValueError(
                    f"{option} {text} is said of {name!r}, but {self.option} has {shown(list(self.paths), 12)}."
                )
            elif name in found:
                raise ValueError(f"{option} is given twice for {name!r}.")
            else:
                found[name] = value
        if len(common) > 1 or (common and not may_be_common):
            raise ValueError(
                f"{option} {common[-1]} does not say which file of {self.option} it is of: write it as "
                f"{option} {next(iter(self.paths))}={common[-1]}."
            )
        return {**dict.fromkeys(self.paths, common[0]), **found} if common else found


def _is_named(text: str) -> bool:
    before = text.partition("::")[0]  # what is said of a file has equals signs too
    name, _, path = before.partition("=")
    is_there = Path(text).exists() or Path(before).exists()
    return bool(name.strip() and path.strip()) and not {"/", "\\"} & set(name) and not is_there


_FASTA = (".fasta", ".fa", ".faa", ".fna")
_SEQUENCE_KERNELS = ("smith-waterman", "spectrum")
_TAXONOMY = "taxonomy"


@dataclass(frozen=True)
class Recipe(Stored):
    """How the rows of a side came to be, kept with the model so that new ones are made in the same way.

    Attributes
    ----------
    kind : str
        "features", "kernel", "smiles", "sequences" or "taxonomy".
    kernel : str
        The kernel that was asked for.
    params : dict
        Its parameters.
    column : str or None
        Where the SMILES stand.
    fingerprint : dict
        Parameters of the fingerprints.
    sequences : list of str
        The sequences of training, where new ones are aligned with them.
    names : list of str or None
        What the features or the ranks are called.
    paths : list of list of str
        The names of the ranks of training, where new ones are compared with them.
    """

    kind: str
    kernel: str
    params: dict[str, Any] = field(default_factory=dict)
    column: str | None = None
    fingerprint: dict[str, Any] = field(default_factory=dict)
    sequences: list[str] = field(default_factory=list)
    names: list[str] | None = None
    paths: list[list[str]] = field(default_factory=list)

    @property
    def of_model(self) -> tuple[str, dict[str, Any] | None]:
        """The kernel of the model and its parameters."""
        if self.kind in ("kernel", _TAXONOMY) or self.kernel == "smith-waterman":
            return "precomputed", None
        if self.kernel == "spectrum":
            return "cosine", None
        return self.kernel, self.params or None

    @property
    def in_words(self) -> str:
        """What the side is made of, for people."""
        options = ", ".join(f"{name}={value}" for name, value in self.params.items())
        kernel = self.kernel + (f" ({options})" if options else "")
        return {
            "features": f"features, {kernel} kernel",
            "kernel": "a kernel as given",
            _TAXONOMY: f"ranks ({', '.join(self.names or ())}), {kernel} kernel",
        }.get(self.kind, f"{'SMILES' if self.kind == 'smiles' else self.kind}, {kernel} kernel")

    def _fits(self) -> bool:
        kinds = ("features", "kernel", "smiles", "sequences", _TAXONOMY)
        return self.kind in kinds and all(len(path) == len(self.names or ()) for path in self.paths)


#: The recipes of one side by the names of its descriptions; that of a single file without a name is "".
Recipes = dict[str, Recipe]


def in_words(recipes: Recipes | None) -> str:
    """Return what a side is made of, for people."""
    parts = [f"{name}: {recipe.in_words}" if name else recipe.in_words for name, recipe in (recipes or {}).items()]
    return "; ".join(parts) or "none"


def recipes_state(recipes: Recipes | None) -> dict[str, Any] | None:
    """Return the recipes of a side as plain values, for the model file."""
    if recipes is None or "" in recipes:
        return None if recipes is None else recipes[""].state()
    return {"descriptions": {name: recipe.state() for name, recipe in recipes.items()}}


def recipes_from_state(state: Any, where: str) -> Recipes | None:
    """Return the recipes that a state describes; a file may come from anywhere."""
    if state is None:
        return None
    if "descriptions" not in state:
        return {"": Recipe.from_state(state, where)}
    parts = state["descriptions"]
    if type(parts) is not dict or not parts:
        raise TypeError("descriptions are names and recipes")
    check_description_names(list(parts), where)
    return {name: Recipe.from_state(part, where) for name, part in parts.items()}


@dataclass(frozen=True)
class Source:
    """A file of instances or tasks that was opened.

    Attributes
    ----------
    path : Path
    kind : str
        "table", "smiles", "sequences" or "taxonomy".
    file : FeatureFile
        Its numbers, or an array of texts, with their ids where it has any, to be read in part where it can be.
    column : str or None
        Where the SMILES stand.
    """

    path: Path
    kind: str
    file: FeatureFile
    column: str | None = None

    @property
    def ids(self) -> Ids | None:
        """Return the ids of the entities."""
        return self.file.ids

    def table(self, places: np.ndarray | None = None) -> Table:
        """Return some of the entities, in this order, None for all: numbers in double precision, or texts."""
        table = self.file.take(places)
        if self.kind != "table" or is_sparse(table.values):
            return table
        return replace(table, values=np.asarray(table.values, dtype=np.float64))


@dataclass(frozen=True)
class Entities:
    """What a model is given for one side in training: a table (n, d), a kernel or several, and how it was made."""

    table: Table | Descriptions
    recipes: Recipes


def open_source(
    path: Path, smiles: str | None = None, kernel: str | None = None, smiles_option: str = "--smiles"
) -> Source:
    """Open a file of instances or tasks; `smiles` names the column that holds molecules, by an option.

    A `kernel` of ranks takes words where others take numbers.
    """
    path, options = file_options(path)
    is_fasta = suffix_of(path) in _FASTA
    has_ranks = kernel is not None and parse_options(kernel)[0] == _TAXONOMY
    if options and (is_fasta or has_ranks or smiles is not None):
        held = "sequences" if is_fasta else "ranks" if has_ranks else "SMILES"
        raise ValueError(f"{path} holds {held}: :: is for files of features.")
    if is_fasta and smiles is not None:
        raise ValueError(f"{path} holds sequences, and {smiles_option} names a column of a table: leave it out.")
    if is_fasta:
        from dyadlearn.kernels.sequences import read_fasta

        found = read_fasta(path)
        return Source(path, "sequences", _texts(path, list(found.values()), make_ids(list(found), None, str(path))))
    if smiles is not None:
        cells = read_cells(path)
        return Source(path, "smiles", _texts(path, cells.column(smiles), cells.ids()), smiles)
    if has_ranks:
        cells = read_cells(path)
        places = [place for place in range(len(cells.headings)) if place != cells.id_place]
        ranks = make_ids([cells.headings[place] for place in places], None, f"The first line of {path}")
        paths = [["" if is_blank(line[place]) else id_text(line[place]) for place in places] for line in cells.lines]
        named = Table(np.array(paths, dtype=object), cells.ids(), ranks)
        return Source(path, _TAXONOMY, FeatureFile.of_table(path, named))
    wanted = options.pop("ids", None)
    file = open_features(path, **options)
    if file.ids is not None:
        file = replace(file, ids=text_ids(file.ids, f"The rows of {path}"))
    return Source(path, "table", file if wanted is None else file.only(read_ids(Path(wanted)), "ids"))


def _texts(path: Path, texts: Sequence[Any], ids: Ids) -> FeatureFile:
    return FeatureFile.of_table(path, Table(np.fromiter(texts, dtype=object, count=len(texts)), ids))


def training_side(
    sources: Mapping[str, Source],
    places: Mapping[str, np.ndarray | None],
    kernels: Mapping[str, str],
    how: Reading,
    terminal: Terminal,
    *,
    n: int,
    usual: str = "linear",
) -> tuple[Entities, np.ndarray | None]:
    """Make one side of the training data out of all its files.

    Parameters
    ----------
    sources : mapping of str to Source
        By the names of what they describe; a single one may have the name "".
    places : mapping of str to integer array of shape (n,) or None
        Which entities to take of each file, in this order; None takes all as they come.
    kernels : mapping of str to str
        Name and options of the kernels; for others one is chosen that suits the file.
    how : Reading
        Of which the options of fingerprints, and whether to leave out what cannot be read.
    terminal : Terminal
    n : int
        The number of entities.
    usual : str, default="linear"
        The kernel of features where none is asked for.

    Returns
    -------
    entities : Entities
    kept : integer array or None
        Which of the entities are left, those that all files describe; None for all.
    """
    tables: dict[str, Table] = {}
    recipes: Recipes = {}
    kept: dict[str, np.ndarray] = {}
    for name, source in sources.items():
        kernel, params = parse_options(kernels[name]) if name in kernels else (None, {})
        if source.kind in ("smiles", "sequences"):
            tables[name], recipes[name], kept[name] = _of_texts(source, places[name], kernel, params, how, terminal)
            continue
        if source.kind == "table":
            tables[name], recipes[name] = _of_numbers(source, places[name], kernel, params, usual, terminal)
        else:
            tables[name], recipes[name] = _of_ranks(source.table(places[name]), params)
        kept[name] = np.arange(tables[name].values.shape[0])
    left = reduce(np.intersect1d, kept.values())
    for name, own in kept.items():
        if len(own) > len(left):
            tables[name], recipes[name] = _cut(tables[name], recipes[name], np.searchsorted(own, left))
    table = tables[""] if "" in tables else Descriptions(tables)
    return Entities(table, recipes), left if len(left) < n else None


def _cut(table: Table, recipe: Recipe, rows: np.ndarray) -> tuple[Table, Recipe]:
    """Return some of the entities that one file describes; a kernel is cut on both axes."""
    if recipe.of_model[0] != "precomputed":
        return table.take(rows), recipe
    sequences = [recipe.sequences[row] for row in rows] if recipe.sequences else []
    paths = [recipe.paths[row] for row in rows] if recipe.paths else []
    return table.take(rows, rows), replace(recipe, sequences=sequences, paths=paths)


def _of_texts(
    source: Source,
    places: np.ndarray | None,
    kernel: str | None,
    params: dict[str, Any],
    how: Reading,
    terminal: Terminal,
) -> tuple[Table, Recipe, np.ndarray]:
    """Return what molecules or sequences are as numbers, and which of them could be read."""
    table = source.table(places)
    if source.kind == "smiles":
        kernel = kernel or "tanimoto"
        check_kernel(kernel, params)
        options = parse_values(how.fingerprint) if how.fingerprint else {}
        recipe = Recipe("smiles", kernel, params, source.column, options)
    else:
        recipe = Recipe("sequences", kernel or "smith-waterman", params)
        if recipe.kernel not in _SEQUENCE_KERNELS:
            raise KernelError(f"Sequences have the kernels {' and '.join(_SEQUENCE_KERNELS)}, found {kernel!r}.")
    values, left = _features(table, recipe, "drop" if how.drop_invalid else "raise", terminal)
    assert table.row_ids is not None  # texts have ids, which tell afterwards who is left
    kept = table.row_ids.positions(left, str(source.path))
    if recipe.kernel == "smith-waterman":
        recipe = replace(recipe, sequences=list(table.values[kept]))
    return Table(values, table.row_ids.take(kept)), recipe, kept


def _of_ranks(table: Table, params: dict[str, Any]) -> tuple[Table, Recipe]:
    """Return the kernel of a taxonomy, and the names of its ranks for new ones to be compared with."""
    options = dict(params)
    assert table.column_ids is not None
    ranks = table.column_ids
    if "ranks" in options:
        ranks = make_ids(_separated(options.pop("ranks")), None, "The list of ranks of the kernel taxonomy")
    if "weights" in options:
        numbers = [as_number(weight) for weight in _separated(options["weights"])]
        if None in numbers:
            raise KernelError(f"The weights of the kernel taxonomy are numbers, found {options['weights']!r}.")
        options["weights"] = numbers
    unknown = options.keys() - {"weights", "normalized"}
    if unknown:
        raise KernelError(f"The kernel taxonomy takes ranks, weights and normalized, found {shown(sorted(unknown))}.")
    if not isinstance(options.get("normalized", True), bool):
        raise KernelError(f"The kernel taxonomy is normalized=true or false, found {options['normalized']!r}.")
    table = table.take(None, table.column_ids.positions(ranks.labels, "the file's ranks"))
    names = list(map(str, ranks.labels))
    recipe = Recipe(_TAXONOMY, _TAXONOMY, options, names=names, paths=table.values.tolist())
    return Table(taxonomy_kernel(table.values, **options), table.row_ids), recipe


def _separated(text: Any) -> list[str]:
    """Return the words of an option that holds several."""
    return [part.strip() for part in str(text).split("/")]


def _of_numbers(
    source: Source, places: np.ndarray | None, name: str | None, params: dict[str, Any], usual: str, terminal: Terminal
) -> tuple[Table, Recipe]:
    path, rows, columns = source.path, source.ids, source.file.columns
    if name is None and rows is not None and columns is not None and set(rows.labels) == set(columns.labels):
        terminal.note(
            f"{path} has the same ids in rows and columns and is taken for a kernel; --kernel or --task-kernel "
            "linear takes it for features."
        )
        name = "precomputed"
    if name != "precomputed":
        check_kernel(name or usual, params)
        table = source.table(places)
        check_whole(table, path)
        names = None if columns is None else list(map(id_text, columns.labels))
        return table, Recipe("features", name or usual, params, names=names)
    if params:
        raise KernelError(f"A precomputed kernel has no options, found {', '.join(params)}.")
    table = source.table()
    if is_sparse(table.values):
        raise KernelError(f"{path} is sparse: give a precomputed kernel as a dense matrix.")
    if table.values.shape[0] != table.values.shape[1]:
        m, n = table.values.shape
        raise KernelError(f"{path} has {m} rows and {n} columns, but a precomputed kernel is square.")
    table = table.columns_as(rows, f"the columns of {path}", "its rows").take(places, places)
    check_whole(table, path)
    return replace(table, column_ids=None), Recipe("kernel", "precomputed")


def new_side(
    files: Files,
    recipes: Recipes,
    ids: Ids | None,
    terminal: Terminal,
    *,
    smiles: Sequence[str] | None = None,
    smiles_option: str = "--smiles",
    asked: Sequence[Hashable] | None = None,
) -> Table | Descriptions:
    """Make what a fitted model is given for new instances or tasks, out of as many files as training had.

    Parameters
    ----------
    files : Files
    recipes, ids, terminal
        As in `new_entities`.
    smiles : sequence of str or None
        The columns of molecules, by the names of the files, where they are called otherwise than in training.
    smiles_option : str
        How the command line calls that.
    asked : sequence of ids or None
        Who is asked for. Of a file that can be read in part the others are not read. None asks for all, or, of such a
        file, for those that the files beside it describe.
    """
    if set(files.paths) != set(recipes):
        told = "in one file, without a name" if "" in recipes else f"by the descriptions {shown(list(recipes), 12)}"
        such = "FILE" if "" in recipes else f"{next(iter(recipes))}=FILE"
        found = "a file without a name" if "" in files.paths else shown(list(files.paths), 12)
        raise ValueError(
            f"The model was made {told}: give new ones alike, such as {files.option} {such}; found {found}."
        )
    columns = files.said_of_each(smiles, smiles_option, may_be_common=False)
    for name, column in columns.items():
        if (kind := recipes[name].kind) != "smiles":
            kind = "a kernel" if kind == "kernel" else kind
            raise ValueError(
                f"{smiles_option} {column}: the model was made from {kind}, not from SMILES, so leave it out."
            )
    sources = {name: open_new(path, recipes[name], columns.get(name)) for name, path in files.paths.items()}
    if all(source.file.is_whole for source in sources.values()):
        asked = None  # nothing is saved by leaving somebody out
    elif asked is None:
        known = (source.ids for source in sources.values() if source.file.is_whole)
        asked = next((found.labels for found in known if found is not None), None)
    tables = {name: new_entities(source, recipes[name], ids, terminal, asked=asked) for name, source in sources.items()}
    if "" in tables:
        return tables[""]
    # Columns are those of training by now, so that rows alone are to be brought into one order.
    first = next((name for name, table in tables.items() if table.row_ids is not None), None)
    target = None if first is None else tables[first].row_ids
    rows = {
        name: table.rows_as(target, str(files.paths[name]), str(files.paths[first or name]))
        for name, table in tables.items()
    }
    several = read_descriptions(rows, files.option)
    assert several is not None
    return several


def with_row_ids(side: Table | Descriptions, ids: Ids) -> Table | Descriptions:
    """Return new entities, in as many tables as they have, with other ids."""
    if isinstance(side, Table):
        return replace(side, row_ids=ids)
    return Descriptions({name: replace(table, row_ids=ids) for name, table in side.tables.items()})


def n_entities(side: Table | Descriptions) -> int:
    """Return how many entities there are."""
    return len(side) if isinstance(side, Descriptions) else int(side.values.shape[0])


def take_rows(side: Table | Descriptions, rows: np.ndarray) -> Table | Descriptions:
    """Return some new entities, in as many tables as they have."""
    if isinstance(side, Table):
        return side.take(rows)
    # As others than those that were first there: which of these they are tells a model nothing.
    return Descriptions({name: table.take(rows) for name, table in side.tables.items()})


def open_new(path: Path, recipe: Recipe, smiles: str | None = None) -> Source:
    """Open a file of new instances or tasks, in which molecules may be called otherwise than in training."""
    if recipe.kind == "sequences" and suffix_of(path) not in _FASTA:
        raise ValueError(f"The model was made from sequences: expected a FASTA file, found {path}.")
    source = open_source(path, (smiles or recipe.column) if recipe.kind == "smiles" else None, recipe.kernel)
    if source.kind not in ("table", recipe.kind):
        raise ValueError(f"The model was made from {recipe.kind}, but {path} holds {source.kind}.")
    return source


def new_entities(
    source: Source,
    recipe: Recipe,
    ids: Ids | None,
    terminal: Terminal,
    *,
    asked: Sequence[Hashable] | None = None,
) -> Table:
    """Make what a fitted model is given for new instances or tasks, in the way its training data were made.

    Parameters
    ----------
    source : Source
    recipe : Recipe
        Of the side.
    ids : Ids or None
        The ids of training, which are the columns of a new block of a kernel.
    terminal : Terminal
    asked : sequence of ids or None
        Who is asked for, of whom those that are there are read. None asks for all.

    Returns
    -------
    Table
        With the ids of its rows; its columns are those of the model, in their order.
    """
    path, table = source.path, source.table(_asked_places(source, asked))
    if source.kind == recipe.kind == _TAXONOMY:
        ranks = make_ids(recipe.names or [], None, "The list of the model's ranks")
        table = _with_columns(table, path, ranks, "ranks", False, terminal)
        block = taxonomy_kernel(table.values, np.array(recipe.paths, dtype=object), **recipe.params)
        return Table(block, table.row_ids)
    if source.kind != "table":
        return replace(table, values=_new_features(table, recipe, terminal))
    wanted, what = ids, "ids of training"
    if recipe.kind != "kernel":
        wanted = None if recipe.names is None else make_ids(recipe.names, None, "The list of the model's features")
        what = "features"
    if wanted is not None and table.column_ids is not None:
        table = _with_columns(table, path, wanted, what, recipe.kind == "kernel", terminal)
    check_whole(table, path)
    return replace(table, column_ids=None)


def _asked_places(source: Source, asked: Sequence[Hashable] | None) -> np.ndarray | None:
    """Return where those that are asked for stand, as far as they are there; None stands for all."""
    if asked is None or source.ids is None:
        return None
    there = set(source.ids.labels)
    found = [label for label in dict.fromkeys(asked) if label in there]
    if not found:
        raise IdError(
            f"None of the {len(asked)} ids that are asked for ({shown(list(asked), 3)}) is in {source.path}, whose ids "
            f"are such as {shown(source.ids.labels[:3])}."
        )
    return source.ids.positions(found, str(source.path))


def _with_columns(table: Table, path: Path, wanted: Ids, what: str, is_kernel: bool, terminal: Terminal) -> Table:
    """Return the table with the columns a model needs; others are left out, and that is said."""
    assert table.column_ids is not None
    lacking, extra = table.column_ids.lacking(wanted.labels), wanted.lacking(table.column_ids.labels)
    if lacking:
        hint = ""
        if is_kernel and table.row_ids is not None and not table.row_ids.lacking(wanted.labels):
            hint = " They are in its rows: the file is transposed, new ones belong in the rows."
        raise DataFileError(
            f"{path} lacks {len(lacking)} of the {len(wanted)} columns that the model needs, the {what}: "
            f"{shown(lacking)}.{hint}"
        )
    if extra:
        terminal.note(f"{len(extra)} columns of {path} ({shown(extra, 3)}) are unknown to the model and left out.")
    return table.take(None, table.column_ids.positions(wanted.labels, str(path)))


def _features(texts: Table, recipe: Recipe, on_error: str | None, terminal: Terminal) -> tuple[Array, list[Any]]:
    """Return fingerprints, word counts or alignments, and the ids of those that could be read.

    `on_error` is "raise", "drop", or None where the message is not to name an option that leaves out the others.
    """
    assert texts.row_ids is not None
    function: Any
    if recipe.kind == "smiles":
        from dyadlearn.kernels.chemistry import fingerprints

        function, options = fingerprints, recipe.fingerprint
    else:
        from dyadlearn.kernels.sequences import kmer_counts, smith_waterman

        function, options = kmer_counts, recipe.params
        if recipe.kernel != "spectrum":
            function, options = smith_waterman, {**recipe.params, "progress": terminal.progress}
    try:
        found: tuple[Array, list[Any]] = function(
            list(texts.values), list(texts.row_ids.labels), on_error=on_error, **options
        )
        return found
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise  # a bug, and no misspelled option
        raise ValueError(f"Unknown option: {error}.") from None


def _new_features(texts: Table, recipe: Recipe, terminal: Terminal) -> Array:
    """Return the same of new molecules or sequences, which are aligned with those of training."""
    if recipe.kernel != "smith-waterman":
        return _features(texts, recipe, None, terminal)[0]
    from dyadlearn.kernels.sequences import SmithWaterman

    assert texts.row_ids is not None
    named = dict(zip(texts.row_ids.labels, texts.values, strict=True))
    return SmithWaterman(**recipe.params, progress=terminal.progress).fit(recipe.sequences).transform(named)
