"""Plans: gains by enumeration, the greedy order by brute force, budgets kept, groups joined, fewer errors after."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.conftest import quietly, random_model
from tests.diagnose.conftest import camps

import consilience as cs
import consilience.diagnose.joining as joining_module
import consilience.diagnose.plan as plan_module
from consilience import Plan, plan
from consilience.data.annotations import Annotations
from consilience.diagnose.constants import SPREAD
from consilience.diagnose.graph import needed_items
from consilience.kernels._arrays import Floats, Ints
from consilience.kernels.planning import expected_right, gains_of, mean_gains, plan_labels
from consilience.runs.annotator_table import Change, Health

NOTHING = np.empty((0, 2), np.int64)


def entropy(p: Floats) -> float:
    p = p[p > 0]
    return float(-(p * np.log2(p)).sum())


def information(q: Floats, confusions: list[Floats]) -> float:
    """What labels of these annotators tell together: I(truth; labels), by all answers."""
    K, told = q.size, 0.0
    for answers in product(range(K), repeat=len(confusions)):
        joint = q.copy()
        for A, i in zip(confusions, answers, strict=True):
            joint = joint * A[i]
        if joint.sum() > 0:
            told += joint.sum() * entropy(joint / joint.sum())
    return entropy(q) - told


def small(seed: int, N: int = 6, M: int = 4, K: int = 3) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(K), N), random_model(M, K, seed).confusions


def buy(q: Floats, A: Floats, budget: float, **more: Any) -> tuple[Ints, Ints, Floats]:
    N, M = len(q), len(A)
    given: dict[str, Any] = {
        "indptr": np.zeros(N + 1, np.int64),
        "annotator": np.empty(0, np.int64),
        "candidates": (np.empty(0, np.int64), np.arange(M)),
        "n_labels": np.zeros(N, np.int64),
        "weight": np.ones(1),
        "costs": np.ones(M),
        "capacity": np.full(M, N),
        "planned": NOTHING,
    }
    return plan_labels(q, A, budget=budget, **{**given, **more})


# ---- gains ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_gain_of_a_label_is_the_mutual_information(seed: int) -> None:
    q, A = small(seed)
    who = np.array([0, 1, 2, 3, 0, 1])
    wanted = [information(q[n], [A[m]]) for n, m in enumerate(who)]
    np.testing.assert_allclose(gains_of(q, A, who), wanted, atol=1e-12)
    means = [np.mean([information(row, [one]) for row in q]) for one in A]
    np.testing.assert_allclose(mean_gains(q, A), means, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weight", [1.0, 0.6])
def test_the_greedy_plan_is_that_of_brute_force(seed: int, weight: float) -> None:
    q, A = small(seed)
    costs = np.array([1.0, 2.0, 1.5, 0.5])
    weights = weight ** np.arange(10.0)
    budget, capacity = 9.0, np.array([3, 6, 2, 4])
    item, asked, gain = buy(q, A, budget, costs=costs, capacity=capacity, weight=weights)
    planned: list[list[int]] = [[] for _ in q]
    left, spent = capacity.copy(), 0.0
    for n, m, bits in zip(item.tolist(), asked.tolist(), gain.tolist(), strict=True):
        values = {}
        for x in range(len(q)):
            before = information(q[x], [A[j] for j in planned[x]])
            for j in range(len(A)):
                if j not in planned[x] and left[j] > 0 and spent + costs[j] <= budget + 1e-9:
                    told = information(q[x], [A[i] for i in (*planned[x], j)]) - before
                    values[x, j] = told * weights[len(planned[x])]
        best = max(value / costs[j] for (_, j), value in values.items())
        assert bits == pytest.approx(values[n, m], abs=1e-9)
        assert bits / costs[m] == pytest.approx(best, abs=1e-9)
        planned[n].append(m)
        left[m] -= 1
        spent += costs[m]
    assert spent <= budget
    assert budget - spent < costs[left > 0].min()


def test_who_labelled_an_item_is_not_asked_again_and_candidates_are_kept() -> None:
    q, A = small(1, N=30, M=5)
    labelled = np.repeat(np.arange(5)[None], 30, axis=0)[:, :2]
    item, asked, _ = buy(q, A, 1000.0, indptr=np.arange(0, 61, 2), annotator=labelled.ravel())
    assert len(item) == 90
    assert asked.min() == 2
    assert len(set(zip(item.tolist(), asked.tolist(), strict=True))) == 90
    open_to = np.arange(0, 31), np.arange(30) % 5
    item, asked, _ = buy(q, A, 1000.0, candidates=open_to)
    assert sorted(zip(item.tolist(), asked.tolist(), strict=True)) == [(n, n % 5) for n in range(30)]


def test_what_is_planned_before_counts() -> None:
    q, A = small(2)
    held = np.array([[n, 0] for n in range(6)])
    item, asked, gain = buy(q, A, 6.0, planned=held)
    assert 0 not in asked
    first = information(q[item[0]], [A[0], A[asked[0]]]) - information(q[item[0]], [A[0]])
    assert gain[0] == pytest.approx(first)


def test_beyond_what_can_be_looked_ahead_gains_still_fall() -> None:
    q, A = np.full((1, 10), 0.1), random_model(12, 10, seed=1).confusions
    _, asked, gain = buy(q, A, 12.0)
    assert len(set(asked.tolist())) == 12
    assert (np.diff(gain) < 0).all()
    assert gain.min() > 0


def test_expected_share_of_right_labels() -> None:
    q, A = small(3)
    indptr, who = np.array([0, 0, 1, 3, 6, 6, 6]), np.array([0, 1, 2, 0, 1, 3])
    for n, found in enumerate(expected_right(q, A, indptr, who)):
        asked = who[indptr[n] : indptr[n + 1]]
        wanted = 0.0
        for answers in product(range(3), repeat=len(asked)):
            joint = q[n].copy()
            for m, i in zip(asked, answers, strict=True):
                joint = joint * A[m, i]
            wanted += joint.max()
        assert found == pytest.approx(wanted)


# ---- plans ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowd() -> cs.datasets.Simulation:
    return cs.simulate(300, 12, 3, labels_per_item=2, spammers=0.25, seed=1)


@pytest.fixture(scope="module")
def run(crowd: cs.datasets.Simulation) -> cs.Consensus:
    return cs.aggregate(crowd.annotations)


def test_budget_capacity_and_costs_are_kept(crowd: cs.datasets.Simulation, run: cs.Consensus) -> None:
    costs = {f"a{m}": 1 + m % 3 for m in range(12)}
    found = plan(crowd.annotations, 80, consensus=run, costs=costs, capacity=9)
    table = found.table
    assert list(table.columns) == ["item", "annotator", "reason", "gain", "cost"]
    assert table["cost"].tolist() == [costs[who] for who in table["annotator"]]
    assert found.spent == table["cost"].sum() <= 80
    assert table.groupby("annotator").size().max() <= 9
    assert not table.duplicated(["item", "annotator"]).any()
    before = crowd.annotations.to_frame("pandas")
    assert not pd.concat([table, before]).duplicated(["item", "annotator"]).any()
    assert found.notes == []


def test_uncertain_items_go_to_the_most_informative_annotators() -> None:
    crowd = cs.simulate(300, 12, 3, labels_per_item=5, spammers=0.25, seed=1)
    run = cs.aggregate(crowd.annotations)
    found = plan(run, 60)
    doubt = 1 - run.posterior.max(axis=1)
    chosen = np.unique(found.item)
    assert doubt[chosen].mean() > 0.9 * np.sort(doubt)[-chosen.size :].mean() > 1.4 * doubt.mean()
    bits = run.annotators.set_index("annotator")["information"]
    assert bits[found.table["annotator"]].min() > bits.median()
    assert {crowd.roles[m] for m in found.annotator} == {"ordinary"}
    words = r"\d \(\d+%\) or \d \(\d+%\)\? a\d+ is right \d+% of the time"
    assert found.table["reason"].str.fullmatch(words).all()
    assert found.wrong_then < found.wrong_now


def test_nobody_gets_more_than_half_as_many_labels_as_they_gave_while_others_can_be_asked(
    crowd: cs.datasets.Simulation, run: cs.Consensus
) -> None:
    given = crowd.annotations.labels_per_annotator
    found = plan(crowd.annotations, 200, consensus=run)
    assert (np.bincount(found.annotator, minlength=12) <= np.maximum(given // 2, 10)).all()
    whole = plan(crowd.annotations, 3000, consensus=run)
    assert (np.bincount(whole.annotator, minlength=12) > given).any()


def test_expected_errors_are_those_that_come_about() -> None:
    # by the model that the labels were drawn from: what it expects has to hold
    model = random_model(10, 3, seed=1)
    full, truth = model.sample(3000, random_state=1)
    matrix = full.label.reshape(3000, 10).astype(int)
    shown = np.full_like(matrix, -1)
    shown[:, :2] = matrix[:, :2]
    annotations = Annotations.from_matrix(shown, classes=[0, 1, 2])
    fitted = quietly(annotations, "ds-em", max_iter=1)
    q = model.posterior(annotations.recode(model.annotators, model.classes))
    exact = cs.Consensus(
        model,
        q,
        fitted.choice,
        annotations.item_ids,
        annotations.labels_per_item,
        fitted.counts,
        {**fitted.run, "error_correlation": 0.0},
        annotations=annotations,
    )
    found = plan(exact, 1500)
    assert np.mean(q.argmax(axis=1) != truth) * 3000 == pytest.approx(found.wrong_now, rel=0.08)
    shown[found.item, found.annotator] = matrix[found.item, found.annotator]
    then = model.posterior(Annotations.from_matrix(shown, classes=[0, 1, 2]))
    assert np.mean(then.argmax(axis=1) != truth) * 3000 == pytest.approx(found.wrong_then, rel=0.08)
    assert found.wrong_then < 0.75 * found.wrong_now


def test_the_same_labels_give_the_same_plan(crowd: cs.datasets.Simulation) -> None:
    one, two = (plan(crowd.annotations, 70, capacity=20) for _ in range(2))
    assert one.to_dict() == two.to_dict()
    by_run = plan(cs.aggregate(crowd.annotations), 70, capacity=20)
    assert by_run.to_dict() == one.to_dict()


def test_capacity_that_names_some_asks_nobody_else(crowd: cs.datasets.Simulation, run: cs.Consensus) -> None:
    for staff in (
        {"a2": 5, "a3": 100},
        pd.DataFrame({"worker": ["a2", "a3"], "capacity": [5, 100]}),
        np.array([0, 0, 5, 100] + [0] * 8),
    ):
        table = plan(crowd.annotations, 60, consensus=run, capacity=staff).table
        assert set(table["annotator"]) == {"a2", "a3"}
        assert (table["annotator"] == "a2").sum() == 5
    only = pd.DataFrame({"item": [4, 5, 5], "annotator": ["a0", "a0", "a7"]})
    table = plan(crowd.annotations, 60, consensus=run, candidates=only).table
    assert set(zip(table["item"], table["annotator"], strict=True)) <= {(4, "a0"), (5, "a0"), (5, "a7")}


def test_a_budget_that_cannot_be_used_is_reported(crowd: cs.datasets.Simulation, run: cs.Consensus) -> None:
    found = plan(crowd.annotations, 60, consensus=run, capacity={"a1": 3})
    assert len(found) == 3
    assert found.notes == ["57 of the budget is left: no other label by those who can be asked would help"]
    assert len(plan(crowd.annotations, 0, consensus=run)) == 0
    everybody = plan(np.tile([[0, 0, 1], [1, 1, 1]], (20, 1)), 10)
    assert everybody.notes == ["10 of the budget is left: everybody has labelled all items"]


def test_gold_questions_are_informative_about_annotators(crowd: cs.datasets.Simulation, run: cs.Consensus) -> None:
    found = plan(crowd.annotations, 5, consensus=run, gold=7)
    gold = found.gold
    assert len(gold) == 7
    a, value = crowd.annotations, np.zeros(300)
    for n in range(300):
        for i in range(a.indptr[n], a.indptr[n + 1]):
            r = run.posterior[n, a.label[i]]
            value[n] += r * (1 - r) / a.labels_per_annotator[a.annotator[i]]
    assert gold["gain"].tolist() == pytest.approx(sorted(value, reverse=True)[:7])
    assert len(plan(crowd.annotations, 5, consensus=run, gold=0).gold) == 0


def test_where_errors_go_together_labels_of_an_item_count_less(
    crowd: cs.datasets.Simulation, run: cs.Consensus
) -> None:
    def items_of(dependent: float) -> int:
        with_correlation = cs.Consensus(
            run.model,
            run.posterior,
            run.choice,
            run.item_ids,
            run.n_labels,
            run.counts,
            {**run.run, "dependent": dependent},
        )
        return len(np.unique(plan(crowd.annotations, 400, consensus=with_correlation).item))

    assert items_of(1.0) > items_of(0.0)


def test_items_without_labels_and_gold() -> None:
    frame = cs.simulate(60, 6, 2, labels_per_item=3, seed=2).annotations.to_frame("pandas")
    rows = pd.concat([frame, pd.DataFrame({"item": [900, 901], "annotator": ["a0", "a1"], "label": [None, None]})])
    with pytest.warns(cs.exceptions.DataWarning):
        annotations = Annotations.from_frame(rows).with_gold(dict.fromkeys(range(30), 0))
    found = plan(annotations, 40)
    table = found.table
    assert {900, 901} <= set(table["item"])
    assert (table.loc[table["item"] >= 900, "reason"].str.startswith("nobody has labelled it; a")).all()
    assert not set(table["item"]) & set(range(30)), "their truth is known"


# ---- joining -------------------------------------------------------------------------------------------------------


def two_groups() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Labels of two groups that share no item; and what everybody would say of everything."""
    model = random_model(10, 3, seed=5, skill=0.8)
    full, _ = model.sample(400, random_state=2)
    frame = full.to_frame("pandas")
    rng = np.random.default_rng(0)
    home = (frame["item"] < 200) == (frame["annotator"] < 5)
    return frame[home & (rng.random(len(frame)) < 0.7)], frame


