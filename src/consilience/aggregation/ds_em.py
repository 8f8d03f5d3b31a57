"""Dawid and Skene's EM: a prior and a confusion matrix for every annotator, started from vote shares.

A. P. Dawid and A. M. Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm",
Applied Statistics 28 (1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from consilience.aggregation.em import Callback, ConfusionStep, Parameters, run_em, sweep_of
from consilience.aggregation.evidence import crowd_confusion, evidence
from consilience.aggregation.fit import Fit, by_agreement, crowd_statistics, vote_start
from consilience.annotations import Annotations
from consilience.kernels._arrays import Floats

__all__ = ["best_start", "dawid_skene_em", "refine"]

#: A log Bayes factor that is very strong evidence (Kass & Raftery 1995).
_STRONG = 5.0
#: To tell starts apart: items with so many labels are enough, and so many labels are passed over in all (a second).
_SAMPLE = 200_000
_BUDGET = 200_000_000
_FEWEST_PASSES, _MOST_PASSES = 20, 300


def dawid_skene_em(
    annotations: Annotations,
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
        The labels.  Gold items are held at their gold.
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
        Leap along EM steps (SQUAREM) where the likelihood allows it.
    callback
        Told of every pass; ends the fit by returning True.
    start
        Parameters to start from, instead of vote shares.
    """
    begin = vote_start(annotations, ConfusionStep(smoothing, prior == "learned")) if start is None else start
    step = ConfusionStep(_pseudo_labels(annotations, smoothing, shrinkage), prior == "learned")
    result = run_em(annotations, begin, step, max_iter=max_iter, tol=tol, accelerate=accelerate, callback=callback)
    return Fit.from_em(annotations, result, tol)


def refine(
    annotations: Annotations,
    fit: Fit,
    *,
    smoothing: float = 0.0,
    shrinkage: float = 0.25,
    prior: Literal["learned", "uniform"] = "learned",
    max_iter: int = 1000,
    tol: float = 1e-7,
    accelerate: bool = True,
    callback: Callback | None = None,
) -> Fit:
    """Improve a fitted model by EM: the ``+em`` of every method.

    The parameters are those of :func:`dawid_skene_em`, with a little of the crowd's answers behind every annotator's.
    Where the method offers several models to go on from, :func:`best_start` tells which.
    """
    starts = [Parameters(fit.model.prior, fit.model.confusions), *fit.candidates]
    start = best_start(annotations, starts, _pseudo_labels(annotations, smoothing, shrinkage))
    refined = dawid_skene_em(
        annotations,
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
    if annotations.gold is not None:  # gold says which class is which
        return refined
    statistics = sweep_of(annotations)(refined.model.prior, refined.model.confusions)
    return refined.reordered(by_agreement(statistics))


def best_start(annotations: Annotations, starts: Sequence[Parameters], pseudo: float | Floats) -> Parameters:
    """Run EM from every start, on a sample of the items where there are many, and give the best.

    The objective decides where it can; of those within ``_STRONG`` of the best, the evidence does.
    """
    if len(starts) == 1:
        return starts[0]
    step = max(1, annotations.n_labels // _SAMPLE)
    sample = annotations.select_items(np.arange(0, annotations.n_items, step)) if step > 1 else annotations
    passes = int(np.clip(_BUDGET / (len(starts) * max(sample.n_labels, 1)), _FEWEST_PASSES, _MOST_PASSES))
    sweep = sweep_of(sample)
    scores = []
    for start in starts:
        found = run_em(sample, start, ConfusionStep(pseudo), max_iter=passes, tol=1e-6)
        scores.append((found.history[-1], evidence(found.parameters, sweep(*found.parameters))))
    objective, weight = np.transpose(scores)
    return starts[int(np.argmax(np.where(objective >= objective.max() - _STRONG, weight, -np.inf)))]


def _pseudo_labels(annotations: Annotations, smoothing: float, shrinkage: float) -> float | Floats:
    """Give the labels to add to every annotator's cells: equal everywhere, and as the crowd answers by its votes."""
    if not shrinkage:
        return smoothing
    return smoothing + shrinkage * annotations.n_classes * crowd_confusion(crowd_statistics(annotations))
