"""Settings of the documents, each next to a plain implementation of what the document prints."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import consilience as cs
from consilience.exceptions import ParameterError
from consilience.factor.descent import and_nmf
from consilience.kernels._arrays import Floats
from consilience.methods.base import registry
from consilience.moments import pair_moments
from consilience.moments.imputation import robust
from consilience.pmf.cnmf_spa import cnmf_spa
from consilience.pmf.pairs import pair_marginals
from consilience.published import PUBLISHED


@pytest.fixture(scope="module")
def crowd() -> Any:
    return cs.simulate(300, 8, 3, experts=0.3, label_probability=0.7, seed=3)


@pytest.mark.parametrize("name", PUBLISHED)
def test_settings_are_parameters_of_the_class(name: str) -> None:
    kind = getattr(cs, name)
    made = kind.as_published(random_state=7)
    given = made.get_params(deep=False)
    assert {key: given[key] for key in PUBLISHED[name]} == dict(PUBLISHED[name])
    assert given["random_state"] == 7
    assert set(PUBLISHED[name]) <= set(inspect.signature(kind).parameters)


@pytest.mark.parametrize("name", ["RobustSymNMF", "DesignatedSymNMF", "PlainSymNMF", "MultiSPA", "CoupledNMF"])
def test_published_methods_find_the_crowd(name: str, crowd: Any) -> None:
    fitted = getattr(cs, name).as_published(refine="plain-em", random_state=0).fit(crowd.annotations)
    assert np.mean(fitted.labels_ == crowd.truth) > 0.85
    assert fitted.confusions_.min() > 0.9e-3  # floored, then normalised again
    assert fitted.n_iter_ == 10


def naive_em(labels: Floats, prior: Floats, confusions: Floats, rounds: int, floor: float, learn: bool) -> Any:
    """EM as in textbooks, item by item; ``labels`` (N, M) has -1 where there is none."""
    N, M = labels.shape
    K = prior.size
    for _ in range(rounds):
        q = np.zeros((N, K))
        for n in range(N):
            p = prior.copy()
            for m in range(M):
                if labels[n, m] >= 0:
                    p = p * confusions[m, labels[n, m]]
            q[n] = p / p.sum()
        confusions = np.zeros((M, K, K))
        for n in range(N):
            for m in range(M):
                if labels[n, m] >= 0:
                    confusions[m, labels[n, m]] += q[n]
        confusions = np.maximum(confusions / confusions.sum(axis=1, keepdims=True), floor)
        confusions /= confusions.sum(axis=1, keepdims=True)
        prior = q.mean(axis=0) if learn else prior
    return prior, confusions


@pytest.mark.parametrize("prior", ["learned", "uniform"])
def test_plain_em_is_em_from_the_method_and_nothing_else(crowd: Any, prior: str) -> None:
    a = crowd.annotations
    start = registry.fit("multispa", a, prior=prior).model
    found = registry.fit("multispa+plain-em", a, prior=prior, em_rounds=4, em_floor=1e-3).model
    labels = np.full((a.n_items, a.n_annotators), -1)
    labels[np.repeat(np.arange(a.n_items), a.labels_per_item), a.annotator] = a.label
    expected = naive_em(labels, start.prior, start.confusions, 4, 1e-3, prior == "learned")
    np.testing.assert_allclose(found.prior, expected[0], atol=1e-9)
    np.testing.assert_allclose(found.confusions, expected[1], atol=1e-9)


def test_plain_em_reaches_a_fixed_point_of_the_likelihood(crowd: Any) -> None:
    run = registry.fit("majority+plain-em", crowd.annotations, tol=1e-12, max_iter=3000)
    assert run.converged
    assert np.all(np.diff(run.history) >= -1e-9)
    best = registry.fit("ds-em", crowd.annotations, tol=1e-12, max_iter=3000)
    assert run.log_likelihood == pytest.approx(best.log_likelihood, abs=1e-4)


def test_plain_em_by_name_and_by_class(crowd: Any) -> None:
    named = cs.aggregate(crowd.annotations, "rob-symnmf+plain-em", seed=1, em_rounds=3)
    fitted = cs.RobustSymNMF(refine="plain-em", em_rounds=3, random_state=1).fit(crowd.annotations)
    np.testing.assert_allclose(named.model.confusions, fitted.confusions_)
    with pytest.raises(ParameterError, match="refine must be 'em', 'plain-em' or None"):
        cs.RobustSymNMF(refine="plain").fit(crowd.annotations)  # type: ignore[arg-type]


def test_equal_weights_are_exactly_one(crowd: Any) -> None:
    pairs = pair_moments(crowd.annotations)
    start = np.tile(np.eye(3) / np.sqrt(3), (8, 1, 1))
    assert np.array_equal(robust(pairs, start, reweigh=False, max_iter=3).weights, np.ones(len(pairs)))


def test_reweighted_weights_are_those_of_the_paper(crowd: Any) -> None:
    """(11): w = (‖R - U_m U_jᵀ‖² + ξ)^(-1/2), whatever the number of items of a pair; norms stay within the radius."""
    pairs = pair_moments(crowd.annotations)
    start = np.tile(np.eye(3) / np.sqrt(3), (8, 1, 1))
    fit = robust(pairs, start, count_weights=False, xi=1e-3, radius=0.9, max_iter=5, tol=0.0)
    m, j = pairs.who.T
    rest = pairs.frequencies - fit.factors[m] @ fit.factors[j].transpose(0, 2, 1)
    expected = ((rest**2).sum(axis=(1, 2)) + 1e-3) ** -0.5
    np.testing.assert_allclose(fit.weights / fit.weights[0], expected / expected[0], rtol=1e-9)
    assert np.linalg.norm(fit.factors, axis=(1, 2)).max() <= 0.9 + 1e-9


def test_weights_of_line_16() -> None:
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 400) for size in (3, 4, 2, 3, 5)], axis=1)
    codes[:, 3] = codes[:, 0]
    pairs = pair_marginals(codes, (3, 4, 2, 3, 5))
    weights, stacked = cnmf_spa(pairs, 3, split=2, weights="pseudo-inverse")
    W, H = stacked[:7], stacked[7:]
    X = np.block([[pairs.block(j, k) for k in (2, 3, 4)] for j in (0, 1)])
    khatri_rao = np.stack([np.kron(H[:, f], W[:, f]) for f in range(3)], axis=1)
    expected = np.maximum(np.linalg.pinv(khatri_rao) @ X.ravel(order="F"), 0)
    np.testing.assert_allclose(weights, expected / expected.sum(), atol=1e-9)
    first, _ = cnmf_spa(pairs, 3, split=[0, 1], weights="pseudo-inverse")
    np.testing.assert_array_equal(weights, first)


def released(Y: Floats, A: Floats, alpha: float, decay: float, stages: int, steps: int, eta: float) -> Floats:
    """Algorithm 1 of Li & Liang (2017) on the whole data, as printed."""
    for i in range(stages):
        Z = np.linalg.pinv(A) @ Y
        Z = np.where(alpha / decay**i <= Z, Z, 0.0)
        B = A
        for _ in range(steps):
            B = B + eta * (Y @ Z.T - B @ Z @ Z.T)
        A = B
    return A


def test_descent_as_released() -> None:
    rng = np.random.default_rng(1)
    truth = rng.uniform(-0.5, 0.5, (20, 4))
    Y = truth @ rng.dirichlet(np.full(4, 0.1), 30).T
    A0 = truth @ (np.eye(4) + rng.uniform(-0.05, 0.05, (4, 4)))
    expected = released(Y, A0, 0.1, 1.1, 6, 50, 0.5 / 4 / 30)
    options: dict[str, Any] = {"relative": False, "inner_steps": 50, "noise_multiple": 0.0, "tol": 0.0, "max_iter": 6}
    found = and_nmf(Y, A0, alpha=0.1, decay=1.1, step_size=0.5 / 4, **options)
    np.testing.assert_allclose(found.features, expected, atol=1e-9)
    # their step is 0.5 / D of the sum over samples
    by_sum = and_nmf(Y, A0, alpha=0.1, decay=1.1, step_size="released", **options)
    np.testing.assert_allclose(by_sum.features, released(Y, A0, 0.1, 1.1, 6, 50, 0.5 / 4), atol=1e-9)
    listed = and_nmf(Y, A0, alpha=[0.1 / 1.1**i for i in range(6)], step_size=0.5 / 4, **options)
    np.testing.assert_allclose(listed.features, expected, atol=1e-12)
    fitted = cs.AND.as_published(4, init=A0.T, max_iter=6).fit(Y.T)
    np.testing.assert_allclose(fitted.components_.T, by_sum.features, atol=1e-9)


def test_moment_matching_starts_anywhere(crowd: Any) -> None:
    """From a random start, without the model of the votes to fall back on."""
    fitted = cs.TensorADMM.as_published(random_state=0).fit(crowd.annotations)
    assert np.mean(fitted.labels_ == crowd.truth) > 0.85
    other = cs.TensorADMM.as_published(random_state=1).fit(crowd.annotations)
    assert not np.array_equal(fitted.history_, other.history_)
