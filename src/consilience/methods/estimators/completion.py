"""Estimators that complete everybody's labels at low rank."""

from __future__ import annotations

from typing import Any, Literal

from consilience.fitting.em import Callback
from consilience.methods.base.estimator import IterativeEstimator

__all__ = ["CompletedVote", "TensorAugmentation"]


class CompletionEstimator(IterativeEstimator):
    """What the estimators by completion share."""

    def __init__(
        self,
        *,
        refine: Literal["em"] | None = None,
        penalty: float = 0.05,
        max_iter: int = 100,
        tol: float = 1e-3,
        random_state: Any = None,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(refine=refine, max_iter=max_iter, tol=tol, random_state=random_state, callback=callback)
        self.penalty = penalty


class TensorAugmentation(CompletionEstimator):
    """PG-TAC: the truth as one more annotator of a low-rank table (Zhou & He 2016).

    Parameters
    ----------
    refine
        "em" to go on by EM from the model found, or None.
    penalty
        Weight of the nuclear norm, as a share of the size of the data.
    max_iter, tol
        Sweeps, and the relative fall of the objective that ends them.
    random_state
        Not used, the fit is deterministic; all estimators have it.
    callback
        Told of every sweep; ends the fit by returning True.
    """

    _method = "pg-tac"


class CompletedVote(CompletionEstimator):
    """CRIA-V: labels completed at low rank, then everybody votes on everything (Li & Jiang 2018).

    The parameters are those of :class:`TensorAugmentation`.
    """

    _method = "cria-v"
