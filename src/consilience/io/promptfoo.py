"""promptfoo: the file of ``promptfoo eval --output results.json``, or ``results.jsonl`` with a result on each line.

========== ============================================= ==============================================
question   ``answer``                                     ``score``
========== ============================================= ==============================================
item       the test: its variable ``id``, else ``vars``   the test; with provider and prompt, if several
annotator  the provider, with the prompt if several       the grader of an assertion, else its metric, else its type
label      ``response.output``                            ``pass`` or ``fail``
gold       the value of an assertion ``equals``           none
left out   results with an error                          errors of the grader
========== ============================================= ==============================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from consilience.io.export import Export
from consilience.io.logs import ANSWER, SCORE, Verdict, numbered_names, objects, passed, place, read_logs, short
from consilience.io.source import Source

__all__ = ["read", "recognise"]

#: Assertions that a language model decides.
_GRADED = {
    *("llm-rubric", "g-eval", "factuality", "model-graded-factuality", "model-graded-closedqa", "agent-rubric"),
    *("answer-relevance", "context-faithfulness", "context-recall", "context-relevance", "conversation-relevance"),
}


def recognise(source: Source) -> str | None:
    """Return why these are such results, or None."""
    first = next(iter(_results(source)), None)
    if (
        isinstance(first, dict)
        and "provider" in first
        and "success" in first
        and ("vars" in first or "prompt" in first)
    ):
        return "results, each with 'provider', 'vars' and 'success'"
    return None


def _results(source: Source) -> list[Any]:
    if _on_lines(source):
        return list(source.sample)
    found = source.document
    for _ in range(2):  # results.results since version 2, results before
        found = found.get("results") if isinstance(found, dict) else found
    return found if isinstance(found, list) and isinstance(source.document, dict) else []


def _on_lines(source: Source) -> bool:
    return source.shape == "records" and source.has_json_lines


def read(source: Source, item: str | None, question: str | None) -> Export:
    """Read answers or scores."""
    return read_logs(source, question, recognise, lambda log: _verdicts(log, item))


def _verdicts(source: Source, item: str | None) -> Iterator[Verdict]:
    results = list(source.records()) if _on_lines(source) else objects(_results(source))
    several = len({_prompt(result) for result in results}) > 1
    for result in results:
        test = result.get("testCase")
        test = test if isinstance(test, dict) else {}
        values = result.get("vars") or test.get("vars") or {}
        values = values if isinstance(values, dict) else {}
        name = _test(values, result.get("testIdx"), item)
        text = "\n".join(str(value) for value in values.values()) or None
        provider, prompt = _provider(result.get("provider")), _prompt(result)
        response = result.get("response")
        output = response.get("output") if isinstance(response, dict) else None
        output = None if result.get("error") and not output else output
        answer = output.strip() or None if isinstance(output, str) else output
        if isinstance(answer, dict | list):
            answer = None
        yield Verdict(ANSWER, name, provider, answer, prompt, gold=_expected(test), text=text)
        grading = result.get("gradingResult")
        parts = objects(grading.get("componentResults")) if isinstance(grading, dict) else []
        system = place(provider, prompt if several else None)
        options = test.get("options")
        options = options if isinstance(options, dict) else {}
        graders = numbered_names(_grader(part, options.get("provider")) for part in parts)
        for grader, part in zip(graders, parts, strict=True):
            failed = isinstance(more := part.get("metadata"), dict) and more.get("graderError")
            yield Verdict(SCORE, name, grader, None if failed else passed(part.get("pass")), text=text, system=system)


def _test(values: dict[str, Any], index: Any, item: str | None) -> str:
    by_name = item if item in values else next((name for name in ("id", "item", "task") if name in values), None)
    if by_name is not None:
        return str(values[by_name])
    return short(" | ".join(str(value) for value in values.values())) if values else f"test {index}"


def _provider(given: Any) -> str:
    """Return the name of a provider: its label, else its id."""
    return str((given.get("label") or given.get("id")) if isinstance(given, dict) else given)


def _prompt(result: dict[str, Any]) -> str:
    prompt = result.get("prompt")
    label = prompt.get("label") or prompt.get("raw") if isinstance(prompt, dict) else prompt
    return short(label) if isinstance(label, str) and label else f"prompt {result.get('promptIdx', 0)}"


def _grader(part: dict[str, Any], default: Any) -> str:
    """Return who decides: the model of an assertion, or of all assertions that models decide; else its name."""
    given = part.get("assertion")
    given = given if isinstance(given, dict) else {}
    kind = str(given.get("type") or "assertion")
    provider = given.get("provider") or (default if kind.removeprefix("not-") in _GRADED else None)
    return _provider(provider) if provider else str(given.get("metric") or kind)


def _expected(test: dict[str, Any]) -> Any:
    """Return what the test expects, if it is one text."""
    for given in objects(test.get("assert")):
        if given.get("type") == "equals" and isinstance(given.get("value"), str):
            return given["value"]
    return None
