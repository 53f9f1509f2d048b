"""
Activity coefficients from SMILES
=================================

How far does a solute deviate from ideal behaviour in a solvent? The logarithm of its activity
coefficient at infinite dilution, ln γ, was measured for 2,810 pairs of 262 solvents and 156 solutes
at 298 K (Sanchez Medina and others, Digital Discovery 1:216, 2022). This example predicts pairs
that were not measured, corrects COSMO-RS, and predicts a solvent that is not in the table. Every
prediction has an interval.

The data are read from the folder in ``DYADLEARN_DATA``, and rdkit describes the molecules (``pip
install 'dyadlearn[chem]'``). If one of them was missing when this page was built, there is no
output.
"""

# sphinx_gallery_thumbnail_path = "images/thumbnails/data_activity.png"

import os
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from dyadlearn import LearnedKernelRidge, PairRegressor
from dyadlearn.exceptions import UnboundedIntervalWarning

try:
    from rdkit import Chem
    from rdkit.Chem.Descriptors import CalcMolDescriptors
    from rdkit.Chem.MACCSkeys import GenMACCSKeys

    from dyadlearn.kernels.chemistry import fingerprints

    measured = pd.read_csv(Path(os.environ.get("DYADLEARN_DATA", "."), "activity", "iac.csv.gz"))
except (ImportError, FileNotFoundError) as absent:
    raise SystemExit(str(absent)) from None

# %%
# SMILES in
# ---------
# A row is a solvent, a solute and ln γ. The publication set every fifth pair aside as a test.
pairs = measured[["Solvent_SMILES", "Solute_SMILES"]]
y = measured["ln_gamma"]
train = measured["test"] == 0
test = measured["test"] == 1
print(measured[["Solvent", "Solute", "ln_gamma", "COSMO_RS"]].head(3))

# %%
# Every molecule has three descriptions: the fragments around its atoms, its MACCS keys, and rdkit's
# descriptors (size, polarity, charges, …), which are standardised. The table also contains
# 2-methyltetrahydrofuran, a solvent from biomass without any measurement here.
green = "CC1CCCO1"
smiles = sorted({*pairs["Solvent_SMILES"], *pairs["Solute_SMILES"], green})
molecules = [Chem.MolFromSmiles(text) for text in smiles]
fragments = fingerprints(smiles, radius=1, n_bits=1024, counts=True)[0].toarray()
keys = [list(GenMACCSKeys(molecule)) for molecule in molecules]
numbers = np.array([list(CalcMolDescriptors(molecule, missingVal=0.0).values()) for molecule in molecules])
numbers = np.sign(numbers) * np.log1p(abs(numbers))
numbers = (numbers - numbers.mean(axis=0)) / np.maximum(numbers.std(axis=0), 1e-9)
tables = {"fragments": fragments, "keys": keys, "numbers": np.clip(numbers, -4, 4)}
described = {name: pd.DataFrame(table, index=smiles).astype(float) for name, table in tables.items()}
kernels = {"fragments": "minmax", "keys": "tanimoto", "numbers": "rbf"}


def regressor(setting: str) -> PairRegressor:
    """Return a model of pairs that learns how much each description weighs, for solvents and for solutes."""
    quick = {"stages": 1, "n_steps": 3, "tol": 1e-4, "progress": False}
    model = LearnedKernelRidge(kernel=kernels, task_kernel=kernels, setting=setting, **quick)
    return PairRegressor(model, instances=described, tasks=described)


# %%
# New pairs
# ---------
# The model learns from the training pairs and predicts the test pairs. Three steps in one stage are
# quick. The defaults take some minutes and are more accurate, because further stages also compare
# molecules by their measured pairs. One test pair has a new solvent and a solute that was
# measured in two solvents only. Its interval is infinite; the warning that says so is turned off.
warnings.simplefilter("ignore", UnboundedIntervalWarning)
alone = regressor("A").fit(pairs[train], y[train])
predicted = alone.predict(pairs[test])
lower, upper = alone.predict_interval(pairs[test], coverage=0.9)


def report(name: str, labels: np.ndarray, values: np.ndarray) -> None:
    """Print the mean absolute error and the root mean squared error."""
    gap = values - labels
    print(f"{name}: MAE {abs(gap).mean():.3f}, RMSE {np.sqrt((gap**2).mean()):.3f} ({len(gap)} pairs)")


report("learned from structures", y[test], predicted)
report("30 graph networks, published", y[test], measured.loc[test, "GNN"])
inside = (lower <= y[test]) & (y[test] <= upper)
print(f"{inside.mean():.0%} of the measured values are within the 90 % intervals")

# %%
# A correction of COSMO-RS
# ------------------------
# COSMO-RS contains much of the physics, so a model need only learn its error. Fit the difference,
# measured minus calculated, and add the calculated value to the prediction and to both bounds. Any
# column that is known before the measurement can be corrected like this, for instance UNIFAC or an
# older model.
offset = measured["COSMO_RS"]
known = offset.notna()
correction = regressor("A").fit(pairs[train & known], (y - offset)[train & known])
asked = test & known
corrected = correction.predict(pairs[asked]) + offset[asked]
bounds = [bound + offset[asked] for bound in correction.predict_interval(pairs[asked], coverage=0.9)]
report("COSMO-RS", y[asked], offset[asked])
report("COSMO-RS, corrected", y[asked], corrected)
width = np.median(bounds[1] - bounds[0])
width_alone = np.median(upper - lower)
print(f"median width of the intervals: {width:.2f}, without COSMO-RS {width_alone:.2f}")

figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), sharex=True, sharey=True, layout="constrained")
shown = {
    "From structures": (test, predicted, lower, upper),
    "COSMO-RS, corrected": (asked, corrected, *bounds),
}
for ax, (title, (rows, middle, low, high)) in zip(axes, shown.items(), strict=True):
    ax.vlines(y[rows], low, high, color="#1668b0", alpha=0.25)
    ax.plot(y[rows], middle, ".", color="#1668b0", markersize=4)
    ax.axline((0, 0), slope=1, color="black", linewidth=0.8)
    ax.set(title=title, xlabel="ln γ, measured")
_ = axes[0].set_ylabel("ln γ, predicted, with 90 % interval")

# %%
# A new solvent
# -------------
# 2-methyltetrahydrofuran is in no pair. For a new solvent the kernels are learned for setting B, by
# the errors on solvents that were left out. This is harder, so the intervals are wider. They are
# infinite for solutes that were measured in fewer than nine solvents. The example shows the solutes
# that were measured most often.
new_solvent = regressor("B").fit(pairs[train], y[train])
often = measured[train].groupby("Solute_SMILES")["Solute"].agg(["first", "size"]).nlargest(6, "size")
asked_for = pd.DataFrame({"solvent": green, "solute": often.index})
low, high = new_solvent.predict_interval(asked_for, coverage=0.9)
for name, value, least, most in zip(often["first"], new_solvent.predict(asked_for), low, high, strict=True):
    print(f"{name} in 2-methyltetrahydrofuran: ln γ = {value:.2f}, between {least:.2f} and {most:.2f}")
