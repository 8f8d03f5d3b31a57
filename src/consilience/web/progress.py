"""How far a review is, and what accepting many labels would mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from consilience.data.names import count, marked, percent
from consilience.report.svg import Frame, element, picture, ticks
from consilience.web.bulk import Sample, sample_of
from consilience.web.lists import texts_of
from consilience.web.session import Review

__all__ = ["accept_page", "progress_page"]

_KINDS = ("decide", "changed", "skip", "discuss", "note", "accept")


def progress_page(review: Review) -> dict[str, Any]:
    """Return how far the review is: by reviewer, and the estimated error over decisions."""
    errors, people = [], {name: dict(kinds) for name, kinds in review.ledger.counts().items()}
    for event in review.ledger.events():
        if event.kind == "decide" and event.id not in review.ledger.undone:
            seen = event.on_screen
            if isinstance(seen.get("error"), int | float):
                if seen.get("stage") != "votes":  # nothing was fitted yet
                    errors.append(float(seen["error"]))
                changed = people[event.reviewer]
                changed["changed"] = changed.get("changed", 0) + (seen.get("label") != event.answer)
    if errors:
        errors.append(review.now.error.value)
    rows = [
        {
            "name": marked(name, 40),
            **{kind: kinds.get(kind, 0) for kind in _KINDS},
        }
        for name, kinds in sorted(people.items())
    ]
    return {"people": rows, "chart": _error_chart(errors, review) if len(errors) > 1 else None}


def _error_chart(errors: list[float], review: Review) -> Markup:
    """Draw the estimated error over the decisions, with the target."""
    target = review.target
    top = 1.1 * max(*errors, target, 1e-3)
    frame = Frame(520.0, 230.0, (0.0, float(len(errors) - 1)), (0.0, top), margins=(30.0, 14.0, 40.0, 52.0))
    points = [*enumerate(errors)][:: max(len(errors) // 400, 1)]
    aim = frame.y(target)
    parts = [
        *frame.axes(
            [x for x in ticks(0, len(errors) - 1) if x == int(x)],
            ticks(0.0, top),
            "decisions",
            "estimated error",
            review.now.amount,
        ),
        element("line", x1=frame.left, x2=frame.right, y1=aim, y2=aim, class_="aim"),
        element("text", "target", x=frame.right, y=aim - 5, text_anchor="end", class_="tick"),
        element("polyline", points=" ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in points), class_="line"),
    ]
    return picture(frame.width, frame.height, *parts, label="Estimated error over the decisions")


def accept_page(review: Review, reviewer: str, threshold: float) -> dict[str, Any]:
    """Return the sample that a reviewer looks at, what it implies, and how many labels could be accepted."""
    sample = sample_of(review, reviewer)
    classes = review.now.run is not None and review.now.posterior is not None
    items = review.eligible(threshold)
    wrong = float(review.now.wrong[items].sum())
    found: dict[str, Any] = {
        "threshold": f"{100 * threshold:g}",
        "eligible": count(items.size),
        "expected": f"{wrong:.0f}",
        "expected_share": percent(wrong / items.size if items.size else 0.0),
        "classes": classes,
        "first": review.now.run is None,
        "sample": None,
    }
    if sample is not None and classes:
        found["sample"] = _sample(review, sample)
    return found


def _sample(review: Review, sample: Sample) -> dict[str, Any]:
    """Return the labels of a sample, and what reviewers say of them."""
    wrong, judged, low, high = sample.result(review)
    places = [review.material.find(item) for item in sample.items]
    texts = texts_of(review, np.asarray([n or 0 for n in places], np.int64))
    answers = sample.judged(review)
    rows = zip(places, sample.items, texts, sample.labels, answers, strict=True)
    eligible = review.eligible(sample.threshold).size
    # the keyboard goes on where it was, once the first label is judged
    following = answers.index(None) if judged and None in answers else -1
    return {
        "rows": [
            {
                "n": n,
                "key": item,
                "name": marked(item, 50),
                "text": text,
                "label": label,
                "shown": marked(label, 40),
                "answer": answer,
                "answer_shown": marked(answer or "", 40),
                "is_next": at == following,
            }
            for at, (n, item, text, label, answer) in enumerate(rows)
        ],
        "threshold": percent(sample.threshold, 0),
        "wrong": wrong,
        "judged": judged,
        "size": len(sample.items),
        "low": percent(low),
        "high": percent(high),
        "most": count(np.ceil(high * eligible)),
        "eligible": count(eligible),
        "complete": judged == len(sample.items),
        "options": review.material.classes[:500],
    }
