"""Where the first predictions of a page come from: bars that sum to the prediction."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from dyadlearn._printing import number
from dyadlearn.diagnostics.explaining import Contributions, Explanation
from dyadlearn.report.tables import identity
from dyadlearn.views.summary import Summary

__all__ = ["explanations"]


def explanations(summary: Summary) -> str:
    """Return the first of the likeliest pairs, each with the training labels that its prediction comes from."""
    if not summary.explanations:
        return ""
    said = "".join(_explanation(each, summary, is_first=place == 0) for place, each in enumerate(summary.explanations))
    return (
        "<h3>Where these predictions come from</h3><p>A prediction is a sum over the training labels, each times its "
        "weight: by how much the prediction would grow if that label were one larger. The same sum is shown by "
        f"{escape(summary.names.instance)}, by {escape(summary.names.task)} and by pair; it is what the model itself "
        f"predicts, which has seen all labels.</p>{said}"
    )


def _explanation(found: Explanation, summary: Summary, *, is_first: bool) -> str:
    first, second = summary.apart
    sides = [(f"By {first}", [first], found.instances), (f"By {second}", [second], found.tasks)]
    if found.is_network:  # both lists are the same
        sides = [(f"By {summary.names.instance}", [summary.names.instance], found.instances)]
    kinds = [*sides, ("By pair", [first, second], found.pairs)]
    body = "".join(_bars(title, heads, each, found.prediction) for title, heads, each in kinds)
    return (
        f"<details{' open' if is_first else ''}><summary>{identity(found.instance)} <span>with</span> "
        f"{identity(found.task)}<strong>{number(found.prediction)}</strong></summary><div class='panels'>{body}</div>"
        "</details>"
    )


def _bars(title: str, heads: Sequence[str], found: Contributions, prediction: float) -> str:
    """Return the largest contributions as a table with bars, the others in one row, and their sum."""
    most = max([*map(abs, found.contributions.tolist()), abs(found.rest)], default=0.0) or 1.0
    lines = []
    for each in found:
        ids = each.id if len(heads) > 1 else (each.id,)
        names = "".join(f"<td>{identity(name)}</td>" for name in ids)
        lines.append(f"<tr>{names}<td>{number(each.label, 3)}</td>{_bar(each.contribution, most)}</tr>")
    if found.n_rest:
        rest = f"<td colspan='{len(heads) + 1}'>{found.n_rest:,} others together</td>"
        lines.append(f"<tr class='rest'>{rest}{_bar(found.rest, most)}</tr>")
    label = "label" if len(heads) > 1 else "mean label"
    columns = "".join(f"<th scope='col'>{escape(word)}</th>" for word in (*heads, label, "brings"))
    total = f"<tr class='main'><td colspan='{len(heads) + 1}'>prediction</td><td>{number(prediction)}</td></tr>"
    return (
        f"<figure><figcaption>{escape(title)}</figcaption><div class='scroll'><table class='plain bars'><thead><tr>"
        f"{columns}</tr></thead><tbody>{''.join(lines)}{total}</tbody></table></div></figure>"
    )


def _bar(value: float, most: float) -> str:
    kind = "minus" if value < 0 else "plus"
    return f'<td><span class="brings {kind}" style="--share: {abs(value) / most:.3f}"></span>{number(value, 3)}</td>'
