"""The card of a model: what a stranger should know of it before using it, in Markdown, as the Hub reads it."""

from __future__ import annotations

import json
import math
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from dyadlearn import __version__
from dyadlearn._files.atomic import check_place, replacing
from dyadlearn.diagnostics.fitted import is_network, labelled_model
from dyadlearn.report.markdown import bullets, code, front_matter, plain, table
from dyadlearn.report.scores import comparison, introduction, said, score_rows
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames, side_names
from dyadlearn.views.evaluation import Result
from dyadlearn.views.facts import has_grid, known_settings_of, plain_facts, sides_in_words
from dyadlearn.views.summary import Summary, summary_of
from dyadlearn.views.words import joined, number, told_apart

__all__ = ["write_card"]

# Names that the Hub has for scores, and what theirs are ours times.
_METRICS = {
    "neg_mean_squared_error": ("mse", -1.0),
    "neg_mean_absolute_error": ("mae", -1.0),
    "r2": ("r_squared", 1.0),
}

_TAGS = ("dyadlearn", "pairwise-learning", "kernel-ridge-regression")


def write_card(
    model: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    settings: Iterable[str | Setting] | None = None,
    scoring: str | Callable[[Any, Any], float] | None = None,
    groups: Any = None,
    task_groups: Any = None,
    cv: Any = None,
    notes: Iterable[str] = (),
    sides: tuple[str, str] | None = None,
    license: str | None = None,
    dataset: str | None = None,
    tags: Iterable[str] = (),
    about: Mapping[str, str] | None = None,
    model_file: str = "model.dyad",
    progress: bool | None = None,
) -> Path:
    """Write a card about a fitted model, in Markdown with the front matter of the Hugging Face Hub.

    It tells what the model was fitted on; its score in each setting, how far that may be off, how it was held out, and
    what permuted labels and simple means reach there; its kernels, and what was learned of these; which questions it
    can answer, what to mind, and what a model file gives away; how to load it and to predict; and whom to cite. The
    scores are those of `write_report`. Of a model of batches or of observed pairs alone, which has no grid of labels,
    the card tells what is known, and that scores are missing.

    Parameters
    ----------
    model : fitted estimator
        A model of pairs, one that chooses its regularisation, or a `PairRegressor` of one.
    path : path
        Where to write, as ``"README.md"``; an existing file is replaced, and only by a whole one.
    title : str, default=None
        None makes one of the model and the size of the grid.
    settings, scoring, groups, task_groups, cv, notes, sides, progress
        As in `write_report`.
    license : str, default=None
        The licence of the model, as the Hub calls it, such as ``"cc-by-4.0"``.
    dataset : str, default=None
        The data on the Hub that it was fitted on, such as ``"owner/name"``.
    tags : iterable of str, default=()
        More tags.
    about : mapping of str to str, default=None
        More facts, such as where the labels come from.
    model_file : str, default="model.dyad"
        What the model file is called, for the examples.

    Returns
    -------
    Path
        The file that was written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge
    >>> from dyadlearn.report import write_card
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(20, 8)), rng.normal(size=(15, 6))
    >>> Y = X @ rng.normal(size=(8, 6)) @ T.T + rng.normal(size=(20, 15))
    >>> model = TwoStepRidge(1.0, 0.1).fit(X, Y, tasks=T)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     card = write_card(model, pathlib.Path(folder) / "README.md", sides=("host", "parasite"), license="mit")
    ...     lines = card.read_text(encoding="utf-8").splitlines()
    >>> lines[:4]
    ['---', 'license: mit', 'library_name: dyadlearn', 'pipeline_tag: tabular-regression']
    >>> [line for line in lines if line.startswith("#")][:3]
    ['# TwoStepRidge: 20 hosts × 15 parasites', '## What it was fitted on', '## Scores']
    """
    target = Path(path)
    check_place(target)  # before anything is computed
    found = getattr(model, "model_", model)
    if not hasattr(found, "grows"):
        labelled_model(model)  # which refuses it
    names, summary = side_names(sides, network=not found.grows and is_network(found)), None
    if has_grid(found):
        asked = {"wanted": settings, "scoring": scoring, "groups": groups, "task_groups": task_groups, "cv": cv}
        summary = summary_of(model, title=title, notes=notes, sides=sides, scores_only=True, progress=progress, **asked)
    facts = summary.facts if summary is not None else plain_facts(found, names)
    heading = title or (summary.title if summary is not None else f"{facts[0][1]}: {facts[1][1]}")
    described = {
        f"{word[:1].upper()}{word[1:]}": text for word, text in zip(names.both, sides_in_words(found), strict=False)
    }
    card = Card(
        model,
        heading,
        {**dict(facts), **described, **(about or {})},
        names,
        summary,
        [*notes] if summary is None else summary.warnings,
        license,
        dataset,
        [*_TAGS, *tags],
        model_file,
    )
    # An id may hold half a character, which no file can.
    text = card.text.encode("utf-8", errors="backslashreplace")
    with replacing(target) as file:
        file.write(text)
    return target


