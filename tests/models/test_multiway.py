"""Ridge regression on cells: every answer against dense refits with fifty digits, and refusals with their reasons."""

from itertools import chain, combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from dyadlearn import (
    MultiwayRidge,
    compare,
    evaluate,
    landscape,
    permutation_test,
    save,
    screen,
    verify_holdout,
)
from dyadlearn.cli.models import load_model
from dyadlearn.exceptions import IdError, LeverageError, NotEnoughMemoryError
from dyadlearn.kernels import gram
from fifty_digits import exact, in_fifty_digits, solve
from sweeps import every, over

NAMES = ("mother", "father", "trial", "year")


class Cells(NamedTuple):
    """Labels of cells with the kernels of their sides, and the model with given variances."""

    kernels: dict[str, np.ndarray]
    places: dict[str, np.ndarray]
    y: np.ndarray
    weights: np.ndarray
    covariate: np.ndarray
    variances: dict[str, float]
    alike: tuple[str, str] | None = None

    @property
    def table(self):
        return {**self.places, "covariate": self.covariate}

    def model(self, **options):
        terms = [name for name in self.variances if name != "residual"]
        model = MultiwayRidge(
            terms,
            entities={name: self.kernels[name] for name in self.kernels if name != self.second},
            kernels=dict.fromkeys(set(self.kernels) - {self.second}, "precomputed"),
            variances=self.variances,
            symmetric=self.alike,
            **options,
        )
        return model.fit(self.table, self.y, sample_weight=self.weights)

    @property
    def second(self):
        return None if self.alike is None else self.alike[1]

    def block(self, kernel, left, right):
        """Return the kernel between the levels of all labels on one side and those on another."""
        return self.kernels[kernel][np.ix_(self.places[left], self.places[right])]


def some_cells(n_sides, seed, n=20, *, alike=False):
    """Return random labels, some of them of one cell."""
    rng = default_rng(seed)
    sizes = dict(zip(NAMES, rng.integers(3, 6, n_sides), strict=False))
    if alike:
        sizes["father"] = sizes["mother"] = 5
    features = {name: rng.normal(size=(size, 2)) for name, size in sizes.items()}
    kernels = {name: gram(rows, kernel="rbf") for name, rows in features.items()}
    if alike:
        kernels["father"] = kernels["mother"]
    places = {name: rng.integers(0, size, n) for name, size in sizes.items()}
    for name, size in sizes.items():
        places[name][:size] = rng.permutation(size)
    for at in places.values():
        at[-1] = at[-2]
    terms = [":".join(T) for k in range(1, n_sides + 1) for T in combinations(sizes, k)]
    if alike:
        terms = [term for term in terms if term != "father" and not term.startswith("father:")]
    variances = {term: float(rng.uniform(0.2, 2.0)) for term in terms}
    return Cells(
        kernels,
        places,
        rng.normal(size=n) + 3.0,
        rng.uniform(0.3, 3.0, n),
        rng.normal(size=n),
        {**variances, "residual": 0.3},
        ("mother", "father") if alike else None,
    )


def covariance(cells):
    """Return the covariance of all labels without their noise, term by term, by its definition."""
    total = 0.0
    for term, variance in cells.variances.items():
        sides = set(term.split(":")) - {"residual"}
        V = variance * np.ones((len(cells.y),) * 2) if sides else 0.0
        if cells.alike is not None and sides & set(cells.alike):
            a, b = cells.alike
            pairs = ((a, a), (b, b), (a, b), (b, a))
            aa, bb, ab, ba = (cells.block(a, *pair) for pair in pairs)
            V = V * ((aa * bb + ab * ba if sides >= {a, b} else aa + bb + ab + ba) / 2)
            sides -= {a, b}
        for name in sides:
            V = V * cells.block(name, name, name)
        total = total + V
    return total


