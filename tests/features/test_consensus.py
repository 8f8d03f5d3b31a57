"""``aggregate`` with probabilities and features: better where they help, unchanged where they do not."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

import consilience as cs
from consilience.exceptions import ColumnError, DataError, DataWarning, IdError, ParameterError
from consilience.features.inputs import feature_rows, probability_rows


@pytest.fixture(scope="module")
def digits() -> Any:
    X, truth = load_digits(return_X_y=True)
    X, truth = X[:600], truth[:600]
    crowd = _crowd(truth, 10, 15, 3, seed=0)
    return crowd, X, truth


def _crowd(truth: Any, K: Any, M: Any, per_item: Any, seed: Any) -> Any:
    """Return a long frame of labels by annotators who are right in 30 to 80 percent."""
    rng = np.random.default_rng(seed)
    accuracy = rng.uniform(0.3, 0.8, M)
    who = np.argsort(rng.random((truth.size, M)), axis=1)[:, :per_item]
    right = rng.random(who.shape) < accuracy[who]
    said = np.where(right, truth[:, None], (truth[:, None] + rng.integers(1, K, who.shape)) % K)
    item = np.repeat(np.arange(truth.size), per_item)
    return pd.DataFrame({"item": item, "annotator": who.ravel(), "label": said.ravel()})


def test_features_halve_the_error(digits: Any) -> None:
    crowd, X, truth = digits
    alone, together = cs.aggregate(crowd), cs.aggregate(crowd, features=X)
    assert together.error_rate(truth) <= alone.error_rate(truth) / 2
    report = together.run["classifier"]
    assert report["used"]
    assert report["gain"] > 0
    assert report["hits"] > report["hits_without"]
    assert set(report["weights"]) == {"classifier", "neighbours"}


def test_useless_features_change_nothing(digits: Any) -> None:
    crowd, X, _ = digits
    noise = np.random.default_rng(0).normal(size=(len(X), 5))
    plain, noisy = cs.aggregate(crowd), cs.aggregate(crowd, features=noise)
    assert not noisy.run["classifier"]["used"]
    assert "held-out labels" in noisy.run["classifier"]["why"]
    assert np.array_equal(plain.posterior, noisy.posterior)


def test_order_of_rows_does_not_matter(digits: Any) -> None:
    crowd, X, _ = digits
    frame = pd.DataFrame(X[:200]).assign(item=np.arange(200))  # columns 0, 1, ... are numbers
    some = crowd[crowd["item"] < 200]
    one = cs.aggregate(some, features=frame).labels.set_index("item")
    two = cs.aggregate(some.sample(frac=1, random_state=0), features=frame.sample(frac=1, random_state=1))
    two = two.labels.set_index("item").loc[one.index]
    assert (one["label"] == two["label"]).mean() > 0.99
    assert np.allclose(one["confidence"], two["confidence"], atol=0.02)


def test_sparse_matrix_own_classifier_and_items_without_labels(digits: Any) -> None:
    crowd, X, truth = digits
    sparse_run = cs.aggregate(crowd, features=sparse.csr_matrix(X))
    assert sparse_run.error_rate(truth) < 10
    own = cs.aggregate(crowd, features=X, classifier=GaussianNB())
    assert list(own.run["classifier"]["weights"]) == ["classifier"]
    few = crowd[crowd["item"] >= 100]
    frame = pd.DataFrame(X).rename(columns=str).assign(item=np.arange(len(X)))
    with pytest.warns(cs.exceptions.FewLabelsWarning, match="features alone"):
        labels = cs.aggregate(few, features=frame).labels.set_index("item")
    unlabelled = labels.loc[range(100)]
    assert (unlabelled["n_labels"] == 0).all()
    assert (unlabelled["label"] == truth[:100]).mean() > 0.8


def test_probabilities_as_array_frame_and_file(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=900)
    names = np.array(["a", "b", "c"])
    crowd = _crowd(truth, 3, 8, 2, seed=1)
    crowd["label"] = names[crowd["label"]]
    x = rng.normal(size=(900, 3)) + 1.7 * np.eye(3)[truth]
    p = np.exp(4 * x)  # far too sure
    p /= p.sum(axis=1, keepdims=True)
    alone = cs.aggregate(crowd)
    known = dict(enumerate(names[truth]))
    array = cs.aggregate(crowd, probabilities=p)
    assert array.error_rate(known) < min(alone.error_rate(known), 100 * (p.argmax(axis=1) != truth).mean()) - 1
    assert array.run["classifier"]["weights"]["probabilities"] < 0.75  # tempered; the true weight is 1.7 / 4
    frame = pd.DataFrame(p[:, ::-1], columns=list("cba")).assign(item=np.arange(900), other="x")
    frame.sample(frac=1, random_state=0).to_csv(tmp_path / "p.csv", index=False)
    labels = cs.Annotations.from_frame(crowd)
    for given in (frame.sample(frac=1, random_state=1), tmp_path / "p.csv"):
        found, rows = probability_rows(given, labels)
        assert np.allclose(rows, p[found.items], atol=1e-12)
    numbers = pd.DataFrame(p).assign(item=np.arange(900))  # the columns are called 0, 1 and 2
    assert np.allclose(probability_rows(numbers, cs.Annotations.from_matrix(rng.integers(3, size=(900, 2))))[1], p)
    both = cs.aggregate(crowd, probabilities=p, features=x)
    assert set(both.run["classifier"]["weights"]) == {"probabilities", "classifier", "neighbours"}


def test_one_annotator_and_a_classifier() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(4, size=2000)
    wrong = rng.random(2000) < 0.15
    labels = np.where(wrong, (truth + rng.integers(1, 4, 2000)) % 4, truth)
    x = rng.normal(size=(2000, 4)) + 2 * np.eye(4)[truth]
    p = np.exp(2 * x)
    p /= p.sum(axis=1, keepdims=True)
    with pytest.warns(cs.exceptions.FewLabelsWarning):
        run = cs.aggregate(labels[:, None], probabilities=p)
    best_single = 100 * min(wrong.mean(), (p.argmax(axis=1) != truth).mean())
    assert run.error_rate(truth) < 0.6 * best_single


def test_known_answers_teach_the_weight(digits: Any) -> None:
    crowd, X, truth = digits
    rng = np.random.default_rng(0)
    known = {int(n): int(truth[n]) for n in range(40)}
    noise = rng.dirichlet(np.ones(10), len(X))
    good = np.where(np.arange(10) == truth[:, None], 0.9, 0.1 / 9)
    plain, useless, useful = (cs.aggregate(crowd, gold=known, probabilities=p) for p in (None, noise, good))
    assert np.array_equal(useless.posterior, plain.posterior)
    assert useful.error_rate(truth) < 1
    assert useful.run["classifier"]["shares"]["classifiers"] > 0.5


def test_labelling_functions_need_known_answers() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=600)
    X = rng.normal(size=(600, 3)) + 1.5 * truth[:, None]
    speaks = rng.random((600, 6)) < np.where(truth[:, None] == np.arange(6) % 2, 0.5, 0.1)
    matrix = np.where(speaks, np.arange(6) % 2, -1)
    plain = cs.aggregate(matrix, silence="informative")
    run = cs.aggregate(matrix, silence="informative", features=X)
    assert not run.run["classifier"]["used"]
    assert "labelling functions" in run.run["classifier"]["why"]
    assert np.array_equal(plain.posterior, run.posterior)
    taught = cs.aggregate(matrix, silence="informative", features=X, gold=np.where(np.arange(600) < 60, truth, -1))
    assert taught.run["classifier"]["shares"]["classifiers"] > 0.1


@pytest.mark.filterwarnings("ignore:on your 93 known answers")
def test_noise_beside_labelling_functions_and_known_answers_costs_nothing() -> None:
    # class 0 is named far too often, which the known answers correct: once, not again beside the noise
    rng = np.random.default_rng(2)
    truth, named = rng.integers(4, size=600), np.arange(8) % 4
    rate = np.where(named == 0, 0.5, np.where(truth[:, None] == named, 0.4, 0.12))
    matrix = np.where(rng.random((600, 8)) < rate, named, -1)
    noise, known = rng.normal(size=(600, 10)), np.where(np.arange(600) < 100, truth, -1)
    plain, noisy = (cs.aggregate(matrix, silence="informative", gold=known, features=x) for x in (None, noise))
    wrong, more = (np.mean(run.posterior[100:].argmax(axis=1) != truth[100:]) for run in (plain, noisy))
    assert noisy.run["classifier"]["used"]
    assert more < wrong + 0.01


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"features": np.zeros((3, 2))}, DataError, "row for each of the 4 items"),
        ({"features": np.full((4, 2), np.inf)}, DataError, "infinite"),
        ({"probabilities": np.zeros((4, 2))}, DataError, "one above 0"),
        ({"probabilities": np.full((4, 2), 7.0)}, DataError, "softmax"),
        ({"probabilities": np.ones((2, 2))}, DataError, "shape"),
        ({"probabilities": pd.DataFrame({"item": [0], "cat": [1.0]})}, ColumnError, "none for 'dog'"),
        ({"features": pd.DataFrame({"item": [0, 0], "x": [1.0, 2.0]})}, DataError, "several rows"),
        (
            {"features": pd.DataFrame({"item": [0, 1], "x": [1.0, 2.0]})},
            IdError,
            "no row for 2 items, such as 2. Add them",
        ),
        ({"features": pd.DataFrame({"item": [8, 9], "x": [1.0, 2.0]})}, IdError, "are the ids the same"),
        ({"features": pd.DataFrame({"item": [0], "x": ["a"], "y": [1]})}, ColumnError, "'x' is not of numbers"),
        ({"features": pd.DataFrame({"x": [1.0, 2.0]}, index=[0, 1])}, ColumnError, "reset_index"),
        ({"features": pd.DataFrame(np.eye(4))}, ColumnError, "no column of items"),
        ({"features": np.zeros((4, 0))}, DataError, "no columns"),
        ({"features": [[1.0], [1.0, 2.0], [3.0], [4.0]]}, DataError, "same length"),
        ({"features": ["", None, "!", "?"]}, DataError, "no word occurs in two"),
        ({"features": ["a b", "b", "b c", "b"], "classifier": GaussianNB()}, DataError, "Put a vectorizer before it"),
        ({"features": pd.Series(["a b", "b", "c", "b"]), "classifier": GaussianNB()}, DataError, "Put a vectorizer"),
        ({"features": np.eye(4), "classifier": LinearRegression()}, ParameterError, "is a regressor"),
        ({"features": np.eye(4), "classifier": LinearSVC()}, ParameterError, "no predict_proba"),
        ({"features": np.eye(4), "classifier": GaussianNB}, ParameterError, "GaussianNB"),
        ({"features": np.eye(4), "classifier": "forest"}, ParameterError, "scikit-learn classifier"),
        ({"features": np.zeros((4, 2)), "method": "ds-em"}, ParameterError, "'auto'"),
        ({"features": np.zeros((4, 2)), "graph": [(0, 1)]}, ParameterError, "graph"),
        ({"classifier": GaussianNB()}, ParameterError, "needs features"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(options: Any, error: Any, words: Any) -> None:
    data = cs.Annotations.from_matrix(
        np.array([["cat", "dog", "cat"], ["dog", "dog", "cat"], ["cat", "cat", "cat"], ["dog", "dog", "dog"]])
    )
    with pytest.raises(error, match=words):
        cs.aggregate(data, **options)


def test_rows_in_doubt_are_warned_of() -> None:
    labels = np.array([[0, 1, 0], [1, 1, 0], [0, 0, 0], [1, 1, 1]])
    with pytest.warns(DataWarning, match="do not sum to one in row 4 "):
        cs.aggregate(labels, probabilities=[[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.2, 0.2]])
    item, annotator = np.indices(labels.shape)[:, [3, 1, 2, 0]].reshape(2, -1)
    long = pd.DataFrame({"item": item, "annotator": annotator, "label": labels[[3, 1, 2, 0]].ravel()})
    with pytest.warns(DataWarning, match="the first is item 3"):
        cs.aggregate(long, features=np.eye(4))


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_texts_in_a_file_may_contain_line_ends(tmp_path: Any, ending: Any) -> None:
    frame = pd.DataFrame({"item": [0, 1, 2], "text": ["one\nline, and another", 'a "quote"', "a\r\nb"]})
    frame.to_csv(tmp_path / f"texts.{ending}", index=False, sep="," if ending == "csv" else "\t")
    labels = cs.Annotations.from_matrix(np.array([[0, 1], [1, 1], [0, 0]]))
    _, texts = feature_rows(tmp_path / f"texts.{ending}", labels)
    assert texts.tolist() == frame["text"].tolist()


def test_gaps_in_features(digits: Any) -> None:
    crowd, X, truth = digits
    gaps = np.where(np.arange(X.shape[1]) == 5, np.nan, X)  # a column without any value
    gaps[::7, 20] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cs.aggregate(crowd, features=gaps).run["classifier"]["used"]
    texts = [None if n % 9 == 0 else f"word{k} and" for n, k in enumerate(truth)]
    assert cs.aggregate(crowd, features=texts).run["classifier"]["used"]
