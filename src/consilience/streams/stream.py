"""Labels that keep coming: a consensus that continues from what it has learned.

A stream holds the latest labels, up to ``window`` of them, and everything before as sums
(:mod:`consilience.streams.past`).  While all labels fit the window, the result is that of
:func:`consilience.aggregate` on all of them.  Later, the items that were labelled longest ago are settled: their labels
are summed under the current parameters.  EM then passes over the held labels only, with the sums as its past
(:mod:`consilience.streams.em`).

Settled labels are also remembered as far as there is room (:mod:`consilience.streams.archive`).  When their item is
labelled again they are removed from the sums and held with the new labels, and for every new label one old label is
fitted again in turn.  Labels beyond that stay in the sums and are not revised.

``forget`` reduces, at each update, the past of every annotator with labels in it: recent labels count most.  Then
nothing is held: every update is settled at once, so that items are judged by what their annotators were at the time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from consilience.exceptions import DataError, MethodError, ParameterError
from consilience.fitting.em import Parameters
from consilience.fitting.fit import unconverged
from consilience.kernels._arrays import Floats
from consilience.kernels.em import Statistics
from consilience.methods.base import registry
from consilience.methods.base.cautions import warn_of
from consilience.models.dawid_skene import DawidSkene
from consilience.runs.consensus import Consensus, choose
from consilience.streams.em import LabelsWithPast
from consilience.streams.files import load_stream, save_stream
from consilience.streams.input import read_update
from consilience.streams.learning import Learning, check_limits
from consilience.streams.names import joined
from consilience.streams.past import sums_of
from consilience.streams.solve import STREAMED, model_step, pseudo_counts
from consilience.validation import check_names, check_parameters

__all__ = ["Stream"]


class Stream(Learning):
    """A consensus of labels that keep coming.

    Parameters
    ----------
    method
        "ds-em", "one-coin", "majority", "rob-symnmf", "rob-symnmf+em", or "auto", which continues as "ds-em" once
        labels are settled.
    forget
        Share of the past that each update takes away, from 0 (nothing is forgotten) up to 1, to follow annotators who
        change.  Evidence halves in log(0.5) / log(1 - forget) updates.
    window
        Number of labels to hold and pass over; older labels are kept as sums.  By default 100 000, or 0 with
        ``forget``.
    remember
        Number of older labels to remember, 16 bytes each.  They are held again when their item is labelled again, and
        in turn, one for every new label.  By default ten million, or 0 with ``forget``.
    seed
        Seed of all random numbers.
    **parameters
        Those of the method, as for :func:`consilience.aggregate`.

    Examples
    --------
    >>> import consilience as cs
    >>> crowd = cs.simulate(300, 10, 2, seed=1).annotations
    >>> stream = cs.Stream("ds-em")
    >>> for first in range(0, 300, 100):
    ...     _ = stream.update(crowd.select_items(slice(first, first + 100)))
    >>> stream
    <Stream: 1500 labels of 300 items by 10 annotators in 3 updates, ds-em>
    """

    def __init__(
        self,
        method: str = "ds-em",
        *,
        forget: float = 0.0,
        window: int | None = None,
        remember: int | None = None,
        seed: int | None = 0,
        **parameters: Any,
    ) -> None:
        chosen, suffix, name = registry.resolve(method)
        if name not in STREAMED:
            raise MethodError(
                f"{name} needs all labels at once and cannot continue from sums; "
                f"the methods for labels that keep coming are {', '.join(STREAMED)}"
            )
        known = {*chosen.parameters, *registry.refinement_parameters(suffix)} - {"callback", "start", "random_state"}
        check_names(name, parameters, known)
        check_parameters(parameters)
        super().__init__(name, seed, parameters, check_limits(forget, window, remember))

    def __repr__(self) -> str:
        return (
            f"<Stream: {self.n_labels} labels of {self.n_items} items by {self.n_annotators} annotators "
            f"in {self.updates} updates, {self.method}>"
        )

    # ---- the consensus ----------------------------------------------------------------------------------

    @property
    def consensus(self) -> Consensus:
        """The consensus of all labels so far; computed when first used after an update."""
        if self._consensus is None:
            begun = time.perf_counter()
            found = self._compute()
            self.seconds += time.perf_counter() - begun
            facts = {
                "seconds": round(self.seconds, 6),
                "updates": self.updates,
                "forget": self.forget,
                "window": self.window,
                "held": self.n_held,
                "remembered": self.n_remembered,
            }
            self._consensus = replace(found, run={**found.run, **facts})
            self._warn()
        return self._consensus

    @property
    def labels(self) -> Any:
        """Frame with a row for each item; see :class:`consilience.Consensus`."""
        return self.consensus.labels

    @property
    def annotators(self) -> Any:
        """Frame with a row for each annotator; with ``forget``, from the evidence that is left."""
        return self.consensus.annotators

    @property
    def model(self) -> DawidSkene:
        """Prior and confusions."""
        return self.consensus.model

    def _compute(self) -> Consensus:
        """Combine held and settled labels."""
        past, K = self._past, len(self._past.classes)
        if not (self._held or past.n_labels):
            raise DataError("the stream has no labels yet; give it some with update")
        now = self._fitted() if self._held else None
        if now is not None and now.whole is not None:
            return now.whole
        posterior, n_labels = past.posterior(slice(None)).copy(), past.items["n"].copy()
        hint = past.items["belief"].copy() if "votes" in past.items else None
        counts, class_counts = past.annotators["counts"].copy(), past.class_counts
        log_likelihood, converged, history = past.log_likelihood, True, list[float]()
        if now is not None:
            fit, new = now.fit, sums_of(now.labels, now.fit.posterior)
            counts[now.active] += new.counts
            class_counts = past.classes_without(now.items) + new.class_counts
            posterior[now.items] = fit.posterior
            n_labels[now.items] += now.labels.labels_per_item
            if hint is not None and fit.hint is not None:
                hint[now.items] = fit.hint
            log_likelihood, converged, history = log_likelihood + fit.log_likelihood, fit.converged, fit.history
        prior, confusions = self._parameters_of_all(counts, class_counts)
        gold = past.items["gold"]
        known = np.flatnonzero(gold >= 0)
        posterior[(n_labels == 0) & (gold < 0)] = prior
        posterior[known] = np.eye(K)[gold[known]]
        cautions = unconverged(converged, self.method, f"{len(history)} passes", self.parameters.get("tol", 1e-7))
        warn_of(list(cautions))
        run = {
            "method": self.method,
            "chosen_by": "user",
            "parameters": self.parameters,
            "N": self.n_items,
            "M": self.n_annotators,
            "K": K,
            "labels": self.n_labels,
            "gold_items": int(known.size),
            "seed": self.seed,
            "seconds": 0.0,
            "log_likelihood": log_likelihood,
            "converged": bool(converged),
            "iterations": len(history),
            "history": [float(value) for value in history],
            "warnings": [*self.notes, *(sentence for sentence, _ in cautions)],
        }
        model = DawidSkene(prior, confusions, past.classes, self._annotators.ids)
        choice = choose(posterior, prior, hint)
        return Consensus(model, posterior, choice, self._items.ids, n_labels, counts, run, self.origin)

    def _parameters_of_all(self, counts: Floats, class_counts: Floats) -> Parameters:
        """Return the prior and the confusions of all annotators, those of the held labels as fitted."""
        now = self._present
        if now is not None and now.fit.everybody is not None:
            return now.fit.everybody
        sums = counts if self.method == "majority" else counts + pseudo_counts(counts, self.parameters)
        prior, confusions = model_step(self.method, self.parameters)(Statistics(sums, class_counts, float("nan")))
        if now is None:
            return Parameters(prior, confusions)
        confusions[now.active] = now.fit.parameters.confusions
        return Parameters(now.fit.parameters.prior, confusions)

    # ---- settled items, judged anew ---------------------------------------------------------------------

    def revise(self, labels: Any = None, **reading: Any) -> Self:
        """Judge settled items again by the current model.

        Without labels, all remembered labels are held again; if none is lost, the consensus is then that of the batch.
        Labels that are known in sums only can be given once more, some items at a time: the contribution of each item
        to the sums is replaced by that under the current model (the incremental E-step of Neal and Hinton).

        Parameters
        ----------
        labels
            All labels of the items to revise, in any form that :meth:`update` takes.  Items that have further labels
            are left as they are, with a warning.
        **reading
            As for :meth:`update`.
        """
        if self.forget:
            raise ParameterError("a stream that forgets judges items by what annotators were then: it does not revise")
        if labels is None:
            self._reopen(self._archive.items)
            self._present = self._consensus = None
            return self
        again = read_update(labels, reading, self.origin)
        if again is None:
            return self
        past = self._past
        items, annotators = self._items.look_up(again.item_ids), self._annotators.look_up(again.annotator_ids)
        if len(items.new) or len(annotators.new) or joined(past.classes, again.class_ids) != past.classes:
            raise DataError("only labels of earlier updates can be revised; give new ones to update")
        again = again.recode(again.annotator_ids, past.classes)
        held = np.isin(items.codes, self._columns()[0])
        whole = (past.items["n"][items.codes] == again.labels_per_item) & (again.labels_per_item > 0) & ~held
        which = np.flatnonzero(whole)
        codes = items.codes[which]
        model, again = self.model, again.select_items(which)._with(gold=past.items["gold"][codes])
        at = Parameters(model.prior, model.confusions[annotators.codes])
        past.revise(codes, annotators.codes, again, LabelsWithPast(again, past.sums).posterior(at)[0])
        self._present = self._consensus = None
        if which.size < whole.size:
            self._note(f"{whole.size - which.size} of {whole.size} items have other labels too and were not revised")
        self._warn()
        return self

    # ---- files ------------------------------------------------------------------------------------------

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        run: Consensus | None = None,
        add: Callable[[Path], object] | None = None,
    ) -> None:
        """Write the run, and what is needed to continue it, to a folder that appears whole or not at all.

        The folder holds what :meth:`consilience.Consensus.save` writes (:func:`consilience.load` reads it), and
        ``stream.npz``.  A folder that has changed since this stream was loaded from it is not replaced.

        Parameters
        ----------
        folder
            Where to write.
        run
            The consensus to write instead of the stream's own, such as one with further entries in its summary.
        add
            As for :meth:`consilience.Consensus.save`.
        """
        save_stream(self, folder, self.consensus if run is None else run, add)

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        *,
        method: str | None = None,
        forget: float | None = None,
        window: int | None = None,
        remember: int | None = None,
    ) -> Self:
        """Continue from a folder that :meth:`save`, or :meth:`consilience.Consensus.save` of a run, wrote.

        Parameters
        ----------
        folder
            Of the stream, or of the run.
        method
            Another method to continue with, for runs of a method that cannot: "ds-em" continues from the model of any
            run.
        forget, window, remember
            Other limits from now on.
        """
        return load_stream(cls, Path(folder), method, forget=forget, window=window, remember=remember)
