"""
A model in a file
=================

Save, load, predict. The file holds arrays and a header of plain text: nothing in it is executed, and one that was cut
short or changed is refused.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from dyadlearn import TwoStepRidgeCV, load, save
from dyadlearn.datasets import make_dyads
from dyadlearn.exceptions import ModelFileError
from dyadlearn.plots import LandscapeDisplay

data = make_dyads(50, 30, noise=0.3, random_state=0)
model = TwoStepRidgeCV(setting="D", kernel="rbf", task_kernel="rbf").fit(data.X, data.Y, tasks=data.tasks)

folder = TemporaryDirectory()
path = Path(folder.name, "model.dyad")
save(model, path)
print(f"{path.stat().st_size / 1024:.0f} KiB")

# %%
# The same model comes back, its coefficients to the bit: it predicts, holds out and can be regularised anew.
again = load(path)
np.testing.assert_array_equal(again.dual_coef_, model.dual_coef_)
np.testing.assert_allclose(again.predict(data.X), model.predict(data.X))
np.testing.assert_allclose(again.holdout("D"), model.holdout("D"))
print(type(again).__name__, again.alpha_, again.task_alpha_)

# %%
# The landscape that was searched is in the file too:
LandscapeDisplay.from_estimator(again)

# %%
# Half a file is no model:
path.write_bytes(path.read_bytes()[:20_000])
try:
    load(path)
except ModelFileError as error:
    print(str(error).replace(str(path), path.name))
folder.cleanup()
