"""Hand-off to training: probabilities by class, labels with weights, quality of every label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.conftest import quietly

import consilience as cs
from consilience.exceptions import DataError, ParameterError

FRAME = pd.DataFrame(
    [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t2", "ann", "dog"), ("t2", "bob", "cat"), ("t3", "bob", "dog")],
    columns=["task", "worker", "label"],
)


@pytest.fixture(scope="module")
def run() -> cs.Consensus:
    return cs.aggregate(cs.simulate(300, 10, 3, labels_per_item=3, spammers=0.2, seed=3).annotations)


def test_probabilities_have_the_item_first_and_a_column_for_each_class(run: cs.Consensus) -> None:
    frame = run.probabilities
    assert list(frame.columns) == ["item", "0", "1", "2"]
    np.testing.assert_array_equal(frame[["0", "1", "2"]].to_numpy(), run.posterior)
    assert frame["item"].tolist() == run.labels["item"].tolist()
    best = frame[["0", "1", "2"]].max(axis=1)
    np.testing.assert_allclose(best, run.labels["confidence"])


@pytest.mark.parametrize("make", [pd.DataFrame, pl.from_pandas], ids=["pandas", "polars"])
def test_tables_are_of_the_users_kind_and_keep_their_names(make: Any) -> None:
    found = quietly(make(FRAME), "majority")
    assert isinstance(found.probabilities, type(make(FRAME)))
    assert list(found.probabilities.columns) == ["task", "cat", "dog"]
    assert list(found.label_quality.columns) == ["task", "worker", "label", "probability", "consensus"]
    training = found.to_training()
    assert list(training.labels.columns) == ["task", "label", "weight"]
    assert list(training.left_out.columns) == ["task", "label", "confidence", "reason"]


def test_classes_that_are_named_like_the_item_column() -> None:
    frame = FRAME.assign(label=["task", "task", "dog", "task", "dog"])
    assert list(quietly(frame, "majority").probabilities.columns) == ["task_", "dog", "task"]


def test_the_quality_of_a_label_is_the_probability_of_its_class() -> None:
    found = quietly(FRAME, "majority")
    quality = found.label_quality
    assert quality[["task", "worker", "label"]].to_numpy().tolist() == FRAME.to_numpy().tolist()
    assert quality["probability"].tolist() == [1.0, 1.0, 0.5, 0.5, 1.0]
    assert quality["consensus"].tolist() == ["cat", "cat", *[found.labels["label"][1]] * 2, "dog"]


def test_the_quality_of_labels_separates_right_from_wrong() -> None:
    crowd = cs.simulate(2000, 12, 3, labels_per_item=5, spammers=0.25, seed=5)
    quality = cs.aggregate(crowd.annotations).label_quality
    right = quality["label"].to_numpy() == crowd.truth[quality["item"]]
    p = quality["probability"].to_numpy()
    # the chance that a right label has the larger probability of the two: the area under the ROC curve
    ranks = pd.Series(p).rank().to_numpy()
    area = (ranks[right].sum() - right.sum() * (right.sum() + 1) / 2) / (right.sum() * (~right).sum())
    assert area > 0.9
    # mean quality by annotator is their accuracy
    run = cs.aggregate(crowd.annotations)
    by = quality.groupby("annotator")["probability"].mean()
    np.testing.assert_allclose(by[run.annotators["annotator"]], run.annotators["accuracy"], atol=1e-12)


def test_training_labels_and_items_left_out() -> None:
    rows = pd.concat([FRAME, pd.DataFrame({"task": ["t4"], "worker": ["ann"], "label": [None]})])
    found = quietly(rows, "majority")
    training = found.to_training()
    assert training.labels.to_numpy().tolist() == [["t1", "cat", 1.0], ["t3", "dog", 1.0]]
    assert training.left_out.set_index("task")["reason"].to_dict() == {"t2": "tie", "t4": "no label"}


@pytest.mark.parametrize("threshold", [0, 0.5, 0.6, 0.9, 1])
def test_the_threshold_splits_the_items(run: cs.Consensus, threshold: float) -> None:
    labels, left_out = run.to_training(threshold)
    table = run.labels.set_index("item")
    assert sorted([*labels["item"], *left_out["item"]]) == sorted(table.index)
    assert (labels["weight"] >= threshold).all()
    assert (table.loc[labels["item"], "confidence"].to_numpy() == labels["weight"]).all()
    assert (table.loc[labels["item"], "label"].to_numpy() == labels["label"]).all()
    lower = left_out[left_out["reason"] != "tie"]
    assert (lower["reason"] == f"confidence below {threshold:g}").all()
    assert (lower["confidence"] < threshold).all()


def test_a_classifier_learns_more_from_training_labels_than_from_votes() -> None:
    from sklearn.linear_model import LogisticRegression

    right: dict[str, list[float]] = {"votes": [], "training": []}
    for seed in range(4):
        crowd = cs.simulate(1500, 15, 3, labels_per_item=3, accuracy=(0.4, 0.8), spammers=0.2, seed=seed)
        rng = np.random.default_rng(seed)
        centres, truth = 0.5 * rng.normal(size=(3, 20)), rng.integers(0, 3, 20_000)
        X, unseen = rng.normal(size=(1500, 20)) + centres[crowd.truth], rng.normal(size=(20_000, 20)) + centres[truth]
        labels = cs.aggregate(crowd.annotations).to_training().labels
        model = LogisticRegression().fit(X[labels["item"]], labels["label"], sample_weight=labels["weight"])
        right["training"].append(model.score(unseen, truth))
        votes = quietly(crowd.annotations, "majority").choice.best
        right["votes"].append(LogisticRegression().fit(X, votes).score(unseen, truth))
    assert np.mean(right["training"]) > np.mean(right["votes"]) + 0.01


def test_loaded_runs_have_the_same_tables(run: cs.Consensus, tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    again = cs.load(tmp_path / "run")
    for one, two in (
        (run.probabilities, again.probabilities),
        (run.label_quality, again.label_quality),
        (run.to_training().labels, again.to_training().labels),
    ):
        assert nw.from_native(one).rows() == nw.from_native(two).rows()


def test_sequences_keep_their_tokens() -> None:
    frame = pd.DataFrame(
        [("s", n, who, tag) for n, tag in enumerate(["B-X", "I-X", "O"]) for who in ("ann", "bob")],
        columns=["sequence", "position", "annotator", "label"],
    )
    found = quietly(cs.SequenceAnnotations.from_frame(frame))
    assert list(found.probabilities.columns)[:2] == ["sequence", "position"]
    assert len(found.label_quality) == 6
    assert list(found.to_training().labels.columns) == ["sequence", "position", "label", "weight"]


def test_what_cannot_be_had_is_refused(run: cs.Consensus, tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    with pytest.raises(DataError, match="does not hold its labels"):
        cs.Consensus.load(tmp_path / "run", answers=False).label_quality  # noqa: B018
    for threshold in (-0.1, 1.5, "high", True, float("nan")):
        with pytest.raises(ParameterError, match="threshold must be a number from 0 to 1"):
            run.to_training(threshold)  # type: ignore[arg-type]
    opened = quietly([[7, 7, 5], [12, 12, 12], [30, 31, 31]], answers="open")
    for name in ("probabilities", "label_quality"):
        with pytest.raises(DataError, match="candidates has"):
            getattr(opened, name)
    assert opened.to_training().labels["label"].tolist() == [7, 12, 31]