def answered(shown: pd.DataFrame, whole: pd.DataFrame, found: Plan) -> pd.DataFrame:
    asked = found.table[["item", "annotator"]].merge(whole, on=["item", "annotator"])
    assert len(asked) == len(found)
    return pd.concat([shown, asked])


def test_groups_that_share_no_item_are_joined_first_and_the_model_becomes_identified() -> None:
    shown, whole = two_groups()
    before = cs.diagnose(shown, bootstrap=0)
    assert (before.verdict, before.graph.n_components) == ("not", 2)
    budget = needed_items(3)
    found = plan(shown, budget)
    assert found.joining == len(found) == budget
    assert set(found.table["annotator"] < 5) == {True, False}, "a designated annotator of each group"
    after = cs.diagnose(answered(shown, whole, found), bootstrap=0)
    assert (after.verdict, after.graph.n_components, after.graph.imputable) == ("identified", 1, 1.0)
    assert found.table["reason"].str.contains("who never labelled the same item").all()
    larger = plan(shown, 100)
    assert larger.joining == budget
    assert larger.table["reason"].iloc[budget:].str.contains("is right").all()


def test_two_camps_are_joined_by_two_of_the_same_camp() -> None:
    annotations = camps()
    before = cs.diagnose(annotations, bootstrap=0)
    assert before.graph.bipartite(0)
    found = plan(annotations, 30)
    assert found.joining >= 20
    frame = annotations.to_frame("pandas")
    extra = found.table.iloc[: found.joining][["item", "annotator"]].assign(label=0)
    assert not cs.diagnose(pd.concat([frame, extra]), bootstrap=0).graph.bipartite(0)


