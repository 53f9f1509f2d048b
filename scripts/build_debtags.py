"""Build the embedded sample of Debian packages and their tags (`dyadlearn.datasets.load_debtags`).

Two sources, one result::

    python scripts/build_debtags.py                 # from the tables in ../shared/data/debtags
    python scripts/build_debtags.py --from-apt      # from the package index of a Debian machine

The rules, so that anyone can follow them:

1. candidates are packages with at least three tags, one for each source package (the one with most tags,
   the first by name among equals; the tables are made so already);
2. the sample is the first 1,500 candidates in the order of the SHA-256 of their name: as good as random,
   and the same on every machine; it is then sorted by name;
3. kept tags occur at least ten times in the sample, kept packages carry at least one kept tag, and kept
   words stand in the descriptions of at least two kept packages;
4. a tag is described by the words of its own name and of its text in the vocabulary, all of them kept; a
   tag without a text has the words of its name alone;
5. a word is a run of letters, digits, ``+`` and ``#`` that begins with a letter or digit, in lower case.

Only word counts are written, never sentences. The same input gives the same arrays. Another release of
Debian gives another sample.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import lzma
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

PROJECT = Path(__file__).resolve().parents[1]
TABLES = PROJECT.parent / "shared" / "data" / "debtags"
OUTPUT = PROJECT / "src" / "dyadlearn" / "datasets" / "data" / "debtags.npz"
VOCABULARIES = (Path("/var/lib/debtags/vocabulary"), Path("/usr/share/debtags/vocabulary"))
MAX_BYTES = 500_000
N_PACKAGES = 1_500
MIN_TAGS_OF_PACKAGE = 3
MIN_PACKAGES_OF_TAG = 10
MIN_PACKAGES_OF_WORD = 2
WORD = re.compile(r"[a-z0-9][a-z0-9+#]*")


@dataclass(frozen=True, order=True)
class Package:
    """One row of the sample: a binary package, its source, its tags and its description."""

    name: str
    source: str
    tags: tuple[str, ...]
    description: str


def words(text: str) -> list[str]:
    """Cut `text` into its words."""
    return WORD.findall(text.lower())


def read_tables(folder: Path) -> tuple[list[Package], dict[str, str]]:
    """Read packages and tag texts from the tab-separated tables in `folder`."""
    with lzma.open(folder / "debtags_one_per_source.tsv.xz", "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines][1:]
    packages = [Package(row[0], row[1], tuple(row[3].split(",")), row[4]) for row in rows]
    with gzip.open(folder / "vocabulary.tsv.gz", "rt", encoding="utf-8") as lines:
        entries = [line.rstrip("\n").split("\t") for line in lines][1:]
    return packages, {name: text for kind, name, text in entries if kind == "tag"}


def read_tree(folder: Path) -> list[tuple[str, str]]:
    """Read the (parent, child) pairs of the facet → tag tree from `folder`."""
    lines = (folder / "edges.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return [(parent, child) for parent, child in (line.split("\t") for line in lines)]


def stanzas(text: str) -> Iterator[dict[str, str]]:
    """Cut Debian control text into stanzas, each a mapping from field to unfolded value."""
    for stanza in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        field = ""
        for line in stanza.splitlines():
            if line[:1].isspace() and field:
                fields[field] += " " + line.strip()
            elif ":" in line:
                field, _, value = line.partition(":")
                fields[field] = value.strip()
        if fields:
            yield fields


def full_description(fields: Mapping[str, str]) -> str:
    """Return the long English description of a stanza where it has one, else the short one."""
    return fields.get("Description-en") or fields.get("Description", "")


def read_index(text: str) -> list[Package]:
    """Return the candidates in the output of ``apt-cache dumpavail``, one for each source package."""
    chosen: dict[str, Package] = {}
    for fields in stanzas(text):
        tags = tuple(sorted({tag.strip() for tag in fields.get("Tag", "").split(",")} - {""}))
        if len(tags) < MIN_TAGS_OF_PACKAGE:
            continue
        name = fields["Package"]
        source = fields.get("Source", name).split()[0]
        package = Package(name, source, tags, full_description(fields))
        rival = chosen.get(source)
        if rival is None or (-len(tags), name) < (-len(rival.tags), rival.name):
            chosen[source] = package
    return sorted(chosen.values())


def read_vocabulary(text: str) -> dict[str, str]:
    """Return the text of every tag in a vocabulary of debtags."""
    return {
        fields["Tag"]: fields.get("Description", "")
        for fields in stanzas(text)
        if fields.get("Tag")
    }


def apt_cache(*arguments: str) -> str:
    """Run ``apt-cache`` in English and return what it prints."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": "en"}
    return subprocess.run(
        ["apt-cache", *arguments], check=True, capture_output=True, text=True, env=environment
    ).stdout


def add_long_descriptions(packages: Sequence[Package]) -> list[Package]:
    """Replace short descriptions by long ones: ``dumpavail`` leaves those to the translation files."""
    shown = apt_cache("show", "--no-all-versions", *(package.name for package in packages))
    longer = {fields["Package"]: full_description(fields) for fields in stanzas(shown)}
    result = [replace(p, description=longer.get(p.name, p.description)) for p in packages]
    if result == list(packages):
        print(
            "apt knows no long descriptions here (see Acquire::Languages in apt.conf): short ones are used",
            file=sys.stderr,
        )
    return result


