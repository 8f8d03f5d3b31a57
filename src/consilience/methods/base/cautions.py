"""Warnings about the data, whatever the method: too few annotators, labels, or links between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from consilience.engine.passes import Labels, passes_of
from consilience.exceptions import FewLabelsWarning, warn
from consilience.fitting.fit import Caution

__all__ = ["cautions_of", "warn_of"]


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
        what = "stay unlabelled" if alone else "are judged by their neighbours or features alone"
        found.append(f"{seen.unlabelled} items have no label and {what}")
    return [(sentence, FewLabelsWarning) for sentence in found]


def warn_of(cautions: list[Caution]) -> None:
    """Issue each as a warning."""
    for sentence, category in cautions:
        warn(sentence, category)
