"""Estimators by variational Bayes: not one model but a distribution over models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from consilience.fitting.em import Callback
from consilience.kernels._arrays import Floats
from consilience.methods.base.estimator import IterativeEstimator

__all__ = ["EBCC", "IBCC", "HierarchicalDawidSkene"]


class IBCC(IterativeEstimator):
    r"""Independent Bayesian classifier combination (Kim & Ghahramani 2012): Dawid and Skene's model with priors.

    .. math:: A_m(:, k) \sim \text{Dirichlet}(\beta(:, k)), \qquad \pi \sim \text{Dirichlet}(\alpha)

    Parameters
    ----------
    refine
        "em" to go on by EM from the model found, or None.
    smoothing, diagonal
        Pseudo-labels in every cell of every confusion, and further ones on the diagonal.
    shrinkage
        Further pseudo-labels for every cell on average, spread over the cells of a class as the whole crowd answers.
    prior
        "learned", or "uniform" to hold all classes equally likely.
    max_iter, tol
        Passes over the data, and the relative change of the lower bound that ends them.
    accelerate
        Leap along the steps (SQUAREM) where the lower bound allows it.
    random_state
        Not used, the fit is deterministic; all estimators have it.
    callback
        Told of every pass; ends the fit by returning True.
    """

    _method = "ibcc"

    def __init__(
        self,
        *,
        refine: Literal["em"] | None = None,
        smoothing: float = 1.0,
        diagonal: float = 3.0,
        shrinkage: float = 0.0,
        prior: Literal["learned", "uniform"] = "learned",
        accelerate: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-7,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(refine=refine, max_iter=max_iter, tol=tol, random_state=random_state, callback=callback)
        self.smoothing = smoothing
        self.diagonal = diagonal
        self.shrinkage = shrinkage
        self.prior = prior
        self.accelerate = accelerate


class EBCC(IterativeEstimator):
    """Enhanced Bayesian classifier combination: classes of several subtypes, so that annotators may err together.

    After Li, Rubinstein and Cohn (2019).

    Parameters
    ----------
    refine
        "em" to go on by EM from the model found, or None.
    subtypes
        The most subtypes that a class may have.
    smoothing, diagonal
        Pseudo-labels in every cell of every confusion, and further ones on the diagonal.
    concentration
        Pseudo-items that the subtypes of a class share: the less, the fewer subtypes are used.
    empirical
        Take the vote totals as pseudo-items of the classes, as the authors do; else one a class.
    starts
        Random starts; the one with the largest lower bound is kept.
    max_iter, tol
        Passes over the data in a start, and the relative change of the lower bound that ends them.
    accelerate
        Leap along the steps (SQUAREM) where the lower bound allows it.
    random_state
        Decides everything that is random.
    callback
        Told of every pass of every start; ends the fit by returning True.
    """

    _method = "ebcc"

    def __init__(
        self,
        *,
        refine: Literal["em"] | None = None,
        subtypes: int = 10,
        smoothing: float = 1.0,
        diagonal: float = 3.0,
        concentration: float = 0.1,
        empirical: bool = True,
        starts: int = 10,
        accelerate: bool = True,
        max_iter: int = 500,
        tol: float = 1e-6,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(refine=refine, max_iter=max_iter, tol=tol, random_state=random_state, callback=callback)
        self.subtypes = subtypes
        self.smoothing = smoothing
        self.diagonal = diagonal
        self.concentration = concentration
        self.empirical = empirical
        self.starts = starts
        self.accelerate = accelerate


class HierarchicalDawidSkene(IterativeEstimator):
    r"""Dawid and Skene's model with annotators drawn from a crowd whose habits are learned too.

    .. math:: A_m(:, k) \sim \text{Dirichlet}(\beta(:, k)), \qquad \beta \text{ by empirical Bayes}

    Parameters
    ----------
    refine
        "em" to go on by EM from the model found, or None.
    coin
        One probability of being right for every annotator, instead of a confusion matrix.
    prior
        "learned", or "uniform" to hold all classes equally likely.
    weights
        How many times the labels of each annotator count, in the order of the annotators; once by default.
    max_iter, tol
        Passes over the data, and the relative change of the lower bound that ends them.
    accelerate
        Leap along the steps (SQUAREM) where the lower bound allows it.
    random_state
        Not used, the fit is deterministic; all estimators have it.
    callback
        Told of every pass; ends the fit by returning True.
    """

    _method = "hierarchical"

    def __init__(
        self,
        *,
        refine: Literal["em"] | None = None,
        coin: bool = False,
        prior: Literal["learned", "uniform"] = "learned",
        weights: Sequence[float] | Floats | None = None,
        accelerate: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-7,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(refine=refine, max_iter=max_iter, tol=tol, random_state=random_state, callback=callback)
        self.coin = coin
        self.prior = prior
        self.weights = weights
        self.accelerate = accelerate
