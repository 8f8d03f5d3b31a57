"""From annotations to a consensus in one call."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from consilience.aggregation import registry
from consilience.aggregation.em import Callback
from consilience.aggregation.fit import Caution, Fit
from consilience.annotations import Annotations
from consilience.consensus import Consensus
from consilience.engine.checkpoint import Checkpoint
from consilience.engine.fingerprint import fingerprint
from consilience.engine.passes import InMemory, Labels, OnDisk, Passes, passes_of
from consilience.engine.place import check_engine, fits, holds_parquet, on_disk, passes_at, spilled
from consilience.engine.scanned import Scanned
from consilience.engine.streamed import StreamedConsensus
from consilience.exceptions import DataError, EngineWarning, FewLabelsWarning, MethodError, ParameterError, warn
from consilience.kernels.votes import vote_statistics
from consilience.sequences import SequenceAnnotations

__all__ = ["aggregate", "as_annotations", "cautions_of", "diagnose_run", "examine_run", "story", "warn_of"]

#: What "auto" runs where labels do not fit in memory, and why.
_INSTEAD = "ds-em"
_WHY = "auto compares models with all labels in memory, where these do not fit; this one streams"
#: What is said of a method that needs all labels in memory.
_HERE = "in this process, with all labels in memory"
_NOTHING_KEPT = "keeps no checkpoint on its way: a run that is killed starts over"


def aggregate(
    data: Any,
    method: str = "auto",
    *,
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
    """Turn what annotators said into labels with probabilities.

    Parameters
    ----------
    data
        Annotations, a long frame, an (items × annotators) matrix with NaN or -1 for missing, the path of a file or of a
        folder of Parquet files, or what :func:`consilience.scan` gives.
    method
        A name from :data:`consilience.METHODS`; ``+em`` refines any of them.
    gold
        Known truths, held fixed; see :meth:`consilience.Annotations.with_gold`.
    seed
        Decides everything that is random.
    engine
        Where the passes over the data run: "local" (this process), "stream" (this process, labels on disk), "dask", or
        a client of Dask's.  What was scanned, and folders of Parquet files, are streamed where "local" is said.
    memory
        With labels on disk: how much this process may take, such as "2GiB"; by default half the machine's.
    scheduler
        With "dask": address of the scheduler.  By default the client in use, or else processes of this machine.
    checkpoint
        Folder that keeps what was learned so far: a killed run goes on from there, to the same result.
    reading
        With a path: what :func:`consilience.read` or :func:`consilience.scan` are to be told, such as ``item``.
    callback
        Told of every pass over the data.
    **parameters
        Those of the method, such as ``smoothing``, ``max_iter`` and ``tol``.
    """
    check_engine(engine)
    begun = time.perf_counter()
    registry.resolve(method)
    kept = None
    if checkpoint is not None:
        kept = Checkpoint(checkpoint, {"method": method, "parameters": parameters, "seed": seed})
    labels = _labels(data, gold, engine, memory, kept, callback, reading or {})
    job = _Job(method, parameters, seed, begun, engine, scheduler, kept, callback)
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
            partial(diagnose_run, annotations),
            annotations=annotations,
            examine=partial(examine_run, annotations),
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


def diagnose_run(annotations: Annotations, consensus: Consensus) -> Any:
    """Diagnose the labels that a run came from."""
    from consilience.diagnose import diagnose

    return diagnose(annotations, consensus=consensus, seed=consensus.run["seed"] or 0)


def examine_run(annotations: Annotations, consensus: Consensus) -> Any:
    """Look for copies and changes in the labels that a run came from."""
    from consilience.diagnose.health import annotator_health

    return annotator_health(annotations, consensus)


def as_annotations(data: Any, **reading: Any) -> Annotations:
    """Take annotations as they are; read files (with options for ``reading``), long frames and matrices."""
    from consilience import _frames

    if isinstance(data, Annotations):
        return data
    if isinstance(data, SequenceAnnotations):
        raise DataError("these are labels of tokens in order, and only items by themselves can be used here")
    if isinstance(data, str | os.PathLike):
        from consilience.io import read

        return as_annotations(read(data, **reading))
    if _frames.is_frame(data) and is_long(_frames.columns_of(data)):
        return Annotations.from_frame(data)
    return Annotations.from_matrix(data)


def is_long(columns: list[str]) -> bool:
    """Tell whether a frame with these columns holds a label in each row: any of the three roles has a known name.

    A frame that names one role only is taken for a long frame with a column missing, not for a matrix: the error helps.
    """
    from consilience._frames import ALIASES

    names = {str(name).strip().lower() for name in columns}
    return any(names.intersection(ALIASES[role]) for role in ("item", "annotator", "label"))


def cautions_of(annotations: Labels, *, alone: bool = True) -> list[Caution]:
    """Say what about the data itself limits any method; items that do not stand ``alone`` have neighbours."""
    found: list[Caution] = []
    seen = passes_of(annotations).survey
    counts = seen.said.sum(axis=1)
    active = int((counts > 0).sum())
    if annotations.n_classes == 1:
        found.append((f"every label is {annotations.class_ids[0]!r}: there is nothing to tell apart", FewLabelsWarning))
    if active == 1:
        found.append(("there is only one annotator: the labels are theirs, and nothing checks them", FewLabelsWarning))
    elif active == 2:
        found.append(
            (
                "there are only two annotators: where they differ, the data cannot tell who is right",
                FewLabelsWarning,
            )
        )
    elif seen.longest <= 1:
        found.append(("no item has two labels: nothing shows who is right", FewLabelsWarning))
    single = int((counts == 1).sum())
    if single and active > 2:
        found.append(
            (f"annotators who gave a single label: {single} of {active}; little can be said of them", FewLabelsWarning)
        )
    crowds = np.unique(seen.component[counts > 0]).size
    if crowds > 1:
        found.append(
            (
                f"the annotators fall into {crowds} groups that share no item: "
                "how the groups compare is not in the data. Let members of different groups label some items in common",
                FewLabelsWarning,
            )
        )
    if seen.unlabelled:
        what = "stay unlabelled" if alone else "are judged by their neighbours alone"
        found.append((f"{seen.unlabelled} items have no label and {what}", FewLabelsWarning))
    return found


def warn_of(cautions: list[Caution]) -> None:
    """Warn of each."""
    for sentence, category in cautions:
        warn(sentence, category)
