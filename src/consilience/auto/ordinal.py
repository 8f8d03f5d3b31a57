"""The default for answers on a scale: the mean of two pools, votes with a nominal model and votes with an ordinal one.

The nominal pool is ``auto`` as it is.  The ordinal pool is the same pool with :mod:`consilience.methods.ordinal` in the
place of its model: who shares a vote, how far votes and models are trusted, and what known answers teach are the same
for both.  The pools count alike: there is no constant to choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from consilience.auto.auto import auto
from consilience.auto.places import predicted
from consilience.auto.pool import Pool
from consilience.data.annotations import Annotations
from consilience.engine.passes import Labels
from consilience.fitting.em import Callback
from consilience.fitting.fit import Fit
from consilience.kernels._arrays import Floats
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
    """Average the nominal and the ordinal pool; the model is the ordinal one.

    ``order`` lists the levels from low to high; the other parameters are those of :class:`consilience.Auto`.  If labels
    show nothing of who is right, there is no model, and the order changes nothing.
    """
    options: dict[str, Any] = {"max_iter": max_iter, "tol": tol, "callback": callback}
    nominal = auto(annotations, silence="random", random_state=random_state, **options)
    if not isinstance(nominal.predictor, Pool) or nominal.details.get("chosen") == "labels":
        return nominal
    fit = ordinal(annotations, order=order, weights=nominal.predictor.counted, **options)
    assert isinstance(fit.predictor, PlacesModel)
    predictor = Average(nominal.predictor, replace(nominal.predictor, model=fit.predictor.posterior))
    posterior, votes = predicted(annotations, predictor)
    finer = "items differ within a level" if fit.details["places"] > 1 else "items of a level are alike"
    details = {
        **nominal.details,
        "chosen": f"{nominal.details['chosen']}, ordinal+votes",
        "why": f"{nominal.details['why']}; averaged with a model that knows the order of the levels ({finer})",
        **{name: fit.details[name] for name in ("places", "shape", "strength")},
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


@dataclass(frozen=True)
class Average:
    """The mean of two pools of the same annotators."""

    nominal: Pool
    ordinal: Pool

    def __call__(self, annotations: Annotations) -> tuple[Floats, Floats]:
        """Return probabilities and vote shares of any items, both (N, K)."""
        (one, votes), (other, _) = self.nominal(annotations), self.ordinal(annotations)
        return 0.5 * (one + other), votes
