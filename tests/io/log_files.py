"""Logs of evaluations of language models, written after the documentation of each tool."""

from __future__ import annotations

from typing import Any

from tests.io.export_making import Example, as_json, as_lines, as_zip


def _score(value: Any, answer: str | None = None) -> dict[str, Any]:
    return {"value": value, "answer": answer, "explanation": "…"}


def _sample(n: int, target: str, **scores: Any) -> dict[str, Any]:
    return {"id": f"s{n}", "epoch": 1, "input": f"question {n}", "target": target, "messages": [], "scores": scores}


def _inspect(model: str, *samples: dict[str, Any]) -> dict[str, Any]:
    run = {"task": "judging", "model": model, "run_id": "r1", "created": "2026-01-05T10:00:00+00:00"}
    return {"version": 2, "status": "success", "eval": run, "plan": {}, "results": {}, "samples": list(samples)}


_ONE = _inspect(
    "openai/one",
    _sample(1, "A", match=_score("C", "A")),
    _sample(2, "B", match=_score("I", "A")),
    _sample(3, "A", match=_score("N", None)),
)
_TWO = _inspect("two", _sample(1, "A", match=_score("C", "A")), _sample(2, "B", match=_score("C", "B")))
_GRADED = _inspect(
    "one",
    _sample(1, "A", first=_score("C"), second=_score("I")),
    _sample(2, "B", first=_score("P"), second={"value": {"style": 1}}),
)


def _graded(roles: Any, scorers: list[dict[str, Any]], *values: Any) -> dict[str, Any]:
    names = ("model_graded_qa", "model_graded_qa1")
    made = _inspect("one", _sample(1, "A", **{name: _score(value) for name, value in zip(names, values, strict=False)}))
    made["eval"] |= {"model_roles": roles, "scorers": scorers}
    return made


_ANSWERS = [("s1", "openai/one", "A"), ("s2", "openai/one", "A"), ("s1", "two", "A"), ("s2", "two", "B")]


def _result(test: int, provider: str, output: str, *grades: tuple[str, bool], **more: Any) -> dict[str, Any]:
    parts = [
        {"pass": good, "score": float(good), "reason": "", "assertion": {"type": "llm-rubric", "provider": who}}
        for who, good in grades
    ]
    return {
        "testIdx": test,
        "promptIdx": 0,
        "provider": {"id": provider, "label": ""},
        "prompt": {"raw": "Is it good? {{text}}", "label": "Is it good? {{text}}"},
        "vars": {"text": f"text {test}"},
        "testCase": {"vars": {"text": f"text {test}"}, "assert": [{"type": "equals", "value": "yes"}][: 1 - test]},
        "response": {"output": output},
        "success": True,
        "score": 1,
        "gradingResult": {"pass": True, "score": 1, "componentResults": parts},
        **more,
    }


def _part(kind: str, good: bool, **metadata: Any) -> dict[str, Any]:
    return {"pass": good, "score": float(good), "reason": "", "assertion": {"type": kind}, "metadata": metadata}


_PROMPTFOO = {
    "evalId": "eval-1",
    "results": {
        "version": 3,
        "prompts": [],
        "results": [
            _result(0, "openai:a", "yes\n", ("judge-1", True), ("judge-2", False)),
            _result(1, "openai:a", "no", ("judge-1", True), ("judge-2", True)),
            _result(0, "openai:b", "yes", ("judge-1", False), ("judge-2", False)),
            _result(1, "openai:b", "", error="API error 429", gradingResult=None, success=False),
        ],
        "stats": {},
    },
    "config": {},
}


def _deepeval(model: str, *verdicts: tuple[bool | None, bool]) -> dict[str, Any]:
    return {
        "testCases": [
            {
                "name": f"case {n}",
                "input": "…",
                "actualOutput": "…",
                "success": True,
                "metricsData": [
                    {"name": "Correctness [GEval]", "threshold": 0.5, "success": right, "evaluationModel": model}
                    | ({"error": "timeout"} if right is None else {"score": 0.9}),
                    {"name": "Toxicity", "threshold": 0.5, "success": kind, "evaluationModel": "gpt", "score": 0.1},
                ],
            }
            for n, (right, kind) in enumerate(verdicts)
        ],
        "metricsScores": [],
    }


def _talk(model: str, success: bool) -> dict[str, Any]:
    metric = {"name": "Role Adherence", "success": success, "evaluationModel": model, "score": 0.4}
    return {"testCases": [], "conversationalTestCases": [{"name": "talk", "turns": [], "metricsData": [metric]}]}


def _doc(n: int, target: Any, said: Any, filter_name: str = "none") -> dict[str, Any]:
    doc = {"question": f"q{n}", "choices": ["x", "y"]}
    more = {"arguments": {}, "resps": [said], "doc_hash": "d", "prompt_hash": "p", "target_hash": "t", "acc": 1.0}
    return {"doc_id": n, "doc": doc, "target": target, "filtered_resps": said, "filter": filter_name, **more}


