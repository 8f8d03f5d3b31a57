"""Lists of items and annotators, page by page, and the report card of an annotator."""

from __future__ import annotations

from itertools import combinations
from typing import Any
from urllib.parse import urlencode

import narwhals as nw
import numpy as np

from consilience.data.names import count, marked, percent, shown
from consilience.diagnose.agreement import Agreement
from consilience.kernels._arrays import Ints
from consilience.report.svg import bar
from consilience.web.card import sentence
from consilience.web.filters import FLAGS, Filter
from consilience.web.session import Review

__all__ = ["annotator_page", "annotators_page", "items_page", "measures", "pairs", "texts_of"]

#: Rows of a page, examples of mistakes, and the labels of an annotator that are searched for them.
ROWS, _EXAMPLES, _MOST_SEARCHED = 50, 12, 20_000
#: Classes up to which a confusion matrix is shown.
_MOST_CLASSES = 12


def items_page(review: Review, chosen: Filter, reviewer: str, page: int) -> dict[str, Any]:
    """Return one page of a list of items."""
    found = review.listed(chosen, reviewer)
    pages = max(-(-found.size // ROWS), 1)
    page = min(max(page, 1), pages)
    some = found[(page - 1) * ROWS : page * ROWS]
    return {
        "rows": [_row(review, n, text) for n, text in zip(some.tolist(), texts_of(review, some), strict=True)],
        "total": count(found.size),
        "page": page,
        "pages": pages,
        "filter": chosen,
        "within": urlencode(chosen.parameters),
        "flags": FLAGS,
        "numbers": review.now.numbers is not None,
        "classes": review.material.classes[:500],
    }


def _row(review: Review, n: int, text: str) -> dict[str, Any]:
    now, key = review.now, review.material.key(n)
    state = review.ledger.of(key)
    accepted = review.ledger.accepted.get(key)
    mark = "conflict" if state.conflict else "discuss" if state.discuss else "decided" if state.decisions else ""
    return {
        "n": n,
        "key": key,
        "name": marked(key, 60),
        "text": text,
        "label": marked(
            state.answer or (accepted.answer if accepted else now.label_of(n, review.material.classes)) or "–", 32
        ),
        "raw_label": now.label_of(n, review.material.classes),
        "confidence": now.sure(n),
        "bar": "" if now.numbers else bar(float(now.confidence[n])),
        "value": now.worth(n),
        "mark": mark or ("accepted" if accepted else "known" if review.material.known_before[n] else ""),
        "notes": len(state.notes),
        "answer": state.answer,
    }


def texts_of(review: Review, items: Ints) -> list[str]:
    """Return the beginning of what these items show."""
    origin = review.material.labels.origin.texts
    ids = review.material.labels.item_ids
    known = [None] * items.size if origin is None else origin.of(ids.take(items).to_arrow()).to_pylist()
    found = []
    for n, text in zip(items.tolist(), known, strict=True):
        fields = review.tasks.fields.get(n)
        words = " ".join(f"[{w['word']}]" if w["here"] else w["word"] for w in sentence(review, n))
        line = " ".join((next(iter(fields.values())) if fields else text or words).split())
        found.append(shown(line, 140) if line else "")
    return found


# ---- annotators ------------------------------------------------------------------------------------------------


def annotators_page(review: Review, page: int, q: str) -> dict[str, Any]:
    """Return one page of the annotators, those with most labels first."""
    labels = review.material.labels.labels_per_annotator
    order = np.argsort(-labels, kind="stable")
    if q:
        names = review.material.annotators
        order = np.asarray([m for m in order.tolist() if q.lower() in names[m].lower()], np.int64)
    pages = max(-(-order.size // ROWS), 1)
    page = min(max(page, 1), pages)
    hits, known = _records(review)
    some = order[(page - 1) * ROWS : page * ROWS]
    return {
        "rows": [_annotator(review, m, int(labels[m]), hits, known) for m in some.tolist()],
        "total": count(order.size),
        "page": page,
        "pages": pages,
        "q": q,
        "within": urlencode({"q": q} if q else {}),
    }


def _annotator(review: Review, m: int, labels: int, hits: Any, known: Any) -> dict[str, Any]:
    run, accuracy = review.now.run, review.now.accuracy[m]
    columns = {} if run is None else run.annotator_columns
    value = {name: columns[name][m].as_py() if name in columns else None for name in ("low", "high", "bias", "flags")}
    return {
        "m": m,
        "name": marked(review.material.annotators[m], 40),
        "labels": count(labels),
        "accuracy": percent(None if np.isnan(accuracy) else float(accuracy), 0),
        "range": "" if value["low"] is None else f"{percent(value['low'], 0)} to {percent(value['high'], 0)}",
        "bar": "" if np.isnan(accuracy) else bar(float(accuracy)),
        "bias": f"{value['bias']:+.3g} on average" if isinstance(value["bias"], float) else value["bias"] or "",
        "flags": value["flags"] or "",
        "record": f"{int(hits[m])} of {int(known[m])}" if known[m] else "",
    }


def _records(review: Review) -> tuple[Any, Any]:
    """Return how many labels of each annotator agree with a decision, and how many items of theirs are decided."""
    material, M = review.material, review.material.labels.n_annotators
    hits, known = np.zeros(M), np.zeros(M)
    names = material.answers(review.now.run)
    if review.now.numbers is not None:  # nobody hits a number
        return hits, known
    for item, answer in review.ledger.answers().items():
        n = material.find(item)
        if n is not None:
            who, what = material.said(n)
            np.add.at(known, who, 1)
            np.add.at(hits, [m for m, k in zip(who, what, strict=True) if names[k] == answer], 1)
    return hits, known


def annotator_page(review: Review, m: int) -> dict[str, Any]:
    """Return the report card of an annotator: figures, confusions, and examples of mistakes."""
    material, now = review.material, review.now
    hits, known = _records(review)
    labels = int(material.by_annotator.indptr[m + 1] - material.by_annotator.indptr[m])
    found = _annotator(review, m, labels, hits, known)
    confusion = None
    run = now.run
    if run is not None and now.posterior is not None and len(material.classes) <= _MOST_CLASSES:
        table, counts = run.model.confusions[m], run.counts[m]
        confusion = [
            {
                "truth": marked(material.classes[k], 20),
                "count": f"{counts[:, k].sum():.0f}",
                "cells": [
                    {"share": percent(float(table[i, k]), 0), "right": i == k, "shade": round(10 * float(table[i, k]))}
                    for i in range(len(material.classes))
                ],
            }
            for k in range(len(material.classes))
        ]
    return {
        **found,
        "confusion": confusion,
        "classes": [marked(name, 20) for name in material.classes],
        "mistakes": _mistakes(review, m),
    }


def _mistakes(review: Review, m: int) -> list[dict[str, Any]]:
    """Return labels of the annotator that differ from a decision, or else from the consensus, the surest first.

    Of numbers, those that are farthest off.
    """
    material, now, by = review.material, review.now, review.material.by_annotator
    here = slice(int(by.indptr[m]), min(int(by.indptr[m + 1]), int(by.indptr[m]) + _MOST_SEARCHED))
    items, said = by.item[here].astype(np.int64), by.label[here]
    names = material.answers(now.run)
    if now.numbers is not None:
        surest = np.abs(np.asarray([float(material.classes[k]) for k in said]) - now.numbers.value[items])
        differs = surest > 0
    elif isinstance(now.label, list):
        differs = np.asarray([now.label[n] != names[k] for n, k in zip(items, said, strict=True)], bool)
        surest = now.confidence[items]
    else:
        differs, surest = said != now.label[items], now.confidence[items]
    order = np.flatnonzero(differs)
    order = order[np.argsort(-surest[order], kind="stable")]
    rows = [(int(items[at]), names[int(said[at])]) for at in order[: 10 * _EXAMPLES].tolist()]
    answers = {n: review.ledger.of(material.key(n)).answer for n, _ in rows}
    rows = [(n, label) for n, label in rows if answers[n] != label]
    some = sorted(rows, key=lambda row: answers[row[0]] is None)[:_EXAMPLES]
    texts = texts_of(review, np.asarray([n for n, _ in some], np.int64))
    return [
        {
            "n": n,
            "name": marked(material.key(n), 40),
            "text": text,
            "said": marked(label, 30),
            "right": marked(answers[n] or now.label_of(n, material.classes), 30),
            "decided": answers[n] is not None,
            "confidence": now.sure(n),
        }
        for (n, label), text in zip(some, texts, strict=True)
    ]


# ---- agreement -------------------------------------------------------------------------------------------------


def measures(found: Agreement) -> list[dict[str, str]]:
    """Return the coefficients of agreement as text."""
    rows = nw.from_native(found.table, eager_only=True).rows(named=True)
    return [
        {
            "name": row["measure"],
            "value": "–" if row["value"] is None else f"{row['value']:.3f}",
            "interval": "" if row["low"] is None else f"{row['low']:.3f} to {row['high']:.3f}",
        }
        for row in rows
    ]


def pairs(review: Review) -> list[dict[str, Any]]:
    """Return how often each two reviewers decided the same, over the items that both decided."""
    both: dict[tuple[str, str], list[bool]] = {}
    for item in review.ledger.items():
        for one, other in combinations(sorted(review.ledger.of(item).decisions, key=lambda d: d.reviewer), 2):
            both.setdefault((one.reviewer, other.reviewer), []).append(one.answer == other.answer)
    return [
        {
            "one": marked(one, 24),
            "other": marked(other, 24),
            "both": len(same),
            "same": percent(sum(same) / len(same), 0),
        }
        for (one, other), same in sorted(both.items())
    ]
