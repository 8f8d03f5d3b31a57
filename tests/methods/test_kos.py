"""Message passing: against plain loops, crowd-kit, published figures; nothing depends on order or names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.conftest import error_percent, real_crowd

import consilience as cs
from consilience.fitting.em import Progress
from consilience.fitting.fit import Fit
from consilience.kernels import messages
from consilience.kernels._arrays import Floats, Ints
from consilience.methods.kos import kos


def slow_iterations(a: cs.Annotations, sign: Floats, y: Floats, times: int) -> Floats:
    """Messages to the items and back, from the definition: sums over all other labels of the item or annotator."""
    item = a.item_of_label()
    for _ in range(times):
        x, back = np.zeros_like(y), np.zeros_like(y)
        for l in range(y.size):  # noqa: E741
            others = (item == item[l]) & (np.arange(y.size) != l)
            x[l] = (sign * y)[others].sum()
        for l in range(y.size):  # noqa: E741
            others = (a.annotator == a.annotator[l]) & (np.arange(y.size) != l)
            back[l] = (sign * x)[others].sum()
        y = back
    return y


def test_messages_are_those_of_the_definition() -> None:
    a = cs.simulate(30, 7, 3, labels_per_item=4, seed=2).annotations
    rng = np.random.default_rng(0)
    center = rng.random(7)
    for k in range(3):
        start = rng.normal(1, 1, a.n_labels)
        z, total = -start, np.zeros(7)
        factor = np.ones(7)
        for _ in range(3):
            total = messages.pass_messages(a.indptr, a.annotator, a.label, k, center, total, factor, z)
        sign = (a.label == k) - center[a.annotator]
        expected = slow_iterations(a, sign, start, 3)
        np.testing.assert_allclose(total[a.annotator] - z, expected, rtol=1e-10)


def test_start_messages_are_normal_and_follow_the_seed_and_the_place_of_a_label() -> None:
    frame = cs.simulate(3000, 40, 3, labels_per_item=5, seed=0).annotations.to_frame("pandas")
    made = {}
    for name, rows in {"plain": frame, "mixed": frame.sample(frac=1, random_state=1)}.items():
        renamed = rows.assign(annotator="x" + rows["annotator"].str[::-1], label=rows["label"].map({0: 2, 1: 0, 2: 1}))
        for which, data in ((name, rows), (name + " renamed", renamed)):
            a = cs.Annotations.from_frame(data)
            drawn = messages.structural_noise(a.indptr, a.annotator, a.label, a.n_annotators, 3, 5)
            who = [w[1:][::-1] if "renamed" in which else w for w in a.annotators[a.annotator]]
            made[which] = dict(zip(zip(a.items[a.item_of_label()], who, strict=True), drawn, strict=True))
    assert all(other == made["plain"] for other in made.values())
    drawn = np.array(list(made["plain"].values()))
    assert abs(drawn.mean()) < 0.03
    assert abs(drawn.std() - 1) < 0.03
    a = cs.Annotations.from_frame(frame)
    other = messages.structural_noise(a.indptr, a.annotator, a.label, a.n_annotators, 3, 6)
    assert abs(np.corrcoef(other, messages.structural_noise(a.indptr, a.annotator, a.label, 40, 3, 5))[0, 1]) < 0.05


def test_the_algorithm_of_2011_is_crowd_kits() -> None:
    pytest.importorskip("crowdkit")
    from crowdkit.aggregation import KOS

    sim = cs.simulate(400, 20, 2, labels_per_item=5, adversaries=0.2, seed=3)
    frame = sim.annotations.to_frame("pandas").rename(columns={"item": "task", "annotator": "worker"})
    theirs = KOS(n_iter=60).fit_predict(frame).loc[sim.annotations.items].to_numpy()
    ours = kos(sim.annotations, center=False, normalize=False, prior="uniform", max_iter=60, tol=0)
    wrong = [np.mean(x != sim.truth) for x in (theirs, sim.annotations.classes[ours.choice.best])]
    # theirs leaves the label itself out of each message; which of two classes is which, theirs leaves to chance
    assert abs(min(wrong[0], 1 - wrong[0]) - wrong[1]) < 0.02


def test_it_settles_on_the_leading_vector_without_backtracking() -> None:
    a = cs.simulate(60, 8, 2, labels_per_item=4, accuracy=(0.7, 0.95), seed=1).annotations
    L, item, sign = a.n_labels, a.item_of_label(), a.label.astype(float) - 0.5
    to_item = np.array([[sign[j] * ((item[j] == item[i]) and i != j) for j in range(L)] for i in range(L)])
    to_who = np.array([[sign[j] * ((a.annotator[j] == a.annotator[i]) and i != j) for j in range(L)] for i in range(L)])
    values = np.linalg.eigvals(to_who @ to_item)
    done = kos(a, center=False, normalize=False, tol=1e-10)
    assert done.converged
    np.testing.assert_allclose(done.history[-1], np.abs(values).max(), rtol=1e-6)


def test_a_negative_leading_eigenvalue_does_not_keep_it_from_settling() -> None:
    a = cs.simulate(60, 8, 2, labels_per_item=4, seed=1).annotations  # -3.59, with nothing else beyond 2.4
    assert kos(a, center=False, normalize=False).converged
    pair = cs.Annotations.from_matrix(np.array([[0, 0], [1, 1], [1, 1], [0, 0], [1, 0]]))  # λ and -λ
    done = kos(pair, center=False)
    assert done.converged
    np.testing.assert_allclose(done.model.confusions[0], done.model.confusions[1], atol=1e-3)


def test_published_figures(data_folder: Path) -> None:
    # SymNMF paper, Tables 4 and 5
    for name, figure in {"bluebird": 11.11, "dog52": 31.84, "rte": 39.75, "trec": 51.95}.items():
        annotations, truth = real_crowd(name)
        assert error_percent(kos(annotations).choice.best, truth) <= figure + 0.01, name


def test_the_changes_are_what_mends_it(data_folder: Path) -> None:
    annotations, truth = real_crowd("rte")
    plain = kos(annotations, center=False, normalize=False, prior="uniform")
    assert error_percent(plain.choice.best, truth) > 35
    assert error_percent(kos(annotations).choice.best, truth) < 8.5


def test_the_figure_of_bluebird_is_the_singular_vector_of_centred_labels(data_folder: Path) -> None:
    annotations, truth = real_crowd("bluebird")
    dense = np.zeros((annotations.n_items, annotations.n_annotators))
    dense[annotations.item_of_label(), annotations.annotator] = 2.0 * annotations.label - 1
    u = np.linalg.svd(dense - dense.mean(axis=0))[0][:, 0]
    labels = (u > 0).astype(int)
    ours = kos(annotations, prior="uniform").choice.best
    # but for an item or two: habits are discounted to first order
    assert min(np.sum(labels != ours), np.sum(labels == ours)) <= 2
    assert abs(error_percent(ours, truth) - 11.11) < 0.01


@pytest.mark.parametrize("K", [2, 3])
def test_better_than_the_votes_on_a_crowd_with_adversaries(K: int) -> None:
    sim = cs.simulate(2000, 30, K, labels_per_item=6, experts=0.2, adversaries=0.3, seed=4)
    votes = np.mean(cs.aggregate(sim.annotations, "majority").choice.best != sim.truth)
    assert np.mean(kos(sim.annotations).choice.best != sim.truth) < 0.6 * votes


@pytest.mark.parametrize("K", [2, 3])
def test_order_and_names_change_nothing(K: int) -> None:
    frame = cs.simulate(400, 15, K, labels_per_item=4, seed=8).annotations.to_frame("pandas")
    turn = {k: (k + 1) % K for k in range(K)}
    mixed = frame.sample(frac=1, random_state=2)
    renamed = mixed.assign(annotator="q" + mixed["annotator"].str[::-1], label=mixed["label"].map(turn))

    def by_item(data: object) -> Floats:
        a = cs.Annotations.from_frame(data)
        return kos(a, max_iter=7, tol=0).posterior[np.argsort(a.items)]  # early: the start still shows

    plain = by_item(frame)
    np.testing.assert_allclose(by_item(mixed), plain, atol=1e-8)
    np.testing.assert_allclose(by_item(renamed)[:, [turn[k] for k in range(K)]], plain, atol=1e-3)


def test_seed_history_callback_and_running_out() -> None:
    a = cs.simulate(300, 12, 2, labels_per_item=3, seed=5).annotations
    one, two, other = (kos(a, max_iter=2, tol=0, random_state=s) for s in (1, 1, 2))
    assert one.posterior.tobytes() == two.posterior.tobytes()
    assert one.posterior.tobytes() != other.posterior.tobytes()
    assert one.iterations == 2
    short = kos(a, max_iter=1, tol=1e-12)
    assert not short.converged
    assert "did not settle" in short.cautions[0][0]
    told: list[Progress] = []

    def tell(progress: Progress) -> bool:
        told.append(progress)
        return len(told) == 3

    kos(a, callback=tell)
    assert [p.iteration for p in told] == [1, 2, 3]


def assert_sound(done: Fit) -> None:
    assert np.isfinite(done.posterior).all()
    np.testing.assert_allclose(done.posterior.sum(axis=1), 1.0)
    assert np.isfinite(done.model.confusions).all()


def test_odd_crowds() -> None:
    two = np.array([[0, 1], [1, 1], [0, 0], [1, 0], [0, 0]])
    split = np.full((8, 4), -1)
    split[:4, :2], split[4:, 2:] = [[0, 0], [1, 1], [1, 1], [0, 1]], [[1, 1], [0, 0], [1, 1], [0, 0]]
    lone = np.array([[0, 0, -1], [1, 1, -1], [0, 0, -1], [-1, -1, 1], [-1, -1, -1]])
    for matrix in (two, two[:, :1], np.zeros((3, 2), int), split, lone, np.array([[1]]), np.array([[0, 1, 2]])):
        assert_sound(kos(cs.Annotations.from_matrix(matrix)))
    # somebody alone is taken at their word; what nobody labelled is not known
    done = kos(cs.Annotations.from_matrix(lone))
    assert done.choice.best[3] == 1
    np.testing.assert_allclose(done.posterior[4], done.model.prior)
    frame = cs.Annotations.from_matrix(two).to_frame("pandas")
    import pandas as pd

    assert_sound(kos(cs.Annotations.from_frame(pd.concat([frame, frame.iloc[:3]]), duplicates="keep")))


def test_gold_stays() -> None:
    sim = cs.simulate(200, 8, 3, seed=5)
    a = sim.annotations.with_gold({n: int(sim.truth[n]) for n in range(0, 200, 10)})
    known: Ints = np.flatnonzero(a.gold >= 0)  # type: ignore[operator]
    np.testing.assert_array_equal(kos(a).posterior[known, a.gold[known]], 1.0)  # type: ignore[index]
