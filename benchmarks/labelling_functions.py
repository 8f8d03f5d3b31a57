"""Where the prior of ``propensity``, and its share beside the votes, were chosen.

Simulated labelling functions share patterns, so their errors correlate.  On them, mean errors of the product of
vote shares, to a power, and the posterior of the model show how much the votes should count; the number of labels
that the prior is worth matters little.  That number is chosen on the public sets of functions, without the set that is
judged.
"""

from __future__ import annotations

import numpy as np

from benchmarks.breaking import print_table, trials
from benchmarks.figures import Figure
from benchmarks.public import FAMILIES, crowd, expected_error, skipped
from consilience import Annotations
from consilience.auto import constants
from consilience.auto.pool import features, normalised
from consilience.fitting.fit import vote_posterior
from consilience.kernels._arrays import Floats, Ints
from consilience.methods.base.constants import SILENCE_ACCURACY
from consilience.methods.propensity import propensity

#: Labels that the prior is worth, and the exponent of the votes as a multiple of that of the model.
EVIDENCE, RATIOS = (10.0, 20.0, 50.0, 100.0, 200.0, 400.0), (0.6, 1.3, 2.0, 4.5, 9.0)
DRAWS = 100


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


def errors(annotations: Annotations, truth: Ints) -> Floats:
    """Return the errors of votes and model combined, (EVIDENCE, RATIOS), in percent."""
    a, b = annotations, constants.EXPONENTS["together"][1]
    votes, n = vote_posterior(a), a.labels_per_item.astype(float)
    made = []
    for evidence in EVIDENCE:
        q = propensity(a, evidence=evidence, accuracy=SILENCE_ACCURACY).posterior
        pools = (normalised(np.add(*features(votes, q, n, (ratio * b, b))), 0.0) for ratio in RATIOS)
        made.append([expected_error(p, truth) for p in pools])
    return np.array(made)


def run() -> list[Figure]:
    votes, drawn = [], []
    for seed in range(trials(DRAWS)):
        a, truth = draw(seed)
        truth = np.where(truth < 0, a.n_classes, truth)  # a class nobody names is always wrong
        votes.append(expected_error(vote_posterior(a), truth))
        drawn.append(errors(a, truth))
    show(f"{len(drawn)} simulated sets of functions, votes {np.mean(votes):.2f}", np.mean(drawn, axis=0))
    figures = [Figure("simulated functions, votes: error", float(np.mean(votes)), unit="%")]
    used = RATIOS.index(constants.EXPONENTS["together"][0] / constants.EXPONENTS["together"][1])
    figures += [
        Figure(
            f"simulated functions, prior of {evidence:g} labels: error",
            float(np.mean(drawn, axis=0)[e, used]),
            unit="%",
        )
        for e, evidence in enumerate(EVIDENCE)
    ]
    return figures if skipped() else [*figures, left_out(used)]


def left_out(used: int) -> Figure:
    """Return the mean error on public functions, the prior of each chosen on the others."""
    public = np.array([errors(*crowd(name)) for name in FAMILIES["functions"]])
    show("Public sets of functions", public.mean(axis=0))
    made = []
    for n, of_set in enumerate(public[:, :, used]):
        chosen = int(np.delete(public, n, axis=0)[:, :, used].mean(axis=0).argmin())
        made.append(of_set[chosen])
        print(f"{FAMILIES['functions'][n]}: {EVIDENCE[chosen]:g} labels, {of_set[chosen]:.2f} %")
    return Figure("public functions, prior chosen on the other sets: error", float(np.mean(made)), unit="%")


def show(title: str, table: Floats) -> None:
    rows = [[f"{evidence:g}", *(f"{x:.2f}" for x in row)] for evidence, row in zip(EVIDENCE, table, strict=True)]
    print_table(title, ["labels of the prior", *(f"votes {ratio:g} times the model" for ratio in RATIOS)], rows)
