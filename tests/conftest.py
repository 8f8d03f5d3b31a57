"""What many tests share."""

from __future__ import annotations

import os
import warnings
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.datasets import Crowd, Simulation, load
from consilience.exceptions import ConsilienceWarning
from consilience.fitting.fit import Fit
from consilience.kernels._arrays import Floats, Ints
from consilience.models.dawid_skene import DawidSkene


@pytest.fixture
def data_folder() -> Path:
    """The folder of public data sets, or a skip."""
    folder = os.environ.get("CONSILIENCE_DATA", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("CONSILIENCE_DATA does not name a folder of data sets")
    return Path(folder)


def real_crowd(name: str) -> tuple[Annotations, Ints]:
    """A public crowd, and the class code of every item (-1 where the truth is not known)."""
    crowd = load(name)
    assert isinstance(crowd, Crowd)
    return crowd.annotations, crowd.annotations.codes_of_truth(crowd.truth).astype(np.int64)


def random_model(M: int, K: int, seed: int, skill: float = 0.6) -> DawidSkene:
    """A crowd of mixed ability; columns of the confusions sum to one."""
    rng = np.random.default_rng(seed)
    errors = rng.dirichlet(np.ones(K), (M, K)).transpose(0, 2, 1)
    share = rng.uniform(0.5 * skill, min(1.3 * skill, 0.95), (M, 1, 1))
    confusions = share * np.eye(K) + (1 - share) * errors
    return DawidSkene(rng.dirichlet(5 * np.ones(K)), confusions, list(range(K)), list(range(M)))  # type: ignore[arg-type]


def brute_force(annotations: Annotations, prior: Floats, confusions: Floats) -> tuple[Floats, Floats, float]:
    """Posterior, M-step counts and log-likelihood, one label at a time from the definition."""
    K = prior.size
    posterior = np.empty((annotations.n_items, K))
    counts = np.zeros_like(confusions)
    total = 0.0
    for n in range(annotations.n_items):
        labels = range(annotations.indptr[n], annotations.indptr[n + 1])
        log_joint = np.log(prior)
        for i in labels:
            log_joint = log_joint + np.log(confusions[annotations.annotator[i], annotations.label[i]])
        if annotations.gold is not None and annotations.gold[n] >= 0:
            log_joint = np.where(np.arange(K) == annotations.gold[n], log_joint, -np.inf)
        top = log_joint.max()
        evidence = top + np.log(np.exp(log_joint - top).sum())
        posterior[n] = np.exp(log_joint - evidence)
        total += float(evidence)
        for i in labels:
            counts[annotations.annotator[i], annotations.label[i]] += posterior[n]
    return posterior, counts, total


def quietly(data: Any, method: str = "auto", **options: Any) -> cs.Consensus:
    """The consensus, whatever it warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        return cs.aggregate(data, method, **options)


def error_percent(labels: Ints, truth: Ints) -> float:
    """Percentage of wrong labels where the truth is known."""
    known = truth >= 0
    return 100.0 * float(np.mean(labels[known] != truth[known]))


def table7_error(model: DawidSkene, truth: DawidSkene) -> float:
    """The mean squared error of Ibrahim & Fu (2022), eq. (19), over the best common order of the classes."""
    M, K, _ = truth.confusions.shape
    costs = [
        ((model.prior[list(order)] - truth.prior) ** 2).sum()
        + ((model.confusions[:, :, list(order)] - truth.confusions) ** 2).sum()
        for order in permutations(range(K))
    ]
    return float(min(costs) / (M * K + 1))


def table7_crowd(seed: int, n_items: int, K: int = 3, M: int = 25) -> Simulation:
    """The crowds of their Table 7: arbitrary annotators, one who is nearly perfect, each labels three items in ten."""
    rng = np.random.default_rng(seed)
    A = rng.dirichlet(np.ones(K), size=(M, K)).transpose(0, 2, 1).copy()
    A[0] = 0.95 * np.eye(K) + 0.05 / K
    model = DawidSkene(np.full(K, 1 / K), A, Ids.range(K), Ids([f"a{m}" for m in range(M)]))
    annotations, truth = model.sample(n_items, label_probability=0.3, random_state=rng)
    return Simulation(annotations, truth, model, ("any",) * M)


def sound(done: Fit) -> bool:
    """Whether all that it says are probabilities."""
    rows = np.allclose(done.posterior.sum(axis=1), 1.0) and bool((done.posterior >= 0).all())
    columns = np.allclose(done.model.confusions.sum(axis=1), 1.0) and bool((done.model.confusions > 0).all())
    return rows and columns and bool(np.isfinite(done.log_likelihood))


#: Labels that a method may trip over: one annotator, all different, one class, one item, nobody meets, two crowds.
ODD_MATRICES = [
    [[0], [1], [0]],
    [[0, 1], [1, 0]],
    [[0, 0, 0], [0, 0, 0]],
    [[0, 1, 2]],
    [[0, -1, -1], [-1, 1, -1], [-1, -1, 2]],
    [[0, 0, -1, -1], [1, 1, -1, -1], [-1, -1, 0, 0], [-1, -1, 1, 1], [-1, -1, -1, -1]],
]