def test_pairs_that_cannot_be_compared_get_a_walk() -> None:
    # a0 - a1 - … - a7: each shares items with the next one only
    rng = np.random.default_rng(1)
    rows = [(100 * m + n, f"a{j}", int(rng.integers(0, 2))) for m in range(7) for n in range(40) for j in (m, m + 1)]
    rows += [(900 + n, f"a{j}", int(n % 2)) for n in range(30) for j in (0, 1, 2)]  # an odd cycle: no camps
    chain = pd.DataFrame(rows, columns=["item", "annotator", "label"])
    before = cs.diagnose(chain, bootstrap=0).graph.imputable
    found = plan(chain, 400)
    assert 0 < found.joining <= 100
    extra = found.table.iloc[: found.joining][["item", "annotator"]].assign(label=0)
    assert cs.diagnose(pd.concat([chain, extra]), bootstrap=0).graph.imputable > before + 0.2


def test_large_crowds_are_joined_as_small_ones_are(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, _ = two_groups()
    wanted = plan(shown, 60).to_dict()
    monkeypatch.setattr(joining_module, "JOIN_LABELS", 200)
    assert plan(shown, 60).to_dict() == wanted
    chain = camps()
    assert plan(chain, 30).joining >= 20


def test_healthy_crowds_need_no_joining(crowd: cs.datasets.Simulation, run: cs.Consensus) -> None:
    assert plan(crowd.annotations, 60, consensus=run).joining == 0


def test_too_few_annotators_are_reported() -> None:
    assert "find a third" in plan(cs.simulate(50, 2, 2, labels_per_item=2).annotations, 5).notes[0]
    assert "find two more" in plan(cs.simulate(50, 1, 2, labels_per_item=1).annotations, 5).notes[0]


@pytest.mark.parametrize(
    "use", [lambda data: plan(data, 5), cs.diagnose, cs.agreement], ids=["plan", "diagnose", "agreement"]
)
def test_tokens_in_order_are_refused(use: Any, tmp_path: Path) -> None:
    (tmp_path / "names.conll").write_text("Ann B-PER B-PER O\nLee I-PER O O\n")
    for data in (tmp_path / "names.conll", cs.read_sequences(tmp_path / "names.conll")):
        with pytest.raises(cs.exceptions.DataError, match="labels of tokens in order"):
            use(data)


# ---- does it help --------------------------------------------------------------------------------------------------


def test_planned_labels_leave_fewer_errors_than_random_ones() -> None:
    errors: dict[str, list[float]] = {"plan": [], "random": []}
    for seed in range(4):
        crowd = cs.simulate(300, 16, 3, label_probability=1.0, spammers=0.2, experts=0.1, seed=seed)
        matrix = crowd.annotations.label.reshape(300, 16).astype(int)
        for policy in errors:
            rng = np.random.default_rng(seed)
            known = rng.random((300, 16)).argsort(axis=1) < 3
            for _ in range(3):
                run = quietly(Annotations.from_matrix(np.where(known, matrix, -1), classes=[0, 1, 2]))
                if policy == "plan":
                    bought = plan(run, 150, capacity=np.maximum(120 - known.sum(axis=0), 0))
                    known[bought.item, bought.annotator] = True
                else:
                    known.ravel()[rng.permutation(np.flatnonzero(~known))[:150]] = True
            last = quietly(Annotations.from_matrix(np.where(known, matrix, -1), classes=[0, 1, 2]))
            errors[policy].append(np.mean(last.choice.best != crowd.truth))
    # 4.5 labels an item: random ones would take 6 and more for that
    assert np.mean(errors["plan"]) < 0.6 * np.mean(errors["random"])


def test_time_grows_with_items_times_annotators_only() -> None:
    # 10^5 items take ten times as long: five seconds are allowed
    labels = cs.simulate(10_000, 100, 4, labels_per_item=3, seed=1).annotations
    fitted = quietly(labels, "ds-em", max_iter=20)
    plan(labels, 10, consensus=fitted)
    begun = time.process_time()
    found = plan(labels, 10_000, consensus=fitted, capacity=150)
    assert time.process_time() - begun < 1.0
    assert len(found) == 10_000


# ---- whom it asks --------------------------------------------------------------------------------------------------


def opposed(n_items: int = 1500) -> Annotations:
    """Return labels of half of the items by each of ten annotators: a9 says the opposite, a8 answers at random."""
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 2, n_items)
    right = rng.random((n_items, 10)) < np.array([0.7, 0.73, 0.75, 0.75, 0.77, 0.78, 0.8, 0.8, 0.5, 0.0])
    said = np.where(right, truth[:, None], 1 - truth[:, None])
    said[rng.random(said.shape) < 0.5] = -1
    return Annotations.from_matrix(said, annotators=[f"a{m}" for m in range(10)], classes=[0, 1])


