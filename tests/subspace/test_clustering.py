"""The clusterer: known subspaces recovered, scikit-learn's manners, missing entries, new samples."""

from __future__ import annotations

import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score
from tests.estimators import failed_checks

from consilience.datasets.subspaces import simulate_subspaces
from consilience.exceptions import ConvergenceWarning, DataError, DataWarning, ParameterError
from consilience.kernels._arrays import Ints
from consilience.subspace.clustering import SketchedSubspaceClustering
from consilience.subspace.encoding import make_encoder, ridge_lams
from consilience.subspace.graph_clusters import cluster_codes, default_n_neighbors
from consilience.subspace.lrr import lrr
from consilience.subspace.lsr import lsr
from consilience.subspace.missing import lsr_missing
from consilience.subspace.preparation import sparse_lams
from consilience.subspace.selection import GraphOptions, separation

REPRESENTATIONS = ["lsr", "ssc", "lrr"]


def accuracy(labels: Ints, truth: Ints) -> float:
    """The share of samples in the right cluster, over the best matching of clusters and subspaces."""
    table = np.zeros((labels.max() + 1, truth.max() + 1))
    np.add.at(table, (labels, truth), 1)
    return float(table[linear_sum_assignment(-table)].sum() / len(truth))


@pytest.mark.parametrize(
    "estimator",
    [
        SketchedSubspaceClustering(3),
        SketchedSubspaceClustering(2, representation="ssc", max_iter=200, tol=1e-2),
        SketchedSubspaceClustering(3, representation="lrr"),
    ],
    ids=REPRESENTATIONS,
)
@pytest.mark.filterwarnings("ignore::consilience.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::consilience.exceptions.DataWarning")  # sparse samples of zeros
def test_scikit_learn_checks(estimator: Any) -> None:
    """No check is expected to fail."""
    assert failed_checks(estimator, 36) == {}


# ---- recovery -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("representation", REPRESENTATIONS)
@pytest.mark.parametrize("seed", range(2))
def test_independent_subspaces_without_noise_are_recovered_exactly(representation: Any, seed: int) -> None:
    drawn = simulate_subspaces(400, 40, 5, 4, random_state=seed)
    model = SketchedSubspaceClustering(5, representation=representation, random_state=seed)
    model.fit(drawn.data)
    assert accuracy(model.labels_, drawn.truth) == 1.0
    assert model.affinity_matrix_.shape == (400, 400)
    assert model.dictionary_.shape == (model.n_sketch_, 40)


@pytest.mark.parametrize("representation", REPRESENTATIONS)
@pytest.mark.parametrize("kind", ["rademacher", "gaussian", "count", "hadamard"])
def test_noise_and_every_kind_of_sketch(representation: Any, kind: Any) -> None:
    drawn = simulate_subspaces(400, 40, 4, 4, noise=0.2, random_state=3)
    model = SketchedSubspaceClustering(4, representation=representation, sketch=kind, n_sketch=30)
    assert accuracy(model.fit_predict(drawn.data), drawn.truth) > 0.95


@pytest.mark.parametrize("representation", REPRESENTATIONS)
@pytest.mark.parametrize("noise", [0.1, 0.2, 0.3])
def test_noise_with_nothing_given(representation: Any, noise: float) -> None:
    drawn = simulate_subspaces(300, 30, 3, 3, noise=noise, random_state=13)
    model = SketchedSubspaceClustering(3, representation=representation).fit(drawn.data)
    assert accuracy(model.labels_, drawn.truth) == 1.0


@pytest.mark.parametrize("size", [(100, 60, 10, 2), (200, 100, 20, 2), (400, 200, 40, 3)])
def test_clusters_of_ten_samples(size: tuple[int, int, int, int]) -> None:
    drawn = simulate_subspaces(*size, random_state=14)
    model = SketchedSubspaceClustering(size[2]).fit(drawn.data)
    assert adjusted_rand_score(model.labels_, drawn.truth) == 1.0


@pytest.mark.parametrize("representation", REPRESENTATIONS)
def test_the_chosen_lam_is_that_of_the_least_cut(representation: Any) -> None:
    """Where the spectrum falls, here by a direction that all samples have, it is not the first that is offered."""
    drawn = simulate_subspaces(300, 30, 3, 3, noise=0.2, random_state=15)
    X = drawn.data + 0.6 * np.random.default_rng(0).standard_normal((300, 1))
    model = SketchedSubspaceClustering(3, representation=representation).fit(X)
    B = model.dictionary_
    lams = sparse_lams(X, B) if representation == "ssc" else ridge_lams(B)
    graph = GraphOptions(3, model.n_neighbors_, "absolute", "binary", 0)
    encoders = [make_encoder(B, representation, lam, gram=X.T @ X) for lam in lams]
    cuts = [separation(encoder.encode(X), graph) for encoder in encoders]
    assert model.lam_ == pytest.approx(lams[int(np.argmin(cuts))])
    assert np.argmin(cuts) > 0


