"""The default for answers on a scale: the pool of ``auto`` with an ordinal model in the place of the nominal one.

Who shares a vote, and how far votes and model are trusted, is as without the order; known answers are compared with the
ordinal model.  That is :mod:`consilience.methods.ordinal`, whose confusions depart from the scale as far as the labels
show.  Doubt is spread as the levels are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from consilience.auto.auto import pooled
from consilience.auto.crowds import Annotators, Built
from consilience.data.annotations import Annotations
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
    return pooled(annotations, _Raters(annotations, order, options, random_state))


class _Raters:
    """Annotators whose answers have an order."""

    assigned = True

    def __init__(
        self, annotations: Labels, order: Sequence[Any] | None, options: Mapping[str, Any], random_state: Any
    ) -> None:
        self.annotators, self.order, self.options = Annotators(annotations, options, random_state), order, options
        self.nominal: Built | None = None

    def build(self, annotations: Labels, sample: Annotations) -> Built:
        """Return the pool of votes and ordinal model; how far each is trusted is decided at the first call."""
        nominal = self.nominal = self.nominal or self.annotators.build(annotations, sample)
        fit = ordinal(annotations, order=self.order, weights=self.annotators.weights, **self.options)
        assert isinstance(fit.predictor, PlacesModel)
        finer = "items differ within a level" if fit.details["places"] > 1 else "items of a level are alike"
        details = {
            **nominal.details,
            "chosen": "ordinal+votes",
            "why": f"{nominal.details['why']}; the model knows the order of the levels ({finer})",
            **{name: fit.details[name] for name in ("places", "strength")},
        }
        return Built(
            replace(nominal.pool, model=fit.predictor.posterior, rest=fit.model.prior),
            fit.model,
            fit.log_likelihood,
            nominal.converged and fit.converged,
            fit.history,
            details,
            (*nominal.cautions, *fit.cautions),
            nominal.evidence,
        )
