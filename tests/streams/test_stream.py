"""Labels that keep coming: while all are held a stream is the batch, later it is near, and it follows who changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.conftest import brute_force, error_percent, quietly, random_model, real_crowd
from tests.streams.streams import METHODS, SUMS, best_of, confusions_of, cut, streamed

import consilience as cs
from consilience.data.ids import Ids
from consilience.exceptions import (
    DataError,
    DataWarning,
    ParameterError,
)
from consilience.fitting.em import ConfusionStep, Parameters
from consilience.kernels.em import Statistics
from consilience.moments.cooccurrence import pair_moments
from consilience.streams.archive import Archive
from consilience.streams.em import LabelsWithPast, fit_held, ratios_of


@pytest.fixture(scope="module")
def crowd() -> cs.datasets.Simulation:
    return cs.simulate(300, 12, 3, spammers=0.2, seed=1)


# ---- beside the batch -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "by"), [*((method, "items") for method in METHODS), ("ds-em", "labels")])
def test_while_all_labels_are_held_a_stream_is_the_batch(crowd: cs.datasets.Simulation, method: str, by: str) -> None:
    parts = cut(crowd.annotations, 4, by)
    found = streamed(parts, method).consensus
    batch = cs.aggregate(pd.concat(parts), method)
    assert list(found.item_ids) == list(batch.item_ids)
    assert found.model == batch.model
    assert found.posterior.tobytes() == batch.posterior.tobytes()
    assert all(np.array_equal(x, y) for x, y in zip(found.choice, batch.choice, strict=True))
    same = set(batch.run) - {"seconds"}
    assert {key: found.run[key] for key in same} == {key: batch.run[key] for key in same}
    assert found.run["updates"] == 4
    assert found.labels.equals(batch.labels)


def test_one_update_that_is_settled_at_once_has_the_posterior_of_the_batch(crowd: cs.datasets.Simulation) -> None:
    stream, batch = streamed([crowd.annotations], **SUMS), cs.aggregate(crowd.annotations, "ds-em")
    assert stream.n_held == 0
    assert np.array_equal(stream.consensus.posterior, batch.posterior)
    np.testing.assert_allclose(stream.consensus.counts, batch.counts, atol=1e-9)
    assert stream.consensus.run["log_likelihood"] == pytest.approx(batch.run["log_likelihood"], rel=1e-9)


@pytest.mark.parametrize("updates", [10, 50])
@pytest.mark.parametrize(
    ("by", "remember", "alike", "points", "apart"),
    [
        ("items", None, 0.98, 0.5, 0.008),
        ("labels", None, 0.98, 0.5, 0.008),
        ("items", 0, 0.97, 1.0, 0.012),  # known in sums only, once they are not held
        ("labels", 0, 0.88, 6.0, 0.04),  # the same with items that have one label or two when they settle
    ],
)
def test_with_a_quarter_held_it_stays_near_the_batch(
    updates: int, by: str, remember: int | None, alike: float, points: float, apart: float
) -> None:
    made = cs.simulate(5000, 50, 4, spammers=0.2, seed=1)
    a, batch = made.annotations, cs.aggregate(made.annotations, "ds-em")
    stream = streamed(cut(a, updates, by), window=a.n_labels // 4, remember=remember)
    assert stream.n_held <= a.n_labels // 4
    assert stream.n_labels == a.n_labels
    best = best_of(stream.consensus, a)
    assert np.mean(best == batch.choice.best) >= alike
    assert error_percent(best, made.truth) <= error_percent(batch.choice.best, made.truth) + points
    # over the columns that an annotator has labels for
    weight = batch.counts.sum(axis=1, keepdims=True)
    between = np.abs(confusions_of(stream.consensus, a) - batch.model.confusions) * weight
    assert between.sum() / weight.sum() / 4 <= apart


@pytest.mark.parametrize("name", ["rte", "trec"])
@pytest.mark.usefixtures("data_folder")
def test_real_crowds_in_updates(name: str) -> None:
    a, truth = real_crowd(name)
    batch = quietly(a, "ds-em")
    assert np.array_equal(best_of(streamed(cut(a, 10)).consensus, a), batch.choice.best)
    for by in ("items", "labels"):
        best = best_of(streamed(cut(a, 50, by), window=a.n_labels // 4).consensus, a)
        assert np.mean(best == batch.choice.best) >= 0.96
        assert error_percent(best, truth) <= error_percent(batch.choice.best, truth) + 0.5


@pytest.mark.parametrize("by", ["items", "labels"])
def test_votes_add_up_exactly_whatever_is_held(crowd: cs.datasets.Simulation, by: str) -> None:
    a = crowd.annotations
    batch = cs.aggregate(a, "majority")
    for options in (SUMS, {"window": 0}, {"window": 400}):
        found = streamed(cut(a, 7, by), "majority", **options).consensus
        place = found.item_ids.codes_of(a.item_ids.to_arrow())
        np.testing.assert_allclose(found.posterior[place], batch.posterior, atol=1e-15)
        clear = batch.choice.margin > 0
        assert np.array_equal(found.choice.best[place][clear], batch.choice.best[clear])
        assert np.array_equal(found.choice.margin[place] > 0, clear)


@pytest.mark.parametrize("method", ["rob-symnmf", "rob-symnmf+em"])
@pytest.mark.parametrize(("by", "options"), [("items", SUMS), ("labels", {"window": 0})], ids=str)
def test_pair_counts_add_up_and_their_factors_stay_near(method: str, by: str, options: dict[str, Any]) -> None:
    a = cs.simulate(2000, 15, 3, spammers=0.2, seed=5).annotations
    stream = streamed(cut(a, 5, by), method, **options)
    found, pairs = stream._past.pairs, pair_moments(a)
    assert found is not None
    place = found.annotators.codes_of(a.annotator_ids.to_arrow())
    for (m, j), counts in zip(pairs.who, pairs.counts, strict=True):
        block = found.block(place[m], place[j])
        assert block is not None
        np.testing.assert_allclose(block, counts / counts.sum(), atol=1e-12)
    assert found.totals.sum() == pytest.approx(pairs.totals.sum())
    batch = cs.aggregate(a, method)
    assert np.mean(best_of(stream.consensus, a) == batch.choice.best) >= 0.95
    assert np.abs(confusions_of(stream.consensus, a) - batch.model.confusions).mean() <= 0.03


@pytest.mark.parametrize("method", [m for m in METHODS if m != "majority"])
def test_every_method_goes_on_from_sums(crowd: cs.datasets.Simulation, method: str) -> None:
    a = crowd.annotations
    stream = streamed(cut(a, 5), method, window=500)
    batch = cs.aggregate(a, method)
    assert stream.n_labels == a.n_labels
    assert np.mean(best_of(stream.consensus, a) == batch.choice.best) >= 0.9
    assert stream.consensus.counts.sum() == pytest.approx(a.n_labels)
    assert ("auto" in " ".join(stream.notes)) == (method == "auto")


# ---- the mathematics ------------------------------------------------------------------------------------


def past_and_new(seed: int, N: int = 40) -> tuple[LabelsWithPast, Parameters]:
    """Labels of items, half of which have a posterior from before, and sums of a past."""
    rng = np.random.default_rng(seed)
    model = random_model(5, 3, seed)
    a, _ = model.sample(N, labels_per_item=3, random_state=seed)
    old = rng.dirichlet(np.ones(3), N)
    old[N // 2 :] = model.prior
    past = Statistics(rng.gamma(2.0, 5.0, (5, 3, 3)), rng.gamma(2.0, 9.0, 3), float("nan"))
    return LabelsWithPast(a, past, ratios_of(old, model.prior)), Parameters(model.prior, model.confusions)


@pytest.mark.parametrize("seed", range(3))
def test_passes_end_where_plain_em_of_the_definition_ends(seed: int) -> None:
    held, at = past_and_new(seed)
    assert held.ratios is not None
    found = fit_held(held, at, ConfusionStep(), tol=1e-14, max_iter=5000)
    prior, confusions = at
    for _ in range(600):
        alone, _, _ = brute_force(held.labels, prior, confusions)
        q = alone * held.ratios
        q /= q.sum(axis=1, keepdims=True)
        counts = held.past.counts.copy()
        for n in range(held.labels.n_items):
            for i in range(held.labels.indptr[n], held.labels.indptr[n + 1]):
                counts[held.labels.annotator[i], held.labels.label[i]] += q[n]
        classes = held.past.class_counts + q.sum(axis=0)
        prior, confusions = classes / classes.sum(), counts / counts.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.parameters.confusions, confusions, atol=2e-6)
    np.testing.assert_allclose(found.parameters.prior, prior, atol=2e-6)
    np.testing.assert_allclose(found.posterior, q, atol=1e-5)


@pytest.mark.parametrize("accelerate", [True, False])
def test_the_free_energy_rises_at_every_pass(accelerate: bool) -> None:
    held, at = past_and_new(7)
    found = fit_held(held, at, ConfusionStep(0.1), tol=0, max_iter=60, accelerate=accelerate)
    assert np.all(np.diff(found.history) >= -1e-9)
    assert found.history[-1] > found.history[0] + 1.0


def test_an_old_item_is_judged_by_what_was_known_times_what_is_new() -> None:
    made = cs.simulate(4000, 8, 3, seed=3)
    stream = streamed([made.annotations], **SUMS)
    before, model = stream.consensus.posterior[17].copy(), stream.model
    doubted = int(np.argsort(before)[-2])
    who = next(m for m in range(8) if m not in made.annotations.select_items([17]).annotator)
    stream.update(pd.DataFrame({"task": [17], "worker": [f"a{who}"], "label": [doubted]}))
    expected = before * model.confusions[who, doubted]
    np.testing.assert_allclose(stream.consensus.posterior[17], expected / expected.sum(), atol=2e-3)
    assert stream.consensus.n_labels[17] == 6
    others = np.arange(4000) != 17
    assert np.array_equal(stream.consensus.posterior[others], cs.aggregate(made.annotations, "ds-em").posterior[others])


@pytest.mark.parametrize("method", ["ds-em", "majority", "one-coin"])
@pytest.mark.parametrize("remember", [None, 400, 0])
def test_no_label_is_lost_or_counted_twice(crowd: cs.datasets.Simulation, method: str, remember: int | None) -> None:
    a = crowd.annotations
    stream = streamed(cut(a, 9, "labels"), method, window=300, remember=remember)
    assert stream.n_remembered <= (len(a) if remember is None else remember)
    assert stream.n_held + stream.n_remembered == len(a) or remember is not None
    found, past = stream.consensus, stream._past
    place = found.item_ids.codes_of(a.item_ids.to_arrow())
    assert np.array_equal(found.n_labels[place], a.labels_per_item)
    who = found.model.annotators.codes_of(a.annotator_ids.to_arrow())
    said = np.zeros((a.n_annotators, a.n_classes))
    np.add.at(said, (a.annotator, a.label), 1.0)
    np.testing.assert_allclose(found.counts[who].sum(axis=2), said, atol=1e-9)
    settled = past.items["n"] > 0
    np.testing.assert_allclose(past.class_counts, past.posterior(settled).sum(axis=0), atol=1e-8)
    np.testing.assert_allclose(found.posterior.sum(axis=1), 1.0, atol=1e-12)


def test_the_order_of_rows_and_columns_in_an_update_does_not_matter(crowd: cs.datasets.Simulation) -> None:
    parts = cut(crowd.annotations, 6)
    mixed = [part.sample(frac=1, random_state=1)[["label", "annotator", "item"]] for part in parts]
    for options in (SUMS, {"window": 0}, {"window": 600}):
        one, two = (streamed(p, **options).consensus for p in (parts, mixed))
        place = two.item_ids.codes_of(one.item_ids.to_arrow())
        np.testing.assert_allclose(two.posterior[place], one.posterior, atol=1e-6)


def test_settled_items_that_are_given_again_are_judged_by_what_is_known_now() -> None:
    made = cs.simulate(3000, 20, 3, spammers=0.2, seed=6)
    a, batch = made.annotations, cs.aggregate(made.annotations, "ds-em", shrinkage=0.5)
    pieces = [a.select_items(slice(first, first + 100)) for first in range(0, 3000, 100)]
    stream = streamed(pieces, **SUMS, shrinkage=0.5)
    before = np.mean(stream.consensus.choice.best == batch.choice.best)
    early = stream.consensus.posterior[:100].copy()
    model = stream.model
    stream.revise(pieces[0])
    np.testing.assert_allclose(stream.consensus.posterior[:100], model.posterior(pieces[0]), atol=1e-12)
    assert not np.allclose(early, stream.consensus.posterior[:100])
    for _ in range(6):
        for first in range(0, 3000, 300):
            stream.revise(a.select_items(slice(first, first + 300)))
    assert before < 0.98
    assert np.mean(stream.consensus.choice.best == batch.choice.best) > 0.995
    assert np.abs(stream.model.confusions - batch.model.confusions).mean() < 0.002
    assert stream.consensus.counts.sum() == pytest.approx(a.n_labels)
    with pytest.warns(DataWarning, match="95 of 100 items have other labels too and were not revised"):
        stream.revise(pieces[0].select_annotators(slice(0, 12)))
    with pytest.raises(DataError, match="give new ones to update"):
        stream.revise(a.select_items([0]).with_items(Ids([9999])))
    with pytest.raises(ParameterError, match="it does not revise"):
        cs.Stream(forget=0.1).update(a).revise(a)


def test_all_that_is_remembered_can_be_revised_at_once(crowd: cs.datasets.Simulation) -> None:
    parts = cut(crowd.annotations, 6, "labels")
    stream, batch = streamed(parts, window=0), cs.aggregate(pd.concat(parts), "ds-em")
    assert stream.n_held == 0
    assert not np.array_equal(stream.consensus.posterior, batch.posterior)
    np.testing.assert_allclose(stream.revise().consensus.posterior, batch.posterior, atol=1e-4)
    assert stream.n_held == len(crowd.annotations)
    assert stream._past.log_likelihood == pytest.approx(0.0, abs=1e-6)


def test_labels_are_remembered_by_item_and_looked_at_in_turn() -> None:
    rng, kept = np.random.default_rng(0), dict[int, Any]()
    archive, lots = Archive(10**6), rng.integers(0, 2**60, 500).astype(np.uint64)
    for t in range(60):
        fresh = np.array([n for n in rng.choice(500, 40, replace=False) if n not in kept])
        held = rng.permutation(np.repeat(fresh, rng.integers(1, 5, fresh.size)))
        rows = np.array([held, rng.integers(0, 9, held.size), rng.integers(0, 3, held.size), held * 0 + t], np.int32)
        archive.add(rows, lots[held])
        kept |= {int(n): sorted(map(tuple, rows[:, held == n].T.tolist())) for n in fresh}
        some = np.array(sorted(rng.choice(sorted(kept), 9, replace=False)))
        taken = archive.take(some).T.tolist()
        assert sorted(map(tuple, taken)) == sorted(row for n in some for row in kept.pop(int(n)))
        assert archive.has(np.arange(600)).nonzero()[0].tolist() == sorted(kept) == archive.items.tolist()
        assert len(archive) == sum(map(len, kept.values()))
    seen: set[int] = set()
    for _ in range(100):
        seen |= set(archive.next(30).tolist())
    assert seen == set(kept)
    archive.most = 200
    assert archive.tidy().shape[1] == len(archive) <= 200


# ---- what changes with time -----------------------------------------------------------------------------


def drifting(forget: float, updates: int = 16) -> cs.Stream:
    """Ten annotators, of whom the first turns from expert to spammer half-way, and the last leaves before."""
    rng, K, N = np.random.default_rng(0), 3, 300
    confusions = np.repeat((0.75 * np.eye(K) + 0.25 / K)[None], 10, axis=0)
    stream = cs.Stream("ds-em", forget=forget)
    for t in range(updates):
        confusions[0] = 0.95 * np.eye(K) + 0.05 / K if t < 8 else 1.0 / K
        model = cs.DawidSkene(np.full(K, 1 / K), confusions, Ids.range(K), Ids.range(10))
        labels, _ = model.sample(N, labels_per_item=5, random_state=rng)
        if t >= 8:
            labels = labels.select_annotators(slice(0, 9))
        stream.update(labels.with_items(Ids(np.arange(t * N, (t + 1) * N))))
    return stream


def test_forgetting_follows_an_expert_who_turns_spammer() -> None:
    keeping, forgetting = drifting(0.0), drifting(0.3)
    accuracy = [np.trace(stream.model.confusions[0]) / 3 for stream in (keeping, forgetting)]
    assert accuracy[0] > 0.6
    assert abs(accuracy[1] - 1 / 3) < 0.08
    # the others did not change, and who left is remembered
    truth = 0.75 + 0.25 / 3
    assert np.abs(np.einsum("mkk->mk", forgetting.model.confusions)[1:9] - truth).mean() < 0.05
    assert np.abs(np.diag(forgetting.model.confusions[9]) - truth).mean() < 0.06
    assert np.array_equal(forgetting.consensus.counts[9], drifting(0.3, 8).consensus.counts[9])
    # what items are is not forgotten: early ones keep their labels
    assert np.array_equal(forgetting.consensus.n_labels[:300], np.full(300, 5))


def test_evidence_is_aged_by_the_share_that_is_forgotten(crowd: cs.datasets.Simulation) -> None:
    a, keep = crowd.annotations, 0.8
    pieces = [a.select_items(slice(first, first + 100)) for first in (0, 100, 200)]
    stream = streamed(pieces, forget=1 - keep)
    n = [np.bincount(piece.annotator, minlength=12) for piece in pieces]
    np.testing.assert_allclose(stream.consensus.counts.sum(axis=(1, 2)), keep**2 * n[0] + keep * n[1] + n[2])
    assert stream._past.class_counts.sum() == pytest.approx(100 * (keep**2 + keep + 1))
    assert stream.n_labels == a.n_labels
