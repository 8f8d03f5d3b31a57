"""LeWiDi (Learning with Disagreements): a JSON object of items, each with the labels of its annotators.

========== ============================================================================================
item       the key
annotator  ``annotators``, or the keys of ``annotations``
label      ``annotations``: an object, or in the second edition a list separated by commas
left out   ``soft_label`` and ``hard_label``, which are computed from the labels and are no truth
========== ============================================================================================
"""

from __future__ import annotations

from typing import Any

from consilience.exceptions import FormatError
from consilience.io.export import Export, column_of, joined, numbered, refuse_question
from consilience.io.source import Source
from consilience.io.texts import text_in, texts_of

__all__ = ["read", "recognise"]

_SIGNS = frozenset(("annotations", "annotators"))


def recognise(source: Source) -> str | None:
    """Return why this is such a file, or None."""
    if not source.document:
        return None
    entries = list(source.document.values())[:50]
    if all(isinstance(entry, dict) and _SIGNS.issubset(entry) for entry in entries):
        return "a JSON object of items with 'annotations' and 'annotators'"
    return None


def read(source: Source, item: str | None, question: str | None) -> Export:
    """Read all labels."""
    refuse_question(question, source.name, "a LeWiDi file")
    document = source.document if isinstance(source.document, dict) else {}
    rows = [(key, *pair) for key, entry in document.items() for pair in _said(entry, key, source.name)]
    return Export(
        numbered([key for key, _, _ in rows], source.name),
        column_of([who for _, who, _ in rows], "annotator", source.name),
        column_of([joined(label) if isinstance(label, list) else label for _, _, label in rows], "label", source.name),
        row="annotation",
        text=texts_of(text_in(document[key]) for key, _, _ in rows),
    )


def _said(entry: Any, key: str, where: str) -> list[tuple[Any, Any]]:
    """Pair annotators and labels."""
    made = entry.get("annotations") if isinstance(entry, dict) else None
    if isinstance(made, dict):
        return list(made.items())
    by = entry.get("annotators") if isinstance(entry, dict) else None
    if isinstance(made, str) and isinstance(by, str):
        names, said = ([part.strip() for part in text.split(",")] for text in (by, made))
        if len(names) == len(said):
            return list(zip(names, said, strict=True))
        raise FormatError(f"{where}: item {key!r} has {len(said)} annotations by {len(names)} annotators")
    raise FormatError(f"{where}: item {key!r} has no annotations by annotator; found {str(made)[:60]!r}")