@pytest.mark.parametrize("representation", REPRESENTATIONS)
@pytest.mark.parametrize("empty", [0.0, np.nan])
def test_samples_of_nothing_take_no_cluster(representation: Any, empty: float) -> None:
    drawn = simulate_subspaces(300, 30, 3, 3, noise=0.1, random_state=16)
    X = drawn.data.copy()
    X[[0, 7]] = empty
    model = SketchedSubspaceClustering(3, representation=representation)
    with pytest.warns(DataWarning, match="2 of 300 samples have a code of zeros"):
        model.fit(X)
    there = np.setdiff1d(np.arange(300), [0, 7])
    assert accuracy(model.labels_[there], drawn.truth[there]) == 1.0
    assert model.labels_[0] == model.labels_[7] == np.bincount(model.labels_[there]).argmax()
    assert model.affinity_matrix_.shape == (300, 300)
    assert model.affinity_matrix_[[0, 7]].nnz == 0
    assert not model.embedding_[[0, 7]].any()
    assert model.labels_[0] == 0  # numbered in the order of first samples
    with pytest.warns(DataWarning, match="1 of 30 samples"):
        predicted = model.predict(np.concatenate([X[:1], drawn.data[100:129]]))
    assert predicted[0] == model.labels_[0]
    np.testing.assert_array_equal(predicted[1:], model.labels_[100:129])


def test_too_few_codes_are_refused() -> None:
    X = simulate_subspaces(30, 10, 2, 2).data
    with pytest.raises(DataError, match="lam too small"):
        SketchedSubspaceClustering(2, representation="ssc", lam=1e-9).fit(X)
    for representation in REPRESENTATIONS:
        with pytest.raises(DataError, match="zero"):
            SketchedSubspaceClustering(2, representation=representation).fit(0.0 * X)  # type: ignore[arg-type]
        with pytest.raises(DataError, match="all are NaN"):
            SketchedSubspaceClustering(2, representation=representation).fit(np.nan * X)  # type: ignore[arg-type]


def test_one_very_short_sample_does_not_choose_lam() -> None:
    drawn = simulate_subspaces(300, 30, 3, 3, noise=0.2, random_state=17)
    X = drawn.data.copy()
    X[0] *= 1e-8
    with pytest.warns(DataWarning, match="1 of 300"):
        model = SketchedSubspaceClustering(3, representation="ssc").fit(X)
    assert accuracy(model.labels_[1:], drawn.truth[1:]) == 1.0


def test_low_rank_codes_of_rank_zero_with_gaps() -> None:
    X = simulate_subspaces(60, 10, 2, 2).data
    encoder = make_encoder(X[:5], "lrr", 1e-9, gram=X.T @ X)
    X[0, 3] = np.nan
    assert encoder.encode(X).shape == (60, 5)
    assert not encoder.encode(X).any()


def test_fewer_features_and_other_graphs() -> None:
    drawn = simulate_subspaces(500, 200, 4, 3, noise=0.1, random_state=4)
    for options in (
        {"n_features": 40},
        {"weights": "heat"},
        {"similarity": "euclidean"},
        {"similarity": "cosine", "n_neighbors": 8},
        {"neighbors": "approximate"},
    ):
        model = SketchedSubspaceClustering(4, **options).fit(drawn.data)
        assert accuracy(model.labels_, drawn.truth) > 0.95, options
    reduced = SketchedSubspaceClustering(4, n_features=40).fit(drawn.data)
    assert reduced.dictionary_.shape[1] == 40


@pytest.mark.parametrize("representation", REPRESENTATIONS)
def test_missing_entries(representation: Any) -> None:
    drawn = simulate_subspaces(300, 40, 3, 3, noise=0.05, missing=0.2, random_state=5)
    assert np.isnan(drawn.data).any()
    model = SketchedSubspaceClustering(3, representation=representation).fit(drawn.data)
    assert accuracy(model.labels_, drawn.truth) > 0.95
    with pytest.raises(DataError, match="n_features"):
        SketchedSubspaceClustering(3, n_features=10).fit(drawn.data)


def test_many_samples_take_the_approximate_search() -> None:
    pytest.importorskip("pynndescent")
    drawn = simulate_subspaces(50_001, 30, 4, 3, noise=0.2, random_state=6)
    model = SketchedSubspaceClustering(4).fit(drawn.data.astype(np.float32))
    assert accuracy(model.labels_, drawn.truth) > 0.99
    assert model.codes_.dtype == np.float32


