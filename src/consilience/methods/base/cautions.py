"""Warnings about the data, whatever the method: too few annotators, labels, or links between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.data.scales import numbers_of
from consilience.engine.passes import Labels, passes_of
from consilience.exceptions import DataWarning, FewLabelsWarning, warn
from consilience.fitting.fit import Caution

__all__ = ["cautions_of", "warn_of"]

#: Fewest different numbers, whole and others, that are more than a scale, and the share of the whole numbers in a range
#: that codes of classes use; as in :mod:`consilience.answers.numeric.kind`.
_WHOLE, _DECIMAL, _FILLED = 22, 12, 0.9


def cautions_of(annotations: Labels, *, alone: bool = True, silence: Any = "random") -> list[Caution]:
    """Return what limits any method on these data; items that do not stand ``alone`` have neighbours or features.

    Unless ``silence`` is random, it says something about every item.
    """
    found = []
    seen = passes_of(annotations).survey
    counts = seen.said.sum(axis=1)
    active = int((counts > 0).sum())
    if annotations.n_classes == 1:
        found.append(f"every label is {annotations.class_ids[0]!r}: there is nothing to tell apart")
    if active == 1:
        found.append("there is only one annotator: the labels are theirs, and nothing checks them")
    elif active == 2:
        found.append("there are only two annotators: where they differ, the data cannot tell who is right")
    elif seen.longest <= 1 and silence == "random":
        found.append("no item has two labels: nothing shows who is right")
    single = int((counts == 1).sum())
    if single and active > 2:
        found.append(f"annotators who gave a single label: {single} of {active}; little can be said of them")
    crowds = np.unique(seen.component[counts > 0]).size
    if crowds > 1 and silence == "random":
        found.append(
            f"the annotators fall into {crowds} groups that share no item: "
            "how the groups compare is not in the data. Let members of different groups label some items in common"
        )
    if seen.unlabelled and silence == "random":
        found.append(_unlabelled(seen.unlabelled, alone))
    cautions: list[Caution] = [(sentence, FewLabelsWarning) for sentence in found]
    if not isinstance(annotations, Annotations) and (many := _numbers(annotations.class_ids)):
        sentence = f"the labels are {many} different numbers, taken as names of classes"
        cautions.append((f"{sentence}. If they are numbers, say answers='numeric'", DataWarning))
    return cautions


def _unlabelled(n: int, alone: bool) -> str:
    if n == 1:
        what = "stays unlabelled" if alone else "is judged by its neighbours or features alone"
        return f"1 item has no label and {what}"
    what = "stay unlabelled" if alone else "are judged by their neighbours or features alone"
    return f"{n} items have no label and {what}"


def _numbers(names: Ids) -> int:
    """Return how many different numbers there are, if they may be more than codes of classes; otherwise 0."""
    values = numbers_of(names) if len(names) >= _DECIMAL else None
    if values is None:
        return 0
    whole = bool((values == np.round(values)).all())
    filled = whole and len(names) >= _FILLED * (float(values.max()) - float(values.min()) + 1.0)
    return 0 if filled or (whole and len(names) < _WHOLE) else len(names)


def warn_of(cautions: list[Caution]) -> None:
    """Issue each as a warning."""
    for sentence, category in cautions:
        warn(sentence, category)
