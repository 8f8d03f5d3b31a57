"""Directions of chapter 5 of Traganitis (2019): kernels, links, ensembles of clusterings, colluding adversaries.

The thesis proposes them without figures; targets are the project's.  Seeds from 100 on were used nowhere else.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import scale

import consilience as cs
from benchmarks.breaking import trials
from benchmarks.figures import Figure
from consilience.datasets.networks import simulate_network
from consilience.datasets.subspaces import simulate_curves
from consilience.exceptions import ConsilienceWarning
from consilience.kernels._arrays import Floats, Ints

TRIALS = 6
FIRST = 100
#: Share of adversaries among 20 annotators, and known answers of 1000 items.
SHARES = 0.1, 0.3, 0.4, 0.5, 0.6, 0.7
KNOWN = 0, 5, 10, 20
METHODS = "majority", "ds-em", "tensor-admm+em", "auto"


def run() -> list[Figure]:
    """Run all four."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        return [*curves(), *links(), *clusterings(), *collusion()]


def curves() -> list[Figure]:
    """Compare kernel and linear sketches on closed curves in three dimensions; times are CPU seconds."""
    rows: dict[str, list[tuple[float, float]]] = {}
    for seed in range(FIRST, FIRST + trials(TRIALS)):
        X, y = simulate_curves(2000, 30, 3, random_state=seed)
        ways: dict[str, dict[str, Any]] = {
            "linear": {},
            "linear, cosine": {"similarity": "cosine"},
            "rbf": {"kernel": "rbf"},
            "rbf, random features": {"kernel": "rbf", "kernel_map": "random"},
            "polynomial": {"kernel": "polynomial"},
        }
        for name, options in ways.items():
            begun = time.process_time()
            found = cs.SketchedSubspaceClustering(3, **options).fit(X)
            rows.setdefault(name, []).append((_accuracy(found.labels_, y), time.process_time() - begun))
    mean = {name: np.mean(each, axis=0) for name, each in rows.items()}
    for name, (right, seconds) in mean.items():
        print(f"  {name:28} accuracy {right:.3f}, {seconds:.2f} s", flush=True)
    best = max(mean["linear"][0], mean["linear, cosine"][0])
    return [
        Figure("curves: accuracy of rbf beyond the better linear sketch", float(mean["rbf"][0] - best), 0.05, up=True),
        Figure("curves: time of rbf over linear", float(mean["rbf"][1] / mean["linear"][1]), 2.0, unit="×"),
    ]


def links() -> list[Figure]:
    """Link 50 pairs that differ: neighbours of networks with 150 items, or any pairs."""
    errors: dict[str, list[float]] = {}
    for seed in range(FIRST, FIRST + 2 * trials(TRIALS)):
        drawn = simulate_network(
            150, 10, 3, degree=4, agreement=0.7, labels_per_item=2, accuracy=(0.45, 0.75), seed=seed
        )
        a, y, rng = drawn.annotations, drawn.truth, np.random.default_rng(seed)
        differ = drawn.edges[y[drawn.edges[:, 0]] != y[drawn.edges[:, 1]]]
        drawn_pairs = rng.integers(0, 150, (400, 2))
        drawn_pairs = drawn_pairs[y[drawn_pairs[:, 0]] != y[drawn_pairs[:, 1]]]
        for name, pairs in {"none": None, "neighbours": differ[:50], "any pairs": drawn_pairs[:50]}.items():
            known: Any = {} if pairs is None else {"cannot_link": a.items[pairs]}
            errors.setdefault(name, []).append(cs.aggregate(a, graph=drawn.edges, **known).error_rate(y))
    mean = {name: float(np.mean(each)) for name, each in errors.items()}
    print("  cannot-link, % wrong: " + ", ".join(f"{name} {value:.1f}" for name, value in mean.items()), flush=True)
    return [Figure("50 cannot-links: error over that without", mean["neighbours"] / mean["none"], 0.5)]


def clusterings() -> list[Figure]:
    """Combine 15 clusterings with 3 to 8 clusters; the peer is spectral clustering of the co-association matrix."""
    ours, peers = [], []
    for load in (load_iris, load_wine, load_breast_cancer, load_digits):
        data = load()
        X, K, scores = scale(data.data), len(np.unique(data.target)), []
        for seed in range(FIRST, FIRST + max(trials(TRIALS) // 2, 1)):
            P = _partitions(X, 15, seed)
            peer = SpectralClustering(K, affinity="precomputed", random_state=0)
            together = (P[:, None, :] == P[None, :, :]).mean(axis=2)
            scores.append(
                (
                    adjusted_rand_score(cs.EnsembleClustering(K).fit(P).labels_, data.target),
                    adjusted_rand_score(peer.fit(together).labels_, data.target),
                )
            )
        mine, theirs = np.mean(scores, axis=0)
        print(f"  {load.__name__[5:]:14} ARI {mine:.3f}, co-association spectral {theirs:.3f}", flush=True)
        ours.append(mine)
        peers.append(theirs)
    return [
        Figure("ensembles: ARI beyond co-association spectral", float(np.mean(ours) - np.mean(peers)), 0.0, up=True)
    ]


def collusion() -> list[Figure]:
    """Print the error by the share of adversaries, alone and colluding, and by known answers where they win."""
    print("  % wrong of 1000 items, 3 classes, 20 annotators, 10 labels an item; share of adversaries in the columns")
    print(f"  {'':32}" + "".join(f"{share:8.0%}" for share in SHARES))
    for colluding in (False, True):
        for method in METHODS:
            errors = [_error(share, colluding, method) for share in SHARES]
            name = f"{method}, {'colluding' if colluding else 'each alone'}"
            print(f"  {name:32}" + "".join(f"{value:8.1f}" for value in errors), flush=True)
    errors = [_error(0.6, True, "ds-em", known) for known in KNOWN]
    print("  60 % collude, ds-em with known answers: " + ", ".join(map("{}: {:.1f}".format, KNOWN, errors)), flush=True)
    return [Figure("60 % collude: error with 20 known answers", errors[-1], 10.0, unit="%")]


def _error(share: float, colluding: bool, method: str, known: int = 0) -> float:
    errors = []
    for seed in range(FIRST, FIRST + max(trials(TRIALS) // 2, 1)):
        drawn = cs.simulate(
            1000, 20, 3, labels_per_item=10, adversaries=share, colluding=colluding, accuracy=(0.6, 0.9), seed=seed
        )
        gold = {int(n): int(drawn.truth[n]) for n in range(known)} or None
        errors.append(cs.aggregate(drawn.annotations, method, gold=gold).error_rate(drawn.truth))
    return float(np.mean(errors))


def _partitions(X: Floats, M: int, seed: int) -> Ints:
    rng, columns = np.random.default_rng(seed), []
    for _ in range(M):
        chosen = rng.choice(X.shape[1], max(2, X.shape[1] // 3), replace=False)
        means = KMeans(int(rng.integers(3, 9)), n_init=1, random_state=int(rng.integers(10**9)))
        columns.append(means.fit_predict(X[:, chosen]))
    return np.column_stack(columns).astype(np.int64)


def _accuracy(labels: Ints, truth: Ints) -> float:
    table = np.zeros((labels.max() + 1, truth.max() + 1))
    np.add.at(table, (labels, truth), 1)
    return float(table[linear_sum_assignment(-table)].sum() / len(truth))