def test_pynndescent_is_required_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynndescent", None)
    told: list[str] = []
    with pytest.raises(ParameterError, match=r"consilience\[neighbours\]"):
        SketchedSubspaceClustering(2, neighbors="pynndescent", callback=told.append).fit(np.eye(5))
    assert not told


def test_not_even_a_byte_for_each_pair_of_samples() -> None:
    drawn = simulate_subspaces(8000, 20, 3, 3, noise=0.1, random_state=6)
    model = SketchedSubspaceClustering(3, lam=10.0, n_sketch=20)
    model.fit(drawn.data[:300])  # loads what it needs
    tracemalloc.start()
    try:
        model.fit(drawn.data)
        model.predict(drawn.data[:50])
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 8000**2
    assert accuracy(model.labels_, drawn.truth) > 0.99


# ---- invariances --------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_labels() -> None:
    drawn = simulate_subspaces(300, 20, 5, 4, noise=0.6, random_state=7)
    model = SketchedSubspaceClustering(5, random_state=1)
    labels = model.fit(drawn.data).labels_
    np.testing.assert_array_equal(clone(model).fit(drawn.data).labels_, labels)
    assert (SketchedSubspaceClustering(5, random_state=2).fit(drawn.data).labels_ != labels).any()


@pytest.mark.parametrize("representation", REPRESENTATIONS)
def test_permutation_of_samples_permutes_labels(representation: Any) -> None:
    """The sketch goes by places, so a sample between two clusters may go to the other one: here there is none."""
    drawn = simulate_subspaces(300, 30, 4, 3, noise=0.03, random_state=8)
    order = np.random.default_rng(0).permutation(300)
    model = SketchedSubspaceClustering(4, representation=representation)
    labels = model.fit(drawn.data).labels_
    moved = model.fit(drawn.data[order]).labels_
    assert adjusted_rand_score(moved, labels[order]) == 1.0


@pytest.mark.parametrize("representation", REPRESENTATIONS)
def test_permutation_of_samples_with_one_dictionary_permutes_codes_and_labels(representation: Any) -> None:
    drawn = simulate_subspaces(300, 30, 4, 3, noise=0.2, random_state=8)
    model = SketchedSubspaceClustering(4, representation=representation).fit(drawn.data)
    order = np.random.default_rng(0).permutation(300)
    codes = model._encoder_.encode(drawn.data[order])
    np.testing.assert_allclose(codes, model.codes_[order], atol=1e-8)
    moved = cluster_codes(codes, 4, n_neighbors=model.n_neighbors_).labels
    assert adjusted_rand_score(moved, model.labels_[order]) == 1.0


def test_signs_and_scale_of_the_samples_are_no_matter() -> None:
    drawn = simulate_subspaces(300, 30, 4, 3, noise=0.1, random_state=9)
    sign = np.random.default_rng(1).choice([-1.0, 1.0], (300, 1))
    model = SketchedSubspaceClustering(4)
    labels = model.fit(drawn.data).labels_
    for changed in (sign * drawn.data, 1000.0 * drawn.data):
        np.testing.assert_array_equal(model.fit(changed).labels_, labels)
    # clusters are numbered by their first samples
    assert np.unique(labels, return_index=True)[1].tolist() == sorted(np.unique(labels, return_index=True)[1])


# ---- codes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [12, 35])
@pytest.mark.parametrize("representation", ["lsr", "lrr"])
def test_linear_codes_have_the_distances_of_the_fit(representation: Any, n: int) -> None:
    """Of the function on all samples, although LRR is solved for a root of the Gram matrix here."""
    drawn = simulate_subspaces(90, 20, 3, 3, noise=0.2, random_state=10)
    X = drawn.data
    B = np.random.default_rng(2).standard_normal((n, 90)) @ X / np.sqrt(n)
    lam = ridge_lams(B)[0]
    Z = lsr(X, B, lam) if representation == "lsr" else lrr(X, B, lam, tol=1e-10, max_iter=20_000)
    encoder = make_encoder(B, representation, lam, gram=X.T @ X, tol=1e-10, max_iter=20_000)
    codes = encoder.encode(X)
    assert codes.shape == (90, min(n, 20))
    np.testing.assert_allclose(codes @ codes.T, Z @ Z.T, atol=1e-6 * np.abs(Z @ Z.T).max())
    gaps = X.copy()
    gaps[::2, 3] = np.nan
    mixed = encoder.encode(gaps)
    np.testing.assert_allclose(mixed[1::2], codes[1::2], atol=1e-12)
    if representation == "lsr":
        partial = lsr_missing(gaps, B, lam)
        np.testing.assert_allclose(mixed @ mixed.T, partial @ partial.T, atol=1e-9 * np.abs(Z @ Z.T).max())


