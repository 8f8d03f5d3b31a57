"""Variants of a judge: a language model that was asked about the same items with several prompts or orders.

Variants share most of their skill, and each may have few labels.  So they are pooled by default: the labels of all
variants are labels of the judge.  On simulated panels of judges with twelve prompts that is better by one to two points
than an annotator for each, and better than confusions that are shrunk towards those of the judge, unless prompts differ
much; on llmbar the error is 34.1 instead of 40.1 %, on judge_mtbench 22.5 instead of 22.1 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from consilience.data.ids import Ids, encode
from consilience.kernels._arrays import Codes, Floats

if TYPE_CHECKING:
    from consilience.data.annotations import Annotations

__all__ = ["pooled", "variant_columns", "with_variants"]

#: Annotators of whom there may be variants, and the columns that tell these apart.
_JUDGES, _COLUMNS = ("judge", "model"), ("prompt", "variant", "order")
#: Fewest labels of a variant, on average: prompts that are written out for each item are no variants.
_FEWEST = 5

Coded = tuple[Codes, Ids]


def variant_columns(columns: Sequence[str], annotator: str) -> list[str]:
    """Return the columns that may tell variants of a judge apart."""
    if str(annotator).strip().lower() not in _JUDGES:
        return []
    return [name for name in columns if str(name).strip().lower() in _COLUMNS]


def with_variants(item: Codes, annotator: Coded, others: Sequence[Coded]) -> tuple[Coded, dict[str, str]]:
    """Return annotators that are variants of judges, and the judge of each; nothing changes if no judge has several.

    A column counts if a judge has several labels of an item that differ in it.
    """
    who, ids = annotator
    pair = item.astype(np.int64) * (len(ids) + 1) + who
    chosen = [(codes, names) for codes, names in others if _varies(pair, codes)]
    if not chosen:
        return annotator, {}
    key = who.astype(np.int64)
    for codes, names in chosen:
        key = key * (len(names) + 1) + codes + 1
    _, first, code = np.unique(key, return_index=True, return_inverse=True)
    if code.size < _FEWEST * first.size:
        return annotator, {}
    parts = [[str(names[c]) if c >= 0 else "" for c in codes[first].tolist()] for codes, names in chosen]
    judges = [str(ids[c]) for c in who[first].tolist()]
    made = ["/".join(filter(None, row)) for row in zip(judges, *parts, strict=True)]
    known = np.where(who < 0, -1, code).astype(np.int32)
    return (known, Ids(pa.array(made, pa.string()))), dict(zip(made, judges, strict=True))


def _varies(pair: Codes, codes: Codes) -> bool:
    """Whether some pair of item and judge has several values."""
    order = np.lexsort((codes, pair))
    return bool(((np.diff(pair[order]) == 0) & (np.diff(codes[order]) != 0)).any())


def pooled(annotations: Annotations, judges: Mapping[str, str]) -> Annotations:
    """Return the labels of variants as labels of their judges."""
    a = annotations
    codes, ids = encode(pa.array([judges.get(str(name), str(name)) for name in a.annotators], pa.string()))
    who = codes[a.annotator]
    order = np.lexsort((who, a.item_of_label()))
    time: Floats | None = None if a.time is None else a.time[order]
    several = len(set(judges.values()))
    note = f"{len(judges)} variants (prompts or orders) of {several} judges are pooled: their labels are the judge's"
    origin = replace(a.origin, notes=(*a.origin.notes, note))
    return a._with(annotator=who[order], label=a.label[order], time=time, annotators=ids, origin=origin)
