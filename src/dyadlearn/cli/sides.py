"""From a file to one side of a model: features, a kernel, molecules or sequences, for training and for what is new."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dyadlearn._array import Array, is_sparse
from dyadlearn._files import parse_number
from dyadlearn._frames import Ids, make_ids
from dyadlearn._state import Stored
from dyadlearn.cli.tables import Sheet, id_text, read_cells, read_sheet, shown, suffix_of
from dyadlearn.cli.talk import Talk
from dyadlearn.exceptions import DataFileError, KernelError
from dyadlearn.kernels.gram import check_kernel

__all__ = ["Entities", "Recipe", "Source", "new_side", "open_source", "parse_options", "training_side"]

_FASTA = (".fasta", ".fa", ".faa", ".fna")
_SEQUENCE_KERNELS = ("smith-waterman", "spectrum")


@dataclass(frozen=True)
class Recipe(Stored):
    """How the rows of a side came to be, kept with the model so that new ones are made in the same way.

    Attributes
    ----------
    kind : str
        "features", "kernel", "smiles" or "sequences".
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
        What the features are called.
    """

    kind: str
    kernel: str
    params: dict[str, Any] = field(default_factory=dict)
    column: str | None = None
    fingerprint: dict[str, Any] = field(default_factory=dict)
    sequences: list[str] = field(default_factory=list)
    names: list[str] | None = None

    @property
    def of_model(self) -> tuple[str, dict[str, Any] | None]:
        """The kernel of the model and its parameters."""
        if self.kind == "kernel" or self.kernel == "smith-waterman":
            return "precomputed", None
        if self.kernel == "spectrum":
            return "cosine", None
        return self.kernel, self.params or None

    @property
    def in_words(self) -> str:
        """What the side is made of, for people."""
        options = ", ".join(f"{name}={value}" for name, value in self.params.items())
        kernel = self.kernel + (f" ({options})" if options else "")
        return {"features": f"features, {kernel} kernel", "kernel": "a kernel as given"}.get(
            self.kind, f"{'SMILES' if self.kind == 'smiles' else self.kind}, {kernel} kernel"
        )

    def _fits(self) -> bool:
        return self.kind in ("features", "kernel", "smiles", "sequences")


@dataclass(frozen=True)
class Source:
    """A file of instances or tasks as it was read: numbers, or texts with their ids."""

    path: Path
    ids: Ids | None
    kind: str
    sheet: Sheet | None = None
    texts: Sequence[Any] = ()
    column: str | None = None


@dataclass(frozen=True)
class Entities:
    """What a model is given for one side.

    Attributes
    ----------
    values : array or sparse matrix of shape (n, d), or a kernel block
    ids, names : Ids or None
        Of the rows, and of the features.
    recipe : Recipe
    """

    values: Array
    ids: Ids | None
    names: Ids | None
    recipe: Recipe


def open_source(path: Path, smiles: str | None = None) -> Source:
    """Read a file of instances or tasks; `smiles` names the column that holds molecules."""
    if suffix_of(path) in _FASTA:
        from dyadlearn.kernels.sequences import read_fasta

        found = read_fasta(path)
        return Source(path, make_ids(list(found), None, str(path)), "sequences", texts=list(found.values()))
    if smiles is not None:
        cells = read_cells(path)
        return Source(path, cells.ids(), "smiles", texts=cells.column(smiles), column=smiles)
    sheet = read_sheet(path)
    return Source(path, sheet.rows, "table", sheet)


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


def training_side(
    source: Source,
    places: np.ndarray | None,
    kernel: str | None,
    fingerprint: str | None,
    drop_invalid: bool,
    talk: Talk,
) -> tuple[Entities, np.ndarray | None]:
    """Make one side of the training data.

    Parameters
    ----------
    source : Source
    places : integer array of shape (n,) or None
        Which entities to take, in this order; None takes all as they come.
    kernel : str or None
        Name and options of the kernel; None chooses what suits the file.
    fingerprint : str or None
        Options of fingerprints.
    drop_invalid : bool
        Whether molecules and sequences that cannot be read are left out.
    talk : Talk

    Returns
    -------
    side : Entities
    kept : integer array or None
        Which of the entities are left, None for all.
    """
    name, params = (None, {}) if kernel is None else parse_options(kernel)
    ids = source.ids if places is None or source.ids is None else _taken(source.ids, places)
    if source.kind == "table":
        return _table_side(source, places, ids, name, params, talk), None
    texts = list(source.texts) if places is None else [source.texts[place] for place in places]
    if source.kind == "smiles":
        name = name or "tanimoto"
        options = parse_values(fingerprint) if fingerprint else {}
        check_kernel(name, params)
        recipe = Recipe("smiles", name, params, source.column, options)
    else:
        name = name or "smith-waterman"
        if name not in _SEQUENCE_KERNELS:
            raise KernelError(f"Sequences have the kernels {' and '.join(_SEQUENCE_KERNELS)}, found {name!r}.")
        recipe = Recipe("sequences", name, params)
    # They are called by their positions, which tell afterwards who is left.
    labels = list(range(len(texts))) if ids is None else list(ids.labels)
    values, left = _of_training(texts, labels, recipe, drop_invalid, talk)
    where = {label: place for place, label in enumerate(labels)}
    kept = np.array([where[label] for label in left], dtype=np.intp)
    if name == "smith-waterman":
        recipe = replace(recipe, sequences=[texts[place] for place in kept])
    ids = None if ids is None else _taken(ids, kept)
    return Entities(values, ids, None, recipe), kept if len(kept) < len(texts) else None


def _table_side(
    source: Source, places: np.ndarray | None, ids: Ids | None, name: str | None, params: dict[str, Any], talk: Talk
) -> Entities:
    sheet = source.sheet
    assert sheet is not None
    if name is None and sheet.is_square:
        talk.note(
            f"{source.path} has the same ids in rows and columns and is taken for a kernel; --kernel or --task-kernel "
            "linear takes it for features."
        )
        name = "precomputed"
    if name != "precomputed":
        check_kernel(name or "linear", params)
        sheet = sheet.take(places)
        _check_whole(sheet)
        names = None if sheet.columns is None else list(map(id_text, sheet.columns.labels))
        return Entities(sheet.values, ids, sheet.columns, Recipe("features", name or "linear", params, names=names))
    if params:
        raise KernelError(f"A precomputed kernel has no options, found {', '.join(params)}.")
    if is_sparse(sheet.values):
        raise KernelError(f"{source.path} is sparse: give a precomputed kernel as a dense matrix.")
    if sheet.values.shape[0] != sheet.values.shape[1]:
        m, n = sheet.values.shape
        raise KernelError(f"{source.path} has {m} rows and {n} columns, but a precomputed kernel is square.")
    if sheet.rows is not None and sheet.columns is not None:
        order = sheet.columns.order_as(sheet.rows, f"the columns of {source.path}", "its rows")
        sheet = sheet.take(None, order)
    sheet = sheet.take(places, places)
    _check_whole(sheet)
    return Entities(sheet.values, ids, None, Recipe("kernel", "precomputed"))


def new_side(path: Path, recipe: Recipe, ids: Ids | None, talk: Talk, *, smiles: str | None = None) -> Entities:
    """Make what a fitted model is given for new instances or tasks, in the way its training data were made.

    Parameters
    ----------
    path : Path
    recipe : Recipe
        Of the side.
    ids : Ids or None
        The ids of training, which are the columns of a new block of a kernel.
    talk : Talk
    smiles : str or None
        The column of molecules, where it is called otherwise than in training.
    """
    if recipe.kind == "sequences" and suffix_of(path) not in _FASTA:
        raise ValueError(f"The model was made from sequences: expected a FASTA file, found {path}.")
    source = open_source(path, (smiles or recipe.column) if recipe.kind == "smiles" else None)
    if source.kind != "table":
        if source.kind != recipe.kind:
            raise ValueError(f"The model was made from {recipe.kind}, but {path} holds {source.kind}.")
        return Entities(_of_new(list(source.texts), source.ids, recipe, talk), source.ids, None, recipe)
    sheet = source.sheet
    assert sheet is not None
    wanted, what = ids, "ids of training"
    if recipe.kind != "kernel":
        wanted = None if recipe.names is None else make_ids(recipe.names, None, "The list of the model's features")
        what = "features"
    if wanted is not None and sheet.columns is not None:
        sheet = _with_columns(sheet, wanted, what, recipe.kind == "kernel", talk)
    _check_whole(sheet)
    return Entities(sheet.values, sheet.rows, None, recipe)


def _with_columns(sheet: Sheet, wanted: Ids, what: str, is_kernel: bool, talk: Talk) -> Sheet:
    """Return the sheet with the columns a model needs; others are left out, and that is said."""
    assert sheet.columns is not None
    own = set(sheet.columns.labels)
    lacking = [label for label in wanted.labels if label not in own]
    if lacking:
        hint = ""
        if is_kernel and sheet.rows is not None and set(wanted.labels) <= set(sheet.rows.labels):
            hint = " They are in its rows: the file is transposed, new ones belong in the rows."
        raise DataFileError(
            f"{sheet.path} lacks {len(lacking)} of the {len(wanted)} columns that the model needs, the {what}: "
            f"{shown(lacking)}.{hint}"
        )
    if len(own) > len(wanted):
        known = set(wanted.labels)
        extra = [label for label in sheet.columns.labels if label not in known]
        talk.note(f"{len(extra)} columns of {sheet.path} ({shown(extra, 3)}) are unknown to the model and left out.")
    return sheet.take(None, sheet.columns.positions(wanted.labels, str(sheet.path)))


def _of_training(
    texts: list[Any], labels: list[Any], recipe: Recipe, drop_invalid: bool, talk: Talk
) -> tuple[Array, list[Any]]:
    """Return fingerprints, word counts or alignments, and the labels of those that could be read."""
    options: dict[str, Any] = {"on_error": "drop" if drop_invalid else "raise"}
    if recipe.kind == "smiles":
        from dyadlearn.kernels.chemistry import fingerprints as function

        options |= recipe.fingerprint
    elif recipe.kernel == "spectrum":
        from dyadlearn.kernels.sequences import kmer_counts as function  # type: ignore[assignment]

        options |= recipe.params
    else:
        from dyadlearn.kernels.sequences import smith_waterman as function  # type: ignore[assignment]

        options |= {**recipe.params, "progress": talk.progress}
    try:
        return function(texts, labels, **options)
    except TypeError as error:
        raise _unknown_option(error) from None


def _of_new(texts: list[Any], ids: Ids | None, recipe: Recipe, talk: Talk) -> Array:
    """Return the same of new molecules or sequences; what cannot be read is named."""
    named = dict(zip(range(len(texts)) if ids is None else ids.labels, texts, strict=True))
    if recipe.kind == "smiles":
        from dyadlearn.kernels.chemistry import MorganFingerprints

        return MorganFingerprints(**recipe.fingerprint).transform(named)
    from dyadlearn.kernels.sequences import KmerCounts, SmithWaterman

    if recipe.kernel == "spectrum":
        return KmerCounts(**recipe.params).transform(named)
    return SmithWaterman(**recipe.params, progress=talk.progress).fit(recipe.sequences).transform(named)


def _unknown_option(error: TypeError) -> Exception:
    """Tell a misspelled option from a bug."""
    return ValueError(f"Unknown option: {error}.") if "unexpected keyword" in str(error) else error


def _taken(ids: Ids, places: np.ndarray) -> Ids:
    return Ids(tuple(ids.labels[place] for place in places), ids.name)


def _check_whole(sheet: Sheet) -> None:
    """Refuse features or kernels with holes; labels may have them."""
    if is_sparse(sheet.values) or not np.isnan(sheet.values).any():
        return
    row, column = np.argwhere(np.isnan(sheet.values))[0]
    where = [
        f"{word} {place + 1}" if ids is None else f"{word} {ids.labels[place]!r}"
        for word, ids, place in (("row", sheet.rows, row), ("column", sheet.columns, column))
    ]
    raise DataFileError(f"{sheet.path}, {', '.join(where)}: the value is missing; only labels may have holes.")
