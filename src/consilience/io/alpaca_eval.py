"""AlpacaEval: ``annotations.json``, an object for each comparison of two outputs.

========== =========================================================================
item       the instruction, with both generators if there are several pairs of these
annotator  ``annotator``
label      ``preference``: ``output_1``, ``output_2`` or ``tie``
left out   comparisons without a preference
========== =========================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from consilience.io.export import Export
from consilience.io.logs import Verdict, read_logs, short
from consilience.io.source import Source

__all__ = ["FIELDS", "preferred", "read", "recognise"]

#: What every record has.
FIELDS = {"generator_1", "generator_2", "preference"}


def recognise(source: Source) -> str | None:
    """Return why these are such annotations, or None."""
    if source.shape == "records" and source.fields() >= FIELDS:
        return "records with 'generator_1', 'generator_2' and 'preference'"
    return None


def read(source: Source, item: str | None, question: str | None) -> Export:
    """Read the preferences."""
    return read_logs(source, question, recognise, _verdicts)


def _verdicts(source: Source) -> Iterator[Verdict]:
    for record in source.records():
        if "preference" not in record:
            continue
        text = record.get("instruction")
        pair = f"{record.get('generator_1')} vs {record.get('generator_2')}"
        number = preferred(record["preference"])
        label = None if number is None else ("tie", "output_1", "output_2")[number]
        judge = str(record.get("annotator") or source.path.name.split(".")[0])
        yield Verdict("preference", short(text), judge, label, text=text, system=pair)


def preferred(preference: Any) -> int | None:
    """Return which output is preferred: 1, 2, 0 for a tie, None if unknown; probabilities are cut at 1.5."""
    if isinstance(preference, bool) or not isinstance(preference, int | float) or preference != preference:
        return None
    return 0 if preference in (0, 1.5) else 1 if preference < 1.5 else 2
