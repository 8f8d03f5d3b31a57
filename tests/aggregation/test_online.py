"""Labels that keep coming: while all are held a stream is the batch, later it is near, and it follows who changes."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.conftest import brute_force, error_percent, quietly, random_model, real_crowd

import consilience as cs
from consilience._ids import Ids
from consilience.aggregation.em import ConfusionStep, Parameters
from consilience.aggregation.stream_archive import Archive
from consilience.aggregation.stream_em import Held, fit_held, ratios_of
from consilience.aggregation.stream_solve import STREAMED
from consilience.annotations import Annotations
from consilience.exceptions import (
    ColumnError,
    ConsilienceWarning,
    DataError,
    DataWarning,
    FolderError,
    FormatError,
    IdError,
    MethodError,
    ParameterError,
)
from consilience.kernels._arrays import Ints
from consilience.kernels.em import Statistics
from consilience.moments.cooccurrence import pair_moments

METHODS = list(STREAMED)

#: Nothing is held or remembered: every update is known in sums only.
SUMS: dict[str, Any] = {"window": 0, "remember": 0}


def cut(a: Annotations, updates: int, by: str = "items", seed: int = 0) -> list[pd.DataFrame]:
    """Rows in updates: items whole, or every label by itself."""
    rows, rng = a.to_frame("pandas"), np.random.default_rng(seed)
    turn = rng.integers(0, updates, a.n_items)[a.item_of_label()] if by == "items" else rng.integers(0, updates, len(a))
    return [rows[turn == t] for t in range(updates)]


def streamed(parts: list[Any], method: str = "ds-em", **options: Any) -> cs.Stream:
    stream = cs.Stream(method, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        for part in parts:
            stream.update(part)
        _ = stream.consensus
    return stream


def best_of(consensus: cs.Consensus, a: Annotations) -> Ints:
    """Class code of every item of ``a``."""
    best: Ints = consensus.choice.best[consensus.item_ids.codes_of(a.item_ids.to_arrow())]
    return best


def confusions_of(consensus: cs.Consensus, a: Annotations) -> Any:
    return consensus.model.confusions[consensus.model.annotators.codes_of(a.annotator_ids.to_arrow())]


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


def past_and_new(seed: int, N: int = 40) -> tuple[Held, Parameters]:
    """Labels of items, half of which have a posterior from before, and sums of a past."""
    rng = np.random.default_rng(seed)
    model = random_model(5, 3, seed)
    a, _ = model.sample(N, labels_per_item=3, random_state=seed)
    old = rng.dirichlet(np.ones(3), N)
    old[N // 2 :] = model.prior
    past = Statistics(rng.gamma(2.0, 5.0, (5, 3, 3)), rng.gamma(2.0, 9.0, 3), float("nan"))
    return Held(a, past, ratios_of(old, model.prior)), Parameters(model.prior, model.confusions)


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


# ---- what is new ----------------------------------------------------------------------------------------


def named(a: Annotations, classes: list[str], items: int = 0) -> pd.DataFrame:
    rows = a.to_frame("pandas")
    return rows.assign(label=[classes[k] for k in rows["label"]], item=rows["item"] + items)


@pytest.mark.parametrize("method", ["ds-em", "one-coin", "majority", "rob-symnmf", "rob-symnmf+em"])
@pytest.mark.parametrize("options", [SUMS, {"window": 0}], ids=str)
def test_classes_that_come_later_are_learned_in_their_order(method: str, options: dict[str, Any]) -> None:
    first = cs.simulate(300, 10, 2, accuracy=(0.7, 0.95), seed=1)
    later = cs.simulate(300, 10, 3, accuracy=(0.7, 0.95), seed=2)
    names = ["bird", "cat", "ant"]  # the new one comes first in order
    parts = [named(first.annotations, names[:2]), named(later.annotations, names, 300)]
    stream = streamed(parts, method, **options)
    assert list(stream.model.classes) == ["ant", "bird", "cat"]
    assert stream.consensus.counts.shape == (10, 3, 3)
    found = [stream.model.classes[int(k)] for k in stream.consensus.choice.best]
    truth = [names[k] for k in (*first.truth, *later.truth)]
    wrong = np.array(found) != np.array(truth)
    alone = quietly(parts[1], method)
    judged = np.array([alone.model.classes[int(k)] for k in alone.choice.best]) != np.array(truth[300:])
    assert wrong[:300].mean() <= 0.12
    assert wrong[300:].mean() <= judged.mean() + 0.03
    assert "ant" not in found[:300]


@pytest.mark.parametrize("options", [SUMS, {"window": 0}], ids=str)
def test_an_old_item_can_become_of_a_new_class(options: dict[str, Any]) -> None:
    made = cs.simulate(500, 12, 2, labels_per_item=3, accuracy=(0.7, 0.9), seed=4)
    fresh = [(n, f"a{m}", "a") for n in range(40) for m in range(12) if m % 2]
    later = pd.DataFrame(fresh, columns=["item", "annotator", "label"])
    stream = streamed([named(made.annotations, ["b", "c"]), later], **options)
    assert stream.labels["label"].tolist()[:40] == ["a"] * 40
    assert "a" not in stream.labels["label"].tolist()[40:]


def test_new_annotators_begin_as_the_crowd_and_are_told_apart(crowd: cs.datasets.Simulation) -> None:
    stream = streamed([crowd.annotations], window=0)
    rows = pd.DataFrame({"item": np.arange(250), "annotator": "new", "label": crowd.truth[:250]})
    stream.update(rows.assign(label=(rows["label"] + (rows["item"] % 10 == 0)) % 3))
    accuracy = stream.annotators.set_index("annotator")["accuracy"]["new"]
    assert abs(accuracy - 0.9) < 0.05
    lone = streamed([crowd.annotations], **SUMS)
    lone.update(pd.DataFrame({"item": [1], "annotator": ["one"], "label": [0]}))
    crowds = lone.consensus.counts[:-1].sum(axis=0)
    assert np.abs(lone.model.confusions[-1] - crowds / crowds.sum(axis=0)).max() < 0.25


@pytest.mark.parametrize("options", [SUMS, {"window": 0}, {}], ids=str)
def test_ids_of_other_types_meet(options: dict[str, Any]) -> None:
    stream = cs.Stream("majority", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConsilienceWarning)
        stream.update(pd.DataFrame({"task": [7, 8], "worker": [1, 2], "label": [0, 1]}))
        stream.update(pd.DataFrame({"task": [7.0, 9.0], "worker": [3, 3], "label": [0.0, 1.0]}))
        assert stream.consensus.n_labels.tolist() == [2, 1, 1]
        assert list(stream.model.classes) == [0, 1]
        stream.update(pd.DataFrame({"task": ["x", "7"], "worker": ["1", "w"], "label": ["1", "?"]}))
        found = stream.consensus
    assert list(found.item_ids) == ["7", "8", "9", "x"]
    assert list(found.model.annotators) == ["1", "2", "3", "w"]
    assert list(found.model.classes) == ["0", "1", "?"]
    assert found.n_labels.tolist() == [3, 1, 1, 1]


def test_many_names_are_found_again_as_a_dictionary_finds_them() -> None:
    from consilience.aggregation.stream_names import Rows, Vocabulary

    rng, names, known = np.random.default_rng(0), Vocabulary(), dict[str, int]()
    for _ in range(30):
        some = [f"item {k}" for k in np.unique(rng.integers(0, 60_000, rng.integers(1, 4000)))]
        met = names.meet(Ids(some))
        assert len(names) == len(known)  # nothing is added before it is accepted
        names = met.accept()
        assert met.codes.tolist() == [known.setdefault(name, len(known)) for name in some]
    assert list(names.ids) == list(known)
    rows, moved, at = Rows(x=np.zeros(0)), 0, -1
    for size in range(1, 5000):
        rows.grow(size, x=size)
        moved += rows["x"].ctypes.data != at
        at = rows["x"].ctypes.data
    assert moved < 20
    assert np.array_equal(rows["x"], np.arange(1, 5000))


# ---- repeated answers, gold, nothing and nonsense -------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"window": 0}], ids=str)
def test_of_repeated_answers_the_last_counts_while_the_first_is_remembered(
    crowd: cs.datasets.Simulation, options: dict[str, Any]
) -> None:
    rows = crowd.annotations.to_frame("pandas")
    again = rows.iloc[:50].assign(label=(rows["label"].iloc[:50] + 1) % 3)
    stream = cs.Stream(**options).update(rows)
    with pytest.warns(DataWarning, match="50 labels repeat an answer .* the last was kept"):
        found = stream.update(again).consensus
    batch = quietly(pd.concat([rows, again]), "ds-em")
    place = found.item_ids.codes_of(batch.item_ids.to_arrow())
    assert np.mean(found.choice.best[place] == batch.choice.best) >= (0.95 if options else 1.0)
    assert stream.n_labels == len(rows)
    # answers that one update repeats on purpose stay
    kept = cs.datasets.load("dawid_skene").annotations
    assert cs.Stream().update(kept).consensus.run["labels"] == 315


def test_repeats_of_settled_answers_are_counted_and_said(crowd: cs.datasets.Simulation) -> None:
    first, second = cut(crowd.annotations, 2, "labels")
    stream = cs.Stream(**SUMS).update(first)
    stream.update(second)  # new labels of the same items: no warning
    with pytest.warns(DataWarning, match=r"of \d+ labels repeat an answer .* known in sums only") as said:
        stream.update(first)
    count = int(str(said[0].message).removeprefix("about ").split()[0])
    assert abs(count - len(first)) <= 0.05 * len(first)
    assert stream.n_labels == 2 * len(first) + len(second)


@pytest.mark.parametrize("options", [SUMS, {"window": 0}, {}], ids=str)
def test_known_truths_are_held(crowd: cs.datasets.Simulation, options: dict[str, Any]) -> None:
    rows = crowd.annotations.to_frame("pandas")
    early, late = rows[rows["item"] < 150], rows[rows["item"] >= 150]
    wrong = {3: int((crowd.truth[3] + 1) % 3)}
    stream = cs.Stream(**options).update(early, gold=wrong)
    binary = late[late["label"] < 2]
    stream.update(binary, gold={200: 2})  # a class that this update does not name, but the stream knows
    more = pd.DataFrame({"item": [4, 5], "annotator": ["other", "other"], "label": [0, 0]})
    stream.update(more, gold={4: 1})
    for item, label in ((3, wrong[3]), (200, 2), (4, 1)):
        assert stream.consensus.posterior[list(stream.consensus.item_ids).index(item), label] == 1.0
    assert stream.consensus.run["gold_items"] == 3
    with pytest.raises(IdError, match="'fish', which no annotator used"):
        stream.update(late, gold={200: "fish"})


def test_no_rows_change_nothing(crowd: cs.datasets.Simulation, tmp_path: Path) -> None:
    rows = crowd.annotations.to_frame("pandas")
    stream = cs.Stream("ds-em", window=0).update(rows)
    before = stream.consensus
    (tmp_path / "none.csv").write_text("task,worker,label\n")
    for nothing in (rows.iloc[:0], tmp_path / "none.csv", crowd.annotations.select_items([])):
        assert stream.update(nothing) is stream
        assert stream.consensus is before
        assert stream.updates == 1
    with pytest.raises(DataError, match="no labels yet"):
        _ = cs.Stream().consensus


def test_what_cannot_be_read_leaves_the_stream_as_it_was(crowd: cs.datasets.Simulation, tmp_path: Path) -> None:
    rows = crowd.annotations.to_frame("pandas")
    stream = cs.Stream("ds-em", forget=0.1).update(rows)
    before = stream.consensus
    bad = rows.rename(columns={"annotator": "who"})
    with pytest.raises(ColumnError, match="the frame has no annotator column"):
        stream.update(bad)
    with pytest.raises(ColumnError, match="the frame has no annotator column"):
        stream.update(bad.iloc[:0])
    bad.to_csv(tmp_path / "bad.csv", index=False)
    with pytest.raises(ColumnError, match=r"bad\.csv has no annotator column"):
        stream.update(tmp_path / "bad.csv")
    with pytest.raises(IdError, match="mixes types"):
        stream.update(rows.astype(object).assign(item=lambda r: [7, *map(str, r["item"][1:])]))
    with pytest.raises(ParameterError, match="no option 'colour'"):
        stream.update(rows, colour="red")
    assert stream.consensus is before
    assert stream.update(bad.assign(item=bad["item"] + 1000), annotator="who").updates == 2


def test_columns_of_other_names_are_found_again(crowd: cs.datasets.Simulation) -> None:
    rows = crowd.annotations.to_frame("pandas").rename(columns={"item": "page", "annotator": "who"})
    stream = cs.Stream().update(rows.iloc[:900], item="page", annotator="who")
    stream.update(rows.iloc[900:])
    assert stream.labels.columns[0] == "page"
    with pytest.raises(ColumnError, match="no column 'page'"):
        stream.update(rows.rename(columns={"page": "leaf"}))


def test_an_update_that_is_broken_off_loses_no_label(crowd: cs.datasets.Simulation) -> None:
    first, second = cut(crowd.annotations, 2)
    stream = cs.Stream("ds-em", **SUMS).update(first)

    def stop(_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stream.update(second, callback=stop)
    assert stream.n_labels == len(crowd.annotations)
    assert stream.n_held == len(second)
    whole = streamed([first, second], **SUMS).consensus
    np.testing.assert_allclose(stream.consensus.posterior, whole.posterior, atol=1e-12)


def test_what_a_stream_cannot_do_is_refused() -> None:
    with pytest.raises(MethodError, match=r"glad needs all labels at once .* ds-em, one-coin, majority, rob-symnmf"):
        cs.Stream("glad")
    with pytest.raises(ParameterError, match="there is no method 'ds_em'"):
        cs.Stream("ds_em")
    with pytest.raises(ParameterError, match="ds-em has no parameter 'start'"):
        cs.Stream("ds-em", start=None)
    with pytest.raises(ParameterError, match="smoothing must be"):
        cs.Stream("ds-em", smoothing=-1)
    for forget in (1, 1.5, -0.1, True, "half", float("nan")):
        with pytest.raises(ParameterError, match="forget must be a number from 0"):
            cs.Stream(forget=forget)  # type: ignore[arg-type]
    for number in (-1, 0.5, True):
        for name in ("window", "remember"):
            bad: dict[str, Any] = {name: number}
            with pytest.raises(ParameterError, match=f"{name} must be a whole number"):
                cs.Stream(**bad)
    with pytest.raises(ParameterError, match="forget and window exclude each other"):
        cs.Stream(forget=0.1, window=100)


# ---- folders --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "options"),
    [
        *((method, {"window": 400}) for method in METHODS),
        *((method, options) for method in ("ds-em", "majority") for options in ({}, SUMS)),
        *((method, {"forget": 0.2}) for method in ("ds-em", "rob-symnmf")),
    ],
)
def test_a_saved_stream_goes_on_as_if_it_had_not_been_saved(
    crowd: cs.datasets.Simulation, tmp_path: Path, method: str, options: dict[str, Any]
) -> None:
    parts = cut(crowd.annotations, 5, "labels")
    stream = streamed(parts[:3], method, **options)
    stream.save(tmp_path / "run")
    again = cs.Stream.load(tmp_path / "run")
    assert repr(again) == repr(stream)
    for part in parts[3:]:
        for one in (stream, again):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConsilienceWarning)
                one.update(part)
                _ = one.consensus
    assert again.model == stream.model
    np.testing.assert_allclose(again.consensus.posterior, stream.consensus.posterior, atol=1e-12)
    assert again.consensus.run["updates"] == 5
    assert cs.load(tmp_path / "run").run["updates"] == 3
    for archive in (tmp_path / "run").glob("*.npz"):
        with np.load(archive, allow_pickle=False) as file:
            assert all(file[name].dtype != object for name in file.files)


@pytest.mark.parametrize("method", METHODS)
def test_a_run_of_few_labels_goes_on_as_if_all_had_come_at_once(
    crowd: cs.datasets.Simulation, tmp_path: Path, method: str
) -> None:
    first, second = cut(crowd.annotations, 2)
    cs.aggregate(first, method).save(tmp_path / "run")
    found = cs.Stream.load(tmp_path / "run").update(second).consensus
    batch = cs.aggregate(pd.concat([first, second]), method)
    assert found.posterior.tobytes() == batch.posterior.tobytes()
    assert found.run["updates"] == 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("options", [SUMS, {"window": 0}], ids=str)
def test_a_run_of_many_labels_goes_on_from_its_sums(
    crowd: cs.datasets.Simulation, tmp_path: Path, method: str, options: dict[str, Any]
) -> None:
    first, second = cut(crowd.annotations, 2)
    run = quietly(first, method)
    run.save(tmp_path / "run")
    if "remember" in options and not method.startswith("rob-symnmf"):
        (tmp_path / "run/answers.parquet").unlink()  # the old labels are not read
    stream = cs.Stream.load(tmp_path / "run", **options)
    np.testing.assert_allclose(stream.consensus.posterior, run.posterior, atol=1e-12)
    assert np.array_equal(stream.consensus.choice.best, run.choice.best)
    stream.update(second)
    batch = cs.aggregate(crowd.annotations, method)
    assert np.mean(best_of(stream.consensus, crowd.annotations) == batch.choice.best) >= 0.93
    assert stream.n_labels == len(crowd.annotations)


def test_a_run_of_another_method_goes_on_as_ds_em_when_asked(crowd: cs.datasets.Simulation, tmp_path: Path) -> None:
    first, second = cut(crowd.annotations, 2)
    gold = {int(n): int(crowd.truth[n]) for n in first["item"].unique()[:9]}
    cs.aggregate(first, "glad", gold=gold).save(tmp_path / "run")
    with pytest.raises(MethodError, match=r"made by glad.*method='ds-em'"):
        cs.Stream.load(tmp_path / "run")
    (tmp_path / "run/answers.parquet").unlink()
    with pytest.raises(MethodError, match="keeps no votes"):
        cs.Stream.load(tmp_path / "run", method="majority")
    with pytest.raises(MethodError, match="keeps no labels whose pairs"):
        cs.Stream.load(tmp_path / "run", method="rob-symnmf")
    stream = cs.Stream.load(tmp_path / "run", method="ds-em").update(second)
    assert stream.consensus.run["gold_items"] == 9
    assert stream.consensus.error_rate(dict(enumerate(crowd.truth.tolist()))) < 15


def test_folders_that_are_not_of_a_stream_are_refused(crowd: cs.datasets.Simulation, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="not the folder of a run"):
        cs.Stream.load(tmp_path)
    stream = cs.Stream(window=0).update(crowd.annotations)
    stream.save(tmp_path / "run")
    with pytest.raises(ParameterError, match="cannot go on as one-coin"):
        cs.Stream.load(tmp_path / "run", method="one-coin")
    content = (tmp_path / "run/stream.npz").read_bytes()
    for damaged in (b"", b"words", content[: len(content) // 2]):
        (tmp_path / "run/stream.npz").write_bytes(damaged)
        with pytest.raises(FormatError, match="run"):
            cs.Stream.load(tmp_path / "run")
    other = cs.Stream(window=0).update(crowd.annotations.select_items(slice(0, 200)))
    other.save(tmp_path / "other")
    (tmp_path / "run/stream.npz").write_bytes((tmp_path / "other/stream.npz").read_bytes())
    with pytest.raises(FormatError, match="does not belong to it"):
        cs.Stream.load(tmp_path / "run")


def test_runs_whose_items_are_not_alone_are_refused(tmp_path: Path) -> None:
    (tmp_path / "names.conll").write_text("Ann B-PER B-PER\nLee I-PER O\nsaw O O\n\nBob B-PER O\nslept O O\n")
    quietly(cs.read_sequences(tmp_path / "names.conll"), "majority+hmm").save(tmp_path / "sentences")
    with pytest.raises(MethodError, match="a run over sequences, which cannot go on from sums"):
        cs.Stream.load(tmp_path / "sentences")
    rows = pd.DataFrame([(n, w, n % 2) for n in range(4) for w in "abc"], columns=["task", "worker", "label"])
    quietly(rows, graph=[(0, 2), (1, 3)], delta=1.0).save(tmp_path / "network")
    with pytest.raises(MethodError, match="a run over a graph, which cannot go on from sums"):
        cs.Stream.load(tmp_path / "network", method="ds-em")


def test_of_two_updates_at_a_time_none_is_lost(crowd: cs.datasets.Simulation, tmp_path: Path) -> None:
    first, second, third = cut(crowd.annotations, 3)
    cs.Stream().update(first).save(tmp_path / "run")
    one, two = cs.Stream.load(tmp_path / "run"), cs.Stream.load(tmp_path / "run")
    one.update(second).save(tmp_path / "run")
    with pytest.raises(FolderError, match="has changed since it was loaded"):
        two.update(third).save(tmp_path / "run")
    one.update(third).save(tmp_path / "run")
    assert cs.load(tmp_path / "run").run["labels"] == len(crowd.annotations)