_REQUESTS = {"gen_args_0": {"arg_0": "A film", "arg_1": " good"}, "gen_args_1": {"arg_0": "A film", "arg_1": " bad"}}
_CHOICES = {
    "model__a/samples_arc_2026-01-05T10-00-00.123456.jsonl": as_lines(
        _doc(0, "1", [["-3.2", "False"], ["-0.4", "True"]]), _doc(1, "0", [["-1.0", "True"], ["-2.5", "False"]])
    ),
    "model__b/samples_arc_2026-01-05T11-00-00.123456.jsonl": as_lines(
        _doc(0, "1", [["-0.2", "True"], ["-4.4", "False"]]), _doc(1, "0", [["-0.1", "True"], ["-2.5", "False"]])
    ),
    "model__b/results_2026-01-05T11-00-00.123456.json": as_json({"results": {"arc": {"acc,none": 0.5}}}),
}
_FILTERS = as_lines(
    _doc(0, "18", ["18"], "strict-match"),
    _doc(0, "18", ["18 dollars"], "flexible-extract"),
    _doc(1, "3", ["3"], "strict-match"),
    _doc(1, "3", ["3"], "flexible-extract"),
)


def _event(sample: int, kind: str, **data: Any) -> dict[str, Any]:
    when = "2026-01-05 10:00:00.123456+00:00"
    return {"run_id": "r", "event_id": 1, "sample_id": f"t.{sample}", "type": kind, "data": data, "created_at": when}


def _spec(*models: str) -> dict[str, Any]:
    return {"spec": {"completion_fns": list(models), "eval_name": "t.dev.v0", "run_config": {}, "run_id": "r"}}


def _preference(instruction: str, preference: float | None, judge: str) -> dict[str, Any]:
    outputs = {"output_1": "a", "generator_1": "reference", "output_2": "b", "generator_2": "model"}
    return {"instruction": instruction, **outputs, "annotator": judge, "preference": preference}


