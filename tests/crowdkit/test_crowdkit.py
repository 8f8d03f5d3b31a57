"""crowd-kit's classes: their parameters, their names, and the numbers behind them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal, assert_series_equal

import consilience as cs
from consilience import crowdkit as ck
from consilience.exceptions import DataError, MethodError, ParameterError

CLASSES: list[Any] = [ck.MajorityVote, ck.Wawa, ck.ZeroBasedSkill, ck.DawidSkene, ck.OneCoinDawidSkene, ck.GLAD, ck.KOS]


def crowd(n_classes: int = 3) -> tuple[pd.DataFrame, pd.Series]:
    """Return five answers to each of 200 tasks, by eight workers who are right in 60 to 95 %, and the truth by task."""
    rng = np.random.default_rng(0)
    truth = rng.integers(n_classes, size=200)
    task = np.repeat(np.arange(200), 5)
    worker = rng.permuted(np.tile(np.arange(8), (200, 1)), axis=1)[:, :5].ravel()
    right = rng.random(1000) < np.linspace(0.6, 0.95, 8)[worker]
    label = np.where(right, truth[task], (truth[task] + rng.integers(1, n_classes, 1000)) % n_classes)
    return pd.DataFrame({"task": task, "worker": worker, "label": label}), pd.Series(truth).rename_axis("task")


# ---- what all classes share ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CLASSES)
def test_labels_and_probabilities_have_the_names_of_crowd_kit(kind: Any) -> None:
    frame, truth = crowd(2)
    model = kind()
    labels = model.fit_predict(frame)
    assert labels is model.labels_
    assert (labels.name, labels.index.name) == ("agg_label", "task")
    assert (labels == truth).mean() > 0.8
    probas = model.fit_predict_proba(frame)
    assert probas is model.probas_
    assert (probas.index.name, probas.columns.name) == ("task", "label")
    np.testing.assert_allclose(probas.sum(axis=1), 1.0)
    assert_series_equal(probas.idxmax(axis=1), model.labels_, check_names=False)


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("column", ["task", "worker", "label"])
def test_a_missing_column_is_a_key_error(kind: Any, column: str) -> None:
    with pytest.raises(KeyError, match=f"the frame has no column '{column}'"):
        kind().fit_predict(crowd(2)[0].drop(columns=column))


@pytest.mark.parametrize("kind", CLASSES)
def test_no_answers_give_no_labels(kind: Any) -> None:
    empty = crowd(2)[0][:0]
    assert kind().fit_predict(empty).empty
    assert kind().fit_predict_proba(empty).empty


@pytest.mark.parametrize("kind", CLASSES)
def test_order_of_rows_and_names_do_not_matter(kind: Any) -> None:
    frame, _ = crowd(2)
    other = frame.sample(frac=1, random_state=1).assign(worker=lambda f: "w" + f["worker"].astype(str))
    assert_series_equal(kind().fit_predict(frame).sort_index(), kind().fit_predict(other).sort_index())


def test_every_repeated_answer_counts() -> None:
    frame = pd.DataFrame({"task": [1, 1, 1], "worker": ["a", "b", "b"], "label": ["x", "y", "y"]})
    assert ck.MajorityVote().fit_predict_proba(frame).loc[1].tolist() == pytest.approx([1 / 3, 2 / 3])


# ---- Dawid and Skene ----------------------------------------------------------------------------------------------


def plain_em(frame: pd.DataFrame, n_iter: int, known: pd.Series | None) -> tuple[Any, Any, Any]:
    """Run Dawid and Skene's EM with dense arrays; return posterior, prior and errors."""
    n, tasks = pd.factorize(frame["task"], sort=True)
    m, workers = pd.factorize(frame["worker"], sort=True)
    i, labels = pd.factorize(frame["label"], sort=True)
    said = np.zeros((len(tasks), len(workers), len(labels)))
    said[n, m, i] = 1
    fixed = None if known is None else (known.reindex(tasks).to_numpy()[:, None] == labels.to_numpy())

    def corrected(q: Any) -> Any:
        return q if fixed is None else np.where(fixed.any(axis=1, keepdims=True), fixed, q)

    q = corrected(said.sum(axis=1) / said.sum(axis=(1, 2))[:, None])
    prior, errors = maximised(said, q)
    for _ in range(n_iter):
        q = prior * np.exp(np.einsum("nmi,mik->nk", said, np.log(np.maximum(errors, 1e-300))))
        q = corrected(q / q.sum(axis=1, keepdims=True))
        prior, errors = maximised(said, q)
    return q, prior, errors


def maximised(said: Any, q: Any) -> tuple[Any, Any]:
    errors = np.einsum("nmi,nk->mik", said, q)
    return q.mean(axis=0), errors / errors.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("gold", [False, True])