@in_fifty_digits
def refitted(cells, V, columns, at, kept):
    """Return the prediction of a label from the kept ones, and the variance of its error, with fifty digits."""
    here = np.flatnonzero(kept)
    noise = exact(cells.variances["residual"]) / exact(cells.weights[here])
    X = exact(columns[here])
    border = np.block(
        [[exact(V[np.ix_(here, here)]), X], [X.T, exact(np.zeros((X.shape[1],) * 2))]]
    )
    border[np.arange(len(here)), np.arange(len(here))] += noise
    cross = exact(np.concatenate([V[at, here], columns[at]]))
    weights = solve(border, cross)
    mean = cells.y[here] @ weights[: len(here)]
    return float(mean), float(V[at, at] - cross @ weights)


def left_out(cells, new, at):
    """Return the labels that are left out for one of them."""
    of = cells.places
    alike = cells.alike or ()
    if not new:
        levels = np.array([of[name] for name in sorted(of, key=lambda name: name not in alike)])
        levels[: len(alike)] = np.sort(levels[: len(alike)], axis=0)
        return (levels == levels[:, [at]]).all(axis=0)
    out = np.zeros(len(cells.y), dtype=bool)
    for name in new:
        for other in alike if name in alike else (name,):
            out |= of[other] == of[name][at]
    return out


CASES = [(2, False), (4, False), (3, True)]


@over(every(case=CASES, n_columns=[2]) + every(case=CASES[2:], n_columns=[0, 1]))
def test_hold_out_equals_refits_with_fifty_digits_in_all_settings(case, n_columns):
    n_sides, alike = case
    cells = some_cells(n_sides, n_sides, alike=alike)
    columns = np.stack([np.ones(20), cells.covariate], axis=1)[:, :n_columns]
    fixed = "covariate" if n_columns == 2 else ()
    model = cells.model(fixed=fixed, fit_intercept=n_columns > 0)
    V = covariance(cells)
    n_compared = 0
    for new in chain.from_iterable(combinations(cells.kernels, k) for k in range(n_sides + 1)):
        asked = [at for at in range(0, 20, 3) if (~left_out(cells, new, at)).sum() > n_columns]
        if len(asked) < 7:
            continue
        at = asked[-(n_compared % 2)]
        expected, _ = refitted(cells, V, columns, at, ~left_out(cells, new, at))
        assert_allclose(model.holdout(new)[at], expected, rtol=1e-9, atol=1e-10)
        n_compared += 1
    assert n_compared >= 3


@over(every(case=CASES))
def test_predictions_and_their_variances_equal_fifty_digits(case):
    n_sides, alike = case
    cells = some_cells(n_sides, 10 + n_sides, alike=alike)
    columns = np.stack([np.ones(20), cells.covariate], axis=1)
    model = cells.model(fixed="covariate")
    V = covariance(cells)
    means, deviations = model.predict(cells.table, return_std=True)
    for at in (0, 7):
        mean, variance = refitted(cells, V, columns, at, np.ones(20, dtype=bool))
        assert_allclose([means[at], deviations[at] ** 2], [mean, variance], rtol=1e-9)
    assert_allclose(sum(model.contributions().values()), means)
    assert_allclose(sum(model.contributions(cells.table).values()), means)
    assert_allclose(model.label_weights(cells.table) @ cells.y, means)


def test_nothing_is_left_beside_levels_that_have_all_labels():
    table = {"a": [0, 0, 0, 1], "b": [0, 1, 2, 2]}
    model = MultiwayRidge("a + b", variances={"a": 1.0, "b": 1.0}).fit(table, [1.0, 3.0, 2.0, 5.0])
    with pytest.raises(LeverageError, match="^No label remains"):
        model.holdout(("a", "b"))


def test_groups_are_left_out_together():
    cells = some_cells(3, 6)
    model = cells.model()
    of_rows = cells.places["mother"] % 2
    folds = np.arange(20) % 3
    V = covariance(cells)
    for asked, units, places in (
        ((), folds, [4]),
        ("mother", of_rows, [0, 9]),
    ):
        held_out = model.holdout(asked, groups={asked: units} if asked else units)
        for at in places:
            expected, _ = refitted(cells, V, np.ones((20, 1)), at, units != units[at])
            assert_allclose(held_out[at], expected, rtol=1e-9)
    for groups, words in (
        (folds, "a dict with the groups"),
        ({"mother": np.arange(20)}, "one level of 'mother' several groups"),
        ({"father": of_rows}, "'father', which is not new"),
    ):
        with pytest.raises(ValueError, match=words):
            model.holdout("mother", groups=groups)


