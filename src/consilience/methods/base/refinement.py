"""EM from the model that a method found: the ``+em`` of every method, the choice of its start, and ``+plain-em``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from consilience.engine.passes import Labels, passes_of
from consilience.fitting.em import Callback, ConfusionStep, EMResult, Parameters, run_em
from consilience.fitting.fit import Fit, crowd_confusion
from consilience.fitting.known import by_agreement, taught
from consilience.kernels._arrays import Floats
from consilience.methods.base import constants
from consilience.methods.base.canonical import Order

__all__ = ["best_start", "plain_em", "pseudo_labels", "refine"]


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
    """Improve a fitted model by EM.

    The parameters are those of :class:`consilience.DawidSkeneEM`, with some shrinkage by default.  Where the method
    offers several models to start from, :func:`best_start` chooses one.
    """
    passes = passes_of(annotations)
    pseudo = pseudo_labels(passes, smoothing, shrinkage)
    found = taught(passes, Parameters(fit.model.prior, fit.model.confusions))
    start = best_start(passes, [found, *fit.candidates], pseudo, random_state)
    step = ConfusionStep(pseudo, prior == "learned")
    result = run_em(passes, start, step, max_iter=max_iter, tol=tol, accelerate=accelerate, callback=callback)
    refined = Fit.from_em(passes, result, tol)
    refined = replace(refined, cautions=(*fit.cautions, *refined.cautions), details=fit.details)
    if passes.has_gold:  # gold shows which class is which
        return refined
    return refined.reordered(by_agreement(passes.sweep(refined.model.prior, refined.model.confusions).counts))


def plain_em(
    annotations: Labels,
    fit: Fit,
    *,
    prior: Literal["learned", "uniform"] = "learned",
    em_rounds: int | None = None,
    em_floor: float = 0.0,
    max_iter: int = 1000,
    tol: float = 1e-7,
    callback: Callback | None = None,
) -> Fit:
    """Improve a fitted model by EM started from it, and nothing else.

    There is one start, no shrinkage, no acceleration, and the classes keep their order; this is what papers mean by a
    method that initialises EM.

    Parameters
    ----------
    annotations, fit
        The labels, and the model to start from.
    prior
        "learned", or "uniform" to hold all classes equally likely.
    em_rounds
        Steps of EM; None runs until a step changes the log-likelihood by at most ``tol`` (relative).
    em_floor
        Least probability of a label after every step.
    max_iter, tol, callback
        As for :class:`consilience.DawidSkeneEM`.
    """
    passes = passes_of(annotations)
    uniform = np.full(passes.n_classes, 1.0 / passes.n_classes)
    start = Parameters(fit.model.prior if prior == "learned" else uniform, fit.model.confusions)
    step = ConfusionStep(0.0, prior == "learned", em_floor)
    limits: dict[str, Any] = {"max_iter": em_rounds, "tol": 0.0} if em_rounds else {"max_iter": max_iter, "tol": tol}
    result = run_em(passes, start, step, accelerate=False, callback=callback, **limits)
    refined = Fit.from_em(passes, result, limits["tol"])
    return replace(refined, cautions=(*fit.cautions, *refined.cautions), details=fit.details)


def pseudo_labels(annotations: Labels, smoothing: float, shrinkage: float) -> float | Floats:
    """Return the labels to add to every annotator's cells: equal everywhere, and as the crowd answers by its votes."""
    if not shrinkage:
        return smoothing
    return smoothing + shrinkage * annotations.n_classes * crowd_confusion(annotations)


def best_start(
    annotations: Labels, starts: Sequence[Parameters], pseudo: float | Floats, random_state: Any = 0
) -> Parameters:
    """Run EM from every start, then from the best end with classes split; return the end with the best objective.

    A sample of the items is used where there are many.
    """
    if len(starts) == 1:
        return starts[0]
    rng = np.random.default_rng(random_state)
    sample = passes_of(annotations).sample(max(1, annotations.n_labels // constants.START_SAMPLE))
    tries = len(starts) + constants.MOST_SPLITS
    passes = int(np.clip(constants.START_BUDGET / (tries * max(sample.n_labels, 1)), *constants.START_PASSES))

    def best_of(tried: Iterable[Parameters]) -> EMResult:
        ends = (run_em(sample, start, ConfusionStep(pseudo), max_iter=passes, tol=1e-6) for start in tried)
        return max(ends, key=lambda end: end.history[-1])

    best, order = best_of(starts), Order.of(annotations)
    for _ in range(constants.SPLIT_ROUNDS):
        better = best_of(
            [best.parameters, *map(order.back.parameters, _splits(order.parameters(best.parameters), rng))]
        )
        gain = better.history[-1] - best.history[-1]
        best = better
        if gain < constants.SPLIT_GAIN:
            break
    return best.parameters


def _splits(parameters: Parameters, rng: np.random.Generator) -> Iterator[Parameters]:
    """Drop one class and split off a small one from another: so EM finds a rare class that it had missed."""
    M, K, _ = parameters.confusions.shape
    pairs = [(lost, near) for lost in range(K) for near in range(K) if lost != near]
    for i in rng.permutation(len(pairs))[: constants.MOST_SPLITS]:
        lost, near = pairs[i]
        prior, confusions = parameters.prior.copy(), parameters.confusions.copy()
        confusions[:, :, lost] = 0.5 * confusions[:, :, near] + 0.5 * rng.dirichlet(np.ones(K), M)
        prior[near] += prior[lost]
        prior[lost] = 0.05
        yield Parameters(prior / prior.sum(), confusions)
