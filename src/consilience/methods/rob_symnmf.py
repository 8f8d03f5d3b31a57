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
from typing import Any, Literal

import numpy as np

from consilience.engine.passes import Labels
from consilience.exceptions import ConvergenceWarning
from consilience.fitting.em import Callback, Progress
from consilience.fitting.fit import Fit
from consilience.methods.base.estimator import IterativeEstimator
from consilience.methods.base.factor_model import PairFit
from consilience.methods.base.method import Method
from consilience.moments.imputation import robust
from consilience.published import AsPublished
from consilience.validation import one_of

__all__ = ["METHOD", "RobustSymNMF", "rob_symnmf"]


class RobustSymNMF(AsPublished, IterativeEstimator):
    r"""Dawid-Skene from pairwise co-occurrences: robust imputation, then shifted-ReLU SymNMF (Ibrahim & Fu 2022).

    .. math:: R_{mj} = A_m D A_j^\top, \qquad X = H H^\top, \quad H = [A_1; \dots; A_M] D^{1/2}

    Parameters
    ----------
    refine
        "em" to go on by EM from the model found, "plain-em" for EM and nothing else, or None.
    init
        First start of the imputation, "votes" or "random".
    starts, rotations
        Starts of the imputation (the first, then random ones) and of the rotation (the identity, then others).
    reweigh, count_weights
        Doubt pairs that fit badly; trust pairs by their number of common items.  ``reweigh=False`` does neither: all
        pairs count the same, the paper's ``w = 1``.
    xi, radius
        ξ of (11), by default 1 with ``count_weights`` and 1e-6 without; and the bound D on the factors' norms (9b).
    alpha, decay
        Threshold of the shifted ReLU, relative to the largest entry, and its decay; constant by default.
    shrinkage
        Labels added to every cell on average, spread over the cells of a class as the crowd answers.
    prior
        Read the class prior off the factor, or take it to be uniform.
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

    init: Literal["votes", "random"] = "votes"
    starts: int = 4
    rotations: int = 10
    reweigh: bool = True
    count_weights: bool = True
    xi: float | None = None
    radius: float = 1.0
    alpha: float = 1e-6
    decay: float | None = None
    shrinkage: float = 0.25
    prior: Literal["learned", "uniform"] = "learned"


def rob_symnmf(
    annotations: Labels,
    *,
    init: Literal["votes", "random"] = "votes",
    starts: int = 4,
    rotations: int = 10,
    reweigh: bool = True,
    count_weights: bool = True,
    xi: float | None = None,
    radius: float = 1.0,
    alpha: float = 1e-6,
    decay: float | None = None,
    shrinkage: float = 0.25,
    prior: Literal["learned", "uniform"] = "learned",
    max_iter: int = 1000,
    tol: float = 1e-7,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Fit:
    """Fit by robust imputation and shifted-ReLU SymNMF; see :class:`RobustSymNMF`."""
    one_of("init", init, ("votes", "random"))
    rotation: dict[str, Any] = {"rotations": rotations, "alpha": alpha, "decay": decay}
    task = PairFit(annotations, **rotation, shrinkage=shrinkage, prior=prior, random_state=random_state)
    fitted: dict[str, Any] = {"reweigh": reweigh, "count_weights": count_weights, "xi": xi, "radius": radius}

    def tell(sweep: int, objective: float) -> Any:
        return callback(Progress(sweep, max_iter, objective, float("nan"), "completing pairs")) if callback else None

    models, imputations = [], []
    for s in range(starts):
        by_votes = s == 0 and init == "votes"
        start = task.votes.confusions * np.sqrt(task.votes.prior) if by_votes else task.random_factors()
        imputed = robust(task.pairs, start, **fitted, max_iter=max_iter, tol=tol, callback=tell)
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
