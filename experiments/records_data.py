"""The data of `records.py`: from raw entities to named kernels of both sides, before any label is looked at.

`davis`, `kiba`, `yamanishi` and `ratings` each give the labels and, for either side, kernels by
name: symmetric, finite, ones on the diagonal. What takes long is kept in a folder outside the
checkout, so that the next call reads it. What rdkit says of molecules is kept by itself, in a small
file: with that, a machine without rdkit makes the kernels.

The kernels are those of *all* entities, the ones that are held out included, also where new drugs
or new targets are predicted. That is fair: a kernel is a function of structures, sequences or
graphs, which are known of a new entity the moment one asks about it, and no label enters. Nearly
all values depend on the two entities compared and on nothing else. Three things depend on the
others as well, without their labels: the scale of the descriptors of molecules, the repair of
Yamanishi's similarities, and diffusion, which has the whole graph to flow through.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from drug_target import find_data
from ratings import load_ratings
from scipy import sparse

from dyadlearn._files.atomic import replacing
from dyadlearn.datasets import fetch_davis, fetch_kiba, fetch_yamanishi
from dyadlearn.datasets._home import resolve_home
from dyadlearn.exceptions import KernelRepairWarning
from dyadlearn.kernels import diffusion_kernel, gram, normalize, repair
from dyadlearn.kernels.sequences import kmer_counts

#: Part of the name of everything kept: another one when the kernels are computed in another way.
VERSION = "2"

#: Columns of the fingerprints, and the most that a column counts.
WIDTH = 4096
MOST = 255
#: The share of stored entries from which the distances behind min–max are faster to compute of
#: dense features.
DENSE = 0.1
WORDS = (2, 3, 4, 5)
BETAS = (0.5, 2.0, 8.0)

Kernels = dict[str, np.ndarray]


@dataclass(frozen=True)
class Data:
    """Labels, and the kernels of both sides by name.

    Attributes
    ----------
    name : str
    Y : ndarray of shape (m, q)
        The labels, drugs × targets or users × movies; NaN where there is none, or none to learn
        from.
    K : dict of str to ndarray of shape (m, m)
        Kernels of the rows.
    G : dict of str to ndarray of shape (q, q)
        Kernels of the columns; empty where nothing is known about them.
    Y_test : ndarray of shape (m, q) or None
        The labels of the published test part, NaN elsewhere; None where no split was published.
    """

    name: str
    Y: np.ndarray
    K: Kernels = field(repr=False)
    G: Kernels = field(repr=False)
    Y_test: np.ndarray | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Described:
    """One description of entities: features (n, d), and the kernel that compares them."""

    features: Any
    kernel: str
    params: Mapping[str, Any] | None = None

    def gram(self) -> np.ndarray:
        """Return the kernel matrix (n, n)."""
        features = self.features
        if sparse.issparse(features) and features.nnz > DENSE * np.prod(features.shape):
            features = features.toarray()
        return np.asarray(gram(features, kernel=self.kernel, kernel_params=self.params))


def davis(data_home: str | None = None, cache: str | os.PathLike[str] | None = None) -> Data:
    """Return pKd of 68 drugs × 442 kinases, all of them measured, ten kernels of drugs and five of kinases."""
    downloaded = fetch_davis(data_home=find_data(data_home), instances="drugs")
    return _binding("davis", downloaded, cache)


def kiba(data_home: str | None = None, cache: str | os.PathLike[str] | None = None) -> Data:
    """Return the KIBA scores of 2,111 drugs × 229 kinases, a quarter of them observed, and the same kernels."""
    downloaded = fetch_kiba(data_home=find_data(data_home), instances="drugs")
    return _binding("kiba", downloaded, cache)


def yamanishi(name: str, data_home: str | None = None) -> Data:
    """Return interactions, 0 or 1, of drugs × targets, and one kernel of each side.

    That is the published similarity: the mean of both directions, negative eigenvalues clipped,
    scaled to ones on the diagonal.

    Parameters
    ----------
    name : {"nr", "gpcr", "ic", "e"}
    data_home : str or None
        The folder of data sets.
    """
    downloaded = fetch_yamanishi(name, data_home=find_data(data_home), instances="drugs")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelRepairWarning)
        K, G = (
            normalize(repair(similarity, symmetrize="mean", psd="clip"))
            for similarity in (downloaded.K, downloaded.G)
        )
    return Data(name, downloaded.Y, {"similarity": whole(K)}, {"similarity": whole(G)})


def ratings(
    name: str,
    data_home: str | None = None,
    cache: str | os.PathLike[str] | None = None,
    *,
    normalized: bool = False,
) -> Data:
    """Return ratings of users × movies as published, to learn from and to test on, and heat kernels of the graphs.

    Parameters
    ----------
    name : {"douban", "flixster"}
        The movies of Douban have no graph, so no kernels.
    data_home : str or None
        The folder of data sets.
    cache : path or None
        Where kernels are kept.
    normalized : bool, default=False
        Whether the Laplacian is the normalised one. Without it, what flows within a dense graph is
        soon the same everywhere: the users of Flixster have 20 friends each, and at β = 8 all are
        alike.
    """
    loaded = load_ratings(name, data_home=find_data(data_home))

    def compute(edges: np.ndarray, n: int) -> Kernels:
        key = digest("heat", normalized, n, *edges.ravel().tolist())
        return kept(
            f"{name}-heat", key, cache, lambda: heat_kernels(edges, n, normalized=normalized)
        )

    K, G = (
        {} if edges is None else compute(edges, n)
        for edges, n in zip((loaded.instance_edges, loaded.task_edges), loaded.Y.shape, strict=True)
    )
    return Data(name, loaded.Y, K, G, loaded.Y_test)


def _binding(name: str, downloaded: Any, cache: str | os.PathLike[str] | None) -> Data:
    """Return the labels of drugs × targets with kernels of structures and sequences."""
    smiles, sequences = (
        in_order(texts, names, what, name)
        for texts, names, what in (
            (downloaded.smiles, downloaded.instance_names, "structures (SMILES)"),
            (downloaded.sequences, downloaded.task_names, "sequences"),
        )
    )
    features = kept_features(name, smiles, cache)
    key = digest("drugs", *(array.tobytes() for array in features.values()))
    K = kept(f"{name}-drugs", key, cache, lambda: _grams(drug_descriptions(features)))
    G = kept(
        f"{name}-targets",
        digest("targets", *sequences),
        cache,
        lambda: _grams(target_descriptions(sequences)),
    )
    return Data(name, downloaded.Y, K, {"smith_waterman": whole(downloaded.G), **G})


def _grams(descriptions: Mapping[str, Described]) -> Kernels:
    # Distances take most of the time, on one core each.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(
            zip(
                descriptions,
                pool.map(lambda description: whole(description.gram()), descriptions.values()),
                strict=True,
            )
        )


def in_order(texts: Mapping[str, str], names: Sequence[Any], what: str, name: str) -> list[str]:
    """Return the texts of all entities in the order of `names`, or say whose are not there."""
    missing = [str(entity) for entity in names if str(entity) not in texts]
    if missing:
        raise FileNotFoundError(
            f"{name} has no {what} of {len(missing)} of its {len(names)} entities "
            f"({', '.join(missing[:3])}, …): put "
            "the file that has them beside the others."
        )
    return [texts[str(entity)] for entity in names]


# --- Descriptions ---------------------------------------------------------------------------------


def drug_features(smiles: Sequence[str]) -> dict[str, np.ndarray]:
    """Return what rdkit says of molecules (n, d) by name: counts of each fingerprint, MACCS keys and descriptors."""
    from rdkit import Chem, rdBase
    from rdkit.Chem import MACCSkeys
    from rdkit.Chem.rdFingerprintGenerator import (
        GetAtomPairGenerator,
        GetMorganFeatureAtomInvGen,
        GetMorganGenerator,
        GetRDKitFPGenerator,
        GetTopologicalTorsionGenerator,
    )

    with rdBase.BlockLogs():
        molecules = [Chem.MolFromSmiles(text) for text in smiles]
        wrong = [text for text, molecule in zip(smiles, molecules, strict=True) if molecule is None]
        if wrong:
            raise ValueError(
                f"{len(wrong)} of {len(smiles)} structures are no valid SMILES: "
                f"{', '.join(wrong[:3])}."
            )
        generators = {
            f"morgan{radius}": GetMorganGenerator(radius=radius, fpSize=WIDTH)
            for radius in (1, 2, 3)
        }
        kinds = GetMorganFeatureAtomInvGen()
        generators["feature_morgan2"] = GetMorganGenerator(
            radius=2, fpSize=WIDTH, atomInvariantsGenerator=kinds
        )
        generators["atom_pairs"] = GetAtomPairGenerator(fpSize=WIDTH)
        generators["torsions"] = GetTopologicalTorsionGenerator(fpSize=WIDTH)
        generators["paths"] = GetRDKitFPGenerator(fpSize=WIDTH, maxPath=6)
        features = {
            name: count_columns(generator, molecules) for name, generator in generators.items()
        }
        features["maccs"] = np.array(
            [list(MACCSkeys.GenMACCSKeys(molecule)) for molecule in molecules], dtype=np.uint8
        )
        features["descriptors"] = molecule_numbers(molecules)
    return features


def drug_descriptions(features: Mapping[str, np.ndarray]) -> dict[str, Described]:
    """Return ten descriptions of molecules by name, each with its kernel, of `drug_features`.

    Counts of circular neighbourhoods (of atoms up to radius 1, 2, 3, and of kinds of atoms up to
    2), of pairs of atoms, of chains of four and of paths, compared by min–max; which neighbourhoods
    and which MACCS keys occur, compared by Tanimoto; and physical and chemical descriptors,
    compared by an RBF.
    """
    counts = {
        name: sparse.csr_array(matrix).astype(np.float64)
        for name, matrix in features.items()
        if name not in ("maccs", "descriptors")
    }
    described = {name: Described(matrix, "minmax") for name, matrix in counts.items()}
    described["morgan2_bits"] = Described((counts["morgan2"] > 0).astype(np.float64), "tanimoto")
    described["maccs"] = Described(features["maccs"].astype(np.float64), "tanimoto")
    scaled = tame(features["descriptors"])
    described["descriptors"] = Described(scaled, "rbf", {"gamma": bandwidth(scaled)})
    return described


def count_columns(generator: Any, molecules: Sequence[Any]) -> np.ndarray:
    """Return how often each column of a fingerprint occurs in each molecule (n, WIDTH), at most MOST times."""
    counts = np.zeros((len(molecules), WIDTH), dtype=np.uint8)
    for row, molecule in zip(counts, molecules, strict=True):
        for column, count in generator.GetCountFingerprint(molecule).GetNonzeroElements().items():
            row[column] = min(count, MOST)
    return counts


def molecule_numbers(molecules: Sequence[Any]) -> np.ndarray:
    """Return all of rdkit's descriptors of each molecule (n, d); NaN where one cannot be computed."""
    from rdkit.Chem.Descriptors import CalcMolDescriptors

    rows = [
        list(CalcMolDescriptors(molecule, missingVal=np.nan).values()) for molecule in molecules
    ]
    return np.array(rows, dtype=np.float64)


