"""Labels that are written in several ways: ``Yes`` and ``yes``, ``no`` and ``no␣``, ``1``, ``1.0`` and ``01``.

So are labels that look the same: with zero-width characters, or accents that are characters of their own.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consilience.data.ids import Ids, encode, is_text
from consilience.kernels._arrays import Codes

__all__ = ["notes_on_spelling", "without_spelling_notes"]

_SAME = "differ only in case, white space, invisible characters or number format"
#: Characters without width: spaces, joiners, marks of direction and of byte order.
_INVISIBLE = "[\u200b-\u200f\u2060\ufeff]"
#: Groups of spellings that a note names.
_MOST = 5


def notes_on_spelling(classes: Ids, label: Codes, where: str) -> list[str]:
    """Return a note on classes that differ only in spelling, with the call that merges them.

    The most frequent spelling of a group, the shortest of several, is proposed for all of it.
    """
    names = classes.to_arrow()
    if not is_text(names) or len(names) < 2:
        return []
    group, forms = encode(_plain_form(names))
    if len(forms) == len(names):
        return []
    often = np.bincount(label[label >= 0], minlength=len(names))
    order = np.lexsort((np.asarray(pc.utf8_length(names)), -often, group))
    first = np.append(True, np.diff(group[order]) > 0)
    leader = order[first][np.cumsum(first) - 1]  # of each class in this order, the most frequent spelling
    moved = order != leader
    pairs = list(zip(order[moved].tolist(), leader[moved].tolist(), strict=True))
    mapping = ", ".join(f"{classes[old]!r}: {classes[new]!r}" for old, new in pairs[:_MOST])
    more = f", … ({len(pairs)} in all)" if len(pairs) > _MOST else ""
    old, new = pairs[0]
    return [
        f"some labels {_SAME}, such as {classes[new]!r} and {classes[old]!r}, and count as different classes; "
        f"to merge them: {_SOURCES.get(where, f'cs.read({where!r})')}.relabel({{{mapping}{more}}})"
    ]


#: How labels are read that do not come from a file.
_SOURCES = {
    "the frame": "cs.Annotations.from_frame(frame)",
    "the matrix": "cs.Annotations.from_matrix(matrix)",
    "the data": "annotations",
}


def without_spelling_notes(notes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the notes that are not about spelling."""
    return tuple(note for note in notes if _SAME not in note)


def _plain_form(names: pa.Array) -> pa.Array:
    """Return text in lower case, with single spaces between words, and numbers without zeros that say nothing."""
    text = pc.replace_substring_regex(pc.utf8_normalize(names, form="NFC"), _INVISIBLE, "")
    text = pc.utf8_lower(pc.utf8_trim_whitespace(text))
    text = pc.replace_substring_regex(text, r"\s+", " ")
    number = pc.match_substring_regex(text, r"^[+-]?(\d+\.?\d*|\.\d+)$")
    whole = pc.replace_substring_regex(text, r"^\+?(-?)0*(\d)", r"\1\2")
    short = pc.replace_substring_regex(whole, r"(\.\d*?)0*$", r"\1")
    return pc.if_else(number, pc.replace_substring_regex(short, r"\.$", ""), text)
