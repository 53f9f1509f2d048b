"""One file of each format is kept: those that are read predict as they did, older ones are refused in a sentence.

After a change of the format, ``python tests/store/test_container_formats.py`` writes the files of the new
one.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dyadlearn import KroneckerRidge, PairRegressor, TwoStepRidge, load, save
from dyadlearn.exceptions import ModelFileError
from dyadlearn.store.container import OLDEST, VERSION
from sweeps import lines, over

DATA = Path(__file__).parent / "data"
TASKS = [10, 20, 30, 40]


def test_every_format_has_a_file():
    assert {int(path.stem.rpartition("_")[2]) for path in DATA.glob("two_step_*.dyad")} == set(
        range(4, VERSION + 1)
    )


@pytest.mark.parametrize("version", range(OLDEST, VERSION + 1))
def test_a_format_that_is_read_predicts_as_it_did(version):
    known = json.loads((DATA / f"predictions_{version}.json").read_text())
    model = load(DATA / f"two_step_{version}.dyad")
    predictions = model.predict(pd.DataFrame(known["rows"], ["p", "q"], ["a", "b", "c"]))
    np.testing.assert_allclose(predictions, known["predictions"], rtol=1e-12)
    assert list(predictions.columns) == TASKS
    pairs = load(DATA / f"pairs_{version}.dyad")
    np.testing.assert_allclose(pairs.predict(known["pairs"]), known["pair predictions"], rtol=1e-12)


@over(lines("version", *range(4, OLDEST)))
def test_an_older_format_is_refused(version):
    words = (
        f"is in format {version} of an older dyadlearn, and this one reads formats from {OLDEST} on: "
        "fit the model again"
    )
    with pytest.raises(ModelFileError, match=words):
        load(DATA / f"two_step_{version}.dyad")


def write_files():
    """Write the files of today's format, and what their models predict."""
    rng = np.random.default_rng(0)
    drugs = pd.DataFrame(
        rng.normal(size=(6, 3)).round(3), [f"drug {i}" for i in range(6)], ["a", "b", "c"]
    )
    targets = pd.DataFrame(rng.normal(size=(4, 2)).round(3), TASKS, ["d", "e"])
    labels = pd.DataFrame(rng.normal(size=(6, 4)).round(3), drugs.index, TASKS)
    rows = rng.normal(size=(2, 3)).round(3).tolist()
    pairs = [("drug 0", task) for task in TASKS[:3]]
    model = TwoStepRidge(0.5, 0.3, task_kernel="rbf").fit(drugs, labels, targets)
    table = PairRegressor(KroneckerRidge(0.5), instances=drugs, tasks=targets)
    table.fit([(drug, task) for drug in drugs.index for task in TASKS], labels.to_numpy().ravel())
    known = {
        "rows": rows,
        "predictions": model.predict(pd.DataFrame(rows, ["p", "q"], drugs.columns))
        .to_numpy()
        .tolist(),
        "pairs": pairs,
        "pair predictions": table.predict(pairs).tolist(),
    }
    (DATA / f"predictions_{VERSION}.json").write_text(json.dumps(known) + "\n")
    save(model, DATA / f"two_step_{VERSION}.dyad")
    save(table, DATA / f"pairs_{VERSION}.dyad")


if __name__ == "__main__":
    write_files()
