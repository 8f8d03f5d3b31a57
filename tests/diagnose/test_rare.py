"""Diagnoses of thousands of classes: the rarest are taken as one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import consilience as cs
from consilience.data.ids import Ids
from consilience.diagnose import diagnosis as module
from consilience.diagnose.rare import merge_rare
from consilience.models.dawid_skene import DawidSkene


def test_merged_model_is_that_of_merged_labels() -> None:
    K = 5
    rng = np.random.default_rng(0)
    confusions = rng.dirichlet(np.ones(K), (2, K)).transpose(0, 2, 1)
    model = DawidSkene(np.array([0.3, 0.1, 0.35, 0.05, 0.2]), confusions, Ids.range(K), Ids.range(2))
    annotations, _ = model.sample(200_000, random_state=1)
    merged, small = merge_rare(annotations, model, 3)
    counts = np.bincount(annotations.label, minlength=K)
    assert list(small.classes)[:2] == [str(k) for k in np.argsort(-counts)[:2]]
    assert list(small.classes)[2] == "(3 rare classes)"
    assert np.bincount(merged.label).tolist() == [*sorted(counts)[::-1][:2], sorted(counts)[:3] @ np.ones(3)]
    # shares of merged labels follow from the merged model alone
    for m in range(2):
        share = np.bincount(merged.label[merged.annotator == m], minlength=3) / annotations.n_items
        np.testing.assert_allclose(share, small.confusions[m] @ small.prior, atol=0.005)
        np.testing.assert_allclose(small.confusions[m].sum(axis=0), 1.0)


@pytest.mark.filterwarnings("ignore:on your 12 known answers")
def test_known_truths_are_merged() -> None:
    annotations = cs.simulate(50, 4, 6, labels_per_item=3, seed=0).annotations
    gold = np.where(np.arange(50) < 12, np.arange(50) % 6, -1)
    annotations = annotations.with_gold(gold)
    merged, _ = merge_rare(annotations, cs.aggregate(annotations, "majority").model, 4)
    counts = np.bincount(annotations.label, minlength=6)
    assert merged.gold is not None
    assert (merged.gold[12:] == -1).all()
    rare = np.isin(gold[:12], np.argsort(-counts, kind="stable")[3:])
    assert ((merged.gold[:12] == 3) == rare).all()


def test_few_classes_stay_as_they_are() -> None:
    annotations = cs.simulate(50, 4, 3, seed=0).annotations
    model = cs.aggregate(annotations, "majority").model
    assert merge_rare(annotations, model, 3) == (annotations, model)


def test_large_tables_are_not_decomposed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CLASSES", 6)
    decomposed, svd = [], np.linalg.svd

    def watched(x: Any, **options: Any) -> Any:
        decomposed.append(x.shape[-1])
        return svd(x, **options)

    monkeypatch.setattr(np.linalg, "svd", watched)
    annotations = cs.simulate(2000, 5, 30, labels_per_item=5, seed=0).annotations
    found = cs.diagnose(annotations, method="majority")
    assert max(decomposed) <= 6
    assert len(found.class_ids) == 6
    assert found.reasons[-1] == "The 25 rarest of the 30 classes were taken as one class."
    assert found.verdict == "identified"
    assert found.agreement is not None
    assert found.agreement.alpha.value == cs.agreement(annotations, bootstrap=0).alpha.value
