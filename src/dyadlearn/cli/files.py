"""The files of one side: one, or several that each describe the same entities, by names.

What is said of a single file stands under the name "", which no description has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dyadlearn._tables import shown

__all__ = ["Files", "file_name", "file_options"]

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
