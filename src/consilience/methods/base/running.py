"""Run one method on labels, wherever they are stored, and build the consensus."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from consilience.data.annotations import Annotations
from consilience.engine.checkpoint import Checkpoint
from consilience.engine.fingerprint import fingerprint
from consilience.engine.passes import InMemory, Labels, OnDisk, Passes, passes_of
from consilience.engine.place import check_engine, fits, holds_parquet, on_disk, passes_at, spilled
from consilience.engine.scanned import Scanned
from consilience.engine.streamed import StreamedConsensus
from consilience.exceptions import EngineWarning, MethodError, ParameterError
from consilience.fitting.em import Callback
from consilience.fitting.fit import Caution, Fit
from consilience.io.coercion import as_annotations
from consilience.kernels.votes import vote_statistics
from consilience.methods.base import registry
from consilience.methods.base.cautions import cautions_of, warn_of
from consilience.runs.consensus import Consensus

__all__ = ["Later", "run_method", "story"]

#: What "auto" runs where labels do not fit in memory, and why.
_INSTEAD = "ds-em"
_WHY = "auto compares models with all labels in memory, where these do not fit; this one streams"
#: What is said of a method that needs all labels in memory.
_HERE = "in this process, with all labels in memory"
_NOTHING_KEPT = "keeps no checkpoint on its way: a run that is killed starts over"


@dataclass(frozen=True)
class Later:
    """What a consensus computes when it is first asked for, from the labels and itself."""

    diagnose: Callable[[Annotations, Consensus], Any]
    examine: Callable[[Annotations, Consensus], Any]


def run_method(
    data: Any,
    method: str = "auto",
    *,
    later: Later | None = None,
    gold: Any = None,
    seed: int | None = 0,
    engine: Any = "local",
    memory: int | str | None = None,
    scheduler: str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    reading: Mapping[str, Any] | None = None,
    callback: Callback | None = None,
    **parameters: Any,
) -> Consensus:
    """Return the consensus of items that stand by themselves.

    The parameters are those of :func:`consilience.aggregate`; ``later`` adds the diagnosis and the annotators' health.
    """
    check_engine(engine)
    begun = time.perf_counter()
    registry.resolve(method)
    kept = None
    if checkpoint is not None:
        kept = Checkpoint(checkpoint, {"method": method, "parameters": parameters, "seed": seed})
    labels = _labels(data, gold, engine, memory, kept, callback, reading or {})
    job = _Job(method, parameters, seed, begun, engine, scheduler, kept, callback, later)
    if not isinstance(labels, Scanned):
        return job.held(labels)
    if registry.resolve(method)[0].everywhere:
        return job.streamed(labels)
    if fits(labels):
        return job.held(labels.annotations())
    if method == "auto":
        return replace(job, method=_INSTEAD).streamed(labels, chosen=_INSTEAD, why=_WHY)
    able = ", ".join(each.name for each in registry.METHODS.values() if each.everywhere)
    raise MethodError(
        f"{method} needs all labels in memory, where these {labels.n_labels} do not fit. These methods can stream "
        f"them, with or without +em: {able}. Or allow more memory"
    )


def _labels(
    data: Any,
    gold: Any,
    engine: Any,
    memory: int | str | None,
    kept: Checkpoint | None,
    callback: Callback | None,
    reading: Mapping[str, Any],
) -> Annotations | Scanned:
    """Read the labels into memory, or scan them where they are to be streamed."""
    if isinstance(data, Scanned):
        if gold is not None:
            raise ParameterError("known truths of scanned labels are given to scan: consilience.scan(path, gold=…)")
        return data
    is_path = isinstance(data, str | os.PathLike)
    if is_path and (engine == "stream" or holds_parquet(data)):
        from consilience.engine.scan import scan

        spill = None if kept is None else kept.folder / "labels"
        return scan(data, memory=memory, spill=spill, gold=gold, callback=callback, **reading)
    annotations = as_annotations(data, **(reading if is_path else {}))
    annotations = annotations if gold is None else annotations.with_gold(gold)
    return spilled(annotations, memory) if engine == "stream" else annotations


@dataclass(frozen=True)
class _Job:
    """What is to be done with labels, wherever they are."""

    method: str
    parameters: Mapping[str, Any]
    seed: int | None
    begun: float
    engine: Any
    scheduler: str | None
    kept: Checkpoint | None
    callback: Callback | None
    later: Later | None

    @property
    def _options(self) -> dict[str, Any]:
        seeded = {"random_state": self.seed} if "random_state" in self._chosen.parameters else {}
        return {**seeded, **self.parameters, "callback": self.callback}

    @property
    def _chosen(self) -> registry.Method:
        return registry.resolve(self.method)[0]

    @contextmanager
    def _placed(self, home: InMemory | OnDisk) -> Iterator[Passes]:
        """Give the passes over labels as they run on the engine, with what they keep and whom they tell."""
        with passes_at(home, self.engine, self.scheduler) as passes:
            passes.checkpoint, passes.callback = self.kept, self.callback
            yield passes

    def _told(self, data: Labels, fit: Fit, **more: Any) -> dict[str, Any]:
        by_user = self.method != "auto" and "why" not in more
        if self.engine != "local":
            more = {"engine": self.engine if isinstance(self.engine, str) else "dask", **more}
        told: dict[str, Any] = {"method": self.method, "parameters": self.parameters, "seed": self.seed}
        return story(data, fit, by_user=by_user, begun=self.begun, **told, **more)

    def held(self, annotations: Annotations) -> Consensus:
        """Do it with labels in memory."""
        everywhere = self._chosen.everywhere
        if self.kept is not None:
            self.kept.of_labels(fingerprint(annotations))
        place = (lambda a: self._placed(InMemory(a))) if everywhere else nullcontext
        fit = registry.fit(self.method, annotations, place=place, **self._options)
        if not everywhere and self.engine != "local":
            fit = replace(fit, cautions=(*fit.cautions, (f"{self.method} ran {_HERE}", EngineWarning)))
        if not everywhere and self.kept is not None:
            fit = replace(fit, cautions=(*fit.cautions, (f"{self.method} {_NOTHING_KEPT}", EngineWarning)))
        look = InMemory(annotations)
        warn_of([*cautions_of(look), *fit.cautions])
        statistics = vote_statistics(
            annotations.indptr, annotations.annotator, annotations.label, fit.posterior, annotations.n_annotators
        )
        return Consensus(
            fit.model,
            fit.posterior,
            fit.choice,
            annotations.item_ids,
            annotations.labels_per_item,
            statistics.counts,
            self._told(look, fit),
            annotations.origin,
            partial(self.later.diagnose, annotations) if self.later else None,
            annotations=annotations,
            examine=partial(self.later.examine, annotations) if self.later else None,
        )

    def streamed(self, scanned: Scanned, **more: Any) -> StreamedConsensus:
        """Do it with labels on disk."""
        if self.kept is not None:
            self.kept.of_labels(scanned.fingerprint)
        with self._placed(on_disk(scanned)) as passes:
            fit = registry.fit(self.method, passes, **self._options)
            warn_of([*cautions_of(passes), *fit.cautions])
            by_votes = fit.hint is not None
            counts = (passes.votes if by_votes else passes.sweep(fit.model.prior, fit.model.confusions)).counts
            run = self._told(passes, fit, **more)
        return StreamedConsensus(scanned, fit.model, counts, run, by_votes=by_votes, callback=self.callback)


class Told(Protocol):
    """What a fit tells of itself."""

    @property
    def log_likelihood(self) -> float:
        """Log-probability of all labels."""

    @property
    def converged(self) -> bool:
        """Whether the tolerance was met."""

    @property
    def history(self) -> list[float]:
        """The objective after every pass."""

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """What the user should know."""

    @property
    def details(self) -> Mapping[str, Any]:
        """Figures of the method's own."""


def story(
    annotations: Labels,
    fit: Told,
    *,
    method: str,
    by_user: bool,
    parameters: Mapping[str, Any],
    seed: int | None,
    begun: float,
    alone: bool = True,
    **more: Any,
) -> dict[str, Any]:
    """Tell how a run went, in plain values; ``more`` figures stand behind the counts.

    Where items do not stand ``alone``, what has no label of its own is judged by its neighbours.
    """
    sentences = [sentence for sentence, _ in (*cautions_of(annotations, alone=alone), *fit.cautions)]
    if not alone:
        more = {**more, "neighbours": True}
    return {
        "method": method,
        "chosen_by": "user" if by_user else "auto",
        "parameters": dict(parameters),
        "N": annotations.n_items,
        "M": annotations.n_annotators,
        "K": annotations.n_classes,
        "labels": annotations.n_labels,
        **more,
        "gold_items": int(passes_of(annotations).survey.known.sum()),
        "seed": seed,
        "seconds": round(time.perf_counter() - begun, 6),
        "log_likelihood": fit.log_likelihood,
        "converged": fit.converged,
        "iterations": len(fit.history),
        "history": [float(value) for value in fit.history],
        **fit.details,
        "warnings": [*annotations.origin.notes, *sentences],
    }
