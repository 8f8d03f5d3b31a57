"""Estimators by EM: Dawid and Skene's model, and models with fewer parameters."""

from __future__ import annotations

from typing import Any, Literal

from consilience.fitting.em import Callback
from consilience.methods.base.estimator import CrowdEstimator

__all__ = ["ClassOneCoin", "DawidSkeneEM", "OneCoin"]


class EMEstimator(CrowdEstimator):
    """What the estimators by EM share."""

    def __init__(
        self,
        *,
        smoothing: float = 0.0,
        prior: Literal["learned", "uniform"] = "learned",
        max_iter: int = 1000,
        tol: float = 1e-7,
        accelerate: bool = True,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        self.smoothing = smoothing
        self.prior = prior
        self.max_iter = max_iter
        self.tol = tol
        self.accelerate = accelerate
        self.random_state = random_state
        self.callback = callback


class DawidSkeneEM(EMEstimator):
    r"""Dawid and Skene's model by EM.

    .. math:: \Pr(\text{labels of } n) = \sum_k \pi_k \prod_{(m, i)} A_m(i, k)

    Parameters
    ----------
    smoothing
        Labels added to every cell of every confusion matrix (a Dirichlet prior).
    shrinkage
        Labels added to every cell on average, spread over the cells of a class as the whole crowd answers.
    prior
        "learned", or "uniform" to hold all classes equally likely.
    max_iter, tol
        Passes over the data, and the relative change of the objective in one EM step that ends them.
    accelerate
        Take longer steps than EM where the likelihood allows it, and once most items are settled, pass over the others.
    random_state
        Not used, the fit is deterministic; all estimators have it.
    callback
        Told of every pass; ends the fit by returning True.

    Examples
    --------
    >>> from consilience import DawidSkeneEM
    >>> votes = [[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0], [0, 0, 1]]
    >>> DawidSkeneEM(smoothing=0.1).fit_predict(votes)
    array([0, 1, 0, 1, 0])
    """

    _method = "ds-em"

    def __init__(
        self,
        *,
        smoothing: float = 0.0,
        shrinkage: float = 0.0,
        prior: Literal["learned", "uniform"] = "learned",
        max_iter: int = 1000,
        tol: float = 1e-7,
        accelerate: bool = True,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(
            smoothing=smoothing,
            prior=prior,
            max_iter=max_iter,
            tol=tol,
            accelerate=accelerate,
            random_state=random_state,
            callback=callback,
        )
        self.shrinkage = shrinkage


class OneCoin(EMEstimator):
    """The one-coin model by EM: each annotator is right with one probability, whatever the class.

    Its parameters are those of :class:`DawidSkeneEM`, without shrinkage.
    """

    _method = "one-coin"


class ClassOneCoin(EMEstimator):
    r"""The class-conditional one-coin model by EM: each annotator has an accuracy for every class.

    .. math:: A_m(i, k) = p_{mk} \text{ where } i = k, \qquad (1 - p_{mk}) / (K - 1) \text{ where not}

    Its parameters are those of :class:`DawidSkeneEM`, without shrinkage.
    """

    _method = "class-one-coin"