@pytest.mark.parametrize("n_iter", [0, 1, 4])
def test_steps_are_those_of_em(n_iter: int, gold: bool) -> None:
    frame, truth = crowd()
    known = truth[::5] if gold else None
    model = ck.DawidSkene(n_iter, 0).fit(frame, known)
    q, prior, errors = plain_em(frame, n_iter, known)
    np.testing.assert_allclose(model.probas_.sort_index(), q, atol=1e-8)
    np.testing.assert_allclose(model.priors_, prior, atol=1e-8)
    np.testing.assert_allclose(model.errors_.sort_index().to_numpy(), errors.reshape(-1, 3), atol=1e-8)
    assert len(model.loss_history_) == n_iter
    assert model.errors_.index.names == ["worker", "label"]
    assert model.priors_.name == "prior"


def test_em_ends_at_the_optimum_of_the_library() -> None:
    frame, _ = crowd()
    model, own = ck.DawidSkene(100_000, 1e-12).fit(frame), cs.DawidSkeneEM(tol=1e-12, max_iter=100_000).fit(frame)
    assert np.all(np.diff(model.loss_history_) >= -1e-12)
    assert model.loss_history_[-1] * len(frame) == pytest.approx(own.log_likelihood_, abs=1e-4)


def test_initial_errors_are_added_as_counts() -> None:
    frame, _ = crowd()
    votes = ck.DawidSkene(0).fit(frame)
    zero = votes.errors_ * 0
    none = ck.DawidSkene(0, initial_error_strategy="addition").fit(frame, initial_error=zero)
    assert_frame_equal(none.errors_, votes.errors_)
    worker = frame["worker"].iloc[0]
    part = pd.DataFrame(1e9 * np.eye(3), index=zero.loc[[worker]].index, columns=zero.columns)
    sure = ck.DawidSkene(0, initial_error_strategy="addition").fit(frame, None, part)
    np.testing.assert_allclose(sure.errors_.loc[worker], np.eye(3), atol=1e-6)
    assert_frame_equal(sure.errors_.drop(worker, level=0), votes.errors_.drop(worker, level=0))


def test_em_goes_on_from_assigned_errors() -> None:
    frame, _ = crowd()
    begun = ck.DawidSkene(0, 0).fit(frame)
    again = ck.DawidSkene(3, 0, "assign").fit(frame, initial_error=begun.errors_.sample(frac=1, random_state=0))
    assert_frame_equal(again.probas_, ck.DawidSkene(3, 0).fit(frame).probas_)
    with pytest.raises(DataError, match="must have all workers: 1 are missing"):
        ck.DawidSkene(3, 0, "assign").fit(frame, initial_error=begun.errors_[:-1])
    with pytest.raises(DataError, match=r"should be 1\.0"):
        ck.DawidSkene(3, 0, "assign").fit(frame, initial_error=begun.errors_ / 2)
    with pytest.raises(ParameterError, match="initial_error_strategy must be"):
        ck.DawidSkene(3, 0, "other").fit(frame, initial_error=begun.errors_)  # type: ignore[arg-type]


def test_one_coin_has_a_skill_for_every_worker() -> None:
    frame, _ = crowd()
    model = ck.OneCoinDawidSkene(20).fit(frame)
    chosen = model.probas_.stack().reindex(pd.MultiIndex.from_frame(frame[["task", "label"]])).to_numpy()
    expected = pd.Series(chosen).groupby(frame["worker"].to_numpy()).mean()
    np.testing.assert_allclose(model.skills_, expected, atol=1e-8)
    assert (model.skills_.name, model.skills_.index.name) == ("skill", "worker")
    for worker, skill in model.skills_.items():
        np.testing.assert_allclose(np.diag(model.errors_.loc[worker]), skill)


# ---- votes --------------------------------------------------------------------------------------------------------


def weighted(frame: pd.DataFrame, skills: Any) -> pd.DataFrame:
    scores = frame.assign(skill=frame["worker"].map(skills)).pivot_table("skill", "task", "label", "sum", fill_value=0)
    return scores.div(scores.sum(axis=1), axis=0)


def test_votes_are_weighted_by_skill() -> None:
    frame, _ = crowd()
    skills = pd.Series(np.linspace(0.1, 0.9, 8), index=sorted(frame["worker"].unique()))
    probas = ck.MajorityVote().fit_predict_proba(frame, skills)
    assert_frame_equal(probas.sort_index(), weighted(frame, skills), check_like=True)


def test_workers_without_a_skill() -> None:
    frame, _ = crowd()
    workers = sorted(frame["worker"].unique())
    skills = pd.Series(0.5, index=workers[1:])
    with pytest.raises(ValueError, match="1 workers have no skill"):
        ck.MajorityVote().fit(frame, skills)
    ignored = ck.MajorityVote(on_missing_skill="ignore").fit(frame, skills)
    assert ignored.skills_.index.tolist() == workers[1:]
    rest = ck.MajorityVote().fit_predict_proba(frame[frame["worker"] != workers[0]])
    assert_frame_equal(ignored.probas_.sort_index(), rest.sort_index())
    valued = ck.MajorityVote(7.0, "value").fit(frame, skills)
    assert_frame_equal(valued.probas_.sort_index(), weighted(frame, {**skills, workers[0]: 7.0}), check_like=True)
    with pytest.raises(ValueError, match="tasks have no answer of a worker with a known skill"):
        ck.MajorityVote(on_missing_skill="ignore").fit(frame, skills[:0])
    with pytest.raises(ParameterError, match="default_skill is for"):
        ck.MajorityVote(1.0).fit(frame, skills)
    with pytest.raises(ParameterError, match="needs a default_skill"):
        ck.MajorityVote(on_missing_skill="value").fit(frame, skills)


