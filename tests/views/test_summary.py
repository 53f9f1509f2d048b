"""All there is to see of a model: ids, spectra, doubtful cells, warnings."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

import problems
from dyadlearn import (
    IndependentTaskRidgeCV,
    KroneckerRidgeCV,
    PairRegressor,
    TwoStepRidge,
    TwoStepRidgeCV,
    top_pairs,
)
from dyadlearn.exceptions import KernelRepairWarning
from dyadlearn.filters import SpectralCutoff
from dyadlearn.metrics import roc_auc
from dyadlearn.settings import Setting
from dyadlearn.views.summary import SummaryOptions, summary_of


def few(model, **asked):
    """Look at a model in one setting over a small landscape."""
    asked = {"setting": "B", "alphas": [0.1, 1.0], "task_alphas": [0.1, 1.0], **asked}
    return summary_of(model, SummaryOptions(**asked))


def part(data):
    """Return 13 instances and 9 tasks of features, labels and features."""
    X, Y, T = data
    return X[:13], Y[:13, :9], T[:9]


def test_sizes_and_ids_without_names(real):
    X, Y, T = real
    report = few(TwoStepRidge(2.0, 0.5).fit(X, Y, T))
    assert report.title == "TwoStepRidge: 24 instances × 16 tasks"
    assert dict(report.facts)["Regularisation"] == "λ_d = 2, λ_t = 0.5"
    assert few(TwoStepRidge().fit(X, Y, T), title="Mine").title == "Mine"


def test_ids_of_frames_and_of_pairs(real):
    X, Y, T = real
    rows = [f"row {i}" for i in range(24)]
    columns = [f"column {j}" for j in range(16)]
    frames = pd.DataFrame(X, rows), pd.DataFrame(Y, rows, columns), pd.DataFrame(T, columns)
    report = few(TwoStepRidge().fit(frames[0], frames[1], frames[2]))
    assert set(report.contradicting.instances) <= set(rows)
    pairs = [(row, column) for row in rows for column in columns]
    model = PairRegressor(TwoStepRidge(), instances=frames[0], tasks=frames[2])
    again = few(model.fit(pairs, Y.ravel()))
    assert list(again.contradicting.instances) == list(report.contradicting.instances)
    assert list(again.contradicting.tasks) == list(report.contradicting.tasks)
    assert_allclose([each.score for each in again.results], [each.score for each in report.results])


def test_a_network_has_one_side(real):
    X, Y, _ = real
    report = few(TwoStepRidge(symmetry="symmetric").fit(X[:16], Y[:16] + Y[:16].T))
    assert list(report.sides) == ["nodes"]
    assert report.grid.is_network
    assert all(
        i <= j
        for i, j in zip(report.contradicting.instances, report.contradicting.tasks, strict=True)
    )


def test_cells_are_those_of_the_best_predictions(searched):
    report = summary_of(searched)
    best = max(report.results, key=lambda each: roc_auc(report.grid.values, each.predictions))
    assert report.contradicting.setting == best.setting.value
    assert report.contradicting.method == best.method


def test_the_edge_of_the_grid_is_warned_of(binary):
    X, Y, T = binary
    with pytest.warns(UserWarning, match="edge"):
        model = TwoStepRidgeCV([1e4, 1e5], [0.1, 1, 10], setting="D").fit(X, Y, T)
    found = [text for text in few(model).warnings if "edge" in text]
    assert found[0].startswith("The best alpha, 10000, is on the edge of the grid (10000 … 10⁵)")
    assert found[1].startswith("The best task_alpha, 10, is on the edge")
    model = KroneckerRidgeCV([1e-6, 1.0, 10.0, 100.0, 1e6], setting="D").fit(X, Y, T)
    assert not any("edge" in text for text in few(model).warnings)


def test_zero_eigenvalues_are_warned_of(real):
    _, Y, _ = real
    K = np.random.default_rng(0).normal(size=(24, 24))
    K = K + K.T
    with pytest.warns(KernelRepairWarning):
        model = TwoStepRidge(kernel="precomputed", task_kernel="precomputed").fit(K, Y, np.eye(16))
    centring = np.eye(24) - 1 / 24
    n_clipped = int(np.sum(np.linalg.eigvalsh(centring @ K @ centring) < -1e-9))
    # The constant, for which there is no eigenvalue, is none of them.
    (found,) = [text for text in few(model).warnings if "eigenvalues" in text]
    assert found.startswith(f"{n_clipped} of 24 eigenvalues of the instance kernel are zero")
    assert "clipped to zero" in found


def test_undefined_rows_are_warned_of(binary):
    X, Y, T = binary
    Y = Y.copy()
    Y[4] = Y[7] = 0
    found = few(TwoStepRidge().fit(X, Y, T)).warnings
    n_alike = int(np.sum(Y.min(axis=1) == Y.max(axis=1)))
    assert any(
        f"In setting B, roc_auc is undefined for {n_alike} of 24 instances" in text
        for text in found
    )


def test_a_solver_that_stopped_short_is_warned_of():
    X, Y, T = problems.data(60, 50, 5, 4, missing=0.5)  # small grids are solved at once
    with pytest.warns(ConvergenceWarning):
        model = TwoStepRidge(1e-6, 1e-6, max_iter=2, kernel="rbf", task_kernel="rbf").fit(X, Y, T)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # they are in the report, and nowhere else
        report = summary_of(model, SummaryOptions(setting="B"))
    assert any("stopped after 2 iterations" in text for text in report.warnings)
    assert any(text.startswith("Conjugate gradients stopped") for text in report.warnings)


def test_other_warnings_are_passed_on(ridge):
    def scoring(Y, F):
        warnings.warn("mind the gap", UserWarning, stacklevel=1)
        return 1.0

    with pytest.warns(UserWarning, match="mind the gap"):
        few(ridge, scoring=scoring)


def test_what_is_not_shown_is_said(holes, real, binary, monkeypatch):
    X, Y, T = part(holes)
    notes = summary_of(TwoStepRidge().fit(X, Y, T)).notes
    assert not any("would be refitted for every fold" in text for text in notes)
    monkeypatch.setattr("dyadlearn.views.summary._MOST_WORK", 0)
    notes = summary_of(TwoStepRidge().fit(X, Y, T)).notes
    (said,) = [text for text in notes if "would be refitted for every fold" in text]
    assert "Setting C and D" in said
    assert said.endswith('setting="ABCD" asks for them.')
    X, Y, T = real
    notes = few(TwoStepRidge(filter=SpectralCutoff()).fit(X, Y, T)).notes
    assert any("filters other than Tikhonov" in text for text in notes)
    network = Y[:16] + Y[:16].T
    network[2, 5] = network[5, 2] = np.nan
    notes = summary_of(TwoStepRidge(symmetry="symmetric").fit(X[:16], network)).notes
    assert any(
        "a network has no held-out predictions in setting B, C and D" in text for text in notes
    )


@pytest.mark.filterwarnings("ignore")
def test_unlike_settings_are_said_to_be(binary):
    X, Y, T = binary
    groups = np.arange(24) // 3
    model = TwoStepRidgeCV([0.1, 10], [0.1, 10], setting="B", scoring="roc_auc")
    model.fit(X, Y, T, groups=groups)
    for options, told in (({}, True), ({"groups": groups}, False)):
        notes = few(model, setting="BC", **options).notes
        assert any("Settings differ in what they leave out" in text for text in notes) == told


def test_a_model_that_only_interpolates_still_has_a_report(real):
    X, Y, _ = real
    report = summary_of(TwoStepRidge(1e-9, kernel="rbf", filter=SpectralCutoff()).fit(X, Y))
    assert report.contradicting is None
    assert sum("has no score" in text for text in report.warnings) == 2
    assert [each.setting for each in report.results] == [Setting.A, Setting.B]


def test_the_likeliest_pairs_are_those_of_the_library(binary, holes, real, monkeypatch):
    X, Y, T = binary
    model = TwoStepRidge().fit(X, Y, T)
    report = few(model, sides=("host", "parasite"))
    again = top_pairs(model, n=50)
    assert report.likeliest.instances == again.instances
    assert_allclose(report.likeliest.scores, again.scores)
    first = zip(again.instances[:5], again.tasks[:5], strict=True)
    assert [(each.instance, each.task) for each in report.explanations] == list(first)
    predicted = model.predict(X)
    assert_allclose(
        [each.prediction for each in report.explanations],
        [predicted[each.instance, each.task] for each in report.explanations],
    )
    assert tuple(report.explanations[0].sides) == ("host", "parasite")
    assert len(few(model, n=3).likeliest) == 3
    X, Y, T = real
    report = few(TwoStepRidge().fit(X, Y, T))  # every pair is observed
    assert (report.likeliest, report.explanations) == (None, [])


def test_pairs_that_would_be_solved_for_again_are_not_listed(holes, monkeypatch):
    X, Y, T = part(holes)
    model = TwoStepRidge().fit(X, Y, T)
    assert len(summary_of(model).explanations) == 5
    monkeypatch.setattr("dyadlearn.views.summary._MOST_WORK", 0)
    report = summary_of(model)
    assert (
        report.likeliest.instances == top_pairs(model, n=50).instances
    )  # by what was completed when it was fitted
    assert report.explanations == []
    assert any("dyadlearn.explain does it" in text for text in report.notes)
    monkeypatch.setattr("dyadlearn.views.summary._is_quick", lambda *_: False)
    report = summary_of(model)
    assert report.likeliest is None
    assert any("dyadlearn.top_pairs names them" in text for text in report.notes)


def test_what_is_not_told_is_said(binary, holes):
    for data, told in ((part(holes), True), (binary, False)):
        X, Y, T = data
        notes = few(TwoStepRidge().fit(X, Y, T), setting=None, n_permutations=1).notes
        assert any("not permuted in setting A, B, C and D" in text for text in notes) == told


def test_models_that_lack_something_still_have_a_report(real, binary, each):
    X, Y, T = real
    network = (Y[:16] + Y[:16].T > 1).astype(float)
    network[2, 5] = network[5, 2] = np.nan
    cases = [
        (TwoStepRidge(symmetry="symmetric").fit(X[:16], network), "A", 0),
        (TwoStepRidge().fit(X, binary[1][:, :1], T[:1]), "ABCD", 2),
        (IndependentTaskRidgeCV([0.1, 1, 10, 100]).fit(X, binary[1]), "AB", 0),
        (TwoStepRidge().fit(X, np.zeros_like(Y), T), "ABCD", 0),
    ]
    for model, shown, n_lacking in each(cases):
        report = few(model, setting=None)
        assert "".join(result.setting.value for result in report.results) == shown
        assert sum("No label remains" in text for text in report.warnings) == n_lacking
        labels = report.likeliest.labels
        assert (
            len(labels) == 1 if np.isnan(labels).any() else len(labels) >= 3
        )  # zeros, or the missing pair
