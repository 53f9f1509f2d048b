"""
A model in a file
=================

Save a model, load it and predict. The file contains arrays and a header of plain text. Loading
executes no code, and a file that was truncated or changed raises an error.
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
# The loaded model has exactly the same coefficients. It can predict, hold out and change its
# regularisation.
again = load(path)
np.testing.assert_array_equal(again.dual_coef_, model.dual_coef_)
np.testing.assert_allclose(again.predict(data.X), model.predict(data.X))
np.testing.assert_allclose(again.holdout("D"), model.holdout("D"))
print(type(again).__name__, again.alpha_, again.task_alpha_)

# %%
# The file also contains the landscape of the search:
LandscapeDisplay.from_estimator(again)

# %%
# A truncated file raises an error:
path.write_bytes(path.read_bytes()[:20_000])
try:
    load(path)
except ModelFileError as error:
    print(str(error).replace(str(path), path.name))
folder.cleanup()
