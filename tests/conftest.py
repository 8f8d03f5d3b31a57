"""What many tests share."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from consilience.annotations import Annotations
from consilience.datasets import Crowd, load
from consilience.dawid_skene import DawidSkene
from consilience.kernels._arrays import Floats, Ints


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


def error_percent(labels: Ints, truth: Ints) -> float:
    """Percentage of wrong labels where the truth is known."""
    known = truth >= 0
    return 100.0 * float(np.mean(labels[known] != truth[known]))
