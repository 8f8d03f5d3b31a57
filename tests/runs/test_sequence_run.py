"""What a run over sequences shows and keeps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import consilience as cs
from consilience import SequenceAnnotations, SequenceRun
from consilience.exceptions import DataError, DataWarning, FormatError

WORDS = ["Ann", "Lee", "saw", "Rome", "Bob", "slept"]
TAGS = ["B-PER", "I-PER", "O", "B-LOC", "B-PER", "O"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SequenceRun:
    lines = [f"{word} {tag} {tag} {tag}" for word, tag in zip(WORDS, TAGS, strict=True)]
    lines[3] = "Rome B-LOC O B-LOC"
    lines.insert(4, "")
    file = tmp_path_factory.mktemp("conll") / "names.conll"
    file.write_text("\n".join(lines) + "\n")
    made = cs.aggregate(cs.read_sequences(file), "majority+hmm")
    assert isinstance(made, SequenceRun)
    return made


def test_labels_have_their_place_and_their_word(run: SequenceRun) -> None:
    labels = run.labels
    assert list(labels.columns[:4]) == ["sequence", "position", "word", "label"]
    assert labels["word"].tolist() == WORDS
    assert labels["label"].tolist() == TAGS
    assert labels["sequence"].tolist() == [0, 0, 0, 0, 1, 1]
    assert labels["position"].tolist() == [0, 1, 2, 3, 0, 1]
    assert (labels["n_labels"] == 3).all()


def test_spans_are_listed(run: SequenceRun) -> None:
    spans = run.spans
    assert spans[["sequence", "first", "last"]].to_numpy().tolist() == [[0, 0, 1], [0, 3, 3], [1, 0, 0]]
    assert spans["type"].tolist() == ["PER", "LOC", "PER"]
    assert spans["text"].tolist() == ["Ann Lee", "Rome", "Bob"]
    confidence = run.labels["confidence"].to_numpy()
    np.testing.assert_allclose(spans["confidence"], [min(confidence[:2]), confidence[3], confidence[4]])


def test_errors_and_spans_against_a_truth(run: SequenceRun) -> None:
    truth = pd.DataFrame({"sequence": [0, 0, 0, 0, 1, 1], "position": [0, 1, 2, 3, 0, 1], "label": TAGS})
    assert run.error_rate(truth) == 0.0
    assert run.span_scores(truth).f1 == 1.0
    truth.loc[3, "label"] = "B-PER"
    assert run.error_rate(truth) == pytest.approx(100 / 6)
    scores = run.span_scores(truth)
    assert scores.precision == pytest.approx(2 / 3)
    assert scores.recall == pytest.approx(2 / 3)


def test_a_true_span_of_a_type_that_nobody_used_is_missed(run: SequenceRun) -> None:
    tags = [*TAGS[:4], "B-ORG", "I-ORG"]
    truth = pd.DataFrame({"sequence": [0, 0, 0, 0, 1, 1], "position": [0, 1, 2, 3, 0, 1], "label": tags})
    with (
        pytest.warns(DataWarning, match="'B-ORG', which no annotator used: these items count as wrong"),
        pytest.warns(DataWarning, match="'I-ORG'"),
    ):
        assert run.error_rate(truth) == pytest.approx(100 * 2 / 6)
    scores = run.span_scores(truth)
    assert scores.precision == scores.recall == pytest.approx(2 / 3)


def test_a_run_comes_back_as_it_was_saved(run: SequenceRun, tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    back = cs.load(tmp_path / "run")
    assert isinstance(back, SequenceRun)
    pd.testing.assert_frame_equal(back.labels, run.labels)
    pd.testing.assert_frame_equal(back.spans, run.spans)
    pd.testing.assert_frame_equal(back.annotators, run.annotators)
    np.testing.assert_array_equal(back.transitions, run.transitions)
    np.testing.assert_allclose(back.chains.posterior(run.sequences), run.posterior)
    truth = pd.DataFrame({"sequence": [1], "position": [0], "label": ["B-PER"]})
    assert back.error_rate(truth) == 0.0
    assert "sequences" in repr(back)
    assert pd.read_csv(tmp_path / "run" / "spans.csv")["text"].tolist() == ["Ann Lee", "Rome", "Bob"]


def test_averaged_chains_come_back_too(tmp_path: Path) -> None:
    crowd = cs.datasets.simulate_sequences(10, 6, 4, 3, seed=0).annotations
    model = cs.aggregate(crowd, "ds-em+hmm").chains.chains[0]  # type: ignore[attr-defined]
    from dataclasses import replace

    from consilience.models.chain_mixture import ChainMixture

    both = ChainMixture((model, replace(model, backward=True)))
    both.save(tmp_path / "chains.npz")
    back = ChainMixture.load(tmp_path / "chains.npz")
    assert [chain.backward for chain in back.chains] == [False, True]
    np.testing.assert_array_equal(back.posterior(crowd), both.posterior(crowd))
    expected = (model.posterior(crowd) + replace(model, backward=True).posterior(crowd)) / 2
    np.testing.assert_allclose(both.posterior(crowd), expected)


def test_a_damaged_folder_is_refused(run: SequenceRun, tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    (tmp_path / "run" / "tokens.parquet").write_bytes(b"PAR1")
    with pytest.raises(FormatError, match="damaged"):
        cs.load(tmp_path / "run")


def test_classes_that_are_no_tags_have_no_spans() -> None:
    crowd = cs.datasets.simulate_sequences(10, 6, 4, 3, seed=0).annotations
    made = cs.aggregate(crowd, "ds-em+hmm")
    with pytest.raises(DataError, match="not BIO tags"):
        _ = made.spans  # type: ignore[attr-defined]


def test_a_column_of_the_users_called_like_ours_is_kept_apart() -> None:
    frame = pd.DataFrame(
        {"label": [0, 0, 1] * 2, "confidence": [0, 1, 0] * 2, "who": list("aaabbb"), "tag": list("xyxxyx")}
    )
    sequences = SequenceAnnotations.from_frame(
        frame, sequence="label", position="confidence", annotator="who", label="tag"
    )
    with pytest.warns(cs.exceptions.FewLabelsWarning):
        columns = list(cs.aggregate(sequences, "majority+hmm").labels.columns)
    assert columns[:4] == ["label_", "confidence_", "label", "confidence"]