# --- effects --------------------------------------------------------------------------------------


def test_effects_have_the_variance_and_reliability_of_their_definition():
    cells = some_cells(3, 8)
    model = cells.model()
    Q = np.linalg.inv(covariance(cells) + np.diag(cells.variances["residual"] / cells.weights))
    N = Q - np.outer(Q.sum(axis=1), Q.sum(axis=0)) / Q.sum()
    mothers, fathers = (cells.kernels[name][:, cells.places[name]] for name in NAMES[:2])
    found = model.effects("mother")
    assert found["mother"] == list(range(len(mothers)))
    cross = cells.variances["mother"] * mothers
    prior = cells.variances["mother"] * np.diag(cells.kernels["mother"])
    explained = np.einsum("ij,jk,ik->i", cross, N, cross)
    assert_allclose(found["effect"], cross @ N @ cells.y)
    assert_allclose(found["std"], np.sqrt(prior - explained))
    assert_allclose(found["reliability"], explained / prior)
    pair = model.effects("father:mother", {"mother": [1], "father": [2]})
    cross = cells.variances["mother:father"] * mothers[1] * fathers[2]
    assert_allclose(pair["effect"], [cross @ N @ cells.y])
    with pytest.raises(ValueError, match="'mother:year' is not a term"):
        model.effects("mother:year")


def test_the_effect_of_a_parent_is_half_that_of_its_pair_with_itself():
    model = some_cells(2, 3, alike=True).model()
    found = model.effects("mother")
    alone = {"mother": [2], "father": [2], "covariate": [0.0]}
    assert_allclose(found["effect"][2], model.contributions(alone)["mother"][0] / 2)
    assert list(found) == ["mother", "effect", "std", "reliability"]


# --- intervals, scores, files ---------------------------------------------------------------------


def test_intervals_come_from_models_without_each_unit():
    cells = some_cells(3, 12, n=24)
    model = cells.model()
    asked = {"mother": [0], "father": [1], "trial": [2], "covariate": [0.0]}
    lower, upper = model.predict_interval(asked, coverage=0.8, new="mother")
    weights = cells.weights
    levels = cells.places["mother"]
    middle = np.empty(24)
    for level in np.unique(levels):
        without = cells._replace(weights=np.where(levels == level, 0.0, weights))
        middle[levels == level] = without.model().predict(asked)
    reach = np.abs(cells.y - model.holdout("mother"))
    # Of 24 labels and a coverage of 0.8, the fifth smallest and the fifth largest end.
    assert_allclose(lower[0], np.sort(middle - reach)[4])
    assert_allclose(upper[0], np.sort(middle + reach)[-5])
    wide = model.predict_interval(asked, coverage=0.8, new=("mother", "father"))
    residuals = np.sort(np.abs(cells.y - model.holdout(("mother", "father"))))
    assert_allclose(wide[1] - wide[0], 2 * residuals[19])


def test_scores_are_those_of_held_out_predictions_beside_means():
    cells = some_cells(3, 13, n=40)
    cells = cells._replace(weights=cells.weights / 100.0)
    model = cells.model()
    scores = evaluate(model, new=[(), "mother", ("mother", "trial")], scoring=["r2", "pearson"])
    assert scores["setting"] == ["cell", "cell", "mother", "mother", *["mother + trial"] * 2]
    held_out = model.holdout("mother")
    centred = cells.y - cells.y.mean()
    assert_allclose(scores["score"][2], 1 - ((cells.y - held_out) ** 2).sum() / (centred**2).sum())
    means = evaluate(model, new=["mother"], scoring="neg_mean_squared_error")
    at = cells.places["mother"]

    def means_of(side):
        for p in range(40):
            kept = at != at[p]
            same = kept & (side == side[p])
            rows = same if same.any() else kept
            yield np.average(cells.y[rows], weights=cells.weights[rows])

    sides = {**cells.places, "grand": np.ones(40), "mother": np.ones(40)}
    expected = {name: np.array(list(means_of(side))) for name, side in sides.items()}
    total = expected["father"] + expected["trial"] - expected["grand"]
    expected = {f"{name}_means": mean for name, mean in expected.items()}
    expected |= {"grand_mean": expected.pop("grand_means"), "sum": total}
    for name, prediction in expected.items():
        assert_allclose(means[name], [-np.mean((cells.y - prediction) ** 2)], rtol=1e-10)
    assert "new" in repr(scores)
    assert evaluate(model)["setting"] == ["cell", *list(NAMES[:3]), "mother + father + trial"]


