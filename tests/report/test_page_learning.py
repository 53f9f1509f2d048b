"""The section about learned kernels: words, bars and stages."""

import re

import pytest

from dyadlearn import LearnedKernelRidge
from dyadlearn._text import number
from dyadlearn.report.page import learned_kernels, render
from dyadlearn.views.summary import SummaryOptions, summary_of


@pytest.fixture(scope="module")
def learned(real):
    X = real[0][:12]
    Y = real[1][:12, :8]
    T = real[2][:8]
    model = LearnedKernelRidge(setting="A", stages=2, n_steps=1, cv=2)
    return model.fit({"<b>": X[:, :3], "rest": X[:, 3:]}, Y, tasks=T)


def test_a_section_with_words_bars_and_stages(learned):
    summary = summary_of(learned, SummaryOptions(setting="A", sides=("drug", "protein")))
    section = learned_kernels(summary)
    assert "Weights of the drugs" in section
    assert "The kernel between pairs is" in section
    assert "&lt;b&gt;" in section
    assert "<b>" not in section
    sizes = [float(share) for share in re.findall(r"--share: ([\d.]+)", section)]
    wanted = []
    for weights in summary.weights.weights.values():
        wanted += [weight / max(weights.values()) for weight in weights.values()]
    wanted += [error / max(learned.stage_errors_) for error in learned.stage_errors_]
    assert sizes == pytest.approx(wanted, abs=1e-3)
    for error in learned.stage_errors_:
        assert number(error) in section
    assert section.count("this model") == 1
    assert section.count("optimistic") == 1
    page = render(summary)
    assert '<section id="kernels"><h2>Learned kernels</h2>' in page
    assert '<a href="#kernels">Learned kernels</a>' in page


def test_no_section_where_nothing_was_learned(ridge):
    summary = summary_of(
        ridge,
        SummaryOptions(setting="B", alphas=[1.0], task_alphas=[1.0]),
    )
    assert learned_kernels(summary) == ""
    assert "Learned kernels" not in render(summary)