def choose_sample(packages: Iterable[Package], n_packages: int = N_PACKAGES) -> list[Package]:
    """Return the fixed sample, sorted by name."""

    def order(package: Package) -> str:
        return hashlib.sha256(package.name.encode()).hexdigest()

    return sorted(sorted(packages, key=order)[:n_packages])


def tree_edges(tags: Iterable[str]) -> list[tuple[str, str]]:
    """Return the (parent, child) pairs of the tree over `tags`, inner nodes included.

    The names spell the tree: ``facet::tag:subtag`` lies under ``facet::tag``, under ``facet``, under ROOT.
    """
    edges: set[tuple[str, str]] = set()
    for tag in tags:
        facet, _, rest = tag.partition("::")
        steps = rest.split(":")
        path = ["ROOT", facet, *(f"{facet}::{':'.join(steps[: i + 1])}" for i in range(len(steps)))]
        edges.update(pairwise(path))
    return sorted(edges)


def count_words(texts: Sequence[str], min_texts: int) -> tuple[list[str], dict[str, np.ndarray]]:
    """Count the words of every text; return the kept words and the parts of a CSR matrix of counts."""
    counts = [Counter(words(text)) for text in texts]
    spread = Counter(word for row in counts for word in row)
    kept = sorted(word for word, n_texts in spread.items() if n_texts >= min_texts)
    column = {word: j for j, word in enumerate(kept)}
    rows = [
        sorted((column[word], n) for word, n in row.items() if word in column) for row in counts
    ]
    cells = np.array([cell for row in rows for cell in row], dtype=np.int64).reshape(-1, 2)
    # Steps from one column to the next are smaller numbers than the columns, and compress better.
    first = np.cumsum([0] + [len(row) for row in rows])
    steps = np.diff(cells[:, 0], prepend=0)
    starts = first[:-1][np.diff(first) > 0]
    steps[starts] = cells[starts, 0]
    parts = {"lengths": np.diff(first), "steps": steps, "counts": cells[:, 1]}
    return kept, {
        name: part.astype(np.min_scalar_type(part.max(initial=0))) for name, part in parts.items()
    }


def build(packages: Sequence[Package], texts: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Turn the sampled packages and the texts of tags into the arrays of the embedded file."""
    occurrences = Counter(tag for package in packages for tag in package.tags)
    tags = sorted(tag for tag, n in occurrences.items() if n >= MIN_PACKAGES_OF_TAG)
    packages = [package for package in packages if not set(tags).isdisjoint(package.tags)]
    labels = np.array([[tag in package.tags for tag in tags] for package in packages])
    kept_words, instances = count_words(
        [package.description for package in packages], MIN_PACKAGES_OF_WORD
    )
    task_words, tasks = count_words([f"{tag} {texts.get(tag, '')}" for tag in tags], 1)
    names = [
        [package.name for package in packages],
        tags,
        kept_words,
        task_words,
        ["\t".join(edge) for edge in tree_edges(tags)],
    ]
    blob = "\n\n".join("\n".join(part) for part in names).encode("utf-8")
    return {
        "Y": np.packbits(labels, axis=1),
        **{f"X_{name}": part for name, part in instances.items()},
        **{f"tasks_{name}": part for name, part in tasks.items()},
        "names": np.frombuffer(blob, dtype=np.uint8),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the arguments, build the sample and write it."""
    parser = argparse.ArgumentParser(
        description="Build the embedded sample of Debian packages and tags."
    )
    parser.add_argument(
        "--tables", type=Path, default=TABLES, help="folder of tables (default: %(default)s)"
    )
    parser.add_argument(
        "--from-apt", action="store_true", help="read this machine's package index instead"
    )
    parser.add_argument("--vocabulary", type=Path, help="vocabulary of debtags, with --from-apt")
    parser.add_argument(
        "--output", type=Path, default=OUTPUT, help="file to write (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    if options.vocabulary and not options.from_apt:
        parser.error("--vocabulary goes with --from-apt: the tables bring their own vocabulary")

    if options.from_apt:
        if shutil.which("apt-cache") is None:
            parser.error("--from-apt needs the command apt-cache, which is not here: use --tables")
        candidates = [options.vocabulary] if options.vocabulary else VOCABULARIES
        vocabulary = next((path for path in candidates if path.exists()), None)
        if vocabulary is None:
            looked = ", ".join(map(str, candidates))
            parser.error(
                f"no vocabulary at {looked}: install debtags or give a file with --vocabulary"
            )
        texts = read_vocabulary(vocabulary.read_text(encoding="utf-8"))
        packages = add_long_descriptions(choose_sample(read_index(apt_cache("dumpavail"))))
    else:
        if not options.tables.is_dir():
            parser.error(f"no folder {options.tables}: give one with --tables, or use --from-apt")
        packages, texts = read_tables(options.tables)
        packages = choose_sample(packages)
        strays = set(tree_edges(tag for p in packages for tag in p.tags)) - set(
            read_tree(options.tables)
        )
        if strays:
            parser.error(f"names of tags and edges.tsv disagree on {sorted(strays)[:3]}")

    arrays = build(packages, texts)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with open(options.output, "wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # of numpy's own flags
    size = options.output.stat().st_size
    if size > MAX_BYTES:
        options.output.unlink()
        parser.exit(
            1, f"the file came to {size:,} bytes, over the limit of {MAX_BYTES:,}: it was removed\n"
        )
    n_packages, n_tags = len(arrays["X_lengths"]), len(arrays["tasks_lengths"])
    print(f"{n_packages:,} packages × {n_tags} tags, {size:,} bytes in {options.output}")


if __name__ == "__main__":
    main()
