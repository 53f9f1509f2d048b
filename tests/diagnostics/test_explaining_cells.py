"""Explanations of cells: weights against real refits, and sums by term, side and label."""

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from dyadlearn import KroneckerRidge, MultiwayRidge, explain
from dyadlearn.diagnostics import CellExplanation
from sweeps import lines, over

N_LABELS = 30
VARIANCES = {"mother": 0.7, "father": 0.4, "mother:father": 0.5, "residual": 0.6}


def the_table():
    """Return a table of cells, labels of which one is missing, and weights."""
    rng = default_rng(0)
    table = pd.DataFrame(
        {
            "mother": rng.choice(list("abcde"), N_LABELS),
            "father": rng.choice(list("vwxyz"), N_LABELS),
            "trial": rng.choice(["t1", "t2", "t3"], N_LABELS),
        }
    )
    y = rng.normal(size=N_LABELS) + 5.0
    y[3] = np.nan
    return table, y, rng.uniform(0.5, 2.0, N_LABELS)


def the_model(**options):
    markers = pd.DataFrame(default_rng(1).normal(size=(6, 4)), list("abcdef"))
    params = {
        "terms": "mother * father",
        "entities": {"mother": markers},
        "fixed": "trial",
        "variances": VARIANCES,
    } | options
    table, y, weights = the_table()
    return MultiwayRidge(**params).fit(table, y, sample_weight=weights), table, y, weights


@over(
    lines(
        "cell",
        {"mother": "a", "father": "w", "trial": "t2"},
        {"mother": "f", "father": "unknown", "trial": "t3"},
    )
)
def test_a_weight_is_the_increase_of_the_prediction_after_a_refit(cell):
    model, table, y, weights = the_model()
    found = explain(model, cell, n=N_LABELS)
    rows = pd.DataFrame([cell])
    before = model.predict(rows)[0]
    assert_allclose(found.prediction, before)
    assert_allclose(found.weights @ np.nan_to_num(y), before)
    for row in (0, 7, 19):
        larger = y.copy()
        larger[row] += 1.0
        after = model.fit(table, larger, sample_weight=weights).predict(rows)[0]
        assert_allclose(found.weights[row], after - before, rtol=1e-8)
    assert found.weights[3] == 0.0
    assert_allclose(found.share_of_mean, np.nanmean(y))
    assert_allclose(found.share_of_deviations, before - np.nanmean(y))


def test_terms_sides_and_labels_each_add_up_to_the_prediction():
    model, table, y, _ = the_model()
    cell = {"mother": "a", "father": "w", "trial": "t2"}
    found = explain(model, cell, n=2)
    assert isinstance(found, CellExplanation)
    parts = model.contributions(pd.DataFrame([cell]))
    assert list(found.terms) == ["fixed", "mother", "father", "mother:father"]
    assert_allclose(list(found.terms.values()), np.ravel(list(parts.values())))
    assert_allclose(sum(found.terms.values()), found.prediction)
    for by in ("label", "mother", "father"):
        listed = found.by(by)
        assert len(listed) == 2
        assert_allclose(listed.contributions.sum() + listed.rest, found.prediction)
    whole = explain(model, cell, n=N_LABELS).frame("mother").set_index("mother")
    of_a = (table["mother"] == "a").to_numpy() & ~np.isnan(y)
    assert_allclose(whole.loc["a", "weight"], found.weights[of_a].sum())
    assert_allclose(whole.loc["a", "mean_label"], y[of_a].mean())
    assert_allclose(whole.loc["a", "contribution"], found.weights[of_a] @ y[of_a])
    assert list(found.frame().columns) == ["mother", "father", "weight", "label", "contribution"]
    assert list(found.frame("term")["term"]) == list(found.terms)


def test_lists_are_sorted_by_contribution_or_by_weight():
    model, _, y, _ = the_model()
    cell = {"mother": "a", "father": "w", "trial": "t2"}
    known = ~np.isnan(y)
    for sort, of_labels in (("contribution", y), ("weight", np.ones(N_LABELS))):
        found = explain(model, cell, n=5, sort=sort)
        keys = np.abs(found.weights * of_labels)[known]
        listed = getattr(found.labels, f"{sort}s")
        assert_allclose(np.abs(listed), np.sort(keys)[::-1][:5])


def test_the_setting_and_the_label_are_those_of_the_cell():
    model, table, y, _ = the_model()
    first = table.iloc[0][["mother", "father"]].to_dict()
    same = (table[["mother", "father"]] == first).all(axis=1).to_numpy()
    found = explain(model, {**first, "trial": "t1"})
    assert found.setting == "cell"
    assert_allclose(found.label, np.nanmean(y[same]))
    found = explain(model, {"mother": "f", "father": "w", "trial": "t1"})
    assert found.setting == "mother"
    assert np.isnan(found.label)
    assert found.subject == "new mother 'f', father 'w'"
    assert repr(found).startswith(f"CellExplanation({found.prediction:.4g} for new mother 'f', ")
    numbered = MultiwayRidge("a + b", variances={"a": 1.0, "b": 1.0})
    numbered.fit({"a": [1, 2, 2], "b": [1, 1, 3]}, [1.0, 2.0, 4.0])
    assert explain(numbered, {"a": 1, "b": 3}).subject == "a 1, b 3"


def test_the_order_of_two_symmetric_sides_does_not_matter():
    table, y, weights = the_table()
    table["father"] = table["father"].str.translate(str.maketrans("vwxyz", "abcde"))
    model = MultiwayRidge("mother + mother:father", symmetric=("mother", "father")).fit(
        table, y, sample_weight=weights
    )
    first = dict(table.iloc[0][["mother", "father"]])
    found = explain(model, first)
    turned = explain(model, {"mother": first["father"], "father": first["mother"]})
    assert np.isfinite(found.label)
    assert_allclose(turned.label, found.label)
    assert_allclose(turned.weights, found.weights)
    assert "fixed variances" in found.notes[0]


def test_a_table_of_cells_gives_a_list():
    model, table, _, _ = the_model()
    found = explain(model, table.iloc[:3])
    assert [one.cell["mother"] for one in found] == list(table["mother"][:3])
    assert_allclose([one.prediction for one in found], model.predict(table.iloc[:3]))
    assert found[0].notes == ()
    assert len(explain(model, {name: [table[name][0]] for name in table})) == 1


@over(
    lines(
        "arguments options sentence",
        (({"mother": "a"}, "w"), {}, "without task and sides"),
        (({"mother": "a"},), {"sides": ("m", "f")}, "without task and sides"),
        (({"mother": "a"},), {}, "no column"),
        (({"mother": "?", "father": "w", "trial": "t1"},), {}, "mother"),
        (({"mother": "a", "father": "w", "trial": "t9"},), {}, "not estimable"),
    )
)
def test_refusals(arguments, options, sentence):
    with pytest.raises((TypeError, ValueError, KeyError), match=sentence):
        explain(the_model()[0], *arguments, **options)


def test_a_model_of_pairs_needs_the_task():
    rng = default_rng(0)
    model = KroneckerRidge().fit(rng.normal(size=(6, 2)), rng.normal(size=(6, 4)), np.eye(4))
    with pytest.raises(TypeError, match="task is missing"):
        explain(model, 0)
