"""Looks and sweeps over open items against the definition, item by item."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.conftest import brute_force, random_model

from consilience.data.annotations import Annotations
from consilience.data.ids import Ids
from consilience.kernels import blocks, em
from consilience.kernels.em import Sweep
from consilience.kernels.em_source import SETTLED
from consilience.kernels.open_items import OpenItems
from consilience.models.dawid_skene import DawidSkene


def sweep_of(a: Annotations) -> Sweep:
    return Sweep(a.indptr, a.annotator, a.label, a.gold, a.n_annotators, a.n_classes)


def total(parts: dict[blocks.Node, Any], sweep: Sweep) -> Any:
    return blocks.total(parts, (0, sweep.share.n))


@pytest.fixture(params=["numpy", "compiled"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Take this path however small the data."""
    monkeypatch.setattr(em, "SMALL", 1 << 40 if request.param == "numpy" else 0)
    return str(request.param)


def a_crowd(K: int, *, gold: bool, seed: int = 1) -> tuple[Annotations, DawidSkene]:
    """Items with no labels, with a few and with more than sixteen, some of known truth."""
    model = random_model(40, K, seed=K, skill=0.7)
    few, truth = model.sample(150, labels_per_item=4, random_state=seed)
    many, more = model.sample(40, labels_per_item=25, random_state=seed + 1)
    a = Annotations(
        np.concatenate([few.indptr, [few.n_labels], many.indptr[1:] + few.n_labels]),
        np.concatenate([few.annotator, many.annotator]),
        np.concatenate([few.label, many.label]),
        items=Ids.range(191),
        annotators=few.annotator_ids,
        classes=few.class_ids,
    )
    if gold:
        known = np.concatenate([truth, [-1], more])
        a = a.with_gold(np.where(np.arange(191) % 5 == 0, known, -1))
    return a, model


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("gold", [False, True])
@pytest.mark.parametrize("K", [2, 3, 4, 7])
def test_open_items_are_those_without_a_sure_class(K: int, gold: bool) -> None:
    a, model = a_crowd(K, gold=gold)
    sweep = sweep_of(a)
    items = OpenItems(sweep)
    look = total(items.look(model.prior, model.confusions), sweep)
    posterior, counts, likelihood = brute_force(a, model.prior, model.confusions)
    is_open = posterior.max(axis=1) < SETTLED
    assert 0 < is_open.sum() < is_open.size
    assert look.open_labels == a.labels_per_item[is_open].sum()
    np.testing.assert_allclose(look.counts, counts, atol=1e-11)
    assert look.log_likelihood == pytest.approx(likelihood, rel=1e-12)
    # a plain sweep leaves the same behind, to the bit
    plain = sweep(model.prior, model.confusions)
    assert look.counts.tobytes() == plain.counts.tobytes()
    assert (look.class_counts == plain.class_counts).all()
    assert look.log_likelihood == plain.log_likelihood
    # under other parameters it is still these items that are passed over
    other = random_model(40, K, seed=99)
    found = total(items.parts(other.prior, other.confusions), sweep)
    chosen = a.select_items(np.flatnonzero(is_open))
    expected, counts, likelihood = brute_force(chosen, other.prior, other.confusions)
    np.testing.assert_allclose(found.counts, counts, atol=1e-11)
    np.testing.assert_allclose(found.class_counts, expected.sum(axis=0), atol=1e-11)
    assert found.log_likelihood == pytest.approx(likelihood, rel=1e-12)


@pytest.mark.usefixtures("way")
def test_another_look_makes_another_list() -> None:
    a, model = a_crowd(3, gold=False)
    sweep = sweep_of(a)
    items = OpenItems(sweep)
    vague = np.full_like(model.confusions, 1 / 3)
    assert total(items.look(model.prior, vague), sweep).open_labels == a.n_labels
    few = total(items.look(model.prior, model.confusions), sweep).open_labels
    assert 0 < few < a.n_labels
    assert total(items.parts(model.prior, vague), sweep).counts.sum() == pytest.approx(few)


@pytest.mark.usefixtures("way")
def test_all_items_may_be_settled() -> None:
    a, model = a_crowd(2, gold=False)
    a = a.with_gold(np.zeros(a.n_items, np.int64))
    sweep = sweep_of(a)
    items = OpenItems(sweep)
    assert total(items.look(model.prior, model.confusions), sweep).open_labels == 0
    found = total(items.parts(model.prior, model.confusions), sweep)
    assert not found.counts.any()
    assert found.log_likelihood == 0.0


@pytest.mark.parametrize("M", [50, 4000])
def test_results_do_not_depend_on_the_number_of_threads(M: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """4000 annotators × 16 cells × 16 bytes are beyond the cache: the prefetching kernels run too."""
    model = random_model(M, 4, seed=0)
    a, _ = model.sample(220_000, labels_per_item=5, random_state=0)
    results = []
    for threads in (1, 2, 7):
        monkeypatch.setattr(blocks, "thread_count", lambda t=threads: t)
        sweep = sweep_of(a)
        assert len(sweep.share.blocks) > 1
        items = OpenItems(sweep)
        look = total(items.look(model.prior, model.confusions), sweep)
        results.append((look.open_labels, total(items.parts(model.prior, model.confusions), sweep).counts))
    q, _ = sweep_of(a).posterior(model.prior, model.confusions)
    assert results[0][0] == 5 * (q.max(axis=1) < SETTLED).sum()
    np.testing.assert_allclose(results[0][1].sum(), results[0][0])
    for labels, counts in results[1:]:
        assert labels == results[0][0]
        assert counts.tobytes() == results[0][1].tobytes()


def test_more_classes_than_are_written_out_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(em, "SMALL", 0)
    model = random_model(5, 17, seed=0)
    a, _ = model.sample(20, labels_per_item=3, random_state=0)
    with pytest.raises(ValueError, match="up to 16 classes, not with 17"):
        OpenItems(sweep_of(a)).look(model.prior, model.confusions)
