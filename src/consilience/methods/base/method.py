"""What a method is: a function, the estimator class around it, and what it needs of the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from consilience.engine.passes import Labels
from consilience.exceptions import MethodError
from consilience.fitting.fit import Fit
from consilience.validation import keywords

__all__ = ["THREE_ANNOTATORS", "TWO_CLASSES", "Method", "Need"]


@dataclass(frozen=True)
class Need:
    """A condition on the annotations."""

    what: str  #: completes "the method needs …"
    found: Callable[[Labels], int]  #: what the data has: completes "these annotations have …"
    met: Callable[[int], bool]


TWO_CLASSES = Need("two classes", lambda a: a.n_classes, lambda n: n <= 2)
THREE_ANNOTATORS = Need(
    "at least three annotators", lambda a: int(np.count_nonzero(a.labels_per_annotator)), lambda n: n >= 3
)


@dataclass(frozen=True)
class Method:
    """A way from annotations to a fit.  Each module of ``methods`` declares one, as ``METHOD``."""

    name: str
    function: Callable[..., Fit]  #: annotations in, a fit out
    estimator: str  #: public name of its scikit-learn class
    summary: str
    needs: tuple[Need, ...] = ()  #: conditions without which it refuses to run
    everywhere: bool = False  #: whether it runs on every engine: it only makes passes over the labels

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of its parameters."""
        return keywords(self.function)

    def check(self, annotations: Labels) -> None:
        """Raise if the annotations lack something that the method needs."""
        for need in self.needs:
            if not need.met(found := need.found(annotations)):
                raise MethodError(
                    f"{self.name} needs {need.what}, and these annotations have {found}; "
                    "ds-em, rob-symnmf and auto take any"
                )
