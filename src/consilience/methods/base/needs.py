"""What a method needs of the data, and the sentence that refuses the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from consilience.engine.passes import Labels
from consilience.exceptions import MethodError

__all__ = ["THREE_ANNOTATORS", "TWO_CLASSES", "Need", "refuse"]


@dataclass(frozen=True)
class Need:
    """A condition on the annotations."""

    what: str  #: completes "the method needs …"
    found: Callable[[Labels], str]  #: what the data has instead: completes "these annotations have …"
    met: Callable[[Labels], bool]


def _active(annotations: Labels) -> int:
    return int(np.count_nonzero(annotations.labels_per_annotator))


TWO_CLASSES = Need(
    "two classes",
    lambda a: f"{a.n_classes}",
    lambda a: a.n_classes <= 2,
)
THREE_ANNOTATORS = Need(
    "at least three annotators",
    lambda a: f"{_active(a)}",
    lambda a: _active(a) >= 3,
)


def refuse(annotations: Labels, name: str, needs: Iterable[Need]) -> None:
    """Raise when something that the method ``name`` needs is not there."""
    for need in needs:
        if not need.met(annotations):
            raise MethodError(
                f"{name} needs {need.what}, and these annotations have {need.found(annotations)}; "
                "ds-em, rob-symnmf and auto take any"
            )
