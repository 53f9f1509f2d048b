"""Visits of hummingbirds: from the real archive, and from a small one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dyadlearn.datasets import load_hummingbird
from dyadlearn.exceptions import DataFileError, IdError

SITES = {"forest": (20, 8, 1288, 52), "shrubs": (19, 12, 3979, 53), "cattle": (19, 9, 2405, 52)}

# Trees and traits have an order of their own, and species that are not at the site.
SMALL = {
    "net_forest_counts": np.array([[13, 0, 2], [1, 4, 0]], dtype=np.int32),
    "net_forest_plants": np.array(["Fuchsia", "Bomarea"]),
    "net_forest_birds": np.array(["Lesbia", "Colibri", "Ensifera"]),
    "plant_tree_tips": np.array(["Salvia", "Bomarea", "Fuchsia"]),
    "plant_phylo_vcv": np.array([[5.0, 1, 2], [1, 6, 3], [2, 3, 7]]),
    "plant_trait_ids": np.array(["Bomarea", "Fuchsia", "Salvia"]),
    "plant_trait": np.array([1.0, 2.0, 3.0]),
    "humm_tree_tips": np.array(["Colibri", "Ensifera", "Lesbia"]),
    "humm_phylo_vcv": np.array([[2.0, 0.5, 1], [0.5, 3, 0.25], [1, 0.25, 4]]),
    "humm_trait_ids": np.array(["Ensifera", "Lesbia", "Colibri"]),
    "humm_trait": np.array([97.5, 16.0, 24.0]),
}


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("DYADLEARN_DATA", str(tmp_path_factory.mktemp("home")))


def write(folder, **changes):
    folder.mkdir(exist_ok=True)
    np.savez(folder / "tinoco.npz", **{key: value for key, value in (SMALL | changes).items() if value is not None})
    return folder


@pytest.mark.parametrize("site", SITES)
def test_the_published_networks(site, shared_data):
    m, q, visits, pairs = SITES[site]
    data = load_hummingbird(shared_data, site=site)
    assert data.Y.shape == (m, q)
    assert data.Y.sum() == visits
    assert np.count_nonzero(data.Y) == pairs
    for kernel, traits, names, n in (
        (data.K, data.instance_traits, data.instance_names, m),
        (data.G, data.task_traits, data.task_names, q),
    ):
        assert kernel.shape == (n, n)
        assert_array_equal(kernel, kernel.T)
        assert np.linalg.eigvalsh(kernel)[0] > 0
        assert traits.shape == (n, 1)
        assert (traits > 0).all()
        assert len(set(names.tolist())) == n
    assert f"``{site}``  {m}" in load_hummingbird.__doc__
    for fact in (site, f"{m} plants", f"{q} hummingbirds", f"{visits:,}"):
        assert fact in data.DESCR


def test_traits_are_those_of_the_species(shared_data):
    data = load_hummingbird(shared_data / "hummingbird_plant", site="shrubs", instances="birds")
    # The sword-billed hummingbird.
    assert data.instance_traits[data.instance_names.tolist().index("Ensifera ensifera"), 0] == 97.5
    assert data.Y.shape == (12, 19)


@pytest.mark.parametrize("folder", [".", "hummingbird_plant"])
def test_species_are_aligned_by_name(tmp_path, folder):
    write(tmp_path / folder)
    data = load_hummingbird(tmp_path)
    plants, birds = np.array([[7.0, 3], [3, 6]]), np.array([[4.0, 1, 0.25], [1, 2, 0.5], [0.25, 0.5, 3]])
    assert_array_equal(data.Y, SMALL["net_forest_counts"])
    assert data.Y.dtype == np.float64
    assert_array_equal(data.K, plants)
    assert_array_equal(data.G, birds)
    assert_array_equal(data.instance_traits, [[2], [1]])
    assert_array_equal(data.task_traits, [[16], [24], [97.5]])
    turned = load_hummingbird(tmp_path, instances="birds")
    assert_array_equal(turned.Y, data.Y.T)
    assert_array_equal(turned.K, birds)
    assert_array_equal(turned.G, plants)
    assert_array_equal(turned.instance_traits, data.task_traits)
    assert turned.instance_names.tolist() == ["Lesbia", "Colibri", "Ensifera"]


def test_bad_input(tmp_path):
    with pytest.raises(ValueError, match="site must be one of 'forest', 'shrubs', 'cattle', found 'sea'"):
        load_hummingbird(site="sea")
    with pytest.raises(ValueError, match="instances must be one of 'plants', 'birds', found 'drugs'"):
        load_hummingbird(instances="drugs")
    with pytest.raises(FileNotFoundError, match="'hummingbird' is not in .*tinoco.npz .*hummingbird_plant"):
        load_hummingbird(tmp_path)
    write(tmp_path)
    with pytest.raises(
        ValueError, match="tinoco.npz lacks the arrays net_cattle_counts, net_cattle_plants, net_cattle"
    ):
        load_hummingbird(tmp_path, site="cattle")
    write(tmp_path, net_forest_counts=np.ones((3, 2)))
    with pytest.raises(
        ValueError, match=r"net_forest_counts has shape \(3, 2\), expected \(2, 3\) by plants and birds"
    ):
        load_hummingbird(tmp_path)
    write(tmp_path, humm_phylo_vcv=np.eye(2))
    with pytest.raises(DataFileError, match=r"humm_phylo_vcv has shape \(2, 2\), expected \(3, 3\) by humm_tree_tips"):
        load_hummingbird(tmp_path)
    write(tmp_path, humm_trait_ids=np.array(["Ensifera", "Lesbia", "Topaza"]))
    with pytest.raises(IdError, match="'Colibri' not among the ids of humm_trait_ids of .*tinoco.npz"):
        load_hummingbird(tmp_path)
    (tmp_path / "tinoco.npz").write_bytes((write(tmp_path) / "tinoco.npz").read_bytes()[:300])
    with pytest.raises(ValueError, match="tinoco.npz is damaged or no npz archive"):
        load_hummingbird(tmp_path)
