"""Dawid-Skene from pairwise co-occurrences, without imputation: for comparison.

    X = H Hᵀ,  H = [A_1; …; A_M] D^(1/2)        (Ibrahim & Fu 2022, eq. (6))

As :mod:`consilience.methods.rob_symnmf`, but zeros stand for the missing blocks of X: the result is biased unless
everybody shares items with everybody.
"""

from __future__ import annotations

from typing import Any, Literal

from consilience.engine.passes import Labels
from consilience.fitting.em import Callback
from consilience.fitting.fit import Fit
from consilience.methods.base.estimator import RefinableEstimator
from consilience.methods.base.factor_model import PairFit
from consilience.methods.base.method import Method
from consilience.moments.imputation import block_matrix
from consilience.published import AsPublished

__all__ = ["METHOD", "PlainSymNMF", "symnmf"]


class PlainSymNMF(AsPublished, RefinableEstimator):
    """SymNMF of the observed pairs alone: no imputation, biased unless everybody met everybody.

    The parameters are those of :class:`RobustSymNMF`.
    """

    _method = "symnmf"

    rotations: int = 20
    alpha: float = 1e-6
    decay: float | None = None
    shrinkage: float = 0.25
    prior: Literal["learned", "uniform"] = "learned"


def symnmf(
    annotations: Labels,
    *,
    rotations: int = 20,
    alpha: float = 1e-6,
    decay: float | None = None,
    shrinkage: float = 0.25,
    prior: Literal["learned", "uniform"] = "learned",
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Fit:
    """Fit by shifted-ReLU SymNMF of the observed blocks; see :class:`PlainSymNMF`."""
    rotation: dict[str, Any] = {"rotations": rotations, "alpha": alpha, "decay": decay}
    task = PairFit(annotations, **rotation, shrinkage=shrinkage, prior=prior, random_state=random_state)
    return task.fit_matrix(block_matrix(task.pairs).matrix)


METHOD = Method(
    "symnmf", symnmf, "PlainSymNMF", "confusions from observed pairs alone, for comparison", everywhere=True
)
