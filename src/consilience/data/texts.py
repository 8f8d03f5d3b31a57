"""What items show, such as their text or the address of an image, as far as an export holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data.ids import Ids
from consilience.kernels._arrays import Codes

__all__ = ["Texts", "first_texts", "is_link"]

#: Limits on the characters that are kept of a text, and of an address, which would lead nowhere if it were cut.
_MOST, _MOST_LINK = 300, 2000
_LINK = r"^https?://[^\s]+$"


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """The texts of items by their ids, which may be more or fewer than the items of a run."""

    items: Ids
    texts: pa.Array  #: null where there is none

    def of(self, items: Any) -> pa.Array:
        """Return the texts of these items, null where there is none."""
        codes = self.items.codes_of(items)
        return self.texts.take(pa.array(codes, mask=codes < 0))


def first_texts(item: Codes, texts: pa.Array, items: Ids) -> Texts | None:
    """Return the first text of each item; None if there is no text at all.  ``item`` has a code for each row."""
    rows = np.flatnonzero((item >= 0) & np.asarray(texts.is_valid()))
    code, first = np.unique(item[rows], return_index=True)
    if not code.size:
        return None
    kept = texts.take(pa.array(rows[first]))
    link = pc.match_substring_regex(kept, _LINK)
    cut = pc.if_else(link, pc.utf8_slice_codeunits(kept, 0, _MOST_LINK), pc.utf8_slice_codeunits(kept, 0, _MOST))
    return Texts(items.take(code), cut)


def is_link(text: str) -> bool:
    """Return whether a text is an address that a page may link to: http or https, and whole."""
    return text.startswith(("http://", "https://")) and len(text) < _MOST_LINK and not any(map(str.isspace, text))
