"""Estimators by symmetric NMF of what pairs of annotators say of common items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from consilience.fitting.em import Callback
from consilience.methods.base.estimator import RefinableEstimator

__all__ = ["DesignatedSymNMF", "PlainSymNMF", "RobustSymNMF"]


class SymNMFEstimator(RefinableEstimator):
    """What the estimators by symmetric NMF share."""

    def __init__(
        self,
        *,
        refine: Literal["em"] | None = None,
        rotations: int = 20,
        alpha: float = 1e-6,
        decay: float | None = None,
        shrinkage: float = 0.25,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(refine=refine, random_state=random_state, callback=callback)
        self.rotations = rotations
        self.alpha = alpha
        self.decay = decay
        self.shrinkage = shrinkage


class RobustSymNMF(SymNMFEstimator):
    r"""Dawid-Skene from pairwise co-occurrences: robust imputation, then shifted-ReLU SymNMF (Ibrahim & Fu 2022).

    .. math:: R_{mj} = A_m D A_j^\top, \qquad X = H H^\top, \quad H = [A_1; \dots; A_M] D^{1/2}

    Parameters
    ----------
    refine
        "em" to go on by EM from the model found, or None.
    starts, rotations
        Starts of the imputation (the votes, then random ones) and of the rotation.
    reweigh, count_weights
        Doubt pairs that fit badly; trust pairs by their number of common items.
    alpha, decay
        Threshold of the shifted ReLU, relative to the largest entry, and its decay; constant by default.
    shrinkage
        Labels added to every cell on average, spread over the cells of a class as the crowd answers.
    max_iter, tol
        Sweeps of the imputation, and the relative change of its objective that ends them.
    random_state
        Decides everything that is random.
    callback
        Told of every sweep.

    Examples
    --------
    >>> from consilience import RobustSymNMF, simulate
    >>> crowd = simulate(500, 12, 3, experts=0.3, seed=1)
    >>> model = RobustSymNMF(refine="em", random_state=0).fit(crowd.annotations)
    >>> float((model.labels_ == crowd.truth).mean()) > 0.9
    True
    """

    _method = "rob-symnmf"

    def __init__(
        self,
        *,
        refine: Literal["em"] | None = None,
        starts: int = 4,
        rotations: int = 10,
        reweigh: bool = True,
        count_weights: bool = True,
        alpha: float = 1e-6,
        decay: float | None = None,
        shrinkage: float = 0.25,
        max_iter: int = 1000,
        tol: float = 1e-7,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(
            refine=refine,
            rotations=rotations,
            alpha=alpha,
            decay=decay,
            shrinkage=shrinkage,
            random_state=random_state,
            callback=callback,
        )
        self.starts = starts
        self.reweigh = reweigh
        self.count_weights = count_weights
        self.max_iter = max_iter
        self.tol = tol


class PlainSymNMF(SymNMFEstimator):
    """SymNMF of the observed pairs alone: no imputation, biased unless everybody met everybody.

    The parameters are those of :class:`RobustSymNMF`.
    """

    _method = "symnmf"


class DesignatedSymNMF(SymNMFEstimator):
    """Dawid-Skene from pairs of annotators, missing ones imputed through designated annotators (Ibrahim & Fu 2022).

    Parameters
    ----------
    through
        Names of the designated annotators, who have items in common with everybody; all that qualify by default.
    refine, rotations, alpha, decay, shrinkage, random_state, callback
        As for :class:`RobustSymNMF`.
    """

    _method = "des-symnmf"

    def __init__(
        self,
        *,
        through: Sequence[Any] | None = None,
        refine: Literal["em"] | None = None,
        rotations: int = 20,
        alpha: float = 1e-6,
        decay: float | None = None,
        shrinkage: float = 0.25,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        self.through = through
        super().__init__(
            refine=refine,
            rotations=rotations,
            alpha=alpha,
            decay=decay,
            shrinkage=shrinkage,
            random_state=random_state,
            callback=callback,
        )