LOGS: dict[str, Example] = {
    "inspect-answers": Example(
        "logs",
        {"one.json": as_json(_ONE), "two.json": as_json(_TWO), "notes.txt": b"not a log"},
        "inspect",
        _ANSWERS,
        gold={"s1": "A", "s2": "B", "s3": "A"},
        notes=("1 of 5 answers were left out: missing, refused", "1 of 3 files were left out: other contents"),
        items=["s1", "s2", "s3"],
    ),
    "inspect-eval": Example(
        "one.eval",
        as_zip(
            header__json=as_json({"eval": _TWO["eval"]}),
            **{f"samples/{s['id']}_epoch_1__json": as_json(s) for s in _TWO["samples"]},
        ),
        "inspect",
        _ANSWERS[2:],
        gold={"s1": "A", "s2": "B"},
        question="answer",
    ),
    "inspect-stopped": Example(
        "stopped.eval",
        as_zip(
            **{"_journal/start__json": as_json({"eval": _TWO["eval"]})},
            **{"samples/s1_epoch_1/sample__json": as_json(_TWO["samples"][0])},
            **{"samples/s1_epoch_1/events/0__json": as_json([{"event": "score"}])},
            **{"samples/s1_epoch_1/skeleton__json": as_json({"id": "not a sample", "error": "…"})},
        ),
        "inspect",
        [("s1", "two", "A")],
        gold={"s1": "A"},
        question="answer",
    ),
    "inspect-graders": Example(
        "panel",
        {
            "role.json": as_json(_graded({"grader": {"model": "gpt"}}, [{"name": "model_graded_qa"}], "C")),
            "model.json": as_json(
                _graded(
                    None,
                    [
                        {"name": "model_graded_qa", "options": {"model": "claude"}},
                        {"name": "model_graded_qa", "options": {"model": "gemini"}},
                    ],
                    "I",
                    "C",
                )
            ),
        },
        "inspect",
        [("s1", "claude", "I"), ("s1", "gemini", "C"), ("s1", "gpt", "C")],
    ),
    "inspect-scores": Example(
        "graded.json",
        as_json(_GRADED),
        "inspect",
        [("s1", "first", "C"), ("s1", "second", "I"), ("s2", "first", "P")],
        notes=("1 of 4 scores were left out: missing",),
    ),
    "promptfoo-answers": Example(
        "results.json",
        as_json(_PROMPTFOO),
        "promptfoo",
        [("text 0", "openai:a", "yes"), ("text 1", "openai:a", "no"), ("text 0", "openai:b", "yes")],
        gold={"text 0": "yes"},
        question="answer",
        notes=("1 of 4 answers were left out: missing",),
    ),
    "promptfoo-scores": Example(
        "scores.json",
        as_json(_PROMPTFOO),
        "promptfoo",
        [
            (f"text {test}/openai:{model}", judge, verdict)
            for test, model, judge, verdict in (
                (0, "a", "judge-1", "pass"),
                (0, "a", "judge-2", "fail"),
                (1, "a", "judge-1", "pass"),
                (1, "a", "judge-2", "pass"),
                (0, "b", "judge-1", "fail"),
                (0, "b", "judge-2", "fail"),
            )
        ],
        question="score",
    ),
    "promptfoo-lines": Example(
        "results.jsonl",
        as_lines(
            *(
                _result(test, "openai:a", "yes", testCase={"options": {"provider": {"id": grader}}})
                | {"gradingResult": {"componentResults": parts}}
                for grader, test, parts in (
                    ("gpt", 0, [_part("llm-rubric", True), _part("contains", True)]),
                    ("claude", 0, [_part("llm-rubric", False)]),
                    ("claude", 1, [_part("llm-rubric", False, graderError=True)]),
                )
            )
        ),
        "promptfoo",
        [
            ("text 0", "claude", "fail"),
            ("text 0", "contains", "pass"),
            ("text 0", "gpt", "pass"),
        ],
        question="score",
        notes=("1 of 4 scores were left out: missing",),
        items=["text 0", "text 1"],
    ),
    "deepeval": Example(
        "runs",
        {
            "gpt.json": as_json(_deepeval("gpt", (True, True), (False, True))),
            "claude.json": as_json(_deepeval("claude", (True, True), (None, True))),
        },
        "deepeval",
        [("case 0", "claude", "pass"), ("case 0", "gpt", "pass"), ("case 1", "gpt", "fail")],
        notes=("1 of 4 verdicts were left out",),
    ),
    "deepeval-talks": Example(
        "talks",
        {"gpt.json": as_json(_talk("gpt", True)), "claude.json": as_json(_talk("claude", False))},
        "deepeval",
        [("talk", "claude", "fail"), ("talk", "gpt", "pass")],
    ),
    "lm-eval-texts": Example(
        "output",
        {
            "model/samples_sst2_2026-01-05T10-00-00.1.jsonl": as_lines(
                _doc(0, "bad", [["-0.1", "True"], ["-4.4", "False"]]) | {"arguments": _REQUESTS},
                _doc(1, " good", [[-3.1, False], [-0.4, True]])
                | {"arguments": [["A film", " good"], ["A film", " bad"]]},
                _doc(2, "good", [["-3.1", "False"]]),
            ),
            "model/log.txt": b"done",
        },
        "lm-eval",
        [("0", "model", "good"), ("1", "model", "bad")],
        gold={"0": "bad", "1": "good", "2": "good"},
        notes=("1 of 3 answers were left out: missing", "1 of 2 files were left out: other contents"),
        items=["0", "1", "2"],
    ),
    "lm-eval-choices": Example(
        "output",
        _CHOICES,
        "lm-eval",
        [("0", "model__a", "1"), ("1", "model__a", "0"), ("0", "model__b", "0"), ("1", "model__b", "0")],
        gold={"0": "1", "1": "0"},
        notes=("1 of 3 files were left out: other contents",),
    ),
    "lm-eval-filters": Example(
        "output",
        {"model/samples_gsm8k_2026-01-05T10-00-00.1.jsonl": _FILTERS, "model/log.txt": b"done"},
        "lm-eval",
        [("0", "model", "18 dollars"), ("1", "model", "3")],
        gold={"0": "18", "1": "3"},
        question="flexible-extract",
        notes=("1 of 2 files were left out: other contents",),
    ),
    "openai-evals-answers": Example(
        "matches.jsonl",
        as_lines(
            _spec("gpt-4"),
            _event(0, "sampling", prompt="p", sampled=["A"]),
            _event(0, "match", correct=True, expected="A", picked="A"),
            _event(1, "match", correct=False, expected=["B", "b"], picked=None, sampled="?", options=["A", "B"]),
            _event(2, "match", correct=False, expected="A", picked=None, sampled=" B\n", options=["A"]),
            {"final_report": {"accuracy": 0.5}},
        ),
        "openai-evals",
        [("t.0", "gpt-4", "A"), ("t.2", "gpt-4", "B")],
        gold={"t.0": "A", "t.2": "A"},
        notes=("1 of 3 answers were left out: missing",),
        items=["t.0", "t.1", "t.2"],
    ),
    "openai-evals-scores": Example(
        "graded.jsonl",
        as_lines(
            _spec("gpt-4", "grader"),
            _event(0, "metrics", choice="Yes", score=1.0),
            _event(1, "metrics", choice="__invalid__"),
            _event(2, "metrics", accuracy=0.4),
        ),
        "openai-evals",
        [("t.0", "grader", "Yes")],
        notes=("1 of 2 scores were left out: missing",),
        items=["t.0", "t.1"],
    ),
    "alpaca-eval": Example(
        "annotations.json",
        as_json(
            [
                _preference("Why?", 1.0, "gpt"),
                _preference("Why?", 1.87, "weighted"),
                _preference("How?", 1.5, "gpt"),
                _preference("When?", None, "gpt"),
            ]
        ),
        "alpaca-eval",
        [
            ("Why?", "gpt", "output_1"),
            ("Why?", "weighted", "output_2"),
            ("How?", "gpt", "tie"),
        ],
        notes=("1 of 4 verdicts were left out: missing",),
        items=[f"{word}?" for word in ("Why", "How", "When")],
    ),
}
