"""What a model has learned of its kernels: the weight of each description as a bar, and the error of each stage."""

from __future__ import annotations

from html import escape

from dyadlearn._printing import number
from dyadlearn.report.figures import figure
from dyadlearn.report.tables import identity
from dyadlearn.views.summary import Summary
from dyadlearn.views.weights import SideWeights, Weights, percent

__all__ = ["learned_kernels"]


def learned_kernels(summary: Summary) -> str:
    """Return words, bars and the errors of all stages; nothing for a model whose kernels are as they were given."""
    weights = summary.weights
    if weights is None:
        return ""
    said = " ".join(weights.sentences(summary.apart))
    if weights.shares is not None:
        said += f" The kernel between pairs is {weights.shares_in_words(summary.apart)}."
    panels = [_side(word, side) for word, side in weights.named(summary.apart).items()]
    panels.append(_stages(weights))
    return f'<p>{escape(said)}</p><div class="panels">{"".join(panels)}</div>'


def _side(word: str, side: SideWeights) -> str:
    most = max(side.weights.values())
    rows = "".join(
        f"<tr><td>{identity(name)}</td><td>{_exponent(side, name)}</td><td>"
        f'<span class="brings plus" style="--share: {weight / most:.3f}"></span>{percent(weight)}</td></tr>'
        for name, weight, _ in side.lines
    )
    return _table(f"Weights of the {escape(word)}", ("description", "exponent", "weighs"), rows)


def _exponent(side: SideWeights, name: str) -> str:
    return number(side.exponents[name], 3) if name in side.exponents else "–"


def _stages(weights: Weights) -> str:
    most = max(weights.stage_errors) or 1.0
    rows = "".join(
        f"<tr><td>{n}</td><td>{'this model' if n == weights.n_stages else ''}</td><td>"
        f'<span class="brings plus" style="--share: {error / most:.3f}"></span>{number(error)}</td></tr>'
        for n, error in weights.numbered
    )
    note = "Held-out mean squared error, which was minimised and so is optimistic."
    return _table("Stages", ("stage", "", "error"), rows, note)


def _table(title: str, heads: tuple[str, ...], rows: str, note: str = "") -> str:
    columns = "".join(f"<th scope='col'>{head}</th>" if head else "<td></td>" for head in heads)
    body = f"<table class='plain bars'><thead><tr>{columns}</tr></thead><tbody>{rows}</tbody></table>"
    return figure(f"<div class='scroll'>{body}</div>", title, note=note)
