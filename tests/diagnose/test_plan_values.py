"""Plans for numbers, several options and open answers: gains by enumeration, and smaller errors after the plan."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.answers.conftest import open_crowd
from tests.diagnose.test_plan import information

import consilience as cs
from consilience.diagnose.plan_prospects import NumberProspects, OpenProspects, OptionProspects

pytestmark = pytest.mark.filterwarnings("ignore::consilience.exceptions.ConsilienceWarning")


@pytest.fixture(scope="module")
def numbers() -> Any:
    return cs.datasets.simulate_numeric(80, 10, labels_per_item=3, careless=0.2, seed=5)


@pytest.fixture(scope="module")
def options() -> Any:
    return cs.datasets.simulate_multi(60, 8, 3, labels_per_item=2, seed=2)


def run_of(crowd: Any, answers: str) -> Any:
    return cs.aggregate(crowd.annotations, answers=answers)


def test_an_answer_of_a_number_shrinks_its_deviation(numbers: Any) -> None:
    """Bayes' rule for a normal value: precisions add."""
    run = run_of(numbers, "numeric")
    found, m = NumberProspects(run), np.array([4])
    n = int(np.argmax(found.doubt))
    reducible, rest = 1.0 / found.total[n], found.rest[n]
    sharp = run.model.scale[4] ** 2 / run.model.noise[4] ** 2
    after = np.sqrt(rest + reducible / (1.0 + reducible * sharp))
    assert found.gains(n, [], m)[0] == pytest.approx(np.sqrt(rest + reducible) - after)
    assert found.error(n, [4]) == pytest.approx(after)
    half = (run.high - run.low)[n] / 2.0 / 1.645
    assert found.error(n, []) == pytest.approx(half, rel=0.05)


def test_gains_of_options_and_open_answers_by_enumeration(options: Any) -> None:
    several = run_of(options, "multi")
    found = OptionProspects(several)
    q, A = found.truths(3), found.A
    both = sum(information(each, [A[0], A[5]]) for each in q)
    first = sum(information(each, [A[0]]) for each in q)
    assert found.gains(3, [0], np.array([5]))[0] == pytest.approx(both - first)
    wrong = sum(1.0 - sum(max(p * A[0][i] * A[5][j]) for i, j in product(range(2), repeat=2)) for p in q)
    assert found.error(3, [0, 5]) == pytest.approx(wrong)
    free = run_of(open_crowd(60, 8, 3, seed=0), "open")
    prospects = OpenProspects(free)
    assert prospects.channels(7).sum(axis=1) == pytest.approx(np.ones_like(prospects.channels(7)[:, 0]))
    given = [np.asarray(each) for each in prospects.channels(7)[:1]]
    padded = np.zeros((given[0].shape[0],) * 2)
    padded[:, : given[0].shape[1]] = given[0]
    truth = np.append(prospects.truths(7)[0], 0.0)
    assert prospects.gains(7, [], np.array([0]))[0] == pytest.approx(information(truth, [padded]))


@pytest.mark.parametrize("answers", ["numeric", "multi", "open"])
def test_plans_of_every_kind(answers: str, numbers: Any, options: Any) -> None:
    crowd = {"numeric": numbers, "multi": options, "open": open_crowd(60, 8, 3, seed=0)}[answers]
    a = crowd.annotations
    found = cs.plan(run_of(crowd, answers), 20, costs={name: 1.0 + (name == a.annotators[0]) for name in a.annotators})
    assert len(found) == 20 or found.notes
    assert found.spent <= 20.0
    assert found.wrong_then < found.wrong_now
    given = {*zip(a.item_of_label().tolist(), a.annotator.tolist(), strict=True)}
    planned = [*zip(found.item.tolist(), found.annotator.tolist(), strict=True)]
    assert not given & {*planned}
    assert len({*planned}) == len(planned)
    assert all(found.reasons.to_pylist())
    again = cs.plan(a, 20, answers=answers, costs=dict.fromkeys(a.annotators, 1.0))
    assert len(again) == 20


def test_followed_plans_beat_labels_at_random() -> None:
    """Numbers by careful and careless annotators: planned answers reduce the error more than others."""
    N, better = 150, []
    for seed in range(4):
        whole = cs.datasets.simulate_numeric(N, 10, labels_per_item=10, careless=0.3, slips=0.0, seed=seed)
        a, rng = whole.annotations, np.random.default_rng(seed)
        values = np.full((N, 10), np.nan)
        values[a.item_of_label(), a.annotator] = a.classes[a.label].astype(float)
        have = np.argsort(rng.random((N, 10)), axis=1) < 3
        plan = cs.plan(cs.aggregate(np.where(have, values, np.nan), answers="numeric"), 150)
        asked, drawn = have.copy(), have.copy()
        asked[plan.item, plan.annotator] = True
        drawn.ravel()[rng.choice(np.flatnonzero(~have.ravel()), len(plan), replace=False)] = True
        runs: list[Any] = [cs.aggregate(np.where(mask, values, np.nan), answers="numeric") for mask in (asked, drawn)]
        errors = [run.errors(whole.truth).mean_absolute for run in runs]
        better.append(errors[0] / errors[1])
    assert np.mean(better) < 0.95


def test_flagged_annotators_are_not_asked() -> None:
    crowd = cs.datasets.simulate_numeric(200, 12, labels_per_item=5, slips=0.0, careless=0.0, seed=3)
    a = crowd.annotations
    rng = np.random.default_rng(0)
    mine = a.annotator == 2
    values = a.classes[a.label].astype(float)
    values[mine] = rng.permutation(values[mine])
    matrix = np.full((a.n_items, a.n_annotators), np.nan)
    matrix[a.item_of_label(), a.annotator] = values
    run = cs.aggregate(matrix, answers="numeric")
    found = cs.plan(run, 100)
    assert found.not_asked == {2: "answers at random"}
    assert 2 not in found.annotator
    assert 2 in cs.plan(run, 4000, allow_flagged=True).annotator