@pytest.fixture(scope="module")
def opposed_run() -> cs.Consensus:
    return quietly(opposed())


def test_an_adversary_is_not_asked_however_informative(opposed_run: cs.Consensus) -> None:
    bits = information_of(opposed_run)
    assert bits.argmax() == 9, "the answers of a9, inverted, are the most informative"
    found = plan(opposed_run, 300)
    assert len(found) == 300
    assert found.skipped["annotator"].tolist() == ["a8", "a9"]
    assert not {"a8", "a9"} & set(found.table["annotator"])
    assert found.notes == [
        "flagged, so not asked: a8 (answers at random); a9 (wrong more often than chance). "
        "To ask them too: allow_flagged=True (--allow-flagged)"
    ]
    allowed = plan(opposed_run, 300, allow_flagged=True)
    assert "a9" in set(allowed.table["annotator"])
    assert (allowed.notes, len(allowed.skipped)) == ([], 0)


def test_the_load_is_spread(opposed_run: cs.Consensus) -> None:
    found = plan(opposed_run, 300)
    load = found.load.set_index("annotator")["labels"]
    assert load.sum() == 300
    assert load.to_dict() == found.table["annotator"].value_counts().to_dict()
    given = opposed_run.annotations.labels_per_annotator  # type: ignore[union-attr]
    share = dict(zip(opposed_run.annotations.annotators, given / given[:8].sum(), strict=True))  # type: ignore[union-attr]
    assert all(load[who] <= np.ceil(SPREAD * 300 * share[who]) for who in load.index)
    # whoever can do more than that only does so if nobody else is there
    alone = plan(opposed_run, 300, capacity={"a0": 1000})
    assert alone.load["labels"].tolist() == [300]