def test_wawa_weighs_by_agreement_with_the_vote() -> None:
    frame, _ = crowd()
    vote, wawa = ck.MajorityVote().fit(frame), ck.Wawa().fit(frame)
    agreement = (frame["label"] == frame["task"].map(vote.labels_)).groupby(frame["worker"]).mean()
    assert_series_equal(wawa.skills_, agreement.rename("skill"))
    assert_frame_equal(wawa.predict_proba(frame).sort_index(), weighted(frame, agreement), check_like=True)
    with pytest.raises(MethodError, match="not fitted"):
        ck.Wawa().predict(frame)


def test_zero_based_skill_steps_towards_the_agreement() -> None:
    frame, _ = crowd()
    start, end = 1 / 3 + 1e-5, ck.MajorityVote().fit(frame).skills_
    one = ck.ZeroBasedSkill(n_iter=1, lr_init=0.25).fit(frame)
    np.testing.assert_allclose(one.skills_, start + 0.25 * (end - start))
    np.testing.assert_allclose(ck.ZeroBasedSkill(n_iter=0).fit(frame).skills_, start)
    halved = ck.ZeroBasedSkill(n_iter=2, lr_init=0.25, lr_steps_to_reduce=2).fit(frame)
    vote = weighted(frame, one.skills_).idxmax(axis=1)
    agreement = (frame["label"] == frame["task"].map(vote)).groupby(frame["worker"]).mean()
    np.testing.assert_allclose(halved.skills_, one.skills_ + 0.125 * (agreement - one.skills_))


def test_skills_by_gold_allow_several_right_labels() -> None:
    rows = [("t1", "a", "x"), ("t1", "b", "y"), ("t1", "c", "z"), ("t2", "a", "x"), ("t2", "b", "y"), ("t3", "d", "x")]
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
    model = ck.GoldMajorityVote().fit(frame, pd.Series(["x", "y", "y"], index=["t1", "t1", "t2"]))
    assert model.skills_.to_dict() == {"a": 0.5, "b": 1.0, "c": 0.0}
    assert model.predict(frame[:5]).to_dict() == {"t1": "y", "t2": "y"}
    with pytest.raises(ValueError, match="1 workers have no skill, such as 'd'"):
        model.predict(frame)


# ---- the others ---------------------------------------------------------------------------------------------------


def test_glad_has_abilities_and_difficulties() -> None:
    frame, truth = crowd(2)
    model = ck.GLAD(n_iter=200).fit(frame)
    right = (frame["label"] == frame["task"].map(truth)).groupby(frame["worker"]).mean()
    assert (model.alphas_.name, model.betas_.name) == ("alpha", "beta")
    assert np.corrcoef(model.alphas_, right)[0, 1] > 0.9
    assert model.betas_.index.tolist() == model.labels_.index.tolist()
    with pytest.raises(ParameterError, match="labels_priors cannot be set"):
        ck.GLAD(labels_priors=pd.Series([0.5, 0.5])).fit(frame)


def test_kos_is_for_two_labels() -> None:
    with pytest.raises(ValueError, match="KOS is for two labels, and there are 3"):
        ck.KOS().fit(crowd(3)[0])


@pytest.mark.parametrize("base", [ck.MajorityVote(), ck.DawidSkene(5), ck.Wawa(), ck.GLAD()], ids=repr)
def test_lists_of_labels_are_aggregated_label_by_label(base: Any) -> None:
    lists = [["sky", "sea"], ["sea"], ["sea", "sky", "sun"], ["sun"], ["sun"], []]
    frame = pd.DataFrame({"task": ["p"] * 3 + ["q"] * 3, "worker": ["a", "b", "c"] * 2, "label": lists})
    model = ck.BinaryRelevance(base)
    assert model.fit_predict(frame).to_dict() == {"p": ["sea", "sky"], "q": ["sun"]}
    assert list(model.aggregators_) == ["sea", "sky", "sun"]
    assert all(type(fitted) is type(base) for fitted in model.aggregators_.values())
    assert not hasattr(base, "labels_")


def test_lists_of_labels_need_an_aggregator() -> None:
    assert ck.BinaryRelevance().fit_predict(pd.DataFrame(columns=["task", "worker", "label"])).empty
    with pytest.raises(ParameterError, match="base_aggregator must be"):
        ck.BinaryRelevance("majority")