@over(
    every(
        make={
            "dict": dict,
            "pandas": lambda ids: pd.DataFrame(ids)[["x1", "x0"]],
            "polars": lambda ids: pl.DataFrame(ids)[:, ::-1],
            "array": lambda ids: np.array(list(ids.values())).T,
            "rows": lambda ids: list(zip(*ids.values(), strict=True)),
        }
    )
)
def test_tables_of_all_kinds(make):
    cells = some_cells(2, 15)
    numbers = dict(zip(("x0", "x1"), cells.places.values(), strict=True))
    table = make({name: [f"{name}{level}" for level in at] for name, at in numbers.items()})
    variances = {"x0": 1.0, "x0:x1": 0.5, "x1": 0.2, "residual": 0.4}
    model = MultiwayRidge("x0*x1", variances=variances)
    expected = clone(model).fit(numbers, cells.y).predict(numbers)
    y = pd.Series(cells.y) if isinstance(table, pd.DataFrame) else cells.y
    assert_allclose(model.fit(table, y).predict(table), expected)
    assert model.n_features_in_ == 2


def test_series_have_the_index_of_their_frame():
    cells = some_cells(2, 15)
    rows = [f"row {place}" for place in range(len(cells.y))]
    table = pd.DataFrame(cells.places, index=rows)
    y = pd.Series(cells.y, rows)
    weights = pd.Series(cells.weights, rows)
    model = MultiwayRidge("mother + father", variances=dict.fromkeys(NAMES[:2], 1.0))
    expected = clone(model).fit(cells.places, cells.y, cells.weights)
    model.fit(table, y, weights)
    assert_allclose(model.predict(table), expected.predict(cells.places))
    score = expected.score(cells.places, cells.y, cells.weights)
    assert_allclose(model.score(table, y, weights), score)
    columns = {"mother": table["mother"], "father": table["father"].iloc[::-1]}
    with pytest.raises(IdError, match="The index of 'father' has the ids of the first column in"):
        model.predict(columns)
    for labels, loads in ((y.iloc[::-1], weights), (y, weights.iloc[::-1])):
        with pytest.raises(IdError, match="has the ids of the table in another order"):
            model.fit(table, labels, loads)
        with pytest.raises(IdError, match="has the ids of the table in another order"):
            model.score(table, labels, loads)
    folds = pd.Series(np.arange(len(rows)) % 3, rows)
    held_out = model.holdout(groups=folds)
    assert_allclose(held_out, expected.holdout(groups=folds.to_numpy()))
    assert_array_equal(evaluate(model, new=[()], groups=folds).results[0].predictions, held_out)
    mothers = table["mother"].iloc[::-1]
    for new, groups in (((), folds.iloc[::-1]), ("mother", {"mother": mothers})):
        with pytest.raises(IdError, match="of groups.* has the ids of the table in another order"):
            model.holdout(new, groups=groups)
    with pytest.raises(IdError, match=r"1 only in the index of the table \('row 0'\)"):
        model.fit(table, y.iloc[1:])


