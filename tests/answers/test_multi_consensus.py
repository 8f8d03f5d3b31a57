"""Runs over answers that name several options."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import consilience as cs
from consilience.answers.kinds import examine_answers
from consilience.data.ids import Ids
from consilience.datasets import simulate_multi
from consilience.exceptions import DataError, DataWarning, FewLabelsWarning, IdError, ParameterError
from consilience.runs.multi_run import chosen_sets

DRAWN = simulate_multi(120, 10, 4, seed=0)


def several(data: Any, **options: Any) -> cs.MultiRun:
    """Aggregate sets of options."""
    made = cs.aggregate(data, answers="multi", **options)
    assert isinstance(made, cs.MultiRun)
    return made


@pytest.fixture(scope="module")
def run() -> cs.MultiRun:
    return several(DRAWN.annotations)


# ---- input -----------------------------------------------------------------------------------------------------------


def small(labels: list[object]) -> pd.DataFrame:
    n = len(labels) // 3
    return pd.DataFrame({"item": np.repeat(np.arange(n), 3), "worker": ["a", "b", "c"] * n, "label": labels})


TEXTS = ["x|y", "y|x", "x", "", "", "", "y|z", "z|y", "y|z", "x", "x|z", "x"]


@pytest.mark.parametrize("blank", ["", None, np.nan, "  "])
def test_an_empty_selection_is_an_answer(blank: object) -> None:
    frame = small([blank if text == "" else text for text in TEXTS])
    found = several(frame)
    assert found.run["labels"] == 12
    assert found.labels["n_labels"].tolist() == [3, 3, 3, 3]
    assert found.labels["label"][1] == ""
    assert not any("no label" in note for note in found.warnings)
    np.testing.assert_array_equal(found.labels, several(small(list(TEXTS))).labels)


def test_a_frame_of_the_labels_has_the_empty_answers(run: cs.MultiRun) -> None:
    frame = DRAWN.annotations.to_frame("pandas")
    assert len(frame) == run.run["labels"] > DRAWN.annotations.n_labels
    again = several(frame.sample(frac=1.0, random_state=0))
    probabilities = again.probabilities.set_index("item").loc[run.probabilities["item"]]
    np.testing.assert_allclose(probabilities, run.probabilities.set_index("item"), atol=1e-6)


def test_no_warning_about_blank_answers(recwarn: pytest.WarningsRecorder) -> None:
    several(small(list(TEXTS)))
    assert not [w for w in recwarn if "no label" in str(w.message)]
    cs.aggregate(small(["x", "", "y", "x", "y", "x"]), answers="nominal")
    assert [w for w in recwarn if "1 of 6 rows have no label" in str(w.message)]


def test_lists_and_files_are_the_same_as_text(tmp_path: Path) -> None:
    frame = small(list(TEXTS))
    expected = several(frame)
    lists = frame.assign(label=[[part for part in text.split("|") if part] for text in TEXTS])
    pd.testing.assert_frame_equal(several(lists).options, expected.options)
    frame.to_csv(tmp_path / "labels.csv", index=False)
    lists.to_json(tmp_path / "labels.jsonl", orient="records", lines=True)
    for name in ("labels.csv", "labels.jsonl"):
        made = several(tmp_path / name)
        np.testing.assert_allclose(np.asarray(made.posterior), expected.posterior)
        assert made.run["labels"] == 12


def test_labels_come_back_as_they_were_written() -> None:
    frame = small(["y|x", "y|x", "y|x", "z|x", "z|x", "z|x", "z|y|x", "z|y|x", "z|y|x", "", "", ""] * 5)
    found = several(frame)
    assert found.labels["label"].tolist()[:4] == ["y|x", "z|x", "z|y|x", ""]


def test_an_answer_counts_once_even_if_blank_too() -> None:
    frame = pd.concat([small(list(TEXTS)), pd.DataFrame({"item": [0], "worker": ["a"], "label": [""]})])
    assert several(frame).run["labels"] == 12


def test_blank_answers_follow_selections() -> None:
    a = DRAWN.annotations
    assert a.blank is not None
    some = a.select_items(slice(10, 40))
    assert some.blank is not None
    both = {(a.items[n], a.annotators[m]) for n, m in zip(*a.blank, strict=True)}
    kept = {(some.items[n], some.annotators[m]) for n, m in zip(*some.blank, strict=True)}
    assert kept == {pair for pair in both if pair[0] in set(some.items)}
    one = a.select_annotators([3])
    assert one.blank is not None
    assert {(one.items[n], one.annotators[m]) for n, m in zip(*one.blank, strict=True)} == {
        pair for pair in both if pair[1] == a.annotators[3]
    }


def test_sets_are_recognised() -> None:
    assert examine_answers(DRAWN.annotations).kind == "multi"
    assert examine_answers(cs.Annotations.from_frame(small([text or "x" for text in TEXTS]))).kind == "multi"
    for classes in (["yes|no", "maybe", "maybe"], ["a|b", "c|d", "e"], ["a", "b", "a|b"], ["|", "a", "b"]):
        assert examine_answers(cs.Annotations.from_matrix([classes] * 5)).kind == "nominal"
    with pytest.warns(DataWarning, match=r"labels name several options.*say answers='nominal'"):
        found = cs.aggregate(DRAWN.annotations)
    assert (found.run["answers"], found.run["chosen"]) == ("multi", "multi")
    assert cs.aggregate(DRAWN.annotations, "multi").run["chosen_by"] == "user"
    assert cs.aggregate(small([text or "x" for text in TEXTS]), "majority").run["answers"] == "nominal"


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize("name", ["time_expressions_multilabel", "opendomain_relations_multilabel"])
def test_public_sets_of_options_are_recognised(name: str) -> None:
    parts: Any = cs.datasets.load(name)
    frame = parts["labels"].to_pandas()
    with pytest.warns(DataWarning):
        a = cs.Annotations.from_frame(frame[["task", "worker", "label"]])
    assert examine_answers(a).kind == "multi"
    assert a.blank is not None
    assert a.blank[0].size == cs.datasets.info(name).counts.get("empty", 13119)


# ---- results ---------------------------------------------------------------------------------------------------------


def test_most_probable_sets_by_enumeration() -> None:
    rng = np.random.default_rng(0)
    first = np.array([0, 3, 3, 5])
    option, p = np.array([0, 1, 2, 0, 2]), rng.random(5)
    choice, confidence, classes = chosen_sets(first, option, p, Ids(["a", "b", "c"]), {"a|c": "c|a"})
    for n, start, stop in ((0, 0, 3), (2, 3, 5)):
        sets = {}
        for ticked in product([False, True], repeat=stop - start):
            text = "|".join("abc"[o] for o, t in zip(option[start:stop], ticked, strict=True) if t)
            sets[{"a|c": "c|a"}.get(text, text)] = float(np.prod(np.where(ticked, p[start:stop], 1 - p[start:stop])))
        best, second = sorted(sets, key=lambda s: -sets[s])[:2]
        assert (classes[choice.best[n]], classes[choice.second[n]]) == (best, second)
        assert confidence[n] == pytest.approx(sets[best])
        assert choice.margin[n] == pytest.approx(sets[best] - sets[second])
    assert classes[choice.best[1]] == ""


def test_tables(run: cs.MultiRun) -> None:
    labels = run.labels
    assert labels.columns.tolist() == ["item", "label", "confidence", "runner_up", "margin", "n_labels"]
    chosen = run.options[run.options["probability"] > 0.5].groupby("item")["option"].agg("|".join)
    assert labels["label"].tolist() == chosen.reindex(labels["item"]).fillna("").tolist()
    sure = run.options.assign(sure=np.maximum(run.options["probability"], 1 - run.options["probability"]))
    np.testing.assert_allclose(labels["confidence"], sure.groupby("item")["sure"].prod().reindex(labels["item"]))
    people = run.annotators
    names = ["annotator", "n_labels", "accuracy", "sensitivity", "specificity", "information", "bias", "flags", "low"]
    assert people.columns.tolist() == [*names, "high"]
    assert people["bias"].str.contains(r"^(?:misses true|ticks false) options \(\d+%\)$").all()
    assert people["n_labels"].sum() == run.run["labels"] == 600
    order = [int(name[1:]) for name in people["annotator"]]
    for name, known in (("sensitivity", DRAWN.sensitivity), ("specificity", DRAWN.specificity)):
        assert np.corrcoef(people[name], known.mean(axis=1)[order])[0, 1] > 0.8
    wide = run.probabilities
    np.testing.assert_allclose(wide[list(DRAWN.options)].to_numpy().ravel(), run.posterior)
    assert run.to_training(0.9).labels["weight"].min() >= 0.9
    assert "120 items, 10 annotators, 4 options" in repr(run)
    assert "Items to look at first" in run._repr_html_()


def test_scores_against_the_truth(run: cs.MultiRun) -> None:
    scores = run.option_scores(DRAWN.truth)
    p = run.posterior.reshape(120, 4)
    order = [int(n) for n in run.labels["item"]]
    true, said = DRAWN.true[order], p > 0.5
    assert scores.precision == pytest.approx((said & true).sum() / said.sum())
    assert scores.recall == pytest.approx((said & true).sum() / true.sum())
    assert scores.error_rate == pytest.approx(100 * (said != true).mean())
    assert run.error_rate(DRAWN.truth) == pytest.approx(100 * (said != true).any(axis=1).mean())
    frame = pd.DataFrame({"item": list(DRAWN.truth), "label": [text or None for text in DRAWN.truth.values()]})
    assert run.option_scores(frame) == scores
    with pytest.raises(IdError, match="none of the 1 items in truth is among the labelled items"):
        run.option_scores({"nobody": "o1"})
    with pytest.raises(DataError, match="truth gives item 3 two different labels"):
        run.option_scores(pd.DataFrame({"item": [3, 3], "label": ["o1", None]}))
    # an option that nobody ever ticked is missed
    assert run.option_scores({0: "new"}).recall == 0.0


def test_better_than_votes(run: cs.MultiRun) -> None:
    votes = run.options["n_ticks"] > 0.5 * run.options["n_labels"]
    true = DRAWN.true[run.options["item"], run.options["option"].str[1:].astype(int)]
    hits = (votes & true).sum()
    assert run.option_scores(DRAWN.truth).f1 > 2 * hits / (votes.sum() + true.sum()) + 0.02


def test_estimated_error_is_about_decisions(run: cs.MultiRun) -> None:
    found = run.estimated_error
    assert found.basis == "labels"
    assert found.low < run.option_scores(DRAWN.truth).error_rate / 100 < found.high
    assert run.verdict == "identified"
    assert "Krippendorff's α of the sets is" in run.diagnosis.reasons[0]
    assert cs.diagnose(DRAWN.annotations, consensus=run).verdict == "identified"


def test_known_answers_are_kept_and_calibrate() -> None:
    drawn = simulate_multi(200, 10, 4, sensitivity=0.45, seed=1)
    known = {n: drawn.truth[n] for n in range(60)}
    rest = {n: drawn.truth[n] for n in range(60, 200)}
    without, found = (several(drawn.annotations, gold=g) for g in (None, known))
    labels = found.labels.set_index("item")["label"]
    assert [labels[n] for n in known] == list(known.values())
    assert found.run["gold_items"] == 60
    assert found.run["known_answers"]["items"] == 60
    assert found.estimated_error.basis == "known answers"
    assert found.model.calibration != (0.0, 1.0)
    assert found.option_scores(rest).log_loss < without.option_scores(rest).log_loss
    assert found.estimated_error.low < found.option_scores(rest).error_rate / 100 < found.estimated_error.high
    with pytest.warns(DataWarning, match="gold names options that nobody ticked, of 1 items"):
        several(drawn.annotations, gold={0: "o1|unheard"})


def test_options_of_single_items() -> None:
    rng = np.random.default_rng(0)
    rows = []
    for n in range(60):
        for m in rng.permutation(12)[:6]:
            ticked = [f"{n}:{k}" for k in range(3) if rng.random() < (0.9 if k == 0 else 0.15)]
            rows.append((n, f"w{m}", "|".join(ticked)))
    frame = pd.DataFrame(rows, columns=["item", "worker", "label"])
    found = several(frame)
    assert found.run["options_recur"] is False
    assert [set(text.split("|")) == {f"{n}:0"} for n, text in enumerate(found.labels["label"])].count(True) > 50
    assert found.options["n_ticks"].min() > 0
    with pytest.raises(DataError, match="options differ from item to item"):
        _ = found.probabilities
    # a known option that nobody ticked becomes a candidate of its item
    gold = several(frame, gold={0: "1:0"})
    assert gold.labels.set_index("item")["label"][0] == "1:0"


def test_new_items(run: cs.MultiRun) -> None:
    a = cs.Annotations.from_frame(small(["o1|o2", "o1", "o1|o2", "o3", "o3", "o3|o0"]).replace({"a": "a1", "b": "a2"}))
    found = run.model.posterior(a)
    assert found.probability.shape == (8,)
    assert found.probability[1] > 0.5 > found.probability[0]
    with pytest.raises(IdError, match="the option 'o9' is new"):
        run.model.posterior(cs.Annotations.from_frame(small(["o9", "o1", "o2"])))
    again = run.model.posterior(run.annotations)  # type: ignore[arg-type]
    np.testing.assert_allclose(again.probability, run.posterior)


def test_saved_runs_come_back(run: cs.MultiRun, tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    again = cs.load(tmp_path / "run")
    assert isinstance(again, cs.MultiRun)
    for name in ("label_columns", "annotator_columns"):
        assert {k: v.to_pylist() for k, v in getattr(again, name).items()} == {
            k: v.to_pylist() for k, v in getattr(run, name).items()
        }
    assert again.model == run.model
    np.testing.assert_array_equal(again.posterior, run.posterior)
    assert again.choice.best.tolist() == run.choice.best.tolist()
    assert again.estimated_error == run.estimated_error
    assert again.verdict == run.verdict
    summary = json.loads((tmp_path / "run/summary.json").read_text("utf-8"))
    assert (summary["answers"], summary["options"], summary["K"]) == ("multi", 4, 4)
    assert summary["estimated_error_basis"] == "labels"


def test_same_seed_same_bytes(run: cs.MultiRun) -> None:
    np.testing.assert_array_equal(several(DRAWN.annotations).posterior, run.posterior)


def test_what_is_refused(run: cs.MultiRun) -> None:
    a = DRAWN.annotations
    with pytest.raises(ParameterError, match="answers='multi' is for the method 'auto' or 'multi', not 'ds-em'"):
        cs.aggregate(a, "ds-em", answers="multi")
    with pytest.raises(ParameterError, match="an empty selection is an answer"):
        cs.aggregate(a, answers="multi", silence="informative")
    with pytest.raises(ParameterError, match="multi, for several options, has no parameter 'smoothing'"):
        cs.aggregate(a, answers="multi", smoothing=1.0)
    with pytest.raises(ParameterError, match="shared must be True, False or None, not 'yes'"):
        cs.aggregate(a, answers="multi", shared="yes")
    with pytest.raises(ParameterError, match="keeps no checkpoint"):
        cs.aggregate(a, answers="multi", checkpoint="somewhere")
    with pytest.raises(DataError, match="the quality of labels is for one label from each annotator"):
        _ = run.label_quality
    with pytest.warns(DataWarning, match="labels name several options"):
        assert cs.diagnose(a).to_dict() == run.diagnosis.to_dict()
    with pytest.raises(ParameterError, match="for answers='multi', the methods are votes, multi, not 'ds-em'"):
        cs.compare(a, DRAWN.truth, methods="ds-em")


def test_items_without_answers() -> None:
    frame = pd.DataFrame([(1, "a", "x"), (1, "b", "x|y"), (2, None, None)], columns=["item", "worker", "label"])
    with pytest.warns(FewLabelsWarning):
        found = several(frame, items=[7], gold={7: "y"})
    labels = found.labels.set_index("item")
    assert labels["label"].isna().tolist() == [False, True, False]
    assert labels["label"][7] == "y"
    assert labels["n_labels"].tolist() == [2, 0, 0]
    with pytest.warns(FewLabelsWarning, match="only two annotators"):
        assert found.verdict == several(frame.iloc[:2]).verdict == "not"
