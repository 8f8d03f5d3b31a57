"""What theorems guarantee with these labels and annotators, in sentences for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from consilience.guarantees.crowds import block_error
from consilience.guarantees.ensembles import error_bound, known_answers_needed, labels_needed
from consilience.kernels._arrays import Floats
from consilience.models.dawid_skene import DawidSkene

__all__ = ["TARGET", "Guarantees"]

#: Share of wrong labels that most projects accept.
TARGET = 0.05
#: Products M K³ beyond which bounds are not computed: about 2,000 classes of three annotators, or 5 s.
_MOST_PRODUCTS = 25_000_000_000


@dataclass(frozen=True)
class Guarantees:
    """Bounds that hold if annotators are independent and as good as estimated."""

    labels_per_item: float
    error: float  #: bound of the share of wrong labels with this many labels an item (Theorem 3.2 of the thesis)
    says_something: bool  #: whether it is below what guessing the most frequent class achieves
    labels_needed: int | None  #: labels an item for an error of at most ``TARGET``
    known_answers_needed: int | None  #: known answers that show which class is which, with probability 0.95
    block_error: float | None  #: bound of the error of a typical pair block, with probability 0.95 (Ibrahim & Fu, (20))

    @classmethod
    def of(cls, model: DawidSkene, labels_per_item: float, common_items: Floats | None = None) -> Guarantees | None:
        """Compute the bounds; None for a single class, or for thousands.

        ``common_items`` are those of each pair of annotators.
        """
        products = np.size(model.confusions) * np.size(model.prior)
        if np.count_nonzero(model.prior) < 2 or products > _MOST_PRODUCTS:
            return None
        bound = error_bound(model, labels_per_item)
        return cls(
            float(labels_per_item),
            bound.value,
            not bound.vacuous,
            labels_needed(model, TARGET),
            known_answers_needed(model, labels_per_item),
            None if common_items is None or not common_items.size else block_error(float(np.median(common_items))),
        )

    @property
    def sentences(self) -> list[str]:
        """What the bounds say."""
        now = f"at most {self.error:.1%} wrong" if self.says_something else "nothing"
        more = f"no number of labels guarantees at most {TARGET:.0%}"
        if self.labels_needed is not None:
            more = f"{self.labels_needed} guarantee at most {TARGET:.0%}, though usually fewer suffice"
        given = f"if annotators are independent and as good as estimated, {self.labels_per_item:.1f} labels an item"
        return [f"{given} guarantee {now}; {more}"]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "labels_per_item": self.labels_per_item,
            "error": self.error if self.says_something else None,
            "labels_needed": self.labels_needed,
            "known_answers_needed": self.known_answers_needed,
            "block_error": self.block_error,
        }
