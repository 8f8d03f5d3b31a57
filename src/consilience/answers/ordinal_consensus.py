"""The consensus of answers on a scale."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from consilience.answers.kinds import ORDINAL_METHOD, Taken
from consilience.auto.expected_error import LATER
from consilience.auto.ordinal import ordinal_pool, shared_votes
from consilience.data.annotations import Annotations
from consilience.data.scales import scale_of
from consilience.exceptions import DataWarning, ParameterError, warn
from consilience.fitting.em import Callback
from consilience.kernels.votes import vote_statistics
from consilience.methods.base.running import run_method
from consilience.runs.consensus import Consensus, choose
from consilience.runs.ordinal_run import OrdinalRun

__all__ = ["aggregate_ordinal"]

#: What ``auto`` reports where it has no model beside the votes: then there is nothing to average.
_NO_MODEL = ("labels", "votes")


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
    """Aggregate answers on a scale, whose levels ``order`` lists from low to high.

    ``taken`` says why they are levels, if that was decided from the labels.  Parameters are those of the method.
    """
    begun = time.perf_counter()
    if silence not in (None, "auto", "random"):
        raise ParameterError("with answers on a scale, silence can only be 'random': it says nothing about the truth")
    known = annotations if gold is None else annotations.with_gold(gold)
    scale = scale_of(known.class_ids, order)
    levels = known.class_ids.take(scale.order)
    a = known.recode(known.annotator_ids, levels)
    options: dict[str, Any] = {"seed": seed, "callback": callback, "later": LATER, **parameters}
    if method.startswith(ORDINAL_METHOD):
        options["order"] = list(levels)
    if method == "auto":
        options["silence"] = "random"
    found = run_method(a, method, **options)
    if method == "auto" and found.run.get("chosen") not in _NO_MODEL and a.n_classes > 1:
        found = _averaged(a, found, order=list(levels), callback=callback, **parameters)
    run = {**found.run, "answers": "ordinal", "scale": scale.values.tolist()}
    run["seconds"] = round(time.perf_counter() - begun, 6)
    if taken.reason:
        warn(taken.reason, DataWarning)
        run["warnings"] = [taken.reason, *run["warnings"]]
    fields = {name: getattr(found, name) for name in Consensus.__dataclass_fields__}
    return OrdinalRun(**{**fields, "run": run})


def _averaged(a: Annotations, nominal: Consensus, **options: Any) -> Consensus:
    """Return the mean of the nominal consensus and the ordinal pool, with the ordinal model."""
    run = nominal.run
    fit, pooled = ordinal_pool(a, shared_votes(a, run.get("copies", ())), **options)
    posterior = 0.5 * (nominal.posterior + pooled)
    finer = "items differ within a level" if fit.details["places"] > 1 else "items of a level are alike"
    why = f"{run['why']}; averaged with a model that knows the order of the levels ({finer})"
    more = {
        "chosen": f"{run['chosen']}, {ORDINAL_METHOD}+votes",
        "why": why,
        "log_likelihood": fit.log_likelihood,
        "converged": bool(run["converged"] and fit.converged),
        "warnings": [*run["warnings"], *(sentence for sentence, _ in fit.cautions)],
        **{name: fit.details[name] for name in ("places", "shape", "strength")},
    }
    return replace(
        nominal,
        model=fit.model,
        posterior=posterior,
        choice=choose(posterior, fit.model.prior, nominal.posterior),
        counts=vote_statistics(a.indptr, a.annotator, a.label, posterior, a.n_annotators).counts,
        run={**run, **more},
    )
