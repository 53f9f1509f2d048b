"""What the library says in terms of Python, the command line says in terms of its options."""

from __future__ import annotations

import pytest

from dyadlearn.cli.talk import spoken


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("nothing is left; zeros=True takes zeros for it.", "nothing is left; --zeros takes zeros for it."),
        ('leave them out with on_error="drop".', "leave them out with --drop-invalid."),
        ("fit it with tasks=, or ask for setting A.", "fit it with --tasks, or ask for setting A."),
        ("by data_home= or by a variable.", "by --data-home or by a variable."),
        ('alphas="auto" needs scoring="r2".', "--alphas auto needs --scoring r2."),
        ("give groups= and task_groups=, a few of each.", "give --cv, a number of folds."),
        ("n_splits=9 folds need at least as many.", "9 folds (--cv) need at least as many."),
        ("cv=3/alpha=0.1/Y.csv: found 'cv=3' in x/cv=3.csv.", "cv=3/alpha=0.1/Y.csv: found 'cv=3' in x/cv=3.csv."),
        ("alpha=0.1, cv=3.", "--alpha 0.1, --cv 3."),
        ("the file a\x1b[2J.csv", r"the file a\x1b[2J.csv"),
    ],
)
def test_sentences(sentence, said):
    assert spoken(sentence) == said