def tame(numbers: np.ndarray, most: float = 4.0) -> np.ndarray:
    """Return columns (n, d) of any range as ones of mean 0 and deviation 1: signed logarithms, cut off at ±`most`.

    What is NaN or infinite counts as the mean of its column, and columns that do not vary are zero.
    """
    logs = np.sign(numbers) * np.log1p(np.abs(numbers))
    known = np.isfinite(logs)
    n_known = np.maximum(known.sum(axis=0), 1)
    centred = np.where(known, logs, 0.0)
    centred = np.where(known, centred - centred.sum(axis=0) / n_known, 0.0)
    deviation = np.sqrt((centred**2).sum(axis=0) / n_known)
    # Rounding leaves a column of equal numbers a deviation, but not one that counts.
    varies = deviation > 1e-9 * np.maximum(np.where(known, np.abs(logs), 0.0).max(axis=0), 1.0)
    return np.asarray(np.clip(centred / np.where(varies, deviation, np.inf), -most, most))


def bandwidth(features: np.ndarray) -> float:
    """Return 1 / the mean squared distance between rows (n, d), the γ at which an RBF neither peaks nor is flat."""
    mean_square = 2.0 * features.var(axis=0).sum()
    return 1.0 / mean_square if mean_square > 0 else 1.0


def target_descriptions(sequences: Sequence[str]) -> dict[str, Described]:
    """Return descriptions of proteins by name: roots of how often words of 2, 3, 4, 5 letters occur, with cosines."""
    described = {}
    for k in WORDS:
        counts, _ = kmer_counts(list(sequences), k=k)
        described[f"words{k}"] = Described(counts.astype(np.float64).sqrt(), "cosine")
    return described


