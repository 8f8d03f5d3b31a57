"""One item as the page shows it, and the panel that says how the consensus stands."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import numpy as np

from consilience.data.names import marked, percent, shown
from consilience.report.svg import bar
from consilience.runs.multi_run import MultiRun
from consilience.web.checks import SHOWN, checked
from consilience.web.filters import Filter
from consilience.web.session import Review
from consilience.web.snapshot import Snapshot
from consilience.web.task_data import blocks_of

__all__ = ["card", "sentence", "status"]

#: Options with a key of their own; beyond so many classes the most probable are shown as buttons.
_KEYS = 9
#: Words shown on either side of a token.
_AROUND = 12


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
    check = n in review.checks
    seen = {
        "label": label[:SHOWN],
        "confidence": round(float(now.confidence[n]), 4),
        "error": round(now.error.value, 6),
        "stage": now.stage,
        "check": check,
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
        "sentence": sentence(review, n),
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
        "confidence": now.sure(n),
        "numbers": now.numbers is not None,
        "sets": isinstance(now.run, MultiRun),
        "value": now.worth(n),
        "n_labels": int(material.labels.indptr[n + 1] - material.labels.indptr[n]),
        "check": check,
        "state": state,
        "known": bool(material.known_before[n]),
        "accepted": review.ledger.accepted.get(key),
        "seen": json.dumps(seen),
        "within": urlencode(chosen.parameters),
    }


def _said(review: Review, now: Snapshot, n: int) -> dict[str, list[dict[str, Any]]]:
    """Return who gave each answer, the most reliable first."""
    who, what = review.material.said(n)
    names = review.material.answers(now.run)
    found: dict[str, list[dict[str, Any]]] = {}
    reliable = np.nan_to_num(now.accuracy[who], nan=-1.0)
    for at in np.argsort(-reliable, kind="stable").tolist():
        name = review.material.annotators[int(who[at])]
        accuracy = None if reliable[at] < 0 else percent(float(reliable[at]), 0)
        row = {"m": int(who[at]), "name": marked(name, 24), "accuracy": accuracy}
        found.setdefault(names[int(what[at])], []).append(row)
    return found


def sentence(review: Review, n: int) -> list[dict[str, Any]]:
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
            "before": now.amount(found.before.value),
            "after": now.amount(found.after.value),
        }
    stage = "votes" if now.stage == "votes" else "current" if live.current else "updating"
    return {
        "stage": stage,
        "failure": live.failure,
        "numbers": now.numbers is not None,
        "error": now.amount(now.error.value),
        "low": now.amount(now.error.low),
        "high": now.amount(now.error.high),
        "start": None if review.start is None else now.amount(review.start),
        "target": now.amount(review.target),
        "checks": checked(review.ledger),
        "checking": review.checking,
        "needed": None if now.stage == "votes" else review.needed(),
        "changes": changes,
        "progress": progress,
        "done": progress["items"] - progress["open"],
        "version": f"{now.number}.{review.ledger.version}.{int(live.fitting)}",
    }
