"""Dawid-Skene from pairwise co-occurrences, missing pairs imputed by robust factors.

    X = H Hᵀ,  H = [A_1; …; A_M] D^(1/2)        (Ibrahim & Fu 2022, eq. (6))

X is known from pairs of annotators, so few labels go far, and H is unique when annotators are diverse enough
(Proposition 1: the sufficiently scattered condition).  X is completed by robust factors (eqs (9)-(11)), its square root
is rotated to be nonnegative, and prior and confusions are read off H (:mod:`consilience.methods.base.factor_model`).

S. Ibrahim and X. Fu, "Crowdsourcing via annotator co-occurrence imputation and provable symmetric nonnegative matrix
factorization" (2022).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from consilience.engine.passes import Labels
from consilience.exceptions import ConvergenceWarning
from consilience.fitting.em import Callback, Progress
from consilience.fitting.fit import Fit
from consilience.methods.base.estimator import IterativeEstimator
from consilience.methods.base.factor_model import PairFit
from consilience.methods.base.method import Method
from consilience.moments.imputation import robust

__all__ = ["METHOD", "RobustSymNMF", "rob_symnmf"]


class RobustSymNMF(IterativeEstimator):
    r"""Dawid-Skene from pairwise co-occurrences: robust imputation, then shifted-ReLU SymNMF (Ibrahim & Fu 2022).

    .. math:: R_{mj} = A_m D A_j^\top, \qquad X = H H^\top, \quad H = [A_1; \dots; A_M] D^{1/2}

    Parameters
    ----------
    refine
        "em" to go on by EM from the model found, or None.
    starts, rotations
        Starts of the imputation (the votes, then random ones) and of the rotation.
    reweigh, count_weights
        Doubt pairs that fit badly; trust pairs by their number of common items.  ``reweigh=False`` does neither: all
        pairs count the same, the paper's ``w = 1``.
    alpha, decay
        Threshold of the shifted ReLU, relative to the largest entry, and its decay; constant by default.
    shrinkage
        Labels added to every cell on average, spread over the cells of a class as the crowd answers.
    max_iter, tol
        Sweeps of the imputation, and the relative change of its objective that ends them.
    random_state
        Decides everything that is random.
    callback
        Called after every sweep; ends the imputation by returning True.

    Examples
    --------
    >>> from consilience import RobustSymNMF, simulate
    >>> crowd = simulate(500, 12, 3, experts=0.3, seed=1)
    >>> model = RobustSymNMF(refine="em", random_state=0).fit(crowd.annotations)
    >>> float((model.labels_ == crowd.truth).mean()) > 0.9
    True
    """

    _method = "rob-symnmf"

    starts: int = 4
    rotations: int = 10
    reweigh: bool = True
    count_weights: bool = True
    alpha: float = 1e-6
    decay: float | None = None
    shrinkage: float = 0.25


def rob_symnmf(
    annotations: Labels,
    *,
    starts: int = 4,
    rotations: int = 10,
    reweigh: bool = True,
    count_weights: bool = True,
    alpha: float = 1e-6,
    decay: float | None = None,
    shrinkage: float = 0.25,
    max_iter: int = 1000,
    tol: float = 1e-7,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Fit:
    """Fit by robust imputation and shifted-ReLU SymNMF; see :class:`RobustSymNMF`."""
    task = PairFit(
        annotations, rotations=rotations, alpha=alpha, decay=decay, shrinkage=shrinkage, random_state=random_state
    )

    def tell(sweep: int, objective: float) -> Any:
        return callback(Progress(sweep, max_iter, objective, float("nan"), "completing pairs")) if callback else None

    models, imputations = [], []
    for s in range(starts):
        start = task.random_factors() if s else task.votes.confusions * np.sqrt(task.votes.prior)
        imputed = robust(
            task.pairs, start, reweigh=reweigh, count_weights=count_weights, max_iter=max_iter, tol=tol, callback=tell
        )
        models.append(task.model(imputed.factors))
        imputations.append(imputed)
    best, fit = task.fit(models)
    imputed, cautions = imputations[best], list(fit.cautions)
    if tol > 0 and not imputed.converged:
        cautions.append((f"the imputation did not converge in {max_iter} sweeps; raise max_iter", ConvergenceWarning))
    return replace(fit, converged=imputed.converged, history=imputed.history, cautions=tuple(cautions))


METHOD = Method(
    "rob-symnmf",
    rob_symnmf,
    "RobustSymNMF",
    "confusions from pairs of annotators, robust to bad pairs",
    everywhere=True,
)