def heat_kernels(edges: np.ndarray, n: int, *, normalized: bool = False) -> Kernels:
    r"""Return :math:`\exp(-\beta L)` of a graph of n nodes for all BETAS, scaled to ones on the diagonal.

    A node without an edge is similar to itself alone. β grows by factors of four, and
    :math:`\exp(-4\beta L) = \exp(-\beta L)^4`: two squarings, whose terms all are non-negative and cancel nothing, take
    the place of another eigendecomposition.
    """
    joined = np.unique(edges)
    flow = np.maximum(
        diffusion_kernel(edges, joined.tolist(), beta=BETAS[0], normalized=normalized), 0.0
    )
    kernels = {}
    for place, beta in enumerate(BETAS):
        if place:
            for _ in range(2):
                flow = flow @ flow
        kernel = np.eye(n)
        kernel[np.ix_(joined, joined)] = normalize(flow)
        kernels[f"heat{beta:g}"] = whole(kernel)
    return kernels


def whole(K: np.ndarray) -> np.ndarray:
    """Return a kernel (n, n) that is symmetric to the last digit with ones on its diagonal, or refuse NaN and infinity.

    An entity that a description says nothing of, such as a protein shorter than a word, is similar
    to itself alone.
    """
    K = np.asarray((K + K.T) / 2, dtype=np.float64)
    if not np.isfinite(K).all():
        raise ValueError(
            f"A kernel of {len(K)} entities has NaN or infinity in {(~np.isfinite(K)).sum()} cells."
        )
    np.fill_diagonal(K, 1.0)
    return K


