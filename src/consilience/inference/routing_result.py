"""Whom to ask about which items: the stages, what they cost, and the next step for new items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from consilience.data import frames as _frames
from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.io.coercion import as_annotations
from consilience.kernels._arrays import Floats, Ints

__all__ = ["Routing"]

_PERSON = "a person"


@dataclass(frozen=True, eq=False)
class Routing:
    """Stages of judges and the confidence from which on a label is accepted; ``print`` shows it."""

    stages: tuple[tuple[Any, ...], ...]  #: judges asked first, second, …
    costs: tuple[float, ...]  #: of all judges of each stage, for an item
    person: float | None  #: cost of a person's answer
    threshold: float  #: confidence from which on a label is accepted
    verified: bool  #: whether known answers verify that the error is at most the ceiling
    ceiling: float
    delta: float
    p_value: float
    wrong: int  #: wrong labels among the known answers that tested
    tested: int
    learned: int  #: known answers that probabilities were learned from
    decided: tuple[int, ...]  #: items accepted after each stage; the last are those left
    frame: str | None = field(default=None, repr=False)
    item_column: str = field(default="item", repr=False)
    classes: Ids | None = field(default=None, repr=False)
    predictor: Callable[[Annotations], Floats] | None = field(default=None, repr=False)

    @property
    def cost(self) -> float:
        """Mean cost of an item."""
        reached = np.cumsum(np.append(self.decided[::-1], 0))[:-1][::-1]  # items that reach each stage, then the rest
        spent = float(np.dot(reached[: len(self.costs)], self.costs))
        return (spent + self.decided[-1] * (self.person or 0.0)) / sum(self.decided)

    @property
    def cost_of_all(self) -> float:
        """Cost of an item that all judges label."""
        return float(sum(self.costs))

    @property
    def table(self) -> Any:
        """Frame with a row for each stage, and one for people: stage, judges, cost, reached and decided (shares)."""
        n, ask = sum(self.decided), [", ".join(map(str, names)) for names in self.stages]
        reached = [sum(self.decided[s:]) / n for s in range(len(self.decided))]
        last = [_PERSON if self.person is not None else "nobody: accepted as it is"]
        columns = {
            "stage": np.arange(1, len(self.decided) + 1),
            "asked": ask + last,
            "cost": np.array([*self.costs, self.person or 0.0]),
            "reached": np.array(reached),
            "decided": np.array(self.decided) / n,
        }
        return _frames.make(columns, self.frame)

    def next(self, data: Any) -> Any:
        """Return whom to ask next about new items, from their labels so far.

        The frame has a row for each item: item, ask (None if its label is accepted), label (the most probable one) and
        confidence.  An item has passed a stage if one of its judges labelled it.
        """
        assert self.predictor is not None
        assert self.classes is not None
        a = as_annotations(data)
        posterior = self.predictor(a)
        stage = self._passed(a)
        last = len(self.stages)
        sure = (posterior.max(axis=1) >= self.threshold) & (a.labels_per_item > 0)
        done = sure | ((stage == last) & (self.person is None))
        names = [", ".join(map(str, judges)) for judges in self.stages] + [_PERSON]
        columns = {
            self.item_column: a.item_ids.to_arrow(),
            "ask": [None if ok else names[s] for ok, s in zip(done.tolist(), stage.tolist(), strict=True)],
            "label": self.classes.take(posterior.argmax(axis=1)).to_arrow(),
            "confidence": posterior.max(axis=1),
        }
        return _frames.make(columns, a.origin.frame)

    def _passed(self, a: Annotations) -> Ints:
        """Return how many stages every item has passed."""
        place = {str(name): s + 1 for s, names in enumerate(self.stages) for name in names}
        of = np.array([place.get(str(name), 0) for name in a.annotators], np.int64)
        passed = np.zeros(a.n_items, np.int64)
        np.maximum.at(passed, a.item_of_label(), of[a.annotator])
        return passed

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        names = ("verified", "ceiling", "delta", "threshold", "p_value", "wrong", "tested", "learned", "cost")
        made: dict[str, Any] = {name: getattr(self, name) for name in names}
        made["threshold"] = self.threshold if np.isfinite(self.threshold) else None
        made["cost_of_all_judges"], made["person"] = self.cost_of_all, self.person
        shares = [n / sum(self.decided) for n in self.decided]
        made["stages"] = [list(map(str, judges)) for judges in self.stages]
        return made | {"costs": list(self.costs), "decided": shares}

    def __str__(self) -> str:
        n = sum(self.decided)
        on = f"{self.wrong} of {self.tested} known answers wrong"
        if self.verified:
            lines = [
                f"Error at most {self.ceiling:.1%}, verified with probability {1 - self.delta:.0%} ({on}).",
                f"Accept a label from a confidence of {min(self.threshold, 1.0):.3f} on.",
            ]
        else:
            lines = [
                f"Not verified: no threshold keeps the error at {self.ceiling:.1%} with probability "
                f"{1 - self.delta:.0%} ({on} even if all judges are asked). Use better judges, ask a person "
                "(person=…), or raise the ceiling."
            ]
        if not np.isfinite(self.threshold) and self.verified:
            lines[1] = "No label of the judges can be accepted: all items go on to the end."
        left = n
        for s, (names, cost, here) in enumerate(zip(self.stages, self.costs, self.decided, strict=False), 1):
            ask = ", ".join(map(str, names[:6])) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
            lines.append(f"  {s}. ask {ask} ({cost:g}): {left / n:.1%} of items, {here / n:.1%} accepted")
            left -= here
        end = "accepted as they are" if self.person is None else f"to a person ({self.person:g})"
        lines.append(f"  {left / n:.1%} of items {end}")
        compared = f"all judges {self.cost_of_all:g}" + ("" if self.person is None else f", a person {self.person:g}")
        lines.append(f"Cost of an item: {self.cost:.3g} ({compared})")
        if self.person is not None and self.cost >= self.person:
            lines.append("Asking a person about every item costs less.")
        return "\n".join(lines)