def test_somebody_who_may_be_an_adversary_is_not_asked_either() -> None:
    run = quietly(opposed(60))
    found = plan(run, 40)
    accuracy = run.annotators.set_index("annotator")["accuracy"]
    assert accuracy["a9"] < 0.5
    assert accuracy[found.table["annotator"]].min() > 0.5


def test_copies_and_annotators_who_got_worse_are_not_asked(opposed_run: cs.Consensus) -> None:
    change = Change(3, "yesterday", 0.9, 0.6, 0.001)
    health = Health(5.0, copies=((0, 2),), changes=(change, change._replace(annotator=4, before=0.6, after=0.9)))
    run = replace(opposed_run, examine=lambda _: health)
    skipped = plan(run, 100).skipped.set_index("annotator")["reason"].to_dict()
    assert {who: skipped.pop(who) for who in ("a0", "a2")} == dict.fromkeys(("a0", "a2"), "same answers as others")
    assert skipped.pop("a3") == "got worse over time"
    assert set(skipped) == {"a8", "a9"}


def test_a_crowd_in_which_everybody_is_flagged_gets_no_plan(opposed_run: cs.Consensus) -> None:
    run = replace(opposed_run, examine=lambda _: Health(1.0, copies=(tuple(range(10)),)))
    found = plan(run, 50)
    assert (len(found), len(found.skipped), len(found.load)) == (0, 10, 0)
    assert found.notes[-1].startswith("everybody is flagged; find other annotators: a0, a1, a2 and 5 more (same ")
    assert len(plan(run, 50, allow_flagged=True)) == 50


