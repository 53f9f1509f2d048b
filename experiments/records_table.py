"""The table of `records.py`: results beside published figures, with their sources and what is comparable."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

BEGIN = "<!-- records: begin -->"
END = "<!-- records: end -->"
#: Steps of the descent in each stage; a row of the table with others says theirs.
STEPS = 60
#: What tells units apart.
KEY = ("data", "setting", "unit", "steps")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Published:
    """A published figure: its scores, in the order of the measures, and whose it is."""

    scores: tuple[float, ...]
    who: str

    def __str__(self) -> str:
        return f"{' / '.join(f'{score:.3f}' for score in self.scores)} ({self.who})"


@dataclass(frozen=True)
class Family:
    """Data sets that are scored alike and stand in one table.

    Attributes
    ----------
    title : str
    measures : tuple of str
    names : mapping of str to str
        What each data set is called.
    published : mapping of (data, setting) to list of Published
    notes : tuple of str
        What is comparable, and the sources.
    """

    title: str
    measures: tuple[str, ...]
    names: Mapping[str, str]
    published: Mapping[tuple[str, str], Sequence[Published]]
    notes: tuple[str, ...]


GRAPHS = "graph networks, other splits"
PADME = "PADME, other splits"
FAMILIES = (
    Family(
        "Binding of drugs and kinases",
        ("MSE", "CI"),
        {"davis": "Davis", "kiba": "KIBA"},
        {
            ("davis", "A"): [Published((0.195, 0.906), GRAPHS)],
            ("davis", "B"): [Published((0.648, 0.712), PADME)],
            ("davis", "C"): [Published((0.318, 0.854), PADME)],
            ("kiba", "A"): [Published((0.117, 0.908), GRAPHS)],
            ("kiba", "B"): [Published((0.361, 0.774), PADME)],
            ("kiba", "C"): [Published((0.388, 0.768), PADME)],
            ("kiba", "D"): [Published((0.567, 0.667), GRAPHS)],
        },
        (
            "The published results are rounded, on splits that differ between papers and from "
            "ours. They show the "
            "order of magnitude; small differences are not meaningful. The benchmark is that of "
            "DeepDTA (Öztürk, "
            "Özgür and Ozkirimli, Bioinformatics 2018), which GraphDTA (Nguyen and others, "
            "Bioinformatics 2021) and "
            "its successors took over.",
            "PADME: results for new drugs (B) and new targets (C) in table 2 of PMC11187637. Its "
            "RMSE is squared here. "
            "Which of its columns are drugs and which are targets is inferred from its footnotes. "
            "The table also lists "
            "IVPGAN with a lower RMSE on Davis, 0.201 in A, 0.289 in B and 0.220 in C, which we "
            "have not checked.",
            "Labels: pKd of Davis and others (Nature Biotechnology 2011), KIBA scores of Tang and "
            "others (Journal of "
            "Chemical Information and Modeling 2014).",
        ),
    ),
    Family(
        "Networks of drugs and targets",
        ("AUPR", "AUC"),
        {
            "nr": "nuclear receptors (nr)",
            "gpcr": "GPCRs (gpcr)",
            "ic": "ion channels (ic)",
            "e": "enzymes (e)",
        },
        {
            (name, "A"): [Published((score,), "NRLMF")]
            for name, score in {"nr": 0.728, "gpcr": 0.749, "ic": 0.906, "e": 0.892}.items()
        },
        (
            "NRLMF: Liu, Wu, Miao, Zhao and Li (PLoS Computational Biology 2016), AUPR of ten "
            "other random folds of "
            "pairs. Its hyperparameters were chosen on these data sets; here each fold chooses by "
            "its training labels "
            "alone.",
            "Labels and similarities: Yamanishi and others (Bioinformatics 2008).",
        ),
    ),
    Family(
        "Ratings of movies",
        ("RMSE",),
        {"flixster": "Flixster", "douban": "Douban"},
        {
            ("flixster", "A"): [Published((0.872,), "IGMC"), Published((0.917,), "GC-MC")],
            ("douban", "A"): [Published((0.721,), "IGMC"), Published((0.734,), "GC-MC")],
        },
        (
            "All results are on the split of Monti, Bronstein and Bresson (NeurIPS 2017), so they "
            "are directly "
            "comparable. IGMC: Zhang and Chen (ICLR 2020), without the graphs. GC-MC: van den "
            "Berg, "
            "Kipf and Welling (2017).",
        ),
    ),
)


def read_results(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the lines of results, the last of each unit; a line that was cut off is warned of and left out."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                rows[tuple(row[name] for name in KEY)] = row
            except (ValueError, KeyError, TypeError):
                warnings.warn(
                    f"{path}, line {number}: no result, left out.", UserWarning, stacklevel=2
                )
    return list(rows.values())


def table(rows: Sequence[Row]) -> str:
    """Return results as Markdown: a table for each family, with what is comparable below it."""
    parts = [part for family in FAMILIES if (part := _family(family, rows))]
    versions = sorted(
        {", ".join(f"{name} {number}" for name, number in row["versions"].items()) for row in rows}
    )
    days = sorted({row["date"][:10] for row in rows})
    if rows:
        when = f"on {days[0]}" if len(days) == 1 else f"from {days[0]} to {days[-1]}"
        parts.append(f"Computed {when} with {'; '.join(versions)}.")
    return "\n\n".join(parts)


def _family(family: Family, rows: Sequence[Row]) -> str:
    """Return the table of one family; nothing where there are no results."""
    lines = []
    for name, title in family.names.items():
        here = [row for row in rows if row["data"] == name]
        for setting, steps in sorted({(row["setting"], row["steps"]) for row in here}):
            units = [row for row in here if (row["setting"], row["steps"]) == (setting, steps)]
            lines.append(_line(family, name, title, setting, steps, units))
    if not lines:
        return ""
    n_published = max(len(result.scores) for known in family.published.values() for result in known)
    published = f"published {' / '.join(family.measures[:n_published])}"
    heads = ["data", "setting", "splits", *family.measures, published, "learned in"]
    rule = ["---", "---", "---", *["--:" for _ in family.measures], "---", "---"]
    listed = ["| " + " | ".join(cells) + " |" for cells in (heads, rule, *lines)]
    return "\n".join(
        [f"**{family.title}**", "", *listed, "", *(f"- {note}" for note in family.notes)]
    )


def _line(
    family: Family, name: str, title: str, setting: str, steps: int, units: Sequence[Row]
) -> list[str]:
    shown = f"{title}" if steps == STEPS else f"{title}, {steps} steps"
    scores = [
        mean_and_deviation([row["scores"][measure] for row in units]) for measure in family.measures
    ]
    published = "; ".join(map(str, family.published.get((name, setting), []))) or "–"
    return [shown, setting, _units(units), *scores, published, _cost(units)]


def _units(units: Sequence[Row]) -> str:
    """Return which units ran, such as "seeds 0, 1, 2"."""
    kinds = {row["unit"].split()[0] for row in units}
    numbers = sorted(int(row["unit"].split()[1]) for row in units)
    kind = " and ".join(sorted(kinds))
    if kind == "split":
        return "published split"
    is_run = len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1))
    listed = f"{numbers[0]}–{numbers[-1]}" if is_run else ", ".join(map(str, numbers))
    return f"{kind}{'s' if len(numbers) > 1 else ''} {listed}"


def mean_and_deviation(scores: Sequence[float | None]) -> str:
    """Return mean ± standard deviation of the units in which a score is defined."""
    known = np.array([score for score in scores if score is not None])
    if not known.size:
        return "–"
    deviation = f" ± {known.std(ddof=1):.3f}" if known.size > 1 else ""
    lacking = f" (of {known.size})" if known.size < len(scores) else ""
    return f"{known.mean():.3f}{deviation}{lacking}"


def _cost(units: Sequence[Row]) -> str:
    """Return the mean time and the largest memory on each machine."""
    costs = []
    for machine in dict.fromkeys(row["machine"] for row in units):
        here = [row for row in units if row["machine"] == machine]
        seconds = float(np.mean([row["seconds"] for row in here]))
        shown = f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"
        # A line that was written elsewhere may not tell its memory.
        known = [
            memory
            for row in here
            if (memory := row.get("device_memory", row.get("memory"))) is not None
        ]
        costs.append(f"{shown}{f', {max(known):,} MiB' if known else ''} ({machine})")
    return "; ".join(costs)


def fill(page: str, text: str) -> str:
    """Return a page with a text between its marks.

    Raises
    ------
    ValueError
        If the marks are not there, once each and in order.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end) or BEGIN in rest or END in after:
        raise ValueError(
            f"The page must have the marks {BEGIN} and {END}, once each, for the table to stand "
            f"between."
        )
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"