def test_features_in_frames_are_found_by_id():
    rng = default_rng(0)
    names = list("uvwxyz")
    weather = pd.DataFrame(rng.normal(size=(6, 3)), index=names, columns=["a", "b", "c"])
    table = {"line": rng.integers(0, 6, 30), "environment": rng.choice(names[1:], 30)}
    y = rng.normal(size=30)
    model = MultiwayRidge(
        "line + environment",
        entities={"environment": weather},
        kernels={"environment": "rbf"},
        kernel_params={"environment": {"gamma": 0.3}},
        variances={"line": 1.0, "environment": 0.5, "residual": 0.4},
    ).fit(table, y)
    K = pd.DataFrame(gram(weather, kernel="rbf", kernel_params={"gamma": 0.3}), names, names)
    other = clone(model).set_params(
        entities={"environment": K.loc[list("xzuywv"), list("vwuzyx")]},
        kernels={"environment": "precomputed"},
        kernel_params=None,
    )
    asked = {"line": [0, 99], "environment": ["u", "z"]}
    assert_allclose(model.predict(asked), other.fit(table, y).predict(asked))
    assert model.effects("environment")["environment"] == names
    with pytest.raises(IdError, match=r"1 of 1 levels of 'environment' are not in the table"):
        model.predict({"line": [0], "environment": ["q"]})


def test_rows_without_a_label_or_weight_are_left_out():
    cells = some_cells(2, 16)
    y = cells.y.copy()
    y[3] = np.nan
    weights = cells.weights * (np.arange(20) != 5)
    kept = np.setdiff1d(np.arange(20), [3, 5])
    model = MultiwayRidge("mother + father", variances=dict.fromkeys(NAMES[:2], 1.0))
    held_out = model.fit(cells.places, y, weights).holdout("father")
    assert np.isnan(held_out[[3, 5]]).all()
    assert model.label_weights(cells.places).shape == (20, 20)
    part = {name: at[kept] for name, at in cells.places.items()}
    assert_allclose(held_out[kept], model.fit(part, y[kept], weights[kept]).holdout("father"))


def test_a_large_mean_costs_no_digits():
    cells = some_cells(3, 17)
    near = cells.model().holdout("mother")
    far = cells._replace(y=cells.y + 1e9).model().holdout("mother")
    assert_allclose(far - 1e9, near, atol=1e-5)


# --- fixed effects and refusals -------------------------------------------------------------------


def test_fixed_categories_are_coded_without_a_change_of_predictions():
    cells = some_cells(2, 18)
    trial = np.array(["x", "y", "z"])[np.arange(20) % 3]
    table = {**cells.places, "trial": trial}
    table |= {f"is_{level}": (trial == level) * 1.0 for level in "xyz"}
    dummies = ("is_x", "is_y", "is_z")

    def fitted(fixed, intercept=True):
        variances = dict.fromkeys(NAMES[:2], 1.0)
        model = MultiwayRidge(
            "mother + father", fixed=fixed, variances=variances, fit_intercept=intercept
        )
        return model.fit(table, cells.y)

    model = fitted("trial")
    coded = fitted(dummies, intercept=False)
    redundant = fitted(dummies)
    for other in (coded, redundant):
        assert_allclose(other.predict(table), model.predict(table), rtol=1e-8)
        assert_allclose(other.holdout("mother"), model.holdout("mother"), rtol=1e-8)
        assert_allclose(other.log_likelihood_, model.log_likelihood_)
    effects = model.fixed_effects_
    whole = coded.fixed_effects_
    assert list(effects) == ["intercept", "trial=y", "trial=z"]
    assert_allclose(effects["intercept"], whole["is_x"])
    assert_allclose(effects["trial=z"], whole["is_z"] - whole["is_x"])
    with pytest.raises(ValueError, match="does not determine|do not determine"):
        redundant.predict(table | dict.fromkeys(dummies, np.zeros(20)))
    # Without an intercept, the first category has all its levels, also after a number.
    table["height"] = np.linspace(0.0, 1.0, 20)
    for fixed in (("trial", "height"), ("height", "trial")):
        other = fitted(fixed, intercept=False)
        expected = fitted(("height", *dummies), intercept=False)
        assert_allclose(other.predict(table), expected.predict(table), rtol=1e-8)


