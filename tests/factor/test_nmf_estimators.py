"""The classes AND and SPA: scikit-learn's manners, the functions behind them, and robust successive projection."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from benchmarks.topics import perturbed, simulate_topics
from scipy.optimize import nnls
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, normalize
from tests.estimators import failed_checks

from consilience.exceptions import ConvergenceWarning, DataError, ParameterError
from consilience.factor.descent import and_nmf, start
from consilience.factor.nmf_estimators import AND, SPA
from consilience.factor.spa import shrunk_counts, spa, vertices
from consilience.kernels._arrays import Floats, Ints
from consilience.metrics import correlation_error


def mixtures(seed: int, W: int = 15, D: int = 4, n: int = 80) -> tuple[Floats, Floats, Ints]:
    """Rows that are mixtures of D of them, those D, and their places."""
    rng = np.random.default_rng(seed)
    vertex = rng.dirichlet(0.5 * np.ones(W), D)
    X = np.concatenate([np.eye(D), rng.dirichlet(np.ones(D), n)]) @ vertex
    where = rng.permutation(len(X))
    mixed = np.empty_like(X)
    mixed[where] = X
    return mixed, vertex, where[:D]


@pytest.mark.parametrize(
    "estimator",
    [AND(2), AND(2, batch_size=10, max_iter=20), AND(2, init="random"), SPA(2), SPA(2, denoise="svd", average=2)],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::consilience.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_checks(estimator: Any) -> None:
    """No check is expected to fail."""
    assert failed_checks(estimator, 41) == {}


# ---- AND ----------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::consilience.exceptions.ConvergenceWarning")
def test_and_passes_everything_on() -> None:
    own = {"n_components", "init"}
    ours = {k: v for k, v in AND().get_params().items() if k not in own}
    parameters = inspect.signature(and_nmf).parameters.values()
    theirs = {p.name: p.default for p in parameters if p.kind == p.KEYWORD_ONLY and p.name != "callback"}
    assert ours == theirs
    drawn = simulate_topics("NOISE", 200, 4, 20, noise=0.02, seed=1)
    A0 = start(drawn.data, 4)
    changes: list[dict[str, Any]] = [
        {"alpha": 0.3},
        {"decay": 1.5},
        {"max_iter": 3},
        {"tol": 1e-3},
        {"inner_steps": 2},
        {"noise_multiple": 5.0},
        {"batch_size": 20, "random_state": 4, "max_iter": 5},
    ]
    plain = and_nmf(drawn.data, A0).features
    for changed in changes:
        fitted = clone(AND(4)).set_params(**changed).fit(drawn.data.T)
        direct = and_nmf(drawn.data, A0, **changed)
        np.testing.assert_allclose(fitted.components_.T, direct.features, rtol=1e-7, atol=1e-10)
        assert not np.allclose(direct.features, plain, rtol=1e-9), changed
        assert (fitted.converged_, fitted.n_iter_, len(fitted.history_)) == (
            direct.converged,
            direct.n_iter,
            direct.n_iter,
        )


def test_new_samples_get_the_weights_that_made_them() -> None:
    drawn = simulate_topics("NEG", 900, 6, 30, spread=10.0, seed=2)
    model = AND(6).fit(drawn.data[:, :800].T)
    assert correlation_error(model.components_.T, drawn.features) < 1e-9
    weights = model.transform(drawn.data[:, 800:].T)
    assert weights.shape == (100, 6)
    assert (weights >= 0).all()
    np.testing.assert_allclose(model.inverse_transform(weights), drawn.data[:, 800:].T, atol=1e-6)
    np.testing.assert_allclose(
        clone(model).fit_transform(drawn.data[:, :800].T), model.transform(drawn.data[:, :800].T), rtol=1e-9, atol=1e-12
    )
    assert list(model.get_feature_names_out()) == [f"and{i}" for i in range(6)]
    assert model.reconstruction_err_ < 1e-6 * np.linalg.norm(drawn.data)


def test_it_starts_where_it_is_told() -> None:
    drawn = simulate_topics("DIR", 500, 5, 25, seed=3)
    A0 = perturbed(drawn.features, seed=3)
    given = AND(init=A0.T).fit(drawn.data.T)
    # features keep the order of the start
    unit = [M / np.linalg.norm(M, axis=0) for M in (given.components_.T, drawn.features)]
    np.testing.assert_allclose((unit[0] * unit[1]).sum(axis=0), 1.0, atol=1e-9)
    with pytest.raises(ParameterError, match="init has shape"):
        AND(4, init=A0.T).fit(drawn.data.T)
    with pytest.raises(ParameterError, match="rows"):
        AND(init=A0[1:].T).fit(drawn.data.T)


def test_sparse_samples_in_a_pipeline() -> None:
    drawn = simulate_topics("DIR", 300, 4, 200, seed=4)
    counts = csr_matrix(np.random.default_rng(0).poisson(10_000 * drawn.data.T).astype(float))
    model = make_pipeline(Normalizer("l1"), AND(4, tol=1e-6))
    weights = model.fit_transform(counts)
    assert weights.shape == (300, 4)
    # from documents that successive projection chose it ends where it does from the truth, far nearer than they are
    Y = normalize(counts, "l1").toarray().T
    error = correlation_error(model[-1].components_.T, drawn.features)
    assert error == pytest.approx(
        correlation_error(and_nmf(Y, drawn.features, tol=1e-6).features, drawn.features), rel=0.01
    )
    assert error < 0.2 * correlation_error(start(Y, 4), drawn.features)
    dense = AND(4, tol=1e-6).fit(normalize(counts, "l1").toarray())
    np.testing.assert_allclose(dense.components_, model[-1].components_, rtol=1e-5, atol=1e-8)
    assert dense.reconstruction_err_ == pytest.approx(model[-1].reconstruction_err_, rel=1e-5)


def test_and_says_that_it_did_not_converge() -> None:
    drawn = simulate_topics("DIR", 300, 4, 20, seed=5)
    with pytest.warns(ConvergenceWarning, match="stage 3"):
        model = AND(4, max_iter=3).fit(drawn.data.T)
    assert not model.converged_
    assert not AND(4, max_iter=3, tol=0).fit(drawn.data.T).converged_  # all were asked for: no warning
    with pytest.raises(NotFittedError):
        AND(4).transform(drawn.data.T)
    with pytest.raises(ParameterError, match="n_components"):
        AND(0).fit(drawn.data.T)
    with pytest.raises(DataError, match="directions"):
        AND(6).fit(drawn.data.T)  # rank 4


def test_and_says_that_nothing_was_learned() -> None:
    X = np.abs(np.random.default_rng(0).normal(size=(200, 30)))
    for tol in (1e-14, 0.0):
        with pytest.warns(ConvergenceWarning, match="above its feature's threshold"):
            model = AND(3, noise_multiple=20.0, tol=tol).fit(X)
        assert not model.converged_
        assert not model.transform(X).any()


@pytest.mark.filterwarnings("ignore::consilience.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("side", ["wide", "tall"])
def test_without_a_number_both_take_the_rank(side: str) -> None:
    rng = np.random.default_rng(1)
    low = rng.random((50, 3)) @ rng.random((3, 8))
    X = low if side == "tall" else low.T
    for form in (X, csr_matrix(X)):
        for model in (AND(), AND(init="random"), SPA(), SPA(denoise="svd")):
            assert model.fit(form).components_.shape == (3, X.shape[1])
    with pytest.raises(DataError, match="only 3 directions"):
        AND(5).fit(X)


# ---- successive projection ----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"denoise": "svd"}, {"scale": "sum"}], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_the_vertices_of_separable_samples_are_found_exactly(options: dict[str, Any], seed: int) -> None:
    X, vertex, where = mixtures(seed)
    model = SPA(4, **options).fit(X)
    assert set(model.indices_.tolist()) == set(where.tolist())
    np.testing.assert_allclose(model.components_[np.argsort(model.indices_)], X[np.sort(where)], atol=1e-12)
    assert model.reconstruction_err_ < 1e-7
    assert correlation_error(model.components_.T, vertex.T) < 1e-15
    weights = model.transform(X)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-6)
    for i in range(5):
        np.testing.assert_allclose(weights[i], nnls(model.components_.T, X[i])[0], atol=1e-6)


def test_samples_of_different_sizes_are_scaled() -> None:
    X, _, where = mixtures(4)
    size = np.random.default_rng(0).uniform(0.01, 100, len(X))
    long = X * size[:, None]
    assert set(SPA(4, scale="sum").fit(long).indices_.tolist()) == set(where.tolist())
    assert set(SPA(4, scale="sum").fit(csr_matrix(long)).indices_.tolist()) == set(where.tolist())


@pytest.mark.parametrize("seed", range(5))
def test_singular_directions_and_means_help_against_noise(seed: int) -> None:
    """200 samples at every vertex, σ = 0.02 in 100 directions: means of m = 50 have errors of σ² 99 / m ‖v‖² = q / m.

    One sample's squared sine is q / (1 + q).  The means are of the samples that look most extreme, not of any, but the
    leading directions see little of their noise: measured, 0.85 to 1.03 of the expectation for ten seeds.
    """
    rng = np.random.default_rng(seed)
    vertex = rng.dirichlet(0.5 * np.ones(100), 4)
    pure = np.repeat(np.eye(4), 200, axis=0)
    X = np.concatenate([pure, rng.dirichlet(np.ones(4), 200)]) @ vertex
    X += 0.02 * rng.standard_normal(X.shape)
    plain, averaged = SPA(4).fit(X), SPA(4, denoise="svd", average=50).fit(X)
    q = 0.02**2 * 99 / (vertex**2).sum(axis=1)
    assert correlation_error(plain.components_.T, vertex.T) == pytest.approx((q / (1 + q)).sum(), rel=0.25)
    assert correlation_error(averaged.components_.T, vertex.T) < 1.2 * (q / 50).sum()
    within = np.linalg.norm(vertex[:, None] - averaged.components_, axis=2).min(axis=1).max()
    assert within < 2 * 0.02 * np.sqrt(100 / 50)  # twice the noise of a mean


def test_columns_of_few_counts_are_drawn_to_the_mean() -> None:
    """Dirichlet-multinomial columns: the s that they were drawn with is found, and extremes by chance are not."""
    rng = np.random.default_rng(0)
    mean, s = np.array([0.5, 0.3, 0.2]), 8.0
    n = rng.integers(20, 200, 3000)
    p = rng.dirichlet(s * mean, n.size)
    counts = np.stack([rng.multinomial(k, q) for k, q in zip(n, p, strict=True)], axis=1)
    shrunk = shrunk_counts(counts)
    np.testing.assert_allclose(shrunk.sum(axis=0), 1.0)
    overall = counts.sum(axis=1) / counts.sum()
    expected = (counts + s * overall[:, None]) / (n + s)
    np.testing.assert_allclose(shrunk, expected, atol=0.02)
    assert ((shrunk - p.T) ** 2).sum() < ((counts / n - p.T) ** 2).sum()
    # one count makes no vertex
    few = np.array([[90.0, 10.0, 0.0], [10.0, 90.0, 0.0], [0.0, 0.0, 1.0]])
    assert vertices(few, 2, scale="sum").indices.tolist()[0] == 2
    assert set(vertices(few, 2, scale="counts").indices.tolist()) == {0, 1}
    assert np.isfinite(shrunk_counts(np.array([[3.0, 0.0], [0.0, 0.0]]))).all()


def test_variants_agree_where_there_is_nothing_to_mend() -> None:
    X = np.random.default_rng(1).random((6, 40))
    assert spa(X, 6, denoise="svd").tolist() == spa(X, 6).tolist()
    # by Xᵀ X, where all directions lead and rounding is all that is left out
    tall = np.random.default_rng(1).random((40, 6))
    assert spa(tall, 6, denoise="svd").tolist() == spa(tall, 6).tolist()
    found = vertices(X, 4)
    np.testing.assert_array_equal(found.columns, X[:, found.indices])
    assert found.indices.tolist() == spa(X, 4).tolist()


def test_spa_refuses_what_makes_no_sense() -> None:
    X = np.random.default_rng(2).standard_normal((9, 5))
    for bad in (
        {"scale": "sum"},
        {"scale": "other"},
        {"denoise": "other"},
        {"average": 0},
        {"average": 1.5},
        {"average": 10},
    ):
        with pytest.raises(ParameterError, match=next(iter(bad))):
            SPA(2, **bad).fit(X)
    with pytest.raises(ParameterError, match="≥ 0"):
        shrunk_counts(-np.ones((2, 2)))
    assert SPA(4).fit(np.outer(np.arange(1.0, 7.0), np.ones(5))).components_.shape == (1, 5)  # rank one
    assert SPA().fit(X).components_.shape == (5, 5)
