"""The bootstrap: binomial errors where they are known, and nothing that depends on names or the order of rows."""

from __future__ import annotations

import numpy as np
import pytest

import consilience as cs
from consilience.data.annotations import Annotations
from consilience.diagnose import stability
from consilience.diagnose.stability import Stability, bootstrap
from consilience.exceptions import ParameterError
from consilience.methods.base import registry
from consilience.models.dawid_skene import DawidSkene


def fitted(annotations: Annotations) -> DawidSkene:
    return registry.fit("ds-em", annotations).model


@pytest.fixture(scope="module")
def experts() -> tuple[Annotations, DawidSkene]:
    """Eight experts who all label everything: the truth is hardly in doubt."""
    a = cs.simulate(1500, 8, 3, labels_per_item=8, experts=1.0, prior=[0.5, 0.3, 0.2], seed=1).annotations
    return a, fitted(a)


def binomial_ratio(found: Stability, a: Annotations, model: DawidSkene) -> tuple[float, float]:
    """Standard errors next to √(p (1 - p) / n), for confusions and for the prior."""
    p = model.confusions
    known = np.sqrt(p * (1 - p) / (a.n_items * model.prior))
    prior = np.sqrt(model.prior * (1 - model.prior) / a.n_items)
    # cells with a handful of errors among a thousand answers are too coarse to compare
    cells = p * a.n_items * model.prior > 5
    return float(np.mean(found.confusions[cells] / known[cells])), float(np.mean(found.prior / prior))


def test_errors_are_binomial_when_the_truth_is_plain(experts: tuple[Annotations, DawidSkene]) -> None:
    a, model = experts
    confusions, prior = binomial_ratio(bootstrap(a, model, draws=60), a, model)
    assert confusions == pytest.approx(1, abs=0.1)
    assert prior == pytest.approx(1, abs=0.2)


def test_draws_of_fewer_items_are_scaled_back(
    experts: tuple[Annotations, DawidSkene], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, model = experts
    monkeypatch.setattr(stability, "DRAW_LABELS", a.n_labels // 4)
    found = bootstrap(a, model, draws=60)
    assert found.items == a.n_items // 4
    confusions, prior = binomial_ratio(found, a, model)
    assert confusions == pytest.approx(1, abs=0.15)
    assert prior == pytest.approx(1, abs=0.2)
    monkeypatch.setattr(stability, "DRAW_LABELS_PER_CLASS", 10**6)
    assert bootstrap(a, model, draws=2).items == a.n_items, "annotators need labels, however many they are"


def test_errors_of_annotators_and_classes(experts: tuple[Annotations, DawidSkene]) -> None:
    a, model = experts
    found = bootstrap(a, model, draws=10)
    # everybody meets the classes as often as they come
    expected = np.einsum("k,mik->m", model.prior, found.confusions) / 3
    np.testing.assert_allclose(found.annotators, expected, rtol=1e-2)
    # eight annotators' mean is steadier than each of them
    assert np.all(found.classes < np.sqrt((found.confusions**2).sum(axis=1)).mean(axis=0))
    assert np.all(found.classes > 0)
    assert found.changed < 0.005


def test_doubt_shows() -> None:
    good = cs.simulate(400, 12, 3, labels_per_item=6, experts=0.5, seed=2).annotations
    poor = cs.simulate(400, 12, 3, labels_per_item=2, accuracy=(0.4, 0.6), seed=2).annotations
    steady, shaky = (bootstrap(a, fitted(a)) for a in (good, poor))
    assert steady.changed < 0.03 < 0.1 < shaky.changed
    assert steady.annotators.mean() < shaky.annotators.mean()
    assert steady.classes.max() < shaky.classes.max()


def test_the_seed_decides(experts: tuple[Annotations, DawidSkene]) -> None:
    a, model = experts
    one, same, other = (bootstrap(a, model, draws=3, seed=seed) for seed in (4, 4, 5))
    np.testing.assert_array_equal(one.confusions, same.confusions)
    assert one.changed == same.changed
    assert np.abs(one.confusions - other.confusions).max() > 1e-4


def test_names_and_rows_do_not_matter() -> None:
    a = cs.simulate(300, 9, 3, labels_per_item=5, seed=7).annotations
    frame = a.to_frame("pandas")
    found = bootstrap(a, fitted(a), draws=8)
    shuffled = frame.sample(frac=1.0, random_state=1)
    shuffled["annotator"] = shuffled["annotator"].map(lambda name: f"who {9 - int(name[1:])}")
    shuffled["item"] = shuffled["item"].map(lambda n: f"item {(n * 7919) % 300}")
    shuffled["label"] = shuffled["label"].map({0: "c", 1: "b", 2: "a"})
    b = Annotations.from_frame(shuffled)
    again = bootstrap(b, fitted(b), draws=8)
    place = [list(b.annotators).index(f"who {9 - int(name[1:])}") for name in a.annotators]
    # EM itself stops within its tolerance of the maximum, a little elsewhere when sums are taken in another order
    np.testing.assert_allclose(again.confusions[place][:, ::-1, ::-1], found.confusions, atol=2e-3)
    np.testing.assert_allclose(again.classes[::-1], found.classes, atol=1e-3)
    assert again.changed == pytest.approx(found.changed, abs=2e-3)


def test_gold_is_held() -> None:
    crowd = cs.simulate(300, 3, 2, accuracy=(0.5, 0.7), seed=3)
    free = crowd.annotations
    known = free.with_gold(crowd.truth)
    assert bootstrap(known, fitted(known)).changed == 0
    assert bootstrap(free, fitted(free)).changed > 0


def test_numbers_of_draws(experts: tuple[Annotations, DawidSkene]) -> None:
    a, model = experts
    none = bootstrap(a, model, draws=0)
    assert (none.draws, none.changed) == (0, 0)
    assert not none.confusions.any()
    for draws in (1, -3):
        with pytest.raises(ParameterError, match="bootstrap must be 0, or at least 2 draws"):
            bootstrap(a, model, draws=draws)


def test_tiny_tables_have_numbers_too() -> None:
    for matrix in ([[0, 1]], [[0], [1]], [[0, 0, 0], [-1, -1, -1]]):
        a = Annotations.from_matrix(np.array(matrix))
        found = bootstrap(a, fitted(a), draws=5)
        for values in (found.confusions, found.prior, found.annotators, found.classes):
            assert np.isfinite(values).all()
        assert 0 <= found.changed <= 1
