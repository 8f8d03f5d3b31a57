"""One function for all kinds of data: independent items, tokens in order, items on a graph."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from consilience.answers.kinds import Taken, take_answers
from consilience.auto.expected_error import LATER
from consilience.data.annotations import Annotations
from consilience.data.sequences import SequenceAnnotations
from consilience.data.silence import MEANINGS, MOST_FILLED, filled, is_label
from consilience.diagnose.runs import warn_of_verdict
from consilience.engine.place import check_engine, holds_parquet
from consilience.exceptions import EngineWarning, ParameterError, warn
from consilience.fitting.em import Callback
from consilience.methods.base.running import labels_at, run_method
from consilience.runs.consensus import Consensus
from consilience.validation import check_seed

__all__ = ["aggregate"]


def aggregate(
    data: Any,
    method: str = "auto",
    *,
    item: str | None = None,
    annotator: str | None = None,
    label: str | None = None,
    graph: Any = None,
    probabilities: Any = None,
    features: Any = None,
    classifier: Any = None,
    gold: Any = None,
    answers: str = "auto",
    order: Any = None,
    silence: Any = None,
    items: Any = None,
    seed: int | None = 0,
    engine: Any = "local",
    memory: int | str | None = None,
    scheduler: str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    reading: Mapping[str, Any] | None = None,
    callback: Callback | None = None,
    **parameters: Any,
) -> Consensus:
    """Turn labels of several annotators into consensus labels with probabilities.

    Parameters
    ----------
    data
        Annotations, a long frame, an (items × annotators) matrix or frame with NaN or -1 for missing, the path of a
        file or of a folder of Parquet files, or a result of :func:`consilience.scan`.  For tokens in order, a
        :class:`consilience.SequenceAnnotations`.
    method
        A name from :data:`consilience.METHODS`; ``+em`` refines any of them.  For sequences "auto", or one of them with
        ``+hmm`` or ``+hmm+em``.  On a graph, the method to start from.
    item, annotator, label
        Names of the columns of a frame or a file, unless they have their usual names.
    graph
        Which items are neighbours, if that is known: a frame or a file with ``source`` and ``target``, pairs of ids, a
        scipy sparse matrix, or a result of :func:`consilience.nearest_neighbours`.  ``must_link`` and ``cannot_link``
        are pairs of items that have the same class, or different ones; with them, a graph is optional.
    probabilities
        Class probabilities of the items by a classifier that has not seen their labels: a frame or a file with an item
        column and a column for each class, or an array in the order of ``annotations.items``.  It counts as one more
        source, with a learned confusion and temperature; see :doc:`/features`.
    features
        What is known of the items: a frame or a file with an item column and columns of numbers or one of texts, a
        matrix, a sparse matrix or a sequence of texts.  Classifiers are fitted to them together with the labels; they
        count if they help to predict labels of left-out items.
    classifier
        With features: a scikit-learn classifier.  By default logistic regression and the nearest neighbours.
    gold
        Known truths, which are kept fixed; see :meth:`consilience.Annotations.with_gold`.
    answers
        What answers mean: "nominal" (classes that all items share), "ordinal" (levels of a scale), "multi" (any of
        several options, joined by ``|``, where a blank answer ticks none), "open" (options that differ from item to
        item: multiple choice, free text), "numeric" (numbers, which have a mean: returns a
        :class:`consilience.NumericRun`), or "auto": numeric where there are many different numbers that go together, a
        scale if names and confusions of labels show one, multi where labels combine options, open only where there are
        too many different answers for classes.
    order
        With answers on a scale: the levels from low to high.  By default numbers are in their order, and words in that
        of a known scale, such as low, medium, high.
    silence
        What it means that an annotator gave no label: "random" (items were assigned), "informative" (annotators see
        every item and choose to speak), or a label, such as "O": then silence *is* that answer, and annotators see
        every item.  By default the labels decide between the first two.
    items
        Items that belong to the data although nobody may have labelled them: ids, a frame or a file with an item
        column (sequence and position for tokens).  Where silence says something, they get a label.
    seed
        Seed of all random numbers.
    engine
        Where the passes over the data run: "local" (this process), "stream" (this process, labels on disk), "dask", or
        a Dask client.  Scanned labels and folders of Parquet files are streamed also with "local".
    memory
        With labels on disk: how much memory this process may use, such as "2GiB"; by default half of the machine's.
    scheduler
        With "dask": address of the scheduler.  By default the current client, or else a local cluster.
    checkpoint
        Folder for intermediate results: a killed run continues from there, to the same result.
    reading
        With a path: options of :func:`consilience.read` or :func:`consilience.scan`, such as ``item``.
    callback
        Called after every pass over the data.
    **parameters
        Those of the method, such as ``smoothing``, ``max_iter`` and ``tol``.

    Returns
    -------
    Consensus
        Its ``labels`` and ``annotators`` are frames, ``verdict`` is whether the labels show who is right, and
        ``estimated_error`` is the share of wrong labels.

    Examples
    --------
    >>> import consilience as cs
    >>> crowd = cs.simulate(500, 10, 2, labels_per_item=5, experts=0.3)
    >>> consensus = cs.aggregate(crowd.annotations)
    >>> consensus.verdict
    'identified'
    >>> consensus.labels.columns.tolist()
    ['item', 'label', 'confidence', 'runner_up', 'margin', 'n_labels']
    """
    check_seed(seed)
    data, reading = _opened(data, reading or {}, _given(item=item, annotator=annotator, label=label))
    call = _Call(
        data,
        method,
        items,
        silence,
        {"engine": engine, "memory": memory, "scheduler": scheduler, "checkpoint": checkpoint},
        reading,
        {"gold": gold, "seed": seed, "callback": callback, **parameters},
    )
    networked = graph is not None or any(parameters.get(links) is not None for links in ("must_link", "cannot_link"))
    in_order = isinstance(data, SequenceAnnotations)
    if probabilities is not None or features is not None:
        _check_classifiers(data, method, networked, answers, engine, checkpoint)
        found = call.with_classifiers(probabilities=probabilities, features=features, classifier=classifier)
    elif classifier is not None:
        raise ParameterError("a classifier needs features=…; pass the probabilities of a fitted one as probabilities=…")
    elif not in_order and not networked:
        found = call.of_items(answers, order)
    else:
        _check_structured(answers, order, engine, in_order, networked)
        found = call.of_tokens() if in_order else call.on_graph(graph)
    warn_of_verdict(found)
    return found


@dataclass(frozen=True)
class _Call:
    """The arguments of :func:`aggregate` that all kinds of data share, and a method for each kind."""

    data: Any
    method: str
    items: Any
    silence: Any
    place: Mapping[str, Any]  #: engine, memory, scheduler, checkpoint
    reading: Mapping[str, Any]
    rest: Mapping[str, Any]  #: gold, seed, callback and the parameters of the method

    def of_items(self, answers: str, order: Any) -> Consensus:
        """Aggregate labels of independent items, according to what their answers mean."""
        engine = self.place["engine"]
        options: dict[str, Any] = {"engine": engine, "reading": self.reading, "order": order, "scan": self._scanned}
        data, taken = take_answers(self.data, answers, self.method, **options)
        call, streamed = replace(self, data=data), not isinstance(data, Annotations)
        if streamed and data is not self.data:  # scanned, with known answers
            call = replace(call, rest={**self.rest, "gold": None})
        if taken.kind == "nominal":
            return call.of_classes(taken)
        if taken.kind == "ordinal" and self.place["checkpoint"] is not None:
            raise ParameterError("answers='ordinal' keeps no checkpoint; leave checkpoint=… out, or say 'nominal'")
        if taken.kind == "ordinal" and streamed:
            return call.of_streamed_levels(taken, order)
        if engine != "local":
            warn(f"answers={taken.kind!r} ran in this process, with all labels in memory", EngineWarning)
        return call.of_levels(taken, order) if taken.kind == "ordinal" else call.of_other_answers(taken)

    def of_classes(self, taken: Taken) -> Consensus:
        """Aggregate labels whose classes all items share, wherever the labels are."""
        silence, rest = self.silence, {**self.rest, **self.place, "later": LATER}
        if self.items is None and (silence is None or silence in MEANINGS):
            found = run_method(self.data, self.method, reading=self.reading, **_given(silence=silence), **rest)
            return found.with_run({**found.run, "hint": taken.hint}) if taken.hint else found
        annotations = self._in_memory()
        if not is_label(silence, annotations.class_ids):
            return run_method(annotations, self.method, **_given(silence=silence), **rest)
        return _with_silence(annotations, silence, self.method, rest)

    def of_levels(self, taken: Taken, order: Any) -> Consensus:
        """Aggregate levels of a scale."""
        from consilience.answers.ordinal_consensus import aggregate_ordinal

        data = self._including_items(self.data)
        return aggregate_ordinal(data, taken, self.method, order=order, silence=self.silence, **self.rest)

    def of_streamed_levels(self, taken: Taken, order: Any) -> Consensus:
        """Aggregate levels of a scale that are on disk."""
        from consilience.answers.ordinal_streaming import stream_ordinal

        if self.items is not None or self.silence not in (None, "auto", "random"):
            raise ParameterError("items=… and silence=… need labels in memory: they cannot be streamed")
        rest = {name: value for name, value in self.rest.items() if name != "gold"}
        where = {name: self.place[name] for name in ("engine", "scheduler")}
        return stream_ordinal(self.data, taken, self.method, order=order, **where, **rest)

    def of_other_answers(self, taken: Taken) -> Consensus:
        """Aggregate numbers, sets of options, or options that differ from item to item."""
        more = {**_given(silence=self.silence), **self.rest, "checkpoint": self.place["checkpoint"]}
        if taken.kind == "multi":
            from consilience.answers.multi_consensus import aggregate_multi

            return aggregate_multi(self._including_items(self.data), taken, self.method, **more)
        if self.items is not None:
            raise ParameterError("items=… is for answers that items share: an item without answers has no options")
        if taken.kind == "numeric":
            from consilience.answers.numeric.consensus import aggregate_numeric

            return aggregate_numeric(self.data, taken, self.method, **more)
        from consilience.answers.open_consensus import aggregate_open

        return aggregate_open(self.data, taken, self.method, **more)

    def of_tokens(self) -> Consensus:
        """Aggregate labels of tokens in order."""
        from consilience.structured.sequence_consensus import aggregate_sequences

        data, more = self.data, {name: value for name, value in self.place.items() if name != "memory"}
        if self.items is not None:
            more["items"] = _items(self.items, sequence=data.sequence_column, position=data.position_column)
        return aggregate_sequences(data, self.method, silence=self.silence, **more, **self.rest)

    def on_graph(self, graph: Any) -> Consensus:
        """Aggregate labels of items whose neighbours are known."""
        from consilience.structured.network_consensus import aggregate_network

        if self.place["checkpoint"] is not None:
            raise ParameterError("networks keep no checkpoint")
        annotations, start = self._in_memory(), () if self.method == "auto" else (self.method,)
        more = {"engine": self.place["engine"], "scheduler": self.place["scheduler"], **self.rest}
        if is_label(self.silence, annotations.class_ids):
            given = {"silence": self.silence, "given_labels": annotations.n_labels}
            found = aggregate_network(filled(annotations, self.silence), graph, *start, **more)
            return found.with_run({**found.run, **given})
        if self.silence not in (None, "auto", "random"):
            raise ParameterError(f"on a graph, silence must be a label or 'random', not {self.silence!r}")
        return aggregate_network(annotations, graph, *start, **more)

    def with_classifiers(self, **classifiers: Any) -> Consensus:
        """Aggregate labels together with probabilities or features of the items."""
        from consilience.features.consensus import aggregate_with_classifiers

        more = {**_given(silence=self.silence), **self.rest, **classifiers}
        return aggregate_with_classifiers(self._in_memory(), **more)

    def _in_memory(self) -> Annotations:
        """Read the labels into memory, with items that nobody labelled."""
        from consilience.engine.scanned import Scanned
        from consilience.io.coercion import as_annotations

        data, is_path = self.data, isinstance(self.data, str | os.PathLike)
        if self.place["engine"] == "stream" or (is_path and holds_parquet(data)) or isinstance(data, Scanned):
            raise ParameterError(
                "items=…, features=… and a label for silence need labels in memory: they cannot be streamed"
            )
        return self._including_items(as_annotations(data, **(self.reading if is_path else {})))

    def _including_items(self, annotations: Annotations) -> Annotations:
        """Return the labels with the items that nobody labelled."""
        if self.items is None:
            return annotations
        return annotations.including(_items(self.items, item=annotations.origin.item))

    def _scanned(self, data: Any) -> Any:
        """Return labels that are to be streamed, on disk; with a checkpoint, in its folder."""
        where = {name: self.place[name] for name in ("engine", "memory")}
        known = {name: self.rest[name] for name in ("gold", "callback")}
        saved = None
        if self.place["checkpoint"] is not None:
            from consilience.engine.checkpoint import Checkpoint

            kept = {name: value for name, value in self.rest.items() if name not in ("gold", "seed", "callback")}
            of = {"method": self.method, "parameters": {**kept, **_given(silence=self.silence)}}
            saved = Checkpoint(self.place["checkpoint"], {**of, "seed": self.rest["seed"]})
        return labels_at(data, saved=saved, reading=self.reading, **where, **known)


def _opened(data: Any, reading: Mapping[str, Any], columns: Mapping[str, str]) -> tuple[Any, Mapping[str, Any]]:
    """Return the data with its columns named, or read from its file if it holds sequences; and how to read it."""
    if not isinstance(data, str | os.PathLike):
        if columns:
            from consilience.io.coercion import as_annotations

            data = as_annotations(data, **columns)
        return data, reading
    from consilience.io.formats import holds_sequences

    reading = {**reading, **columns}
    if holds_sequences(data, reading.get("format")):
        from consilience.io.sequences import read_sequences

        data = read_sequences(data, **reading)
    return data, reading


def _check_structured(answers: str, order: Any, engine: Any, in_order: bool, networked: bool) -> None:
    """Raise where tokens in order or items on a graph cannot be combined with the other arguments."""
    if in_order and networked:
        raise ParameterError("tokens in order have their neighbours already: give sequences or a graph, not both")
    if answers not in ("auto", "nominal") or order is not None:
        what = repr(answers) if order is None else "an order"
        raise ParameterError(f"tokens in order and items on a graph have nominal answers, not {what}")
    check_engine(engine)
    if engine == "stream":
        kind = "networks" if networked else "sequences"
        raise ParameterError(f"{kind} cannot be streamed, since neighbours depend on each other: use 'local' or 'dask'")


def _check_classifiers(data: Any, method: str, networked: bool, answers: str, engine: Any, checkpoint: Any) -> None:
    """Raise where classifiers cannot be combined with the other arguments."""
    wrong = {
        "tokens in order": isinstance(data, SequenceAnnotations),
        "graph=… or links (features have their neighbours already)": networked,
        f"method={method!r}; they need 'auto'": method != "auto",
        f"answers={answers!r}; they need classes that items share": answers not in ("auto", "nominal"),
        f"engine={engine!r}; they need labels in memory": engine != "local",
        "checkpoint=…": checkpoint is not None,
    }
    if found := next((what for what, holds in wrong.items() if holds), None):
        raise ParameterError(f"features=… and probabilities=… cannot be combined with {found}")


def _given(**options: Any) -> dict[str, Any]:
    """Return the options that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def _items(items: Any, **own: str) -> Any:
    """Return items as they are, or read from a file; ``own`` are the names of their columns among the labels."""
    if not isinstance(items, str | os.PathLike):
        return items
    from consilience.io.tables import read_items

    return read_items(items, own)


def _with_silence(annotations: Annotations, silence: Any, method: str, rest: Mapping[str, Any]) -> Consensus:
    """Run a method where silence is a label: listed label by label, or counted without a list if that is too long."""
    cells = annotations.n_items * annotations.n_annotators
    given = {"silence": silence, "given_labels": annotations.n_labels}
    if method == "propensity" or (method == "auto" and cells > MOST_FILLED):
        found = run_method(annotations.with_class(silence), "propensity", silent_label=silence, **rest)
        if method == "auto":
            why = f"silence counts as {silence!r}, and {cells} labels are too many to list"
            given |= {"chosen_by": "auto", "chosen": "propensity", "why": why}
    else:
        found = run_method(filled(annotations, silence), method, **rest)
    return found.with_run({**found.run, **given})
