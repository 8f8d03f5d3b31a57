"""Which items to review or list, as part of an address."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from consilience.exceptions import ParameterError

__all__ = ["FLAGS", "Filter"]

#: Which items a list shows, by name.
FLAGS = {
    "open": "to review",
    "decided": "decided",
    "conflict": "in conflict",
    "discuss": "needs discussion",
    "note": "with a note",
    "skipped": "skipped by me",
    "accepted": "accepted in bulk",
    "flipped": "changed by the last fit",
    "all": "all items",
}


@dataclass(frozen=True)
class Filter:
    """Which items to review or list; empty texts and None do not filter."""

    flag: str = "open"
    annotator: str = ""
    label: str = ""
    low: float = 0.0
    high: float = 1.0
    q: str = ""

    @classmethod
    def of(cls, query: Any) -> Filter:
        """Return the filter in the parameters of an address; what is not understood is an error."""
        given: dict[str, Any] = {f.name: str(query[f.name])[:200] for f in fields(cls) if query.get(f.name)}
        if given.get("flag", "open") not in FLAGS:
            raise ParameterError(f"there is no list {given['flag']!r}; the lists are {', '.join(FLAGS)}")
        try:
            given |= {name: min(max(float(given[name]) / 100.0, 0.0), 1.0) for name in ("low", "high") if name in given}
        except ValueError as error:
            raise ParameterError("confidence must be a number from 0 to 100") from error
        return cls(**given)

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of an address, without those that do not filter."""
        shares = {
            "low": f"{100 * self.low:g}" if self.low else "",
            "high": f"{100 * self.high:g}" if self.high < 1 else "",
        }
        texts = {
            "flag": "" if self.flag == "open" else self.flag,
            "annotator": self.annotator,
            "label": self.label,
            "q": self.q,
        }
        return {name: value for name, value in {**texts, **shares}.items() if value}

    @property
    def narrows(self) -> bool:
        """Whether it filters by more than the list."""
        return bool(self.annotator or self.label or self.q or self.low > 0 or self.high < 1)
