"""The default for answers on a scale: the pool of ``auto`` with an ordinal model in the place of the nominal one.

Who shares a vote, how far votes and model are trusted, and what known answers teach is as without the order.  The model
is :mod:`consilience.methods.ordinal`, whose confusions depart from the scale as far as the labels show.  Doubt is
spread as the levels are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from consilience.auto.auto import auto
from consilience.auto.places import predicted
from consilience.auto.pool import Pool
from consilience.engine.passes import Labels
from consilience.fitting.em import Callback
from consilience.fitting.fit import Fit
from consilience.methods.ordinal import PlacesModel, ordinal

__all__ = ["ordinal_auto"]


def ordinal_auto(
    annotations: Labels,
    *,
    order: Sequence[Any] | None = None,
    max_iter: int = 1000,
    tol: float = 1e-6,
    random_state: Any = 0,
    callback: Callback | None = None,
) -> Fit:
    """Pool votes and the ordinal model.

    ``order`` lists the levels from low to high; the other parameters are those of :class:`consilience.Auto`.  If labels
    show nothing of who is right, there is no model, and the order changes nothing.
    """
    options: dict[str, Any] = {"max_iter": max_iter, "tol": tol, "callback": callback}
    nominal = auto(annotations, silence="random", random_state=random_state, **options)
    if not isinstance(nominal.predictor, Pool) or nominal.details.get("chosen") == "labels":
        return nominal
    fit = ordinal(annotations, order=order, weights=nominal.predictor.counted, **options)
    assert isinstance(fit.predictor, PlacesModel)
    predictor = replace(nominal.predictor, model=fit.predictor.posterior, rest=fit.model.prior)
    posterior, votes = predicted(annotations, predictor)
    finer = "items differ within a level" if fit.details["places"] > 1 else "items of a level are alike"
    details = {
        **nominal.details,
        "chosen": "ordinal+votes",
        "why": f"{nominal.details['why']}; the model knows the order of the levels ({finer})",
        **{name: fit.details[name] for name in ("places", "strength")},
    }
    converged = nominal.converged and fit.converged
    cautions = (*nominal.cautions, *fit.cautions)
    return replace(
        fit,
        posterior=posterior,
        converged=converged,
        cautions=cautions,
        hint=votes,
        predictor=predictor,
        details=details,
    )