def test_levels_that_only_a_fixed_effect_describes_are_refused_by_name():
    cells = some_cells(2, 19)
    table = {**cells.places, "trial": np.where(cells.places["mother"] == 0, "y", "x")}
    model = MultiwayRidge("mother + father", fixed="trial", variances=dict.fromkeys(NAMES[:2], 1.0))
    model.fit(table, cells.y)
    numbered = clone(model).set_params(fixed=("number", "trial"))
    number = table["trial"] == "y"
    numbered.fit({**table, "trial": np.arange(20) % 2 > 0, "number": number}, cells.y)
    for ask, given, words in (
        (model.holdout, "mother", "trial='y' is not estimable.*left out together"),
        (model.holdout, "trial", "trial='x' is not estimable.*to be left out"),
        (
            model.predict,
            {"mother": [0], "father": [0], "trial": ["new"]},
            "trial='new' is not estimable.*has no label",
        ),
        (numbered.holdout, "mother", "number=True is not estimable"),
    ):
        with pytest.raises(ValueError, match=words):
            ask(given)
    assert np.isfinite(model.holdout("father")).all()


TABLE = {"a": np.arange(8) // 2, "b": np.arange(8) % 2}
Y = np.arange(8.0)
GIVEN = {"variances": {"a": 1.0, "b": 1.0}}
REFUSALS = [
    ({"terms": "a + c"}, "no column 'c': its columns are 'a', 'b'"),
    ({"terms": "a::b"}, "names of sides, without blanks"),
    ({"terms": "a a"}, "names of sides, without blanks"),
    ({"terms": []}, "names no side"),
    ({"terms": "a", "entities": {"c": np.eye(2)}}, "entities has 'c', which is no column"),
    ({"terms": "a", "kernels": {"a": "rbf"}}, "kernels has 'a' without entities"),
    ({"terms": "a", "entities": {"a": np.eye(4)}, "kernels": {"a": 3}}, "name of a kernel"),
    ({"terms": "a", "variances": {"b": 1.0}}, "'b', which is no term"),
    ({"terms": "a + b", "variances": {"b": 1.0}}, "lacks the terms 'a'"),
    ({"terms": "a", "variances": {"a": 1.0, "residual": 0.0}}, "above 0"),
    ({"terms": "a", "variances": "reml"}, "'likelihood', 'holdout' or a dict"),
    ({"terms": "a + b", "symmetric": "ab"}, "must name two sides"),
    ({"terms": "a", "fixed": "a"}, "'a' has the same effects as the fixed columns"),
    ({"terms": "a + b", "fit_intercept": 3}, "fit_intercept"),
    ({"terms": "a*b"}, "'a:b', 'residual' are confounded"),
]


@pytest.mark.parametrize(("options", "words"), REFUSALS)
def test_refusals_say_what_is_wrong(options, words):
    table = TABLE
    if options.get("fixed"):
        table = {**TABLE, "a": [f"level {level}" for level in TABLE["a"]]}
    with pytest.raises((ValueError, TypeError), match=words):
        MultiwayRidge(**options).fit(table, Y)


def test_levels_that_differ_from_known_ones_in_type_or_blanks_are_no_new_levels():
    table = {"a": [1, 2, 1, 2], "b": ["x", "x", "y", "y"]}
    model = MultiwayRidge("a + b", variances={"a": 1.0, "b": 1.0}).fit(table, [1.0, 2.0, 3.0, 5.0])
    for asked in ({"a": ["1"], "b": ["x"]}, {"a": [1], "b": ["x "]}):
        with pytest.raises(IdError, match="differs in type or blanks only: write both alike"):
            model.predict(asked)
    assert model.predict({"a": [3], "b": ["z"]}).shape == (1,)


def test_tables_and_settings_that_cannot_be_used_are_refused():
    model = MultiwayRidge("a + b", **GIVEN)
    for table, y, words in (
        ({"a": [1, 2], "b": [1]}, Y[:2], "different lengths"),
        ({"a": ["x", None, "y"], "b": [1, 2, 2]}, Y[:3], "no id in row 1"),
        (np.arange(3.0), Y[:3], "Reshape your data"),
        (pl.DataFrame(TABLE).lazy(), Y, "found LazyFrame"),
        ({"a": [], "b": []}, [], "The table has no rows"),
        (TABLE, np.full(8, np.nan), "None of 8 rows has a label"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            model.fit(table, y)
    model.fit(TABLE, Y)
    with pytest.raises(ValueError, match="new names 'c', which is no side"):
        model.holdout("c")
    with pytest.raises(LeverageError, match="No label remains"):
        MultiwayRidge("a", variances={"a": 1.0}).fit({"a": [1, 1, 1]}, Y[:3]).holdout("a")
    with pytest.raises(ValueError, match="cv is not available"):
        evaluate(model, cv=5)


def test_answers_about_pairs_are_refused_with_the_reason(tmp_path):
    model = MultiwayRidge("a + b", **GIVEN).fit(TABLE, Y)
    save(model, tmp_path / "model.dyad")
    for ask in (compare, permutation_test, landscape, verify_holdout, screen):
        given = {"one": model, "two": model} if ask is compare else model
        with pytest.raises(TypeError, match="cells of any number of sides"):
            ask(given, setting="A")
    with pytest.raises(ValueError, match="belong to cells and not to pairs: only evaluate"):
        load_model(tmp_path / "model.dyad")


# --- comparisons and tests ------------------------------------------------------------------------


def test_comparisons_draw_levels_of_all_sides():
    cells = some_cells(3, 22, n=60)
    large = cells.model()
    small = MultiwayRidge("mother", variances={"mother": 1.0}).fit(cells.table, cells.y)
    found = compare({"large": large, "small": small}, new="mother", n_resamples=50, random_state=3)
    errors = [(model.holdout("mother") - cells.y) ** 2 for model in (large, small)]
    scores = [found.scores[name] for name in ("large", "small")]
    assert_allclose(scores, -np.mean(errors, axis=1))
    gaps = errors[1] - errors[0]
    random = np.random.RandomState(3)
    levels, at = np.unique(cells.places["mother"], return_inverse=True)
    draws = []
    for _ in range(50):
        drawn = random.randint(len(levels), size=len(levels))
        draws.append(np.average(gaps, weights=np.bincount(drawn, minlength=len(levels))[at]))
    [difference] = found.differences
    sign = 1 if difference.better == "large" else -1
    middle = (difference.low + difference.high) / 2
    assert_allclose(middle, sign * gaps.mean())
    reach = np.quantile(np.abs(np.array(draws) - gaps.mean()), 0.95)
    assert_allclose(difference.high - middle, reach)
    assert (found.setting, found.resampled) == ("mother", "levels of mother")
    other = clone(small).fit(cells.table, cells.y + 1)
    with pytest.raises(ValueError, match="'other' was fitted on other labels than 'large'"):
        compare({"large": large, "other": other}, new="mother")


@over(every(variances=[None, "likelihood"]))
def test_permutations_move_descriptions_to_other_levels(variances):
    rng = default_rng(5)
    X = rng.normal(size=(12, 3))
    table = {"a": np.repeat(np.arange(12), 4), "b": np.tile(np.arange(4), 12)}
    y = (X @ rng.normal(size=3))[table["a"]] + 0.3 * rng.normal(size=48)
    given = {"a": 1.0, "b": 0.1, "residual": 0.5}
    model = MultiwayRidge("a + b", entities={"a": X}, variances=variances or given).fit(table, y)
    found = permutation_test(model, new="a", n_permutations=9, random_state=7)
    assert found.p_value == 0.1
    assert (found.setting, found.permuted) == ("a", "a")
    order = np.random.RandomState(7).permutation(12)
    moved = clone(model).set_params(entities={"a": X[order]}).fit(table, y)
    assert_allclose(found.null[0], -np.mean((moved.holdout("a") - y) ** 2), rtol=1e-6)
    assert found.method.endswith("again") == (variances is not None)
    with pytest.raises(ValueError, match="No new side has a description"):
        permutation_test(model, new="b")


def test_too_many_labels_are_refused_before_the_matrix_is_formed(monkeypatch):
    monkeypatch.setattr("dyadlearn._memory.available_memory", lambda like: 1000)
    monkeypatch.setattr("dyadlearn._memory._is_free", lambda need, like, is_fresh=False: False)
    with pytest.raises(NotEnoughMemoryError, match="8 × 8 labels of cells.*KroneckerRidge"):
        MultiwayRidge("a + b", **GIVEN).fit(TABLE, Y)
