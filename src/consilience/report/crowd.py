"""Who shares items with whom: a drawing of the co-label graph.

Annotators with many common items are near each other (Fruchterman & Reingold 1991); the layout is deterministic.  If
there are many annotators, those with most labels are drawn, with the links of a maximum spanning tree, which shows what
is connected, and the few strongest links of each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from consilience.data.annotations import Annotations
from consilience.data.names import count, percent, shown
from consilience.kernels._arrays import Bools, Floats, Ints
from consilience.report.svg import element, picture
from consilience.report.view import View

__all__ = ["common_items", "crowd"]

#: Limits on the annotators that are drawn, and on those with a name.
_MOST, _NAMED = 60, 30
#: Up to so many annotators, all names and all links are drawn.
_FEW = 12
#: Strongest links of each.
_STRONGEST = 3
#: Limit on the items that links are counted on.
_MOST_ITEMS = 400_000
_WIDTH, _HEIGHT, _EDGE = 420.0, 330.0, 26.0


def crowd(view: View, flagged: Bools) -> dict[str, Any] | None:
    """Draw the graph and describe it; None if there is nothing to draw."""
    a = view.consensus.annotations
    if a is None or a.n_annotators < 2 or a.n_labels == 0:
        return None
    labels = a.labels_per_annotator
    who = _chosen(view, labels)
    shared = common_items(a, who)
    links = _links(shared)
    places = _places(shared, links)
    drawn = _edges(shared, links, places) + _nodes(a, who, places, flagged, labels)
    sentences = [] if view.diagnosis is None else _sentences(view)
    if who.size < int((labels > 0).sum()):
        sentences.append(f"Drawn are the {who.size} of {count((labels > 0).sum())} annotators with most labels.")
    if links.shape[1] < np.count_nonzero(np.triu(shared, 1)):
        sentences.append("Only the strongest links are drawn.")
    return {"picture": picture(_WIDTH, _HEIGHT, *drawn, label="Who shares items with whom"), "sentences": sentences}


def _chosen(view: View, labels: Ints) -> Ints:
    """Return who is drawn: those with most labels, and the first of each of the largest groups."""
    active = np.flatnonzero(labels > 0)
    order = active[np.argsort(-labels[active], kind="stable")]
    if order.size <= _MOST:
        return order
    first: list[int] = []
    if view.diagnosis is not None:
        g = view.diagnosis.graph
        people = [g.members(c) for c in range(min(g.n_components, 8))]
        first = [int(m[m < labels.size][0]) for m in people if (m < labels.size).any()]
    return np.asarray(list(dict.fromkeys([*first, *order.tolist()]))[:_MOST])


def common_items(a: Annotations, who: Ints) -> Ints:
    """Count the common items of each pair of these annotators, (n, n); the diagonal is zero."""
    from scipy.sparse import csr_array

    if a.n_items > _MOST_ITEMS:
        a = a.select_items(np.linspace(0, a.n_items - 1, _MOST_ITEMS).astype(np.int64))
    some = a.select_annotators(who)
    labels = (np.ones(some.n_labels, np.int32), some.annotator.astype(np.int32), some.indptr.copy())
    said = csr_array(labels, shape=(some.n_items, who.size))
    said.sum_duplicates()
    said.data[:] = 1  # an item answered twice counts once
    shared: Ints = (said.T @ said).toarray().astype(np.int64)
    np.fill_diagonal(shared, 0)
    return shared


def _links(shared: Ints) -> Ints:
    """Return the links to draw, (2, links), weakest first: a maximum spanning tree and the strongest of each."""
    from scipy.sparse.csgraph import minimum_spanning_tree

    kept = np.zeros(shared.shape, bool)
    if shared.any():
        # the minimum spanning tree of negative weights is the maximum one; zeros are no links
        tree = minimum_spanning_tree(np.where(shared > 0, -shared.astype(float), 0.0)).toarray() < 0
        strongest = np.argsort(-shared, axis=1, kind="stable")[:, :_STRONGEST]
        np.put_along_axis(kept, strongest, True, axis=1)
        kept = (kept | kept.T | tree | tree.T) & (shared > 0)
        if len(shared) <= _FEW:
            kept = shared > 0
    links = np.argwhere(np.triu(kept, 1)).T
    return links[:, np.argsort(shared[links[0], links[1]], kind="stable")]


def _places(shared: Ints, links: Ints) -> Floats:
    """Return positions of the annotators in the unit square, (n, 2)."""
    n = len(shared)
    angle = 2.39996323 * np.arange(n)  # the golden angle: no two start at the same place
    at = np.sqrt((np.arange(n) + 0.5) / n)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    pull = np.zeros((n, n))
    if links.size:
        weight = np.sqrt(shared[links[0], links[1]] / max(int(shared.max()), 1))
        pull[links[0], links[1]] = pull[links[1], links[0]] = 0.3 + 0.7 * weight
    k = np.sqrt(4.0 / n)
    for step in range(300):
        apart = at[:, None, :] - at[None, :, :]
        distance = np.maximum(np.sqrt((apart**2).sum(axis=2)), 1e-3)
        # repulsion k²/d between all, attraction d²/k along links, and a little towards the middle
        force = (k * k / distance - pull * distance**2 / k) / distance
        np.fill_diagonal(force, 0.0)
        move = (force[:, :, None] * apart).sum(axis=1) - 0.6 * k * at
        length = np.maximum(np.sqrt((move**2).sum(axis=1, keepdims=True)), 1e-9)
        at = at + move / length * np.minimum(length, 0.12 * (1 - step / 300))
    low, high = at.min(axis=0), at.max(axis=0)
    unit: Floats = np.where(high - low > 1e-6, (at - low) / np.maximum(high - low, 1e-9), 0.5)
    return unit


def _point(place: Floats) -> tuple[float, float]:
    return (
        float(_EDGE + 18 + (_WIDTH - 2 * _EDGE - 36) * place[0]),
        float(_EDGE - 8 + (_HEIGHT - 2 * _EDGE) * place[1]),
    )


def _edges(shared: Ints, links: Ints, places: Floats) -> list[Markup]:
    most = max(int(shared.max(initial=0)), 1)
    drawn = []
    for one, other in links.T.tolist():
        (x1, y1), (x2, y2) = _point(places[one]), _point(places[other])
        strength = float(np.sqrt(shared[one, other] / most))
        title = element("title", f"{count(shared[one, other])} items in common")
        ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
        drawn.append(
            element("line", title, **ends, stroke_width=0.5 + 1.8 * strength, stroke_opacity=0.12 + 0.3 * strength)
        )
    return [element("g", *drawn, class_="links")]


def _nodes(a: Annotations, who: Ints, places: Floats, flagged: Bools, labels: Ints) -> list[Markup]:
    most = float(labels[who].max())
    points = [_point(place) for place in places]
    circles: list[Markup] = []
    names: list[Markup] = []
    taken = [(x, y, 6.0) for x, y in points]  # no name covers a circle or another name
    for (x, y), m in zip(points, who.tolist(), strict=True):
        r = 2.5 + 6.5 * float(np.sqrt(labels[m] / most))
        title = element("title", f"{shown(a.annotator_ids[m])}: {count(labels[m])} labels")
        circles.append(element("circle", title, cx=x, cy=y, r=r, class_="node flagged" if flagged[m] else "node"))
        name, low = shown(a.annotator_ids[m], 14), y + r + 10
        half = 3.0 * len(name)
        free = all(abs(x - u) > half + w or abs(low - 4 - v) > 9 for u, v, w in taken if (u, v) != (x, y))
        if len(names) < _NAMED and (free or len(who) <= _FEW):
            taken.append((x, low - 4, half))
            names.append(element("text", name, x=x, y=low, text_anchor="middle", class_="name"))
    return circles + names


def _sentences(view: View) -> list[str]:
    found = view.diagnosis
    assert found is not None
    g = found.graph
    groups = g.n_components - g.isolated.size
    sentences = [f"The annotators are {'one linked group' if groups == 1 else f'{count(groups)} groups'}."]
    if g.isolated.size:
        sentences.append(f"{count(g.isolated.size)} share no item with anybody.")
    if g.missing > 0:
        about = "" if g.exact else "about "
        sentences.append(
            f"{percent(g.missing)} of the pairs have no item in common; {about}{percent(g.imputable)} of these follow "
            "from others."
        )
    else:
        sentences.append("Every pair has items in common.")
    return sentences