def test_considering_some_items_and_annotators_only_changes_hardly_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = cs.simulate(4000, 60, 3, labels_per_item=3, spammers=0.1, experts=0.1, seed=4)
    run = cs.aggregate(crowd.annotations)
    whole = plan(run, 100)
    monkeypatch.setattr(plan_module, "LEAST_CONSIDERED", 1)
    part = plan(run, 100)
    assert len(part) == len(whole) == 100
    assert part.gain.sum() == pytest.approx(whole.gain.sum(), rel=0.01)
    # candidates outside of these are found where nothing else can be bought
    sure = np.argsort(run.posterior.max(axis=1))[-50:]
    only = pd.DataFrame({"item": sure, "annotator": "a7"})
    assert set(plan(run, 20, candidates=only).table["annotator"]) == {"a7"}


def information_of(run: cs.Consensus) -> Floats:
    return np.asarray(run.annotators["information"])


# ---- manners -------------------------------------------------------------------------------------------------------


def test_what_it_shows(crowd: cs.datasets.Simulation, run: cs.Consensus, tmp_path: Path) -> None:
    found = plan(crowd.annotations, 20, consensus=run)
    content = found.to_dict()
    assert json.loads(json.dumps(content)) == content
    assert (content["labels"], len(content["plan"]), content["joining"]) == (20, 20, 0)
    assert repr(found) == f"<Plan: 20 labels of {found.table['item'].nunique()} items, 0 of them to join annotators>"
    found.save(tmp_path / "plan.csv")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "plan.csv"), found.table, check_dtype=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": -1}, "budget must be a number ≥ 0, not -1"),
        ({"budget": "many"}, "budget must be a number"),
        ({"costs": 0}, "costs must be numbers > 0"),
        ({"costs": {"a0": 1}}, "no cost is given for a"),
        ({"costs": [1, 2]}, "cost must be one number, or one for each of 12 annotators; got 2"),
        ({"capacity": {"a0": "x"}}, "capacity must be numbers"),
        ({"capacity": {"a0": None}}, "capacity of 'a0' is missing"),
        ({"capacity": pd.DataFrame({"worker": ["a0"], "x": [1], "y": [2]})}, "needs a column 'capacity'"),
    ],
)
def test_wrong_use(crowd: cs.datasets.Simulation, run: cs.Consensus, options: dict[str, Any], message: str) -> None:
    with pytest.raises(cs.exceptions.ParameterError, match=message):
        plan(crowd.annotations, **{"budget": 5, "consensus": run, **options})


def test_names_that_nobody_has_and_runs_of_other_labels(crowd: cs.datasets.Simulation, run: cs.Consensus) -> None:
    with pytest.raises(cs.exceptions.IdError, match="none of the annotators with a capacity gave labels: 'zoe'"):
        plan(crowd.annotations, 5, consensus=run, capacity={"zoe": 3})
    with pytest.raises(cs.exceptions.ParameterError, match="of other labels"):
        plan(cs.simulate(20, 3, 2, labels_per_item=2).annotations, 5, consensus=run)
