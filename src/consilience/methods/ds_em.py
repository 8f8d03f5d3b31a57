"""Dawid and Skene's EM: a prior and a confusion matrix for every annotator, started from vote shares.

A. P. Dawid and A. M. Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm",
Applied Statistics 28 (1979).
"""

from __future__ import annotations

from typing import Literal

from consilience.engine.passes import Labels, passes_of
from consilience.fitting.em import Callback, ConfusionStep, Parameters, run_em
from consilience.fitting.fit import Fit, vote_start
from consilience.methods.base.estimator import SeededEstimator
from consilience.methods.base.method import Method
from consilience.methods.base.refinement import pseudo_labels
from consilience.published import AsPublished

__all__ = ["METHOD", "DawidSkeneEM", "dawid_skene_em"]


class DawidSkeneEM(AsPublished, SeededEstimator):
    r"""Dawid and Skene's model by EM.

    .. math:: \Pr(\text{labels of } n) = \sum_k \pi_k \prod_{(m, i)} A_m(i, k)

    Parameters
    ----------
    smoothing
        Labels added to every cell of every confusion matrix (a Dirichlet prior; the fit is its mode).
    shrinkage
        Labels added to every cell on average, spread over the cells of a class as the whole crowd answers (judged by
        the votes): annotators with few labels are taken to be like the others.
    prior
        "learned", or "uniform" to hold all classes equally likely.
    floor
        Least probability of a label after every step.
    max_iter, tol
        Passes over the data, and the relative change of the objective in one EM step that ends them (0: run all).
    accelerate
        Extrapolate along EM steps (SQUAREM) where that raises the likelihood.
    random_state
        Not used: the fit is deterministic.
    callback
        Called after every pass; ends the fit by returning True.

    Examples
    --------
    >>> from consilience import DawidSkeneEM
    >>> votes = [[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0], [0, 0, 1]]
    >>> DawidSkeneEM(smoothing=0.1).fit_predict(votes)
    array([0, 1, 0, 1, 0])
    """

    _method = "ds-em"

    smoothing: float = 0.0
    shrinkage: float = 0.0
    prior: Literal["learned", "uniform"] = "learned"
    floor: float = 0.0
    max_iter: int = 1000
    tol: float = 1e-7
    accelerate: bool = True


def dawid_skene_em(
    annotations: Labels,
    *,
    smoothing: float = 0.0,
    shrinkage: float = 0.0,
    prior: Literal["learned", "uniform"] = "learned",
    floor: float = 0.0,
    max_iter: int = 1000,
    tol: float = 1e-7,
    accelerate: bool = True,
    callback: Callback | None = None,
    start: Parameters | None = None,
) -> Fit:
    """Fit by EM; :class:`DawidSkeneEM` documents the parameters, ``start`` replaces vote shares as the start."""
    passes = passes_of(annotations)
    begin = vote_start(passes, ConfusionStep(smoothing, prior == "learned")) if start is None else start
    step = ConfusionStep(pseudo_labels(passes, smoothing, shrinkage), prior == "learned", floor)
    result = run_em(passes, begin, step, max_iter=max_iter, tol=tol, accelerate=accelerate, callback=callback)
    return Fit.from_em(passes, result, tol)


METHOD = Method(
    "ds-em", dawid_skene_em, "DawidSkeneEM", "a confusion matrix for every annotator, by EM", everywhere=True
)
