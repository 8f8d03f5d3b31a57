"""Estimators for which items differ too: some are hard, some mislead."""

from __future__ import annotations

from typing import Any, Literal

from consilience.fitting.em import Callback
from consilience.methods.base.estimator import IterativeEstimator

__all__ = ["GLAD", "HardItemsDawidSkene", "MinimaxEntropy"]


class HardItemsDawidSkene(IterativeEstimator):
    r"""Dawid and Skene's model where all are more often right about an easy item, and wrong about a hard one.

    .. math:: \Pr(m \text{ says } i \text{ of } n \mid k) \propto A_m(i, k) e^{\sigma x [i = k]}, \quad x \sim N(0, 1)

    Parameters
    ----------
    refine
        "em" to go on by EM from the model found, or None.
    spread
        σ, how much items differ in ease; None takes what makes the labels most probable.
    prior
        "learned", or "uniform" to hold all classes equally likely.
    max_iter, tol
        Passes over the data for one spread, and the relative change of the objective that ends them.
    accelerate
        Leap along the steps (SQUAREM) where the objective allows it.
    random_state
        Not used, the fit is deterministic; all estimators have it.
    callback
        Told of every pass; ends the fit by returning True.
    """

    _method = "hard-items"

    def __init__(
        self,
        *,
        refine: Literal["em"] | None = None,
        spread: float | None = None,
        prior: Literal["learned", "uniform"] = "learned",
        accelerate: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-7,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(refine=refine, max_iter=max_iter, tol=tol, random_state=random_state, callback=callback)
        self.spread = spread
        self.prior = prior
        self.accelerate = accelerate


class GLAD(IterativeEstimator):
    r"""An ability for every annotator and a difficulty for every item (Whitehill et al. 2009).

    .. math:: \Pr(m \text{ is right about } n) = 1 / (1 + \exp(-\alpha_m \beta_n))

    Parameters
    ----------
    refine
        "em" to go on by EM from the model found, or None.
    prior
        "uniform", as in the paper, or "learned".
    max_iter, tol
        EM iterations, and the relative change of the objective that ends them.
    random_state
        Not used, the fit is deterministic; all estimators have it.
    callback
        Told of every iteration; ends the fit by returning True.
    """

    _method = "glad"

    def __init__(
        self,
        *,
        refine: Literal["em"] | None = None,
        prior: Literal["learned", "uniform"] = "uniform",
        max_iter: int = 1000,
        tol: float = 1e-7,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(refine=refine, max_iter=max_iter, tol=tol, random_state=random_state, callback=callback)
        self.prior = prior


class MinimaxEntropy(IterativeEstimator):
    r"""A confusion for every annotator and for every item (Zhou et al. 2014): an item may attract a wrong answer.

    .. math:: \Pr(m \text{ says } c \text{ of } n \mid k) \propto \exp(\sigma_m[k, c] + \tau_n[k, c])

    Parameters
    ----------
    refine
        "em" to go on by EM from the model found, or None.
    annotator_penalty, item_penalty
        How strongly the confusions of annotators and of items are held near zero.
    prior
        "uniform", as in the paper, or "learned".
    max_iter, tol
        Iterations, and the relative change of the objective that ends them.
    random_state
        Not used, the fit is deterministic; all estimators have it.
    callback
        Told of every iteration; ends the fit by returning True.
    """

    _method = "minimax-entropy"

    def __init__(
        self,
        *,
        refine: Literal["em"] | None = None,
        annotator_penalty: float = 1.0,
        item_penalty: float = 1.0,
        prior: Literal["learned", "uniform"] = "uniform",
        max_iter: int = 1000,
        tol: float = 1e-6,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(refine=refine, max_iter=max_iter, tol=tol, random_state=random_state, callback=callback)
        self.annotator_penalty = annotator_penalty
        self.item_penalty = item_penalty
        self.prior = prior
