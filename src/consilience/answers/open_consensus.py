"""The consensus of answers whose options differ from item to item."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from consilience.answers.kinds import OPEN_METHOD, Taken
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids, encode
from consilience.data.truth import truth_columns
from consilience.diagnose.left_out import estimated_error, left_out
from consilience.diagnose.open_answers import diagnose_open, without_answers
from consilience.exceptions import DataWarning, ParameterError
from consilience.fitting.em import Callback
from consilience.kernels._arrays import Codes, Floats
from consilience.methods.base import registry
from consilience.methods.base.cautions import cautions_of, warn_of
from consilience.methods.base.running import run_summary
from consilience.methods.open_answers import fit_open
from consilience.runs.open_run import OpenRun, choose_answers
from consilience.validation import check_names, check_parameters

__all__ = ["aggregate_open"]


def aggregate_open(
    annotations: Annotations,
    taken: Taken,
    method: str = "auto",
    *,
    gold: Any = None,
    seed: int | None = 0,
    callback: Callback | None = None,
    checkpoint: Any = None,
    **parameters: Any,
) -> OpenRun:
    """Aggregate open answers; the parameters are those of :class:`consilience.OpenAnswers`.

    ``taken`` says why the answers are open, if that was decided from the labels.
    """
    begun = time.perf_counter()
    if parameters.pop("silence", "auto") not in ("auto", "random"):
        raise ParameterError("with open answers, silence can only be 'random': it says nothing about the truth")
    check_names(f"{OPEN_METHOD}, for open answers,", parameters, registry.METHODS[OPEN_METHOD].parameters)
    check_parameters(parameters)
    if checkpoint is not None:
        raise ParameterError("open answers need seconds at most, and keep no checkpoint")
    a = annotations if gold is None else _with_gold(annotations, gold)
    fit = fit_open(a, callback=callback, **parameters)
    known, contradicted = left_out(a, partial(_labelled, callback=callback, **parameters))
    fit = replace(fit, cautions=(*contradicted, *fit.cautions))
    if taken.reason:
        fit = replace(fit, cautions=((taken.reason, DataWarning), *fit.cautions))
    bare = without_answers(a)
    warn_of([*cautions_of(bare), *fit.cautions])
    more: dict[str, Any] = {"K": a.n_classes, "answers": "open"}
    if method == "auto":
        more |= {"chosen": OPEN_METHOD, "why": "options differ from item to item"}
    if known:
        more["known_answers"] = known
    by_user = method != "auto"
    run = run_summary(bare, fit, method=method, by_user=by_user, parameters=parameters, seed=seed, begun=begun, **more)
    n_labels = a.labels_per_annotator
    candidates = fit.posterior.candidates
    return OpenRun(
        fit.model,
        fit.posterior.probability,
        choose_answers(fit.posterior),
        a.item_ids,
        a.labels_per_item,
        np.stack([fit.right, n_labels - fit.right], axis=1),
        run,
        a.origin,
        partial(diagnose_open, a),
        annotations=a,
        estimate=estimated_error,
        first=candidates.first,
        answer=candidates.answer,
        size=candidates.size,
    )


def _labelled(annotations: Annotations, **parameters: Any) -> tuple[Codes, Floats]:
    """Return the answer of every item and the confidence in it, (N,) both."""
    found = fit_open(annotations, **parameters).posterior
    best, _ = found.two_best()
    return choose_answers(found).best, np.append(found.probability, 0.0)[best]


def _with_gold(annotations: Annotations, gold: Any) -> Annotations:
    """Add known answers; one that nobody gave becomes an answer too."""
    _, values = truth_columns(gold, annotations.item_ids, annotations.origin.item, "gold")
    named = encode(values)[1].to_arrow()
    new = named.filter(pa.array(annotations.class_ids.codes_of(named) < 0))
    new = new.filter(pa.array([value != -1 for value in new.to_pylist()], pa.bool_()))
    if len(new):
        known = annotations.class_ids.to_arrow()
        if known.type != new.type:
            known, new = known.cast(pa.string()), new.cast(pa.string())
        classes, _ = Ids(pa.concat_arrays([known, new])).sorted()
        annotations = annotations.recode(annotations.annotator_ids, classes)
    return annotations.with_gold(gold)
