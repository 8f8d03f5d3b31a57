"""Variants of judges: found by what differs within an item, pooled or separate, from frames and files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import consilience as cs
from consilience.exceptions import DataWarning


def frame(n: int = 40) -> pd.DataFrame:
    rows = [
        (judge, prompt, item, "yes" if (item + len(judge) + len(prompt)) % 3 else "no")
        for judge, prompts in (("gpt", ("short", "long one")), ("claude", ("short",)))
        for prompt in prompts
        for item in range(n)
    ]
    return pd.DataFrame(rows, columns=["judge", "prompt", "item", "answer"])


def test_labels_of_all_prompts_are_labels_of_the_judge() -> None:
    made = cs.Annotations.from_frame(frame())
    assert made.annotators.tolist() == ["gpt", "claude"]
    assert made.labels_per_annotator.tolist() == [80, 40]
    assert (made.labels_per_item == 3).all()
    assert made.origin.notes[-1].startswith("3 variants (prompts or orders) of 2 judges are pooled")
    # the same labels in another shape
    plain = frame().rename(columns={"judge": "worker"})
    assert made == cs.Annotations.from_frame(plain, annotator="worker", duplicates="keep")


def test_variants_can_be_separate() -> None:
    made = cs.Annotations.from_frame(frame(), variants="separate")
    assert sorted(made.annotators.tolist()) == ["claude/short", "gpt/long one", "gpt/short"]
    assert made.n_labels == 120


def test_a_repeated_answer_to_one_prompt_still_counts_once() -> None:
    twice = pd.concat([frame(), frame().iloc[:3]])
    with pytest.warns(DataWarning, match="3 labels repeat"):
        assert cs.Annotations.from_frame(twice).n_labels == 120


def test_prompts_that_belong_to_items_are_no_variants() -> None:
    texts = (
        frame().assign(prompt=lambda rows: "What about " + rows["item"].astype(str)).drop_duplicates(["judge", "item"])
    )
    made = cs.Annotations.from_frame(texts)
    assert made.annotators.tolist() == ["gpt", "claude"]
    assert not made.origin.notes


def test_orders_are_variants_where_a_judge_saw_both() -> None:
    both = pd.concat([frame().drop(columns="prompt").drop_duplicates(["judge", "item"]).assign(order=o) for o in "AB"])
    made = cs.Annotations.from_frame(both, variants="separate")
    assert sorted(made.annotators.tolist()) == ["claude/A", "claude/B", "gpt/A", "gpt/B"]


@pytest.mark.parametrize("name", ["panel.csv", "panel.jsonl", "panel.parquet"])
def test_files_are_pooled_as_frames_are(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    rows = frame()
    if name.endswith("csv"):
        rows.to_csv(path, index=False)
    elif name.endswith("jsonl"):
        rows.to_json(path, orient="records", lines=True)
    else:
        rows.to_parquet(path)
    assert cs.read(path) == cs.Annotations.from_frame(rows)


def test_pooling_is_better_where_prompts_have_few_labels() -> None:
    """Five judges with twelve prompts each, drawn for every item."""
    errors = {"pool": 0.0, "separate": 0.0}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, 3, 200)
        rows = []
        for judge, skill in enumerate(rng.uniform(0.45, 0.92, 5)):
            for _ in range(2):
                right = rng.random(200) < skill
                said = np.where(right, truth, (truth + rng.integers(1, 3, 200)) % 3)
                prompt = rng.integers(0, 12, 200)
                rows += list(zip([f"j{judge}"] * 200, prompt, range(200), said, strict=True))
        panel = pd.DataFrame(rows, columns=["judge", "prompt", "item", "answer"])
        panel = panel.drop_duplicates(["judge", "prompt", "item"])
        for way in errors:
            made = cs.Annotations.from_frame(panel, variants=way)  # type: ignore[arg-type]
            run = cs.aggregate(made, "hierarchical")
            errors[way] += float((run.choice.best != truth[made.items]).mean()) / 6
    assert errors["pool"] < errors["separate"]
