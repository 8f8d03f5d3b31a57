"""The consensus of answers on a scale whose labels are on disk: models are fitted by passes, items labelled in blocks.

The nominal and the ordinal model both need sums over labels only, one pass a step, in memory, from disk or on a Dask
cluster.  So the result is that of labels in memory, up to the samples of :mod:`consilience.auto.places`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from consilience.answers.kinds import ORDINAL_METHOD, Taken
from consilience.auto.expected_error import LATER
from consilience.auto.ordinal import ordinal_auto
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.data.scales import scale_of
from consilience.engine.place import on_disk, passes_at
from consilience.engine.scanned import Scanned
from consilience.engine.streamed import Block, StreamedConsensus
from consilience.exceptions import DataWarning, MethodError
from consilience.fitting.em import Callback
from consilience.kernels._arrays import Floats, Ints
from consilience.methods.base import registry
from consilience.methods.base.cautions import cautions_of, warn_of
from consilience.methods.base.running import JUDGED, consensus_of, run_summary
from consilience.models.dawid_skene import DawidSkene
from consilience.runs.ordinal_run import OrdinalRun

__all__ = ["StreamedOrdinalRun", "stream_ordinal"]

Predictor = Callable[[Annotations], tuple[Floats, Floats]]


class StreamedOrdinalRun(StreamedConsensus, OrdinalRun):
    """A consensus of answers on a scale whose items are labelled block by block."""

    def _columns(self, block: Block) -> dict[str, pa.Array]:
        return self.with_mean_and_median(super()._columns(block), block.posterior, block.choice.best)


def stream_ordinal(
    scanned: Scanned,
    taken: Taken,
    method: str = "auto",
    *,
    order: Sequence[Any] | None = None,
    seed: int | None = 0,
    engine: Any = "local",
    scheduler: str | None = None,
    callback: Callback | None = None,
    **parameters: Any,
) -> StreamedOrdinalRun:
    """Aggregate answers on a scale that are on disk, by "auto" or "ordinal"; see :func:`aggregate_ordinal`."""
    begun = time.perf_counter()
    if method not in ("auto", ORDINAL_METHOD):
        raise MethodError(
            f"{method} of answers on a scale needs all labels in memory, where these {scanned.n_labels} do not fit; "
            "'auto' and 'ordinal' can stream them"
        )
    scale = scale_of(scanned.store.class_ids, order)
    names = scanned.store.class_ids
    options: dict[str, Any] = {**parameters, "order": list(names.take(scale.order)), "callback": callback}
    with passes_at(on_disk(scanned), engine, scheduler) as passes:
        passes.callback = callback
        if method == "auto":
            fit = ordinal_auto(passes, random_state=seed, **options)
        else:
            fit = registry.fit(ORDINAL_METHOD, passes, **options)
        if taken.reason:
            fit = replace(fit, cautions=((taken.reason, DataWarning), *fit.cautions))
        warn_of([*cautions_of(passes), *fit.cautions])
        more: dict[str, Any] = {"answers": "ordinal", "scale": scale.values.tolist(), "engine": _name(engine)}
        told: dict[str, Any] = {"method": method, "parameters": parameters, "seed": seed, "begun": begun}
        run = run_summary(passes, fit, by_user=method != "auto", **told, **more)
        sample = passes.sample(-(-passes.n_labels // JUDGED))
        run["judged_labels"] = sample.n_labels
    model = _model(fit.model, scale.order)
    by_votes = fit.hint is not None
    if fit.predictor is None:  # labels show nothing of who is right
        return StreamedOrdinalRun(scanned, model, None, run, by_votes=by_votes, callback=callback)
    predict = _in_order(fit.predictor, names, scale.order)
    sample = sample.recode(sample.annotator_ids, model.classes)
    posterior, votes = predict(sample)
    # for verdict, estimated error and health
    judged = consensus_of(OrdinalRun, sample, replace(fit, model=model, posterior=posterior, hint=votes), run, LATER)
    return StreamedOrdinalRun(scanned, model, None, run, predictor=predict, judged=judged, callback=callback)


def _name(engine: Any) -> str:
    return engine if isinstance(engine, str) and engine != "local" else "stream" if engine == "local" else "dask"


def _model(model: DawidSkene, levels: Ints) -> DawidSkene:
    """Return a model with its classes in the order of the levels."""
    confusions = np.ascontiguousarray(model.confusions[:, levels][:, :, levels])
    return DawidSkene(model.prior[levels], confusions, model.classes.take(levels), model.annotators)


def _in_order(predictor: Predictor, names: Ids, levels: Ints) -> Predictor:
    """Return a predictor whose columns are in the order of the levels."""

    def predict(block: Annotations) -> tuple[Floats, Floats]:
        posterior, votes = predictor(block.recode(block.annotator_ids, names))
        return np.ascontiguousarray(posterior[:, levels]), np.ascontiguousarray(votes[:, levels])

    return predict
