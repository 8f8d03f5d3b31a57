"""Run one method on labels, wherever they are stored, and build the consensus."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from consilience.data.annotations import Annotations
from consilience.engine.passes import InMemory, Labels, OnDisk, Passes, passes_of
from consilience.engine.place import check_engine, fits, holds_parquet, on_disk, passes_at, spilled
from consilience.exceptions import EngineWarning, MethodError, ParameterError
from consilience.fitting.em import Callback
from consilience.fitting.fit import Caution, Fit
from consilience.io.coercion import as_annotations
from consilience.kernels.votes import vote_statistics
from consilience.methods.base import registry
from consilience.methods.base.cautions import cautions_of, warn_of
from consilience.runs.consensus import Consensus

if TYPE_CHECKING:
    from consilience.engine.checkpoint import Checkpoint
    from consilience.engine.scanned import Scanned

C = TypeVar("C", bound=Consensus)

__all__ = ["JUDGED", "Later", "consensus_of", "labels_at", "run_method", "run_summary"]

#: Labels of the sample by which a streamed run with probabilities of its own is diagnosed.
JUDGED = 500_000
#: Step of the progress of refits without known answers.
_COMPARING = "comparing with known answers"


@dataclass(frozen=True)
class Later:
    """What is computed beside a fit: on first access by the consensus, or with known answers at once."""

    diagnose: Callable[[Annotations, Consensus], Any]
    examine: Callable[[Annotations, Consensus], Any]
    estimate: Callable[[Annotations, Consensus], Any] | None = None
    #: Compares a fit with known answers; the last argument fits the same method to other labels.
    compare: Callable[[Labels, Fit, Callable[[Annotations], Fit]], Fit] | None = None


def run_method(
    data: Any,
    method: str = "auto",
    *,
    later: Later | None = None,
    revise: Callable[[Annotations, Fit], Fit] | None = None,
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
    """Return the consensus of independent items.

    The parameters are those of :func:`consilience.aggregate`; ``later`` adds the diagnosis and the annotators' health,
    and ``revise`` changes the fit of labels in memory.
    """
    check_engine(engine, scheduler)
    begun = time.perf_counter()
    registry.resolve(method)
    saved = None
    if checkpoint is not None:
        from consilience.engine.checkpoint import Checkpoint

        saved = Checkpoint(checkpoint, {"method": method, "parameters": parameters, "seed": seed})
    labels = labels_at(data, gold, engine, memory, saved, callback, reading or {})
    task = _Task(method, parameters, seed, begun, engine, scheduler, saved, callback, later, revise)
    if isinstance(labels, Annotations):
        return task.in_memory(labels)
    if registry.resolve(method)[0].everywhere:
        return task.streamed(labels)
    if fits(labels):
        return task.in_memory(labels.annotations())
    if method == "auto":  # its model is fitted by passes, its other decisions need a sample
        return task.streamed(labels)
    able = ", ".join(each.name for each in registry.METHODS.values() if each.everywhere)
    raise MethodError(
        f"{method} needs all labels in memory, where these {labels.n_labels} do not fit. These methods can stream "
        f"them: auto, and with or without +em {able}. Or allow more memory"
    )


def labels_at(
    data: Any,
    gold: Any,
    engine: Any,
    memory: int | str | None,
    saved: Checkpoint | None,
    callback: Callback | None,
    reading: Mapping[str, Any],
) -> Annotations | Scanned:
    """Read the labels into memory, or scan them where they are to be streamed."""
    is_path = isinstance(data, str | os.PathLike)
    if not is_path and not isinstance(data, Annotations):
        from consilience.engine.scanned import Scanned

        if isinstance(data, Scanned):
            if gold is not None:
                raise ParameterError("known truths of scanned labels are given to scan: consilience.scan(path, gold=…)")
            return data
    if is_path and (engine == "stream" or holds_parquet(data)):
        from consilience.engine.scan import scan

        spill = None if saved is None else saved.folder / "labels"
        return scan(data, memory=memory, spill=spill, gold=gold, callback=callback, **reading)
    annotations = as_annotations(data, **(reading if is_path else {}))
    annotations = annotations if gold is None else annotations.with_gold(gold)
    return spilled(annotations, memory) if engine == "stream" else annotations


@dataclass(frozen=True)
class _Task:
    """A method, its parameters and where it runs; for labels in memory or on disk."""

    method: str
    parameters: Mapping[str, Any]
    seed: int | None
    begun: float
    engine: Any
    scheduler: str | None
    checkpoint: Checkpoint | None
    callback: Callback | None
    later: Later | None
    revise: Callable[[Annotations, Fit], Fit] | None = None

    @property
    def _options(self) -> dict[str, Any]:
        chosen = registry.resolve(self.method)[0]
        seeded = {"random_state": self.seed} if "random_state" in chosen.parameters else {}
        return {**seeded, **self.parameters, "callback": self.callback}

    @contextmanager
    def _placed(self, home: InMemory | OnDisk) -> Iterator[Passes]:
        """Open the passes over labels on the engine, with their checkpoint and callback."""
        with passes_at(home, self.engine, self.scheduler) as passes:
            passes.checkpoint, passes.callback = self.checkpoint, self.callback
            yield passes

    def _summary(self, data: Labels, fit: Fit) -> dict[str, Any]:
        by_user = self.method != "auto"
        more: dict[str, Any] = {}
        if self.engine != "local":
            more = {"engine": self.engine if isinstance(self.engine, str) else "dask"}
        told: dict[str, Any] = {"method": self.method, "parameters": self.parameters, "seed": self.seed}
        alone = not fit.details.get("neighbours", False)
        return run_summary(data, fit, by_user=by_user, begun=self.begun, alone=alone, **told, **more)

    def in_memory(self, a: Annotations) -> Consensus:
        """Run with labels in memory."""
        everywhere = registry.resolve(self.method)[0].everywhere
        if self.checkpoint is not None:
            from consilience.engine.fingerprint import fingerprint

            self.checkpoint.of_labels(fingerprint(a))
        place = (lambda inner: self._placed(InMemory(inner))) if everywhere else nullcontext
        fit = registry.fit(self.method, a, place=place, **self._options)
        fit = fit if self.revise is None else self.revise(a, fit)
        fit = self._compared(a, fit)
        if not everywhere and self.engine != "local":
            sentence = f"{self.method} ran in this process, with all labels in memory"
            fit = replace(fit, cautions=(*fit.cautions, (sentence, EngineWarning)))
        if not everywhere and self.checkpoint is not None:
            sentence = f"{self.method} keeps no checkpoint on its way: a run that is killed starts over"
            fit = replace(fit, cautions=(*fit.cautions, (sentence, EngineWarning)))
        look = InMemory(a)
        alone = not fit.details.get("neighbours", False)
        warn_of([*cautions_of(look, alone=alone, silence=fit.details.get("silence", "random")), *fit.cautions])
        return consensus_of(Consensus, a, fit, self._summary(look, fit), self.later)

    def _compared(self, data: Labels, fit: Fit) -> Fit:
        """Return the fit with what known answers show, if there are any."""
        if self.later is None or self.later.compare is None:
            return fit
        options, tell = self._options, self.callback
        if tell is not None:
            options["callback"] = lambda state: tell(state._replace(step=_COMPARING))
        return self.later.compare(data, fit, lambda some: registry.fit(self.method, some, **options))

    def streamed(self, scanned: Scanned) -> Consensus:
        """Run with labels on disk."""
        from consilience.engine.streamed import StreamedConsensus

        if self.checkpoint is not None:
            self.checkpoint.of_labels(scanned.fingerprint)
        with self._placed(on_disk(scanned)) as passes:
            fit = self._compared(passes, registry.fit(self.method, passes, **self._options))
            warn_of([*cautions_of(passes), *fit.cautions])
            by_votes = fit.hint is not None
            counts = None
            if fit.predictor is None:
                counts = (passes.votes if by_votes else passes.sweep(fit.model.prior, fit.model.confusions)).counts
            run = self._summary(passes, fit)
            judged = None
            if fit.predictor is not None:
                sample = passes.sample(-(-passes.n_labels // JUDGED))
                run["judged_labels"] = sample.n_labels
                judged = self._judged(sample, fit, run)
        return StreamedConsensus(
            scanned,
            fit.model,
            counts,
            run,
            by_votes=by_votes,
            predictor=fit.predictor,
            judged=judged,
            callback=self.callback,
        )

    def _judged(self, sample: Annotations, fit: Fit, run: Mapping[str, Any]) -> Consensus:
        """Return the consensus of a sample under the model of all labels, for verdict, estimated error and health."""
        assert fit.predictor is not None
        posterior, votes = fit.predictor(sample)
        return consensus_of(Consensus, sample, replace(fit, posterior=posterior, hint=votes), run, self.later)


def consensus_of(kind: type[C], a: Annotations, fit: Fit, run: Mapping[str, Any], later: Later | None) -> C:
    """Return the consensus of labels in memory, of this kind."""
    return kind(
        fit.model,
        fit.posterior,
        fit.choice,
        a.item_ids,
        a.labels_per_item,
        vote_statistics(a.indptr, a.annotator, a.label, fit.posterior, a.n_annotators).counts,
        run,
        a.origin,
        partial(later.diagnose, a) if later else None,
        annotations=a,
        examine=partial(later.examine, a) if later else None,
        estimate=partial(later.estimate, a) if later and later.estimate else None,
    )


class Reported(Protocol):
    """What a run reports of a fit, of whatever model."""

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
        """Warnings for the user."""

    @property
    def details(self) -> Mapping[str, Any]:
        """Figures specific to the method."""


def run_summary(
    annotations: Labels,
    fit: Reported,
    *,
    method: str,
    by_user: bool,
    parameters: Mapping[str, Any],
    seed: int | None,
    begun: float,
    alone: bool = True,
    **more: Any,
) -> dict[str, Any]:
    """Return the course of a run in plain values; ``more`` figures come after the counts.

    Where items do not stand ``alone``, those without labels are judged by neighbours or features.
    """
    limits = cautions_of(annotations, alone=alone, silence=fit.details.get("silence", "random"))
    sentences = [sentence for sentence, _ in (*limits, *fit.cautions)]
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
        "answers": "nominal",
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
