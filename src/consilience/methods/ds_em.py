"""Dawid and Skene's EM: a prior and a confusion matrix for every annotator, started from vote shares.

A. P. Dawid and A. M. Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm",
Applied Statistics 28 (1979).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from consilience.engine.passes import Labels, passes_of
from consilience.fitting.em import Callback, ConfusionStep, EMResult, Parameters, run_em
from consilience.fitting.fit import Fit, by_agreement, crowd_confusion, vote_start
from consilience.kernels._arrays import Floats

__all__ = ["best_start", "dawid_skene_em", "refine"]

#: To tell starts apart: items with so many labels are enough, and so many labels are passed over in all (a second).
_SAMPLE = 200_000
_BUDGET = 200_000_000
_FEWEST_PASSES, _MOST_PASSES = 20, 300
_MOST_SPLITS, _ROUNDS = 12, 3


def dawid_skene_em(
    annotations: Labels,
    *,
    smoothing: float = 0.0,
    shrinkage: float = 0.0,
    prior: Literal["learned", "uniform"] = "learned",
    max_iter: int = 1000,
    tol: float = 1e-7,
    accelerate: bool = True,
    callback: Callback | None = None,
    start: Parameters | None = None,
) -> Fit:
    """Fit by EM.

    Parameters
    ----------
    annotations
        The labels, or passes over them.  Gold items are held at their gold.
    smoothing
        Labels added to every cell of every confusion matrix (a Dirichlet prior; the fit is its mode).
    shrinkage
        Labels added to every cell on average, spread over the cells of a class as the whole crowd answers (judged by
        the votes): whoever gave few labels is taken to be like the others.
    prior
        Learn the class prior, or hold it uniform.
    max_iter, tol
        Passes over the data, and the relative change of the objective in one EM step that ends them (0: run all).
    accelerate
        Take longer steps than EM where the likelihood allows it, and once most items are settled, pass over the others.
    callback
        Told of every pass; ends the fit by returning True.
    start
        Parameters to start from, instead of vote shares.
    """
    passes = passes_of(annotations)
    begin = vote_start(passes, ConfusionStep(smoothing, prior == "learned")) if start is None else start
    step = ConfusionStep(_pseudo_labels(passes, smoothing, shrinkage), prior == "learned")
    result = run_em(passes, begin, step, max_iter=max_iter, tol=tol, accelerate=accelerate, callback=callback)
    return Fit.from_em(passes, result, tol)


def refine(
    annotations: Labels,
    fit: Fit,
    *,
    smoothing: float = 0.0,
    shrinkage: float = 0.25,
    prior: Literal["learned", "uniform"] = "learned",
    max_iter: int = 1000,
    tol: float = 1e-7,
    accelerate: bool = True,
    callback: Callback | None = None,
    random_state: Any = 0,
) -> Fit:
    """Improve a fitted model by EM: the ``+em`` of every method.

    The parameters are those of :func:`dawid_skene_em`, with a little of the crowd's answers behind every annotator's.
    Where the method offers several models to go on from, :func:`best_start` tells which.
    """
    passes = passes_of(annotations)
    starts = [Parameters(fit.model.prior, fit.model.confusions), *fit.candidates]
    start = best_start(passes, starts, _pseudo_labels(passes, smoothing, shrinkage), random_state)
    refined = dawid_skene_em(
        passes,
        smoothing=smoothing,
        shrinkage=shrinkage,
        prior=prior,
        max_iter=max_iter,
        tol=tol,
        accelerate=accelerate,
        callback=callback,
        start=start,
    )
    refined = replace(refined, cautions=(*fit.cautions, *refined.cautions), details=fit.details)
    if passes.has_gold:  # gold says which class is which
        return refined
    statistics = passes.sweep(refined.model.prior, refined.model.confusions)
    return refined.reordered(by_agreement(statistics))


def best_start(
    annotations: Labels, starts: Sequence[Parameters], pseudo: float | Floats, random_state: Any = 0
) -> Parameters:
    """Run EM from every start, then from the best end with classes split, and give the end with the best objective.

    Where there are many items, a sample of them is enough.
    """
    if len(starts) == 1:
        return starts[0]
    rng = np.random.default_rng(random_state)
    sample = passes_of(annotations).sample(max(1, annotations.n_labels // _SAMPLE))
    tries = len(starts) + _MOST_SPLITS
    passes = int(np.clip(_BUDGET / (tries * max(sample.n_labels, 1)), _FEWEST_PASSES, _MOST_PASSES))

    def best_of(tried: Iterable[Parameters]) -> EMResult:
        ends = (run_em(sample, start, ConfusionStep(pseudo), max_iter=passes, tol=1e-6) for start in tried)
        return max(ends, key=lambda end: end.history[-1])

    best = best_of(starts)
    for _ in range(_ROUNDS):
        better = best_of([best.parameters, *_splits(best.parameters, rng)])
        gain = better.history[-1] - best.history[-1]
        best = better
        if gain < 0.1:
            break
    return best.parameters


def _splits(parameters: Parameters, rng: np.random.Generator) -> Iterator[Parameters]:
    """Give up one class, and let a small one appear beside another: where EM finds a rare class that it had missed."""
    M, K, _ = parameters.confusions.shape
    pairs = [(lost, near) for lost in range(K) for near in range(K) if lost != near]
    for i in rng.permutation(len(pairs))[:_MOST_SPLITS]:
        lost, near = pairs[i]
        prior, confusions = parameters.prior.copy(), parameters.confusions.copy()
        confusions[:, :, lost] = 0.5 * confusions[:, :, near] + 0.5 * rng.dirichlet(np.ones(K), M)
        prior[near] += prior[lost]
        prior[lost] = 0.05
        yield Parameters(prior / prior.sum(), confusions)


def _pseudo_labels(annotations: Labels, smoothing: float, shrinkage: float) -> float | Floats:
    """Give the labels to add to every annotator's cells: equal everywhere, and as the crowd answers by its votes."""
    if not shrinkage:
        return smoothing
    return smoothing + shrinkage * annotations.n_classes * crowd_confusion(annotations)
