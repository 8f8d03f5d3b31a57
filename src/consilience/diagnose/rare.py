"""Rare classes taken together: a diagnosis decomposes tables of K × K, which thousands of classes would make slow.

For a group g of classes, with the prior π and confusions A of a model,

    π(g) = Σ_{k ∈ g} π_k,        A_m(g', g) = Σ_{i ∈ g'} Σ_{k ∈ g} A_m(i, k) π_k / π(g).
"""

from __future__ import annotations

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.kernels._arrays import Floats, code_counts
from consilience.models.dawid_skene import DawidSkene

__all__ = ["merge_rare"]


def merge_rare(annotations: Annotations, model: DawidSkene, most: int) -> tuple[Annotations, DawidSkene]:
    """Return labels and model with at most so many classes: the most frequent ones, then the others as one."""
    a, K = annotations, annotations.n_classes
    if most >= K:
        return a, model
    order = np.argsort(-code_counts(a.label, K), kind="stable")
    kept, rare = order[: most - 1], order[most - 1 :]
    group = np.empty(K, np.int64)
    group[kept], group[rare] = np.arange(most - 1), most - 1
    classes = Ids([*(str(name) for name in a.class_ids.take(kept)), f"({rare.size} rare classes)"])
    gold = None if a.gold is None else np.where(a.gold >= 0, group[a.gold], -1)
    merged = Annotations(
        a.indptr,
        a.annotator,
        group[a.label],
        items=a.item_ids,
        annotators=a.annotator_ids,
        classes=classes,
        gold=gold,
        origin=a.origin,
    )
    prior = np.append(model.prior[kept], model.prior[rare].sum())
    weights = np.zeros(K)
    weights[rare] = model.prior[rare] / prior[-1] if prior[-1] > 0 else 1.0 / rare.size
    confusions: Floats = np.empty((a.n_annotators, most, most))
    for mine, whole in zip(confusions, model.confusions, strict=True):
        columns = np.column_stack([whole[:, kept], whole @ weights])
        mine[:-1], mine[-1] = columns[kept], columns[rare].sum(axis=0)
    return merged, DawidSkene(prior, confusions, classes, a.annotator_ids)
