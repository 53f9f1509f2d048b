"""
Molecules from SMILES, proteins from sequences
==============================================

SMILES describe one side, protein sequences the other, and the model predicts pairs of a new
molecule and a new protein. Molecules need rdkit (``pip install 'dyadlearn[chem]'``). If it was
missing when this page was built, there is no output.
"""

# sphinx_gallery_thumbnail_path = "images/thumbnails/chem_smiles_sequences.png"

import matplotlib.pyplot as plt
import numpy as np

from dyadlearn import TwoStepRidge
from dyadlearn.kernels import tanimoto
from dyadlearn.kernels.sequences import kmer_counts, spectrum_kernel

try:
    from dyadlearn.kernels.chemistry import fingerprints

    fingerprints(["C"])
except ImportError as absent:
    raise SystemExit(str(absent)) from None

molecules = {
    "ethanol": "CCO",
    "propanol": "CCCO",
    "butanol": "CCCCO",
    "acetic acid": "CC(=O)O",
    "propionic acid": "CCC(=O)O",
    "benzene": "c1ccccc1",
    "toluene": "Cc1ccccc1",
    "phenol": "Oc1ccccc1",
    "benzoic acid": "OC(=O)c1ccccc1",
    "aspirin": "CC(=O)Oc1ccccc1C(=O)O",
}
proteins = {  # synthetic: two families of three
    "P1": "MKVLAAGIWGKTREELAAGIW",
    "P2": "MKVLAAGIWGKSREELAAGLW",
    "P3": "MKVLAAGLWGKTREDLAAGIW",
    "Q1": "MSTPQRHHYWDNVCPFFGHTT",
    "Q2": "MSTPQRHHYWDQVCPFFGHTS",
    "Q3": "MSTAQRHHYWDNVCPFYGHTT",
}

# %%
# Fingerprints for the Tanimoto kernel, words of two letters for the spectrum kernel:
X, names = fingerprints(molecules)
words, ids = kmer_counts(proteins, k=2)
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
axes[0].imshow(tanimoto(X))
axes[0].set_yticks(range(len(names)), names)
axes[1].imshow(spectrum_kernel(proteins, k=2)[0])
labels = axes[1].set_yticks(range(len(ids)), ids)

# %%
# The labels are synthetic: the first family binds molecules with a ring, the second those without.
# Aspirin and the third protein of each family are not in the training data.
ring = np.array(["c1" in smiles for smiles in molecules.values()])
first = np.array([name.startswith("P") for name in ids])
Y = np.where(ring[:, None] == first[None, :], 1.0, -1.0)
known = np.arange(9)
family = np.array([0, 1, 3, 4])

model = TwoStepRidge(0.1, 0.1, kernel="tanimoto", task_kernel="cosine")
model.fit(X[known], Y[np.ix_(known, family)], tasks=words[family])

# %%
# A new molecule and two new proteins:
predicted = model.predict(X[[9]], tasks=words[[2, 5]])
for name, score in zip(("P3", "Q3"), predicted[0], strict=True):
    print(f"aspirin, {name}: {score:+.2f}")
