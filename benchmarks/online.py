"""Streams: how close they come to a fit of all labels, and the cost of a new label.

Accuracy: a crowd is split into updates, by whole items or by random labels, and the stream's labels and confusions are
compared with those of one batch run over all labels.  Cost: processor time per new label, after different numbers of
earlier labels, with no labels held, so that every update is learned immediately.
"""

from __future__ import annotations

import os
import time
import warnings

import numpy as np

import consilience as cs
from benchmarks.figures import Figure
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.kernels._arrays import Ints
from consilience.kernels.grouping import group_by_item


def pieces(a: Annotations, updates: int, by: str) -> list[Annotations]:
    """Split labels into updates by whole items, or by single labels."""
    rng = np.random.default_rng(0)
    if by == "items":
        turn = rng.integers(0, updates, a.n_items)
        return [a.select_items(np.flatnonzero(turn == t)) for t in range(updates)]
    turn = rng.integers(0, updates, a.n_labels)
    return [_labels(a, np.flatnonzero(turn == t)) for t in range(updates)]


def _labels(a: Annotations, which: Ints) -> Annotations:
    items, item = np.unique(a.item_of_label()[which], return_inverse=True)
    where, who, said = (x.astype(np.int32) for x in (item, a.annotator[which], a.label[which]))
    grouped = group_by_item(where, who, said, items.size, a.n_annotators, a.n_classes)
    return Annotations(*grouped, items=a.item_ids.take(items), annotators=a.annotator_ids, classes=a.class_ids)


def nearness(
    name: str, a: Annotations, truth: Ints, window: int | None, promise: float | None, remember: int | None = None
) -> list[Figure]:
    batch = cs.aggregate(a, "ds-em")
    known = truth >= 0
    error = 100.0 * float(np.mean(batch.choice.best[known] != truth[known]))
    figures = []
    for by in ("items", "labels"):
        for updates in (10, 50):
            stream = cs.Stream("ds-em", window=window, remember=remember)
            begun = time.perf_counter()
            for piece in pieces(a, updates, by):
                stream.update(piece)
            found = stream.consensus
            seconds = time.perf_counter() - begun
            place = found.item_ids.codes_of(a.item_ids.to_arrow())
            best = found.choice.best[place]
            who = found.model.annotators.codes_of(a.annotator_ids.to_arrow())
            weight = batch.counts.sum(axis=1, keepdims=True)
            apart = np.abs(found.model.confusions[who] - batch.model.confusions)
            mean = float((apart * weight).sum() / weight.sum() / a.n_classes)
            wrong = 100.0 * float(np.mean(best[known] != truth[known]))
            same = 100.0 * (best == batch.choice.best)
            agree = float(np.mean(same))
            old, young = (float(np.mean(same[tenth])) for tenth in (place < a.n_items / 10, place >= 0.9 * a.n_items))
            held = "all held" if stream.window >= a.n_labels else f"{stream.window} held"
            held += ", sums only beyond" if remember == 0 else ""
            what = f"{name}, {updates} updates by {by}, {held}"
            figures.append(Figure(f"labels as batch: {what}", agree, promise, up=True, unit="%"))
            print(
                f"{figures[-1]}  oldest tenth of the items {old:.1f}, newest {young:.1f}; "
                f"error {wrong:.2f} (batch {error:.2f}), confusions {mean:.4f} apart, {seconds:.1f} s",
                flush=True,
            )
    return figures


def cost(pasts: tuple[int, ...] = (10**5, 10**6, 10**7), new: int = 100_000, M: int = 1000) -> list[Figure]:
    per_label = {}
    for past in pasts:
        a = cs.simulate((past + 6 * new) // 5, M, 4, labels_per_item=5, seed=0).annotations
        stream = cs.Stream("ds-em", window=0)
        stream.update(a.select_items(slice(0, past // 5)))
        times = []
        for first in range(past // 5, (past + 5 * new) // 5, new // 5):
            piece = a.select_items(slice(first, first + new // 5))
            begun = time.process_time()
            stream.update(piece)
            times.append(time.process_time() - begun)
        per_label[past] = min(times) / new
        print(f"{new} new labels on a past of {past:.0e}: {per_label[past] * 1e9:.0f} ns a label", flush=True)
    ratio = max(per_label.values()) / min(per_label.values())
    return [
        Figure(f"a new label on a past of {pasts[-1]:.0e}", per_label[pasts[-1]] * 1e9, unit="ns"),
        Figure(f"cost of a new label, largest / smallest over pasts of {pasts[0]:.0e} to {pasts[-1]:.0e}", ratio, 1.5),
    ]


def drift() -> list[Figure]:
    """One of ten annotators turns from expert to spammer half-way; print the estimated accuracy at the end."""
    K, N, updates = 3, 400, 20
    figures = []
    for forget in (0.0, 0.1, 0.3):
        rng = np.random.default_rng(0)
        confusions = np.repeat((0.75 * np.eye(K) + 0.25 / K)[None], 10, axis=0)
        stream = cs.Stream("ds-em", forget=forget)
        for t in range(updates):
            confusions[0] = 0.95 * np.eye(K) + 0.05 / K if t < updates // 2 else 1.0 / K
            crowd = cs.DawidSkene(np.full(K, 1 / K), confusions, Ids.range(K), Ids.range(10))
            labels, _ = crowd.sample(N, labels_per_item=5, random_state=rng)
            stream.update(labels.with_items(Ids(np.arange(t * N, (t + 1) * N))))
        at = float(np.trace(stream.model.confusions[0])) / K
        figures.append(Figure(f"expert turned spammer (truth {1 / K:.2f}), forget {forget}: accuracy", at))
        print(figures[-1], flush=True)
    return figures


def run() -> list[Figure]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.exceptions.ConsilienceWarning)
        figures = []
        if os.environ.get("CONSILIENCE_DATA"):
            for name in ("rte", "trec"):
                real = cs.datasets.load(name)
                assert isinstance(real, cs.datasets.Crowd)
                a = real.annotations
                truth = a.codes_of_truth(real.truth, strict=False).astype(np.int64)
                figures += nearness(name, a, truth, None, 100.0)
                figures += nearness(name, a, truth, a.n_labels // 4, None)
        crowd = cs.simulate(200_000, 1000, 4, labels_per_item=5, spammers=0.2, seed=0)
        shape = "10^6 labels, M = 1000, K = 4"
        figures += nearness(shape, crowd.annotations, crowd.truth, None, 98.0)
        figures += nearness(shape, crowd.annotations, crowd.truth, None, None, remember=0)
        return figures + drift() + cost()
