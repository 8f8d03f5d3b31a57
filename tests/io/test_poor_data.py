"""Poor data from a file: a sound result and a warning."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.io.conftest import ROWS, Row, delimited, put

import consilience as cs
from consilience.exceptions import ConsilienceWarning, DataWarning, FewLabelsWarning, MethodError

METHODS = ("majority", "ds-em", "one-coin", "majority+em", "ds-em+em", "one-coin+em")


def assert_sound(consensus: cs.Consensus) -> None:
    posterior = consensus.posterior
    assert np.isfinite(posterior).all()
    assert ((posterior >= 0) & (posterior <= 1)).all()
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0, atol=1e-9)
    assert np.isfinite(consensus.run["log_likelihood"])
    assert np.isfinite(consensus.model.prior).all()
    assert np.isfinite(consensus.model.confusions).all()
    np.testing.assert_allclose(consensus.model.confusions.sum(axis=1), 1.0, atol=1e-9)


POOR: dict[str, tuple[list[Row], str]] = {
    "one-annotator": ([(n, "a", n % 2) for n in range(6)], "only one annotator"),
    "two-annotators": ([(n, m, (n * m) % 2) for n in range(6) for m in range(2)], "only two annotators"),
    "one-class": ([(n, m, "yes") for n in range(6) for m in range(3)], "every label is 'yes'"),
    "one-label-each": ([(n, n, n % 2) for n in range(6)], "no item has two labels"),
    "one-row": ([("p", "a", "x")], "only one annotator"),
    "two-crowds": (
        [(f"{g}{n}", f"{g}{m}", "xy"[n % 2]) for g in "gh" for n in range(6) for m in range(3)],
        r"2 groups that share no item.*in common",
    ),
    "annotator-with-one-label": ([*ROWS, ("item 3", "newcomer", "yes")], "label"),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", POOR)
def test_poor_data_gives_a_sound_result_and_a_warning(tmp_path: Path, case: str, method: str) -> None:
    rows, pattern = POOR[case]
    path = put(tmp_path, "labels.csv", delimited(rows))
    with pytest.warns(ConsilienceWarning) as caught:
        consensus = cs.aggregate(cs.read(path), method)
    assert_sound(consensus)
    assert consensus.posterior.shape[0] == len({item for item, _, _ in rows})
    for told in ([str(w.message) for w in caught], consensus.warnings):
        assert any(re.search(pattern, sentence) for sentence in told), told


def test_an_annotator_with_one_label_is_flagged(tmp_path: Path) -> None:
    path = put(tmp_path, "labels.csv", delimited([*ROWS, ("item 3", "newcomer", "yes")]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        consensus = cs.aggregate(path)
    flags = dict(zip(consensus.annotators["worker"], consensus.annotators["flags"], strict=True))
    assert "few labels" in flags["newcomer"]
    assert "few labels" not in flags["annotator-0"]


@pytest.mark.parametrize("method", METHODS)
def test_an_item_without_a_label_stays_and_is_counted(tmp_path: Path, method: str) -> None:
    path = put(tmp_path, "labels.csv", delimited([*ROWS, ("nobody", "annotator-1", "")]))
    with pytest.warns(DataWarning, match=r"labels\.csv: 1 of 49 rows have no label"):
        annotations = cs.read(path)
    with pytest.warns(FewLabelsWarning, match="1 item has no label and stays unlabelled"):
        consensus = cs.aggregate(annotations, method)
    assert_sound(consensus)
    last = consensus.labels.iloc[-1]
    assert last["task"] == "nobody"
    assert pd.isna(last["label"])
    assert (last["confidence"], last["margin"], last["n_labels"]) == (0, 0, 0)
    assert consensus.labels["label"].iloc[:-1].isin(["yes", "no"]).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_class_that_nobody_used_is_kept_with_a_warning(tmp_path: Path, method: str) -> None:
    path = put(tmp_path, "labels.csv", delimited(ROWS))
    with pytest.warns(DataWarning, match="nobody used 'perhaps'"):
        annotations = cs.read(path, classes=["yes", "no", "perhaps"])
    consensus = cs.aggregate(annotations, method)
    assert_sound(consensus)
    assert consensus.posterior.shape == (12, 3)
    assert not (consensus.labels["label"] == "perhaps").any()
    assert (consensus.posterior[:, 2] < 1e-6).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_hundred_thousand_classes_are_refused_with_a_reason(tmp_path: Path, method: str) -> None:
    K = 100_000
    text = "task,worker,label\n" + "".join(f"i{i // 4},w{i % 4},text {i}\n" for i in range(K))
    annotations = cs.read(put(tmp_path, "labels.csv", text))
    assert annotations.n_classes == K
    with pytest.raises(MethodError, match=r"100000 classes.*label column.*'label'.*merge") as caught:
        cs.aggregate(annotations, method)
    assert "GB" in str(caught.value)