@dataclass(frozen=True, eq=False)
class Card:
    """All that stands on a card.

    Attributes
    ----------
    model : fitted estimator
    title : str
    facts : dict of str to str
        What the model is and what it was fitted on, in words.
    names : SideNames
    summary : Summary or None
        Its scores; None for a model that has no grid of labels.
    warnings : list of str
    license, dataset : str or None
    tags : list of str
    model_file : str
    """

    model: Any
    title: str
    facts: dict[str, str]
    names: SideNames
    summary: Summary | None
    warnings: list[str] = field(default_factory=list)
    license: str | None = None
    dataset: str | None = None
    tags: list[str] = field(default_factory=list)
    model_file: str = "model.dyad"

    @property
    def text(self) -> str:
        """The card itself."""
        both = " and ".join(dict.fromkeys(self.names.both))
        lead = (
            f"This model predicts labels of pairs of {both}. It was made with dyadlearn, which fits ridge regressions "
            "with a kernel on each side."
        )
        sections = [
            ("What it was fitted on", table(["", ""], list(self.facts.items()), left=2)),
            ("Scores", self._scores()),
            ("Kernels", self._kernels()),
            ("Use and limits", self._limits()),
            ("What the file holds", plain(self._inside())),
            ("How to use it", self._usage()),
            ("Citation", _citation()),
        ]
        shown = [f"## {name}\n\n{body}" for name, body in sections if body]
        end = f"Written by dyadlearn {__version__} on {date.today().isoformat()}."
        blocks = [front_matter(self.metadata), f"# {plain(self.title)}", plain(lead), *shown, plain(end)]
        return "\n\n".join(blocks) + "\n"

    # For machines ------------------------------------------------------------------------------------

    @property
    def metadata(self) -> dict[str, Any]:
        """What the Hub reads."""
        found: dict[str, Any] = {"license": self.license} if self.license else {}
        found |= {"library_name": "dyadlearn", "pipeline_tag": self._task, "tags": list(dict.fromkeys(self.tags))}
        if self.dataset:
            found["datasets"] = [self.dataset]
        results = [] if self.summary is None else [self._result(each) for each in self.summary.results]
        results = [each for each in results if each["metrics"]]
        if results:
            metrics = [metric["type"] for each in results for metric in each["metrics"]]
            found["metrics"] = list(dict.fromkeys(metrics))
            found["model-index"] = [{"name": self.title, "results": results}]
        return found

    @property
    def _task(self) -> str:
        is_binary = self.summary is not None and self.summary.grid.is_binary
        return "tabular-classification" if is_binary else "tabular-regression"

    def _result(self, result: Result) -> dict[str, Any]:
        """Return the scores of a setting."""
        assert self.summary is not None
        words = told_apart(self.names).in_words(result.setting)
        scores = {self.summary.scoring: result.score, **result.others}
        metrics = []
        for name, value in scores.items():
            if not math.isfinite(value):
                continue
            kind, sign = _METRICS.get(name, (name, 1.0))
            further = ""
            if name == self.summary.scoring and result.interval is not None:
                low, high = sorted((sign * result.interval.low, sign * result.interval.high))
                further = f", 95 % interval {number(low, 3)} … {number(high, 3)}"
            metrics.append({"type": kind, "value": sign * value, "name": f"{kind}, {result.method}{further}"})
        return {
            "task": {"type": self._task, "name": f"Setting {words}"},
            "dataset": {
                "type": self.dataset or "custom",
                "name": self.facts["Grid"],
                "config": f"setting-{result.setting.value}",
                "split": "held-out",
            },
            "metrics": metrics,
        }

    # For people --------------------------------------------------------------------------------------

    def _scores(self) -> str:
        found = self.summary
        if found is None:
            return plain(
                "There are none here: the model keeps no grid of labels that could be held out. dyadlearn.evaluate "
                "scores models of observed pairs, and holdout of a model of batches predicts labels that are at hand."
            )
        names = found.apart
        head = ["", *(names.in_words(each.setting) + self._own(each.setting) for each in found.results)]
        rows = [[row.name, *row.texts] for row in score_rows(found)]
        return "\n\n".join([plain(introduction(found)), table(head, rows), plain(comparison(found))])

    def _own(self, setting: Setting) -> str:
        assert self.summary is not None
        return " (chosen here)" if setting is self.summary.own else ""

    def _kernels(self) -> str:
        """Return what was learned of the kernels, if anything was."""
        weights = None if self.summary is None else self.summary.weights
        if weights is None:
            return ""
        names = told_apart(self.names)
        lines = [*weights.sentences(names)]
        if weights.shares is not None:
            lines.append(f"The kernel between pairs is {weights.shares_in_words(names)}.")
        rows = [[word, name, words] for word, side in weights.named(names).items() for name, _, words in side.lines]
        return f"{plain(' '.join(lines))}\n\n{table(['side', 'description', 'weighs'], rows, left=3)}"

    def _limits(self) -> str:
        known = known_settings_of(self._fitted)
        answers = [f"{each.value}: {said(each, self.names)}" for each in known]
        unknown = [each.value for each in Setting if each not in known]
        lines = ["It can be asked about", bullets(answers)]
        if unknown:
            lines.append(plain(f"It cannot answer in setting {joined(unknown)}."))
        lines.append(
            plain(
                "Scores are those of the data above: pairs of another kind, or from elsewhere, may be predicted worse. "
                f"Predictions are on the scale of the labels{self._no_probabilities}, and are no advice by themselves."
            )
        )
        notes = [] if self.summary is None else self.summary.notes
        for heading, texts in (("To mind:", self.warnings), ("To know:", notes)):
            if texts:
                lines += [heading, bullets(texts)]
        return "\n\n".join(lines)

    @property
    def _no_probabilities(self) -> str:
        if self._task == "tabular-regression":
            return ""
        return " and are no probabilities, which dyadlearn.calibrate makes of them"

    def _inside(self) -> str:
        first, second = self.names.both
        if not self._fitted.grows:
            return (
                f"A model file holds the labels that the model was fitted on, the ids of the {first} and {second}, and "
                "their features or kernels, or what these can be computed from. Whoever has the file has all of it: do "
                "not publish it where the data are not public. It holds nothing that could be executed."
            )
        learnt = self._fitted._learnt
        kept = [f"all {first}"] * learnt.keeps_instances + ["all their labels"] * learnt.keeps_labels
        more = f", and {joined(kept)}" if kept else ""
        return (
            f"A model file holds sums of products of features and labels, the features and ids of the {second}{more}. "
            "Do not publish it where these are not public. It holds nothing that could be executed."
        )

    def _usage(self) -> str:
        first, second = self.names.both
        script = ["from dyadlearn import load", "", f"model = load({json.dumps(self.model_file, ensure_ascii=False)})"]
        command = []
        known = known_settings_of(self._fitted)
        if hasattr(self.model, "model_"):
            script.append("model.predict(pairs)  # ids of both sides that are in its tables, row by row")
        else:
            if Setting.B in known:
                script.append(f"model.predict(X)  # new {first}, with the known {second}")
            if Setting.D in known:
                script.append(f"model.predict(X, tasks=T)  # new {first}, with new {second}")
            if not {Setting.B, Setting.D} & set(known):
                script.append(f"model.predict()  # the {first} and {second} that it knows")
        shell = shlex.quote(self.model_file)
        if Setting.B in known:
            command.append(f"dyadlearn predict {shell} --instances new.csv -o predictions.csv")
        if Setting.D in known:
            command.append(f"dyadlearn predict {shell} --instances new.csv --tasks new_tasks.csv -o predictions.csv")
        command.append(f"dyadlearn inspect {shell}")
        return "\n\n".join([code("python", script), code("sh", command)])

    @property
    def _fitted(self) -> Any:
        return getattr(self.model, "model_", self.model)


def _citation() -> str:
    return plain(
        'Stock, M., Pahikkala, T., Airola, A., De Baets, B., and Waegeman, W. "Efficient Pairwise Learning Using '
        'Kernel Ridge Regression: an Exact Two-Step Method." arXiv:1606.04275, 2016.'
    )