def test_absolute_cosines_of_codes_are_those_of_the_batch_representation() -> None:
    """x_iᵀ (B Bᵀ)⁺ x_j tends to the entry (i, j) of X⁺ X as n grows, zero between independent subspaces."""
    drawn = simulate_subspaces(80, 30, 3, 4, random_state=11)
    X = drawn.data
    B = np.random.default_rng(3).standard_normal((20_000, 80)) @ X / np.sqrt(20_000)
    codes = make_encoder(B, "lsr", 1e8).encode(X)
    batch = X @ np.linalg.pinv(X)
    np.testing.assert_allclose(codes @ codes.T, batch, atol=0.02)
    assert np.abs(batch[drawn.truth[:, None] != drawn.truth]).max() < 1e-8


# ---- new samples, progress, warnings, refusals --------------------------------------------------------------


@pytest.mark.parametrize("representation", REPRESENTATIONS)
def test_new_samples_go_to_the_cluster_of_their_subspace(representation: Any) -> None:
    drawn = simulate_subspaces(600, 40, 4, 4, noise=0.1, random_state=12)
    model = SketchedSubspaceClustering(4, representation=representation).fit(drawn.data[:400])
    both = np.concatenate([model.labels_, model.predict(drawn.data[400:])])
    assert accuracy(both, drawn.truth) > 0.99
    reduced = SketchedSubspaceClustering(4, n_features=30).fit(drawn.data[:400])
    assert adjusted_rand_score(reduced.predict(drawn.data[400:]), drawn.truth[400:]) > 0.95
    before = model.predict(drawn.data[400:])  # by what was fitted, whatever is asked of the next fit
    changed = model.set_params(n_clusters=2, similarity="euclidean", n_neighbors=1).predict(drawn.data[400:])
    np.testing.assert_array_equal(changed, before)
    with pytest.raises(NotFittedError):
        SketchedSubspaceClustering(4).predict(drawn.data)


def test_progress_is_told() -> None:
    told: list[str] = []
    drawn = simulate_subspaces(60, 10, 2, 2)
    SketchedSubspaceClustering(2, callback=told.append).fit(drawn.data)
    assert told == ["sketch", "codes", "graph", "embedding", "clusters"]


def test_codes_that_did_not_converge_are_told() -> None:
    drawn = simulate_subspaces(60, 10, 2, 2, noise=0.2)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        SketchedSubspaceClustering(2, representation="ssc", max_iter=2, tol=1e-8).fit(drawn.data)


def test_neighbours_by_default() -> None:
    assert [default_n_neighbors(n, 10) for n in (40, 60, 300, 3000, 10**5, 10**7)] == [3, 5, 5, 8, 13, 15]
    assert default_n_neighbors(3, 10) == 1


def test_one_cluster_and_one_code() -> None:
    drawn = simulate_subspaces(30, 10, 1, 2)
    assert (SketchedSubspaceClustering(1).fit(drawn.data).labels_ == 0).all()
    assert cluster_codes(np.ones((1, 3)), 1).labels.tolist() == [0]


def test_invalid_parameters_are_refused_before_the_work() -> None:
    X = simulate_subspaces(30, 10, 2, 2).data
    told: list[str] = []
    for bad in (
        {"n_clusters": 31},
        {"n_clusters": 0},
        {"n_neighbors": 30},
        {"n_sketch": 0},
        {"n_features": 1.5},
        {"lam": 0.0},
        {"lam": "small"},
        {"lam": True},
        {"max_iter": 0},
        {"max_iter": 2.5},
        {"tol": -1.0},
        {"tol": None},
        {"random_state": -1},
        {"random_state": 2**32},
        {"random_state": "seed"},
        {"representation": "other"},
        {"sketch": "other"},
        {"weights": "other"},
        {"neighbors": "other"},
        {"similarity": "other"},
        {"similarity": None},
    ):
        options: dict[str, Any] = {"n_clusters": 2, "callback": told.append, **bad}
        with pytest.raises(ParameterError, match=next(iter(bad))):
            SketchedSubspaceClustering(**options).fit(X)
    with pytest.raises(ParameterError, match="callback"):
        SketchedSubspaceClustering(2, callback="print").fit(X)  # type: ignore[arg-type]
    assert not told
    with pytest.raises(ValueError, match="infinity"):
        SketchedSubspaceClustering(2).fit(np.where(X > 0.5, np.inf, X))
    with pytest.raises(ParameterError, match="gram"):
        make_encoder(X, "lrr")
