"""``CrowdClassifier`` and what is built on it: texts, sparse matrices, new items, label errors, curves."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import consilience as cs
from consilience.exceptions import DataError, ParameterError
from consilience.features.cross_fitting import cross_fit, draw_folds, takes_weights
from consilience.fitting.fit import vote_posterior


def world(n: int = 600, seed: int = 0, accuracy: Any = (0.9, 0.7, 0.55, 0.5), K: int = 2) -> Any:
    rng = np.random.default_rng(seed)
    truth = rng.integers(K, size=n)
    X = rng.normal(size=(n, K)) + 2.0 * np.eye(K)[truth]
    wrong = rng.random((n, len(accuracy))) > np.array(accuracy)
    labels = np.where(wrong, (truth[:, None] + rng.integers(1, K, wrong.shape)) % K, truth[:, None])
    return X, labels, truth


def test_learns_annotators_and_classifier_better_than_training_on_votes() -> None:
    X, labels, truth = world(1500)
    model = cs.CrowdClassifier(LogisticRegression()).fit(X, labels)
    accuracy = model.confusions_[:, [0, 1], [0, 1]].mean(axis=1)
    assert accuracy == pytest.approx([0.9, 0.7, 0.55, 0.5], abs=0.05)
    new, _, expected = world(3000, seed=1)
    supervised = LogisticRegression().fit(X, truth)
    assert model.score(new, expected) > supervised.score(new, expected) - 0.01
    votes = (labels.mean(axis=1) > 0.5).astype(int)
    assert (model.labels_ == truth).mean() > (votes == truth).mean() + 0.05
    assert model.gain_.clear


def test_new_items_with_labels_are_better_than_without() -> None:
    X, labels, _ = world(1500)
    model = cs.CrowdClassifier(LogisticRegression()).fit(X, labels)
    new, answers, truth = world(3000, seed=1)
    assert (model.predict(new, answers) == truth).mean() > (model.predict(new) == truth).mean() + 0.02
    assert np.allclose(model.predict_proba(new, answers).sum(axis=1), 1)


def test_memorised_labels_do_not_return_as_evidence() -> None:
    # a classifier that memorises everything, on features that say nothing
    rng = np.random.default_rng(0)
    _, labels, _ = world(400)
    model = cs.CrowdClassifier(KNeighborsClassifier(1)).fit(rng.normal(size=(400, 2)), labels)
    assert model.weight_ < 0.1
    assert not model.gain_.clear


def test_cross_fitting_leaves_own_labels_out() -> None:
    X, labels, _ = world(90)
    a = cs.Annotations.from_matrix(labels)
    folds, q = draw_folds(a.item_ids, 3, 0), vote_posterior(a)
    before = cross_fit(LogisticRegression(), X, q, folds, np.ones(90, bool))
    other = q.copy()
    other[folds == 1] = other[folds == 1][:, ::-1]
    after = cross_fit(LogisticRegression(), X, other, folds, np.ones(90, bool))
    assert np.array_equal(before[folds == 1], after[folds == 1])
    assert not np.allclose(before[folds == 0], after[folds == 0])


def test_texts_sparse_matrices_and_unlabelled_rows() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=300)
    words = np.array([["cold", "rain", "wind"], ["sun", "beach", "warm"]])
    texts = np.array([" ".join(rng.choice(words[k], 3)) + " the day" for k in truth], object)
    labels = np.where(rng.random((300, 2)) < 0.3, 1 - truth[:, None], truth[:, None])
    labels[200:] = -1
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression())
    model = cs.CrowdClassifier(pipeline).fit(texts, labels)
    assert (model.labels_ == truth).mean() > 0.97
    assert model.predict(["rain and wind", "warm sun"]).tolist() == [0, 1]
    X = sparse.csr_matrix(TfidfVectorizer().fit_transform(texts))
    assert (cs.CrowdClassifier(LogisticRegression()).fit(X, labels).labels_ == truth).mean() > 0.97


def test_long_frames_are_matched_by_name() -> None:
    X, labels, truth = world(300)
    names = np.array([f"i{n}" for n in range(300)])
    item, who = np.nonzero(labels >= 0)
    long = pd.DataFrame({"item": names[item], "annotator": who, "label": labels[item, who]})
    by_matrix = cs.CrowdClassifier(LogisticRegression()).fit(X, labels)
    by_name = cs.CrowdClassifier(LogisticRegression()).fit(X, long.sample(frac=1, random_state=0), items=names)
    assert (by_matrix.labels_ == by_name.labels_).mean() > 0.97
    assert (by_name.labels_ == truth).mean() > 0.9
    for items, words in (
        (names[:200], "no row for 100 labelled items, such as 'i2"),
        ([*names[:199], "i0"], "'i0' in several rows"),
        ([*names[:199], None], "no id in row 200"),
        (range(200), "none of the 200 items in items=…"),
        (names[:50], "200 rows, but items=… has 50"),
    ):
        with pytest.raises(DataError, match=words):
            cs.CrowdClassifier(LogisticRegression()).fit(X[:200], long, items=items)
    with pytest.raises(DataError, match="Name the rows"):
        cs.CrowdClassifier(LogisticRegression()).fit(X[:200], long)
    with pytest.raises(ParameterError, match="folds"):
        cs.CrowdClassifier(LogisticRegression(), folds=1).fit(X, labels)


def test_known_truths_and_one_label_for_each_item() -> None:
    X, labels, truth = world(1200)
    one = np.where(np.arange(4) == np.arange(1200)[:, None] % 4, labels, -1)
    model = cs.CrowdClassifier(LogisticRegression()).fit(X, one)
    assert (model.labels_ == truth).mean() > (one.max(axis=1) == truth).mean() + 0.15
    X, labels, truth = X[:400], labels[:400], truth[:400]
    gold = np.where(np.arange(400) < 10, 1 - truth, -1)
    assert (cs.CrowdClassifier(LogisticRegression()).fit(X, labels, gold=gold).labels_[:10] == 1 - truth[:10]).all()


def test_sample_weights_are_found_in_pipelines() -> None:
    assert takes_weights(LogisticRegression()) == "sample_weight"
    assert takes_weights(make_pipeline(TfidfVectorizer(), LogisticRegression())) == "logisticregression__sample_weight"
    assert takes_weights(KNeighborsClassifier()) is None


def test_scikit_learn_manners() -> None:
    model = cs.CrowdClassifier(LogisticRegression(C=3))
    assert clone(model).estimator.C == 3
    model.set_params(estimator__C=0.1, folds=4)
    assert (model.estimator.C, model.get_params()["folds"]) == (0.1, 4)
    X, labels, truth = world(200)
    search = GridSearchCV(cs.CrowdClassifier(LogisticRegression()), {"estimator__C": [0.01, 1]}, cv=2)
    assert search.fit(X, labels[:, 0]).score(X, truth) > 0.8


#: Checks that do not apply: y holds labels of annotators, of which a matrix is the usual form and -1 or NaN missing.
NOT_FOR_LABELS = {
    "check_classifiers_classes",
    "check_classifiers_regression_target",
    "check_supervised_y_no_nan",
    "check_supervised_y_2d",
    "check_complex_data",
    "check_classifier_data_not_an_array",
}


@pytest.mark.filterwarnings("ignore")
def test_checks_of_scikit_learn() -> None:
    done = check_estimator(cs.CrowdClassifier(LogisticRegression(), folds=2, max_iter=1), on_fail=None)
    failed = {each["check_name"] for each in done if each["status"] == "failed"}
    assert failed <= NOT_FOR_LABELS, failed - NOT_FOR_LABELS
    assert sum(each["status"] == "passed" for each in done) >= 45


def test_label_errors_find_planted_errors() -> None:
    rng = np.random.default_rng(0)
    X, labels, truth = world(900, accuracy=(0.97, 0.97, 0.97), K=3)
    planted = rng.random(labels.shape) < 0.08
    noisy = np.where(planted, (truth[:, None] + rng.integers(1, 3, labels.shape)) % 3, labels)
    table = cs.label_errors(noisy, features=X)
    wrong = noisy != truth[:, None]
    columns = ["item", "annotator", "label", "suggested", "probability", "by_features", "others"]
    assert list(table.columns) == columns
    hit = [wrong[int(n), int(m)] for n, m in zip(table["item"], table["annotator"], strict=True)]
    assert np.mean(hit) > 0.95
    assert np.sum(hit) > 0.6 * wrong.sum()
    assert (np.diff(table["probability"]) >= 0).all()
    assert table["suggested"].to_numpy().tolist() != table["label"].to_numpy().tolist()
    with pytest.raises(ParameterError, match="features"):
        cs.label_errors(noisy)


def test_curves_and_their_picture(tmp_path: Any) -> None:
    X, labels, truth = world(300, accuracy=(0.7, 0.65, 0.65, 0.6, 0.6))
    table = cs.label_curves(labels, X, truth, labels_per_item=(2, 4), draws=1)
    assert (table["consensus_with_features"] < table["consensus"]).all()
    assert table["consensus"].iloc[1] < table["consensus"].iloc[0]
    made = cs.plot.label_curves(table, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 1000
    lines = made.axes[0].lines
    assert len(lines) == 4
    assert lines[0].get_ydata().tolist() == table["consensus"].tolist()
    bad: tuple[Any, ...] = (2, (), (1.5,), (0,))
    for wrong in bad:
        with pytest.raises(ParameterError, match="labels_per_item must be"):
            cs.label_curves(labels, X, truth, labels_per_item=wrong)
