"""DeepEval: the JSON file of a test run, or of the results of ``evaluate`` (``model_dump``).

========== =========================================================================
question   the metric
item       ``name`` of the test case
annotator  ``evaluationModel``, else the name of the file
label      ``success`` of the metric: ``pass`` or ``fail``
left out   metrics with an error
========== =========================================================================

The same test cases judged by several models are several files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from consilience.io.export import Export
from consilience.io.logs import Verdict, objects, passed, read_logs
from consilience.io.source import Source

__all__ = ["read", "recognise"]


def recognise(source: Source) -> str | None:
    """Return why these are such results, or None."""
    if any(_get(case, "metricsData") is not None for case in _cases(source)[:50]):
        return "an object with 'testCases', each with 'metricsData'"
    return None


def read(source: Source, item: str | None, question: str | None) -> Export:
    """Read the verdicts of one metric."""
    return read_logs(source, question, recognise, _verdicts)


def _verdicts(source: Source) -> Iterator[Verdict]:
    for number, case in enumerate(_cases(source)):
        name = str(_get(case, "name") or f"test case {number}")
        for metric in objects(_get(case, "metricsData")):
            judge = _get(metric, "evaluationModel") or source.path.name.split(".")[0]
            success = None if _get(metric, "error") else passed(_get(metric, "success"))
            yield Verdict(str(_get(metric, "name")), name, str(judge), success, text=_get(case, "input"))


def _cases(source: Source) -> list[dict[str, Any]]:
    document = source.document if isinstance(source.document, dict) else {}
    names = ("testCases", "conversationalTestCases", "test_cases", "conversational_test_cases", "test_results")
    return [case for name in names for case in objects(document.get(name))]


def _get(fields: dict[str, Any], name: str) -> Any:
    """Return a field by its name in the file of a test run, or by that in Python."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return fields.get(name, fields.get(snake))
