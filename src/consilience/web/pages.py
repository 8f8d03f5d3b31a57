"""What the templates show: an item with its labels, lists, annotators, agreement and progress, in plain values."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any
from urllib.parse import urlencode

import narwhals as nw
import numpy as np
from markupsafe import Markup

from consilience.data.names import count, marked, percent, shown
from consilience.diagnose.agreement import Agreement
from consilience.kernels._arrays import Ints
from consilience.report.svg import Frame, bar, element, picture
from consilience.web.bulk import sample_of
from consilience.web.live import Snapshot
from consilience.web.session import FLAGS, Filter, Review
from consilience.web.task_data import blocks_of

__all__ = [
    "accept_page",
    "annotator_page",
    "annotators_page",
    "card",
    "items_page",
    "measures",
    "pairs",
    "progress_page",
    "status",
]

#: Options with a key of their own; beyond so many classes the most probable are shown as buttons.
_KEYS = 9
#: Annotators listed for an answer, words around a token, rows of a page, examples of mistakes.
_MOST_WHO, _AROUND, ROWS, _EXAMPLES = 12, 12, 50, 12
#: Classes up to which a confusion matrix is shown.
_MOST_CLASSES = 12


def card(review: Review, n: int, reviewer: str, chosen: Filter) -> dict[str, Any]:
    """Return all that is shown of an item, and, for the record, what was on screen."""
    material, now = review.material, review.now
    key, state = material.key(n), review.ledger.of(material.key(n))
    options = material.options(now.run, now.posterior, n)
    buttons = options if len(options) <= _KEYS else sorted(options, key=lambda o: -(o.probability or 0))[:_KEYS]
    said = _said(review, now, n)
    label = now.label_of(n, material.classes)
    text = review.material.labels.origin.texts
    texts = None if text is None else text.of(material.labels.item_ids.to_arrow().slice(n, 1))[0].as_py()
    mine = next((d.answer for d in state.decisions if d.reviewer == reviewer), None)
    seen = {
        "label": label[:100],
        "confidence": round(float(now.confidence[n]), 4),
        "error": round(now.error.value, 6),
        "stage": now.stage,
        "fit": now.number,
        "shown": [[o.answer[:60], None if o.probability is None else round(o.probability, 4)] for o in buttons],
        "said": [[answer[:60], len(who)] for answer, who in list(said.items())[:12]],
        "decisions": [[d.reviewer, d.answer[:60]] for d in state.decisions[:8]],
    }
    return {
        "n": n,
        "key": key,
        "name": marked(key, 80),
        "blocks": blocks_of(review.tasks, n, key, texts, remote=review.remote_media),
        "sentence": _sentence(review, n),
        "buttons": [
            {
                "key": at,
                "answer": o.answer,
                "name": marked(o.answer, 60),
                "percent": "" if o.probability is None else percent(o.probability, 0),
                "bar": None if o.probability is None else bar(float(o.probability)),
                "is_label": o.answer == label,
                "is_mine": o.answer == mine,
                "who": said.get(o.answer, []),
            }
            for at, o in enumerate(buttons, 1)
        ],
        "others": [o.answer for o in options if o not in buttons],
        "free": now.posterior is None,
        "other_answers": {a: w for a, w in said.items() if a not in {o.answer for o in buttons}},
        "label": marked(label or "–", 40),
        "confidence": percent(float(now.confidence[n]), 0),
        "value": f"{now.value[n]:.2f}",
        "n_labels": int(material.labels.indptr[n + 1] - material.labels.indptr[n]),
        "state": state,
        "known": bool(material.known_before[n]),
        "accepted": review.ledger.accepted.get(key),
        "seen": json.dumps(seen),
        "within": urlencode(chosen.parameters),
    }


def _said(review: Review, now: Snapshot, n: int) -> dict[str, list[dict[str, Any]]]:
    """Return who gave each answer, the most reliable first."""
    who, what = review.material.said(n)
    found: dict[str, list[dict[str, Any]]] = {}
    reliable = np.nan_to_num(now.accuracy[who], nan=-1.0)
    for at in np.argsort(-reliable, kind="stable").tolist():
        name = review.material.annotators[int(who[at])]
        accuracy = None if reliable[at] < 0 else percent(float(reliable[at]), 0)
        row = {"m": int(who[at]), "name": marked(name, 24), "accuracy": accuracy}
        found.setdefault(review.material.classes[int(what[at])], []).append(row)
    return found


def _sentence(review: Review, n: int) -> list[dict[str, Any]]:
    """Return the words around a token, with their labels."""
    s, now = review.material.sequences, review.now
    if s is None:
        return []
    which = int(np.searchsorted(s.indptr, n, side="right")) - 1
    low, high = max(n - _AROUND, int(s.indptr[which])), min(n + _AROUND + 1, int(s.indptr[which + 1]))
    words = (
        [str(s.position_ids[int(s.position[j])]) for j in range(low, high)]
        if s.words is None
        else s.words[low:high].to_pylist()
    )
    return [
        {"n": j, "word": shown(word, 32), "label": shown(now.label_of(j, review.material.classes), 20), "here": j == n}
        for j, word in zip(range(low, high), words, strict=True)
    ]


def status(review: Review) -> dict[str, Any]:
    """Return how the consensus stands, and what the last fit changed."""
    live, now = review.live, review.now
    progress = review.progress()
    changes = None
    if live.changes is not None:
        found = live.changes
        changes = {
            "flips": [
                {"n": n, "name": marked(review.material.key(n), 32), "before": marked(b, 24), "after": marked(a, 24)}
                for n, b, a in found.flips[:6]
            ],
            "n_flips": found.n_flips,
            "moved": [
                {
                    "m": m,
                    "name": marked(review.material.annotators[m], 24),
                    "before": percent(b, 0),
                    "after": percent(a, 0),
                }
                for m, b, a in found.moved[:6]
            ],
            "n_moved": len(found.moved),
            "before": percent(found.before.value),
            "after": percent(found.after.value),
        }
    current = now.stage == "exact" and now.upto >= review.ledger.version
    return {
        "stage": "votes"
        if now.stage == "votes"
        else "current"
        if current or not live.fitting and now.stage == "exact"
        else "updating",
        "failure": live.failure,
        "error": percent(now.error.value),
        "low": percent(now.error.low),
        "high": percent(now.error.high),
        "start": None if live.start_error is None else percent(live.start_error.value),
        "target": percent(review.target),
        "needed": None if now.stage == "votes" else review.needed(),
        "changes": changes,
        "progress": progress,
        "done": progress["items"] - progress["open"],
        "version": f"{now.number}.{review.ledger.version}.{int(live.fitting)}",
    }


def items_page(review: Review, chosen: Filter, reviewer: str, page: int) -> dict[str, Any]:
    """Return one page of a list of items."""
    found = review.listed(chosen, reviewer)
    pages = max(-(-found.size // ROWS), 1)
    page = min(max(page, 1), pages)
    some = found[(page - 1) * ROWS : page * ROWS]
    return {
        "rows": [_row(review, n, text) for n, text in zip(some.tolist(), _texts(review, some), strict=True)],
        "total": count(found.size),
        "page": page,
        "pages": pages,
        "filter": chosen,
        "within": urlencode(chosen.parameters),
        "flags": FLAGS,
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
        "confidence": percent(float(now.confidence[n]), 0),
        "bar": bar(float(now.confidence[n])),
        "value": f"{now.value[n]:.2f}",
        "mark": mark or ("accepted" if accepted else "known" if review.material.known_before[n] else ""),
        "notes": len(state.notes),
        "answer": state.answer,
    }


def _texts(review: Review, items: Ints) -> list[str]:
    """Return the beginning of what these items show."""
    origin = review.material.labels.origin.texts
    ids = review.material.labels.item_ids
    known = [None] * items.size if origin is None else origin.of(ids.take(items).to_arrow()).to_pylist()
    found = []
    for n, text in zip(items.tolist(), known, strict=True):
        fields = review.tasks.fields.get(n)
        sentence = " ".join(f"[{w['word']}]" if w["here"] else w["word"] for w in _sentence(review, n))
        found.append(
            shown(" ".join((next(iter(fields.values())) if fields else text or sentence).split()), 140)
            if fields or text or sentence
            else ""
        )
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
        "bias": value["bias"] or "",
        "flags": value["flags"] or "",
        "record": f"{int(hits[m])} of {int(known[m])}" if known[m] else "",
    }


def _records(review: Review) -> tuple[Any, Any]:
    """Return how many labels of each annotator agree with a decision, and how many items of theirs are decided."""
    material, M = review.material, review.material.labels.n_annotators
    hits, known = np.zeros(M), np.zeros(M)
    for item, answer in review.ledger.answers().items():
        n = material.find(item)
        if n is not None:
            who, what = material.said(n)
            np.add.at(known, who, 1)
            np.add.at(hits, who[what == material.class_code.get(answer, -1)], 1)
    return hits, known


def annotator_page(review: Review, m: int) -> dict[str, Any]:
    """Return the report card of an annotator: figures, confusions, and examples of mistakes."""
    material, now = review.material, review.now
    hits, known = _records(review)
    items = material.labelled_by(m)
    found = _annotator(review, m, items.size, hits, known)
    confusion = None
    run = now.run
    if run is not None and now.posterior is not None and len(material.classes) <= _MOST_CLASSES:
        table, counts = run.model.confusions[m], run.counts[m]
        confusion = [
            {
                "truth": marked(material.classes[k], 20),
                "items": f"{counts[:, k].sum():.0f}",
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
        "mistakes": _mistakes(review, m, items),
    }


def _mistakes(review: Review, m: int, items: Any) -> list[dict[str, Any]]:
    """Return items where the annotator differs from a decision, or else from a sure consensus."""
    material, now = review.material, review.now
    rows = []
    for n in items.tolist():
        who, what = material.said(n)
        said = material.classes[int(what[who == m][-1])]
        rows.append((n, said))
        if len(rows) >= 20_000:
            break
    wrong = []
    for n, said in rows:
        answer = review.ledger.of(material.key(n)).answer
        right = answer or now.label_of(n, material.classes)
        if right and right != said:
            wrong.append((answer is None, -float(now.confidence[n]), n, said, right))
    wrong.sort()
    some = wrong[:_EXAMPLES]
    texts = _texts(review, np.asarray([row[2] for row in some], np.int64))
    return [
        {"n": n, "name": marked(material.key(n), 40), "text": text, "said": marked(said, 30), "right": marked(right, 30), "decided": not by_consensus, "confidence": percent(-c, 0)}
        for (by_consensus, c, n, said, right), text in zip(some, texts, strict=True)
    ]  # fmt: skip


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


# ---- progress and acceptance -----------------------------------------------------------------------------------


def progress_page(review: Review) -> dict[str, Any]:
    """Return how far the review is: by reviewer, and the estimated error over decisions."""
    errors, people = [], {name: dict(kinds) for name, kinds in review.ledger.counts().items()}
    for event in review.ledger.events():
        if event.kind == "decide" and event.id not in review.ledger.undone and event.seen:
            seen = json.loads(event.seen)
            if isinstance(seen, dict) and isinstance(seen.get("error"), int | float):
                errors.append(float(seen["error"]))
                changed = people[event.reviewer]
                changed["changed"] = changed.get("changed", 0) + (seen.get("label") != event.answer)
    if errors:
        errors.append(review.now.error.value)
    rows = [
        {
            "name": marked(name, 40),
            **{k: kinds.get(k, 0) for k in ("decide", "changed", "skip", "discuss", "note", "accept")},
        }
        for name, kinds in sorted(people.items())
    ]
    return {"people": rows, "chart": _error_chart(errors, review.target) if len(errors) > 1 else None}


def _error_chart(errors: list[float], target: float) -> Markup:
    """Draw the estimated error over the decisions, with the target."""
    step = max(len(errors) // 400, 1)
    points = [*enumerate(errors)][::step]
    frame = Frame(
        520.0,
        220.0,
        (0.0, float(len(errors) - 1)),
        (0.0, max(*errors, target) * 1.1 or 1.0),
        margins=(12.0, 14.0, 30.0, 46.0),
    )
    line = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in points)
    aim = frame.y(target)
    parts = [
        element("line", x1=frame.left, x2=frame.right, y1=aim, y2=aim, class_="aim"),
        element("polyline", points=line, class_="line"),
        element("text", "target", x=frame.right, y=aim - 5, text_anchor="end", class_="tick"),
    ]
    for value in (0.0, max(errors)):
        parts.append(
            element("text", percent(value), x=frame.left - 6, y=frame.y(value) + 4, text_anchor="end", class_="tick")
        )
    parts.append(
        element(
            "text", f"{len(errors) - 1} decisions", x=frame.right, y=frame.bottom + 18, text_anchor="end", class_="tick"
        )
    )
    return picture(frame.width, frame.height, *parts, label="Estimated share of wrong labels over the decisions")


def accept_page(review: Review, reviewer: str, threshold: float) -> dict[str, Any]:
    """Return the sample that a reviewer looks at, what it implies, and how many labels could be accepted."""
    sample, classes = sample_of(review, reviewer), review.now.posterior is not None
    items = review.eligible(threshold)
    found: dict[str, Any] = {
        "threshold": f"{100 * threshold:g}",
        "eligible": count(items.size),
        "expected": f"{float(review.now.wrong[items].sum()):.0f}",
        "expected_share": percent(float(review.now.wrong[items].mean()) if items.size else 0.0),
        "classes": classes,
        "sample": None,
    }
    if sample is not None and classes:
        wrong, judged, low, high = sample.result(review)
        places = [review.material.find(item) for item in sample.items]
        texts = _texts(review, np.asarray([n or 0 for n in places], np.int64))
        now_eligible = review.eligible(sample.threshold).size
        found["sample"] = {
            "rows": [
                {"n": n, "key": item, "name": marked(item, 50), "text": text, "label": label, "shown": marked(label, 40), "answer": answer, "answer_shown": marked(answer or "", 40)}
                for n, item, text, label, answer in zip(places, sample.items, texts, sample.labels, sample.judged(review), strict=True)
            ],
            "threshold": percent(sample.threshold, 0),
            "wrong": wrong, "judged": judged, "size": len(sample.items), "low": percent(low), "high": percent(high),
            "most": count(np.ceil(high * now_eligible)), "eligible": count(now_eligible), "complete": judged == len(sample.items),
            "options": review.material.classes[:500],
        }  # fmt: skip
    return found
