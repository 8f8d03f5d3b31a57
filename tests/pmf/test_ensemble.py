"""Ensembles of clusterings: against scikit-learn's spectral clustering of the co-association matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.datasets import load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import scale
from tests.estimators import failed_checks

import consilience as cs
from consilience.exceptions import DataError


def drawn(seed: int, n_items: int = 400, n_clusterings: int = 10) -> tuple[Any, Any]:
    """Draw clusterings with 3 to 8 clusters of items in 5: they merge, split and err."""
    rng = np.random.default_rng(seed)
    y = rng.choice(5, n_items, p=rng.dirichlet(np.full(5, 5.0)))
    columns = []
    for _ in range(n_clusterings):
        size = int(rng.integers(3, 9))
        of_class = rng.permutation(np.arange(max(5, size)) % size)[:5]
        split = np.where(rng.random(n_items) < 0.7, of_class[y], (of_class[y] + 1) % size)
        columns.append(np.where(rng.random(n_items) < rng.uniform(0.4, 0.95), split, rng.integers(0, size, n_items)))
    return np.column_stack(columns), y


def co_association(partitions: Any) -> Any:
    return (partitions[:, None, :] == partitions[None, :, :]).mean(axis=2)


def test_at_least_as_good_as_spectral_clustering_of_co_association() -> None:
    ours, peers = [], []
    for seed in range(6):
        partitions, y = drawn(seed)
        model = cs.EnsembleClustering(5).fit(partitions)
        peer = SpectralClustering(5, affinity="precomputed", random_state=0).fit(co_association(partitions))
        ours.append(adjusted_rand_score(model.labels_, y))
        peers.append(adjusted_rand_score(peer.labels_, y))
    assert np.mean(ours) >= np.mean(peers) + 0.01


def test_the_start_is_spectral_clustering_of_co_association() -> None:
    partitions, _ = drawn(7)
    model = cs.EnsembleClustering(5).fit(partitions)
    W = co_association(partitions)
    root = np.sqrt(W.sum(axis=1))
    _, vectors = np.linalg.eigh(W / np.outer(root, root))
    rows = vectors[:, -5:] / np.linalg.norm(vectors[:, -5:], axis=1, keepdims=True)
    peer = KMeans(5, n_init=20, random_state=0).fit(rows)
    assert adjusted_rand_score(model.start_, peer.labels_) > 0.98


def test_k_means_of_features_drawn_at_random() -> None:
    wine = load_wine()
    X, rng, columns = scale(wine.data), np.random.default_rng(0), []
    for k in (3, 4, 5, 6, 7, 8) * 3:
        chosen = rng.choice(X.shape[1], 4, replace=False)
        columns.append(KMeans(k, n_init=1, random_state=int(rng.integers(10**6))).fit_predict(X[:, chosen]))
    model = cs.EnsembleClustering(3).fit(np.column_stack(columns))
    single = np.mean([adjusted_rand_score(column, wine.target) for column in columns])
    found = adjusted_rand_score(model.labels_, wine.target)
    assert found > single + 0.3
    assert found >= adjusted_rand_score(model.start_, wine.target) - 0.02


def test_names_of_clusters_do_not_matter_and_entries_may_be_missing() -> None:
    partitions, y = drawn(3)
    plain = cs.EnsembleClustering(5).fit(partitions)
    frame = pd.DataFrame({f"c{m}": [f"group {9 - k}" for k in column] for m, column in enumerate(partitions.T)})
    named = cs.EnsembleClustering(5).fit(frame)
    assert adjusted_rand_score(named.labels_, plain.labels_) == 1.0
    np.testing.assert_allclose(named.probas_.sum(axis=1), 1.0)
    holes = np.where(np.random.default_rng(0).random(partitions.shape) < 0.3, -1, partitions)
    assert adjusted_rand_score(cs.EnsembleClustering(5).fit(holes).labels_, y) > 0.6
    assert [confusion.shape[1] for confusion in plain.confusions_] == [5] * 10
    rng = np.random.default_rng(1)
    noisy = cs.EnsembleClustering(5).fit(np.column_stack([partitions, rng.integers(0, 4, 400)]))
    assert noisy.information_[-1] < 0.05 < noisy.information_[:-1].min()
    with pytest.raises(DataError, match="no item"):
        cs.EnsembleClustering(2).fit([[0, -1], [1, -1]])


@pytest.mark.filterwarnings("ignore::consilience.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_checks() -> None:
    """Columns are clusterings, so numbers that are all different do not show clusters of points."""
    assert set(failed_checks(cs.EnsembleClustering(2), 20)) == {"check_clustering"}
