"""Dawid-Skene from pairwise co-occurrences, missing pairs imputed through designated annotators.

    X = H Hᵀ,  H = [A_1; …; A_M] D^(1/2)        (Ibrahim & Fu 2022, eq. (6))

As :mod:`consilience.methods.rob_symnmf`, but a missing block of X is computed along annotators who have items in common
with everybody (eqs (7)-(8)).

S. Ibrahim and X. Fu, "Crowdsourcing via annotator co-occurrence imputation and provable symmetric nonnegative matrix
factorization" (2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from consilience.engine.passes import Labels
from consilience.exceptions import FewLabelsWarning, ParameterError
from consilience.fitting.em import Callback
from consilience.fitting.fit import Fit
from consilience.methods.base.estimator import RefinableEstimator
from consilience.methods.base.factor_model import PairFit
from consilience.methods.base.method import Method
from consilience.moments.imputation import designated
from consilience.published import AsPublished

__all__ = ["METHOD", "DesignatedSymNMF", "des_symnmf"]


class DesignatedSymNMF(AsPublished, RefinableEstimator):
    """Dawid-Skene from pairs of annotators, missing ones imputed through designated annotators (Ibrahim & Fu 2022).

    Parameters
    ----------
    through
        Names of the designated annotators, who have items in common with everybody; all that qualify by default.
    rounds
        Rounds of (7)-(8); each may use what was imputed before.
    refine, rotations, alpha, decay, shrinkage, prior, random_state, callback
        As for :class:`RobustSymNMF`.
    """

    _method = "des-symnmf"

    through: Sequence[Any] | None = None
    rounds: int = 3
    rotations: int = 20
    alpha: float = 1e-6
    decay: float | None = None
    shrinkage: float = 0.25
    prior: Literal["learned", "uniform"] = "learned"


def des_symnmf(
    annotations: Labels,
    *,
    through: Sequence[Any] | None = None,
    rounds: int = 3,
    rotations: int = 20,
    alpha: float = 1e-6,
    decay: float | None = None,
    shrinkage: float = 0.25,
    prior: Literal["learned", "uniform"] = "learned",
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Fit:
    """Fit by imputation along designated annotators and shifted-ReLU SymNMF; see :class:`DesignatedSymNMF`."""
    rotation: dict[str, Any] = {"rotations": rotations, "alpha": alpha, "decay": decay}
    task = PairFit(annotations, **rotation, shrinkage=shrinkage, prior=prior, random_state=random_state)
    codes = None
    if through is not None:
        codes = task.passes.annotator_ids.codes_of(list(through)).tolist()
        if -1 in codes:
            raise ParameterError(f"there is no annotator {list(through)[codes.index(-1)]!r} to designate")
        codes = task.order.back.annotators[codes].tolist()
    completed = designated(task.pairs, through=codes, rounds=rounds)
    fit = task.fit_matrix(completed.matrix, pairs_imputed=completed.imputed)
    if completed.imputed == 1.0:
        return fit
    sentence = (
        f"of the pairs of annotators without common items, {1 - completed.imputed:.0%} could not be imputed "
        "and count as zero; rob-symnmf does not need them"
    )
    return replace(fit, cautions=(*fit.cautions, (sentence, FewLabelsWarning)))


METHOD = Method(
    "des-symnmf",
    des_symnmf,
    "DesignatedSymNMF",
    "confusions from pairs, missing ones through annotators who met everybody",
    everywhere=True,
)