# --- What is kept ---------------------------------------------------------------------------------


def digest(*parts: Any) -> str:
    """Return a short text that is another one for other parts, and another version of this file."""
    sum_of_all = hashlib.blake2b(VERSION.encode(), digest_size=8)
    for part in parts:
        sum_of_all.update(b"\n" + (part if isinstance(part, bytes) else str(part).encode()))
    return sum_of_all.hexdigest()


def kept_features(
    name: str, smiles: Sequence[str], cache: str | os.PathLike[str] | None
) -> dict[str, np.ndarray]:
    """Return `drug_features`, kept for each version of rdkit; without rdkit, those that were kept of any."""
    title = f"{name}-molecules"
    key = digest("molecules", *smiles)
    try:
        from rdkit import __version__ as release
    except ImportError:
        there = sorted(path.stem for path in cache_folder(cache).glob(f"{title}-{key}-rdkit*.npz"))
        if not there:
            raise ModuleNotFoundError(
                f"The molecules of {name} have to be described by rdkit, which is not installed: "
                f"pip install rdkit, or "
                f"put {title}-{key}-rdkit*.npz from a machine that has it into "
                f"{cache_folder(cache)}."
            ) from None
        release = there[-1].rpartition("-rdkit")[2]
    return kept(
        title, f"{key}-rdkit{release}", cache, lambda: drug_features(smiles), compressed=True
    )


def kept(
    name: str,
    key: str,
    cache: str | os.PathLike[str] | None,
    compute: Callable[[], Kernels],
    *,
    compressed: bool = False,
) -> Kernels:
    """Return the arrays kept under a name and key, or compute and keep them; a damaged file is computed again."""
    folder = cache_folder(cache)
    path = folder / f"{name}-{key}.npz"
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return {name_of_array: stored[name_of_array] for name_of_array in stored.files}
    except FileNotFoundError:
        pass
    except (OSError, ValueError, EOFError, BadZipFile):
        warnings.warn(f"{path} is damaged and is computed again.", UserWarning, stacklevel=2)
    arrays = compute()
    with replacing(path) as file:
        (np.savez_compressed if compressed else np.savez)(file, **arrays)
    return arrays


def cache_folder(cache: str | os.PathLike[str] | None = None) -> Path:
    """Return where kernels are kept: the folder given, else ``records`` in that of data sets if one can write there.

    Else it is one among the temporary files. It is made where it is not there.
    """
    if cache is not None:
        folder = Path(cache).expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    folder = resolve_home() / "records"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    return cache_folder(Path(tempfile.gettempdir()) / "dyadlearn-records")
