"""Simulated labelling functions that share patterns: where the prior of ``propensity`` was chosen."""

from __future__ import annotations

from itertools import product

import numpy as np

from benchmarks.figures import Figure
from consilience import Annotations
from consilience.fitting.fit import vote_posterior
from consilience.kernels._arrays import Floats, Ints
from consilience.methods.propensity import propensity

EVIDENCE, ACCURACY = (5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 400.0, 1000.0), (0.8, 0.9)


def draw(seed: int) -> tuple[Annotations, Ints]:
    """Return functions that fire on one to three patterns of a class; shared patterns make their errors correlate."""
    rng = np.random.default_rng(seed)
    K = int(rng.choice([2, 2, 3, 4, 6, 9]))
    M = max(int(rng.choice([3, 5, 8, 12, 30, 60])), K)
    N = int(rng.integers(800, 2500))
    prior = rng.dirichlet(np.full(K, rng.choice([1.5, 5.0])))
    truth = rng.choice(K, N, p=prior)
    n_patterns = max(2 * M, 10)
    home, precision = rng.choice(K, n_patterns, p=prior), rng.beta(6, 2, n_patterns)
    shown = np.zeros((N, n_patterns), bool)
    for p, (k, right) in enumerate(zip(home, precision, strict=True)):
        coverage = rng.uniform(0.01, 0.15)
        there = min(coverage * right / max(prior[k], 0.02), 0.9)
        elsewhere = min(coverage * (1 - right) / max(1 - prior[k], 0.02), 0.6)
        shown[:, p] = rng.random(N) < np.where(truth == k, there, elsewhere)
    matrix = np.full((N, M), -1)
    for m in range(M):
        k = m % K if m < K else rng.choice(K, p=prior)
        patterns = np.flatnonzero(home == k)
        patterns = patterns if patterns.size else rng.choice(n_patterns, 1)
        patterns = rng.choice(patterns, min(patterns.size, int(rng.integers(1, 4))), replace=False)
        matrix[shown[:, patterns].any(axis=1), m] = k
    heard = (matrix >= 0).any(axis=1)
    annotations = Annotations.from_matrix(matrix[heard])
    codes = {int(name): code for code, name in enumerate(annotations.classes)}
    return annotations, np.array([codes.get(int(k), -1) for k in truth[heard]])


def error(posterior: Floats, truth: Ints) -> float:
    """Return the expected percentage of wrong labels, ties broken at random; a class nobody names is always wrong."""
    top = posterior >= posterior.max(axis=1, keepdims=True) - 1e-9
    right = np.where(truth >= 0, top[np.arange(truth.size), truth] / top.sum(axis=1), 0.0)
    return 100.0 * float(1.0 - right.mean())


def run() -> list[Figure]:
    votes, errors = [], []
    for seed in range(60):
        a, truth = draw(seed)
        shares = vote_posterior(a)
        votes.append(error(shares, truth))
        grid = (propensity(a, evidence=e, accuracy=c, tol=1e-5).posterior for e, c in product(EVIDENCE, ACCURACY))
        errors.append([error(q + shares, truth) for q in grid])
    figures = [Figure("60 simulated sets of functions, votes: error", float(np.mean(votes)), unit="%")]
    for (evidence, accuracy), mean in zip(product(EVIDENCE, ACCURACY), np.mean(errors, axis=0), strict=True):
        name = f"60 simulated sets of functions, votes and propensity ({evidence:g} labels, {accuracy}): error"
        figures.append(Figure(name, float(mean), unit="%"))
    return figures
