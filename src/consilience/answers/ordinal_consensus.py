"""The consensus of answers on a scale."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from consilience.answers.kinds import ORDINAL_METHOD, Taken
from consilience.auto.expected_error import LATER
from consilience.auto.ordinal import ordinal_auto
from consilience.data.annotations import Annotations
from consilience.data.scales import Scale, scale_of
from consilience.exceptions import DataWarning, ParameterError
from consilience.fitting.em import Callback
from consilience.fitting.fit import Fit
from consilience.methods.base import registry
from consilience.methods.base.cautions import cautions_of, warn_of
from consilience.methods.base.running import consensus_of, run_summary
from consilience.runs.ordinal_run import OrdinalRun
from consilience.validation import check_names, check_parameters, keywords

__all__ = ["aggregate_ordinal", "fit_levels", "in_order"]


def in_order(annotations: Annotations, order: Sequence[Any] | None = None) -> tuple[Annotations, Scale]:
    """Return labels whose classes are the levels from low to high, and their scale."""
    scale = scale_of(annotations.class_ids, order)
    return annotations.recode(annotations.annotator_ids, annotations.class_ids.take(scale.order)), scale


def fit_levels(method: str, annotations: Annotations, **options: Any) -> Fit:
    """Run a method by name on answers on a scale, whose classes are the levels from low to high."""
    if method == "auto":
        check_names("auto, for answers on a scale,", options, keywords(ordinal_auto))
        check_parameters(options)
        return ordinal_auto(annotations, order=list(annotations.class_ids), **options)
    if registry.resolve(method)[0].name == ORDINAL_METHOD:
        options["order"] = list(annotations.class_ids)
    return registry.fit(method, annotations, **options)


def aggregate_ordinal(
    annotations: Annotations,
    taken: Taken,
    method: str = "auto",
    *,
    order: Sequence[Any] | None = None,
    gold: Any = None,
    seed: int | None = 0,
    callback: Callback | None = None,
    silence: Any = None,
    **parameters: Any,
) -> OrdinalRun:
    """Aggregate answers on a scale, whose levels ``order`` lists from low to high, by any method.

    ``taken`` says why they are levels, if that was decided from the labels.  ``parameters`` are those of the method.
    """
    begun = time.perf_counter()
    if silence not in (None, "auto", "random"):
        raise ParameterError("with answers on a scale, silence can only be 'random': it says nothing about the truth")
    a, scale = in_order(annotations if gold is None else annotations.with_gold(gold), order)
    given = {"random_state": seed} if "random_state" in registry.resolve(method)[0].parameters else {}
    fit = fit_levels(method, a, **given, **parameters, callback=callback)
    if taken.reason:
        fit = replace(fit, cautions=((taken.reason, DataWarning), *fit.cautions))
    warn_of([*cautions_of(a), *fit.cautions])
    more = {"answers": "ordinal", "scale": scale.values.tolist()}
    by_user = method != "auto"
    run = run_summary(a, fit, method=method, by_user=by_user, parameters=parameters, seed=seed, begun=begun, **more)
    return consensus_of(OrdinalRun, a, fit, run, LATER)
