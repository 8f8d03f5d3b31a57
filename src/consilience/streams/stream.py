"""Labels that keep coming: a consensus that goes on from what it has learned.

A stream holds the latest labels as they are, up to ``window`` of them, and everything before in sums
(:mod:`consilience.streams.past`).  While all labels fit the window, the result is what
:func:`consilience.aggregate` gives on all of them.  Later, the items that were labelled longest ago are settled: their
labels are summed up under the parameters of that time.  Then EM passes over the labels that are held, with the sums
behind them (:mod:`consilience.streams.em`).

Labels in sums are remembered as far as there is room (:mod:`consilience.streams.archive`).  Those of an item
that is labelled again are taken out of the sums and held with the new ones, and every new label pays for one old
label that is looked at again in turn.  What does not fit stays in the sums for good, and is not revised.

``forget`` takes a share from the past of every annotator whom an update has labels of: what an annotator is shows in
what they did lately.  Then nothing is held: every update is settled at once, so that items are judged by what their
annotators were at the time.
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
from consilience.fitting.em import Callback, Parameters
from consilience.methods.base import registry
from consilience.models.dawid_skene import DawidSkene
from consilience.runs.consensus import Consensus
from consilience.streams.em import Held, posterior_of
from consilience.streams.input import read_update
from consilience.streams.learning import Learning
from consilience.streams.names import joined
from consilience.streams.solve import STREAMED

__all__ = ["REMEMBER", "WINDOW", "Stream", "what_is_held"]

#: Labels that are held as they are, unless another number is asked for.
WINDOW = 100_000
#: Labels that are remembered beyond these, to be held again when their item is labelled again.
REMEMBER = 10_000_000


class Stream(Learning):
    """A consensus of labels that keep coming.

    Parameters
    ----------
    method
        "ds-em", "one-coin", "majority", "rob-symnmf", "rob-symnmf+em", or "auto", which goes on as "ds-em" once labels
        are settled.
    forget
        Share of the past that each update takes away, from 0 (nothing is forgotten) up to 1: annotators who change are
        followed.  Evidence halves in log(0.5) / log(1 - forget) updates.
    window
        Labels that are held as they are and passed over; the rest of the past is kept in sums.  100 000, or none with
        ``forget``.
    remember
        Labels beyond these that are remembered, 20 bytes each.  They are held again when their item is labelled again,
        and in turn, one for every new label.  Ten million, or none with ``forget``.
    seed
        Decides everything that is random.
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
        chosen, refined, name = registry.resolve(method)
        if name not in STREAMED:
            raise MethodError(
                f"{name} needs all labels at once and cannot go on from sums; "
                f"the methods for labels that keep coming are {', '.join(STREAMED)}"
            )
        known = {*chosen.parameters, *(registry.REFINEMENT if refined else ())} - {"callback", "start", "random_state"}
        registry.check_names(name, parameters, known)
        registry.check_parameters(parameters)
        super().__init__(name, seed, parameters, what_is_held(forget, window, remember))

    # ---- what has been learned --------------------------------------------------------------------------

    @property
    def consensus(self) -> Consensus:
        """The consensus of all labels so far; made when first asked for after an update."""
        if self._consensus is None:
            begun = time.perf_counter()
            made = self._told()
            self.seconds += time.perf_counter() - begun
            self._consensus = replace(made, run={**made.run, **self._story()})
            self._say()
        return self._consensus

    @property
    def labels(self) -> Any:
        """Frame with a row for each item; see :class:`consilience.Consensus`."""
        return self.consensus.labels

    @property
    def annotators(self) -> Any:
        """Frame with a row for each annotator; with ``forget``, of the evidence that is left."""
        return self.consensus.annotators

    @property
    def model(self) -> DawidSkene:
        """Prior and confusions."""
        return self.consensus.model

    def __repr__(self) -> str:
        return (
            f"<Stream: {self.n_labels} labels of {self.n_items} items by {self.n_annotators} annotators "
            f"in {self.updates} updates, {self.method}>"
        )

    # ---- files ------------------------------------------------------------------------------------------

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        run: Consensus | None = None,
        add: Callable[[Path], object] | None = None,
    ) -> None:
        """Write the run and what is needed to go on to a folder that appears whole or not at all.

        It holds what :meth:`consilience.Consensus.save` writes (:func:`consilience.load` reads it), and ``stream.npz``.
        A folder that has changed since this stream was loaded from it is not replaced: somebody else updated it.

        Parameters
        ----------
        folder
            Where to.
        run
            The consensus to write, where its story has more to tell than the stream's own.
        add
            As for :meth:`consilience.Consensus.save`.
        """
        from consilience.streams.files import save_stream

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
    ) -> Stream:
        """Go on from a folder that :meth:`save`, or :meth:`consilience.Consensus.save` of a run, wrote.

        Parameters
        ----------
        folder
            Of the stream, or of the run.
        method
            Another method to go on with, for runs of a method that cannot: "ds-em" goes on from the model of any run.
        forget, window, remember
            Another share to forget, or other numbers of labels to hold and to remember, from now on.
        """
        from consilience.streams.files import load_stream

        return load_stream(Path(folder), method, forget=forget, window=window, remember=remember)

    # ---- labels in --------------------------------------------------------------------------------------

    def update(
        self,
        labels: Any,
        *,
        gold: Any = None,
        callback: Callback | None = None,
        **reading: Any,
    ) -> Self:
        """Take new labels in: of old and new items, by old and new annotators, of old and new classes.

        When an annotator answers an item again, the last answer counts as long as the earlier one is held; an answer
        that was settled cannot be taken back, so the new one counts as a further label, and a warning says how many
        there seem to be.  Labels that cannot be read leave the stream as it was; no rows change nothing.

        Parameters
        ----------
        labels
            Annotations, a long frame, a matrix, or the path of a file.
        gold
            Known truths of items of this update, held fixed from now on.
        callback
            Told of every pass over the held labels.
        **reading
            How to read a file or a frame: what :func:`consilience.read` or :meth:`consilience.Annotations.from_frame`
            takes.  Columns are looked for under the names that they had in earlier updates, or are recognised.
        """
        begun = time.perf_counter()
        new = read_update(labels, reading, self.origin)
        if new is None:
            return self
        classes = joined(self._past.classes, new.class_ids)
        new = new.recode(new.annotator_ids, classes)
        if gold is not None:
            new = new.with_gold(gold)
        items, annotators = self._items.meet(new.item_ids), self._annotators.meet(new.annotator_ids)
        if self.forget and self._held:
            self._settle(0, callback)
        self._take(new, classes, items, annotators)
        if self.forget:
            self._past.forget(np.unique(annotators.codes[new.annotator]), self.forget)
        if self.n_held > self.window:
            # half of it is free then, so that small updates do not pay for a fit each
            self._settle(self.window // 2, callback)
        self.seconds += time.perf_counter() - begun
        self._say()
        return self

    def revise(self, labels: Any = None, **reading: Any) -> Self:
        """Judge settled items anew by what is known now.

        Without labels, all that are remembered are held again: where none is lost, the consensus is then that of the
        batch.  Labels that are known in sums only can be given once more, some items at a time: each item's part in
        the sums is replaced by what the present model makes of it (the incremental E-step of Neal and Hinton).

        Parameters
        ----------
        labels
            All labels of the items to revise, in any form that :meth:`update` takes; items of which others are held or
            settled are left as they are, with a warning.
        **reading
            As for :meth:`update`.
        """
        if self.forget:
            raise ParameterError("a stream that forgets judges items by what annotators were then: it does not revise")
        if labels is None:
            self._open(self._archive.items)
            self._now = self._consensus = None
            return self
        again = read_update(labels, reading, self.origin)
        if again is None:
            return self
        past = self._past
        items, annotators = self._items.meet(again.item_ids), self._annotators.meet(again.annotator_ids)
        if len(items.new) or len(annotators.new) or joined(past.classes, again.class_ids) != past.classes:
            raise DataError("only labels that were taken in before can be revised; give new ones to update")
        again = again.recode(again.annotator_ids, past.classes)
        held = np.isin(items.codes, self._columns()[0])
        whole = (past.items["n"][items.codes] == again.labels_per_item) & (again.labels_per_item > 0) & ~held
        which = np.flatnonzero(whole)
        codes = items.codes[which]
        model, again = self.model, again.select_items(which)._with(gold=past.items["gold"][codes])
        at = Parameters(model.prior, model.confusions[annotators.codes])
        past.revise(codes, annotators.codes, again, posterior_of(Held(again, past.sums), at)[0])
        self._now = self._consensus = None
        if which.size < whole.size:
            self._note(f"{whole.size - which.size} of {whole.size} items have other labels too and were not revised")
        self._say()
        return self


def what_is_held(forget: Any, window: Any, remember: Any) -> tuple[float, int, int]:
    """Check what is forgotten, held and remembered; nothing is held where something is forgotten."""
    number = isinstance(forget, int | float | np.integer | np.floating) and not isinstance(forget, bool)
    if not number or not 0 <= forget < 1:
        raise ParameterError(
            f"forget must be a number from 0 (nothing) up to 1, the share of the past that an update takes away, "
            f"not {forget!r}"
        )
    for name, value in (("window", window), ("remember", remember)):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
            raise ParameterError(f"{name} must be a whole number of labels ≥ 0, not {value!r}")
        if forget and value:
            raise ParameterError(
                f"forget and {name} exclude each other: labels that are held are judged by what annotators are now, "
                "labels that are forgotten by what they were then"
            )
    given = ((WINDOW, window), (REMEMBER, remember))
    held, kept = ((0 if forget else usual) if value is None else int(value) for usual, value in given)
    return float(forget), held, kept
