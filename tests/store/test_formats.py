"""Files that earlier versions wrote are still read: one of each format, with the predictions of the model it holds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dyadlearn import load
from dyadlearn.store.container import OLDEST, VERSION

pd = pytest.importorskip("pandas")

DATA = Path(__file__).parent / "data"


def test_every_format_that_is_read_has_a_file():
    assert {int(path.stem[-1]) for path in DATA.glob("*.dyad")} == set(range(OLDEST, VERSION + 1))


@pytest.mark.parametrize("version", range(OLDEST, VERSION + 1))
def test_an_old_file_predicts_as_it_did(version):
    known = json.loads((DATA / f"predictions_{version}.json").read_text())
    model = load(DATA / f"two_step_{version}.dyad")
    rows = pd.DataFrame(known["rows"], ["p", "q"], ["a", "b", "c"])
    found = model.predict(rows)
    np.testing.assert_allclose(found, known["predictions"], rtol=1e-12)
    assert list(found.columns) == [10, 20, 30, 40]
    pairs = load(DATA / f"pairs_{version}.dyad")
    np.testing.assert_allclose(pairs.predict(known["pairs"]), known["pair predictions"], rtol=1e-12)
