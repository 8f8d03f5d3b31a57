"""Items to look at first: those whose label is least certain, with who said what."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from consilience.data.names import count, marked, shown
from consilience.data.texts import is_link
from consilience.kernels._arrays import Floats, Ints
from consilience.report.svg import bar
from consilience.report.view import View

__all__ = ["doubtful", "item_rows"]

#: Items with at least this confidence are listed only if there are fewer than so many others.
_CLEAR, _LEAST = 0.99, 10
#: Limits on the annotators named for each class, on the characters of their names together, and on the classes.
_MOST_NAMES, _MOST_LETTERS, _MOST_SAID = 6, 60, 6
#: Words shown on either side of a token.
_AROUND = 4
#: Characters shown of an item's text.
_MOST_TEXT = 160


def doubtful(view: View, most: int) -> Ints:
    """Return the items with the smallest margins, without those of known truth."""
    open_ = view.labelled.copy()
    a = view.consensus.annotations
    if a is not None and a.gold is not None:
        open_ &= a.gold < 0
    at = np.flatnonzero(open_)
    order = at[np.lexsort((at, view.margin[at]))[:most]]
    return order[: max(int((view.confidence[order] < _CLEAR).sum()), _LEAST)]


def item_rows(view: View, most: int) -> list[dict[str, Any]]:
    """Return a row for each item to look at."""
    consensus = view.consensus
    classes = consensus.model.classes
    best, second = consensus.choice.best, consensus.choice.second
    accuracy = np.asarray([value or 0.0 for value in view.annotators["accuracy"]])
    rows = []
    chosen = doubtful(view, most)
    for n, text in zip(chosen.tolist(), consensus.texts_of(chosen), strict=True):
        p = consensus.probabilities_of(n)
        row: dict[str, Any] = {
            "name": _name(view, n, text),
            "label": marked(classes[int(best[n])], 32),
            "confidence": f"{view.confidence[n]:.3f}",
            "bar": bar(float(view.confidence[n])),
            "runner_up": marked(classes[int(second[n])], 32) if len(classes) > 1 else "",
            "runner_up_share": f"{p[int(second[n])]:.3f}" if len(classes) > 1 else "",
            "margin": f"{view.margin[n]:.6f}",
            "labels": count(consensus.n_labels[n]),
            "said": _said(view, n, accuracy),
        }
        if view.truth is not None:
            t = int(view.truth[n])
            row["truth"] = "" if t < 0 else marked(classes[t], 32) if t < len(classes) else "none of the classes"
            row["right"] = t < 0 or t == int(best[n])
        rows.append(row)
    return rows


def _name(view: View, n: int, text: str | None) -> Markup:
    """Return the name of an item, with its text below or as a link if it has one."""
    s = view.sequences
    if s is None:
        item = str(view.consensus.item_ids[n])
        if link := next((t for t in (item, text) if t and is_link(t)), None):
            return Markup('<a href="{}" target="_blank" rel="noopener noreferrer">{}</a>').format(link, marked(item))
        if not text or text == item:
            return marked(item)
        return marked(item) + Markup('<span class="context"><bdi>{}</bdi></span>').format(_line(text))
    which = int(np.searchsorted(s.indptr, n, side="right")) - 1
    name = marked(s.sequence_ids[which], 32) + Markup(" · ") + marked(s.position_ids[int(s.position[n])], 16)
    if s.words is None:
        return name
    low, high = max(n - _AROUND, int(s.indptr[which])), min(n + _AROUND + 1, int(s.indptr[which + 1]))
    before, word, after = (
        " ".join(shown(w, 24) for w in s.words[x:y].to_pylist()) for x, y in ((low, n), (n, n + 1), (n + 1, high))
    )
    return name + Markup('<span class="context">{} <mark>{}</mark> {}</span>').format(before, word, after)


def _line(text: str) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text.split())
    return shown(line[:_MOST_TEXT], _MOST_TEXT) + "…" * (len(line) > _MOST_TEXT)


def _said(view: View, n: int, accuracy: Floats) -> list[dict[str, Any]] | None:
    """Return the classes that were answered, most probable first, each with its annotators, most accurate first."""
    a = view.consensus.annotations
    if a is None:
        return None
    here = slice(int(a.indptr[n]), int(a.indptr[n + 1]))
    who, said = a.annotator[here].astype(np.int64), a.label[here].astype(np.int64)
    p = view.consensus.probabilities_of(n)
    found = []
    named = sorted(np.unique(said).tolist(), key=lambda k: (-p[k], k))
    for k in named[:_MOST_SAID]:
        people, times = np.unique(who[said == k], return_counts=True)
        order = np.argsort(-accuracy[people], kind="stable")[:_MOST_NAMES].tolist()
        letters = np.cumsum([min(len(str(a.annotator_ids[int(people[x])])), 24) for x in order])
        names = [
            marked(a.annotator_ids[int(people[x])], 24) + (f" ×{times[x]}" if times[x] > 1 else "")
            for x in order[: max(int((letters <= _MOST_LETTERS).sum()), 1)]
        ]
        found.append({"label": marked(a.class_ids[k], 32), "names": names, "more": people.size - len(names)})
    if len(named) > _MOST_SAID:
        found.append({"label": f"{len(named) - _MOST_SAID} more", "names": [], "more": 0})
    return found
