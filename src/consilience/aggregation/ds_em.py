"""Dawid and Skene's EM: a prior and a confusion matrix for every annotator, started from vote shares.

A. P. Dawid and A. M. Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm",
Applied Statistics 28 (1979).
"""

from __future__ import annotations

from typing import Any, Literal

from consilience.aggregation.em import Callback, ConfusionStep, Parameters, run_em
from consilience.aggregation.fit import Fit, vote_start
from consilience.annotations import Annotations

__all__ = ["dawid_skene_em", "refine"]


def dawid_skene_em(
    annotations: Annotations,
    *,
    smoothing: float = 0.0,
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
    step = ConfusionStep(smoothing, prior == "learned")
    begin = vote_start(annotations, step) if start is None else start
    result = run_em(annotations, begin, step, max_iter=max_iter, tol=tol, accelerate=accelerate, callback=callback)
    return Fit.from_em(annotations, result, tol)


def refine(annotations: Annotations, fit: Fit, **options: Any) -> Fit:
    """Improve a fitted model by EM: the ``+em`` of every method."""
    return dawid_skene_em(annotations, start=Parameters(fit.model.prior, fit.model.confusions), **options)
