"""The default for answers on a scale: the mean of two pools, votes with a nominal model and votes with an ordinal one.

The nominal pool is ``auto`` as it is.  The ordinal pool is the same rule (:mod:`consilience.auto.pool`) with
:mod:`consilience.methods.ordinal` as the model.  Both count alike: there is no constant to choose.  Known answers teach
each how far to trust votes, model and annotators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from consilience.auto import constants
from consilience.auto.known_answers import known_items, learn_from_known
from consilience.auto.pool import Pool
from consilience.data.annotations import Annotations
from consilience.fitting.em import Callback
from consilience.fitting.fit import Fit
from consilience.kernels._arrays import Floats
from consilience.methods.ordinal import PlacesModel, ordinal

__all__ = ["ordinal_pool", "shared_votes"]


def shared_votes(annotations: Annotations, groups: Sequence[Sequence[Any]]) -> Floats | None:
    """Return how many times the labels of each annotator count, (M,): a group that answers as one has one vote."""
    if not groups:
        return None
    weights = np.ones(annotations.n_annotators)
    for names in groups:
        weights[annotations.annotator_ids.codes_of(list(names))] = 1.0 / len(names)
    return weights


def ordinal_pool(
    annotations: Annotations,
    weights: Floats | None,
    *,
    order: Sequence[Any],
    callback: Callback | None = None,
    **options: Any,
) -> tuple[Fit, Floats]:
    """Return the fit of the ordinal model, and the pool of votes and model, (N, K).

    The labels of annotator m count ``weights[m]`` times; ``options`` are those of :func:`.ordinal`.
    """
    a = annotations

    def built(some: Annotations) -> tuple[Fit, Pool]:
        fit = ordinal(some, order=order, weights=weights, callback=callback, **options)
        model = fit.predictor
        assert isinstance(model, PlacesModel)
        return fit, Pool(model.posterior, some.annotator_ids, weights)

    fit, pool = built(a)
    if known_items(a).size >= constants.LEAST_KNOWN:
        pool = learn_from_known(a, pool, lambda some: built(some)[1])[0]
    return fit, pool(a)[0]
