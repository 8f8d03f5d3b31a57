"""Scores of estimators: the share of right labels, in every form of truths, and scikit-learn's model selection."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score

import consilience as cs
from consilience.exceptions import DataError

CROWD = cs.simulate(240, 8, 3, labels_per_item=4, spammers=0.2, seed=2)


def matrix() -> np.ndarray:
    a, made = CROWD.annotations, np.full((240, 8), -1)
    made[a.item_of_label(), a.annotator] = a.label
    return made


MATRIX = matrix()


@pytest.fixture(scope="module")
def model() -> cs.DawidSkeneEM:
    return cs.DawidSkeneEM().fit(MATRIX)


def test_the_score_is_the_share_of_right_labels(model: cs.DawidSkeneEM) -> None:
    assert model.score(MATRIX, CROWD.truth) == np.mean(model.predict(MATRIX) == CROWD.truth)
    text = np.array(["a", "b", "c"])
    X = np.where(MATRIX < 0, None, text[MATRIX])
    assert cs.DawidSkeneEM().fit(X).score(X, text[CROWD.truth]) == model.score(MATRIX, CROWD.truth)


def test_unknown_truths_do_not_count_and_strange_ones_are_wrong(model: cs.DawidSkeneEM) -> None:
    right = model.predict(MATRIX) == CROWD.truth
    for unknown in (-1.0, np.nan):
        some = np.where(np.arange(240) < 100, CROWD.truth, unknown)
        assert model.score(MATRIX, some) == right[:100].mean()
    strange = np.where(np.arange(240) < 100, CROWD.truth, 7)
    assert model.score(MATRIX, strange) == right[:100].sum() / 240
    with pytest.raises(DataError, match="no item has both"):
        model.score(MATRIX, np.full(240, np.nan))


def test_minus_one_is_a_truth_where_it_is_a_label() -> None:
    votes = [[-1, -1, 1], [1, 1, 1], [-1, -1, -1]]
    frame = pd.DataFrame([(n, m, x) for n, row in enumerate(votes) for m, x in enumerate(row)])
    frame.columns = ["task", "worker", "label"]
    assert cs.MajorityVote().fit(frame).score(frame, {0: -1, 1: 1, 2: 1}) == pytest.approx(2 / 3)


def test_forms_of_truth_for_long_frames() -> None:
    frame = CROWD.annotations.to_frame("pandas").sample(frac=1.0, random_state=1)
    model = cs.DawidSkeneEM().fit(frame)
    truth = pd.Series(CROWD.truth)
    wanted = float((model.predict(frame).sort_index() == truth).mean())
    per_row = truth[frame["item"]]
    by_row = per_row.set_axis(frame.index)
    for y in (truth, truth.to_dict(), truth.rename_axis("item").reset_index(name="label"), by_row, per_row.to_numpy()):
        assert model.score(frame, y) == pytest.approx(wanted)
    polars = pl.from_pandas(frame)
    assert cs.DawidSkeneEM().fit(polars).score(polars, truth.to_dict()) == pytest.approx(wanted)
    assert model.score(CROWD.annotations, CROWD.truth) == pytest.approx(wanted)


def test_cross_validation_without_scoring() -> None:
    shuffled = pd.Series(CROWD.truth, index=np.random.default_rng(0).permutation(240))
    for y in (CROWD.truth, shuffled):  # the index of a truth beside a matrix does not matter
        found = cross_val_score(cs.MajorityVote(), MATRIX, y, cv=KFold(4))
        folds = np.arange(240).reshape(4, 60)
        wanted = [np.mean(cs.MajorityVote().fit(MATRIX).predict(MATRIX)[f] == CROWD.truth[f]) for f in folds]
        np.testing.assert_allclose(found, wanted, atol=0.05)  # ties can fall otherwise
    frame = CROWD.annotations.to_frame("pandas")
    by_items = cross_val_score(
        cs.DawidSkeneEM(), frame, CROWD.truth[frame["item"]], cv=GroupKFold(4), groups=frame["item"]
    )
    assert by_items.mean() == pytest.approx(cs.DawidSkeneEM().fit(frame).score(frame, CROWD.truth), abs=0.05)


def test_a_grid_search_finds_what_the_labels_need() -> None:
    # without truths by the likelihood of unseen labels: hardly any smoothing beats a flood of it
    search = GridSearchCV(cs.DawidSkeneEM(), {"smoothing": [0.1, 1000.0]}, cv=KFold(3)).fit(MATRIX)
    assert search.best_params_ == {"smoothing": 0.1}
    by_truth = GridSearchCV(cs.DawidSkeneEM(), {"smoothing": [0.1, 1.0]}, cv=KFold(3)).fit(MATRIX, CROWD.truth)
    assert 0.5 < by_truth.best_score_ <= 1.0


def test_without_truths_it_is_the_mean_log_probability_of_a_label(model: cs.DawidSkeneEM) -> None:
    a, total = CROWD.annotations, 0.0
    for n in range(240):
        joint = model.prior_.copy()
        for i in range(a.indptr[n], a.indptr[n + 1]):
            joint = joint * model.confusions_[a.annotator[i], a.label[i]]
        total += np.log(joint.sum())
    assert model.score(MATRIX) == pytest.approx(total / a.n_labels)


def test_sequences_have_scores_too() -> None:
    crowd = cs.datasets.simulate_sequences(40, 20, 6, 3, seed=1)
    model = cs.SequenceConsensus(method="ds-em+hmm+em").fit(crowd.annotations)
    truth = crowd.truth
    assert model.score(crowd.annotations, truth) == np.mean(model.predict(crowd.annotations) == truth)
    total = model.model_.log_likelihood(crowd.annotations)
    assert model.score(crowd.annotations) == pytest.approx(total / crowd.annotations.tokens.n_labels)
